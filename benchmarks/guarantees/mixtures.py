"""How often 95 % intervals of weights, means and covariances of mixtures hold the truth, and how wide they are."""

from __future__ import annotations

import argparse
import itertools
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

import numpy as np

import sketchlearn as skl
from benchmarks.guarantees.interval_coverage import GAPS, Estimated, asked_settings, coverage
from benchmarks.guarantees.known_laws import WAYS, law, matched
from sketchlearn.core.arrays import Double
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.errors.mixtures import Parameters, scores_and_information

REFERENCE_DRAWS = 100_000


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

    def drawn(self, seed: int) -> list[Estimated] | None:
        """Weights, means and covariances of fresh rows; None if their errors were withheld."""
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
            Estimated(getattr(model, name)[which] - self.truth[name], stated[which], self.by_rows[name])
            for name, stated in bars.standard_errors.items()
        ]


def mixtures(settings: argparse.Namespace) -> Iterator[bool]:
    """A row of the table for each setting; widths are those of all parameters."""
    full = (Setting(5, kind, 100_000, 5, "exact", "full") for kind in GAPS)
    cases = itertools.chain((Setting(*setting) for setting in asked_settings()), full)
    yield from coverage(settings, cases, ("weights", "means", "covariances"), 3)
