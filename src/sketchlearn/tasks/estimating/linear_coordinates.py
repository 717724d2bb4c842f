"""What principal and independent components share: coordinates of rows along directions, and back."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar

import numpy as np
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array

from sketchlearn.tasks.estimating.error_barred import ErrorBarredEstimator
from sketchlearn.tasks.estimating.fitted_model import Document, Double
from sketchlearn.tasks.estimating.schema_rows import decoded_table
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.values import whole


@dataclass(eq=False, repr=False)
class LinearCoordinates(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ErrorBarredEstimator):
    """An estimator whose model has `components`, a `mean`, and the `mixing` matrix that leads back to rows."""

    n_components: Any = None
    _: KW_ONLY
    bounds: Any = None

    components_ = model_attribute("components")
    mean_ = model_attribute("mean")
    kind_of_components: ClassVar[str]

    @classmethod
    def parameters_of(cls, model: Any) -> Document:
        return {"n_components": len(model.components)}

    def check_parameters(self) -> None:
        if self.n_components is not None:
            whole("n_components", self.n_components)

    def check_size(self, n_rows: int) -> None:
        least = max(2, math.ceil(self.n_components or 0))
        if n_rows < least:
            kind = self.kind_of_components
            raise ValueError(f"n_samples={n_rows} rows cannot have so many {kind} components: give at least {least}")

    def check_components(self, n_features: int) -> None:
        """Refuses more components than columns."""
        if self.n_components is not None and self.n_components > n_features:
            raise ValueError(f"n_components={self.n_components} must be at most the number of columns, {n_features}")

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def transform(self, X: Any) -> Double:
        """Coordinates of each row along the components."""
        found = self.fitted_model()
        parts = [(rows - found.mean) @ found.components.T for rows in self.row_blocks(X, np.float64)]
        return np.concatenate([np.empty((0, len(found.components))), *parts])

    def inverse_transform(self, X: Any) -> Any:
        """Rows of these coordinates; with a schema, a data frame in the terms of the table."""
        found, rows = self.fitted_model(), check_array(X, dtype=np.float64)
        if rows.shape[1] != len(found.components):
            raise ValueError(
                f"the rows have {rows.shape[1]} coordinates, but there are {len(found.components)} components"
            )
        return decoded_table(np.asarray(rows @ found.mixing.T + found.mean), self.columns_)
