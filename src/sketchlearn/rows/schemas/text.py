"""Numbers and dates as people write them: with a decimal point or comma, thousands set apart, in several orders."""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from datetime import UTC, date, datetime
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.rows.lazy_pyarrow import pa, pc

DECIMALS = (".", ",")
TRUTHS = {"true": 1.0, "false": 0.0}  # True is 1 in a column of numbers, also where words are among them.
_SPACES = " \u00a0\u202f'\u2019"  # Separators of thousands other than points and commas: spaces, or a Swiss '.
_OTHER_SIGN = {".": ",", ",": "."}
#: decimal sign -> text whose thousands are unambiguously set apart: 1,234.5 and 1,234,567 and 1 234, but not 1,234
_GROUPED = {
    decimal: re.compile(
        rf"[-+]?\d{{1,3}}(?:(?:[{mark}]\d{{3}})+[{decimal}]\d+|(?:[{mark}]\d{{3}}){{2,}}"
        rf"|(?:[{_SPACES}]\d{{3}})+(?:[{decimal}]\d+)?)"
    )
    for decimal, mark in _OTHER_SIGN.items()
}
#: decimal sign -> what may be thousands, or a fraction with the other sign
DOUBTFUL = {decimal: re.compile(rf"[-+]?[1-9]\d{{0,2}}[{mark}]\d{{3}}") for decimal, mark in _OTHER_SIGN.items()}
#: decimal sign -> numbers of a column whose thousands are set apart: 1,234 is one there, and so are 12 and 1234
_IN_GROUPS = {
    decimal: rf"-?(?:[1-9]\d{{0,2}}(?:(?:[{mark}]\d{{3}})+|(?:[{_SPACES}]\d{{3}})+)|\d+)(?:[{decimal}]\d*)?"
    for decimal, mark in _OTHER_SIGN.items()
}
_PLAIN = re.compile(r"-?[0-9]{1,99}(?:\.[0-9]+)?")  # Most numbers in text: unambiguous and finite.
_WITH_COMMA = re.compile(r"[-+]?\d*,\d+(?:[eE][-+]?\d+)?")
#: text that is another number with decimal commas than with points, as a pattern of Arrow
_SWAPPED = r"^\s*[-+]?(?:[0-9]*,[0-9]+(?:[eE][-+]?[0-9]+)?|[1-9][0-9]{0,2}\.[0-9]{3})\s*$"


def number_of(value: Any, decimal: str = ".") -> float:
    """A value as a number; NaN if it is not one, or if its text may mean two numbers.

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
    """Text that `float` reads; None if it is not a number, or an ambiguous one."""
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
    """Whether these are numbers with thousands set apart; unless that is `sure`, one of them has to be unambiguous.

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
    """A number of a column whose thousands are set apart; a ValueError for other text.

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
    cells = pc.utf8_trim_whitespace(cells)
    fits = pc.match_substring_regex(cells, f"^(?:{_IN_GROUPS[decimal]})$")
    if not pc.all(fits, skip_nulls=True, min_count=0).as_py():
        raise ValueError(f"{cells.filter(pc.invert(fits))[0].as_py()[:40]!r}, which is not a number")
    plain = pc.replace_substring_regex(cells, f"[{_SPACES}{_OTHER_SIGN[decimal]}]", "")
    return pc.replace_substring(plain, decimal, ".").cast(pa.float64())


def signs_swapped(cells: Any) -> Any:
    """Numbers with decimal commas as numbers with points, in an Arrow array of text; ambiguous cells stay ambiguous.

    Each cell is converted by itself: the result must not depend on other cells.

    >>> import pyarrow as pa
    >>> signs_swapped(pa.array(["44,70", "1.234", "1.234,50", "31.12.2024", "44.70", None])).to_pylist()
    ['44.70', '1,234', '1.234,50', '31.12.2024', '44.70', None]
    """
    if not pa.types.is_string(cells.type) and not pa.types.is_large_string(cells.type):
        return cells
    swapped = pc.replace_substring(pc.replace_substring(pc.replace_substring(cells, ",", "\0"), ".", ","), "\0", ".")
    return pc.if_else(pc.match_substring_regex(cells, _SWAPPED), swapped, cells)


YEAR_FIRST, DAY_FIRST, MONTH_FIRST = "year first", "day first", "month first"
ORDERS = (YEAR_FIRST, DAY_FIRST, MONTH_FIRST)
_CLOCK = r"(?:[ T,]+(?P<clock>\d.*))?"
_YEAR_FIRST = re.compile(rf"(?P<year>\d{{4}})([./-])(?P<one>\d{{1,2}})\2(?P<two>\d{{1,2}}){_CLOCK}")
_MONTH = re.compile(r"\d{4}-\d{2}")  # which counts as its first day
_YEAR_LAST = re.compile(rf"(?P<one>\d{{1,2}})([./-])(?P<two>\d{{1,2}})\2(?P<year>\d{{4}}){_CLOCK}")
_TIME = re.compile(r"(?P<hour>\d{1,2})(?P<rest>:\d{2}(?::\d{2}(?:\.\d+)?)?)(?P<half> ?[AP]\.?M\.?)?", re.IGNORECASE)
_WITH_NAME = re.compile(
    rf"(?:(?P<day>\d{{1,2}})[ .-]+(?P<month>[^\W\d]{{3,9}})\.?|(?P<name>[^\W\d]{{3,9}})\.? (?P<then>\d{{1,2}}))"
    rf"(?:, ?|[ -]+)(?P<year>\d{{4}}){_CLOCK}"
)
#: names of months in English and German, which are also known by their first three letters
MONTHS = {
    name: number
    for names in (
        "january february march april may june july august september october november december",
        "januar februar m\u00e4rz april mai juni juli august september oktober november dezember",
        "jan feb mrz apr mai jun jul aug sept okt nov dez",
    )
    for number, full in enumerate(names.split(), 1)
    for name in (full, full[:3])
}
SHORT_YEAR = re.compile(r"\d{1,2}([./-])\d{1,2}\1\d{2}(?:[ T,].*)?")  # 31.12.24: of which century?


def moment_of(value: Any, order: str = YEAR_FIRST) -> datetime | None:
    """A date or time, in UTC if it has a time zone; None for other values.

    ISO dates, and dates that begin with the year or name the month, are read in any case; other text by the `order`.

    >>> str(moment_of("2024-12-31T12:30:00+02:00")), str(moment_of("31.12.2024 9:05", "day first"))
    ('2024-12-31 10:30:00', '2024-12-31 09:05:00')
    >>> str(moment_of("12/31/2024 1:30 PM", "month first")), moment_of("12/31/2024"), str(moment_of("Dec 31, 2024"))
    ('2024-12-31 13:30:00', None, '2024-12-31 00:00:00')
    """
    try:
        moment = value if isinstance(value, date) else datetime.fromisoformat(_in_iso(str(value).strip(), order))
    except ValueError:
        return None
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is None:
        return moment
    try:
        return moment.astimezone(UTC).replace(tzinfo=None)
    except OverflowError:  # before the year 1, or after 9999
        return None


def _in_iso(text: str, order: str) -> str:
    """The text in ISO's form, if it is a date; otherwise as it is."""
    if _MONTH.fullmatch(text):
        return f"{text}-01"
    found = _YEAR_FIRST.fullmatch(text) or (_YEAR_LAST.fullmatch(text) if order != YEAR_FIRST else None)
    if found is not None:
        month_then_day = found.re is _YEAR_FIRST or order == MONTH_FIRST
        month, day = (found["one"], found["two"]) if month_then_day else (found["two"], found["one"])
    else:
        found = _WITH_NAME.fullmatch(text)
        number = None if found is None else MONTHS.get((found["month"] or found["name"]).casefold())
        if found is None or number is None:
            return text
        month, day = str(number), found["day"] or found["then"]
    clock = f" {_in_24_hours(found['clock'])}" if found["clock"] else ""
    return f"{found['year']}-{month:0>2}-{day:0>2}{clock}"


def _in_24_hours(clock: str) -> str:
    found = _TIME.fullmatch(clock.strip())
    if found is None:
        return clock  # with a time zone, or no time at all
    hour = int(found["hour"])
    if found["half"]:
        if not 1 <= hour <= 12:
            return clock
        hour = hour % 12 + (12 if found["half"].strip()[0] in "Pp" else 0)
    return f"{hour:02d}{found['rest']}"


Bools = NDArray[np.bool_]
#: numbers that Arrow always reads, as a pattern of Arrow
PLAIN_NUMBER = r"^-?[0-9]+(?:\.[0-9]+)?(?:[eE][-+]?[0-9]+)?$"
#: dates that exist in every year (not 29 February), with or without a time
PLAIN_MOMENT = (
    r"^[0-9]{4}-(?:(?:0[13578]|1[02])-(?:0[1-9]|[12][0-9]|3[01])|(?:0[469]|11)-(?:0[1-9]|[12][0-9]|30)"
    r"|02-(?:0[1-9]|1[0-9]|2[0-8]))(?:[ T](?:[01][0-9]|2[0-3]):[0-5][0-9](?::[0-5][0-9](?:\.[0-9]{3}|\.[0-9]{6})?)?)?$"
)
FIRST_MOMENT = -62_135_596_800_000_000  # The year 1: Python's dates begin there, Arrow's do not.
NO_MOMENT = FIRST_MOMENT - 1


def text_of(raw: Any) -> Any:
    """The column as an Arrow array of text; None if it holds something else."""
    if pa.types.is_string(raw.type) or pa.types.is_large_string(raw.type):
        return raw
    return raw.cast(pa.large_string()) if str(raw.type) == "string_view" else None


def plain_numbers(cells: Any, decimal: str) -> tuple[NDArray[np.float64], Bools]:
    """The numbers of a column of text, and which of them were read.

    >>> import pyarrow as pa
    >>> values, read = plain_numbers(pa.array(["44.70", "1,234.5", None, "inf", "-1e3"]), ".")
    >>> values[read].tolist(), read.tolist()
    ([44.7, -1000.0], [True, False, False, False, True])
    """
    text = signs_swapped(cells) if decimal == "," else cells
    values = _cast(text, "float64", PLAIN_NUMBER).to_numpy(zero_copy_only=False)
    return values, np.isfinite(values)


def plain_moments(cells: Any, order: str) -> tuple[NDArray[np.int64], Bools]:
    """The moments of a column of text in microseconds since 1970, and which of them were read.

    >>> import pyarrow as pa
    >>> moments, read = plain_moments(pa.array(["1970-01-02", "1970-01-01 00:01:00", "2.1.1970"]), "year first")
    >>> moments[read].tolist(), read.tolist()
    ([86400000000, 60000000], [True, True, False])
    """
    text = cells if order == YEAR_FIRST else _year_to_front(cells, order)
    moments = _cast(text, pa.timestamp("us"), PLAIN_MOMENT).cast("int64")
    values = moments.fill_null(NO_MOMENT).to_numpy(zero_copy_only=False)
    return values, values >= FIRST_MOMENT


def _cast(cells: Any, kind: Any, plain: str) -> Any:
    """The cells as Arrow reads them: all or, if some fail, those of a plain form; null for the others."""
    try:
        return cells.cast(kind)
    except pa.ArrowInvalid:
        sure = pc.match_substring_regex(cells, plain)
        return pc.if_else(sure, cells, pa.scalar(None, cells.type)).cast(kind)


def _year_to_front(cells: Any, order: str) -> Any:
    """Dates such as 31.12.2024 or 12/31/2024 as 2024-12-31; other text as it is."""
    turned = r"\3-\2-\1" if order == DAY_FIRST else r"\3-\1-\2"
    for mark in (r"\.", "/", "-"):
        pattern = rf"^([0-9]{{2}}){mark}([0-9]{{2}}){mark}([0-9]{{4}})"
        cells = pc.replace_substring_regex(cells, pattern, turned, max_replacements=1)
    return cells
