"""Clusters of a window against those of the window before: a picture, and a card for each with its errors."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any
from xml.etree.ElementTree import Element

import numpy as np

from sketchlearn.collector.page.charts import Place, cluster_map
from sketchlearn.collector.page.window_models import WindowClusters
from sketchlearn.core.messages import in_digits
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.views.report.clusters import cluster_section as section_of_profiles
from sketchlearn.views.report.clusters import strips_of_centers, strips_picture
from sketchlearn.views.report.elements import (
    CLUSTER_COLORS,
    Child,
    element,
    figure,
    measured,
    named,
    rounded,
    share_measured,
    table,
    whole_number,
    within,
)
from sketchlearn.views.report.page import drift_section

MOST_COLUMNS = 12  # of a card
SURE = 3.0  # errors that a change must have to be called one


def cluster_parts(found: WindowClusters) -> list[Child]:
    """What the section shows of a window's clusters."""
    parts: list[Child] = [element("p", doubt, class_="warn") for doubt in found.doubts]
    count = float(found.sketch.count)
    if isinstance(found.model.columns_, SchemaColumns) or found.profiles is not None:
        inner = section_of_profiles(found.model, found.profiles, count)
        parts += [child for child in inner if child.tag != "h2"]
    else:
        cards = [_card(found, number) for number in range(len(found.model.fitted_model().weights))]
        parts += [_map(found), strips_picture(strips_of_centers(found.model), "cluster")]
        parts += [element("div", *cards, class_="cards")]
    if found.drift is not None:
        change = drift_section(found.drift, "cluster", None, None)
        change.tag = "div"
        change.attrib.clear()
        parts += [element("h3", "Against the window before"), *list(change)[1:]]
    return parts


def _names(found: WindowClusters) -> list[str]:
    model = found.model
    return [str(name) for name in model.columns_ or (f"column {i}" for i in range(model.n_features_in_))]


def _map(found: WindowClusters) -> Element | None:
    """Clusters in the two columns that tell them apart best."""
    learned, names = found.model.fitted_model(), _names(found)
    centers, weights = learned.centers_of_parts, learned.weights
    inside = np.nan_to_num(learned.deviations_of_parts)
    if centers.shape[1] < 2:
        return None
    width = np.sqrt(weights @ (inside**2 + (centers - weights @ centers) ** 2))
    scaled = centers / np.where(width > 0, width, 1.0)
    pairs = list(combinations(range(min(len(names), MOST_COLUMNS)), 2))
    if (moved := _moved_most(found, width)) is not None:
        pairs = [pair for pair in pairs if moved in pair] or pairs
    best = max(pairs, key=lambda pair: _least_apart(scaled[:, pair]))
    places = [
        Place(
            number,
            (float(center[best[0]]), float(center[best[1]])),
            (float(inside[number, best[0]]), float(inside[number, best[1]])),
            float(weights[number]),
            None
            if found.centers_before is None
            else (float(found.centers_before[number, best[0]]), float(found.centers_before[number, best[1]])),
        )
        for number, center in enumerate(centers)
    ]
    columns = (names[best[0]], names[best[1]])
    words = (
        "Where the clusters lie, in the two columns that tell them apart best, or in which one moved. Ellipses reach "
        "as far as one standard deviation of their records"
    )
    words += "." if found.centers_before is None else "; small circles are where they were in the window before."
    return element("figure", element("figcaption", words), cluster_map(places, columns), class_="card chart")


def _moved_most(found: WindowClusters, width: Any) -> int | None:
    """The column in which a cluster moved farthest since the window before, if one moved beyond its error."""
    if found.centers_before is None or "cluster_centers_" not in found.errors:
        return None
    change = np.abs(found.model.fitted_model().centers_of_parts - found.centers_before)
    errors = np.hypot(found.errors["cluster_centers_"], found.errors_before.get("cluster_centers_", 0.0))
    sure = np.where(change > SURE * errors, change / np.where(width > 0, width, 1.0), 0.0).max(axis=0)[:MOST_COLUMNS]
    return int(np.argmax(sure)) if sure.max(initial=0.0) > 0 else None


def _least_apart(centers: Any) -> float:
    """How far the two nearest clusters are apart."""
    apart = np.linalg.norm(centers[:, None] - centers, axis=2)
    return float(np.min(apart + np.diag(np.full(len(centers), np.inf)))) if len(centers) > 1 else 0.0


def _card(found: WindowClusters, number: int) -> Element:
    learned, names = found.model.fitted_model(), _names(found)
    share, error = float(learned.weights[number]), _error(found.errors, "weights_", number)
    size: list[Child] = [share_measured(share, error), " of the records, about "]
    size.append(whole_number(round(share * float(found.sketch.count))))
    if found.shares_before is not None:
        earlier = float(found.shares_before[number])
        size += ["; before ", share_measured(earlier, _error(found.errors_before, "weights_", number))]
    centers, rows = learned.centers_of_parts, []
    for column in range(min(len(names), MOST_COLUMNS)):
        own = _error(found.errors, "cluster_centers_", number, column)
        cells: list[Child] = [named(names[column]), _with_error(float(centers[number, column]), own)]
        if found.centers_before is not None:
            before = float(found.centers_before[number, column])
            theirs = _error(found.errors_before, "cluster_centers_", number, column)
            change = float(centers[number, column]) - before
            cells += [_with_error(before, theirs), _change(change, math.hypot(own, theirs))]
        rows.append(cells)
    heads = ("Column", "Center", "Before", "Change") if found.centers_before is not None else ("Column", "Center")
    shown = table(f"Center of cluster {number}, with its standard error", heads, rows)
    color = f"--own: var(--c{number % CLUSTER_COLORS})"
    heading = element("h3", "Cluster ", whole_number(number))
    return element("article", heading, element("p", *size), shown, class_="card cluster", style=color)


def _error(errors: dict[str, Any], name: str, *place: int) -> float:
    return float(np.asarray(errors[name])[place]) if name in errors else 0.0


def _with_error(value: float, error: float) -> Element:
    return element("span", measured(value, error), within(error, in_digits(error, 2)))


def _change(change: float, error: float) -> Element:
    """A change, set apart where it is beyond its error."""
    if error <= 0:
        return rounded(change, 3)
    shown = figure(change, f"{'+' if change >= 0 else '-'}{in_digits(abs(change), 2)}")
    return element("strong", shown) if abs(change) > SURE * error else element("span", "none seen")
