"""Sheets of Excel's workbooks (.xlsx), by openpyxl: rows are read as they come, texts of a workbook all at once."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from itertools import islice
from pathlib import Path
from typing import Any

from sketchlearn.sources.arrow import library
from sketchlearn.sources.source_base import reading
from sketchlearn.sources.tables import Columns
from sketchlearn.sources.value_tables import KINDS_FROM_ROWS, Rows, ValueTable, chosen_part

NO_VALUES = ("", "#N/A", "#NULL!")  # What Excel shows where there is no value.


class Excel(ValueTable):
    """A sheet: the first of a workbook, or the one of this name. Of formulas, the values that Excel saved are read.

    The first row that is not blank names the columns, unless it has numbers alone; blank rows are left out.
    """

    def __init__(self, path: Path, sheet: str | None = None, header: bool | None = None) -> None:
        with reading(path), self._open(path) as book:
            self.sheet = chosen_part(sheet, book.sheetnames, "sheet", path) if sheet else book.sheetnames[0]
            rows = self._rows(book, None)
            first = next(rows, ())
            width = max((i + 1 for i, cell in enumerate(first) if cell is not None), default=0)
            if not width:
                raise ValueError(f"{path} is empty: its sheet {self.sheet!r} has no rows")
            some = [first[:width], *(row[:width] for row in islice(rows, KINDS_FROM_ROWS))]
        numbers = all(isinstance(cell, int | float) for cell in some[0])
        self.header = not numbers if header is None else header
        names = None
        if self.header:
            names = [f"column {i}" if cell is None else str(cell) for i, cell in enumerate(some[0])]
        place = str(path) if sheet is None else f"{path}?sheet={sheet}"
        super().__init__(path, place, names, [_padded(row, width) for row in some[self.header :]], width)

    def rows_of_values(self, chosen: Columns, n_rows: int) -> Iterator[Rows]:
        with self._open(self.path) as book:
            rows = self._rows(book, self.n_columns)
            next(rows if self.header else iter(()), None)
            while some := list(islice(rows, n_rows)):
                yield [tuple(row[position] for position in chosen) for row in some]

    def _rows(self, book: Any, width: int | None) -> Iterator[tuple[Any, ...]]:
        """The rows that are not blank, of this width."""
        for row in book[self.sheet].iter_rows(values_only=True, max_col=width):
            cells = tuple(None if cell in NO_VALUES else cell for cell in row)
            if any(cell is not None for cell in cells):
                yield cells if width is None else _padded(cells, width)

    @staticmethod
    @contextmanager
    def _open(path: Path) -> Iterator[Any]:
        openpyxl = library(str(path), "openpyxl", "excel")
        with path.open("rb") as file:
            try:
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            except KeyError as error:
                raise ValueError(f"it is no workbook: {error}") from None
            try:
                yield book
            finally:
                book.close()


def _padded(row: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    return (*row[:width], *[None] * (width - len(row)))
