"""Means and covariances that a sketch of second moments holds, and the noise of a private release in them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.features.abilities import Ability, needed_part
from sketchlearn.features.bounded import FIXED_POINT
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.sketch.sums import Sketch

LARGEST_CORRELATION = 0.995  # Perfectly correlated columns could never be separated.
MOST_INDEPENDENT_ROUNDINGS = 1000  # Equal records have equal rounding errors.


@dataclass(frozen=True)
class MomentNoise:
    """Noise of a release on the mean of [1, y] [1, y]', y = (x - origin) / bound: independent in one triangle."""

    deviation: float  # of the noise on each entry but the first
    count_deviation: float  # of the noise on the first entry, 1, which is the count's
    origin: Double  # (columns,)
    bound: Double  # (columns,)

    @classmethod
    def of(cls, sketch: Sketch) -> MomentNoise | None:
        """The noise of a sketch of second moments, if it is private."""
        if sketch.ledger is None:
            return None
        operator: SecondMoments = sketch.operator
        deviation = float(np.sqrt(sketch.ledger.sum_variance)) / (FIXED_POINT * sketch.units)
        count_deviation = float(np.sqrt(sketch.ledger.count_variance)) / sketch.units
        return cls(deviation, count_deviation, operator.middle, np.array(operator.bound))

    def only(self, columns: list[int]) -> MomentNoise:
        """The noise on the moments of some columns."""
        return replace(self, origin=self.origin[columns], bound=self.bound[columns])

    def of_products(self, left: Double, right: Double, means: Double) -> Double:
        """Variances of the noise on means of (left . [1, x]) (right . [1, x]), for left (n, 1 + columns) and one right.

        That is left' E right for E symmetric with independent entries in one triangle, less `means` times the count's
        noise, as sums are divided by the noisy count.
        """
        u, v = (
            np.column_stack([side[..., :1] + side[..., 1:] @ self.origin[:, None], side[..., 1:] * self.bound])
            for side in (right[None], left)
        )
        both = v * u
        squares = np.sum(v**2, axis=1) * np.sum(u**2) + np.sum(both, axis=1) ** 2 - np.sum(both**2, axis=1)
        at_count = both[:, 0]
        own = self.deviation**2 * np.maximum(squares - at_count**2, 0.0)
        return np.asarray(own + self.count_deviation**2 * (at_count - means) ** 2)

    def of_shares(self, forms: Double, shares: Double, mean: Double) -> Double:
        """Variances of the noise on means of (form . [1, x - mean])^2 - share |x - mean|^2, of each form and its share.

        Two forms u' E u and trace(P E) of E, symmetric with independent entries of variance s^2 in one triangle, have
        the covariance s^2 (2 u' P u - sum of u_j^2 P_jj); both are 0 on average where shares are, so that the count's
        noise matters as that of an entry only.
        """
        to_y = np.diag(np.append(1.0, self.bound))
        to_y[1:, 0] = self.origin - mean
        P = to_y[1:].T @ to_y[1:]  # |x - mean|^2 of [1, y]
        u = forms @ to_y
        weights = np.full(P.shape, self.deviation**2)
        weights[0, 0] = self.count_deviation**2
        square = np.sum(weights * P**2) * 2 - np.sum(np.diag(weights) * np.diag(P) ** 2)
        own = 2 * np.sum(((u**2) @ weights) * u**2, axis=1) - (u**4) @ np.diag(weights)
        both = 2 * np.sum((u @ (weights * P)) * u, axis=1) - (u**2) @ (np.diag(weights) * np.diag(P))
        return np.asarray(np.maximum(own - 2 * shares * both + shares**2 * square, 0.0))

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
        """Mean products about a point with eigenvalues raised to those of noise; and the number of raised ones."""
        unit = np.outer(self.bound, self.bound)  # in which all entries have the same noise
        values, vectors = np.linalg.eigh(products / unit)
        edges = self.edges(vectors.T, about, self.bound)
        raised = np.maximum(values, edges)
        return (vectors * raised) @ vectors.T * unit, int(np.sum(values < edges))


@dataclass(frozen=True)
class Moments:
    """Mean and covariance of records, and their precision."""

    count: float  # number of records
    mean: Double  # (columns,)
    covariance: Double  # (columns, columns), of the records themselves, divided by their count
    rounding: Double  # (columns,): an entry of the covariance is known to about rounding_j * rounding_k
    noise: MomentNoise | None = None  # None if the sums are exact

    @classmethod
    def of(cls, sketch: Sketch, task: str) -> Moments:
        """The moments in a sketch of second moments, or of several operators of which one is that."""
        part = needed_part(sketch, Ability.MOMENTS, task)
        operator: SecondMoments = part.operator
        away, products = operator.split(part.mean)
        count = float(part.count)
        rounding = np.array(operator.bound) / np.sqrt(FIXED_POINT * np.sqrt(min(count, MOST_INDEPENDENT_ROUNDINGS)))
        noise = MomentNoise.of(part)
        if noise is not None:
            away = np.clip(away, -noise.bound, noise.bound)  # where the mean must lie
        return cls(count, operator.middle + away, products - np.outer(away, away), rounding, noise)

    def correlation(self, deviations: Double) -> Double:
        """Correlations of columns with these deviations; directions hidden by noise are left out.

        Noise alone has eigenvalues up to an edge e, and moves an eigenvalue v to about v + e^2 / 4v.
        """
        covariance = self.covariance
        if self.noise is not None:
            unit = np.outer(self.noise.bound, self.noise.bound)
            values, vectors = np.linalg.eigh(covariance / unit)
            edges = self.noise.edges(vectors.T, self.mean, self.noise.bound)
            shown = np.where(values > edges, values - edges**2 / (4 * np.maximum(values, edges)), 0.0)
            covariance = (vectors * shown) @ vectors.T * unit
        units = np.where(deviations > 0, deviations, np.inf)
        correlation = np.clip(covariance / np.outer(units, units), -LARGEST_CORRELATION, LARGEST_CORRELATION)
        np.fill_diagonal(correlation, 1.0)
        return np.asarray(correlation)

    def floored(self) -> tuple[Moments, int]:
        """Moments with a positive definite covariance; and the number of directions hidden by noise."""
        if self.noise is None:
            return self, 0
        covariance, hidden = self.noise.floored(self.covariance, self.mean)
        return replace(self, covariance=covariance), hidden


def part_of(sketch: Sketch, kind: type[Operator]) -> Sketch | None:
    """The sketch itself, or the part of a concatenated one, whose operator is of this kind."""
    return next((part for part in sketch.operator.leaves(sketch) if isinstance(part.operator, kind)), None)
