"""Rows and their targets, side by side."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.blocks import Block, Floats, rows_per_block
from sketchlearn.sources.source_base import Source, check_width


class Beside(Source):
    """The columns of two arrays of equally many rows, put together block by block.

    >>> rows = Beside(np.zeros((3, 2)), np.ones((3, 1)))
    >>> [block.rows.tolist() for block in rows.blocks()]
    [[[0.0, 0.0, 1.0], [0.0, 0.0, 1.0], [0.0, 0.0, 1.0]]]
    """

    def __init__(self, left: NDArray[Any], right: NDArray[Any]) -> None:
        self.left, self.right = left, right
        self.n_rows, self.width = len(left), left.shape[1] + right.shape[1]

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        check_width(self.width or 0, n_features)
        step = rows_per_block(self.width or 0)
        arrays = (
            np.column_stack([self.left[first : first + step], self.right[first : first + step]])
            for first in range(0, len(self.left), step)
        )
        yield from self._accepted(arrays)

    def only(self, columns: tuple[str, ...]) -> Source:  # noqa: ARG002
        return self

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats:
        total = len(self.left)
        which = np.sort(rng.choice(total, min(n_rows, total), replace=False))
        return np.column_stack([self.left[which], self.right[which]])
