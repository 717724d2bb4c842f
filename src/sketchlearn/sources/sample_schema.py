"""The schema that the first rows of a source suggest."""

from __future__ import annotations

from sketchlearn.schemas import Schema
from sketchlearn.schemas.schema_proposal import proposed
from sketchlearn.sources.source_base import Source

MOST_ROWS = 100_000  # of a sample that a schema is made of


def proposed_schema(rows: Source) -> Schema:
    """What the columns of a source seem to be."""
    import pyarrow as pa

    if not rows.replayable:
        raise ValueError("a schema is proposed from rows that can be read again: save the stream to a file first")
    pieces, n_rows = [], 0
    if rows.columns is None:
        raise ValueError("a schema goes by the names of columns, and these rows have none")
    for raw in rows.raw_columns(rows.columns):
        batch = pa.table(raw)
        pieces.append(batch.slice(0, MOST_ROWS - n_rows))
        n_rows += pieces[-1].num_rows
        if n_rows >= MOST_ROWS:
            break
    if not n_rows:
        raise ValueError("a schema is proposed from rows, and there are none")
    return proposed(pa.concat_tables(pieces, promote_options="permissive"))
