"""Messages: warnings, numbers as people write them (24,210, not 2.421e+04), and printable names."""

from __future__ import annotations

import math
import os
import re
import sys
import warnings
from collections.abc import Iterable
from datetime import date, timedelta
from types import FrameType
from typing import Any

PACKAGE_FOLDER = os.path.dirname(os.path.dirname(__file__)) + os.sep


WARNED = set[str]()  # topics that were warned of once


def warn_caller_once(topic: str, message: str) -> None:
    """Warns of a topic once per process."""
    if topic not in WARNED:
        WARNED.add(topic)
        warn_caller(message)


def warn_caller(message: str, category: type[Warning] = UserWarning) -> None:
    """Warns at the nearest line of the caller outside this package and scikit-learn."""
    inside = [PACKAGE_FOLDER]
    if "sklearn" in sys.modules:
        inside.append(os.path.dirname(sys.modules["sklearn"].__file__ or "") + os.sep)
    frame: FrameType | None = sys._getframe(1)
    level = 2
    while frame is not None and frame.f_code.co_filename.startswith(tuple(inside)):
        frame, level = frame.f_back, level + 1
    warnings.warn(message, category, stacklevel=level)


MOST_DIGITS = 15  # of a number whose error is known: float64 has no more
LEAST_PLAIN = 1e-6  # smaller numbers have too many zeros to be counted, and keep their exponent


def in_digits(value: float, digits: int = 4) -> str:
    """A number rounded to this many digits, without trailing zeros.

    >>> in_digits(24213.7), in_digits(0.5), in_digits(-1234567.8, 3), in_digits(0.00012346)
    ('24,210', '0.5', '-1,230,000', '0.0001235')
    """
    value = float(value)
    if not math.isfinite(value) or 0 < abs(value) < LEAST_PLAIN:
        return f"{value:.{digits}g}"
    written = _rounded(value, digits - 1 - _magnitude(value))
    return written.rstrip("0").rstrip(".") if "." in written else written


def in_certain_digits(value: float, error: float) -> str:
    """A number rounded to the first digit of its error; to four digits without a valid error.

    >>> in_certain_digits(24213.7, 31.0), in_certain_digits(0.5004, 0.02), in_certain_digits(24213.7, math.nan)
    ('24,210', '0.50', '24,210')
    >>> in_certain_digits(-2.1e-9, 4e-7), in_certain_digits(2.1e-9, 4e-11)
    ('0', '2.1e-09')
    """
    value, error = float(value), float(error)
    if not (math.isfinite(value) and math.isfinite(error) and error > LEAST_PLAIN):
        return "0" if error <= LEAST_PLAIN and abs(value) < error / 2 else in_digits(value)
    return _rounded(value, min(-_magnitude(error), MOST_DIGITS - 1 - _magnitude(value)))


#: names of columns whose numbers are no quantities: years, codes and identifiers
_CODE_NAME = re.compile(r"(?<![a-z])(year|yr|jahr|ann\u00e9e|zip|plz|postal|post ?code|code|id)s?(?![a-z])")


def ungrouped(written: str, column: str) -> str:
    """A number of a column, without commas between thousands if the column's name is that of years or codes.

    >>> ungrouped("2,006", "model_year"), ungrouped("2,006", "ZipCode"), ungrouped("2,006", "price")
    ('2006', '2006', '2,006')
    """
    words = re.sub("([a-z])([A-Z])", r"\1 \2", str(column)).lower()
    return written.replace(",", "") if _CODE_NAME.search(words) else written


def counted(number: float, noun: str) -> str:
    """A number of things.

    >>> counted(1, "record"), counted(2500, "record"), counted(0, "Gaussian")
    ('1 record', '2,500 records', '0 Gaussians')
    """
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def in_date(days: float) -> str:
    """A date, from days since 1970, clipped to the years 1 to 9999.

    >>> in_date(16_689.3), in_date(1e9)
    ('2015-09-11', '9999-12-31')
    """
    first = date(1970, 1, 1)
    inside = min(max(round(days), (date.min - first).days), (date.max - first).days)
    return str(first + timedelta(days=inside))


def _rounded(value: float, decimals: int) -> str:
    """With this many decimals; if that is negative, with as many zeros before the point."""
    return f"{round(value, decimals) + 0.0:,.{max(decimals, 0)}f}"


def _magnitude(value: float) -> int:
    """The power of ten of the first digit."""
    return math.floor(math.log10(abs(value))) if value else 0


# Control characters, line separators, marks of text direction, and surrogates.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Tabs and line breaks occur in the column names of spreadsheets: they are escaped, not refused.
_REFUSED = re.compile(r"(?![\t\n\r])" + _STEERING.pattern)


def printable(text: str) -> str:
    r"""The text with every control character as its escape sequence in Python.

    >>> print(printable("price\x1b[2J\n"))
    price\x1b[2J\n
    """
    return _STEERING.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def steers(text: str) -> bool:
    r"""Whether a text has control characters other than tabs and line breaks.

    >>> steers("price\n"), steers("price\x1b[2J")
    (False, True)
    """
    return _REFUSED.search(text) is not None


def check_names(what: str, names: Iterable[Any]) -> None:
    r"""Raises an error for names with control characters other than tabs and line breaks; ignores other types.

    >>> check_names("a column", ["a", "b\x1b[2J"])
    Traceback (most recent call last):
    ValueError: the name of a column has control characters, which could steer a terminal: 'b\x1b[2J'; rename it
    """
    words = [name for name in names if isinstance(name, str)]
    if not steers("".join(words)):  # all at once: names are checked again in each operator around theirs
        return
    for name in words:
        if steers(name):
            shown = printable(name if len(name) <= 60 else f"{name[:57]}...")
            raise ValueError(
                f"the name of {what} has control characters, which could steer a terminal: '{shown}'; rename it"
            )
