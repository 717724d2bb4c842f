"""What the files of components, subspaces, regressions and classes say, beside what all models say."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.decoders.discriminant import Gaussians
from sketchlearn.decoders.independent import Independent
from sketchlearn.decoders.least_squares import LinearFit
from sketchlearn.decoders.subspace import Subspace
from sketchlearn.decoders.subspaces import Subspaces
from sketchlearn.documents import numbers_of
from sketchlearn.estimators.base import SketchEstimator
from sketchlearn.estimators.classifier import SketchClassifier
from sketchlearn.estimators.ica import SketchICA
from sketchlearn.estimators.pca import SketchPCA
from sketchlearn.estimators.regression import SketchLinearRegression, SketchRidge
from sketchlearn.estimators.rules import AfterMap, Classes, OneGaussian, Parzen, Rule
from sketchlearn.estimators.subspaces import SketchSubspaces
from sketchlearn.operators import FourierFeatures, Operator
from sketchlearn.operators.mapped import Mapped
from sketchlearn.values import truth, whole

Document = dict[str, Any]

LINEAR = {"coefficients", "intercepts", "standard_errors", "intercept_errors", "r2", "penalty", "rank", "flat"}
#: each type of model, and the fields of its own
TYPES: dict[str, tuple[type[SketchEstimator], set[str]]] = {
    "ica": (SketchICA, {"mean", "components", "whitening", "evidence"}),
    "pca": (SketchPCA, {"mean", "components", "variances", "total", "residual"}),
    "subspaces": (SketchSubspaces, {"origin", "bases", "weights", "noise_variance", "residual", "misfit"}),
    "regression": (SketchLinearRegression, LINEAR),
    "ridge": (SketchRidge, LINEAR),
    "classifier": (SketchClassifier, {"rule", "labels", "log_priors", "means", "factors", "operator"}),
}


def content(estimator: SketchEstimator) -> Document:
    """The fields of an estimator's own."""
    fitted = estimator._fitted()
    if isinstance(fitted, Subspace):
        return {
            "mean": fitted.mean.tolist(),
            "components": fitted.components.tolist(),
            "variances": fitted.variances.tolist(),
            "total": fitted.total,
            "residual": fitted.residual,
        }
    if isinstance(fitted, Independent):
        return {name: getattr(fitted, name).tolist() for name in ("mean", "components", "whitening", "evidence")}
    if isinstance(fitted, Subspaces):
        return {
            "origin": fitted.origin.tolist(),
            "bases": [basis.tolist() for basis in fitted.bases],
            "weights": fitted.weights.tolist(),
            "noise_variance": fitted.noise_variance,
            "residual": fitted.residual,
            "misfit": fitted.misfit,
        }
    if isinstance(estimator, SketchLinearRegression):
        arrays = ("coefficients", "intercepts", "standard_errors", "intercept_errors", "r2")
        return {
            **{name: np.nan_to_num(getattr(fitted, name), nan=-1.0).tolist() for name in arrays},
            "penalty": fitted.penalty,
            "rank": fitted.rank,
            "flat": estimator._flat,
        }
    return _classes(estimator, fitted)


def _classes(estimator: SketchClassifier, fitted: Classes) -> Document:
    labels = [estimator._label_of(code) for code in fitted.codes]
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


def estimator_of(name: str, document: Document, d: int) -> SketchEstimator:
    """The estimator that a file describes."""
    if name == "pca":
        return _subspace(document, d)
    if name == "ica":
        return _independent(document, d)
    if name == "subspaces":
        return _subspaces(document, d)
    if name == "classifier":
        return _classifier(document, d)
    return _linear(name, document, d)


def _subspace(document: Document, d: int) -> SketchEstimator:
    k = whole("the number of components", len(document["variances"]), most=d)
    estimator = SketchPCA(k)
    total, residual = (float(numbers_of(document, field, ())) for field in ("total", "residual"))
    estimator._model = Subspace(
        max(float(document["n_records"]), 1.0),
        numbers_of(document, "mean", (d,)),
        numbers_of(document, "components", (k, d)),
        numbers_of(document, "variances", (k,)),
        total,
        residual,
    )
    if total <= 0:
        raise ValueError("total must be positive")
    return estimator


def _independent(document: Document, d: int) -> SketchEstimator:
    k = whole("the number of components", len(document["evidence"]), most=d)
    estimator = SketchICA(k)
    estimator._model = Independent(
        max(float(document["n_records"]), 1.0),
        numbers_of(document, "mean", (d,)),
        numbers_of(document, "components", (k, d)),
        numbers_of(document, "whitening", (k, d)),
        numbers_of(document, "evidence", (k,)),
    )
    return estimator


def _subspaces(document: Document, d: int) -> SketchEstimator:
    bases = document["bases"]
    if not isinstance(bases, list) or not all(isinstance(basis, list) for basis in bases):
        raise ValueError("bases must be a list of matrices")
    dimensions = [whole("the dimension of a subspace", len(basis), most=d) for basis in bases]
    k = whole("the number of subspaces", len(dimensions))
    estimator = SketchSubspaces(k, dimensions[0] if len(set(dimensions)) == 1 else dimensions)
    one_by_one = [numbers_of({"bases": basis}, "bases", (p, d)) for basis, p in zip(bases, dimensions, strict=True)]
    estimator._model = Subspaces(
        max(float(document["n_records"]), 1.0),
        numbers_of(document, "origin", (d,)),
        tuple(one_by_one),
        numbers_of(document, "weights", (k,)),
        float(numbers_of(document, "noise_variance", ())),
        float(numbers_of(document, "residual", ())),
        float(numbers_of(document, "misfit", ())),
    )
    return estimator


def _linear(name: str, document: Document, d: int) -> SketchEstimator:
    t = whole("the number of targets", len(document["intercepts"]))
    penalty = float(numbers_of(document, "penalty", ()))
    estimator = SketchRidge(penalty) if name == "ridge" else SketchLinearRegression()
    known = {field: numbers_of(document, field, (t, d)) for field in ("coefficients", "standard_errors")}
    known |= {field: numbers_of(document, field, (t,)) for field in ("intercepts", "intercept_errors", "r2")}
    for field in ("standard_errors", "intercept_errors"):
        known[field] = np.where(known[field] < 0, np.nan, known[field])  # unknown
    estimator._flat = truth("flat", document["flat"])
    if estimator._flat and t > 1:
        raise ValueError("several targets cannot be flat")
    rank = whole("rank", document["rank"], 0, d)
    estimator._model = LinearFit(**known, penalty=penalty, rank=rank)
    return estimator


def _classifier(document: Document, d: int) -> SketchEstimator:
    labels = document["labels"]
    if not isinstance(labels, list) or not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError("labels must be a list of words or numbers")
    k = whole("the number of classes", len(labels), 2)
    estimator = SketchClassifier(document["rule"])
    estimator._check_parameters()
    operator = None if document["operator"] is None else Operator.from_json(document["operator"])
    if operator is not None and operator.n_features != d:
        raise ValueError(f"the operator is for {operator.n_features} columns, not {d}")
    scores = _scores(document, k, d, operator)
    estimator._labels, estimator._declared = tuple(labels), tuple(labels)
    log_priors = numbers_of(document, "log_priors", (k,))
    estimator._model = Classes(document["rule"], scores, tuple(map(float, range(k))), log_priors)
    return estimator


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
