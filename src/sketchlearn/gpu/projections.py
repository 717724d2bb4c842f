"""Features of random projections, on a GPU: their sums, the same integers as _native's plans give, or all of them."""

from __future__ import annotations

import ctypes
import math
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.centring import CentredRows, Centring
from sketchlearn.gpu.device_rows import DeviceRows
from sketchlearn.gpu.driver import Device, Stream

Single = NDArray[np.float32]
TILE_COLUMNS = 128
MOST_TILES_PER_BLOCK = 15  # of a block's sums, which 32 bits hold
BLOCKS_PER_MULTIPROCESSOR = 2  # that run at a time
NEAR_TURNS = 2.0**19  # Smaller phases are reduced at the speed of an addition; those of a square wave are times 4.
MOST_BLOCKS_DOWN = 1024
LARGEST_TRANSFORM = 2048  # that a block's shared memory has room for


class _DenseWork(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("tiles", ctypes.c_void_p),
        ("frequencies", ctypes.c_void_p),
        ("dither", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("integers", ctypes.c_void_p),
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


class _StructuredWork(ctypes.Structure):
    _fields_ = (
        ("rows", ctypes.c_void_p),
        ("tiles", ctypes.c_void_p),
        ("signs", ctypes.c_void_p),
        ("radii", ctypes.c_void_p),
        ("dither", ctypes.c_void_p),
        ("weights", ctypes.c_void_p),
        ("sums", ctypes.c_void_p),
        ("coefficients", ctypes.c_void_p),
        ("harmonics", ctypes.c_int64),
        ("stride", ctypes.c_int64),
        ("columns", ctypes.c_int64),
        ("n_features", ctypes.c_int32),
        ("n_tiles", ctypes.c_int32),
        ("tiles_per_block", ctypes.c_int32),
        ("group_columns", ctypes.c_int32),
        ("size", ctypes.c_int32),
    )


def _tiles_per_block(owner: Device, n_tiles: int, across: int) -> int:
    """Tiles of a block, so that all that run at a time end at a time."""
    at_once = max(1, BLOCKS_PER_MULTIPROCESSOR * owner.multiprocessors // across)
    rounds = -(-n_tiles // (at_once * MOST_TILES_PER_BLOCK))
    return -(-n_tiles // (at_once * rounds))


class PlannedWaves(NamedTuple):
    """What a plan takes beside the frequencies, on a GPU and on the processor."""

    feature: str
    center: Single
    dither: Single
    radius: float
    coefficients: list[float]
    key: int
    n_groups: int


class _WavePlan:
    """What plans of all kinds of frequencies have in common."""

    sees_all_columns = True

    def __init__(self, owner: Device, waves: PlannedWaves) -> None:
        self.device, self._feature, self._n_groups = owner, waves.feature, waves.n_groups
        self.parts = 1 if waves.feature.endswith("_real") or waves.feature in ("cosine", "quadratic") else 2
        self.n_columns, self._group = len(waves.dither), len(waves.dither) // waves.n_groups
        self._centring = Centring(owner, waves.center, waves.radius, waves.key, waves.n_groups)
        self._coefficients = owner.copy(np.array(waves.coefficients, np.float32))
        self._harmonics = len(waves.coefficients) // (2 * self.parts)


class DensePlan(_WavePlan):
    """Dense frequencies on a GPU, ready for any number of rows."""

    def __init__(self, owner: Device, waves: PlannedWaves, frequencies: Single) -> None:
        super().__init__(owner, waves)
        self.n_features, n_groups = len(frequencies), waves.n_groups
        self._padded_group = -(-self._group // TILE_COLUMNS) * TILE_COLUMNS
        table = np.zeros((self.n_features + 1, n_groups, self._padded_group), np.float32)
        table[:-1, :, : self._group] = frequencies.reshape(self.n_features, n_groups, self._group)
        table[-1, :, : self._group] = waves.dither.reshape(n_groups, self._group)
        self._frequencies = owner.copy(table)
        furthest = float(np.max(np.sum(np.abs(frequencies.astype(np.float64)), axis=0), initial=0.0))
        self._limit = np.float32(NEAR_TURNS / furthest if furthest > 0 else math.inf)
        if waves.feature.startswith("series"):
            self._limit = np.float32(-1.0)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """Lets the stream add the integers of rows to sums; a row outside the domain makes bad less than 2^64 - 1.

        `weights`, `sums` and `bad` are addresses on the device.
        """
        for piece in self._centring.pieces(rows, weights, bad, stream):
            self._add(piece, sums, stream)

    def write(self, rows: DeviceRows, n: int, integers: int, bad: int, stream: Stream) -> None:
        """Lets the stream write the integers of the first n frequencies, int32 (rows, parts, n), to an address."""
        assert self._n_groups == 1
        across = -(-n // TILE_COLUMNS)
        for piece in self._centring.pieces(rows, None, bad, stream):
            work = self._work(piece)
            work.integers, work.group_columns = integers + 4 * piece.first * self.parts * n, n
            shape = across, min(piece.n_tiles, MOST_BLOCKS_DOWN)
            self.device.launch(f"{self._feature}_written", "write_features", shape, TILE_COLUMNS, work, stream)

    def _work(self, piece: CentredRows) -> _DenseWork:
        return _DenseWork(
            rows=piece.rows,
            tiles=piece.tiles,
            frequencies=self._frequencies.address,
            dither=self._frequencies.address + 4 * self.n_features * self._n_groups * self._padded_group,
            weights=piece.weights,
            coefficients=self._coefficients.address,
            harmonics=self._harmonics,
            stride=piece.stride,
            padded=self._n_groups * self._padded_group,
            columns=self.n_columns,
            n_features=self.n_features,
            n_tiles=piece.n_tiles,
            group_columns=self._group,
            padded_group=self._padded_group,
            limit=self._limit,
        )

    def _add(self, piece: CentredRows, sums: int, stream: Stream) -> None:
        across, n_tiles, work = -(-self._group // TILE_COLUMNS), piece.n_tiles, self._work(piece)
        work.sums, work.tiles_per_block = sums, _tiles_per_block(self.device, n_tiles, across)
        if piece.weights is None and self._limit >= 0:
            shape = across, -(-n_tiles // work.tiles_per_block)
            self.device.launch(self._feature, "dense_near", shape, 256, work, stream)
        down = -(-n_tiles // (1 if piece.weights is not None or self._limit < 0 else TILE_COLUMNS))
        shape = across, min(down, MOST_BLOCKS_DOWN)
        self.device.launch(self._feature, "dense_far", shape, TILE_COLUMNS, work, stream)


class StructuredPlan(_WavePlan):
    """Structured frequencies on a GPU, of up to `LARGEST_TRANSFORM` columns."""

    def __init__(self, owner: Device, waves: PlannedWaves, signs: Single, radii: Single) -> None:
        super().__init__(owner, waves)
        self._size, padded = radii.shape[-1], np.zeros(radii.size, np.float32)
        padded[: self.n_columns] = waves.dither
        self._signs, self._radii, self._dither = owner.copy(signs), owner.copy(radii), owner.copy(padded)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        across = -(-self._group // self._size)
        for piece in self._centring.pieces(rows, weights, bad, stream):
            work = _StructuredWork(
                rows=piece.rows,
                tiles=piece.tiles,
                signs=self._signs.address,
                radii=self._radii.address,
                dither=self._dither.address,
                weights=piece.weights,
                sums=sums,
                coefficients=self._coefficients.address,
                harmonics=self._harmonics,
                stride=piece.stride,
                columns=self.n_columns,
                n_features=rows.shape[1],
                n_tiles=piece.n_tiles,
                tiles_per_block=_tiles_per_block(self.device, piece.n_tiles, across),
                group_columns=self._group,
                size=self._size,
            )
            shape = across, -(-piece.n_tiles // work.tiles_per_block)
            self.device.launch(f"{self._feature}_structured", "structured_sums", shape, 256, work, stream)
