from typing import Any

import numpy as np
from numpy.typing import NDArray

LIMIT: float
FREQUENCY_LIMIT: float
SMALLEST_TRANSFORM: int

def kernels() -> list[str]: ...

class Plan:
    def add(
        self, rows: NDArray[Any], weights: NDArray[np.int64] | None, n_threads: int, sums: NDArray[np.int64]
    ) -> int: ...
    def write(
        self,
        rows: NDArray[Any],
        n_threads: int,
        out: NDArray[np.int32],
        weights: NDArray[np.int64] | None = None,
        sums: NDArray[np.int64] | None = None,
    ) -> int: ...

def dense_plan(
    kernel: str,
    feature: str,
    center: NDArray[np.float32],
    dither: NDArray[np.float32],
    radius: float,
    coefficients: list[float],
    key: int,
    n_groups: int,
    frequencies: NDArray[np.float32],
) -> Plan: ...
def structured_plan(
    kernel: str,
    feature: str,
    center: NDArray[np.float32],
    dither: NDArray[np.float32],
    radius: float,
    coefficients: list[float],
    key: int,
    n_groups: int,
    signs: NDArray[np.float32],
    radii: NDArray[np.float32],
    size: int,
) -> Plan: ...
def damped_waves(
    kernel: str,
    phases: NDArray[np.float32],
    exponents: NDArray[np.float32] | None,
    n_threads: int,
    cosines: NDArray[np.float32],
    sines: NDArray[np.float32],
) -> None: ...
def compare(
    kernel: str,
    turns: NDArray[np.float32],
    shifts: NDArray[np.float32] | None,
    quadratics: NDArray[np.float32],
    values: NDArray[np.float32] | None,
    counts: NDArray[np.float32],
    weights: NDArray[np.float32],
    locations: NDArray[np.float32],
    shapes: NDArray[np.float32],
    n_threads: int,
    sums: NDArray[np.float64],
) -> None: ...
def bit_products(
    kernel: str, a: NDArray[np.uint64], b: NDArray[np.uint64], n_bits: int, n_threads: int, out: NDArray[np.int32]
) -> None: ...
def signed_sums(
    kernel: str,
    words: NDArray[np.uint64],
    n_bits: int,
    weights: NDArray[np.float32],
    n_threads: int,
    out: NDArray[np.float32],
) -> None: ...
def add_moments(
    kernel: str,
    rows: NDArray[Any],
    center: NDArray[np.float64],
    bound: NDArray[np.float64],
    fused: bool,
    weights: NDArray[np.int64] | None,
    n_threads: int,
    sums: NDArray[np.int64],
) -> int: ...
def write_moments(
    kernel: str,
    rows: NDArray[Any],
    center: NDArray[np.float64],
    bound: NDArray[np.float64],
    fused: bool,
    n_threads: int,
    out: NDArray[np.int64],
) -> int: ...
def add_crosses(
    kernel: str,
    features: NDArray[np.int32],
    factor: float,
    rows: NDArray[Any],
    center: NDArray[np.float64],
    bound: NDArray[np.float64],
    weights: NDArray[np.int64] | None,
    n_threads: int,
    sums: NDArray[np.int64],
) -> int: ...
def write_crosses(
    kernel: str,
    features: NDArray[np.int32],
    factor: float,
    rows: NDArray[Any],
    center: NDArray[np.float64],
    bound: NDArray[np.float64],
    n_threads: int,
    out: NDArray[np.int64],
) -> int: ...
def row_hashes(rows: NDArray[Any], key: int, n_threads: int) -> NDArray[np.uint64]: ...
def column_extremes(
    rows: NDArray[Any], n_threads: int, low: NDArray[np.float64], high: NDArray[np.float64]
) -> None: ...
def keep_candidates(
    kernel: str,
    rows: NDArray[Any],
    center: NDArray[np.float64],
    scale: NDArray[np.float64],
    key: int,
    certain: NDArray[np.uint64],
    weights: NDArray[np.int64] | None,
    below: float,
    n_threads: int,
) -> tuple[NDArray[np.int64], NDArray[np.float64], NDArray[np.int64]]: ...
def find_nearest(
    kernel: str,
    rows: NDArray[Any],
    centers: NDArray[np.float64],
    middle: NDArray[np.float64],
    scale: NDArray[np.float64],
    n_threads: int,
    labels: NDArray[np.int32],
    squares: NDArray[np.float64],
) -> None: ...

class KMeansRows:
    def starts(self, uniforms: NDArray[np.float64], n_threads: int, positions: NDArray[np.int64]) -> None: ...
    def lloyd(self, centers: NDArray[np.float64], tolerance: float, most_steps: int, n_threads: int) -> float: ...
    def assign(
        self, centers: NDArray[np.float64], n_threads: int, labels: NDArray[np.int32], squares: NDArray[np.float64]
    ) -> None: ...
    def removal_costs(self, centers: NDArray[np.float64], n_threads: int, costs: NDArray[np.float64]) -> None: ...

def kmeans_rows(
    kernel: str,
    rows: NDArray[Any],
    weights: NDArray[np.float64],
    middle: NDArray[np.float64],
    scale: float,
    in_float64: bool,
    n_threads: int,
) -> KMeansRows: ...

class Cells:
    def add(
        self, rows: NDArray[Any], weights: NDArray[np.int64] | None, n_threads: int, sums: NDArray[np.int64]
    ) -> tuple[int, int]: ...
    def write(self, rows: NDArray[Any], n_threads: int, out: NDArray[np.int64]) -> int: ...
    def nearest(self, rows: NDArray[Any], n_threads: int, labels: NDArray[np.int32]) -> int: ...

class Directions:
    def places(self, rows: NDArray[Any], n_threads: int, out: NDArray[np.float64]) -> None: ...
    def values(self, rows: NDArray[Any], n_threads: int, out: NDArray[np.float64]) -> None: ...

def cells_in_columns(
    kernel: str,
    center: NDArray[np.float64],
    scale: NDArray[np.float32],
    points: NDArray[np.float32],
    halves: NDArray[np.float32],
    refuse: bool,
    places: NDArray[np.float32] | None = None,
    factors: NDArray[np.float32] | None = None,
    radius: float = 0.0,
    distance_unit: float = 0.0,
) -> Cells: ...
def add_expected(
    kernel: str,
    rows: NDArray[Any],
    center: NDArray[np.float64],
    scale: NDArray[np.float32],
    parts: NDArray[np.float32],
    full: bool,
    weights: NDArray[np.int64] | None,
    n_threads: int,
    sums: NDArray[np.int64],
) -> tuple[int, int]: ...
def directions(
    kernel: str,
    center: NDArray[np.float64],
    bound: NDArray[np.float64],
    directions: NDArray[np.float64],
    unit: float,
    normalize: bool,
    refuse: bool,
) -> Directions: ...
def cells_in_directions(directions: Directions, points: NDArray[np.float64], by_column: bool) -> Cells: ...
def add_counts(
    rows: NDArray[Any],
    edges: NDArray[np.float64],
    starts: NDArray[np.int64],
    weights: NDArray[np.int64] | None,
    n_threads: int,
    counts: NDArray[np.int64],
) -> int: ...
def find_counts(
    rows: NDArray[Any],
    edges: NDArray[np.float64],
    starts: NDArray[np.int64],
    n_threads: int,
    out: NDArray[np.int32],
) -> int: ...
