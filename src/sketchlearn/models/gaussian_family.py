"""Points, and Gaussians whose covariance is spherical, diagonal, stretched, full, shared, or known."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet, Single


class SphericalGaussian(Model):
    """N(c, v I): psi = v |omega|^2 / 2. The shape is v."""

    def n_shape(self, n_features: int) -> int:
        return 1

    def _squares(self, frequencies: FrequencySet) -> Single:
        """What a shape is multiplied with, (m, length of a shape): psi = shapes . squares / 2."""
        return frequencies.lengths[:, None]

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return np.asarray((0.5 * shapes).astype(np.float32) @ self._squares(frequencies).T)

    def quadratics(self, frequencies: FrequencySet) -> Single | None:
        return frequencies.half_lengths

    def shapes_of(self, covariances: Double) -> Double:
        return np.asarray(np.trace(covariances, axis1=1, axis2=2)[:, None] / covariances.shape[1])

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return shapes[:, :, None] * np.eye(n_features)

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        return least_variance, np.inf

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        return np.asarray((0.5 * shapes[:, None, :]).astype(np.float32) * self._squares(frequencies))

    def moved(self, shapes: Double, step: Double) -> Double:
        return np.asarray(shapes * np.exp(np.clip(step, -1.0, 1.0)))

    def deviations(self, shapes: Double, others: Double) -> Double:
        return np.asarray(np.log(shapes / others))


class DiagonalGaussian(SphericalGaussian):
    """N(c, diag(v)): psi = sum over coordinates of v omega^2 / 2. The shape is v."""

    def n_shape(self, n_features: int) -> int:
        return n_features

    def _squares(self, frequencies: FrequencySet) -> Single:
        return frequencies.squares

    def quadratics(self, frequencies: FrequencySet) -> Single | None:
        return frequencies.half_squares

    def shapes_of(self, covariances: Double) -> Double:
        return np.diagonal(covariances, axis1=1, axis2=2).copy()


class StretchedGaussian(Model):
    """N(c, diag(v) + f f'): psi = (sum over coordinates of v omega^2 + (f . omega)^2) / 2. The shape is (v, f)."""

    def n_shape(self, n_features: int) -> int:
        return 2 * n_features

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        variances, along = np.hsplit(shapes, 2)
        psi = (0.5 * variances).astype(np.float32) @ frequencies.squares.T
        psi += np.float32(0.5) * (along.astype(np.float32) @ frequencies.omega.T) ** 2
        return np.asarray(psi)

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        projected = np.hsplit(shapes, 2)[1].astype(np.float32) @ frequencies.omega.T
        by_variance = 0.5 * (upstream @ frequencies.squares)
        by_direction = (upstream * projected) @ frequencies.omega
        return np.concatenate([by_variance, by_direction], axis=1).astype(np.float64)

    def shapes_of(self, covariances: Double) -> Double:
        """With f = 0, from the variances alone."""
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        return np.concatenate([variances, np.zeros_like(variances)], axis=1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        variances, along = np.hsplit(shapes, 2)
        return np.asarray(variances[:, :, None] * np.eye(n_features) + along[:, :, None] * along[:, None, :])

    def scaled(self, shapes: Double, unit: Double) -> Double:
        variances, along = np.hsplit(shapes, 2)
        return np.concatenate([variances * unit**2, along * unit], axis=1)

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        return np.repeat([least_variance, -np.inf], n_features), np.inf

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        variances, along = np.hsplit(shapes.astype(np.float32), 2)
        by_variance = 0.5 * variances[:, None, :] * frequencies.squares
        return np.concatenate([by_variance, (along @ frequencies.omega.T)[:, :, None] * frequencies.omega], axis=2)

    def moved(self, shapes: Double, step: Double) -> Double:
        (variances, along), (factor, way) = np.hsplit(shapes, 2), np.hsplit(step, 2)
        return np.concatenate([variances * np.exp(np.clip(factor, -1.0, 1.0)), along + way], axis=1)


class FullGaussian(Model):
    """N(c, L L'): psi = |L' omega|^2 / 2. The shape is the factor L, row by row."""

    def n_shape(self, n_features: int) -> int:
        return n_features * (n_features + 1) // 2

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        projected = frequencies.omega @ _factors(shapes).astype(np.float32)
        return np.asarray(0.5 * np.einsum("kmd,kmd->km", projected, projected))

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        omega = frequencies.omega
        spread = np.stack([(omega * row[:, None]).T @ omega for row in upstream]).astype(np.float64)
        return np.asarray((spread @ _factors(shapes)).reshape(shapes.shape))

    def shapes_of(self, covariances: Double) -> Double:
        return np.asarray(np.linalg.cholesky(covariances), np.float64).reshape(len(covariances), -1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        factors = _factors(shapes)
        return np.asarray(factors @ factors.transpose(0, 2, 1))

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        # S = L exp(A) L' for a symmetric A, of which the upper triangle are the coordinates
        projected = frequencies.omega @ _factors(shapes).astype(np.float32)
        i, j = np.triu_indices(frequencies.n_features)
        return np.asarray(projected[:, :, i] * projected[:, :, j] * np.where(i == j, 0.5, 1.0).astype(np.float32))

    def moved(self, shapes: Double, step: Double) -> Double:
        factors = _factors(shapes)
        i, j = np.triu_indices(factors.shape[1])
        symmetric = np.zeros(factors.shape)
        symmetric[:, i, j] = step
        symmetric[:, j, i] = step
        values, vectors = np.linalg.eigh(symmetric)
        root = (vectors * np.exp(0.5 * np.clip(values, -1.0, 1.0))[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.asarray((factors @ root).reshape(shapes.shape))

    def deviations(self, shapes: Double, others: Double) -> Double:
        seen = np.linalg.solve(_factors(others), _factors(shapes))
        values, vectors = np.linalg.eigh(seen @ seen.transpose(0, 2, 1))
        logarithms = (vectors * np.log(np.maximum(values, 1e-300))[:, None, :]) @ vectors.transpose(0, 2, 1)
        return np.asarray(logarithms[:, *np.triu_indices(seen.shape[1])])


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


class Dirac(Model):
    """A point: characteristic function exp(i omega . c)."""

    tied = True

    def n_shape(self, n_features: int) -> int:
        return 0

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return None

    def shapes_of(self, covariances: Double) -> Double:
        return np.zeros((1, 0))

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return np.zeros((len(shapes), n_features, n_features))


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


def _factors(shapes: Double) -> Double:
    d = math.isqrt(shapes.shape[1])
    return shapes.reshape(-1, d, d)


def n_parameters(k: int, d: int, covariance_type: str) -> int:
    """How many numbers a mixture of k Gaussians in d columns has.

    >>> n_parameters(2, 3, "diag")
    13
    """
    triangle = d * (d + 1) // 2
    shapes = {"full": k * triangle, "tied": triangle, "known": 0, "diag": k * d, "spherical": k}[covariance_type]
    return k - 1 + k * d + shapes
