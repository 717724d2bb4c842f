"""Some columns of rows on a GPU, for what takes rows of these alone."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np

from sketchlearn.gpu.centring import SCRATCH_BYTES
from sketchlearn.gpu.device_rows import SIZES, DeviceRows, RowsAtDevice
from sketchlearn.gpu.driver import Device, Room, Stream


class _ColumnsWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("which", ctypes.c_void_p),
        ("chosen", ctypes.c_void_p),
        ("n_chosen", ctypes.c_int32),
    )


class ChosenColumns:
    """Copies of some columns, in memory that is used again."""

    def __init__(self, owner: Device, which: Sequence[int]) -> None:
        self.device, self._n = owner, len(which)
        self._which, self._room = owner.copy(np.array(which, np.int64)), Room(owner)

    def pieces(self, rows: DeviceRows, stream: Stream) -> Iterator[tuple[int, DeviceRows]]:
        """Lets the stream copy them; as many rows at a time as there is room for, with the number of the first."""
        bytes_each = self._n * SIZES[rows.kind]
        step = max(1, min(len(rows), SCRATCH_BYTES // bytes_each))
        room = self._room.of(step * bytes_each)
        for first in range(0, len(rows), step):
            own = rows[first : first + step]
            work = _ColumnsWork(rows=own.described(), which=self._which.address, chosen=room.address, n_chosen=self._n)
            blocks = -(-len(own) * self._n // 256)
            self.device.launch("columns", "choose_columns", (blocks, 1), 256, work, stream)
            shape = (len(own), self._n)
            yield first, DeviceRows(self.device, room.address, rows.kind, shape, (self._n, 1), room)


class DevicePlan(Protocol):
    """What computes an operator's integers on a GPU."""

    @property
    def sees_all_columns(self) -> bool:
        """Whether a value that is missing in any column makes bad less than 2^64 - 1."""

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """Lets the stream add the integers of rows to sums; a row outside the domain makes bad less than 2^64 - 1."""


class ColumnsPlan:
    """What another plan makes of some columns."""

    sees_all_columns = False

    def __init__(self, owner: Device, which: Sequence[int], inner: DevicePlan) -> None:
        self._columns, self._inner = ChosenColumns(owner, which), inner

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        for first, piece in self._columns.pieces(rows, stream):
            self._inner.add(piece, None if weights is None else weights + 8 * first, sums, bad, stream)
