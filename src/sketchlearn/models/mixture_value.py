"""A mixture: weights, locations and shapes of components of one model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet, Single
from sketchlearn.models.gaussian_family import DiagonalGaussian
from sketchlearn.operators import FourierFeatures

LEAST_RELATIVE_WEIGHT = 1e-6  # A component that weighs less, relative to the heaviest, is numerical noise.


@dataclass
class Mixture:
    """sum over l of weights_l times the model's distribution around locations_l.

    >>> from sketchlearn.models import Dirac
    >>> point = Mixture(Dirac(), np.ones(1), np.zeros((1, 2)), np.zeros((1, 0)))
    >>> point.characteristic(FrequencySet(np.ones((3, 2)))).real
    array([1., 1., 1.])
    """

    model: Model
    weights: Double
    locations: Double
    shapes: Double

    def __len__(self) -> int:
        return len(self.weights)

    def waves(self, frequencies: FrequencySet, space: Single | None = None) -> tuple[Single, Single]:
        """Real and imaginary parts of each component's characteristic function; `space` as in `FrequencySet.waves`."""
        return frequencies.waves(self.locations, self.model.exponents(self.shapes, frequencies), space)

    def characteristic(self, frequencies: FrequencySet) -> NDArray[np.complex128]:
        """The characteristic function, shifts of the phases included."""
        cosines, sines = self.waves(frequencies)
        return self.weights @ cosines.astype(np.float64) + 1j * (self.weights @ sines.astype(np.float64))

    def sketch(self, operator: FourierFeatures) -> NDArray[Any]:
        """The mean sketch that such records have on average, under the operator's wave and dither.

        Higher harmonics of the wave average out over the dither, so only the first, F_1, is counted.
        """
        centered = replace(self, locations=self.locations - operator.middle)
        z = centered.characteristic(FrequencySet(operator.frequencies.T, operator.dither))
        z *= operator.wave.coefficient(1) * operator.feature_weights
        return z if operator.wave.complex else 2 * z.real

    def covariances(self) -> Double:
        """Covariance of each component."""
        own = self.model.covariances(self.shapes, self.locations.shape[1])
        return np.broadcast_to(own, (len(self), *own.shape[1:])).copy()

    def variances(self) -> Double:
        """Variance of each component along each column; one covariance is made at a time, as they may be large."""
        shapes = self.shapes[:1] if self.model.tied else self.shapes
        own = [self.model.covariances(shape[None], self.locations.shape[1])[0].diagonal() for shape in shapes]
        return np.broadcast_to(np.stack(own), self.locations.shape).copy()

    def parts(self) -> tuple[Double, Double, Double]:
        """Weights, locations and covariances."""
        return self.weights, self.locations, self.covariances()

    def some(self, which: Any) -> Mixture:
        """Some of the components, by index."""
        shapes = self.shapes if self.model.tied else self.shapes[which]
        return Mixture(self.model, self.weights[which], self.locations[which], shapes)

    def untied(self) -> Mixture:
        """The same mixture of diagonal Gaussians, with a shape for each component instead of one for all."""
        return replace(self, model=DiagonalGaussian(), shapes=np.repeat(self.shapes, len(self), axis=0))

    def heavy(self) -> Mixture:
        """The components that have weight, their weights made to sum to one."""
        kept = self.some(self.weights > LEAST_RELATIVE_WEIGHT * self.weights.max())
        return replace(kept, weights=kept.weights / kept.weights.sum())

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Double, NDArray[np.int64]]:
        """n random rows and the component of each, component by component."""
        counts = rng.multinomial(n, self.weights / self.weights.sum())
        labels = np.repeat(np.arange(len(self)), counts)
        rows = self.locations[labels]
        for component, count in enumerate(counts):
            shape = self.shapes[0 if self.model.tied else component]
            rows[labels == component] += self.model.draw(shape[None], (count, rows.shape[1]), rng)[0]
        return rows, labels
