"""Columns as Arrow arrays, whatever holds them: lists, data frames, Arrow tables."""

from __future__ import annotations

import importlib
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

from sketchlearn.schemas.raw_values import what_cells_hold, word_of
from sketchlearn.values import shortened


def arrow_columns(table: Any, names: Sequence[str]) -> dict[str, Any]:
    """The columns of these names as Arrow arrays: of a data frame, an Arrow table, or a dictionary of columns.

    >>> import pandas as pd
    >>> arrow_columns({"age": [42, 30], "country": ["DE", "IT"]}, ["country"])["country"].to_pylist()
    ['DE', 'IT']
    >>> arrow_columns(pd.DataFrame({"age": [42, 30]}), ["age"])["age"].to_pylist()
    [42, 30]
    """
    is_frame = hasattr(table, "iloc") and hasattr(table, "columns")
    if not isinstance(table, Mapping) and not is_frame:
        if not hasattr(table, "__arrow_c_stream__"):
            raise TypeError(
                "a schema encodes data frames, Arrow tables and dictionaries of columns, not "
                f"{type(table).__name__}: put the columns into a dictionary, or read a file with source"
            )
        table = _pyarrow().table(table)
    known = list(table.columns if is_frame else table if isinstance(table, Mapping) else table.column_names)
    for name in names:
        if known.count(name) != 1:
            there, wrong = shortened(", ".join(map(str, known)), 200), "two columns" if name in known else "no column"
            raise ValueError(f"the table has {wrong} {name!r}, which the schema takes once: its columns are {there}")
    found = {name: _array(name, table[name]) for name in names}
    other = next((name for name in names if len(found[name]) != len(found[names[0]])), None)
    if other is not None:
        raise ValueError(
            f"column {names[0]!r} has {len(found[names[0]]):,} values and column {other!r} {len(found[other]):,}: give "
            "one value per row in each"
        )
    return found


def _array(name: str, column: Any) -> Any:
    """One column as an Arrow array."""
    pa = _pyarrow()
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.unify_dictionaries().chunks or [pa.array([], column.type)])
    if isinstance(column, str | bytes) or not hasattr(column, "__len__") or len(getattr(column, "shape", (0,))) != 1:
        raise TypeError(f"column {name!r} must be a list or an array of values, not {shortened(column)}")
    return column if isinstance(column, pa.Array) else arrow_array(column)


def arrow_array(values: Any) -> Any:
    """A list or a column of a data frame as an Arrow array, in which no value's form depends on the others.

    Lists of several types become words, which stand for the same numbers, levels and dates as the values.
    """
    pa = _pyarrow()
    kind = str(getattr(values, "dtype", "object"))
    if kind == "category" and str(values.cat.categories.dtype).startswith("interval"):  # of pandas.cut
        levels = [str(interval) for interval in values.cat.categories]
        codes = pa.array(values.cat.codes, pa.int32(), mask=values.isna().to_numpy())
        return pa.DictionaryArray.from_arrays(codes, levels, ordered=values.cat.ordered)
    if kind != "object":
        with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
            array = pa.array(values, from_pandas=True)
            if not isinstance(array.type, pa.BaseExtensionType):  # such as periods of pandas, which become words
                return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    if (text := _plain_text(values)) is not None:
        return text
    gaps = values.isna() if hasattr(values, "isna") else (value is None or value != value for value in values)
    known = [None if gap else value for value, gap in zip(values, gaps, strict=True)]
    kinds = {type(value) for value in known if value is not None}
    for alike in (int, float):
        if kinds == {alike}:
            with suppress(OverflowError, pa.ArrowInvalid):
                return pa.array(known, pa.int64() if alike is int else pa.float64())
    if (odd := what_cells_hold(kinds)) is not None:  # the type is enough for schemas to refuse the column by its name
        return pa.nulls(len(known), pa.binary() if odd == "bytes" else pa.list_(pa.null()))
    return pa.array([None if value is None else word_of(value) for value in known], pa.string())


def _plain_text(values: Any) -> Any:
    """Values that are text of ASCII alone, which has one form, as an Arrow array; None if some are anything else."""
    import pyarrow as pa
    import pyarrow.compute as pc

    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        array = pa.array(values, from_pandas=True)
        if pa.types.is_string(array.type) and pc.all(pc.string_is_ascii(array)).as_py():
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return None


def _pyarrow() -> Any:
    try:
        return importlib.import_module("pyarrow")
    except ImportError:
        raise ImportError(
            "reading columns of other kinds than numbers needs pyarrow: pip install 'sketchlearn[arrow]'"
        ) from None
