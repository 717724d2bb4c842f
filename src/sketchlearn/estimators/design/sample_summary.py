"""Summaries of a small sample: location, spread, and the width of clusters."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sketchlearn.core.arrays import Double
from sketchlearn.core.randomness import row_chooser
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.inference.distributions import n_parameters
from sketchlearn.inference.kmeans import TOLERANCE, KMeansOfRows
from sketchlearn.rows.sampling import sample as sample_of
from sketchlearn.rows.source import is_array, source

MOST_ROWS = 5000
#: Other rows may lie so many times as far as those of a sample from all over, and as a stream's first rows.
REACH_FACTOR, STREAM_REACH_FACTOR = 8.0, 32.0
#: All rows of a table as large: few far ones, of which a sample has too many or too few, decide where clusters lie.
ROWS_OF_PILOT, ROWS_PER_CENTER, LARGEST_PILOT = 50_000, 100, 200_000
MOST_ROWS_FOR_SHAPES = 20_000  # Shapes of a mixture's clusters are taken from so many rows.
ROWS_PER_CLUSTER = 150  # of a sample that determines the borders of many clusters
ROUNDING = 1e-12
EVEN_SPREADS_FACTOR = 4.0  # columns whose spreads differ by less than this factor, up or down, are measured in one unit
LEAST_GAIN = 0.1  # nats per column by which clusters in other units must be clearer
LEAST_CLUSTER_DEVIATION = 0.01  # deviation within clusters, of that of all rows
LEAST_CODE_DEVIATION = 0.3  # the same for columns of few values, of which a cluster may have a single one
MOST_CODES = 20  # different values of a column of codes
STARTS = 3  # of k-means
ROUNDS = 4  # of clustering in units of the clusters' own deviations
MOST_SHAPES = 20  # The JSON form of an operator stays small.
ROWS_PER_COLUMN = 4  # The covariance of a cluster of fewer rows means nothing.
COVARIANCE_FLOOR = 1e-6  # of a mixture's component, in the mean variance of the columns
SHAPE_ITERATIONS, SHAPE_STARTS, SHAPE_DIGITS = 50, 10, 4
SECONDS_PER_PARAMETER = 15e-3  # of an Arm core, for the decoder of a mixture and the search beside it on kept rows
WORTH = 1.0  # seconds, as frequencies show how well a mixture fits, and statistics at a pilot do not
ROWS_PER_PARAMETER = 10  # of a sample, at least: rows that are left out decide about mixtures of fewer


def rows_wanted(task: str, n_components: int = 1) -> int:
    """The largest number of rows that a design for the task uses."""
    if task.startswith("mixture"):
        return MOST_ROWS_FOR_SHAPES
    return min(max(MOST_ROWS, ROWS_PER_CLUSTER * n_components), MOST_ROWS_FOR_SHAPES)


def rows_of_pilot(n_components: int) -> int:
    """The largest number of rows that the k-means of a sample uses.

    >>> rows_of_pilot(8), rows_of_pilot(1000)
    (50000, 100000)
    """
    return int(np.clip(ROWS_PER_CENTER * n_components, ROWS_OF_PILOT, LARGEST_PILOT))


def steps_pay(n_components: int, n_features: int, covariance_type: str, n_sampled: int) -> bool:
    """Whether a mixture is learned by steps of EM at the mixture of a sample, rather than from frequencies.

    Both read the rows once. Then a decoder takes seconds for hundreds of parameters, and the mixture of a sample tenths
    of a second: docs/decisions/by-cost.md.

    >>> steps_pay(2, 2, "full", 20_000), steps_pay(10, 10, "diag", 20_000)
    (False, True)
    """
    n = n_parameters(n_components, n_features, covariance_type)
    return n_sampled >= ROWS_PER_PARAMETER * n and SECONDS_PER_PARAMETER * n > WORTH


def thinned(rows: NDArray[Any], most: int) -> NDArray[Any]:
    """At most so many of the rows, from all over them."""
    return rows if len(rows) <= most else rows[np.linspace(0, len(rows) - 1, most).astype(int)]


def room(design_sample: DesignSample) -> float:
    """How many times as far from the center as those of a sample rows may lie."""
    return REACH_FACTOR if design_sample.representative else STREAM_REACH_FACTOR


def deviations(rows: Double) -> Double:
    """The standard deviation of each column; a typical one for constant columns."""
    return _floored(rows.std(axis=0), rows.mean(axis=0))


@dataclass(frozen=True)
class Summary:
    """The mean, spread and unit of each column, and, in those units, the cost of a row."""

    mean: Double
    spread: Double
    units: Double
    cost: float  # squared distance of a typical row from its cluster's center
    cluster_costs: Double  # the same, cluster by cluster
    within: Double  # deviation of rows from their cluster's center, column by column, not in units

    @property
    def width(self) -> float:
        return math.sqrt(float(np.sum((self.spread / self.units) ** 2)))


def summarize(sample: Double, n_clusters: int, seed: int, units: Double | None = None) -> Summary:
    """Measures the clusters of k-means in the sample, in given units or in those in which they are clearest."""
    mean = sample.mean(axis=0)
    rows = sample - mean
    spread = _floored(rows.std(axis=0), mean)
    k = min(n_clusters, len(np.unique(rows, axis=0)))
    codes = [len(np.unique(column)) <= MOST_CODES for column in rows.T]
    floor = np.where(codes, LEAST_CODE_DEVIATION, LEAST_CLUSTER_DEVIATION) * spread
    if units is None:
        units, clusters = _clustered(rows, spread, floor, k, seed)
    else:
        clusters = Partition.of(rows, k, units, floor, seed)
    squared, labels = np.sum((clusters.left / units) ** 2, axis=1), clusters.labels
    d, everything = rows.shape[1], float(np.sum((rows / units) ** 2) / len(rows))
    # If clusters are points: as if the distances between them were five times their width, at least.
    least = everything / (1 + 25 * k ** (2 / d)) if everything > 0 else float(d)
    cost = max(_typical(squared, d), least)
    own = [max(_typical(squared[labels == c], d), least) for c in range(k) if np.sum(labels == c) >= 2 * d]
    return Summary(mean, spread, units, cost, np.array(own or [cost]), clusters.within)


@dataclass(frozen=True)
class Partition:
    """Clusters of a sample, and its rows less the mean of their cluster."""

    labels: NDArray[Any]
    left: Double
    within: Double  # deviation of rows from their cluster's center, column by column, at least the floor

    @classmethod
    def of(cls, rows: Double, k: int, units: Double, floor: Double, seed: int) -> Partition:
        """By k-means, with columns measured in units; deviations are at least the floor."""
        scaled, rng = KMeansOfRows(rows / units), np.random.default_rng(seed % 2**32)
        runs = [scaled.lloyd(scaled.starts(k, rng), TOLERANCE) for _ in range(STARTS)]
        centers = min(runs, key=lambda run: run[1])[0]
        labels = scaled.assign(centers)[0]
        left = rows - units * scaled.centers_of(centers)[labels]
        return cls(labels, left, np.maximum(np.sqrt(np.mean(left**2, axis=0)), floor))

    def gain(self, spread: Double) -> float:
        """The gain in log-likelihood over one Gaussian, in nats per row; it does not depend on the units."""
        shares = np.bincount(self.labels) / len(self.labels)
        shares = shares[shares > 0]
        return float(np.sum(np.log(spread / self.within)) + shares @ np.log(shares))


def _clustered(rows: Double, spread: Double, floor: Double, k: int, seed: int) -> tuple[Double, Partition]:
    """Units of the columns, and clusters: one unit if spreads are similar, otherwise spreads are limited to a range.

    That range keeps columns of noise small beside columns that matter to k-means. If clusters are clearer in units in
    which they have about the same deviation in all columns, those are the units.
    """
    plain = Partition.of(rows, k, np.ones_like(spread), floor, seed)
    typical = np.exp(np.mean(np.log(spread)))
    relative = spread / typical
    if np.all((relative >= 1 / EVEN_SPREADS_FACTOR) & (relative <= EVEN_SPREADS_FACTOR)):
        return np.ones_like(spread), plain
    clearest = Partition.of(rows, k, spread, floor, seed)
    for _ in range(ROUNDS):
        other = Partition.of(rows, k, clearest.within, floor, seed)
        clearest = max(clearest, other, key=lambda found: found.gain(spread))
    if clearest.gain(spread) <= plain.gain(spread) + LEAST_GAIN * len(spread):
        return spread / np.clip(relative, 1 / EVEN_SPREADS_FACTOR, EVEN_SPREADS_FACTOR) / typical, plain
    return clearest.within / np.exp(np.mean(np.log(clearest.within))), clearest


def _typical(squared: Double, d: int) -> float:
    """A mean of squared distances that is robust to outliers: from their median, as if they were chi-squared."""
    return float(np.median(squared) / (1 - 2 / (9 * d)) ** 3)


def _changing(spread: Double, mean: Double) -> NDArray[np.bool_]:
    return np.asarray(spread > ROUNDING * np.abs(mean))


def _floored(spread: Double, mean: Double) -> Double:
    """Spreads; a typical one for columns that are constant up to rounding."""
    alive = _changing(spread, mean)
    if not np.any(alive):
        return np.ones_like(spread)
    return np.where(alive, spread, np.exp(np.mean(np.log(spread[alive]))))


def rows_of(data: Any, seed: int, most: int, representative: bool | None, *, single: bool = False) -> DesignSample:
    """At most so many rows of a sample; None of `representative` means as seen.

    Rows in single precision may stay so: many rows of many columns would need twice the memory.
    """
    if isinstance(data, np.ndarray | list | tuple) and is_array(data):
        some, columns, from_all_over = data, None, True
    else:
        given = source(data)
        some, from_all_over, _ = sample_of(given, most, row_chooser(seed))
        columns = given.columns
    rows = np.asarray(some)
    rows = rows if rows.dtype == np.float32 else np.asarray(rows, np.float64)
    if rows.ndim != 2 or not rows.size:
        raise ValueError(f"the sample must be a table with at least one row and one column, not of shape {rows.shape}")
    if not np.all(np.isfinite(rows)):
        raise ValueError("the sample has missing or infinite values: fill or drop them first")
    rows = thinned(rows, most) if single else thinned(rows, most).astype(np.float64, copy=False)
    return DesignSample(rows, from_all_over if representative is None else bool(representative), columns)


def cluster_shapes(rows: Double, n_clusters: int, seed: int, *, full: bool) -> tuple[tuple[float, ...], ...]:
    """Factors L of the clusters' covariances L L', as `frequencies.Shaped` takes them; none if there are too few rows.

    k-means would cut long clusters into short ones, so a mixture of Gaussians is fitted to the rows: several times to
    some of them, then the likeliest one to all.
    """
    n, d = rows.shape
    k = min(n_clusters, MOST_SHAPES, n // (ROWS_PER_COLUMN * d))
    alive = _changing(rows.std(axis=0), rows.mean(axis=0))
    if k == 0 or not np.any(alive):
        return ()
    mean_variance = float(np.mean(rows.var(axis=0)))
    mixture = GaussianMixture(k, covariance_type="full" if full else "diag", max_iter=SHAPE_ITERATIONS)
    mixture.set_params(n_init=SHAPE_STARTS, reg_covar=COVARIANCE_FLOOR * mean_variance, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # also: fewer distinct rows than clusters
        mixture.fit(thinned(rows, MOST_ROWS))
        if n > MOST_ROWS:
            mixture.set_params(warm_start=True).fit(rows)
    large = mixture.weights_ * n >= ROWS_PER_COLUMN * d
    found = mixture.covariances_[large]
    variances = np.einsum("kdd->kd", found) if full else found  # a view
    variances[:, ~alive] = variances[:, alive].mean(axis=1, keepdims=True)  # flat ones took frequencies for themselves
    numbers = np.linalg.cholesky(found)[:, *np.tril_indices(d)] if full else np.sqrt(found)
    return tuple(tuple(float(f"{x:.{SHAPE_DIGITS}g}") for x in row) for row in numbers)
