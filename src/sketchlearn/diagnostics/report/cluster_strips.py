"""The picture of clusters: for each column a line, on which every cluster stands as far from the mean as it is."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from sketchlearn.diagnostics.profile_values import ColumnProfile, Profiles
from sketchlearn.diagnostics.report.page_elements import CLUSTER_COLORS, element, named
from sketchlearn.models import Double

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
