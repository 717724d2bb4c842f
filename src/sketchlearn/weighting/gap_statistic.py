"""How many clusters rows have, whatever their law: k-means by k beside that of rows without clusters, and by halves.

The gap statistic (Tibshirani, Walther, Hastie 2001) compares log inertia with that of rows drawn uniformly from the box
around the rows, along their principal axes. The smallest k whose gap is about as large as that of all larger k is the
number of clusters. (To compare it with that of k + 1 alone misses clusters of clusters: one is better than two there.)
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score

from sketchlearn.decoders.refinements.kmeans_of_rows import nearest
from sketchlearn.models import Double

REFERENCES = 6
STARTS = 2  # of k-means; the same for rows and references
DRIFT = 0.02  # of the gap per cluster, which rows without clusters may have: uniform ones had 0.005, iris 0.016
MOST_ROWS = 1500  # More change k seldom, and take longer.


@dataclass(frozen=True)
class InertiaCurve:
    """k-means of rows for k = 1, 2, ...: inertia as a share of that of k = 1, and the gap, each with its error."""

    shares: Double
    share_errors: Double
    gaps: Double
    gap_errors: Double

    def elbow(self, deviations: float = 1.0) -> int:
        """The smallest k whose gap no larger k exceeds by more than so many deviations, and a drift."""
        sizes = np.arange(len(self.gaps))
        more = self.gaps[None] - self.gaps[:, None] - DRIFT * (sizes[None] - sizes[:, None])
        exceeded = (more > deviations * self.gap_errors) & (sizes[None] > sizes[:, None])
        return int(np.argmin(exceeded.any(axis=1))) + 1


def inertia_curve(
    rows: Double, most: int, rng: np.random.Generator, progress: Callable[[str], None] | None = None
) -> InertiaCurve:
    """The curve of rows of equal weight, of which some are used, for k up to `most`.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((300, 2)) + 10 * rng.integers(0, 3, (300, 1))
    >>> inertia_curve(rows, 6, rng).elbow()
    3
    """
    rows = some_rows(rows, MOST_ROWS, rng)
    rows = rows - rows.mean(axis=0)
    most = min(most, max(1, len(np.unique(rows, axis=0)) - 1))  # as many clusters as rows leave nothing to compare

    def losses_of(table: Double, k: int, what: str) -> Double:
        if progress is not None:
            progress(f"k-means of {what}, with 1 to {most} clusters: {k}")
        return _losses(table, k, rng)

    sizes = range(1, most + 1)
    losses = np.stack([losses_of(rows, k, "rows") for k in sizes])
    inertia = np.maximum(losses.mean(axis=1), 1e-12 * max(float(losses[0].mean()), 1e-300))
    shares = inertia / inertia[0]
    errors = np.std(losses - shares[:, None] * losses[0], axis=1) / inertia[0] / np.sqrt(len(rows))
    axes = np.linalg.svd(rows, full_matrices=False)[2]
    low, high = (rows @ axes.T).min(axis=0), (rows @ axes.T).max(axis=0)
    drawn = (rng.uniform(low, high, (len(rows), len(low))) for _ in range(REFERENCES))
    tables = ((each, f"table {i} of {REFERENCES} without clusters") for i, each in enumerate(drawn, 1))
    means = np.array([[losses_of(each, k, what).mean() for k in sizes] for each, what in tables])
    others = np.log(np.maximum(means, 1e-300))
    gaps = others.mean(axis=0) - np.log(inertia)
    # the rows' own share of chance counts, too: a sample's inertia is no more certain than a reference's
    return InertiaCurve(shares, errors, gaps, others.std(axis=0) * np.sqrt(1 + 1 / REFERENCES))


def agreement_of_halves(rows: Double, most: int, rng: np.random.Generator) -> Double:
    """How alike clusters of one half of the rows and of the other half sort them: adjusted Rand index, k = 2, 3, ...

    Halves without two different rows are as little alike as chance has it.
    """
    rows = some_rows(rows, MOST_ROWS, rng)
    order = rng.permutation(len(rows))
    parts = rows[order[::2]], rows[order[1::2]]
    most = min(most, *(len(np.unique(part, axis=0)) for part in parts))
    sorted_rows = ([nearest(rows, _centers(part, k, rng))[0] for part in parts] for k in range(2, most + 1))
    return np.array([adjusted_rand_score(*labels) for labels in sorted_rows] or [0.0])


def some_rows(rows: Double, most: int, rng: np.random.Generator) -> Double:
    """At most so many of the rows, drawn at random."""
    return rows if len(rows) <= most else rows[rng.permutation(len(rows))[:most]]


def _centers(rows: Double, k: int, rng: np.random.Generator) -> Double:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        fitted = KMeans(k, n_init=STARTS, random_state=int(rng.integers(2**31))).fit(rows)
    return np.asarray(fitted.cluster_centers_)


def _losses(rows: Double, k: int, rng: np.random.Generator) -> Double:
    """The squared distance of each row from its center."""
    if k == 1:
        return np.asarray(np.sum((rows - rows.mean(axis=0)) ** 2, axis=1))
    centers = _centers(rows, k, rng)
    return nearest(rows, centers)[1]
