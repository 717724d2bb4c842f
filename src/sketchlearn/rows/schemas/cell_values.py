"""Values of table cells: equal values have one form, whatever library, file or type they come from."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.messages import warn_caller
from sketchlearn.core.values import shortened
from sketchlearn.rows.lazy_pyarrow import pa, pc
from sketchlearn.rows.schemas.text import (
    NO_MOMENT,
    YEAR_FIRST,
    moment_of,
    number_of,
    plain_moments,
    plain_numbers,
    text_of,
)

Floats = NDArray[np.float64]

#: words that stand for a missing value, in any case: those that pandas and Arrow read so, and signs for "none"
MISSING_WORDS = frozenset(
    ("", "na", "n/a", "nan", "null", "none", "<na>", "#na", "#n/a", "#n/a n/a", "-nan", "nat", "-", "--", "?",
     "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "#null!")
)  # fmt: skip
#: types of cells that are not a single number, word or date, and what such columns hold
NO_SINGLE_VALUES = {
    list: "lists", tuple: "tuples", dict: "records", set: "sets", frozenset: "sets", np.ndarray: "arrays",
    bytes: "bytes", bytearray: "bytes", memoryview: "bytes",
}  # fmt: skip
MICROSECONDS_PER_DAY = 86_400_000_000
LARGEST_WHOLE = 2.0**53  # Smaller whole numbers are exact as floats.
LARGEST_WHOLE_BY_BITS = {16: 2.0**11, 32: 2.0**24, 64: LARGEST_WHOLE}  # The same, by the number of bits of the float.


def word_of(value: Any) -> str:
    """A value as a word: 3, 3.0, " 3" and "3" are one; text is in Unicode's composed form (NFC), without outer spaces.

    >>> [word_of(value) for value in (3, 3.0, " 3", True, 0.5, "Zoe\\u0308")]
    ['3', '3', '3', 'true', '0.5', 'Zoë']
    """
    if value is None:
        return ""
    if isinstance(value, str):
        return unicodedata.normalize("NFC", value.strip())
    if isinstance(value, bool | np.bool_):
        return "true" if value else "false"
    if isinstance(value, float | np.floating):
        number = float(value)
        return str(int(number)) if abs(number) < LARGEST_WHOLE and number == int(number) else repr(number)
    return unicodedata.normalize("NFC", str(value))


def is_missing(value: Any) -> bool:
    """Whether a value stands for a missing one.

    >>> [is_missing(value) for value in (None, float("nan"), " N/A ", "?", 0, "x")]
    [True, True, True, True, False, False]
    """
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip().casefold() in MISSING_WORDS)


def by_distinct_value(
    raw: Any,
    encode: Callable[[Any], tuple[float, ...]],
    width: int,
    is_known: Callable[[Any], bool] = lambda _value: False,
) -> tuple[Floats, NDArray[Any]]:
    """`encode` of each value, called once per distinct value, and which values are missing; those have NaN.

    Values that `is_known` are not missing, whatever they are.
    """
    coded = raw if pa.types.is_dictionary(raw.type) else raw.dictionary_encode()
    values, nothing = _values_in(coded.dictionary), (math.nan,) * width
    gone = [is_missing(value) and not is_known(value) for value in values]
    encoded = [nothing if absent else encode(value) for value, absent in zip(values, gone, strict=True)]
    table, absent = np.array([*encoded, nothing], np.float64), np.array([*gone, True])
    codes = coded.indices.cast("int64").fill_null(len(values)).to_numpy(zero_copy_only=False)
    return table[codes], absent[codes]


def _values_in(array: Any) -> list[Any]:
    """Python's values of an Arrow array; None for those beyond Python's range, such as dates after the year 9999."""

    with suppress(OverflowError, ValueError):
        return array.to_pylist()  # type: ignore[no-any-return]
    values: list[Any] = [None] * len(array)
    for i, scalar in enumerate(array):
        with suppress(OverflowError, ValueError):
            values[i] = scalar.as_py()
    return values


def what_cells_hold(kinds: Iterable[type]) -> str | None:
    """What cells of these types hold, if some are not single values.

    >>> what_cells_hold([int, str]), what_cells_hold([str, list]), what_cells_hold([bytes])
    (None, 'lists', 'bytes')
    """
    found = (word for kind in kinds for odd, word in NO_SINGLE_VALUES.items() if issubclass(kind, odd))
    return next(found, None)


def remedy_for_cells(word: str) -> str:
    """What the user can do about a column of lists, records or bytes."""
    return "decode them to text first" if word == "bytes" else "make columns of what is in them"


def check_single_values(name: str, raw: Any) -> None:
    """Raises an error for a column of lists, records or bytes."""
    kind = raw.type
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    if is_bytes or pa.types.is_nested(kind):
        word, wanted = ("bytes", "text") if is_bytes else ("lists or records", "single values")
        raise ValueError(
            f"column {name!r} holds {word}, not {wanted}: {remedy_for_cells(word)}, or leave the column out"
        )


def words_for_levels(name: str, raw: Any) -> Callable[[Any], str]:
    """`word_of`, except that floats which may have been other whole numbers have no word."""
    values = raw.dictionary if pa.types.is_dictionary(raw.type) else raw
    if not pa.types.is_floating(values.type):
        return word_of
    limit = LARGEST_WHOLE_BY_BITS[values.type.bit_width]

    def word(value: Any) -> str:
        return "" if limit <= abs(value) < math.inf else word_of(value)

    sizes = np.abs(values.drop_null().to_numpy(zero_copy_only=False))
    doubtful = sizes[(sizes >= limit) & (sizes < math.inf)]
    if len(doubtful):
        warn_caller(
            f"column {name!r} holds {doubtful[0]:.17g} as a floating-point number, which may have been another whole "
            "number (pandas makes floats of a column with a missing value): such values belong to no category; read "
            "the column as text, or as Int64"
        )
    return word


def numbers_in(raw: Any, decimal: str = ".") -> tuple[Floats, NDArray[Any]]:
    """The numbers of a column, NaN where there is none, and which values are missing."""
    kind = raw.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = raw.cast("float64", safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
        values = np.where(np.isfinite(values), values, np.nan)
        missing = raw.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        return values, np.asarray(missing, bool)

    def one_by_one(others: Any) -> tuple[Floats, NDArray[Any]]:
        found, missing = by_distinct_value(others, lambda value: (number_of(value, decimal),), 1)
        return found[:, 0], missing

    return _plain_and_others(raw, lambda cells: plain_numbers(cells, decimal), one_by_one)


def _plain_and_others(
    raw: Any,
    read_plain: Callable[[Any], tuple[NDArray[Any], NDArray[Any]]],
    read_others: Callable[[Any], tuple[NDArray[Any], NDArray[Any]]],
) -> tuple[NDArray[Any], NDArray[Any]]:
    """The values of a column and which are missing: plain text is read by Arrow, all others by Python."""
    if (cells := text_of(raw)) is None:
        return read_others(raw)
    values, plain = read_plain(cells)
    values, missing = values.copy(), np.zeros(len(raw), bool)
    if not plain.all():
        values[~plain], missing[~plain] = read_others(cells.filter(pa.array(~plain)))
    return values, missing


def instants_in(raw: Any, order: str = YEAR_FIRST) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """The moments of a column in microseconds since 1970, which values are missing, and which are not moments."""
    if pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type):
        moments = raw.cast(pa.timestamp("us", getattr(raw.type, "tz", None)), safe=False).cast("int64")
        missing = np.asarray(raw.is_null().to_numpy(zero_copy_only=False), bool)
        values = moments.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return values, missing, np.zeros(len(values), bool)

    def one_by_one(others: Any) -> tuple[NDArray[np.int64], NDArray[Any]]:
        def in_two_floats(value: Any) -> tuple[float, float]:  # which are exact
            moment = moment_of(value, order)
            since = timedelta() if moment is None else moment - datetime(1970, 1, 1)
            return math.nan if moment is None else since.days, since.seconds * 1_000_000 + since.microseconds

        parts, missing = by_distinct_value(others, in_two_floats, 2)
        none = np.isnan(parts[:, 0])
        whole = np.where(none[:, None], 0, parts).astype(np.int64)
        return np.where(none, NO_MOMENT, whole[:, 0] * MICROSECONDS_PER_DAY + whole[:, 1]), missing

    values, missing = _plain_and_others(raw, lambda cells: plain_moments(cells, order), one_by_one)
    none = values == NO_MOMENT
    return np.where(none, 0, values), missing, none & ~missing


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
        table = pa.table(table)
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
    if isinstance(column, pa.ChunkedArray):
        return pa.concat_arrays(column.unify_dictionaries().chunks or [pa.array([], column.type)])
    if isinstance(column, str | bytes) or not hasattr(column, "__len__") or len(getattr(column, "shape", (0,))) != 1:
        raise TypeError(f"column {name!r} must be a list or an array of values, not {shortened(column)}")
    return column if isinstance(column, pa.Array) else arrow_array(column)


def arrow_array(values: Any) -> Any:
    """A list or a column of a data frame as an Arrow array; the form of each value does not depend on the others.

    Lists of several types become words, which stand for the same numbers, categories and dates as the values.
    """
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
    missing = values.isna() if hasattr(values, "isna") else (value is None or value != value for value in values)
    known = [None if absent else value for value, absent in zip(values, missing, strict=True)]
    kinds = {type(value) for value in known if value is not None}
    for alike in (int, float):
        if kinds == {alike}:
            with suppress(OverflowError, pa.ArrowInvalid):
                return pa.array(known, pa.int64() if alike is int else pa.float64())
    if (odd := what_cells_hold(kinds)) is not None:  # the type suffices for the error that names the column
        return pa.nulls(len(known), pa.binary() if odd == "bytes" else pa.list_(pa.null()))
    return pa.array([None if value is None else word_of(value) for value in known], pa.string())


def _plain_text(values: Any) -> Any:
    """Values as an Arrow array, if all are ASCII text, which has one form; None otherwise."""
    with suppress(pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        array = pa.array(values, from_pandas=True)
        if pa.types.is_string(array.type) and pc.all(pc.string_is_ascii(array)).as_py():
            return array.combine_chunks() if isinstance(array, pa.ChunkedArray) else array
    return None
