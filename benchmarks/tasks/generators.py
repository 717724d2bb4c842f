"""Networks that generate rows, from a sketch alone: python benchmarks/tasks/all.py --only generators

The three shapes of figure 6.4 of the thesis, from exact and from private sketches, and variants of them. A figure is
MMD(10,000 generated rows, fresh rows) / MMD(10,000 other real rows, the same fresh rows), each a V-statistic with
Gaussian kernels: of the median distance of rows, of half and a quarter of it, and the mean of the three. Squared
distances are means over three samples of 10,000 rows: those of one vary by a factor of three with a wide kernel.
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
from rich.console import Console
from rich.table import Table
from scipy.spatial.distance import pdist

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no

ROWS, PRIVATE_ROWS, COMPARED, SAMPLES, BLOCK = 100_000, 1_000_000, 10_000, 3, 1000
EPSILON, DELTA, BOUNDS = 1.0, 1e-6, ([-2.0, -2.0], [2.0, 2.0])
LIMIT, PRIVATE_LIMIT, SECONDS = 2.0, 4.0, 300.0
COMPONENTS = 10  # of the mixture beside it
KERNELS = ("median", "1/2", "1/4", "all three")
Rows = NDArray[Any]
Maker = Callable[[int, np.random.Generator], Rows]
progress = Console(stderr=True, highlight=False)


# The rows


def polar(radius: Rows, angle: Rows) -> Rows:
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)])


def spiral(n: int, rng: np.random.Generator, width: float = 0.03, turns: float = 1.0) -> Rows:
    angle = rng.uniform(0, 2 * np.pi * turns, n)
    return polar(angle / (2 * np.pi * turns) + width * rng.standard_normal(n), angle)


def ring(n: int, rng: np.random.Generator, width: float = 0.05) -> Rows:
    return polar(1 + width * rng.standard_normal(n), rng.uniform(0, 2 * np.pi, n))


def six_gaussians(n: int, rng: np.random.Generator, width: float = 0.1) -> Rows:
    centers = polar(np.ones(6), np.arange(6) * np.pi / 3)
    return centers[rng.integers(0, 6, n)] + width * rng.standard_normal((n, 2))


def moons(n: int, rng: np.random.Generator) -> Rows:
    angle, lower = rng.uniform(0, np.pi, n), rng.integers(0, 2, n)
    rows = polar(np.ones(n), angle + np.pi * lower) + lower[:, None] * [1.0, 0.5]
    return rows + 0.05 * rng.standard_normal((n, 2))


def checkerboard(n: int, rng: np.random.Generator) -> Rows:
    column = rng.integers(0, 4, n)
    return np.column_stack([column, 2 * rng.integers(0, 2, n) + column % 2]) + rng.uniform(size=(n, 2))


def clusters(n: int, rng: np.random.Generator, d: int = 5, k: int = 10) -> Rows:
    centers = 2.5 * k ** (1 / d) * np.random.default_rng(d).standard_normal((k, d))
    return centers[rng.integers(0, k, n)] + rng.standard_normal((n, d))


SHAPES: dict[str, Maker] = {"spiral": spiral, "ring": ring, "six Gaussians": six_gaussians}
#: rows, how many, and arguments of the generator
VARIANTS: dict[str, tuple[Maker, int, dict[str, Any]]] = {
    "spiral, width 0.1": (lambda n, rng: spiral(n, rng, 0.1), ROWS, {}),
    "spiral of two turns": (lambda n, rng: spiral(n, rng, 0.02, 2.0), ROWS, {}),
    "ring, width 0.01": (lambda n, rng: ring(n, rng, 0.01), ROWS, {}),
    "six Gaussians, width 0.03": (lambda n, rng: six_gaussians(n, rng, 0.03), ROWS, {}),
    "moons": (moons, ROWS, {}),
    "checkerboard": (checkerboard, ROWS, {}),
    "10 clusters in 5 columns": (clusters, ROWS, {}),
    "10 clusters in 10 columns": (lambda n, rng: clusters(n, rng, 10), ROWS, {}),
    "spiral, 2000 rows": (spiral, 2000, {}),
    "spiral, one-bit sketch": (spiral, ROWS, {"features": skl.features.Fourier(wave="square")}),
    "six Gaussians, one-bit sketch": (six_gaussians, ROWS, {"features": skl.features.Fourier(wave="square")}),
}


# Distances


def kernel_means(a: Rows, b: Rows, width: float) -> Rows:
    """Means of the three kernels over all pairs."""
    a, b = (a / width).astype(np.float32), (b / width).astype(np.float32)
    sums = np.zeros(3)
    for first in range(0, len(a), BLOCK):
        part = a[first : first + BLOCK]
        kernel = part @ b.T
        kernel -= np.sum(part * part, axis=1)[:, None] / 2
        kernel -= np.sum(b * b, axis=1) / 2
        np.exp(kernel, out=kernel)
        for i in range(3):  # half the width: the fourth power
            if i:
                np.square(kernel, out=kernel)
                np.square(kernel, out=kernel)
            sums[i] += float(np.sum(kernel, dtype=np.float64))
    return sums / (len(a) * len(b))


class Judge:
    """Fresh rows, and how far other real rows are from them."""

    def __init__(self, make: Maker, rng: np.random.Generator) -> None:
        self.fresh = make(COMPARED, rng)
        some = self.fresh[:2000]
        self.width = float(np.median(pdist(some)))
        self._own = kernel_means(self.fresh, self.fresh, self.width)
        self._real = self._distances(make(SAMPLES * COMPARED, rng))

    def ratios(self, rows: Rows) -> Rows:
        """MMD of rows over that of real rows, by kernel."""
        return self._distances(rows) / self._real

    def _distances(self, rows: Rows) -> Rows:
        squares = np.mean([self._squares(rows[i::SAMPLES]) for i in range(SAMPLES)], axis=0)
        return np.sqrt(np.maximum([*squares, squares.mean()], 0))

    def _squares(self, rows: Rows) -> Rows:
        return kernel_means(rows, rows, self.width) + self._own - 2 * kernel_means(rows, self.fresh, self.width)


def timed(fit: Callable[[], Any]) -> tuple[Any, float]:
    started = time.perf_counter()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # mixtures of shapes that are none
        return fit(), time.perf_counter() - started


def private_sketch(X: Rows, seed: int) -> skl.Sketch:
    """Of an operator that was designed for the bounds alone."""
    operator = skl.design(bounds=BOUNDS, task="generator", seed=seed)
    return skl.privatize(operator.sketch(X), epsilon=EPSILON, delta=DELTA)


# The tables


def shapes(settings: argparse.Namespace, *, private: bool) -> tuple[Table, list[bool]]:
    n, limit = (PRIVATE_ROWS, PRIVATE_LIMIT) if private else (ROWS, LIMIT)
    released = f", private (epsilon {EPSILON:g}, delta {DELTA:g}, bounds declared)" if private else ""
    title = f"MMD of generated rows, over that of real ones; {n:,} rows{released}, medians of {settings.draws} draws"
    beside = [] if private else [f"the ratios of SketchGaussianMixture({COMPONENTS})"]
    table = table_of(
        title, ("rows", *KERNELS, "asked", "reached", "fit, s", "asked", "reached", "residual / noise", *beside)
    )
    reached = []
    for name, make in SHAPES.items():
        ratios, others, seconds, misfits = [], [], [], []
        for seed in range(settings.seed, settings.seed + settings.draws):
            rng = np.random.default_rng(seed)
            X = make(n, rng)
            judge = Judge(make, rng)
            generator = skl.SketchGenerator(random_state=seed)
            if private:
                sketch = private_sketch(X, seed)
                _, spent = timed(lambda g=generator, s=sketch: g.fit_sketch(s))
            else:
                _, spent = timed(lambda g=generator, X=X: g.fit(X))
                mixture, _ = timed(lambda X=X, s=seed: skl.SketchGaussianMixture(COMPONENTS, random_state=s).fit(X))
                others.append(judge.ratios(mixture.sample(SAMPLES * COMPARED)[0]))
            ratios.append(judge.ratios(generator.sample(SAMPLES * COMPARED)))
            seconds.append(spent)
            misfits.append(generator.misfit_**0.5)
            progress.print(f"{name}, seed {seed}: {ratios[-1].round(2)}, {spent:.0f} s")
        middle = np.median(ratios, axis=0)
        near, quick = bool(np.all(middle <= limit)), max(seconds) <= SECONDS
        reached += [near, quick]
        table.add_row(
            name, *(f"{r:.2f}" for r in middle), f"<= {limit:g}", yes_or_no(near), f"{median(seconds):.0f}",
            f"<= {SECONDS:g}", yes_or_no(quick), f"{median(misfits):.1f}",
            *([] if private else ["  ".join(f"{r:.2f}" for r in np.median(others, axis=0))]),
        )  # fmt: skip
    return table, reached


def variants(settings: argparse.Namespace) -> tuple[Table, list[bool]]:
    table = table_of("Other rows, one draw each: the same ratios", ("rows", *KERNELS, "fit, s", "residual / noise"))
    for name, (make, n, more) in VARIANTS.items():
        rng = np.random.default_rng(settings.seed)
        X = make(n, rng)
        judge = Judge(make, rng)
        generator, spent = timed(lambda X=X, m=more: skl.SketchGenerator(random_state=settings.seed, **m).fit(X))
        ratios = judge.ratios(generator.sample(SAMPLES * COMPARED))
        progress.print(f"{name}: {ratios.round(2)}, {spent:.0f} s")
        table.add_row(name, *(f"{r:.2f}" for r in ratios), f"{spent:.0f}", f"{generator.misfit_**0.5:.1f}")
    return table, []


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    yield shapes(settings, private=False)
    yield shapes(settings, private=True)
    yield variants(settings)
