"""What estimators of clusters share: each row belongs to the nearest one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin

from sketchlearn.sources import is_array, source
from sketchlearn.tasks.estimating.fitted_model import Double
from sketchlearn.tasks.estimating.fitted_state import FittedState, IncomingRows
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator


def array_blocks(rows: Any) -> Iterable[NDArray[Any]]:
    """An array as one block, a sparse matrix in blocks."""
    return [rows] if isinstance(rows, np.ndarray) else (block.rows for block in source(rows).blocks())


class NearestClusters(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, SketchEstimator):
    """An estimator whose model tells the `nearest` cluster of rows, and their `distances` to all clusters."""

    @property
    def labels_(self) -> NDArray[np.int32]:
        labels = None if self._state is None else self._state.row_labels
        if labels is None:
            raise AttributeError(
                "labels_ are there after fit on an array or a data frame, if no row was left out: predict tells others"
            )
        return labels

    @property
    def _n_features_out(self) -> int:
        return len(self.fitted_model().weights)

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        state = super()._after_learning(state, incoming)
        if incoming is None or incoming.array is None:
            return state
        return self._with_array(state, incoming.array, incoming.rows.weights)

    def _with_array(self, state: FittedState, rows: Any, weights: Any) -> FittedState:  # noqa: ARG002
        """The state with what the model says of an array of rows that was fitted."""
        labels = map(state.model.nearest, array_blocks(rows))
        return replace(state, row_labels=np.concatenate([np.empty(0, np.int32), *labels]))

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The nearest cluster of each row."""
        model = self.fitted_model()
        return np.concatenate([np.empty(0, np.int32), *map(model.nearest, self.row_blocks(X))])

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int32]:
        """`fit`, then the cluster of each row."""
        fitted = self.fit(X, y, sample_weight)
        return fitted.labels_ if is_array(X) else fitted.predict(X)

    def transform(self, X: Any) -> Double:
        """Distances of each row to each cluster."""
        model = self.fitted_model()
        return np.concatenate([np.empty((0, len(model.weights))), *map(model.distances, self.row_blocks(X))])
