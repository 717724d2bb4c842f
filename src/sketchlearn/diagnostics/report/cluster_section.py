"""The section about the clusters: where they lie, how large they are, and what sets each of them apart."""

from __future__ import annotations

import math
from typing import Any
from xml.etree.ElementTree import Element

from sketchlearn.diagnostics.profile_values import SHOWN_LEVELS, ColumnProfile, Estimate, Profile, Profiles
from sketchlearn.diagnostics.report.cluster_strips import strips_of_centers, strips_of_profiles, strips_picture
from sketchlearn.diagnostics.report.page_elements import (
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
from sketchlearn.plain_digits import in_digits
from sketchlearn.schemas import SchemaColumns

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
