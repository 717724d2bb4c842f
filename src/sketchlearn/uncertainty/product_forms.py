"""What one row adds to estimates from second moments, to first order: products of two linear functions of it."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import Moments
from sketchlearn.uncertainty.sampled_rows import SampledRows


@dataclass(frozen=True)
class ProductForms:
    """The functions (left . [1, x - mean]) (right . [1, x - mean]), less their means, of which estimates are means.

    Attributes
    ----------
    left : array (functions, 1 + columns).
    right : array (1 + columns,).
    """

    left: Double
    right: Double

    def means(self, moments: Moments) -> Double:
        """Means of the products over the records."""
        return np.asarray(self.left[:, 0] * self.right[0] + self.left[:, 1:] @ (moments.covariance @ self.right[1:]))

    def sampled(self, moments: Moments, sample: SampledRows, factors: Double | float = 1.0) -> Double:
        """Variances of the estimates, whatever the law, from rows; each row's function may be taken times a factor."""
        away = sample.rows - moments.mean
        right = (self.right[0] + away @ self.right[1:]) * factors
        products = (self.left[:, 0] + away @ self.left[:, 1:].T) * right[:, None]
        return sample.variances(products - self.means(moments))

    def independent(self, moments: Moments, n_rows: float) -> Double:
        """Variances of the estimates of so many rows, if both factors were independent, and the right one 0 on average.

        >>> m = Moments(100.0, np.zeros(1), np.array([[4.0]]), np.zeros(1))
        >>> ProductForms(np.array([[1.0, 0.0]]), np.array([0.0, 1.0])).independent(m, 100)
        array([0.04])
        """
        squares = [
            side[..., 0] ** 2 + np.sum((side[..., 1:] @ moments.covariance) * side[..., 1:], axis=-1)
            for side in (self.left, self.right)
        ]
        return np.asarray(np.maximum(squares[0] * squares[1] / n_rows, 0.0))

    def released(self, moments: Moments) -> Double:
        """Variances of the estimates that are due to the noise of a release; 0 if the moments are exact."""
        if moments.noise is None:
            return np.zeros(len(self.left))
        left, right = (_from_zero(side, moments.mean) for side in (self.left, self.right))
        return moments.noise.of_products(left, right, self.means(moments))


def _from_zero(form: Double, mean: Double) -> Double:
    """A linear function of [1, x - mean] as one of [1, x]."""
    return np.concatenate([(form[..., 0] - form[..., 1:] @ mean)[..., None], form[..., 1:]], axis=-1)
