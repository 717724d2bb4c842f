"""How often 95 % intervals of weights, means and covariances of mixtures hold the truth, and how wide they are."""

from __future__ import annotations

import argparse
import itertools
import time
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from statistics import fmean, median

import numpy as np
from known_laws import WAYS, law, matched
from report import table_of, yes_or_no
from rich.console import Console

import sketchlearn as skl
from sketchlearn.models import Double, Mixture
from sketchlearn.uncertainty.mixture_errors import Parameters, scores_and_information

COVERED = (0.93, 0.97)
MOST_WIDTH = 1.15  # of what the likelihood of all rows tells: of exact sketches
NARROW_WAYS = ("exact", "rows")
REFERENCE_DRAWS = 100_000
GAPS = {"separated": 6.0, "overlapping": 3.0}
console = Console(width=160, highlight=False)


@dataclass(frozen=True)
class Setting:
    """A law, how many rows of it are seen, and how."""

    k: int
    kind: str
    n: int
    per: int  # frequencies, per parameter
    way: str
    shape: str = "diag"

    @property
    def name(self) -> str:
        return f"k = d = {self.k}, {self.kind}, n = {self.n:,}, m = {self.per}p, {self.way}, {self.shape}"

    @cached_property
    def law(self) -> Mixture:
        return law(self.k, self.k, GAPS[self.kind], full=self.shape == "full")

    @cached_property
    def truth(self) -> dict[str, Double]:
        covariances = self.law.covariances()
        own = covariances if self.shape == "full" else np.einsum("kii->ki", covariances)
        return {"weights_": self.law.weights, "means_": self.law.locations, "covariances_": own}

    @cached_property
    def by_rows(self) -> dict[str, Double]:
        """The errors of the likeliest mixture of all rows (Fisher's bound), which a bootstrap would find."""
        parameters = Parameters(self.law, np.ones(self.k), self.shape)
        rows = self.law.sample(REFERENCE_DRAWS, np.random.default_rng(7))[0]
        scores, _ = scores_and_information(parameters.steps, self.law, rows, np.full(len(rows), 1 / len(rows)))
        scores -= scores.mean(axis=0)
        along = parameters.steps.keeping_sum
        information = along.T @ (scores.T @ scores / len(rows)) @ along
        slopes = parameters.gradients @ along
        variances = np.einsum("ij,ij->i", slopes, np.linalg.solve(information, slopes.T).T)
        return parameters.named(np.sqrt(variances / self.n))

    def drawn(self, seed: int) -> list[tuple[Double, Double, Double]] | None:
        """Errors, standard errors and those of the rows, attribute by attribute; None if they were withheld."""
        rng = np.random.default_rng([self.k, self.n, self.per, seed])
        X = rng.permutation(self.law.sample(self.n, rng)[0])
        d = self.k
        m = self.per * self.k * (2 * d + 1 if self.shape == "diag" else 1 + d + d * (d + 1) // 2)
        task = "mixture-full" if self.shape == "full" else "mixture"
        sketch = WAYS[self.way].sketch(X, m, seed, n_components=self.k, task=task)
        model = skl.SketchGaussianMixture(self.k, covariance_type=self.shape, random_state=seed, n_jobs=1)
        bars = model.fit_sketch(sketch).error_bars()
        if not bars.standard_errors:
            return None
        which = matched(model.means_, self.law.locations)
        return [
            (getattr(model, name)[which] - self.truth[name], stated[which], self.by_rows[name])
            for name, stated in bars.standard_errors.items()
        ]


def settings_of() -> Iterator[Setting]:
    """All settings."""
    for k, kind, n, per in itertools.product((5, 10), GAPS, (10_000, 100_000), (5, 10)):
        yield Setting(k, kind, n, per, "exact")
    for k, kind, way in itertools.product((5, 10), GAPS, [way for way in WAYS if way != "exact"]):
        yield Setting(k, kind, 100_000, 10, way)
    for kind in GAPS:
        yield Setting(5, kind, 100_000, 5, "exact", "full")


def mixtures(settings: argparse.Namespace) -> Iterator[bool]:
    """A row of the table for each setting."""
    columns = ["setting", "weights", "means", "covariances", "width / rows'", "withheld", "seconds", "asked"]
    table = table_of(f"95 % intervals that held the truth, {settings.draws} draws", columns)
    warnings.simplefilter("ignore")
    for setting in settings_of():
        if settings.settings not in setting.name:
            continue
        held: list[list[float]] = [[], [], []]
        widths, withheld, start = [], 0, time.perf_counter()
        for seed in range(settings.seed, settings.seed + settings.draws):
            found = setting.drawn(seed)
            if found is None:
                withheld += 1
                continue
            for own, (error, stated, _) in zip(held, found, strict=True):
                own.append(float(np.mean(np.abs(error) <= 1.96 * stated)))
            widths.append(float(np.median(np.concatenate([(stated / rows).ravel() for _, stated, rows in found]))))
        took = (time.perf_counter() - start) / settings.draws
        if not widths:
            table.add_row(setting.name, *["-"] * 4, str(withheld), f"{took:.1f}", "-")
            continue
        reached = all(COVERED[0] <= fmean(own) <= COVERED[1] for own in held)
        reached &= setting.way not in NARROW_WAYS or median(widths) <= MOST_WIDTH
        figures = [f"{fmean(own):.3f}" for own in held] + [f"{median(widths):.2f}"]
        table.add_row(setting.name, *figures, str(withheld), f"{took:.1f}", yes_or_no(reached))
        Console(stderr=True, highlight=False).print(setting.name, *figures, withheld, f"{took:.1f} s")
        yield reached
    console.print(table)
