"""Tables: what every kind of them tells, and one source that reads them all."""

from __future__ import annotations

import operator
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from sketchlearn.sources.blocks import Block, Floats, gathered, one_ahead, rows_per_block
from sketchlearn.sources.source_base import Source, by_name, check_width, in_order, inside, listed

Columns = tuple[int, ...]
Names = tuple[str, ...] | None


class Table(ABC):
    """Rows and columns of one kind: an array, a data frame, a file. Most fields are those of `Source`."""

    names: Names = None  # of all columns, if they have any
    n_columns: int
    n_rows: int | None = None
    n_bytes: int | None = None
    bytes_read: int = 0
    replayable: bool = True
    place: str = ""
    immutable: bool = False  # whether a thread may read ahead: in files it may, in a user's generator it may not

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
        column = inside(self.place) + self.column(position)
        return TypeError(f"{column} is {kind}, not numbers: {remedy}, or choose other columns")


class IndexedTable(Table):
    """A table in memory, or mapped into it: any rows can be read at once."""

    n_rows: int

    @abstractmethod
    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        """The chosen columns of some rows, given by a slice or by an array of positions."""

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        for first in range(0, self.n_rows, n_rows):
            yield self.rows_at(slice(first, first + n_rows), chosen)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        which = np.sort(rng.choice(self.n_rows, min(n_rows, self.n_rows), replace=False))
        return self.rows_at(which, chosen)


class Tabular(Source):
    """The rows of one table, of all columns or of chosen ones."""

    def __init__(self, table: Table, chosen: Columns, nulls: str = "error") -> None:
        self.table, self.chosen, self.nulls = table, chosen, nulls
        self.columns = None if table.names is None else tuple(table.names[i] for i in chosen)
        self.n_rows, self.n_bytes, self.replayable = table.n_rows, table.n_bytes, table.replayable
        self.width, self.place = len(chosen), table.place

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        self.dropped = self.bytes_read = 0
        n_bytes, n_rows = self.n_bytes, self.n_rows
        arrays = gathered(self.chunks(n_features), len(self.chosen))
        if self.table.immutable:
            arrays = one_ahead(arrays)
        with closing(arrays):  # type: ignore[type-var]
            for block in self._accepted(arrays, 0, self.place):
                self.bytes_read = n_bytes * block.end // n_rows if n_bytes and n_rows else self.table.bytes_read
                yield block
        self.bytes_read = self.n_bytes or 0

    def chunks(self, n_features: int | None = None) -> Iterator[Floats]:
        """The rows as the table gives them, missing values as NaN."""
        self.check(n_features)
        if self.chosen:
            yield from self.table.chunks(self.chosen, rows_per_block(len(self.chosen)))

    def check(self, n_features: int | None = None) -> None:
        check_width(len(self.chosen), n_features)
        self.table.check(self.chosen)

    def only(self, columns: tuple[str, ...], *, any_order: bool = False) -> Source:
        if self.columns is None:
            return self
        positions = (by_name if any_order else in_order)(self.columns, columns, self.place)
        return Tabular(self.table, tuple(self.chosen[i] for i in positions), self.nulls)

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats | None:
        self.check()
        return self.table.some(self.chosen, n_rows, rng)


def tabular(table: Table, columns: Sequence[Any] | None, nulls: str) -> Tabular:
    """A source of a table, of the columns that are asked for: names, or positions where there are no names."""
    names, place = table.names, table.place or "the table"
    if names is not None and len(set(names)) < len(names):
        twice = next(name for i, name in enumerate(names) if name in names[:i])
        raise ValueError(f"{place} has two columns {twice!r}: rename one of them")
    return Tabular(table, chosen_columns(columns, names, table.n_columns, place), nulls)


def chosen_columns(columns: Sequence[Any] | None, names: tuple[str, ...] | None, n_columns: int, place: str) -> Columns:
    """Positions of the columns that are asked for, by name or by position; None asks for all."""
    if columns is None:
        return tuple(range(n_columns))
    if len(set(columns)) < len(columns):
        raise ValueError(f"columns must be different ones, not {listed(columns)}")
    if names is not None and all(isinstance(name, str) for name in columns):
        return by_name(names, columns, place)
    if names is None and any(isinstance(name, str) for name in columns):
        raise ValueError(f"{place} has no column names: choose columns by position, such as 0 and 2")
    try:
        positions = tuple(map(operator.index, columns))
    except TypeError:
        raise ValueError(f"columns must be names or positions, not {listed(columns)}") from None
    for position in positions:
        if not 0 <= position < n_columns:
            raise ValueError(f"there is no column {position}: the columns of {place} are 0 to {n_columns - 1}")
    return positions


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
