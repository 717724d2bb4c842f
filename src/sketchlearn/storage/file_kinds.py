"""Which of the package's files some bytes are: a sketch, a design, a model or a schema."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from sketchlearn.storage.container import ENTRY, FormatError
from sketchlearn.storage.json_documents import DESIGN, MODEL, SCHEMA, is_network, parsed

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
    if data.lstrip()[:1] == b"{":
        try:
            kind = parsed(data).get("kind")
        except FormatError:
            return None
        return {DESIGN: "design", MODEL: "model", SCHEMA: "schema"}.get(kind) if isinstance(kind, str) else None
    if is_network(data):
        return "model"
    is_sketch = data[8:9] == b"{" and ENTRY.encode() in data[8 : 8 + int.from_bytes(data[:8], "little")]
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
