"""Gaussian mixtures of greatest likelihood on weighted rows: expectation maximisation (EM)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.refinements.kmeans_of_rows import KMeansOfRows
from sketchlearn.models import Double
from sketchlearn.weighting.em_covariances import LEARNED, Full, Known
from sketchlearn.weighting.weighted_rows import WeightedRows

#: Added to variances, in units of the columns' variances; what suits the rows is chosen. With 1e-3 alone, 15 % of 67
#: public tables were more than 0.05 nats a row behind scikit-learn (n_init=3, reg_covar=1e-3) with full covariances;
#: with these, 4 %. (Another seed of scikit-learn's own: 18 %.)
FLOORS = (1e-3, 3e-4, 3e-3, 1e-2, 3e-2, 1e-1)
#: Those that are tried in turn where the least of them suits best: flat clusters, 300 times as long as thick, were 0.7
#: nats behind scikit-learn (reg_covar=1e-6) without.
FINER_FLOORS = (1e-4, 1e-5, 1e-6)
TOLERANCE, MOST_STEPS = 1e-3, 100  # those of scikit-learn; nats a row
STARTS_PER_INIT = 4  # cheap starts, on few rows, for each one that scikit-learn would run on all of them
#: Starts see so many rows, or more while rows times columns^2 are so few.
ROWS_FOR_STARTS, PRODUCTS_FOR_STARTS = 3000, 1_000_000
FIRST_STEPS = 10  # of every start, before the best are taken further
TRIAL_STEPS = 10  # on all rows, of those that were best on few
FLOOR_STEPS = 30  # with each floor
FINALISTS = 4  # starts that are taken further, and half as many with every floor
COMPONENTS_OF_ONE_START = 40  # From here on there is one start where there are four for ten: k = 100 took 13 s.
LEAST_WEIGHT = 1e-10  # of a component that still has rows

Start = tuple[Double, Double, Double]  # weights (k,), means (k, d), covariances (k, d, d)


@dataclass(frozen=True)
class EmFit:
    """A mixture of Gaussians in the units of the rows."""

    weights: Double  # (k,)
    means: Double  # (k, d)
    covariances: Double  # (k, d, d)
    log_likelihood: float  # weighted mean over the rows, in nats
    left_out: float  # the same, each row under the mixture without its own part in it: what new rows can expect
    converged: bool  # whether the last step gained less than the tolerance


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
    """The best of several runs of EM on weighted rows.

    Runs differ in where they start (k-means of the rows, and `starts`) and in how much is added to variances
    (`floors`, in units of the columns' variances). The likelihood of rows that were left out chooses among them: the
    likelihood itself prefers components of two or three rows.

    Rows without weight do not count; of a row that stands for several equal records, one is left out. The type of the
    covariances is "spherical", "tied", "diag", "full", or "known", with the `covariance` (d, d). `n_init` is how
    thoroughly to search; 0 means from `starts` alone.

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
    origin, unit = _units(rows, weights, kind is None or kind.per_column_units)
    areas = np.outer(unit, unit)
    if kind is None:
        assert covariance is not None
        kind, floors = Known(covariance / areas), floors[:1]
    given = [_given_state(kind, w, (m - origin) / unit, c / areas, floors[0]) for w, m, c in starts]
    whole = _Sample((rows - origin) / unit, weights, copies, kind, floors[0])
    best, used = _best_run(whole, n_components, given, n_init, floors, rng)
    covariances = kind.matrices(best.parameters, n_components) * areas
    means, shift = origin + unit * best.means, float(np.sum(np.log(unit)))
    likelihood, left_out = best.log_likelihood - shift, used.left_out(best) - shift
    return EmFit(best.weights, means, covariances, likelihood, left_out, best.converged)


def _units(rows: Double, weights: Double, per_column: bool) -> tuple[Double, Double]:
    """Origin and units in which weighted rows have mean 0 and variance 1; one unit for all columns if so wanted."""
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
class _State:
    """A mixture between two steps, in the units of EM."""

    weights: Double
    means: Double
    parameters: Double
    log_likelihood: float = -np.inf
    converged: bool = False


@dataclass(frozen=True)
class _Sample:
    """Rows in the units of EM, and what is fitted to them."""

    rows: Double
    weights: Double
    copies: Double
    kind: Full
    floor: float

    def shares(self, state: _State) -> tuple[Double, float]:
        """Weight of each row in each component (S, k), and the mean log-likelihood."""
        logs = _weighed(state.weights, *self.kind.distances(self.rows, state.means, state.parameters), self.rows)
        top = logs.max(axis=1)
        logs -= top[:, None]
        shares = np.exp(logs, out=logs)
        total = shares.sum(axis=1)
        shares *= (self.weights / total)[:, None]
        return shares, float(self.weights @ (top + np.log(total)))

    def maximised(self, shares: Double, before: _State | None = None) -> _State:
        """The likeliest mixture for these shares. Components without rows stay as they were."""
        sizes = shares.sum(axis=0)
        alive = sizes > LEAST_WEIGHT
        some = np.maximum(sizes, LEAST_WEIGHT)
        means = (shares.T @ self.rows) / some[:, None]
        parameters = self.kind.estimate(self.rows, shares, some, means, self.floor)
        if before is not None and not alive.all():
            means = np.where(alive[:, None], means, before.means)
            if self.kind.per_component:
                own = alive.reshape(-1, *[1] * (parameters.ndim - 1))
                parameters = np.where(own, parameters, before.parameters)
        return _State(sizes / sizes.sum(), means, parameters)

    def run(self, state: _State, steps: int = MOST_STEPS) -> _State:
        """The state after so many steps, or when a step gains less than the tolerance."""
        before, converged = -np.inf, False
        for _ in range(steps):
            shares, likelihood = self.shares(state)
            state = self.maximised(shares, state)
            converged, before = abs(likelihood - before) < TOLERANCE, likelihood
            if converged:
                break
        return replace(state, log_likelihood=before, converged=converged)

    def left_out(self, state: _State) -> float:
        """Mean log-likelihood of rows under the mixture without their own part in it; other rows keep their shares."""
        shares = self.shares(state)[0]
        removed, sizes = shares / self.copies[:, None], np.maximum(shares.sum(axis=0), LEAST_WEIGHT)
        pair = self.kind.left_out(self.rows, state.means, state.parameters, removed, sizes)
        left = np.maximum(sizes - removed, 0.0)
        logs = _weighed(left / np.maximum(left.sum(axis=1, keepdims=True), LEAST_WEIGHT), *pair, self.rows)
        top = logs.max(axis=1)
        return float(self.weights @ (top + np.log(np.sum(np.exp(logs - top[:, None]), axis=1))))

    def clustered(self, k: int, settled: bool, rng: np.random.Generator) -> _State:
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
        places = (np.arange(n) + rng.random(n)) / n
        drawn = np.minimum(np.searchsorted(np.cumsum(self.weights), places), len(self.rows) - 1)
        chosen, times = np.unique(drawn, return_counts=True)
        copies = np.maximum(times, self.copies[chosen])
        return replace(self, rows=self.rows[chosen], weights=times / n, copies=copies)


def _weighed(weights: Double, squares: Double, determinants: Double, rows: Double) -> Double:
    """Logarithm of weight times density, (S, k)."""
    constants = np.log(np.maximum(weights, 1e-300)) - 0.5 * (determinants + rows.shape[1] * np.log(2 * np.pi))
    return np.asarray(constants - 0.5 * squares)


def _best_run(
    sample: _Sample, k: int, given: list[_State], n_init: int, floors: Sequence[float], rng: np.random.Generator
) -> tuple[_State, _Sample]:
    """The best run and the sample with the floor that it used.

    Many starts take a few steps on few rows; the best of them go on there, the best of those with every floor. What is
    best then is compared on all rows, and one is finished.
    """
    effort = min(max(COMPONENTS_OF_ONE_START // k, 1), STARTS_PER_INIT)
    few = sample.thinned(max(ROWS_FOR_STARTS, int(PRODUCTS_FOR_STARTS / sample.rows.shape[1] ** 2)), rng)
    cheap = [few.clustered(k, i % 2 == 0, rng) for i in range(effort * n_init)]
    going_on = _best_first([(few.run(state, FIRST_STEPS), few) for state in cheap])[: min(FINALISTS, effort)]
    runs = _best_first([(few.run(state), few) for state in [*(state for state, _ in going_on), *given]])
    other_floors = [replace(few, floor=floor) for floor in floors[1:]]
    best = [
        _best_first([(state, few), *((own.run(state, FLOOR_STEPS), own) for own in other_floors)])[0]
        for state, _ in runs[: (min(FINALISTS, effort) + 1) // 2]
    ]
    if other_floors:
        best = [_with_finer_floor(run, min(floors)) for run in best]
    if few is sample:
        return _best_first(best)[0]
    floor = _best_first(best)[0][1].floor
    trials = [*best, *((sample.clustered(k, i % 2 == 0, rng), replace(few, floor=floor)) for i in range(n_init))]
    wholes = [(state, replace(sample, floor=own.floor)) for state, own in trials]
    state, whole = _best_first([(own.run(state, TRIAL_STEPS), own) for state, own in wholes])[0]
    return whole.run(state), whole


def _with_finer_floor(run: tuple[_State, _Sample], least: float) -> tuple[_State, _Sample]:
    """The run with a floor below the least one, if it chose that and rows that are left out ask for less.

    Not where there are fewer rows than numbers in the covariances: a collapse looks like a flat cluster there (spam,
    full covariances: 171 nats behind).
    """
    sample = run[1]
    if sample.floor > least or len(sample.rows) < run[0].parameters.size:
        return run
    for floor in FINER_FLOORS:
        own = replace(sample, floor=floor)
        finer = (own.run(run[0], FLOOR_STEPS), own)
        if _best_first([run, finer])[0] is run:
            break
        run = finer
    return run


def _best_first(runs: list[tuple[_State, _Sample]]) -> list[tuple[_State, _Sample]]:
    return sorted(runs, key=lambda run: run[1].left_out(run[0]), reverse=True)


def _given_state(kind: Full, weights: Double, means: Double, covariances: Double, floor: float) -> _State:
    """A start in the units of EM, its covariances made positive definite where they are not."""
    values, vectors = np.linalg.eigh(covariances)
    if values.min() < floor:
        covariances = (vectors * np.maximum(values, floor)[:, None, :]) @ vectors.transpose(0, 2, 1)
    shares = np.maximum(weights, 0.0)
    shares = shares / shares.sum()
    return _State(shares, means, kind.parameters_of(covariances, shares))
