"""Coordinates of small steps of Gaussians: scores along them, and what they change.

A Gaussian N(mu, LL') moves by mu <- mu + L b, and its covariance to L (I + B) L'. With z = L^-1 (x - mu), the
derivatives of its log-density at x are z along b, and (z'Bz - tr B) / 2 along B. The coordinates of a shape, those of
`Model.moved`, are some matrices B: diagonal ones for diagonal Gaussians.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders.refinements.gauss_newton import widths
from sketchlearn.models import Double, FrequencySet, Mixture

STEP = 1e-4  # of a shape's coordinate, for derivatives of covariances


@dataclass(frozen=True)
class Steps:
    """Steps of all components of a mixture of Gaussians, in the units that it is in."""

    mixture: Mixture
    factors: Double  # L of each component, (K, d, d)
    covariances: Double  # derivatives of covariances along the coordinates of shapes, (rows of shapes, q, d, d)
    products: tuple[NDArray[np.intp], NDArray[np.intp]]  # i, j of the products z_i z_j that scores are made of
    coefficients: Double  # of those products in the scores of shapes, (rows of shapes, products, q)

    @classmethod
    def of(cls, mixture: Mixture) -> Steps:
        d, model, shapes = mixture.locations.shape[1], mixture.model, mixture.shapes
        factors = widths(mixture)
        q = model.steps(shapes[:1], FrequencySet(np.zeros((0, d)))).shape[2]
        changes = np.zeros((len(shapes), q, d, d))
        for j in range(q):
            step = np.zeros((len(shapes), q))
            step[:, j] = STEP
            ends = (model.covariances(model.moved(shapes, sign * step), d) for sign in (1, -1))
            changes[:, j] = (next(ends) - next(ends)) / (2 * STEP)
        own = factors[:1] if model.tied else factors
        inverses = np.linalg.inv(own)[:, None]
        seen = inverses @ changes @ inverses.transpose(0, 1, 3, 2)  # B of each coordinate
        diagonal = np.allclose(seen, seen * np.eye(d), atol=1e-6)
        i, j = (np.arange(d), np.arange(d)) if diagonal else np.triu_indices(d)
        coefficients = seen[:, :, i, j] * np.where(i == j, 0.5, 1.0)
        return cls(mixture, factors, changes, (i, j), coefficients.transpose(0, 2, 1))

    @property
    def n_shape(self) -> int:
        """Coordinates of a shape."""
        return self.covariances.shape[1]

    @property
    def n_coordinates(self) -> int:
        """Coordinates of all steps."""
        k, d = self.mixture.locations.shape
        return k * (1 + d) + len(self.covariances) * self.n_shape

    def places(self, component: int) -> tuple[int, slice, slice]:
        """Where the coordinates of a component's weight, location and shape are, as `derivatives` orders them."""
        k, d = self.mixture.locations.shape
        q, tied = self.n_shape, self.mixture.model.tied
        first = component * (1 + d + (0 if tied else q))
        shape = k * (1 + d) if tied else first + 1 + d
        return first, slice(first + 1, first + 1 + d), slice(shape, shape + q)

    @property
    def keeping_sum(self) -> Double:
        """Directions of steps along which the weights keep their sum: (coordinates, one less)."""
        places = [self.places(component)[0] for component in range(len(self.mixture))]
        directions = np.eye(self.n_coordinates)
        across = np.linalg.qr(np.column_stack([self.mixture.weights, np.eye(len(places))[:, 1:]]))[0]
        directions[np.ix_(places, places)] = across
        return np.delete(directions, places[0], axis=1)

    def terms(self, z: Double) -> Double:
        """1, z, and the products z_i z_j less their means: (rows, terms)."""
        i, j = self.products
        return np.concatenate([np.ones((len(z), 1)), z, z[:, i] * z[:, j] - (i == j)], axis=1)

    def along_coordinates(self, component: int, moments: Double) -> Double:
        """Moments of something with `terms`, (..., terms), as moments with the scores of all coordinates."""
        d = self.mixture.locations.shape[1]
        weight, location, shape = self.places(component)
        result = np.zeros((*moments.shape[:-1], self.n_coordinates))
        result[..., weight], result[..., location] = moments[..., 0], moments[..., 1 : 1 + d]
        own = self.coefficients[0 if self.mixture.model.tied else component]
        result[..., shape] = moments[..., 1 + d :] @ own
        return result

    def weight_gradients(self) -> Double:
        """Of weights that are brought to a sum of one: (K, coordinates)."""
        weights = self.mixture.weights / self.mixture.weights.sum()
        gradients = np.zeros((len(weights), self.n_coordinates))
        gradients[:, [self.places(c)[0] for c in range(len(weights))]] = np.diag(weights) - np.outer(weights, weights)
        return gradients

    def mean_gradients(self, unit: Double) -> Double:
        """Of the means, in data units of this size: (K, d, coordinates)."""
        gradients = np.zeros((*self.mixture.locations.shape, self.n_coordinates))
        for component, factor in enumerate(self.factors):
            gradients[component, :, self.places(component)[1]] = unit[:, None] * factor
        return gradients

    def covariance_gradients(self, unit: Double) -> Double:
        """Of the covariances, likewise: (rows of shapes, d, d, coordinates)."""
        d = len(unit)
        gradients = np.zeros((len(self.covariances), d, d, self.n_coordinates))
        for row, changes in enumerate(self.covariances):
            gradients[row][:, :, self.places(row)[2]] = (changes * np.outer(unit, unit)).transpose(1, 2, 0)
        return gradients
