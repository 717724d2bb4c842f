"""Independent components from a sketch, beside FastICA: python benchmarks/tasks/all.py --only ica"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from statistics import median

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from sklearn.decomposition import FastICA

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no

Rows = NDArray[np.float64]
TIMES = 1.5  # FastICA's error, at most

#: sources of variance 1
SOURCES: dict[str, Callable[[np.random.Generator, int], Rows]] = {
    "uniform": lambda rng, n: rng.uniform(-1, 1, n) * 3**0.5,
    "Laplace": lambda rng, n: rng.laplace(size=n) / 2**0.5,
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "sine": lambda rng, n: np.sin(rng.uniform(0, 2 * np.pi, n)) * 2**0.5,
    "logistic": lambda rng, n: rng.logistic(size=n) * 3**0.5 / np.pi,
    "bimodal": lambda rng, n: (rng.choice([-1.0, 1.0], n) + 0.3 * rng.standard_normal(n)) / 1.09**0.5,
    "t of 5": lambda rng, n: rng.standard_t(5, n) * 0.6**0.5,
    "gamma of 4": lambda rng, n: (rng.gamma(4.0, size=n) - 4) / 2,
    "beta of 2, 2": lambda rng, n: (rng.beta(2, 2, n) - 0.5) * 20**0.5,
    "sparse": lambda rng, n: rng.standard_normal(n) * (rng.random(n) < 0.1) * 10**0.5,
}
MIXED = tuple(SOURCES)
#: names of the sources, columns, condition of the mixing matrix (0: standard normal entries)
PROBLEMS: dict[str, tuple[tuple[str, ...], int, float]] = {
    **{name: ((name,), 5, 0.0) for name in ("uniform", "Laplace", "exponential", "logistic", "t of 5")},
    "first five, mixed": (MIXED[:5], 5, 0.0),
    "first five, condition 100": (MIXED[:5], 5, 100.0),
    "last five, mixed": (MIXED[5:], 5, 0.0),
    "Laplace, 2 columns": (("Laplace",), 2, 0.0),
    "uniform and gamma, 3 columns": (("uniform", "gamma of 4"), 3, 0.0),
    "all ten, condition 100": (MIXED, 10, 100.0),
}


def problem(names: Sequence[str], d: int, condition: float, n: int, seed: int) -> tuple[Rows, Rows]:
    """Rows, and the matrix that mixes their sources."""
    rng = np.random.default_rng(seed)
    sources = np.stack([SOURCES[names[i % len(names)]](rng, n) for i in range(d)], axis=1)
    mixing = rng.standard_normal((d, d))
    if condition:
        a, _, b = np.linalg.svd(mixing)
        mixing = a * np.geomspace(1, 1 / condition, d) @ b
    return sources @ mixing.T + rng.standard_normal(d), mixing


def amari(found: Rows) -> float:
    """Amari's error of unmixing times mixing: 0 if each row and column has one entry, at most 1."""
    sizes, d = np.abs(found), len(found)
    rows, columns = sizes.sum(axis=1) / sizes.max(axis=1), sizes.sum(axis=0) / sizes.max(axis=0)
    return float((rows.sum() + columns.sum() - 2 * d) / (2 * d * (d - 1)))


def fast(X: Rows, seed: int) -> Rows:
    """FastICA, run until it has converged."""
    found: Rows = FastICA(whiten="unit-variance", random_state=seed, max_iter=2000, tol=1e-6).fit(X).components_
    return found


def own(X: Rows, seed: int) -> skl.SketchICA:
    return skl.SketchICA(random_state=seed).fit(X)


def streamed(X: Rows, seed: int) -> skl.SketchICA:
    ica = skl.SketchICA(random_state=seed)
    for first in range(0, len(X), 100_000):
        ica.partial_fit(X[first : first + 100_000])
    return ica


def accuracy(n: int, draws: int, seed: int) -> tuple[Table, list[bool]]:
    """Errors of all problems, medians over draws."""
    columns = ("sources", "d", "numbers", "of at most", "SketchICA", "FastICA", "ratio", "asked", "reached")
    table = table_of(
        f"Independent components: Amari's error, n = {n:,}, medians of {draws}",
        (*columns, "partial_fit", "seconds", "FastICA's"),
    )
    reached = []
    for name, (names, d, condition) in PROBLEMS.items():
        errors: list[tuple[float, ...]] = []
        for draw in range(draws):
            X, mixing = problem(names, d, condition, n, seed + draw)
            begun = time.perf_counter()
            model = own(X, seed + draw)
            error, spent = amari(model.components_ @ mixing), time.perf_counter() - begun
            begun = time.perf_counter()
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                peer = amari(fast(X, seed + draw) @ mixing)
            peer_spent = time.perf_counter() - begun
            errors.append((error, peer, amari(streamed(X, seed + draw).components_ @ mixing), spent, peer_spent))
        ours, theirs, stream, seconds, peer_seconds = (median(values) for values in zip(*errors, strict=True))
        numbers = model.sketch_.operator.parts[1].n_sums
        good = ours <= TIMES * theirs and numbers <= 2 * d**2
        reached.append(good)
        table.add_row(
            name, str(d), str(numbers), str(2 * d**2), f"{ours:.5f}", f"{theirs:.5f}", f"{ours / theirs:.2f}",
            f"<= {TIMES}", yes_or_no(good), f"{stream:.5f}", f"{seconds:.1f}", f"{peer_seconds:.1f}",
        )  # fmt: skip
    return table, reached


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    """The table, and which figures were reached."""
    yield accuracy(settings.ica_rows, settings.draws, settings.seed)
