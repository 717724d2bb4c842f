"""CSV on a stream, such as standard input, as rows arrive."""

from __future__ import annotations

import csv
import re
from collections.abc import Iterator
from typing import Any, BinaryIO

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources.blocks import Block
from sketchlearn.sources.source_base import Source, check_width

Double = NDArray[np.float64]
BYTES_AT_ONCE = 1 << 22  # bytes that are taken at once, if there are as many
NUMBER = re.compile(r"\s*[-+]?(\d+\.?\d*|\.\d+)([eE][-+]?\d+)?\s*")
MISSING = frozenset({"", "nan", "na", "n/a", "null", "none"})


class CsvStream(Source):
    """CSV on a stream, read once: whatever has arrived is a block, so that a slow writer gets answers.

    A first line of numbers alone is a row; otherwise it names the columns.
    """

    replayable = False

    def __init__(self, stream: BinaryIO, columns: tuple[Any, ...] | None, nulls: str) -> None:
        self.stream, self.nulls, self.dropped = stream, nulls, 0
        self.held, self.line = b"", 0
        first = self._first_line()
        cells = [cell.strip() for cell in next(csv.reader([first]), [])]
        if not cells:
            raise ValueError("standard input is empty: it should be CSV")
        plain = all(NUMBER.fullmatch(cell) for cell in cells)
        if plain:
            self.held = first.encode() + b"\n" + self.held
            self.line -= 1
        self.names = None if plain else tuple(cells)
        self.n_cells = len(cells)
        self._choose(columns)

    def only(self, columns: tuple[str, ...]) -> CsvStream:
        if self.names is not None:
            self._choose(columns)
        return self

    def _choose(self, columns: tuple[Any, ...] | None) -> None:
        self.chosen = self._positions(columns)
        self.width = len(self.chosen)
        self.columns = None if self.names is None else tuple(self.names[i] for i in self.chosen)

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        check_width(len(self.chosen), n_features)
        start = 0
        for rows in self._arrays():
            yield Block(rows, start)
            start += len(rows)

    def _positions(self, columns: tuple[Any, ...] | None) -> list[int]:
        if columns is None:
            return list(range(self.n_cells))
        if all(isinstance(name, int) for name in columns):
            if max(columns) >= self.n_cells:
                raise ValueError(f"there is no column {max(columns)}: standard input has {self.n_cells} columns")
            return list(columns)
        if self.names is None:
            raise ValueError("standard input has no names of columns: choose them by position, as --columns 0,2")
        for name in columns:
            if name not in self.names:
                shown = ", ".join(self.names[:8])
                raise ValueError(f"standard input has no column {name!r}: its columns are {shown}")
        return [self.names.index(name) for name in columns]

    def _first_line(self) -> str:
        while b"\n" not in self.held and (more := _arrived(self.stream)):
            self.held += more
        line, _, self.held = self.held.partition(b"\n")
        self.line += 1
        return _text(line.removeprefix(b"\xef\xbb\xbf")).rstrip("\r")

    def _arrays(self) -> Iterator[Double]:
        """The rows, as they arrive."""
        ended = False
        while not ended:
            cut = self.held.rfind(b"\n") + 1
            whole, self.held = self.held[:cut], self.held[cut:]
            if whole.strip():
                yield from self._rows(_text(whole))
            elif whole:
                self.line += whole.count(b"\n")
            more = _arrived(self.stream)
            ended, self.held = not more, self.held + more
        if self.held.strip():
            yield from self._rows(_text(self.held))

    def _rows(self, text: str) -> Iterator[Double]:
        first, self.line = self.line, self.line + text.count("\n")
        lines = text.splitlines()
        try:
            rows = np.loadtxt(lines, delimiter=",", ndmin=2, comments=None, dtype=np.float64)
            if rows.shape[1] != self.n_cells or not np.all(np.isfinite(rows)):
                raise ValueError("looked at more closely below")
            yield rows[:, self.chosen]
        except ValueError:
            rows = self._carefully(lines, first)
            if len(rows):
                yield rows

    def _carefully(self, lines: list[str], first: int) -> Double:
        """Line by line: quoted cells, missing values, and errors that name the line."""
        kept = []
        for n, cells in enumerate(csv.reader(lines), first + 1):
            if not cells:
                continue
            if len(cells) != self.n_cells:
                raise ValueError(f"line {n} of standard input has {len(cells)} cells, but the first has {self.n_cells}")
            row = [self._number(cells[i], n, i) for i in self.chosen]
            if any(value != value for value in row):
                if self.nulls == "error":
                    raise ValueError(f"line {n} of standard input has a missing value: fill it, or use --nulls drop")
                self.dropped += 1
                continue
            kept.append(row)
        return np.array(kept, np.float64).reshape(len(kept), len(self.chosen))

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


def _arrived(stream: BinaryIO) -> bytes:
    read1 = getattr(stream, "read1", stream.read)
    return bytes(read1(BYTES_AT_ONCE))


def _text(data: bytes) -> str:
    try:
        return data.decode("utf-8")
    except UnicodeDecodeError:
        raise ValueError("standard input is not text: it should be CSV in UTF-8") from None
