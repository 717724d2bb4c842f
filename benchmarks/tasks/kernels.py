"""One-bit kernel machines and packed bits: python benchmarks/tasks/all.py --only kernels

Support vector machines that are asked in single bits, beside the same machines at full precision (figure 3.5 of the
thesis: 5 classes of 4 Gaussians each in the plane, 8000 rows to train and 2000 to test, a Gaussian kernel of scale 2);
and products of packed bits beside float32 products by BLAS.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.table import Table
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.multiclass import OneVsRestClassifier
from sklearn.svm import SVC, LinearSVC
from threadpoolctl import threadpool_limits

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no

Rows = NDArray[Any]
SCALE, PENALTIES = 2.0, (5.0, 0.25)
TRAIN, TEST, CLASSES, GAUSSIANS = 8000, 2000, 5, 4
SIDE, WIDTH = 11.5, 0.5  # of the square that means lie in, of each Gaussian: the exact machine is right 97 to 99 %
DRAWS_OF_ROWS, DRAWS_OF_FEATURES = 5, 5
EXACT_SIZES, TRAINED_SIZES = (100, 200, 400, 800), (25, 50, 100, 200)
REPETITIONS = 11


def classes_in_the_plane(seed: int) -> tuple[Rows, Rows]:
    """Means apart from each other (each the farthest of ten), given to classes at random."""
    rng = np.random.default_rng(seed)
    means = [rng.uniform(0, SIDE, 2)]
    while len(means) < CLASSES * GAUSSIANS:
        others = rng.uniform(0, SIDE, (10, 2))
        distances = np.linalg.norm(others[:, None] - np.array(means), axis=2).min(axis=1)
        means.append(others[np.argmax(distances)])
    which = rng.integers(CLASSES * GAUSSIANS, size=TRAIN + TEST)
    rows = np.array(means)[which] + WIDTH * rng.standard_normal((TRAIN + TEST, 2))
    return rows, rng.permutation(CLASSES * GAUSSIANS)[which] % CLASSES


def right(values: Rows, labels: Rows) -> float:
    return 100 * float(np.mean(np.argmax(values, axis=1) == labels))


def of_exact(machine: Any, features: skl.PeriodicFeatures, asked: Rows) -> Rows:
    """The exact machine's decisions, its kernel replaced by products of features."""
    parts = machine.estimators_
    known = [part.dual_coef_ @ features.transform(part.support_vectors_) for part in parts]
    return asked @ np.concatenate(known).T + np.array([part.intercept_[0] for part in parts])


def exact_machines(m: int, seed: int, X: Rows, y: Rows, machine: Any) -> dict[str, float]:
    """A kernel machine of the rows, its kernel replaced by products of features."""
    rows, new, labels = X[:TRAIN], X[TRAIN:], y[TRAIN:]
    full = skl.PeriodicFeatures(m, scale=SCALE, random_state=seed).fit(rows)
    semi = skl.PeriodicFeatures(-(-4 * m // 3), scale=SCALE, random_state=seed + 1000).fit(rows)
    return {
        "full": right(of_exact(machine, full, full.transform(new)), labels),
        "cosine": right(of_exact(machine, semi, semi.transform_queries(new)), labels),
    }


def trained_machines(m: int, seed: int, X: Rows, y: Rows, machine: Any) -> dict[str, float]:
    """Linear machines, trained on features of full precision."""
    rows, new, labels = X[:TRAIN], X[TRAIN:], y[TRAIN:]

    def trained(n: int, wave: str, seed: int) -> tuple[skl.PeriodicFeatures, LinearSVC]:
        features = skl.PeriodicFeatures(n, scale=SCALE, wave=wave, random_state=seed).fit(rows)
        svm = LinearSVC(C=machine.estimator.C, loss="hinge", random_state=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            return features, svm.fit(features.transform(rows), y[:TRAIN])

    full, svm = trained(m, "cosine", seed)
    found = {"full": right(svm.decision_function(full.transform(new)), labels)}
    for wave in ("cosine", "softened"):
        features, svm = trained(-(-4 * m // 3), wave, seed + 1000)
        found[wave] = right(features.decision(svm, features.pack(new)), labels)
    return found


def machines(
    title: str, sizes: tuple[int, ...], waves: tuple[str, ...], measured: Callable[..., dict[str, float]],
    settings: argparse.Namespace,
) -> tuple[Table, list[bool]]:  # fmt: skip
    """Medians over draws of rows and of features. What is asked, of the last wave: to lose at most one point."""
    shown = [text for wave in waves for text in (f"one bit, rows by {wave}, 4m/3", "")]
    table, reached = table_of(title, ("C", "m", "exact", "full precision, m", "asked", *shown)), []
    for penalty in PENALTIES:
        data = [classes_in_the_plane(seed) for seed in range(settings.seed, settings.seed + DRAWS_OF_ROWS)]
        machine = OneVsRestClassifier(SVC(C=penalty, gamma=1 / (2 * SCALE**2)))
        fitted = [clone(machine).fit(X[:TRAIN], y[:TRAIN]) for X, y in data]
        exact = median(
            right(svm.decision_function(X[TRAIN:]), y[TRAIN:]) for svm, (X, y) in zip(fitted, data, strict=True)
        )
        for m in sizes:
            found = [
                measured(m, settings.seed + DRAWS_OF_FEATURES * i + draw, *data[i], fitted[i])
                for i in range(DRAWS_OF_ROWS)
                for draw in range(DRAWS_OF_FEATURES)
            ]
            least = median(one["full"] for one in found) - 1.0
            cells = [f"{penalty:g}", str(m), f"{exact:.1f}", f"{least + 1:.1f}", f">= {least:.1f}"]
            for wave in waves:
                value = median(one[wave] for one in found)
                cells += [f"{value:.1f}", yes_or_no(value >= least)]
            reached.append(value >= least)
            table.add_row(*cells)
    return table, reached


def seconds(*calls: Callable[[], Any]) -> list[float]:
    """Medians of repetitions that take turns."""
    spent: list[list[float]] = [[] for _ in calls]
    for _ in range(REPETITIONS):
        for times, call in zip(spent, calls, strict=True):
            time.sleep(0.25)  # BLAS threads stay busy for about 0.1 s after their work
            start = time.perf_counter()
            call()
            times.append(time.perf_counter() - start)
    return [median(times) for times in spent]


PRODUCTS = {  # rows of queries, rows they meet, features
    "one pair": (1, 1, 1_000_000),
    "one query, many rows": (1, 20_000, 1000),
    "many queries, few rows": (20_000, 5, 1000),
    "matrix, matrix": (2000, 2000, 1000),
    "matrix, matrix, long": (1000, 1000, 8192),
}


def product_times(n: int, k: int, m: int, threads: int, rng: np.random.Generator) -> tuple[list[float], float, bool]:
    """Seconds of float32, bits and bits with floats, what bits save of the memory, and whether they are exact."""
    a, b = (skl.features.PackedBits.from_signs(rng.choice([-1, 1], (rows, m)).astype(np.int8)) for rows in (n, k))
    left, right = a.signs().astype(np.float32), b.signs().astype(np.float32)
    weights = np.ascontiguousarray(rng.standard_normal((m, k)), np.float32)
    with threadpool_limits(threads):
        times = seconds(
            lambda: left @ right.T, lambda: a.inner(b, n_jobs=threads), lambda: a.dot(weights, n_jobs=threads)
        )
    same = np.array_equal(a.inner(b), left.astype(np.float64) @ right.T.astype(np.float64))
    return times, left.nbytes / a.nbytes, same


def products(settings: argparse.Namespace) -> tuple[Table, list[bool]]:
    """Bits against bits, and bits against float32 weights, beside float32 by BLAS."""
    columns = ("", "queries x rows x features", "threads", "memory", "float32 BLAS", "bits x bits", "times faster")
    title = "Inner products of one-bit features, medians of interleaved repetitions, milliseconds"
    table, reached = table_of(title, (*columns, "asked", "", "bits x float32", "times faster")), []
    rng = np.random.default_rng(settings.seed)
    for threads in (1, 2):
        for name, (n, k, m) in PRODUCTS.items():
            (blas, bits, floats), saved, same = product_times(n, k, m, threads, rng)
            reached.append(same and blas >= 4 * bits and saved > 31)
            table.add_row(
                name, f"{n} x {k} x {m}", str(threads), f"1/{saved:.1f}", f"{1e3 * blas:.3f}", f"{1e3 * bits:.3f}",
                f"{blas / bits:.1f}", ">= 4", yes_or_no(reached[-1]), f"{1e3 * floats:.3f}", f"{blas / floats:.1f}",
            )  # fmt: skip
    return table, reached


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    yield products(settings)
    draws = f"percent right, medians over {DRAWS_OF_ROWS} draws of rows by {DRAWS_OF_FEATURES} of features"
    title = f"Linear machines trained on features, {draws}"
    yield machines(title, TRAINED_SIZES, ("cosine", "softened"), trained_machines, settings)
    title = f"Kernel machines of the rows, asked by features, {draws}"
    yield machines(title, EXACT_SIZES, ("cosine",), exact_machines, settings)
