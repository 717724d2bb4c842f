"""Sketches of Spark data frames: one partial sketch per partition, merged eight at a time on the executors.

Only data frames are used, no RDDs, so that classic and Connect sessions run the same plan. It is one job: the merges
are stages of it.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any

from numpy.typing import NDArray

from sketchlearn.core.packages import required
from sketchlearn.engines import partial
from sketchlearn.features.operator import Operator
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.source import source
from sketchlearn.rows.source_base import by_name, check_width
from sketchlearn.sketch.sums import Sketch

# Connect does not tell how many partitions there are. This many levels of merging leave one sketch of up to 8^3
# partitions, and twenty of ten thousand.
LEVELS = 3
SCHEMA = "part int, sketch binary"


def sketch(
    df: Any,
    operator: Operator,
    *,
    columns: Sequence[str] | None = None,
    nulls: str = "error",
    device: str | None = None,
    unit: str | None = None,
    rows_per_unit: int | None = None,
) -> Sketch:
    """The sketch of all rows of a Spark data frame, to the same bits as `operator.sketch` of the rows at once.

    sketchlearn must be installed for the Python that the executors run.

    Parameters
    ----------
    df : a data frame of a classic or a Connect session (Spark 4).
    operator : the operator.
    columns : names of the columns to read, all numeric; by default those of the operator, or all.
    nulls : what to do with missing values, as for `operator.sketch`.
    device : where each worker computes the features of its partitions: "cpu", "cuda", "cuda:1" or "auto".
    unit, rows_per_unit : the column of ids, and how many rows of each count, as for `operator.sketch`. The data frame
        is repartitioned so that a unit's rows come together; an executor holds one partition in memory.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0), seed=0)
    >>> df = spark.read.parquet("measurements.parquet")                             # doctest: +SKIP
    >>> skl.engines.spark.sketch(df, operator, columns=["height", "weight"])        # doctest: +SKIP
    <Sketch of 1,000,000 records: ...>
    """
    text, table = partial.text_of(operator), _as_sql(df)
    options: dict[str, Any] = {"nulls": nulls, "device": device, "unit": unit, "rows_per_unit": rows_per_unit}
    if unit is None and rows_per_unit is None:
        names = needed(table.columns, operator, columns)
        selected = _selected(table, names, isinstance(operator.columns, SchemaColumns))
    else:
        others = partial.check_unit(unit, rows_per_unit, table.columns, operator)
        names = needed(table.columns, operator, others if columns is None else columns)
        selected, names = _by_unit(table, names, str(unit)), (*names, str(unit))
    parts = selected.mapInArrow(lambda rows: _sketch_batches(rows, names, text, options), SCHEMA)
    functions = required("pyspark.sql.functions", "spark")
    group = functions.floor(functions.col("part") / partial.ARITY).cast("int")
    for _ in range(LEVELS):
        groups = parts.withColumn("part", group).groupBy("part")
        parts = groups.applyInArrow(lambda few: _merge_group(few, text), SCHEMA)
    return partial.total((row.sketch for row in _run(parts.collect)), operator)


def needed(names: Sequence[str], operator: Operator, columns: Sequence[str] | None = None) -> tuple[str, ...]:
    """The columns to read: the operator's, which must be among the chosen ones."""
    if isinstance(columns, str):
        raise ValueError(f"columns must be a list of names, such as columns=[{columns!r}]")
    chosen = tuple(names) if columns is None else tuple(columns)
    by_name(tuple(names), chosen, "the data frame")
    if isinstance(operator.columns, SchemaColumns):
        by_name(chosen, operator.columns.schema.names, "the data frame")
        return operator.columns.schema.names
    if operator.columns is not None:
        by_name(chosen, operator.columns, "the data frame")
        chosen = operator.columns
    check_width(len(chosen), operator.n_features)
    return chosen


def sample(df: Any, n: int, seed: int, columns: SchemaColumns | None = None) -> tuple[NDArray[Any], tuple[str, ...]]:
    """n random rows of a Spark data frame, and the names of its columns, in one pass without a shuffle of all rows."""
    functions = required("pyspark.sql.functions", "spark")
    table = _as_sql(df)
    names = tuple(table.columns)
    if columns is not None:
        by_name(names, columns.schema.names, "the data frame")
        names = columns.schema.names
    # Spark keeps the n rows of lowest number in each partition, then the lowest of those: rows from everywhere
    drawn = _selected(table, names, columns is not None).orderBy(functions.rand(seed)).limit(n)
    rows = partial.rows_of(_run(drawn.toArrow).rename_columns(list(names)), columns)
    if rows is None:
        raise ValueError("the data frame has no rows")
    return rows, names if columns is None else columns


def _as_sql(df: Any) -> Any:
    required("pyspark", "spark")
    if type(df).__module__.startswith("pyspark.pandas"):  # data frames of Spark Connect have every attribute: columns
        df = df.to_spark()
    if not hasattr(df, "mapInArrow"):
        raise TypeError(f"expected a Spark data frame, not {type(df).__name__}")
    return df


def _selected(df: Any, names: Sequence[str], encoded: bool = False) -> Any:
    """These columns of the data frame, all numbers unless a schema encodes them.

    They are called c0, c1...: mapInArrow of Spark 4.0 refuses names with dots.
    """
    types = required("pyspark.sql.types", "spark")
    kinds = {field.name: field.dataType for field in df.schema.fields}
    for name in names:
        if not encoded and not isinstance(kinds[name], types.NumericType | types.BooleanType):
            kind = kinds[name].simpleString()
            raise ValueError(
                f"column {name!r} holds {kind}, not numbers: convert it, or choose others with columns=[...]"
            )
    return df.select(*_numbered(names))


def _numbered(names: Sequence[str]) -> Iterator[Any]:
    functions = required("pyspark.sql.functions", "spark")
    return (functions.col(_quoted(name)).alias(f"c{i}") for i, name in enumerate(names))


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _by_unit(df: Any, names: Sequence[str], unit: str) -> Any:
    """These columns, as c0, c1..., and the ids as text, partitioned so that all rows of a unit are together."""
    functions, types = required("pyspark.sql.functions", "spark"), required("pyspark.sql.types", "spark")
    numbers = _selected(df, names)
    both = df.select(*_numbered(names), functions.col(_quoted(unit)).alias("unit"))
    schema = types.StructType([*numbers.schema.fields, types.StructField("unit", types.StringType())])
    return both.mapInArrow(lambda batches: _with_texts(batches, unit), schema).repartition("unit")


def _with_texts(batches: Iterator[Any], unit: str) -> Iterator[Any]:
    """The same batches with the ids, their last column, as text."""
    import pyarrow as pa

    for batch in batches:
        ids = source(pa.table({"unit": batch.columns[-1]})).ids("unit")
        texts = [text for values in ids for text in partial.texts_of_ids(values, unit)]
        yield pa.RecordBatch.from_arrays([*batch.columns[:-1], pa.array(texts, pa.string())], names=batch.schema.names)


def _sketch_batches(batches: Iterator[Any], names: Sequence[str], text: str, options: dict[str, Any]) -> Iterator[Any]:
    """The sketch of a partition's record batches, computed by an executor."""
    import pyarrow as pa

    number = required("pyspark", "spark").TaskContext.get().partitionId()
    named: Any = (pa.RecordBatch.from_arrays(batch.columns, names=list(names)) for batch in batches)
    if options["unit"] is not None:  # rows of units are read twice
        empty = pa.schema([(name, pa.string() if name == options["unit"] else pa.float64()) for name in names])
        held = list(named)
        named = pa.Table.from_batches(held, held[0].schema if held else empty)
    data = partial.sketched(f"partition {number}", named, text, **options)
    yield pa.record_batch({"part": pa.array([number], pa.int32()), "sketch": pa.array([data], pa.binary())})


def _merge_group(table: Any, text: str) -> Any:
    """The sum of up to eight partial sketches, computed by an executor."""
    import pyarrow as pa

    data = partial.merged(table.column("sketch").to_pylist(), text)
    return pa.table({"part": table.column("part").slice(0, 1), "sketch": pa.array([data], pa.binary())})


def _run(action: Any) -> Any:
    """The result of an action; errors of a partition are one sentence, without Spark's traceback."""
    errors = required("pyspark.errors", "spark")
    try:
        return action()
    except errors.PySparkException as error:
        sentence = re.search(rf"{partial.PartitionError.__name__}: (.+)", str(error))
        if sentence is None:
            raise
        raise partial.PartitionError(sentence.group(1).strip()) from None
