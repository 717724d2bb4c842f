"""How often 95 % intervals of centers and shares hold the truth, and how wide they are."""

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
from known_laws import WAYS, clusters_of_law, law, matched
from report import table_of, yes_or_no
from rich.console import Console

import sketchlearn as skl
from sketchlearn.models import Double, Mixture
from sketchlearn.uncertainty.cluster_cells import Cells

COVERED = (0.93, 0.97)
MOST_WIDTH = 1.15  # of what all rows tell: of exact sketches
NARROW_WAYS = ("exact", "rows")
BAND, REFERENCE_DRAWS = 0.1, 400_000
GAPS = {"separated": 6.0, "overlapping": 3.0}
console = Console(width=160, highlight=False)


@dataclass(frozen=True)
class Setting:
    """A law, how many rows of it are seen, and how."""

    k: int
    kind: str
    n: int
    per: int  # frequencies, in numbers of a center's coordinates
    way: str

    @property
    def name(self) -> str:
        return f"k = d = {self.k}, {self.kind}, n = {self.n:,}, m = {self.per}kd, {self.way}"

    @cached_property
    def law(self) -> Mixture:
        return law(self.k, self.k, GAPS[self.kind])

    @cached_property
    def truth(self) -> tuple[Double, Double, Double, Double]:
        """Centers and shares of the law, and the errors that those of all rows have: what a bootstrap would find."""
        centers, shares = clusters_of_law(self.law)
        rows = self.law.sample(REFERENCE_DRAWS, np.random.default_rng(7))[0]
        cells = Cells.of(rows, np.full(len(rows), 1 / len(rows)), centers, BAND)
        k, d = centers.shape
        away, squares, shared = rows - centers[cells.labels], 0.0, 0.0
        slopes = cells.share_slopes @ cells.follow
        for cell in range(k):
            own = away[cells.labels == cell]
            moved = own @ cells.follow[:, d * cell : d * (cell + 1)].T
            squares = squares + np.sum(moved**2, axis=0)
            crossed = own @ slopes[:, d * cell : d * (cell + 1)].T - cells.shares + (np.arange(k) == cell)
            shared = shared + np.sum(crossed**2, axis=0)
        found = [np.sqrt(total / len(rows) / self.n) for total in (squares, shared)]
        return centers, shares, found[0].reshape(k, d), found[1]

    def drawn(self, seed: int) -> tuple[list[Double], list[Double], list[Double]] | None:
        """Errors of centers and shares, standard errors, and those of the rows; None if they were withheld."""
        rng = np.random.default_rng([self.k, self.n, self.per, seed])
        X = rng.permutation(self.law.sample(self.n, rng)[0])
        model = skl.SketchKMeans(self.k, random_state=seed, n_jobs=1)
        sketch = WAYS[self.way].sketch(X, self.per * self.k * self.k, seed, n_components=self.k)
        model.fit_sketch(sketch)
        bars = model.error_bars()
        if not bars.standard_errors:
            return None
        centers, shares, by_rows, shares_by_rows = self.truth
        which = matched(model.cluster_centers_, centers)
        stated = bars.standard_errors
        errors = [model.cluster_centers_[which] - centers, model.weights_[which] - shares]
        return errors, [stated["cluster_centers_"][which], stated["weights_"][which]], [by_rows, shares_by_rows]


def settings_of() -> Iterator[Setting]:
    """All settings."""
    for k, kind, n, per in itertools.product((5, 10), GAPS, (10_000, 100_000), (5, 10)):
        yield Setting(k, kind, n, per, "exact")
    for k, kind, way in itertools.product((5, 10), GAPS, [way for way in WAYS if way != "exact"]):
        yield Setting(k, kind, 100_000, 10, way)


def clusters(settings: argparse.Namespace) -> Iterator[bool]:
    """A row of the table for each setting."""
    columns = ["setting", "centers", "shares", "width / rows'", "error / rows'", "withheld", "seconds", "asked"]
    table = table_of(f"95 % intervals that held the truth, {settings.draws} draws", columns)
    warnings.simplefilter("ignore")
    for setting in settings_of():
        if settings.settings not in setting.name:
            continue
        held, widths, errors, withheld, start = ([], []), [], [], 0, time.perf_counter()
        for seed in range(settings.seed, settings.seed + settings.draws):
            found = setting.drawn(seed)
            if found is None:
                withheld += 1
                continue
            for own, error, stated in zip(held, *found[:2], strict=True):
                own.append(float(np.nanmean(np.where(np.isnan(stated), np.nan, np.abs(error) <= 1.96 * stated))))
            widths.append(float(np.nanmedian(found[1][0] / found[2][0])))
            errors.append(float(np.mean((found[0][0] / found[2][0]) ** 2)))
        took = (time.perf_counter() - start) / settings.draws
        if not widths:
            table.add_row(setting.name, *["-"] * 4, str(withheld), f"{took:.1f}", "-")
            continue
        reached = all(COVERED[0] <= fmean(own) <= COVERED[1] for own in held)
        reached &= setting.way not in NARROW_WAYS or median(widths) <= MOST_WIDTH
        figures = [f"{fmean(own):.3f}" for own in held] + [f"{median(widths):.2f}", f"{fmean(errors) ** 0.5:.2f}"]
        table.add_row(setting.name, *figures, str(withheld), f"{took:.1f}", yes_or_no(reached))
        Console(stderr=True, highlight=False).print(setting.name, *figures, withheld, f"{took:.1f} s")
        yield reached
    console.print(table)
