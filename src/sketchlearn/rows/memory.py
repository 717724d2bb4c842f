"""Tables in memory: arrays, tensors, sparse matrices and data frames of pandas; and arrays in NumPy's files."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.kernels.gpu.rows import device_rows, downloaded, gathered
from sketchlearn.rows.schemas.cell_values import arrow_array, what_cells_hold
from sketchlearn.rows.source_base import (
    GATHERED_BYTES,
    Columns,
    Floats,
    IndexedTable,
    Table,
    inside,
    listed,
    reading,
    some_positions,
)

KIND_WORDS = {"M": "dates", "m": "durations", "c": "complex numbers", "O": "objects", "U": "text", "S": "bytes"}
BRAIN_FLOAT = "bfloat16"  # the name of the type that packages such as ml_dtypes add to NumPy's
PREFERRED_NAME = "X"  # Of several arrays in a .npz file, the one of this name holds the rows.


class Array(IndexedTable):
    """A two-dimensional array of numbers, or anything that is sliced like one."""

    def __init__(self, data: Any, path: Path | None = None) -> None:
        if isinstance(data, np.ma.MaskedArray):
            raise TypeError("masked arrays are not supported: fill or drop the masked values first")
        data = _from_tensor(data)
        sliced = all(hasattr(data, name) for name in ("shape", "dtype", "__getitem__", "__len__"))
        try:
            # an array on disk, such as h5py's, is left there and sliced
            self.array = data if sliced and not isinstance(data, np.matrix) else _array_of(data)
        except ValueError:
            raise ValueError("the data are not rows of equal length, nor arrays of rows") from None
        if path is not None:
            self.place, self.n_bytes, self.immutable = str(path), path.stat().st_size, True
        self.n_rows, self.n_columns = _shape(self.array, self.place)

    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        return as_rows(np.asarray(self.array[which]), chosen)

    def ids_at(self, which: Any, position: int) -> NDArray[Any]:
        return np.asarray(self.array[which])[:, position]  # integers beyond 2^53 stay what they are


class OnGpu(IndexedTable):
    """An array of torch, CuPy or JAX in a GPU's memory; only the requested rows are copied to main memory."""

    def __init__(self, data: Any) -> None:
        self.rows = device_rows(data)
        self.n_rows, self.n_columns = self.rows.shape

    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        if isinstance(which, slice):
            return as_rows(downloaded(self.rows[which]), chosen)
        return as_rows(gathered(self.rows, np.asarray(which)).astype(self.rows.dtype), chosen)


class Sparse(IndexedTable):
    """A sparse matrix of SciPy, made dense block by block; formats that cannot be cut into rows are converted once."""

    def __init__(self, data: Any) -> None:
        self.n_rows, self.n_columns = _shape(data)
        self.matrix = data.tocsr()

    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        return as_rows(self.matrix[which], chosen)


class Beside(IndexedTable):
    """The columns of two arrays side by side, composed block by block; the left one may be sparse."""

    immutable = True  # a thread may compose the next rows meanwhile

    def __init__(self, left: Any, right: NDArray[Any]) -> None:
        self.left, self.right = left, right
        self.n_rows, self.n_columns = left.shape[0], left.shape[1] + right.shape[1]

    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        left = self.left[which]
        left = left.toarray() if is_sparse(left) else left
        return as_rows(np.column_stack([left, self.right[which]]), chosen)

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        """Pieces so small that memory is reused: new pages for each took as long as copying."""
        return super().chunks(chosen, min(n_rows, max(1, GATHERED_BYTES // (8 * self.n_columns))))

    def side_by_side(self) -> tuple[Table, ...]:
        return (Sparse(self.left) if is_sparse(self.left) else Array(self.left), Array(self.right))


class Frame(IndexedTable):
    """A data frame. Columns have names if all of those are strings, as scikit-learn has it."""

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        names = tuple(frame.columns)
        self.names = names if names and all(isinstance(name, str) for name in names) else None
        self.n_rows, self.n_columns = frame.shape
        self.types = list(frame.dtypes)

    def not_numbers(self, position: int) -> str | None:
        kind = self.types[position]
        if _column_type(kind) is not None:
            return None
        word = "categories" if str(kind) == "category" else KIND_WORDS.get(kind.kind, "values")
        word = "text" if "str" in str(kind) else word
        if kind.kind == "O" and (odd := what_cells_hold(map(type, self.frame.iloc[:, position]))) is not None:
            word = odd
        return f"{word} ({kind})"

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        return (self._raw_at(slice(i, i + n_rows), chosen) for i in range(0, self.n_rows, n_rows))

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any]:
        return self._raw_at(some_positions(self.n_rows, n_rows, rng), chosen)

    def _raw_at(self, which: Any, chosen: Columns) -> dict[str, Any]:
        part = self.frame.iloc[which]
        return {str(self.frame.columns[i]): arrow_array(part.iloc[:, i]) for i in chosen}

    def rows_at(self, which: Any, chosen: Columns) -> Floats:
        part = self.frame.iloc[which]
        narrow = all(_column_type(self.types[position]) == np.float32 for position in chosen)
        rows: NDArray[Any] = np.empty((len(part), len(chosen)), np.float32 if narrow else np.float64)
        for i, position in enumerate(chosen):
            column = part.iloc[:, position]
            plain = isinstance(self.types[position], np.dtype)
            rows[:, i] = _in_range(column.to_numpy()) if plain else column.to_numpy(dtype=rows.dtype, na_value=np.nan)
        return rows

    def ids_at(self, which: Any, position: int) -> NDArray[Any]:
        column = self.frame.iloc[which, position]
        return np.asarray(column.to_numpy() if isinstance(self.types[position], np.dtype) else column.to_numpy(object))


def npy(path: Path) -> Array:
    """The array in a .npy file; only the needed rows are read."""
    with reading(path):
        return Array(np.load(path, mmap_mode="r", allow_pickle=False), path)


def npz(path: Path) -> Array:
    """The array of a .npz file: its only one, or the one called X."""
    # opened here, because np.load does not close a file that it cannot read
    with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        names = list(arrays)
        if PREFERRED_NAME not in names and len(names) != 1:
            raise ValueError(f"{path} has the arrays {listed(names)}: name the one with the rows {PREFERRED_NAME}")
        return Array(arrays[PREFERRED_NAME if PREFERRED_NAME in names else names[0]], path)


def as_rows(table: Any, chosen: Columns) -> Floats:
    """Columns as the kernel reads them: float32 or float64, native, aligned, in C order; copied only if they are not.

    >>> as_rows(np.array([[1, 2]], np.int16), (0, 1)).dtype, as_rows(np.array([[1, 2]], np.int32), (1,)).tolist()
    (dtype('float32'), [[2.0]])
    """
    if chosen != tuple(range(table.shape[1])):
        table = table[:, list(chosen)]
    if is_sparse(table):
        table = table.toarray()
    return np.require(_in_range(table), dtype=float_type(table.dtype), requirements=["C", "A"])


def _in_range(values: NDArray[Any]) -> NDArray[Any]:
    """Numbers as they are, but finite ones beyond float64 as the largest float64."""
    if values.dtype.kind != "f" or values.dtype.itemsize <= 8:
        return values
    return np.where(np.isfinite(values), np.clip(values, -sys.float_info.max, sys.float_info.max), values)


def _array_of(lists: Any) -> NDArray[Any]:
    """Lists of numbers as an array, even if NumPy makes objects of very large integers."""
    array = np.asarray(lists)
    if array.dtype != object or hasattr(lists, "dtype") or not all(isinstance(value, Real) for value in array.flat):
        return array
    return np.array([_nearest_float(value) for value in array.flat]).reshape(array.shape)


def _nearest_float(value: Any) -> float:
    try:
        return float(value)
    except OverflowError:
        return sys.float_info.max if value > 0 else -sys.float_info.max


def float_type(kind: np.dtype[Any]) -> np.dtype[Any]:
    """The type of rows of such numbers: float32 for those of at most 16 bits, which it holds exactly."""
    narrow = kind.itemsize <= 2 or (kind.kind == "f" and kind.itemsize == 4)
    return np.dtype(np.float32 if narrow else np.float64)


def is_sparse(data: Any) -> bool:
    return hasattr(data, "tocsr") and hasattr(data, "toarray") and hasattr(data, "shape")


def is_frame(data: Any) -> bool:
    return type(data).__module__.partition(".")[0] == "pandas" and hasattr(data, "iloc") and hasattr(data, "columns")


def _from_tensor(data: Any) -> Any:
    """The values of a PyTorch tensor in main memory, without its gradient; other data as they are."""
    if type(data).__module__.partition(".")[0] != "torch" or not hasattr(data, "detach"):
        return data
    if str(data.layout) != "torch.strided":
        raise TypeError("sparse tensors are not supported: pass blocks of rows through to_dense()")
    values = data.detach().cpu()
    # NumPy has no bfloat16; float32 holds every one of them
    return (values.float() if str(values.dtype) == "torch.bfloat16" else values).numpy()


def of_narrow_floats(data: Any) -> Any:
    """Arrays of float16 or bfloat16 and tensors of bfloat16 as float32, which holds all of them; others as they are.

    >>> of_narrow_floats(np.ones((1, 1), np.float16)).dtype, of_narrow_floats(np.ones((1, 1))).dtype
    (dtype('float32'), dtype('float64'))
    """
    if str(getattr(data, "dtype", "")) == f"torch.{BRAIN_FLOAT}":
        data = _from_tensor(data)
    if isinstance(data, np.ndarray) and data.dtype.name in (BRAIN_FLOAT, "float16"):
        return data.astype(np.float32)
    return data


def _shape(table: Any, place: str = "") -> tuple[int, int]:
    dimensions = len(table.shape)
    if dimensions != 2:
        hint = ": reshape one row to (1, -1) and one column to (-1, 1)" if dimensions == 1 else ""
        raise ValueError(f"{inside(place)}expected a two-dimensional array, got {dimensions} dimension(s){hint}")
    kind = np.dtype(table.dtype)
    if kind.kind not in "fiub" and kind.name != BRAIN_FLOAT:
        raise TypeError(
            f"{inside(place)}rows must be numbers, not {table.dtype}: convert those columns, or give a data frame and "
            "a schema, which encodes them"
        )
    return table.shape[0], table.shape[1]


def _column_type(kind: Any) -> np.dtype[Any] | None:
    """The type of rows for a column of this type; None if it is not numbers."""
    if kind.kind in "fiub":
        if isinstance(kind, np.dtype):
            return float_type(kind)
        # a nullable, sparse or Arrow type: the NumPy type of its values
        inner = getattr(kind, "numpy_dtype", None) or getattr(kind, "subtype", None)
        return float_type(np.dtype(inner)) if inner is not None else np.dtype(np.float64)
    return np.dtype(np.float64) if "decimal" in str(getattr(kind, "pyarrow_dtype", "")) else None
