"""The section about the data: a card for each column, with its histogram or the shares of its levels."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice, pairwise
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.moments import part_of
from sketchlearn.questions.marginals import Histogram, LevelShares
from sketchlearn.questions.questions import Questions
from sketchlearn.rows.schemas.columns import Category, Column, Date, Flag, Ordinal, Text
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.sums import Sketch
from sketchlearn.views.report.elements import (
    day,
    element,
    listing,
    named,
    percent,
    plural,
    rounded,
    section,
    table,
    whole_number,
)

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


MOST_COLUMNS = 60  # More cards would hide the rest of the page.
MOST_LEVELS = 8  # of a category; the others are added up
BAR_HEIGHT = 64  # pixels


def column_section(sketch: Sketch) -> Element:
    """What the data are."""
    operator: Any = sketch.operator
    shown, n = list(islice(column_summaries(sketch), MOST_COLUMNS)), len(table_columns(operator))
    notes = [
        element("p", whole_number(sketch.count), f" {plural(int(sketch.count), 'record')} of ",
                whole_number(n), f" {plural(n, 'column')}."),
    ]  # fmt: skip
    if sketch.unit is not None:
        notes.append(element("p", "They have at most ", whole_number(sketch.unit.rows_per_unit), " rows of each ",
                             named(sketch.unit.name), "."))  # fmt: skip
    if len(shown) < n:
        notes.append(element("p", "The first ", whole_number(len(shown)), " columns are shown."))
    if all(summary.told is None for summary in shown):
        notes.append(element("p", "This sketch has no histograms of its columns: designs for k-means have them."))
    elif sketch.ledger is not None:
        notes.append(element("p", "Shares have the noise of the private release in them."))
    cards = element("div", *map(_card, shown), class_="cards")
    return section("The data", "data", *notes, cards, _left_out(operator.columns))


def _left_out(columns: Any) -> Element | None:
    """The columns of the table that were not used, and why."""
    if not isinstance(columns, SchemaColumns) or not columns.schema.left_out:
        return None
    rows = [(named(name), element("span", named(reason))) for name, reason in columns.schema.left_out]
    return table("Columns that are not used", ("Column", "Why"), rows)


def _card(summary: ColumnSummary) -> Element:
    told, gaps, picture = summary.told, None, None
    if told is not None and told.missing is not None:
        gaps = element("p", percent(told.missing), " of the records have no value here.", class_="soft")
    if isinstance(told, Histogram):
        picture = _histogram(told)
    elif told is not None:
        picture = _levels(told)
    words = element("p", summary.kind, class_="soft")
    return element("article", element("h3", named(summary.name)), words, picture, gaps, class_="card")


def _histogram(found: Histogram) -> Element:
    """Bars whose areas are the shares, drawn in parts of the card's width."""
    edges, shares = found.edges, np.maximum(found.shares, 0)
    low, width = float(edges[0]), float(edges[-1] - edges[0])
    heights = shares / np.maximum(np.diff(edges), 1e-300)
    heights = heights / max(float(heights.max()), 1e-300)
    bars, end = [], day if found.dates else rounded
    for (a, b), share, height in zip(pairwise(edges), found.shares, heights, strict=True):
        hint = element("title", f"{end(a).text} to {end(b).text}: {percent(float(share)).text}")
        left, wide = 100 * (a - low) / width, 100 * (b - a) / width
        size = {"x": f"{left:.2f}%", "width": f"{max(wide - 0.4, 0.2):.2f}%"}
        place = {"y": f"{BAR_HEIGHT * (1 - height):.1f}", "height": f"{BAR_HEIGHT * height:.1f}"}
        bars.append(element("rect", hint, class_="bar", data_value=repr(float(share)), **size, **place))
    top = int(np.argmax(heights))
    told = f"Histogram from {end(low).text} to {end(edges[-1]).text}, highest from "
    told += f"{end(edges[top]).text} to {end(edges[top + 1]).text}"
    base = {"y1": str(BAR_HEIGHT), "y2": str(BAR_HEIGHT)}
    line = element("line", x1="0", x2="100%", class_="axis", **base)
    drawn = element("svg", *bars, line, role="img", aria_label=told, height=str(BAR_HEIGHT + 2))
    ends = element("div", element("span", end(low)), element("span", end(float(edges[-1]))), class_="ends")
    beyond = 1 - float(shares.sum())
    rest = element("p", element("small", percent(beyond), " lie beyond")) if _is_clear(found, beyond) else None
    return element("div", drawn, ends, rest)


def _is_clear(found: Histogram, beyond: float) -> bool:
    """Whether so many records beyond the bins are worth a line: exact ones, at least one in a thousand."""
    return found.exact is not None and bool(np.all(found.exact)) and beyond >= 0.001


def _levels(told: LevelShares) -> Element:
    """A table of levels, each with a bar."""
    levels = list(zip(told.levels, map(float, told.shares), strict=True))
    shown = [pair for pair in levels[:MOST_LEVELS] if pair[1] > 0 or len(levels) <= 2]
    rest = sum(share for _, share in levels[MOST_LEVELS:])
    rows = [(named(level), share) for level, share in shown]
    if rest > 0:
        n = len(levels) - MOST_LEVELS
        rows.append((listing([whole_number(n), element("span", "more")], " "), rest))
    most = max([share for _, share in rows], default=0.0)
    cells = [(label, percent(share), _bar(share, most)) for label, share in rows]
    found = table("Shares of the records", ("Value", "Share", "Drawn"), cells)
    found.set("class", "wide levels")
    return found


def _bar(share: float, most: float) -> Element:
    wide = f"{100 * max(share, 0.0) / max(most, 1e-300):.2f}%"
    bar = element("rect", x="0", y="3", height="12", width=wide, class_="bar", data_value=repr(float(share)))
    return element("svg", bar, height="18", aria_hidden="true")
