"""Sums of features of random projections, on a GPU: the same integers as _native's plans give."""

from __future__ import annotations

import ctypes
import math

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.device_rows import DeviceRows, RowsAtDevice
from sketchlearn.gpu.driver import Device, Memory, Stream

Single = NDArray[np.float32]
TILE_ROWS, TILE_COLUMNS, TILE_BYTES = 128, 128, 16
MOST_TILES_PER_BLOCK = 15  # of a block's sums, which 32 bits hold
BLOCKS_PER_MULTIPROCESSOR = 2  # that run at a time
NEAR_TURNS = 2.0**19  # Smaller phases are reduced at the speed of an addition; those of a square wave are times 4.
MOST_BLOCKS_DOWN = 1024
COLUMNS_PER_BLOCK = 64  # that one block centres
GROUPED_ROWS = 1024  # that a block finds the groups of
SCRATCH_BYTES = 256 << 20  # of centred rows at a time


class _CentreWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("center", ctypes.c_void_p),
        ("square", ctypes.c_double),
        ("centred", ctypes.c_void_p),
        ("tiles", ctypes.c_void_p),
        ("groups", ctypes.c_void_p),
        ("places", ctypes.c_void_p),
        ("starts", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("placed_weights", ctypes.c_void_p),
        ("first_bad", ctypes.c_void_p),
        ("key", ctypes.c_uint64),
        ("stride", ctypes.c_int64),
        ("n_groups", ctypes.c_int32),
        ("columns_per_block", ctypes.c_int32),
    )


class _DenseWork(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("tiles", ctypes.c_void_p),
        ("frequencies", ctypes.c_void_p),
        ("dither", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("coefficients", ctypes.c_void_p),
        ("harmonics", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("padded", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("n_features", ctypes.c_int32),
        ("n_tiles", ctypes.c_int32),
        ("tiles_per_block", ctypes.c_int32),
        ("group_columns", ctypes.c_int32),
        ("padded_group", ctypes.c_int32),
        ("limit", ctypes.c_float),
    )


class DensePlan:
    """Dense frequencies on a GPU, ready for any number of rows."""

    def __init__(
        self,
        owner: Device,
        feature: str,
        center: Single,
        dither: Single,
        radius: float,
        coefficients: list[float],
        key: int,
        n_groups: int,
        frequencies: Single,
    ) -> None:
        self.device, self.feature, self.square = owner, feature, radius * radius
        self._scratch: Scratch | None = None
        self.n_features, self.n_columns = frequencies.shape
        self.key, self.n_groups, self.group = key, n_groups, self.n_columns // n_groups
        self.padded_group = -(-self.group // TILE_COLUMNS) * TILE_COLUMNS
        table = np.zeros((self.n_features + 1, n_groups, self.padded_group), np.float32)
        table[:-1, :, : self.group] = frequencies.reshape(self.n_features, n_groups, self.group)
        table[-1, :, : self.group] = dither.reshape(n_groups, self.group)
        self._center, self._frequencies = owner.copy(center), owner.copy(table)
        self._coefficients = owner.copy(np.array(coefficients, np.float32))
        parts = 1 if feature.endswith("_real") or feature in ("cosine", "quadratic") else 2
        self.harmonics = len(coefficients) // (2 * parts)
        furthest = float(np.max(np.sum(np.abs(frequencies.astype(np.float64)), axis=0), initial=0.0))
        self.limit = np.float32(NEAR_TURNS / furthest if furthest > 0 else math.inf)
        if feature.startswith("series"):
            self.limit = np.float32(-1.0)

    def rows_at_once(self) -> int:
        """Rows that are centred and multiplied at a time: whole tiles."""
        return TILE_ROWS * max(1, SCRATCH_BYTES // (4 * int(self.n_features) * TILE_ROWS))

    def _space(self, n_rows: int, *, weighted: bool) -> Scratch:
        wanted, there = min(n_rows, self.rows_at_once()), self._scratch
        if there is None or there.n_rows < wanted or (weighted and not there.weights.size):
            self._scratch = None  # freed before the larger one is made
            self._scratch = there = Scratch(self, wanted, weighted=weighted)
        return there

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """Lets the stream add the integers of rows to sums; a row outside the domain makes bad less than 2^64 - 1.

        `weights`, `sums` and `bad` are addresses on the device.
        """
        scratch = self._space(len(rows), weighted=weights is not None)
        step = scratch.n_rows
        for first in range(0, len(rows), step):
            own = rows[first : first + step]
            self._add(own, None if weights is None else weights + 8 * first, scratch, sums, bad, stream)

    def _add(
        self, rows: DeviceRows, weights: int | None, scratch: Scratch, sums: int, bad: int, stream: Stream
    ) -> None:
        count, grouped = len(rows), self.n_groups > 1
        n_tiles = scratch.n_tiles if grouped else -(-count // TILE_ROWS)
        stride = n_tiles * TILE_ROWS
        centre = _CentreWork(
            rows=rows.described(),
            center=self._center.address,
            square=self.square,
            centred=scratch.centred.address,
            tiles=scratch.tiles.address,
            groups=scratch.groups.address if grouped else None,
            places=scratch.places.address if grouped else None,
            starts=scratch.starts.address if grouped else None,
            weights=weights,
            placed_weights=scratch.weights.address if weights is not None else None,
            first_bad=bad,
            key=self.key,
            stride=stride,
            n_groups=self.n_groups,
            # a row's distance is added up in the order of its columns, by one block
            columns_per_block=self.n_features if math.isfinite(self.square) else COLUMNS_PER_BLOCK,
        )
        stream.fill(scratch.tiles.address, 0, n_tiles * TILE_BYTES)
        if grouped:
            by_row = (-(-count // GROUPED_ROWS), 1)
            stream.fill(scratch.starts.address, 0, 8 * self.n_groups)
            self.device.launch("centre", "find_groups", by_row, 256, centre, stream)
            self.device.launch("centre", "place_groups", (1, 1), 256, centre, stream)
            self.device.launch("centre", "place_rows", by_row, 256, centre, stream)
        slabs = -(-self.n_features // centre.columns_per_block)
        self.device.launch("centre", "centre_rows", (-(-count // TILE_ROWS), slabs), 256, centre, stream)
        across = -(-self.group // TILE_COLUMNS)
        per_block = self._tiles_per_block(n_tiles, across)
        dense = _DenseWork(
            rows=scratch.centred.address,
            tiles=scratch.tiles.address,
            frequencies=self._frequencies.address,
            dither=self._frequencies.address + 4 * self.n_features * self.n_groups * self.padded_group,
            weights=scratch.weights.address if weights is not None else None,
            sums=sums,
            coefficients=self._coefficients.address,
            harmonics=self.harmonics,
            stride=stride,
            padded=self.n_groups * self.padded_group,
            columns=self.n_columns,
            n_features=self.n_features,
            n_tiles=n_tiles,
            tiles_per_block=per_block,
            group_columns=self.group,
            padded_group=self.padded_group,
            limit=self.limit,
        )
        if weights is None and self.limit >= 0:
            self.device.launch(self.feature, "dense_near", (across, -(-n_tiles // per_block)), 256, dense, stream)
        down = -(-n_tiles // (1 if weights is not None or self.limit < 0 else TILE_COLUMNS))
        self.device.launch(
            self.feature, "dense_far", (across, min(down, MOST_BLOCKS_DOWN)), TILE_COLUMNS, dense, stream
        )

    def _tiles_per_block(self, n_tiles: int, across: int) -> int:
        """Tiles of a block, so that all that run at a time end at a time."""
        at_once = max(1, BLOCKS_PER_MULTIPROCESSOR * self.device.multiprocessors // across)
        rounds = -(-n_tiles // (at_once * MOST_TILES_PER_BLOCK))
        return -(-n_tiles // (at_once * rounds))


class Scratch:
    """What a plan needs beside the rows: centred ones, and which tile each goes to."""

    def __init__(self, plan: DensePlan, n_rows: int, *, weighted: bool) -> None:
        grouped, owner = plan.n_groups > 1, plan.device
        self.n_rows = -(-max(n_rows, 1) // TILE_ROWS) * TILE_ROWS
        self.n_tiles = self.n_rows // TILE_ROWS + (plan.n_groups if grouped else 0)
        placed = self.n_tiles * TILE_ROWS
        self.centred = Memory(4 * placed * plan.n_features, owner)
        self.tiles = Memory(TILE_BYTES * self.n_tiles, owner)
        self.groups = Memory(4 * self.n_rows if grouped else 0, owner)
        self.places = Memory(8 * self.n_rows if grouped else 0, owner)
        self.starts = Memory(8 * plan.n_groups if grouped else 0, owner)
        self.weights = Memory(8 * placed if weighted else 0, owner)
