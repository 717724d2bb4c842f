"""Operators that look at rows in a few directions, in whole numbers.

All arithmetic is on whole numbers that float64 holds, so that native kernels add up products in any order:

    v = round(2^22 (x - center) / bound)                             at most 2^22 in size
    y = round(2^-shift D v), D the directions, at most 2^14 in size  D v is below 2^52 for up to 2^16 columns
"""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn._native import Directions, directions
from sketchlearn.operators.bounded_operators import CLIP, Boxed
from sketchlearn.operators.cell_numbers import MOST_DIRECTIONS, unpacked
from sketchlearn.operators.operator_base import Double
from sketchlearn.values import whole

VALUE_BITS, DIRECTION_BITS, PLACE_BITS = 22, 14, 20
MOST_SHIFT = 52


class Directed(Boxed):
    """A boxed operator that looks at rows in a few directions."""

    n_directions: int
    directions: str
    shift: int
    normalize: bool = False

    def _check_directions(self) -> NDArray[Any]:
        """Refuses other directions than so many rows of whole numbers; returns them."""
        d, p = self.n_features, whole("n_directions", self.n_directions, most=MOST_DIRECTIONS)
        directions = unpacked("directions", self.directions, "<i2", p * d)
        if len(directions) != p * d or np.max(np.abs(directions)) > 2**DIRECTION_BITS:
            raise ValueError(f"directions must be {p} x {d} whole numbers up to {2**DIRECTION_BITS:,}")
        self._check_factors()
        self._set(n_directions=p, shift=whole("shift", self.shift, 0, MOST_SHIFT))
        return directions.reshape(p, d)

    @cached_property
    def _matrix(self) -> Double:
        found = unpacked("directions", self.directions, "<i2", None).astype(np.float64)
        return np.ascontiguousarray(found.reshape(self.n_directions, self.n_features).T)

    @property
    def projection(self) -> Double:
        """The directions (n_directions, n_features), in steps of places, for rows less the center."""
        factors = 2.0 ** (VALUE_BITS - self.shift) / np.array(self.bound)
        return np.asarray(self._matrix.T * factors)

    @cached_property
    def _directions(self) -> Directions:
        """What native kernels are told of the directions."""
        box, unit = (self.middle, np.array(self.bound)), 2.0**-self.shift
        return directions(kernel.active, *box, self._matrix, unit, self.normalize, self.outside != CLIP)

    def beyond(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        if not len(rows):
            return np.zeros(0, bool)
        with np.errstate(all="ignore"):
            reach = np.maximum(rows.max(axis=0) - self.middle, self.middle - rows.min(axis=0))
        if np.all(reach <= np.array(self.bound)):
            return np.zeros(len(rows), bool)
        return super().beyond(rows)
