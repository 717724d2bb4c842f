"""Dates and moments as people write them in text: the year first, the day first or the month first."""

from __future__ import annotations

import re
from datetime import UTC, date, datetime
from typing import Any

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
    """A date or moment, in UTC if it has a time zone; None if it is none.

    ISO's form, and what begins with the year or names the month, is read in any case; other text by the `order` alone.

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
    found = _YEAR_FIRST.fullmatch(text)
    month_then_day = found is not None or order == MONTH_FIRST
    if found is None and order != YEAR_FIRST:
        found = _YEAR_LAST.fullmatch(text)
    if found is None:
        return _named_in_iso(text)
    month, day = (found["one"], found["two"]) if month_then_day else (found["two"], found["one"])
    return f"{found['year']}-{month:0>2}-{day:0>2}" + (f" {_in_24_hours(found['clock'])}" if found["clock"] else "")


def _named_in_iso(text: str) -> str:
    found = _WITH_NAME.fullmatch(text)
    month = None if found is None else MONTHS.get((found["month"] or found["name"]).casefold())
    if found is None or month is None:
        return text
    clock = f" {_in_24_hours(found['clock'])}" if found["clock"] else ""
    return f"{found['year']}-{month:02d}-{found['day'] or found['then']:0>2}{clock}"


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
