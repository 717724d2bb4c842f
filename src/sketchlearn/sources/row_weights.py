"""Sample weights as integers: exact if all are whole; if any is not, all are rounded to multiples of 2^-16."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

WEIGHT_BITS = 16


def weight_units(weights: Any, n_rows: int) -> tuple[NDArray[np.int64], int]:
    """Integers w and a number of bits b so that the weights are w / 2^b.

    >>> weight_units([0.5, 2.0], 2)
    (array([ 32768, 131072]), 16)
    """
    if isinstance(weights, np.ma.MaskedArray):
        raise TypeError("masked sample weights are not supported: fill them first")
    try:
        array = np.asarray(weights)
    except ValueError:
        raise ValueError("sample_weight must be one number per row") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"sample_weight must be numbers, not {array.dtype}")
    if array.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {array.shape}, but there are {n_rows} rows")
    real = array.astype(np.float64)
    bad = np.flatnonzero(~((real >= 0) & (real < np.inf)))
    if len(bad):
        raise ValueError(f"sample_weight of row {bad[0]} is {array[bad[0]]}: weights must be finite and not negative")
    bits = 0 if np.array_equal(real, np.rint(real)) else WEIGHT_BITS
    if np.sum(real) * 2.0**bits >= 2.0**62:
        raise OverflowError("the sample weights are too large to be added exactly: divide them by a common factor")
    units = np.rint(real * 2.0**bits).astype(np.int64) if array.dtype.kind == "f" else array.astype(np.int64)
    lost = np.flatnonzero((units == 0) & (real > 0))
    if len(lost):
        tiny = f"sample_weight of row {lost[0]} is {array[lost[0]]}, which rounds to zero in steps of 2^-{WEIGHT_BITS}"
        raise ValueError(f"{tiny}: multiply all weights by a common factor")
    return units, bits
