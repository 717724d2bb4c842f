"""Sums at a pilot on a GPU: the same integers as `CellSums` and `ExpectedStatistics` have on the processor."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Single
from sketchlearn.kernels.gpu.driver import NONE_BAD, Device, Memory, Room, Stream
from sketchlearn.kernels.gpu.rows import (
    FLOAT64,
    SCRATCH_BYTES,
    CentredRows,
    Centring,
    ChosenColumns,
    DeviceRows,
    RowsAtDevice,
)

SIDE = 64  # of the squares of products that a block has
MOST_ROWS_PER_BLOCK = 1 << 16
COLUMN_BLOCKS_PER_MULTIPROCESSOR = 4
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
    wanted = max(1, COLUMN_BLOCKS_PER_MULTIPROCESSOR * owner.multiprocessors // squares)
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


TILE_COLUMNS = 128
MOST_TILES_PER_BLOCK = 15  # of a block's sums, which 32 bits hold
WAVE_BLOCKS_PER_MULTIPROCESSOR = 2  # that run at a time
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
