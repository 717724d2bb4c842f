"""Mixtures of stable laws, beside GaussianMixture on the same rows: python benchmarks/tasks/all.py --only stable

Rows come from SciPy's stable numbers. Errors of locations are root mean squares over components, matched at best;
"labelled medians" are those of each component's own rows, had they labels.
"""

from __future__ import annotations

import argparse
import warnings
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from rich.table import Table
from scipy.optimize import linear_sum_assignment
from scipy.stats import levy_stable
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import sketchlearn as skl
from benchmarks.support.report import table_of, yes_or_no

ASKED = 0.5  # of GaussianMixture's error of locations
TRIMMED = (0.02, 0.98)  # quantiles of each column between which rows are kept
LIGHT = (0.6, 0.3, 0.1)
K = 3


@dataclass(frozen=True)
class Rows:
    """Three components at least `apart` from each other, in units of the scale of a Gaussian (alpha = 2)."""

    columns: int = 2
    alpha: float = 1.5
    kind: str = "elliptical"
    apart: float = 6.0
    weights: tuple[float, ...] = (1 / 3, 1 / 3, 1 / 3)
    scales: tuple[float, ...] = (1.0, 1.0, 1.0)
    n: int = 100_000

    def __str__(self) -> str:
        words = [f"d = {self.columns}", f"alpha = {self.alpha:g}", self.kind, f"{self.apart:g} apart"]
        words += ["weights 0.6, 0.3, 0.1"] if self.weights == LIGHT else []
        words += [f"scales {', '.join(f'{s:g}' for s in self.scales)}"] if len(set(self.scales)) > 1 else []
        return ", ".join([*words, f"n = {self.n:,}"])

    def draw(self, seed: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
        """Rows, their components, and the components' locations."""
        rng = np.random.default_rng(seed)
        locations, nearest = np.zeros((K, self.columns)), 0.0
        while nearest < self.apart:
            locations = self.apart / np.sqrt(self.columns) * rng.standard_normal((K, self.columns))
            nearest = min(np.linalg.norm(locations[i] - locations[j]) for i in range(K) for j in range(i))
        labels = rng.choice(K, self.n, p=self.weights)
        return locations[labels] + np.array(self.scales)[labels, None] * self._noise(rng), labels, locations

    def _noise(self, rng: np.random.Generator) -> np.ndarray:
        shape, alpha = (self.n, self.columns), self.alpha
        if self.kind == "independent":
            return levy_stable.rvs(alpha, 0, scale=np.sqrt(0.5), size=shape, random_state=rng)
        unit = np.cos(np.pi * alpha / 4) ** (2 / alpha)
        jumps = levy_stable.rvs(alpha / 2, 1, scale=unit, size=(self.n, 1), random_state=rng)
        return np.sqrt(np.maximum(jumps, 0)) * rng.standard_normal(shape)


ASKED_ROWS = [Rows(d, kind=kind) for d in (2, 5, 10) for kind in ("elliptical", "independent")] + [Rows(1)]
OTHER_ROWS = [
    Rows(alpha=1.0),
    Rows(alpha=1.1),
    Rows(alpha=1.9),
    Rows(1, alpha=1.0, weights=LIGHT),
    Rows(5, alpha=1.1, apart=50.0),
    Rows(apart=2.0),
    Rows(apart=3.0, weights=LIGHT),
    Rows(apart=100.0, weights=LIGHT),
    Rows(scales=(0.3, 1.0, 3.0)),
    Rows(5, kind="independent", weights=LIGHT),
    Rows(n=10_000, weights=LIGHT),
    Rows(n=1_000_000),
]


def matched(found: np.ndarray, true: np.ndarray) -> tuple[np.ndarray, float]:
    """Which component is which, and the root mean square distance of their locations."""
    squares = ((true[:, None] - found) ** 2).sum(axis=2)
    which, order = linear_sum_assignment(squares)
    return order, float(np.sqrt(squares[which, order].mean()))


def gaussians(rows: np.ndarray, seed: int) -> np.ndarray:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        return GaussianMixture(K, random_state=seed).fit(rows).means_


def trimmed(rows: np.ndarray) -> np.ndarray:
    low, high = np.quantile(rows, TRIMMED, axis=0)
    return rows[np.all((rows >= low) & (rows <= high), axis=1)]


def figures(kind: Rows, seed: int) -> list[float]:
    rows, labels, locations = kind.draw(seed)
    mixture = skl.SketchStableMixture(K, random_state=seed).fit(rows)
    order, error = matched(mixture.means_, locations)
    medians = np.stack([np.median(rows[labels == c], axis=0) for c in range(K)])
    scales = np.exp(np.log(mixture.scales_[order]).mean(axis=1))
    return [
        error,
        matched(gaussians(rows, seed), locations)[1],
        matched(gaussians(trimmed(rows), seed), locations)[1],
        matched(medians, locations)[1],
        float(np.abs(mixture.alphas_[order] - kind.alpha).mean()),
        float(np.abs(scales / kind.scales - 1).mean()),
    ]


def compared(title: str, kinds: list[Rows], settings: argparse.Namespace) -> tuple[Table, list[bool]]:
    columns = ["rows", "SketchStableMixture", "worst", "GaussianMixture", "asked", "reached"]
    table = table_of(title, [*columns, "trimmed", "labelled medians", "error of alpha", "of scale"])
    reached = []
    for kind in kinds:
        draws = np.array([figures(kind, settings.seed + i) for i in range(settings.draws)])
        own, plain, cut, medians, alpha, scale = np.median(draws, axis=0)
        near = bool(own <= ASKED * plain)
        asked = kind.alpha == 1.5  # nearly Gaussian laws are no trouble to Gaussians
        reached += [near] * asked
        verdict = [f"{ASKED * plain:.3g}", yes_or_no(near)] if asked else ["-", "-"]
        words = [f"{own:.4f}", f"{draws[:, 0].max():.4f}", f"{plain:.3g}", *verdict]
        more = [f"{cut:.4f}", f"{medians:.4f}", f"{alpha:.3f}", f"{100 * scale:.1f} %"]
        table.add_row(str(kind), *words, *more)
    return table, reached


def tables(settings: argparse.Namespace) -> Iterator[tuple[Table, list[bool]]]:
    """Each table, and whether the figures asked for were reached."""
    draws = f"medians of {settings.draws} draws"
    yield compared(f"Errors of the locations of three stable laws, {draws}", ASKED_ROWS, settings)
    yield compared(f"The same around it, {draws}", OTHER_ROWS, settings)
