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
    Centring,
    ChosenColumns,
    DeviceRows,
    KeepWork,
    RowsAtDevice,
    downloaded,
    gathered,
    pieces,
    structure,
    weights_from,
)

SIDE = 64  # of the squares of products that a block has
MOST_ROWS_PER_BLOCK = 1 << 16
COLUMN_BLOCKS_PER_MULTIPROCESSOR = 4
COUNTED_ROWS = 4096  # that a block counts the values of, at least

Launch = tuple[str, str, tuple[int, int]]  # the PTX file, the kernel, and its grid of blocks


class Plan:
    """Arrays and numbers of one operator on a GPU, and the kernels that are launched with them."""

    sees_all_columns = True
    _work: ClassVar[type[ctypes.Structure]]
    #: bytes of working memory for each row
    _bytes_each = 0

    def __init__(self, owner: Device, numbers: dict[str, Any], **arrays: NDArray[Any]) -> None:
        self.device, self._numbers, self._room = owner, numbers, Room(owner)
        self._arrays = {name: owner.copy(array) for name, array in arrays.items()}

    def _described(self, **more: Any) -> Any:
        """The argument of kernels: addresses of the arrays, the numbers, and what depends on the rows."""
        return self._work(**{name: array.address for name, array in self._arrays.items()}, **self._numbers, **more)

    def _pieces(self, rows: DeviceRows, bad: int, stream: Stream) -> Iterator[tuple[int, DeviceRows, int]]:  # noqa: ARG002
        """The number of the first row, rows, and the address of their working memory."""
        return pieces(rows, self._room, self._bytes_each)

    def _launches(self, rows: DeviceRows, room: int) -> tuple[dict[str, int], list[Launch]]:
        """The fields that depend on the rows, and the kernels to launch, in order."""
        raise NotImplementedError

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        for first, own, room in self._pieces(rows, bad, stream):
            own_fields, launches = self._launches(own, room)
            own_weights = weights_from(weights, first)
            work = self._described(rows=own.described(), weights=own_weights, sums=sums, first_bad=bad, **own_fields)
            for unit, name, grid in launches:
                self.device.launch(unit, name, grid, 256, work, stream)


def rows_per_block(owner: Device, n_rows: int, squares: int) -> int:
    """Rows of a block, so that all multiprocessors have work, if products form this many squares."""
    wanted = max(1, COLUMN_BLOCKS_PER_MULTIPROCESSOR * owner.multiprocessors // squares)
    return min(MOST_ROWS_PER_BLOCK, max(SIDE, -(-n_rows // wanted)))


class MomentsPlan(Plan):
    """First and second moments."""

    _work = structure(
        (RowsAtDevice, "rows"),
        (POINTER, "center bound factor weights sums first_bad"),
        (INT64, "rows_per_block"),
        (INT32, "once"),
    )

    def __init__(self, owner: Device, center: Double, bound: Double, *, once: bool) -> None:
        super().__init__(owner, {"once": once}, center=center, bound=bound, factor=2.0**15 / bound)

    def _launches(self, rows: DeviceRows, room: int) -> tuple[dict[str, int], list[Launch]]:  # noqa: ARG002
        squares = -(-(rows.shape[1] + 1) // SIDE)
        across = squares * (squares + 1) // 2
        each = rows_per_block(self.device, len(rows), across)
        return {"rows_per_block": each}, [("moments", "add_moments", (across, -(-len(rows) // each)))]


class CountsPlan(Plan):
    """Counts of values between edges."""

    _work = structure((RowsAtDevice, "rows"), (POINTER, "edges starts weights sums first_bad"), (INT32, "n_counts"))

    def __init__(self, owner: Device, edges: Double, starts: NDArray[np.int64]) -> None:
        super().__init__(owner, {"n_counts": len(edges) + len(starts) - 1}, edges=edges, starts=starts)

    def _launches(self, rows: DeviceRows, room: int) -> tuple[dict[str, int], list[Launch]]:  # noqa: ARG002
        blocks = min(-(-len(rows) // COUNTED_ROWS), 8 * self.device.multiprocessors)
        return {}, [("histogram", "count_values", (blocks, 1))]


TILE_COLUMNS = 128
MOST_TILES_PER_BLOCK = 15  # of a block's sums, which 32 bits hold
WAVE_BLOCKS_PER_MULTIPROCESSOR = 2  # that run at a time
NEAR_TURNS = 2.0**19  # Smaller phases are reduced at the speed of an addition; those of a square wave are times 4.
MOST_BLOCKS_DOWN = 1024
LARGEST_TRANSFORM = 2048  # that a block's shared memory has room for


def _tiles_per_block(owner: Device, n_tiles: int, across: int) -> int:
    """Tiles of a block, so that all that run at a time end at a time."""
    at_once = max(1, WAVE_BLOCKS_PER_MULTIPROCESSOR * owner.multiprocessors // across)
    rounds = -(-n_tiles // (at_once * MOST_TILES_PER_BLOCK))
    return -(-n_tiles // (at_once * rounds))


class PlannedWaves(NamedTuple):
    """The arguments of a plan beside the frequencies, on a GPU and on the processor."""

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
        self._feature, self._group = waves.feature, len(waves.dither) // waves.n_groups
        self.parts = 1 if waves.feature.endswith("_real") or waves.feature in ("cosine", "quadratic") else 2
        self._centring = Centring(owner, waves.center, waves.radius, waves.key, waves.n_groups)
        numbers = {
            "n_features": len(waves.center),
            "columns": len(waves.dither),
            "harmonics": len(waves.coefficients) // (2 * self.parts),
        }
        super().__init__(owner, numbers, coefficients=np.array(waves.coefficients, np.float32), **arrays)


class DensePlan(_WavePlan):
    """Dense frequencies on a GPU, ready for any number of rows."""

    _work = structure(
        (POINTER, "rows tiles frequencies dither weights sums integers coefficients"),
        (INT64, "harmonics stride padded columns"),
        (INT32, "n_features n_tiles tiles_per_block group_columns padded_group"),
        (SINGLE, "limit"),
    )

    def __init__(self, owner: Device, waves: PlannedWaves, frequencies: Single) -> None:
        d, n_groups, group = len(frequencies), waves.n_groups, len(waves.dither) // waves.n_groups
        padded_group = -(-group // TILE_COLUMNS) * TILE_COLUMNS
        table = np.zeros((d + 1, n_groups, padded_group), np.float32)
        table[:-1, :, :group] = frequencies.reshape(d, n_groups, group)
        table[-1, :, :group] = waves.dither.reshape(n_groups, group)
        super().__init__(owner, waves, frequencies=table)
        furthest = float(np.max(np.sum(np.abs(frequencies.astype(np.float64)), axis=0), initial=0.0))
        limit = np.float32(NEAR_TURNS / furthest if furthest > 0 else math.inf)
        self._always_far = waves.feature.startswith("series")
        self._numbers |= {
            "dither": self._arrays["frequencies"].address + 4 * d * n_groups * padded_group,
            "padded": n_groups * padded_group,
            "padded_group": padded_group,
            "limit": -1.0 if self._always_far else limit,
        }

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        across = -(-self._group // TILE_COLUMNS)
        for _, piece in self._centring.pieces(rows, weights, bad, stream):
            work = self._described(**piece, sums=sums, group_columns=self._group)
            n_tiles = work.n_tiles
            work.tiles_per_block = _tiles_per_block(self.device, n_tiles, across)
            every_tile_is_far = weights is not None or self._always_far
            if not every_tile_is_far:
                self.device.launch(
                    self._feature, "dense_near", (across, -(-n_tiles // work.tiles_per_block)), 256, work, stream
                )
            down = n_tiles if every_tile_is_far else -(-n_tiles // TILE_COLUMNS)
            shape = across, min(down, MOST_BLOCKS_DOWN)
            self.device.launch(self._feature, "dense_far", shape, TILE_COLUMNS, work, stream)

    def write(self, rows: DeviceRows, n: int, integers: int, bad: int, stream: Stream) -> None:
        """Lets the stream write the integers of the first n frequencies, int32 (rows, parts, n), to an address."""
        assert self._centring.n_groups == 1
        for first, piece in self._centring.pieces(rows, None, bad, stream):
            work = self._described(**piece, integers=integers + 4 * first * self.parts * n, group_columns=n)
            shape = -(-n // TILE_COLUMNS), min(work.n_tiles, MOST_BLOCKS_DOWN)
            self.device.launch(f"{self._feature}_written", "write_features", shape, TILE_COLUMNS, work, stream)


class StructuredPlan(_WavePlan):
    """Structured frequencies on a GPU, of up to `LARGEST_TRANSFORM` columns."""

    _work = structure(
        (POINTER, "rows tiles signs radii dither weights sums coefficients"),
        (INT64, "harmonics stride columns"),
        (INT32, "n_features n_tiles tiles_per_block group_columns size"),
    )

    def __init__(self, owner: Device, waves: PlannedWaves, signs: Single, radii: Single) -> None:
        padded = np.zeros(radii.size, np.float32)
        padded[: len(waves.dither)] = waves.dither
        super().__init__(owner, waves, signs=signs, radii=radii, dither=padded)
        self._numbers |= {"size": radii.shape[-1], "group_columns": self._group}

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        across = -(-self._group // int(self._numbers["size"]))
        for _, piece in self._centring.pieces(rows, weights, bad, stream):
            work = self._described(**piece, sums=sums)
            work.tiles_per_block = _tiles_per_block(self.device, work.n_tiles, across)
            shape = across, -(-work.n_tiles // work.tiles_per_block)
            self.device.launch(f"{self._feature}_structured", "structured_sums", shape, 256, work, stream)


_CrossWork = structure(
    (RowsAtDevice, "rows"),
    (POINTER, "integers which center bound factor weights sums words joined first_bad"),
    (DOUBLE, "unit"),
    (INT64, "rows_per_block"),
    (INT32, "n_features n_values n_bits"),
)


class FeatureWriter:
    """Integers of each row at the first n frequencies, in memory that is used again; of some columns of the rows."""

    def __init__(self, plan: DensePlan, n: int, which: Sequence[int] | None = None) -> None:
        self.device, self._plan, self._n, self.width = plan.device, plan, n, plan.parts * n
        self._which, self._room = which, Room(plan.device)
        self._columns = None if which is None else ChosenColumns(plan.device, which)

    def of_columns(self, which: Sequence[int]) -> FeatureWriter:
        """The same of rows that have more columns, of which these are the frequencies' own."""
        own = which if self._which is None else [which[k] for k in self._which]
        return FeatureWriter(self._plan, self._n, own)

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
        self, writer: FeatureWriter, unit: float, center: Double, bound: Double, which: Sequence[int] | None
    ) -> None:
        arrays = {} if which is None else {"which": np.array(which, np.int64)}
        numbers = {"unit": unit, "n_features": writer.width, "n_values": len(center)}
        super().__init__(writer.device, numbers, center=center, bound=bound, factor=2.0**15 / bound, **arrays)
        self.sees_all_columns, self._writer = which is None, writer
        self._squares = -(-writer.width // SIDE) * -(-len(center) // SIDE)

    def _pieces(self, rows: DeviceRows, bad: int, stream: Stream) -> Iterator[tuple[int, DeviceRows, int]]:
        return self._writer.pieces(rows, bad, stream)

    def _launches(self, rows: DeviceRows, room: int) -> tuple[dict[str, int], list[Launch]]:
        each = rows_per_block(self.device, len(rows), self._squares)
        launch = ("cross", "add_crosses", (self._squares, -(-len(rows) // each)))
        return {"integers": room, "rows_per_block": each}, [launch]


class FeatureMomentsPlan:
    """First and second moments of features, as numbers, and of the rows' own columns."""

    sees_all_columns = True

    def __init__(self, writer: FeatureWriter, unit: float, moments: MomentsPlan) -> None:
        self._writer, self._unit, self._moments = writer, unit, moments
        self._room = Room(writer.device)

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
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


class CellsPlan(Plan):
    """Cells on a GPU.

    Parameters
    ----------
    directions : (columns, directions); points : (cells, directions), both whole numbers.
    factor : what values less the middle are times, before they are rounded to whole numbers.
    numbers : `place_unit` and `square_unit`, what places, and sums of a row's squares, are times before they are
        rounded; `normalize` and `by_column`.
    """

    _work = structure(
        (RowsAtDevice, "rows"),
        (POINTER, "middle bound factor directions points squares lengths exponents places cells"),
        (POINTER, "weights sums first_bad"),
        (DOUBLE, "place_unit square_unit"),
        (INT32, "n_directions n_cells normalize by_column"),
    )

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
        numbers |= {"n_directions": directions.shape[1], "n_cells": len(points)}
        super().__init__(owner, numbers, directions=directions, points=2 * points.T, squares=squares, **boxes)
        self._bytes_each = 8 * directions.shape[1] + 16

    def _launches(self, rows: DeviceRows, room: int) -> tuple[dict[str, int], list[Launch]]:
        count, n_directions = len(rows), int(self._numbers["n_directions"])
        lengths = room + 8 * n_directions * count
        launches = [
            ("cells", "measure_rows", (-(-count // ROWS_MEASURED), 1)),
            ("cells", "place_rows", (-(-count // SIDE), -(-n_directions // SIDE))),
            ("cells", "find_cells", (-(-count // SIDE), 1)),
            ("cells", "add_cells", (-(-count // ROWS_SUMMED), 1)),
        ]
        places = {"places": room, "lengths": lengths, "exponents": lengths + 8 * count, "cells": lengths + 12 * count}
        return places, launches if self._numbers["normalize"] else launches[1:]


class ColumnCellsPlan(Plan):
    """Cells in the columns themselves on a GPU.

    Parameters
    ----------
    points, halves : (cells, columns), and half their squares, of float32.
    medians : for medians, places of points, factors of values, the least distance and the unit of distances.
    """

    _work = structure(
        (RowsAtDevice, "rows"),
        (POINTER, "center single_center scale points halves cells weights places factors sums first_bad"),
        (INT32, "n_cells n_shared"),
        (SINGLE, "radius distance_unit"),
    )
    _bytes_each = 4

    def __init__(
        self,
        owner: Device,
        points: Single,
        halves: Single,
        center: Double,
        scale: Single,
        medians: tuple[Single, Single, float, float] | None = None,
    ) -> None:
        d, numbers = len(center), dict[str, Any](n_cells=len(points))
        arrays = {"points": points.T, "halves": halves, "scale": scale}
        n_sums = len(points) * (1 + 2 * d)
        if medians is not None:
            n_sums += len(points) * (2 + d)
            arrays |= dict(zip(("places", "factors"), medians[:2], strict=True))
            numbers |= dict(zip(("radius", "distance_unit"), medians[2:], strict=True))
        numbers["n_shared"] = n_sums if n_sums <= MOST_SHARED_SUMS else 0
        super().__init__(owner, numbers, center=center, single_center=center.astype(np.float32), **arrays)

    def _launches(self, rows: DeviceRows, room: int) -> tuple[dict[str, int], list[Launch]]:
        found = ("column_cells", "find_column_cells", (-(-len(rows) // SIDE), 1))
        return {"cells": room}, [found, ("column_cells", "add_column_cells", (-(-len(rows) // ROWS_ADDED), 1))]


class MixturePlan(Plan):
    """Expected statistics of a mixture of Gaussians on a GPU; parts are the numbers of components, in float32."""

    _work = structure(
        (RowsAtDevice, "rows"),
        (POINTER, "center single_center scale parts weights sums first_bad"),
        (INT32, "n_parts full n_shared"),
    )

    def __init__(self, owner: Device, parts: Single, center: Double, scale: Single, n_sums: int, *, full: bool) -> None:
        shared = n_sums if n_sums <= MOST_SHARED_STATISTICS else 0
        numbers = {"n_parts": len(parts), "full": full, "n_shared": shared}
        single = center.astype(np.float32)
        super().__init__(owner, numbers, parts=parts, center=center, single_center=single, scale=scale)

    @staticmethod
    def has_room(n_parts: int, n_features: int) -> bool:
        """Whether the shared memory of a block has room for the mixture."""
        return n_parts <= MOST_PARTS and n_features <= MOST_COLUMNS

    def _launches(self, rows: DeviceRows, room: int) -> tuple[dict[str, int], list[Launch]]:  # noqa: ARG002
        return {}, [("mixture", "add_expected", (-(-len(rows) // ROWS_EXPECTED), 1))]


ROOM = 1 << 16  # rows that are looked for at a time; where there are more, all come


class Search(Plan):
    """A search for the rows of a priority sample, on a GPU."""

    _work = KeepWork

    def __init__(self, owner: Device, center: Any, scale: Any, key: int, certain: NDArray[np.uint64]) -> None:
        box = {"center": np.array(center, float), "scale": np.array(scale, float)}
        super().__init__(owner, {"key": key, "room": ROOM, "n_certain": len(certain)}, certain=certain, **box)
        self._found = Memory(8 * ROOM + 8, owner)

    def candidates(self, rows: DeviceRows, below: float) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """The rows of a priority below a limit, and their numbers; all rows, and None, where they are too many."""
        if len(rows) <= ROOM // 8 or below == np.inf:
            return downloaded(rows), None
        count, stream, n_found = np.zeros(1, np.int64), self.device.stream, self._found.address
        work = self._described(rows=rows.described(), found=n_found + 8, n_found=n_found, below=below)
        with self.device.current():
            stream.fill(n_found, 0, 8)
            self.device.launch("keeping", "find_candidates", (-(-len(rows) // 256), 1), 256, work, stream)
            stream.read(count, n_found)
            if count[0] > ROOM:
                return downloaded(rows), None
            which = np.empty(int(count[0]), np.int64)
            if len(which):
                stream.read(which, n_found + 8)
        which.sort()
        return gathered(rows, which), which
