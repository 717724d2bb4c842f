"""How classes score: what a classifier is made of, once it is learned."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn.moments.moments_of_sketch import Moments
from sketchlearn.operators import FourierFeatures
from sketchlearn.operators.composed_operators import Mapped
from sketchlearn.tasks.classes.gaussian_discriminant import Gaussians
from sketchlearn.tasks.estimating.fitted_model import Double
from sketchlearn.tasks.gaussian_mixtures.gaussian_mixture_estimator import SketchGaussianMixture

FOLDS = 5
LEAST_RELATIVE_SCORE = 1e-6  # of a class, relative to the largest: random features make small scores negative


@dataclass(frozen=True)
class Parzen:
    """Score of class c at x: weight_c Re <z_c, Phi(x)>."""

    operator: FourierFeatures
    means: NDArray[np.complex128]

    def log_scores(self, rows: Double) -> Double:
        scores = np.real(self.operator.features(rows) @ self.means.conj().T)
        least = LEAST_RELATIVE_SCORE * np.maximum(np.abs(scores).max(axis=1, keepdims=True), 1e-300)
        return np.asarray(np.log(np.maximum(scores, least)))


@dataclass(frozen=True)
class Mixtures:
    """A mixture of Gaussians per class."""

    mixtures: tuple[SketchGaussianMixture, ...]

    def log_scores(self, rows: Double) -> Double:
        return np.column_stack([mixture.score_samples(rows) for mixture in self.mixtures])


@dataclass(frozen=True)
class OneGaussian:
    """A Gaussian per class."""

    gaussians: Gaussians

    def log_scores(self, rows: Double) -> Double:
        return self.gaussians.log_densities(rows)


@dataclass(frozen=True)
class AfterMap:
    """A rule for what an operator's map makes of the rows."""

    operator: Mapped
    scores: Parzen | Mixtures | OneGaussian

    def log_scores(self, rows: Double) -> Double:
        mapped = self.operator.mapped(rows, kernel.n_threads(None))
        refused = np.flatnonzero(~np.all(np.isfinite(mapped), axis=1))
        if len(refused):
            raise ValueError(f"row {refused[0]}, {self.operator.explain_refusal(rows[refused[0]])}")
        return self.scores.log_scores(mapped)


Rule = Parzen | Mixtures | OneGaussian | AfterMap


def left_out_error(rows: Double, codes: NDArray[np.int64], seed: int) -> float:
    """The rate of errors of one Gaussian per class, on folds of a sample left out in turn."""
    fold = np.random.default_rng(seed).permutation(len(rows)) % min(FOLDS, len(rows))
    wrong = 0
    for left_out in range(fold.max() + 1):
        test, train = fold == left_out, fold != left_out
        classes, counts = np.unique(codes[train], return_counts=True)
        try:
            gaussians = Gaussians.of([_moments(rows[train & (codes == c)]) for c in classes])
        except ValueError:  # All rows of each class are equal.
            return 1.0
        logs = gaussians.log_densities(rows[test]) + np.log(counts)
        wrong += int(np.sum(classes[np.argmax(logs, axis=1)] != codes[test]))
    return wrong / len(rows)


def _moments(rows: Double) -> Moments:
    mean = rows.mean(axis=0)
    covariance = (rows - mean).T @ (rows - mean) / len(rows)
    return Moments(len(rows), mean, covariance, np.zeros(len(mean)))
