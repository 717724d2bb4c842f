"""Rows on a GPU: how they are described, centred in float32 tiles by their groups of frequencies, and searched."""

from __future__ import annotations

import ctypes
import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchlearn.kernels.gpu.driver import Device, Memory, Room, Stream, device

CUDA, CUDA_MANAGED = 2, 13  # kinds of memory, as DLPack counts them
#: kinds of numbers by DLPack's code and bits, in the order of rows_at_device.h
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = range(4)
KINDS = {(2, 16): FLOAT16, (4, 16): BFLOAT16, (2, 32): FLOAT32, (2, 64): FLOAT64}
SIZES = (2, 2, 4, 8)
LEGACY_STREAM = 1  # DLPack's word for the stream that waits for all others


POINTER, DOUBLE, SINGLE = ctypes.c_void_p, ctypes.c_double, ctypes.c_float
INT32, INT64, UINT64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64


def structure(*members: tuple[Any, str]) -> type[Any]:
    """A structure as C declares it: the type of one or several members, and their names."""
    each = tuple((name, kind) for kind, names in members for name in names.split())
    return type("Structure", (ctypes.Structure,), {"_fields_": each})


_Tensor = structure(
    (POINTER, "data"),
    (INT32, "device_kind device_number ndim"),
    (ctypes.c_uint8, "code bits"),
    (ctypes.c_uint16, "lanes"),
    (ctypes.POINTER(INT64), "shape strides"),
    (UINT64, "byte_offset"),
)
# rows in a GPU's memory, as in kernels/native/gpu/rows_at_device.h
RowsAtDevice = structure((POINTER, "data"), (INT64, "count row_stride column_stride"), (INT32, "n_features kind"))


@dataclass(frozen=True)
class DeviceRows:
    """A two-dimensional array of floating-point numbers in a GPU's memory; strides in elements."""

    device: Device
    address: int
    kind: int
    shape: tuple[int, int]
    strides: tuple[int, int]
    owner: Any = None  # what keeps the memory alive

    def __len__(self) -> int:
        return self.shape[0]

    @property
    def dtype(self) -> np.dtype[Any]:
        """What the rows are when they come to the processor."""
        return np.dtype(np.float64 if self.kind == FLOAT64 else np.float32)

    def __getitem__(self, which: slice) -> DeviceRows:
        first, last, _ = which.indices(len(self))
        moved = self.address + first * self.strides[0] * SIZES[self.kind]
        return replace(self, address=moved, shape=(max(last - first, 0), self.shape[1]))

    def described(self) -> Any:
        """The rows as kernels take them."""
        return RowsAtDevice(self.address, len(self), *self.strides, self.shape[1], self.kind)


def is_on_gpu(data: Any) -> bool:
    """Whether an array says that it is in a GPU's memory."""
    where = getattr(data, "__dlpack_device__", None)
    return callable(where) and not isinstance(data, np.ndarray) and int(where()[0]) in (CUDA, CUDA_MANAGED)


def device_rows(data: Any) -> DeviceRows:
    """The rows of an array on a GPU, once all work on it is done."""
    owner = device(int(data.__dlpack_device__()[1]))
    capsule = data.__dlpack__(stream=LEGACY_STREAM)
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(address(capsule, b"dltensor"))
    if tensor.ndim != 2:
        raise ValueError(f"expected a two-dimensional array, got {tensor.ndim} dimension(s)")
    if (tensor.code, tensor.bits) not in KINDS or tensor.lanes != 1:
        raise TypeError("rows on a GPU must be float16, bfloat16, float32 or float64: convert them there first")
    shape = (int(tensor.shape[0]), int(tensor.shape[1]))
    strides = (int(tensor.strides[0]), int(tensor.strides[1])) if tensor.strides else (shape[1], 1)
    start = (tensor.data or 0) + tensor.byte_offset
    owner.wait()  # for what the array's own streams have left to do
    # the capsule, which nobody takes over, frees what it borrowed when it is collected
    return DeviceRows(owner, start, KINDS[tensor.code, tensor.bits], shape, strides, (capsule, data))


def downloaded(rows: DeviceRows) -> NDArray[Any]:
    """The rows as an array of the processor: float32, or float64 if they are."""
    if min(rows.shape) == 0:
        return np.empty(rows.shape, rows.dtype)
    size = SIZES[rows.kind]
    reach = [(n - 1) * step for n, step in zip(rows.shape, rows.strides, strict=True)]
    first, last = sum(min(r, 0) for r in reach), sum(max(r, 0) for r in reach)
    raw = np.empty(last - first + 1, {2: np.uint16, 4: np.float32, 8: np.float64}[size])
    with rows.device.current():
        rows.device.stream.read(raw, rows.address + first * size)
    strides = (rows.strides[0] * size, rows.strides[1] * size)
    table = np.lib.stride_tricks.as_strided(raw[-first:], rows.shape, strides)
    if rows.kind == FLOAT16:
        return table.view(np.float16).astype(np.float32)
    return (table.astype(np.uint32) << 16).view(np.float32) if rows.kind == BFLOAT16 else np.ascontiguousarray(table)


def host_rows(rows: NDArray[Any], owner: Device, memory: Memory) -> DeviceRows:
    """Rows of the processor, float32 or float64 in C order, as they lie in a GPU's memory once they are copied."""
    kind = FLOAT64 if rows.dtype == np.float64 else FLOAT32
    return DeviceRows(owner, memory.address, kind, (rows.shape[0], rows.shape[1]), (rows.shape[1], 1), memory)


TILE_ROWS, TILE_BYTES = 128, 16
COLUMNS_PER_BLOCK = 64  # that one block centres
GROUPED_ROWS = 1024  # that a block finds the groups of
SCRATCH_BYTES = 256 << 20  # of centred rows at a time


def pieces(
    rows: DeviceRows, room: Room, bytes_each: int, bytes_beside: int = 0
) -> Iterator[tuple[int, DeviceRows, int]]:
    """Rows, as many at a time as there is room for: the number of the first, the rows, and the address of the room.

    The room has `bytes_each` for each row; `bytes_beside` are what each row needs elsewhere.
    """
    step = max(1, min(len(rows), SCRATCH_BYTES // max(1, bytes_each + bytes_beside)))
    address = room.of(step * bytes_each).address
    for first in range(0, len(rows), step):
        yield first, rows[first : first + step], address


def weights_from(weights: int | None, first: int) -> int | None:
    """The address of the weights from a row on."""
    return None if weights is None else weights + 8 * first


_CentreWork = structure(
    (RowsAtDevice, "rows"),
    (POINTER, "center"),
    (DOUBLE, "square"),
    (POINTER, "centred tiles groups places starts weights placed_weights first_bad"),
    (UINT64, "key"),
    (INT64, "stride"),
    (INT32, "n_groups columns_per_block"),
)


class Centring:
    """Subtracts a center, on a GPU; rows outside a radius make `bad` less than 2^64 - 1."""

    def __init__(self, owner: Device, center: NDArray[np.float32], radius: float, key: int, n_groups: int) -> None:
        self.device, self.n_features, self.n_groups = owner, len(center), n_groups
        self._center, self._square, self._key = owner.copy(center), radius * radius, key
        self._rooms: defaultdict[str, Room] = defaultdict(lambda: Room(owner))

    def pieces(
        self, rows: DeviceRows, weights: int | None, bad: int, stream: Stream
    ) -> Iterator[tuple[int, dict[str, int | None]]]:
        """Lets the stream centre the rows, as many at a time as there is room for.

        Gives the number of the first row, and fields of the kernels' argument: addresses, and how many tiles there are.
        """
        step = min(len(rows), TILE_ROWS * max(1, SCRATCH_BYTES // (4 * self.n_features * TILE_ROWS)))
        for first in range(0, len(rows), max(1, step)):
            own = rows[first : first + step]
            yield first, self._centred(own, weights_from(weights, first), step, bad, stream)

    def _centred(
        self, rows: DeviceRows, weights: int | None, most_rows: int, bad: int, stream: Stream
    ) -> dict[str, int | None]:
        count, grouped = len(rows), self.n_groups > 1
        n_tiles = -(-most_rows // TILE_ROWS) + self.n_groups if grouped else -(-count // TILE_ROWS)
        placed = n_tiles * TILE_ROWS
        sizes = {"centred": 4 * placed * self.n_features, "tiles": TILE_BYTES * n_tiles}
        if grouped:
            sizes |= {"groups": 4 * count, "places": 8 * count, "starts": 8 * self.n_groups}
        if weights is not None:
            sizes["placed_weights"] = 8 * placed
        work = _CentreWork(
            rows=rows.described(),
            center=self._center.address,
            square=self._square,
            **{name: self._rooms[name].of(size).address for name, size in sizes.items()},
            weights=weights,
            first_bad=bad,
            key=self._key,
            stride=placed,
            n_groups=self.n_groups,
            # a row's distance is added up in the order of its columns, by one block
            columns_per_block=self.n_features if math.isfinite(self._square) else COLUMNS_PER_BLOCK,
        )
        stream.fill(work.tiles, 0, sizes["tiles"])
        if grouped:
            by_row = (-(-count // GROUPED_ROWS), 1)
            stream.fill(work.starts, 0, sizes["starts"])
            self.device.launch("centre", "find_groups", by_row, 256, work, stream)
            self.device.launch("centre", "place_groups", (1, 1), 256, work, stream)
            self.device.launch("centre", "place_rows", by_row, 256, work, stream)
        slabs = -(-self.n_features // work.columns_per_block)
        self.device.launch("centre", "centre_rows", (-(-count // TILE_ROWS), slabs), 256, work, stream)
        addresses = {"rows": work.centred, "tiles": work.tiles, "weights": work.placed_weights}
        return {**addresses, "stride": placed, "n_tiles": n_tiles}


_ColumnsWork = structure((RowsAtDevice, "rows"), (POINTER, "which chosen"), (INT32, "n_chosen"))


class ChosenColumns:
    """Copies of some columns, in memory that is used again."""

    def __init__(self, owner: Device, which: Sequence[int]) -> None:
        self.device, self._n = owner, len(which)
        self._which, self._room = owner.copy(np.array(which, np.int64)), Room(owner)

    def pieces(self, rows: DeviceRows, stream: Stream) -> Iterator[tuple[int, DeviceRows]]:
        """Lets the stream copy them; as many rows at a time as there is room for, with the number of the first."""
        for first, own, chosen in pieces(rows, self._room, self._n * SIZES[rows.kind]):
            work = _ColumnsWork(rows=own.described(), which=self._which.address, chosen=chosen, n_chosen=self._n)
            blocks = -(-len(own) * self._n // 256)
            self.device.launch("columns", "choose_columns", (blocks, 1), 256, work, stream)
            yield first, DeviceRows(self.device, chosen, rows.kind, (len(own), self._n), (self._n, 1), self._room)


class DevicePlan(Protocol):
    """What computes an operator's integers on a GPU."""

    @property
    def sees_all_columns(self) -> bool:
        """Whether a value that is missing in any column makes bad less than 2^64 - 1."""

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        """Lets the stream add the integers of rows to sums; a row outside the domain makes bad less than 2^64 - 1.

        `weights`, `sums` and `bad` are addresses on the device.
        """


class ColumnsPlan:
    """What another plan makes of some columns."""

    sees_all_columns = False

    def __init__(self, owner: Device, which: Sequence[int], inner: DevicePlan) -> None:
        self._columns, self._inner = ChosenColumns(owner, which), inner

    def add(self, rows: DeviceRows, weights: int | None, sums: int, bad: int, stream: Stream) -> None:
        for first, piece in self._columns.pieces(rows, stream):
            self._inner.add(piece, weights_from(weights, first), sums, bad, stream)


KeepWork = structure(
    (RowsAtDevice, "rows"),
    (POINTER, "center scale certain found n_found gathered"),
    (UINT64, "key"),
    (DOUBLE, "below"),
    (INT64, "room"),
    (INT32, "n_certain"),
)


def gathered(rows: DeviceRows, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """Some rows, as float64."""
    owner, found = rows.device, rows.device.copy(which.astype(np.int64))
    out = np.empty((len(which), rows.shape[1]))
    if out.size:
        space = Memory(out.nbytes, owner)
        work = KeepWork(rows=rows.described(), found=found.address, gathered=space.address, room=len(which))
        with owner.current():
            owner.launch("keeping", "gather_rows", (-(-out.size // 256), 1), 256, work, owner.stream)
            owner.stream.read(out, space.address)
    return out
