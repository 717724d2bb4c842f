"""How likely rows are under a mixture."""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sketchlearn.models import IndependentStable, Mixture, SymmetricStable
from sketchlearn.models.frequency_set import Double
from sketchlearn.models.stable_density import log_density

MOST_DEVIATIONS = 1e100  # The square of a larger number overflows.
LEAST_DEVIATION = 1e-150  # Its logarithm is finite.
LEAST_EIGENVALUE = 1e-12  # of a correlation matrix, where rounding leaves zero or a negative one


def log_likelihoods(rows: Double, mixture: Mixture) -> Double:
    """Log-likelihood of each row, (S,), for mixtures of Gaussians or stable laws. Finite, whatever the mixture is."""
    logs = log_densities(rows, mixture) + np.log(np.maximum(mixture.weights, 1e-300))
    return np.asarray(logsumexp(logs, axis=1))


def log_densities(rows: Double, mixture: Mixture) -> Double:
    """Log-density of each component at each row, (S, k)."""
    density = _stable_density if isinstance(mixture.model, SymmetricStable) else _gaussian_density
    return np.stack([density(rows, mixture, component) for component in range(len(mixture))], axis=1)


def _gaussian_density(rows: Double, mixture: Mixture, component: int) -> Double:
    """Log-density of a Gaussian, computed from correlations, so that units of columns do not matter."""
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
        logs = log_density(np.abs(away).ravel(), 1, alpha).reshape(away.shape).sum(axis=1)
    else:
        logs = log_density(np.linalg.norm(away, axis=1), away.shape[1], alpha)
    return np.asarray(logs - np.sum(np.log(scales)))


def _standardised(rows: Double, location: Double, variances: Double) -> tuple[Double, Double]:
    """Rows around a location in units of deviations, and the deviations."""
    scales = np.maximum(np.sqrt(np.maximum(variances, 0.0)), LEAST_DEVIATION)
    with np.errstate(over="ignore"):  # what overflows is clipped
        away = np.clip((rows - location) / scales, -MOST_DEVIATIONS, MOST_DEVIATIONS)
    return away, scales
