"""The noise that a private release adds to second moments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators import SecondMoments
from sketchlearn.operators.bounded_operators import FIXED_POINT
from sketchlearn.sketch import Sketch

Double = NDArray[np.float64]


@dataclass(frozen=True)
class MomentNoise:
    """Noise on the mean of [1, y] [1, y]', y = (x - origin) / bound: independent on the entries of one triangle.

    Attributes
    ----------
    deviation : of the noise on each entry but the first.
    count_deviation : of the noise on the first entry, 1, which is the count's.
    origin, bound : arrays (columns,).
    """

    deviation: float
    count_deviation: float
    origin: Double
    bound: Double

    @classmethod
    def of(cls, sketch: Sketch) -> MomentNoise | None:
        """The noise of a sketch of second moments, if it is private."""
        if sketch.ledger is None:
            return None
        operator: SecondMoments = sketch.operator  # type: ignore[assignment]
        deviation = float(np.sqrt(sketch.ledger.sum_variance)) / (FIXED_POINT * sketch.units)
        count_deviation = float(np.sqrt(sketch.ledger.count_variance)) / sketch.units
        return cls(deviation, count_deviation, operator.middle, np.array(operator.bound))

    def only(self, columns: list[int]) -> MomentNoise:
        """The noise on the moments of some columns."""
        return replace(self, origin=self.origin[columns], bound=self.bound[columns])

    def along(self, vector: Double) -> Double:
        """The covariance of the noise on the mean of [1, x] ([1, x] . vector), for one vector (1 + columns,).

        Two entries of E u, E symmetric with independent entries of variance s^2, have the covariance s_jk^2 u_j u_k,
        and each has the variance sum over l of s_jl^2 u_l^2.
        """
        to_x = np.diag(np.append(1.0, self.bound))
        to_x[1:, 0] = self.origin
        u = to_x.T @ vector
        squares = np.full((len(u), len(u)), self.deviation**2)
        squares[0, 0] = self.count_deviation**2
        covariance = squares * np.outer(u, u)
        np.fill_diagonal(covariance, squares @ u**2)
        return np.asarray(to_x @ covariance @ to_x.T)

    def edges(self, directions: Double, about: Double, units: Double) -> Double:
        """Eigenvalues of the mean products of (x - about) / units that noise alone makes near directions (n, columns).

        That is twice the root mean square length of the noise matrix times a direction: 2 deviation sqrt(columns), the
        edge of Wigner's semicircle, if `about` is the origin and units are the bounds.
        """
        away, bound = (about - self.origin) / units, self.bound / units
        one, others = -directions @ away, directions * bound
        size = one**2 + np.sum(others**2, axis=1)
        corner = self.deviation**2 * (size - one**2) + (self.count_deviation * one) ** 2
        across = self.deviation**2 * one * (others @ (away * bound))
        squares = away @ away * corner - 2 * across + self.deviation**2 * size * np.sum(bound**2)
        return np.asarray(2 * np.sqrt(squares))

    def floored(self, products: Double, about: Double) -> tuple[Double, int]:
        """Mean products about a point, no eigenvalue below what noise alone makes; and how many were.

        Eigenvalues are those in units of the bounds, in which all entries have the same noise.
        """
        unit = np.outer(self.bound, self.bound)
        values, vectors = np.linalg.eigh(products / unit)
        edges = self.edges(vectors.T, about, self.bound)
        raised = np.maximum(values, edges)
        return (vectors * raised) @ vectors.T * unit, int(np.sum(values < edges))
