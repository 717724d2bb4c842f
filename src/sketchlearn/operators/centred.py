"""Operators that first subtract a center."""

from __future__ import annotations

from typing import ClassVar

import numpy as np

from sketchlearn.operators.column_checks import check_center, check_columns
from sketchlearn.operators.operator_base import MOST_FEATURES, Double, Operator
from sketchlearn.values import whole


class Centred(Operator):
    """An operator that first subtracts a center from each row."""

    center: tuple[float, ...] | None
    _center_type: ClassVar[type] = np.float64

    def __post_init__(self) -> None:
        n_features = whole("n_features", self.n_features, most=MOST_FEATURES)
        center = check_center(self.center, n_features, self._center_type)
        self._set(n_features=n_features, center=center, columns=check_columns(self.columns, n_features))

    @property
    def middle(self) -> Double:
        """What is subtracted from each row."""
        return np.zeros(self.n_features) if self.center is None else np.array(self.center)
