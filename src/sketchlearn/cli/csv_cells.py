"""Cells of CSV that is printed: text that a spreadsheet would take for a formula is marked as text."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

# What formulas begin with (OWASP, "CSV injection"); the last four are what Japanese keyboards have for the first four.
FORMULA_STARTS = ("=", "+", "-", "@", "\t", "\r", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")


def safe_cells(row: Iterable[Any]) -> list[Any]:
    """The cells of a row, with ' before text that begins like a formula; numbers stay as they are.

    >>> safe_cells(["=cmd|' /C calc'!A0", "price", -1.5])
    ["'=cmd|' /C calc'!A0", 'price', -1.5]
    """
    return [f"'{cell}" if isinstance(cell, str) and cell.startswith(FORMULA_STARTS) else cell for cell in row]
