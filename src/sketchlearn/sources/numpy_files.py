"""NumPy's files: .npy mapped into memory, .npz read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.arrays import Array
from sketchlearn.sources.source_base import listed, reading

PREFERRED_NAME = "X"  # Of several arrays in a file, this one holds the rows.


def npy(path: Path) -> Array:
    """The array in a .npy file, of which only the rows that are needed are read."""
    with reading(path):
        return _of_file(path, np.load(path, mmap_mode="r", allow_pickle=False))


def npz(path: Path) -> Array:
    """The array of a .npz file: its only one, or the one called X."""
    # opened here, because np.load does not close a file that it refuses
    with reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        names = list(arrays)
        if PREFERRED_NAME not in names and len(names) != 1:
            raise ValueError(f"{path} has the arrays {listed(names)}: name the one with the rows {PREFERRED_NAME}")
        return _of_file(path, arrays[PREFERRED_NAME if PREFERRED_NAME in names else names[0]])


def _of_file(path: Path, array: NDArray[Any]) -> Array:
    table = Array(array, str(path))
    table.n_bytes, table.immutable = path.stat().st_size, True
    return table
