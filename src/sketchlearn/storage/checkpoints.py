"""Many files as one sketch, in a way that survives: finished files, and parts of large ones, are kept in a folder.

A run that was killed at any moment and is started again does what is missing; as sums are exact, the result has the
same bytes as that of an undisturbed run.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.sources import Block, Source, source
from sketchlearn.storage import container
from sketchlearn.storage.sketch_files import from_bytes

EVERY = 20.0  # seconds between two parts of one file
LEAST_ROWS, MOST_SUMS = 1024, 100_000_000  # of one call of the kernel: a fraction of a second


@dataclass(frozen=True)
class Reading:
    """How files are read: columns and missing values, threads, what becomes of bad files, and where parts are kept."""

    columns: tuple[Any, ...] | None = None
    nulls: str = "error"
    n_jobs: int | None = None
    skip_bad: bool = False
    folder: Path | None = None
    every: float = EVERY


class Work:
    """How far it is: bytes of all files, and those that were read; a progress bar reads it."""

    n_rows: int | None = None

    def __init__(self, paths: list[str]) -> None:
        self.n_bytes: int | None = sum(_size(path) for path in paths)
        self.bytes_read = 0
        self.show: Callable[[int], None] = lambda _rows: None

    def advance(self, rows: int, n_bytes: int) -> None:
        """Notes what was read."""
        self.bytes_read += n_bytes
        self.show(rows)


@dataclass(frozen=True)
class Part:
    """What is known of a file: the sketch of its first rows, how many were read and dropped, whether that is all."""

    sketch: Sketch
    rows: int = 0
    dropped: int = 0
    done: bool = False


@dataclass
class Run:
    """What came of it."""

    sketch: Sketch
    dropped: int = 0
    kept: int = 0  # files that the checkpoint already had
    skipped: dict[str, str] | None = None  # the reason for each bad file


def sketch_files(operator: Operator, paths: list[str], reading: Reading, work: Work) -> Run:
    """The sketch of all rows of all files."""
    run, reasons = Run(Sketch(operator)), {}
    if reading.folder is not None:
        reading.folder.mkdir(parents=True, exist_ok=True)
    for path in paths:
        try:
            part, kept = _sketch_file(operator, path, reading, work)
        except _BadFileError as bad:
            if not reading.skip_bad:
                raise bad.__cause__ or bad from None
            reasons[path] = str(bad)
            continue
        run.sketch += part.sketch
        run.dropped += part.dropped
        run.kept += kept
    if reasons and len(reasons) == len(paths):
        first = next(iter(reasons.values()))
        raise ValueError(f"none of the {len(paths)} files could be read, the first because: {first}")
    run.skipped = reasons
    run.sketch += Sketch(operator, skipped=tuple(reasons))
    return run


class _BadFileError(Exception):
    """A file cannot be read, or its rows cannot be sketched."""


def _sketch_file(operator: Operator, path: str, reading: Reading, work: Work) -> tuple[Part, bool]:
    before = _identity(path)
    name = _name(operator, path, before, reading)
    part = _kept(operator, name, reading.folder) or Part(Sketch(operator))
    if part.done:
        work.advance(part.rows, before[0])
        return part, True
    rows = _BlocksOfFile(path, operator, reading, part.rows, work)
    while not part.done:
        until = time.monotonic() + reading.every if reading.folder is not None else None
        new = rows.sketch(until)
        if _identity(path) != before:
            raise _bad(path, ValueError(f"{path} changed while it was read: start again when it is complete"))
        part = Part(part.sketch + new, rows.read, rows.source.dropped, rows.ended)
        if reading.folder is not None:
            _keep(part, name, reading.folder)
    return part, False


class _BlocksOfFile:
    """The blocks of one file, after the rows that were sketched before; sketched for a while at a time."""

    def __init__(self, path: str, operator: Operator, reading: Reading, skip: int, work: Work) -> None:
        self.path, self.operator, self.reading, self.work = path, operator, reading, work
        self.skip, self.read, self.seen, self.ended = skip, 0, 0, False
        try:
            rows = source(path, columns=reading.columns, nulls=reading.nulls)
            self.source = rows if operator.columns is None else rows.only(operator.columns)
            self.pieces = _pieces(self.source.blocks(operator.n_features), operator)
        except (ValueError, TypeError, OSError) as error:
            raise _bad(path, error) from error

    def sketch(self, until: float | None) -> Sketch:
        """The sketch of the next blocks: until that time has come, or the file has ended."""
        try:
            return self.operator.sketch(_Portion(self._next(until)), n_jobs=self.reading.n_jobs)
        except (ValueError, TypeError, OSError) as error:
            raise _bad(self.path, error) from error

    def _next(self, until: float | None) -> Iterator[Block]:
        for block in self.pieces:
            first, self.read = self.read, self.read + len(block.rows)
            if self.read > self.skip:
                yield _cut(block, max(0, self.skip - first), len(block.rows))
            self.work.advance(len(block.rows), self.source.bytes_read - self.seen)
            self.seen = self.source.bytes_read
            if self.read >= self.skip and until is not None and time.monotonic() >= until:
                return
        self.ended = True
        self.work.advance(0, _size(self.path) - self.seen)
        if self.read < self.skip:
            raise ValueError(f"{self.path} has fewer rows than were read before: remove the checkpoint")


def _pieces(blocks: Iterator[Block], operator: Operator) -> Iterator[Block]:
    """Blocks so small that the kernel returns soon: Ctrl-C took 80 s in test_interruption_leaves_nothing."""
    step = max(LEAST_ROWS, MOST_SUMS // operator.n_sums)
    for block in blocks:
        for first in range(0, len(block.rows), step):
            yield _cut(block, first, first + step)


class _Portion(Source):
    """Blocks that come from elsewhere, once."""

    replayable = False

    def __init__(self, blocks: Iterator[Block]) -> None:
        self._blocks = blocks

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:  # noqa: ARG002
        return self._blocks

    def only(self, columns: tuple[str, ...]) -> Source:  # noqa: ARG002
        return self


def _cut(block: Block, first: int, last: int) -> Block:
    """Some consecutive rows of a block."""
    if first == 0 and last >= len(block.rows):
        return block
    if block.numbers is not None:
        return replace(block, rows=block.rows[first:last], numbers=block.numbers[first:last])
    return replace(block, rows=block.rows[first:last], start=block.start + first)


def _bad(path: str, error: Exception) -> _BadFileError:
    """The error with the file's name in its sentence."""
    said = error.strerror or str(error) if isinstance(error, OSError) else str(error)
    sentence = said if path in said else f"{path}: {said}"
    bad = _BadFileError(sentence)
    bad.__cause__ = OSError(sentence) if isinstance(error, OSError) else ValueError(sentence)
    return bad


def _size(path: str) -> int:
    try:
        return os.stat(path).st_size
    except OSError:  # it is told when its turn comes
        return 0


def _identity(path: str) -> tuple[int, int]:
    try:
        found = os.stat(path)
    except OSError as error:
        raise _bad(path, error) from error
    return found.st_size, found.st_mtime_ns


def _name(operator: Operator, path: str, identity: tuple[int, int], reading: Reading) -> str:
    """A digest of all that the sketch of a file depends on."""
    columns = None if reading.columns is None else list(reading.columns)
    facts = [operator.to_json(), os.path.abspath(path), *identity, reading.nulls, columns]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _keep(part: Part, name: str, folder: Path) -> None:
    progress = {"name": name, "rows": part.rows, "dropped": part.dropped, "done": part.done}
    container.write(folder / f"{name}.part", part.sketch.to_bytes(progress=progress))


def _kept(operator: Operator, name: str, folder: Path | None) -> Part | None:
    """What an earlier run left of a file; None if there is nothing, or nothing that can be trusted."""
    if folder is None:
        return None
    try:
        data = (folder / f"{name}.part").read_bytes()
        sketch, progress = from_bytes(data), container.unpack(data)[1]["progress"]
        part = Part(sketch, progress["rows"], progress["dropped"], progress["done"])
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = type(part.rows) is int and type(part.dropped) is int and type(part.done) is bool
    return part if sound and progress["name"] == name and sketch.operator == operator else None
