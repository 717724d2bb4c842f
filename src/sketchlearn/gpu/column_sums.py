"""Moments and counts of columns, on a GPU: the same integers as _native's functions give."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.device_rows import DeviceRows, RowsAtDevice
from sketchlearn.gpu.driver import Device, Stream

Double = NDArray[np.float64]
SIDE = 64  # of the squares of products that a block has
MOST_ROWS_PER_BLOCK = 1 << 16
BLOCKS_PER_MULTIPROCESSOR = 4
COUNTED_ROWS = 4096  # that a block counts the values of, at least


class _MomentsWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("center", ctypes.c_void_p),
        ("bound", ctypes.c_void_p),
        ("factor", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("first_bad", ctypes.c_void_p),
        ("rows_per_block", ctypes.c_int64),
        ("once", ctypes.c_int32),
    )


class _CountWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("edges", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("counts", ctypes.c_void_p),
        ("first_bad", ctypes.c_void_p),
        ("n_counts", ctypes.c_int32),
    )


def rows_per_block(owner: Device, n_rows: int, squares: int) -> int:
    """Rows of a block that has one of so many squares of products, so that all multiprocessors have work."""
    wanted = max(1, BLOCKS_PER_MULTIPROCESSOR * owner.multiprocessors // squares)
    return min(MOST_ROWS_PER_BLOCK, max(SIDE, -(-n_rows // wanted)))


class MomentsPlan:
    """First and second moments."""

    sees_all_columns = True

    def __init__(self, owner: Device, center: Double, bound: Double, *, once: bool) -> None:
        self._device, self._once = owner, once
        self._center, self._bound, self._factor = owner.copy(center), owner.copy(bound), owner.copy(2.0**15 / bound)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        squares = -(-(rows.shape[1] + 1) // SIDE)
        across = squares * (squares + 1) // 2
        each = rows_per_block(self._device, len(rows), across)
        work = _MomentsWork(
            rows=rows.described(),
            center=self._center.address,
            bound=self._bound.address,
            factor=self._factor.address,
            weights=weights,
            sums=sums,
            first_bad=bad,
            rows_per_block=each,
            once=self._once,
        )
        self._device.launch("moments", "add_moments", (across, -(-len(rows) // each)), 256, work, stream)


class CountsPlan:
    """Counts of values between edges."""

    sees_all_columns = True

    def __init__(self, owner: Device, edges: Double, starts: NDArray[np.int64]) -> None:
        self._device, self._n_counts = owner, len(edges) + len(starts) - 1
        self._edges, self._starts = owner.copy(edges), owner.copy(starts)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        work = _CountWork(
            rows=rows.described(),
            edges=self._edges.address,
            starts=self._starts.address,
            weights=weights,
            counts=sums,
            first_bad=bad,
            n_counts=self._n_counts,
        )
        blocks = min(-(-len(rows) // COUNTED_ROWS), 8 * self._device.multiprocessors)
        self._device.launch("histogram", "count_values", (blocks, 1), 256, work, stream)
