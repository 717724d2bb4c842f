"""Comma-separated values, plain or compressed by gzip."""

from __future__ import annotations

import csv
import gzip
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

from sketchlearn.sources.arrow import floats_of, pyarrow
from sketchlearn.sources.arrow_files import ArrowFile, reading
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.table_base import Columns

NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
REFUSED = re.compile(r"In CSV column #(\d+): (?:.*?: )?invalid value '(.*)'", re.DOTALL)
READ_BYTES = 1 << 20  # parsed at a time, at least
MOST_READ_BYTES = 1 << 24  # for many columns, each of which costs time per piece
LINES, MOST_LINES = 16, 1024  # of long lines, so many at a time
PIECES = 32  # of a large file, of which a sample is drawn


class Csv(ArrowFile):
    """A CSV file. A first line of numbers alone is a row: then the columns have no names.

    Types are told from the first megabyte: numbers of any kind are read as float64, true and false as 1 and 0.
    """

    def __init__(self, path: Path) -> None:
        pa = pyarrow(str(path))
        with reading(path):
            first, more = _first_line(path)
            cells = next(csv.reader([first]), [])
        if not cells:
            raise ValueError(f"{path} is empty: not even its first line, of names, is there")
        plain = all(NUMBER.fullmatch(cell) for cell in cells)
        self.header = [str(i) for i in range(len(cells))] if plain else None
        self.read_bytes = max(READ_BYTES, min(MOST_READ_BYTES, MOST_LINES * len(first)), LINES * len(first))
        self.single = len(cells) == 1
        self.bare = not more and not plain
        if self.bare:  # names alone, not even an end of line
            told = pa.schema([(name, pa.null()) for name in cells])
        else:
            with reading(path), path.open("rb") as file:
                told = self._open(file, None).schema
        fields = [pa.field(f.name, pa.float64() if _is_number(f.type) else f.type) for f in told]
        super().__init__(path, pa.schema(fields))
        if plain:
            self.names = None

    def row_type(self, chosen: Columns) -> np.dtype[Any]:  # noqa: ARG002
        return np.dtype(np.float64)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        if _is_compressed(self.path):
            return None
        if (self.n_bytes or 0) <= PIECES * self.read_bytes // 4:
            rows = np.concatenate([np.empty((0, len(chosen))), *self.chunks(chosen, n_rows)])
            return rows[np.sort(rng.choice(len(rows), min(len(rows), n_rows), replace=False))]
        pieces = [self._piece(chosen, i, -(-n_rows // PIECES), rng) for i in range(PIECES)]
        found = [piece for piece in pieces if piece is not None]
        return np.concatenate(found) if len(found) == PIECES else None

    def _piece(self, chosen: Columns, i: int, n_rows: int, rng: np.random.Generator) -> Floats | None:
        """Random rows near a random place in the i-th part of the file, if lines can be told there."""
        import pyarrow as pa
        from pyarrow import csv as reader

        size, length = self.n_bytes or 0, self.read_bytes // 16
        with self.path.open("rb") as file:
            file.seek(int((i + rng.random()) * (size - length) / PIECES))
            lines = file.read(length)
        names = [self.fields[position] for position in chosen]
        if b'"' in lines:  # a line might end within quotes
            return None
        try:
            table = reader.read_csv(
                pa.BufferReader(lines[lines.find(b"\n") + 1 : lines.rfind(b"\n") + 1]),
                read_options=reader.ReadOptions(column_names=self.fields),
                convert_options=reader.ConvertOptions(include_columns=names, column_types=self._types(names)),
            )
        except pa.ArrowInvalid:  # the pass over the whole file will say what is wrong
            return None
        rows = floats_of(table, names, np.dtype(np.float64))
        return rows[rng.choice(len(rows), min(len(rows), n_rows), replace=False)]

    def _types(self, names: list[str] | None) -> dict[str, Any]:
        types = dict(zip(self.fields, self.types, strict=True)) if names else {}
        return {name: types[name] for name in names or []}

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:  # noqa: ARG002
        self.bytes_read = 0
        if self.bare:
            return
        with self.path.open("rb") as file:
            try:
                yield from self._open(_Counted(file, self), names)
            except ValueError as error:
                found = REFUSED.match(str(error))
                if found is None:
                    raise
                column = self.column(int(found[1]))
                raise ValueError(f"{self.place}: {column} holds {found[2][:60]!r}, which is not a number") from None

    def _open(self, file: Any, names: list[str] | None) -> Any:
        from pyarrow import CompressedInputStream, PythonFile
        from pyarrow import csv as reader

        stream = PythonFile(file, mode="r")
        return reader.open_csv(
            CompressedInputStream(stream, "gzip") if _is_compressed(Path(file.name)) else stream,
            read_options=reader.ReadOptions(column_names=self.header, block_size=self.read_bytes),
            # an empty line of a single column is a missing value
            parse_options=reader.ParseOptions(newlines_in_values=True, ignore_empty_lines=not self.single),
            convert_options=reader.ConvertOptions(include_columns=names or [], column_types=self._types(names)),
        )


class _Counted:
    """A file that tells how far it was read."""

    def __init__(self, file: BinaryIO, table: Csv) -> None:
        self.file, self.table, self.name = file, table, file.name

    @property
    def closed(self) -> bool:
        return self.file.closed

    def read(self, size: int = -1) -> bytes:
        found = self.file.read(size)
        self.table.bytes_read += len(found)
        return found

    def close(self) -> None:
        self.file.close()


def _first_line(path: Path) -> tuple[str, bool]:
    """The first line, and whether it is ended and others may follow."""
    with gzip.open(path) if _is_compressed(path) else path.open("rb") as file:
        line = bytes(file.readline())
    return line.decode("utf-8-sig", "replace").rstrip("\r\n"), line.endswith(b"\n")


def _is_compressed(path: Path) -> bool:
    return path.suffix == ".gz"


def _is_number(kind: Any) -> bool:
    return str(kind) in ("int64", "double", "null")
