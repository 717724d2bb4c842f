"""Names that others choose: of collections, senders and reports."""

from __future__ import annotations

import re
from typing import Any

from sketchlearn.collector.refusals import RefusalError
from sketchlearn.control_characters import steers

LONGEST_TITLE = 200
_FORMS = {
    "collection": ("[a-z0-9][a-z0-9-]{0,62}", "small letters, digits and hyphens, at most 63 of them"),
    "sender": ("[A-Za-z0-9][A-Za-z0-9._@ -]{0,99}", "letters, digits, spaces and . _ @ -, at most 100 of them"),
    "report": ("[A-Za-z0-9][A-Za-z0-9._:~-]{0,127}", "letters, digits and . _ : ~ -, at most 128 of them"),
}


def checked_name(what: str, name: Any) -> str:
    """The name, if it is one of a collection, a sender or a report."""
    form, words = _FORMS[what]
    if not isinstance(name, str) or not re.fullmatch(form, name):
        raise RefusalError("malformed", f"the name of a {what} must have {words}, and begin with a letter or digit")
    return name


def is_name(what: str, name: str) -> bool:
    """Whether a text can be the name of such a thing."""
    return re.fullmatch(_FORMS[what][0], name) is not None


def checked_title(title: Any) -> str:
    """A title for people: any text without control characters."""
    if not isinstance(title, str) or len(title) > LONGEST_TITLE or steers(title) or any(c in title for c in "\t\r\n"):
        raise RefusalError(
            "malformed", f"a title must be text of at most {LONGEST_TITLE} characters, without control characters"
        )
    return title
