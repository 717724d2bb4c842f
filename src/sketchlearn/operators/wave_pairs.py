"""Pairs of waves: what products of the features of one with those of the other add up to.

For a query x seen by f and a row y seen by g, both with the same frequencies and dither, the mean product is
sum over k of F_k conj(G_k) kappa(k (x - y)), kappa the kernel of the frequencies' law: undistorted if one of the two
waves has no harmonics but the first. (Schellekens and Jacques, "Breaking the waves", proposition 3.8 of the thesis.)
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.waves import Wave

Floats = NDArray[np.float64]
TAIL = 1e-3  # what coefficients that are left out add up to, at most
HIGHEST = 4096
GRID = (np.arange(2**14) + 0.5) / 2**14


@dataclass(frozen=True)
class Pair:
    """Two waves, both real or both complex; of complex ones, the real part of the product counts."""

    query: Wave
    wave: Wave

    def __post_init__(self) -> None:
        if self.query.complex != self.wave.complex:
            raise ValueError("wave and query must both be real or both be complex")
        if abs(self.product) < 1e-6:
            raise ValueError("the two waves are a quarter turn apart, their products tell nothing: use wave='cosine'")

    @cached_property
    def product(self) -> float:
        """Mean of f conj(g) over a turn.

        >>> from sketchlearn.waves import Cosine, Square
        >>> round(Pair(Square(complex=False), Cosine()).product * np.pi, 6)
        2.0
        """
        return float(np.mean((self.query(GRID) * np.conj(self.wave(GRID))).real))

    @cached_property
    def size(self) -> float:
        """Root mean square of g over a turn."""
        return float(np.sqrt(np.mean(np.abs(self.wave(GRID)) ** 2)))

    @cached_property
    def coefficients(self) -> dict[int, float]:
        """Of each order k, Re(F_k conj(G_k) + F_-k conj(G_-k)), as far as those left out exceed `TAIL`."""
        both = {k: _product(self, k) + _product(self, -k) for k in range(1, HIGHEST + 1)}
        left, kept = sum(abs(c) for c in both.values()), {}
        for k, c in both.items():
            if left < TAIL / 2 * abs(self.product):
                break
            left -= abs(c)
            if abs(c) > 1e-12:
                kept[k] = c
        return kept

    def kernel(self, kappa: Callable[[Floats], Floats], distances: Floats) -> Floats:
        """The expected product at these distances, divided by that at none; wrong by `TAIL` at most."""
        result, rest, last = np.zeros(np.shape(distances)), self.product, 1
        for k, c in self.coefficients.items():
            result += c * kappa(k * distances)
            rest, last = rest - c, k
        return np.asarray((result + rest * kappa(2 * last * distances)) / self.product)


def _product(pair: Pair, k: int) -> float:
    return float((pair.query.coefficient(k) * pair.wave.coefficient(k).conjugate()).real)
