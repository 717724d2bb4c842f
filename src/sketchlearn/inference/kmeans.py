"""Weighted k-means of rows in memory: greedy k-means++, Lloyd's algorithm, and exchanges of centers."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import kmeans_rows

MOST_STEPS = 100
MOST_CANDIDATES = 8  # for each starting point: the lanes of the native loop
DEEPEST_BREATH = 5  # centers that are exchanged at once
POWER_STEPS, ROWS_OF_AXIS = 5, 1000  # of the power iteration for a cluster's longest axis, and its rows, about
#: Shares of the sum of squares: exchanges that gain less do not pay, and are not waited for. With steps to the very end
#: the sums of twelve samples were the same within 0.001, and took three times as long.
TOLERANCE, ROUGH_TOLERANCE = 1e-4, 1e-3
STARTS = (3, 40)
ALIKE = 2e-3  # Ends of starts whose sums are within this share are alike.
STARTS_PER_EXCHANGE = 5  # The best of so many are exchanged: of breast cancer, one exchange in two found the best.
#: rows times clusters of all starts: exchanges find what starts miss, unless clusters are few (of four, one start in 6
#: found the best) or have far rows (eight of spam: three starts had 1.006 of the least, six 1.0025, ten 1.0024)
WORK_OF_STARTS = 1_200_000
#: Of a larger sample, starts and most exchanges are tried on some rows, at least so many for each cluster, and the best
#: two of what is found are exchanged on all, at most so deep.
LARGE_SAMPLE, ROWS_OF_STARTS, ROWS_PER_START, DEEPEST_ON_ALL = 10_000, 5000, 50, (5, 2)
FINE_SHARE = 1e-5  # of the squares of all rows: clusters as narrow need rows of float64
LOOKED_AT = 4  # rows for each cluster: most often they are distinct, and all rows take ten times as long


class KMeansOfRows:
    """Weighted rows in memory, centred and scaled for k-means, in float32 or float64.

    Centers are given and returned in these scaled coordinates; `centers_of` and `seen` convert them.
    """

    def __init__(self, rows: NDArray[Any], weights: NDArray[Any] | None = None, *, fine: bool = False):
        self.rows, self.fine = rows, fine
        self._dtype: type[np.floating[Any]] = np.float64 if fine else np.float32
        self.weights = np.full(len(rows), 1 / len(rows)) if weights is None else np.asarray(weights, np.float64)
        self._threads = kernel.n_threads(None)
        low, high = kernel.column_range(rows, None)
        self.middle = np.clip(rows.mean(axis=0, dtype=np.float64), low, high)  # of huge rows, means may overflow
        reach = np.max(np.maximum(high - self.middle, self.middle - low))
        self.size = float(reach) or 1.0  # so that squares are finite
        self._native = kmeans_rows(kernel.active, rows, self.weights, self.middle, 1 / self.size, fine, self._threads)

    def centers_of(self, seen: Double) -> Double:
        return np.asarray(self.middle + self.size * seen)

    def seen(self, centers: NDArray[Any]) -> Double:
        return np.asarray((centers - self.middle) / self.size, np.float64)

    def starts(self, k: int, rng: np.random.Generator) -> Double:
        """k starting points by greedy k-means++."""
        positions = np.empty(k, np.int64)
        uniforms = rng.random((k, min(2 + int(np.log(k)), MOST_CANDIDATES)))
        self._native.starts(uniforms, self._threads, positions)
        return self.seen(self.rows[positions])

    def lloyd(self, centers: Double, tolerance: float = 0.0) -> tuple[Double, float]:
        """Lloyd's algorithm: centers, and the weighted sum of squared distances.

        It ends where no row changes its center, or a step lowers the sum by less than this share of it.
        """
        found = np.array(centers, np.float64)
        return found, self._native.lloyd(found, tolerance, MOST_STEPS, self._threads)

    def assign(self, centers: Double) -> tuple[NDArray[np.int32], Double]:
        """The nearest center of each row, and its squared distance."""
        labels, squares = np.empty(len(self.rows), np.int32), np.empty(len(self.rows))
        self._native.assign(np.ascontiguousarray(centers), self._threads, labels, squares)
        return labels, squares

    def removal_costs(self, centers: Double) -> Double:
        """The increase of the sum without each center."""
        costs = np.empty(len(centers))
        self._native.removal_costs(np.ascontiguousarray(centers), self._threads, costs)
        return costs

    def breathe(self, centers: Double, cost: float, deepest: int = DEEPEST_BREATH) -> Double:
        """Centers after exchanges: some are added to costly clusters, then those of least use are removed.

        (Fritzke, "The breathing k-means algorithm", arXiv 2006.15666.)
        """
        breath = min(deepest, len(centers) // 2)
        noise = 4 * float(np.finfo(self._dtype).eps)  # gains below that of costs went on and off for ever
        while breath > 0:
            larger = self.with_more(centers, breath)
            fewer = np.delete(larger, _least_missed(larger, breath, self.removal_costs(larger)), axis=0)
            smaller, other = self.lloyd(fewer, TOLERANCE)
            if other < cost * (1 - TOLERANCE) - noise:
                centers, cost = smaller, other
            else:
                breath -= 1
        return centers

    def with_more(self, centers: Double, n: int) -> Double:
        """The centers and n more in the most costly clusters, after Lloyd's algorithm.

        They start along the cluster's longest axis: off it, the first steps that split two merged clusters gain too
        little to continue (k = 20, d = 50: 1.21).
        """
        labels, squares = self.assign(centers)
        errors = np.bincount(labels, self.weights * squares, minlength=len(centers))
        added = []
        for cluster in np.argsort(-errors)[:n]:
            inside = np.flatnonzero(labels == cluster)
            inside = inside[:: max(1, len(inside) // ROWS_OF_AXIS)]
            away = self.seen(self.rows[inside]).astype(self._dtype) - centers[cluster].astype(self._dtype)
            own = self.weights[inside].astype(away.dtype)
            axis = np.where(np.arange(away.shape[1]) % 2, -1.0, 1.0).astype(away.dtype)
            for _ in range(POWER_STEPS):
                # not by BLAS, which may read beyond a few columns, and then warns of what is there
                axis = np.einsum("n,nk->k", own * np.einsum("nk,k->n", away, axis), away)
                axis /= max(float(np.linalg.norm(axis)), 1e-30)
            variance = float(own @ np.einsum("nk,k->n", away, axis) ** 2) / max(float(own.sum()), 1e-30)
            added.append(centers[cluster] + np.sqrt(variance) * axis)
        return self.lloyd(np.concatenate([centers, np.stack(added)]), ROUGH_TOLERANCE)[0]

    def coreset(self, n: int) -> KMeansOfRows:
        """A lightweight coreset of about n rows (Bachem, Lucic and Krause, KDD 2018), drawn systematically."""
        far = self.assign(np.zeros((1, self.rows.shape[1])))[1]
        even, by_distance = self.weights / self.weights.sum(), self.weights * far
        inclusion = np.minimum(1.0, n * (even + by_distance / max(float(by_distance.sum()), 1e-300)) / 2)
        passed = np.floor(np.cumsum(inclusion) + 0.5)
        some = np.flatnonzero(np.diff(passed, prepend=0.0) > 0)
        return KMeansOfRows(self.rows[some], self.weights[some] / inclusion[some], fine=self.fine)

    def search(self, k: int, rng: np.random.Generator, n_starts: int | None = None) -> Double:
        """The best centers of several starts, improved by exchanges."""
        large = len(self.rows) >= LARGE_SAMPLE
        few = self.coreset(max(ROWS_OF_STARTS, ROWS_PER_START * k)) if large else self
        if n_starts is None:  # starts on few rows cost little
            n_starts = int(np.clip(WORK_OF_STARTS / (len(few.rows) * k), *STARTS))
        found = [few.breathe(*run) for run in few._settled_starts(k, rng, n_starts)]
        if large:
            starts = (self.lloyd(self.seen(few.centers_of(centers)), TOLERANCE) for centers in found)
            best = sorted(starts, key=lambda run: run[1])
            found = [self.breathe(*run, deepest) for run, deepest in zip(best, DEEPEST_ON_ALL, strict=False)]
        return min((self.lloyd(centers, TOLERANCE) for centers in found), key=lambda run: run[1])[0]

    def best_of_starts(self, k: int, rng: np.random.Generator, n_starts: int) -> Double:
        """The centers of the best of several starts, without exchanges."""
        return min((self.lloyd(self.starts(k, rng), TOLERANCE) for _ in range(n_starts)), key=lambda run: run[1])[0]

    def _settled_starts(self, k: int, rng: np.random.Generator, n_starts: int) -> list[tuple[Double, float]]:
        """The best distinct local minima from several starts, each with its sum."""
        runs = [self.lloyd(self.starts(k, rng), ROUGH_TOLERANCE) for _ in range(n_starts)]
        best: list[tuple[Double, float]] = []
        for run in sorted(runs, key=lambda run: run[1])[: max(1, len(runs) // STARTS_PER_EXCHANGE)]:
            if not best or run[1] > (1 + ALIKE) * best[-1][1]:
                best.append(run)
        return best


def _least_missed(centers: Double, n: int, costs: Double) -> list[int]:
    """The n centers whose removal costs least; neighbours of each other are avoided."""
    squares = np.sum(centers * centers, axis=1)
    gaps = squares + squares[:, None] - 2 * centers @ centers.T
    np.fill_diagonal(gaps, np.inf)
    chosen: list[int] = []
    frozen: set[int] = set()
    for i in np.argsort(costs).tolist():
        if len(chosen) < n and i not in frozen:
            chosen.append(i)
            if len(frozen) + n < len(centers):
                frozen.add(int(np.argmin(gaps[i])))
    return chosen


def systematic_draws(weights: Double, n: int, offsets: Double | float) -> NDArray[np.int64]:
    """Places of n draws by weight: one in each n-th of their sum, 1, at these offsets (0 to 1)."""
    places = (np.arange(n) + offsets) / n
    return np.minimum(np.searchsorted(np.cumsum(weights), places), len(weights) - 1)


def few_distinct(rows: NDArray[Any], k: int) -> NDArray[Any] | None:
    """The distinct rows, in order, where they are fewer than k; None where there are as many.

    >>> few_distinct(np.array([[2.0], [1.0], [2.0]]), 3).tolist()
    [[1.0], [2.0]]
    """
    if len(np.unique(rows[:: max(1, len(rows) // (LOOKED_AT * k))], axis=0)) >= k:
        return None
    distinct = np.unique(rows, axis=0)
    return distinct if len(distinct) < k else None


def kmeans(
    rows: NDArray[Any],
    k: int,
    rng: np.random.Generator,
    weights: NDArray[Any] | None = None,
    n_starts: int | None = None,
) -> Double:
    """Centers of weighted rows with the least sum of squared distances that was found; those of fewer rows repeat.

    >>> kmeans(np.array([[0.0], [1.0], [5.0]]), 2, np.random.default_rng(0)).round(3).tolist()
    [[5.0], [0.5]]
    """
    if (distinct := few_distinct(rows, k)) is not None:
        return np.asarray(distinct[np.arange(k) % len(distinct)], np.float64)
    sample = KMeansOfRows(rows, weights)
    found = sample.search(k, rng, n_starts)
    everything = float(np.sum((rows.std(axis=0, dtype=np.float64) / sample.size) ** 2) * sample.weights.sum())
    if sample.weights @ sample.assign(found)[1] < FINE_SHARE * everything:
        sample = KMeansOfRows(rows, weights, fine=True)
        found = sample.search(k, rng, n_starts)
    return sample.centers_of(found)


def lloyd(
    rows: NDArray[Any], centers: NDArray[Any], weights: NDArray[Any] | None = None, tolerance: float = 0.0
) -> tuple[Double, float]:
    """Lloyd's algorithm from these centers, in the precision of the rows; the centers, and the sum of squares."""
    sample = KMeansOfRows(rows, weights, fine=rows.dtype == np.float64)
    found, cost = sample.lloyd(sample.seen(centers), tolerance)
    return sample.centers_of(found), cost * sample.size**2


def nearest(rows: NDArray[Any], centers: NDArray[Any]) -> tuple[NDArray[np.int32], Double]:
    """The nearest center of each row, and its squared distance.

    >>> nearest(np.array([[0.0], [4.0]]), np.array([[1.0], [2.0]]))
    (array([0, 1], dtype=int32), array([1., 4.]))
    """
    middle = centers.mean(axis=0, dtype=np.float64)
    return kernel.nearest_centers(rows, centers - middle, middle, np.ones(len(middle)), None)
