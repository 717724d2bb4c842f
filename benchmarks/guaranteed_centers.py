"""Errors of centers from sketches beside those of Lloyd's algorithm on all rows, and what polishing them takes."""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

import numpy as np
from report import table_of, yes_or_no
from rich.console import Console
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

import sketchlearn as skl
from sketchlearn.decoders.refinements.cell_means import CellMeans
from sketchlearn.decoders.refinements.reduction_to_points import antithetic_sample, lloyd, polished
from sketchlearn.models import DiagonalGaussian, Double, Mixture

MOST_ERROR, MOST_DRAWS = 1.1, 10
REFERENCE_ROWS = 3_000_000
OTHERS = ((10, 10, 2.5), (20, 5, 2.5), (10, 50, 3.0))  # clusters, columns and gaps that nothing is asked of
FEW, MANY = 4_000, 20_000  # draws of the start, and of Lloyd's algorithm as it was before
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
        """Squared errors of the sketch's centers and of those of all rows; seconds of decoding, polishing, before."""
        rng = np.random.default_rng([self.k, self.d, seed])
        X = rng.permutation(self.law.sample(self.n, rng)[0]).astype(np.float32)
        sketch = skl.design(X[:5000], n_components=self.k, seed=seed).sketch(X)
        model = skl.SketchKMeans(self.k, random_state=seed)
        start = time.process_time()
        model.fit_sketch(sketch)
        took = [time.process_time() - start, *seconds(model.fitted_model().density, model.cluster_centers_, rng)]
        return self.error(model.cluster_centers_), self.error(self.lloyd(X, self.truth)), took


def seconds(density: Mixture, centers: Double, rng: np.random.Generator) -> tuple[float, float]:
    """Of polishing, and of Lloyd's algorithm on 20,000 draws, from the same start."""
    few = antithetic_sample(density, FEW, rng)
    first = lloyd(few, centers, np.ones(len(few)))[0]
    start = time.process_time()
    means = CellMeans.of(density)
    polished(density, first, 1e5, lambda draws: means.with_draws(draws, len(centers), rng))
    middle = time.process_time()
    rows = antithetic_sample(density, MANY, rng).astype(np.float32)
    lloyd(rows, first.astype(np.float32), np.ones(len(rows), np.float32))
    return middle - start, time.process_time() - middle


def centers(settings: argparse.Namespace) -> Iterator[bool]:
    """A row of the table for each setting."""
    draws = min(settings.draws, MOST_DRAWS)
    columns = ["setting", "error", "all rows", "ratio", "polishing", "20,000 draws", "decoding", "asked"]
    table = table_of(f"errors of centers, {draws} draws; seconds of one core, medians", columns)
    warnings.simplefilter("ignore")
    for setting in (Setting(5, 5), *(Setting(k, d, gap, asked=False) for k, d, gap in OTHERS)):
        if settings.settings not in setting.name:
            continue
        own, peer, took = zip(*(setting.drawn(settings.seed + i) for i in range(draws)), strict=True)
        ratio = (fmean(own) / fmean(peer)) ** 0.5
        decoding, polishing, before = map(median, zip(*took, strict=True))
        reached = ratio <= MOST_ERROR and polishing <= before
        verdict = yes_or_no(reached) if setting.asked else "-"
        errors = [f"{fmean(squares) ** 0.5:.4f}" for squares in (own, peer)]
        times = [f"{part:.3f}" for part in (polishing, before)]
        table.add_row(setting.name, *errors, f"{ratio:.3f}", *times, f"{decoding:.2f}", verdict)
        Console(stderr=True, highlight=False).print(setting.name, *errors, f"{ratio:.3f}", *times, f"{decoding:.2f}")
        if setting.asked:
            yield reached
    console.print(table)
