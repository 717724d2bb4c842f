"""The demonstration: rows seen once, in any order and any cut, give the same bytes; clusters are learned from those."""

from __future__ import annotations

import hashlib
import time
import timeit
from collections.abc import Callable, Iterator
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.cluster import KMeans
from threadpoolctl import threadpool_limits

import sketchlearn as skl
from sketchlearn.cli.files import tell

Rows = NDArray[np.float32]
T = TypeVar("T")
BLOCK, D, K, M = 100_000, 10, 10, 400  # rows of a block, columns, clusters and frequencies
PICTURE = "sketchlearn-demo.png"


class Generator:
    """Rows around K centers, block by block: block i is the same whenever it is asked for."""

    def __init__(self, n_rows: int) -> None:
        self.n_rows = n_rows
        self.n_blocks = -(-n_rows // BLOCK)
        self.centers = np.random.default_rng(0).standard_normal((K, D), dtype=np.float32) * np.float32(3)

    def block(self, i: int) -> Rows:
        return self._rows(np.random.default_rng([1, i]), min(BLOCK, self.n_rows - i * BLOCK))

    def fresh(self) -> Rows:
        """Rows of the same kind that are not part of the stream."""
        return self._rows(np.random.default_rng(3), BLOCK)

    def _rows(self, rng: np.random.Generator, n: int) -> Rows:
        noise: Rows = rng.standard_normal((n, D), dtype=np.float32)
        return noise + self.centers[rng.integers(0, K, n)]

    def in_order(self, without: int = 0) -> Iterator[Rows]:
        """All blocks, the first of them without its first rows."""
        for i in range(self.n_blocks):
            yield self.block(i)[0 if i else without :]

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


def demonstrate(n_rows: int, json: bool = False) -> None:
    say = Console(highlight=False, soft_wrap=True, quiet=json).print
    generator = Generator(n_rows)
    operator = skl.design(generator.block(0)[:5000], n_components=K, features=skl.features.Fourier(M), seed=7)
    say(f"[bold]{n_rows:,} rows[/] of {D} columns, in blocks of {BLOCK:,}: never in memory at once.")
    say(f"Each row becomes {M} random Fourier features, designed on 5000 rows;")
    say("their exact sum is the sketch.\n")

    sketch, seconds = _timed(lambda: operator.sketch(generator.in_order(), n_jobs=1, progress=True))
    say(f"1. In order, one thread: {seconds:.1f} s, generating the rows included.")
    other, seconds = _timed(lambda: operator.sketch(generator.shuffled(), progress=True))
    say(f"2. Shuffled, cut at random places, all cores: {seconds:.1f} s, shuffling included.")
    files = {"in-order.sketch": sketch.content(), "shuffled.sketch": other.content()}
    for name, data in files.items():
        say(f"   {name:15} {len(data):,} bytes, SHA-256 {hashlib.sha256(data).hexdigest()[:24]}...")
    identical = len(set(files.values())) == 1
    say(f"   The two are [bold]{'byte-identical' if identical else 'DIFFERENT'}[/].\n")

    gone = generator.block(0)[:1000]
    forgotten = sketch.copy().forget(gone)
    say(f"3. A thousand rows forgotten: {forgotten.count:,} records left.")
    exact = forgotten == operator.sketch(generator.in_order(without=len(gone)), progress=True)
    say(f"   The sketch [bold]{'equals' if exact else 'DIFFERS FROM'}[/] the one that never had them.\n")
    features = operator.part(skl.features.FourierFeatures)  # a design may have histograms beside them
    assert features is not None
    speed = _throughput(say, features, generator)
    error = _clusters(say, sketch, generator)
    figures = {"rows": n_rows, "identical": identical, "forgotten": exact, "rows_per_second": speed, "error": error}
    tell(json, figures)
    if not (identical and exact):
        raise SystemExit(1)


def _throughput(say: Callable[[str], None], operator: skl.features.FourierFeatures, generator: Generator) -> float:
    rows = generator.block(0)
    frequencies = operator.frequencies.astype(np.float32)
    own = min(timeit.repeat(lambda: operator.sketch(rows, n_jobs=1), number=1, repeat=3))
    few = rows[:20_000]
    with threadpool_limits(1):
        numpy = min(timeit.repeat(lambda: _numpy_sums(few, frequencies), number=1, repeat=2)) * len(rows) / len(few)
    say("4. Throughput on one thread, the same rows and frequencies:")
    say(f"   sketchlearn {len(rows) / own:12,.0f} rows/s, [bold]{numpy / own:.1f} times[/] as fast")
    say(f"   NumPy       {len(rows) / numpy:12,.0f} rows/s (float32 product, cos, sin, sum)")
    return len(rows) / own


def _clusters(say: Callable[[Any], None], sketch: skl.Sketch, generator: Generator) -> float:
    say(f"\n5. The {K} clusters, learned from the {sketch.sums.nbytes:,} bytes of the sketch alone:")
    learned, seconds = _timed(lambda: skl.SketchKMeans(K, random_state=0).fit_sketch(sketch))
    some = generator.block(0)  # k-means on all rows would take too long
    peer, peer_seconds = _timed(lambda: KMeans(K, n_init=10, random_state=0).fit(some))
    fresh = generator.fresh()
    own, other = -learned.score(fresh), -float(peer.score(fresh))
    say(f"   sketchlearn, {sketch.count:,} rows through their sketch: {seconds:.2f} s")
    say(f"   KMeans(n_init=10), {len(some):,} of the rows:        {peer_seconds:.2f} s")
    say(f"   Squared error on other rows, relative to KMeans: [bold]{own / other:.4f}[/]")
    table = Table("true center", "share", "error", "KMeans: share", "error", box=None, pad_edge=False)
    shares = np.bincount(peer.labels_, minlength=K) / len(some)
    say("   Shares, and distances from the true centers:")
    for i, center in enumerate(generator.centers):
        cells = [str(i + 1)]
        for centers, weights in ((learned.cluster_centers_, learned.weights_), (peer.cluster_centers_, shares)):
            away = np.linalg.norm(centers - center, axis=1)
            nearest = int(np.argmin(away))
            cells += [f"{weights[nearest]:.4f}", f"{away[nearest]:.4f}"]
        table.add_row(*cells)
    say(table)
    _picture(say, some, learned.cluster_centers_, peer.cluster_centers_)
    return own / other


def _picture(say: Callable[[str], None], rows: Rows, learned: NDArray[np.float64], peer: NDArray[np.float64]) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        say("   (no picture: it needs matplotlib, pip install 'sketchlearn[plot]')")
        return
    middle = learned.mean(axis=0)
    directions = np.linalg.svd(learned - middle, full_matrices=False)[2][:2].T
    few, others, own = (((points - middle) @ directions).T for points in (rows[:20_000], peer, learned))
    figure = Figure(figsize=(7, 6))
    axes: Any = figure.add_subplot(xlabel="first direction of the centers", ylabel="second direction")
    axes.scatter(*few, s=1, color="0.7", label="some of the rows")
    axes.scatter(*others, s=160, facecolors="none", edgecolors="tab:orange", label="KMeans on 100,000 rows")
    axes.scatter(*own, s=40, marker="x", color="tab:blue", label="from the sketch of all rows")
    axes.set_title("Ten clusters in ten dimensions")
    axes.legend(loc="best", markerscale=1)
    figure.tight_layout()
    figure.savefig(PICTURE, dpi=120)
    say(f"   Picture: {PICTURE}")


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
