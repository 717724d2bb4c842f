"""Numbers as people write them in text: with a decimal point or a decimal comma, and thousands set apart."""

from __future__ import annotations

import math
import re
from typing import Any

DECIMALS = (".", ",")
TRUTHS = {"true": 1.0, "false": 0.0}  # True is 1 in a column of numbers, also where words are among them.
_SPACES = " \u00a0\u202f'\u2019"  # What stands between thousands beside points and commas: spaces, or a Swiss '.
_BETWEEN_THOUSANDS = {".": ",", ",": "."}
#: decimal sign -> thousands that are set apart beyond doubt: 1,234.5 and 1,234,567 and 1 234, but not 1,234
GROUPED = {
    decimal: re.compile(
        rf"[-+]?\d{{1,3}}(?:(?:[{mark}]\d{{3}})+[{decimal}]\d+|(?:[{mark}]\d{{3}}){{2,}}"
        rf"|(?:[{_SPACES}]\d{{3}})+(?:[{decimal}]\d+)?)"
    )
    for decimal, mark in _BETWEEN_THOUSANDS.items()
}
#: decimal sign -> what may be thousands, or a fraction with the other sign
DOUBTFUL = {decimal: re.compile(rf"[-+]?[1-9]\d{{0,2}}[{mark}]\d{{3}}") for decimal, mark in _BETWEEN_THOUSANDS.items()}
WITH_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")


def number_of(value: Any, decimal: str = ".") -> float:
    """A value as a number; NaN if it is none, or if its text may mean two numbers.

    >>> [number_of(text) for text in ("44.70", "1,234.50", "44,70", "1,234")]
    [44.7, 1234.5, nan, nan]
    >>> [number_of(text, ",") for text in ("44,70", "1.234,50", "44.70", "1.234")]
    [44.7, 1234.5, 44.7, nan]
    """
    if isinstance(value, str):
        value = _with_point(value.strip(), decimal)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def _with_point(text: str, decimal: str) -> Any:
    """Text as `float` reads it; None if it is no number, or one in doubt."""
    if text.casefold() in TRUTHS:
        return TRUTHS[text.casefold()]
    if "_" in text:  # Python reads 1_000
        return None
    if GROUPED[decimal].fullmatch(text):
        text = re.sub(f"[{_SPACES}{_BETWEEN_THOUSANDS[decimal]}]", "", text)
    if decimal == ".":
        return text
    if DOUBTFUL[decimal].fullmatch(text):
        return None
    return text.replace(",", ".") if WITH_COMMA.fullmatch(text) else text
