"""A mixture of k Gaussians from a sketch: a density with more components, merged, then refined to efficiency."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.density import cleaned, fit_density
from sketchlearn.inference.decoders.goodness_of_fit import FitTest, efficient, tested
from sketchlearn.inference.decoders.hierarchical_splitting import split
from sketchlearn.inference.decoders.loop import Decoder, Outcome, Progress, Status
from sketchlearn.inference.decoders.points import antithetic_sample
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import (
    Whitening,
    correlated_errors,
    independent_errors,
    levenberg_marquardt,
)
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture, Model
from sketchlearn.kernels.dispatch import one_blas_thread

MOST_FREQUENCIES = 2200
BLURS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.0)
STEPS_PER_BLUR = 5
LEAST_WEIGHT = 1e-3  # A component that came to nothing may be needed at the next blur.
DESIGN_ROWS = 20_000  # that an operator for mixtures is designed on, where there are as many
DENSITY_SAMPLES = 2000
SEARCHES = 3  # What is likeliest under a coarse density is not always what fits best.
MOST_ROUNDS, MOVES_PER_ROUND, PLACES_PER_COMPONENT = 40, 15, 4  # of the search for places
LEAST_DENSITY_SHARE = 1e-12  # of a row
LEAST_GAIN = 1e-3  # nats per row that a move must gain


def sharpened(problem: Problem, mixture: Mixture, density: Mixture, rng: np.random.Generator) -> Mixture:
    """The mixture with the shapes of clusters that the operator declares, as far as the sketch agrees with them.

    The density, of diagonal Gaussians, is as coarse as the frequencies in all directions are short, and so is
    `mixture`. The declared shapes, blurred as the density is, are put where they are likeliest under it. Then the blur
    is withdrawn step by step, and locations settle where ever longer frequencies put them. Were the shapes free
    meanwhile, they would collapse onto whatever is concentrated most. A mixture that the sketch contradicts more than
    the one at the start, because the records are not those that the operator was made for, is not returned.
    """
    declared = problem.plain.shapes
    blur = np.diag(np.average(density.shapes, axis=0, weights=density.weights))
    shapes = declared[_nearest(mixture.covariances(), declared + blur)]
    places = _Places(antithetic_sample(density, DENSITY_SAMPLES, rng), shapes + blur)
    target = problem.plain.some(slice(0, MOST_FREQUENCIES))
    whitening, found = independent_errors(target), []
    for start in range(SEARCHES):
        order = rng.permutation(len(mixture)) if start else np.arange(len(mixture))
        weights, locations = places.search(mixture.weights[order], mixture.locations[order], density.locations)
        placed = replace(mixture, weights=weights, locations=locations)
        found.append(_unblurred(target, placed, shapes, blur, whitening))
    best, cost = min(found, key=lambda fit: fit[1])
    # misfits are errors of the model: they count as noise when the sketch is weighed against the declared shapes
    hold = cost / target.n_numbers * DESIGN_ROWS / len(mixture)
    best, cost = levenberg_marquardt(target, best, whitening, iterations=STEPS_PER_BLUR, hold=hold)
    coarse = levenberg_marquardt(target, mixture, whitening, iterations=0)[1]
    return best if cost < coarse else mixture


def _unblurred(
    target: Target, mixture: Mixture, shapes: Double, blur: Double, whitening: Whitening
) -> tuple[Mixture, float]:
    """The mixture with these shapes, its weights and locations refined as the blur is withdrawn; and its cost."""
    for part in BLURS:
        own = mixture.model.shapes_of(shapes + part * blur)
        mixture = replace(mixture, weights=np.maximum(mixture.weights, LEAST_WEIGHT), shapes=own)
        mixture, cost = levenberg_marquardt(target, mixture, whitening, iterations=STEPS_PER_BLUR, hold=np.inf)
    return mixture, cost


def _nearest(covariances: Double, others: Double) -> NDArray[np.int64]:
    """Which of the others each covariance is nearest to in divergence, no two to the same if there are enough."""
    ratios = np.linalg.solve(others[None], covariances[:, None])
    divergence = 0.5 * (np.trace(ratios, axis1=2, axis2=3) - np.linalg.slogdet(ratios)[1])
    if len(others) < len(covariances):
        return np.asarray(np.argmin(divergence, axis=1))
    return np.asarray(linear_sum_assignment(divergence)[1])


class _Places:
    """Weights and locations of Gaussians of given covariances, by likelihood on samples."""

    def __init__(self, rows: Double, covariances: Double) -> None:
        self.rows = rows
        self.inverses = np.linalg.inv(np.linalg.cholesky(covariances))  # L^-1 of each covariance L L'
        #: logarithm of each Gaussian's density at its location, less one that all share
        self.constants = np.sum(np.log(np.diagonal(self.inverses, axis1=1, axis2=2)), axis=1)

    def logarithms(self, component: int, points: Double) -> Double:
        """Log-density of a component at each row, were it at each point: (rows, points)."""
        inverse = self.inverses[component]
        rows, seen = self.rows @ inverse.T, points @ inverse.T
        squares = np.sum(rows**2, axis=1)[:, None] - 2 * rows @ seen.T + np.sum(seen**2, axis=1)
        return np.asarray(self.constants[component] - 0.5 * squares)

    def parts(self, weights: Double, locations: Double) -> Double:
        """Logarithm of weight times density: (rows, components)."""
        own = [self.logarithms(c, point[None])[:, 0] for c, point in enumerate(locations)]
        return np.asarray(np.stack(own, axis=1) + np.log(np.maximum(weights, 1e-12)))

    def settle(self, weights: Double, locations: Double, steps: int) -> tuple[Double, Double, float]:
        """Weights and locations after so many steps of EM, and the likelihood before the last one."""
        for _ in range(steps):
            parts = self.parts(weights, locations)
            total = logsumexp(parts, axis=1, keepdims=True)
            likelihood = float(np.mean(total))
            shares = np.exp(parts - total)
            sizes = shares.sum(axis=0)
            weights = sizes / sizes.sum()
            means = shares.T @ self.rows / np.maximum(sizes, 1e-9)[:, None]
            locations = np.where(sizes[:, None] > 1e-3, means, locations)
        return weights, locations, likelihood

    def search(self, weights: Double, locations: Double, others: Double) -> tuple[Double, Double]:
        """EM, then moves of one component to another place or exchanges of two, while that makes the rows likelier."""
        weights, locations, best = self.settle(weights, locations, 10)
        for _ in range(MOST_ROUNDS):
            for moved in self._moves(weights, locations, others)[:MOVES_PER_ROUND]:
                *settled, likelihood = self.settle(*moved, 6)
                if likelihood > best + LEAST_GAIN:
                    (weights, locations), best = settled, likelihood
                    break
            else:
                break
        return self.settle(weights, locations, 20)[:2]

    def _moves(self, weights: Double, locations: Double, others: Double) -> list[tuple[Double, Double]]:
        """Weights and locations after each move, the most promising first."""
        k, parts = len(weights), self.parts(weights, locations)
        total = logsumexp(parts, axis=1, keepdims=True)
        shares, logs = np.exp(parts - total), np.log(weights + 1e-12)
        here = [self.logarithms(c, locations) - total + logs for c in range(k)]
        found: list[tuple[float, Double, Double]] = []
        for c in range(k):
            rest = np.maximum(1 - shares[:, c], LEAST_DENSITY_SHARE)
            raised = np.where(np.arange(k) == c, np.maximum(weights, 0.5 / k), weights)
            there = self.logarithms(c, others) - total + np.log(raised[c])
            gains = np.mean(np.log(rest[:, None] + np.exp(there)), axis=0)
            for j in np.argsort(-gains)[:PLACES_PER_COMPONENT]:
                at = locations.copy()
                at[c] = others[j]
                found.append((float(gains[j]), raised / raised.sum(), at))
            for other in range(c):
                order = np.arange(k)
                order[[c, other]] = other, c
                both = np.exp(here[c][:, other]) + np.exp(here[other][:, c])
                gain = np.mean(np.log(np.maximum(rest - shares[:, other], LEAST_DENSITY_SHARE) + both))
                found.append((float(gain), weights[order], locations[order]))
        return [move[1:] for move in sorted(found, key=lambda move: -move[0])]


#: frequencies at a time; the covariance of all errors is expensive to compute. In blocks of 500, covariances of
#: overlapping components had 1.23 times the least error, in blocks of 1100 1.15
MOST_WHITENED = 1100
EM_SAMPLES = 20_000
TAIL_SHARE = 0.03  # The density knows little of its own tails, so EM sees some rows from all over.
MOST_COMPONENTS_PER_SHAPE = 2  # A declared shape that serves many components says little about any of them.
HOPELESS_MISFIT = 30.0  # Above it, the covariance of the errors would make no difference.
HOLD = 2.0  # 1 / squared deviation of the logarithms of variances from the common ones, where noise hides them
LEAST_RELATIVE_VARIANCE = 1e-3  # of a component, relative to the density's average component


@dataclass(frozen=True)
class MixtureFit:
    """A mixture in the units of the data, its fit test, and how the search went."""

    mixture: Mixture
    test: FitTest
    outcome: Outcome


def fit_mixture(
    problem: Problem,
    model: Model,
    covariance_type: str,
    decoder: Decoder,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> MixtureFit:
    """The mixture of k components of `model`, which is in the units of the data, that the sketch tells of.

    Where the fit test fails, no such mixture explains the sketch, and matching the sketch more closely would make the
    mixture worse: the best likelihood under the fitted density is returned instead, sharpened where the operator
    knows of flatter clusters.
    """
    problem = cleaned(problem, decoder, rng, progress)
    density, outcome = fit_density(problem, decoder, rng, progress)
    k = problem.n_components
    if outcome.status is Status.HIDDEN:  # narrow components in wrong places: hundreds of nats per row were lost
        density = problem.in_data_units(problem.one_gaussian)
    density = with_components(density, k)
    with one_blas_thread():
        merged = problem.in_own_units(model, *merge_components(*_gaussians(density), k))
        if outcome.status is Status.HIDDEN:
            return MixtureFit(problem.in_data_units(merged), FitTest(outcome.misfit, None), outcome)
        best, test = refined(problem, merged)
        if not test.passes:
            likely = problem.in_own_units(model, *_likely(density, k, covariance_type, rng))
            best, test = min((best, test), refined(problem, likely), key=lambda found: found[1].figure)
            if not test.passes:
                best = likely
                declared = len(problem.plain.shapes)
                if k <= MOST_COMPONENTS_PER_SHAPE * declared and covariance_type in ("diag", "full"):
                    own = problem.in_own_units(DiagonalGaussian(), *_gaussians(density))
                    best = sharpened(problem, best, own, rng)
    best = replace(best, weights=best.weights / best.weights.sum())
    return MixtureFit(problem.in_data_units(best), test, outcome)


def with_components(density: Mixture, k: int) -> Mixture:
    """The density with at least k components: its heaviest ones are split as often as needed."""
    while len(density) < k:
        density = split(density, k - len(density))
    return density


def merge_components(weights: Double, means: Double, covariances: Double, k: int) -> tuple[Double, Double, Double]:
    """k Gaussians with the moments of the given ones.

    Each step merges the pair for which Runnalls' bound on the Kullback-Leibler divergence is least (IEEE Transactions
    on Aerospace and Electronic Systems 43, 2007).
    """
    weights, means, covariances = weights.copy(), means.copy(), covariances.copy()
    logs = np.linalg.slogdet(covariances)[1]
    n = len(weights)
    costs = _merging_costs(weights, means, covariances)
    alive = np.ones(n, bool)
    while alive.sum() > k:
        i, j = divmod(int(np.argmin(costs)), n)
        total, away = weights[i] + weights[j], means[i] - means[j]
        a, b = weights[i] / total, weights[j] / total
        covariances[i] = a * covariances[i] + b * covariances[j] + a * b * np.outer(away, away)
        weights[i], means[i] = total, a * means[i] + b * means[j]
        logs[i] = np.linalg.slogdet(covariances[i])[1]
        alive[j] = False
        costs[j, :] = costs[:, j] = np.inf
        others = np.flatnonzero(alive & (np.arange(n) != i))
        new = _costs(weights, means, covariances, logs, i, others)
        low = others < i
        costs[i, others[low]], costs[others[~low], i] = new[low], new[~low]
    return weights[alive], means[alive], covariances[alive]


def _merging_costs(weights: Double, means: Double, covariances: Double) -> Double:
    """Runnalls' bound for each pair of components, below the diagonal; infinite elsewhere."""
    n, logs = len(weights), np.linalg.slogdet(covariances)[1]
    costs = np.full((n, n), np.inf)
    for row in range(n):
        costs[row, :row] = _costs(weights, means, covariances, logs, row, np.arange(row))
    return costs


def _costs(
    weights: Double, means: Double, covariances: Double, logs: Double, i: int, others: NDArray[np.integer]
) -> Double:
    """Runnalls' bound for component i and each of the others."""
    w, total, away = weights[others], weights[i] + weights[others], means[others] - means[i]
    a, b = (weights[i] / total)[:, None, None], (w / total)[:, None, None]
    together = a * covariances[i] + b * covariances[others] + a * b * away[:, :, None] * away[:, None, :]
    return np.asarray(0.5 * (total * np.linalg.slogdet(together)[1] - weights[i] * logs[i] - w * logs[others]))


def _gaussians(density: Mixture) -> tuple[Double, Double, Double]:
    """Weights, means and covariances of the density, no variance of which is next to nothing."""
    covariances = density.covariances()
    variances = np.einsum("kdd->kd", covariances)  # a view
    typical = np.average(variances, axis=0, weights=density.weights)
    np.maximum(variances, np.maximum(LEAST_RELATIVE_VARIANCE * typical, 1e-300), out=variances)
    return density.weights, density.locations, covariances


def fit_test(problem: Problem, mixture: Mixture) -> FitTest:
    """How well the sketch agrees with records drawn from a mixture."""
    target = problem.plain.some(slice(0, MOST_WHITENED))
    errors = independent_errors(target)
    misfit = _per_freedom(problem, target, mixture, errors)
    if misfit > HOPELESS_MISFIT:
        return FitTest(misfit, 0.0)
    try:
        whitening = correlated_errors(target, mixture) if target.whole else errors
        return tested(target, mixture, whitening, hold=0.0)
    except np.linalg.LinAlgError:
        return FitTest(misfit, None)


def _per_freedom(problem: Problem, target: Target, mixture: Mixture, errors: Whitening) -> float:
    """The squared residual per number that is not fitted."""
    cost = levenberg_marquardt(target, mixture, errors, iterations=0)[1]
    return cost / max(target.n_numbers - problem.n_parameters(mixture), 1)


def refined(problem: Problem, start: Mixture) -> tuple[Mixture, FitTest]:
    """Levenberg-Marquardt with independent errors, then with their covariance; and the fit test."""
    target = problem.plain
    start = replace(start, weights=np.maximum(start.weights, 1e-3 / len(start)))
    few = target.some(slice(0, max(MOST_WHITENED, 2 * problem.n_parameters(start))))
    hold, errors = HOLD if target.released else 0.0, independent_errors(few)
    mixture, _ = levenberg_marquardt(few, start, errors, iterations=40, hold=hold)
    misfit = _per_freedom(problem, few, mixture, errors)
    if misfit > HOPELESS_MISFIT:
        return mixture, FitTest(misfit, 0.0)
    if not target.whole:
        return mixture, tested(few, mixture, errors, hold)
    some = target.some(slice(0, MOST_WHITENED)) if len(target) > MOST_WHITENED else target
    try:
        whitening = correlated_errors(some, mixture)
    except np.linalg.LinAlgError:
        return mixture, FitTest(np.inf, None)
    polished, _ = levenberg_marquardt(some, mixture, whitening, iterations=20, hold=hold)
    test = tested(some, polished, whitening, hold)
    if some is target:
        return polished, test
    # all frequencies, in blocks
    better = efficient(target, polished, MOST_WHITENED) if test.passes else None
    return (mixture if better is None else better), test


def _likely(density: Mixture, k: int, covariance_type: str, rng: np.random.Generator) -> tuple[Double, Double, Double]:
    """The mixture of greatest likelihood under the density: EM on samples of it."""
    rows = antithetic_sample(density, EM_SAMPLES, rng)
    d = rows.shape[1]
    wide = rows.mean(axis=0) + rows.std(axis=0) * rng.standard_normal((int(TAIL_SHARE * len(rows)), d))
    rows = np.concatenate([rows, wide])
    kind = "tied" if covariance_type == "known" else covariance_type
    em = GaussianMixture(k, covariance_type=kind, n_init=3, random_state=int(rng.integers(2**31)))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        em.set_params(reg_covar=1e-6 * float(np.mean(rows.var(axis=0))) + 1e-300).fit(rows)
    covariances = em.covariances_
    if kind in ("diag", "spherical"):
        covariances = covariances.reshape(k, -1, 1) * np.eye(d)
    return em.weights_, em.means_, np.broadcast_to(covariances, (k, d, d))
