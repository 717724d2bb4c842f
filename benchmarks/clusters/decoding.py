"""How long it takes from a sketch to clusters, where a mixture fits and where none does.

python benchmarks/clusters/decoding.py

Beside it stand `fit`, which sketches and keeps rows, and KMeans(n_init=10) on the rows. Medians of several seeds; CPU
seconds add up over threads. RSSE is the sum of squared distances to the nearest center, divided by that of KMeans. The
MNIST rows need the folder of mnist_spectral10.npz (--data FOLDER), those of letters R's package mlbench.
"""

from __future__ import annotations

import argparse
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.clusters.beside_peers import Rows, clusters, digits, mnist, sse
from benchmarks.support.public_tables import tables
from benchmarks.support.report import machine, table_of, yes_or_no

LETTERS = "mlbench-LetterRecognition"
console = Console(width=150, highlight=False)


@dataclass(frozen=True)
class Case:
    """Rows for each seed, and what is asked of `fit_sketch` on two cores: seconds, and RSSE."""

    name: str
    k: int
    make: Callable[[np.random.Generator], Rows]
    seconds: float = float("inf")
    rsse: float = float("inf")


@dataclass(frozen=True)
class Timed:
    """Seconds of all threads, seconds on the wall, and the sum of squared distances to centers."""

    cpu: float
    wall: float
    sse: float


def cases(folder: Path | None) -> Iterator[Case]:
    for k, d in ((10, 10), (64, 12), (100, 2)):
        yield Case(f"clusters, k = {k}, d = {d}", k, lambda rng, k=k, d=d: clusters(rng, k, d, 3.0).X, rsse=1.005)
    yield Case("digits", 10, lambda _: digits().X, 2.5, 1.02)
    if folder is not None:
        yield Case("mnist_spectral10", 10, lambda _: mnist(folder).X, 2.0, 1.005)
    if (letters := tables().get(LETTERS)) is not None:
        yield Case("letters, 26 clusters", 26, lambda _: letters, 3.0, 1.03)


def timed(X: Rows, function: Callable[[], Any]) -> Timed:
    cpu, wall = time.process_time(), time.perf_counter()
    model = function()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    return Timed(cpu, wall, sse(X, model.cluster_centers_))


def measured(case: Case, seed: int) -> dict[str, Timed]:
    X, k = case.make(np.random.default_rng(seed)), case.k
    sketch = skl.design(X, n_components=k, seed=seed).sketch(X)
    own, peer = partial(skl.SketchKMeans, k, random_state=seed), KMeans(k, n_init=10, random_state=seed)
    return {
        "fit_sketch": timed(X, lambda: own().fit_sketch(sketch)),
        "fit": timed(X, lambda: own().fit(X)),
        "KMeans": timed(X, lambda: peer.fit(X)),
    }


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--data", type=Path, metavar="FOLDER", help="that of mnist_spectral10.npz")
    parser.add_argument("--seed", type=int, default=0, help="the first one")
    parser.add_argument("--draws", type=int, default=3, help="seeds of each case")
    return parser.parse_args()


def main() -> int:
    settings = arguments()
    warnings.simplefilter("ignore", ConvergenceWarning)
    console.print(machine(("numpy", "scipy", "scikit-learn")))
    ways = [f"{way}, {what}" for way in ("fit_sketch", "fit", "KMeans") for what in ("CPU s", "wall s")]
    columns = ("rows", *ways, "RSSE, fit_sketch", "fit", "asked: wall s", "RSSE", "reached")
    table, verdicts = table_of("From a sketch to clusters", columns), []
    for case in cases(settings.data):
        runs = [measured(case, seed) for seed in range(settings.seed, settings.seed + settings.draws)]
        times = [median(getattr(run[way], what) for run in runs) for way in runs[0] for what in ("cpu", "wall")]
        ratios = [median(run[way].sse / run["KMeans"].sse for run in runs) for way in ("fit_sketch", "fit")]
        verdicts.append(times[1] <= case.seconds and ratios[0] <= case.rsse)
        asked = "-" if case.seconds == float("inf") else f"{case.seconds:g}"
        figures = [*(f"{value:.2f}" for value in times), *(f"{value:.4f}" for value in ratios)]
        table.add_row(case.name, *figures, asked, f"{case.rsse:g}", yes_or_no(verdicts[-1]))
    console.print(table)
    return not all(verdicts)


if __name__ == "__main__":
    sys.exit(main())
