"""The demonstration: rows that are seen once, in any order and any cut, give the same bytes."""

from __future__ import annotations

import hashlib
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.markup import escape

import sketchlearn as skl
from sketchlearn.progress import row_bar

Rows = NDArray[np.float32]
T = TypeVar("T")
BLOCK, D, K, M = 100_000, 10, 10, 500


class Generator:
    """Rows around K centers, block by block: block i is the same whenever it is asked for."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.n_blocks = -(-n_rows // BLOCK)
        self.centers = np.random.default_rng(0).standard_normal((K, D), dtype=np.float32) * np.float32(3)

    def block(self, i: int) -> Rows:
        rng = np.random.default_rng([1, i])
        n = min(BLOCK, self.n_rows - i * BLOCK)
        noise: Rows = rng.standard_normal((n, D), dtype=np.float32)
        return noise + self.centers[rng.integers(0, K, n)]

    def in_order(self) -> Iterator[Rows]:
        return (self.block(i) for i in range(self.n_blocks))

    def shuffled(self) -> Iterator[Rows]:
        """The same rows: blocks in another order, rows shuffled within them, and cut elsewhere."""
        rng = np.random.default_rng(2)
        left: Rows = np.empty((0, D), np.float32)
        for i in rng.permutation(self.n_blocks):
            rows = self.block(int(i))
            left = np.concatenate([left, rows[rng.permutation(len(rows))]])
            cut = int(rng.integers(0, len(left) + 1))
            yield left[:cut]
            left = left[cut:]
        yield left


def run(n_rows: int) -> None:
    """Runs the whole demonstration and prints it."""
    console = Console()
    generator = Generator(n_rows)
    operator = skl.FourierFeatures(D, M, law=skl.frequencies.Gaussian(scale=3.0), seed=7)
    say = console.print
    say(f"[bold]{n_rows:,} rows[/] of {D} columns, generated in blocks of {BLOCK:,}: never in memory at once.")
    say(f"Operator: {escape(repr(operator))}\n")

    sketch, seconds = _timed(lambda: _sketch(operator, generator.in_order(), n_rows, n_jobs=1))
    say(f"1. In order, one thread: {seconds:.1f} s, rows generated meanwhile included.")
    other, seconds = _timed(lambda: _sketch(operator, generator.shuffled(), n_rows, n_jobs=None))
    say(f"2. Shuffled, cut at random places, all cores: {seconds:.1f} s.")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("in-order.sketch", "shuffled.sketch")]
        for path, made in zip(paths, (sketch, other), strict=True):
            made.save(path)
            say(f"   {path.name}: {path.stat().st_size:,} bytes, SHA-256 {_digest(path)[:32]}...")
        identical = paths[0].read_bytes() == paths[1].read_bytes()
    say(f"   The two files are [bold]{'byte-identical' if identical else 'DIFFERENT'}[/].\n")

    gone = generator.block(3 % generator.n_blocks)[:1000]
    never = sum(_without(operator, generator, len(gone)))
    forgotten = sketch.copy().forget(gone)
    say(f"3. A thousand rows forgotten: {forgotten.count:,} records left.")
    exact = forgotten == never
    say(f"   The sketch [bold]{'equals' if exact else 'DIFFERS FROM'}[/] the one that never had them.\n")
    _throughput(say, operator, generator)
    if not (identical and exact):
        raise SystemExit(1)


def _sketch(operator: skl.Operator, blocks: Iterator[Rows], n_rows: int, n_jobs: int | None) -> skl.Sketch:
    sketch = skl.Sketch(operator)
    with row_bar(n_rows, shown=True) as advance:
        for rows in blocks:
            sketch.update(rows, n_jobs=n_jobs)
            advance(len(rows))
    return sketch


def _without(operator: skl.Operator, generator: Generator, gone: int) -> Iterator[skl.Sketch]:
    """Sketches of all blocks, one of them without its first rows."""
    for i in range(generator.n_blocks):
        yield operator.sketch(generator.block(i)[gone if i == 3 % generator.n_blocks else 0 :])


def _throughput(say: Callable[[str], None], operator: skl.FourierFeatures, generator: Generator) -> None:
    rows = generator.block(0)
    frequencies = operator.frequencies.astype(np.float32)
    own = min(_timed(lambda: operator.sketch(rows, n_jobs=1))[1] for _ in range(3))
    few = rows[:20_000]
    numpy = min(_timed(lambda: _numpy_sums(few, frequencies))[1] for _ in range(2)) * len(rows) / len(few)
    say("4. Throughput, one thread, the same rows and frequencies (NumPy: float32 product, cos, sin, sum):")
    say(f"   sketchlearn {len(rows) / own:12,.0f} rows/s")
    say(f"   NumPy       {len(rows) / numpy:12,.0f} rows/s   sketchlearn is [bold]{numpy / own:.1f} times[/] as fast")


def _numpy_sums(rows: Rows, frequencies: Rows) -> NDArray[np.float64]:
    total = np.zeros((2, frequencies.shape[1]))
    for start in range(0, len(rows), 512):
        phase = rows[start : start + 512] @ frequencies
        total += [np.cos(phase).sum(axis=0), np.sin(phase).sum(axis=0)]
    return total


def _timed(function: Callable[[], T]) -> tuple[T, float]:
    started = time.perf_counter()
    result = function()
    return result, time.perf_counter() - started


def _digest(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()
