"""Peak resident memory while a stream of 1e8 generated rows is sketched.

python benchmarks/sketching/memory.py [rows]
"""

import resource
import sys
import time

import numpy as np

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian

BLOCK, D, M = 100_000, 10, 64


def peak() -> float:
    """Peak resident megabytes of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def blocks(n_rows: int):
    rng = np.random.default_rng(0)
    for start in range(0, n_rows, BLOCK):
        yield rng.standard_normal((min(BLOCK, n_rows - start), D), dtype=np.float32)


def main() -> int:
    n_rows = int(float(sys.argv[1])) if len(sys.argv) > 1 else 10**8
    operator = skl.features.FourierFeatures(D, M, law=Gaussian(1.0))
    before, started = peak(), time.perf_counter()
    sketch = operator.sketch(blocks(n_rows), progress=True)
    growth = peak() - before
    seconds = time.perf_counter() - started
    print(
        f"{sketch.count:,} rows of {D} columns, {M} frequencies, {seconds:.0f} s: peak memory grew by {growth:.1f} MB"
    )
    print("below 100 MB" if growth < 100 else "NOT below 100 MB")
    return growth >= 100


if __name__ == "__main__":
    sys.exit(main())
