"""Sums of all columns, cell by cell, on a GPU: the same integers as `CellSums` has on the processor."""

from __future__ import annotations

import ctypes

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.centring import SCRATCH_BYTES
from sketchlearn.gpu.device_rows import DeviceRows, RowsAtDevice
from sketchlearn.gpu.driver import Device, Memory, Stream

Double = NDArray[np.float64]
SIDE = 64  # rows, directions or cells of a block
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


class _Room:
    """What is known of rows on the way to their cells."""

    def __init__(self, owner: Device, n_rows: int, n_directions: int) -> None:
        self.n_rows = n_rows
        self.places = Memory(8 * n_rows * n_directions, owner)
        self.lengths, self.exponents = Memory(8 * n_rows, owner), Memory(4 * n_rows, owner)
        self.cells = Memory(4 * n_rows, owner)
