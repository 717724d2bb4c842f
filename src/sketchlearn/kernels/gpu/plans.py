"""Plans: the arrays of one operator on a GPU, and how its kernels are started. They give the processor's integers."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from typing import Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Single
from sketchlearn.kernels.gpu.driver import NONE_BAD, Device, Memory, Room, Stream
from sketchlearn.kernels.gpu.rows import (
    DOUBLE,
    FLOAT64,
    INT32,
    INT64,
    POINTER,
    SINGLE,
    CentredRows,
    Centring,
    ChosenColumns,
    DeviceRows,
    RowsAtDevice,
    fields,
    pieces,
    weights_from,
)

SIDE = 64  # of the squares of products that a block has
MOST_ROWS_PER_BLOCK = 1 << 16
COLUMN_BLOCKS_PER_MULTIPROCESSOR = 4
COUNTED_ROWS = 4096  # that a block counts the values of, at least


class Plan:
    """Arrays that stay on a GPU, and the structure by which kernels are told of them."""

    sees_all_columns = True
    _work: ClassVar[type[ctypes.Structure]]

    def __init__(self, owner: Device, **arrays: NDArray[Any]) -> None:
        self.device = owner
        self._arrays = {name: owner.copy(array) for name, array in arrays.items()}

    def _described(self, **more: Any) -> Any:
        """The structure: addresses of the arrays, and fields that change from call to call."""
        return self._work(**{name: array.address for name, array in self._arrays.items()}, **more)


def rows_per_block(owner: Device, n_rows: int, squares: int) -> int:
    """Rows of a block that has one of so many squares of products, so that all multiprocessors have work."""
    wanted = max(1, COLUMN_BLOCKS_PER_MULTIPROCESSOR * owner.multiprocessors // squares)
    return min(MOST_ROWS_PER_BLOCK, max(SIDE, -(-n_rows // wanted)))


class _MomentsWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        *fields(POINTER, "center bound factor weights sums first_bad"),
        ("rows_per_block", INT64),
        ("once", INT32),
    )


class MomentsPlan(Plan):
    """First and second moments."""

    _work = _MomentsWork

    def __init__(self, owner: Device, center: Double, bound: Double, *, once: bool) -> None:
        super().__init__(owner, center=center, bound=bound, factor=2.0**15 / bound)
        self._once = once

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        squares = -(-(rows.shape[1] + 1) // SIDE)
        across = squares * (squares + 1) // 2
        each = rows_per_block(self.device, len(rows), across)
        work = self._described(
            rows=rows.described(), weights=weights, sums=sums, first_bad=bad, rows_per_block=each, once=self._once
        )
        self.device.launch("moments", "add_moments", (across, -(-len(rows) // each)), 256, work, stream)


class _CountWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        *fields(POINTER, "edges starts weights counts first_bad"),
        ("n_counts", INT32),
    )


class CountsPlan(Plan):
    """Counts of values between edges."""

    _work = _CountWork

    def __init__(self, owner: Device, edges: Double, starts: NDArray[np.int64]) -> None:
        super().__init__(owner, edges=edges, starts=starts)
        self._n_counts = len(edges) + len(starts) - 1

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        work = self._described(
            rows=rows.described(), weights=weights, counts=sums, first_bad=bad, n_counts=self._n_counts
        )
        blocks = min(-(-len(rows) // COUNTED_ROWS), 8 * self.device.multiprocessors)
        self.device.launch("histogram", "count_values", (blocks, 1), 256, work, stream)


TILE_COLUMNS = 128
MOST_TILES_PER_BLOCK = 15  # of a block's sums, which 32 bits hold
WAVE_BLOCKS_PER_MULTIPROCESSOR = 2  # that run at a time
NEAR_TURNS = 2.0**19  # Smaller phases are reduced at the speed of an addition; those of a square wave are times 4.
MOST_BLOCKS_DOWN = 1024
LARGEST_TRANSFORM = 2048  # that a block's shared memory has room for


class _DenseWork(ctypes.Structure):
    _fields_ = (
        *fields(POINTER, "rows tiles frequencies dither weights sums integers coefficients"),
        *fields(INT64, "harmonics stride padded columns"),
        *fields(INT32, "n_features n_tiles tiles_per_block group_columns padded_group"),
        ("limit", SINGLE),
    )


class _StructuredWork(ctypes.Structure):
    _fields_ = (
        *fields(POINTER, "rows tiles signs radii dither weights sums coefficients"),
        *fields(INT64, "harmonics stride columns"),
        *fields(INT32, "n_features n_tiles tiles_per_block group_columns size"),
    )


def _tiles_per_block(owner: Device, n_tiles: int, across: int) -> int:
    """Tiles of a block, so that all that run at a time end at a time."""
    at_once = max(1, WAVE_BLOCKS_PER_MULTIPROCESSOR * owner.multiprocessors // across)
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


class _WavePlan(Plan):
    """What plans of all kinds of frequencies have in common."""

    def __init__(self, owner: Device, waves: PlannedWaves, **arrays: NDArray[Any]) -> None:
        super().__init__(owner, coefficients=np.array(waves.coefficients, np.float32), **arrays)
        self._feature, self._n_groups = waves.feature, waves.n_groups
        self.parts = 1 if waves.feature.endswith("_real") or waves.feature in ("cosine", "quadratic") else 2
        self.n_columns, self._group = len(waves.dither), len(waves.dither) // waves.n_groups
        self._centring = Centring(owner, waves.center, waves.radius, waves.key, waves.n_groups)
        self._harmonics = len(waves.coefficients) // (2 * self.parts)

    def _work_of(self, piece: CentredRows, **more: Any) -> Any:
        return self._described(
            rows=piece.rows,
            tiles=piece.tiles,
            weights=piece.weights,
            harmonics=self._harmonics,
            stride=piece.stride,
            columns=self.n_columns,
            n_tiles=piece.n_tiles,
            group_columns=self._group,
            **more,
        )


class DensePlan(_WavePlan):
    """Dense frequencies on a GPU, ready for any number of rows."""

    _work = _DenseWork

    def __init__(self, owner: Device, waves: PlannedWaves, frequencies: Single) -> None:
        self.n_features, n_groups, group = len(frequencies), waves.n_groups, len(waves.dither) // waves.n_groups
        self._padded_group = -(-group // TILE_COLUMNS) * TILE_COLUMNS
        table = np.zeros((self.n_features + 1, n_groups, self._padded_group), np.float32)
        table[:-1, :, :group] = frequencies.reshape(self.n_features, n_groups, group)
        table[-1, :, :group] = waves.dither.reshape(n_groups, group)
        super().__init__(owner, waves, frequencies=table)
        furthest = float(np.max(np.sum(np.abs(frequencies.astype(np.float64)), axis=0), initial=0.0))
        self._limit = np.float32(NEAR_TURNS / furthest if furthest > 0 else math.inf)
        if waves.feature.startswith("series"):
            self._limit = np.float32(-1.0)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """Lets the stream add the integers of rows to sums; a row outside the domain makes bad less than 2^64 - 1.

        `weights`, `sums` and `bad` are addresses on the device.
        """
        across = -(-self._group // TILE_COLUMNS)
        for piece in self._centring.pieces(rows, weights, bad, stream):
            work, n_tiles = self._work_of(piece), piece.n_tiles
            work.sums, work.tiles_per_block = sums, _tiles_per_block(self.device, n_tiles, across)
            every_tile_is_far = piece.weights is not None or self._limit < 0
            if not every_tile_is_far:
                shape = across, -(-n_tiles // work.tiles_per_block)
                self.device.launch(self._feature, "dense_near", shape, 256, work, stream)
            down = n_tiles if every_tile_is_far else -(-n_tiles // TILE_COLUMNS)
            shape = across, min(down, MOST_BLOCKS_DOWN)
            self.device.launch(self._feature, "dense_far", shape, TILE_COLUMNS, work, stream)

    def write(self, rows: DeviceRows, n: int, integers: int, bad: int, stream: Stream) -> None:
        """Lets the stream write the integers of the first n frequencies, int32 (rows, parts, n), to an address."""
        assert self._n_groups == 1
        across = -(-n // TILE_COLUMNS)
        for piece in self._centring.pieces(rows, None, bad, stream):
            work = self._work_of(piece)
            work.integers, work.group_columns = integers + 4 * piece.first * self.parts * n, n
            shape = across, min(piece.n_tiles, MOST_BLOCKS_DOWN)
            self.device.launch(f"{self._feature}_written", "write_features", shape, TILE_COLUMNS, work, stream)

    def _work_of(self, piece: CentredRows, **more: Any) -> Any:
        padded = self._n_groups * self._padded_group
        return super()._work_of(
            piece,
            dither=self._arrays["frequencies"].address + 4 * self.n_features * padded,
            padded=padded,
            n_features=self.n_features,
            padded_group=self._padded_group,
            limit=self._limit,
            **more,
        )


class StructuredPlan(_WavePlan):
    """Structured frequencies on a GPU, of up to `LARGEST_TRANSFORM` columns."""

    _work = _StructuredWork

    def __init__(self, owner: Device, waves: PlannedWaves, signs: Single, radii: Single) -> None:
        padded = np.zeros(radii.size, np.float32)
        padded[: len(waves.dither)] = waves.dither
        super().__init__(owner, waves, signs=signs, radii=radii, dither=padded)
        self._size = radii.shape[-1]

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        across = -(-self._group // self._size)
        for piece in self._centring.pieces(rows, weights, bad, stream):
            tiles = _tiles_per_block(self.device, piece.n_tiles, across)
            work = self._work_of(piece, sums=sums, n_features=rows.shape[1], tiles_per_block=tiles, size=self._size)
            shape = across, -(-piece.n_tiles // tiles)
            self.device.launch(f"{self._feature}_structured", "structured_sums", shape, 256, work, stream)


class _CrossWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        *fields(POINTER, "integers which center bound factor weights sums words joined first_bad"),
        ("unit", DOUBLE),
        ("rows_per_block", INT64),
        *fields(INT32, "n_features n_values n_bits"),
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
        self, rows: DeviceRows, bad: int, stream: Stream, bytes_beside: int = 0
    ) -> Iterator[tuple[int, DeviceRows, int]]:
        """Lets the stream write them: the number of the first row, rows, and where their integers are.

        bytes_beside: what else is needed for each row.
        """
        for first, own, integers in pieces(rows, self._room, 4 * self.width, bytes_beside):
            chosen = [(0, own)] if self._columns is None else self._columns.pieces(own, stream)
            for start, piece in chosen:
                self._plan.write(piece, self._n, integers + 4 * self.width * start, bad, stream)
            yield first, own, integers


class CrossPlan(Plan):
    """Features times values."""

    _work = _CrossWork

    def __init__(
        self, writer: FeatureWriter, factor: float, center: Double, bound: Double, which: Sequence[int] | None
    ) -> None:
        columns = {} if which is None else {"which": np.array(which, np.int64)}
        super().__init__(writer.device, center=center, bound=bound, factor=2.0**15 / bound, **columns)
        self.sees_all_columns = which is None
        self._writer, self._unit, self._n_values = writer, factor, len(center)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        n = self._writer.width
        squares = -(-n // SIDE) * -(-self._n_values // SIDE)
        for first, own, integers in self._writer.pieces(rows, bad, stream):
            each = rows_per_block(self.device, len(own), squares)
            work = self._described(
                rows=own.described(),
                integers=integers,
                weights=weights_from(weights, first),
                sums=sums,
                first_bad=bad,
                unit=self._unit,
                rows_per_block=each,
                n_features=n,
                n_values=self._n_values,
            )
            self.device.launch("cross", "add_crosses", (squares, -(-len(own) // each)), 256, work, stream)


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
            room, sizes = self._room.of(8 * width * len(own)), {"n_features": n, "n_values": rows.shape[1]}
            work = _CrossWork(rows=own.described(), integers=integers, joined=room.address, unit=self._unit, **sizes)
            owner.launch("cross", "join_rows", (-(-len(own) * width // 256), 1), 256, work, stream)
            joined = DeviceRows(owner, room.address, FLOAT64, (len(own), width), (width, 1), room)
            self._moments.add(joined, weights_from(weights, first), sums, bad, stream)


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
            stream.read(words[first : first + len(own)], packed.address)
        stream.read(bad, flag.address)
    return words if int(bad[0]) == NONE_BAD else None


ROWS_ADDED, ROWS_EXPECTED = 1024, 1024  # of a block that adds up columns by cell, or expected statistics
MOST_SHARED_SUMS, MOST_SHARED_STATISTICS = 4096, 2048  # that a block adds up on its own
MOST_PARTS, MOST_COLUMNS = 96, 64  # of a mixture that a block's memory holds
ROWS_MEASURED, ROWS_SUMMED = 8, 32  # of a block


class _CellsWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        *fields(POINTER, "middle bound factor directions points squares lengths exponents places cells"),
        *fields(POINTER, "weights sums first_bad"),
        *fields(DOUBLE, "place_unit square_unit"),
        *fields(INT32, "n_directions n_cells normalize by_column"),
    )


class CellsPlan(Plan):
    """Cells on a GPU.

    Parameters
    ----------
    directions : (columns, directions); points : (cells, directions), both whole numbers.
    factor : what values less the middle are times, before they are rounded to whole numbers.
    numbers : `place_unit` and `square_unit`, what places, and sums of a row's squares, are times before they are
        rounded; `normalize` and `by_column`.
    """

    _work = _CellsWork

    def __init__(
        self,
        owner: Device,
        directions: Double,
        points: Double,
        *,
        middle: Double,
        bound: Double,
        factor: Double,
        **numbers: float,
    ) -> None:
        boxes, squares = {"middle": middle, "bound": bound, "factor": factor}, np.sum(points * points, axis=1)
        super().__init__(owner, directions=directions, points=2 * points.T, squares=squares, **boxes)
        self._numbers = {"n_directions": directions.shape[1], "n_cells": len(points), **numbers}
        self._room = Room(owner)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        launch, n_directions = self.device.launch, int(self._numbers["n_directions"])
        for first, own, room in pieces(rows, self._room, 8 * n_directions + 16):
            count = len(own)
            lengths = room + 8 * n_directions * count
            work = self._described(
                rows=own.described(),
                places=room,
                lengths=lengths,
                exponents=lengths + 8 * count,
                cells=lengths + 12 * count,
                weights=weights_from(weights, first),
                sums=sums,
                first_bad=bad,
                **self._numbers,
            )
            if self._numbers["normalize"]:
                launch("cells", "measure_rows", (-(-count // ROWS_MEASURED), 1), 256, work, stream)
            launch("cells", "place_rows", (-(-count // SIDE), -(-n_directions // SIDE)), 256, work, stream)
            launch("cells", "find_cells", (-(-count // SIDE), 1), 256, work, stream)
            launch("cells", "add_cells", (-(-count // ROWS_SUMMED), 1), 256, work, stream)


class _ColumnCellsWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        *fields(POINTER, "center single_center scale points halves cells weights places factors sums first_bad"),
        *fields(INT32, "n_cells n_shared"),
        *fields(SINGLE, "radius distance_unit"),
    )


class ColumnCellsPlan(Plan):
    """Cells in the columns themselves on a GPU.

    Parameters
    ----------
    points, halves : (cells, columns), and half their squares, of float32.
    medians : for medians, places of points, factors of values, the least distance and the unit of distances.
    """

    _work = _ColumnCellsWork

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
        of_medians = {} if medians is None else {"places": medians[0], "factors": medians[1]}
        single = center.astype(np.float32)
        super().__init__(
            owner, points=points.T, halves=halves, center=center, single_center=single, scale=scale, **of_medians
        )
        n_sums = len(points) * (1 + 2 * d + (0 if medians is None else 2 + d))
        self._numbers = {"n_cells": len(points), "n_shared": n_sums if n_sums <= MOST_SHARED_SUMS else 0}
        self._units = {} if medians is None else {"radius": medians[2], "distance_unit": medians[3]}
        self._cells = Room(owner)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        launch = self.device.launch
        for first, own, cells in pieces(rows, self._cells, 4):
            work = self._described(
                rows=own.described(),
                cells=cells,
                weights=weights_from(weights, first),
                sums=sums,
                first_bad=bad,
                **self._numbers,
                **self._units,
            )
            launch("column_cells", "find_column_cells", (-(-len(own) // SIDE), 1), 256, work, stream)
            launch("column_cells", "add_column_cells", (-(-len(own) // ROWS_ADDED), 1), 256, work, stream)


class _MixtureWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        *fields(POINTER, "center single_center scale parts weights sums first_bad"),
        *fields(INT32, "n_parts full n_shared"),
    )


class MixturePlan(Plan):
    """Expected statistics of a mixture of Gaussians on a GPU; parts are the numbers of components, in float32."""

    _work = _MixtureWork

    def __init__(self, owner: Device, parts: Single, center: Double, scale: Single, n_sums: int, *, full: bool) -> None:
        super().__init__(owner, parts=parts, center=center, single_center=center.astype(np.float32), scale=scale)
        shared = n_sums if n_sums <= MOST_SHARED_STATISTICS else 0
        self._numbers = {"n_parts": len(parts), "full": full, "n_shared": shared}

    @staticmethod
    def has_room(n_parts: int, n_features: int) -> bool:
        """Whether a block's memory holds so much."""
        return n_parts <= MOST_PARTS and n_features <= MOST_COLUMNS

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """As `DensePlan.add`."""
        work = self._described(rows=rows.described(), weights=weights, sums=sums, first_bad=bad, **self._numbers)
        self.device.launch("mixture", "add_expected", (-(-len(rows) // ROWS_EXPECTED), 1), 256, work, stream)
