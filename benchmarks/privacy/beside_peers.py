"""Clusters and mixtures from private sketches, beside DPLloyd, diffprivlib, Google's.

python benchmarks/privacy/beside_peers.py

Every figure is a median over fresh draws, with default arguments: the operator is designed from bounds, the number of
rows and the budget alone, and the noise is OpenDP's, so that two runs differ. The box is declared knowledge: the
smallest cube around the origin that holds the rows, rounded up to a whole number. RSSE is the sum of squared distances
to the nearest center, divided by that of KMeans on the same rows: the better of n_init=10 and a start at the true means
(of a million rows, the latter alone). diffprivlib and Google's get environments of their
own, in build/, at first use.
"""

from __future__ import annotations

import argparse
import itertools
import math
import sys
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

sys.path.insert(0, str(Path(__file__).parents[2]))
import sketchlearn as skl
from benchmarks.privacy.peers import BLOCK, diffprivlib_centers, dplloyd_centers, google_centers, sse
from benchmarks.support.report import add_only, table_of

EPSILONS = (0.01, 0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
DELTA = 1e-8
BETTER_FROM = 0.1  # the epsilon from which on the sketch must be better than its peers
LOOSE, LOOSE_COST = 3.0, 0.05  # a box that is too large, and how much more it may cost
FILE = "mnist_spectral10.npz"
RELEASES = itertools.count()
Rows = NDArray[Any]
console = Console(width=150, highlight=False)
progress = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Draw:
    """Rows, how many clusters they have, a box that holds them, and the squared error of KMeans."""

    X: Rows
    k: int
    bound: float
    reference: float
    seed: int

    @classmethod
    def of(cls, X: Rows, k: int, means: Rows | None, seed: int) -> Draw:
        starts: list[dict[str, Any]] = [] if len(X) > BLOCK and means is not None else [{"n_init": 10}]
        starts += [] if means is None else [{"init": means.astype(X.dtype), "n_init": 1}]
        fits = [KMeans(k, random_state=seed, **start).fit(X) for start in starts]
        reference = min(sse(X, fit.cluster_centers_) for fit in fits)
        return cls(X, k, math.ceil(float(np.abs(X).max())), reference, seed)

    def rsse(self, centers: Rows) -> float:
        return sse(self.X, centers) / self.reference

    def dplloyd(self, epsilon: float, delta: float) -> Rows:
        return dplloyd_centers(self.X, self.k, epsilon, delta, np.random.default_rng(self.seed), self.bound)


@dataclass(frozen=True)
class Asked:
    """A median that is asked for."""

    n: int
    epsilon: float
    delta: float
    limit: float


ASKED = (
    Asked(10**6, 1.0, 0.0, 1.005),
    Asked(10**6, 0.03, 0.0, 1.05),
    Asked(10**6, 0.5, DELTA, 1.005),
    Asked(10**5, 0.1, 0.0, 1.2),
    Asked(10**5, 0.3, 0.0, 1.05),
)


# The rows


def clusters(n: int, seed: int, k: int = 10, d: int = 10, weights: Rows | None = None, longest: float = 1.0) -> Draw:
    """Unit clusters around Gaussian means; `longest` is their deviation along one random direction each."""
    rng = np.random.default_rng(seed)
    means = 2.5 * k ** (1 / d) * rng.standard_normal((k, d))
    labels = rng.choice(k, n, p=None if weights is None else weights / weights.sum())
    noise = rng.standard_normal((n, d), dtype=np.float32)
    directions = rng.standard_normal((k, d)).astype(np.float32)
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    if longest > 1:
        along = np.einsum("nd,nd->n", noise, directions[labels])
        noise += ((longest - 1) * along)[:, None] * directions[labels]
    return Draw.of(means.astype(np.float32)[labels] + noise, k, means, seed)


OTHERS: dict[str, Callable[[int, int], Draw]] = {
    "k = d = 10": clusters,
    "k = 5, d = 2": lambda n, seed: clusters(n, seed, 5, 2),
    "k = 20, d = 5": lambda n, seed: clusters(n, seed, 20, 5),
    "weights 0.4 to 0.01": lambda n, seed: clusters(n, seed, weights=np.geomspace(0.4, 0.01, 10)),
    "four times as long as wide": lambda n, seed: clusters(n, seed, longest=4.0),
}


@cache
def mnist(folder: Path) -> Rows:
    with np.load(folder / FILE) as arrays:
        return np.asarray(arrays["X"] if "X" in arrays else arrays[arrays.files[0]], np.float32)


def thesis_mixture(n: int, seed: int, k: int = 6, d: int = 8) -> Rows:
    """Schellekens, thesis (2021), section 5.3.2: rows to fit, then 20,000 that are held out."""
    rng = np.random.default_rng(seed)
    weights = rng.uniform(0.01, 1, k)
    centers = rng.standard_normal((k, d)) * np.sqrt(25 / d)
    deviations = np.sqrt(rng.uniform(0.05, 0.95, k)[:, None] / np.sqrt(d) * rng.uniform(0.5, 1.5, (k, d)))
    labels = rng.choice(k, n + 20_000, p=weights / weights.sum())
    return centers[labels] + rng.standard_normal((len(labels), d)) * deviations[labels]


# The methods


def released(X: Rows, bound: float, seed: int, epsilon: float, delta: float, **task: Any) -> skl.Sketch:
    """A private sketch by an operator that knows the box alone."""
    d = X.shape[1]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)  # noise will hide clusters: that is what the curves show
        operator = skl.design(
            bounds=([-bound] * d, [bound] * d), n_rows=len(X), epsilon=epsilon, delta=delta, seed=seed, **task
        )
    # a name of its own: the tables release the same rows again and again, each time as if it were the first
    return skl.privatize(operator.sketch(X, batch=f"{next(RELEASES)}"), epsilon=epsilon, delta=delta)


def sketch_centers(draw: Draw, epsilon: float, delta: float = 0.0, loose: float = 1.0) -> Rows:
    sketch = released(draw.X, loose * draw.bound, draw.seed, epsilon, delta, n_components=draw.k)
    return skl.SketchKMeans(draw.k, random_state=draw.seed).fit_sketch(sketch).cluster_centers_


# The tables


def verdict(reached: bool) -> str:
    return "yes" if reached else "[bold]NO[/bold]"


def asked(settings: argparse.Namespace) -> Iterator[bool]:
    """What must hold, and the same with a box three times too large."""
    found: dict[Asked, list[float]] = {row: [] for row in ASKED}
    loose: dict[Asked, list[float]] = {row: [] for row in ASKED if row.n == 10**6}
    for n in (10**5, 10**6):
        for seed in range(settings.seed, settings.seed + settings.runs):
            draw = clusters(n, seed)
            for row in (row for row in ASKED if row.n == n):
                found[row].append(draw.rsse(sketch_centers(draw, row.epsilon, row.delta)))
                if row in loose:
                    loose[row].append(draw.rsse(sketch_centers(draw, row.epsilon, row.delta, LOOSE)))
            progress.print(f"n = {n:,}, seed {seed}: " + ", ".join(f"{v[-1]:.3f}" for v in found.values() if v))
    columns = ("rows, budget", "RSSE", "worst", "asked", "reached")
    table = table_of(f"k = d = 10, unit clusters, design from bounds alone, medians of {settings.runs}", columns)
    for row, values in found.items():
        name = f"{row.n:,} rows, epsilon {row.epsilon:g}" + (f", delta {row.delta:g}" if row.delta else "")
        reached = median(values) <= row.limit
        yield reached
        table.add_row(name, f"{median(values):.4f}", f"{max(values):.3f}", f"<= {row.limit:g}", verdict(reached))
        if row in loose:
            limit = median(values) + LOOSE_COST
            reached = median(loose[row]) <= limit
            yield reached
            figures = (f"{median(loose[row]):.4f}", f"{max(loose[row]):.3f}", f"<= {limit:.4f}", verdict(reached))
            table.add_row(f"  box {LOOSE:g} times too large", *figures)
    console.print(table)


def curves(settings: argparse.Namespace) -> Iterator[bool]:
    """Error against epsilon, beside the peers."""
    n, names = 10**5, ("SketchKMeans", f"SketchKMeans, delta {DELTA:g}", "DPLloyd", "diffprivlib")
    found: dict[str, list[list[float]]] = {name: [[] for _ in EPSILONS] for name in names}
    for seed in range(settings.seed, settings.seed + settings.runs):
        draw = clusters(n, seed)
        peers = diffprivlib_centers(draw.X, EPSILONS, k=draw.k, bound=draw.bound, seed=draw.seed)
        for i, epsilon in enumerate(EPSILONS):
            found[names[0]][i].append(draw.rsse(sketch_centers(draw, epsilon)))
            found[names[1]][i].append(draw.rsse(sketch_centers(draw, epsilon, DELTA)))
            found[names[2]][i].append(draw.rsse(draw.dplloyd(epsilon, 0.0)))
            if peers is not None:
                found[names[3]][i].append(draw.rsse(peers[i]))
        progress.print(f"curves, seed {seed}: " + ", ".join(f"{v[-1]:.3f}" for v in found[names[0]]))
    medians = {name: [median(v) for v in rows] for name, rows in found.items() if all(rows)}
    title = f"RSSE against epsilon: {n:,} rows, k = d = 10, medians of {settings.runs}"
    table = table_of(title, ("method", *(f"{epsilon:g}" for epsilon in EPSILONS)))
    for name, values in medians.items():
        table.add_row(name, *(f"{value:.3f}" for value in values))
    console.print(table)
    for i, epsilon in enumerate(EPSILONS):
        if epsilon >= BETTER_FROM:
            reached = all(medians[names[0]][i] < medians[name][i] for name in names[2:] if name in medians)
            yield reached
            if not reached:
                console.print(f"at epsilon {epsilon:g} a peer is better")
    if settings.plot:
        draw_curves(settings.plot, medians, title)


def gaussian(settings: argparse.Namespace) -> Iterator[bool]:
    """What must hold with a delta, beside DPLloyd with Gaussian noise, and Google's where there is a checkout of it.

    Google's wants a ball: that around the box, and the smallest one around the rows, which nobody would know.
    """
    delta, limits = 1e-6, {0.1: 1.002, 0.3: 1.0005, 1.0: 1.0002}
    found: dict[str, list[list[float]]] = {}
    for seed in range(settings.seed, settings.seed + settings.runs):
        draw = clusters(10**5, seed)
        centers = {
            "SketchKMeans": [sketch_centers(draw, epsilon, delta) for epsilon in limits],
            "DPLloyd": [draw.dplloyd(epsilon, delta) for epsilon in limits],
        }
        if settings.google:
            radii = {
                "box": draw.bound * math.sqrt(draw.X.shape[1]),
                "rows": float(np.linalg.norm(draw.X, axis=1).max()),
            }
            for name, radius in radii.items():
                figures = {"k": draw.k, "radius": radius, "delta": delta, "seed": seed}
                centers[f"Google's, radius of the {name}"] = google_centers(
                    draw.X, list(limits), settings.google, **figures
                )
        for name, by_epsilon in centers.items():
            for values, own in zip(found.setdefault(name, [[] for _ in limits]), by_epsilon, strict=True):
                values.append(draw.rsse(own))
        progress.print(f"delta, seed {seed}: " + ", ".join(f"{v[-1]:.4f}" for v in found["SketchKMeans"]))
    columns = ("method", *(f"{epsilon:g}, at most {limit:g}" for epsilon, limit in limits.items()))
    title = f"RSSE by epsilon, delta {delta:g}: 100,000 rows, k = d = 10, median (worst) of {settings.runs}"
    table = table_of(title, columns)
    for name, rows in found.items():
        table.add_row(name, *(f"{median(values):.4f} ({max(values):.4f})" for values in rows))
    console.print(table)
    yield from (median(v) <= limit for v, limit in zip(found["SketchKMeans"], limits.values(), strict=True))


def draw_curves(path: Path, medians: dict[str, list[float]], title: str) -> None:
    import matplotlib as mpl

    mpl.use("Agg")
    from matplotlib import pyplot

    figure, axes = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    for name, values in medians.items():
        axes.loglog(EPSILONS, np.maximum(np.array(values) - 1, 1e-4), marker="o", label=name)
    axes.set(xlabel="epsilon", ylabel="RSSE - 1", title=title)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, dpi=150)
    console.print(f"the curves are in {path}")


def others(settings: argparse.Namespace) -> Iterator[bool]:
    """Clusters of other kinds, and real ones."""
    kinds = dict(OTHERS)
    if settings.data is not None:
        kinds["mnist_spectral10"] = lambda _, seed: Draw.of(mnist(settings.data), 10, None, seed)
    budgets = [(0.1, 0.0), (0.3, 0.0), (1.0, 0.0), (3.0, 0.0), (0.3, DELTA)]
    columns = ("rows", *(f"{e:g}" + (f", {d:g}" if d else "") for e, d in budgets))
    table = table_of(f"RSSE, 100,000 rows, by epsilon and delta: median (worst) of {settings.runs}", columns)
    for name, make in kinds.items():
        figures: list[list[float]] = [[] for _ in budgets]
        for seed in range(settings.seed, settings.seed + settings.runs):
            draw = make(10**5, seed)
            for (epsilon, delta), values in zip(budgets, figures, strict=True):
                values.append(draw.rsse(sketch_centers(draw, epsilon, delta)))
        table.add_row(name, *(f"{median(values):.3f} ({max(values):.2f})" for values in figures))
        progress.print(name)
    console.print(table)
    yield from ()


def mixtures(settings: argparse.Namespace) -> Iterator[bool]:
    """How much likelier held-out rows are under EM's mixture, which is not private, than under the sketch's."""
    n, k = 10**5, 6
    columns = ("", *(f"{epsilon:g}" for epsilon in EPSILONS))
    title = f"mixtures as in the thesis, 5.3.2: gap to EM in nats per row, {n:,} rows, medians of {settings.runs}"
    table = table_of(title, columns)
    gaps: dict[float, list[list[float]]] = {delta: [[] for _ in EPSILONS] for delta in (0.0, DELTA)}
    for seed in range(settings.seed, settings.seed + settings.runs):
        rows = thesis_mixture(n, seed)
        X, held_out = rows[:n], rows[n:]
        bound = math.ceil(float(np.abs(X).max()))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            best = GaussianMixture(k, covariance_type="diag", n_init=3, random_state=seed).fit(X).score(held_out)
            for delta, found in gaps.items():
                for values, epsilon in zip(found, EPSILONS, strict=True):
                    sketch = released(X, bound, seed, epsilon, delta, n_components=k, task="mixture")
                    mixture = skl.SketchGaussianMixture(k, covariance_type="diag", random_state=seed)
                    values.append(best - mixture.fit_sketch(sketch).score(held_out))
        progress.print(f"mixtures, seed {seed}: " + ", ".join(f"{v[-1]:.3f}" for v in gaps[0.0]))
    for delta, found in gaps.items():
        name = f"delta {delta:g}" if delta else "pure epsilon"
        table.add_row(name, *(f"{median(values):.3f}" for values in found))
    console.print(table)
    yield from ()


PARTS: dict[str, Callable[[argparse.Namespace], Iterator[bool]]] = {
    "asked": asked,
    "curves": curves,
    "gaussian": gaussian,
    "others": others,
    "mixtures": mixtures,
}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    add_only(parser, PARTS)
    parser.add_argument("--runs", type=int, default=20, help="draws of rows and noise")
    parser.add_argument("--seed", type=int, default=0, help="seed of the first draw; the next have the next seeds")
    parser.add_argument("--data", type=Path, help=f"folder of {FILE}")
    parser.add_argument("--google", type=Path, help="a checkout of github.com/google/differential-privacy")
    parser.add_argument("--plot", type=Path, help="a PNG file for the curves")
    settings = parser.parse_args()
    reached = [verdict for name in settings.only for verdict in PARTS[name](settings)]
    console.print(f"{sum(reached)} of {len(reached)} asked figures reached")
    return not all(reached)


if __name__ == "__main__":
    sys.exit(main())
