"""`schema`: what the columns of a sample seem to be."""

from __future__ import annotations

import math
import re
from collections import Counter
from typing import Any

import numpy as np

from sketchlearn.schemas.column_kinds import DROP, INDICATE, NO_WORDS, YES_WORDS, Category, Column, Flag, Number
from sketchlearn.schemas.date_and_text import Date
from sketchlearn.schemas.raw_values import MICROSECONDS_PER_DAY, instants_in, is_missing, numbers_in, word_of
from sketchlearn.schemas.table_schema import Schema

MOST_PROPOSED_LEVELS = 50  # Text with more different words is not taken for a category.
RAREST_LEVEL = 0.005  # Share of the rows below which a level counts as other.
MOST_DISTINCT_SHARE = 0.5  # Of the rows: text that hardly repeats is no category.
PARSED_SHARE = 0.95  # Of the values that are there: a column that holds fewer numbers (dates) is text.
HEAVY_TAIL = 3.0  # Skewness beyond which the logarithm is taken, if it is less skewed.
FEW_ROWS = 20  # Of fewer, nothing is taken for an identifier.
ID_SHARE = 0.9  # Of the rows that have an id of their own, at least.
ID_NAME = re.compile(r"(id|ids|key|nr|no|number|nummer|index|row|unnamed: \d+)$")
MOST_WEIGHT = 2.0  # At this weight a flag that is half and half varies as much as a standardised number.


def proposed(table: Any) -> Schema:
    """The schema that an Arrow table suggests."""
    found, left_out = [], []
    for name in table.column_names:
        kind = "has no name" if not name.strip() else _kind(name, table.column(name).combine_chunks())
        if isinstance(kind, Column):
            found.append(kind)
        else:
            left_out.append((name, kind))
    if not found:
        reasons = "; ".join(f"{name}: {reason}" for name, reason in left_out[:5])
        raise ValueError(f"no column can be used ({reasons}): write a schema by hand")
    return Schema(tuple(found), tuple(left_out), proposed=True)


def _kind(name: str, raw: Any) -> Column | str:
    """What a column seems to be, or why it is left out."""
    import pyarrow as pa

    if pa.types.is_nested(raw.type) or pa.types.is_binary(raw.type):
        return f"holds {raw.type}, not single values"
    dated = pa.types.is_date(raw.type) or pa.types.is_timestamp(raw.type)
    words = Counter() if dated else Counter(word_of(v) for v in raw.to_pylist() if not is_missing(v))
    there = len(raw) - raw.null_count if dated else sum(words.values())
    if not there:
        return "has no values in the sample"
    missing = DROP if there == len(raw) else INDICATE
    if not dated and len(words) == 1:
        return f"is always {next(iter(words))!r}"
    if not dated and {word.casefold() for word in words} <= {*YES_WORDS, *NO_WORDS}:
        return Flag(name, weight=MOST_WEIGHT, missing=missing)
    if not dated:
        values = numbers_in(raw)[0]
        values = values[~np.isnan(values)]
        if len(values) >= PARSED_SHARE * there:
            return _number(name, values, missing if len(values) == there else INDICATE)
    if dated or _holds_dates(raw, there):
        return _date(name, raw, missing)
    return _category(name, words, there, missing)


def _number(name: str, values: Any, missing: str) -> Column | str:
    if not np.isfinite(np.var(values)):
        return "holds numbers that are too large to be standardised"
    whole, n_distinct = np.all(values == np.rint(values)), len(np.unique(values))
    if whole and len(values) > FEW_ROWS and n_distinct == len(values) and np.all(np.abs(np.diff(values)) == 1):
        return "numbers the rows"
    if whole and len(values) > FEW_ROWS and n_distinct >= ID_SHARE * len(values) and ID_NAME.search(name.casefold()):
        return "is different in nearly every row: an identifier"
    skewed = values.min() >= 0 and _skewness(values) > max(HEAVY_TAIL, abs(_skewness(np.log1p(values))))
    taken = np.log1p(values) if skewed else values
    center, width = _standard(taken)
    return Number(name, scaling="log" if skewed else "standard", center=center, width=width, missing=missing)


def _date(name: str, raw: Any, missing: str) -> Column | str:
    moments, gaps, odd = instants_in(raw)
    days = moments[~(gaps | odd)] / MICROSECONDS_PER_DAY
    if days.min() == days.max():
        return "is always the same date"
    center, width = _standard(days)
    return Date(name, center=center, width=width, missing=INDICATE if odd.any() else missing)


def _category(name: str, words: Counter[str], there: int, missing: str) -> Column | str:
    if len(words) > MOST_DISTINCT_SHARE * there and there > 20:
        return f"is text that hardly repeats ({len(words):,} different values)"
    common = [(word, n) for word, n in words.most_common() if n >= RAREST_LEVEL * there]
    if (len(words) > MOST_PROPOSED_LEVELS and len(common) > MOST_PROPOSED_LEVELS) or not common:
        return f"is text of {len(words):,} different values"
    common = sorted(common, key=lambda pair: (-pair[1], pair[0]))
    shares = [n / there for _, n in common]
    return Category(
        name, tuple(word for word, _ in common), weight=_weight([*shares, 1 - sum(shares)]), missing=missing
    )


def _weight(shares: list[float]) -> float:
    """The weight at which a category varies as much as a standardised number: its numbers have 1 - sum of squares."""
    spread = 1 - sum(share**2 for share in shares)
    return _rounded(min(MOST_WEIGHT, 1 / math.sqrt(max(spread, 1e-9))))


def _holds_dates(raw: Any, there: int) -> bool:
    _, gaps, odd = instants_in(raw)
    return int(np.count_nonzero(~(gaps | odd))) >= PARSED_SHARE * there


def _skewness(values: Any) -> float:
    away = values - np.mean(values)
    spread = float(np.mean(away**2))
    return float(np.mean(away**3)) / spread**1.5 if spread > 0 else 0.0


def _standard(values: Any) -> tuple[float, float]:
    """Mean and deviation, to a few digits of the deviation: a schema is read and edited by people."""
    width = _rounded(float(np.std(values))) or 1.0
    step = 10.0 ** (math.floor(math.log10(width)) - 3)
    return float(f"{round(float(np.mean(values)) / step) * step:.12g}"), width


def _rounded(value: float) -> float:
    """To four digits: a schema is read and edited by people."""
    return float(f"{value:.4g}")
