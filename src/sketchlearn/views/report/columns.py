"""The section about the data: a card for each column, with its histogram or the proportions of its categories."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.moments import part_of
from sketchlearn.questions.marginals import Histogram, LevelShares
from sketchlearn.questions.questions import Questions
from sketchlearn.rows.schemas.columns import Category, Column, Date, Flag, Ordinal, Text
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.sums import Sketch
from sketchlearn.views.templates import day, percent, rounded

BINS = 24  # of a histogram, at most
MOST_COLUMNS = 60  # More cards would hide the rest of the page.
MOST_LEVELS = 8  # of a categorical column; the others are added up
LEAST_BEYOND = 0.001  # The share of records beyond all bins that is worth a line.
KINDS = {Category: "category", Flag: "yes or no", Ordinal: "ordered levels", Date: "date"}


@dataclass(frozen=True)
class ColumnSummary:
    """One column of the table: its name, its kind in words, and what the sketch's histograms say of it, if any."""

    name: str
    kind: str
    told: Histogram | LevelShares | None

    @property
    def picture(self) -> dict[str, Any] | None:
        """What the template draws."""
        if self.told is None:
            return None
        return _bars(self.told) if isinstance(self.told, Histogram) else {"rows": _level_rows(self.told)}


def table_columns(operator: Any) -> tuple[str, ...]:
    """The columns of the table that a sketch is of."""
    columns = operator.columns
    return columns.schema.names if isinstance(columns, SchemaColumns) else operator.column_names


def column_facts(sketch: Sketch) -> dict[str, Any]:
    """What the template shows of the data."""
    operator: Any = sketch.operator
    counts = part_of(sketch, Histograms)
    ask = None if counts is None else Questions(counts)
    schema = operator.columns.schema if isinstance(operator.columns, SchemaColumns) else None
    names, summaries = table_columns(operator), []
    for i, name in enumerate(names[:MOST_COLUMNS]):
        column = None if schema is None else schema.columns[i]
        hashed = isinstance(column, Text) and column.n_words
        told = None if ask is None or hashed else ask.marginal(i, BINS)
        summaries.append(ColumnSummary(name, kind_in_words(column), told))
    left_out = () if schema is None else schema.left_out
    return {"n_columns": len(names), "columns": summaries, "left_out": left_out}


def kind_in_words(column: Column | None) -> str:
    """What a column of a schema is, for readers who do not know of encodings."""
    if isinstance(column, Text):
        return "text, by its words" if column.n_words else "text, by its length"
    return next((words for kind, words in KINDS.items() if isinstance(column, kind)), "number")


def _bars(found: Histogram) -> dict[str, Any]:
    """Bars whose areas are the proportions, in parts of the card's width and height."""
    edges, shares = found.edges, np.maximum(found.shares, 0)
    heights = shares / np.maximum(np.diff(edges), 1e-300)
    heights = heights / max(float(heights.max()), 1e-300)
    places = 100 * (edges - float(edges[0])) / float(edges[-1] - edges[0])
    ends = [day(edge) if found.dates else rounded(edge) for edge in edges]
    words = [f"{low.striptags()} to {high.striptags()}" for low, high in pairwise(ends)]
    bars = [
        {"x": left, "width": max(right - left - 0.4, 0.2), "height": height, "share": share,
         "title": f"{between}: {percent(share).striptags()}"}
        for (left, right), height, share, between in zip(
            pairwise(places.tolist()), heights.tolist(), found.shares.tolist(), words, strict=True
        )
    ]  # fmt: skip
    label = (
        f"Histogram from {ends[0].striptags()} to {ends[-1].striptags()}, highest from {words[int(heights.argmax())]}"
    )
    beyond = 1 - float(shares.sum())
    exact = found.exact is not None and bool(np.all(found.exact))
    rest = beyond if exact and beyond >= LEAST_BEYOND else None
    return {"bars": bars, "label": label, "ends": (ends[0], ends[-1]), "beyond": rest}


def _level_rows(told: LevelShares) -> list[dict[str, Any]]:
    """Categories, their shares and the lengths of their bars; None stands for all others together."""
    levels = list(zip(told.levels, map(float, told.shares), strict=True))
    rows: list[tuple[str | None, float]]
    rows = [pair for pair in levels[:MOST_LEVELS] if pair[1] > 0 or len(levels) <= 2]
    rest = sum(share for _, share in levels[MOST_LEVELS:])
    if rest > 0:
        rows.append((None, rest))
    most = max(max((share for _, share in rows), default=0.0), 1e-300)
    n_more = len(levels) - MOST_LEVELS
    return [
        {"level": level, "share": share, "width": max(share, 0.0) / most, "n_more": n_more} for level, share in rows
    ]
