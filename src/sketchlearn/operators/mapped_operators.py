"""Operators that first turn each row into another row, then sketch that."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators.operator_base import Double, Integers, Operator
from sketchlearn.sensitivity import Sensitivity
from sketchlearn.sketch import Sketch


class Mapped(Operator):
    """Phi(x) = Psi(g(x)): a map g of rows, and the operator Psi of what it gives.

    The value of g at a row must be the same bits in whatever block the row comes.
    """

    @property
    @abstractmethod
    def inner(self) -> Operator:
        """The operator of mapped rows."""

    @abstractmethod
    def mapped(self, rows: NDArray[Any], threads: int) -> NDArray[Any]:
        """g of each row; not finite where the row is not."""

    def inner_sketch(self, sketch: Sketch) -> Sketch:
        """The same integers, as the inner operator's sketch of mapped rows."""
        return sketch.of_same_records(self.inner, sketch.sums, sketch.ledger)

    def change_by_record(self) -> Sensitivity:
        return self.inner.change_by_record()

    def change_by_replacement(self) -> Sensitivity:
        return self.inner.change_by_replacement()

    @property
    def n_sums(self) -> int:
        return self.inner.n_sums

    @property
    def ceiling(self) -> int:
        return self.inner.ceiling

    def add_rows(self, rows: NDArray[Any], weights: Integers | None, threads: int, sums: Integers) -> int:
        return self.inner.add_rows(self.mapped(rows, threads), weights, threads, sums)

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]:
        return self.inner.write_rows(self.mapped(rows, threads), threads)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        return self.inner.mean_of(sums)

    @property
    def n_drawn(self) -> int:
        return self.inner.n_drawn

    def random_parts(self) -> list[NDArray[Any]]:
        return self.inner.random_parts()
