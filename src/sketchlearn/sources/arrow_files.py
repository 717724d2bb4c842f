"""Files that pyarrow reads: what they share, and those of Arrow's own format."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sketchlearn.sources.arrow import Arrow, pyarrow
from sketchlearn.sources.source_base import reading

INDEXED_MAGIC = b"ARROW1"  # The first bytes of an Arrow file with an index; a stream begins otherwise.


class ArrowFile(Arrow):
    """A file that gives record batches: it is streamed, and its errors name it."""

    def __init__(self, path: Path, schema: Any, n_rows: int | None = None) -> None:
        super().__init__(schema, self._named, n_rows=n_rows)
        self.path, self.place, self.n_bytes = path, str(path), path.stat().st_size

    def _named(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with reading(self.path):
            yield from self._batches(names, n_rows)

    @abstractmethod
    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        """The file's batches, of at least these columns."""


class Ipc(ArrowFile):
    """A file of Arrow's own format: with an index (also called Feather), or a stream."""

    def __init__(self, path: Path) -> None:
        ipc = pyarrow(str(path), "pyarrow.ipc")
        with reading(path), path.open("rb") as file:
            self.indexed = file.read(len(INDEXED_MAGIC)) == INDEXED_MAGIC
            file.seek(0)
            reader = ipc.open_file(file) if self.indexed else ipc.open_stream(file)
            super().__init__(path, reader.schema)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:  # noqa: ARG002
        from pyarrow import OSFile, ipc

        # not memory-mapped: a file that is cut short while it is mapped ends the process
        with OSFile(str(self.path)) as file:
            if self.indexed:
                reader = ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from ipc.open_stream(file)
