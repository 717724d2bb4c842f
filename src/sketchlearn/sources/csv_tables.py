"""Comma-separated values and their kin in files, plain or compressed."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.schemas.raw_values import MISSING_WORDS
from sketchlearn.schemas.written_numbers import numbers_in_groups
from sketchlearn.sources.arrow import floats_of, pyarrow, raw_columns
from sketchlearn.sources.arrow_files import ArrowFile
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.compressed import decompressed, is_compressed
from sketchlearn.sources.csv_layout import DELIMITERS, Dialect, Layout, layout_of
from sketchlearn.sources.source_base import reading
from sketchlearn.sources.tables import Columns, Table

REFUSED_TEXT = re.compile(r"In CSV column #(\d+): .*invalid UTF8 data", re.DOTALL)
REFUSED_VALUE = re.compile(r"In CSV column #(\d+): (?:.*?: )?invalid value '(.*)'", re.DOTALL)
REFUSED_LINE = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
READ_BYTES = 1 << 20  # Bytes that are parsed at a time, at least.
WIDE_READ_BYTES = 1 << 24  # The most for tables of many columns, each of which costs time whenever bytes are parsed.
WIDE_LINES = 1024  # Lines of such a table that are parsed at a time, if they fit into WIDE_READ_BYTES.
LEAST_LINES = 16  # Lines that are parsed at a time, however long they are.
SAMPLED_PIECES = 32  # Places of a large file that a sample is taken from.
SNIFFED_BYTES = 1 << 16  # Bytes that tell the layout, at least.


#: words for missing values, as Arrow compares them: in the cases that people and programs write
SPELLED_MISSING = sorted(
    {spelled for word in MISSING_WORDS for spelled in (word, word.upper(), word.capitalize(), word.title())}
    | {"NaN", "-NaN", "NaT"}
)


class Csv(ArrowFile):
    """A CSV file. A first line of numbers alone is a row: then the columns have no names.

    The layout (delimiter, decimal point, names) is told from the first lines, as far as `dialect` leaves it open.
    Types are told from the first megabyte: numbers of any kind are read as float64, true and false as 1 and 0.
    """

    def __init__(self, path: Path, dialect: Dialect) -> None:
        pa = pyarrow(str(path))
        with reading(path), decompressed(path) as stream:
            self.encoding = dialect.encoding_of(stream.read(2))
        with reading(path), self._refusals(str(path)), self._text(path) as stream:
            lines, ended = _first_lines(stream)
            layout = layout_of(lines, dialect, ended=ended)
        if layout is None:
            raise ValueError(f"{path} is empty: not even its first line, of names, is there")
        self.layout: Layout = layout
        self.column_names = [str(i) for i in range(len(layout.cells))] if layout.names is None else list(layout.names)
        length = len(lines.lstrip(b"\r\n ").partition(b"\n")[0])
        self.read_bytes = max(READ_BYTES, min(WIDE_READ_BYTES, WIDE_LINES * length), LEAST_LINES * length)
        self.bare = layout.header and ended and not set(b"\r\n") & set(lines.lstrip(b"\r\n "))
        self.column_types: dict[str, Any] = {}
        self.missing_words, self.decimal = SPELLED_MISSING, layout.decimal
        if self.bare:  # names alone, not even an end of line
            told = pa.schema([(name, pa.null()) for name in layout.cells])
        else:
            with reading(path), self._refusals(str(path)), self._text(path) as stream:
                told = self._open(stream).schema
        fields = [pa.field(field.name, _type(field.type)) for field in told]
        if layout.header and not told[-1].name and str(told[-1].type) == "null":
            del fields[-1]  # each line ends in a delimiter
        self.grouped = frozenset(fields[i].name for i in layout.grouped if i < len(fields))
        super().__init__(path, pa.schema([field.with_type(self._read_as(field)) for field in fields]))
        self.column_types = {field.name: pa.string() if field.name in self.grouped else field.type for field in fields}
        self.remark = layout.remark
        if layout.names is None:
            self.names = None

    def not_numbers(self, position: int) -> tuple[str, str] | None:
        found = super().not_numbers(position)
        if found is not None and position in self.layout.commas:
            remedy = 'say decimal="," if they are decimal commas, decimal="." if they set thousands apart'
            return "text with commas", remedy
        return found

    def row_type(self, chosen: Columns) -> np.dtype[Any]:  # noqa: ARG002
        return np.dtype(np.float64)

    def ids(self, position: int, n_rows: int) -> Iterator[NDArray[Any]]:
        import pyarrow as pa

        as_text = self._as_text()  # one file may have numbers alone where the next has letters, or zeros in front
        as_text.column_types = {self.fields[position]: pa.string()}
        return ArrowFile.ids(as_text, position, n_rows)

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        as_text = self._as_raw_text(chosen)
        for raw in ArrowFile.raw_chunks(as_text, chosen, n_rows):
            self.bytes_read = as_text.bytes_read
            yield raw

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        names = [self.fields[position] for position in chosen]
        pieces = self._as_raw_text(chosen)._pieces(names, n_rows, rng) if self._in_pieces else None
        return None if pieces is None else raw_columns(pieces, names)

    def _as_raw_text(self, chosen: Columns) -> Csv:
        """The same file as text: what the words mean is a schema's to say, also which of them are missing values."""
        import pyarrow as pa

        as_text = self._as_text()
        as_text.missing_words = [""]
        as_text.column_types = dict.fromkeys((self.fields[position] for position in chosen), pa.string())
        return as_text

    def _as_text(self) -> Csv:
        """The same file, whose numbers stay as they are written."""
        found = self.twin()
        found.grouped = frozenset()
        return found

    def _read_as(self, field: Any) -> Any:
        """The type that a column has once it is read: text with thousands set apart becomes numbers."""
        import pyarrow as pa

        return pa.float64() if field.name in self.grouped else field.type

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        if is_compressed(self.path) or self.encoding is not None:
            return None
        if not self._in_pieces:
            rows = np.concatenate([np.empty((0, len(chosen))), *self.chunks(chosen, n_rows)])
            return rows[np.sort(rng.choice(len(rows), min(len(rows), n_rows), replace=False))]
        names = [self.fields[position] for position in chosen]
        pieces = self._pieces(names, n_rows, rng)
        return None if pieces is None else np.concatenate([floats_of(p, names, np.dtype(np.float64)) for p in pieces])

    @property
    def _in_pieces(self) -> bool:
        """Whether a sample is taken from pieces of the file: it can be read anywhere, and is large."""
        anywhere = not is_compressed(self.path) and self.encoding is None
        return anywhere and (self.n_bytes or 0) > SAMPLED_PIECES * self.read_bytes // 4

    def _pieces(self, names: list[str], n_rows: int, rng: np.random.Generator) -> list[Any] | None:
        """Arrow tables of random rows from all over the file, if lines can be told wherever it was looked at."""
        pieces = [self._piece(names, i, -(-n_rows // SAMPLED_PIECES), rng) for i in range(SAMPLED_PIECES)]
        found = [piece for piece in pieces if piece is not None]
        return found if len(found) == SAMPLED_PIECES else None

    def _piece(self, names: list[str], i: int, n_rows: int, rng: np.random.Generator) -> Any:
        """Random rows near a random place in the i-th part of the file; None if lines cannot be told there."""
        import pyarrow as pa
        from pyarrow import csv as reader

        size, length = self.n_bytes or 0, self.read_bytes // 16
        with self.path.open("rb") as file:
            file.seek(int((i + rng.random()) * (size - length) / SAMPLED_PIECES))
            read = file.read(length)
        lines = read[read.find(b"\n") + 1 : read.rfind(b"\n") + 1]
        # the first line of a record that goes on in the next line has one quote more than it closes
        if b'"' in lines and any(line.count(b'"') % 2 for line in lines.split(b"\n")):
            return None
        try:
            table = reader.read_csv(
                pa.BufferReader(lines),
                read_options=reader.ReadOptions(column_names=self.column_names),
                parse_options=reader.ParseOptions(delimiter=self.layout.delimiter),
                convert_options=self._convert_options(names),
            )
            table = self._with_numbers(table)
        except ValueError:  # the pass over the whole file will say what is wrong
            return None
        return table.take(rng.choice(table.num_rows, min(table.num_rows, n_rows), replace=False))

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:  # noqa: ARG002
        self.bytes_read = 0
        if self.bare:
            return
        with self._refusals(self.place), self._text(self.path, self) as stream:
            yield from map(self._with_numbers, self._open(stream, names))

    def _with_numbers(self, batch: Any) -> Any:
        """The batch or table, with numbers in place of text in which their thousands are set apart."""
        names = batch.schema.names
        if not self.grouped.intersection(names):
            return batch
        columns = []
        for name, cells in zip(names, batch.columns, strict=True):
            try:
                columns.append(numbers_in_groups(cells, self.layout.decimal) if name in self.grouped else cells)
            except ValueError as error:
                raise ValueError(f"{self.place}: column {name!r} holds {error}") from None
        return type(batch).from_arrays(columns, names=names)

    @contextmanager
    def _text(self, path: Path, counted: Table | None = None) -> Iterator[Any]:
        """The text of the file as a stream of UTF-8."""
        from pyarrow import transcoding_input_stream

        with decompressed(path, counted) as stream:
            yield stream if self.encoding is None else transcoding_input_stream(stream, self.encoding, "utf-8")

    @contextmanager
    def _refusals(self, place: str) -> Iterator[None]:
        """Errors about cells and lines in words."""
        try:
            yield
        except UnicodeDecodeError:
            raise ValueError(f"{place} is not text in {self.encoding}: say which encoding it has") from None
        except ValueError as error:
            if found := REFUSED_TEXT.match(str(error)):
                name = self.column(int(found[1]))
                remedy = 'say encoding="cp1252" if it was saved on Windows, or save it as UTF-8'
                raise ValueError(f"{place}: {name} is not UTF-8: {remedy}") from None
            if found := REFUSED_VALUE.match(str(error)):
                column = self.column(int(found[1]))
                raise ValueError(f"{place}: {column} holds {found[2][:60]!r}, which is not a number") from None
            if found := REFUSED_LINE.match(str(error)):
                where = f"line {found[1]}" if found[1] else "a line"
                between = DELIMITERS.get(self.layout.delimiter, repr(self.layout.delimiter))
                counts = f"{found[3]} cells with {between} between them, but the first has {found[2]}"
                raise ValueError(f"{place}: {where} has {counts}: give the delimiter, or repair the line") from None
            raise

    def _open(self, stream: Any, names: Sequence[str] = ()) -> Any:
        from pyarrow import csv as reader

        single = len(self.column_names) == 1
        return reader.open_csv(
            stream,
            read_options=reader.ReadOptions(
                column_names=self.column_names,
                block_size=self.read_bytes,
                skip_rows=self.layout.skipped,
                skip_rows_after_names=int(self.layout.header),
            ),
            # an empty line of a single column is a missing value
            parse_options=reader.ParseOptions(
                delimiter=self.layout.delimiter, newlines_in_values=True, ignore_empty_lines=not single
            ),
            convert_options=self._convert_options(names),
        )

    def _convert_options(self, names: Sequence[str]) -> Any:
        from pyarrow import csv as reader

        return reader.ConvertOptions(
            include_columns=names,
            column_types=self.column_types,
            decimal_point=self.layout.decimal,
            null_values=self.missing_words,
            strings_can_be_null=True,
        )


def _first_lines(stream: Any) -> tuple[bytes, bool]:
    """Some whole lines at the beginning, at least two, and whether they are all."""
    data, size = b"", SNIFFED_BYTES
    while more := stream.read(size):
        data, size = data + more, max(size, len(data))
        n_lines = data.count(b"\n")
        if n_lines >= LEAST_LINES or (n_lines >= 2 and len(data) >= WIDE_READ_BYTES):
            return data[: data.rfind(b"\n") + 1], False
    return data, True


def _type(kind: Any) -> Any:
    """The type that a column of a type that was told is read as: text that is not UTF-8 is text, too."""
    import pyarrow as pa

    if str(kind) in ("int64", "double", "null"):
        return pa.float64()
    return pa.string() if str(kind) == "binary" else kind
