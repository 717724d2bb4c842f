"""What a classifier has learned, and what its file says."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.operators import FeatureMoments, FourierFeatures, Operator
from sketchlearn.operators.composed_operators import Mapped
from sketchlearn.storage.json_documents import numbers_of
from sketchlearn.storage.sketch_files import operator_from
from sketchlearn.tasks.classes.class_rules import AfterMap, Gaussians, Parzen, Regressions, Rule
from sketchlearn.tasks.estimating.fitted_model import Document, Double, FittedModel
from sketchlearn.tasks.estimating.labelled_estimator import check_labels
from sketchlearn.tasks.kernel_regression.kernel_fit import KernelFit
from sketchlearn.values import whole


@dataclass(frozen=True, eq=False)
class FittedClasses(FittedModel):
    """How each class scores, and what it weighs.

    A file has the numbers of one rule: means and factors of Gaussians, or means of the features of an operator.
    """

    rule: str
    scores: Rule
    labels: tuple[Any, ...]
    log_priors: Double

    @classmethod
    def saved_fields(cls) -> dict[str, Any]:
        return dict.fromkeys(("rule", "labels", "log_priors", "means", "factors", "operator"))

    def to_fields(self) -> Document:
        if not all(isinstance(label, str | int | float) for label in self.labels):
            raise TypeError("classes can be saved if their labels are words or numbers")
        scores = self.scores.scores if isinstance(self.scores, AfterMap) else self.scores
        operator = self.scores.operator if isinstance(self.scores, AfterMap | Parzen) else None
        if isinstance(scores, Regressions):
            fit = scores.fit
            means = np.column_stack([scores.shares, fit.intercepts, fit.coefficients, fit.slopes])
            return self._fields(means, None, fit.waves if operator is None else operator)
        if isinstance(scores, Gaussians):
            means, factors = scores.means, scores.factors.tolist()
        elif isinstance(scores, Parzen):
            means, factors = np.concatenate([scores.means.real, scores.means.imag], axis=1), None
        else:
            raise TypeError("a classifier with several Gaussians per class cannot be saved: save its sketches_")
        return self._fields(means, factors, operator)

    def _fields(self, means: Double, factors: Any, operator: Operator | None) -> Document:
        return {
            "rule": self.rule,
            "labels": list(self.labels),
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
    """How k classes score, for d columns; an operator of one Gaussian per class is there for its map."""
    if document["rule"] == "kernel":
        return _regressions(document, k, d, operator)
    inner = operator.inner if isinstance(operator, Mapped) else operator
    if not (operator is None or isinstance(operator, Mapped) or isinstance(inner, FourierFeatures)):
        raise ValueError(f"no classifier compares rows by {type(operator).__name__}")
    if isinstance(inner, FourierFeatures):
        parts = numbers_of(document, "means", (k, 2 * inner.n_frequencies))
        real, imaginary = np.split(parts, 2, axis=1)
        scores: Parzen | Gaussians = Parzen(inner, real + 1j * imaginary)
    else:
        d = d if inner is None else inner.n_features
        factors = numbers_of(document, "factors", (k, d, d))
        if np.any(np.diagonal(factors, axis1=1, axis2=2) <= 0):
            raise ValueError("the diagonals of all factors must be positive")
        scores = Gaussians(numbers_of(document, "means", (k, d)), np.tril(factors))
    return AfterMap(operator, scores) if isinstance(operator, Mapped) else scores


def _regressions(document: Document, k: int, d: int, operator: Operator | None) -> Regressions | AfterMap:
    """Of each class its share, and the intercept, coefficients and slopes of its probability."""
    waves = operator
    if isinstance(operator, Mapped) and isinstance(operator.inner, FeatureMoments):
        waves, d = operator.inner.crossed, operator.inner.n_features
    if not isinstance(waves, FourierFeatures) or waves.subsample is not None:
        raise ValueError("a classifier by regression needs Fourier features without subsample")
    numbers = numbers_of(document, "means", (k, 2 + waves.n_sums + d))
    shares, intercepts, coefficients, slopes = np.split(numbers, [1, 2, 2 + waves.n_sums], axis=1)
    if np.any(shares <= 0):
        raise ValueError("the classes' shares must be positive")
    unknown = np.zeros(k)
    fit = KernelFit(waves, intercepts[:, 0], coefficients, slopes, unknown, unknown, 0.0, 0.0, flat=False)
    found = Regressions(fit, shares[:, 0])
    return AfterMap(operator, found) if isinstance(operator, Mapped) else found
