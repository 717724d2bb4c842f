"""Values as tables hold them: the same value has one form, whatever library, file or type it comes from."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Iterable
from datetime import datetime, timedelta
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.schemas.plain_text import plain_moments, plain_numbers, text_of
from sketchlearn.schemas.written_dates import YEAR_FIRST, moment_of
from sketchlearn.schemas.written_numbers import number_of

Floats = NDArray[np.float64]

#: words that stand for a missing value, in any case: those that pandas and Arrow read so, and signs for "none"
MISSING_WORDS = frozenset(
    ("", "na", "n/a", "nan", "null", "none", "<na>", "#na", "#n/a", "#n/a n/a", "-nan", "nat", "-", "--", "?",
     "1.#ind", "-1.#ind", "1.#qnan", "-1.#qnan", "#null!")
)  # fmt: skip
#: types of cells that are no single number, word or date, and what such columns hold
NO_SINGLE_VALUES = {
    list: "lists", tuple: "tuples", dict: "records", set: "sets", frozenset: "sets", np.ndarray: "arrays",
    bytes: "bytes", bytearray: "bytes", memoryview: "bytes",
}  # fmt: skip
MICROSECONDS_PER_DAY = 86_400_000_000
LARGEST_WHOLE = 2.0**53  # Up to here, whole numbers are the same as int and as float.
LARGEST_WHOLE_BY_BITS = {16: 2.0**11, 32: 2.0**24, 64: LARGEST_WHOLE}  # The same for floats of so many bits.


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
    """Whether a value says that there is none.

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
    """`encode` of each value, called once for each distinct one, and which values are missing; those have NaN.

    Words that are known are not missing.
    """
    import pyarrow as pa

    coded = raw if pa.types.is_dictionary(raw.type) else raw.dictionary_encode()
    values, nothing = _values_in(coded.dictionary), (math.nan,) * width
    gone = [is_missing(value) and not is_known(value) for value in values]
    encoded = [nothing if gap else encode(value) for value, gap in zip(values, gone, strict=True)]
    table, absent = np.array([*encoded, nothing], np.float64), np.array([*gone, True])
    codes = coded.indices.cast("int64").fill_null(len(values)).to_numpy(zero_copy_only=False)
    return table[codes], absent[codes]


def _values_in(array: Any) -> list[Any]:
    """Python's values of an Arrow array; None for those that Python has none for, such as dates after the year 9999."""

    def value_of(scalar: Any) -> Any:
        try:
            return scalar.as_py()
        except (OverflowError, ValueError):
            return None

    try:
        return array.to_pylist()  # type: ignore[no-any-return]
    except (OverflowError, ValueError):
        return [value_of(scalar) for scalar in array]


def what_cells_hold(kinds: Iterable[type]) -> str | None:
    """What cells of these types hold, if some are no single values.

    >>> what_cells_hold([int, str]), what_cells_hold([str, list]), what_cells_hold([bytes])
    (None, 'lists', 'bytes')
    """
    found = (word for kind in kinds for odd, word in NO_SINGLE_VALUES.items() if issubclass(kind, odd))
    return next(found, None)


def remedy_for_cells(word: str) -> str:
    """What can be done about a column of no single values."""
    return "decode them to text first" if word == "bytes" else "make columns of what is in them"


def check_single_values(name: str, raw: Any) -> None:
    """Refuses a column whose cells are lists, records or bytes."""
    import pyarrow as pa

    kind = raw.type
    is_bytes = pa.types.is_binary(kind) or pa.types.is_large_binary(kind) or pa.types.is_fixed_size_binary(kind)
    if is_bytes or pa.types.is_nested(kind):
        word, wanted = ("bytes", "text") if is_bytes else ("lists or records", "single values")
        raise ValueError(
            f"column {name!r} holds {word}, not {wanted}: {remedy_for_cells(word)}, or leave the column out"
        )


def words_for_levels(name: str, raw: Any) -> Callable[[Any], str]:
    """`word_of`, but no word for floats that may have been other whole numbers before they became floats."""
    import pyarrow as pa

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
            "number (pandas makes floats of a column with a missing value): such values count as no level; read the "
            "column as text, or as Int64"
        )
    return word


def numbers_in(raw: Any, decimal: str = ".") -> tuple[Floats, NDArray[Any]]:
    """The numbers of a column, NaN where it holds none, and which values are missing."""
    import pyarrow as pa

    kind = raw.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = raw.cast("float64", safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
        values = np.where(np.isfinite(values), values, np.nan)
        missing = raw.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        return values, np.asarray(missing, bool)
    values, missing = np.full(len(raw), np.nan), np.zeros(len(raw), bool)
    rest = np.ones(len(raw), bool)
    if (cells := text_of(raw)) is not None:
        values, read = plain_numbers(cells, decimal)
        raw, values, rest = cells, np.where(read, values, np.nan), ~read
    if rest.any():
        others = raw.filter(pa.array(rest))
        found, missing[rest] = by_distinct_value(others, lambda value: (number_of(value, decimal),), 1)
        values[rest] = found[:, 0]
    return values, missing


def instants_in(raw: Any, order: str = YEAR_FIRST) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """The moments of a column in microseconds since 1970, which values are missing, and which are no moments."""
    import pyarrow as pa

    if pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type):
        moments = raw.cast(pa.timestamp("us", getattr(raw.type, "tz", None)), safe=False).cast("int64")
        missing = np.asarray(raw.is_null().to_numpy(zero_copy_only=False), bool)
        values = moments.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return values, missing, np.zeros(len(values), bool)
    values, missing, odd = np.zeros(len(raw), np.int64), np.zeros(len(raw), bool), np.zeros(len(raw), bool)
    rest = np.ones(len(raw), bool)
    if (cells := text_of(raw)) is not None:
        moments, read = plain_moments(cells, order)
        raw, values, rest = cells, np.where(read, moments, 0), ~read
    if rest.any():
        others = raw.filter(pa.array(rest))
        values[rest], missing[rest], odd[rest] = _instants_one_by_one(others, order)
    return values, missing, odd


def _instants_one_by_one(raw: Any, order: str) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """The same, of values in any form that `moment_of` reads."""
    parts, missing = by_distinct_value(raw, lambda value: _days_and_microseconds(moment_of(value, order)), 2)
    odd = np.isnan(parts[:, 0]) & ~missing
    whole = np.where(np.isnan(parts), 0, parts).astype(np.int64)
    return whole[:, 0] * MICROSECONDS_PER_DAY + whole[:, 1], missing, odd


def _days_and_microseconds(moment: datetime | None) -> tuple[float, ...]:
    """A moment in two numbers that floats hold exactly."""
    if moment is None:
        return (math.nan, math.nan)
    since = moment - datetime(1970, 1, 1)
    return float(since.days), float((since - timedelta(days=since.days)) // timedelta(microseconds=1))
