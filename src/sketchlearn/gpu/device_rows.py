"""Rows in a GPU's memory: whose they are does not matter, as long as they say where they lie (DLPack)."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.driver import Device, Pointer, Stream, device

CUDA, CUDA_HOST, CUDA_MANAGED = 2, 3, 13  # kinds of memory, as DLPack counts them
#: kinds of numbers (DLPack's code, bits), in the order of centre.cu's Kind
KINDS = {(2, 16): 0, (4, 16): 1, (2, 32): 2, (2, 64): 3}
SIZES = (2, 2, 4, 8)


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
        return np.dtype(np.float64 if self.kind == 3 else np.float32)

    def __getitem__(self, which: slice) -> DeviceRows:
        first, last, _ = which.indices(len(self))
        moved = self.address + first * self.strides[0] * SIZES[self.kind]
        return replace(self, address=moved, shape=(max(last - first, 0), self.shape[1]))


def is_on_gpu(data: Any) -> bool:
    """Whether an array says that it is in a GPU's memory."""
    where = getattr(data, "__dlpack_device__", None)
    return callable(where) and not isinstance(data, np.ndarray) and int(where()[0]) in (CUDA, CUDA_MANAGED)


def device_rows(data: Any, stream_of: Any) -> DeviceRows:
    """The rows of an array on a GPU, once all work on it is done; `stream_of` gives a device's stream."""
    owner = device(int(data.__dlpack_device__()[1]))
    stream: Stream = stream_of(owner)
    capsule = data.__dlpack__(stream=stream.handle.value)
    address = ctypes.pythonapi.PyCapsule_GetPointer
    address.restype, address.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
    tensor = _Tensor.from_address(address(capsule, b"dltensor"))
    if tensor.ndim != 2:
        raise ValueError(f"the data must have rows and columns, but the array on the GPU has {tensor.ndim} axes")
    if (tensor.code, tensor.bits) not in KINDS or tensor.lanes != 1:
        raise ValueError("rows on a GPU must be float16, bfloat16, float32 or float64: convert them there first")
    shape = (int(tensor.shape[0]), int(tensor.shape[1]))
    strides = (int(tensor.strides[0]), int(tensor.strides[1])) if tensor.strides else (shape[1], 1)
    start = (tensor.data or 0) + tensor.byte_offset
    # the capsule, which is not consumed, frees what it borrowed when it is collected
    return DeviceRows(owner, start, KINDS[tensor.code, tensor.bits], shape, strides, (capsule, data))


def downloaded(rows: DeviceRows, stream: Stream) -> NDArray[Any]:
    """The rows as an array of the processor."""
    size = SIZES[rows.kind]
    span = (len(rows) - 1) * rows.strides[0] + (rows.shape[1] - 1) * rows.strides[1] + 1 if len(rows) else 0
    raw = np.empty(span, {2: np.uint16, 4: np.float32, 8: np.float64}[size])
    if span:
        stream.download(raw.ctypes.data, rows.address, span * size)
        stream.wait()
    strides = (rows.strides[0] * size, rows.strides[1] * size)
    table = np.lib.stride_tricks.as_strided(raw, rows.shape, strides)
    if rows.kind == 0:
        table = table.view(np.float16)
    elif rows.kind == 1:
        table = (table.astype(np.uint32) << 16).view(np.float32)
    return np.ascontiguousarray(table, rows.dtype)


__all__ = ["DeviceRows", "Pointer", "device_rows", "downloaded", "is_on_gpu"]
