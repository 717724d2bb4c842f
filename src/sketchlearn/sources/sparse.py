"""SciPy's sparse matrices and arrays, made dense block by block."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from sketchlearn.sources.arrays import as_rows
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.table_base import Columns, Table


class Sparse(Table):
    """A sparse matrix in any format; formats that cannot be cut into rows are converted once."""

    def __init__(self, data: Any) -> None:
        if len(data.shape) != 2:
            raise ValueError(f"expected a two-dimensional array of rows, got {len(data.shape)} dimension(s)")
        if data.dtype.kind not in "fiub":
            raise TypeError(f"rows must be numbers, not {data.dtype}: convert them")
        self.matrix = data.tocsr()
        self.n_rows, self.n_columns = self.matrix.shape

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        for first in range(0, self.matrix.shape[0], n_rows):
            yield self._dense(slice(first, first + n_rows), chosen)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        total = self.matrix.shape[0]
        return self._dense(np.sort(rng.choice(total, min(n_rows, total), replace=False)), chosen)

    def _dense(self, which: Any, chosen: Columns) -> Floats:
        part = self.matrix[which]
        if chosen != tuple(range(self.n_columns)):
            part = part[:, list(chosen)]
        return as_rows(np.asarray(part.toarray()))


def is_sparse(data: Any) -> bool:
    """Whether it is a sparse matrix or array of SciPy."""
    return hasattr(data, "tocsr") and hasattr(data, "toarray") and hasattr(data, "shape")
