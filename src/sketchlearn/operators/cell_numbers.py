"""Numbers of cells as the text of a design's file."""

from __future__ import annotations

import base64
import binascii
import math
from typing import Any

import numpy as np
from numpy.typing import NDArray

MOST_DIRECTIONS, MOST_CELLS = 256, 2**16
Double = NDArray[np.float64]


def checked_covariances(text: Any, n_cells: int, n_directions: int) -> tuple[Double, Double]:
    """The counts and matrices that a text holds."""
    numbers = unpacked("covariances", text, "<f4", n_cells * (1 + n_directions * (n_directions + 1) // 2))
    n = (math.isqrt(8 * (len(numbers) // n_cells) - 7) - 1) // 2 if len(numbers) > n_cells else 0
    width = 1 + n * (n + 1) // 2
    if not 0 < n <= n_directions or len(numbers) != n_cells * width or not np.all(np.isfinite(numbers)):
        raise ValueError("covariances must be a count and the lower triangle of a matrix for each cell")
    table, (i, j) = numbers.reshape(n_cells, width).astype(np.float64), np.tril_indices(n)
    matrices = np.zeros((n_cells, n, n))
    matrices[:, i, j] = matrices[:, j, i] = table[:, 1:]
    if np.any(table[:, 0] < 0) or np.any(np.diagonal(matrices, axis1=1, axis2=2) < 0):
        raise ValueError("covariances must have no negative count or variance")
    return table[:, 0], matrices


def packed(numbers: NDArray[Any], kind: str) -> str:
    """Numbers as text: base 64 of their bytes, of a kind such as "<i2".

    >>> unpacked("cells", packed(np.array([[1, -2]]), "<i4"), "<i4", None)
    array([ 1, -2], dtype=int32)
    """
    return base64.b64encode(np.ascontiguousarray(numbers).astype(kind).tobytes()).decode()


def unpacked(name: str, text: Any, kind: str, most: int | None) -> NDArray[Any]:
    """The whole numbers that `packed` wrote; no more than so many."""
    size = np.dtype(kind).itemsize
    if not isinstance(text, str) or len(text) > 4 * size * (MOST_CELLS * MOST_DIRECTIONS if most is None else most + 2):
        raise ValueError(f"{name} must be whole numbers in base 64")
    try:
        data = base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError):
        raise ValueError(f"{name} must be whole numbers in base 64") from None
    if not data or len(data) % size:
        raise ValueError(f"{name} must be whole numbers of {8 * size} bits, in base 64")
    return np.frombuffer(data, kind)
