"""What every model file says, of whatever type the model is."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.ledger import Ledger
from sketchlearn.operators.base import check_columns
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.values import shortened

Document = dict[str, Any]


def known_of(estimator: SketchEstimator) -> Document:
    """What every file says."""
    content: Document = {
        "n_features": int(estimator.n_features_in_),
        "columns": _columns_of(estimator),
        "n_records": _records_of(estimator),
    }
    return content if estimator.privacy_ is None else {**content, "privacy": estimator.privacy_.to_json()}


def with_known(estimator: Any, document: Document, d: int) -> SketchEstimator:
    """The estimator with what every file says."""
    estimator.n_features_in_ = d
    estimator.columns_ = check_columns(document["columns"], d)
    if estimator.columns_ is not None:  # rows with other names, or in another order, are refused
        estimator.feature_names_in_ = np.array(estimator.columns_, object)
    estimator.n_records_ = _count(document["n_records"])
    estimator._privacy = Ledger.from_json(document["privacy"]) if "privacy" in document else None
    return estimator


def _columns_of(estimator: SketchEstimator) -> list[str] | None:
    named = getattr(estimator, "feature_names_in_", None)
    return None if named is None else [str(name) for name in named]


def _records_of(estimator: SketchEstimator) -> int | float:
    if estimator._sketch is not None:
        return estimator._sketch.count
    return getattr(estimator, "n_records_", 0)


def _count(number: Any) -> int | float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < 2**80:
        raise ValueError(f"n_records must be a number of records, not {shortened(number)}")
    return number
