"""What the files of classes say."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.operators import FourierFeatures, Operator
from sketchlearn.operators.composed_operators import Mapped
from sketchlearn.storage.json_documents import numbers_of
from sketchlearn.storage.sketch_files import operator_from
from sketchlearn.tasks.classes.class_rules import AfterMap, Classes, OneGaussian, Parzen, Rule
from sketchlearn.tasks.classes.gaussian_discriminant import Gaussians
from sketchlearn.tasks.estimating.labelled_estimator import check_labels
from sketchlearn.values import whole

Document = dict[str, Any]


def content_of(fitted: Classes, labels: list[Any]) -> Document:
    """The fields of classes and their labels."""
    if not all(isinstance(label, str | int | float) for label in labels):
        raise TypeError("classes can be saved if their labels are words or numbers")
    form: Document = {"rule": fitted.rule, "labels": labels, "log_priors": fitted.log_priors.tolist()}
    scores = fitted.scores.scores if isinstance(fitted.scores, AfterMap) else fitted.scores
    operator = fitted.scores.operator.to_json() if isinstance(fitted.scores, AfterMap | Parzen) else None
    if isinstance(scores, OneGaussian):
        gaussians = scores.gaussians
        return {**form, "means": gaussians.means.tolist(), "factors": gaussians.factors.tolist(), "operator": operator}
    if isinstance(scores, Parzen):
        parts = np.concatenate([scores.means.real, scores.means.imag], axis=1)
        return {**form, "means": parts.tolist(), "factors": None, "operator": operator}
    raise TypeError("a classifier with several Gaussians per class cannot be saved: save its sketches_")


def classes_of(document: Document, n_features: int) -> tuple[Classes, tuple[Any, ...]]:
    """The classes that a file describes, and their labels."""
    labels = document["labels"]
    check_labels(labels)
    k = whole("the number of classes", len(labels), 2)
    operator = None if document["operator"] is None else operator_from(document["operator"], "a classifier")
    if operator is not None and operator.n_features != n_features:
        raise ValueError(f"the operator is for {operator.n_features} columns, not {n_features}")
    scores = _scores(document, k, n_features, operator)
    log_priors = numbers_of(document, "log_priors", (k,))
    return Classes(document["rule"], scores, tuple(map(float, range(k))), log_priors), tuple(labels)


def _scores(document: Document, k: int, d: int, operator: Operator | None) -> Rule:
    """How k classes score, for d columns; an operator of one Gaussian per class is there for its map."""
    inner = operator.inner if isinstance(operator, Mapped) else operator
    if not (operator is None or isinstance(operator, Mapped) or isinstance(inner, FourierFeatures)):
        raise ValueError(f"no classifier compares rows by {type(operator).__name__}")
    if isinstance(inner, FourierFeatures):
        parts = numbers_of(document, "means", (k, 2 * inner.n_frequencies))
        real, imaginary = np.split(parts, 2, axis=1)
        scores: Parzen | OneGaussian = Parzen(inner, real + 1j * imaginary)
    else:
        d = d if inner is None else inner.n_features
        factors = numbers_of(document, "factors", (k, d, d))
        if np.any(np.diagonal(factors, axis1=1, axis2=2) <= 0):
            raise ValueError("the diagonals of all factors must be positive")
        scores = OneGaussian(Gaussians(numbers_of(document, "means", (k, d)), np.tril(factors)))
    return AfterMap(operator, scores) if isinstance(operator, Mapped) else scores
