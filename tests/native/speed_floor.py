"""Sketching beside NumPy in this run, at least half as good as docs/reference/benchmarks.md says.

The wide net under hot_loops.py: it notices what no instruction shows. Both take turns, and the median of their ratios
counts, so that a busy machine slows both alike.
"""

import statistics
import sys
import time
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from benchmarks.sketching import beside_numpy as sketching  # first: it holds BLAS to one thread
from sketchlearn.kernels import dispatch as kernel

# How many times faster than NumPy, by kernel and columns: half of the figures of docs/reference/benchmarks.md.
FLOORS = {
    "neon": {2: 3.2, 10: 2.5, 64: 1.3, 784: 0.5},
    "avx2": {2: 5.0, 10: 3.4, 64: 1.3, 784: 0.5},
    "avx512": {2: 4.2, 10: 2.6, 64: 1.3, 784: 0.5},
}
TURNS = 15


def seconds(function: Callable[[], object]) -> float:
    started = time.perf_counter()
    function()
    return time.perf_counter() - started


def ratio(d: int) -> float:
    X, operator, W = sketching.data(d, sketching.SHAPES[d] // 4)
    pairs = [
        (seconds(lambda: sketching.numpy_sums(X, W)), seconds(lambda: operator.sketch(X, n_jobs=1)))
        for _ in range(TURNS)
    ]
    return statistics.median(numpy / own for numpy, own in pairs)


def main() -> int:
    if kernel.active not in FLOORS:
        print(f"The kernel {kernel.active} has no figures in docs/reference/benchmarks.md: nothing to compare.")
        return 0
    slow = 0
    for d, floor in FLOORS[kernel.active].items():
        found = ratio(d)
        slow += found < floor
        print(f"{kernel.active}, d = {d}: {found:.1f} times as fast as NumPy, at least {floor:g} asked")
    if slow:
        print(
            "Sketching is far slower than docs/reference/benchmarks.md says: make benchmark measures it in full.",
            file=sys.stderr,
        )
    return bool(slow)


if __name__ == "__main__":
    sys.exit(main())
