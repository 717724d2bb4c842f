"""Arrays, and iterables of arrays, as blocks of float32 or float64 rows that the kernel can read in place."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

BLOCK_BYTES = 1 << 25


@dataclass(frozen=True)
class Block:
    """Consecutive rows of the data, and the number of the first."""

    rows: NDArray[np.floating]
    start: int


def _is_stream(data: Any) -> bool:
    if isinstance(data, np.ndarray) or hasattr(data, "__array__"):
        return False
    if isinstance(data, list | tuple):
        return all(getattr(item, "ndim", None) == 2 for item in data)
    return isinstance(data, Iterable) and not isinstance(data, str | bytes | dict)


def _table(data: Any, n_features: int) -> NDArray[Any]:
    """The data as a two-dimensional array of numbers with n_features columns, not copied if it is one."""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported: fill or drop the masked values first")
    if isinstance(data, str | os.PathLike):
        raise TypeError("paths are not read: load the rows, or pass an iterable of arrays")
    if hasattr(data, "toarray"):
        raise TypeError("sparse matrices are not supported: pass blocks of rows through toarray()")
    try:
        table = np.asarray(data)
    except ValueError:
        raise ValueError("the data are not rows of equal length, nor arrays of rows") from None
    if table.dtype.kind not in "fiub":
        raise TypeError(f"rows must be numbers, not {table.dtype}: convert or drop those columns")
    if table.ndim != 2:
        hint = ": reshape one row to (1, -1) and one column to (-1, 1)" if table.ndim == 1 else ""
        raise ValueError(f"expected a two-dimensional array of rows, got {table.ndim} dimension(s){hint}")
    if table.shape[1] != n_features:
        raise ValueError(f"the rows have {table.shape[1]} columns, but the operator needs {n_features}")
    return table


def _as_rows(table: NDArray[Any]) -> NDArray[np.floating]:
    """Rows as the kernel reads them: float32 or float64, native and aligned; a copy only where they are not."""
    kind = table.dtype
    if kind.kind == "f" and kind.itemsize in (4, 8):
        return np.require(table, dtype=kind.newbyteorder("="), requirements="A")
    exact = (kind.kind in "iub" and kind.itemsize <= 2) or kind.itemsize == 2
    return table.astype(np.float32 if exact else np.float64)


def blocks(data: Any, n_features: int) -> Iterator[Block]:
    """The data in blocks of bounded size, in order."""
    start = 0
    for part in data if _is_stream(data) else (data,):
        table = _table(part, n_features)
        step = max(1, BLOCK_BYTES // (8 * n_features))
        for first in range(0, len(table), step):
            yield Block(_as_rows(table[first : first + step]), start + first)
        start += len(table)


def row_count(data: Any) -> int | None:
    """How many rows there are, if that is known without reading them."""
    if _is_stream(data):
        return sum(part.shape[0] for part in data) if isinstance(data, list | tuple) else None
    return None if getattr(data, "shape", None) == () or not hasattr(data, "__len__") else len(data)
