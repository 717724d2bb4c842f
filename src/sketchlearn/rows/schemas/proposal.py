"""Schemas proposed from samples."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.messages import steers
from sketchlearn.rows.lazy_pyarrow import pa
from sketchlearn.rows.schemas.cell_values import (
    MICROSECONDS_PER_DAY,
    check_single_values,
    instants_in,
    is_missing,
    numbers_in,
    word_of,
)
from sketchlearn.rows.schemas.columns import (
    DROP,
    INDICATE,
    MOST_LEVELS,
    NO_WORDS,
    YES_WORDS,
    Category,
    Column,
    Date,
    Flag,
    Number,
    Ordinal,
)
from sketchlearn.rows.schemas.table_schema import Schema
from sketchlearn.rows.schemas.text import (
    DAY_FIRST,
    DECIMALS,
    DOUBTFUL,
    MONTH_FIRST,
    ORDERS,
    SHORT_YEAR,
    YEAR_FIRST,
    moment_of,
    number_of,
)
from sketchlearn.rows.source_base import Source, no_names

MOST_CATEGORIES = 50  # Text with more different words is not proposed as a category.
RAREST_CATEGORY = 0.005  # Proportion of the rows below which a value counts as other.
MOST_DISTINCT = 0.5  # Proportion of the rows: text with more different values is not a category.
LEAST_PARSED = 0.95  # Proportion of the known values: a column with fewer numbers (dates) is text.
LARGEST_VARIANCE = 1e200  # Cubes of numbers with a larger one may be infinite.
HEAVY_TAIL = 3.0  # Skewness beyond which the logarithm is taken, if it is less skewed.
FEW_ROWS = 20  # With fewer rows, no column is taken for an identifier.
LEAST_DISTINCT_IDS = 0.9  # Proportion of the rows with an id of their own, in a column of identifiers.
ID_NAME = re.compile(r"(id|ids|key|nr|no|number|nummer|index|row|unnamed: \d+)$")
CODE = re.compile(r"0\d+")  # A number is not written with zeros in front.
CODE_NAME = re.compile(r"(^|[ _])(zip|zip.?code|plz|postleitzahl|post.?code|postal.?code)$")
UNITS = "%\u20ac$\u00a3\u00a5 \u00a0"  # Of a number in text, before or after it.
MOST_WEIGHT = 2.0  # With this weight a boolean that is half true varies as much as a standardised number.
MOST_ORDINAL_WEIGHT = 3.464  # With this weight, equally frequent ordered categories do.
#: words for yes and for no that go together: those of many programs, then of some languages
BOOLEANS = (
    (YES_WORDS, NO_WORDS),
    (("ja", "j", "wahr"), ("nein", "nee", "nej", "nei", "n", "falsch")),
    (("oui", "vrai"), ("non", "faux")),
    (("s\u00ed", "si", "s\u00ec", "verdadero", "vero"), ("no", "falso")),
    (("sim", "verdadeiro"), ("n\u00e3o", "nao", "falso")),
    (("tak", "prawda"), ("nie", "fa\u0142sz")),
    (("on",), ("off",)),
)


def proposed(table: Any) -> Schema:
    """The schema proposed for an Arrow table."""
    found: list[Column] = []
    left_out, taken = [], dict[str, str]()
    for name in table.column_names:
        kind = "has no name" if not name.strip() else _kind(name, table.column(name).combine_chunks())
        if isinstance(kind, Column):
            twice = next((number for number in kind.encoded_names if number in taken), None)
            if twice is not None:
                kind = f"{twice!r} is also a number of column {taken[twice]!r}: rename one of them"
        if isinstance(kind, Column):
            found.append(kind)
            taken |= dict.fromkeys(kind.encoded_names, name)
        else:
            left_out.append((name, kind))
    if not found:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out[:5])
        raise ValueError(f"no column can be used ({reasons}): write a schema by hand")
    schema = Schema(tuple(found), tuple(left_out), proposed=True)
    odd = schema.encode(table)[1]
    return replace(schema, unlisted=tuple((name, _rounded(n / len(table))) for name, n in odd.items()))


def _kind(name: str, raw: Any) -> Column | str:
    try:
        check_single_values(name, raw)
    except ValueError as error:
        return str(error).removeprefix(f"column {name!r} ")
    if pa.types.is_duration(raw.type) or pa.types.is_time(raw.type):
        what, unit = ("durations", "days") if pa.types.is_duration(raw.type) else ("times of day", "hours")
        return f"holds {what}: turn them into numbers, such as {unit}"
    if pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type):
        there = len(raw) - raw.null_count
        return _date(name, raw, DROP if there == len(raw) else INDICATE) if there else "has no values in the sample"
    words = _words_in(raw)
    there = words.total()
    missing = DROP if there == len(raw) else INDICATE
    if not there:
        return "has no values in the sample"
    if len(words) == 1:
        return f"is always {next(iter(words))!r}"
    known = {word.casefold() for word in words}
    for yes, no in BOOLEANS:
        if known <= {*yes, *no} and known & {*yes} and known & {*no}:
            return Flag(name, yes=yes, no=no, weight=MOST_WEIGHT, missing=missing)
    declared = pa.types.is_dictionary(raw.type)
    if declared and raw.type.ordered:
        return _ordinal(name, raw.dictionary.to_pylist(), words, missing)
    if declared and not pa.types.is_string(raw.type.value_type) and not pa.types.is_large_string(raw.type.value_type):
        return _category(name, words, missing, "a category")
    # whole numbers may be names, such as postal codes: some have zeros in front, or the column is called so
    whole = all(word.isdecimal() for word in words)
    if whole and (any(map(CODE.fullmatch, words)) or CODE_NAME.search(name.casefold())):
        return _category(name, words, missing, "a code, not a number,")
    return _number_or_date(name, raw, words, missing) or _category(name, words, missing, "text")


def _words_in(raw: Any) -> Counter[str]:
    """The frequency of each word of a column, in the order of first occurrence."""
    words = Counter[str]()
    counts = (raw.dictionary_decode() if pa.types.is_dictionary(raw.type) else raw).value_counts()
    for value, n in zip(counts.field(0).to_pylist(), counts.field(1).to_pylist(), strict=True):
        if not is_missing(value):
            words[word_of(value)] += n
    return words


def _number_or_date(name: str, raw: Any, words: Counter[str], missing: str) -> Column | str | None:
    """A number or a date, or why it may be one but is left out; None for text."""
    there = words.total()
    if pa.types.is_integer(raw.type) or pa.types.is_floating(raw.type) or pa.types.is_decimal(raw.type):
        values = numbers_in(raw)[0]
        values = values[~np.isnan(values)]
        return _number(name, values, missing if len(values) == there else INDICATE, ".")
    doubtful = {word for word in words if DOUBTFUL["."].fullmatch(word)}
    sure = any("," in word for word in words.keys() - doubtful)  # of the comma: 1,234 alone may be thousands
    for decimal in DECIMALS if sure else ".":
        if not _mostly(words, partial(_is_number, decimal=decimal)):
            continue
        values = numbers_in(raw, decimal)[0]
        values = values[~np.isnan(values)]
        if len(values) >= LEAST_PARSED * there:
            return _number(name, values, missing if len(values) == there else INDICATE, decimal)
    if doubtful and sum(n for word, n in words.items() if word in doubtful or _is_number(word)) >= LEAST_PARSED * there:
        either = "may be a thousand and more, or have a decimal comma"
        return f"{min(doubtful)!r} {either}: take the commas out, or state a decimal comma in the schema"
    if _mostly(words, lambda word: _is_number(word.strip(UNITS)) or _is_number(word.strip(UNITS), ",")):
        with_unit = min((word for word in words if word.strip(UNITS) != word), default=None)
        if with_unit is not None:
            return f"{with_unit!r} is a number with a unit: take the unit out"
        point, comma = (min(word for word in words if not _is_number(word, sign)) for sign in (",", "."))
        return f"has numbers with points and with commas, {point!r} and {comma!r}: write them in one form"
    order = _order(words)
    return _date(name, raw, missing, order) if order in ORDERS else order


def _mostly(words: Counter[str], is_one: Callable[[str], bool]) -> bool:
    """Whether nearly all values are of a kind; it stops at the word that decides against it."""
    there, others = words.total(), 0
    for word, n in words.items():
        others += 0 if is_one(word) else n
        if there - others < LEAST_PARSED * there:
            return False
    return True


def _is_number(word: str, decimal: str = ".") -> bool:
    return not math.isnan(number_of(word, decimal))


def _ordinal(name: str, values: list[Any], words: Counter[str], missing: str) -> Column | str:
    levels = list(dict.fromkeys(word_of(value) for value in values if not is_missing(value)))
    if len(levels) > MOST_LEVELS:
        return f"has {len(levels):,} ordered categories, more than {MOST_LEVELS:,}"
    places = np.repeat([levels.index(word) / (len(levels) - 1) for word in words], list(words.values()))
    weight = _rounded(min(MOST_ORDINAL_WEIGHT, 1 / float(np.std(places))))
    return Ordinal(name, tuple(levels), weight=weight, missing=missing)


def _number(name: str, values: NDArray[Any], missing: str, decimal: str) -> Column | str:
    if not len(values):
        return "holds only infinite numbers"
    if not np.isfinite(np.var(values)):
        return "holds numbers that are too large to be standardised"
    whole, n_distinct = np.all(values == np.rint(values)), len(np.unique(values))
    if whole and len(values) > FEW_ROWS and n_distinct == len(values) and np.all(np.abs(np.diff(values)) == 1):
        return "numbers the rows"
    mostly_distinct = whole and len(values) > FEW_ROWS and n_distinct >= LEAST_DISTINCT_IDS * len(values)
    if mostly_distinct and ID_NAME.search(name.casefold()):
        return "is different in nearly every row: an identifier"
    skewed = values.min() >= 0 and _skewness(values) > max(HEAVY_TAIL, abs(_skewness(np.log1p(values))))
    taken = np.log1p(values) if skewed else values
    center, width = _standard(taken)
    scaling = "log" if skewed else "standard"
    return Number(name, scaling=scaling, center=center, width=width, missing=missing, decimal=decimal)


def _order(words: Counter[str]) -> str | None:
    """The order in which dates are written, or why it is unknown; None for text without dates."""
    if _mostly(words, lambda word: moment_of(word) is not None):
        return YEAR_FIRST
    short = next((word for word in words if SHORT_YEAR.fullmatch(word)), None)
    if short is not None:
        return f"{short!r} has two digits for the year: write all four"
    if not _mostly(words, lambda word: any(moment_of(word, order) for order in (DAY_FIRST, MONTH_FIRST))):
        return None
    read = {order: {w for w in words if moment_of(w, order)} for order in ORDERS}
    by_day, by_month = read[DAY_FIRST] - read[MONTH_FIRST], read[MONTH_FIRST] - read[DAY_FIRST]
    if by_day and by_month:
        return f"has dates in two orders, {min(by_day)!r} and {min(by_month)!r}: write them in one"
    either = min(read[DAY_FIRST] - read[YEAR_FIRST])
    if by_day or (not by_month and "." in either):  # between points, the day comes first wherever points are used
        return DAY_FIRST
    if by_month:
        return MONTH_FIRST
    return f"{either!r} may have the day or the month first: state the order in the schema"


def _date(name: str, raw: Any, missing: str, order: str = YEAR_FIRST) -> Column | str:
    moments, absent, odd = instants_in(raw, order)
    days = moments[~(absent | odd)] / MICROSECONDS_PER_DAY
    if days.min() == days.max():
        return "is always the same date"
    center, width = _standard(days)
    return Date(name, center=center, width=width, missing=INDICATE if odd.any() else missing, order=order)


def _category(name: str, words: Counter[str], missing: str, what: str) -> Column | str:
    there = words.total()
    if len(words) > MOST_DISTINCT * there and there > FEW_ROWS:
        return f"is {what} that hardly repeats ({len(words):,} different values)"
    common = [(word, n) for word, n in words.most_common() if n >= RAREST_CATEGORY * there]
    if (len(words) > MOST_CATEGORIES and len(common) > MOST_CATEGORIES) or not common:
        return f"is {what} of {len(words):,} different values"
    common = sorted(common, key=lambda pair: (-pair[1], pair[0]))
    proportions = [n / there for _, n in common]
    if (odd := next((word for word, _ in common if steers(word)), None)) is not None:
        return f"{odd!r} has control characters, which could steer a terminal: take them out"
    if len(common) == 1 and proportions[0] > 1 - RAREST_CATEGORY and missing == DROP:
        return f"is nearly always {common[0][0]!r}"
    # with this weight a category varies as much as a standardised number: its numbers have 1 - sum of squares
    variance = 1 - sum(p**2 for p in [*proportions, 1 - sum(proportions)])
    weight = _rounded(min(MOST_WEIGHT, 1 / math.sqrt(max(variance, 1e-9))))
    return Category(name, tuple(word for word, _ in common), weight=weight, missing=missing)


def _skewness(values: Any) -> float:
    away = values - np.mean(values)
    spread = float(np.mean(away**2))
    if spread > LARGEST_VARIANCE:
        return _skewness(values * 2.0**-400)
    return float(np.mean(away**3)) / spread**1.5 if spread > 0 else 0.0


def _standard(values: Any) -> tuple[float, float]:
    """Mean and standard deviation, to a few digits of the latter: people read and edit schemas."""
    width = _rounded(float(np.std(values))) or 1.0
    step = 10.0 ** (math.floor(math.log10(width)) - 3)
    return float(f"{round(float(np.mean(values)) / step) * step:.12g}"), width


def _rounded(value: float) -> float:
    """To four digits: people read and edit schemas."""
    return float(f"{value:.4g}")


MOST_ROWS = 100_000  # of a sample from which a schema is proposed


def proposed_schema(rows: Source) -> Schema:
    """The schema proposed for the first rows of a source."""
    if not rows.replayable:
        raise ValueError("a schema is proposed from rows that can be read again: save the stream to a file first")
    pieces, n_rows = list[dict[str, Any]](), 0
    if rows.columns is None:
        raise no_names(())
    for raw in rows.raw_columns(rows.columns, points=True):
        pieces.append({name: values[: MOST_ROWS - n_rows] for name, values in raw.items()})
        n_rows += len(next(iter(pieces[-1].values())))
        if n_rows >= MOST_ROWS:
            break
    if not n_rows:
        raise ValueError("there are no rows to propose a schema from")
    return proposed(pa.table({name: _joined([piece[name] for piece in pieces]) for name in rows.columns}))


def _joined(pieces: list[Any]) -> Any:
    """Concatenated arrays; those of several types as words, which stand for the same values."""
    types = {piece.type for piece in pieces if not pa.types.is_null(piece.type)} or {pa.null()}
    if len(types) == 1:
        kind = types.pop()
        alike = [pa.nulls(len(piece), kind) if pa.types.is_null(piece.type) else piece for piece in pieces]
        return pa.chunked_array(alike, kind).unify_dictionaries()
    values = (value for piece in pieces for value in piece.to_pylist())
    return pa.array([None if value is None else word_of(value) for value in values], pa.string())
