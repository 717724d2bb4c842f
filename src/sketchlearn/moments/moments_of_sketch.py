"""Means and covariances that a sketch of second moments holds."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.moments.moment_noise import MomentNoise
from sketchlearn.operators import Operator, SecondMoments
from sketchlearn.operators.bounded_operators import FIXED_POINT
from sketchlearn.sketch import Sketch

Double = NDArray[np.float64]

MOST_CORRELATED = 0.995  # columns that were functions of each other could not be moved apart
MOST_AVERAGED = 1000  # roundings of this many records are taken to be independent: records repeat themselves


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of records, and how exactly they are known.

    Attributes
    ----------
    count : number of records.
    mean, covariance : arrays (columns,) and (columns, columns); the covariance is that of the records themselves,
        divided by their count.
    rounding : per column; an entry of the covariance is known to about rounding_j * rounding_k.
    noise : of a private release; None if the sums are exact.
    """

    count: float
    mean: Double
    covariance: Double
    rounding: Double
    noise: MomentNoise | None = None

    @classmethod
    def of(cls, sketch: Sketch, task: str) -> Moments:
        """The moments in a sketch of second moments, or of several operators of which one is that."""
        part = part_of(sketch, SecondMoments)
        if part is None:
            kind = type(sketch.operator).__name__
            raise ValueError(
                f"{task} needs a sketch of second moments (skl.SecondMoments), but the sketch is of {kind}"
            )
        if not sketch.units:
            raise ValueError(f"the sketch is empty: {task} needs records")
        operator: SecondMoments = part.operator  # type: ignore[assignment]
        away, products = operator.split(part.mean)
        count = float(part.count)
        rounding = np.array(operator.bound) / np.sqrt(FIXED_POINT * np.sqrt(min(count, MOST_AVERAGED)))
        noise = MomentNoise.of(part)
        if noise is not None:
            away = np.clip(away, -noise.bound, noise.bound)  # where the mean must lie
        return cls(count, operator.middle + away, products - np.outer(away, away), rounding, noise)

    def about_zero(self) -> Double:
        """Mean products of the columns, not centred."""
        return self.covariance + np.outer(self.mean, self.mean)

    def correlation(self, deviations: Double) -> Double:
        """Of columns whose deviations are known from elsewhere; directions that noise hides are left out.

        Noise alone has eigenvalues up to an edge e, and moves one of v to about v + e^2 / 4v.
        """
        covariance = self.covariance
        if self.noise is not None:
            unit = np.outer(self.noise.bound, self.noise.bound)
            values, vectors = np.linalg.eigh(covariance / unit)
            edges = self.noise.edges(vectors.T, self.mean, self.noise.bound)
            shown = np.where(values > edges, values - edges**2 / (4 * np.maximum(values, edges)), 0.0)
            covariance = (vectors * shown) @ vectors.T * unit
        units = np.where(deviations > 0, deviations, np.inf)
        correlation = np.clip(covariance / np.outer(units, units), -MOST_CORRELATED, MOST_CORRELATED)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    def floored(self) -> tuple[Moments, int]:
        """With a covariance that is positive definite in spite of noise; and how many directions noise hides."""
        if self.noise is None:
            return self, 0
        covariance, hidden = self.noise.floored(self.covariance, self.mean)
        return replace(self, covariance=covariance), hidden


def part_of(sketch: Sketch, kind: type[Operator]) -> Sketch | None:
    """The sketch itself, or the part of a concatenated one, whose operator is of this kind."""
    return next((part for part in sketch.operator.leaves(sketch) if isinstance(part.operator, kind)), None)
