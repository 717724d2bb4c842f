"""Functions of a record written in its features, so that their means can be read off a sketch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from scipy.linalg import cho_factor, cho_solve

from sketchlearn.models import Double, Single

LEAST_RIDGE = 1e-12  # in the features' mean square


@dataclass(frozen=True)
class Regression:
    """Regression of functions on features, at points whose shares are those of records up to an error.

    Shares p_i (1 + e_i), e_i independent with variance `doubt` / p_i, change the mean features by z, known with noise:
    the likeliest change of a function's mean is a . z, a the ridge regression with ridge noise / doubt.

    >>> x = np.linspace(-3, 3, 100)[:, None]
    >>> features = np.concatenate([np.cos(x), np.sin(x)], axis=1).astype(np.float32)
    >>> regression = Regression(features, np.full(100, 0.01), noise=1e-6)
    >>> told, noise, _ = regression.change(np.sin(x), np.array([0.5, 0.25]) - regression.mean)
    >>> told.round(3), noise.round(3)
    (array([0.25]), array([0.001]))
    """

    features: Single  # of the points, real: (points, numbers)
    shares: Double  # of the points, with sum one
    noise: float  # mean square error of each number of z
    doubt: float = 1.0  # about the shares; 1 if they are a guess

    @cached_property
    def mean(self) -> Double:
        """Mean features of the points."""
        return np.asarray(self.shares @ self.features)

    def change(self, values: Double, z: Double) -> tuple[Double, Double, Double]:
        """How much the means of functions change if mean features do by z, and deviations: of its noise, and in all.

        The latter include what the features do not tell. Values of the functions have the shape (points, functions).
        """
        if self.doubt == 0:
            none = np.zeros(values.shape[1])
            return none, none, none
        rest = np.sqrt(self.shares)[:, None] * (values - self.shares @ values)
        scaled, dual, factor = self._factor
        a = scaled.T @ cho_solve(factor, rest) if dual else cho_solve(factor, scaled.T @ rest)
        left = np.sum(rest * (rest - scaled @ a), axis=0)
        return z @ a, np.sqrt(self.noise * np.sum(a * a, axis=0)), np.sqrt(self.doubt * np.maximum(left, 0))

    def doubted(self, z: Double) -> Regression:
        """The same, as unsure of the shares as a change of mean features by z says."""
        spread = float(np.sum((self.features - self.mean) ** 2 * self.shares[:, None]))
        excess = float(z @ z) - self.noise * len(z)
        return replace(self, doubt=max(excess, 0.0) / max(spread, 1e-300))

    @cached_property
    def _factor(self) -> tuple[Double, bool, Any]:
        """Features about their mean, weighted; whether products of points are fewer; the factor of the products."""
        scaled = (self.features - self.mean) * np.sqrt(self.shares)[:, None]
        dual = scaled.shape[0] <= scaled.shape[1]
        product = scaled @ scaled.T if dual else scaled.T @ scaled
        ridge = self.noise / self.doubt + LEAST_RIDGE * np.trace(product) / len(product)
        product[np.diag_indices_from(product)] += ridge
        return scaled, dual, cho_factor(product, overwrite_a=True)
