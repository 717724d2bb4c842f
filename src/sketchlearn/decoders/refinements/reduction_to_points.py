"""From a fitted density to k points: Lloyd's algorithm on draws of the model. No data is needed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array

from sketchlearn.decoders.refinements.cell_means import CellMeans
from sketchlearn.decoders.refinements.even_draws import even_rows
from sketchlearn.kernel import MOST_COORDINATES, lloyd_step
from sketchlearn.models import Double, Mixture, Single

LEAST_START_SAMPLES, START_SAMPLES_PER_CLUSTER = 4_000, 80  # Runs are compared on fewer samples.
RECORDS = 1e5  # that a mixture is fitted to, where nobody says
LEAST_DRAWS, MORE_DRAWS = 20_000, 3  # Draws grow by this ratio, until they add little noise, or
MOST_WORK = 2e8  # draws times clusters times columns that tell them apart.
ADDED_NOISE = 0.05  # in variance, relative to that of means of the records of each cluster; that of centers is larger
STILL = 0.2  # times the deviation of means of as many records as there are draws: steps end
STARTS, DEEPEST_BREATH = 6, 5  # where the mixture has more components than clusters; fewer otherwise
MOST_ITERATIONS = 100
POWER_STEPS = 5  # towards a cluster's longest axis
ROWS_PER_BLOCK = 2048
#: Shares of the sum of squares: exchanges that gain less do not pay, and are not waited for. With steps to the very end
#: the sums of twelve samples were the same within 0.001, and took three times as long.
TOLERANCE, ROUGH_TOLERANCE = 1e-4, 1e-3

Step = Callable[[Double], tuple[Double, Double]]  # from centers to those of the next step, and their shares


def antithetic_sample(mixture: Mixture, n: int, rng: np.random.Generator) -> Double:
    """About n rows of the mixture in random order, in pairs that mirror each other at their component's location."""
    shares = np.maximum(mixture.weights, 0) / np.maximum(mixture.weights, 0).sum()
    counts = np.floor(shares * n / 2 + rng.random(len(shares))).astype(int)
    pieces = []
    for component, count in enumerate(counts):
        shape = mixture.shapes[0 if mixture.model.tied else component]
        noise = mixture.model.draw(shape[None], (count, mixture.locations.shape[1]), rng)[0]
        pieces += [mixture.locations[component] + noise, mixture.locations[component] - noise]
    return rng.permutation(np.concatenate(pieces))


def centroids(mixture: Mixture, k: int, rng: np.random.Generator, records: float = RECORDS) -> tuple[Double, Double]:
    """k centroids of the mixture, and the share of each: the best of several runs of Lloyd's algorithm, polished.

    Starts are the mixture's own locations, brought to k by k-means, and k-means++ on samples. The more records the
    mixture is fitted to, the less noise is added to theirs.
    """
    n_starts, deepest = (STARTS, DEEPEST_BREATH) if len(mixture) > k else (0, 0) if apart(mixture, k) else (2, 1)
    middle = mixture.weights @ mixture.locations / mixture.weights.sum()
    if k == 1:
        return middle[None], np.ones(1)
    around = replace(mixture, locations=mixture.locations - middle)
    best, means = around.locations, CellMeans.of(around)
    if n_starts:
        few = antithetic_sample(around, max(LEAST_START_SAMPLES, START_SAMPLES_PER_CLUSTER * k), rng)
        found = _started(around, k, few.astype(np.float32), n_starts, deepest, rng)
        if len(best) == k:  # few rows do not tell which of two is better that cost about the same
            step = means.with_draws(LEAST_DRAWS, k, rng)
            settled = [_settled(around, start, LEAST_DRAWS, step) for start in (best, found)]
            best, *_ = min(settled, key=lambda run: run[2])
        else:
            best = found
    centers, shares = polished(around, best, records, lambda draws: means.with_draws(draws, k, rng))
    return centers + middle, shares


def _started(mixture: Mixture, k: int, few: Single, n_starts: int, deepest: int, rng: np.random.Generator) -> Double:
    """The best of several runs of Lloyd's algorithm on a few rows."""
    points, shares = mixture.locations.astype(np.float32), mixture.weights.astype(np.float32)
    best = np.concatenate([points, few[: max(k - len(points), 0)]])
    if len(points) > k:
        runs = (lloyd(points, plus_plus(points, shares, k, rng), shares) for _ in range(n_starts))
        best, _ = min(runs, key=lambda run: run[1])
    equal = np.ones(len(few), np.float32)
    starts = [best, *(plus_plus(few, equal, k, rng) for _ in range(n_starts))]
    best, cost = min((lloyd(few, start, equal, TOLERANCE) for start in starts), key=lambda run: run[1])
    return breathe(few, best, cost, equal, deepest).astype(np.float64)


def polished(
    mixture: Mixture, centers: Double, records: float, steps: Callable[[float], Step]
) -> tuple[Double, Double]:
    """Centers where steps end that a number of draws of the mixture gives, and the share of each.

    Draws lead to centers with an error of their own. How much these change when there are more draws tells it.
    """
    k, d = centers.shape
    draws, most = LEAST_DRAWS, MOST_WORK / k / (min(k - 1, d) + 4)
    while True:
        before = centers
        centers, shares, variance = _settled(mixture, centers, draws, steps(draws))
        error = np.mean((centers - before) ** 2) / (1 + MORE_DRAWS)  # of these, where that of `before` is larger
        enough = draws > LEAST_DRAWS and error <= ADDED_NOISE * variance * k / records
        if enough or draws * MORE_DRAWS > most:
            return centers, shares
        draws *= MORE_DRAWS


def _settled(mixture: Mixture, centers: Double, draws: float, step: Step) -> tuple[Double, Double, float]:
    """Centers where the steps of so many draws end, their shares, and the variance within clusters per column."""
    k, d = centers.shape
    spread = mixture.weights @ np.sum(mixture.variances() + mixture.locations**2, axis=1) / mixture.weights.sum()
    for _ in range(MOST_ITERATIONS):
        moved, shares = step(centers)
        variance = max(spread - shares @ np.sum(moved**2, axis=1), 0) / d
        still = np.mean((moved - centers) ** 2) <= STILL**2 * variance * k / draws
        centers = moved
        if still:
            break
    return centers, shares, float(variance)


def apart(mixture: Mixture, k: int) -> bool:
    """Whether the mixture's own k locations are as good as centers get.

    Two centers for one Gaussian save 2 / pi of its widest variance; one center for two costs the moment between them.
    If every pair costs more than any Gaussian saves, no exchange of centers pays.
    """
    if len(mixture) != k or k == 1:
        return len(mixture) == k
    weights, locations = mixture.weights, mixture.locations
    saved = 2 / np.pi * weights * np.linalg.eigvalsh(mixture.covariances())[:, -1]
    i, j = np.triu_indices(k, 1)
    gaps = np.sum((locations[i] - locations[j]) ** 2, axis=1)
    cost = gaps * weights[i] * weights[j] / (weights[i] + weights[j])
    return bool(cost.min() > saved.max())


def medians(mixture: Mixture, k: int, rng: np.random.Generator, records: float = RECORDS) -> tuple[Double, Double]:
    """k points with the least sum of distances, and the share of each: Weiszfeld's steps from the centroids."""
    points, _ = centroids(mixture, k, rng, records)
    middle = mixture.weights @ mixture.locations / mixture.weights.sum()
    around = replace(mixture, locations=mixture.locations - middle)

    def steps(draws: float) -> Step:
        rows = even_rows(around, draws, rng)
        return lambda centers: weiszfeld_step(rows, centers, np.ones(len(rows)))

    points, shares = polished(around, points - middle, records, steps)
    return points + middle, shares


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


def plus_plus(rows: NDArray[Any], weights: NDArray[Any], k: int, rng: np.random.Generator) -> NDArray[Any]:
    """k starting points by greedy k-means++: of a few candidates far from the points before, the most helpful."""
    trials, lengths = 2 + int(np.log(k)), np.sum(rows * rows, axis=1)
    chosen = np.empty((k, rows.shape[1]), rows.dtype)
    left = np.full(len(rows), np.inf, rows.dtype)  # squared distance to the nearest chosen point
    for i in range(k):
        total = np.cumsum(weights * (left if i else 1.0), dtype=np.float64)
        drawn = np.searchsorted(total, rng.random(trials if i else 1) * total[-1])
        candidates = rows[np.minimum(drawn, len(rows) - 1)]
        distance = (-2 * candidates) @ rows.T
        distance += lengths + np.sum(candidates * candidates, axis=1)[:, None]
        np.minimum(distance, left, out=distance)
        best = int(np.argmin(distance @ weights))
        chosen[i], left = candidates[best], np.maximum(distance[best], 0)
    return chosen


def lloyd(
    rows: NDArray[Any], centers: NDArray[Any], weights: NDArray[Any], tolerance: float = 0.0
) -> tuple[NDArray[Any], float]:
    """Lloyd's algorithm; the centers and the sum of squared distances (less a constant).

    It ends where no row changes its center, or a step lowers the sum by less than this share of it.
    """
    cost, before = np.inf, np.empty(0, np.int64)
    total = float(weights @ np.sum(rows * rows, axis=1)) if tolerance else 0.0
    weights = np.asarray(weights, np.float64)
    for _ in range(MOST_ITERATIONS):
        labels, score, sizes, sums = _assigned(rows, centers, weights)
        last, cost = cost, float(weights @ score)
        settled = last - cost < tolerance * (total + cost) if tolerance else np.array_equal(labels, before)
        if settled:
            return centers, cost
        before = labels
        means = (sums / np.maximum(sizes, 1e-300)[:, None]).astype(rows.dtype)
        centers = np.where(sizes[:, None] > 0, means, centers)
        if np.any(sizes == 0):  # an empty cluster moves to the row that is served worst
            worst = np.argsort(-weights * (score + np.sum(rows * rows, axis=1)))
            centers[sizes == 0] = rows[worst[: int(np.sum(sizes == 0))]]
    return centers, float(weights @ nearest(rows, centers)[1])


def _assigned(
    rows: NDArray[Any], centers: NDArray[Any], weights: Double
) -> tuple[NDArray[Any], NDArray[Any], NDArray[Any], NDArray[Any]]:
    """What `nearest` finds, the weight of each center's rows, and their weighted sum."""
    if centers.size <= MOST_COORDINATES:
        return lloyd_step(rows, centers, weights)
    labels, score = nearest(rows, centers)
    sizes = np.bincount(labels, weights, minlength=len(centers))
    inside = csc_array((weights.astype(rows.dtype), labels, np.arange(len(rows) + 1)), shape=(len(centers), len(rows)))
    return labels, score, sizes, inside @ rows


def breathe(
    rows: NDArray[Any], centers: NDArray[Any], cost: float, weights: NDArray[Any], deepest: int = DEEPEST_BREATH
) -> NDArray[Any]:
    """Centers after exchanges: some are added where clusters are costly, then those that are missed least are removed.

    (Fritzke, "The breathing k-means algorithm", arXiv 2006.15666.)
    """
    k = len(centers)
    breath, total = min(deepest, k // 2), float(weights @ np.sum(rows * rows, axis=1))
    noise = 4 * float(np.finfo(rows.dtype).eps) * total  # of costs: gains below it went on and off for ever
    while breath > 0:
        larger = with_more(rows, centers, weights, breath)
        fewer = np.delete(larger, _least_missed(rows, larger, breath, weights), axis=0)
        smaller, other = lloyd(rows, fewer, weights, TOLERANCE)
        if other < cost - TOLERANCE * (total + cost) - noise:
            centers, cost = smaller, other
        else:
            breath -= 1
    return centers


def with_more(rows: NDArray[Any], centers: NDArray[Any], weights: NDArray[Any], n: int) -> NDArray[Any]:
    """The centers and n more of them, where clusters are costly, after Lloyd's algorithm.

    They start along the cluster's longest axis: off it, steps towards two clusters that were taken for one gain so
    little at first that they would end (k = 20, d = 50: 1.21).
    """
    labels, score = nearest(rows, centers)
    errors = np.bincount(labels, weights * np.maximum(score + np.sum(rows * rows, axis=1), 0), minlength=len(centers))
    added = []
    for cluster in np.argsort(-errors)[:n]:
        inside = labels == cluster
        away, own = rows[inside] - centers[cluster], weights[inside]
        axis = np.where(np.arange(rows.shape[1]) % 2, -1.0, 1.0).astype(rows.dtype)
        for _ in range(POWER_STEPS):
            # not by BLAS, which may read beyond a few columns, and then warns of what is there
            axis = np.einsum("n,nk->k", own * np.einsum("nk,k->n", away, axis), away)
            axis /= max(float(np.linalg.norm(axis)), 1e-30)
        variance = float(own @ np.einsum("nk,k->n", away, axis) ** 2) / max(float(own.sum()), 1e-30)
        added.append(centers[cluster] + (np.sqrt(variance) * axis).astype(rows.dtype))
    return lloyd(rows, np.concatenate([centers, np.stack(added)]), weights, ROUGH_TOLERANCE)[0]


def _least_missed(rows: NDArray[Any], centers: NDArray[Any], n: int, weights: NDArray[Any]) -> list[int]:
    """The n centers whose removal costs least, no two of them neighbours of each other if it can be avoided."""
    score = rows @ (-2 * centers.T) + np.sum(centers * centers, axis=1)
    labels, every = np.argmin(score, axis=1), np.arange(len(rows))
    lowest = score[every, labels]
    score[every, labels] = np.inf
    missed = np.bincount(labels, weights * (score.min(axis=1) - lowest), minlength=len(centers))
    gaps = np.sum((centers[:, None] - centers) ** 2, axis=2)
    np.fill_diagonal(gaps, np.inf)
    chosen: list[int] = []
    frozen: set[int] = set()
    for i in np.argsort(missed).tolist():
        if len(chosen) < n and i not in frozen:
            chosen.append(i)
            if len(frozen) + n < len(centers):
                frozen.add(int(np.argmin(gaps[i])))
    return chosen


def nearest(rows: NDArray[Any], centers: NDArray[Any]) -> tuple[NDArray[np.int64], NDArray[Any]]:
    """The nearest center of each row, and the squared distance to it less the row's squared length."""
    score = rows @ (-2 * centers.T)
    score += np.sum(centers * centers, axis=1)
    labels = np.argmin(score, axis=1)
    return labels, score[np.arange(len(rows)), labels]
