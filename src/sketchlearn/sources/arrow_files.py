"""Files that pyarrow reads, a block at a time: those of Parquet and of Arrow's own format."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.arrow import Arrow, floats_of, picked_batches, pyarrow, raw_columns
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.source_base import reading
from sketchlearn.sources.tables import Columns, picked

INDEXED_MAGIC = b"ARROW1"  # The first bytes of an Arrow file with an index; a stream begins otherwise.
MOST_SAMPLED_GROUPS = 16  # A sample reads no more row groups than this.
READ_WHOLE_BYTES = 1 << 23  # Files up to this size are read to the end for a sample with a schema: in no time.
SAMPLE_BATCH_ROWS = 1 << 14  # Rows that are decoded at a time for a sample.


class ArrowFile(Arrow):
    """A file that gives record batches: it is streamed, and its errors name it."""

    def __init__(self, path: Path, schema: Any, n_rows: int | None = None) -> None:
        super().__init__(schema, self._named, n_rows=n_rows)
        self.path, self.place, self.n_bytes = path, str(path), path.stat().st_size

    def twin(self) -> Self:
        """A copy that is read by itself."""
        other = copy.copy(self)
        other.open_batches = other._named
        return other

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


class Parquet(ArrowFile):
    """A Parquet file, of which only the needed columns are decoded."""

    def __init__(self, path: Path) -> None:
        with reading(path), self._open(path) as file:
            super().__init__(path, file.schema_arrow, file.metadata.num_rows)
            groups = range(file.metadata.num_row_groups)
            self.group_rows = np.array([file.metadata.row_group(i).num_rows for i in groups], np.int64)

    @staticmethod
    def _open(path: Path) -> Any:
        parquet = pyarrow(str(path), "pyarrow.parquet")
        # one row group may hold the whole file: with a buffer, its pages are read as they are needed
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with self._open(self.path) as file:
            yield from file.iter_batches(batch_size=n_rows, columns=names)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        names, kind = [self.fields[i] for i in chosen], self.row_type(chosen)
        parts: list[Floats] = [np.empty((0, len(names)), kind)]
        for batches, which in self._drawn_groups(names, n_rows, rng):
            parts.append(picked((floats_of(batch, names, kind) for batch in batches), which))
        return np.concatenate(parts)

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        if (self.n_bytes or 0) <= READ_WHOLE_BYTES:
            return None
        names = [self.fields[i] for i in chosen]
        drawn = (picked_batches(batches, np.sort(which)) for batches, which in self._drawn_groups(names, n_rows, rng))
        return raw_columns(chain.from_iterable(drawn), names)

    def _drawn_groups(
        self, names: list[str], n_rows: int, rng: np.random.Generator
    ) -> Iterator[tuple[Iterator[Any], NDArray[np.int64]]]:
        """The batches of some row groups, each with the positions of the rows that are drawn from it."""
        with reading(self.path), self._open(self.path) as file:
            for group, drawn in enumerate(_drawn(self.group_rows, n_rows, rng)):
                if drawn:
                    which = rng.choice(self.group_rows[group], drawn, replace=False)
                    batches = file.iter_batches(batch_size=SAMPLE_BATCH_ROWS, row_groups=[group], columns=names)
                    yield batches, which


def _drawn(sizes: NDArray[np.int64], n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many rows to draw of each row group: in proportion to its size, from a few groups of many."""
    if sizes.sum() <= n_rows:
        return sizes
    groups = np.arange(len(sizes))
    if len(sizes) > MOST_SAMPLED_GROUPS:
        groups = rng.choice(len(sizes), MOST_SAMPLED_GROUPS, replace=False)
    shares = -(-sizes[groups] * n_rows // sizes[groups].sum())
    drawn = np.zeros_like(sizes)
    drawn[groups] = np.minimum(shares, sizes[groups])
    return drawn
