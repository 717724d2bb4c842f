"""k centers of a fitted density: Lloyd's algorithm on draws of the density."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Single
from sketchlearn.inference.distributions import Mixture, square_roots
from sketchlearn.inference.kmeans import TOLERANCE, KMeansOfRows
from sketchlearn.inference.kmedians import weiszfeld_step

# The rank-1 lattice of 2^20 points of Cools, Kuo and Nuyens (SIAM Journal on Scientific Computing 28, 2006), of which
# the first 2^m points, in the order of reversed bits, are lattices, too. Columns beyond them are random.
GENERATORS = (
    *(1, 182667, 469891, 498753, 110745, 446247, 250185, 118627, 245333, 283199, 408519, 391023, 246327, 126539),
    *(399185, 461527, 300343, 69681, 516695, 436179, 106383, 238523, 413283, 70841, 47719, 300129, 113029, 123925),
    *(410745, 211325, 17489, 511893),
)
REVERSALS = ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF))


def even_normals(n_columns: int, n: int, rng: np.random.Generator) -> Single:
    """n quasi-random standard normal points, as columns (n_columns, n); leading subsets are as even.

    >>> points = even_normals(3, 1024, np.random.default_rng(0))
    >>> bool(np.abs(np.mean(points, axis=1)).max() < 0.01)  # that of random ones is about 0.03
    True
    """
    half = (n_columns + 1) // 2
    uniform = _lattice(2 * half, n, rng)
    radius = np.sqrt(np.float32(-2) * np.log(uniform[:half]))
    angle = np.float32(2 * np.pi) * uniform[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n_columns]


def even_rows(mixture: Mixture, n: float, rng: np.random.Generator) -> Double:
    """About n quasi-random rows of a mixture of Gaussians, in antithetic pairs about their component's location."""
    counts = np.ceil(shares_of(mixture) * n / 2).astype(int)
    points = even_normals(mixture.locations.shape[1], int(counts.max()), rng)
    pieces = []
    for location, factor, count in zip(mixture.locations, square_roots(mixture.covariances()), counts, strict=True):
        away = (factor @ points[:, :count]).T
        pieces += [location + away, location - away]
    return np.concatenate(pieces)


def shares_of(mixture: Mixture) -> Double:
    """The weights without negative ones, normalised to a sum of one."""
    weights = np.maximum(mixture.weights, 0)
    return np.asarray(weights / weights.sum())


def _lattice(n_columns: int, n: int, rng: np.random.Generator) -> Single:
    """Points of a randomly shifted lattice: numbers in (0, 1] of 24 bits."""
    places = _reversed_bits(n)
    found = np.empty((n_columns, n), np.float32)
    for row, generator in zip(found, GENERATORS, strict=False):
        turned = places * np.uint32(generator) + rng.integers(2**32, dtype=np.uint32)  # modulo 2^32
        row[:] = turned >> np.uint32(8)
    found[len(GENERATORS) :] = rng.integers(2**24, size=found[len(GENERATORS) :].shape, dtype=np.uint32)
    found += np.float32(0.5)
    found *= np.float32(2.0**-24)
    return found


def _reversed_bits(n: int) -> NDArray[np.uint32]:
    """The numbers below n with the order of their 32 bits reversed."""
    found = np.arange(n, dtype=np.uint32)
    for shift, mask in REVERSALS:
        found = ((found >> np.uint32(shift)) & np.uint32(mask)) | ((found & np.uint32(mask)) << np.uint32(shift))
    return found


POINTS_PER_BLOCK = 2048
FARTHEST = 5.0  # deviations: a cell as far from a component has less than a millionth of it


@dataclass(frozen=True)
class CellMeans:
    """Means of the Voronoi cells of centers under a mixture of Gaussians.

    The squared distances of a row to k centers differ by k - 1 linear functions of it. Under a Gaussian, as many
    columns determine the row's cell, and the row's conditional mean is linear in them.
    """

    shares: Double  # of the components
    locations: Double
    factors: Double  # (components, d, d): covariances are factor @ factor'
    draws: float = 0.0
    points: Single = field(default_factory=lambda: np.empty((0, 0), np.float32))  # as columns, a one below each

    @classmethod
    def of(cls, mixture: Mixture) -> CellMeans:
        """The components with weight, without points."""
        mixture = mixture.some(mixture.weights > 0)
        return cls(shares_of(mixture), mixture.locations, square_roots(mixture.covariances()))

    def with_draws(self, draws: float, k: int, rng: np.random.Generator) -> CellMeans:
        """The components with points for about as many draws and k centers."""
        columns = min(self.locations.shape[1], k - 1)
        points = even_normals(columns, int(np.ceil(self.shares.max() * draws / 2)), rng)
        ones = np.ones((1, points.shape[1]), np.float32)
        return replace(self, draws=draws, points=np.concatenate([points, ones]))

    def __call__(self, centers: Double) -> tuple[Double, Double]:
        """The mean of each of k > 1 cells (its center, if it is empty), and their shares."""
        sizes, sums = np.zeros(len(centers)), np.zeros(centers.shape)
        turns, slopes = np.linalg.qr(self.factors.transpose(0, 2, 1) @ (centers[1:] - centers[0]).T)
        signs = np.where(np.diagonal(slopes, axis1=1, axis2=2) < 0, -1.0, 1.0)  # Columns follow the centers smoothly.
        lifts = self.factors @ (turns * signs[:, None, :])
        slopes = -2 * np.pad((slopes * signs[:, :, None]).transpose(0, 2, 1), ((0, 0), (1, 0), (0, 0)))
        heights = np.sum(centers * centers, axis=1) - 2 * self.locations @ centers.T
        components = zip(self.shares, self.locations, lifts, slopes, heights, strict=True)
        for share, location, lift, slope, height in components:
            lowest = np.argmin(height)
            above, along = height - height[lowest], slope - slope[lowest]
            near = np.flatnonzero(above <= FARTHEST * np.linalg.norm(along, axis=1))
            if len(near) == 1:
                sizes[lowest] += share
                sums[lowest] += share * location
                continue
            points = self.points[:, : int(np.ceil(share * self.draws / 2))]
            one = np.column_stack([along[near], above[near]]).astype(np.float32)
            other = np.column_stack([-along[near], above[near]]).astype(np.float32)
            inside, mirrored = _sums_where_least(one, points), _sums_where_least(other, points)
            inside[:, :-1] -= mirrored[:, :-1]
            inside[:, -1] += mirrored[:, -1]
            inside *= share / inside[:, -1].sum()
            sizes[near] += inside[:, -1]
            sums[near] += inside[:, -1:] * location + inside[:, :-1] @ lift.T
        return np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1e-300)[:, None], centers), sizes


def _sums_where_least(functions: Single, points: Single) -> Double:
    """For each of some linear functions, the sum of the points where it is the least of them."""
    found = np.zeros((len(functions), len(points)))
    for first in range(0, points.shape[1], POINTS_PER_BLOCK):
        block = points[:, first : first + POINTS_PER_BLOCK]
        values = functions @ block
        found += (values == values.min(axis=0)).astype(np.float32) @ block.T
    return found


LEAST_START_SAMPLES, START_SAMPLES_PER_CLUSTER = 4_000, 80  # Runs are compared on fewer samples.
RECORDS = 1e5  # of a mixture, by default
LEAST_DRAWS, DRAWS_RATIO = 20_000, 3  # Draws grow by this ratio until they add little noise
MOST_WORK = 2e8  # or reach this: draws times clusters times columns of a cell's functions.
ADDED_NOISE = 0.05  # in variance, relative to that of the means of each cluster's records
STILL = 0.2  # deviations of means of as many records as draws: smaller steps end
STARTS, DEEPEST_BREATH = 6, 5  # if the mixture has more components than clusters; fewer otherwise
MOST_ITERATIONS = 100

Step = Callable[[Double], tuple[Double, Double]]  # from centers to those of the next step, and their shares


def antithetic_sample(mixture: Mixture, n: int, rng: np.random.Generator) -> Double:
    """About n rows of the mixture in random order, in antithetic pairs about their component's location."""
    counts = np.floor(shares_of(mixture) * n / 2 + rng.random(len(mixture))).astype(int)
    pieces = []
    for component, count in enumerate(counts):
        noise = mixture.noise(component, count, rng)
        pieces += [mixture.locations[component] + noise, mixture.locations[component] - noise]
    return rng.permutation(np.concatenate(pieces))


def centroids(mixture: Mixture, k: int, rng: np.random.Generator, records: float = RECORDS) -> tuple[Double, Double]:
    """k centroids of the mixture, and their shares: the best of several runs of Lloyd's algorithm, polished.

    Starts are the mixture's own locations, reduced to k by k-means, and k-means++ on samples. The number of `records`
    that the mixture was fitted to determines the precision.
    """
    n_starts, deepest = (STARTS, DEEPEST_BREATH) if len(mixture) > k else (0, 0) if apart(mixture, k) else (2, 1)
    middle = mixture.weights @ mixture.locations / mixture.weights.sum()
    if k == 1:
        return middle[None], np.ones(1)
    around = replace(mixture, locations=mixture.locations - middle)
    best, means = around.locations, CellMeans.of(around)
    if n_starts:
        few = antithetic_sample(around, max(LEAST_START_SAMPLES, START_SAMPLES_PER_CLUSTER * k), rng)
        found = _started(around, k, few, n_starts, deepest, rng)
        if len(best) == k:  # few rows cannot decide between two of about the same cost
            step = means.with_draws(LEAST_DRAWS, k, rng)
            settled = [_settled(around, start, LEAST_DRAWS, step) for start in (best, found)]
            best, *_ = min(settled, key=lambda run: run[2])
        else:
            best = found
    centers, shares = polished(around, best, records, lambda draws: means.with_draws(draws, k, rng))
    return centers + middle, shares


def _started(mixture: Mixture, k: int, few: Double, n_starts: int, deepest: int, rng: np.random.Generator) -> Double:
    """The best of several runs of Lloyd's algorithm on a few rows."""
    points = mixture.locations
    best = np.concatenate([points, few[: max(k - len(points), 0)]])
    if len(points) > k:
        own = KMeansOfRows(points, mixture.weights)
        runs = (own.lloyd(own.starts(k, rng)) for _ in range(n_starts))
        best = own.centers_of(min(runs, key=lambda run: run[1])[0])
    drawn = KMeansOfRows(few)
    starts = [drawn.seen(best), *(drawn.starts(k, rng) for _ in range(n_starts))]
    found = min((drawn.lloyd(start, TOLERANCE) for start in starts), key=lambda run: run[1])
    return drawn.centers_of(drawn.breathe(*found, deepest))


def polished(
    mixture: Mixture, centers: Double, records: float, steps: Callable[[float], Step]
) -> tuple[Double, Double]:
    """Fixed points of steps on draws of the mixture, and their shares.

    The error due to draws is estimated by the change with more of them.
    """
    k, d = centers.shape
    draws, most = LEAST_DRAWS, MOST_WORK / k / (min(k - 1, d) + 4)
    while True:
        before = centers
        centers, shares, variance = _settled(mixture, centers, draws, steps(draws))
        error = np.mean((centers - before) ** 2) / (1 + DRAWS_RATIO)  # of these, where that of `before` is larger
        enough = draws > LEAST_DRAWS and error <= ADDED_NOISE * variance * k / records
        if enough or draws * DRAWS_RATIO > most:
            return centers, shares
        draws *= DRAWS_RATIO


def _settled(mixture: Mixture, centers: Double, draws: float, step: Step) -> tuple[Double, Double, float]:
    """The fixed point of steps on these draws, its shares, and the variance within clusters per column."""
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
    """Whether the mixture's own k locations are good centers.

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
    """k points with the least sum of distances, and their shares: Weiszfeld's steps from the centroids."""
    points, _ = centroids(mixture, k, rng, records)
    middle = mixture.weights @ mixture.locations / mixture.weights.sum()
    around = replace(mixture, locations=mixture.locations - middle)

    def steps(draws: float) -> Step:
        rows = even_rows(around, draws, rng)
        return lambda centers: weiszfeld_step(rows, centers, np.ones(len(rows)))

    points, shares = polished(around, points - middle, records, steps)
    return points + middle, shares
