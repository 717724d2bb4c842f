"""A tamper-evident log: a hash chain, in which each entry has the digest of the previous one.

Whoever may write the whole log can rewrite all of it; a copy of the last digest elsewhere reveals that, too.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator

from sketchlearn.core.errors import InvalidValueError

START = "0" * 64  # the previous digest of the first entry


class BrokenChainError(InvalidValueError):
    """An entry does not follow from the one before it."""


def link(previous: str, entry: str) -> str:
    """The digest of an entry, which depends on all entries before it.

    >>> link(START, "first")[:8], link(link(START, "first"), "second")[:8]
    ('cdb8c87e', '81fd633f')
    """
    return hashlib.sha256(f"{previous}\n{entry}".encode()).hexdigest()


def checked_entries(rows: Iterable[tuple[str, str, str]]) -> Iterator[tuple[str, str]]:
    """Entries and their digests, of rows (entry, previous digest, digest); an error at the first that does not fit."""
    last = START
    for entry, previous, digest in rows:
        if previous != last or digest != link(last, entry):
            raise BrokenChainError("its log was changed: an entry does not follow from the one before it")
        last = digest
        yield entry, digest
