"""What estimators of clusters and mixtures share: a sketch of Fourier features, designed for k components."""

from __future__ import annotations

import numbers
import warnings
from abc import abstractmethod
from dataclasses import replace
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.decoders import Decoder, Outcome, decoder_from
from sketchlearn.designing import design
from sketchlearn.designing.sample import rows_wanted
from sketchlearn.estimators.base import Glimpse, SketchEstimator
from sketchlearn.operators import FourierFeatures


class DesignedEstimator(SketchEstimator):
    """An estimator of k components, which a decoder finds in a sketch of Fourier features."""

    decoder: str | Decoder
    n_frequencies: int | None
    wave: Any

    @property
    @abstractmethod
    def _n_components(self) -> int:
        """How many clusters or components are asked for."""

    @property
    def _task(self) -> str:
        """What the operator is designed for."""
        return "kmeans"

    @property
    def _most_rows(self) -> int:  # type: ignore[override]
        return rows_wanted(self._task)

    @property
    def outcome_(self) -> Outcome:
        """How decoding went: residual, misfit, iterations, status, advice."""
        outcome: Outcome = self._fitted().outcome
        return outcome

    def _check_parameters(self) -> None:
        k = self._n_components
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
            raise ValueError(f"the number of clusters or components must be a positive whole number, not {k!r}")
        decoder_from(self.decoder)

    def _check_size(self, n_rows: int) -> None:
        if n_rows < self._n_components:
            raise ValueError(
                f"n_samples={n_rows} rows cannot have {self._n_components} clusters: ask for fewer clusters"
            )

    def _design(self, glimpse: Glimpse, rng: np.random.Generator) -> FourierFeatures:
        everything, k = glimpse.everything, self._n_components
        if everything is not None and everything.n_rows == len(glimpse.rows):
            distinct = len(np.unique(glimpse.rows, axis=0))
            if distinct < k:
                warnings.warn(
                    f"there are only {distinct} distinct rows for {k} clusters: some of them coincide",
                    ConvergenceWarning,
                    stacklevel=4,
                )
        operator = design(
            glimpse.rows,
            n_components=k,
            task=self._task,
            representative=glimpse.representative,
            n_frequencies=self.n_frequencies,
            wave=self.wave,
            seed=int(rng.integers(2**31)),
        )
        return replace(operator, columns=glimpse.columns)
