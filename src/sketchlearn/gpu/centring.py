"""Rows on a GPU become centred float32 columns, in tiles of the group of frequencies that a row's hash gives it."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.device_rows import DeviceRows, RowsAtDevice
from sketchlearn.gpu.driver import Device, Memory, Stream

TILE_ROWS, TILE_BYTES = 128, 16
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


@dataclass(frozen=True)
class CentredRows:
    """Centred rows as the kernels of features are told of them: addresses, and how many tiles there are."""

    first: int  # of the rows they were made of
    count: int
    rows: int
    tiles: int
    weights: int | None
    stride: int
    n_tiles: int


class Centring:
    """Subtracts a center, on a GPU; rows outside a radius make `bad` less than 2^64 - 1."""

    def __init__(self, owner: Device, center: NDArray[np.float32], radius: float, key: int, n_groups: int) -> None:
        self.device, self.n_features, self.n_groups = owner, len(center), n_groups
        self._center, self._square, self._key = owner.copy(center), radius * radius, key
        self._scratch: _Scratch | None = None

    def pieces(self, rows: DeviceRows, weights: int | None, bad: int, stream: Stream) -> Iterator[CentredRows]:
        """Lets the stream centre the rows, as many at a time as there is room for."""
        scratch = self._space(len(rows), weighted=weights is not None)
        for first in range(0, len(rows), scratch.n_rows):
            own = None if weights is None else weights + 8 * first
            yield self._centred(rows[first : first + scratch.n_rows], first, own, scratch, bad, stream)

    def _space(self, n_rows: int, *, weighted: bool) -> _Scratch:
        room = TILE_ROWS * max(1, SCRATCH_BYTES // (4 * self.n_features * TILE_ROWS))
        wanted, there = min(n_rows, room), self._scratch
        if there is None or there.n_rows < wanted or (weighted and not there.weights.size):
            self._scratch = None  # freed before the larger one is made
            self._scratch = there = _Scratch(self, wanted, weighted=weighted)
        return there

    def _centred(
        self, rows: DeviceRows, first: int, weights: int | None, scratch: _Scratch, bad: int, stream: Stream
    ) -> CentredRows:
        count, grouped = len(rows), self.n_groups > 1
        n_tiles = scratch.n_tiles if grouped else -(-count // TILE_ROWS)
        placed_weights = scratch.weights.address if weights is not None else None
        work = _CentreWork(
            rows=rows.described(),
            center=self._center.address,
            square=self._square,
            centred=scratch.centred.address,
            tiles=scratch.tiles.address,
            groups=scratch.groups.address if grouped else None,
            places=scratch.places.address if grouped else None,
            starts=scratch.starts.address if grouped else None,
            weights=weights,
            placed_weights=placed_weights,
            first_bad=bad,
            key=self._key,
            stride=n_tiles * TILE_ROWS,
            n_groups=self.n_groups,
            # a row's distance is added up in the order of its columns, by one block
            columns_per_block=self.n_features if math.isfinite(self._square) else COLUMNS_PER_BLOCK,
        )
        stream.fill(scratch.tiles.address, 0, n_tiles * TILE_BYTES)
        if grouped:
            by_row = (-(-count // GROUPED_ROWS), 1)
            stream.fill(scratch.starts.address, 0, 8 * self.n_groups)
            self.device.launch("centre", "find_groups", by_row, 256, work, stream)
            self.device.launch("centre", "place_groups", (1, 1), 256, work, stream)
            self.device.launch("centre", "place_rows", by_row, 256, work, stream)
        slabs = -(-self.n_features // work.columns_per_block)
        self.device.launch("centre", "centre_rows", (-(-count // TILE_ROWS), slabs), 256, work, stream)
        addresses = scratch.centred.address, scratch.tiles.address, placed_weights
        return CentredRows(first, count, *addresses, work.stride, n_tiles)


class _Scratch:
    """What is needed beside the rows: centred ones, and which tile each goes to."""

    def __init__(self, centring: Centring, n_rows: int, *, weighted: bool) -> None:
        grouped, owner = centring.n_groups > 1, centring.device
        self.n_rows = -(-max(n_rows, 1) // TILE_ROWS) * TILE_ROWS
        self.n_tiles = self.n_rows // TILE_ROWS + (centring.n_groups if grouped else 0)
        placed = self.n_tiles * TILE_ROWS
        self.centred = Memory(4 * placed * centring.n_features, owner)
        self.tiles = Memory(TILE_BYTES * self.n_tiles, owner)
        self.groups = Memory(4 * self.n_rows if grouped else 0, owner)
        self.places = Memory(8 * self.n_rows if grouped else 0, owner)
        self.starts = Memory(8 * centring.n_groups if grouped else 0, owner)
        self.weights = Memory(8 * placed if weighted else 0, owner)
