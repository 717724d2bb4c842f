"""Standard errors of the centers and shares of clusters: from cells, the fitted density, or sampled rows."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve
from scipy.special import stdtr

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import called
from sketchlearn.core.messages import counted
from sketchlearn.inference.cells import NO_COVARIANCES, CellClusters, Cells, Members, from_frequencies
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.errors.influence import (
    SketchInfluence,
    StandingRows,
    UndeterminedError,
    check_size,
    independent_records,
)
from sketchlearn.inference.errors.mixtures import Steps
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.inference.kmeans import KMeansOfRows
from sketchlearn.sketch.sums import Sketch

#: Largest effect of borders on a center, in standard errors. Five clusters of 256 columns, the nearest 5 deviations
#: apart, have 0.6 with 8,000 records (intervals along the clusters covered 94 %); at 4 deviations, 1.8 (89 %).
MOST_MOVED = 1.0
FEWEST_RECORDS = 30  # of a cluster
ROUNDING = 1e-6  # of a cost, by values in fixed point and rows in float32
PREMISE = "for well-separated clusters, which these are according to their cells"
PRIVATE = "the effect of the noise of a private release on errors from cells is not known"


def errors_of_cells(sketch: Sketch, cells: Cells, members: Members) -> ErrorBars:
    """Standard errors of the means and shares of clusters of cells."""
    if sketch.ledger is not None:
        raise UndeterminedError(PRIVATE, from_frequencies())
    clusters = CellClusters.of(cells, members)
    if clusters is None:
        raise UndeterminedError(NO_COVARIANCES)
    if cells.squares.ndim == 1:
        raise UndeterminedError(
            f"the sketch has too many cells to store squares of each column: design it for fewer clusters, or "
            f"{from_frequencies()}"
        )
    n, shares = independent_records(sketch), members.sizes
    moved = clusters.overlaps() * np.sqrt(n * shares)
    if np.max(moved) > MOST_MOVED:
        raise UndeterminedError(
            f"some clusters touch, and cells do not determine where the borders between them lie: ask for fewer "
            f"clusters, or "
            f"{from_frequencies()}"
        )
    few = n * shares < FEWEST_RECORDS
    of_shares = np.sqrt(shares * np.maximum(1 - shares, 0) / n)
    of_centers = members.deviations(cells.means, cells.squares) / np.sqrt(np.maximum(n * shares, 1))[:, None]
    of_centers[few], of_shares[few] = np.nan, np.nan
    reason = f"some clusters have fewer than {FEWEST_RECORDS} records: ask for fewer clusters" if np.any(few) else ""
    if np.all(few):
        raise UndeterminedError(reason)
    return ErrorBars({"cluster_centers_": of_centers, "weights_": of_shares}, reason, PREMISE)


def mean_cost_of_cells(sketch: Sketch, cells: Cells, centers: Double) -> RowMean:
    """The mean squared distance, in units, of all records from the nearest center.

    The distance from the center of a record's own cell is exact, and an upper bound. Records nearer to another center
    gain at most about what they would in tails of Student's t with 4 degrees of freedom. The value is the middle of
    both, and the error half of their difference. (Gaussian tails covered 7 % of inertias with 6 degrees.)
    """
    if sketch.ledger is not None:
        return RowMean(withheld=f"{PRIVATE}: {from_frequencies()}")
    clusters = CellClusters.of(cells, cells.members(centers))
    if clusters is None:
        return RowMean(withheld=NO_COVARIANCES)
    scaled = centers[:, cells.counted] / cells.units
    cost, gain = cells.cost(scaled), gain_beyond_borders(clusters, scaled)
    return RowMean(cost - gain / 2, gain / 2 + ROUNDING * cost)


def gain_beyond_borders(clusters: CellClusters, centers: Double) -> float:
    """The gain of records beyond borders by their nearest center, in squared units, if clusters have heavy tails."""
    gaps = np.minimum(clusters.gaps(), 1e3)
    distances = np.linalg.norm(centers[:, None] - centers, axis=2)
    # beyond the border by t deviations of size distance / (2 gap), a record gains 2 distance t of them
    deviations = np.divide(distances, 2 * gaps, out=np.zeros_like(gaps), where=gaps > 0)
    each = 2 * distances * deviations * _mean_beyond(gaps)
    np.fill_diagonal(each, 0.0)
    return float(clusters.shares @ each.sum(axis=1))


def _mean_beyond(gaps: Double) -> Double:
    """The mean of max(t - gap, 0), for Student's t with 4 degrees of freedom, scaled to a variance of 1."""
    scale = math.sqrt(0.5)
    at = gaps / scale
    density = 0.375 * (1 + at**2 / 4) ** -2.5
    return np.asarray(scale * ((4 + at**2) / 3 * density - at * stdtr(4, -at)))


LEAST_STIFFNESS = 0.05  # smallest eigenvalue of K, relative to shares: below it, centers slide along a valley
MOST_COORDINATES = 2000  # of all centers
ROWS_PER_BLOCK = 1 << 14

UNSETTLED = "the centers are poorly determined, as a border cuts through a dense cluster: ask for fewer clusters"


@dataclass(frozen=True)
class CellBorders:
    """The Voronoi cells of centers: shares, and how centers and shares move with the distribution."""

    labels: NDArray[np.int64]  # of the rows
    shares: Double  # (k,)
    follow: Double  # K^-1, (k d, k d)
    share_slopes: Double  # how shares change with centers, (k, k d)

    @classmethod
    def of(cls, rows: Double, weights: Double, centers: Double, band: float) -> CellBorders:
        """Cells of weighted rows, with borders as bands of this width, in deviations; weights sum to one."""
        k, d = centers.shape
        if k * d > MOST_COORDINATES:
            raise UndeterminedError(
                f"the centers have {k * d:,} coordinates, and errors of more than {MOST_COORDINATES:,} are not "
                "computed: ask for fewer clusters, or sketch fewer columns"
            )
        first, second, lowest, next_lowest = _two_nearest(rows, centers)
        gaps = np.linalg.norm(centers[first] - centers[second], axis=1)
        nearer = (next_lowest - lowest) / (2 * np.maximum(gaps, 1e-300))  # distance from the border
        shares = np.asarray(np.bincount(first, weights, minlength=k), np.float64)
        if np.any(shares <= 0):
            raise UndeterminedError("a cluster has no records: ask for fewer clusters")
        squares = np.sum((rows - centers[first]) ** 2, axis=1)
        width = band * np.sqrt(float(weights @ squares) / d)
        stiffness, slopes = np.zeros((k, d, k, d)), np.zeros((k, k, d))
        inside = np.flatnonzero(nearer < width) if k > 1 else np.empty(0, np.int64)
        pairs = first[inside] * k + second[inside]
        for border in np.unique(pairs).tolist():
            (a, b), own = divmod(border, k), inside[pairs == border]
            w = weights[own] / (2 * width * np.linalg.norm(centers[a] - centers[b]))
            by_a, by_b = rows[own] - centers[a], rows[own] - centers[b]
            cross = (by_a * w[:, None]).T @ by_b
            stiffness[a, :, a] += (by_a * w[:, None]).T @ by_a
            stiffness[b, :, b] += (by_b * w[:, None]).T @ by_b
            stiffness[a, :, b] -= cross
            stiffness[b, :, a] -= cross.T
            slopes[a, a] += w @ by_a
            slopes[a, b] -= w @ by_b
            slopes[b, b] += w @ by_b
            slopes[b, a] -= w @ by_a
        follow = _inverse(stiffness.reshape(k * d, k * d), np.repeat(shares, d))
        return cls(first, shares, follow, slopes.reshape(k, -1))


def _inverse(borders: Double, shares: Double) -> Double:
    """The inverse of K, the diagonal of shares less the matrix of borders."""
    roots = 1 / np.sqrt(shares)
    scaled = np.eye(len(shares)) - borders * roots[:, None] * roots
    try:
        cho_factor(scaled - LEAST_STIFFNESS * np.eye(len(shares)))
        inverse = cho_solve(cho_factor(scaled), np.eye(len(shares)))
    except LinAlgError:
        raise UndeterminedError(UNSETTLED) from None
    return np.asarray(inverse * roots[:, None] * roots)


def _two_nearest(rows: Double, centers: Double) -> tuple[NDArray[np.int64], NDArray[np.int64], Double, Double]:
    """The nearest center of each row and the next, and their squared distances, less the row's squared length.

    A single center has no next one: its distance is infinite.
    """
    labels = np.empty((2, len(rows)), np.int64)
    lowest = np.empty((2, len(rows)))
    squares = np.sum(centers**2, axis=1)
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        part = slice(start, start + ROWS_PER_BLOCK)
        score = squares - 2 * (rows[part] @ centers.T)
        every = np.arange(len(score))
        for place in range(2):
            labels[place, part] = np.argmin(score, axis=1)
            lowest[place, part] = score[every, labels[place, part]]
            score[every, labels[place, part]] = np.inf
    return *labels, *lowest


DRAWS, LEAST_DRAWS = 100_000, 1000  # of all components, and of each
BAND, BAND_OF_ROWS = 0.15, 0.3  # around borders of cells, in deviations within clusters; rows are fewer than draws
RIVALS = 2  # centers to remove, and clusters to split
CLEAR_DEVIATIONS = 3.0  # by which rivals must cost more
FEWEST_ROWS = 10  # effective, of a cluster


def errors_of_density(
    sketch: Sketch, problem: Problem, density: Mixture, centers: Double, units: Double, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Standard errors of centers and shares of a mixture that fits the sketch.

    `density` and `centers` are in the units of the data; `units` are those in which distances count.
    """
    if len(density) > len(centers):  # such intervals covered 26 % for boxes and 79 % for balls
        raise UndeterminedError(
            f"{counted(len(centers), 'Gaussian')} do not fit the records, and the sketch alone does not determine "
            "their distribution well enough",
            f"keep rows beside it, with {called('design', '...', rows=500)}",
        )
    own = problem.from_data_units(density)
    problem = problem.without_harmonics(own)
    target, whole = problem.target, replace(own, weights=own.weights / own.weights.sum())
    check_size(target, own)
    influence = SketchInfluence.of_efficient(sketch, problem.plain, whole)
    if influence is None:
        precisions = target.part_weights.ravel().astype(np.float64)[: round(target.n_numbers)]
        influence = SketchInfluence.of(sketch, target, own, precisions)
    of_centers, of_shares = _gradients(Steps.of(own), problem, centers, units, rng)
    errors = influence.errors(np.concatenate([of_centers, of_shares]), density, rng)
    return errors[: centers.size].reshape(centers.shape) * units, errors[centers.size :]


def _gradients(
    steps: Steps, problem: Problem, centers: Double, units: Double, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Gradients of centers, in units, and shares along the coordinates of the density.

    A component's share of a mean, w E f(x), changes by w E f(x) s(x) along a coordinate, s its own score there.
    """
    mixture, (k, d) = steps.mixture, centers.shape
    unit, middle = problem.target.unit / units, (problem.target.origin + problem.target.unit * problem.shift) / units
    weights = mixture.weights / mixture.weights.sum()
    n = max(LEAST_DRAWS, DRAWS // len(weights)) // 2
    z = [rng.standard_normal((n, d)) for _ in weights]
    z = [np.concatenate([half, -half]) for half in z]
    places = zip(mixture.locations, steps.factors, z, strict=True)
    rows = np.concatenate([(location + own @ factor.T) * unit for location, factor, own in places])
    at = centers / units - middle
    cells = CellBorders.of(rows, np.repeat(weights / (2 * n), 2 * n), at, BAND)
    moments, sizes = np.zeros((k, d, steps.n_coordinates)), np.zeros((k, steps.n_coordinates))
    for component, own in enumerate(z):
        here = slice(2 * n * component, 2 * n * (component + 1))
        away, terms = rows[here] - at[cells.labels[here]], steps.terms(own) * (weights[component] / (2 * n))
        for cell in np.unique(cells.labels[here]).tolist():
            inside = cells.labels[here] == cell
            moments[cell] += steps.along_coordinates(component, away[inside].T @ terms[inside])
            sizes[cell] += steps.along_coordinates(component, terms[inside].sum(axis=0))
    total = sizes.sum(axis=0)  # along weights, which are brought to a sum of one
    sizes -= np.outer(cells.shares, total)
    of_centers = cells.follow @ moments.reshape(k * d, -1)
    return of_centers, sizes + cells.share_slopes @ of_centers


def errors_of_rows(
    sketch: Sketch, centers: Double, units: Double, rng: np.random.Generator, *, decided: bool = True
) -> tuple[Double, Double, str]:
    """Standard errors of centers and shares from sampled rows, and why some are missing."""
    standing, (k, d) = StandingRows.of(sketch, rng, decided=decided), centers.shape
    middle = standing.rows.weights @ standing.rows.rows
    rows, weights, at = (standing.rows.rows - middle) / units, standing.rows.weights, (centers - middle) / units
    cells = CellBorders.of(rows, weights, at, BAND_OF_ROWS)
    sizes = np.bincount(cells.labels, weights**2, minlength=k)
    effective = cells.shares**2 / np.maximum(sizes, 1e-300)
    away = rows - at[cells.labels]
    slopes = np.concatenate([cells.follow, cells.share_slopes @ cells.follow])

    def influence(which: slice) -> Double:
        chosen = slopes[which].reshape(-1, k, d)
        found = np.empty((len(rows), len(chosen)))
        for cell in range(k):
            inside = cells.labels == cell
            found[inside] = away[inside] @ chosen[:, cell].T
        indices = np.arange(*which.indices(k * d + k)) - k * d  # of shares, the record's own cell counts, too
        own = indices >= 0
        found[:, own] += cells.labels[:, None] == indices[own]
        return found

    _check_unrivalled(standing, rows, at, rng)
    errors = standing.errors(influence, k * d + k, rng)
    of_centers, of_shares = errors[: k * d].reshape(k, d) * units, errors[k * d :]
    few = (effective < FEWEST_ROWS) & ~np.full(k, standing.kept.complete)
    spread, overall = np.stack([np.ptp(rows[cells.labels == cell], axis=0) for cell in range(k)]), np.ptp(rows, axis=0)
    of_centers[few], of_shares[few] = np.nan, np.nan
    of_centers[(spread == 0) & (overall > 0)] = np.nan
    if not np.any(np.isnan(of_centers)):
        return of_centers, of_shares, ""
    reason = (
        "some clusters, or some of their columns, have too few distinct sampled rows: keep more, with "
        f"{called('design', '...', rows=5000)}, or ask for fewer clusters"
    )
    if standing.kept.complete:
        reason = "the records of some clusters are equal, at least in some columns: ask for fewer clusters"
    if np.all(np.isnan(of_centers)):
        raise UndeterminedError(reason)
    return of_centers, of_shares, reason


def _check_unrivalled(standing: StandingRows, rows: Double, centers: Double, rng: np.random.Generator) -> None:
    """Refuses centers if quite different ones have about the same cost, up to sampling error.

    Rivals come from exchanges: a center of least use moves to a cluster of largest cost.
    """
    weights, k = standing.rows.weights, len(centers)
    if k == 1:
        return
    labels, _, lowest, second = _two_nearest(rows, centers)
    missed = np.bincount(labels, weights * (second - lowest), minlength=k)
    lengths = np.sum(rows**2, axis=1)
    lowest = np.maximum(lowest + lengths, 0)
    costs = np.bincount(labels, weights * lowest, minlength=k)
    width = np.sqrt(float(weights @ lowest) / rows.shape[1])
    differences, every = [], KMeansOfRows(rows, weights, fine=True)
    for removed in np.argsort(missed)[:RIVALS].tolist():
        for split in [c for c in np.argsort(-costs).tolist() if c != removed][:RIVALS]:
            inside = labels == split
            far = rows[inside][np.argmax(weights[inside] * lowest[inside])]
            start = centers.copy()
            start[removed] = (far + centers[split]) / 2
            rival = every.centers_of(every.lloyd(every.seen(start))[0])
            if np.sqrt(np.min(np.sum((rival[:, None] - centers) ** 2, axis=2), axis=1).max()) > width:
                differences.append(np.maximum(_two_nearest(rows, rival)[2] + lengths, 0) - lowest)
    if not differences:
        return
    values = np.stack(differences, axis=1)
    gained = standing.errors(lambda which: values[:, which], values.shape[1], rng)
    if np.any(weights @ values < CLEAR_DEVIATIONS * gained):
        raise UndeterminedError(
            "quite different centers have the same cost within sampling error, which standard errors do not reflect: "
            "ask for another number of clusters, or keep more rows"
        )
