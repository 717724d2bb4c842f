"""Rows with weights: a sample that stands for all rows."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.models import Double


@dataclass(frozen=True)
class WeightedRows:
    """A mean over all rows is estimated by sum over i of weights_i f(rows_i).

    >>> sample = WeightedRows.of([[0.0], [4.0]], [3, 1])
    >>> float(sample.weights @ sample.rows[:, 0]), round(sample.effective_size, 2)
    (1.0, 1.6)
    """

    rows: Double  # (S, d)
    weights: Double  # (S,), none of them negative, with sum 1
    #: (S,): how many equal records each row is, where those are kept as one row; None means one. A row that was drawn
    #: by chance and stands for others unlike it is one copy, whatever its weight.
    copies: Double | None = None
    open: Double | None = None  # (S,): how much of each weight is left to chance, 0 (known exactly) to 1; None means 1

    @classmethod
    def of(cls, rows: object, weights: object = None) -> WeightedRows:
        """Rows with these weights, or with equal ones, brought to a sum of 1."""
        table = np.asarray(rows, np.float64)
        own = np.ones(len(table)) if weights is None else np.asarray(weights, np.float64)
        return cls(table, own / own.sum())

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def effective_size(self) -> float:
        """How many rows of equal weights would estimate a mean as well."""
        return float(1 / np.sum(self.weights**2))
