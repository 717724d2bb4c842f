"""CSV on a stream, such as standard input, as rows arrive."""

from __future__ import annotations

import csv
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.blocks import Block
from sketchlearn.sources.csv_files import are_numbers
from sketchlearn.sources.source_base import Source, check_width
from sketchlearn.sources.tables import chosen_columns

Double = NDArray[np.float64]
MOST_BYTES_AT_ONCE = 1 << 22
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})


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
        if not are_numbers(cells):
            self.names, self.held, self.line = tuple(cells), rest, 1
        self._choose(columns)

    def only(self, columns: tuple[str, ...]) -> CsvStream:
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
        return bytes(read1(MOST_BYTES_AT_ONCE))

    def _arrays(self) -> Iterator[Double]:
        """The rows, as they arrive, missing values as NaN."""
        ended = False
        while not ended:
            cut = self.held.rfind(b"\n") + 1
            whole, self.held = self.held[:cut], self.held[cut:]
            yield from self._rows(whole)
            more = self._arrived()
            ended, self.held = not more, self.held + more
        yield from self._rows(self.held)

    def _rows(self, data: bytes) -> Iterator[Double]:
        first, self.line = self.line, self.line + data.count(b"\n")
        if not data.strip():
            return
        lines = _text(data).splitlines()
        try:
            rows = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None, dtype=np.float64)
        except ValueError:
            rows = np.empty((0, 0))
        yield rows[:, self.chosen] if rows.shape[1] == self.n_cells else self._carefully(lines, first)

    def _carefully(self, lines: list[str], first: int) -> Double:
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
            raise ValueError(
                f"line {line} of standard input, column {column}: {cell[:40]!r} is not a number; choose other --columns"
            ) from None


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("standard input is not text: it should be CSV in UTF-8") from None
