"""Moments of order 2 and 4 of rows with noise of a known shape."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.moments.symmetric_forms import forms

Double = NDArray[np.float64]
BISECTIONS = 50


@dataclass(frozen=True)
class FourthMoments:
    """What is known of x = y + e, e Gaussian with the covariance noise * s, about y.

    E (v . x)^4 = E (v . y)^4 + 6 s noise(v) second(v) - 3 s^2 noise(v)^2, where second(v) = E (v . x)^2.

    Attributes
    ----------
    second : array (d, d), of x.
    fourth : of x, as a vector of forms(d, 4).
    noise : array (d, d).
    most : the largest s that leaves y a variance in all directions.
    """

    second: Double
    fourth: Double
    noise: Double
    most: float

    @property
    def d(self) -> int:
        return len(self.second)

    @cached_property
    def per_noise(self) -> Double:
        """What s adds to the fourth moments, but for its square."""
        return 6 * paired(self.second, self.noise)

    @cached_property
    def per_square(self) -> Double:
        """What s^2 takes away from them."""
        return 3 * paired(self.noise, self.noise)

    def without(self, s: float) -> Double:
        """The fourth moments of y."""
        return np.asarray(self.fourth - s * self.per_noise + s**2 * self.per_square)

    def noise_beneath(self, n_vanishing: int) -> float:
        """The s for which the smallest mean squares of quadratic forms, n_vanishing of them, are zero on average."""
        low, high = 0.0, self.most
        for _ in range(BISECTIONS if n_vanishing else 0):
            s = (low + high) / 2
            left = np.linalg.eigvalsh(flattened(self.without(s), self.d))[:n_vanishing]
            low, high = (s, high) if np.mean(left) > 0 else (low, s)
        return low


def paired(a: Double, b: Double) -> Double:
    """sym(a (x) b) of two symmetric matrices, as a vector of forms(d, 4)."""
    tensor = a[:, :, None, None] * b + b[:, :, None, None] * a
    return forms(len(a), 4).vector((tensor + tensor.transpose(0, 2, 1, 3) + tensor.transpose(0, 3, 2, 1)) / 6)


def flattened(fourth: Double, d: int) -> Double:
    """Fourth moments (..., entries) as matrices of mean products of quadratic forms (..., n, n)."""
    two, four = forms(d, 2), forms(d, 4)
    place = {tuple(row): k for k, row in enumerate(four.counts.tolist())}
    sums = two.counts[:, None] + two.counts
    where = np.array([[place[tuple(row)] for row in rows] for rows in sums.tolist()])
    return np.asarray(fourth[..., where] * (two.weights[:, None] * two.weights / four.weights[where]))
