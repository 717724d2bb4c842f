"""How classes score: what a classifier is made of, once it is learned."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn.moments.moments_of_sketch import Moments
from sketchlearn.operators import FourierFeatures
from sketchlearn.operators.composed_operators import Mapped
from sketchlearn.randomness import row_chooser
from sketchlearn.tasks.estimating.fitted_model import Double
from sketchlearn.tasks.gaussian_mixtures.gaussian_mixture_estimator import SketchGaussianMixture
from sketchlearn.tasks.kernel_regression.kernel_fit import KernelFit
from sketchlearn.weighting.mixture_likelihood import cholesky_log_densities

FOLDS = 5
CLASS_SHRINKAGE = 0.3  # records per column that the common covariance is worth, beside those of a class
COMMON_SHRINKAGE = 0.5  # records per column that uncorrelated columns are worth, beside all records
LEAST_ADDED_VARIANCE = 1e-6  # relative to each column's own
LEAST_PROBABILITY = 1e-3  # of a class by regression, whose estimates may be below zero
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
class Gaussians:
    """One Gaussian per class: means (classes, columns), lower Cholesky factors (classes, columns, columns)."""

    means: Double
    factors: Double

    @classmethod
    def of(cls, classes: Sequence[Moments]) -> Gaussians:
        """The classes' Gaussians; each covariance is shrunk towards the common one, and that towards its diagonal.

        A class of n records in d columns keeps n / (n + 0.3 d) of its own covariance: nearly all of it, unless there
        are few records.
        """
        d = len(classes[0].mean)
        counts = np.array([moments.count for moments in classes])
        pooled = np.tensordot(counts / counts.sum(), np.array([moments.covariance for moments in classes]), 1)
        rounding = np.max([moments.rounding for moments in classes], axis=0)
        variances = np.maximum(np.diag(pooled), 0.0)
        alive = variances > (2 * rounding) ** 2
        if not np.any(alive):
            raise ValueError("all rows of a class are equal, in every class: there is no spread to learn")
        # A column without any spread within classes separates them fully or not at all: it is given a little.
        variances = np.where(alive, variances, np.maximum((2 * rounding) ** 2, np.finfo(float).tiny))
        share = COMMON_SHRINKAGE * d / (counts.sum() + COMMON_SHRINKAGE * d)
        added = variances * (share + LEAST_ADDED_VARIANCE) + np.where(alive, 0.0, variances)
        common = (1 - share) * pooled + np.diag(added)
        own = counts / (counts + CLASS_SHRINKAGE * d)
        floor = np.diag(variances * LEAST_ADDED_VARIANCE + 2 * np.sqrt(d) * rounding**2)
        covariances = [w * m.covariance + (1 - w) * common + floor for w, m in zip(own, classes, strict=True)]
        return cls(np.array([moments.mean for moments in classes]), np.linalg.cholesky(np.array(covariances)))

    def log_scores(self, rows: Double) -> Double:
        return cholesky_log_densities(rows, self.means, self.factors)


@dataclass(frozen=True)
class Regressions:
    """The probability of each class at x, by kernel regression of its indicator, over its share."""

    fit: KernelFit
    shares: Double

    def log_scores(self, rows: Double) -> Double:
        likely = np.clip(self.fit.values(rows), LEAST_PROBABILITY, None)
        return np.asarray(np.log(likely) - np.log(self.shares))


PlainRule = Parzen | Mixtures | Gaussians


@dataclass(frozen=True)
class AfterMap:
    """A rule for what an operator's map makes of the rows."""

    operator: Mapped
    scores: PlainRule | Regressions

    def log_scores(self, rows: Double) -> Double:
        mapped = self.operator.mapped(rows, kernel.n_threads(None))
        refused = np.flatnonzero(~np.all(np.isfinite(mapped), axis=1))
        if len(refused):
            raise ValueError(f"row {refused[0]}, {self.operator.explain_refusal(rows[refused[0]])}")
        return self.scores.log_scores(mapped)


Rule = PlainRule | AfterMap | Regressions


def left_out_error(rows: Double, codes: NDArray[np.int64], seed: int) -> float:
    """The rate of errors of one Gaussian per class, on folds of a sample left out in turn."""
    fold = row_chooser(seed).permutation(len(rows)) % min(FOLDS, len(rows))
    wrong, rounding = 0, np.finfo(np.float64).eps * np.max(np.abs(rows), axis=0)
    for left_out in range(fold.max() + 1):
        test, train = fold == left_out, fold != left_out
        try:
            wrong += gaussian_errors(rows[train], codes[train], rows[test], codes[test], rounding)
        except ValueError:  # All rows of each class are equal.
            return 1.0
    return wrong / len(rows)


def gaussian_errors(
    rows: Double, codes: NDArray[np.int64], others: Double, other_codes: NDArray[np.int64], rounding: Double
) -> int:
    """How many of the other rows one Gaussian per class puts into a wrong class."""
    classes, counts = np.unique(codes, return_counts=True)
    gaussians = Gaussians.of([_moments(rows[codes == c], rounding) for c in classes])
    logs = gaussians.log_scores(others) + np.log(counts)
    return int(np.sum(classes[np.argmax(logs, axis=1)] != other_codes))


def _moments(rows: Double, rounding: Double) -> Moments:
    mean = rows.mean(axis=0)
    covariance = (rows - mean).T @ (rows - mean) / len(rows)
    return Moments(len(rows), mean, covariance, rounding)
