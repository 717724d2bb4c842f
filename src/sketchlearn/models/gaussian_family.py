"""Gaussians whose covariance is spherical, diagonal, full, shared, or known."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from sketchlearn.models.dirac import Dirac
from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet, Single


class SphericalGaussian(Model):
    """N(c, v I): psi = v |omega|^2 / 2. The shape is v."""

    def n_shape(self, n_features: int) -> int:
        return 1

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return np.asarray((0.5 * shapes).astype(np.float32) * frequencies.lengths)

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        return np.asarray(0.5 * (upstream @ frequencies.lengths)[:, None], np.float64)

    def quadratics(self, frequencies: FrequencySet) -> Single | None:
        return frequencies.half_lengths

    def shapes_of(self, covariances: Double) -> Double:
        return np.asarray(np.trace(covariances, axis1=1, axis2=2)[:, None] / covariances.shape[1])

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return shapes[:, :, None] * np.eye(n_features)

    def lower(self, n_features: int, least_variance: float) -> Double:
        return np.full(self.n_shape(n_features), least_variance)

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        return np.asarray((0.5 * shapes[:, None, :]).astype(np.float32) * frequencies.lengths[:, None])

    def moved(self, shapes: Double, step: Double) -> Double:
        return np.asarray(shapes * np.exp(np.clip(step, -1.0, 1.0)))

    def deviations(self, shapes: Double, others: Double) -> Double:
        return np.asarray(np.log(shapes / others))


class DiagonalGaussian(SphericalGaussian):
    """N(c, diag(v)): psi = sum over coordinates of v omega^2 / 2. The shape is v."""

    def n_shape(self, n_features: int) -> int:
        return n_features

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return np.asarray((0.5 * shapes).astype(np.float32) @ frequencies.squares.T)

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        return np.asarray(0.5 * (upstream @ frequencies.squares), np.float64)

    def quadratics(self, frequencies: FrequencySet) -> Single | None:
        return frequencies.half_squares

    def shapes_of(self, covariances: Double) -> Double:
        return np.diagonal(covariances, axis1=1, axis2=2).copy()

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return shapes[:, :, None] * np.eye(n_features)

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        return np.asarray((0.5 * shapes[:, None, :]).astype(np.float32) * frequencies.squares)


class FullGaussian(Model):
    """N(c, L L'): psi = |L' omega|^2 / 2. The shape is the factor L, row by row."""

    def n_shape(self, n_features: int) -> int:
        return n_features * n_features

    def n_parameters(self, n_components: int, n_features: int) -> int:
        rows = 1 if self.tied else n_components
        return n_components * (n_features + 1) + rows * n_features * (n_features + 1) // 2

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        projected = frequencies.omega @ _factors(shapes, frequencies.n_features).astype(np.float32)
        return np.asarray(0.5 * np.einsum("kmd,kmd->km", projected, projected))

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        omega = frequencies.omega
        spread = np.stack([(omega * row[:, None]).T @ omega for row in upstream]).astype(np.float64)
        return np.asarray((spread @ _factors(shapes, omega.shape[1])).reshape(shapes.shape))

    def shapes_of(self, covariances: Double) -> Double:
        return np.asarray(np.linalg.cholesky(covariances), np.float64).reshape(len(covariances), -1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        factors = _factors(shapes, n_features)
        return np.asarray(factors @ factors.transpose(0, 2, 1))

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        # S = L exp(A) L' for a symmetric A, of which the upper triangle are the coordinates
        d = frequencies.n_features
        projected = frequencies.omega @ _factors(shapes, d).astype(np.float32)
        i, j = np.triu_indices(d)
        return np.asarray(projected[:, :, i] * projected[:, :, j] * np.where(i == j, 0.5, 1.0).astype(np.float32))

    def moved(self, shapes: Double, step: Double) -> Double:
        d = round(shapes.shape[1] ** 0.5)
        i, j = np.triu_indices(d)
        symmetric = np.zeros((len(shapes), d, d))
        symmetric[:, i, j] = step
        symmetric[:, j, i] = step
        values, vectors = np.linalg.eigh(symmetric)
        root = (vectors * np.exp(0.5 * np.clip(values, -1.0, 1.0))[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.asarray((_factors(shapes, d) @ root).reshape(shapes.shape))

    def deviations(self, shapes: Double, others: Double) -> Double:
        d = round(shapes.shape[1] ** 0.5)
        seen = np.linalg.solve(_factors(others, d), _factors(shapes, d))
        values, vectors = np.linalg.eigh(seen @ seen.transpose(0, 2, 1))
        logarithms = (vectors * np.log(np.maximum(values, 1e-300))[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.asarray(logarithms[:, *np.triu_indices(d)])


class TiedGaussian(FullGaussian):
    """N(c, L L') with one covariance for all components."""

    tied = True

    def shapes_of(self, covariances: Double) -> Double:
        return super().shapes_of(covariances.mean(axis=0, keepdims=True))


class TiedDiagonalGaussian(DiagonalGaussian):
    """N(c, diag(v)) with one v for all components."""

    tied = True

    def shapes_of(self, covariances: Double) -> Double:
        return super().shapes_of(covariances.mean(axis=0, keepdims=True))


class KnownGaussian(Dirac):
    """N(c, S) with a covariance that is given, not learned."""

    def __init__(self, covariance: ArrayLike) -> None:
        self.covariance = np.asarray(covariance, np.float64)

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        omega = frequencies.omega
        return np.asarray(0.5 * np.sum((omega @ self.covariance.astype(np.float32)) * omega, axis=1)[None])

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return self.covariance[None]

    def in_units(self, unit: Double) -> KnownGaussian:
        return KnownGaussian(self.covariance * np.outer(unit, unit))


def _factors(shapes: Double, n_features: int) -> Double:
    return shapes.reshape(-1, n_features, n_features)
