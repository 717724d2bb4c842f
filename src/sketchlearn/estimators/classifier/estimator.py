"""Classes from one sketch per class."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassifierMixin, clone

from sketchlearn.core.arrays import Double
from sketchlearn.core.containers import numbers_of
from sketchlearn.core.messages import counted, warn_caller
from sketchlearn.core.values import shortened, whole
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document, FittedModel
from sketchlearn.estimators.base.state import FittedState, Glimpse
from sketchlearn.estimators.base.supervised import ClassSketches, LabelledEstimator, check_labels, plain_labels
from sketchlearn.estimators.classifier.rules import (
    AfterMap,
    ClassSample,
    Gaussians,
    Mixtures,
    Parzen,
    PlainRule,
    Regressions,
    Rule,
    left_out_error,
    parzen_window,
)
from sketchlearn.estimators.design.cells import WIDE, directions_for
from sketchlearn.estimators.design.column_ranges import box
from sketchlearn.estimators.design.designs import design
from sketchlearn.estimators.design.frequencies import AUTO
from sketchlearn.estimators.gaussian_mixture.estimator import SketchGaussianMixture
from sketchlearn.estimators.kernel_regression import KernelFit, KernelProblem, n_frequencies_for, waves_on_sample
from sketchlearn.features.composed import Mapped
from sketchlearn.features.directions import MOST_DIRECTIONS
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.products import FeatureMoments
from sketchlearn.features.provenance import Origin
from sketchlearn.files.sketches import operator_from
from sketchlearn.inference.decoders.target import released_variance
from sketchlearn.inference.moments import Moments, part_of
from sketchlearn.rows.schemas.table_schema import columns_without
from sketchlearn.sketch.sums import Sketch


@dataclass(frozen=True, eq=False)
class FittedClasses(FittedModel):
    """The scores and the prior of each class.

    A file has the numbers of one rule: means and factors of Gaussians, or mean features of an operator.
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
            scores, operator = scores.scores, scores.operator
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
        raise ValueError(f"no classifier compares rows by {type(operator).__name__}")
    if isinstance(inner, FourierFeatures):
        parts = numbers_of(document, "means", (k, 2 * inner.n_frequencies))
        real, imaginary = np.split(parts, 2, axis=1)
        found: PlainRule = Parzen(inner, real + 1j * imaginary)
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
    n_directions : above 64 columns, the number of directions of a sample in which rows are classified (see
        docs/wide.md). "auto" means the number with the least cross-validation error, at most 16 for rules other than
        one Gaussian per class. A number applies to any columns. None means all columns, as do `bounds` and a schema.
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
        for name in ("n_components", "n_frequencies"):
            if (value := getattr(self, name)) is not None or name == "n_components":
                whole(name, value)
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
                raise ValueError("n_directions are those of a sample: leave out features and bounds")

    def check_size(self, n_rows: int) -> None:
        if n_rows < 2:
            raise ValueError(f"n_samples={n_rows} rows do not have several classes: give at least one of each class")

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> Operator:
        return self._designed(glimpse, rng)[0]

    def _designed(self, glimpse: Glimpse, rng: np.random.Generator) -> tuple[Operator, float]:
        """The operator, and the power of the proportions that is the prior of windows."""
        if len(glimpse.targets) != 1:
            raise ValueError(f"there is one column of labels, not {len(glimpse.targets)}")
        (label,), seed = glimpse.targets, int(rng.integers(2**31))
        rows, labels = np.delete(glimpse.rows, label, axis=1).astype(np.float64), glimpse.rows[:, label]
        if not len(rows):
            raise ValueError("there are no rows")
        codes = np.unique(labels, return_inverse=True)[1]
        columns = columns_without(glimpse.columns, glimpse.targets)
        if self.features is not None:
            given: Any = self.features
            if given.n_features != rows.shape[1]:
                raise ValueError(f"features is for {given.n_features} columns, but X has {rows.shape[1]} features")
            return (given.with_columns(columns) if given.columns is None and columns is not None else given), 1.0
        sample = ClassSample(rows, codes, glimpse.representative, columns, lambda: self._box(glimpse, rows))
        wanted = directions_for(columns, self.n_directions, in_cells=False)
        if wanted is None or (wanted == AUTO and (rows.shape[1] <= WIDE or self.bounds is not None)):
            return self._rule_operator(sample, sample, glimpse.n_rows, seed)
        several, few = sample.in_directions(None if wanted == AUTO else int(wanted), seed)
        return self._rule_operator(several, few, glimpse.n_rows, seed)

    def _rule_operator(
        self, sample: ClassSample, few: ClassSample, n_rows: int | None, seed: int
    ) -> tuple[Operator, float]:
        """The operator of the rule, and the power of the proportions; one Gaussian per class uses `sample`."""
        rows, codes, columns = few.rows, few.codes, few.columns
        if self.rule == "kernel":
            return few.operator(self._kernel_features(few, n_rows, seed)), 1.0
        if self.rule != "mixture":
            window, power, error = parzen_window(rows, codes, self.n_frequencies or FREQUENCIES, seed, columns)
            if self.rule == "parzen" or _clearly_less(error, left_out_error(sample.rows, codes, seed), len(rows)):
                return few.operator(window), power
        if self.n_components > 1:
            operator = design(
                rows,
                n_components=self.n_components,
                task="mixture-full",
                representative=few.representative,
                n_frequencies=self.n_frequencies,
                seed=seed,
            )
            return few.operator(operator.with_columns(columns)), 1.0
        moments = SecondMoments(sample.rows.shape[1], columns=sample.columns, **sample.limits())
        return sample.operator(moments), 1.0

    def _box(self, glimpse: Glimpse, rows: Double) -> tuple[Double, Double]:
        """The center of the features, and the largest distance from it."""
        if self.bounds is not None:
            return box(replace(glimpse, rows=rows), self.bounds)
        center, reach = (np.delete(values, glimpse.targets[0]) for values in box(glimpse, None))
        return center, reach

    def _kernel_features(self, sample: ClassSample, n_rows: int | None, seed: int) -> FeatureMoments:
        limits, rows = sample.limits(), sample.rows
        m, indicators = n_frequencies_for(self.n_frequencies, len(rows)), np.eye(sample.codes.max() + 1)[sample.codes]
        waves = waves_on_sample(rows, indicators, m, None, n_rows, seed, sample.columns)
        return FeatureMoments(waves, **limits).with_origin(Origin.SAMPLE)

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

    def _own_scores(self, parts: list[Sketch], rng: np.random.Generator) -> tuple[str, PlainRule | Regressions]:
        """The same, of the rows themselves, or of what they are mapped to."""
        operator = parts[0].operator
        if isinstance(operator, FeatureMoments) and self.rule in ("auto", "kernel"):
            every = ClassSketches(operator, 0, dict(enumerate(parts))).total
            total, *inner = (Moments.of(operator.inner_sketch(part), "a classifier") for part in [every, *parts])
            counts = np.array([float(part.count) for part in parts])
            means, shares = np.array([moments.mean for moments in inner]), counts / counts.sum()
            return "kernel", Regressions(KernelProblem.of_classes(total, operator, means, shares).fit(None), shares)
        if self.rule == "kernel":
            raise ValueError("a classifier by kernel regression needs sketches that hold products of features")
        windows, moments = part_of(parts[0], FourierFeatures), part_of(parts[0], SecondMoments)
        if moments is not None and self.rule != "parzen" and self.n_components == 1:
            return "mixture", Gaussians.of(_floored([Moments.of(part, "a classifier") for part in parts]))
        if windows is None:
            needed = "Fourier features (skl.FourierFeatures)"
            if self.rule != "parzen" and self.n_components == 1:
                needed = f"second moments (skl.SecondMoments) or of {needed}"
            kind = type(parts[0].operator).__name__
            raise ValueError(f"this classifier needs sketches of {needed}, but they are of {kind}")
        fourier: Any = windows.operator
        if self.rule == "mixture" or (self.rule == "auto" and self.n_components > 1):
            seed = int(rng.integers(2**31))
            mixture = SketchGaussianMixture(self.n_components, random_state=seed)
            return "mixture", Mixtures(tuple(clone(mixture).fit_sketch(part) for part in parts))
        if not (fourier.wave.complex and not fourier.wave.dithered):
            raise ValueError(
                "the Parzen rule compares features of the exponential wave, but the sketches have "
                f"{shortened(fourier.wave)}"
            )
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
                raise ValueError(
                    f"priors must be {k} numbers, one per class, not negative, not {shortened(self.priors)}"
                )
        return np.asarray(np.log(np.maximum(weights / weights.sum(), 1e-300)))

    @property
    def priors_(self) -> Double:
        return self._spread(np.exp(self.fitted_model().log_priors)[None])[0]

    def _spread(self, values: Double) -> Double:
        """Columns of the classes that have rows, among those of all classes."""
        classes = self.classes_
        known = np.array(self.fitted_model().labels)
        result = np.zeros((len(values), len(classes)))
        result[:, np.searchsorted(classes, known)] = values
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
        probabilities = self.predict_proba(X)
        return self.classes_[np.argmax(probabilities, axis=1)]


def _clearly_less(error: float, other: float, n_rows: int) -> bool:
    """Whether an error rate is less than another by two standard errors, as it is the least of many."""
    return error < other - 2 * float(np.sqrt(max(other, 1 / n_rows) / n_rows))


def _floored(classes: list[Moments]) -> list[Moments]:
    """Moments with positive definite covariances, even of private sketches."""
    found = [moments.floored() for moments in classes]
    _warn_of_noise(sum(hidden > 0 for _, hidden in found), len(found))
    return [moments for moments, _ in found]


def _warn_of_noise(hidden: int, n_classes: int) -> None:
    if hidden:
        warn_caller(
            f"the noise of the private sketches hides the shape of {hidden} of {n_classes} classes, at least in part: "
            "more records, fewer columns, tighter bounds or a larger epsilon would show it",
        )
