"""What a sketch costs: errors of a mixture that was fitted to it, beside the least that all rows would leave.

All rows leave the inverse of Fisher's information, the mean of s s' over records, s the scores; a sketch of few
frequencies leaves more. The information is read from draws of the fitted mixture.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders import Problem
from sketchlearn.decoders.densities.gaussian_mixture_fit import MOST_WHITENED
from sketchlearn.decoders.refinements.gauss_newton import correlated_errors, derivatives
from sketchlearn.models import Double, FullGaussian, KnownGaussian, Mixture, SphericalGaussian, StretchedGaussian
from sketchlearn.uncertainty.component_scores import Steps
from sketchlearn.uncertainty.mixture_errors import MOST_SCORES, inverse_root, scores_and_information
from sketchlearn.uncertainty.sketch_influence import UNDETERMINED, UndeterminedError, check_size

GAUSSIANS = (SphericalGaussian, StretchedGaussian, FullGaussian, KnownGaussian)
FEWEST_DRAWS, DRAWS_PER_PARAMETER = 10_000, 100  # The information's inverse is 1 % too large with 100 per parameter.


def errors_over_bound(problem: Problem, mixture: Mixture, rng: np.random.Generator) -> float | None:
    """Errors of the means of a mixture of Gaussians, in the problem's units, over those that all rows would leave.

    It is the root of the mean of squared ratios. None where it cannot be told: for one-bit or subsampled sketches,
    private ones, those of many frequencies, and where the sketch does not determine the mixture.
    """
    target = problem.without_harmonics(mixture).plain
    if not target.whole or len(target) > MOST_WHITENED or target.released or not isinstance(mixture.model, GAUSSIANS):
        return None
    steps = Steps.of(mixture)
    n = max(FEWEST_DRAWS, DRAWS_PER_PARAMETER * steps.n_coordinates)
    if n * steps.n_coordinates > MOST_SCORES:
        return None
    rows = mixture.sample(n, rng)[0]
    try:
        check_size(target, mixture)
        seen = correlated_errors(target, mixture)(derivatives(target, mixture)) * np.sqrt(target.sampling)
        scores = scores_and_information(steps, mixture, rows, np.full(n, 1 / n))[0] / np.sqrt(n)
        of_sketch, of_rows = (_variances(steps, part) for part in (seen, scores))
    except UndeterminedError:
        return None
    return max(1.0, float(np.sqrt(np.mean(of_sketch / of_rows))))


def _variances(steps: Steps, roots: Double) -> Double:
    """Of means, where the information is R'R; weights sum to one."""
    free = steps.keeping_sum
    roots = roots @ free
    gradients = steps.mean_gradients(np.ones(steps.mixture.locations.shape[1])).reshape(-1, steps.n_coordinates) @ free
    return np.asarray(np.sum((inverse_root(roots.T @ roots, UNDETERMINED) @ gradients.T) ** 2, axis=0))
