"""Operators whose features are functions of random projections, computed by a native plan."""

from __future__ import annotations

from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn._native import Plan
from sketchlearn.operators.operator_base import Centred


class Projected(Centred):
    """An operator with a plan."""

    @property
    def n_drawn(self) -> int:
        return self.n_features * self.n_sums

    @abstractmethod
    def _make_plan(self) -> Plan:
        """The plan, for the active kernel."""

    @cached_property
    def _plan(self) -> Plan:
        return self._make_plan()

    def add_rows(
        self, rows: NDArray[Any], weights: NDArray[np.int64] | None, threads: int, sums: NDArray[np.int64]
    ) -> int:
        return self._plan.add(rows, weights, threads, sums)

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int32)
        return integers, self._plan.write(rows, threads, integers)


def in_turns(omega: NDArray[np.float64]) -> NDArray[np.float32]:
    """Frequencies (or their lengths) in float32 turns, if the kernels take them."""
    turns = (omega / (2 * np.pi)).astype(np.float32)
    if not np.all(np.abs(turns) <= kernel.FREQUENCY_LIMIT):
        raise ValueError("the scale is too small for float32 frequencies: measure the data in smaller units")
    return turns
