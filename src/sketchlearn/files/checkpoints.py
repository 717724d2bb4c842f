"""Sketches of many files with checkpoints: a folder keeps the sketches of finished files, and of parts of large ones.

A run that was killed and is started again does only what is missing. Sums are exact, so the result has the same bytes
as that of an undisturbed run.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from sketchlearn.core import containers as container
from sketchlearn.core.limits import CostlyFileError, loading
from sketchlearn.core.owner_folder import LinkError, make_folder, read_file, write_file
from sketchlearn.features.operator import Operator
from sketchlearn.files.sketches import sketch_of
from sketchlearn.rows.paths import file_of
from sketchlearn.rows.sampling import Begun
from sketchlearn.rows.source import source
from sketchlearn.rows.source_base import Block
from sketchlearn.sketch.sums import Sketch

LEAST_KERNEL_ROWS = 1024  # The least number of rows in one call of the kernel.
# A row has at least a byte; deflate compresses at most 1032 bytes to one.
LARGEST_ROWS_PER_BYTE = {".csv": 1, ".tsv": 1, ".csv.gz": 1032, ".tsv.gz": 1032}
MOST_KERNEL_SUMS = 100_000_000  # Additions of one call, a fraction of a second: Ctrl-C waits for the kernel to return.


@dataclass(frozen=True)
class Reading:
    """How files are read: threads, device, bad files, folder and interval of checkpoints, and arguments of `source`."""

    n_jobs: int | None = None
    device: str | None = None
    skip_bad: bool = False
    folder: Path | None = None
    every: float = 20.0
    arguments: Mapping[str, Any] = field(default_factory=dict)

    @property
    def facts(self) -> list[Any]:
        """The arguments that the sketch depends on, in the form of earlier versions: without defaults."""
        usual = {"nulls": "error", "exclude": (), "numeric_only": False}
        more = {name: value for name, value in self.arguments.items() if value != usual.get(name)}
        return [more.pop("nulls", "error"), more.pop("columns", None), *([more] if more else [])]


class Work:
    """The progress: bytes of all files, and those that were read."""

    n_rows: int | None = None

    def __init__(self, paths: list[str]) -> None:
        self.n_bytes: int | None = sum(file.stat().st_size for file in map(file_of, paths) if file.exists())
        self.bytes_read = 0
        self.show: Callable[[int], None] = lambda _rows: None
        self.note: Callable[[Mapping[str, str]], None] = lambda _remarks: None  # is given the remarks of each source

    def advance(self, rows: int, n_bytes: int) -> None:
        self.bytes_read += n_bytes
        self.show(rows)


@dataclass(frozen=True)
class Part:
    """The state of a file: the sketch of its first rows, how many were read and dropped, and whether those are all."""

    sketch: Sketch
    rows: int = 0
    dropped: int = 0
    done: bool = False


@dataclass
class Run:
    """The result of `sketch_files`."""

    sketch: Sketch
    dropped: int = 0
    kept: int = 0  # number of files that the checkpoint already had
    skipped: dict[str, str] = field(default_factory=dict)  # the reason for each bad file


def sketch_files(operator: Operator, paths: list[str], reading: Reading, work: Work) -> Run:
    """The sketch of all rows of all files."""
    run = Run(Sketch(operator))
    if reading.folder is not None:
        make_folder(reading.folder)
    for path in paths:
        try:
            part, kept = _sketch_file(operator, path, reading, work)
        except _BadFileError as bad:
            if not reading.skip_bad:
                raise bad.__cause__ or bad from None
            run.skipped[path] = str(bad)
            continue
        if run.sketch.batches.shared(part.sketch.batches):
            twice = f"{path} has the same rows in {reading.folder} as another file has"
            raise ValueError(f"{twice}: remove the folder, and start again")
        run.sketch += part.sketch
        run.dropped += part.dropped
        run.kept += kept
    if run.skipped and len(run.skipped) == len(paths):
        first = next(iter(run.skipped.values()))
        raise ValueError(f"none of the {len(paths)} files could be read, the first because: {first}")
    run.sketch = (run.sketch + Sketch(operator, skipped=tuple(run.skipped))).as_one_batch()
    return run


class _BadFileError(Exception):
    pass


@contextmanager
def _bad_file(path: str) -> Iterator[None]:
    """Errors of a file as `_BadFileError`s, whose cause is a sentence with the file's name."""
    try:
        yield
    except (ValueError, TypeError, OSError) as error:
        said = (isinstance(error, OSError) and error.strerror) or str(error)
        sentence = said if path in said else f"{path}: {said}"
        raise _BadFileError(sentence) from (OSError if isinstance(error, OSError) else ValueError)(sentence)


def _sketch_file(operator: Operator, path: str, reading: Reading, work: Work) -> tuple[Part, bool]:
    with _bad_file(path):
        before = _identity(path)
    name = _name(operator, path, before, reading)
    part = _kept(operator, name, reading.folder) or Part(Sketch(operator))
    with _bad_file(path):
        rows = _BlocksOfFile(path, operator, reading, work)
    if not rows.may_have(part):
        part = Part(Sketch(operator))
    if part.done:
        work.advance(part.rows, before[0])
        return part, True
    rows.skip = part.rows
    while not part.done:
        with _bad_file(path):
            new = operator.sketch(Begun(rows.source, rows.next_blocks()), n_jobs=reading.n_jobs, device=reading.device)
            if _identity(path) != before:
                raise ValueError(f"{path} changed while it was read: start again when it is complete")
        # the name of the part, so that files of equal rows are not taken for one
        part = Part(part.sketch.add_as_new(new).as_one_batch(name), rows.read, rows.source.dropped, rows.ended)
        if reading.folder is not None:
            _keep(part, name, reading.folder)
    return part, False


class _BlocksOfFile:
    """The blocks of one file, after the rows that were sketched before."""

    def __init__(self, path: str, operator: Operator, reading: Reading, work: Work) -> None:
        self.path, self.skip, self.work = path, 0, work
        self.seconds = None if reading.folder is None else reading.every
        self.read, self.seen, self.ended = 0, 0, False
        rows = source(path, **reading.arguments)
        work.note(rows.remarks)
        self.source = rows if operator.columns is None else rows.only(operator.columns)
        # blocks so small that the kernel returns soon: Ctrl-C took 80 s in test_interruption_leaves_nothing
        step = max(LEAST_KERNEL_ROWS, MOST_KERNEL_SUMS // operator.n_sums)
        blocks = self.source.blocks(operator.n_features)
        self.pieces = (_cut(block, i, i + step) for block in blocks for i in range(0, len(block.rows), step))

    def may_have(self, part: Part) -> bool:
        """Whether a part can be one of this file, as far as that is known without reading all rows.

        A part's digest detects damage, not forgery.
        """
        sketch, n_rows = part.sketch, part.rows + part.dropped
        unweighted = (sketch.units, sketch.bits, sketch.heaviest) == (part.rows, 0, 1)
        by_rows = sketch.ledger is None and sketch.unit is None
        exact = by_rows and not sketch.skipped and sketch.clipped <= part.rows
        if not unweighted or not exact or (part.dropped and self.source.nulls == "error"):
            return False
        if self.source.n_rows is not None:
            return n_rows == self.source.n_rows if part.done else n_rows <= self.source.n_rows
        most = [size for ending, size in LARGEST_ROWS_PER_BYTE.items() if self.path.lower().endswith(ending)]
        return not most or n_rows <= most[0] * file_of(self.path).stat().st_size

    def next_blocks(self) -> Iterator[Block]:
        """The next blocks, until it is time for a checkpoint, or the end of the file."""
        until = None if self.seconds is None else time.monotonic() + self.seconds
        for block in self.pieces:
            first, self.read = self.read, self.read + len(block.rows)
            if self.read > self.skip:
                yield _cut(block, max(0, self.skip - first), len(block.rows))
            self.work.advance(len(block.rows), self.source.bytes_read - self.seen)
            self.seen = self.source.bytes_read
            if self.read >= self.skip and until is not None and time.monotonic() >= until:
                return
        self.ended = True
        self.work.advance(0, file_of(self.path).stat().st_size - self.seen)
        if self.read < self.skip:
            raise ValueError(f"{self.path} has fewer rows than were read before: remove the checkpoint")


def _cut(block: Block, first: int, last: int) -> Block:
    numbers = None if block.numbers is None else block.numbers[first:last]
    return replace(block, rows=block.rows[first:last], start=block.start + first, numbers=numbers)


def _identity(path: str) -> tuple[int, int]:
    found = file_of(path).stat()
    return found.st_size, found.st_mtime_ns


def _name(operator: Operator, path: str, identity: tuple[int, int], reading: Reading) -> str:
    """A digest of all that the sketch of a file depends on."""
    facts = [operator.to_json(), os.path.abspath(path), *identity, *reading.facts]
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _keep(part: Part, name: str, folder: Path) -> None:
    progress = {"name": name, "rows": part.rows, "dropped": part.dropped, "done": part.done}
    write_file(folder / f"{name}.part", part.sketch.to_bytes(progress=progress))


@loading()
def _kept(operator: Operator, name: str, folder: Path | None) -> Part | None:
    """The state of a file that an earlier run left; None if there is none that fits. Links are refused."""
    if folder is None:
        return None
    try:
        data = read_file(folder / f"{name}.part")
        tensors, description = container.unpack(data)
        sketch, progress = sketch_of(tensors, description, operator), description["progress"]
        own_name, rows, dropped, done = (progress[key] for key in ("name", "rows", "dropped", "done"))
    except (LinkError, CostlyFileError):
        raise
    except (OSError, ValueError, KeyError, TypeError):
        return None
    sound = [type(fact) for fact in (rows, dropped, done)] == [int, int, bool] and min(rows, dropped) >= 0
    own = own_name == name and sketch.operator == operator
    return Part(sketch, rows, dropped, done) if sound and own else None
