"""Designs as files: the operator that several machines share, so that their sketches merge."""

from __future__ import annotations

from typing import Any

from sketchlearn.core.containers import DESIGN, SCHEMA, from_document, to_document
from sketchlearn.core.limits import FormatError, loading
from sketchlearn.features.operator import Operator
from sketchlearn.files.sketches import expecting, operator_from, refusing
from sketchlearn.rows.schemas.table_schema import Schema

DESIGN_VERSION = 1


def design_to_bytes(operator: Operator, made: dict[str, Any] | None = None) -> bytes:
    """A design as the bytes of a file; `made` says how it was made, for people."""
    return to_document(DESIGN, DESIGN_VERSION, {"operator": operator.to_json(), "made": made or {}})


@loading()
def design_from_bytes(data: bytes) -> tuple[Operator, dict[str, Any]]:
    """The operator of a design file and how it was made."""
    with expecting("design", data):
        document = from_document(data, DESIGN, DESIGN_VERSION)
    if document.keys() != {"kind", "version", "operator", "made"} or not isinstance(document["made"], dict):
        raise FormatError("a damaged design: it must have an operator, a note how it was made, and nothing else")
    return operator_from(document["operator"], "a design"), document["made"]


SCHEMA_VERSION = 1


def schema_to_bytes(schema: Schema) -> bytes:
    return to_document(SCHEMA, SCHEMA_VERSION, {"schema": schema.to_json()})


@loading()
def schema_from_bytes(data: bytes) -> Schema:
    """The schema of a file; a `FormatError` says in a sentence why a file is refused."""
    with expecting("schema", data):
        document = from_document(data, SCHEMA, SCHEMA_VERSION)
    if document.keys() != {"kind", "version", "schema"}:
        raise FormatError("a damaged schema file: it must have a schema, and nothing else")
    with refusing("a schema"):
        return Schema.from_json(document["schema"])
