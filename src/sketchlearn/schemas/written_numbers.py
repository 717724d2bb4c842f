"""Numbers as people write them in text: with a decimal point or a decimal comma, and thousands set apart."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from typing import Any

DECIMALS = (".", ",")
TRUTHS = {"true": 1.0, "false": 0.0}  # True is 1 in a column of numbers, also where words are among them.
_SPACES = " \u00a0\u202f'\u2019"  # What stands between thousands beside points and commas: spaces, or a Swiss '.
_OTHER_SIGN = {".": ",", ",": "."}
#: decimal sign -> text with thousands that are set apart beyond doubt: 1,234.5 and 1,234,567 and 1 234, but not 1,234
_GROUPED = {
    decimal: re.compile(
        rf"[-+]?\d{{1,3}}(?:(?:[{mark}]\d{{3}})+[{decimal}]\d+|(?:[{mark}]\d{{3}}){{2,}}"
        rf"|(?:[{_SPACES}]\d{{3}})+(?:[{decimal}]\d+)?)"
    )
    for decimal, mark in _OTHER_SIGN.items()
}
#: decimal sign -> what may be thousands, or a fraction with the other sign
DOUBTFUL = {decimal: re.compile(rf"[-+]?[1-9]\d{{0,2}}[{mark}]\d{{3}}") for decimal, mark in _OTHER_SIGN.items()}
#: decimal sign -> numbers of a column in which thousands are set apart: 1,234 is one there, and so are 12 and 1234
_IN_GROUPS = {
    decimal: rf"-?(?:[1-9]\d{{0,2}}(?:(?:[{mark}]\d{{3}})+|(?:[{_SPACES}]\d{{3}})+)|\d+)(?:[{decimal}]\d*)?"
    for decimal, mark in _OTHER_SIGN.items()
}
_PLAIN = re.compile(r"-?[0-9]{1,99}(?:\.[0-9]+)?")  # Most numbers in text, beyond doubt and finite.
_WITH_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
#: what means another number with decimal commas than with points, as Arrow matches it
_SWAPPED = r"^\s*[-+]?(?:[0-9]*,[0-9]+(?:[eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}\.[0-9]{3})\s*$"


def number_of(value: Any, decimal: str = ".") -> float:
    """A value as a number; NaN if it is none, or if its text may mean two numbers.

    >>> [number_of(text) for text in ("44.70", "1,234.50", "1.234,50", "44,70", "1,234")]
    [44.7, 1234.5, 1234.5, nan, nan]
    >>> [number_of(text, ",") for text in ("44,70", "1,234.50", "1.234,50", "44.70", "1.234")]
    [44.7, 1234.5, 1234.5, 44.7, nan]
    """
    if isinstance(value, str):
        if decimal == "." and _PLAIN.fullmatch(value):
            return float(value)
        value = _plain(value.strip(), decimal)
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) else math.nan


def _plain(text: str, decimal: str) -> Any:
    """Text as `float` reads it; None if it is no number, or one in doubt."""
    if text.casefold() in TRUTHS:
        return TRUTHS[text.casefold()]
    if "_" in text:  # Python reads 1_000
        return None
    for sign, grouped in _GROUPED.items():
        if grouped.fullmatch(text):
            return re.sub(f"[{_SPACES}{_OTHER_SIGN[sign]}]", "", text).replace(sign, ".")
    if decimal == ".":
        return text
    if DOUBTFUL[decimal].fullmatch(text):
        return None
    return text.replace(",", ".") if _WITH_COMMA.fullmatch(text) else text


def has_groups(cells: Sequence[str], decimal: str, *, sure: bool) -> bool:
    """Whether these are numbers with thousands set apart: beyond doubt in one of them, unless it is sure.

    >>> has_groups(["1,234", "1,234.50", "7"], ".", sure=False), has_groups(["1.234,50", "1.234"], ",", sure=False)
    (True, True)
    >>> has_groups(["1,234", "7"], ".", sure=False), has_groups(["1,234", "7"], ".", sure=True)
    (False, True)
    """
    numbers = [cell.strip() for cell in cells]
    if not all(re.fullmatch(_IN_GROUPS[decimal], cell) for cell in numbers):
        return False
    if sure:
        return any(re.search(f"[{_SPACES}{_OTHER_SIGN[decimal]}]", cell) for cell in numbers)
    return any(map(_GROUPED[decimal].fullmatch, numbers))


def number_in_groups(cell: str, decimal: str) -> float:
    """A number of a column in which thousands are set apart; a ValueError says that it is none.

    >>> number_in_groups("1,234", "."), number_in_groups("1.234,5", ","), number_in_groups("12", ",")
    (1234.0, 1234.5, 12.0)
    """
    text = cell.strip()
    if re.fullmatch(_IN_GROUPS[decimal], text) is None:
        raise ValueError(f"{cell[:40]!r} is not a number")
    return float(re.sub(f"[{_SPACES}{_OTHER_SIGN[decimal]}]", "", text).replace(decimal, "."))


def numbers_in_groups(cells: Any, decimal: str) -> Any:
    """The same of an Arrow array of text, as float64.

    >>> import pyarrow as pa
    >>> numbers_in_groups(pa.array(["1,234", None, "-1,234,567.5"]), ".").to_pylist()
    [1234.0, None, -1234567.5]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    cells = pc.utf8_trim_whitespace(cells)
    fits = pc.match_substring_regex(cells, f"^(?:{_IN_GROUPS[decimal]})$")
    if not pc.all(fits, skip_nulls=True, min_count=0).as_py():
        raise ValueError(f"{cells.filter(pc.invert(fits))[0].as_py()[:40]!r}, which is not a number")
    plain = pc.replace_substring_regex(cells, f"[{_SPACES}{_OTHER_SIGN[decimal]}]", "")
    return pc.replace_substring(plain, decimal, ".").cast(pa.float64())


def signs_swapped(cells: Any) -> Any:
    """Numbers with decimal commas as such with points, in an Arrow array of text; what is in doubt stays so.

    That is done cell by cell: what one becomes must not depend on others.

    >>> import pyarrow as pa
    >>> signs_swapped(pa.array(["44,70", "1.234", "1.234,50", "31.12.2024", "44.70", None])).to_pylist()
    ['44.70', '1,234', '1.234,50', '31.12.2024', '44.70', None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_string(cells.type) and not pa.types.is_large_string(cells.type):
        return cells
    swapped = pc.replace_substring(pc.replace_substring(pc.replace_substring(cells, ",", "\0"), ".", ","), "\0", ".")
    return pc.if_else(pc.match_substring_regex(cells, _SWAPPED), swapped, cells)
