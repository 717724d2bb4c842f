"""The column of `--id`, read beside the rows: what it holds goes to the output as it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from pathlib import Path
from typing import Any

from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.input_output import STANDARD
from sketchlearn.sources.arrow import pyarrow
from sketchlearn.sources.csv_layout import Dialect
from sketchlearn.sources.paths import read_file
from sketchlearn.sources.source_base import listed

ROWS_AT_A_TIME = 1 << 16
WHOLE_NUMBER = r"^(0|-?[1-9][0-9]{0,17})$"  # which is written again as it was read, unlike 007


class RowIds:
    """The ids of the rows of files, in their order.

    Those of CSV are text, whatever they look like. Where the output has types and all of them are whole numbers, they
    become such, so that they can be joined with what others make of the same file.
    """

    def __init__(self, paths: list[str], name: str, *, typed: bool) -> None:
        if STANDARD in paths:
            raise misused("--id needs files: save standard input to one first")
        self.name = name
        tables = [_table(path, name) for path in paths]
        self.type = _type_of(tables[0], name)
        whole = typed and all(_is_whole(table, name) for table in tables)
        if whole:
            self.type = "int64"
        chunks = chain.from_iterable(_chunks(table, name) for table in tables)
        self._values = chain.from_iterable(map(_as_whole, chunks) if whole else chunks)

    def take(self, n_rows: int) -> list[Any]:
        """The ids of the next rows."""
        return list(islice(self._values, n_rows))


def _table(path: str, name: str) -> Any:
    table: Any = read_file(Path(path), Dialect())
    if table.names is None:
        raise ValueError(f"{path} has no column names: --id {name} needs them")
    if name not in table.names:
        raise ValueError(f"{path} has no column {name!r} for --id: its columns are {listed(table.names)}")
    if hasattr(table, "column_types"):  # CSV: numbers would lose zeros before them, and digits after the 15th
        table.column_types[name] = "string"
    return table


def _chunks(table: Any, name: str) -> Iterator[list[Any]]:
    if hasattr(table, "frame"):
        yield _of_frame(table, name).to_pylist()
        return
    for batch in table.open_batches([name], ROWS_AT_A_TIME):
        yield batch.column(batch.schema.names.index(name)).to_pylist()


def _type_of(table: Any, name: str) -> Any:
    """The type of the column in Arrow."""
    if hasattr(table, "column_types"):
        return "string"
    return _of_frame(table, name).type if hasattr(table, "frame") else table.types[table.names.index(name)]


def _of_frame(table: Any, name: str) -> Any:
    return pyarrow("--id").array(table.frame[name], from_pandas=True)


def _is_whole(table: Any, name: str) -> bool:
    """Whether a column of CSV holds whole numbers alone, or nothing: a pass of its own."""
    import pyarrow.compute as pc

    if not hasattr(table, "column_types"):
        return False
    batches = (batch.column(0) for batch in table.open_batches([name], ROWS_AT_A_TIME))
    return all(pc.all(pc.or_(pc.match_substring_regex(b, WHOLE_NUMBER), pc.equal(b, ""))).as_py() for b in batches)


def _as_whole(chunk: list[str]) -> list[int | None]:
    return [int(text) if text else None for text in chunk]
