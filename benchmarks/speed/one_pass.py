"""K-means and mixtures at a pilot, beside scikit-learn's, faiss' and intelex': python benchmarks/speed/one_pass.py

Gaussian blobs, and rows without clusters. RSSE is the sum of squared distances of all rows to the nearest center,
divided by the least that any method reached; seconds are those of the processor and, in brackets, of the clock, each
method in the same process and run. `KMeans(n_init=10)` is left out where it would take many minutes (--all runs it).
The second table has the pass alone, beside the matrix product and its argmin that find the same cells. The third has
mixtures of Gaussians: the log-likelihood of all rows behind that of EM on all of them from the truth, in units of
p / 2n nats a row, the loss that estimating p parameters costs itself.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans, MiniBatchKMeans
from sklearn.mixture import GaussianMixture
from threadpoolctl import threadpool_limits

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of
from sketchlearn.features.expected_statistics import Gaussians
from sketchlearn.inference.distributions import n_parameters
from sketchlearn.inference.em import MStep, PilotRows
from sketchlearn.kernels import dispatch as kernel

Rows = NDArray[np.float32]
CASES = {
    "small": (10_000, 10, 20, 3.0),
    "narrow": (300_000, 10, 10, 3.0),
    "long": (2_000_000, 10, 10, 3.0),
    "longer": (10_000_000, 10, 10, 3.0),
    "hundred": (300_000, 10, 100, 3.0),
    "broad": (200_000, 64, 100, 3.0),
    "many": (200_000, 32, 300, 3.0),
    "thousand": (300_000, 32, 1000, 3.0),
    "million": (1_000_000, 32, 300, 3.0),
    "overlapping": (200_000, 10, 50, 1.0),
    "unclustered": (200_000, 10, 50, 0.0),
    "wide": (100_000, 768, 20, 1.0),
    "wide-hundred": (100_000, 768, 100, 1.0),
}
MIXTURES = {  # rows, columns, components, separation of means in deviations
    "mixtures-small": (10_000, 10, 10, 1.2),
    "mixtures": (100_000, 10, 10, 3.0),
    "mixtures-overlapping": (100_000, 10, 10, 1.2),
    "mixtures-long": (1_000_000, 10, 10, 1.2),
}
KERNELS = ((2_000_000, 10, 10), (2_000_000, 10, 32), (300_000, 64, 100), (100_000, 768, 20), (100_000, 768, 100))
MOST_WORK = 3e9  # rows times columns times clusters that KMeans(n_init=10) is run for
REPEATS = 3
VERSIONS = ("numpy", "scikit-learn", "faiss-cpu", "scikit-learn-intelex")

console = Console(width=170, highlight=False)


def blobs(n: int, d: int, k: int, apart: float, seed: int) -> Rows:
    rng = np.random.default_rng(seed)
    centers = apart * rng.standard_normal((k, d), np.float32)
    rows = rng.standard_normal((n, d), np.float32)
    rows += centers[rng.integers(k, size=n)]
    return rows


def inertia(rows: Rows, centers: NDArray[Any]) -> float:
    zero, one = np.zeros(rows.shape[1]), np.ones(rows.shape[1])
    return float(kernel.nearest_centers(rows, np.asarray(centers, np.float64), zero, one, None)[1].sum())


def methods(k: int, work: float, everything: bool) -> Iterator[tuple[str, Callable[[Rows], NDArray[Any]]]]:
    """Each as a function from rows to centers."""
    yield "SketchKMeans", lambda rows: skl.SketchKMeans(k, random_state=0).fit(rows).cluster_centers_
    yield "KMeans", lambda rows: KMeans(k, random_state=0).fit(rows).cluster_centers_
    if everything or work <= MOST_WORK:
        yield "KMeans(n_init=10)", lambda rows: KMeans(k, n_init=10, random_state=0).fit(rows).cluster_centers_
    yield "MiniBatchKMeans", lambda rows: MiniBatchKMeans(k, random_state=0).fit(rows).cluster_centers_
    if importlib.util.find_spec("faiss"):
        yield "faiss", lambda rows: of_faiss(rows, k)
    if importlib.util.find_spec("sklearnex"):
        yield "intelex", lambda rows: of_intelex(rows, k)


def of_faiss(rows: Rows, k: int) -> NDArray[Any]:
    import faiss

    found = faiss.Kmeans(rows.shape[1], k, niter=25, seed=1, max_points_per_centroid=len(rows))
    found.train(rows)
    return np.asarray(found.centroids)


def of_intelex(rows: Rows, k: int) -> NDArray[Any]:
    from sklearnex.cluster import KMeans as Fast

    return np.asarray(Fast(k, n_init=1, random_state=0).fit(rows).cluster_centers_)


def timed(run: Callable[[], Any]) -> tuple[Any, float, float]:
    clock, processor = time.perf_counter(), time.process_time()
    found = run()
    return found, time.process_time() - processor, time.perf_counter() - clock


def compare(name: str, seed: int, everything: bool, wanted: list[str]) -> list[list[str]]:
    n, d, k, apart = CASES[name]
    rows, found = blobs(n, d, k, apart, seed), []
    for method, run in methods(k, n * d * k, everything):
        if wanted and method not in ("SketchKMeans", *wanted):
            continue
        print(f"{name}: {method}", file=sys.stderr)
        centers, processor, clock = timed(lambda run=run: run(rows))  # type: ignore[misc]
        found.append((method, inertia(rows, centers), processor, clock))
    least = min(cost for _, cost, _, _ in found)
    ours = found[0][2]
    label = f"{name}: {n:,} x {d}, k = {k}"
    return [
        [label if not i else "", method, f"{cost / least:.4f}", f"{own:.2f} ({clock:.2f})", f"{own / ours:.1f}"]
        for i, (method, cost, own, clock) in enumerate(found)
    ]


def gaussians(n: int, d: int, k: int, apart: float, kind: str, seed: int) -> tuple[NDArray[np.float64], Gaussians]:
    """Rows of a mixture, and the mixture."""
    rng = np.random.default_rng(seed)
    means, weights, own = (
        apart * rng.standard_normal((k, d)),
        rng.dirichlet(np.full(k, 5.0)),
        rng.uniform(0.5, 1.5, (k, d)),
    )
    factors = own[:, :, None] * np.eye(d)
    if kind == "full":
        mixing = (np.eye(d) + 0.3 * rng.standard_normal((k, d, d))) @ factors
        factors = np.linalg.cholesky(mixing @ mixing.transpose(0, 2, 1))
    belongs = np.sort(rng.choice(k, n, p=weights))
    rows = np.concatenate(
        [means[c] + rng.standard_normal((int(np.sum(belongs == c)), d)) @ factors[c].T for c in range(k)]
    )
    rng.shuffle(rows)
    return rows, Gaussians(weights, means, factors if kind == "full" else own)


def mixtures(name: str, seed: int) -> list[list[str]]:
    """Mixtures of diagonal and full Gaussians, beside scikit-learn's."""
    n, d, k, apart = MIXTURES[name]
    found = []
    for kind in ("diag", "full"):
        rows, truth = gaussians(n, d, k, apart, kind, seed)
        models = {
            "SketchGaussianMixture": skl.SketchGaussianMixture(k, covariance_type=kind, random_state=0),
            "GaussianMixture": GaussianMixture(k, covariance_type=kind, random_state=0),
        }
        step, everything = MStep(kind, np.full(d, 1e-9)), PilotRows.of(rows)
        best = everything.likelihood(everything.climbed(truth, step, 100, 1e-8))
        unit, ours = n_parameters(k, d, kind) / (2 * n), 0.0
        for method, model in models.items():
            _, processor, clock = timed(lambda model=model, rows=rows: model.fit(rows))  # type: ignore[misc]
            ours = ours or processor
            behind = (best - float(model.score(rows))) / unit
            label = f"{name}: {n:,} x {d}, k = {k}, {kind}" if model is next(iter(models.values())) else ""
            found.append([label, method, f"{behind:.2f}", f"{processor:.2f} ({clock:.2f})", f"{processor / ours:.1f}"])
    return found


def kernels(threads: int) -> list[list[str]]:
    """The pass over all rows, beside (X @ C.T).argmin(1)."""
    found, rng = [], np.random.default_rng(0)
    for n, d, k in KERNELS:
        rows = rng.standard_normal((n, d), np.float32)
        points = rows[:k].astype(np.float64)
        operator = skl.features.CellSums.at_points(points, bound=np.full(d, 8.0), center=np.zeros(d), units=np.ones(d))
        few = rows[:k].T.copy()
        with threadpool_limits(threads):
            product = min(timed(lambda: (rows @ few).argmin(1))[2] for _ in range(REPEATS))  # noqa: B023
        sums = np.zeros(operator.n_sums, np.int64)
        own = min(timed(lambda: operator.add_rows(rows, None, threads, sums))[2] for _ in range(REPEATS))  # noqa: B023
        found.append([f"{n:,} x {d}, {k} cells", str(threads), f"{product:.3f}", f"{own:.3f}", f"{own / product:.2f}"])
    return found


def show(title: str, heads: list[str], rows: list[list[str]]) -> None:
    table = table_of(title, heads)
    for row in rows:
        table.add_row(*row)
    console.print(table)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, [*CASES, *MIXTURES, "pass"])
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--all", action="store_true", help="KMeans(n_init=10) in all cases")
    parser.add_argument("--beside", default="", help="peers alone, such as KMeans,intelex; all without it")
    asked = parser.parse_args()
    beside = [name for name in asked.beside.split(",") if name]
    warnings.simplefilter("ignore")
    console.print(machine(VERSIONS))
    skl.SketchKMeans(2, random_state=0).fit(blobs(1000, 2, 2, 9.0, 0))  # imports
    rows = [line for name in asked.only if name in CASES for line in compare(name, asked.seed, asked.all, beside)]
    heads = ["rows", "method", "RSSE", "seconds of the processor (clock)", "times ours"]
    show("Squared error over the least, and time", heads, rows)
    if "pass" in asked.only:
        heads = ["rows", "threads", "product and argmin, s", "cells, s", "ratio"]
        show("The pass alone", heads, [line for threads in (1, 2) for line in kernels(threads)])
    few, _ = gaussians(5000, 10, 10, 3.0, "diag", 0)
    skl.SketchGaussianMixture(10, covariance_type="diag", random_state=0).fit(few)  # imports
    heads = ["rows", "method", "units behind EM of all rows", "seconds of the processor (clock)", "times ours"]
    rows = [line for name in asked.only if name in MIXTURES for line in mixtures(name, asked.seed)]
    show("Mixtures of Gaussians", heads, rows)


if __name__ == "__main__":
    main()
