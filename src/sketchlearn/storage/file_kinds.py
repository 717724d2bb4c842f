"""Which of the package's files some bytes are: a sketch, a design, a model or a schema."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from sketchlearn.storage.container import ENTRY, FormatError
from sketchlearn.storage.json_documents import is_network

# A document is not read for this: it may be large, or the one that was refused.
_KIND_OF_DOCUMENT = re.compile(rb'"kind"\s*:\s*"sketchlearn (design|model|schema)"')
_JSON = re.compile(rb"\s*\{")
READ_BY = {"sketch": "load", "design": "load_design", "model": "load_model", "schema": "load_schema"}


class WrongKindError(FormatError):
    """A file is one of the package's, but of another kind than the one that is wanted."""

    def __init__(self, wanted: str, found: str) -> None:
        super().__init__(f"it is a {found}, not a {wanted}: skl.{READ_BY[found]} reads it")
        self.wanted, self.found = wanted, found


def kind_of(data: bytes) -> str | None:
    """ "sketch", "design", "model" or "schema"; None for other bytes.

    >>> import sketchlearn as skl
    >>> kind_of(skl.Sketch(skl.SecondMoments(2, bound=1.0)).to_bytes()), kind_of(b"a,b")
    ('sketch', None)
    """
    if _JSON.match(data):
        found = _KIND_OF_DOCUMENT.search(data)
        return None if found is None else found[1].decode()
    if is_network(data):
        return "model"
    is_sketch = data[8:9] == b"{" and data.find(ENTRY.encode(), 8, 8 + int.from_bytes(data[:8], "little")) >= 0
    return "sketch" if is_sketch else None


@contextmanager
def expecting(wanted: str, data: bytes) -> Iterator[None]:
    """Says of bytes that are refused what they are instead, where that is known."""
    try:
        yield
    except FormatError:
        if not data:
            raise FormatError("it is empty") from None
        if (found := kind_of(data)) not in (None, wanted):
            raise WrongKindError(wanted, str(found)) from None
        raise
