"""Operators that first subtract a center."""

from __future__ import annotations

import numbers
from typing import Any, ClassVar

import numpy as np

from sketchlearn.operators.operator_base import MOST_FEATURES, Double, Operator, check_columns
from sketchlearn.values import whole


class Centred(Operator):
    """An operator that first subtracts a center from each row."""

    center: tuple[float, ...] | None
    _center_type: ClassVar[type] = np.float64

    def __post_init__(self) -> None:
        n_features = whole("n_features", self.n_features, most=MOST_FEATURES)
        center = _check_center(self.center, n_features, self._center_type)
        self._set(n_features=n_features, center=center, columns=check_columns(self.columns, n_features))

    @property
    def middle(self) -> Double:
        """What is subtracted from each row."""
        return np.zeros(self.n_features) if self.center is None else np.array(self.center)


def _check_center(center: Any, n_features: int, dtype: Any) -> tuple[float, ...] | None:
    """A center as n_features finite numbers of this precision, or None for the origin."""
    if center is None:
        return None
    message = f"center must be {n_features} finite numbers"
    if isinstance(center, tuple | list) and not all(issubclass(kind, numbers.Real) for kind in set(map(type, center))):
        raise ValueError(message)  # an array of words would have room for the longest in each place
    try:
        values = np.asarray(center)
    except (TypeError, ValueError):
        raise ValueError(message) from None
    if isinstance(center, np.ma.MaskedArray) or values.dtype.kind not in "fiu" or values.shape != (n_features,):
        raise ValueError(message)
    with np.errstate(all="ignore"):
        values = values.astype(dtype).astype(np.float64) + 0.0  # no negative zeros: equal centers have equal bytes
    if not np.all(np.isfinite(values)):
        raise ValueError(message)
    return tuple(values.tolist()) if np.any(values) else None
