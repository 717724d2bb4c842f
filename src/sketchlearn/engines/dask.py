"""Sketches of Dask collections: one task per partition, merged eight at a time on the workers."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.packages import required
from sketchlearn.core.randomness import row_chooser
from sketchlearn.core.values import shortened
from sketchlearn.engines import partial
from sketchlearn.features.operator import Operator
from sketchlearn.rows.paths import files_of, is_path
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.source import source
from sketchlearn.rows.source_base import by_name, check_width
from sketchlearn.sketch.sums import Sketch

SAMPLED_PARTITIONS = 16  # A sample is taken from these; from more only if they hold too few rows.


def sketch(
    collection: Any,
    operator: Operator,
    *,
    nulls: str = "error",
    device: str | None = None,
    unit: str | None = None,
    rows_per_unit: int | None = None,
) -> Sketch:
    """The sketch of all rows of a Dask collection, to the same bits as `operator.sketch` of the rows at once.

    Runs wherever `dask.compute` does: threads, processes, or the cluster of the current client.

    Parameters
    ----------
    collection : a Dask array, data frame or bag (of rows or blocks of rows), a list of delayed blocks, or a list of
        paths, each read by one task on the worker.
    operator : the operator.
    nulls : what to do with missing values, as for `operator.sketch`.
    device : where each worker computes the features of its partitions: "cpu", "cuda", "cuda:1" or "auto".
    unit, rows_per_unit : the column of ids, and how many rows of each count, as for `operator.sketch`; of data frames
        alone, which are shuffled so that a unit's rows come together.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0), seed=0)
    >>> import dask.array as da                                                     # doctest: +SKIP
    >>> X = da.random.normal(size=(1_000_000, 2), chunks=(100_000, 2))              # doctest: +SKIP
    >>> skl.engines.dask.sketch(X, operator)                                        # doctest: +SKIP
    <Sketch of 1,000,000 records: ...>
    """
    made = tree(collection, operator, nulls=nulls, device=device, unit=unit, rows_per_unit=rows_per_unit)
    return partial.total([made.compute()], operator)


def tree(
    collection: Any, operator: Operator, *, unit: str | None = None, rows_per_unit: int | None = None, **options: Any
) -> Any:
    """The delayed bytes of the sketch: a tree of tasks that merge at most eight partial sketches each."""
    dask = required("dask", "dask")
    text = partial.text_of(operator)
    # One node of the graph: sent once to each worker, and made again if the worker that holds it dies.
    operator_node = dask.delayed(text, name=f"operator-{dask.base.tokenize(text)}", traverse=False)
    sketched, merged = (dask.delayed(task, pure=False, traverse=True) for task in (partial.sketched, partial.merged))
    units = {"unit": unit, "rows_per_unit": rows_per_unit}
    by_unit = any(value is not None for value in units.values())
    parts = _parts_by_unit(collection, operator, **units) if by_unit else partitions(collection, operator)
    level = [sketched(name, part, operator_node, **units, **options) for name, part in parts]
    while len(level) > 1:
        groups = [level[first : first + partial.ARITY] for first in range(0, len(level), partial.ARITY)]
        level = [group[0] if len(group) == 1 else merged(group, operator_node) for group in groups]
    return level[0]


def partitions(
    collection: Any, operator: Operator | None = None, columns: SchemaColumns | None = None
) -> list[tuple[str, Any]]:
    """The delayed parts of a collection, with names for errors; columns of a schema need no operator."""
    dask = required("dask", "dask")
    items = list(collection) if isinstance(collection, list | tuple) else [collection]
    parts: Any
    if items and all(map(is_path, items)):
        return [(str(file), str(file)) for item in items for file in _files(item)]
    if items and all(isinstance(item, required("dask.delayed", "dask").Delayed) for item in items):
        parts = items
    elif hasattr(collection, "rechunk"):
        parts = _row_blocks(collection, operator)
    elif _is_frame(collection):
        parts = _with_columns_of(operator, collection, columns).to_delayed()
    elif hasattr(collection, "to_delayed"):
        # a bag's partition may be an iterator of rows, which would pass for a stream of blocks
        parts = map(dask.delayed(list), collection.to_delayed())
    else:
        raise TypeError(
            "expected a Dask array, data frame or bag, or a list of delayed blocks or of paths, not "
            f"{shortened(collection)}: rows in memory go through operator.sketch(rows)"
        )
    return [(f"partition {number}", part) for number, part in enumerate(parts)]


def _parts_by_unit(frame: Any, operator: Operator, unit: Any, rows_per_unit: Any) -> list[tuple[str, Any]]:
    """Partitions of a data frame, shuffled so that all rows of a unit are in one of them."""
    if not _is_frame(frame):
        raise TypeError("units need a Dask data frame, which can be shuffled by their ids: make one of the collection")
    features = partial.check_unit(unit, rows_per_unit, list(frame.columns), operator)
    frame = frame[[*_with_columns_of(operator, frame[list(features)]).columns, unit]]
    texts = frame[unit].map_partitions(_texts, unit, meta=(unit, object))
    parts = frame.assign(**{unit: texts}).shuffle(unit).to_delayed()
    return [(f"partition {number}", part) for number, part in enumerate(parts)]


def _texts(ids: Any, unit: str) -> Any:
    return type(ids)(partial.texts_of_ids(ids, unit), index=ids.index, name=unit, dtype=object)


def _files(path: Any) -> list[Any]:
    """The files of a folder or pattern, if it is visible here; workers resolve any other path."""
    try:
        return list(files_of(path))
    except FileNotFoundError:
        return [os.fspath(path)]


def _row_blocks(array: Any, operator: Operator | None) -> Any:
    if array.ndim != 2:
        raise ValueError(f"expected a two-dimensional Dask array of rows, got {array.ndim} dimension(s)")
    if operator is not None:
        check_width(array.shape[1], operator.n_features)
    whole_rows = array if array.numblocks[1] == 1 else array.rechunk({1: -1})
    return whole_rows.to_delayed().ravel()


def _is_frame(collection: Any) -> bool:
    # a delayed object has every attribute but those with underscores
    return hasattr(collection, "_meta") and hasattr(collection, "columns")


def _with_columns_of(operator: Operator | None, frame: Any, columns: SchemaColumns | None = None) -> Any:
    """The frame with only the operator's columns, validated before any task runs."""
    encoded = columns if operator is None else operator.columns
    if isinstance(encoded, SchemaColumns):
        names = encoded.schema.names
        by_name(tuple(frame.columns), names, "the data frame")
        return frame[list(names)]
    rows = source(frame._meta)  # an empty data frame with the same columns
    if operator is not None and operator.columns is not None:
        rows = rows.only(operator.columns)
    rows.check(None if operator is None else operator.n_features)
    return frame if rows.columns is None else frame[list(rows.columns)]


def sample(
    collection: Any, n: int, seed: int, columns: SchemaColumns | None = None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """About n random rows from a few partitions all over the collection, and the names of the columns."""
    dask = required("dask", "dask")
    rng = row_chooser(seed)
    parts = partitions(collection, columns=columns)
    # the first few lie far apart, whatever order the data are in
    stride = max(1, len(parts) // SAMPLED_PARTITIONS)
    order = np.concatenate([np.arange(first, len(parts), stride) for first in rng.permutation(stride)])
    some_rows = dask.delayed(_some_rows, pure=False)
    found: list[tuple[int, NDArray[Any]]] = []
    while len(found) < len(parts) and sum(size for size, _ in found) < n:
        chosen = order[len(found) : max(SAMPLED_PARTITIONS, 2 * len(found))]
        found += dask.compute(*(some_rows(*parts[i], n, seed + int(i), columns) for i in chosen))
    names = source(collection._meta).columns if columns is None and _is_frame(collection) else columns
    return _in_proportion(found, n, rng), names


def _some_rows(name: str, rows: Any, n: int, seed: int, columns: SchemaColumns | None) -> tuple[int, NDArray[Any]]:
    """The number of rows of a partition, and up to n of them."""
    with partial.refusals_of(name):
        table = partial.rows_of(rows, columns)
    if table is None:
        return 0, np.empty((0, 0))
    rng = row_chooser(seed)
    return len(table), table if len(table) <= n else table[np.sort(rng.choice(len(table), n, replace=False))]


def _in_proportion(found: Sequence[tuple[int, NDArray[Any]]], n: int, rng: np.random.Generator) -> NDArray[Any]:
    """n of the rows, from each partition in proportion to its size."""
    filled = [(size, rows) for size, rows in found if size]
    if not filled:
        raise ValueError("the collection has no rows")
    ends = np.cumsum([0, *(size for size, _ in filled)])
    counts = np.diff(np.rint(ends * min(1.0, n / ends[-1])).astype(int))
    return np.concatenate([rows[rng.permutation(len(rows))[:k]] for k, (_, rows) in zip(counts, filled, strict=True)])
