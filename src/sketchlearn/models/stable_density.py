"""Densities of elliptical stable laws, which have no closed form: Gaussians averaged over their one-sided variance."""

from __future__ import annotations

import numpy as np
from scipy.interpolate import CubicSpline
from scipy.special import expit, logsumexp

from sketchlearn.models.frequency_set import Double

ANGLES, EXPONENTIALS, RADII = 160, 100, 300  # nodes of the average, and of the table
WIDE = 40.0  # logarithms beyond which nothing weighs
FAINTEST = 1e-25  # weight of a node
FINE = 20.0  # the table is finest within a twentieth of the unit: small alphas have sharp peaks
FARTHEST = 1e8  # beyond, the density is the power law that it is nearly everywhere


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
    at = np.linspace(0, np.arcsinh(FINE * FARTHEST), RADII)
    inside = -0.5 * (np.sinh(at)[:, None] / FINE) ** 2 * np.exp(-logs) - 0.5 * d * (np.log(2 * np.pi) + logs)
    table = logsumexp(inside, b=weights, axis=1)
    near = CubicSpline(at, table)(np.arcsinh(FINE * np.minimum(radius, FARTHEST)))
    return np.asarray(near - (d + alpha) * np.log(np.maximum(radius / FARTHEST, 1)))


def _variances(a: float) -> tuple[Double, Double]:
    """Logarithms of the one-sided law's numbers, E exp(-s A) = exp(-s^a), and their weights."""
    place = np.linspace(-WIDE, WIDE, ANGLES)
    angle, to_pi = np.pi * expit(place), np.pi * expit(-place)
    by_angle = (
        np.log(np.sin(a * angle))
        - np.log(np.sin(np.minimum(angle, to_pi))) / a
        + (1 - a) / a * np.log(np.sin((1 - a) * angle))
    )
    exponential = np.linspace(-WIDE, np.log(WIDE), EXPONENTIALS)
    weights = np.outer(expit(place) * expit(-place), np.exp(exponential - np.exp(exponential)))
    keep = weights > FAINTEST * weights.max()
    logs = by_angle[:, None] - (1 - a) / a * exponential
    return logs[keep], weights[keep] / weights[keep].sum()
