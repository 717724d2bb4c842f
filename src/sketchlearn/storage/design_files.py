"""Designs as files: the operator that several machines share, so that their sketches merge."""

from __future__ import annotations

import os
from typing import Any

from sketchlearn.loading_limit import loading
from sketchlearn.operators import Operator
from sketchlearn.storage.container import FormatError, read, write
from sketchlearn.storage.file_kinds import expecting
from sketchlearn.storage.json_documents import DESIGN, from_document, to_document
from sketchlearn.storage.sketch_files import operator_from

VERSION = 1


def design_to_bytes(operator: Operator, made: dict[str, Any] | None = None) -> bytes:
    """A design as the bytes of a file; `made` says how it came about, for people."""
    return to_document(DESIGN, VERSION, {"operator": operator.to_json(), "made": made or {}})


@loading()
def design_from_bytes(data: bytes) -> tuple[Operator, dict[str, Any]]:
    """The operator of a design file and how it was made."""
    with expecting("design", data):
        document = from_document(data, DESIGN, VERSION)
    if document.keys() != {"kind", "version", "operator", "made"} or not isinstance(document["made"], dict):
        raise FormatError("a damaged design: it must have an operator, a note how it was made, and nothing else")
    return operator_from(document["operator"], "a design"), document["made"]


def save_design(operator: Operator, path: str | os.PathLike[str], made: dict[str, Any] | None = None) -> None:
    """Writes an operator to a JSON file, so that others can sketch with it.

    >>> import sketchlearn as skl, tempfile
    >>> operator = skl.design(bounds=([0, 0], [1, 1]), n_components=3)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skl.save_design(operator, f"{folder}/design.json")
    ...     skl.load_design(f"{folder}/design.json") == operator
    True
    """
    write(path, design_to_bytes(operator, made))


def load_design(path: str | os.PathLike[str]) -> Operator:
    """Reads an operator from a design file; a `FormatError` says in a sentence why a file is refused."""
    return read(path, design_from_bytes)[0]
