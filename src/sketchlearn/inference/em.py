"""Gaussian mixtures of greatest likelihood on weighted rows: expectation maximisation (EM)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_triangular
from scipy.special import expit, logsumexp

from sketchlearn.core.arrays import Double
from sketchlearn.features.expected_statistics import GaussianParts, Gaussians, Moments, mean_features
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.distributions import (
    IndependentStable,
    Mixture,
    SymmetricStable,
    map_eigenvalues,
    merge_components,
    n_parameters,
)
from sketchlearn.inference.kmeans import ROUGH_TOLERANCE, KMeansOfRows, systematic_draws

MOST_DEVIATIONS = 1e100  # The square of a larger number overflows.
LEAST_DEVIATION = 1e-150  # Its logarithm is finite.
ANGLE_NODES, EXPONENTIAL_NODES, TABLE_RADII = 160, 100, 300
LARGEST_LOGARITHM = 40.0  # Nodes farther out have no weight.
LEAST_NODE_WEIGHT = 1e-25  # Lighter nodes, relative to the heaviest, are left out.
RESOLUTION = 20.0  # The table is finest within a twentieth of the unit, as small alphas have sharp peaks.
LARGEST_RADIUS = 1e8  # Beyond it, the density is a power of the radius.
TABLES_KEPT = 256  # of 10 kB each: every block of rows asks for those of its components
LEAST_EIGENVALUE = 1e-12  # of a correlation matrix, where rounding leaves zero or a negative one


def log_likelihoods(rows: Double, mixture: Mixture) -> Double:
    """Log-likelihood of each row, (S,), for Gaussian or stable mixtures; always finite."""
    logs = log_densities(rows, mixture) + np.log(np.maximum(mixture.weights, 1e-300))
    return np.asarray(logsumexp(logs, axis=1))


def log_densities(rows: Double, mixture: Mixture) -> Double:
    """Log-density of each component at each row, (S, k)."""
    density = _stable_density if isinstance(mixture.model, SymmetricStable) else _gaussian_density
    return np.stack([density(rows, mixture, component) for component in range(len(mixture))], axis=1)


def cholesky_log_densities(rows: Double, means: Double, factors: Double) -> Double:
    """Log-density of Gaussians with these lower Cholesky factors of their covariances, at each row: (S, k)."""
    result = np.empty((len(rows), len(means)))
    for c, (mean, factor) in enumerate(zip(means, factors, strict=True)):
        away = solve_triangular(factor, (rows - mean).T, lower=True)
        result[:, c] = -0.5 * np.sum(away * away, axis=0) - np.sum(np.log(np.diag(factor)))
    return np.asarray(result - 0.5 * rows.shape[1] * np.log(2 * np.pi))


def diagonal_log_densities(rows: Double, means: Double, variances: Double) -> Double:
    """The same for Gaussians with these variances, (k, columns), by matrix products: fast for many columns."""
    middle = means.mean(axis=0)
    away, centers, inverse = rows - middle, means - middle, 1 / variances
    constant = np.sum(np.log(2 * np.pi * variances) + centers**2 * inverse, axis=1)
    return np.asarray(-0.5 * (constant + away**2 @ inverse.T - 2 * away @ (centers * inverse).T))


def _gaussian_density(rows: Double, mixture: Mixture, component: int) -> Double:
    """Log-density of a Gaussian, computed from correlations to be independent of the columns' units."""
    d = rows.shape[1]
    covariance = mixture.model.covariances(mixture.shapes, d)[0 if mixture.model.tied else component]
    away, scales = _standardised(rows, mixture.locations[component], np.diag(covariance))
    correlations = covariance / scales / scales[:, None]
    correlations[np.arange(d), np.arange(d)] = 1.0
    values, vectors = np.linalg.eigh(correlations)
    values = np.maximum(values, LEAST_EIGENVALUE)
    along = away @ (vectors / np.sqrt(values))
    squares = np.minimum(np.sum(along * along, axis=1), MOST_DEVIATIONS**2)
    determinant = 2 * np.sum(np.log(scales)) + np.sum(np.log(values))
    return np.asarray(-0.5 * (squares + determinant + d * np.log(2 * np.pi)))


def _stable_density(rows: Double, mixture: Mixture, component: int) -> Double:
    variances, alpha = mixture.shapes[component, :-1], float(mixture.shapes[component, -1])
    away, scales = _standardised(rows, mixture.locations[component], variances)
    if isinstance(mixture.model, IndependentStable):
        logs = stable_log_density(np.abs(away).ravel(), 1, alpha).reshape(away.shape).sum(axis=1)
    else:
        logs = stable_log_density(np.linalg.norm(away, axis=1), away.shape[1], alpha)
    return np.asarray(logs - np.sum(np.log(scales)))


def _standardised(rows: Double, location: Double, variances: Double) -> tuple[Double, Double]:
    """Rows around a location in units of deviations, and the deviations."""
    scales = np.maximum(np.sqrt(np.maximum(variances, 0.0)), LEAST_DEVIATION)
    with np.errstate(over="ignore"):  # what overflows is clipped
        away = np.clip((rows - location) / scales, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    return away, scales


def stable_log_density(radius: Double, n_features: int, alpha: float) -> Double:
    """Log-density at these distances from the center of the stable distribution of psi = (|omega|^2 / 2)^(alpha / 2).

    Gaussians are averaged over their variance, Kanter's function of an angle and an exponential number, on a grid
    of logarithms that reaches all tails. The error is below 1e-4 for alphas from 0.8 to 1.98 in one column, and below
    1e-3 otherwise.
    """
    d = n_features
    if alpha >= 2 - 1e-9:
        return np.asarray(-0.5 * radius**2 - 0.5 * d * np.log(2 * np.pi))
    near = _stable_table(d, alpha)(np.arcsinh(RESOLUTION * np.minimum(radius, LARGEST_RADIUS)))
    return np.asarray(near - (d + alpha) * np.log(np.maximum(radius / LARGEST_RADIUS, 1)))


@lru_cache(maxsize=TABLES_KEPT)
def _stable_table(n_features: int, alpha: float) -> CubicSpline:
    """The log-density over arcsinh(RESOLUTION radius)."""
    logs, weights = _variances(alpha / 2)
    at = np.linspace(0, np.arcsinh(RESOLUTION * LARGEST_RADIUS), TABLE_RADII)
    inside = -0.5 * (np.sinh(at)[:, None] / RESOLUTION) ** 2 * np.exp(-logs)
    inside -= 0.5 * n_features * (np.log(2 * np.pi) + logs)
    largest = inside.max(axis=1, keepdims=True)
    inside -= largest
    return CubicSpline(at, largest[:, 0] + np.log(np.exp(inside, out=inside) @ weights))


def _variances(a: float) -> tuple[Double, Double]:
    """Logarithms of values of the one-sided stable distribution, E exp(-s A) = exp(-s^a), and their weights."""
    place = np.linspace(-LARGEST_LOGARITHM, LARGEST_LOGARITHM, ANGLE_NODES)
    angle, to_pi = np.pi * expit(place), np.pi * expit(-place)
    by_angle = (
        np.log(np.sin(a * angle))
        - np.log(np.sin(np.minimum(angle, to_pi))) / a
        + (1 - a) / a * np.log(np.sin((1 - a) * angle))
    )
    exponential = np.linspace(-LARGEST_LOGARITHM, np.log(LARGEST_LOGARITHM), EXPONENTIAL_NODES)
    weights = np.outer(expit(place) * expit(-place), np.exp(exponential - np.exp(exponential)))
    keep = weights > LEAST_NODE_WEIGHT * weights.max()
    logs = by_angle[:, None] - (1 - a) / a * exponential
    return logs[keep], weights[keep] / weights[keep].sum()


Pair = tuple[Double, Double]
LEAST_LEFT = 1e-9  # part of a component, or of its variance, that is left after a row was removed


class Full:
    """Covariances (k, d, d). Subclasses restrict them and may store them in another form.

    `floor` is added to variances.
    """

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        """Parameters of greatest likelihood. `shares` (S, k) are weights times responsibilities, `sizes` their sums."""
        d = rows.shape[1]
        covariances = np.empty((len(sizes), d, d))
        for c, size in enumerate(sizes):
            covariances[c] = (rows * shares[:, c, None]).T @ rows / size - np.outer(means[c], means[c])
        covariances[:, np.arange(d), np.arange(d)] += floor
        return covariances

    def distances(self, rows: Double, means: Double, parameters: Double) -> Pair:
        """Squared Mahalanobis distances (S, k), and the logarithms of the determinants (k,)."""
        inverses = np.linalg.inv(np.linalg.cholesky(parameters))
        squares = np.empty((len(rows), len(means)))
        for c, inverse in enumerate(inverses):
            away = rows @ inverse.T
            away -= inverse @ means[c]
            np.einsum("ij,ij->i", away, away, out=squares[:, c])
        return squares, -2 * np.sum(np.log(np.diagonal(inverses, axis1=1, axis2=2)), axis=1)

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        """Squared distances and log-determinants, both (S, k), of each row in components fitted without the row.

        `removed` (S, k) is the part of a row in the `sizes` of components. Without it a component has the size
        n' = n - a, the mean c - a e / n', e = x - c, and the scatter n C - (a n / n') e e'; the floor in the covariance
        C grows by n / n'. The rest is Sherman and Morrison's formula.
        """
        squares, determinants = self.distances(rows, means, parameters)
        left, growth = _left(removed, sizes)
        part = np.maximum(1 - removed / left * squares, LEAST_LEFT)
        return growth * squares / part, rows.shape[1] * np.log(growth) + determinants + np.log(part)

    def matrices(self, parameters: Double, k: int) -> Double:  # noqa: ARG002
        """The covariances (k, d, d)."""
        return parameters

    def parameters_of(self, matrices: Double, weights: Double) -> Double:  # noqa: ARG002
        """Parameters near these covariances."""
        return matrices


class Diagonal(Full):
    """Variances (k, d)."""

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        variances = (shares.T @ (rows * rows)) / sizes[:, None] - means * means
        return np.asarray(np.maximum(variances, 0.0) + floor)

    def distances(self, rows: Double, means: Double, parameters: Double) -> Pair:
        precisions = 1 / parameters
        squares = (rows * rows) @ precisions.T - 2 * (rows @ (means * precisions).T)
        squares += np.sum(means * means * precisions, axis=1)
        return np.maximum(squares, 0.0), np.sum(np.log(parameters), axis=1)

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        squares, determinants = np.empty_like(removed), np.empty_like(removed)
        for c, variances in enumerate(parameters):
            left, growth = _left(removed[:, c], sizes[c])
            own = (rows - means[c]) ** 2 / variances
            part = np.maximum(1 - (removed[:, c] / left)[:, None] * own, LEAST_LEFT)
            squares[:, c] = growth * np.sum(own / part, axis=1)
            determinants[:, c] = rows.shape[1] * np.log(growth) + np.sum(np.log(variances)) + np.log(part).sum(axis=1)
        return squares, determinants

    def matrices(self, parameters: Double, k: int) -> Double:  # noqa: ARG002
        return np.asarray(parameters[:, :, None] * np.eye(parameters.shape[1]))

    def parameters_of(self, matrices: Double, weights: Double) -> Double:  # noqa: ARG002
        return np.diagonal(matrices, axis1=1, axis2=2).copy()


class Spherical(Diagonal):
    """Variances (k, d), the same in every column: those of N(c, v I) in the units of the data."""

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        means_of_columns = super().estimate(rows, shares, sizes, means, floor).mean(axis=1, keepdims=True)
        return np.repeat(means_of_columns, rows.shape[1], axis=1)

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        d = rows.shape[1]
        squares, determinants = self.distances(rows, means, parameters)
        left, growth = _left(removed, sizes)
        part = np.maximum(1 - removed / left * squares / d, LEAST_LEFT)
        return growth * squares / part, d * np.log(growth * part) + determinants

    def parameters_of(self, matrices: Double, weights: Double) -> Double:
        means_of_columns = super().parameters_of(matrices, weights).mean(axis=1, keepdims=True)
        return np.repeat(means_of_columns, matrices.shape[1], axis=1)


class Tied(Full):
    """One covariance (d, d) for all components."""

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        scatter = (rows * shares.sum(axis=1)[:, None]).T @ rows - (means.T * sizes) @ means
        return np.asarray(scatter / sizes.sum() + floor * np.eye(len(scatter)))

    def distances(self, rows: Double, means: Double, parameters: Double) -> Pair:
        inverse = np.linalg.inv(np.linalg.cholesky(parameters))
        seen, centers = rows @ inverse.T, means @ inverse.T
        squares = seen @ (-2 * centers.T)
        squares += np.sum(centers * centers, axis=1)
        squares += np.einsum("ij,ij->i", seen, seen)[:, None]
        return np.maximum(squares, 0.0), np.full(len(means), -2 * np.sum(np.log(np.diag(inverse))))

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        squares, determinants = self.distances(rows, means, parameters)
        growth = _left(removed, sizes)[1]
        everywhere = np.sum(removed, axis=1, keepdims=True)
        kept, wider = _left(everywhere, sizes.sum())
        part = np.maximum(1 - everywhere / kept * squares, LEAST_LEFT)
        return growth**2 / wider * squares / part, rows.shape[1] * np.log(wider) + determinants + np.log(part)

    def matrices(self, parameters: Double, k: int) -> Double:
        return np.broadcast_to(parameters, (k, *parameters.shape))

    def parameters_of(self, matrices: Double, weights: Double) -> Double:
        return np.average(matrices, axis=0, weights=weights)


class Known(Tied):
    """A covariance (d, d) that is given."""

    def __init__(self, covariance: Double) -> None:
        self.covariance = covariance

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:  # noqa: ARG002
        return self.covariance

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        squares, determinants = self.distances(rows, means, parameters)
        return _left(removed, sizes)[1] ** 2 * squares, np.broadcast_to(determinants, squares.shape)

    def parameters_of(self, matrices: Double, weights: Double) -> Double:  # noqa: ARG002
        return self.covariance


def _left(removed: Double, sizes: Double) -> Pair:
    """The remaining sizes of components, and the ratios of the sizes before to these."""
    left = np.maximum(sizes - removed, LEAST_LEFT * sizes)
    return left, sizes / left


#: those that are learned
LEARNED: dict[str, Full] = {"spherical": Spherical(), "diag": Diagonal(), "full": Full(), "tied": Tied()}


#: Candidates for the constant added to variances, in units of the columns' variances. With 1e-3 alone, 15 % of 67
#: public tables were more than 0.05 nats a row behind scikit-learn (n_init=3, reg_covar=1e-3) with full covariances;
#: with these, 4 %. (With another seed of scikit-learn itself: 18 %.)
FLOORS = (1e-3, 3e-4, 3e-3, 1e-2, 3e-2, 1e-1)
#: Tried in turn if the least of them is best: without, flat clusters, 300 times as long as thick, were 0.7 nats behind
#: scikit-learn (reg_covar=1e-6).
FINER_FLOORS = (1e-4, 1e-5, 1e-6)
TOLERANCE, MOST_WEIGHTED_STEPS = 1e-3, 100  # those of scikit-learn; nats a row
STARTS_PER_INIT = 4  # cheap starts, on few rows, for each of scikit-learn's on all rows
#: Starts use this many rows, or more while rows times columns^2 are fewer than the second.
WEIGHTED_ROWS_FOR_STARTS, PRODUCTS_FOR_STARTS = 3000, 1_000_000
FIRST_WEIGHTED_STEPS = 10  # of every start
TRIAL_STEPS = 10  # on all rows, of the best starts
FLOOR_STEPS = 30  # with each floor
FINALISTS = 4  # starts that continue; half as many are run with every floor
COMPONENTS_OF_ONE_START = 40  # From here on there is one start per init, and four for ten: k = 100 took 13 s.
LEAST_WEIGHT = 1e-10  # of a component that still has rows

Start = tuple[Double, Double, Double]  # weights (k,), means (k, d), covariances (k, d, d)


@dataclass(frozen=True)
class EmFit:
    """A mixture of Gaussians: in the units of EM between steps, and at the end in those of the rows."""

    weights: Double  # (k,)
    means: Double  # (k, d)
    covariances: Double  # (k, d, d); between steps, the parameters of their type
    log_likelihood: float = -np.inf  # weighted mean over the rows, in nats
    converged: bool = False  # whether the last step gained less than the tolerance


def weighted_em(
    sample: WeightedRows,
    n_components: int,
    covariance_type: str,
    rng: np.random.Generator,
    *,
    covariance: Double | None = None,
    starts: Sequence[Start] = (),
    n_init: int = 3,
    floors: Sequence[float] = FLOORS,
) -> EmFit:
    """The best of several runs of EM on weighted rows, by leave-one-out likelihood.

    Runs differ in their starts (k-means of the rows, and `starts`) and in the constant added to variances (`floors`, in
    units of the columns' variances). The likelihood itself would prefer components of two or three rows. Of a row that
    stands for several equal records, one is left out. The type of the covariances is "spherical", "tied", "diag",
    "full", or "known", with the `covariance` (d, d). With `n_init=0`, only `starts` are used.

    >>> rng = np.random.default_rng(0)
    >>> rows = rng.standard_normal((1000, 1)) + 10 * rng.integers(0, 2, (1000, 1))
    >>> fit = weighted_em(WeightedRows.of(rows), 2, "full", rng)
    >>> sorted(fit.means[:, 0].round().astype(int).tolist()), fit.converged
    ([0, 10], True)
    """
    present = sample.weights > 0
    rows, weights = sample.rows[present], sample.weights[present] / sample.weights[present].sum()
    copies = np.ones(len(rows)) if sample.copies is None else sample.copies[present]
    kind = LEARNED.get(covariance_type)
    origin, unit = _units(rows, weights, per_column=not isinstance(kind, Spherical))
    areas = np.outer(unit, unit)
    if kind is None:
        assert covariance is not None
        kind, floors = Known(covariance / areas), floors[:1]
    given = [_given_state(kind, w, (m - origin) / unit, c / areas, floors[0]) for w, m, c in starts]
    whole = _Sample((rows - origin) / unit, weights, copies, kind, floors[0])
    best = _best_run(whole, n_components, given, n_init, floors, rng)
    return replace(
        best,
        means=origin + unit * best.means,
        covariances=kind.matrices(best.covariances, n_components) * areas,
        log_likelihood=best.log_likelihood - float(np.sum(np.log(unit))),
    )


def _units(rows: Double, weights: Double, *, per_column: bool) -> tuple[Double, Double]:
    """Origin and units in which weighted rows have mean 0 and variance 1: a unit for each column, or one."""
    anchor = rows[int(np.argmax(weights))]
    away = rows - anchor  # exact zeros for a constant column, however large its value
    reach = np.max(np.abs(away), axis=0)
    reach = np.where(reach > 0, reach, 1.0)
    away /= reach
    mean = weights @ away
    deviation = reach * np.sqrt(weights @ (away - mean) ** 2)
    if not per_column:
        largest = max(float(deviation.max()), 1e-300)
        deviation = np.full(len(mean), largest * np.sqrt(np.mean((deviation / largest) ** 2)))
    return anchor + reach * mean, np.where(deviation > 0, deviation, 1.0)


@dataclass(frozen=True)
class _Sample:
    """Rows in the units of EM, and what is fitted to them."""

    rows: Double
    weights: Double
    copies: Double
    kind: Full
    floor: float

    def shares(self, state: EmFit) -> tuple[Double, float]:
        """Weight of each row in each component (S, k), and the mean log-likelihood."""
        logs = _weighed(state.weights, *self.kind.distances(self.rows, state.means, state.covariances), self.rows)
        top = logs.max(axis=1)
        logs -= top[:, None]
        shares = np.exp(logs, out=logs)
        total = shares.sum(axis=1)
        shares *= (self.weights / total)[:, None]
        return shares, float(self.weights @ (top + np.log(total)))

    def maximised(self, shares: Double, before: EmFit | None = None) -> EmFit:
        """The M step for these shares. Components without rows stay as they were."""
        sizes = shares.sum(axis=0)
        alive = sizes > LEAST_WEIGHT
        some = np.maximum(sizes, LEAST_WEIGHT)
        means = (shares.T @ self.rows) / some[:, None]
        parameters = self.kind.estimate(self.rows, shares, some, means, self.floor)
        if before is not None and not alive.all():
            means = np.where(alive[:, None], means, before.means)
            if not isinstance(self.kind, Tied):
                own = alive.reshape(-1, *[1] * (parameters.ndim - 1))
                parameters = np.where(own, parameters, before.covariances)
        return EmFit(sizes / sizes.sum(), means, parameters)

    def run(self, state: EmFit, steps: int = MOST_WEIGHTED_STEPS) -> EmFit:
        """The state after EM steps, which end when one gains less than the tolerance."""
        before, converged = -np.inf, False
        for _ in range(steps):
            shares, likelihood = self.shares(state)
            state = self.maximised(shares, state)
            converged, before = abs(likelihood - before) < TOLERANCE, likelihood
            if converged:
                break
        return replace(state, log_likelihood=before, converged=converged)

    def left_out(self, state: EmFit) -> float:
        """Mean leave-one-out log-likelihood; other rows keep their shares."""
        shares = self.shares(state)[0]
        removed, sizes = shares / self.copies[:, None], np.maximum(shares.sum(axis=0), LEAST_WEIGHT)
        pair = self.kind.left_out(self.rows, state.means, state.covariances, removed, sizes)
        left = np.maximum(sizes - removed, 0.0)
        logs = _weighed(left / np.maximum(left.sum(axis=1, keepdims=True), LEAST_WEIGHT), *pair, self.rows)
        return float(self.weights @ logsumexp(logs, axis=1))

    def clustered(self, k: int, settled: bool, rng: np.random.Generator) -> EmFit:
        """A start from k-means, or from the far points that k-means starts from."""
        rows = KMeansOfRows(self.rows, self.weights)
        centers = rows.starts(k, rng)
        if settled:
            centers, _ = rows.lloyd(centers)
        labels = rows.assign(centers)[0]
        return self.maximised(self.weights[:, None] * (labels[:, None] == np.arange(k)))

    def thinned(self, n: int, rng: np.random.Generator) -> _Sample:
        """About n of the rows, drawn by their weights; all of them where there are few."""
        if len(self.rows) <= n:
            return self
        chosen, times = np.unique(systematic_draws(self.weights, n, rng.random(n)), return_counts=True)
        copies = np.maximum(times, self.copies[chosen])
        return replace(self, rows=self.rows[chosen], weights=times / n, copies=copies)


def _weighed(weights: Double, squares: Double, determinants: Double, rows: Double) -> Double:
    """Logarithm of weight times density, (S, k)."""
    constants = np.log(np.maximum(weights, 1e-300)) - 0.5 * (determinants + rows.shape[1] * np.log(2 * np.pi))
    return np.asarray(constants - 0.5 * squares)


def _best_run(
    sample: _Sample, k: int, given: list[EmFit], n_init: int, floors: Sequence[float], rng: np.random.Generator
) -> EmFit:
    """The best run.

    Many starts take a few steps on few rows; the best continue there, and the best of those with every floor. The
    winners are compared on all rows, and one is finished.
    """
    effort = min(max(COMPONENTS_OF_ONE_START // k, 1), STARTS_PER_INIT)
    few = sample.thinned(max(WEIGHTED_ROWS_FOR_STARTS, int(PRODUCTS_FOR_STARTS / sample.rows.shape[1] ** 2)), rng)
    cheap = [few.clustered(k, i % 2 == 0, rng) for i in range(effort * n_init)]
    going_on = _best_first([(few.run(state, FIRST_WEIGHTED_STEPS), few) for state in cheap])[: min(FINALISTS, effort)]
    runs = _best_first([(few.run(state), few) for state in [*(state for state, _ in going_on), *given]])
    other_floors = [replace(few, floor=floor) for floor in floors[1:]]
    best = [
        _best_first([(state, few), *((own.run(state, FLOOR_STEPS), own) for own in other_floors)])[0]
        for state, _ in runs[: (min(FINALISTS, effort) + 1) // 2]
    ]
    if other_floors:
        best = [_with_finer_floor(run, min(floors)) for run in best]
    if few is sample:
        return _best_first(best)[0][0]
    floor = _best_first(best)[0][1].floor
    trials = [*best, *((sample.clustered(k, i % 2 == 0, rng), replace(few, floor=floor)) for i in range(n_init))]
    wholes = [(state, replace(sample, floor=own.floor)) for state, own in trials]
    state, whole = _best_first([(own.run(state, TRIAL_STEPS), own) for state, own in wholes])[0]
    return whole.run(state)


def _with_finer_floor(run: tuple[EmFit, _Sample], least: float) -> tuple[EmFit, _Sample]:
    """The run with a finer floor, if its floor is the least one and the leave-one-out likelihood improves.

    With fewer rows than parameters, a collapse looks like a flat cluster (spam, full covariances: 171 nats behind).
    """
    sample = run[1]
    if sample.floor > least or len(sample.rows) < run[0].covariances.size:
        return run
    for floor in FINER_FLOORS:
        own = replace(sample, floor=floor)
        finer = (own.run(run[0], FLOOR_STEPS), own)
        if _best_first([run, finer])[0] is run:
            break
        run = finer
    return run


def _best_first(runs: list[tuple[EmFit, _Sample]]) -> list[tuple[EmFit, _Sample]]:
    return sorted(runs, key=lambda run: run[1].left_out(run[0]), reverse=True)


def _given_state(kind: Full, weights: Double, means: Double, covariances: Double, floor: float) -> EmFit:
    """A start in the units of EM, its covariances made positive definite where they are not."""
    if np.linalg.eigvalsh(covariances).min() < floor:
        covariances = map_eigenvalues(covariances, lambda values: np.maximum(values, floor))
    shares = np.maximum(weights, 0.0)
    shares = shares / shares.sum()
    return EmFit(shares, means, kind.parameters_of(covariances, shares))


REACH = 64.0  # deviations, within which rows of a sample are not clipped
STARTS = 3
ALIKE = 0.1  # relative to the expected loss p / 2n of estimation: mixtures that differ by less are the same
FIRST_STEPS, MOST_STEPS = 10, 300
ROWS_FOR_STARTS, ROWS_PER_PARAMETER = 2000, 5
VARIANCE_FLOORS = (1e-3, 1e-5, 1e-6)  # of a component, in the columns' variances: held-out rows choose
ENOUGH = 0.01  # relative to the same loss: a step on a sample that gains less is the last


@dataclass(frozen=True)
class MStep:
    """The M step of EM from moments of components, for a type of covariances."""

    kind: str  # "full", "tied", "diag", "spherical" or "known"
    least: Double  # the least variance of each column
    known: Double | None = None  # the covariance that is known

    @property
    def full(self) -> bool:
        """Whether products of columns are needed."""
        return self.kind in ("full", "tied", "known")

    def __call__(self, moments: Moments, before: Gaussians) -> Gaussians:
        """The mixture of greatest likelihood. Components without records stay as they were."""
        alive = moments.shares > LEAST_WEIGHT
        weights = np.maximum(moments.shares, LEAST_WEIGHT)
        means = np.where(alive[:, None], moments.means, before.means)
        return Gaussians(weights / weights.sum(), means, self._factors(moments, before, alive))

    def _factors(self, moments: Moments, before: Gaussians, alive: NDArray[np.bool_]) -> Double:
        found, k = moments.covariances, len(alive)
        if self.known is not None:
            return np.repeat(np.linalg.cholesky(self.known)[None], k, axis=0)
        if self.kind == "tied":
            together = np.einsum("k,kij->ij", moments.shares, found) / max(float(moments.shares.sum()), 1e-300)
            return np.repeat(_floored(together[None], self.least), k, axis=0)
        if self.kind == "full":
            safe = np.where(alive[:, None, None], found, np.diag(np.maximum(self.least, 1e-300) * 2))
            return np.where(alive[:, None, None], _floored(safe, self.least), before.factors)
        if self.kind == "spherical":
            found = np.repeat(found.mean(axis=1, keepdims=True), found.shape[1], axis=1)
        return np.where(alive[:, None], np.sqrt(np.maximum(found, self.least)), before.factors)


def _floored(covariances: Double, least: Double) -> Double:
    """Cholesky factors of covariances whose variance in each direction is raised to the least one."""
    unit = np.sqrt(least)
    scaled = covariances / unit[:, None] / unit
    try:
        np.linalg.cholesky(scaled - np.eye(len(unit)))
    except np.linalg.LinAlgError:
        scaled = map_eigenvalues(scaled, lambda values: np.maximum(values, 1.0))
    return np.asarray(np.linalg.cholesky(scaled) * unit[:, None], np.float64)


def gain_of_step(moments: Moments, before: Gaussians, after: Gaussians) -> float:
    """The gain of a step in expected log-likelihood, in nats a record: a lower bound on the likelihood's gain."""
    change = np.log(np.maximum(after.weights, 1e-300)) - np.log(np.maximum(before.weights, 1e-300))
    change += np.sum(np.log(before.diagonals) - np.log(after.diagonals), axis=1) + 0.5 * moments.squares
    if after.factors.ndim == 2:
        left = moments.covariances / after.factors**2
        change -= 0.5 * left.sum(axis=1)
    else:
        inverse = np.linalg.inv(after.factors)
        change -= 0.5 * np.einsum("kij,kjl,kil->k", inverse, moments.covariances, inverse)
    return float(moments.shares @ np.where(moments.shares > LEAST_WEIGHT, change, 0.0))


@dataclass(frozen=True)
class PilotRows:
    """Rows of a sample for a pilot, and the box that they lie in."""

    rows: NDArray[Any]
    center: Double
    bound: Double

    @classmethod
    def of(cls, rows: NDArray[Any]) -> PilotRows:
        """Rows, with a box around them."""
        center = rows.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)
        reach = np.maximum(rows.max(axis=0) - center, center - rows.min(axis=0)) * (1 + 2.0**-20)
        return cls(np.ascontiguousarray(rows), center, np.where(reach > 0, reach, np.maximum(np.abs(center), 1.0)))

    def statistics(self, mixture: Gaussians, reach: float = REACH) -> tuple[GaussianParts, Double, int]:
        """The mixture in the kernels' form, the mean features of the rows, and the number of clipped rows."""
        parts = GaussianParts.of(mixture, self.center, self.bound, reach)
        sums = np.zeros(parts.n_sums, np.int64)
        _, clipped = parts.add(self.rows, None, 1, sums)
        return parts, mean_features(sums / len(self.rows)), clipped

    def likelihood(self, mixture: Gaussians) -> float:
        parts, values, _ = self.statistics(mixture)
        return parts.log_likelihood(values)

    def climbed(self, mixture: Gaussians, step: MStep, steps: int, enough: float) -> Gaussians:
        """The mixture after EM steps, which end when one gains less than `enough` nats a row."""
        before = -np.inf
        for _ in range(steps):
            parts, values, _ = self.statistics(mixture)
            likelihood = parts.log_likelihood(values)
            if likelihood - before < enough:
                break
            before, mixture = likelihood, step(parts.moments(values), mixture)
        return mixture


def pilot_mixture(
    rows: NDArray[Any], k: int, kind: str, n_rows: int, rng: np.random.Generator, known: Double | None = None
) -> tuple[Gaussians, MStep]:
    """The best mixture of a sample from several starts, to continue by steps on n_rows rows; and the M step.

    Starts are tried on some rows, and the best continues on all. Least variances are chosen by held-out likelihood.
    """
    sample = PilotRows.of(rows)
    n, d = rows.shape
    p = n_parameters(k, d, kind)
    deviation = np.sqrt(np.maximum(np.mean((rows - sample.center) ** 2, axis=0), 1e-300))
    if kind == "spherical":
        deviation = np.full(d, np.sqrt(np.mean(deviation**2)))
    step = MStep(kind, VARIANCE_FLOORS[0] * deviation**2, known)
    mixed = rng.permutation(n)
    chosen, others = np.split(mixed, [max(ROWS_FOR_STARTS, ROWS_PER_PARAMETER * p)])
    few = replace(sample, rows=np.ascontiguousarray(rows[chosen]))
    held_out = replace(sample, rows=np.ascontiguousarray(rows[others[:ROWS_FOR_STARTS]])) if len(others) else few
    scaled = ((few.rows - sample.center) / deviation).astype(np.float32)
    enough, tried = p / (2 * len(few.rows)), []
    for _ in range(STARTS):
        many = _clustered(few, scaled, deviation, min(2 * k, len(few.rows) // 4), step, rng)
        start = reduced(few.climbed(many, step, FIRST_STEPS, 0.1 * enough), k)
        start = few.climbed(start, step, FIRST_STEPS, 0.1 * enough)
        tried.append((held_out.likelihood(start), start))
        tried.sort(key=lambda run: run[0], reverse=True)
        if len(tried) > 1 and tried[0][0] - tried[1][0] < ALIKE * enough:
            break  # the likeliest one was found twice
    found = few.climbed(tried[0][1], step, 5 * FIRST_STEPS, ENOUGH * enough)
    for least in VARIANCE_FLOORS[1:]:
        if kind == "known" or _least_ratio(found, step.least) > 1.5:
            break  # no variance is at the least one
        finer = replace(step, least=least * deviation**2)
        other = few.climbed(found, finer, 2 * FIRST_STEPS, ENOUGH * enough)
        if held_out.likelihood(other) <= held_out.likelihood(found):
            break
        found, step = other, finer
    return sample.climbed(found, step, MOST_STEPS, ENOUGH * p / (2 * max(n, n_rows))), step


def _least_ratio(mixture: Gaussians, least: Double) -> float:
    """The smallest variance of a mixture in any direction, in units of the least one."""
    unit = np.sqrt(least)
    if mixture.factors.ndim == 2:
        return float(np.min((mixture.factors / unit) ** 2))
    return float(np.min(np.linalg.svd(mixture.factors / unit[:, None], compute_uv=False)) ** 2)


def _clustered(
    few: PilotRows, scaled: NDArray[np.float32], unit: Double, k: int, step: MStep, rng: np.random.Generator
) -> Gaussians:
    """A start from k-means: the moments of its clusters."""
    rows = KMeansOfRows(scaled)
    labels = rows.assign(rows.lloyd(rows.starts(k, rng), ROUGH_TOLERANCE)[0])[0]
    belongs = labels[:, None] == np.arange(k)
    shares = belongs.mean(axis=0)
    over = 1 / np.maximum(shares, 1e-300)[:, None]
    means = few.center + unit * (belongs.T @ scaled / len(scaled) * over)
    near = (means - few.center) / unit
    if step.full:
        areas, away = np.outer(unit, unit), scaled - near[labels]
        parts = (away[labels == c] for c in range(k))
        squares = np.stack([part.T @ part / max(len(part), 1) for part in parts]) * areas
        factors = np.linalg.cholesky(areas * np.eye(len(unit)) if step.known is None else step.known)
    else:
        squares = np.maximum(belongs.T @ (scaled * scaled) / len(scaled) * over - near**2, 0) * unit**2
        factors = unit
    before = Gaussians(shares, means, np.repeat(factors[None], k, axis=0))
    return step(Moments(shares, means, squares, np.zeros(k)), before)


def reduced(mixture: Gaussians, k: int) -> Gaussians:
    """k components out of more, by `merge_components`; two that are merged stand in the place of the first."""
    diagonal = mixture.factors.ndim == 2
    squares = mixture.factors**2 if diagonal else mixture.factors @ mixture.factors.transpose(0, 2, 1)
    parts = merge_components(mixture.weights[::-1], mixture.means[::-1], squares[::-1], k)
    weights, means, squares = (np.flip(part, axis=0).copy() for part in parts)
    factors = np.sqrt(squares) if diagonal else np.linalg.cholesky(squares)
    return Gaussians(weights / weights.sum(), means, np.asarray(factors, np.float64))
