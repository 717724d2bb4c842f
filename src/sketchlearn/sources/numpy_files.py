"""NumPy's files: .npy mapped into memory, .npz read."""

from __future__ import annotations

import zipfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.arrays import Array
from sketchlearn.sources.source_base import listed

PREFERRED = "X"


def npy(path: Path) -> Array:
    """The array in a .npy file, of which only the rows that are needed are read."""
    with _reading(path):
        array = np.load(path, mmap_mode="r", allow_pickle=False)
    return _of_file(path, array)


def npz(path: Path) -> Array:
    """The array of a .npz file: its only one, or the one called X."""
    # opened here, because np.load does not close a file that it refuses
    with _reading(path), path.open("rb") as file, np.load(file, allow_pickle=False) as arrays:
        names = list(arrays)
        if PREFERRED not in names and len(names) != 1:
            raise ValueError(f"{path} has the arrays {listed(names)}: name the one with the rows {PREFERRED}")
        array = arrays[PREFERRED if PREFERRED in names else names[0]]
    return _of_file(path, array)


def _of_file(path: Path, array: NDArray[Any]) -> Array:
    table = Array(array, str(path))
    table.n_bytes, table.immutable = path.stat().st_size, True
    return table


@contextmanager
def _reading(path: Path) -> Iterator[None]:
    """NumPy's errors as one sentence that names the file."""
    try:
        yield
    except FileNotFoundError:
        raise FileNotFoundError(f"there is no file {path}") from None
    except (ValueError, OSError, EOFError, zipfile.BadZipFile, zlib.error) as error:
        reason = (str(error).strip().splitlines() or [type(error).__name__])[0]
        if reason.startswith(str(path)):
            raise
        advice = (
            "it holds Python objects" if "object" in reason.lower() else f"it may be damaged or cut short: {reason}"
        )
        raise ValueError(f"{path} cannot be read, {advice}") from None
