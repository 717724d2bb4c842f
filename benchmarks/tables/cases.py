"""What is measured on one table, for numeric.py: each function is one of its parts, in one process."""

from __future__ import annotations

import itertools
import math
import signal
import time
import traceback
import warnings
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import sketchlearn as skl
from benchmarks.privacy.peers import dplloyd_centers

DESIGN_ROWS = 5000  # rows that a design for clusters sees
MIXTURE_DESIGN_ROWS = 20_000  # and one for mixtures
KEPT_ROWS = 500
FARTHEST = 400.0  # deviations of a row from its component, the most that expected statistics take without a warning
BOX_QUANTILES = (0.001, 0.999)  # of each column, scaled to -1 and 1
PRIVATE_ROWS = 5000  # smaller tables have no private releases
DELTA = 1e-6
BUDGETS = ((0.03, DELTA), (0.1, DELTA), (0.3, DELTA), (1.0, DELTA), (3.0, DELTA), (1.0, 0.0))
PRIVATE_RUNS = 3
MIXTURE_COMPONENTS = 3
RELEASES = itertools.count()

Rows = NDArray[np.float64]


@dataclass(frozen=True)
class Case:
    """A table, how its columns are scaled (raw, standardised, box), a number of clusters and the parts to measure."""

    table: str
    X: Rows
    scaling: str
    k: int
    parts: tuple[str, ...]
    seed: int
    timeout: float  # seconds for each part


@dataclass(frozen=True)
class Measured:
    """One figure: RSSE, or nats per row behind EM. The peer's figure is of the same kind; an error has none."""

    part: str
    table: str
    n_rows: int
    scaling: str
    k: int
    variant: str = ""
    figure: float = math.nan
    peer: float = math.nan
    seconds: float = math.nan
    warned: bool = False  # by a ConvergenceWarning
    leaked: str = ""  # a RuntimeWarning, such as NumPy's of an overflow
    error: str = ""


@dataclass
class Watch:
    """Seconds and warnings of what ran under `watched`."""

    seconds: float = math.nan
    warned: bool = False
    leaked: str = ""

    def fields(self) -> dict[str, Any]:
        return {"seconds": self.seconds, "warned": self.warned, "leaked": self.leaked}


@contextmanager
def watched() -> Iterator[Watch]:
    watch, started = Watch(), time.perf_counter()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield watch
    watch.seconds = time.perf_counter() - started
    watch.warned = any(issubclass(entry.category, ConvergenceWarning) for entry in caught)
    leaked = [entry for entry in caught if issubclass(entry.category, RuntimeWarning)]
    watch.leaked = f"{Path(leaked[0].filename).name}:{leaked[0].lineno}: {leaked[0].message}" if leaked else ""


@contextmanager
def limited_to(seconds: float) -> Iterator[None]:
    """A TimeoutError after that many seconds, in the main thread of a process, where there are signals."""

    def stop(*_: object) -> None:
        raise TimeoutError(f"longer than {seconds:g} s")

    signal.signal(signal.SIGALRM, stop)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)


def standardised(X: Rows) -> Rows:
    """Columns of mean 0 and deviation 1; a constant column is 0."""
    centered, deviation = X - X.mean(axis=0), X.std(axis=0)
    constant = X.max(axis=0) == X.min(axis=0)
    return np.where(constant, 0.0, centered / np.where(constant | (deviation == 0), 1.0, deviation))


def in_box(X: Rows) -> Rows:
    """Columns scaled by their extreme quantiles, and clipped, into [-1, 1]; a constant column is 0."""
    low, high = np.quantile(X, BOX_QUANTILES, axis=0)
    width = np.where(high > low, high - low, 1.0)
    return np.where(high > low, np.clip(2 * (X - low) / width - 1, -1, 1), 0.0)


SCALINGS: dict[str, Callable[[Rows], Rows]] = {"raw": lambda X: X, "standardised": standardised, "box": in_box}


def sse(X: Rows, centers: Rows) -> float:
    """Sum of squared distances to the nearest center, from differences: exact for columns far from 0 too."""
    return float(np.sum(np.min([np.sum((X - center) ** 2, axis=1) for center in centers], axis=0)))


@dataclass
class Problem:
    """The scaled rows of a case, and what KMeans reaches on them."""

    case: Case
    X: Rows = field(init=False)

    def __post_init__(self) -> None:
        self.X = SCALINGS[self.case.scaling](self.case.X)

    @property
    def k(self) -> int:
        return self.case.k

    @property
    def seed(self) -> int:
        return self.case.seed

    def rng(self) -> np.random.Generator:
        return np.random.default_rng([self.seed, zlib.crc32(self.case.table.encode())])

    def rows(self, most: int) -> Rows:
        """Random rows, without replacement; all of them, shuffled, if the table has no more."""
        return self.X[self.rng().permutation(len(self.X))[:most]]

    def kmeans(self, rows: Rows, seed: int) -> Rows:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)  # fewer distinct rows than clusters
            return KMeans(self.k, n_init=10, random_state=seed).fit(rows).cluster_centers_

    @cached_property
    def reference(self) -> float:
        return sse(self.X, self.kmeans(self.X, 0))

    @cached_property
    def rounding(self) -> float:
        """An error that counts as 0."""
        return 1e-12 * sse(self.X, self.X.mean(axis=0, keepdims=True)) + 1e-28 * float(np.sum(self.X**2)) + 1e-300

    def rsse(self, centers: Rows) -> float:
        figure = max(sse(self.X, np.asarray(centers)), self.rounding) / max(self.reference, self.rounding)
        return figure if math.isfinite(figure) else math.inf

    def measured(self, part: str, figure: float, watch: Watch, peer: float = math.nan, variant: str = "") -> Measured:
        case = self.case
        return Measured(part, case.table, len(self.X), case.scaling, case.k, variant, figure, peer, **watch.fields())


# The parts


def fit(problem: Problem) -> Iterator[Measured]:
    """All rows, beside a second KMeans."""
    with watched() as watch:
        model = skl.SketchKMeans(problem.k, random_state=problem.seed).fit(problem.X)
    second = problem.rsse(problem.kmeans(problem.X, 1))
    yield problem.measured("fit", problem.rsse(model.cluster_centers_), watch, second)


def kept(problem: Problem) -> Iterator[Measured]:
    """A sketch that carries 500 rows, chosen as it was made."""
    with watched() as watch:
        design_rows = problem.rows(DESIGN_ROWS)
        operator = skl.design(design_rows, n_components=problem.k, rows=KEPT_ROWS, seed=problem.seed)
        model = skl.SketchKMeans(problem.k, random_state=problem.seed).fit_sketch(operator.sketch(problem.X))
    yield problem.measured("kept", problem.rsse(model.cluster_centers_), watch)


def sample(problem: Problem) -> Iterator[Measured]:
    """A sketch of all rows and 500 uniformly drawn ones, beside KMeans on those."""
    rows = problem.rows(KEPT_ROWS)
    with watched() as watch:
        operator = skl.design(rows, n_components=problem.k, seed=problem.seed)
        sketch = operator.sketch(problem.X)
        model = skl.SketchKMeans(problem.k, random_state=problem.seed).fit_sketch(sketch, sample=rows)
    alone = problem.rsse(problem.kmeans(rows, 0))
    yield problem.measured("sample", problem.rsse(model.cluster_centers_), watch, alone)


def sketch(problem: Problem) -> Iterator[Measured]:
    """A sketch alone, by a design that saw rows."""
    with watched() as watch:
        operator = skl.design(problem.rows(DESIGN_ROWS), n_components=problem.k, seed=problem.seed)
        model = skl.SketchKMeans(problem.k, random_state=problem.seed).fit_sketch(operator.sketch(problem.X))
    yield problem.measured("sketch", problem.rsse(model.cluster_centers_), watch)


def bounds(problem: Problem) -> Iterator[Measured]:
    """A sketch alone, by a design that knows the box."""
    with watched() as watch:
        operator = skl.design(bounds=box(problem), n_components=problem.k, seed=problem.seed)
        model = skl.SketchKMeans(problem.k, random_state=problem.seed).fit_sketch(operator.sketch(problem.X))
    yield problem.measured("bounds", problem.rsse(model.cluster_centers_), watch)


def private(problem: Problem) -> Iterator[Measured]:
    """Private releases, medians of several, beside DPLloyd's with the same budget and kind of noise."""
    if len(problem.X) < PRIVATE_ROWS:
        return
    for epsilon, delta in BUDGETS:
        ours, peers, watches = [], [], []
        for seed in range(problem.seed, problem.seed + PRIVATE_RUNS):
            with watched() as watch:
                budget = {"epsilon": epsilon, "delta": delta}
                size = {"n_components": problem.k, "n_rows": len(problem.X)}
                operator = skl.design(bounds=box(problem), seed=seed, **size, **budget)
                # a name of its own: the same rows are released several times, each as if it were the first
                release = skl.privatize(operator.sketch(problem.X, batch=f"{next(RELEASES)}"), **budget)
                model = skl.SketchKMeans(problem.k, random_state=seed).fit_sketch(release)
            watches.append(watch)
            ours.append(problem.rsse(model.cluster_centers_))
            centers = dplloyd_centers(problem.X, problem.k, epsilon, delta, np.random.default_rng(seed))
            peers.append(problem.rsse(centers))
        middle = watches[int(np.argsort(ours)[len(ours) // 2])]
        variant = f"epsilon {epsilon:g}" + (f", delta {delta:g}" if delta else ", pure")
        yield problem.measured("private", float(np.median(ours)), middle, float(np.median(peers)), variant)


def mixtures(problem: Problem) -> Iterator[Measured]:
    """Gaussian mixtures of one half of the rows: how far behind EM the other half's likelihood is, in nats per row."""
    shuffled = problem.rows(len(problem.X))
    training, held_out = np.array_split(shuffled, 2)
    for covariance in ("diag", "full"):
        with watched() as watch:
            model = skl.SketchGaussianMixture(problem.k, covariance_type=covariance, random_state=problem.seed)
            ours = model.fit(training).score(held_out)
        scores = []
        for seed in (0, 1):  # the second is the peer: how far EM is behind itself
            em = GaussianMixture(problem.k, covariance_type=covariance, reg_covar=1e-3, n_init=3, random_state=seed)
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", ConvergenceWarning)
                scores.append(em.fit(training[:MIXTURE_DESIGN_ROWS]).score(held_out))
        gap, second = scores[0] - ours, scores[0] - scores[1]
        yield problem.measured("mixtures", gap if math.isfinite(gap) else math.inf, watch, second, covariance)


def box(problem: Problem) -> tuple[list[float], list[float]]:
    d = problem.X.shape[1]
    return [-1.0] * d, [1.0] * d


def steps(problem: Problem) -> Iterator[Measured]:
    """One step on all rows from a pilot of 500, or a quarter of them: by what share it changes what it minimises.

    The squared error of k-means, the sum of distances of k-medians, and the log-likelihood of mixtures of k Gaussians
    whose variances are at least a thousandth of their column's; of the latter, nats a row.
    """
    X, rows = problem.X, problem.rows(min(KEPT_ROWS, len(problem.X) // 4))
    if len(np.unique(rows, axis=0)) <= problem.k:
        return
    center = X.mean(axis=0)
    frame = {"center": center, "bound": 2 * np.max(np.abs(X - center), axis=0) + np.abs(center) * 1e-6 + 1e-300}
    frame["bound"] = np.maximum(frame["bound"], 1e-6 * np.max(frame["bound"]))
    pilot = problem.kmeans(rows, 0)
    for variant, radius, estimator in (("k-means", None, skl.SketchKMeans), ("k-medians", 1e-3, skl.SketchKMedians)):
        with watched() as watch:
            if radius is not None:
                radius *= float(np.mean(distances(X, pilot)))
            operator = skl.features.CellSums.at_points(
                pilot - center, units=np.ones(X.shape[1]), radius=radius, **frame
            )
            model = estimator(problem.k, random_state=problem.seed).fit_sketch(operator.sketch(X))
        before, after = (distances(X, centers) for centers in (pilot, model.cluster_centers_))
        power = 2 if radius is None else 1
        cost = max(float(np.sum(before**power)), problem.rounding)
        yield problem.measured("steps", (float(np.sum(after**power)) - cost) / cost, watch, variant=variant)
    least = 1e-3 * np.var(X, axis=0)
    for kind in ("diag", "full") if problem.case.scaling == "standardised" else ():
        em = GaussianMixture(problem.k, covariance_type=kind, reg_covar=1e-3, random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            em.fit(rows)
        factors = np.sqrt(em.covariances_) if kind == "diag" else np.linalg.cholesky(em.covariances_)
        with watched() as watch:
            given = {"ridge": tuple(least.tolist()), "reach": FARTHEST, **frame}
            own = skl.features.ExpectedStatistics.at_mixture(em.weights_, em.means_, factors, **given)
            model = skl.SketchGaussianMixture(problem.k, covariance_type=kind, random_state=problem.seed)
            model.fit_sketch(own.sketch(X))
        yield problem.measured("steps", em.score(X) - model.score(X), watch, variant=kind)


def distances(X: Rows, centers: Rows) -> Rows:
    """From each row to the nearest center."""
    return np.sqrt(np.min([np.sum((X - center) ** 2, axis=1) for center in centers], axis=0))


PARTS: dict[str, Callable[[Problem], Iterator[Measured]]] = {
    "fit": fit,
    "kept": kept,
    "sample": sample,
    "sketch": sketch,
    "bounds": bounds,
    "private": private,
    "mixtures": mixtures,
    "steps": steps,
}


def scalings(part: str) -> tuple[str, ...]:
    return {"bounds": ("box",), "private": ("box",), "mixtures": ("standardised",)}.get(part, ("raw", "standardised"))


def measure(case: Case) -> list[Measured]:
    """All parts of a case. An error of the library is a result too."""
    problem, found = Problem(case), []
    for part in case.parts:
        try:
            with limited_to(case.timeout):
                found.extend(PARTS[part](problem))
        except Exception as error:
            where = traceback.extract_tb(error.__traceback__)[-1]
            place = "" if isinstance(error, TimeoutError) else f" ({Path(where.filename).name}:{where.lineno})"
            text = f"{type(error).__name__}: {error}{place}"
            found.append(Measured(part, case.table, len(problem.X), case.scaling, case.k, error=text))
    return found
