"""The schema that the first rows of a source suggest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from sketchlearn.schemas import Schema
from sketchlearn.schemas.schema_proposal import proposed
from sketchlearn.sources.joined import Joined
from sketchlearn.sources.source_base import Source
from sketchlearn.sources.tables import Tabular, rows_per_block

MOST_ROWS = 100_000  # of a sample that a schema is made of


def proposed_schema(rows: Source) -> Schema:
    """What the columns of a source seem to be."""
    import pyarrow as pa

    if not rows.replayable:
        raise ValueError("a schema is proposed from rows that can be read again: save the stream to a file first")
    pieces, n_rows = [], 0
    for raw in _raw_chunks(rows):
        batch = pa.table(raw)
        pieces.append(batch.slice(0, MOST_ROWS - n_rows))
        n_rows += pieces[-1].num_rows
        if n_rows >= MOST_ROWS:
            break
    if not n_rows:
        raise ValueError("a schema is proposed from rows, and there are none")
    return proposed(pa.concat_tables(pieces, promote_options="permissive"))


def _raw_chunks(rows: Source) -> Iterator[dict[str, Any]]:
    parts = rows.parts if isinstance(rows, Joined) else [rows]
    for part in parts:
        if not isinstance(part, Tabular) or part.columns is None:
            raise ValueError("a schema goes by the names of columns, and these rows have none")
        yield from part.table.raw_chunks(part.chosen, rows_per_block(len(part.chosen)))
