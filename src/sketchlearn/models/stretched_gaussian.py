"""Gaussians that are stretched along one direction each: most of what clusters of real records look like."""

from __future__ import annotations

import numpy as np

from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet, Single


class StretchedGaussian(Model):
    """N(c, diag(v) + f f'): psi = (sum over coordinates of v omega^2 + (f . omega)^2) / 2. The shape is (v, f)."""

    def n_shape(self, n_features: int) -> int:
        return 2 * n_features

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        variances, along = _halves(shapes)
        psi = (0.5 * variances).astype(np.float32) @ frequencies.squares.T
        psi += np.float32(0.5) * (along.astype(np.float32) @ frequencies.omega.T) ** 2
        return np.asarray(psi)

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        projected = _halves(shapes)[1].astype(np.float32) @ frequencies.omega.T
        by_variance = 0.5 * (upstream @ frequencies.squares)
        by_direction = (upstream * projected) @ frequencies.omega
        return np.concatenate([by_variance, by_direction], axis=1).astype(np.float64)

    def shapes_of(self, covariances: Double) -> Double:
        """With f = 0, from the variances alone."""
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        return np.concatenate([variances, np.zeros_like(variances)], axis=1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        variances, along = _halves(shapes)
        return np.asarray(variances[:, :, None] * np.eye(n_features) + along[:, :, None] * along[:, None, :])

    def scaled(self, shapes: Double, unit: Double) -> Double:
        variances, along = _halves(shapes)
        return np.concatenate([variances * unit**2, along * unit], axis=1)

    def lower(self, n_features: int, least_variance: float) -> Double:
        return np.repeat([least_variance, -np.inf], n_features)


def _halves(shapes: Double) -> tuple[Double, Double]:
    d = shapes.shape[1] // 2
    return shapes[:, :d], shapes[:, d:]
