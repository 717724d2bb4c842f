"""Points."""

from __future__ import annotations

import numpy as np

from sketchlearn.models.family import Model
from sketchlearn.models.frequency_set import Double, FrequencySet, Single


class Dirac(Model):
    """A point: characteristic function exp(i omega . c)."""

    tied = True

    def n_shape(self, n_features: int) -> int:
        return 0

    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        return None

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        return np.zeros((1, 0))

    def shapes_of(self, covariances: Double) -> Double:
        return np.zeros((1, 0))

    def covariances(self, shapes: Double, n_features: int) -> Double:
        return np.zeros((len(shapes), n_features, n_features))

    def steps(self, shapes: Double, frequencies: FrequencySet) -> Single:
        return np.zeros((1, len(frequencies), 0), np.float32)

    def moved(self, shapes: Double, step: Double) -> Double:
        return shapes
