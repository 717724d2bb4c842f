"""Features times values, beside the float32 matrix product they contain: python benchmarks/sketching/crosses.py

Sums over rows of r integers times d values, by each kernel of this machine, over the time of `F.T @ X` in float32 by
NumPy's BLAS; CPU time of one thread, the least of several turns, in which all take turns.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import numpy as np
from rich.console import Console
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[2]))
from benchmarks.support.report import table_of
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import add_crosses

SIZES = ((80, 768), (200, 768), (400, 768), (1000, 768), (200, 256), (200, 1536))  # integers of features, values


def measured(r: int, d: int, n_rows: int, turns: int) -> dict[str, float]:
    """Seconds, by name."""
    rng = np.random.default_rng(0)
    rows = np.clip(0.2 * rng.standard_normal((n_rows, d)), -1, 1).astype(np.float32)
    integers = rng.integers(-(2**20), 2**20, (n_rows, r)).astype(np.int32)
    single, double, wide = integers.astype(np.float32), integers.astype(np.float64), rows.astype(np.float64)
    ways: dict[str, Callable[[], object]] = {"float32": lambda: single.T @ rows, "float64": lambda: double.T @ wide}
    for name in kernel.available():
        if name != "portable":  # one call of a library for each product, where there is no such instruction
            ways[name] = partial(crossed, name, integers, rows)
    taken = {name: float("inf") for name in ways}
    for _ in range(turns):
        for name, way in ways.items():
            start = time.process_time()
            way()
            taken[name] = min(taken[name], time.process_time() - start)
    return taken


def crossed(name: str, integers: np.ndarray, rows: np.ndarray) -> None:
    d, sums = rows.shape[1], np.zeros(integers.shape[1] * rows.shape[1], np.int64)
    add_crosses(name, integers, 2.0**-5, rows, np.zeros(d), np.ones(d), None, 1, sums)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=10_000)
    parser.add_argument("--turns", type=int, default=7)
    options = parser.parse_args()
    table, console = None, Console()
    with threadpool_limits(1):
        for r, d in SIZES:
            taken = measured(r, d, options.rows, options.turns)
            rate = r * d * options.rows / taken["float32"] / 1e9
            others = {
                f"{name} / float32": f"{taken[name] / taken['float32']:.2f}" for name in taken if name != "float32"
            }
            cells = {"integers x values": f"{r} x {d}", "float32, products a ns": f"{rate:.1f}", **others}
            table = table_of("Sums of features times values", list(cells)) if table is None else table
            table.add_row(*cells.values())
    console.print(table)


if __name__ == "__main__":
    main()
