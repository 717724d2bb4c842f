"""Densities of elliptical stable laws, which have no closed form: Gaussians averaged over their one-sided variance."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, logsumexp

from sketchlearn.models.frequency_set import Double

ANGLE_NODES, EXPONENTIAL_NODES, TABLE_RADII = 160, 100, 300
LARGEST_LOGARITHM = 40.0  # Nodes farther out have no weight.
LEAST_NODE_WEIGHT = 1e-25  # Lighter nodes, relative to the heaviest, are left out.
RESOLUTION = 20.0  # The table is finest within a twentieth of the unit, as small alphas have sharp peaks.
LARGEST_RADIUS = 1e8  # Beyond it, the density is the power law that it is nearly everywhere.


def log_density(radius: Double, n_features: int, alpha: float) -> Double:
    """Log-density at these distances from the center of the law of psi = (|omega|^2 / 2)^(alpha / 2).

    The variance is Kanter's function of an angle and of an exponential number. Nodes are equally spaced in the
    logarithms that reach all of its tails, so that it is right in the center and in the tails: within 1e-4 for alphas
    from 0.8 to 1.98 (one column), within 1e-3 for others.
    """
    d = n_features
    if alpha >= 2 - 1e-9:
        return np.asarray(-0.5 * radius**2 - 0.5 * d * np.log(2 * np.pi))
    logs, weights = _variances(alpha / 2)
    at = np.linspace(0, np.arcsinh(RESOLUTION * LARGEST_RADIUS), TABLE_RADII)
    inside = -0.5 * (np.sinh(at)[:, None] / RESOLUTION) ** 2 * np.exp(-logs) - 0.5 * d * (np.log(2 * np.pi) + logs)
    table = logsumexp(inside, b=weights, axis=1)
    near = CubicSpline(at, table)(np.arcsinh(RESOLUTION * np.minimum(radius, LARGEST_RADIUS)))
    return np.asarray(near - (d + alpha) * np.log(np.maximum(radius / LARGEST_RADIUS, 1)))


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
