"""A mixture of k Gaussians from a sketch: a density with more components, merged, then refined to efficiency."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sketchlearn.decoders.densities.density_from_sketch import cleaned, fit_density
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.refinements.efficient_fit import efficient
from sketchlearn.decoders.refinements.gauss_newton import (
    Whitening,
    correlated_errors,
    independent_errors,
    levenberg_marquardt,
)
from sketchlearn.decoders.refinements.goodness_of_fit import FitTest, tested
from sketchlearn.decoders.refinements.reduction_to_points import antithetic_sample
from sketchlearn.decoders.refinements.sharpening_shapes import sharpened
from sketchlearn.decoders.searches.hierarchical_splitting import split
from sketchlearn.decoders.searches.search_loop import Decoder, Outcome, Progress, Status
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import DiagonalGaussian, Double, Mixture, Model

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
