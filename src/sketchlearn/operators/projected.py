"""Operators whose features are functions of random projections, computed by a native plan."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn._native import Plan
from sketchlearn.operators.operator_base import Centred, Double, Integers


class Projected(Centred):
    """An operator with a plan."""

    _center_type = np.float32

    @property
    def n_drawn(self) -> int:
        return self.n_features * self.n_sums

    @property
    @abstractmethod
    def _plan(self) -> Plan:
        """The plan, for the active kernel."""

    def add_rows(self, rows: NDArray[Any], weights: Integers | None, threads: int, sums: Integers) -> int:
        return self._plan.add(rows, weights, threads, sums)

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int32)
        return integers, self._plan.write(rows, threads, integers)


def in_turns(omega: Double) -> NDArray[np.float32]:
    """Frequencies (or their lengths) in float32 turns, if the kernels take them."""
    turns = (omega / (2 * np.pi)).astype(np.float32)
    if not np.all(np.abs(turns) <= kernel.FREQUENCY_LIMIT):
        raise ValueError("the scale is too small for float32 frequencies: measure the data in smaller units")
    return turns
