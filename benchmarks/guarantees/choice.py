"""How often the number of clusters is found from one sketch designed for 20, beside peers that see the rows."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no

MOST = 20
LEAST_HITS = 0.95
MOST_SECONDS = 10.0  # for ten columns, on two cores
DESIGN_ROWS, PEER_ROWS = 20_000, 10_000
ROWS_PER_PARAMETER = 5  # of the smallest cluster: with fewer, its covariance is not told by its rows either
Rows = NDArray[Any]
console = Console(width=150, highlight=False)
progress = Console(stderr=True, highlight=False)


@dataclass(frozen=True)
class Draw:
    """Rows, how many clusters they have, and how far an answer may be off."""

    X: Rows
    k: int
    tolerance: int = 0
    words: str = ""


def centers(rng: np.random.Generator, k: int, d: int, gap: float) -> Rows:
    """Gaussian centers, the nearest two of them `gap` apart."""
    found = rng.standard_normal((k, d))
    if k == 1:
        return found
    return found * gap / np.linalg.norm(found[:, None] - found, axis=2)[np.triu_indices(k, 1)].min()


def gaussians(rng: np.random.Generator, k: int, d: int, gap: float, n: int, weights: Rows) -> Draw:
    """Diagonal Gaussians with deviations of 0.8 to 1.2."""
    at, widths = centers(rng, k, d, gap), rng.uniform(0.8, 1.2, (k, d))
    labels = rng.choice(k, n, p=weights)
    X = at[labels] + widths[labels] * rng.standard_normal((n, d))
    return Draw(X, k, words=f"k {k}, d {d}, gap {gap:.1f}, n {n:,}, least weight {weights.min():.3f}")


def at_random(rng: np.random.Generator) -> Draw:
    """A setting of the range that is asked for, unless its smallest cluster has too few rows."""
    while True:
        k, d = int(rng.integers(1, MOST)), int(rng.integers(2, 21))
        gap, n = rng.uniform(2.5, 6), int(10 ** rng.uniform(3, 6))
        weights = 0.01 + (1 - 0.01 * k) * rng.dirichlet(np.ones(k))
        if n * weights.min() >= ROWS_PER_PARAMETER * (2 * d + 1):
            return gaussians(rng, k, d, gap, n, weights)


def uneven(rng: np.random.Generator) -> Draw:
    weights = np.geomspace(0.4, 0.01, 8)
    return gaussians(rng, 8, 5, 4.0, 100_000, weights / weights.sum())


def ten_columns(rng: np.random.Generator) -> Draw:
    k = int(rng.integers(2, MOST))
    return gaussians(rng, k, 10, 4.0, 100_000, np.full(k, 1 / k))


def stretched(rng: np.random.Generator) -> Draw:
    """Five Gaussians, each turned and four times as long as it is thin."""
    k, d, n = 5, 4, 100_000
    at, labels, X = centers(rng, k, d, 4.0), rng.integers(0, k, n), rng.standard_normal((n, d))
    for c in range(k):
        turned = np.linalg.qr(rng.standard_normal((d, d)))[0] * np.geomspace(0.4, 1.6, d)
        X[labels == c] = X[labels == c] @ turned.T
    return Draw(X + at[labels], k)


def one_gaussian(rng: np.random.Generator) -> Draw:
    d = int(rng.integers(2, 9))
    return Draw(rng.standard_normal((20_000, d)) @ (rng.standard_normal((d, d)) / np.sqrt(d) + np.eye(d)), 1)


def box(rng: np.random.Generator) -> Draw:
    return Draw(rng.uniform(0, 1, (50_000, int(rng.integers(2, 9)))), 1)


def balls(rng: np.random.Generator) -> Draw:
    """Uniform balls of unit deviation."""
    k, d, n = 6, 4, 50_000
    at, x = centers(rng, k, d, 4.0), rng.standard_normal((n, d))
    x *= (np.sqrt(d + 2) * rng.random(n) ** (1 / d) / np.linalg.norm(x, axis=1))[:, None]
    return Draw(at[rng.integers(0, k, n)] + x, k, tolerance=1)


SETTINGS: dict[str, Callable[[np.random.Generator], Draw]] = {
    "Gaussians at random": at_random,
    "weights 0.4 to 0.01": uneven,
    "ten columns": ten_columns,
    "stretched": stretched,
    "one Gaussian": one_gaussian,
    "box": box,
    "balls, within 1": balls,
}


def sketch_of(X: Rows, seed: int, **more: Any) -> skl.Sketch:
    rows = X[np.random.default_rng(seed).permutation(len(X))[:DESIGN_ROWS]]
    return skl.design(rows, n_components=MOST, seed=seed, **more).sketch(X)


def by_bic(X: Rows, seed: int) -> int:
    """GaussianMixture on some of the rows: the better of diagonal and full ones."""
    X = X[np.random.default_rng(seed).permutation(len(X))[:PEER_ROWS]]
    found = {}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        for kind in ("diag", "full"):
            for k in range(1, MOST + 1):
                if k * X.shape[1] < len(X):
                    found[k, kind] = GaussianMixture(k, covariance_type=kind, random_state=seed).fit(X).bic(X)
    return min(found, key=lambda size: found[size])[0]


def choice(settings: argparse.Namespace) -> Iterator[bool]:
    """Hits of `choose_k` from the sketch alone, of BIC on rows, and of `choose_k` with rows."""
    table = table_of(
        f"k found, of {settings.draws} draws each",
        ["setting", "choose_k", "s", "GMM, BIC", "s", "with rows", "s", "asked"],
    )
    reached = []
    for name, make in SETTINGS.items():
        if settings.settings not in name:
            continue
        hits, seconds = np.zeros(3, int), [[], [], []]
        for draw in range(settings.draws):
            seed = settings.seed + draw
            given = make(np.random.default_rng([18, seed]))
            sketch, said = sketch_of(given.X, seed), []
            ways: list[Callable[[], int]] = [
                lambda sketch=sketch, seed=seed: skl.choose_k(sketch, MOST, random_state=seed).n_clusters,
                lambda X=given.X, seed=seed: by_bic(X, seed),
                lambda sketch=sketch, X=given.X, seed=seed: skl.choose_k(sketch, MOST, X, random_state=seed).n_clusters,
            ]
            for i, way in enumerate(ways):
                started = time.perf_counter()
                said.append(way())
                seconds[i].append(time.perf_counter() - started)
                hits[i] += abs(said[i] - given.k) <= given.tolerance
            progress.print(f"{name} {seed}: {given.words or given.k} -> {said[0]}; BIC {said[1]}, with rows {said[2]}")
        need = LEAST_HITS if name in ("Gaussians at random", "ten columns") else 1.0
        reached.append(bool(hits[0] >= need * settings.draws and hits[0] >= hits[1]))
        if name == "ten columns":
            reached.append(median(seconds[0]) <= MOST_SECONDS)
        cells = [part for i in range(3) for part in (f"{hits[i]}", f"{median(seconds[i]):.1f}")]
        table.add_row(name, *cells, yes_or_no(reached[-1]))
    console.print(table)
    yield from reached
