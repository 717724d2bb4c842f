"""How often 95 % intervals of centers and shares hold the truth, and how wide they are."""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import sketchlearn as skl
from benchmarks.guarantees.interval_coverage import GAPS, Estimated, asked_settings, coverage
from benchmarks.guarantees.known_laws import WAYS, clusters_of_law, law, matched
from sketchlearn.core.arrays import Double
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.errors.clusters import CellBorders as Cells

BAND, REFERENCE_DRAWS = 0.1, 400_000


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

    def drawn(self, seed: int) -> list[Estimated] | None:
        """Centers and shares of fresh rows; None if their errors were withheld."""
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
        return [
            Estimated(model.cluster_centers_[which] - centers, stated["cluster_centers_"][which], by_rows),
            Estimated(model.weights_[which] - shares, stated["weights_"][which], shares_by_rows),
        ]


def clusters(settings: argparse.Namespace) -> Iterator[bool]:
    """A row of the table for each setting; widths are those of centers."""
    yield from coverage(settings, (Setting(*setting) for setting in asked_settings()), ("centers", "shares"), 1)
