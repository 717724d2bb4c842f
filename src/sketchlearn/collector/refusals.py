"""Refusals of requests, each with its HTTP status, and checks of the names that clients choose."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from sketchlearn.core.messages import steers

# The HTTP status of each kind of refusal.
STATUS = {
    "malformed": 400,
    "damaged": 400,
    "unauthorised": 401,
    "forbidden": 403,
    "not found": 404,
    "method": 405,
    "slow": 408,
    "conflict": 409,
    "repeated": 409,
    "closed": 410,
    "too large": 413,
    "media type": 415,
    "other design": 422,
    "not addable": 422,
    "not private": 422,
    "wrong clock": 422,
    "too few": 409,
    "limit": 429,
    "too fast": 429,
    "busy": 503,
}


class RefusalError(Exception):
    """A request that is refused. The sentence is for its sender."""

    def __init__(self, kind: str, sentence: str, *, retry_after: int | None = None) -> None:
        super().__init__(sentence)
        self.kind, self.sentence, self.retry_after = kind, sentence, retry_after

    @property
    def status(self) -> int:
        return STATUS[self.kind]


@contextmanager
def refused_as(
    kind: str, words: str = "", errors: tuple[type[Exception], ...] = (ValueError, OverflowError)
) -> Iterator[None]:
    """Turns errors into a refusal, whose sentence begins with the words."""
    try:
        yield
    except errors as error:
        raise RefusalError(kind, f"{words}{error}") from None


LONGEST_TITLE = 200
_FORMS = {
    "collection": ("[a-z0-9][a-z0-9-]{0,62}", "small letters, digits and hyphens, at most 63 of them"),
    "sender": ("[A-Za-z0-9][A-Za-z0-9._@ -]{0,99}", "letters, digits, spaces and . _ @ -, at most 100 of them"),
    "report": ("[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}", "letters, digits and . _ : ~ -, at most 128 of them"),
}


def checked_name(what: str, name: Any) -> str:
    if not isinstance(name, str) or not is_name(what, name):
        words = _FORMS[what][1]
        raise RefusalError("malformed", f"the name of a {what} must have {words}, and begin with a letter or digit")
    return name


def is_name(what: str, name: str) -> bool:
    return re.fullmatch(_FORMS[what][0], name) is not None


def checked_title(title: Any) -> str:
    """A title: any text without control characters."""
    if not isinstance(title, str) or len(title) > LONGEST_TITLE or steers(title) or any(c in title for c in "\t\r\n"):
        raise RefusalError(
            "malformed", f"a title must be text of at most {LONGEST_TITLE} characters, without control characters"
        )
    return title
