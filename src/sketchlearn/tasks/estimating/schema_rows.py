"""Rows that a schema makes numbers of, on their way into an estimator and to its answers; and back into a table."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.schemas import Column, Schema, SchemaColumns
from sketchlearn.sources import Source, source
from sketchlearn.sources.tables import no_names, nothing_left
from sketchlearn.tasks.estimating.fitted_state import IncomingRows, SketchedTable
from sketchlearn.values import shortened

KEEP_GAPS = 'give those columns missing="indicate"'


def schema_columns(X: Any, schema: Schema | str | None, before: SketchedTable | None) -> SchemaColumns | None:
    """The columns that a schema makes of rows: the one of rows that came before, or else this one; None without any."""
    if before is not None:
        names = before.feature_names
        return names if isinstance(names, SchemaColumns) else None
    if schema is None or isinstance(schema, Schema):
        return None if schema is None else SchemaColumns(schema)
    proposed = source(X, schema=schema).columns
    assert isinstance(proposed, SchemaColumns)
    return proposed


def check_stream(schema: Schema | str | None) -> None:
    """Refuses a schema that would be proposed from the first rows of a stream."""
    if isinstance(schema, str):
        raise ValueError(
            'schema="auto" would take the scales and levels of the first rows alone: give schema=skl.schema(sample)'
        )


def columns_on_machines(schema: Schema | str | None, y: Any) -> SchemaColumns | None:
    """The columns that a schema makes of rows on other machines, if there is one; those with targets need a design."""
    if isinstance(schema, str):
        raise ValueError(
            'schema="auto" looks at rows, and these are on other machines: give schema=skl.schema(sample), of a data '
            "frame with some of them"
        )
    if schema is not None and y is not None:
        raise ValueError(
            "with targets, Dask and Spark take a schema with a design: design(sample, schema=...), engines.dask.sketch "
            "or engines.spark.sketch, then fit_sketch"
        )
    return None if schema is None else SchemaColumns(schema)


def encoded_rows(rows: Source, columns: SchemaColumns, before: SketchedTable | None) -> Source:
    """The numbers that a schema makes of rows; the first ones of all must have names."""
    return source(rows, schema=columns.schema) if before is None else rows.only(columns)


def encoded_table(rows: Source, columns: SchemaColumns, before: SketchedTable | None) -> IncomingRows:
    """The same rows without targets, on their way into a sketch."""
    return IncomingRows(encoded_rows(rows, columns, before), before or SketchedTable(columns, len(columns)))


def encoded_array(X: Any, columns: SchemaColumns) -> NDArray[np.float64]:
    """The numbers that a schema makes of a table in memory, a row for each of its rows: NaN in those that it drops."""
    rows: Any = source(X)
    if rows.columns is None:
        raise no_names(columns.schema.names)
    encoded = rows.only(columns)
    array = np.concatenate([np.empty((0, len(columns))), *encoded.chunks(len(columns))])
    if len(array) and np.isnan(array).any(axis=1).all():
        raise nothing_left(encoded)
    return array


def rows_in_memory(rows: Any, table: SketchedTable, beside: Any = None) -> IncomingRows:
    """An array or sparse matrix, with targets beside it if there are some; rows that a schema drops are left out.

    Without targets, the array itself goes along, unless rows are dropped: labels would not be theirs.
    """
    held = rows if beside is None else beside
    array = rows if beside is None else None
    if not isinstance(table.columns, SchemaColumns):
        checked = source(held)
        checked.gapless = True  # or scikit-learn's checks would have refused them
        return IncomingRows(checked, table, in_memory=True, array=array)
    n_dropped = int(np.count_nonzero(np.isnan(rows).any(axis=1)))
    if n_dropped:
        warn_caller(
            f"{n_dropped:,} rows have no value in a column where the schema leaves out such rows, and are not learned "
            f"from: {KEEP_GAPS} to keep them"
        )
        array = None
    return IncomingRows(source(held, nulls="drop"), table, in_memory=True, array=array)


def encoded_blocks(X: Any, columns: SchemaColumns) -> Iterator[NDArray[Any]]:
    """The numbers that a schema makes of a table, a row for each of its rows."""
    rows = source(X).only(columns)
    for block in rows.blocks(len(columns)):
        yield block.rows
        if rows.dropped:
            raise ValueError(
                f"{rows.dropped:,} rows have no value in a column where the schema leaves out such rows: drop them "
                f"first, or {KEEP_GAPS}"
            )


def with_targets(columns: SchemaColumns, targets: Sequence[Column]) -> SchemaColumns:
    """The columns of a schema, and then those of targets, which are taken out of the schema if they are in it."""
    names = {target.name for target in targets}
    features = [column for column in columns.schema.columns if column.name not in names]
    if not features:
        raise ValueError("all columns are targets: there is nothing to learn them from")
    return SchemaColumns(replace(columns.schema, columns=(*features, *targets)))


def target_names(y: Any, rows: Source) -> list[str]:
    """The columns of a table that y names as targets."""
    names = [y] if isinstance(y, str) else list(y) if isinstance(y, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"with a schema, y must name columns of the table, one or several, not {shortened(y)}")
    for name in names:
        if rows.columns is not None and name not in rows.columns:
            known = shortened(", ".join(rows.columns), 200)
            raise ValueError(f"the table has no column {name!r}: its columns are {known}")
    return names


def decoded_table(rows: NDArray[Any], columns: tuple[str, ...] | None) -> Any:
    """Rows of a schema's numbers as the table would have them: a data frame, or an Arrow table without pandas.

    Without a schema, the rows themselves.
    """
    if not isinstance(columns, SchemaColumns):
        return rows
    import pyarrow as pa

    table = pa.table(columns.schema.decode(np.asarray(rows, np.float64)))
    return table if find_spec("pandas") is None else table.to_pandas()
