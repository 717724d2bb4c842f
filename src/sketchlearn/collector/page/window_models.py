"""The clusters of windows, learned in the background and kept: a page never waits for a fit."""

from __future__ import annotations

import math
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import combinations
from typing import TYPE_CHECKING, Any
from urllib.parse import urlencode

import numpy as np
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import pdist

from sketchlearn.collector.collection import Collection
from sketchlearn.collector.epoch_times import SECONDS, from_text, in_iso
from sketchlearn.collector.views import ExactView
from sketchlearn.files.designs import design_from_bytes
from sketchlearn.questions.comparison import Drift, two_sample_test
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.sums import Sketch

if TYPE_CHECKING:
    from sketchlearn.estimators.clusters.estimators import SketchKMeans
    from sketchlearn.questions.profiles import Profiles


MOST_KEPT = 64  # windows whose clusters are kept
MOST_COLUMNS = 12  # of a card
SURE = 3.0  # standard errors that a change must have to be called one
MARGIN = 0.12  # of the range of a map, on each side


@dataclass(frozen=True)
class WindowClusters:
    """The clusters of a window, beside those of the window before it, with warnings as sentences."""

    sketch: Sketch
    model: SketchKMeans
    errors: dict[str, Any]
    profiles: Profiles | None
    centers_before: Any  # of each cluster, in the window before; None without one
    shares_before: Any
    errors_before: dict[str, Any]
    drift: Drift | None
    doubts: tuple[str, ...]

    @property
    def column_names(self) -> list[str]:
        from sketchlearn.views.report.clusters import column_names

        return list(column_names(self.model))


class WindowModels:
    """A queue of fits: one at a time, once for the same sums, and only the newest window of each span."""

    def __init__(self, ready: Callable[[str], None]) -> None:
        self._ready = ready
        self._found: OrderedDict[Any, Future[WindowClusters]] = OrderedDict()
        self._asked: dict[Any, Any] = {}  # by span: what was asked for last
        self._latest: dict[Any, WindowClusters] = {}  # by span: what was found last
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="collector-fits")

    def get(
        self, collection: str, span: str, sketch: Sketch, before: Sketch | None, k: int
    ) -> WindowClusters | Exception | None:
        """The clusters, or why there are none; None while they are being learned."""
        place = collection, span, k
        sums = [None if one is None else one.sums.tobytes() + str(one.units).encode() for one in (sketch, before)]
        key = collection, *sums, k
        with self._lock:
            if key not in self._found:
                waiting = self._asked.get(place) if span else None  # each reader has windows between two times alone
                if waiting in self._found and self._found[waiting].cancel():  # neither running nor done
                    del self._found[waiting]
                self._found[key] = self._pool.submit(self._learn, place, sketch, before)
                while len(self._found) > MOST_KEPT:
                    self._found.popitem(last=False)
            self._found.move_to_end(key)
            self._asked[place], future = key, self._found[key]
        if not future.done() or future.cancelled():
            return None
        problem = future.exception()
        return future.result() if problem is None else Exception(str(problem))

    def latest(self, collection: str, span: str, k: int) -> WindowClusters | None:
        """The clusters that were found last for windows of this span, to be shown while new ones are learned."""
        return self._latest.get((collection, span, k))

    def _learn(self, place: tuple[str, str, int], sketch: Sketch, before: Sketch | None) -> WindowClusters:
        collection, _, k = place
        try:
            self._latest[place] = learned(sketch, before, k)
            return self._latest[place]
        finally:
            self._ready(collection)

    def close(self) -> None:
        """Ends after the fit that is running."""
        self._pool.shutdown(wait=False, cancel_futures=True)


def learned(sketch: Sketch, before: Sketch | None, k: int) -> WindowClusters:
    """The clusters of a window, beside those of the window before."""
    from sketchlearn.estimators.clusters.estimators import SketchKMeans
    from sketchlearn.questions.profiles import profiles_or_none  # they take seconds to import

    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        model = SketchKMeans(k, random_state=0).fit_sketch(sketch)
        errors = dict(model.standard_errors_)
        found = profiles_or_none(model, sketch)
        centers, shares, errors_before, drift = None, None, {}, None
        if before is not None:
            earlier = SketchKMeans(k, random_state=0).fit_sketch(before)
            order, then = matched(model, earlier), earlier.fitted_model()
            centers, shares = then.centers_of_parts[order], then.weights[order]
            errors_before = {name: np.asarray(values)[order] for name, values in earlier.standard_errors_.items()}
            drift = two_sample_test(before, sketch)
    doubts = tuple(dict.fromkeys(str(one.message) for one in said if issubclass(one.category, UserWarning)))
    return WindowClusters(sketch, model, errors, found, centers, shares, errors_before, drift, doubts)


def matched(model: SketchKMeans, earlier: SketchKMeans) -> Any:
    """For each cluster, the number of the earlier one that matches it best, each taken once."""
    now, then = model.fitted_model(), earlier.fitted_model()
    width = np.sqrt(np.average(np.nan_to_num(now.deviations_of_parts) ** 2, axis=0, weights=now.weights))
    apart = now.centers_of_parts[:, None] - then.centers_of_parts
    return linear_sum_assignment(np.sum((apart / np.where(width > 0, width, 1.0)) ** 2, axis=2))[1]


def window_facts(found: WindowClusters) -> dict[str, Any]:
    from sketchlearn.views.report.clusters import cluster_facts, heat_map  # takes seconds to import

    facts: dict[str, Any] = {"doubts": found.doubts, "drift": found.drift}
    if isinstance(found.model.columns_, SchemaColumns) or found.profiles is not None:
        return facts | {"clusters": cluster_facts(found.model, found.profiles, float(found.sketch.count))}
    moving = found.centers_before is not None
    cards = [_card(found, number) for number in range(len(found.model.fitted_model().weights))]
    heat = heat_map(found.model)
    return facts | {"clusters": None, "map": _map(found), "heat": heat, "cards": cards, "moving": moving}


def _map(found: WindowClusters) -> dict[str, Any] | None:
    """Clusters in the two columns in which they are farthest apart, as SVG, with their centers in the window before.

    Places are in percent of the picture.
    """
    learned, names = found.model.fitted_model(), found.column_names
    centers, weights = learned.centers_of_parts, learned.weights
    inside = np.nan_to_num(learned.deviations_of_parts)
    if centers.shape[1] < 2:
        return None
    width = np.sqrt(weights @ (inside**2 + (centers - weights @ centers) ** 2))
    scaled = centers / np.where(width > 0, width, 1.0)
    pairs = list(combinations(range(min(len(names), MOST_COLUMNS)), 2))
    if (moved := _moved_most(found, width)) is not None:
        pairs = [pair for pair in pairs if moved in pair] or pairs
    # with a single cluster, any pair will do
    pair = list(max(pairs, key=lambda pair: pdist(scaled[:, pair]).min(initial=np.inf)))
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
    label = f"Map of {len(places)} clusters: {first} from left to right, {second} from bottom to top"
    return {"places": places, "columns": columns, "label": label}


def _moved_most(found: WindowClusters, width: Any) -> int | None:
    """The column in which a cluster moved farthest since the window before, if one moved beyond its error."""
    if found.centers_before is None or "cluster_centers_" not in found.errors:
        return None
    change = np.abs(found.model.fitted_model().centers_of_parts - found.centers_before)
    errors = np.hypot(found.errors["cluster_centers_"], found.errors_before.get("cluster_centers_", 0.0))
    sure = np.where(change > SURE * errors, change / np.where(width > 0, width, 1.0), 0.0).max(axis=0)[:MOST_COLUMNS]
    return int(np.argmax(sure)) if sure.max(initial=0.0) > 0 else None


def _card(found: WindowClusters, number: int) -> dict[str, Any]:
    """A cluster's share and center, now and before, each with its standard error."""
    learned = found.model.fitted_model()

    def both(now: Any, before: Any, name: str, *place: int) -> dict[str, float | None]:
        earlier = None if before is None else float(before[place])
        errors = (float(np.asarray(e[name])[place]) if name in e else 0.0 for e in (found.errors, found.errors_before))
        return dict(zip(("now", "before", "error", "error_before"), (float(now[place]), earlier, *errors), strict=True))

    centers, names = learned.centers_of_parts, found.column_names[:MOST_COLUMNS]
    share = both(learned.weights, found.shares_before, "weights_", number)
    rows = [
        {"name": name, **both(centers, found.centers_before, "cluster_centers_", number, column)}
        for column, name in enumerate(names)
    ]
    return {"share": share, "records": float(learned.weights[number]) * float(found.sketch.count), "rows": rows}


HOURS = {"6 hours": 6, "day": 24, "week": 7 * 24, "30 days": 30 * 24}
DEFAULT_CLUSTERS, MOST_CLUSTERS = 4, 30


@dataclass(frozen=True)
class Choice:
    """A reader's choice: a span that ends with the newest sealed epoch, or two times; and the number of clusters."""

    span: str
    start: int
    finish: int
    clusters: int

    def query(self, **changes: Any) -> str:
        times = {} if self.span else {"from": in_iso(self.start), "to": in_iso(self.finish)}
        form = {"window": self.span, **times, "clusters": self.clusters, **changes}
        return urlencode({name: value for name, value in form.items() if value})


def chosen(view: ExactView, asked: dict[str, str]) -> Choice:
    """The choice of a query; parameters that cannot be read have their defaults."""
    clusters, epoch = chosen_clusters(view.collection, asked), view.collection.rules.epoch
    try:
        start, finish = (int(from_text(asked[name])) for name in ("from", "to"))
        if start < finish:
            return Choice("", start, finish, clusters)
    except (KeyError, ValueError):
        pass
    span = asked.get("window", "")
    if span not in HOURS:
        span = "6 hours" if epoch == "hour" else "week"
    finish = view.newest_sealed()
    length = max(3600 * HOURS[span], SECONDS[epoch])
    return Choice(span, finish - length, finish, clusters)


def chosen_clusters(collection: Collection, asked: dict[str, str]) -> int:
    """The number of clusters of a query; by default, that of the design."""
    text = asked.get("clusters", "")
    if text.isascii() and text.isdecimal() and 1 <= int(text[:3]) <= MOST_CLUSTERS:
        return int(text[:3])
    made = design_from_bytes(collection.design)[1].get("n_components")
    return made if type(made) is int and 1 <= made <= MOST_CLUSTERS else DEFAULT_CLUSTERS
