from typing import Any

import numpy as np
from numpy.typing import NDArray

def kernels() -> list[str]: ...

class Plan:
    def __init__(
        self,
        kernel: str,
        wave: int,
        center: NDArray[np.float32],
        n_columns: int,
        limit: float,
        radius: float,
        series: list[float],
        key: int,
        n_groups: int,
    ) -> None: ...
    def dense(self, frequencies: NDArray[np.float32], dither: NDArray[np.float32]) -> None: ...
    def structured(
        self, signs: NDArray[np.float32], radii: NDArray[np.float32], dither: NDArray[np.float32], size: int
    ) -> None: ...
    def add(
        self, rows: NDArray[Any], weights: NDArray[np.int64] | None, n_threads: int, sums: NDArray[np.int64]
    ) -> int: ...
    def write(self, rows: NDArray[Any], n_threads: int, out: NDArray[np.int32]) -> int: ...

def moments(
    kernel: str,
    rows: NDArray[Any],
    center: NDArray[np.float64],
    bound: NDArray[np.float64],
    weights: NDArray[np.int64] | None,
    n_threads: int,
    sums: NDArray[np.int64],
) -> int: ...
