"""Files of Arrow's own format: with an index (also called Feather), or a stream."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from sketchlearn.sources.arrow import pyarrow
from sketchlearn.sources.arrow_files import ArrowFile, reading

INDEXED = b"ARROW1"


class Ipc(ArrowFile):
    """An Arrow file of either kind, told by its first bytes."""

    def __init__(self, path: Path) -> None:
        ipc = pyarrow(str(path), "pyarrow.ipc")
        with reading(path), path.open("rb") as file:
            self.indexed = file.read(len(INDEXED)) == INDEXED
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
