"""Classifiers: one sketch per class, several rules, and the choice of windows and directions on a labelled sample."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin
from sklearn.utils.extmath import randomized_svd

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.containers import numbers_of
from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.core.messages import counted, warn_caller
from sketchlearn.core.randomness import row_chooser
from sketchlearn.core.values import shortened, whole
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document, FittedModel
from sketchlearn.estimators.base.state import DesignSample, FittedState
from sketchlearn.estimators.base.supervised import ClassSketches, LabelledEstimator, check_labels, plain_labels
from sketchlearn.estimators.design.cells import CANDIDATES, POWER_ITERATIONS, WIDE, directions_for, in_directions
from sketchlearn.estimators.design.column_ranges import box
from sketchlearn.estimators.design.designs import design
from sketchlearn.estimators.design.frequencies import plain
from sketchlearn.estimators.design.sample_summary import deviations
from sketchlearn.estimators.gaussian_mixture import SketchGaussianMixture
from sketchlearn.estimators.kernel_regression import (
    KernelFit,
    KernelProblem,
    features_in_units,
    n_frequencies_for,
    waves_on_sample,
)
from sketchlearn.features.bounded import CLIP, REFUSE
from sketchlearn.features.composed import Mapped
from sketchlearn.features.directions import MOST_DIRECTIONS, SomeDirections
from sketchlearn.features.families import AUTO, Fourier
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import Gaussian, Mixture
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.products import FeatureMoments
from sketchlearn.features.provenance import Origin
from sketchlearn.files.sketches import operator_from
from sketchlearn.inference.decoders.target import released_variance
from sketchlearn.inference.em import cholesky_log_densities
from sketchlearn.inference.moments import Moments, part_of
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.rows.schemas.table_schema import columns_without
from sketchlearn.sketch.sums import Sketch

RULE_FOLDS = 5
CLASS_SHRINKAGE = 0.3  # records per column that the common covariance is worth, beside those of a class
COMMON_SHRINKAGE = 0.5  # records per column that uncorrelated columns are worth, beside all records
LEAST_ADDED_VARIANCE = 1e-6  # relative to each column's own
LEAST_PROBABILITY = 1e-3  # of a class by regression, whose estimates may be below zero
LEAST_RELATIVE_SCORE = 1e-6  # of a class, relative to the largest: random features make small scores negative

Codes = NDArray[np.int64]


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
            raise ValueError("the rows within each class are all equal: a classifier needs variation within classes")
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


@dataclass(frozen=True)
class AfterMap:
    """A rule for rows that an operator maps first."""

    operator: Mapped
    scores: Rule

    def log_scores(self, rows: Double) -> Double:
        mapped = self.operator.mapped(rows, kernel.n_threads(None))
        refused = np.flatnonzero(~np.all(np.isfinite(mapped), axis=1))
        if len(refused):
            raise ValueError(f"row {refused[0]}, {self.operator.explain_refusal(rows[refused[0]])}")
        return self.scores.log_scores(mapped)


Rule = Parzen | Mixtures | Gaussians | Regressions | AfterMap


def left_out_error(rows: Double, codes: Codes, seed: int) -> float:
    """The cross-validation error of one Gaussian per class."""
    fold = row_chooser(seed).permutation(len(rows)) % min(RULE_FOLDS, len(rows))
    rounding = np.finfo(np.float64).eps * np.max(np.abs(rows), axis=0)
    try:
        wrong = [gaussian_errors(rows, codes, fold == left_out, rounding) for left_out in range(fold.max() + 1)]
    except ValueError:  # All rows of each class are equal.
        return 1.0
    return sum(wrong) / len(rows)


def gaussian_errors(rows: Double, codes: Codes, held_out: NDArray[np.bool_], rounding: Double) -> int:
    """How many of the held-out rows one Gaussian per class of the other rows misclassifies."""
    (classes, counts), moments = np.unique(codes[~held_out], return_counts=True), []
    for own in (rows[(codes == c) & ~held_out] for c in classes):
        away = own - (mean := own.mean(axis=0))
        moments.append(Moments(len(own), mean, away.T @ away / len(own), rounding))
    logs = Gaussians.of(moments).log_scores(rows[held_out]) + np.log(counts)
    return int(np.sum(classes[np.argmax(logs, axis=1)] != codes[held_out]))


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
            test, found = fold == left_out, self.places
            if apart:
                found = found @ discriminants_first(found[~test], codes[~test])[: sizes[-1]].T
            rounding = np.finfo(np.float64).eps * np.max(np.abs(found), axis=0)
            for i, p in enumerate(sizes):
                try:
                    wrong[i] += gaussian_errors(found[:, :p], codes, test, rounding[:p])
                except ValueError:  # All rows of each class are equal.
                    wrong[i] += int(np.sum(test))
        return wrong


@dataclass(frozen=True)
class ClassDirections:
    """Sets of a few directions, each with the errors of one Gaussian per class on held-out rows.

    They are principal directions, or start with linear discriminants, of the columns as they are or standardized.
    """

    codes: Codes
    tried: tuple[tuple[Principal, bool, int, int], ...]  # rows, whether discriminants come first, how many, errors

    @classmethod
    def of(cls, rows: Double, codes: Codes, n_directions: int | None, seed: int) -> ClassDirections:
        """Sets of `n_directions` directions, or of several sizes."""
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
    codes: Codes
    representative: bool
    columns: tuple[str, ...] | None
    box: Callable[[], tuple[Double, Double]]  # a center, and how far from it values may lie
    directions: SomeDirections | None = None

    def limits(self) -> dict[str, Any]:
        center, reach = map(plain, self.box())
        return {"bound": reach, "center": center, "outside": REFUSE if self.directions is None else CLIP}

    def operator(self, inner: Operator) -> Operator:
        """The operator for rows, where `inner` is for what the rule uses of them."""
        return inner if self.directions is None else self.directions.with_inner(inner).with_origin(Origin.SAMPLE)

    def in_directions(self, n_directions: int | None, seed: int) -> tuple[ClassSample, ClassSample]:
        """Coordinates of the rows in `n_directions` directions, or as many as cross-validation chooses; and in few."""
        ways = ClassDirections.of(self.rows, self.codes, n_directions, seed)
        return self._seen(*ways.best()), self._seen(*ways.best(MOST_LOCAL_DIRECTIONS))

    def _seen(self, directions: Single, units: Double) -> ClassSample:
        operator = in_directions(DesignSample(self.rows, self.representative, self.columns), directions, units)
        center, reach = np.zeros(len(directions)), np.array(operator.inner.bound)  # type: ignore[attr-defined]
        places = operator.mapped(self.rows, kernel.n_threads(None))
        return ClassSample(places, self.codes, self.representative, None, lambda: (center, reach), operator)


MOST_ROWS = 1000
WIDTHS = np.geomspace(0.15, 3.0, 16)  # relative to the typical distance between rows, in deviations within classes
WIDTH_FACTORS = (1.6, 1.0, 0.5)  # A window is the mean of three Gaussians, whose tails are heavier than those of one.
POWERS = (1.0, 0.5, 0.0, -0.5, -1.0)  # of the classes' proportions
SQUARED_ERROR_WEIGHT = 0.01  # of the mean squared error of probabilities, relative to the error rate


def parzen_window(
    rows: Double, labels: Codes, n_frequencies: int, seed: int, columns: tuple[str, ...] | None
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
        window = Mixture(tuple(Gaussian(width * factor) for factor in WIDTH_FACTORS))
        return features_in_units(window, center, units, n_frequencies, seed, columns)

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


def _left_out(features: Double, codes: Codes, counts: Codes) -> tuple[Double, Double]:
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


def _within(rows: Double, codes: Codes, counts: Codes) -> Double:
    """Standard deviation of each column within classes; a typical one for columns that are constant within classes."""
    means = np.array([rows[codes == c].mean(axis=0) for c in range(len(counts))])
    deviations = np.sqrt(np.mean((rows - means[codes]) ** 2, axis=0))
    alive = deviations > 1e-9 * (np.abs(rows).max(axis=0) + 1e-300)
    if not np.any(alive):
        spread = rows.std(axis=0)
        return np.where(spread > 0, spread, 1.0)
    return np.where(alive, deviations, np.exp(np.mean(np.log(deviations[alive]))))


@dataclass(frozen=True, eq=False)
class FittedClasses(FittedModel):
    """The scores and the prior of each class.

    A file holds the numbers of one rule: means and factors of Gaussians, or mean features of an operator.
    """

    rule: str
    scores: Rule
    labels: tuple[Any, ...]
    log_priors: Double

    @classmethod
    def saved_fields(cls) -> dict[str, Any]:
        return dict.fromkeys(("rule", "labels", "log_priors", "means", "factors", "operator"))

    def to_fields(self) -> Document:
        scores, factors = self.scores, None
        operator: Operator | None = None
        if isinstance(scores, AfterMap):
            operator, scores = scores.operator, scores.scores
        if isinstance(scores, Regressions):
            fit = scores.fit
            means = np.column_stack([scores.shares, fit.intercepts, fit.coefficients, fit.slopes])
            operator = operator or fit.waves
        elif isinstance(scores, Gaussians):
            means, factors = scores.means, scores.factors.tolist()
        elif isinstance(scores, Parzen):
            means = np.concatenate([scores.means.real, scores.means.imag], axis=1)
            operator = operator or scores.operator
        else:
            raise TypeError("a classifier with several Gaussians per class cannot be saved: save its sketches_")
        return {
            "rule": self.rule,
            "labels": plain_labels(self.labels),
            "log_priors": self.log_priors.tolist(),
            "means": means.tolist(),
            "factors": factors,
            "operator": None if operator is None else operator.to_json(),
        }

    @classmethod
    def from_fields(cls, document: Document, n_features: int) -> FittedClasses:
        check_labels(document["labels"])
        k = whole("the number of classes", len(document["labels"]), 2)
        operator = None if document["operator"] is None else operator_from(document["operator"], "a classifier")
        if operator is not None and operator.n_features != n_features:
            raise ValueError(f"the operator is for {operator.n_features} columns, not {n_features}")
        scores = _scores(document, k, n_features, operator)
        return cls(document["rule"], scores, tuple(document["labels"]), numbers_of(document, "log_priors", (k,)))


def _scores(document: Document, k: int, d: int, operator: Operator | None) -> Rule:
    """The scores of k classes, for d columns; an operator of one Gaussian per class is there for its map."""
    if document["rule"] == "kernel":
        regressions = _regressions(document, k, d, operator)
        return AfterMap(operator, regressions) if isinstance(operator, Mapped) else regressions
    inner = operator.inner if isinstance(operator, Mapped) else operator
    if not (operator is None or isinstance(operator, Mapped) or isinstance(inner, FourierFeatures)):
        raise ValueError(f"a classifier cannot use features of type {type(operator).__name__}")
    if isinstance(inner, FourierFeatures):
        parts = numbers_of(document, "means", (k, 2 * inner.n_frequencies))
        real, imaginary = np.split(parts, 2, axis=1)
        found: Rule = Parzen(inner, real + 1j * imaginary)
    else:
        d = d if inner is None else inner.n_features
        factors = numbers_of(document, "factors", (k, d, d))
        if np.any(np.diagonal(factors, axis1=1, axis2=2) <= 0):
            raise ValueError("the diagonals of all factors must be positive")
        found = Gaussians(numbers_of(document, "means", (k, d)), np.tril(factors))
    return AfterMap(operator, found) if isinstance(operator, Mapped) else found


def _regressions(document: Document, k: int, d: int, operator: Operator | None) -> Regressions:
    """The proportion of each class, and the intercept, coefficients and slopes of its probability."""
    waves = operator
    if isinstance(operator, Mapped) and isinstance(operator.inner, FeatureMoments):
        waves, d = operator.inner.crossed, operator.inner.n_features
    if not isinstance(waves, FourierFeatures) or waves.subsample is not None:
        raise ValueError("a classifier by regression needs Fourier features without subsample")
    numbers = numbers_of(document, "means", (k, 2 + waves.n_sums + d))
    shares, intercepts, coefficients, slopes = np.split(numbers, [1, 2, 2 + waves.n_sums], axis=1)
    if np.any(shares <= 0):
        raise ValueError("the classes' proportions must be positive")
    unknown: Any = {"r2": np.zeros(k), "expected_errors": np.zeros(k), "penalty": 0.0, "freedom": 0.0, "flat": False}
    fit = KernelFit(intercepts=intercepts[:, 0], coefficients=coefficients, slopes=slopes, waves=waves, **unknown)
    return Regressions(fit, shares[:, 0])


RULES = ("auto", "parzen", "mixture", "kernel")
FREQUENCIES = 1000


@dataclass(eq=False, repr=False)
class SketchClassifier(ClassifierMixin, LabelledEstimator):
    """Classes from one pass over labelled rows, or from one sketch per class.

    Each class has a sketch of its own, all of one operator, so that classes are merged, updated and deleted exactly.

    Parameters
    ----------
    rule : "mixture" fits a mixture of Gaussians to each class and predicts the likeliest class (one Gaussian per class
        comes from exact second moments, with covariances shrunk towards the common one where rows are few). "parzen"
        predicts the class whose mean features are most similar to those of the row: a compressed Parzen window.
        "kernel" estimates the probability of each class by kernel regression, as `SketchKernelRegressor` does. "auto"
        chooses windows if their cross-validation error on a sample is clearly less than that of one Gaussian per class;
        from sketches alone, the rule that they were made for.
    n_components : Gaussians per class, for mixtures.
    n_frequencies : size of the sketch of a class. None means 1000 for windows, and as in `SketchKernelRegressor` and
        `SketchGaussianMixture` for kernels and for mixtures of several components. One Gaussian per class needs none.
    priors : probability of each class, in the order of `classes_`; "shares" means the proportions of the rows, "equal"
        equal ones. None means proportions; for windows, a power of them, from 1 to -1, with the least error on the
        sample (wide windows blur classes, so that proportions count too much); from sketches alone, proportions.
    bounds : lowest and highest value of each column, for one Gaussian per class, as in `SketchPCA`.
    features : the operator of the sketches, such as `ConvolutionalFeatures` for images. It determines the rule. None
        means that an operator is designed on a sample of the rows.
    n_directions : above 64 columns, the number of directions of a sample in which rows are classified (see the
        page "Hundreds of columns"). "auto" means the number with the least cross-validation error, at most 16 for
        rules other than one Gaussian per class. A number applies to any columns. None means all columns, as do
        `bounds` and a schema.
    random_state : seed of the operator and of the search.
    n_jobs, device, verbose, schema : as in `SketchKMeans`; the schema is that of the features.

    Attributes
    ----------
    classes_ : labels of the classes.
    priors_ : the prior of each class.
    rule_ : "parzen", "mixture" or "kernel".
    sketches_ : the sketch of each class, by label; they can be saved, merged and given to `fit_sketch`.
    sketch_ : the sketch of all rows, whatever their class.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> from sklearn.datasets import load_iris
    >>> X, y = load_iris(return_X_y=True)
    >>> model = skl.SketchClassifier(random_state=0).fit(X[::2], y[::2])
    >>> bool(model.score(X[1::2], y[1::2]) > 0.95), model.rule_
    (True, 'mixture')
    >>> a, b, c = (model.sketches_[label] for label in range(3))
    >>> skl.SketchClassifier().fit_sketch({"setosa": a, "others": b + c}).predict(X[:1]).tolist()
    ['setosa']
    >>> model = skl.SketchClassifier(n_directions=2, random_state=0).fit(X, y)
    >>> model.sketch_.operator.in_words
    'in 2 directions of 4 columns: ...'
    """

    rule: str = "auto"
    _: KW_ONLY
    n_components: int = 1
    n_frequencies: int | None = None
    priors: Any = None
    bounds: Any = None
    features: Operator | None = None
    n_directions: int | str | None = AUTO

    model_type = FittedClasses
    rule_ = model_attribute("rule")

    @classmethod
    def parameters_of(cls, model: FittedClasses) -> Document:
        return {"rule": model.rule}

    def check_parameters(self) -> None:
        if self.rule not in RULES:
            raise ValueError(f"rule must be one of {', '.join(RULES)}, not {self.rule!r}")
        whole("n_components", self.n_components)
        if self.n_frequencies is not None:
            whole("n_frequencies", self.n_frequencies)
        if isinstance(self.priors, str) and self.priors not in ("shares", "equal"):
            raise ValueError(f'priors must be "shares", "equal" or one number per class, not {self.priors!r}')
        if self.features is not None and not isinstance(self.features, Operator):
            raise TypeError(
                "features must be an operator, such as ConvolutionalFeatures((28, 28), pixels=(0, 255)), "
                f"not {shortened(self.features)}"
            )
        if self.n_directions is not None and self.n_directions != AUTO:
            whole("n_directions", self.n_directions, most=MOST_DIRECTIONS)
            if self.features is not None or self.bounds is not None:
                remedy = "leave out features and bounds"
                raise InvalidValueError("are chosen on a sample", remedy, parameter="n_directions")

    def check_size(self, n_rows: int) -> None:
        if n_rows < 2:
            rows = either(f"n_samples={n_rows} rows", f"{n_rows} records")
            raise InvalidValueError(f"{rows} cannot have several classes", "give at least one row of each class")

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        return self._designed(design_sample, rng)[0]

    def _designed(self, design_sample: DesignSample, rng: np.random.Generator) -> tuple[Operator, float]:
        """The operator, and the power of the proportions that is the prior of windows."""
        if len(design_sample.targets) != 1:
            raise ValueError(f"labels must be one column, not {len(design_sample.targets)}")
        (label,), seed = design_sample.targets, int(rng.integers(2**31))
        rows, labels = np.delete(design_sample.rows, label, axis=1).astype(np.float64), design_sample.rows[:, label]
        if not len(rows):
            raise ValueError("there are no rows")
        codes = np.unique(labels, return_inverse=True)[1]
        columns = columns_without(design_sample.columns, design_sample.targets)
        if self.features is not None:
            given: Any = self.features
            if given.n_features != rows.shape[1]:
                raise ValueError(f"features is an operator for {given.n_features} columns, but X has {rows.shape[1]}")
            return given if given.columns is not None or columns is None else given.with_columns(columns), 1.0
        sample = ClassSample(rows, codes, design_sample.representative, columns, lambda: self._box(design_sample, rows))
        wanted = directions_for(columns, self.n_directions)
        if wanted is None or (wanted == AUTO and (rows.shape[1] <= WIDE or self.bounds is not None)):
            return self._rule_operator(sample, sample, design_sample.n_rows, seed)
        several, few = sample.in_directions(None if wanted == AUTO else int(wanted), seed)
        return self._rule_operator(several, few, design_sample.n_rows, seed)

    def _rule_operator(
        self, sample: ClassSample, few: ClassSample, n_rows: int | None, seed: int
    ) -> tuple[Operator, float]:
        """The operator of the rule, and the power of the proportions; one Gaussian per class uses `sample`."""
        rows, codes, columns = few.rows, few.codes, few.columns
        if self.rule == "kernel":
            m, indicators = n_frequencies_for(self.n_frequencies, len(rows)), np.eye(codes.max() + 1)[codes]
            waves = waves_on_sample(rows, indicators, m, None, n_rows, seed, columns)
            return few.operator(FeatureMoments(waves, **few.limits()).with_origin(Origin.SAMPLE)), 1.0
        if self.rule != "mixture":
            window, power, error = parzen_window(rows, codes, self.n_frequencies or FREQUENCIES, seed, columns)
            if self.rule == "parzen" or _clearly_less(error, left_out_error(sample.rows, codes, seed), len(rows)):
                return few.operator(window), power
        if self.n_components > 1:
            size: dict[str, Any] = {"n_components": self.n_components, "features": Fourier(self.n_frequencies)}
            operator = design(rows, task="mixture-full", representative=few.representative, seed=seed, **size)
            return few.operator(operator.with_columns(columns)), 1.0
        moments = SecondMoments(sample.rows.shape[1], columns=sample.columns, **sample.limits())
        return sample.operator(moments), 1.0

    def _box(self, design_sample: DesignSample, rows: Double) -> tuple[Double, Double]:
        """The center of the features, and the largest distance from it."""
        if self.bounds is not None:
            return box(replace(design_sample, rows=rows), self.bounds)
        center, reach = (np.delete(values, design_sample.targets[0]) for values in box(design_sample, None))
        return center, reach

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> FittedClasses:
        found = {state.table.label_of(code): part for code, part in state.sketch.sketches.items() if part.units}
        if not found:
            raise ValueError("the sketches are empty: a classifier needs records of each class")
        if len(found) == 1:
            raise ValueError("all rows are of one class: a classifier needs at least two")
        labels = tuple(sorted(found))
        parts = [found[label] for label in labels]
        rule, scores = self._scores(parts, rng)
        power = state.design_notes if rule == "parzen" and state.design_notes is not None else 1.0
        model = FittedClasses(rule, scores, labels, self._log_priors(parts, power))
        self._say(f"{rule} rule, {len(labels)} classes, from {counted(state.sketch.count, 'record')}")
        return model

    def _scores(self, parts: list[Sketch], rng: np.random.Generator) -> tuple[str, Rule]:
        """The requested rule or, if it is "auto", the one that the sketches were made for."""
        operator = parts[0].operator
        regressed = isinstance(operator, FeatureMoments) and self.rule in ("auto", "kernel")
        if not isinstance(operator, Mapped) or regressed:
            return self._own_scores(parts, rng)
        rule, scores = self._own_scores([operator.inner_sketch(part) for part in parts], rng)
        return rule, AfterMap(operator, scores)

    def _own_scores(self, parts: list[Sketch], rng: np.random.Generator) -> tuple[str, Rule]:
        """The same for the rows themselves, or for what they are mapped to."""
        operator = parts[0].operator
        if isinstance(operator, FeatureMoments) and self.rule in ("auto", "kernel"):
            every = ClassSketches(operator, 0, dict(enumerate(parts))).total
            total, *inner = (Moments.of(operator.inner_sketch(part), "a classifier") for part in [every, *parts])
            counts = np.array([float(part.count) for part in parts])
            means, shares = np.array([moments.mean for moments in inner]), counts / counts.sum()
            return "kernel", Regressions(KernelProblem.of_classes(total, operator, means, shares).fit(None), shares)
        if self.rule == "kernel":
            raise ValueError("a classifier by kernel regression needs sketches of products of features")
        windows = part_of(parts[0], FourierFeatures)
        if part_of(parts[0], SecondMoments) is not None and self.rule != "parzen" and self.n_components == 1:
            floored = [Moments.of(part, "a classifier").floored() for part in parts]
            _warn_of_noise(sum(hidden > 0 for _, hidden in floored), len(parts))
            return "mixture", Gaussians.of([moments for moments, _ in floored])
        if windows is None:
            needed = "Fourier features (skl.features.FourierFeatures)"
            if self.rule != "parzen" and self.n_components == 1:
                made = either("skl.features.SecondMoments", "sketchlearn design --task moments")
                needed = f"second moments ({made}) or of {needed}"
            kind = type(operator).__name__
            raise ValueError(f"this classifier needs sketches of {needed}, but they are of {kind}")
        fourier: Any = windows.operator
        if self.rule == "mixture" or (self.rule == "auto" and self.n_components > 1):
            seed, k = int(rng.integers(2**31)), self.n_components
            return "mixture", Mixtures(tuple(SketchGaussianMixture(k, random_state=seed).fit_sketch(p) for p in parts))
        if not (fourier.wave.complex and not fourier.wave.dithered):
            wave = shortened(fourier.wave)
            raise ValueError(f"the Parzen rule needs sketches with the exponential nonlinearity, but these have {wave}")
        found: list[Any] = [part_of(part, FourierFeatures) for part in parts]
        means = np.array([part.mean for part in found])
        noise = np.array([2 * released_variance(part, fourier) for part in found])  # of a complex number
        typical = np.mean(np.abs(means) ** 2, axis=1) - noise  # estimated score of a row of the class
        deviation = np.sqrt((noise + 3 * noise**2) / means.shape[1])  # standard error of that
        _warn_of_noise(int(np.sum(typical < 2 * deviation)), len(parts))
        return "parzen", Parzen(fourier, means)

    def _log_priors(self, parts: list[Sketch], power: float) -> Double:
        """Logarithms of the priors: by default, of a power of the classes' proportions."""
        k = len(parts)
        if self.priors is None or isinstance(self.priors, str):
            power = 0.0 if self.priors == "equal" else power if self.priors is None else 1.0
            counts = np.array([float(part.count) for part in parts])
            weights = (counts / counts.sum()) ** power
        else:
            weights = np.asarray(self.priors, np.float64)
            if weights.shape != (k,) or not np.all(np.isfinite(weights)) or np.any(weights < 0) or not weights.sum():
                wanted = f"{k} numbers, one per class, none of them negative"
                raise ValueError(f"priors must be {wanted}, not {shortened(self.priors)}")
        return np.asarray(np.log(np.maximum(weights / weights.sum(), 1e-300)))

    @property
    def priors_(self) -> Double:
        return self._spread(np.exp(self.fitted_model().log_priors)[None])[0]

    def _spread(self, values: Double) -> Double:
        """Columns of the classes that have rows, among those of all classes."""
        result = np.zeros((len(values), len(self.classes_)))
        result[:, np.searchsorted(self.classes_, np.array(self.fitted_model().labels))] = values
        return result

    def predict_proba(self, X: Any) -> Double:
        """The probability of each class, in the order of `classes_`."""
        fitted = self.fitted_model()
        parts = [np.empty((0, len(fitted.labels)))]
        for rows in self.row_blocks(X, np.float64):
            logs = fitted.scores.log_scores(rows) + fitted.log_priors
            parts.append(np.exp(logs - logsumexp(logs, axis=1, keepdims=True)))
        return self._spread(np.concatenate(parts))

    def predict_log_proba(self, X: Any) -> Double:
        """The logarithm of `predict_proba`."""
        with np.errstate(divide="ignore"):
            return np.asarray(np.log(self.predict_proba(X)))

    def predict(self, X: Any) -> NDArray[Any]:
        """The likeliest class of each row."""
        return self.classes_[np.argmax(self.predict_proba(X), axis=1)]


def _clearly_less(error: float, other: float, n_rows: int) -> bool:
    """Whether an error rate is less than another by two standard errors, as it is the least of many."""
    return error < other - 2 * float(np.sqrt(max(other, 1 / n_rows) / n_rows))


def _warn_of_noise(hidden: int, n_classes: int) -> None:
    if hidden:
        warn_caller(
            f"the noise of the private sketches hides the shape of {hidden} of {n_classes} classes, at least in part: "
            "use more records, fewer columns, tighter bounds or a larger epsilon",
        )
