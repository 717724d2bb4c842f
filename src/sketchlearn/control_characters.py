"""Names that could steer a terminal: refused in files, and escaped where the command line prints them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Any

# Control characters, line separators, those that turn the direction of text, and halves of characters.
_STEERING = re.compile("[\x00-\x1f\x7f-\x9f\u2028-\u202e\u2066-\u2069\ud800-\udfff]")
# Tabs and line breaks are in honest names of columns of spreadsheets: they are escaped, not refused.
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
    r"""Refuses names with control characters other than tabs and line breaks; those that are no text are left alone.

    >>> check_names("a column", ["a", "b\x1b[2J"])
    Traceback (most recent call last):
    ValueError: the name of a column has control characters, which could steer a terminal: 'b\x1b[2J'; rename it
    """
    words = [name for name in names if isinstance(name, str)]
    if not steers("".join(words)):  # all at once: an operator in others has its names checked with each of them
        return
    for name in words:
        if steers(name):
            shown = printable(name if len(name) <= 60 else f"{name[:57]}...")
            raise ValueError(
                f"the name of {what} has control characters, which could steer a terminal: '{shown}'; rename it"
            )
