"""What mixtures learned from a sketch share: parameters, probabilities of components, samples."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import DensityMixin

from sketchlearn.plain_digits import in_digits
from sketchlearn.tasks.estimating.component_estimator import DesignedEstimator, FittedComponents
from sketchlearn.tasks.estimating.fitted_model import Document, Double, Known, model_array, saved, scalar
from sketchlearn.tasks.estimating.schema_rows import decoded_table
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.values import number


def _read_chance(name: str, value: Any, known: Known) -> float:  # noqa: ARG001
    if not 0 <= number(name, value) <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value}")
    return float(value)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedMixture(FittedComponents):
    """A mixture, and its fit test: 1 on average if records come from it, and the p-value, where it is known."""

    means: Double = model_array("k", "d")
    fit_test: float = scalar()
    fit_p_value: float | None = saved(_read_chance, float, optional=True, default=None)

    @property
    def centers_of_parts(self) -> Double:
        return self.means

    @property
    def fit_in_words(self) -> str:
        """The fit test in a few words."""
        if self.fit_test == 0.0:
            return "unknown: a sketch of cells has none"
        figure = f"{in_digits(self.fit_test, 3)} (about 1 if records come from such a mixture)"
        return figure if self.fit_p_value is None else f"{figure}, p-value {in_digits(self.fit_p_value, 2)}"


@dataclass(eq=False, repr=False)
class SketchMixture(DensityMixin, DesignedEstimator):
    """A mixture of `n_components` distributions; each kind says how to learn it and what its densities are."""

    n_components: int = 1

    means_ = model_attribute("means")
    fit_test_ = model_attribute("fit_test")
    fit_p_value_ = model_attribute("fit_p_value")

    @property
    def _n_components(self) -> int:
        return self.n_components

    @classmethod
    def parameters_of(cls, model: Any) -> Document:
        return {"n_components": len(model.weights)}

    @abstractmethod
    def _log_densities(self, rows: Double) -> Double:
        """Log-density of each component at each row: (rows, components)."""

    def _log_parts(self, X: Any) -> Double:
        """log(weight times density) of each row and component."""
        self.fitted_model()
        shares = np.log(np.maximum(self.weights_, 1e-300))
        parts = [self._log_densities(rows) + shares for rows in self.row_blocks(X, np.float64)]
        return np.concatenate(parts) if parts else np.empty((0, len(shares)))

    def score_samples(self, X: Any) -> Double:
        """Log-likelihood of each row."""
        return np.asarray(logsumexp(self._log_parts(X), axis=1))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Mean log-likelihood of the rows."""
        return float(np.mean(self.score_samples(X)))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The likeliest component of each row."""
        return np.argmax(self._log_parts(X), axis=1)

    def predict_proba(self, X: Any) -> Double:
        """The probability of each component, row by row."""
        parts = self._log_parts(X)
        return np.asarray(np.exp(parts - logsumexp(parts, axis=1, keepdims=True)))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int64]:
        """`fit`, then the likeliest component of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    def sample(self, n_samples: int = 1) -> tuple[Any, NDArray[np.int64]]:
        """Random rows of the mixture and the component of each.

        With a schema, the rows are in the terms of the table: a data frame, or an Arrow table without pandas.
        """
        rows, components = self.fitted_model().density.sample(n_samples, self._generator())
        return decoded_table(rows, self.columns_), components
