"""What the files of components, subspaces and regressions say, beside what all models say."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from sketchlearn.storage.json_documents import numbers_of
from sketchlearn.tasks.classes import class_contents
from sketchlearn.tasks.classes.classifier_estimator import SketchClassifier
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.tasks.independent_components.ica_estimator import SketchICA
from sketchlearn.tasks.independent_components.independent_fit import Independent
from sketchlearn.tasks.principal_components.pca_estimator import SketchPCA
from sketchlearn.tasks.principal_components.principal_subspace import Subspace
from sketchlearn.tasks.regression.least_squares import LinearFit
from sketchlearn.tasks.regression.regression_estimators import SketchLinearRegression, SketchRidge
from sketchlearn.tasks.subspaces.subspace_estimator import SketchSubspaces
from sketchlearn.tasks.subspaces.union_of_subspaces import Subspaces
from sketchlearn.values import truth, whole

Document = dict[str, Any]


@dataclass(frozen=True)
class Kind:
    """A type of model: its estimator, the fields of its own, and how they are written and read.

    `content` gives the fields of an estimator, `estimator_of` the estimator of a document for d columns.
    """

    estimator: type[SketchEstimator]
    fields: frozenset[str]
    content: Callable[[Any], Document]
    estimator_of: Callable[[Document, int], SketchEstimator]


PCA = ("mean", "components", "variances", "total", "residual")
ICA = ("mean", "components", "whitening", "evidence")
SUBSPACES = ("origin", "bases", "weights", "noise_variance", "residual", "misfit")
LINEAR = ("coefficients", "intercepts", "standard_errors", "intercept_errors", "r2", "penalty", "rank", "flat")


def _plain(value: Any) -> Any:
    """Arrays as lists of numbers, also within tuples."""
    if isinstance(value, tuple):
        return [_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _named(*names: str) -> Callable[[Any], Document]:
    """Fields that are called as in the fitted model."""
    return lambda estimator: {name: _plain(getattr(estimator._fitted(), name)) for name in names}


def _of_linear(estimator: SketchLinearRegression) -> Document:
    found = {name: getattr(estimator._fitted(), name) for name in LINEAR if name != "flat"}
    known = {name: _plain(np.nan_to_num(v, nan=-1.0) if isinstance(v, np.ndarray) else v) for name, v in found.items()}
    return {**known, "flat": estimator._flat}


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
        numbers_of(document, "origin", (d,)),
        tuple(one_by_one),
        numbers_of(document, "weights", (k,)),
        float(numbers_of(document, "noise_variance", ())),
        float(numbers_of(document, "residual", ())),
        float(numbers_of(document, "misfit", ())),
    )
    return estimator


def _linear(document: Document, d: int, *, ridge: bool = False) -> SketchEstimator:
    t = whole("the number of targets", len(document["intercepts"]))
    penalty = float(numbers_of(document, "penalty", ()))
    estimator = SketchRidge(penalty) if ridge else SketchLinearRegression()
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


KINDS: dict[str, Kind] = {
    "pca": Kind(SketchPCA, frozenset(PCA), _named(*PCA), _subspace),
    "ica": Kind(SketchICA, frozenset(ICA), _named(*ICA), _independent),
    "subspaces": Kind(SketchSubspaces, frozenset(SUBSPACES), _named(*SUBSPACES), _subspaces),
    "regression": Kind(SketchLinearRegression, frozenset(LINEAR), _of_linear, _linear),
    "ridge": Kind(SketchRidge, frozenset(LINEAR), _of_linear, partial(_linear, ridge=True)),
    "classifier": Kind(SketchClassifier, class_contents.FIELDS, class_contents.content, class_contents.estimator_of),
}
