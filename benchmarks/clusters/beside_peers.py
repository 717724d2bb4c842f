"""Clusters and mixtures from a sketch beside scikit-learn, pycle and faiss: python benchmarks/clusters/beside_peers.py

Every figure is measured in this run, with default arguments, and printed beside what is asked of it. The parts are
chosen by --only; the MNIST rows need the folder of mnist_spectral10.npz: --data FOLDER.
RSSE is the sum of squared distances to the nearest center, divided by that of KMeans(n_init=10) on the same rows.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.metadata
import json
import resource
import subprocess
import sys
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from rich.table import Table
from sklearn.cluster import BisectingKMeans, KMeans, MiniBatchKMeans
from sklearn.datasets import load_digits
from sklearn.decomposition import PCA
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics import adjusted_rand_score
from sklearn.mixture import GaussianMixture
from sklearn.model_selection import train_test_split

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.support.report import add_only, machine, table_of, yes_or_no

N = 100_000
HELD_OUT = 20_000
BATCHES = 100
BLOCK = 20_000  # rows whose distances are computed at a time
LARGEST_SIZE = 10  # frequencies per coordinate of a center, by default
SMALL_SIZE, SMALL_LIMIT = 2, 1.10
VERSIONS = ("numpy", "scipy", "scikit-learn", "faiss-cpu", "pycle")
FILE = "mnist_spectral10.npz"
MANY_ROWS = 10**7
FASTER, FASTER_AT_FEWER = (25, 3), (12, 1.5)  # times than KMeans(n_init=10) and KMeans()

Rows = NDArray[Any]
console = Console(width=170, highlight=False)
progress = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Data:
    """Rows to cluster, and the classes they come from where these are real."""

    X: Rows
    classes: Rows | None = None


@dataclass(frozen=True)
class Problem:
    """Rows for each draw, and the limits that RSSE must keep: of the median, of every draw."""

    name: str
    k: int
    make: Callable[[np.random.Generator], Data]
    median: float
    worst: float = float("inf")
    ari_margin: float | None = None
    stream: bool = False


@dataclass(frozen=True)
class MixtureProblem:
    """Rows to fit and rows held out, and the largest gap to EM in nats per row."""

    name: str
    k: int
    covariance: str
    make: Callable[[np.random.Generator], tuple[Rows, Rows]]
    gap: float


@dataclass(frozen=True)
class Reference:
    """What KMeans(n_init=10) reaches."""

    sse: float
    seconds: float
    ari: float


@dataclass(frozen=True)
class Fitted:
    """A fitted estimator, and how long that took."""

    model: skl.SketchKMeans
    seconds: float


@dataclass(frozen=True)
class Draw:
    """One draw of a problem: figures of the sketch beside those of KMeans."""

    rsse: float
    ari: float
    size: float  # frequencies per coordinate of a center; 0 for cells
    seconds: float
    reference: Reference


# The rows


def means(rng: np.random.Generator, k: int, d: int, spread: float) -> Rows:
    return spread * k ** (1 / d) * rng.standard_normal((k, d))


def clusters(
    rng: np.random.Generator, k: int = 10, d: int = 10, spread: float = 2.5, weights: Rows | None = None
) -> Data:
    """Unit clusters around Gaussian means."""
    centers = means(rng, k, d, spread)
    p = None if weights is None else weights / weights.sum()
    return Data(centers[rng.choice(k, N, p=p)] + rng.standard_normal((N, d)))


def of_different_units(rng: np.random.Generator) -> Data:
    X = clusters(rng).X
    return Data(X * np.logspace(0, 3, X.shape[1]))


def shifted(rng: np.random.Generator) -> Data:
    return Data(clusters(rng).X + 1e6)


def with_outliers(rng: np.random.Generator) -> Data:
    X = clusters(rng).X
    low, high = X.min(axis=0), X.max(axis=0)
    some = rng.choice(N, N // 100, replace=False)
    X[some] = rng.uniform(low, high, (len(some), X.shape[1]))
    return Data(X)


def sorted_by_cluster(rng: np.random.Generator, k: int = 10, d: int = 10) -> Data:
    return Data(means(rng, k, d, 2.5)[np.arange(N) * k // N] + rng.standard_normal((N, d)))


def digits() -> Data:
    X, y = load_digits(return_X_y=True)
    return Data(X, y)


@cache
def mnist(folder: Path) -> Data:
    with np.load(folder / FILE) as file:
        return Data(file["X"], file["y"])


@cache
def problems(folder: Path | None) -> list[Problem]:
    found = [
        Problem("k = d = 10, spread 2.5", 10, clusters, 1.002, 1.01),
        Problem("k = d = 10, spread sqrt(1.5)", 10, partial(clusters, spread=1.5**0.5), 1.005, 1.05),
        Problem("k = 50, d = 5", 50, partial(clusters, k=50, d=5), 1.0, 1.05),
        Problem("k = 100, d = 2", 100, partial(clusters, k=100, d=2), 1.0, 1.05),
        Problem("k = 20, d = 50", 20, partial(clusters, k=20, d=50), 1.002, 1.02),
        Problem("weights 0.4 to 0.01", 10, partial(clusters, weights=np.geomspace(0.4, 0.01, 10)), 1.01, 1.05),
        Problem("units 1 to 1000", 10, of_different_units, 1.01, 1.05),
        Problem("shifted by 1e6", 10, shifted, 1.01, 1.05),
        Problem("1 % outliers", 10, with_outliers, 1.01, 1.05),
        Problem("sorted by cluster, fit", 10, sorted_by_cluster, 1.01),
        Problem(f"sorted, partial_fit x {BATCHES}", 10, sorted_by_cluster, 1.10, stream=True),
        Problem("digits", 10, lambda _: digits(), 1.03, ari_margin=0.05),
    ]
    if folder is not None:
        found.append(Problem("mnist_spectral10", 10, lambda _: mnist(folder), 1.02, ari_margin=0.02))
    return found


FIRST = problems(None)[0]


def mixture_rows(rng: np.random.Generator, weights: Rows, centers: Rows, roots: Rows) -> tuple[Rows, Rows]:
    """Rows of a mixture whose covariances are roots @ roots.T: some to fit, some held out."""
    n = N + HELD_OUT
    labels = rng.choice(len(weights), n, p=weights)
    X = centers[labels] + np.einsum("nij,nj->ni", roots[labels], rng.standard_normal((n, centers.shape[1])))
    return X[:N], X[N:]


def thesis_mixture(rng: np.random.Generator, k: int = 6, d: int = 8) -> tuple[Rows, Rows]:
    """Schellekens, thesis (2021), section 5.3.2."""
    weights = rng.uniform(0.01, 1, k)
    centers = rng.standard_normal((k, d)) * np.sqrt(25 / d)
    scales = rng.uniform(0.05, 0.95, k) / np.sqrt(d)
    variances = scales[:, None] * rng.uniform(0.5, 1.5, (k, d))
    return mixture_rows(rng, weights / weights.sum(), centers, np.sqrt(variances)[:, :, None] * np.eye(d))


def rotated_mixture(rng: np.random.Generator, k: int = 5, d: int = 5) -> tuple[Rows, Rows]:
    """Full covariances of condition number 30."""
    rotations = np.linalg.qr(rng.standard_normal((k, d, d)))[0]
    roots = rotations * np.sqrt(np.geomspace(0.1, 3, d))
    return mixture_rows(rng, np.full(k, 1 / k), 4 * rng.standard_normal((k, d)), roots)


def divided(X: Rows, rng: np.random.Generator) -> tuple[Rows, Rows]:
    """Four fifths to fit, one held out."""
    fitted, held_out = train_test_split(X, test_size=0.2, random_state=int(rng.integers(2**31)))
    return fitted, held_out


def mixture_problems(folder: Path | None) -> list[MixtureProblem]:
    found = [
        MixtureProblem("thesis 5.3.2, k = 6, d = 8", 6, "diag", thesis_mixture, 0.005),
        MixtureProblem("k = d = 5, condition 30", 5, "full", rotated_mixture, 0.01),
    ]
    real = {"digits, 10 principal components": PCA(10, random_state=0).fit_transform(digits().X)}
    if folder is not None:
        real["mnist_spectral10"] = mnist(folder).X
    for name, X in real.items():
        found += [MixtureProblem(name, 10, covariance, partial(divided, X), 0.5) for covariance in ("diag", "full")]
    return found


# The figures


def timed(function: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    return function(), time.perf_counter() - started


def sse(X: Rows, centers: Rows) -> float:
    """Sum of squared distances to the nearest center, in float64 around the mean."""
    middle = X.mean(axis=0, dtype=np.float64)
    centers = centers.astype(np.float64) - middle
    squares, total = np.sum(centers**2, axis=1), 0.0
    for first in range(0, len(X), BLOCK):
        block = X[first : first + BLOCK] - middle
        nearest = np.argmin(squares - 2 * (block @ centers.T), axis=1)
        total += float(np.sum((block - centers[nearest]) ** 2))
    return total


def ari(data: Data, model: Any) -> float:
    return float("nan") if data.classes is None else float(adjusted_rand_score(data.classes, model.predict(data.X)))


@cache
def drawn(problem: Problem, seed: int) -> Data:
    return problem.make(np.random.default_rng(seed))


@cache
def reference(problem: Problem, seed: int) -> Reference:
    data = drawn(problem, seed)
    model, seconds = timed(lambda: KMeans(problem.k, n_init=10, random_state=seed).fit(data.X))
    return Reference(sse(data.X, model.cluster_centers_), seconds, ari(data, model))


def fitted(X: Rows, k: int, seed: int, **options: Any) -> Fitted:
    return Fitted(*timed(lambda: skl.SketchKMeans(k, random_state=seed, **options).fit(X)))


def fitted_stream(X: Rows, k: int, seed: int, **options: Any) -> Fitted:
    def fit() -> skl.SketchKMeans:
        model = skl.SketchKMeans(k, random_state=seed, **options)
        for batch in np.array_split(X, BATCHES):
            model.partial_fit(batch)
        model.cluster_centers_  # noqa: B018 - learned when it is asked for
        return model

    return Fitted(*timed(fit))


def decoding_time(sketch: skl.Sketch, k: int, seed: int, **options: Any) -> float:
    return timed(lambda: skl.SketchKMeans(k, random_state=seed, **options).fit_sketch(sketch))[1]


def draw(problem: Problem, seed: int, **options: Any) -> Draw:
    data = drawn(problem, seed)
    result = (fitted_stream if problem.stream else fitted)(data.X, problem.k, seed, **options)
    beside, features = reference(problem, seed), result.model.sketch_.operator.part(skl.features.FourierFeatures)
    return Draw(
        rsse=sse(data.X, result.model.cluster_centers_) / beside.sse,
        ari=ari(data, result.model),
        size=0.0 if features is None else features.n_frequencies / (problem.k * data.X.shape[1]),
        seconds=result.seconds,
        reference=beside,
    )


def draws(problem: Problem, settings: argparse.Namespace, **options: Any) -> list[Draw]:
    found = []
    for seed in seeds(settings):
        found.append(draw(problem, seed, **options))
        drawn.cache_clear()
        progress.print(f"{problem.name}, seed {seed}: RSSE {found[-1].rsse:.4f}")
    return found


def seeds(settings: argparse.Namespace) -> range:
    return range(settings.seed, settings.seed + settings.draws)


# The tables


def limit(value: float) -> str:
    return "-" if np.isinf(value) else f"<= {value:g}"


def seconds(values: Sequence[float]) -> str:
    return f"{median(values):.3f}"


RSSE_COLUMNS = ("problem", "m / kd", "RSSE, median", "asked", "RSSE, largest", "asked", "reached")
TIME_COLUMNS = ("fit, s", "KMeans, s")


def add_rsse(table: Table, problem: Problem, found: list[Draw], largest_size: float) -> bool:
    """One row of medians; whether the limits are kept."""
    ratios = [one.rsse for one in found]
    size = max(one.size for one in found)
    reached = median(ratios) <= problem.median and max(ratios) <= problem.worst and size <= largest_size
    table.add_row(
        problem.name,
        f"{size:.1f}" if size else "cells",
        f"{median(ratios):.4f}",
        limit(problem.median),
        f"{max(ratios):.4f}",
        limit(problem.worst),
        yes_or_no(reached),
        seconds([one.seconds for one in found]),
        seconds([one.reference.seconds for one in found]),
    )
    return reached


def kmeans(settings: argparse.Namespace, title: str = "k-means, default arguments", **options: Any) -> Iterator[bool]:
    title += f", {settings.draws} draws"
    table = table_of(title, (*RSSE_COLUMNS, *TIME_COLUMNS))
    columns = ("problem", "sketch", "KMeans", "asked", "reached")
    classes = table_of("Classes found: adjusted Rand index, medians", columns)
    for problem in problems(settings.data):
        found = draws(problem, settings, **options)
        yield add_rsse(table, problem, found, LARGEST_SIZE)
        if problem.ari_margin is not None:
            own, other = median(one.ari for one in found), median(one.reference.ari for one in found)
            reached = own >= other - problem.ari_margin
            asked = f">= KMeans - {problem.ari_margin}"
            classes.add_row(problem.name, f"{own:.3f}", f"{other:.3f}", asked, yes_or_no(reached))
            yield reached
    console.print(table)
    console.print(classes)
    note_data(settings)


def frequencies(settings: argparse.Namespace) -> Iterator[bool]:
    yield from kmeans(
        settings, f"the same from frequencies (at most {LARGEST_SIZE}kd)", features=skl.features.Fourier()
    )


def small(settings: argparse.Namespace) -> Iterator[bool]:
    title = f"k-means, m = {SMALL_SIZE}kd, {settings.draws} draws"
    table = table_of(title, (*RSSE_COLUMNS, *TIME_COLUMNS))
    for problem in problems(settings.data):
        d = drawn(problem, settings.seed).X.shape[1]
        found = draws(problem, settings, features=skl.features.Fourier(SMALL_SIZE * problem.k * d))
        asked = Problem(problem.name, problem.k, problem.make, SMALL_LIMIT)
        yield add_rsse(table, asked, found, SMALL_SIZE)
    console.print(table)
    note_data(settings)


def onebit(settings: argparse.Namespace) -> Iterator[bool]:
    table = table_of(f"One-bit sketch (square wave), {settings.draws} draws", (*RSSE_COLUMNS, *TIME_COLUMNS))
    asked = Problem(FIRST.name, FIRST.k, FIRST.make, 1.01)
    yield add_rsse(
        table, asked, draws(FIRST, settings, features=skl.features.Fourier(wave="square")), 1.25 * LARGEST_SIZE
    )
    console.print(table)


def note_data(settings: argparse.Namespace) -> None:
    if settings.data is None:
        console.print(f"mnist_spectral10 is left out: --data FOLDER says where {FILE} is.")


@dataclass(frozen=True)
class MixtureDraw:
    """One draw of a mixture: nats per row below EM, seconds of both, and what was warned of."""

    gap: float
    seconds: float
    reference_seconds: float
    warned: tuple[str, ...]


def mixture_draw(problem: MixtureProblem, seed: int) -> MixtureDraw:
    rows, held_out = problem.make(np.random.default_rng(seed))
    options = {"covariance_type": problem.covariance, "random_state": seed}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        em, em_seconds = timed(lambda: GaussianMixture(problem.k, n_init=3, **options).fit(rows))
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        own, own_seconds = timed(lambda: skl.SketchGaussianMixture(problem.k, **options).fit(rows))
    gap = float(em.score(held_out) - own.score(held_out))
    return MixtureDraw(gap, own_seconds, em_seconds, tuple(str(warning.message) for warning in caught))


def mixtures(settings: argparse.Namespace) -> Iterator[bool]:
    if not hasattr(skl, "SketchGaussianMixture"):
        console.print("mixtures are left out: this sketchlearn has no SketchGaussianMixture")
        return
    title = f"Mixtures: nats per held-out row below GaussianMixture(n_init=3), {settings.draws} draws"
    columns = ("problem", "covariance", "gap, median", "asked", "gap, largest", "reached", "warned", "fit, s", "EM, s")
    table, reasons = table_of(title, columns), {}
    for problem in mixture_problems(settings.data):
        found = []
        for seed in seeds(settings):
            found.append(mixture_draw(problem, seed))
            progress.print(f"{problem.name}, {problem.covariance}, seed {seed}: gap {found[-1].gap:.5f}")
        gaps = [one.gap for one in found]
        warned = [one.warned[0] for one in found if one.warned]
        if warned:
            reasons[f"{problem.name}, {problem.covariance}"] = warned[0]
        reached = median(gaps) <= problem.gap
        table.add_row(
            problem.name,
            problem.covariance,
            f"{median(gaps):.5f}",
            limit(problem.gap),
            f"{max(gaps):.5f}",
            yes_or_no(reached),
            f"{len(warned)} of {len(found)}",
            seconds([one.seconds for one in found]),
            seconds([one.reference_seconds for one in found]),
        )
        yield reached
    console.print(table)
    for name, reason in reasons.items():
        console.print(f"{name} warned: {reason}", markup=False)
    note_data(settings)


# Speed


def pycle_run(X: Rows, k: int, n_frequencies: int, seed: int) -> tuple[Rows, float]:
    """Centers and decoding seconds of one run of pycle, which is told the clusters' true covariance."""
    from pycle.compressive_learning import CLOMP_CKM
    from pycle.sketching import SimpleFeatureMap, computeSketch, drawFrequencies

    d = X.shape[1]
    np.random.seed(seed)  # noqa: NPY002 - pycle draws from the global generator
    features = SimpleFeatureMap("complexExponential", drawFrequencies("FoldedGaussian", d, n_frequencies, np.eye(d)))
    solver = CLOMP_CKM(features, k, np.stack([X.min(axis=0), X.max(axis=0)]), computeSketch(X, features))
    spent = timed(lambda: solver.fit_several_times(1))[1]
    return solver.get_centroids(), spent


def decodings(problem: Problem, settings: argparse.Namespace, n_frequencies: int | None = None) -> list[float]:
    """Seconds of decoding, one sketch per draw."""
    found = []
    for seed in seeds(settings):
        X = drawn(problem, seed).X
        operator = skl.design(
            X, n_components=problem.k, features=skl.features.Fourier(n_frequencies=n_frequencies), seed=seed
        )
        found.append(decoding_time(operator.sketch(X), problem.k, seed))
        drawn.cache_clear()
    return found


def speed(settings: argparse.Namespace) -> Iterator[bool]:
    title = f"Decoding time, medians of {settings.draws} draws"
    table = table_of(title, ("what", "decoding, s", "beside it, s", "times less", "asked", "reached"))

    def against(name: str, own: float, other: float, asked: float) -> bool:
        reached = other / own >= asked
        cells = (f"{own:.3f}", f"{other:.3f}", f"{other / own:.1f}", f">= {asked:g}", yes_or_no(reached))
        table.add_row(name, *cells)
        return reached

    def within(name: str, own: float, asked: float) -> bool:
        table.add_row(name, f"{own:.3f}", "-", "-", f"<= {asked:g} s", yes_or_no(own <= asked))
        return own <= asked

    own = median(decodings(FIRST, settings))
    beside = median(reference(FIRST, seed).seconds for seed in seeds(settings))
    yield against(f"{FIRST.name}, against KMeans(n_init=10)", own, beside, 5)

    many = Problem("k = 64, d = 12", 64, partial(clusters, k=64, d=12), 1.0)
    yield within(f"{many.name}, m = 5kd", median(decodings(many, settings, 5 * 64 * 12)), 5)
    hundred = Problem("k = 100, d = 2", 100, partial(clusters, k=100, d=2), 1.0)
    yield within(hundred.name, median(decodings(hundred, settings)), 2)

    try:
        importlib.import_module("pycle.compressive_learning")
    except ImportError as error:
        console.print(f"pycle is left out ({error}): pip install 'sketchlearn[benchmark]'", markup=False)
    else:
        yield from against_pycle(settings, own, against)
    console.print(table)


def against_pycle(
    settings: argparse.Namespace, own: float, against: Callable[[str, float, float, float], bool]
) -> Iterator[bool]:
    """One run of CLOMP_CKM on the first draw, with as many frequencies: it takes minutes."""
    result = draw(FIRST, settings.seed)
    X = drawn(FIRST, settings.seed).X
    progress.print("pycle's CLOMP_CKM, one run: minutes")
    centers, spent = pycle_run(X, FIRST.k, round(result.size * FIRST.k * X.shape[1]), settings.seed)
    yield against(f"{FIRST.name}, against pycle's CLOMP_CKM", own, spent, 500)
    other = sse(X, centers) / reference(FIRST, settings.seed).sse
    lower = result.rsse < other
    console.print(f"RSSE {result.rsse:.4f}, pycle's {other:.4f}; asked: lower; reached: {yes_or_no(lower)}")
    yield lower


# Many rows: each method in a process of its own, so that its memory can be told


def many_rows(n: int, seed: int, k: int = 10, d: int = 10) -> Rows:
    """The first problem's rows in float32, made in place."""
    rng = np.random.default_rng(seed)
    centers = means(rng, k, d, 2.5).astype(np.float32)
    X = np.empty((n, d), np.float32)
    for first in range(0, n, BLOCK):
        block = X[first : first + BLOCK]
        rng.standard_normal(out=block, dtype=np.float32)
        block += centers[rng.integers(0, k, len(block))]
    return X


def sketch_centers(X: Rows, k: int, seed: int) -> Rows:
    return skl.SketchKMeans(k, random_state=seed).fit(X).cluster_centers_


def sklearn_centers(estimator: Any, X: Rows, k: int, seed: int, **options: Any) -> Rows:
    return estimator(k, random_state=seed, **options).fit(X).cluster_centers_


def faiss_centers(X: Rows, k: int, seed: int, redo: int = 10, **options: Any) -> Rows:
    import faiss

    model = faiss.Kmeans(X.shape[1], k, niter=25, nredo=redo, seed=seed, **options)
    model.train(X)
    return model.centroids


def faiss_centers_of_all(X: Rows, k: int, seed: int) -> Rows:
    return faiss_centers(X, k, seed, redo=1, max_points_per_centroid=len(X))  # ten times would take an hour


METHODS: dict[str, Callable[[Rows, int, int], Rows]] = {
    "SketchKMeans": sketch_centers,
    "KMeans(n_init=10)": partial(sklearn_centers, KMeans, n_init=10),
    "KMeans()": partial(sklearn_centers, KMeans),
    "MiniBatchKMeans(n_init=10)": partial(sklearn_centers, MiniBatchKMeans, n_init=10),
    "BisectingKMeans": partial(sklearn_centers, BisectingKMeans),
    "faiss.Kmeans(nredo=1), all rows": faiss_centers_of_all,
    "faiss.Kmeans(nredo=10), its sample": faiss_centers,
}


def peak() -> float:
    """Peak resident megabytes of this process.

    A child's ru_maxrss starts at its parent's peak on Linux, which would hide what the child takes: VmHWM does not.
    """
    status = Path("/proc/self/status")
    if status.exists():
        return int(status.read_text().split("VmHWM:")[1].split()[0]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def worker(method: str, n: int, seed: int) -> None:
    """Runs one method on rows in memory and prints its figures."""
    X, k = many_rows(n, seed), 10
    if method.startswith("faiss"):  # libraries are no part of the fit
        import faiss  # noqa: F401
    elif method == "SketchKMeans":
        skl.SketchKMeans  # noqa: B018 - imported when it is first named
    before = peak()
    centers, spent = timed(lambda: METHODS[method](X, k, seed))
    growth = peak() - before
    print(json.dumps({"seconds": spent, "growth": growth, "sse": sse(X, centers)}))


def run_worker(method: str, settings: argparse.Namespace) -> dict[str, float] | None:
    command = [sys.executable, __file__, "--worker", method, "--rows", str(settings.rows), "--seed", str(settings.seed)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or [f"exit status {done.returncode}"])[-1]
        console.print(f"{method} is left out: {last}", markup=False)
        return None
    figures: dict[str, float] = json.loads(done.stdout.strip().splitlines()[-1])
    progress.print(f"{method}: {figures['seconds']:.1f} s")
    return figures


def large(settings: argparse.Namespace) -> Iterator[bool]:
    columns = ("method", "fit, s", "times faster than KMeans", "asked", "MB above the data", "asked", "reached", "RSSE")
    table = table_of(f"{settings.rows:,} float32 rows in memory, k = d = 10, end to end, one run each", columns)
    found = {method: figures for method in METHODS if (figures := run_worker(method, settings))}
    beside, plain = found.get("KMeans(n_init=10)"), found.get("KMeans()")
    for method, figures in found.items():
        ratio = beside["seconds"] / figures["seconds"] if beside else float("nan")
        quality = figures["sse"] / beside["sse"] if beside else float("nan")
        asked, verdict = ("-", "-"), "-"
        if method == "SketchKMeans":
            beyond_plain = plain["seconds"] / figures["seconds"] if plain else float("nan")
            times, times_plain = FASTER if settings.rows >= MANY_ROWS else FASTER_AT_FEWER
            fast = ratio >= times and beyond_plain >= times_plain
            reached = fast and quality <= 1.002 and figures["growth"] <= 100
            asked = (f">= {times}; {times_plain} beside KMeans(): {beyond_plain:.1f}", "<= 100")
            verdict = yes_or_no(reached)
            yield reached
        cells = (f"{figures['seconds']:.2f}", f"{ratio:.1f}", asked[0], f"{figures['growth']:.0f}", asked[1], verdict)
        table.add_row(method, *cells, f"{quality:.4f}")
    console.print(table)


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[bool]]] = {
    "kmeans": kmeans,
    "frequencies": frequencies,
    "small": small,
    "onebit": onebit,
    "mixtures": mixtures,
    "speed": speed,
    "large": large,
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, PARTS)
    parser.add_argument("--draws", type=int, default=10, help="draws per problem")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw; the next have the next seeds")
    parser.add_argument("--data", type=Path, help=f"folder of {FILE}")
    parser.add_argument("--rows", type=lambda text: int(float(text)), default=10**7, help="rows of the part large")
    parser.add_argument("--worker", choices=METHODS, help=argparse.SUPPRESS)
    return parser.parse_args()


def main() -> int:
    settings = arguments()
    if settings.worker:
        worker(settings.worker, settings.rows, settings.seed)
        return 0
    console.print(machine(VERSIONS))
    verdicts = [reached for name in settings.only for reached in PARTS[name](settings)]
    console.print(f"{sum(verdicts)} of {len(verdicts)} asked figures reached")
    return not all(verdicts)


if __name__ == "__main__":
    sys.exit(main())
