"""Comma-separated values: files, plain or compressed by gzip, and streams such as standard input."""

from __future__ import annotations

import csv
import gzip
import io
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.arrow import floats_of, pyarrow
from sketchlearn.sources.arrow_files import ArrowFile
from sketchlearn.sources.blocks import Block, Floats
from sketchlearn.sources.source_base import Source, check_width, reading
from sketchlearn.sources.tables import Columns, chosen_columns

NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
REFUSED_VALUE = re.compile(r"In CSV column #(\d+): (?:.*?: )?invalid value '(.*)'", re.DOTALL)
READ_BYTES = 1 << 20  # Bytes that are parsed at a time, at least.
WIDE_READ_BYTES = 1 << 24  # The most for tables of many columns, each of which costs time whenever bytes are parsed.
WIDE_LINES = 1024  # Lines of such a table that are parsed at a time, if they fit into WIDE_READ_BYTES.
LEAST_LINES = 16  # Lines that are parsed at a time, however long they are.
SAMPLED_PIECES = 32  # Places of a large file that a sample is taken from.
STREAM_BYTES = 1 << 22  # Bytes that are taken from a stream at once, if as many have arrived.
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})


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
        plain = _are_numbers(cells)
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


class CsvStream(Source):
    """CSV on a stream, read once: whatever has arrived is a block, so that a slow writer gets answers.

    A first line of numbers alone is a row; otherwise it names the columns.
    """

    replayable = False

    def __init__(self, stream: BinaryIO, columns: tuple[Any, ...] | None, nulls: str) -> None:
        self.stream, self.nulls, self.held = stream, nulls, b""
        while b"\n" not in self.held and (more := self._arrived()):
            self.held += more
        self.held = self.held.removeprefix(b"\xef\xbb\xbf")
        first, _, rest = self.held.partition(b"\n")
        cells = [cell.strip() for cell in next(csv.reader([_text(first).rstrip("\r")]), [])]
        if not cells:
            raise ValueError("standard input is empty: it should be CSV")
        self.names, self.n_cells, self.line = None, len(cells), 0
        if not _are_numbers(cells):
            self.names, self.held, self.line = tuple(cells), rest, 1
        self._choose(columns)

    def only(self, columns: tuple[str, ...], *, any_order: bool = False) -> CsvStream:  # noqa: ARG002
        if self.names is not None:
            self._choose(columns)
        return self

    def _choose(self, columns: tuple[Any, ...] | None) -> None:
        self.chosen = chosen_columns(columns, self.names, self.n_cells, "standard input")
        self.width = len(self.chosen)
        self.columns = None if self.names is None else tuple(self.names[i] for i in self.chosen)

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        check_width(len(self.chosen), n_features)
        yield from self._accepted(self._arrays(), 0, "standard input")

    def _arrived(self) -> bytes:
        read1 = getattr(self.stream, "read1", self.stream.read)
        return bytes(read1(STREAM_BYTES))

    def _arrays(self) -> Iterator[Floats]:
        """The rows, as they arrive, missing values as NaN."""
        ended = False
        while not ended:
            cut = self.held.rfind(b"\n") + 1
            whole, self.held = self.held[:cut], self.held[cut:]
            yield from self._rows(whole)
            more = self._arrived()
            ended, self.held = not more, self.held + more
        yield from self._rows(self.held)

    def _rows(self, data: bytes) -> Iterator[Floats]:
        first, self.line = self.line, self.line + data.count(b"\n")
        if not data.strip():
            return
        lines = _text(data).splitlines()
        try:
            rows = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None, dtype=np.float64)
        except ValueError:
            rows = np.empty((0, 0))
        yield rows[:, self.chosen] if rows.shape[1] == self.n_cells else self._carefully(lines, first)

    def _carefully(self, lines: list[str], first: int) -> NDArray[np.float64]:
        """Line by line: quoted cells, missing values, and errors that name the line."""
        rows = []
        for n, cells in enumerate(csv.reader(lines), first + 1):
            if cells and len(cells) != self.n_cells:
                raise ValueError(f"line {n} of standard input has {len(cells)} cells, but the first has {self.n_cells}")
            if cells:
                rows.append([self._number(cells[i], n, i) for i in self.chosen])
        return np.array(rows, np.float64).reshape(len(rows), len(self.chosen))

    def _number(self, cell: str, line: int, position: int) -> float:
        if cell.strip().lower() in MISSING:
            return float("nan")
        try:
            return float(cell)
        except ValueError:
            column = self.names[position] if self.names else position
            where = f"line {line} of standard input, column {column}"
            raise ValueError(f"{where}: {cell[:40]!r} is not a number; choose other --columns") from None


def _are_numbers(cells: Sequence[str]) -> bool:
    """Whether the cells of a first line are numbers alone, so that it is a row and not the names of columns."""
    return all(NUMBER.fullmatch(cell) for cell in cells)


def _is_compressed(path: Path) -> bool:
    return path.suffix == ".gz"


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("standard input is not text: it should be CSV in UTF-8") from None
