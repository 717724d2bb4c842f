"""What every family of distributions offers: its characteristic function, with derivatives, for many at once."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models.frequency_set import Double, FrequencySet, Single


class Model(ABC):
    """A family of distributions around a location c: characteristic function exp(i omega . c - psi(omega; shape)).

    `shapes` has one row of parameters per component, or one row for all of them if the model is `tied`.
    """

    #: one shape for all components
    tied: ClassVar[bool] = False

    @abstractmethod
    def n_shape(self, n_features: int) -> int:
        """Free parameters of one shape."""

    @abstractmethod
    def exponents(self, shapes: Double, frequencies: FrequencySet) -> Single | None:
        """psi of each component (or of all) at each frequency; None where it is zero."""

    def quadratics(self, frequencies: FrequencySet) -> Single | None:
        """The matrix Q, (length of a shape, m), if psi = shapes @ Q."""
        return None

    def pull(self, shapes: Double, frequencies: FrequencySet, upstream: Single) -> Double:
        """Gradient of sum(upstream * psi) along `shapes`, row by row; not needed where there are `quadratics`."""
        raise NotImplementedError(f"{type(self).__name__} has no gradient with respect to its shapes")

    @abstractmethod
    def shapes_of(self, covariances: Double) -> Double:
        """Shapes with covariances near these, (components, d, d)."""

    @abstractmethod
    def covariances(self, shapes: Double, n_features: int) -> Double:
        """Covariance of each row of shapes (for stable laws, of the Gaussian they would be at alpha = 2)."""

    def bounds(self, n_features: int, least_variance: float) -> tuple[Double | float, Double | float]:
        """Lower and upper bounds of one shape's parameters."""
        return -np.inf, np.inf

    def steps(self, shapes: Double, frequencies: FrequencySet) -> NDArray[Any]:
        """Derivatives of psi along the coordinates of `moved`, at zero: (rows of shapes, m, coordinates or none)."""
        return np.zeros((len(shapes), len(frequencies), 0), np.float32)

    def moved(self, shapes: Double, step: Double) -> Double:
        """Shapes after a step in coordinates that suit them (a row per row of shapes); as they are by default."""
        return shapes

    def deviations(self, shapes: Double, others: Double) -> Double:
        """How far shapes are from others, in the coordinates of `moved` (a row per row of shapes)."""
        return shapes[:, :0]

    def in_units(self, unit: Double) -> Model:
        """The model for rows that were multiplied by `unit`, column by column."""
        return self

    def scaled(self, shapes: Double, unit: Double) -> Double:
        """Shapes of `in_units(unit)` for rows that were multiplied by `unit`, column by column."""
        return self.in_units(unit).shapes_of(self.covariances(shapes, len(unit)) * np.outer(unit, unit))

    def n_parameters(self, n_components: int, n_features: int) -> int:
        """Free parameters of a mixture, its weights included."""
        rows = 1 if self.tied else n_components
        return n_components * (n_features + 1) + rows * self.n_shape(n_features)

    def draw(self, shapes: Double, size: tuple[int, int], rng: np.random.Generator) -> Double:
        """Random vectors around zero of shape (rows of shapes, *size): independent copies of each component's noise."""
        n, d = size
        values, vectors = np.linalg.eigh(self.covariances(shapes, d))
        factors = vectors * np.sqrt(np.maximum(values, 0))[:, None, :]
        return np.asarray(rng.standard_normal((len(factors), n, d)) @ factors.transpose(0, 2, 1))
