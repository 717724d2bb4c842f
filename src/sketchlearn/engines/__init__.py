"""Engines: sketches and samples of data that lie on many machines."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from sketchlearn.engines import dask, spark
from sketchlearn.features.operator import Operator
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.sums import Sketch

_ENGINES = {"dask": "dask", "dask_expr": "dask", "pyspark": "spark"}

__all__ = ["dask", "engine_of", "sample", "sketch", "spark"]


def engine_of(data: Any) -> str | None:
    """The engine that holds the data, "dask" or "spark", or None; neither package is imported.

    >>> engine_of([[1.0, 2.0]])
    """
    item = data[0] if isinstance(data, list | tuple) and data else data  # a list of delayed blocks
    packages = (kind.__module__.partition(".")[0] for kind in type(item).__mro__)
    return next((_ENGINES[package] for package in packages if package in _ENGINES), None)


def sketch(
    data: Any,
    operator: Operator,
    *,
    nulls: str = "error",
    device: str | None = None,
    unit: str | None = None,
    rows_per_unit: int | None = None,
) -> Sketch:
    """The sketch of a Dask collection or a Spark data frame."""
    engine = dask.sketch if _is_dask(data) else spark.sketch
    return engine(data, operator, nulls=nulls, device=device, unit=unit, rows_per_unit=rows_per_unit)


def sample(
    data: Any, n: int, seed: int, columns: SchemaColumns | None = None
) -> tuple[NDArray[Any], tuple[str, ...] | None]:
    """Up to n rows from all over a Dask collection or a Spark data frame, and the names of the columns.

    With columns of a schema, they are the numbers that it makes of rows, without those that it drops.
    """
    return (dask.sample if _is_dask(data) else spark.sample)(data, n, seed, columns)


def _is_dask(data: Any) -> bool:
    if (engine := engine_of(data)) is None:
        raise TypeError(f"expected a Dask collection or a Spark data frame, not {type(data).__name__}")
    return engine == "dask"
