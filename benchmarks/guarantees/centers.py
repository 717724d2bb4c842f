"""Errors of centers from sketches beside those of Lloyd's algorithm on all rows, and what making them precise takes."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

import numpy as np
from rich.console import Console
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no
from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.goodness_of_fit import efficient
from sketchlearn.inference.decoders.points import centroids
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture
from sketchlearn.sketch.sums import Sketch

MOST_ERROR, MOST_DRAWS = 1.1, 10
REFERENCE_ROWS = 3_000_000
ASKED = ((5, 5, 2.5), (10, 10, 2.5), (20, 5, 2.5), (3, 2, 3.0), (8, 6, 3.0))  # clusters, columns and gaps
OTHERS = ((10, 50, 3.0),)  # of which nothing is asked
console = Console(width=150, highlight=False)


@dataclass(frozen=True)
class Setting:
    """Overlapping clusters: how many, in how many columns, how far apart in deviations, and how many rows."""

    k: int
    d: int
    gap: float = 2.5
    n: int = 100_000
    asked: bool = True

    @property
    def name(self) -> str:
        return f"k = {self.k}, d = {self.d}, gap {self.gap}, n = {self.n:,}"

    @cached_property
    def law(self) -> Mixture:
        rng = np.random.default_rng(1)
        means = rng.standard_normal((self.k, self.d))
        gaps = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(self.k, 1)]
        weights, variances = rng.dirichlet(np.full(self.k, 8.0)), rng.uniform(0.7, 1.3, (self.k, self.d))
        return Mixture(DiagonalGaussian(), weights, means * self.gap / gaps.min(), variances)

    @cached_property
    def truth(self) -> Double:
        """The centers of very many rows."""
        rows = self.law.sample(REFERENCE_ROWS, np.random.default_rng(5))[0].astype(np.float32)
        return self.lloyd(rows, self.law.locations)

    def lloyd(self, rows: Double, start: Double) -> Double:
        fit = KMeans(self.k, init=start.astype(rows.dtype), n_init=1, tol=1e-8, algorithm="lloyd").fit(rows)
        return fit.cluster_centers_.astype(np.float64)

    def error(self, centers: Double) -> float:
        """The mean squared error of centers in any order."""
        gaps = np.sum((self.truth[:, None] - centers) ** 2, axis=2)
        return float(gaps[linear_sum_assignment(gaps)].mean() / self.d)

    def drawn(self, seed: int) -> tuple[float, float, list[float]]:
        """Squared errors of the sketch's centers and of those of all rows; seconds of decoding, and of parts of it."""
        rng = np.random.default_rng([self.k, self.d, seed])
        X = rng.permutation(self.law.sample(self.n, rng)[0]).astype(np.float32)
        sketch = skl.design(X[:5000], n_components=self.k, seed=seed).sketch(X)
        model = skl.SketchKMeans(self.k, random_state=seed)
        start = time.process_time()
        model.fit_sketch(sketch)
        took = [time.process_time() - start, *seconds(sketch, model.fitted_model().density, rng)]
        return self.error(model.cluster_centers_), self.error(self.lloyd(X, self.truth)), took


def seconds(sketch: Sketch, density: Mixture, rng: np.random.Generator) -> tuple[float, float]:
    """Of weighing the sketch by the covariance of its errors, and of reducing the density to centers."""
    problem, k = Problem.of(Target.of(sketch), len(density)), len(density)
    own = problem.in_own_units(DiagonalGaussian(), *density.parts())
    start = time.process_time()
    efficient(problem.plain, own)
    middle = time.process_time()
    centroids(density, k, rng, float(sketch.count))
    return middle - start, time.process_time() - middle


def centers(settings: argparse.Namespace) -> Iterator[bool]:
    """A row of the table for each setting."""
    draws = min(settings.draws, MOST_DRAWS)
    columns = ["setting", "error", "all rows", "ratio", "weighing", "reducing", "decoding", "asked"]
    table = table_of(f"errors of centers, {draws} draws; seconds of one core, medians", columns)
    warnings.simplefilter("ignore")
    for setting in (*(Setting(*one) for one in ASKED), *(Setting(*one, asked=False) for one in OTHERS)):
        if settings.settings not in setting.name:
            continue
        own, peer, took = zip(*(setting.drawn(settings.seed + i) for i in range(draws)), strict=True)
        ratio = (fmean(own) / fmean(peer)) ** 0.5
        decoding, weighing, reducing = map(median, zip(*took, strict=True))
        reached = ratio <= MOST_ERROR
        verdict = yes_or_no(reached) if setting.asked else "-"
        errors = [f"{fmean(squares) ** 0.5:.4f}" for squares in (own, peer)]
        times = [f"{part:.3f}" for part in (weighing, reducing)]
        table.add_row(setting.name, *errors, f"{ratio:.3f}", *times, f"{decoding:.2f}", verdict)
        Console(stderr=True, highlight=False).print(setting.name, *errors, f"{ratio:.3f}", *times, f"{decoding:.2f}")
        if setting.asked:
            yield reached
    console.print(table)
