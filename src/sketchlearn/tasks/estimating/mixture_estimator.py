"""What mixtures learned from a sketch share: parameters, probabilities of components, samples."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import DensityMixin

from sketchlearn.models import Mixture
from sketchlearn.tasks.estimating.component_estimator import DesignedEstimator
from sketchlearn.tasks.estimating.sketch_estimator import Double


class SketchMixture(DensityMixin, DesignedEstimator):
    """A mixture of `n_components` distributions; each kind says how to learn it and what its densities are."""

    n_components: int

    @property
    def _n_components(self) -> int:
        return self.n_components

    @property
    def _mixture(self) -> Mixture:
        mixture: Mixture = self.fitted_model().mixture
        return mixture

    @property
    def weights_(self) -> Double:
        return self._mixture.weights

    @property
    def means_(self) -> Double:
        return self._mixture.locations

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

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int64]:
        """`fit`, then the likeliest component of each row."""
        return self.fit(X, y).predict(X)

    def sample(self, n_samples: int = 1) -> tuple[Double, NDArray[np.int64]]:
        """Random rows of the mixture and the component of each."""
        return self._mixture.sample(n_samples, self._generator())
