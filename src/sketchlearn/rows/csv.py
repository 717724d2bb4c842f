"""Comma-separated values and similar text, plain or compressed: files, and streams."""

from __future__ import annotations

import codecs
import copy
import csv
import io
import re
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.rows.arrow import ArrowFile
from sketchlearn.rows.lazy_pyarrow import csv_reader, pa
from sketchlearn.rows.schemas.cell_values import MISSING_WORDS, is_missing
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.schemas.text import DECIMALS, DOUBTFUL, has_groups, number_in_groups, numbers_in_groups
from sketchlearn.rows.source_base import (
    CODECS,
    Block,
    ColumnChoice,
    Columns,
    EncodedTable,
    Floats,
    Source,
    Table,
    check_width,
    chosen_columns,
    decompressed,
    positions_of,
    reading,
)

#: of equally good delimiters, the first is chosen
DELIMITERS = {",": "commas", ";": "semicolons", "\t": "tabs", "|": "bars"}
#: decimal sign -> numbers
NUMBERS = {sign: re.compile(rf"\s*[-+]?(\d+[{sign}]?\d*|[{sign}]\d+)([eE][-+]?\d+)?\s*") for sign in DECIMALS}
THOUSANDS = re.compile(r"\s*[-+]?[1-9]\d{0,2},\d{3}\s*")  # 1,234 may have a decimal comma or not
MARKS = re.compile(r"[.,]")
LINE_END = re.compile(r"\r\n|\r|\n")
#: blank lines, and a line that names the separator, which some programs write for Excel
PREAMBLE = re.compile(r"(?: *(?:\r\n|\r|\n))*(?:\"?sep=(?P<separator>[^\r\n])\"?(?:\r\n|\r|\n))?")
SNIFFED_RECORDS = 64  # Records from which the layout is inferred: more add little.
UTF_16_MARKS = (b"\xff\xfe", b"\xfe\xff")


def _which_encoding() -> str:
    return f"say which {either('encoding it has', 'it has with --encoding')}"


@dataclass(frozen=True)
class Dialect:
    """What the user states about CSV files; None means that it is inferred from the first lines.

    Parameters
    ----------
    delimiter : the character between cells.
    decimal : the decimal point of numbers, "." or ",".
    header : whether the first line names the columns.
    encoding : of the text, such as "cp1252"; None means UTF-8, or UTF-16 if the file begins with its mark.
    """

    delimiter: str | None = None
    decimal: str | None = None
    header: bool | None = None
    encoding: str | None = None

    def __post_init__(self) -> None:
        if self.delimiter is not None and (len(self.delimiter) != 1 or self.delimiter in '"\r\n'):
            raise ValueError(f'delimiter must be one character, such as ";", not {self.delimiter!r}')
        if self.decimal is not None and self.decimal not in DECIMALS:
            raise ValueError(f'decimal must be "." or ",", not {self.decimal!r}')
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError:
            raise ValueError(f'there is no encoding {self.encoding!r}: "cp1252" and "latin-1" are some') from None

    def encoding_of(self, first: bytes) -> str | None:
        """The encoding of a file with these first bytes; None for UTF-8."""
        return self.encoding or ("utf-16" if first.startswith(UTF_16_MARKS) else None)


@dataclass(frozen=True)
class Layout:
    """How a file is cut into cells.

    Attributes
    ----------
    delimiter, decimal : as of a `Dialect`.
    header : whether the first record names the columns.
    cells : the first record.
    commas : positions of columns whose numbers have commas that were not read as decimal ones.
    grouped : positions of columns of numbers whose thousands are set apart, such as 1,234.5 or, with decimal commas,
        1.234,5 or 1 234,5.
    skipped : number of lines before the first record, which are blank or name the delimiter.
    remark : what was inferred from the first lines, if it is not plain CSV; empty otherwise.
    """

    delimiter: str
    decimal: str
    header: bool
    cells: tuple[str, ...]
    commas: tuple[int, ...] = ()
    grouped: tuple[int, ...] = ()
    skipped: int = 0
    remark: str = ""

    @property
    def names(self) -> tuple[str, ...] | None:
        return self.cells if self.header else None


def layout_of(data: bytes, dialect: Dialect, *, ended: bool) -> Layout | None:
    """The layout of a file that begins with these whole lines; None if there are none.

    >>> layout_of(b"a;b\\n1,5;2\\n", Dialect(), ended=True).remark
    'cells are separated by semicolons, and numbers have decimal commas (inferred from its first lines)'
    """
    text = text_of(data)
    before = PREAMBLE.match(text)
    assert before is not None
    if before["separator"]:
        dialect = replace(dialect, delimiter=dialect.delimiter or before["separator"])
    text = text[before.end() :]
    delimiter = dialect.delimiter or _delimiter(text, ended)
    records = _records(text, delimiter, ended)
    if not records:
        return None
    # a first line of numbers alone is a row
    header = not all(map(_is_written_number, records[0])) if dialect.header is None else dialect.header
    columns = _columns(records[header:])
    decimal = dialect.decimal or decimal_of(columns, delimiter)
    grouped = grouped_columns(columns, decimal, sure=dialect.decimal is not None)
    commas = tuple(i for i in _with_commas(columns) if decimal == "." and i not in grouped)
    facts = []
    if dialect.delimiter is None and delimiter != ",":
        facts.append(f"cells are separated by {DELIMITERS[delimiter]}")
    if dialect.decimal is None and decimal == ",":
        facts.append("numbers have decimal commas")
    if grouped:
        facts.append("thousands are set apart")
    otherwise = either("", "; --delimiter and --decimal say otherwise")
    remark = f"{', and '.join(facts)} (inferred from its first lines{otherwise})" if facts else ""
    skipped = len(LINE_END.findall(before[0]))
    return Layout(delimiter, decimal, header, tuple(records[0]), commas, grouped, skipped, remark)


def text_of(data: bytes) -> str:
    """The text of lines: as UTF-8 or, if that fails, as Windows' cp1252 or Latin-1."""
    for encoding in ("utf-8-sig", "cp1252"):
        with suppress(UnicodeDecodeError):
            return data.decode(encoding)
    return data.decode("latin-1")


Cells = Sequence[Sequence[str]]


def _columns(rows: Cells) -> Cells:
    """The cells of each column that are not missing."""
    return [[cell for cell in column if not is_missing(cell)] for column in zip(*rows, strict=False)]


def grouped_columns(columns: Cells, decimal: str, *, sure: bool) -> tuple[int, ...]:
    """Positions of columns of numbers whose thousands are set apart; `sure` if the user states the decimal point."""
    return tuple(i for i, values in enumerate(columns) if has_groups(values, decimal, sure=sure))


def decimal_of(columns: Cells, delimiter: str) -> str:
    """The decimal point of these columns: a comma if some column has numbers with commas, and none has points.

    >>> decimal_of([["1,5", "1,25"], ["2", "Zoë"]], ";"), decimal_of([["1,234"], ["1.5"]], ",")
    (',', '.')
    >>> decimal_of([["1.234,50"], ["1.234"]], ";"), decimal_of([["1,234.50"], ["1,5"]], ";")
    (',', '.')
    """
    points = [cell for values in columns if all(map(NUMBERS["."].fullmatch, values)) for cell in values if "." in cell]
    grouped = {sign: grouped_columns(columns, sign, sure=False) for sign in DECIMALS}
    # points and commas that distinguish thousands from decimals: spaces between thousands do not
    marks = {sign: [MARKS.findall(cell) for i in found for cell in columns[i]] for sign, found in grouped.items()}
    with_marks = {sign for sign, found in marks.items() if any(len(of_cell) > 1 for of_cell in found)}
    if len(with_marks) == 1 and all(map(DOUBTFUL[","].fullmatch, map(str.strip, points))):
        return with_marks.pop()
    if points:
        return "."
    # between semicolons, a comma is a decimal one; elsewhere 1,234 may as well be a thousand and more
    cells = [cell for position in _with_commas(columns) for cell in columns[position] if "," in cell]
    sure = delimiter == ";" or not all(map(THOUSANDS.fullmatch, cells))
    return "," if cells and sure else "."


def _with_commas(columns: Cells) -> tuple[int, ...]:
    """Positions of columns that are numbers if commas are decimal points, and not otherwise."""
    are_numbers = [[all(map(NUMBERS[sign].fullmatch, values)) for sign in DECIMALS] for values in columns]
    return tuple(i for i, (with_points, with_commas) in enumerate(are_numbers) if with_commas and not with_points)


def _delimiter(text: str, ended: bool) -> str:
    """The delimiter that gives records of equal length; of several, the one with most numbers."""
    found, best = ",", (0.0, 0.0, 0.0)
    for delimiter in DELIMITERS:
        records = _records(text, delimiter, ended)
        if not records or len(records[0]) < 2:
            continue
        alike = sum(len(record) == len(records[0]) for record in records) / len(records)
        cells = [cell for record in records[1:] or records for cell in record]
        numbers = [_is_written_number(cell) for cell in cells]
        others = set(DELIMITERS) - {delimiter}
        clean = [known or not others & set(cell) for known, cell in zip(numbers, cells, strict=True)]
        score = (alike, sum(numbers) / len(cells), sum(clean) / len(cells))
        if score > best:
            found, best = delimiter, score
    return found


def _records(text: str, delimiter: str, ended: bool) -> list[list[str]]:
    found: list[list[str]] = []
    with suppress(csv.Error):  # a quote that is never closed
        for record in filter(None, csv.reader(io.StringIO(text, newline=""), delimiter=delimiter)):
            found.append(record)
            if len(found) > SNIFFED_RECORDS:
                return found
    return found if ended or len(found) < 2 else found[:-1]


def _is_written_number(cell: str) -> bool:
    """Whether a cell is a number with a decimal point or comma, or with unambiguous thousands."""
    return any(NUMBERS[sign].fullmatch(cell) or has_groups([cell], sign, sure=False) for sign in DECIMALS)


REFUSED_TEXT = re.compile(r"In CSV column #(\d+): .*invalid UTF8 data", re.DOTALL)
REFUSED_VALUE = re.compile(r"In CSV column #(\d+): (?:.*?: )?invalid value '(.*)'", re.DOTALL)
REFUSED_LINE = re.compile(r"CSV parse error: (?:Row #(\d+): )?Expected (\d+) columns, got (\d+)")
READ_BYTES = 1 << 20  # Bytes that are parsed at a time, at least.
WIDE_READ_BYTES = 1 << 24  # The most for wide tables: each parse costs time for each column.
WIDE_LINES = 1024  # Lines of a wide table that are parsed at a time, if they fit into WIDE_READ_BYTES.
LEAST_LINES = 16  # Lines that are parsed at a time, however long they are.
SAMPLED_PIECES = 32  # Places of a large file from which a sample is taken.
SNIFFED_BYTES = 1 << 16  # Bytes from which the layout is inferred, at least.


#: words for missing values, as Arrow compares them: in the cases that people and programs write
SPELLED_MISSING = sorted(
    {spelled for word in MISSING_WORDS for spelled in (word, word.upper(), word.capitalize(), word.title())}
    | {"NaN", "-NaN", "NaT"}
)


class Csv(ArrowFile):
    """A CSV file. A first line of numbers alone is a row: then the columns have no names.

    The layout (delimiter, decimal point, names) is inferred from the first lines, as far as `dialect` leaves it open.
    Types are inferred from the first megabyte: all numbers are read as float64, true and false as 1 and 0.
    """

    def __init__(self, path: Path, dialect: Dialect) -> None:
        with reading(path), decompressed(path) as stream:
            self.encoding = dialect.encoding_of(stream.read(2))
        self.anywhere = path.suffix.lower() not in CODECS and self.encoding is None  # it can be read from any place
        with reading(path), self._refusals(str(path)), self._text(path) as stream:
            lines, ended = _first_lines(stream)
            layout = layout_of(lines, dialect, ended=ended)
        if layout is None:
            raise ValueError(f"{path} is empty: it has no line with the names of columns")
        self.layout: Layout = layout
        self.column_names = [str(i) for i in range(len(layout.cells))] if layout.names is None else list(layout.names)
        length = len(lines.lstrip(b"\r\n ").partition(b"\n")[0])
        self.read_bytes = max(READ_BYTES, min(WIDE_READ_BYTES, WIDE_LINES * length), LEAST_LINES * length)
        self.bare = layout.header and ended and not set(b"\r\n") & set(lines.lstrip(b"\r\n "))
        self.column_types: dict[str, Any] = {}
        self.missing_words, self.decimal = SPELLED_MISSING, layout.decimal
        if self.bare:  # names alone, not even an end of line
            inferred = pa.schema([(name, pa.null()) for name in layout.cells])
        else:
            with reading(path), self._refusals(str(path)), self._text(path) as stream:
                inferred = self._open(stream).schema
        fields = [pa.field(field.name, _type(field.type)) for field in inferred]
        if layout.header and not inferred[-1].name and str(inferred[-1].type) == "null":
            del fields[-1]  # each line ends in a delimiter
        self.grouped = frozenset(fields[i].name for i in layout.grouped if i < len(fields))
        numbers = {field.name: pa.float64() for field in fields if field.name in self.grouped}
        super().__init__(path, pa.schema([field.with_type(numbers.get(field.name, field.type)) for field in fields]))
        self.column_types = {field.name: pa.string() if field.name in self.grouped else field.type for field in fields}
        self.remark = layout.remark
        if layout.names is None:
            self.names = None

    def not_numbers(self, position: int) -> str | None:
        found = super().not_numbers(position)
        return "text with commas" if found is not None and position in self.layout.commas else found

    def row_type(self, chosen: Columns) -> np.dtype[Any]:  # noqa: ARG002
        return np.dtype(np.float64)

    def ids(self, position: int, n_rows: int) -> Iterator[NDArray[Any]]:
        # as text: one file may have only numbers where the next has letters, or zeros in front
        return ArrowFile.ids(self._as_text((position,)), position, n_rows)

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        as_text = self._as_raw_text(chosen)
        for raw in ArrowFile.raw_chunks(as_text, chosen, n_rows):
            self.bytes_read = as_text.bytes_read
            yield raw

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        return ArrowFile.raw_some(self._as_raw_text(chosen), chosen, n_rows, rng) if self._in_pieces else None

    def _as_raw_text(self, chosen: Columns) -> Csv:
        """The same file as text: the schema decides what words mean, also which of them are missing values."""
        as_text = self._as_text(chosen)
        as_text.missing_words = [""]
        return as_text

    def _as_text(self, chosen: Columns) -> Csv:
        """The same file, whose chosen columns stay as they are written."""
        found = copy.copy(self)
        found.grouped = frozenset()
        found.column_types = dict.fromkeys(self.names_of(chosen), pa.string())
        return found

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        if not self.anywhere:
            return None
        if not self._in_pieces:
            rows = np.concatenate([np.empty((0, len(chosen))), *self.chunks(chosen, n_rows)])
            return rows[np.sort(rng.choice(len(rows), min(len(rows), n_rows), replace=False))]
        return super().some(chosen, n_rows, rng)

    @property
    def _in_pieces(self) -> bool:
        """Whether a sample is taken from pieces of the file: it can be read anywhere, and is large."""
        return self.anywhere and (self.n_bytes or 0) > SAMPLED_PIECES * self.read_bytes // 4

    def pieces(self, names: list[str], n_rows: int, rng: np.random.Generator) -> list[Any] | None:
        pieces = [self._piece(names, i, -(-n_rows // SAMPLED_PIECES), rng) for i in range(SAMPLED_PIECES)]
        return None if any(piece is None for piece in pieces) else pieces

    def _piece(self, names: list[str], i: int, n_rows: int, rng: np.random.Generator) -> Any:
        """Random rows near a random place in the i-th part of the file; None if records cannot be found there."""
        size, length = self.n_bytes or 0, self.read_bytes // 16
        with self.path.open("rb") as file:
            file.seek(int((i + rng.random()) * (size - length) / SAMPLED_PIECES))
            read = file.read(length)
        lines = read[read.find(b"\n") + 1 : read.rfind(b"\n") + 1]
        # a record that continues in the next line opens one quote more than its first line closes
        if b'"' in lines and any(line.count(b'"') % 2 for line in lines.split(b"\n")):
            return None
        try:
            table = csv_reader.read_csv(
                pa.BufferReader(lines),
                read_options=csv_reader.ReadOptions(column_names=self.column_names),
                parse_options=csv_reader.ParseOptions(delimiter=self.layout.delimiter),
                convert_options=self._convert_options(names),
            )
            table = self._with_numbers(table)
        except ValueError:  # the pass over the whole file raises the error
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
        with decompressed(path, counted) as stream:
            yield stream if self.encoding is None else pa.transcoding_input_stream(stream, self.encoding, "utf-8")

    @contextmanager
    def _refusals(self, place: str) -> Iterator[None]:
        """Rewords Arrow's errors about cells and lines."""
        try:
            yield
        except UnicodeDecodeError:
            raise InvalidValueError(f"{place} is not text in {self.encoding}", _which_encoding()) from None
        except ValueError as error:
            if found := REFUSED_TEXT.match(str(error)):
                name = self.column(int(found[1]))
                said = either('say encoding="cp1252"', "use --encoding cp1252")
                remedy = f"{said} if it was saved on Windows, or save it as UTF-8"
                raise InvalidValueError(f"{place}: {name} is not UTF-8", remedy) from None
            if found := REFUSED_VALUE.match(str(error)):
                column = self.column(int(found[1]))
                raise ValueError(f"{place}: {column} holds {found[2][:60]!r}, which is not a number") from None
            if found := REFUSED_LINE.match(str(error)):
                where = f"line {found[1]}" if found[1] else "a line"
                between = DELIMITERS.get(self.layout.delimiter, repr(self.layout.delimiter))
                counts = f"{found[3]} cells with {between} between them, but the first has {found[2]}"
                remedy = f"give {either('the delimiter', '--delimiter')}, or repair the line"
                raise InvalidValueError(f"{place}: {where} has {counts}", remedy) from None
            raise

    def _open(self, stream: Any, names: Sequence[str] = ()) -> Any:
        single = len(self.column_names) == 1
        return csv_reader.open_csv(
            stream,
            read_options=csv_reader.ReadOptions(
                column_names=self.column_names,
                block_size=self.read_bytes,
                skip_rows=self.layout.skipped,
                skip_rows_after_names=int(self.layout.header),
            ),
            # an empty line of a single column is a missing value
            parse_options=csv_reader.ParseOptions(
                delimiter=self.layout.delimiter, newlines_in_values=True, ignore_empty_lines=not single
            ),
            convert_options=self._convert_options(names),
        )

    def _convert_options(self, names: Sequence[str]) -> Any:
        return csv_reader.ConvertOptions(
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
    """The type to read for an inferred type: all numbers as float64, and text in other encodings as text."""
    if str(kind) in ("int64", "double", "null"):
        return pa.float64()
    return pa.string() if str(kind) == "binary" else kind


STREAM_BYTES = 1 << 22  # Bytes that are read from a stream at once, if as many have arrived.
PLACE = "standard input"


class CsvStream(Source):
    """CSV on a stream, read once: whatever has arrived is a block, so that a slow writer gets answers.

    Arrow's reader cannot do that: it waits for five reads before it gives the first batch. A first line of numbers
    alone is a row; otherwise it names the columns. The delimiter is inferred from the lines that have arrived, the
    decimal point from the first rows. The arguments are those of `source`, and of a `Dialect`.

    >>> import io
    >>> rows = CsvStream(io.BytesIO(b"name;size\\nZo;1,5\\nBob;2\\n"), numeric_only=True)
    >>> rows.columns, [block.rows.tolist() for block in rows.blocks()]
    (('size',), [[[1.5], [2.0]]])
    """

    replayable = False
    in_utf_8: Callable[[bytes], bytes] | None = None  # chosen by the first bytes
    encoded: EncodedTable | None = None  # by the schema that `only` took

    def __init__(
        self,
        stream: BinaryIO,
        *,
        columns: Sequence[Any] | None = None,
        nulls: str = "error",
        exclude: Sequence[Any] = (),
        numeric_only: bool = False,
        **stated: Any,
    ) -> None:
        choice, dialect = ColumnChoice(columns, exclude, numeric_only), Dialect(**stated)
        self.stream, self.nulls, self.held, self.ended, self.dialect = stream, nulls, b"", False, dialect
        least_lines = 2 if choice.numeric_only else 1  # names alone do not show which columns are numeric
        while self.held.count(b"\n") < least_lines and not self.ended:
            self._take()
        if b"\n" not in self.held:
            self.held = self.held.replace(b"\r", b"\n")
        whole = self.held if self.ended else self.held[: self.held.rfind(b"\n") + 1]
        layout = layout_of(whole, dialect, ended=True)
        if layout is None:
            raise ValueError(f"{PLACE} is empty: it should be CSV")
        self.delimiter, self.n_cells = layout.delimiter, len(layout.cells)
        self.names = None if layout.names is None else tuple(cell.strip() for cell in layout.names)
        self.line = layout.skipped + layout.header
        self.held = self.held.split(b"\n", self.line)[-1] if self.held.count(b"\n") >= self.line else b""
        rows_came = whole.count(b"\n") > self.line
        self.decimal = dialect.decimal or (layout.decimal if rows_came else None)
        self.grouped = layout.grouped if rows_came else None
        rows = self._records(text_of(self.held).splitlines()) if choice.numeric_only else []
        self._infer_numbers(rows)

        def word(position: int) -> str | None:
            return None if all(self._value(row[position], position) is not None for row in rows) else "text"

        chosen, remark = positions_of(choice, self.names, self.n_cells, word, PLACE)
        self._set(chosen)
        self.remarks = {text: PLACE for text in (layout.remark, remark) if text}

    def only(self, columns: tuple[str, ...]) -> CsvStream:
        if isinstance(columns, SchemaColumns):
            while self.decimal is None and not self.ended:  # it is inferred from the first rows
                self._take()
                self._infer_numbers(self._records(text_of(self.held).splitlines()))
            self.encoded, self.nulls = EncodedTable(StreamedText(self), columns), "drop"
            self.columns, self.chosen, self.width = columns, tuple(range(len(columns))), len(columns)
        elif self.names is not None:
            self._set(chosen_columns(columns, self.names, self.n_cells, PLACE))
        return self

    def _set(self, chosen: tuple[int, ...]) -> None:
        self.chosen, self.width = chosen, len(chosen)
        self.columns = None if self.names is None else tuple(self.names[i] for i in chosen)

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        check_width(len(self.chosen), n_features)
        arrays = self._arrays() if self.encoded is None else self.encoded.chunks(self.chosen, 0)
        yield from self._accepted(arrays, 0, PLACE)

    def _take(self) -> None:
        more = bytes(getattr(self.stream, "read1", self.stream.read)(STREAM_BYTES))
        if self.in_utf_8 is None:
            self.in_utf_8 = _recoder(self.dialect.encoding_of(more))
        self.held, self.ended = self.held + self.in_utf_8(more), not more

    def lines(self) -> Iterator[tuple[list[str], int]]:
        """The lines that have arrived, again and again, and how many there were before."""
        while self.held or not self.ended:
            cut = len(self.held) if self.ended else self.held.rfind(b"\n") + 1
            whole, self.held = self.held[:cut], self.held[cut:]
            first, self.line = self.line, self.line + whole.count(b"\n")
            if whole.strip():
                yield text_of(whole).splitlines(), first
            if not self.ended:
                self._take()

    def _arrays(self) -> Iterator[Floats]:
        for lines, first in self.lines():
            self._infer_numbers(self._records(lines[:64]))
            rows: NDArray[np.float64] = np.empty((0, 0))
            if self.decimal == ".":
                with suppress(ValueError):
                    rows = np.loadtxt(lines, delimiter=self.delimiter, ndmin=2, comments=None, dtype=np.float64)
            yield rows[:, self.chosen] if rows.shape[1] == self.n_cells else self._carefully(lines, first)

    def _infer_numbers(self, rows: list[list[str]]) -> None:
        """Infers from the first rows, once there are some, how numbers are written."""
        if rows and self.decimal is None:
            self.decimal = decimal_of(_columns(rows), self.delimiter)
        if rows and self.grouped is None and self.decimal is not None:
            self.grouped = grouped_columns(_columns(rows), self.decimal, sure=self.dialect.decimal is not None)

    def _carefully(self, lines: list[str], first: int) -> NDArray[np.float64]:
        """Line by line: quoted cells, decimal commas, missing values, and errors that name the line."""
        rows = []
        for n, cells in self.cells_of(lines, first):
            rows.append([self._value(cells[i], i) for i in self.chosen])
            if None in rows[-1]:
                position = self.chosen[rows[-1].index(None)]
                where = f"line {n} of {PLACE}, column {self.names[position] if self.names else position}"
                raise ValueError(f"{where}: {cells[position][:40]!r} is not a number; choose other --columns")
        return np.array(rows, np.float64).reshape(len(rows), len(self.chosen))

    def cells_of(self, lines: list[str], first: int) -> Iterator[tuple[int, list[str]]]:
        """The number of each line and its cells."""
        for n, cells in enumerate(csv.reader(lines, delimiter=self.delimiter), first + 1):
            if cells and len(cells) != self.n_cells:
                raise ValueError(f"line {n} of {PLACE} has {len(cells)} cells, but the first has {self.n_cells}")
            if cells:
                yield n, cells

    def _records(self, lines: list[str]) -> list[list[str]]:
        return [cells for cells in csv.reader(lines, delimiter=self.delimiter) if len(cells) == self.n_cells]

    def _value(self, cell: str, position: int) -> float | None:
        """The number of a cell, NaN if it is missing; None if it is something else."""
        if is_missing(cell):
            return float("nan")
        try:
            if position in (self.grouped or ()):
                return number_in_groups(cell, self.decimal or ".")
            if self.decimal == ",":
                return None if "." in cell else float(cell.replace(",", "."))
            return float(cell)
        except ValueError:
            return None


class StreamedText(Table):
    """The cells of CSV on a stream as they are written, for a schema to encode."""

    replayable, place = False, PLACE

    def __init__(self, stream: CsvStream) -> None:
        self.stream, self.names, self.n_columns = stream, stream.names, stream.n_cells
        self.decimal = stream.decimal or "."

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        raise NotImplementedError("cells are read by raw_chunks")

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        for lines, first in self.stream.lines():
            rows = [cells for _, cells in self.stream.cells_of(lines, first)]
            named = ((str((self.names or ())[i]), [cells[i] or None for cells in rows]) for i in chosen)
            yield {name: pa.array(column, pa.string()) for name, column in named}


def _recoder(encoding: str | None) -> Callable[[bytes], bytes]:
    """A function that converts bytes to UTF-8 as they arrive; empty bytes end the stream."""
    if encoding is None:
        return bytes
    decoder = codecs.getincrementaldecoder(encoding)()

    def in_utf_8(data: bytes) -> bytes:
        try:
            return decoder.decode(data, not data).encode()
        except UnicodeDecodeError:
            raise InvalidValueError(f"{PLACE} is not text in {encoding}", _which_encoding()) from None

    return in_utf_8
