"""How time grows with rows, clusters, columns and threads, beside KMeans, MiniBatchKMeans and faiss.

python benchmarks/speed/growth.py --draw growth.png     # hours; --quick takes minutes; drawing needs matplotlib

Seconds to fit clusters of round normal rows in float32, of one size that grows while the others stay: n = 100,000 rows,
k = 10 clusters, d = 10 columns. Up to ten million rows are held in memory. Beyond, rows are made block by block and the
seconds that making them takes are subtracted; the sketch's design is told how many there will be; KMeans and faiss,
which need all rows at once, end there. A method is
asked for a size if it should take no longer than --seconds-per-point, judged by the sizes before. faiss sees all rows,
25 times. With one thread, seconds are those of the processor, which other work on the machine does not change; with
more, those of the clock, which it does. Slopes are those of log seconds over log size, by least squares: 1 is
proportional, 0 does not grow.
"""

from __future__ import annotations

import argparse
import itertools
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans, MiniBatchKMeans
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of

Rows = NDArray[np.float32]
Fit = Callable[["Problem", "Stream", int], NDArray[Any]]

SIZES = {
    "n": (10_000, 100_000, 1_000_000, 10_000_000, 100_000_000),
    "k": (10, 30, 100, 300),
    "d": (2, 5, 10, 20, 50, 100, 200, 500),
}
QUICK_SIZES = {"n": (10_000, 30_000, 100_000, 300_000), "k": (10, 20, 40), "d": (2, 10, 50)}
MOST_HELD = 10_000_000  # rows
BLOCK = 200_000  # rows that are made at a time
CHECKED = 50_000  # fresh rows on which squared errors are compared
ENOUGH_SECONDS, MOST_ROUNDS = 1.0, 3  # A fit is repeated until it took so long in all, or so often; the median counts.
LEAST_SLOPE = 0.5  # By which the next size's time is guessed: small sizes may take the same time, larger ones do not.
VERSIONS = ("numpy", "scikit-learn", "faiss-cpu")


@dataclass(frozen=True)
class Problem:
    """So many rows of k round clusters in d columns."""

    n: int = 100_000
    k: int = 10
    d: int = 10

    def rows(self, count: int, seed: int) -> Rows:
        centers = np.random.default_rng(self.k).standard_normal((self.k, self.d), np.float32)
        rng = np.random.default_rng(seed)
        which = rng.integers(0, self.k, count)
        apart = np.float32(2.5 * self.k ** (1 / self.d))
        return apart * centers[which] + rng.standard_normal((count, self.d), np.float32)


@dataclass
class Stream:
    """The rows of a problem: held, or made block by block in as many seconds as `making` says."""

    problem: Problem
    clock: Callable[[], float] = field(default=time.perf_counter, init=False)
    making: float = field(default=0.0, init=False)
    held: Rows | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        if self.problem.n <= MOST_HELD:
            self.held = np.concatenate(list(self))

    def __iter__(self) -> Iterator[Rows]:
        for number, first in enumerate(range(0, self.problem.n, BLOCK)):
            started = self.clock()
            block = self.problem.rows(min(BLOCK, self.problem.n - first), number)
            self.making += self.clock() - started
            yield block


def sketch_centers(problem: Problem, stream: Stream, threads: int) -> NDArray[Any]:
    model = skl.SketchKMeans(problem.k, random_state=0, n_jobs=threads)
    if stream.held is not None:
        return model.fit(stream.held).cluster_centers_
    rows = iter(stream)
    first = next(rows)
    operator = skl.design(first, n_components=problem.k, seed=0, n_rows=problem.n)
    sketch = operator.sketch(itertools.chain([first], rows), n_jobs=threads)
    return model.fit_sketch(sketch).cluster_centers_


def kmeans_centers(problem: Problem, stream: Stream, threads: int) -> NDArray[Any]:  # noqa: ARG001
    return KMeans(problem.k, random_state=0).fit(stream.held).cluster_centers_


def minibatch_centers(problem: Problem, stream: Stream, threads: int) -> NDArray[Any]:  # noqa: ARG001
    model = MiniBatchKMeans(problem.k, random_state=0)
    if stream.held is not None:
        return model.fit(stream.held).cluster_centers_
    for block in stream:
        for first in range(0, len(block), model.batch_size):
            model.partial_fit(block[first : first + model.batch_size])
    return model.cluster_centers_


def faiss_centers(problem: Problem, stream: Stream, threads: int) -> NDArray[Any]:
    import faiss

    faiss.omp_set_num_threads(threads)
    model = faiss.Kmeans(problem.d, problem.k, niter=25, seed=1, max_points_per_centroid=problem.n)
    model.train(stream.held)
    return model.centroids


METHODS: dict[str, Fit] = {
    "SketchKMeans": sketch_centers,
    "KMeans": kmeans_centers,
    "MiniBatchKMeans": minibatch_centers,
    "faiss.Kmeans": faiss_centers,
}
NEEDS_ALL_ROWS = ("KMeans", "faiss.Kmeans")


@dataclass
class Curve:
    """The seconds of one method by size, with so many threads, and why larger sizes are missing."""

    method: str
    threads: int
    seconds: dict[int, float] = field(default_factory=dict)
    errors: dict[int, float] = field(default_factory=dict)
    ended: str = ""

    def slope(self) -> float:
        sizes, seconds = np.log([list(self.seconds), list(self.seconds.values())])
        return float(np.polyfit(sizes, seconds, 1)[0]) if len(sizes) > 1 else float("nan")

    def guess(self, size: int) -> float:
        """How long a larger size should take, by the slope so far."""
        if not self.seconds:
            return 0.0
        last, slope = max(self.seconds), self.slope() if len(self.seconds) > 1 else 0.0
        return self.seconds[last] * (size / last) ** max(slope, LEAST_SLOPE)


def squared_error(rows: Rows, centers: NDArray[Any]) -> float:
    """The mean squared distance to the nearest center."""
    c = centers.astype(np.float64)
    blocks = (rows[i : i + 5000].astype(np.float64) for i in range(0, len(rows), 5000))
    nearest = [np.min(np.sum(c**2, axis=1) - 2 * (x @ c.T), axis=1) + np.sum(x**2, axis=1) for x in blocks]
    return float(np.mean(np.concatenate(nearest)))


def timed(fit: Fit, problem: Problem, stream: Stream, threads: int) -> tuple[float, NDArray[Any]]:
    """The median seconds of some fits, without those that making rows took, and the centers of the last."""
    seconds: list[float] = []
    stream.clock = time.process_time if threads == 1 else time.perf_counter
    while True:
        stream.making = 0.0
        started = stream.clock()
        with threadpool_limits(threads):
            centers = fit(problem, stream, threads)
        seconds.append(stream.clock() - started - stream.making)
        if sum(seconds) > ENOUGH_SECONDS or len(seconds) == MOST_ROUNDS:
            return median(seconds), centers


def add_point(curve: Curve, size: int, problem: Problem, stream: Stream, fresh: Rows, limit: float) -> None:
    """Times one more size of a curve, or says why not."""
    if not curve.ended and stream.held is None and curve.method in NEEDS_ALL_ROWS:
        curve.ended = f"needs all rows at once, and {problem.n:,} are not held in memory"
    if not curve.ended and (guess := curve.guess(size)) > limit:
        curve.ended = f"{size:,} should take about {guess:,.0f} s"
    if curve.ended:
        return
    try:
        curve.seconds[size], centers = timed(METHODS[curve.method], problem, stream, curve.threads)
    except ImportError as missing:
        curve.ended = f"{missing}: pip install 'sketchlearn[benchmark]'"
        return
    curve.errors[size] = squared_error(fresh, centers)


def grow(letter: str, sizes: tuple[int, ...], threads: list[int], limit: float, console: Console) -> list[Curve]:
    """The curves of all methods for one size that grows."""
    curves = [Curve(method, count) for count in threads for method in METHODS]
    for curve in curves:  # what is imported and started for the first fit is no part of it
        tiny = Problem(n=1000, k=2)
        add_point(replace(curve, seconds={}, errors={}), 1, tiny, Stream(tiny), tiny.rows(10, 1), limit)
    for size in sizes:
        problem = Problem(**{letter: size})
        stream, fresh = Stream(problem), problem.rows(CHECKED, 10**9)
        for curve in curves:
            add_point(curve, size, problem, stream, fresh, limit)
            if size in curve.seconds:
                who = f"{curve.method}, threads: {curve.threads}"
                console.print(f"{letter} = {size:,}, {who}: {curve.seconds[size]:.2f} s")
    return curves


def show(letter: str, sizes: tuple[int, ...], curves: list[Curve], console: Console) -> None:
    others = ", ".join(f"{name} = {value:,}" for name, value in vars(Problem()).items() if name != letter)
    for threads in sorted({curve.threads for curve in curves}):
        own = [curve for curve in curves if curve.threads == threads]
        titles = [title for curve in own for title in (curve.method, "error")]
        words = f"{threads} thread" + ("s" if threads > 1 else "")
        table = table_of(f"Seconds, and squared error over the least: {others}, {words}", [letter, *titles])
        for size in sizes:
            least = min((curve.errors[size] for curve in own if size in curve.errors), default=np.nan)
            cells = (
                (f"{curve.seconds[size]:,.3g}", f"{curve.errors[size] / least:.3f}") if size in curve.seconds else "--"
                for curve in own
            )
            table.add_row(f"{size:,}", *(cell for pair in cells for cell in pair))
        slopes = (f"{curve.slope():.2f}" if len(curve.seconds) > 1 else "-" for curve in own)
        table.add_row("slope", *(cell for slope in slopes for cell in (slope, "")))
        console.print(table)
        for curve in own:
            if curve.ended:
                console.print(f"{curve.method} is left out from there on: {curve.ended}", markup=False)


def draw(grown: dict[str, list[Curve]], path: str) -> None:
    from matplotlib.figure import Figure
    from matplotlib.ticker import NullLocator

    words = {"n": "rows", "k": "clusters", "d": "columns"}
    figure = Figure(figsize=(4.2 * len(grown), 3.6), layout="constrained")
    for axes, (letter, curves) in zip(np.ravel(figure.subplots(1, len(grown))), grown.items(), strict=True):
        most = max(curve.threads for curve in curves)
        fewer = "; dotted: fewer" if any(curve.threads < most for curve in curves) else ""
        for curve in curves:
            if not curve.seconds:
                continue
            color = f"C{list(METHODS).index(curve.method)}"
            label = f"{curve.method}, slope {curve.slope():.2f}" if curve.threads == most else None
            style = "o-" if curve.threads == most else "o:"
            axes.loglog(*zip(*curve.seconds.items(), strict=True), style, color=color, label=label, markersize=3)
        sizes = sorted({size for curve in curves for size in curve.seconds})
        axes.set_xticks(sizes, [f"{size:g}" for size in sizes])
        axes.xaxis.set_minor_locator(NullLocator())
        axes.set(xlabel=words[letter], ylabel=f"seconds (threads: {most}{fewer})")
        axes.legend(frameon=False, fontsize="small")
    figure.savefig(path, dpi=100)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, SIZES)
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 2], help="how many, in turns")
    parser.add_argument("--seconds-per-point", type=float, default=120.0, help="leave out what should take longer")
    parser.add_argument("--quick", action="store_true", help="a few small sizes")
    parser.add_argument("--draw", metavar="PICTURE", help="draw the curves to this file")
    chosen = parser.parse_args()
    console, progress = Console(width=150, highlight=False), Console(stderr=True, highlight=False)
    console.print(machine(VERSIONS))
    grown = {}
    for letter in chosen.only:
        sizes = (QUICK_SIZES if chosen.quick else SIZES)[letter]
        grown[letter] = grow(letter, sizes, chosen.threads, chosen.seconds_per_point, progress)
        show(letter, sizes, grown[letter], console)
    if chosen.draw:
        draw(grown, chosen.draw)


if __name__ == "__main__":
    main()
