"""Pairs of waves: what products of their features estimate."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sketchlearn.waves.periodic_waves import Floats, Wave

TAIL_SHARE = 1e-3  # The coefficients that a pair leaves out add up to at most this share of its mean product.
HIGHEST_ORDER = 4096  # of a pair's coefficients
PAIR_GRID = (np.arange(2**14) + 0.5) / 2**14


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
        return float(np.mean((self.query(PAIR_GRID) * np.conj(self.wave(PAIR_GRID))).real))

    @cached_property
    def size(self) -> float:
        """Root mean square of g over a turn."""
        return float(np.sqrt(np.mean(np.abs(self.wave(PAIR_GRID)) ** 2)))

    @cached_property
    def coefficients(self) -> dict[int, float]:
        """Of each order k, Re(F_k conj(G_k) + F_-k conj(G_-k)), as far as those left out exceed `TAIL_SHARE`."""
        f, g = self.query.coefficient, self.wave.coefficient
        products = {k: float((f(k) * g(k).conjugate()).real) for k in range(-HIGHEST_ORDER, HIGHEST_ORDER + 1)}
        both = {k: products[k] + products[-k] for k in range(1, HIGHEST_ORDER + 1)}
        left, kept = sum(abs(c) for c in both.values()), {}
        for k, c in both.items():
            if left < TAIL_SHARE / 2 * abs(self.product):
                break
            left -= abs(c)
            if abs(c) > 1e-12:
                kept[k] = c
        return kept

    def kernel(self, kappa: Callable[[Floats], Floats], distances: Floats) -> Floats:
        """The expected product at these distances, divided by that at none; wrong by `TAIL_SHARE` at most."""
        result, rest, last = np.zeros(np.shape(distances)), self.product, 1
        for k, c in self.coefficients.items():
            result += c * kappa(k * distances)
            rest, last = rest - c, k
        return np.asarray((result + rest * kappa(2 * last * distances)) / self.product)
