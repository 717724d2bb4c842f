"""Rows of a GPU that may be kept beside a sketch: a few of many, which then come to the processor."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu.device_rows import DeviceRows, RowsAtDevice, downloaded
from sketchlearn.gpu.driver import Device, Memory

ROOM = 1 << 16  # rows that are looked for at a time; where there are more, all come


class _KeepWork(ctypes.Structure):
    _fields_ = (
        ("rows", RowsAtDevice),
        ("center", ctypes.c_void_p),
        ("scale", ctypes.c_void_p),
        ("certain", ctypes.c_void_p),
        ("found", ctypes.c_void_p),
        ("n_found", ctypes.c_void_p),
        ("gathered", ctypes.c_void_p),
        ("key", ctypes.c_uint64),
        ("below", ctypes.c_double),
        ("room", ctypes.c_int64),
        ("n_certain", ctypes.c_int32),
    )


def gathered(rows: DeviceRows, which: NDArray[np.int64]) -> NDArray[np.float64]:
    """Some rows, as float64."""
    owner, found = rows.device, rows.device.copy(which.astype(np.int64))
    out = np.empty((len(which), rows.shape[1]))
    if out.size:
        space = Memory(out.nbytes, owner)
        work = _KeepWork(rows=rows.described(), found=found.address, gathered=space.address, room=len(which))
        with owner.current():
            owner.launch("keeping", "gather_rows", (-(-out.size // 256), 1), 256, work, owner.stream)
            owner.stream.download(out.ctypes.data, space.address, out.nbytes)
            owner.stream.wait()
    return out


class Search:
    """A rule of kept rows, on a GPU."""

    def __init__(self, owner: Device, center: Any, scale: Any, key: int, certain: NDArray[np.uint64]) -> None:
        self._owner, self._key, self._n_certain = owner, key, len(certain)
        self._center, self._scale = owner.copy(np.array(center, float)), owner.copy(np.array(scale, float))
        self._certain, self._found = owner.copy(certain), Memory(8 * ROOM + 8, owner)

    def candidates(self, rows: DeviceRows, below: float) -> tuple[NDArray[Any], NDArray[np.int64] | None]:
        """The rows of a priority below a limit, and their numbers; all rows, and None, where they are too many."""
        if len(rows) <= ROOM // 8 or below == np.inf:
            return downloaded(rows), None
        count = np.zeros(1, np.int64)
        work = _KeepWork(
            rows=rows.described(),
            center=self._center.address,
            scale=self._scale.address,
            certain=self._certain.address,
            found=self._found.address + 8,
            n_found=self._found.address,
            key=self._key,
            below=below,
            room=ROOM,
            n_certain=self._n_certain,
        )
        stream = self._owner.stream
        with self._owner.current():
            stream.fill(self._found.address, 0, 8)
            self._owner.launch("keeping", "find_candidates", (-(-len(rows) // 256), 1), 256, work, stream)
            stream.download(count.ctypes.data, self._found.address, 8)
            stream.wait()
            if count[0] > ROOM:
                return downloaded(rows), None
            which = np.empty(int(count[0]), np.int64)
            if len(which):
                stream.download(which.ctypes.data, self._found.address + 8, which.nbytes)
                stream.wait()
        which.sort()
        return gathered(rows, which), which
