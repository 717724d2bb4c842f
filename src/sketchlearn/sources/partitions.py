"""Columns that are in the names of folders: year=2024/month=01/part.parquet, as Hive, Spark and pandas write them."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from sketchlearn.sources.arrow import pyarrow
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.csv_layout import NUMBER
from sketchlearn.sources.tables import Columns, Table

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


def partitioned(table: Table, path: Path) -> Table:
    """The table of a file with the columns that the folders of its path name, after its own."""
    parts = [part.partition("=") for part in path.parent.parts]
    found = {unquote(name): unquote(value) for name, equal, value in parts if equal and name}
    more = {name: value for name, value in found.items() if name not in (table.names or ())}
    return Partitioned(table, more) if more and table.names else table


class Partitioned(Table):
    """A table with further columns of one value each."""

    def __init__(self, table: Table, values: dict[str, str]) -> None:
        assert table.names is not None
        self.table, self.values = table, list(values.values())
        self.names, self.n_columns = (*table.names, *values), table.n_columns + len(values)
        self.n_rows, self.n_bytes, self.replayable = table.n_rows, table.n_bytes, table.replayable
        self.place, self.immutable, self.decimal = table.place, table.immutable, table.decimal
        told = f"columns from the names of folders: {', '.join(values)}"
        self.remark = f"{table.remark}; {told}" if table.remark else told

    @property
    def bytes_read(self) -> int:  # type: ignore[override]
        """How many bytes of the file the last pass has read."""
        return self.table.bytes_read

    def not_numbers(self, position: int) -> tuple[str, str] | None:
        if position < self.table.n_columns:
            return self.table.not_numbers(position)
        value = self.values[position - self.table.n_columns]
        if value == NO_VALUE or NUMBER.fullmatch(value):
            return None
        return "text (the name of a folder)", "encode it with a schema (skl.schema)"

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        for rows in self.table.chunks(self._own(chosen), n_rows):
            yield self._with_values(rows, chosen)

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        own = self._own(chosen) or (0,)  # one that tells how many rows there are
        return (self._with_raw_values(raw, chosen) for raw in self.table.raw_chunks(own, n_rows))

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        raw = self.table.raw_some(self._own(chosen) or (0,), n_rows, rng)
        return None if raw is None else self._with_raw_values(raw, chosen)

    def _with_raw_values(self, raw: dict[str, Any], chosen: Columns) -> dict[str, Any]:
        pa = pyarrow("folders' names")
        length = len(next(iter(raw.values())))
        told = {
            (self.names or ())[i]: self.values[i - self.table.n_columns] for i in chosen if i >= self.table.n_columns
        }
        scalars = {name: pa.scalar(None if told[name] == NO_VALUE else told[name], pa.string()) for name in told}
        return {**raw, **{name: pa.repeat(value, length) for name, value in scalars.items()}}

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        rows = self.table.some(self._own(chosen), n_rows, rng)
        return None if rows is None else self._with_values(rows, chosen)

    def _own(self, chosen: Columns) -> Columns:
        return tuple(position for position in chosen if position < self.table.n_columns)

    def _with_values(self, rows: Floats, chosen: Columns) -> Floats:
        if rows.shape[1] == len(chosen):
            return rows
        wide, done = np.empty((len(rows), len(chosen))), 0
        for i, position in enumerate(chosen):
            if position < self.table.n_columns:
                wide[:, i], done = rows[:, done], done + 1
            else:
                value = self.values[position - self.table.n_columns]
                wide[:, i] = np.nan if value == NO_VALUE else float(value)
        return wide
