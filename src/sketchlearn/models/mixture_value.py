"""A mixture: weights, locations and shapes of components of one model."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet
from sketchlearn.operators import FourierFeatures

NEGLIGIBLE = 1e-6


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

    def characteristic(self, frequencies: FrequencySet) -> NDArray[np.complex128]:
        """The characteristic function, shifts of the phases included."""
        cosines, sines = frequencies.waves(self.locations, self.model.exponents(self.shapes, frequencies))
        return self.weights @ cosines.astype(np.float64) + 1j * (self.weights @ sines.astype(np.float64))

    def sketch(self, operator: FourierFeatures) -> NDArray[Any]:
        """The mean sketch that such records have on average, under the operator's wave and dither.

        Higher harmonics of the wave average out over the dither, so only the first, F_1, is counted.
        """
        locations = self.locations - operator.middle
        frequencies = FrequencySet(operator.frequencies.T, operator.dither)
        z = Mixture(self.model, self.weights, locations, self.shapes).characteristic(frequencies)
        z *= operator.wave.coefficient(1) * operator.feature_weights
        return z if operator.wave.complex else 2 * z.real

    def covariances(self) -> Double:
        """Covariance of each component."""
        own = self.model.covariances(self.shapes, self.locations.shape[1])
        return np.broadcast_to(own, (len(self), *own.shape[1:])).copy()

    def some(self, which: Any) -> Mixture:
        """Some of the components, by index."""
        shapes = self.shapes if self.model.tied else self.shapes[which]
        return Mixture(self.model, self.weights[which], self.locations[which], shapes)

    def heavy(self) -> Mixture:
        """The components that have weight, their weights made to sum to one."""
        kept = self.some(self.weights > NEGLIGIBLE * self.weights.max())
        return Mixture(kept.model, kept.weights / kept.weights.sum(), kept.locations, kept.shapes)

    def sample(self, n: int, rng: np.random.Generator) -> tuple[Double, NDArray[np.int64]]:
        """n random rows and the component of each, component by component."""
        counts = rng.multinomial(n, self.weights / self.weights.sum())
        labels = np.repeat(np.arange(len(self)), counts)
        rows = self.locations[labels]
        for component, count in enumerate(counts):
            shape = self.shapes[0 if self.model.tied else component]
            rows[labels == component] += self.model.draw(shape[None], (count, rows.shape[1]), rng)[0]
        return rows, labels
