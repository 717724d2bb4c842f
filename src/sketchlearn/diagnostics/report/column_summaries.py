"""What the sketch's histograms tell of each column of the table, in the table's own terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import Histograms
from sketchlearn.queries import Histogram, Questions
from sketchlearn.queries.column_histograms import Counted
from sketchlearn.schemas import Category, Date, Flag, Number, Ordinal, SchemaColumns, Text
from sketchlearn.schemas.column_kinds import INDICATE, Column
from sketchlearn.sketch import Sketch

BINS = 24  # of a histogram, at most


@dataclass(frozen=True)
class ColumnSummary:
    """One column of the table.

    Attributes
    ----------
    name : of the column.
    kind : what it is, in words.
    histogram : of numbers and dates (in days since 1970): shares of all records, between edges in the table's unit.
    dates : whether the edges are days.
    levels : of flags, categories and orders: the share of each, the largest first unless they have an order.
    missing : share of the records without a value, where the schema says so.
    """

    name: str
    kind: str
    histogram: Histogram | None = None
    dates: bool = False
    levels: tuple[tuple[str, float], ...] = ()
    missing: float | None = None


def table_columns(operator: Any) -> tuple[str, ...]:
    """The columns of the table that a sketch is of."""
    columns = operator.columns
    return columns.schema.names if isinstance(columns, SchemaColumns) else operator.column_names


def column_summaries(sketch: Sketch) -> Iterator[ColumnSummary]:
    """The columns in their order; without histograms, their names and kinds alone."""
    operator: Any = sketch.operator
    counts = part_of(sketch, Histograms)
    ask = None if counts is None else Questions(counts)
    if not isinstance(operator.columns, SchemaColumns):
        for i, name in enumerate(operator.column_names):
            yield ColumnSummary(name, "number", None if ask is None else ask.marginal(i, BINS))
        return
    position = 0
    for column in operator.columns.schema.columns:
        yield _of_kind(column, position, counts)
        position += len(column.encoded_names)


def _of_kind(column: Column, position: int, counts: Sketch | None) -> ColumnSummary:
    """A column of a schema, whose numbers begin at a position."""
    plain = ColumnSummary(column.name, kind_in_words(column))
    if counts is None:
        return plain
    ask = Questions(counts)
    if column.missing == INDICATE:
        gap = position + len(column.own_names)
        plain = replace(plain, missing=_share_above(counts, gap, column.weight_of_gap / 2))
    if isinstance(column, Flag):
        yes = _share_above(counts, position, 0.75 * column.weight)
        rest = 1 - yes - (plain.missing or 0.0)
        return replace(plain, levels=(("yes", yes), ("no", max(rest, 0.0))))
    if isinstance(column, Category):
        half = column.weight / 2
        shares = [(word, _share_above(counts, position + i, half)) for i, word in enumerate(column.words)]
        return replace(plain, levels=tuple(sorted(shares, key=lambda pair: -pair[1])))
    if isinstance(column, Ordinal):
        step = column.weight / (len(column.levels) - 1)
        ends = (np.arange(len(column.levels) + 1) - 0.5) * step
        shares_of_levels = _without_gaps(ask.marginal(position, ends), column, plain.missing).shares
        return replace(plain, levels=tuple(zip(column.levels, map(float, shares_of_levels), strict=True)))
    if isinstance(column, Text) and column.n_words:
        return plain
    found = _without_gaps(ask.marginal(position, BINS), column, plain.missing)
    return replace(plain, histogram=replace(found, edges=plain_values(column, found.edges)), dates=_is_date(column))


def kind_in_words(column: Column) -> str:
    """What a column of a schema is, for readers who do not know of encodings."""
    if isinstance(column, Category):
        return "category"
    if isinstance(column, Flag):
        return "yes or no"
    if isinstance(column, Ordinal):
        return "ordered levels"
    if isinstance(column, Date):
        return "date"
    if isinstance(column, Text):
        return "text, by its words" if column.n_words else "text, by its length"
    return "number"


def plain_values(column: Column, numbers: Double) -> Double:
    """Numbers that stand for values of a column, in the table's unit: of dates days since 1970, of text lengths."""
    if isinstance(column, Number):
        return column.plain(numbers)
    if isinstance(column, Date):
        return numbers * column.width + column.center
    if isinstance(column, Text) and not column.n_words:
        return np.expm1(np.minimum(numbers / column.weight, 700.0))
    return numbers


def _is_date(column: Column) -> bool:
    return isinstance(column, Date)


def _share_above(counts: Sketch, position: int, threshold: float) -> float:
    """The share of the records whose number lies above a threshold.

    Those beyond the last bin do so, even if that ends below the threshold: a level that the design's sample had not.
    """
    counted = Counted.of(counts, position)
    low, last = min(threshold, float(counted.edges[-1])), float(counted.edges[-1])
    shares, _, _ = counted.histogram(np.array([low, 2 * threshold + abs(last)]))
    return float(np.clip(shares[0], 0, 1))


def _without_gaps(found: Histogram, column: Column, missing: float | None) -> Histogram:
    """The histogram without records that lack the value, which count where the typical one is."""
    if not missing:
        return found
    where = int(np.searchsorted(found.edges, column.typical_numbers[0], side="right")) - 1
    if not 0 <= where < len(found.shares):
        return found
    shares = found.shares.copy()
    shares[where] = max(shares[where] - missing, 0.0)
    return replace(found, shares=shares)
