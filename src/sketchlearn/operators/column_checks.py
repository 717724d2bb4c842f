"""What operators say about columns: names and centers, checked."""

from __future__ import annotations

import numbers
from typing import Any

import numpy as np

from sketchlearn.schemas import Schema, SchemaColumns
from sketchlearn.values import listed, shortened, whole


def check_columns(columns: Any, n_features: int) -> tuple[str, ...] | None:
    """The columns' names, if there are as many as columns, all different."""
    if columns is None:
        return None
    names = SchemaColumns(columns) if isinstance(columns, Schema) else columns
    names = names if isinstance(names, SchemaColumns) else listed(names)
    if len(names) != n_features or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ValueError(f"columns must be {n_features} different names, not {shortened(columns)}")
    return names


def check_column_numbers(name: str, numbers_of: Any, n_features: int) -> tuple[int, ...]:
    """Numbers of columns, from 0, at least one and all different."""
    found = tuple(whole(name, k, 0, n_features - 1) for k in listed(numbers_of))
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{name} must be different numbers of columns, not {shortened(numbers_of)}")
    return found


def check_center(center: Any, n_features: int, dtype: Any) -> tuple[float, ...] | None:
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
