"""The schema that the first rows of a source suggest."""

from __future__ import annotations

from typing import Any

from sketchlearn.schemas import Schema
from sketchlearn.schemas.raw_values import word_of
from sketchlearn.schemas.schema_proposal import proposed
from sketchlearn.sources.source_base import Source
from sketchlearn.sources.tables import no_names

MOST_ROWS = 100_000  # of a sample that a schema is made of


def proposed_schema(rows: Source) -> Schema:
    """What the columns of a source seem to be."""
    import pyarrow as pa

    if not rows.replayable:
        raise ValueError("a schema is proposed from rows that can be read again: save the stream to a file first")
    pieces, n_rows = list[dict[str, Any]](), 0
    if rows.columns is None:
        raise no_names(())
    for raw in rows.raw_columns(rows.columns, points=True):
        pieces.append({name: values[: MOST_ROWS - n_rows] for name, values in raw.items()})
        n_rows += len(next(iter(pieces[-1].values())))
        if n_rows >= MOST_ROWS:
            break
    if not n_rows:
        raise ValueError("a schema is proposed from rows, and there are none")
    return proposed(pa.table({name: _joined([piece[name] for piece in pieces]) for name in rows.columns}))


def _joined(pieces: list[Any]) -> Any:
    """Arrays one after the other; those of several types as words, which stand for the same values."""
    import pyarrow as pa

    types = {piece.type for piece in pieces if not pa.types.is_null(piece.type)} or {pa.null()}
    if len(types) == 1:
        kind = types.pop()
        alike = [pa.nulls(len(piece), kind) if pa.types.is_null(piece.type) else piece for piece in pieces]
        return pa.chunked_array(alike, kind).unify_dictionaries()
    values = (value for piece in pieces for value in piece.to_pylist())
    return pa.array([None if value is None else word_of(value) for value in values], pa.string())
