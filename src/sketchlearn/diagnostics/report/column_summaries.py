"""What the sketch's histograms tell of each column of the table, in the table's own terms."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import Histograms
from sketchlearn.queries import Histogram, LevelShares, Questions
from sketchlearn.schemas import Category, Column, Date, Flag, Ordinal, SchemaColumns, Text
from sketchlearn.sketch import Sketch

BINS = 24  # of a histogram, at most


@dataclass(frozen=True)
class ColumnSummary:
    """One column of the table: its name, what it is in words, and what the sketch's histograms tell of it, if any."""

    name: str
    kind: str
    told: Histogram | LevelShares | None = None


def table_columns(operator: Any) -> tuple[str, ...]:
    """The columns of the table that a sketch is of."""
    columns = operator.columns
    return columns.schema.names if isinstance(columns, SchemaColumns) else operator.column_names


def column_summaries(sketch: Sketch) -> Iterator[ColumnSummary]:
    """The columns in their order; without histograms, their names and kinds alone."""
    operator: Any = sketch.operator
    counts = part_of(sketch, Histograms)
    ask = None if counts is None else Questions(counts)
    schema = operator.columns.schema.columns if isinstance(operator.columns, SchemaColumns) else None
    for i, name in enumerate(table_columns(operator)):
        kind = "number" if schema is None else kind_in_words(schema[i])
        hashed = schema is not None and isinstance(column := schema[i], Text) and column.n_words
        yield ColumnSummary(name, kind, None if ask is None or hashed else ask.marginal(i, BINS))


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
