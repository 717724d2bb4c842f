"""Tables whose cells come as Python's values, each of any type: those of SQLite, and sheets of Excel."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from decimal import Decimal
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.schemas.arrow_columns import arrow_array
from sketchlearn.schemas.raw_values import is_missing
from sketchlearn.sources.arrow import remedy_for
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.source_base import listed, reading
from sketchlearn.sources.tables import Columns, Table

MOST_ROWS = 1 << 14  # Rows that are taken at a time: values of Python need ten times the memory of numbers.
KINDS_FROM_ROWS = 1000  # Rows that tell which columns are numbers.
WORDS = {str: "text", bytes: "bytes", datetime.datetime: "times", datetime.date: "dates", datetime.time: "times of day"}
Rows = list[tuple[Any, ...]]


class ValueTable(Table):
    """A table that gives tuples of Python's values. Which columns are numbers is told from the first rows."""

    immutable = True

    def __init__(self, path: Path, place: str, names: Sequence[str] | None, first_rows: Rows, n_columns: int) -> None:
        self.path, self.place, self.n_bytes = path, place, path.stat().st_size
        self.names, self.n_columns = None if names is None else tuple(names), n_columns
        self.words = [_word(column) for column in zip(*first_rows, strict=True)] or [None] * n_columns

    def not_numbers(self, position: int) -> tuple[str, str] | None:
        word = self.words[position]
        return None if word is None else (word, remedy_for(word))

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        n_before = 0
        with reading(self.path):
            for rows in self.rows_of_values(chosen, min(n_rows, MOST_ROWS)):
                yield self.floats_of_values(rows, chosen, n_before)
                n_before += len(rows)

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        names = [(self.names or ())[position] for position in chosen]
        with reading(self.path):
            for rows in self.rows_of_values(chosen, min(n_rows, MOST_ROWS)):
                yield {
                    name: arrow_array(list(column)) for name, column in zip(names, zip(*rows, strict=True), strict=True)
                }

    @abstractmethod
    def rows_of_values(self, chosen: Columns, n_rows: int) -> Iterator[Rows]:
        """The rows of the chosen columns, about n_rows at a time, missing values as None."""

    def floats_of_values(self, rows: Rows, chosen: Columns, n_before: int = 0) -> NDArray[np.float64]:
        """Rows as an array, missing values as NaN; a cell that is no number is named."""
        try:
            return np.array(rows, np.float64).reshape(len(rows), len(chosen))
        except (ValueError, TypeError):
            known = [tuple(None if is_missing(cell) else cell for cell in row) for row in rows]
            if known != rows:
                return self.floats_of_values(known, chosen, n_before)
            for i, row in enumerate(rows):
                for position, cell in zip(chosen, row, strict=True):
                    if _word([cell]) is not None:
                        where = f"row {n_before + i} of {self.place}, {self.column(position)}"
                        raise ValueError(f"{where} holds {str(cell)[:40]!r}, which is not a number") from None
            raise


def chosen_part(wanted: str | None, there: Sequence[str], what: str, path: Path) -> str:
    """The table or sheet that is asked for, or the only one; others are refused with those that are there."""
    if wanted is None and len(there) == 1:
        return there[0]
    if not there:
        raise ValueError(f"{path} has no {what}s")
    if wanted is None:
        choice = f"choose one, such as {path}?{what}={there[0]}"
        raise ValueError(f"{path} has {len(there)} {what}s, {listed(there)}: {choice}")
    if wanted not in there:
        raise ValueError(f"{path} has no {what} {wanted!r}: its {what}s are {listed(there)}")
    return wanted


def _word(column: Sequence[Any]) -> str | None:
    """What a column is, if it is not numbers alone."""
    odd = next((cell for cell in column if not is_missing(cell) and not isinstance(cell, Real | Decimal)), None)
    return None if odd is None else next((word for kind, word in WORDS.items() if isinstance(odd, kind)), "values")
