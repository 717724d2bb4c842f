"""The native kernels: which one runs, on how many threads, and what a plan needs.

The best kernel for this machine is chosen once, at import; the environment variable SKETCHLEARN_KERNEL (avx512, avx2,
neon or portable) forces another. All of them give the same bits.
"""

from __future__ import annotations

import os

import numpy as np
from numpy.typing import NDArray

import sketchlearn._native as _native

#: rows whose centred values exceed this are refused: their phases could overflow
LIMIT = 2.0**60
#: and so are frequencies beyond this
FREQUENCY_LIMIT = 2.0**50
#: structured transforms have at least this size
SMALLEST_TRANSFORM = 32
#: kernel numbers of what is not a wave
QUADRATIC, PHASE = 10, 11


def available() -> list[str]:
    """Kernels that this machine can run, the fastest first."""
    return _native.kernels()


def _choose() -> str:
    names = available()
    wanted = os.environ.get("SKETCHLEARN_KERNEL") or names[0]
    if wanted not in names:
        raise ValueError(f"SKETCHLEARN_KERNEL={wanted}: this machine has the kernels {', '.join(names)}")
    return wanted


active = _choose()


def n_threads(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: None is all cores of this process; a negative number leaves -1 - n_jobs of them out."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    if isinstance(n_jobs, bool) or not hasattr(n_jobs, "__index__") or int(n_jobs) == 0:
        raise ValueError(f"n_jobs must be None or a whole number other than 0, not {n_jobs!r}")
    return int(n_jobs) if n_jobs > 0 else max(1, cores + 1 + int(n_jobs))


def plan(
    wave: int,
    center: NDArray[np.float32],
    n_columns: int,
    *,
    radius: float = np.inf,
    series: list[float] | None = None,
    key: int = 0,
    n_groups: int = 1,
) -> _native.Plan:
    """An empty plan for the active kernel."""
    return _native.Plan(active, wave, center, n_columns, LIMIT, radius, series or [], key, n_groups)


def moments(
    rows: NDArray[np.floating],
    center: NDArray[np.float64],
    bound: NDArray[np.float64],
    weights: NDArray[np.int64] | None,
    threads: int,
    sums: NDArray[np.int64],
) -> int:
    """First and second moments by the active kernel; see `_native.moments`."""
    return _native.moments(active, rows, center, bound, weights, threads, sums)
