"""CSV on a stream, such as standard input, read while it is written."""

from __future__ import annotations

import codecs
import csv
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sketchlearn.schemas import SchemaColumns
from sketchlearn.schemas.raw_values import is_missing
from sketchlearn.schemas.written_numbers import number_in_groups
from sketchlearn.sources.blocks import Block, Floats
from sketchlearn.sources.csv_layout import Dialect, decimal_of, grouped_columns, layout_of
from sketchlearn.sources.source_base import Source, check_width
from sketchlearn.sources.tables import ColumnChoice, chosen_columns, positions_of

STREAM_BYTES = 1 << 22  # Bytes that are taken from a stream at once, if as many have arrived.
PLACE = "standard input"


def csv_stream(
    stream: BinaryIO,
    *,
    columns: Sequence[Any] | None = None,
    nulls: str = "error",
    exclude: Sequence[Any] = (),
    numeric_only: bool = False,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
) -> CsvStream:
    """CSV on a stream, with the arguments of `source`.

    >>> import io
    >>> rows = csv_stream(io.BytesIO(b"name;size\\nZo;1,5\\nBob;2\\n"), numeric_only=True)
    >>> rows.columns, [block.rows.tolist() for block in rows.blocks()]
    (('size',), [[[1.5], [2.0]]])
    """
    choice = ColumnChoice(columns, exclude, numeric_only)
    return CsvStream(stream, choice, nulls, Dialect(delimiter, decimal, header, encoding))


class CsvStream(Source):
    """CSV on a stream, read once: whatever has arrived is a block, so that a slow writer gets answers.

    A first line of numbers alone is a row; otherwise it names the columns. The delimiter is told from the lines that
    have arrived, the decimal point from the first rows.
    """

    replayable = False
    in_utf_8: Callable[[bytes], bytes] | None

    def __init__(self, stream: BinaryIO, choice: ColumnChoice, nulls: str, dialect: Dialect) -> None:
        self.stream, self.nulls, self.held, self.ended = stream, nulls, b"", False
        self.dialect, self.in_utf_8 = dialect, None  # a function, as soon as the first bytes tell which
        least_lines = 2 if choice.numeric_only else 1  # names do not tell which columns are numbers
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
        self.held = self.held.removeprefix(b"\xef\xbb\xbf")
        rows_came = whole.count(b"\n") > self.line
        self.decimal = dialect.decimal or (layout.decimal if rows_came else None)
        self.grouped = layout.grouped if rows_came else None
        self.remarks = {layout.remark: PLACE} if layout.remark else {}
        self._choose(choice)

    def only(self, columns: tuple[str, ...], *, any_order: bool = False) -> CsvStream:  # noqa: ARG002
        if isinstance(columns, SchemaColumns):
            raise ValueError("a schema needs files, and standard input is none: save it to one first")
        if self.names is not None:
            self._set(chosen_columns(columns, self.names, self.n_cells, PLACE))
        return self

    def _set(self, chosen: tuple[int, ...]) -> None:
        self.chosen, self.width = chosen, len(chosen)
        self.columns = None if self.names is None else tuple(self.names[i] for i in chosen)

    def _choose(self, choice: ColumnChoice) -> None:
        rows = list(self._records(_text(self.held).splitlines())) if choice.numeric_only else []
        self._tell_numbers(rows)

        def word(position: int) -> str | None:
            return None if all(self._is_number(row[position], position) for row in rows) else "text"

        chosen, remark = positions_of(choice, self.names, self.n_cells, word, PLACE)
        self._set(chosen)
        self.remarks = {**self.remarks, **({remark: PLACE} if remark else {})}

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        check_width(len(self.chosen), n_features)
        yield from self._accepted(self._arrays(), 0, PLACE)

    def _take(self) -> None:
        read1 = getattr(self.stream, "read1", self.stream.read)
        more = bytes(read1(STREAM_BYTES))
        if self.in_utf_8 is None:
            self.in_utf_8 = _recoder(self.dialect.encoding_of(more))
        self.held, self.ended = self.held + self.in_utf_8(more), not more

    def _arrays(self) -> Iterator[Floats]:
        """The rows, as they arrive, missing values as NaN."""
        while not self.ended:
            cut = self.held.rfind(b"\n") + 1
            whole, self.held = self.held[:cut], self.held[cut:]
            yield from self._rows(whole)
            self._take()
        yield from self._rows(self.held)

    def _rows(self, data: bytes) -> Iterator[Floats]:
        first, self.line = self.line, self.line + data.count(b"\n")
        if not data.strip():
            return
        lines = _text(data).splitlines()
        self._tell_numbers(list(self._records(lines[:64])))
        rows: NDArray[np.float64] = np.empty((0, 0))
        if self.decimal == ".":
            with suppress(ValueError):
                rows = np.loadtxt(lines, delimiter=self.delimiter, ndmin=2, comments=None, dtype=np.float64)
        yield rows[:, self.chosen] if rows.shape[1] == self.n_cells else self._carefully(lines, first)

    def _tell_numbers(self, rows: list[list[str]]) -> None:
        """Takes from the first rows, once there are some, how numbers are written."""
        if rows and self.decimal is None:
            self.decimal = decimal_of(rows, self.delimiter)
        if rows and self.grouped is None and self.decimal is not None:
            self.grouped = grouped_columns(rows, self.decimal, sure=self.dialect.decimal is not None)

    def _carefully(self, lines: list[str], first: int) -> NDArray[np.float64]:
        """Line by line: quoted cells, decimal commas, missing values, and errors that name the line."""
        rows = []
        for n, cells in enumerate(csv.reader(lines, delimiter=self.delimiter), first + 1):
            if cells and len(cells) != self.n_cells:
                raise ValueError(f"line {n} of {PLACE} has {len(cells)} cells, but the first has {self.n_cells}")
            if cells:
                rows.append([self._number(cells[i], n, i) for i in self.chosen])
        return np.array(rows, np.float64).reshape(len(rows), len(self.chosen))

    def _records(self, lines: list[str]) -> Iterator[list[str]]:
        """The records of the right length."""
        return (cells for cells in csv.reader(lines, delimiter=self.delimiter) if len(cells) == self.n_cells)

    def _value(self, cell: str, position: int) -> float:
        if is_missing(cell):
            return float("nan")
        if position in (self.grouped or ()):
            return number_in_groups(cell, self.decimal or ".")
        if self.decimal == "," and "." in cell:
            raise ValueError
        return float(cell.replace(",", ".") if self.decimal == "," else cell)

    def _is_number(self, cell: str, position: int) -> bool:
        try:
            self._value(cell, position)
        except ValueError:
            return False
        return True

    def _number(self, cell: str, line: int, position: int) -> float:
        try:
            return self._value(cell, position)
        except ValueError:
            column = self.names[position] if self.names else position
            where = f"line {line} of {PLACE}, column {column}"
            raise ValueError(f"{where}: {cell[:40]!r} is not a number; choose other --columns") from None


def _recoder(encoding: str | None) -> Callable[[bytes], bytes]:
    """A function that makes UTF-8 of bytes as they arrive; the last ones are empty."""
    if encoding is None:
        return bytes
    decoder = codecs.getincrementaldecoder(encoding)()

    def in_utf_8(data: bytes) -> bytes:
        try:
            return decoder.decode(data, not data).encode()
        except UnicodeDecodeError:
            raise ValueError(f"{PLACE} is not text in {encoding}: say which encoding it has") from None

    return in_utf_8


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        return data.decode("latin-1")
