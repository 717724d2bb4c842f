"""Files that are read as a stream of bytes, compressed or not."""

from __future__ import annotations

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from sketchlearn.sources.tables import Table

CODECS = {".gz": "gzip", ".bz2": "bz2", ".zst": "zstd"}  # the names that pyarrow has for them


def is_compressed(path: Path) -> bool:
    """Whether the end of its name says that a file is compressed."""
    return path.suffix.lower() in CODECS


@contextmanager
def decompressed(path: Path, table: Table | None = None) -> Iterator[Any]:
    """The bytes of a file as pyarrow reads them; a table is told how far its file was read."""
    from pyarrow import CompressedInputStream, PythonFile

    with _CountedFile(path, table) as file, PythonFile(file, mode="r") as stream:
        yield CompressedInputStream(stream, CODECS[path.suffix.lower()]) if is_compressed(path) else stream


class _CountedFile(io.BufferedReader):
    """A file that tells its table how far it was read."""

    def __init__(self, path: Path, table: Table | None) -> None:
        super().__init__(io.FileIO(path))
        self.table = table

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        if self.table is not None:
            self.table.bytes_read += len(found)
        return found
