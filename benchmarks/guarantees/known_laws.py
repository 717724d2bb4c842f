"""Mixtures of Gaussians whose centers, shares and parameters are known, and the ways in which rows of them are seen."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from sklearn.cluster import KMeans

import sketchlearn as skl
from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.points import antithetic_sample
from sketchlearn.inference.distributions import DiagonalGaussian, FullGaussian, Mixture
from sketchlearn.inference.kmeans import lloyd, nearest

TRUTH_DRAWS, FEW_DRAWS = 2_000_000, 50_000
DESIGN_ROWS = 5000
SUBSAMPLED_SHARE = 5  # A record touches one frequency of so many.


def law(k: int, d: int, gap: float, *, full: bool = False, seed: int = 1) -> Mixture:
    """k Gaussians of uneven weights, the nearest two of them `gap` deviations apart."""
    rng = np.random.default_rng(seed)
    means = rng.standard_normal((k, d))
    gaps = np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(k, 1)]
    weights, means = rng.dirichlet(np.full(k, 8.0)), means * gap / gaps.min()
    if not full:
        return Mixture(DiagonalGaussian(), weights, means, rng.uniform(0.7, 1.3, (k, d)))
    turns = np.stack([np.linalg.qr(rng.standard_normal((d, d)))[0] for _ in range(k)]) * np.geomspace(0.7, 1.4, d)
    return Mixture(FullGaussian(), weights, means, FullGaussian().shapes_of(turns @ turns.transpose(0, 2, 1)))


def clusters_of_law(mixture: Mixture, seed: int = 5) -> tuple[Double, Double]:
    """The best centers of a law, and their shares: Lloyd's algorithm on millions of its rows."""
    rng = np.random.default_rng(seed)
    rows = antithetic_sample(mixture, TRUTH_DRAWS, rng)
    few = KMeans(len(mixture), n_init=10, random_state=seed).fit(rows[:FEW_DRAWS])
    starts = [mixture.locations, few.cluster_centers_]
    start = min(starts, key=lambda points: lloyd(rows[:FEW_DRAWS], points)[1])
    centers = lloyd(rows, start)[0]
    return centers, np.bincount(nearest(rows, centers)[0], minlength=len(centers)) / len(rows)


def matched(found: Double, truth: Double) -> NDArray[np.intp]:
    """Which of the found centers is which of the true ones."""
    return linear_sum_assignment(np.sum((truth[:, None] - found) ** 2, axis=2))[1]


@dataclass(frozen=True)
class Way:
    """A way from rows to a sketch: exact unless it says otherwise."""

    name: str
    wave: str = "exponential"
    epsilon: float | None = None
    delta: float = 0.0
    subsampled: bool = False
    rows: int | None = None  # kept beside the sketch

    def sketch(self, X: Double, m: int, seed: int, **task: Any) -> Any:
        """The sketch of rows."""
        if self.epsilon is not None:
            bound = math.ceil(float(np.abs(X).max()))
            d = X.shape[1]
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", UserWarning)
                operator = skl.design(
                    bounds=([-bound] * d, [bound] * d), n_rows=len(X), epsilon=self.epsilon, delta=self.delta,
                    features=skl.features.Fourier(n_frequencies=m), seed=seed, **task,
                )  # fmt: skip
            exact = operator.sketch(X, n_jobs=1, batch=f"{self.name}, {task}")  # the same rows go all ways
            return skl.privatize(exact, epsilon=self.epsilon, delta=self.delta)
        few = m // SUBSAMPLED_SHARE if self.subsampled else None
        features = skl.features.Fourier(m, wave=self.wave, subsample=few)
        return skl.design(X[:DESIGN_ROWS], features=features, seed=seed, rows=self.rows, **task).sketch(X, n_jobs=1)


WAYS = {
    way.name: way
    for way in (
        Way("exact"),
        Way("one-bit", wave="square"),
        Way("subsampled", subsampled=True),
        Way("epsilon 1", epsilon=1.0),
        Way("epsilon 1, delta", epsilon=1.0, delta=1e-8),
        Way("rows", rows=2000),
    )
}
