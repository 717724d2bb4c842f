"""Parquet files, of which the needed columns are decoded a block at a time."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.arrow import floats_of, pyarrow
from sketchlearn.sources.arrow_files import ArrowFile
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.source_base import reading
from sketchlearn.sources.tables import Columns, picked

MOST_SAMPLED_GROUPS = 16  # A sample reads no more row groups than this.
SAMPLE_BATCH_ROWS = 1 << 14  # Rows that are decoded at a time for a sample.


class Parquet(ArrowFile):
    """A Parquet file."""

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
        with reading(self.path), self._open(self.path) as file:
            for group, drawn in enumerate(_drawn(self.group_rows, n_rows, rng)):
                if drawn:
                    which = rng.choice(self.group_rows[group], drawn, replace=False)
                    batches = file.iter_batches(batch_size=SAMPLE_BATCH_ROWS, row_groups=[group], columns=names)
                    parts.append(picked((floats_of(batch, names, kind) for batch in batches), which))
        return np.concatenate(parts)


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
