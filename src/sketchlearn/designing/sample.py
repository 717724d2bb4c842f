"""What a small sample tells about the data: where they lie, how far they spread, how wide clusters are."""

from __future__ import annotations

import warnings
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

Double = NDArray[np.float64]

MOST_ROWS = 5000
ROUNDING = 1e-12
EVEN = 4.0  # columns whose spreads differ by less than this factor, up or down, are measured in one unit


@dataclass(frozen=True)
class Summary:
    """Figures of a sample: per column the mean, the spread and a unit; in those units, the cost of a row."""

    mean: Double
    spread: Double
    units: Double
    cost: float  # squared distance of a typical row from its cluster's center
    cluster_costs: Double  # the same, cluster by cluster
    within: Double  # deviation of rows from their cluster's center, column by column, not in units


def summarize(sample: Double, n_clusters: int, seed: int) -> Summary:
    """Runs k-means on the sample and measures its clusters, robustly."""
    mean = sample.mean(axis=0)
    rows = sample - mean
    spread = _floored(rows.std(axis=0), mean)
    typical = np.exp(np.mean(np.log(spread)))
    units = spread / np.clip(spread / typical, 1 / EVEN, EVEN) / typical
    k = min(n_clusters, len(np.unique(rows, axis=0)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
        fit = KMeans(k, n_init=3, random_state=seed % 2**32).fit(rows)
    left = rows - fit.cluster_centers_[fit.labels_]
    squared = np.sum((left / units) ** 2, axis=1)
    d, everything = rows.shape[1], float(np.sum((rows / units) ** 2) / len(rows))
    # clusters that are points: as if they were five times as far apart, at the closest, as they are wide
    least = everything / (1 + 25 * k ** (2 / d)) if everything > 0 else float(d)
    cost = max(_typical(squared, d), least)
    own = [max(_typical(squared[fit.labels_ == c], d), least) for c in range(k) if np.sum(fit.labels_ == c) >= 2 * d]
    within = _floored(np.sqrt(np.mean(left**2, axis=0)), mean)
    return Summary(mean, spread, units, cost, np.array(own or [cost]), within)


def _typical(squared: Double, d: int) -> float:
    """The mean that squared distances would have if they were chi-squared, from their median: outliers do not count."""
    return float(np.median(squared) / (1 - 2 / (9 * d)) ** 3)


def _floored(spread: Double, mean: Double) -> Double:
    """Spreads where columns that never change, up to rounding, get a typical one."""
    alive = spread > ROUNDING * np.abs(mean)
    if not np.any(alive):
        return np.ones_like(spread)
    return np.where(alive, spread, np.exp(np.mean(np.log(spread[alive]))))
