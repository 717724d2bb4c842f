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
from threadpoolctl import threadpool_limits

import sketchlearn as skl

Rows = NDArray[np.float32]
T = TypeVar("T")
BLOCK, D, K, M = 100_000, 10, 10, 300
GONE_BLOCK = 0


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

    def in_order(self, without: int = 0) -> Iterator[Rows]:
        """All blocks, one of them without its first rows."""
        for i in range(self.n_blocks):
            yield self.block(i)[without if i == GONE_BLOCK else 0 :]

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
    console = Console(highlight=False, soft_wrap=True)
    say = console.print
    generator = Generator(n_rows)
    operator = skl.FourierFeatures(D, M, law=skl.frequencies.Gaussian(scale=3.0), seed=7)
    say(f"[bold]{n_rows:,} rows[/] of {D} columns, in blocks of {BLOCK:,}: never in memory at once.")
    say(f"Each row becomes {M} random Fourier features; their exact sum is the sketch.\n")

    sketch, seconds = _timed(lambda: operator.sketch(generator.in_order(), n_jobs=1, progress=True))
    say(f"1. In order, one thread: {seconds:.1f} s, generating the rows included.")
    other, seconds = _timed(lambda: operator.sketch(generator.shuffled(), progress=True))
    say(f"2. Shuffled, cut at random places, all cores: {seconds:.1f} s, shuffling included.")
    with tempfile.TemporaryDirectory() as folder:
        paths = [Path(folder) / name for name in ("in-order.sketch", "shuffled.sketch")]
        for path, made in zip(paths, (sketch, other), strict=True):
            made.save(path)
            say(f"   {path.name:15} {path.stat().st_size:,} bytes, SHA-256 {_digest(path)[:24]}...")
        identical = paths[0].read_bytes() == paths[1].read_bytes()
    say(f"   The two files are [bold]{'byte-identical' if identical else 'DIFFERENT'}[/].\n")

    gone = generator.block(GONE_BLOCK)[:1000]
    forgotten = sketch.copy().forget(gone)
    say(f"3. A thousand rows forgotten: {forgotten.count:,} records left.")
    exact = forgotten == operator.sketch(generator.in_order(without=len(gone)), progress=True)
    say(f"   The sketch [bold]{'equals' if exact else 'DIFFERS FROM'}[/] the one that never had them.\n")
    _throughput(say, operator, generator)
    if not (identical and exact):
        raise SystemExit(1)


def _throughput(say: Callable[[str], None], operator: skl.FourierFeatures, generator: Generator) -> None:
    rows = generator.block(0)
    frequencies = operator.frequencies.astype(np.float32)
    own = min(_timed(lambda: operator.sketch(rows, n_jobs=1))[1] for _ in range(3))
    few = rows[:20_000]
    with threadpool_limits(1):
        numpy = min(_timed(lambda: _numpy_sums(few, frequencies))[1] for _ in range(2)) * len(rows) / len(few)
    say("4. Throughput on one thread, the same rows and frequencies:")
    say(f"   sketchlearn {len(rows) / own:12,.0f} rows/s, [bold]{numpy / own:.1f} times[/] as fast")
    say(f"   NumPy       {len(rows) / numpy:12,.0f} rows/s (float32 product, cos, sin, sum)")


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
