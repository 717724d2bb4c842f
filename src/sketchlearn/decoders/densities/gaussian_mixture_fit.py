"""A mixture of k Gaussians from a sketch: a density with more components, merged, then refined to efficiency."""

from __future__ import annotations

import warnings
from dataclasses import dataclass, replace

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sketchlearn.decoders.densities.density_from_sketch import cleaned, fit_density
from sketchlearn.decoders.problems.blas_threads import one_blas_thread
from sketchlearn.decoders.problems.decoding_outcome import Outcome, Status
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.refinements.gauss_newton import correlated_errors, independent_errors, levenberg_marquardt
from sketchlearn.decoders.refinements.merging_components import merge_components
from sketchlearn.decoders.refinements.reduction_to_points import antithetic_sample
from sketchlearn.decoders.refinements.sharpening_shapes import sharpened
from sketchlearn.decoders.searches.hierarchical_splitting import split
from sketchlearn.decoders.searches.search_loop import Decoder, Progress
from sketchlearn.models import DiagonalGaussian, Mixture, Model

PASSING_FIT_TEST = 1.5  # the fit test: squared residual per degree of freedom
MOST_WHITENED = 1100  # frequencies whose whole covariance is used
SAMPLES = 20_000
TAILS = 0.03
MOST_PER_SHAPE = 2
HOPELESS = 30.0  # a squared residual for which the errors' covariance, dear to compute, would make no difference
HELD = 2.0  # 1 / squared deviation of the logarithms of variances from the common ones, where noise hides them
NARROWEST = 1e-3  # variance of a component, as part of the density's narrowest


@dataclass(frozen=True)
class MixtureFit:
    """A mixture in the units of the data, the fit test's figure (1 is perfect), and how the search went."""

    mixture: Mixture
    misfit: float
    outcome: Outcome

    @property
    def passes(self) -> bool:
        """Whether the sketch agrees with records drawn from the mixture."""
        return self.misfit <= PASSING_FIT_TEST


def fit_mixture(
    problem: Problem,
    model: Model,
    covariance_type: str,
    decoder: Decoder,
    rng: np.random.Generator,
    progress: Progress | None = None,
) -> MixtureFit:
    """The mixture of k components of `model` that the sketch tells of.

    Where the fit test fails, no such mixture explains the sketch, and matching the sketch more closely would make the
    mixture worse: the best likelihood under the fitted density is returned instead, sharpened where the operator
    knows of flatter clusters.
    """
    problem = cleaned(problem, decoder, rng, progress)
    density, outcome = fit_density(problem, decoder, rng, progress)
    k = problem.n_components
    if outcome.status is Status.HIDDEN:  # narrow components in wrong places: hundreds of nats per row were lost
        whole = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, len(problem.spread))), problem.spread[None] ** 2)
        density = problem.in_data_units(whole)
    density = with_components(density, k)
    with one_blas_thread():
        merged = merge_components(*_gaussians(density), k)
        if outcome.status is Status.HIDDEN:
            coarse = problem.in_own_units(model, *merged)
            return MixtureFit(problem.in_data_units(coarse), outcome.misfit, outcome)
        best, misfit = refined(problem, problem.in_own_units(model, *merged))
        if misfit > PASSING_FIT_TEST:
            likely = _likely(density, k, covariance_type, rng)
            other, other_misfit = refined(problem, problem.in_own_units(model, *likely))
            if other_misfit < misfit:
                best, misfit = other, other_misfit
            if misfit > PASSING_FIT_TEST:
                best = problem.in_own_units(model, *likely)
                # a shape that serves many components tells little of any
                if k <= MOST_PER_SHAPE * len(problem.plain.shapes) and covariance_type in ("diag", "full"):
                    own = problem.in_own_units(DiagonalGaussian(), *_gaussians(density))
                    best = sharpened(problem, best, own, rng)
    best = replace(best, weights=best.weights / best.weights.sum())
    return MixtureFit(problem.in_data_units(best), misfit, outcome)


def with_components(density: Mixture, k: int) -> Mixture:
    """The density with at least k components: its heaviest ones are split as often as needed."""
    while len(density) < k:
        density = split(density, min(len(density), k - len(density)))
    return density


def _gaussians(density: Mixture) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    covariances = density.covariances()
    d = covariances.shape[1]
    typical = np.average(np.diagonal(covariances, axis1=1, axis2=2), axis=0, weights=density.weights)
    floor = np.maximum(NARROWEST * typical, 1e-300)
    covariances[:, np.arange(d), np.arange(d)] = np.maximum(covariances[:, np.arange(d), np.arange(d)], floor)
    return density.weights, density.locations, covariances


def fit_test(problem: Problem, mixture: Mixture) -> float:
    """The squared residual of a mixture per degree of freedom: about 1 if records are drawn from it."""
    target = problem.plain.some(slice(0, MOST_WHITENED)) if len(problem.plain) > MOST_WHITENED else problem.plain
    freedom = max(target.n_numbers - problem.n_parameters(mixture), 1)
    misfit = levenberg_marquardt(target, mixture, independent_errors(target), iterations=0)[1] / freedom
    if not target.whole or misfit > HOPELESS:
        return misfit
    try:
        whitening = correlated_errors(target, mixture)
    except np.linalg.LinAlgError:
        return misfit
    return levenberg_marquardt(target, mixture, whitening, iterations=0)[1] / freedom


def refined(problem: Problem, start: Mixture) -> tuple[Mixture, float]:
    """Levenberg-Marquardt with independent errors, then with their covariance; and the fit test's figure."""
    target = problem.plain
    start = replace(start, weights=np.maximum(start.weights, 1e-3 / len(start)))
    few = target.some(slice(0, max(MOST_WHITENED, 2 * problem.n_parameters(start))))
    hold = HELD if target.released else 0.0
    mixture, cost = levenberg_marquardt(few, start, independent_errors(few), iterations=40, hold=hold)
    misfit = cost / max(few.n_numbers - problem.n_parameters(mixture), 1)
    if not target.whole or misfit > HOPELESS:
        return mixture, misfit
    some = target.some(slice(0, MOST_WHITENED)) if len(target) > MOST_WHITENED else target
    try:
        whitening = correlated_errors(some, mixture)
    except np.linalg.LinAlgError:
        return mixture, np.inf
    polished, cost = levenberg_marquardt(some, mixture, whitening, iterations=20, hold=hold)
    return (polished if some is target else mixture), cost / max(some.n_numbers - problem.n_parameters(mixture), 1)


def _likely(
    density: Mixture, k: int, covariance_type: str, rng: np.random.Generator
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """The mixture of greatest likelihood under the density: EM on samples of it."""
    rows = antithetic_sample(density, SAMPLES, rng)
    d = rows.shape[1]
    # a few rows from all over: the density knows little of its own tails
    wide = rows.mean(axis=0) + rows.std(axis=0) * rng.standard_normal((int(TAILS * len(rows)), d))
    rows = np.concatenate([rows, wide])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        kind = "tied" if covariance_type == "known" else covariance_type
        em = GaussianMixture(k, covariance_type=kind, n_init=3, random_state=int(rng.integers(2**31)))
        em.set_params(reg_covar=1e-6 * float(np.mean(rows.var(axis=0))) + 1e-300).fit(rows)
    own = em.covariances_
    covariances = {
        "full": lambda: own,
        "tied": lambda: np.broadcast_to(own, (k, d, d)),  # and "known"
        "diag": lambda: own[:, :, None] * np.eye(d),
        "spherical": lambda: own[:, None, None] * np.eye(d),
    }[kind]()
    return em.weights_, em.means_, covariances
