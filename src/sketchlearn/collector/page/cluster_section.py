"""Clusters of a window against those of the window before: a picture, and a card for each with its standard errors."""

from __future__ import annotations

import math
from itertools import combinations
from typing import Any

import numpy as np

from sketchlearn.collector.page.window_models import WindowClusters
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.views.report.clusters import cluster_facts, column_names, strips_of_centers

MOST_COLUMNS = 12  # of a card
SURE = 3.0  # standard errors that a change must have to be called one
MARGIN = 0.12  # of the range of a map, on each side


def window_facts(found: WindowClusters) -> dict[str, Any]:
    facts: dict[str, Any] = {"doubts": found.doubts, "drift": found.drift}
    if isinstance(found.model.columns_, SchemaColumns) or found.profiles is not None:
        return facts | {"clusters": cluster_facts(found.model, found.profiles, float(found.sketch.count))}
    moving = found.centers_before is not None
    cards = [_card(found, number) for number in range(len(found.model.fitted_model().weights))]
    strips = strips_of_centers(found.model)
    return facts | {"clusters": None, "map": _map(found), "strips": strips, "cards": cards, "moving": moving}


def _map(found: WindowClusters) -> dict[str, Any] | None:
    """Clusters in the two columns in which they are farthest apart, as SVG, with their centers in the window before.

    Places are in percent of the picture.
    """
    learned, names = found.model.fitted_model(), column_names(found.model)
    centers, weights = learned.centers_of_parts, learned.weights
    inside = np.nan_to_num(learned.deviations_of_parts)
    if centers.shape[1] < 2:
        return None
    width = np.sqrt(weights @ (inside**2 + (centers - weights @ centers) ** 2))
    scaled = centers / np.where(width > 0, width, 1.0)
    pairs = list(combinations(range(min(len(names), MOST_COLUMNS)), 2))
    if (moved := _moved_most(found, width)) is not None:
        pairs = [pair for pair in pairs if moved in pair] or pairs
    pair = list(max(pairs, key=lambda pair: _least_apart(scaled[:, pair])))
    now, spread = centers[:, pair], inside[:, pair]
    before = None if found.centers_before is None else found.centers_before[:, pair]
    reach = np.concatenate([now - 1.2 * spread, now + 1.2 * spread, *([] if before is None else [before])])
    lowest, highest = reach.min(axis=0), reach.max(axis=0)
    wide = np.where(highest > lowest, highest - lowest, 1.0)
    low, high = lowest - MARGIN * wide, highest + MARGIN * wide

    def at(point: Any) -> tuple[str, str]:
        x, y = (point - low) / (high - low)
        return f"{100 * x:.2f}%", f"{100 * (1 - y):.2f}%"

    places = [
        {
            "number": n,
            "at": at(now[n]),
            "spread": [f"{part:.2f}%" for part in 100 * spread[n] / (high - low)],
            "before": None if before is None else at(before[n]),
            "radius": f"{9 + 14 * math.sqrt(max(0.0, weights[n])):.1f}",
        }
        for n in range(len(now))
    ]
    first, second = columns = [names[column] for column in pair]
    label = f"Map of {len(places)} clusters: {first} from left to right, {second} from below to above"
    return {"places": places, "columns": columns, "label": label}


def _moved_most(found: WindowClusters, width: Any) -> int | None:
    """The column in which a cluster moved farthest since the window before, if one moved beyond its error."""
    if found.centers_before is None or "cluster_centers_" not in found.errors:
        return None
    change = np.abs(found.model.fitted_model().centers_of_parts - found.centers_before)
    errors = np.hypot(found.errors["cluster_centers_"], found.errors_before.get("cluster_centers_", 0.0))
    sure = np.where(change > SURE * errors, change / np.where(width > 0, width, 1.0), 0.0).max(axis=0)[:MOST_COLUMNS]
    return int(np.argmax(sure)) if sure.max(initial=0.0) > 0 else None


def _least_apart(centers: Any) -> float:
    apart = np.linalg.norm(centers[:, None] - centers, axis=2)
    return float(np.min(apart + np.diag(np.full(len(centers), np.inf)))) if len(centers) > 1 else 0.0


def _card(found: WindowClusters, number: int) -> dict[str, Any]:
    """A cluster's share and center, now and before, each with its standard error."""
    learned = found.model.fitted_model()

    def both(now: Any, before: Any, name: str, *place: int) -> dict[str, float | None]:
        earlier = None if before is None else float(before[place])
        errors = (float(np.asarray(e[name])[place]) if name in e else 0.0 for e in (found.errors, found.errors_before))
        return dict(zip(("now", "before", "error", "error_before"), (float(now[place]), earlier, *errors), strict=True))

    centers, names = learned.centers_of_parts, column_names(found.model)[:MOST_COLUMNS]
    share = both(learned.weights, found.shares_before, "weights_", number)
    rows = [
        {"name": name, **both(centers, found.centers_before, "cluster_centers_", number, column)}
        for column, name in enumerate(names)
    ]
    return {"share": share, "records": float(learned.weights[number]) * float(found.sketch.count), "rows": rows}
