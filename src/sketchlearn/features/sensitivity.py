"""Sensitivity: how far one record can move the integers of a sketch. docs/reference/privacy.md derives each bound."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

ROUNDING_MARGIN = 1 + 1e-12  # This factor covers the rounding of the bounds themselves.


@dataclass(frozen=True)
class Sensitivity:
    """Integer bounds of the L1 norm and of the squared L2 norm of what changes between neighbors.

    `each`, if it is known, is the most that any integer changes, where no more than l1 / each of them change.
    """

    l1: int
    l2_squared: int
    each: int | None = field(default=None, compare=False, repr=False)

    @classmethod
    def of_integers(cls, n: int, largest: int) -> Self:
        """Of n integers, each of which changes by at most `largest`; no others change."""
        return cls(n * largest, n * largest**2, largest)

    @classmethod
    def of_norms(cls, l1: float, l2: float, *, n: int, largest: int) -> Self:
        """Of norms in integers, rounded up; or that of n integers up to `largest`, where that is smaller."""
        squared = math.ceil(Fraction(l2 * ROUNDING_MARGIN) ** 2)
        return cls(min(math.ceil(l1 * ROUNDING_MARGIN), n * largest), min(squared, n * largest**2))

    @property
    def l2(self) -> int:
        """The L2 norm, rounded up."""
        return math.isqrt(self.l2_squared - 1) + 1 if self.l2_squared else 0

    def times(self, n: int) -> Sensitivity:
        """Of n parts that are bounded alike."""
        return Sensitivity(n * self.l1, n * self.l2_squared, self.each)

    def counted(self, times: int) -> Sensitivity:
        """Of several records with this bound, or of one that counts several times.

        >>> Sensitivity.of_integers(3, 1).counted(2)
        Sensitivity(l1=6, l2_squared=12)
        """
        # several records may change more integers than one
        return self if times == 1 else Sensitivity(times * self.l1, times**2 * self.l2_squared)

    def replaced(self, n_sums: int) -> Sensitivity:
        """Of one record that leaves and one that comes, which change some of n_sums integers each."""
        if self.each is not None and self.l1 == self.each * n_sums:  # both change the same integers: all of them
            return self.of_integers(n_sums, 2 * self.each)
        return self.counted(2)

    def clipped(self, changes: NDArray[Any], axis: int = -1) -> NDArray[Any]:
        """Integers by which records change sums, those of larger norms along an axis scaled down (norm clipping).

        >>> Sensitivity(10, 68).clipped(np.array([[3, 7], [-6, 6], [9, 0]]))
        array([[ 3,  7],
               [-4,  4],
               [ 8,  0]])
        """
        l1 = np.abs(changes).sum(axis=axis, keepdims=True)
        squares = np.square(changes, dtype=np.float64).sum(axis=axis, keepdims=True)
        beyond = (l1 > self.l1) | (squares > float(self.l2_squared))
        if not beyond.any():
            return changes
        factor = np.minimum(self.l1 / np.maximum(l1, 1), np.sqrt(self.l2_squared / np.maximum(squares, 1)))
        # rounded towards 0, and a little less: neither step makes a norm larger
        scaled = np.trunc(changes * (factor * (1 - 2.0**-50))).astype(changes.dtype)
        return np.where(beyond, scaled, changes)

    def __add__(self, other: Sensitivity) -> Sensitivity:
        """Of two parts side by side."""
        return Sensitivity(self.l1 + other.l1, self.l2_squared + other.l2_squared)
