"""What every kind of table tells, so that one pass over rows serves all of them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator

import numpy as np

from sketchlearn.sources.blocks import Floats

Columns = tuple[int, ...]


class Table(ABC):
    """Rows and columns of one kind: an array, a data frame, a file.

    Attributes
    ----------
    names : names of all columns, if they have any.
    n_columns : number of columns.
    n_rows, n_bytes : see `Source`.
    replayable : whether the rows can be read more than once.
    place : name of the file, for messages.
    immutable : whether rows may be read ahead in a thread: those of files may, those of a user's generator may not.
    """

    names: tuple[str, ...] | None = None
    n_columns: int
    n_rows: int | None = None
    n_bytes: int | None = None
    replayable: bool = True
    place: str = ""
    immutable: bool = False
    bytes_read: int = 0

    def check(self, chosen: Columns) -> None:  # noqa: B027
        """Refuses chosen columns that are not numbers."""

    @abstractmethod
    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        """The rows of the chosen columns, as float32 or float64, missing values as NaN, about n_rows at a time."""

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:  # noqa: ARG002
        """About n_rows rows from all over the table, if there is a cheaper way than reading it all."""
        return None

    def column(self, position: int) -> str:
        """A column in words: "column 'age'", or "column 3"."""
        return f"column {self.names[position]!r}" if self.names else f"column {position}"

    def refuse(self, position: int, kind: str, remedy: str) -> TypeError:
        """The error about a column that is not numbers."""
        inside = f"{self.place}: " if self.place else ""
        return TypeError(f"{inside}{self.column(position)} is {kind}, not numbers: {remedy}, or choose other columns")


def picked(chunks: Iterable[Floats], numbers: Iterable[int]) -> Floats:
    """The rows of these numbers, in a pass that ends with the last of them."""
    wanted = np.sort(np.fromiter(numbers, np.int64))
    parts: list[Floats] = []
    start = done = 0
    for chunk in chunks:
        upto = int(np.searchsorted(wanted, start + len(chunk)))
        parts.append(chunk[wanted[done:upto] - start])
        start, done = start + len(chunk), upto
        if done == len(wanted):
            break
    return np.concatenate(parts) if parts else np.empty((0, 0))
