"""Epochs in time: hours and days of UTC, and the months that old days are added up to."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

HOUR, DAY, MONTH = "hour", "day", "month"
SPANS = (HOUR, DAY)  # that a collection may be divided into
SECONDS = {HOUR: 3600, DAY: 86400}


def start_of(span: str, seconds: float) -> int:
    """When the epoch of a moment began.

    >>> start_of("hour", 7300), start_of("day", 90000), in_iso(start_of("month", 90 * 86400))
    (7200, 86400, '1970-04-01T00:00:00Z')
    """
    if span == MONTH:
        moment = datetime.fromtimestamp(seconds, UTC)
        return int(moment.replace(day=1, hour=0, minute=0, second=0, microsecond=0).timestamp())
    return int(seconds // SECONDS[span]) * SECONDS[span]


def finish_of(span: str, start: int) -> int:
    """When an epoch ends: the start of the next one."""
    if span == MONTH:
        return start_of(MONTH, (datetime.fromtimestamp(start, UTC) + timedelta(days=32)).timestamp())
    return start + SECONDS[span]


def in_iso(seconds: float) -> str:
    """A moment as an ISO date in UTC."""
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")


def from_text(text: str) -> float:
    """The moment of a text: seconds since 1970, or a date as ISO 8601 writes it; UTC, unless it says otherwise.

    >>> from_text("7200"), from_text("1970-01-01T02:00:00Z"), from_text("1970-01-02")
    (7200.0, 7200.0, 86400.0)
    """
    try:
        if text.lstrip("-").replace(".", "", 1).isdecimal():
            seconds = float(text)
        else:
            moment = datetime.fromisoformat(text)
            seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp()
        in_iso(seconds)
        datetime.fromtimestamp(seconds + 40 * 86400, UTC)  # the ends of its day and month are dates, too
    except (ValueError, OverflowError, OSError):
        raise ValueError("a time must be seconds since 1970, or a date such as 2026-01-31T12:00:00Z") from None
    return seconds
