"""Rules of classifiers, and how a labelled sample chooses their windows and their directions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.randomness import row_chooser
from sketchlearn.estimators.design.cells import CANDIDATES, POWER_ITERATIONS, in_directions
from sketchlearn.estimators.design.frequencies import plain
from sketchlearn.estimators.design.sample_summary import Sampled, deviations
from sketchlearn.estimators.gaussian_mixture.estimator import SketchGaussianMixture
from sketchlearn.estimators.kernel_regression import KernelFit
from sketchlearn.features.bounded import CLIP, REFUSE
from sketchlearn.features.composed import Mapped
from sketchlearn.features.directions import MOST_DIRECTIONS, SomeDirections
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import Gaussian, Mixture, Probed
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.inference.em import cholesky_log_densities
from sketchlearn.inference.moments import Moments
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels.dispatch import one_blas_thread

RULE_FOLDS = 5
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
        # A column that is constant within classes separates them fully or not at all: it gets a small variance.
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
    """The probability of each class at x, by kernel regression of its indicator, divided by its proportion."""

    fit: KernelFit
    shares: Double

    def log_scores(self, rows: Double) -> Double:
        likely = np.clip(self.fit.values(rows), LEAST_PROBABILITY, None)
        return np.asarray(np.log(likely) - np.log(self.shares))


PlainRule = Parzen | Mixtures | Gaussians


@dataclass(frozen=True)
class AfterMap:
    """A rule for rows that an operator maps first."""

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
    """The cross-validation error of one Gaussian per class."""
    fold = row_chooser(seed).permutation(len(rows)) % min(RULE_FOLDS, len(rows))
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
    """How many of the other rows one Gaussian per class misclassifies."""
    classes, counts = np.unique(codes, return_counts=True)
    gaussians = Gaussians.of([_moments(rows[codes == c], rounding) for c in classes])
    logs = gaussians.log_scores(others) + np.log(counts)
    return int(np.sum(classes[np.argmax(logs, axis=1)] != other_codes))


def _moments(rows: Double, rounding: Double) -> Moments:
    mean = rows.mean(axis=0)
    covariance = (rows - mean).T @ (rows - mean) / len(rows)
    return Moments(len(rows), mean, covariance, rounding)


Codes = NDArray[np.int64]
DIRECTION_FOLDS = 3  # of the sample, each left out in turn
MOST_EXACT_COLUMNS = 1024  # Beyond, principal directions are found by random projections.
EVEN_FACTOR = 4.0  # Deviations of columns that differ by no more are not made equal.
LEAST_SIZE = 1e-6  # of a direction in which rows vary, relative to the widest


@dataclass(frozen=True)
class Principal:
    """Rows less their mean, in units of the columns, in their principal directions."""

    units: Double  # (columns,)
    principal: Double  # (directions, columns)
    places: Double  # (rows, directions)

    @classmethod
    def of(cls, rows: Double, units: Double, seed: int) -> Principal:
        """At most 256 directions."""
        around = (rows - rows.mean(axis=0)) / units
        most = min(rows.shape[1], max(len(rows) - 1, 1), MOST_DIRECTIONS)
        if rows.shape[1] <= MOST_EXACT_COLUMNS:
            variances, found = np.linalg.eigh(around.T @ around)
            sizes, directions = np.sqrt(np.maximum(variances[::-1][:most], 0.0)), found[:, ::-1][:, :most].T
        else:
            narrow = around.astype(np.float32)
            _, sizes, directions = randomized_svd(narrow, most, n_iter=POWER_ITERATIONS, random_state=seed)
        alive = max(1, int(np.sum(sizes > LEAST_SIZE * max(float(sizes[0]), 1e-300))))
        principal = np.asarray(directions[:alive], np.float64)
        return cls(units, principal, around @ principal.T)

    def errors(self, codes: Codes, sizes: list[int], seed: int, *, apart: bool) -> NDArray[np.int64]:
        """How many held-out rows one Gaussian per class misclassifies, for each number of directions."""
        fold, wrong = row_chooser(seed).permutation(len(codes)) % DIRECTION_FOLDS, np.zeros(len(sizes), np.int64)
        for left_out in range(DIRECTION_FOLDS):
            train, test = fold != left_out, fold == left_out
            found = self.places
            if apart:
                found = found @ discriminants_first(found[train], codes[train])[: sizes[-1]].T
            rounding = np.finfo(np.float64).eps * np.max(np.abs(found), axis=0)
            for i, p in enumerate(sizes):
                known, held_out = found[train, :p], found[test, :p]
                try:
                    wrong[i] += gaussian_errors(known, codes[train], held_out, codes[test], rounding[:p])
                except ValueError:  # All rows of each class are equal.
                    wrong[i] += int(np.sum(test))
        return wrong


@dataclass(frozen=True)
class ClassDirections:
    """Choices of few directions, each with the errors of one Gaussian per class on held-out rows.

    Directions are principal ones, or linear discriminants first; of the columns themselves, or of standardized ones.
    """

    codes: Codes
    tried: tuple[tuple[Principal, bool, int, int], ...]  # rows, whether discriminants come first, how many, errors

    @classmethod
    def of(cls, rows: Double, codes: Codes, n_directions: int | None, seed: int) -> ClassDirections:
        """All choices of so many directions, or of several numbers of them."""
        tried, units = [], deviations(rows)
        even = units.max() <= EVEN_FACTOR * units.min()
        with one_blas_thread():
            for each in (np.ones(rows.shape[1]),) if even else (np.ones(rows.shape[1]), units):
                seen = Principal.of(rows, each, seed)
                most = seen.places.shape[1]
                sizes = [p for p in (CANDIDATES if n_directions is None else (n_directions,)) if p < most] or [most]
                for apart in (False, True):
                    wrong = seen.errors(codes, sizes, seed, apart=apart)
                    tried += [(seen, apart, p, int(errors)) for p, errors in zip(sizes, wrong, strict=True)]
        return cls(codes, tuple(tried))

    def best(self, most: int | None = None) -> tuple[Single, Double]:
        """The directions with the fewest errors (p, columns), at most `most` if possible; and the columns' units."""
        fitting = [way for way in self.tried if most is None or way[2] <= most] or self.tried
        seen, apart, p, _ = min(fitting, key=lambda way: way[3])
        with one_blas_thread():
            turned = discriminants_first(seen.places, self.codes) if apart else np.eye(seen.places.shape[1])
        return np.asarray(turned[:p] @ seen.principal, np.float32), seen.units


def discriminants_first(places: Double, codes: Codes) -> Double:
    """An orthonormal basis (q, q): first the linear discriminants, then the principal directions of the rest."""
    n, q = places.shape
    classes, own, counts = np.unique(codes, return_inverse=True, return_counts=True)
    means = np.array([places[own == c].mean(axis=0) for c in range(len(classes))])
    left = places - means[own]
    within, share = left.T @ left / n, COMMON_SHRINKAGE * q / (n + COMMON_SHRINKAGE * q)
    variances = np.diag(within) + 1e-9 * np.trace(within) / q + 1e-300
    factor = np.linalg.cholesky((1 - share) * within + np.diag(share * variances + 1e-9 * variances))
    apart = np.linalg.solve(factor, (means - places.mean(axis=0)).T * np.sqrt(counts / n))
    found, sizes, _ = np.linalg.svd(apart, full_matrices=False)
    found = found[:, sizes > LEAST_SIZE * max(float(sizes[0]), 1e-300)][:, : len(classes) - 1]
    first = np.linalg.qr(np.linalg.solve(factor.T, found))[0]
    rest = places - (places @ first) @ first.T
    others = np.linalg.eigh(rest.T @ rest)[1][:, ::-1][:, : q - first.shape[1]]
    return np.asarray(np.concatenate([first, others], axis=1).T)


MOST_LOCAL_DIRECTIONS = 16  # Windows, kernels and mixtures of several Gaussians make more errors in more directions.


@dataclass(frozen=True)
class ClassSample:
    """Rows, or their coordinates in some directions, and the codes of their classes."""

    rows: Double
    codes: NDArray[np.int64]
    representative: bool
    columns: tuple[str, ...] | None
    box: Callable[[], tuple[Double, Double]]  # a center, and how far from it values may lie
    directions: SomeDirections | None = None

    def limits(self) -> dict[str, Any]:
        """The range of an operator."""
        center, reach = self.box()
        outside = REFUSE if self.directions is None else CLIP
        return {"bound": plain(reach), "center": plain(center), "outside": outside}

    def operator(self, inner: Operator) -> Operator:
        """The operator for rows, where `inner` is for what the rule uses of them."""
        return inner if self.directions is None else self.directions.with_inner(inner).with_origin(Origin.SAMPLE)

    def in_directions(self, n_directions: int | None, seed: int) -> tuple[ClassSample, ClassSample]:
        """Coordinates of the rows, in so many directions or as many as cross-validation chooses; and in few."""
        ways = ClassDirections.of(self.rows, self.codes, n_directions, seed)
        return self._seen(*ways.best()), self._seen(*ways.best(MOST_LOCAL_DIRECTIONS))

    def _seen(self, directions: Single, units: Double) -> ClassSample:
        operator = in_directions(Sampled(self.rows, self.representative, self.columns), directions, units)
        center, reach = np.zeros(len(directions)), np.array(operator.inner.bound)  # type: ignore[attr-defined]
        places = operator.mapped(self.rows, kernel.n_threads(None))
        return ClassSample(places, self.codes, self.representative, None, lambda: (center, reach), operator)


MOST_ROWS = 1000
WIDTHS = np.geomspace(0.15, 3.0, 16)  # relative to the typical distance between rows, in deviations within classes
WIDTH_FACTORS = (1.6, 1.0, 0.5)  # A window is the mean of three Gaussians, whose tails are heavier than those of one.
POWERS = (1.0, 0.5, 0.0, -0.5, -1.0)  # of the classes' proportions
SQUARED_ERROR_WEIGHT = 0.01  # of the mean squared error of probabilities, relative to the error rate


def parzen_window(
    rows: Double, labels: NDArray[np.int64], n_frequencies: int, seed: int, columns: tuple[str, ...] | None
) -> tuple[FourierFeatures, float, float]:
    """The window with the least leave-one-out error on a sample, the power of proportions as prior, and the error rate.

    The features are the ones that will be used, as a narrow window of few features is mostly noise. Wide windows smooth
    classes so much that proportions count too much, and wide classes score too little: a power of the proportions
    corrects that. Errors are averaged over neighbouring widths, which makes the choice less random.
    """
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int)
    rows, (classes, codes) = rows[chosen], np.unique(labels[chosen], return_inverse=True)
    counts = np.bincount(codes)
    center, units = rows.mean(axis=0), _within(rows, codes, counts)
    y = (rows - center) / units
    typical = float(np.sqrt(np.sum(y.var(axis=0)))) or 1.0

    def operator(width: float) -> FourierFeatures:
        window, d = Mixture(tuple(Gaussian(width * factor) for factor in WIDTH_FACTORS)), rows.shape[1]
        law = Probed(window, units=tuple(units.tolist()), spread=tuple(units.tolist()), probes=())
        return FourierFeatures(d, n_frequencies, law=law, center=tuple(center.tolist()), seed=seed, columns=columns)

    if len(classes) < 2 or counts.min() < 2:
        return operator(typical / 2), 1.0, 1.0
    phases = y @ (operator(1.0).frequencies.T * units).T  # windows of other widths divide them by the width
    errors, losses = np.empty((2, len(WIDTHS), len(POWERS)))
    for i, width in enumerate(WIDTHS * typical):
        features = np.concatenate([np.cos(phases / width), np.sin(phases / width)], axis=1)
        errors[i], losses[i] = _left_out(features, codes, counts)
    padded = np.pad(errors, ((1, 1), (0, 0)), mode="edge")
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    best, power = divmod(int(np.argmin(smooth + SQUARED_ERROR_WEIGHT * losses)), len(POWERS))
    return operator(float(WIDTHS[best] * typical)), POWERS[power], float(smooth[best, power])


def _left_out(features: Double, codes: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[Double, Double]:
    """The leave-one-out error rate, and the squared error of probabilities, for each power."""
    n, own = len(codes), np.eye(len(counts))[codes]
    sums = features @ (features.T @ own)
    sums[np.arange(n), codes] -= np.sum(features * features, axis=1)
    errors, losses = np.empty((2, len(POWERS)))
    for j, power in enumerate(POWERS):
        scores = sums * np.maximum(counts - own, 1) ** (power - 1)
        errors[j] = np.mean(np.argmax(scores, axis=1) != codes)
        scores = np.maximum(scores, 1e-3 * np.abs(scores).max(axis=1, keepdims=True) + 1e-300)
        probabilities = scores / scores.sum(axis=1, keepdims=True)
        losses[j] = np.mean(np.sum((probabilities - own) ** 2, axis=1))
    return errors, losses


def _within(rows: Double, codes: NDArray[np.int64], counts: NDArray[np.int64]) -> Double:
    """Standard deviation of each column within classes; a typical one for columns that are constant within classes."""
    means = np.array([rows[codes == c].mean(axis=0) for c in range(len(counts))])
    deviations = np.sqrt(np.mean((rows - means[codes]) ** 2, axis=0))
    alive = deviations > 1e-9 * (np.abs(rows).max(axis=0) + 1e-300)
    if not np.any(alive):
        spread = rows.std(axis=0)
        return np.where(spread > 0, spread, 1.0)
    return np.where(alive, deviations, np.exp(np.mean(np.log(deviations[alive]))))
