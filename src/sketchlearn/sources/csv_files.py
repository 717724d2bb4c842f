"""Comma-separated values, plain or compressed by gzip."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sketchlearn.sources.arrow import floats_of, pyarrow
from sketchlearn.sources.arrow_files import ArrowFile
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.source_base import reading
from sketchlearn.sources.tables import Columns

NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
REFUSED_VALUE = re.compile(r"In CSV column #(\d+): (?:.*?: )?invalid value '(.*)'", re.DOTALL)
READ_BYTES = 1 << 20  # Bytes that are parsed at a time, at least.
WIDE_READ_BYTES = 1 << 24  # The most for tables of many columns, each of which costs time whenever bytes are parsed.
WIDE_LINES = 1024  # Lines of such a table that are parsed at a time, if they fit into WIDE_READ_BYTES.
LEAST_LINES = 16  # Lines that are parsed at a time, however long they are.
SAMPLED_PIECES = 32  # Places of a large file that a sample is taken from.


class Csv(ArrowFile):
    """A CSV file. A first line of numbers alone is a row: then the columns have no names.

    Types are told from the first megabyte: numbers of any kind are read as float64, true and false as 1 and 0.
    """

    def __init__(self, path: Path) -> None:
        pa = pyarrow(str(path))
        with reading(path), gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
            line = bytes(file.readline())
            first = line.decode("utf-8-sig", "replace").rstrip("\r\n")
            cells = next(csv.reader([first]), [])
        if not cells:
            raise ValueError(f"{path} is empty: not even its first line, of names, is there")
        plain = are_numbers(cells)
        self.header = [str(i) for i in range(len(cells))] if plain else None
        self.read_bytes = max(READ_BYTES, min(WIDE_READ_BYTES, WIDE_LINES * len(first)), LEAST_LINES * len(first))
        self.single = len(cells) == 1
        self.bare = not line.endswith(b"\n") and not plain
        self.column_types: dict[str, Any] = {}
        if self.bare:  # names alone, not even an end of line
            told = pa.schema([(name, pa.null()) for name in cells])
        else:
            with reading(path), path.open("rb") as file:
                told = self._open(file).schema
        numbers = ("int64", "double", "null")
        fields = [pa.field(f.name, pa.float64() if str(f.type) in numbers else f.type) for f in told]
        super().__init__(path, pa.schema(fields))
        self.column_types = dict(zip(self.fields, self.types, strict=True))
        if plain:
            self.names = None

    def row_type(self, chosen: Columns) -> np.dtype[Any]:  # noqa: ARG002
        return np.dtype(np.float64)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        if _is_compressed(self.path):
            return None
        if (self.n_bytes or 0) <= SAMPLED_PIECES * self.read_bytes // 4:
            rows = np.concatenate([np.empty((0, len(chosen))), *self.chunks(chosen, n_rows)])
            return rows[np.sort(rng.choice(len(rows), min(len(rows), n_rows), replace=False))]
        pieces = [self._piece(chosen, i, -(-n_rows // SAMPLED_PIECES), rng) for i in range(SAMPLED_PIECES)]
        found = [piece for piece in pieces if piece is not None]
        return np.concatenate(found) if len(found) == SAMPLED_PIECES else None

    def _piece(self, chosen: Columns, i: int, n_rows: int, rng: np.random.Generator) -> Floats | None:
        """Random rows near a random place in the i-th part of the file, if lines can be told there."""
        import pyarrow as pa
        from pyarrow import csv as reader

        size, length = self.n_bytes or 0, self.read_bytes // 16
        with self.path.open("rb") as file:
            file.seek(int((i + rng.random()) * (size - length) / SAMPLED_PIECES))
            lines = file.read(length)
        names = [self.fields[position] for position in chosen]
        if b'"' in lines:  # a line might end within quotes
            return None
        try:
            table = reader.read_csv(
                pa.BufferReader(lines[lines.find(b"\n") + 1 : lines.rfind(b"\n") + 1]),
                read_options=reader.ReadOptions(column_names=self.fields),
                convert_options=reader.ConvertOptions(include_columns=names, column_types=self.column_types),
            )
        except pa.ArrowInvalid:  # the pass over the whole file will say what is wrong
            return None
        rows = floats_of(table, names, np.dtype(np.float64))
        return rows[rng.choice(len(rows), min(len(rows), n_rows), replace=False)]

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:  # noqa: ARG002
        self.bytes_read = 0
        if self.bare:
            return
        with _CountedFile(self) as file:
            try:
                yield from self._open(file, names)
            except ValueError as error:
                found = REFUSED_VALUE.match(str(error))
                if found is None:
                    raise
                column = self.column(int(found[1]))
                raise ValueError(f"{self.place}: {column} holds {found[2][:60]!r}, which is not a number") from None

    def _open(self, file: Any, names: Sequence[str] = ()) -> Any:
        from pyarrow import CompressedInputStream, PythonFile
        from pyarrow import csv as reader

        stream = PythonFile(file, mode="r")
        return reader.open_csv(
            CompressedInputStream(stream, "gzip") if _is_compressed(Path(file.name)) else stream,
            read_options=reader.ReadOptions(column_names=self.header, block_size=self.read_bytes),
            # an empty line of a single column is a missing value
            parse_options=reader.ParseOptions(newlines_in_values=True, ignore_empty_lines=not self.single),
            convert_options=reader.ConvertOptions(include_columns=names, column_types=self.column_types),
        )


class _CountedFile(io.BufferedReader):
    """A file that tells its table how far it was read."""

    def __init__(self, table: Csv) -> None:
        super().__init__(io.FileIO(table.path))
        self.table = table

    def read(self, size: int | None = -1, /) -> bytes:
        found = super().read(size)
        self.table.bytes_read += len(found)
        return found


def are_numbers(cells: Sequence[str]) -> bool:
    """Whether the cells of a first line are numbers alone, so that it is a row and not the names of columns."""
    return all(NUMBER.fullmatch(cell) for cell in cells)


def _is_compressed(path: Path) -> bool:
    return path.suffix == ".gz"
