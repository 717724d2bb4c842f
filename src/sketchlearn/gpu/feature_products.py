"""What is made of the features of rows on a GPU: products with values and with each other, and packed bits."""

from __future__ import annotations

import ctypes
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.centring import SCRATCH_BYTES
from sketchlearn.gpu.chosen_columns import ChosenColumns
from sketchlearn.gpu.column_sums import SIDE, MomentsPlan, rows_per_block
from sketchlearn.gpu.device_rows import FLOAT64, DeviceRows, RowsAtDevice
from sketchlearn.gpu.driver import NONE_BAD, Memory, Room, Stream
from sketchlearn.gpu.projections import DensePlan

Double = NDArray[np.float64]


class _CrossWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("integers", ctypes.c_void_p),
        ("which", ctypes.c_void_p),
        ("center", ctypes.c_void_p),
        ("bound", ctypes.c_void_p),
        ("factor", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("words", ctypes.c_void_p),
        ("joined", ctypes.c_void_p),
        ("first_bad", ctypes.c_void_p),
        ("unit", ctypes.c_double),
        ("rows_per_block", ctypes.c_int64),
        ("n_features", ctypes.c_int32),
        ("n_values", ctypes.c_int32),
        ("n_bits", ctypes.c_int32),
    )


class FeatureWriter:
    """Integers of each row at the first n frequencies, in memory that is used again; of some columns of the rows."""

    def __init__(self, plan: DensePlan, n: int) -> None:
        self.device, self._plan, self._n, self.width = plan.device, plan, n, plan.parts * n
        self._which: Sequence[int] | None = None
        self._columns: ChosenColumns | None = None
        self._room = Room(plan.device)

    def of_columns(self, which: Sequence[int]) -> FeatureWriter:
        """The same of rows that have more columns, of which these are the frequencies' own."""
        found = FeatureWriter(self._plan, self._n)
        found._which = which if self._which is None else [which[k] for k in self._which]
        found._columns = ChosenColumns(self.device, found._which)
        return found

    def pieces(
        self, rows: DeviceRows, bad: int, stream: Stream, bytes_each: int = 0
    ) -> Iterator[tuple[int, DeviceRows, int]]:
        """Lets the stream write them: the number of the first row, rows, and where their integers are.

        bytes_each: what else is needed for each row.
        """
        step = max(1, min(len(rows), SCRATCH_BYTES // (4 * self.width + bytes_each)))
        integers = self._room.of(4 * self.width * step).address
        for first in range(0, len(rows), step):
            own = rows[first : first + step]
            chosen = [(0, own)] if self._columns is None else self._columns.pieces(own, stream)
            for start, piece in chosen:
                self._plan.write(piece, self._n, integers + 4 * self.width * start, bad, stream)
            yield first, own, integers


class CrossPlan:
    """Features times values."""

    def __init__(
        self, writer: FeatureWriter, factor: float, center: Double, bound: Double, which: Sequence[int] | None
    ) -> None:
        owner = writer.device
        self.sees_all_columns = which is None
        self._writer, self._unit, self._n_values = writer, factor, len(center)
        self._center, self._bound, self._factor = owner.copy(center), owner.copy(bound), owner.copy(2.0**15 / bound)
        self._which = None if which is None else owner.copy(np.array(which, np.int64))

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        owner, n = self._writer.device, self._writer.width
        squares = -(-n // SIDE) * -(-self._n_values // SIDE)
        for first, own, integers in self._writer.pieces(rows, bad, stream):
            each = rows_per_block(owner, len(own), squares)
            work = _CrossWork(
                rows=own.described(),
                integers=integers,
                which=None if self._which is None else self._which.address,
                center=self._center.address,
                bound=self._bound.address,
                factor=self._factor.address,
                weights=None if weights is None else weights + 8 * first,
                sums=sums,
                first_bad=bad,
                unit=self._unit,
                rows_per_block=each,
                n_features=n,
                n_values=self._n_values,
            )
            owner.launch("cross", "add_crosses", (squares, -(-len(own) // each)), 256, work, stream)


class FeatureMomentsPlan:
    """First and second moments of features, as numbers, and of the rows' own columns."""

    sees_all_columns = True

    def __init__(self, writer: FeatureWriter, unit: float, moments: MomentsPlan) -> None:
        self._writer, self._unit, self._moments = writer, unit, moments
        self._room = Room(writer.device)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        owner, n = self._writer.device, self._writer.width
        width = n + rows.shape[1]
        for first, own, integers in self._writer.pieces(rows, bad, stream, 8 * width):
            room = self._room.of(8 * width * len(own))
            work = _CrossWork(
                rows=own.described(),
                integers=integers,
                joined=room.address,
                unit=self._unit,
                n_features=n,
                n_values=rows.shape[1],
            )
            owner.launch("cross", "join_rows", (-(-len(own) * width // 256), 1), 256, work, stream)
            joined = DeviceRows(owner, room.address, FLOAT64, (len(own), width), (width, 1), room)
            self._moments.add(joined, None if weights is None else weights + 8 * first, sums, bad, stream)


def packed_words(writer: FeatureWriter, rows: DeviceRows, n_bits: int) -> NDArray[np.uint64] | None:
    """The features of rows, n_bits each, 64 bits to a word; None where a row is outside the domain."""
    owner, width = writer.device, -(-n_bits * writer.width // 64)
    words, bad = np.empty((len(rows), width), np.uint64), np.empty(1, np.uint64)
    if not len(rows):
        return words
    flag, stream, room = Memory(8, owner), owner.stream, Room(owner)
    with owner.current():
        stream.fill(flag.address, 0xFF, 8)
        for first, own, integers in writer.pieces(rows, flag.address, stream, 8 * width):
            packed = room.of(8 * width * len(own))
            sizes = {"n_features": writer.width, "n_bits": n_bits}
            work = _CrossWork(rows=own.described(), integers=integers, words=packed.address, **sizes)
            owner.launch("cross", "pack_bits", (-(-len(own) * width // 256), 1), 256, work, stream)
            _download(words[first : first + len(own)], packed, stream)
        _download(bad, flag, stream)
    return words if int(bad[0]) == NONE_BAD else None


def _download(to: NDArray[Any], source: Memory, stream: Stream) -> None:
    stream.download(to.ctypes.data, source.address, to.nbytes)
    stream.wait()
