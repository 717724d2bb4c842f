"""The section about the clusters: where they lie, how large they are, and what sets each of them apart."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import in_digits
from sketchlearn.questions.profiles import SHOWN_LEVELS, ColumnProfile, Estimate, Profile, Profiles
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.views.report.elements import (
    CLUSTER_COLORS,
    Child,
    day,
    element,
    figure,
    listing,
    measured,
    named,
    percent,
    plural,
    rounded,
    section,
    share_measured,
    table,
    whole_number,
    within,
    within_percent,
)

MOST_STRIPS = 10  # the columns in which clusters lie farthest apart
MOST_DOTS = 12  # the largest clusters: more would cover each other
REACH = 2.5  # standard deviations that a line goes to both sides; farther ones stand at its ends
DOT, LANE = 10, 22  # pixels: radius of a dot, and what dots that would touch are apart
TOUCHING = 0.09  # of the line's width: dots nearer than this are put into lanes of their own


@dataclass(frozen=True)
class Strip:
    """One line: what it is of, and where each cluster stands, in standard deviations from the mean of all records."""

    name: str
    level: str  # of a category; "" where the column is one number
    places: Double  # NaN where unknown


def strips_of_profiles(profiles: Profiles) -> list[Strip]:
    """Lines of the columns of profiles; of a category, that of the level in which clusters differ most."""
    own = [{column.name: column for column in profile.columns} for profile in profiles]
    found = []
    for overall in profiles.overall:
        columns = [column[overall.name] for column in own]
        strips = [_strip(overall, columns, what) for what in overall.estimates]
        found.append(max(strips, key=_reach))
    return found


def strips_of_centers(model: Any) -> list[Strip]:
    """Lines of the model's own columns, in deviations that the model tells of."""
    learned = model.fitted_model()
    centers, weights = learned.centers_of_parts, learned.weights / learned.weights.sum()
    inside = np.nan_to_num(learned.deviations_of_parts)
    middle = weights @ centers
    width = np.sqrt(weights @ (inside**2 + (centers - middle) ** 2))
    places = (centers - middle) / np.where(width > 0, width, 1.0)
    names = model.columns_ or [f"column {i}" for i in range(centers.shape[1])]
    return [Strip(name, "", places[:, i]) for i, name in enumerate(names)]


def strips_picture(strips: list[Strip], noun: str) -> Element | None:
    """The lines on which clusters lie farthest apart, with a legend above them."""
    apart = [strip for strip in strips if _reach(strip) > 0]
    shown = sorted(apart, key=lambda strip: -_reach(strip))[:MOST_STRIPS]
    if not shown:
        return None
    ends = element("div", *(element("span", text) for text in ("below average", "average", "above average")),
                   class_="ends")  # fmt: skip
    lines = [element("div", element("span"), ends, class_="strip"), *(_line(strip, noun) for strip in shown)]
    words = (
        f"Where the {noun}s lie. Circles have the numbers of the {noun}s; each stands as far from the average of all "
        "records as its own average does, in standard deviations."
    )
    return element("figure", element("figcaption", words), *lines, class_="strips card")


def _strip(overall: ColumnProfile, columns: list[ColumnProfile], what: str) -> Strip:
    mean = overall.estimates[what].value
    shares = overall.kind in ("share", "levels")
    width = math.sqrt(max(mean * (1 - mean), 0.0)) if shares else overall.spread
    values = np.array([column.estimates[what].value for column in columns])
    return Strip(overall.name, what if overall.kind == "levels" else "", (values - mean) / (width or 1.0))


def _reach(strip: Strip) -> float:
    """How far apart clusters stand on it."""
    known = strip.places[np.isfinite(strip.places)]
    return float(np.ptp(known)) if len(known) else 0.0


def _line(strip: Strip, noun: str) -> Element:
    at = {n: float(p) for n, p in enumerate(strip.places[:MOST_DOTS]) if math.isfinite(p)}
    x = {n: 0.5 + 0.46 * min(max(place / REACH, -1.0), 1.0) for n, place in at.items()}
    lanes = _lanes(x)
    height = LANE * (1 + max(lanes.values(), default=0)) + 6
    middle = {"y1": "0", "y2": str(height)}
    drawn = [element("line", x1="50%", x2="50%", class_="middle", **middle)]
    base = {"y1": str(height / 2), "y2": str(height / 2)}
    drawn.insert(0, element("line", x1="0", x2="100%", class_="axis", **base))
    for n in sorted(x):
        y = DOT + 4 + LANE * lanes[n]
        color = f"stroke: var(--c{n % CLUSTER_COLORS})"
        circle = element("circle", cx=f"{100 * x[n]:.2f}%", cy=str(y), r=str(DOT), class_="dot", style=color)
        label = element("text", str(n), x=f"{100 * x[n]:.2f}%", y=str(y + 4))
        drawn.append(element("g", circle, label, data_value=repr(at[n])))
    name = f"{strip.name}: {strip.level}" if strip.level else strip.name
    told = "; ".join(f"{noun} {n} {_in_words(place)}" for n, place in at.items())
    picture = element("svg", *drawn, height=str(height), role="img", aria_label=told)
    return element("div", element("span", named(name)), picture, class_="strip")


def _lanes(x: dict[int, float]) -> dict[int, int]:
    """Dots from left to right, each in the first lane in which it touches no other.

    >>> _lanes({0: 0.5, 1: 0.52, 2: 0.9})
    {0: 0, 1: 1, 2: 0}
    """
    last: list[float] = []
    found = {}
    for n in sorted(x, key=lambda n: x[n]):
        lane = next((i for i, end in enumerate(last) if x[n] - end >= TOUCHING), len(last))
        last[lane : lane + 1] = [x[n]]
        found[n] = lane
    return found


def _in_words(place: float) -> str:
    """Where a cluster stands, for those who do not see the picture."""
    if abs(place) < 0.25:
        return "about average"
    return f"{'far ' if abs(place) > 1 else ''}{'above' if place > 0 else 'below'} average"


MOST_CLUSTERS = 30  # with a card of their own
MOST_COLUMNS = 12  # in a card, those that set the cluster apart first
CLEAR_DEVIATIONS = 4.0  # of the error: the farthest of 96 true shares was 3.9 errors from that of kept rows
SAME_SHARE = 0.005  # Shares as near as this are the same for a reader.
LEAST_LEVEL_SHARE = 0.005  # of a level that is named
COLUMNS_IN_BRIEF = 2  # that the overview names


def cluster_section(model: Any, profiles: Profiles | None, count: float) -> Element:
    """The clusters or components of a model, from rows that the sketch keeps or, without any, from the model alone."""
    noun = model.fitted_model().kind_of_part
    if profiles is None:
        strips = strips_of_centers(model)
        parts = [_plain_overview(model, noun, count), _centers(model, noun)]
        advice = element(
            "p", f"What sets each {noun} apart is read from rows that a sketch keeps, and this one keeps none. To "
            "keep some, make sketches with a design of ", element("code", "sketchlearn design --rows"), " (in Python, ",
            element("code", "design(..., rows=...)"), "). Kept rows are in the sketch's file, in the clear; private "
            "sketches never have them.",
        )  # fmt: skip
        parts.append(advice)
    else:
        strips = strips_of_profiles(profiles)
        shown = profiles.clusters[:MOST_CLUSTERS]
        shares = cluster_shares(model, profiles, count)
        parts = [_overview(profiles, model, noun, count)]
        parts += [_card(profile, shares[profile.number], profiles, noun, count) for profile in shown]
        if len(shown) < len(profiles.clusters):
            parts.append(element("p", "The first ", whole_number(len(shown)), " have a table of their own."))
    return section(f"The {noun}s", "clusters", strips_picture(strips, noun), *parts)


def titled(number: int, noun: str) -> Element:
    """A cluster by its number, as `predict` says it."""
    return element("span", f"{noun.capitalize()} ", whole_number(number))


def differs(profile: Profile, weight: float) -> bool:
    """Whether kept rows tell clearly of another share than the model."""
    return abs(profile.share.value - weight) > CLEAR_DEVIATIONS * profile.share.error + SAME_SHARE


def is_of_these_records(model: Any, profiles: Profiles, count: float) -> bool:
    """Whether a model may have been learned from this sketch: from as many records, in shares that kept rows allow."""
    pairs = zip(profiles, model.fitted_model().weights, strict=True)
    return bool(model.n_records_ == count) and not any(differs(profile, float(weight)) for profile, weight in pairs)


def cluster_shares(model: Any, profiles: Profiles | None, count: float) -> list[Estimate]:
    """The share of each cluster: the model's, if it is of these records, and else that of kept rows.

    The model's agree with the whole sketch: where rows were off by 0.014 on average, they were by 0.0003 (20,000
    records in six clusters, of which 500 were kept).
    """
    if profiles is None or is_of_these_records(model, profiles, count):
        return [Estimate(float(share)) for share in model.fitted_model().weights]
    return [profile.share for profile in profiles]


def _overview(profiles: Profiles, model: Any, noun: str, count: float) -> Element:
    own, of_model = cluster_shares(model, profiles, count), is_of_these_records(model, profiles, count)
    rows = []
    for profile, share, weight in zip(profiles, own, model.fitted_model().weights, strict=True):
        other = share_measured(profile.share.value, profile.share.error) if of_model else percent(float(weight))
        shown = profile.columns[:COLUMNS_IN_BRIEF] if profile.share.value else ()
        brief = listing((_named_brief(column) for column in shown), "; ")
        records = whole_number(round(share.value * count))
        rows.append((titled(profile.number, noun), share_measured(share.value, share.error), records, brief, other))
    heads = (noun.capitalize(), "Share", "Records, about", "Stands out by")
    others = "Share by kept rows" if of_model else "Share in the model"
    return table(f"All {noun}s. After ± is one standard deviation of the error", (*heads, others), rows)


def _named_brief(column: ColumnProfile) -> Element:
    return element("span", named(column.name), " ", _in_brief(column))


def _plain_overview(model: Any, noun: str, count: float) -> Element:
    learned = model.fitted_model()
    rows = [
        (titled(number, noun), percent(float(share)), whole_number(round(float(share) * count)))
        for number, share in enumerate(learned.weights)
    ]
    return table(f"All {noun}s, as the model has them", (noun.capitalize(), "Share", "Records, about"), rows)


def _centers(model: Any, noun: str) -> Element:
    """The centers in the table's own terms, a column of the table in each row."""
    centers, columns = model.fitted_model().centers_of_parts[:MOST_CLUSTERS], model.columns_
    if isinstance(columns, SchemaColumns):
        values = columns.schema.decode(centers)
    else:
        names = columns or [f"column {i}" for i in range(centers.shape[1])]
        values = {name: list(map(float, centers[:, i])) for i, name in enumerate(names)}
    heads: list[Child] = ["Column", *(titled(number, noun) for number in range(len(centers)))]
    rows = [(named(name), *map(_value, own)) for name, own in values.items() if any(v is not None for v in own)]
    return table(f"The middle of each {noun}", heads, rows)


def _value(value: Any) -> Element:
    if isinstance(value, bool):
        return element("span", "mostly yes" if value else "mostly no")
    if isinstance(value, float):
        return rounded(value, 4)
    return element("span", "unknown") if value is None else named(str(value))


def _card(profile: Profile, share: Estimate, profiles: Profiles, noun: str, count: float) -> Element:
    overall = {column.name: column for column in profiles.overall}
    shown = profile.columns[:MOST_COLUMNS]
    rows = [
        (named(column.name), _typical(column), _spread(column), _typical(overall[column.name], like=column))
        for column in shown
    ]
    heads = ("Column", f"This {noun}", "Spread", "All records")
    few = f"Columns that set the {noun} apart come first"
    left = len(profile.columns) - len(shown)
    more = element("p", "and ", whole_number(left), f" more {plural(left, 'column')}", class_="soft") if left else None
    records = whole_number(round(share.value * count))
    size = element("p", share_measured(share.value, share.error), " of the records, about ", records)
    color = f"--own: var(--c{profile.number % CLUSTER_COLORS})"
    heading = element("h3", titled(profile.number, noun))
    if not profile.share.value:
        unknown = element("p", "No kept row is in it, so nothing is known of its columns.")
        return element("article", heading, size, unknown, class_="card cluster", style=color)
    return element("article", heading, size, table(few, heads, rows), more, class_="card cluster", style=color)


def _typical(column: ColumnProfile, like: ColumnProfile | None = None) -> Element:
    """What is typical, with its error."""
    found, mean = _in_brief(column, like), next(iter(column.estimates.values()))
    if column.kind == "levels" or not math.isfinite(mean.value):
        return found
    if column.kind == "share":
        return element("span", found, within_percent(mean.error))
    unit = " days" if column.kind == "date" else ""
    return element("span", found, within(mean.error, in_digits(mean.error, 2) + unit))


def _in_brief(column: ColumnProfile, like: ColumnProfile | None = None) -> Element:
    """The mean, or shares: of a category the levels that are common in it, or in another one that it stands beside."""
    if column.kind == "levels":
        common = sorted((like or column).estimates.items(), key=lambda item: -item[1].value)[:SHOWN_LEVELS]
        levels = [level for level, share in common if share.value >= LEAST_LEVEL_SHARE]
        return listing(_level(level, column.estimates[level]) for level in levels)
    mean = next(iter(column.estimates.values()))
    if column.kind == "share":
        return element("span", percent(mean.value, mean.error), " yes")
    return day(mean.value) if column.kind == "date" else measured(mean.value, mean.error)


def _level(level: str, share: Estimate) -> Element:
    return element("span", named(level), " ", percent(share.value, share.error))


def _spread(column: ColumnProfile) -> Element | None:
    if column.kind == "date":
        return figure(column.spread, f"{in_digits(column.spread, 2)} days")
    return rounded(column.spread, 2) if column.kind == "number" else None
