"""The native kernels: which one runs, and on how many threads.

The best kernel for this machine is chosen once, at import; the environment variable SKETCHLEARN_KERNEL (avx512, avx2,
neon or portable) forces another. All of them give the same bits.
"""

from __future__ import annotations

import operator
import os
from contextlib import AbstractContextManager
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray
from threadpoolctl import ThreadpoolController

import sketchlearn.kernels._native as native
from sketchlearn.core.arrays import Single
from sketchlearn.core.errors import InvalidValueError, either

#: rows whose centred values exceed this are refused, and so are frequencies beyond the other: no phase can overflow
LIMIT, FREQUENCY_LIMIT = native.LIMIT, native.FREQUENCY_LIMIT
#: structured transforms have at least this size
SMALLEST_TRANSFORM = native.SMALLEST_TRANSFORM


def available() -> list[str]:
    """Kernels that this machine can run, the fastest first."""
    return native.kernels()


active = os.environ.get("SKETCHLEARN_KERNEL") or available()[0]
if active not in available():
    raise ValueError(f"SKETCHLEARN_KERNEL={active}: this machine has the kernels {', '.join(available())}")


def n_threads(n_jobs: int | None) -> int:
    """Threads for `n_jobs`: None is all cores of this process; -1 too, -2 all but one, and so on.

    >>> n_threads(3)
    3
    """
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    if n_jobs is None:
        return cores
    try:
        wanted = 0 if isinstance(n_jobs, bool) else operator.index(n_jobs)
    except TypeError:
        wanted = 0
    if wanted == 0:
        raise InvalidValueError(
            f"must be {either('None or ', '')}a whole number other than 0, not {n_jobs!r}", parameter="n_jobs"
        )
    return min(wanted, 1024) if wanted > 0 else max(1, cores + 1 + wanted)


def damped_waves(phases: Single, exponents: Single | None, cosines: Single, sines: Single) -> None:
    """Writes exp(-exponent) cos and exp(-exponent) sin of phases in turns; one row of exponents may serve all rows."""
    native.damped_waves(active, phases, exponents, n_threads(None), cosines, sines)


def compare(
    frequencies: tuple[Single, Single | None, Single],
    target: tuple[Single | None, Single],
    components: tuple[Single, Single, Single],
) -> NDArray[np.float64]:
    """Sums over all frequencies of what gives the cost of components against a target, and its gradients.

    `frequencies` are turns, shifts and quadratics, `target` its parts (or none) and how much they count, `components`
    weights, locations and shapes: kernels/native/kernel.h says what is summed, tests/kernels/test_compare.py in NumPy.
    """
    weights, locations, shapes = components
    sums = np.empty(1 + len(weights) + locations.size + shapes.size)
    native.compare(active, *frequencies, *target, weights, locations, shapes, n_threads(None), sums)
    return sums


def nearest_centers(
    rows: NDArray[Any],
    centers: NDArray[np.float64],
    middle: NDArray[np.float64],
    scale: NDArray[np.float64],
    n_jobs: int | None,
) -> tuple[NDArray[np.int32], NDArray[np.float64]]:
    """The nearest of some centers to each row (x - middle) scale, the first of equal ones, and its squared distance.

    >>> nearest_centers(np.array([[3.0], [8.0]]), np.array([[1.0], [2.0]]), np.zeros(1), np.array([0.5]), 1)
    (array([0, 1], dtype=int32), array([0.25, 4.  ]))
    """
    labels, squares = np.empty(len(rows), np.int32), np.empty(len(rows))
    native.find_nearest(active, rows, np.ascontiguousarray(centers), middle, scale, n_threads(n_jobs), labels, squares)
    return labels, squares


def column_range(rows: NDArray[Any], n_jobs: int | None) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """The lowest and the highest value of each column of some rows, none of them missing.

    >>> column_range(np.array([[1.0, 5.0], [3.0, -2.0]]), 1)
    (array([ 1., -2.]), array([3., 5.]))
    """
    low, high = np.full(rows.shape[1], np.inf), np.full(rows.shape[1], -np.inf)
    native.column_extremes(rows, n_threads(n_jobs), low, high)
    return low, high


_pools = cache(ThreadpoolController)  # Made once, as it takes 4 ms to find which libraries are loaded.


def one_blas_thread() -> AbstractContextManager[Any]:
    """Holds BLAS to one thread: two pools of several wait for each other, 11 ms instead of 1.6 for one step."""
    limited: AbstractContextManager[Any] = _pools().limit(limits=1)
    return limited
