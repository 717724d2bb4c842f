"""Symmetric alpha-stable distributions: bell shapes with heavy tails."""

from __future__ import annotations

import numpy as np

from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet, Single

LEAST_ALPHA = 0.5
LARGEST_ALPHA_STEP = 0.3  # One Gauss-Newton step changes alpha by at most this much.


class SymmetricStable(Model):
    """The elliptical alpha-stable law around c: psi = q^(alpha / 2), q = sum over coordinates of v omega^2 / 2.

    The shape is (v, alpha), 0.5 <= alpha <= 2; alpha = 2 is the Gaussian N(c, diag(v)), alpha = 1 the Cauchy law.
    A draw is the square root of a one-sided stable number times a Gaussian vector (sub-Gaussian representation).
    """

    def n_shape(self, n_features: int) -> int:
        return n_features + 1

    def _powers(self, shapes: Double, frequencies: FrequencySet) -> tuple[Single, Single, Single]:
        """q, alpha / 2 and q^(alpha / 2): (rows of shapes, m) and (rows of shapes, 1)."""
        q = np.maximum((0.5 * shapes[:, :-1]).astype(np.float32) @ frequencies.squares.T, np.float32(1e-30))
        half = (0.5 * shapes[:, -1:]).astype(np.float32)
        return q, half, q**half

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return self._powers(shapes, frequencies)[2]

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        q, half, psi = self._powers(shapes, frequencies)
        psi = upstream * psi
        by_scale = 0.5 * ((half * psi / q) @ frequencies.squares)
        by_alpha = 0.5 * np.sum(psi * np.log(q), axis=1, keepdims=True)
        return np.concatenate([by_scale, by_alpha], axis=1).astype(np.float64)

    def shapes_of(self, covariances: Double) -> Double:
        variances = np.diagonal(covariances, axis1=1, axis2=2)
        return np.concatenate([variances, np.full((len(variances), 1), 1.8)], axis=1)

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return shapes[:, :-1, None] * np.eye(n_features)

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        q, half, psi = self._powers(shapes, frequencies)
        parts = (0.5 * shapes[:, None, :-1]).astype(np.float32) * frequencies.squares
        by_scale = (half * psi / q)[:, :, None] * parts
        return np.concatenate([by_scale, (0.5 * psi * np.log(q))[:, :, None]], axis=2)

    def moved(self, shapes: Double, step: Double) -> Double:
        variances = shapes[:, :-1] * np.exp(np.clip(step[:, :-1], -1.0, 1.0))
        alphas = shapes[:, -1:] + np.clip(step[:, -1:], -LARGEST_ALPHA_STEP, LARGEST_ALPHA_STEP)
        return np.concatenate([variances, np.clip(alphas, LEAST_ALPHA, 2.0)], axis=1)

    def deviations(self, shapes: Double, others: Double) -> Double:
        scales = np.log(shapes[:, :-1] / others[:, :-1])
        return np.concatenate([scales, shapes[:, -1:] - others[:, -1:]], axis=1)

    def scaled(self, shapes: Double, unit: Double) -> Double:
        return np.concatenate([shapes[:, :-1] * unit**2, shapes[:, -1:]], axis=1)

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        return np.repeat([least_variance, LEAST_ALPHA], [n_features, 1]), np.repeat([np.inf, 2.0], [n_features, 1])

    def draw(self, shapes: Double, size: tuple[int, int], rng: np.random.Generator) -> Double:
        normal = super().draw(shapes, size, rng)
        stretch = np.stack([one_sided(row[-1], rng.random(size[0]), rng.random(size[0])) for row in shapes])
        return np.asarray(normal * np.sqrt(stretch)[:, :, None])


class IndependentStable(SymmetricStable):
    """Coordinates that are independent symmetric stable numbers of one alpha: psi = sum of (v omega^2 / 2)^(alpha / 2).

    In one column it is the elliptical law; in more, its tails lie along the axes.
    """

    def _powers(self, shapes: Double, frequencies: FrequencySet) -> tuple[Single, Single, Single]:
        """The same of q = v omega^2 / 2 of each coordinate: (rows of shapes, m, d) and (rows of shapes, 1, 1)."""
        q = np.maximum((0.5 * shapes[:, None, :-1]).astype(np.float32) * frequencies.squares, np.float32(1e-30))
        half = (0.5 * shapes[:, -1:, None]).astype(np.float32)
        return q, half, q**half

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return np.asarray(self._powers(shapes, frequencies)[2].sum(axis=2))

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        steps = self.steps(shapes, frequencies)
        steps[:, :, :-1] /= shapes[:, None, :-1].astype(np.float32)
        return np.asarray(np.einsum("km,kmp->kp", upstream, steps), np.float64)

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        q, half, psi = self._powers(shapes, frequencies)
        return np.concatenate([half * psi, 0.5 * np.sum(psi * np.log(q), axis=2, keepdims=True)], axis=2)

    def draw(self, shapes: Double, size: tuple[int, int], rng: np.random.Generator) -> Double:
        stretch = np.stack([one_sided(row[-1], rng.random(size), rng.random(size)) for row in shapes])
        return np.asarray(rng.standard_normal(stretch.shape) * np.sqrt(stretch * shapes[:, None, :-1]))


def one_sided(alpha: float, u: Double, v: Double) -> Double:
    """Positive numbers A with Laplace transform E exp(-s A) = exp(-s^(alpha / 2)), from uniform ones (Kanter 1975)."""
    a = alpha / 2
    if a >= 1:
        return np.ones_like(u)
    theta, e = np.pi * np.clip(u, 1e-12, 1 - 1e-12), -np.log(np.clip(v, 1e-300, 1 - 1e-16))
    # Kanter's product, to the power (1 - a) / a, in logarithms: near a = 1 its factors overflow
    logs = np.log(np.sin(a * theta)) - np.log(np.sin(theta)) / a + (1 - a) / a * np.log(np.sin((1 - a) * theta) / e)
    return np.asarray(np.exp(np.clip(logs, -600, 600)))
