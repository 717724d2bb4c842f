"""What the estimators share: rows become a sketch by a designed operator, and the sketch becomes a model."""

from __future__ import annotations

import numbers
import warnings
from abc import abstractmethod
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import BaseEstimator
from sklearn.exceptions import ConvergenceWarning, NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data
from threadpoolctl import threadpool_limits

from sketchlearn.decoders import Decoder, Outcome, decoder_from
from sketchlearn.designing import design
from sketchlearn.designing.sample import MOST_ROWS
from sketchlearn.operators import FourierFeatures
from sketchlearn.sketch import Sketch

Double = NDArray[np.float64]


class SketchEstimator(BaseEstimator):
    """An estimator that learns from a sketch: of all rows (`fit`), of batches (`partial_fit`), or a given one."""

    _sketch: Sketch | None = None
    _buffer: tuple[NDArray[Any], ...] = ()  # the first rows of a stream
    _model: Any = None
    decoder: str | Decoder
    n_frequencies: int | None
    wave: Any
    random_state: Any
    n_jobs: int | None
    verbose: int

    @property
    @abstractmethod
    def _n_components(self) -> int:
        """How many clusters or components are asked for."""

    @property
    def _task(self) -> str:
        """What the operator is designed for."""
        return "kmeans"

    @abstractmethod
    def _learn(self, sketch: Sketch, rng: np.random.Generator) -> Any:
        """The model of a sketch."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learns from rows, which are read once, after a small sample of them.

        Parameters
        ----------
        X : array of shape (rows, columns), float32 or float64.
        y : ignored.
        """
        rows = self._rows(X, reset=True)
        self._check_size(len(rows))
        rng = self._generator()
        some = rows if len(rows) <= MOST_ROWS else rows[np.sort(rng.choice(len(rows), MOST_ROWS, replace=False))]
        if len(rows) <= MOST_ROWS and (distinct := len(np.unique(rows, axis=0))) < self._n_components:
            warnings.warn(
                f"there are only {distinct} distinct rows for {self._n_components} clusters: some of them coincide",
                ConvergenceWarning,
                stacklevel=2,
            )
        operator = self._design(some, rng, representative=True)
        sketch = operator.sketch(rows, n_jobs=self.n_jobs, progress=bool(self.verbose))
        self._accept(sketch, self._learned(sketch, rng))
        self._after_fit(rows)
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Adds rows to those seen so far. The model is learned anew when it is next asked for.

        The operator is designed on the first 5000 rows, which are kept until then, with frequencies of many scales,
        so that first rows unlike the later ones do not mislead it; then it is fixed.
        """
        first = self._sketch is None and not self._buffer
        rows = self._rows(X, reset=first)
        if self._sketch is not None and not self._buffer:
            self._sketch.update(rows, n_jobs=self.n_jobs)
        else:
            self._buffer, self._sketch = (*self._buffer, rows.copy()), None
            if sum(map(len, self._buffer)) >= MOST_ROWS:
                self._sketch, self._buffer = self._sketch_of_buffer(), ()
        self._model = None
        self.__dict__.pop("labels_", None)
        return self

    def fit_sketch(self, sketch: Sketch) -> Self:
        """Learns from a sketch alone: of `design(...)`'s operator, of another estimator, merged or loaded."""
        if not isinstance(sketch, Sketch):
            raise TypeError(f"expected a Sketch, not {type(sketch).__name__}: rows go through fit(rows)")
        self._check_parameters()
        self._accept(sketch.copy(), self._learned(sketch, self._generator()))
        self.__dict__.pop("feature_names_in_", None)
        self.n_features_in_ = sketch.operator.n_features  # type: ignore[attr-defined]
        return self

    def _accept(self, sketch: Sketch, model: Any) -> None:
        """Takes over what was learned, all at once: an error before leaves the estimator as it was."""
        self.__dict__.pop("labels_", None)
        self._sketch, self._model, self._buffer = sketch, model, ()

    @property
    def sketch_(self) -> Sketch:
        """The sketch of all rows so far."""
        if self._sketch is None and not self._buffer:
            raise NotFittedError(f"this {type(self).__name__} has no sketch yet: fit it first")
        sketch = self._sketch if self._sketch is not None else self._sketch_of_buffer()
        self._sketch = sketch
        return sketch

    def _sketch_of_buffer(self) -> Sketch:
        rows = np.concatenate(self._buffer)
        operator = self._design(rows[:MOST_ROWS], self._generator(), representative=False)
        return operator.sketch(rows, n_jobs=self.n_jobs)

    def _learned(self, sketch: Sketch, rng: np.random.Generator) -> Any:
        # two BLAS pools of several threads wait for each other: 11 ms instead of 1.6 for one refinement step
        with threadpool_limits(1):
            return self._learn(sketch, rng)

    def _fitted(self) -> Any:
        """The model, learned now if rows were added since."""
        if self._model is None:
            check_is_fitted(self, "sketch_")
            self._model = self._learned(self.sketch_, self._generator())
        return self._model

    def _after_fit(self, rows: NDArray[Any]) -> None:
        """What `fit` adds that needs the rows."""

    @property
    def outcome_(self) -> Outcome:
        """How decoding went: residual, misfit, iterations, status, advice."""
        outcome: Outcome = self._fitted().outcome
        return outcome

    def _rows(self, X: Any, *, reset: bool) -> NDArray[Any]:
        self._check_parameters()
        rows: NDArray[Any] = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        return rows

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

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    def _design(self, rows: NDArray[Any], rng: np.random.Generator, *, representative: bool) -> FourierFeatures:
        return design(
            rows,
            n_components=self._n_components,
            task=self._task,
            representative=representative,
            n_frequencies=self.n_frequencies,
            wave=self.wave,
            seed=int(rng.integers(2**31)),
        )

    def _say(self, message: str) -> None:
        if self.verbose:
            Console(stderr=True, highlight=False).print(f"{type(self).__name__}: {message}")
