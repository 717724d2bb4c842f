"""Schemas as files: how the columns of a table become numbers, to be read and edited by people."""

from __future__ import annotations

import os

from sketchlearn.loading_limit import loading
from sketchlearn.schemas import Schema
from sketchlearn.storage.container import FormatError, read, write
from sketchlearn.storage.file_kinds import expecting
from sketchlearn.storage.json_documents import SCHEMA, from_document, to_document

VERSION = 1


def schema_to_bytes(schema: Schema) -> bytes:
    """A schema as the bytes of a file."""
    return to_document(SCHEMA, VERSION, {"schema": schema.to_json()})


@loading()
def schema_from_bytes(data: bytes) -> Schema:
    """The schema of a file; a `FormatError` says in a sentence why a file is refused."""
    with expecting("schema", data):
        document = from_document(data, SCHEMA, VERSION)
    if document.keys() != {"kind", "version", "schema"}:
        raise FormatError("a damaged schema file: it must have a schema, and nothing else")
    try:
        return Schema.from_json(document["schema"])
    except (ValueError, TypeError, KeyError) as error:
        raise FormatError(f"not a schema that this version can use: {error}") from None


def save_schema(schema: Schema, path: str | os.PathLike[str]) -> None:
    """Writes a schema to a JSON file, which can be edited: `load_schema` checks it.

    >>> import sketchlearn as skl, tempfile
    >>> schema = skl.Schema([skl.schemas.Number("age"), skl.schemas.Flag("member")])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skl.save_schema(schema, f"{folder}/schema.json")
    ...     skl.load_schema(f"{folder}/schema.json") == schema
    True
    """
    write(path, schema_to_bytes(schema))


def load_schema(path: str | os.PathLike[str]) -> Schema:
    """Reads a schema from a file; a `FormatError` says in a sentence why a file is refused."""
    return read(path, schema_from_bytes)
