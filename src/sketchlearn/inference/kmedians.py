"""k-medians of weighted rows, with the least sum of Euclidean distances; and starts for stable mixtures."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial.distance import cdist

from sketchlearn.core.arrays import Double
from sketchlearn.inference.distributions import Mixture, SymmetricStable
from sketchlearn.inference.kmeans import nearest, systematic_draws

STARTS = 5
ROWS_FOR_STARTS = 3000  # Starts are compared on at most so many rows.
STEPS = 60
WIDEST_SMOOTHING, NARROWEST_SMOOTHING = 0.3, 1e-6  # of distances, in units of their mean: first and last steps
TRIMMED_SHARE = 0.025  # of a column's rows at each end: without trimming, outliers became clusters (alpha = 1.3)
# McCulloch's quantiles of symmetric stable distributions (1986): (q95 - q05) / (q75 - q25), and (q75 - q25) / c for the
# characteristic function exp(-|c t|^alpha)
ALPHAS = np.array([0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.1, 1.2, 1.3, 1.4, 1.5, 1.6, 1.7, 1.8, 1.9, 2.0])
TAIL_RATIOS = np.array(
    [44.281, 23.483, 14.838, 10.448, 7.910, 6.314, 5.217, 4.447, 3.882, 3.464, 3.148, 2.912, 2.737, 2.608, 2.512, 2.439]
)
QUARTILE_RANGES = np.array(
    [2.588, 2.337, 2.189, 2.098, 2.040, 2.000, 1.980, 1.965, 1.955, 1.946, 1.939, 1.933, 1.927, 1.921, 1.914, 1.908]
)


MOST_ITERATIONS = 100
ROWS_PER_BLOCK = 2048


def weiszfeld(rows: NDArray[Any], points: Double, weights: Double) -> Double:
    """Points moved to where the weighted sum of distances to their rows is least."""
    near = 1e-3 * np.sqrt(np.mean(rows.var(axis=0))) + 1e-300
    for _ in range(MOST_ITERATIONS):
        before, (points, _) = points, weiszfeld_step(rows, points, weights)
        if np.allclose(points, before, rtol=0, atol=near):
            break
    return points


def weiszfeld_step(rows: NDArray[Any], points: Double, weights: Double) -> tuple[Double, Double]:
    """Points moved towards the least weighted sum of distances to the rows nearest to them, and the rows' shares."""
    k, d = points.shape
    least = 1e-6 * np.sqrt(np.mean(rows.var(axis=0))) + 1e-300
    sums, pulls, sizes = np.zeros((k, d)), np.zeros(k), np.zeros(k)
    for first in range(0, len(rows), ROWS_PER_BLOCK):
        block, own = rows[first : first + ROWS_PER_BLOCK], weights[first : first + ROWS_PER_BLOCK]
        labels, _ = nearest(block, points)
        pull = own / np.maximum(np.linalg.norm(block - points[labels], axis=1), least)
        inside = (labels == np.arange(k)[:, None]).astype(rows.dtype)
        sizes += inside @ own
        pulls += inside @ pull
        sums += inside @ (pull[:, None] * block)
    return np.where(pulls[:, None] > 0, sums / np.maximum(pulls, 1e-300)[:, None], points), sizes / sizes.sum()


def weighted_medians(rows: Double, weights: Double, k: int, rng: np.random.Generator) -> Double:
    """The best k medians (k, d) of weighted rows.

    Starts are drawn in proportion to the distance from those before, not its square: k-means++ draws more outliers.
    Weiszfeld's steps follow.

    >>> rows = np.array([[0.0], [1.0], [2.0], [100.0]])
    >>> weighted_medians(rows, np.array([0.3, 0.3, 0.3, 0.1]), 1, np.random.default_rng(0)).round(4).tolist()
    [[1.0]]
    """
    present = weights > 0
    rows, weights = rows[present], weights[present] / weights[present].sum()
    middle = rows[int(np.argmax(weights))]
    reach = max(float(np.max(np.abs(rows - middle))), 1e-300)
    own = (rows - middle) / reach
    few, shares = own, weights
    if len(own) > ROWS_FOR_STARTS:
        drawn = systematic_draws(weights, ROWS_FOR_STARTS, rng.random(ROWS_FOR_STARTS))
        few, shares = own[drawn], np.full(ROWS_FOR_STARTS, 1 / ROWS_FOR_STARTS)
    best = _best([_settled(few, shares, _far_rows(few, shares, k, rng)) for _ in range(STARTS)], few, shares)
    return np.asarray(middle + reach * (best if few is own else _settled(own, weights, best)))


def _far_rows(rows: Double, weights: Double, k: int, rng: np.random.Generator) -> Double:
    """k rows, each drawn in proportion to its weight times its distance from those before."""
    chosen = np.empty((k, rows.shape[1]))
    nearest = np.ones(len(rows))
    for i in range(k):
        total = np.cumsum(weights * nearest)
        place = np.searchsorted(total, rng.random() * total[-1], side="right")
        chosen[i] = rows[min(int(place), len(rows) - 1)]
        distances = cdist(rows, chosen[i : i + 1])[:, 0]
        nearest = np.minimum(nearest, distances) if i else distances
    return chosen


def _settled(rows: Double, weights: Double, centers: Double) -> Double:
    """Centers after Weiszfeld's steps.

    Distances are smoothed, less and less, as a plain step never leaves a row that it starts on. At the end, a center
    moves to the nearest row if that is better.
    """
    numbers = np.arange(len(centers))
    mean = max(_cost(rows, weights, centers), 1e-300)
    for smoothing in mean * np.geomspace(WIDEST_SMOOTHING, NARROWEST_SMOOTHING, STEPS):
        distances = cdist(rows, centers)
        labels = np.argmin(distances, axis=1)
        pull = weights / np.hypot(distances[np.arange(len(rows)), labels], smoothing)
        members = pull[:, None] * (labels[:, None] == numbers)
        sizes = members.sum(axis=0)
        centers = np.where(sizes[:, None] > 0, members.T @ rows / np.where(sizes > 0, sizes, 1.0)[:, None], centers)
    distances = cdist(rows, centers)
    on_rows = rows[np.argmin(distances, axis=0)]
    # each center or the row near it, whichever is better for the center's own rows
    members = weights[:, None] * (np.argmin(distances, axis=1)[:, None] == numbers)
    costs = [np.sum(members * cdist(rows, points), axis=0) for points in (centers, on_rows)]
    mixed = np.where((costs[1] < costs[0])[:, None], on_rows, centers)
    return _best([centers, on_rows, mixed], rows, weights)


def _best(candidates: list[Double], rows: Double, weights: Double) -> Double:
    return min(candidates, key=lambda centers: _cost(rows, weights, centers))


def _cost(rows: Double, weights: Double, centers: Double) -> float:
    """The weighted mean distance of rows to their nearest centers."""
    return float(weights @ cdist(rows, centers).min(axis=1))


def start_from_rows(rows: Double, weights: Double, k: int, rng: np.random.Generator) -> Mixture:
    """A mixture of k stable distributions, in the units of the rows, to start a refinement from.

    Rows are clustered by medians, each column in units of its quartiles. Locations are the medians of a cluster's
    columns; scales and alpha follow from its quantiles (McCulloch, Communications in Statistics 15, 1986).
    """
    present = weights > 0
    rows, weights = rows[present], weights[present] / weights[present].sum()
    low, first, middle, third, high = _quantiles(rows, weights, (TRIMMED_SHARE, 0.25, 0.5, 0.75, 1 - TRIMMED_SHARE))
    units = _ranges(third - first, rows)
    seen, near = (rows - middle) / units, (np.clip(rows, low, high) - middle) / units
    centers = weighted_medians(near, weights, k, rng)
    labels = np.argmin(cdist(near, centers), axis=1)
    parts = [_stable_by_quantiles(seen[labels == c], weights[labels == c]) for c in range(k) if np.any(labels == c)]
    shares, locations, shapes = (np.array(part) for part in zip(*parts, strict=True))
    model = SymmetricStable()
    return Mixture(model, shares, middle + units * locations, model.scaled(shapes, units))


def _stable_by_quantiles(rows: Double, weights: Double) -> tuple[float, Double, Double]:
    """Weight, location and shape (v, alpha) of the stable distribution with the quantiles of these rows."""
    total = float(weights.sum())
    low, first, middle, third, high = _quantiles(rows, weights / total, (0.05, 0.25, 0.5, 0.75, 0.95))
    ranges = _ranges(third - first, rows)
    ratio = float(np.median(np.maximum(high - low, ranges) / ranges))
    alpha = float(np.interp(-ratio, -TAIL_RATIOS, ALPHAS))
    scale = ranges / np.interp(alpha, ALPHAS, QUARTILE_RANGES)
    return total, middle, np.append(2 * scale**2, alpha)  # psi = (v omega^2 / 2)^(alpha / 2), so that v = 2 c^2


def _quantiles(rows: Double, weights: Double, levels: tuple[float, ...]) -> Double:
    """Weighted quantiles of each column, (levels, d)."""
    order: NDArray[np.int64] = np.argsort(rows, axis=0)
    below = np.cumsum(weights[order], axis=0) - 0.5 * weights[order]
    sorted_rows = np.take_along_axis(rows, order, axis=0)
    return np.stack([np.interp(levels, below[:, j], sorted_rows[:, j]) for j in range(rows.shape[1])], axis=1)


def _ranges(ranges: Double, rows: Double) -> Double:
    """Quartile ranges; where most rows have one value, a part of the column's spread, or 1 where that is constant."""
    spread = 0.01 * (rows.max(axis=0) - rows.min(axis=0))
    return np.where(ranges > 0, ranges, np.where(spread > 0, spread, 1.0))
