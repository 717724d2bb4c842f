"""How likely rows are under a mixture of Gaussians, or of stable laws, whose densities have no closed form."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.linalg import solve_triangular
from scipy.special import expit, logsumexp

from sketchlearn.models import Double, IndependentStable, Mixture, SymmetricStable

MOST_DEVIATIONS = 1e100  # The square of a larger number overflows.
LEAST_DEVIATION = 1e-150  # Its logarithm is finite.
ANGLE_NODES, EXPONENTIAL_NODES, TABLE_RADII = 160, 100, 300
LARGEST_LOGARITHM = 40.0  # Nodes farther out have no weight.
LEAST_NODE_WEIGHT = 1e-25  # Lighter nodes, relative to the heaviest, are left out.
RESOLUTION = 20.0  # The table is finest within a twentieth of the unit, as small alphas have sharp peaks.
LARGEST_RADIUS = 1e8  # Beyond it, the density is the power law that it is nearly everywhere.
TABLES_KEPT = 256  # of 10 kB each: every block of rows asks for those of its components
LEAST_EIGENVALUE = 1e-12  # of a correlation matrix, where rounding leaves zero or a negative one


def log_likelihoods(rows: Double, mixture: Mixture) -> Double:
    """Log-likelihood of each row, (S,), for mixtures of Gaussians or stable laws. Finite, whatever the mixture is."""
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
    """The same of Gaussians with these variances, (k, columns), by matrix products: for many columns."""
    middle = means.mean(axis=0)
    away, centers, inverse = rows - middle, means - middle, 1 / variances
    constant = np.sum(np.log(2 * np.pi * variances) + centers**2 * inverse, axis=1)
    return np.asarray(-0.5 * (constant + away**2 @ inverse.T - 2 * away @ (centers * inverse).T))


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
    """Log-density at these distances from the center of the law of psi = (|omega|^2 / 2)^(alpha / 2).

    Gaussians are averaged over their variance, Kanter's function of an angle and of an exponential number. Nodes are
    equally spaced in the logarithms that reach all of its tails, so that the density is right in the center and in the
    tails: within 1e-4 for alphas from 0.8 to 1.98 (one column), within 1e-3 for others.
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
    """Logarithms of the one-sided law's numbers, E exp(-s A) = exp(-s^a), and their weights."""
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
