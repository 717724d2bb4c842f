"""The driver of NVIDIA's cards: found at run time, called without a compiler or a toolkit.

The environment variable SKETCHLEARN_CUDA names another file than the system's libcuda.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from importlib import resources
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.messages import warn_caller

OUT_OF_MEMORY, UNSUPPORTED_PTX = 2, 222
NONE_BAD = 2**64 - 1  # what kernels leave where they refuse no row
SMALLEST_VERSION = 12010  # of the driver: it reads PTX 8.1
MULTIPROCESSORS = 16  # the attribute that says how many a card has
LIBRARY = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"

Pointer = ctypes.c_void_p
Size = ctypes.c_size_t


class DeviceError(RuntimeError):
    """A GPU is not available, or an operation on it failed."""


class Driver:
    """The functions of the driver's library; one that fails is an error in a sentence."""

    def __init__(self) -> None:
        try:
            self._library = ctypes.CDLL(os.environ.get("SKETCHLEARN_CUDA", LIBRARY))
        except OSError:
            raise DeviceError("there is no GPU here that sketchlearn can use: no NVIDIA driver is installed") from None
        try:
            self.call("cuInit", ctypes.c_uint(0))
        except DeviceError as error:
            raise DeviceError(f"the NVIDIA driver does not start: {error}") from None
        version = ctypes.c_int()
        self.call("cuDriverGetVersion", ctypes.byref(version))
        if version.value < SMALLEST_VERSION:
            found = f"{version.value // 1000}.{version.value % 1000 // 10}"
            raise DeviceError(f"the NVIDIA driver is for CUDA {found}, and 12.1 is needed: update the driver")

    def call(self, name: str, *arguments: Any) -> None:
        try:
            code = getattr(self._library, name)(*arguments)
        except AttributeError:
            raise DeviceError(f"the NVIDIA driver lacks {name}: update it") from None
        if code == OUT_OF_MEMORY:
            raise DeviceError("the GPU's memory is full: free some of it, or use the processor")
        if code == UNSUPPORTED_PTX:
            raise DeviceError("the NVIDIA driver is too old for these kernels: update it, or use the processor")
        if code:
            text = ctypes.c_char_p()
            self._library.cuGetErrorString(code, ctypes.byref(text))
            reason = (text.value or b"unknown reason").decode(errors="replace")
            raise DeviceError(f"the GPU failed in {name}: {reason} (error {code})")

    @property
    def n_devices(self) -> int:
        count = ctypes.c_int()
        self.call("cuDeviceGetCount", ctypes.byref(count))
        return count.value


@cache
def driver() -> Driver:
    return Driver()


class Device:
    """One GPU: its memory, streams and kernels. Shares its context with torch, CuPy and JAX."""

    def __init__(self, number: int) -> None:
        self.number, self.call, there = number, driver().call, driver().n_devices
        if not 0 <= number < there:
            known = "there is none" if there == 0 else f"there are {there}, counted from 0"
            raise DeviceError(f"there is no GPU number {number}: {known}")
        handle, self._context = ctypes.c_int(), Pointer()
        self.call("cuDeviceGet", ctypes.byref(handle), ctypes.c_int(number))
        self.call("cuDevicePrimaryCtxRetain", ctypes.byref(self._context), handle)
        name, count = ctypes.create_string_buffer(256), ctypes.c_int()
        self.call("cuDeviceGetName", name, 256, handle)
        self.call("cuDeviceGetAttribute", ctypes.byref(count), MULTIPROCESSORS, handle)
        self.name, self.multiprocessors = name.value.decode(errors="replace"), count.value
        self.stream = Stream(self)
        self._modules: dict[str, Pointer] = {}
        self._functions: dict[tuple[str, str], Pointer] = {}
        self._lock = threading.Lock()

    @contextmanager
    def current(self) -> Iterator[None]:
        """Makes this the device that memory, streams and kernels are of, in this thread."""
        self.call("cuCtxPushCurrent_v2", self._context)
        try:
            yield
        finally:
            self.call("cuCtxPopCurrent_v2", ctypes.byref(Pointer()))

    def _kernel(self, unit: str, name: str) -> Pointer:
        # the driver compiles a file when it is first asked for
        with self._lock:
            if unit not in self._modules:
                text = (resources.files("sketchlearn.kernels.gpu") / "ptx" / f"{unit}.ptx").read_bytes()
                module = Pointer()
                self.call("cuModuleLoadData", ctypes.byref(module), ctypes.c_char_p(text))
                self._modules[unit] = module
            if (unit, name) not in self._functions:
                function = Pointer()
                self.call("cuModuleGetFunction", ctypes.byref(function), self._modules[unit], name.encode())
                self._functions[unit, name] = function
            return self._functions[unit, name]

    def launch(
        self, unit: str, name: str, grid: tuple[int, int], threads: int, work: ctypes.Structure, stream: Stream
    ) -> None:
        """Starts a kernel of one of the PTX files, whose only argument is a structure."""
        arguments = (Pointer * 1)(ctypes.addressof(work))
        shape = (*grid, 1, threads, 1, 1)
        self.call("cuLaunchKernel", self._kernel(unit, name), *shape, 0, stream.handle, arguments, None)

    def wait(self) -> None:
        """Waits for all work of the device, that of other libraries included."""
        with self.current():
            self.call("cuCtxSynchronize")

    def copy(self, array: NDArray[Any]) -> Memory:
        """An array's bytes in this GPU's memory."""
        array = np.ascontiguousarray(array)
        memory = Memory(array.nbytes, self)
        if array.nbytes:
            with self.current():
                self.stream.upload(memory.address, array.ctypes.data, array.nbytes)
                self.stream.wait()
        return memory


@cache
def device(number: int = 0) -> Device:
    """The GPU of this number, made ready once."""
    return Device(number)


def devices(wanted: Any) -> list[Device]:
    """The GPUs that "cuda" (all), "cuda:1" (one) or "auto" (all, or none with a warning) means; none for "cpu" or None.

    >>> devices("cpu")
    []
    """
    if wanted is None or wanted == "cpu":
        return []
    found = re.fullmatch(r"cuda(?::(\d{1,3}))?|auto", wanted) if isinstance(wanted, str) else None
    if found is None:
        known = '"cpu", "cuda", "cuda:0" and so on, or "auto"'
        raise InvalidValueError(f"must be {known}, not {wanted!r}", parameter="device")
    try:
        if found[1]:
            return [device(int(found[1]))]
        return [device(number) for number in range(driver().n_devices)] or [device(0)]
    except DeviceError as error:
        if wanted != "auto":
            raise
        warn_caller(f"{error}; continuing on the processor")
        return []


class Memory:
    """Bytes on a device, freed when no reference is left."""

    def __init__(self, size: int, owner: Device) -> None:
        self.size, self._owner, self._address = size, owner, Pointer()
        if size:
            with owner.current():
                owner.call("cuMemAlloc_v2", ctypes.byref(self._address), Size(size))

    @property
    def address(self) -> int:
        return self._address.value or 0

    def __del__(self) -> None:
        if getattr(self, "_address", None) and not sys.is_finalizing():
            with self._owner.current():
                self._owner.call("cuMemFree_v2", self._address)


class Room:
    """Memory that is reused, and grows: the old memory is freed before more is allocated."""

    def __init__(self, owner: Device) -> None:
        self._owner, self._held = owner, Memory(0, owner)

    def of(self, size: int) -> Memory:
        """Memory of at least this size; its earlier content is lost."""
        if self._held.size < size:
            self._held = Memory(0, self._owner)
            self._held = Memory(size, self._owner)
        return self._held


class Stream:
    """Work of a device that is done in order."""

    def __init__(self, owner: Device) -> None:
        self.handle, self._owner = Pointer(), owner
        with owner.current():
            owner.call("cuStreamCreate", ctypes.byref(self.handle), ctypes.c_uint(1))

    def wait(self) -> None:
        """Waits until all is done."""
        self._owner.call("cuStreamSynchronize", self.handle)

    def upload(self, to: int, source: Any, size: int) -> None:
        """Copies bytes from the address of pinned (or any) host memory."""
        self._owner.call("cuMemcpyHtoDAsync_v2", Pointer(to), Pointer(source), Size(size), self.handle)

    def read(self, to: NDArray[Any], source: int) -> None:
        """Fills an array from an address on the device, once all earlier work is done."""
        bytes_read = Pointer(to.ctypes.data), Pointer(source), Size(to.nbytes)
        self._owner.call("cuMemcpyDtoHAsync_v2", *bytes_read, self.handle)
        self.wait()

    def fill(self, to: int, byte: int, size: int) -> None:
        if size:
            self._owner.call("cuMemsetD8Async", Pointer(to), ctypes.c_ubyte(byte), Size(size), self.handle)

    def __del__(self) -> None:
        if getattr(self, "handle", None) and not sys.is_finalizing():
            with self._owner.current():
                self._owner.call("cuStreamDestroy_v2", self.handle)
