"""Sums at a pilot on a GPU: the same integers as `CellSums` and `ExpectedStatistics` have on the processor."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.centring import SCRATCH_BYTES
from sketchlearn.gpu.device_rows import DeviceRows, RowsAtDevice
from sketchlearn.gpu.driver import Device, Memory, Room, Stream

Double = NDArray[np.float64]
Single = NDArray[np.float32]
SIDE = 64  # rows, directions or cells of a block
ROWS_ADDED, ROWS_EXPECTED = 1024, 1024  # of a block that adds up columns by cell, or expected statistics
MOST_SHARED_SUMS, MOST_SHARED_STATISTICS = 4096, 2048  # that a block adds up on its own
MOST_PARTS, MOST_COLUMNS = 96, 64  # of a mixture that a block's memory holds
ROWS_MEASURED, ROWS_SUMMED = 8, 32  # of a block


class _CellsWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("middle", ctypes.c_void_p),
        ("bound", ctypes.c_void_p),
        ("factor", ctypes.c_void_p),
        ("directions", ctypes.c_void_p),
        ("points", ctypes.c_void_p),
        ("squares", ctypes.c_void_p),
        ("lengths", ctypes.c_void_p),
        ("exponents", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("cells", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("first_bad", ctypes.c_void_p),
        ("place_unit", ctypes.c_double),
        ("square_unit", ctypes.c_double),
        ("n_directions", ctypes.c_int32),
        ("n_cells", ctypes.c_int32),
        ("normalize", ctypes.c_int32),
        ("by_column", ctypes.c_int32),
    )


class CellsPlan:
    """Cells on a GPU.

    Parameters
    ----------
    directions : (columns, directions); points : (cells, directions), both whole numbers.
    factor : what values less the middle are times, before they are rounded to whole numbers.
    place_unit, square_unit : what places, and sums of a row's squares, are times before they are rounded.
    """

    sees_all_columns = True

    def __init__(
        self,
        owner: Device,
        directions: Double,
        points: Double,
        *,
        middle: Double,
        bound: Double,
        factor: Double,
        place_unit: float,
        square_unit: float,
        normalize: bool,
        by_column: bool,
    ) -> None:
        self._device, self._n_directions, self._n_cells = owner, directions.shape[1], len(points)
        self._directions, self._points = owner.copy(directions), owner.copy(2 * points.T)
        self._squares = owner.copy(np.sum(points * points, axis=1))
        self._middle, self._bound, self._factor = owner.copy(middle), owner.copy(bound), owner.copy(factor)
        self._units = {"place_unit": place_unit, "square_unit": square_unit}
        self._choices = {"normalize": normalize, "by_column": by_column}
        self._room: _Room | None = None

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        step = max(1, min(len(rows), SCRATCH_BYTES // (8 * self._n_directions + 16)))
        if self._room is None or self._room.n_rows < step:
            self._room = None  # freed before the larger one is made
            self._room = _Room(self._device, step, self._n_directions)
        for first in range(0, len(rows), step):
            own = None if weights is None else weights + 8 * first
            self._add(rows[first : first + step], own, sums, bad, self._room, stream)

    def _add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, room: _Room, stream: Stream) -> None:
        work = _CellsWork(
            rows=rows.described(),
            middle=self._middle.address,
            bound=self._bound.address,
            factor=self._factor.address,
            directions=self._directions.address,
            points=self._points.address,
            squares=self._squares.address,
            lengths=room.lengths.address,
            exponents=room.exponents.address,
            places=room.places.address,
            cells=room.cells.address,
            weights=weights,
            sums=sums,
            first_bad=bad,
            n_directions=self._n_directions,
            n_cells=self._n_cells,
            **self._units,
            **self._choices,
        )
        launch, count = self._device.launch, len(rows)
        if self._choices["normalize"]:
            launch("cells", "measure_rows", (-(-count // ROWS_MEASURED), 1), 256, work, stream)
        launch("cells", "place_rows", (-(-count // SIDE), -(-self._n_directions // SIDE)), 256, work, stream)
        launch("cells", "find_cells", (-(-count // SIDE), 1), 256, work, stream)
        launch("cells", "add_cells", (-(-count // ROWS_SUMMED), 1), 256, work, stream)


class _ColumnCellsWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("center", ctypes.c_void_p),
        ("single_center", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("points", ctypes.c_void_p),
        ("halves", ctypes.c_void_p),
        ("cells", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("factors", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("first_bad", ctypes.c_void_p),
        ("n_cells", ctypes.c_int32),
        ("n_shared", ctypes.c_int32),
        ("radius", ctypes.c_float),
        ("distance_unit", ctypes.c_float),
    )


class ColumnCellsPlan:
    """Cells in the columns themselves on a GPU.

    Parameters
    ----------
    points, halves : (cells, columns), and half their squares, of float32.
    medians : for medians, places of points, factors of values, the least distance and the unit of distances.
    """

    sees_all_columns = True

    def __init__(
        self,
        owner: Device,
        points: Single,
        halves: Single,
        center: Double,
        scale: Single,
        medians: tuple[Single, Single, float, float] | None = None,
    ) -> None:
        d = len(center)
        self._device, self._n_cells = owner, len(points)
        n_sums = len(points) * (1 + 2 * d + (0 if medians is None else 2 + d))
        self._medians: dict[str, float | int] = {}
        if medians is not None:
            self._places, self._factors = owner.copy(medians[0]), owner.copy(medians[1])
            addresses = {"places": self._places.address, "factors": self._factors.address}
            self._medians = {**addresses, "radius": medians[2], "distance_unit": medians[3]}
        self._points, self._halves = owner.copy(points.T), owner.copy(halves)
        self._center, self._single = owner.copy(center), owner.copy(center.astype(np.float32))
        self._scale, self._cells = owner.copy(scale), Room(owner)
        self._n_shared = n_sums if n_sums <= MOST_SHARED_SUMS else 0

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        step = max(1, min(len(rows), SCRATCH_BYTES // 4))
        room = self._cells.of(4 * step)
        for first in range(0, len(rows), step):
            some = rows[first : first + step]
            work = _ColumnCellsWork(
                rows=some.described(),
                center=self._center.address,
                single_center=self._single.address,
                scale=self._scale.address,
                points=self._points.address,
                halves=self._halves.address,
                cells=room.address,
                weights=None if weights is None else weights + 8 * first,
                sums=sums,
                first_bad=bad,
                n_cells=self._n_cells,
                n_shared=self._n_shared,
                **self._medians,
            )
            launch = self._device.launch
            launch("column_cells", "find_column_cells", (-(-len(some) // SIDE), 1), 256, work, stream)
            launch("column_cells", "add_column_cells", (-(-len(some) // ROWS_ADDED), 1), 256, work, stream)


class _MixtureWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("center", ctypes.c_void_p),
        ("single_center", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("parts", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("first_bad", ctypes.c_void_p),
        ("n_parts", ctypes.c_int32),
        ("full", ctypes.c_int32),
        ("n_shared", ctypes.c_int32),
    )


class MixturePlan:
    """Expected statistics of a mixture of Gaussians on a GPU; parts are the numbers of components, in float32."""

    sees_all_columns = True

    def __init__(self, owner: Device, parts: Single, center: Double, scale: Single, n_sums: int, *, full: bool) -> None:
        self._device, self._parts, self._n_parts, self._full = owner, owner.copy(parts), len(parts), full
        self._center, self._single = owner.copy(center), owner.copy(center.astype(np.float32))
        self._scale, self._n_shared = owner.copy(scale), n_sums if n_sums <= MOST_SHARED_STATISTICS else 0

    @staticmethod
    def has_room(n_parts: int, n_features: int) -> bool:
        """Whether a block's memory holds so much."""
        return n_parts <= MOST_PARTS and n_features <= MOST_COLUMNS

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        work = _MixtureWork(
            rows=rows.described(),
            center=self._center.address,
            single_center=self._single.address,
            scale=self._scale.address,
            parts=self._parts.address,
            weights=weights,
            sums=sums,
            first_bad=bad,
            n_parts=self._n_parts,
            full=self._full,
            n_shared=self._n_shared,
        )
        self._device.launch("mixture", "add_expected", (-(-len(rows) // ROWS_EXPECTED), 1), 256, work, stream)


class _Room:
    """What is known of rows on the way to their cells."""

    def __init__(self, owner: Device, n_rows: int, n_directions: int) -> None:
        self.n_rows = n_rows
        self.places = Memory(8 * n_rows * n_directions, owner)
        self.lengths, self.exponents = Memory(8 * n_rows, owner), Memory(4 * n_rows, owner)
        self.cells = Memory(4 * n_rows, owner)
