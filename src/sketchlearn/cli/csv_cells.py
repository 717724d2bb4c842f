"""Cells of CSV that is written: text that a spreadsheet would take for a formula is marked as text."""

from __future__ import annotations

import csv
from collections.abc import Iterable
from typing import Any, TextIO

# What formulas begin with (OWASP, "CSV injection"); the last four are what Japanese keyboards have for the first four.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def safe_cells(row: Iterable[Any]) -> list[Any]:
    """The cells of a row, with ' before text that begins like a formula; numbers stay as they are.

    >>> safe_cells(["=cmd|' /C calc'!A0", "price", -1.5])
    ["'=cmd|' /C calc'!A0", 'price', -1.5]
    """
    return [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell for cell in row]


def csv_lines(file: TextIO, rows: Iterable[Iterable[Any]], *, safe: bool = False) -> None:
    """Writes rows as lines of CSV, None as an empty cell.

    >>> import sys
    >>> csv_lines(sys.stdout, [["id", "label"], ["=1", None], ["a, b", 2]], safe=True)
    id,label
    '=1,
    "a, b",2
    """
    writer = csv.writer(file, lineterminator="\n")
    # before version 3.13, Python does not quote a \r where lines end in \n
    quoting = csv.writer(file, lineterminator="\n", quoting=csv.QUOTE_ALL)
    for row in rows:
        cells = safe_cells(row) if safe else list(row)
        (quoting if any(isinstance(cell, str) and "\r" in cell for cell in cells) else writer).writerow(cells)
