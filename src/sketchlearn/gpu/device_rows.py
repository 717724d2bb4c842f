"""Rows in a GPU's memory: whose they are does not matter, as long as they say where they lie (DLPack)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.driver import Device, Memory, device

CUDA, CUDA_MANAGED = 2, 13  # kinds of memory, as DLPack counts them
#: kinds of numbers by DLPack's code and bits, in the order of rows_at_device.h
FLOAT16, BFLOAT16, FLOAT32, FLOAT64 = range(4)
KINDS = {(2, 16): FLOAT16, (4, 16): BFLOAT16, (2, 32): FLOAT32, (2, 64): FLOAT64}
SIZES = (2, 2, 4, 8)
LEGACY_STREAM = 1  # DLPack's word for the stream that waits for all others


class _Tensor(ctypes.Structure):
    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_kind", ctypes.c_int32),
        ("device_number", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
        ("shape", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("byte_offset", ctypes.c_uint64),
    )


class RowsAtDevice(ctypes.Structure):
    """Rows in a GPU's memory: as in _native/gpu/rows_at_device.h."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("count", ctypes.c_int64),
        ("row_stride", ctypes.c_int64),
        ("column_stride", ctypes.c_int64),
        ("n_features", ctypes.c_int32),
        ("kind", ctypes.c_int32),
    )


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

    def described(self) -> RowsAtDevice:
        """The rows, as the kernels are told of them."""
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
        rows.device.stream.download(raw.ctypes.data, rows.address + first * size, raw.nbytes)
        rows.device.stream.wait()
    strides = (rows.strides[0] * size, rows.strides[1] * size)
    table = np.lib.stride_tricks.as_strided(raw[-first:], rows.shape, strides)
    if rows.kind == FLOAT16:
        return table.view(np.float16).astype(np.float32)
    return (table.astype(np.uint32) << 16).view(np.float32) if rows.kind == BFLOAT16 else np.ascontiguousarray(table)


def host_rows(rows: NDArray[Any], owner: Device, memory: Memory) -> DeviceRows:
    """Rows of the processor, float32 or float64 in C order, as they lie in a GPU's memory once they are copied."""
    kind = FLOAT64 if rows.dtype == np.float64 else FLOAT32
    return DeviceRows(owner, memory.address, kind, (rows.shape[0], rows.shape[1]), (rows.shape[1], 1), memory)
