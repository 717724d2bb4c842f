"""A source of one table."""

from __future__ import annotations

import operator
from collections.abc import Iterator, Sequence
from contextlib import closing
from typing import Any

import numpy as np

from sketchlearn.sources.blocks import Block, Floats, gathered, one_ahead, rows_per_block
from sketchlearn.sources.source_base import Source, by_name, check_width, in_order, listed
from sketchlearn.sources.table_base import Columns, Table


class Tabular(Source):
    """The rows of one table, of all columns or of chosen ones."""

    def __init__(self, table: Table, chosen: Columns, nulls: str = "error") -> None:
        self.table, self.chosen, self.nulls = table, chosen, nulls
        names = table.names
        self.columns = None if names is None else tuple(names[i] for i in chosen)
        self.n_rows, self.n_bytes, self.replayable = table.n_rows, table.n_bytes, table.replayable
        self.width, self.place = len(chosen), table.place

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        self.dropped = self.bytes_read = 0
        arrays = self.arrays(n_features)
        if self.table.immutable:
            arrays = one_ahead(arrays)
        with closing(arrays):  # type: ignore[type-var]
            for block in self._accepted(arrays, 0, self.table.place):
                self.bytes_read = self._bytes_upto(block.end)
                yield block
        self.bytes_read = self.n_bytes or 0

    def arrays(self, n_features: int | None = None) -> Iterator[Floats]:
        """The rows in arrays of bounded size, missing values as NaN."""
        yield from gathered(self.chunks(n_features), len(self.chosen))

    def chunks(self, n_features: int | None = None) -> Iterator[Floats]:
        """The rows as the table gives them, missing values as NaN."""
        self.check(n_features)
        if self.chosen:
            yield from self.table.chunks(self.chosen, rows_per_block(len(self.chosen)))

    def check(self, n_features: int | None = None) -> None:
        """Refuses the columns before any row is read."""
        check_width(len(self.chosen), n_features)
        self.table.check(self.chosen)

    def only(self, columns: tuple[str, ...]) -> Source:
        if self.columns is None:
            return self
        positions = in_order(self.columns, columns, self.table.place)
        return Tabular(self.table, tuple(self.chosen[i] for i in positions), self.nulls)

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats | None:
        self.check()
        return self.table.some(self.chosen, n_rows, rng)

    def _bytes_upto(self, row: int) -> int:
        if self.n_bytes is None or not self.n_rows:
            return self.table.bytes_read
        return self.n_bytes * row // self.n_rows


def tabular(table: Table, columns: Sequence[Any] | None, nulls: str) -> Tabular:
    """A source of a table, of the columns that are asked for: names, or positions where there are no names."""
    if table.names is not None and len(set(table.names)) < len(table.names):
        twice = next(name for i, name in enumerate(table.names) if name in table.names[:i])
        raise ValueError(f"{table.place or 'the table'} has two columns {twice!r}: rename one of them")
    return Tabular(table, _chosen(table, columns), nulls)


def _chosen(table: Table, columns: Sequence[Any] | None) -> Columns:
    if columns is None:
        return tuple(range(table.n_columns))
    if len(set(columns)) < len(columns):
        raise ValueError(f"columns must be different ones, not {listed(columns)}")
    if table.names is not None and all(isinstance(name, str) for name in columns):
        return by_name(table.names, columns, table.place)
    try:
        positions = tuple(operator.index(position) for position in columns)
    except TypeError:
        raise ValueError(
            f"{table.place or 'the table'} has no names of columns: choose them by position, as columns=[0, 2]"
            if table.names is None
            else f"columns must be names or positions, not {listed(columns)}"
        ) from None
    for position in positions:
        if not 0 <= position < table.n_columns:
            raise ValueError(f"there is no column {position}: the columns are 0 to {table.n_columns - 1}")
    return positions
