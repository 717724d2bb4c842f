"""Values as tables hold them: the same value has one form, whatever library, file or type it comes from."""

from __future__ import annotations

import math
import unicodedata
from collections.abc import Callable, Container
from datetime import UTC
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]

#: words that stand for a missing value, unless they are levels: those that pandas reads so
MISSING_WORDS = frozenset(
    ("", "#N/A", "#NA", "-NaN", "-nan", "<NA>", "N/A", "NA", "NULL", "NaN", "None", "n/a", "nan", "null", "na", "none")
)
TRUTHS = {"true": 1.0, "false": 0.0}  # True is 1 in a column of numbers, also where words are among them.
MICROSECONDS_PER_DAY = 86_400_000_000
LARGEST_WHOLE = 2.0**53  # Up to here, whole numbers are the same as int and as float.


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


def number_of(value: Any) -> float:
    """A value as a number; NaN if it is none."""
    if isinstance(value, str) and value.strip().casefold() in TRUTHS:
        return TRUTHS[value.strip().casefold()]
    try:
        found = float(value)
    except (TypeError, ValueError, OverflowError):
        return math.nan
    return found if math.isfinite(found) and not (isinstance(value, str) and "_" in value) else math.nan


def is_missing(value: Any) -> bool:
    """Whether a value says that there is none."""
    if isinstance(value, float):
        return math.isnan(value)
    return value is None or (isinstance(value, str) and value.strip() in MISSING_WORDS)


def by_distinct_value(
    raw: Any, encode: Callable[[Any], tuple[float, ...]], width: int, known: Container[str] = ()
) -> tuple[Floats, NDArray[Any]]:
    """`encode` of each value, called once for each distinct one, and which values are missing; those have NaN.

    Words that are `known` are not missing.
    """
    import pyarrow as pa

    coded = raw if pa.types.is_dictionary(raw.type) else raw.dictionary_encode()
    values = coded.dictionary.to_pylist()
    absent = np.array([*(is_missing(value) and word_of(value) not in known for value in values), True])
    table = np.full((len(values) + 1, width), np.nan)
    for i, value in enumerate(values):
        if not absent[i]:
            table[i] = encode(value)
    codes = coded.indices.cast("int64").fill_null(len(values)).to_numpy(zero_copy_only=False)
    return table[codes], absent[codes]


def numbers_in(raw: Any) -> tuple[Floats, NDArray[Any]]:
    """The numbers of a column, NaN where it holds none, and which values are missing."""
    import pyarrow as pa

    kind = raw.type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind):
        values = raw.cast("float64", safe=False).to_numpy(zero_copy_only=False).astype(np.float64)
        values = np.where(np.isfinite(values), values, np.nan)
        missing = raw.is_null(nan_is_null=True).to_numpy(zero_copy_only=False)
        return values, np.asarray(missing, bool)
    found, missing = by_distinct_value(raw, lambda value: (number_of(value),), 1)
    return found[:, 0], missing


def instants_in(raw: Any) -> tuple[NDArray[np.int64], NDArray[Any], NDArray[Any]]:
    """The moments of a column in microseconds since 1970, which values are missing, and which are no moments."""
    import pyarrow as pa

    if pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type):
        moments = raw.cast(pa.timestamp("us", getattr(raw.type, "tz", None)), safe=False).cast("int64")
        missing = np.asarray(raw.is_null().to_numpy(zero_copy_only=False), bool)
        values = moments.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
        return values, missing, np.zeros(len(values), bool)
    parts, missing = by_distinct_value(raw, _days_and_microseconds, 2)
    odd = np.isnan(parts[:, 0]) & ~missing
    whole = np.where(np.isnan(parts), 0, parts).astype(np.int64)
    return whole[:, 0] * MICROSECONDS_PER_DAY + whole[:, 1], missing, odd


def _days_and_microseconds(value: Any) -> tuple[float, ...]:
    """A date in ISO's form, in two numbers that floats hold exactly."""
    from datetime import date, datetime, timedelta

    try:
        moment = value if isinstance(value, date) else datetime.fromisoformat(str(value).strip())
    except ValueError:
        return (math.nan, math.nan)
    if not isinstance(moment, datetime):
        moment = datetime(moment.year, moment.month, moment.day)
    if moment.tzinfo is not None:
        try:
            moment = moment.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:  # before the year 1, or after 9999
            return (math.nan, math.nan)
    since = moment - datetime(1970, 1, 1)
    return float(since.days), float((since - timedelta(days=since.days)) // timedelta(microseconds=1))
