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
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture, Model, merge_components
from sketchlearn.kernels.dispatch import one_blas_thread

MOST_FREQUENCIES = 2200
BLURS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.0)
STEPS_PER_BLUR = 5
LEAST_WEIGHT = 1e-3  # A component without weight may be needed at the next blur.
DESIGN_ROWS = 20_000  # of the sample of a design for mixtures
DENSITY_SAMPLES = 2000
SEARCHES = 3  # The likeliest mixture under a coarse density does not always fit best.
MOST_ROUNDS, MOVES_PER_ROUND, PLACES_PER_COMPONENT = 40, 15, 4  # of the search for places
LEAST_DENSITY_SHARE = 1e-12  # of a row
LEAST_GAIN = 1e-3  # nats per row that a move must gain


def sharpened(problem: Problem, mixture: Mixture, density: Mixture, rng: np.random.Generator) -> Mixture:
    """The mixture with the operator's declared shapes of clusters, if that fits the sketch better.

    The density, of diagonal Gaussians, is coarse, and so is `mixture`. The declared shapes, blurred like the density,
    are placed where they are likeliest under it. Then the blur is removed step by step while locations are refined;
    free shapes would collapse meanwhile. Records unlike the design's sample may not have such shapes: then the fit is
    worse and `mixture` is returned.
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
    # a poor fit is an error of the model, and counts as noise relative to the declared shapes
    hold = cost / target.n_numbers * DESIGN_ROWS / len(mixture)
    best, cost = levenberg_marquardt(target, best, whitening, iterations=STEPS_PER_BLUR, hold=hold)
    coarse = levenberg_marquardt(target, mixture, whitening, iterations=0)[1]
    return best if cost < coarse else mixture


def _unblurred(
    target: Target, mixture: Mixture, shapes: Double, blur: Double, whitening: Whitening
) -> tuple[Mixture, float]:
    """The mixture with these shapes, refined while the blur is removed; and its cost."""
    for part in BLURS:
        own = mixture.model.shapes_of(shapes + part * blur)
        mixture = replace(mixture, weights=np.maximum(mixture.weights, LEAST_WEIGHT), shapes=own)
        mixture, cost = levenberg_marquardt(target, mixture, whitening, iterations=STEPS_PER_BLUR, hold=np.inf)
    return mixture, cost


def _nearest(covariances: Double, others: Double) -> NDArray[np.int64]:
    """The nearest of the others to each covariance, in divergence; distinct ones if there are enough."""
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
        """Log-density at each row of a component located at each point: (rows, points)."""
        inverse = self.inverses[component]
        rows, seen = self.rows @ inverse.T, points @ inverse.T
        squares = np.sum(rows**2, axis=1)[:, None] - 2 * rows @ seen.T + np.sum(seen**2, axis=1)
        return np.asarray(self.constants[component] - 0.5 * squares)

    def parts(self, weights: Double, locations: Double) -> Double:
        """Logarithm of weight times density: (rows, components)."""
        own = [self.logarithms(c, point[None])[:, 0] for c, point in enumerate(locations)]
        return np.asarray(np.stack(own, axis=1) + np.log(np.maximum(weights, 1e-12)))

    def settle(self, weights: Double, locations: Double, steps: int) -> tuple[Double, Double, float]:
        """Weights and locations after EM steps, and the likelihood before the last one."""
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
        """EM, then relocations of single components or exchanges of two, while the likelihood increases."""
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


#: frequencies per block, as the covariance of all errors is expensive. In blocks of 500, covariances of overlapping
#: components had 1.23 times the least error, in blocks of 1100 1.15
MOST_WHITENED = 1100
EM_SAMPLES = 20_000
TAIL_SHARE = 0.03  # of rows for EM from a wide Gaussian, as the density's tails are unreliable
MOST_COMPONENTS_PER_SHAPE = 2  # A declared shape of many components describes none of them well.
HOPELESS_RESIDUAL = 30.0  # squared, per degree of freedom: above it, no refinement reached a good fit
HOLD = 2.0  # prior precision of log-variances around the common ones, for private sketches
LEAST_RELATIVE_VARIANCE = 1e-3  # of a component, relative to the density's average component


@dataclass(frozen=True)
class MixtureFit:
    """A mixture in the units of the data, its goodness of fit, and the outcome of the search."""

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
    """The mixture of k components of `model`, which is in the units of the data, from a sketch.

    Where the fit is poor, matching the sketch more closely would make the mixture worse: the mixture of greatest
    likelihood under the fitted density is returned instead, sharpened if the operator declares flatter clusters.
    """
    problem = cleaned(problem, decoder, rng, progress)
    density, outcome = fit_density(problem, decoder, rng, progress)
    k = problem.n_components
    if outcome.status is Status.HIDDEN:  # narrow components in wrong places lost hundreds of nats per row
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
    """The density with at least k components, by splitting the heaviest ones."""
    while len(density) < k:
        density = split(density, k - len(density))
    return density


def _gaussians(density: Mixture) -> tuple[Double, Double, Double]:
    """Weights, means and covariances of the density, with variances bounded from below."""
    covariances = density.covariances()
    variances = np.einsum("kdd->kd", covariances)  # a view
    typical = np.average(variances, axis=0, weights=density.weights)
    np.maximum(variances, np.maximum(LEAST_RELATIVE_VARIANCE * typical, 1e-300), out=variances)
    return density.weights, density.locations, covariances


def fit_test(problem: Problem, mixture: Mixture) -> FitTest:
    """The goodness of fit of a mixture."""
    target = problem.plain.some(slice(0, MOST_WHITENED))
    errors = independent_errors(target)
    misfit = _per_freedom(problem, target, mixture, errors)
    if misfit > HOPELESS_RESIDUAL:
        return FitTest(misfit, 0.0)
    try:
        whitening = correlated_errors(target, mixture) if target.whole else errors
        return tested(target, mixture, whitening, hold=0.0)
    except np.linalg.LinAlgError:
        return FitTest(misfit, None)


def _per_freedom(problem: Problem, target: Target, mixture: Mixture, errors: Whitening) -> float:
    """The squared residual per degree of freedom."""
    cost = levenberg_marquardt(target, mixture, errors, iterations=0)[1]
    return cost / max(target.n_numbers - problem.n_parameters(mixture), 1)


def refined(problem: Problem, start: Mixture) -> tuple[Mixture, FitTest]:
    """Levenberg-Marquardt with independent errors, then with their covariance; and the goodness of fit."""
    target = problem.plain
    start = replace(start, weights=np.maximum(start.weights, 1e-3 / len(start)))
    few = target.some(slice(0, max(MOST_WHITENED, 2 * problem.n_parameters(start))))
    hold, errors = HOLD if target.released else 0.0, independent_errors(few)
    mixture, _ = levenberg_marquardt(few, start, errors, iterations=40, hold=hold)
    misfit = _per_freedom(problem, few, mixture, errors)
    if misfit > HOPELESS_RESIDUAL:
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
    """The mixture of greatest likelihood under the density, by EM on samples."""
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
