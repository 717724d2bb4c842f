"""Arrays, memory maps and tensors as rows that the kernel can read in place."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.table_base import Columns, Table


class Array(Table):
    """A two-dimensional array of numbers, or anything that is sliced like one."""

    def __init__(self, data: Any, place: str = "", names: tuple[str, ...] | None = None) -> None:
        self.array, self.place, self.names = _two_dimensional(data, place), place, names
        self.n_rows, self.n_columns = self.array.shape

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        for first in range(0, len(self.array), n_rows):
            yield as_rows(_columns(np.asarray(self.array[first : first + n_rows]), chosen))

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        total = len(self.array)
        which = np.sort(rng.choice(total, min(n_rows, total), replace=False))
        return as_rows(_columns(np.asarray(self.array[which]), chosen))


def as_rows(table: NDArray[Any]) -> Floats:
    """Rows as the kernel reads them: float32 or float64, native, aligned, in C order; a copy only where they are not.

    >>> as_rows(np.array([[1, 2]], np.int16)).dtype, as_rows(np.array([[1, 2]], np.int32)).dtype
    (dtype('float32'), dtype('float64'))
    """
    return np.require(table, dtype=float_type(table.dtype), requirements=["C", "A"])


def float_type(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type of rows of such numbers: float32 for those of at most 16 bits, which it holds exactly."""
    narrow = kind.itemsize <= 2 or (kind.kind == "f" and kind.itemsize == 4)
    return np.dtype(np.float32 if narrow else np.float64)


def is_tensor(data: Any) -> bool:
    """Whether it is a tensor of PyTorch."""
    return type(data).__module__.partition(".")[0] == "torch" and hasattr(data, "detach")


def from_tensor(data: Any) -> NDArray[Any]:
    """A tensor's values in main memory, without its gradient."""
    if str(data.layout) != "torch.strided":
        raise TypeError("sparse tensors are not supported: pass blocks of rows through to_dense()")
    values = data.detach().cpu()
    # NumPy has no bfloat16; float32 holds every one of them
    values = values.float() if str(values.dtype) == "torch.bfloat16" else values
    array: NDArray[Any] = values.numpy()
    return array


def _two_dimensional(data: Any, place: str) -> Any:
    inside = f"{place}: " if place else ""
    if isinstance(data, np.ma.MaskedArray):
        raise TypeError("masked arrays are not supported: fill or drop the masked values first")
    sliced = all(hasattr(data, name) for name in ("shape", "dtype", "__getitem__", "__len__"))
    try:
        # an array on disk, such as h5py's, is left there and sliced
        table = data if sliced and not isinstance(data, np.matrix) else np.asarray(data)
    except ValueError:
        raise ValueError("the data are not rows of equal length, nor arrays of rows") from None
    dimensions = len(table.shape)
    if dimensions != 2:
        hint = ": reshape one row to (1, -1) and one column to (-1, 1)" if dimensions == 1 else ""
        raise ValueError(f"{inside}expected a two-dimensional array of rows, got {dimensions} dimension(s){hint}")
    if np.dtype(table.dtype).kind not in "fiub":
        raise TypeError(f"{inside}rows must be numbers, not {table.dtype}: convert or drop those columns")
    return table


def _columns(rows: NDArray[Any], chosen: Columns) -> NDArray[Any]:
    return rows if chosen == tuple(range(rows.shape[1])) else rows[:, list(chosen)]
