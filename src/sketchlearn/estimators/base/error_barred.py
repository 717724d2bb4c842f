"""Estimators whose attributes have standard errors and confidence intervals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from scipy.special import ndtri

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import warn_caller
from sketchlearn.core.values import number
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.estimators.base.model import Document
from sketchlearn.estimators.base.state import FittedState
from sketchlearn.inference.errors.influence import UndeterminedError
from sketchlearn.inference.errors.values import ErrorBars
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.sketch.sums import Sketch

WRITTEN_BEFORE = "the model's file was written before models had standard errors: learn it again from its sketch"


@dataclass(eq=False, repr=False)
class ErrorBarredEstimator(SketchEstimator):
    """An estimator with standard errors; each task says how they are found."""

    #: With fewer, 62 to 82 % of 95 % intervals held the truth (k-means and principal components of 3 to 10 records).
    least_records: ClassVar[int] = 30

    @abstractmethod
    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        """The standard errors of the state's model; `UndeterminedError` says why there are none."""

    @property
    def standard_errors_(self) -> dict[str, Double]:
        """Standard errors of the numbers of each attribute, by the attribute's name.

        An attribute is missing if its errors cannot be estimated, and a warning says why.
        """
        bars = self.error_bars()
        if bars.withheld:
            warn_caller(f"standard errors are not reported, because {bars.withheld}")
        return dict(bars.standard_errors)

    def intervals(self, level: float = 0.95) -> dict[str, tuple[Double, Double]]:
        """Lower and upper ends of confidence intervals of this level, by the attribute's name."""
        if not 0 < number("level", level) < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level!r}")
        away = ndtri((1 + level) / 2)
        errors = self.standard_errors_
        return {name: (getattr(self, name) - away * e, getattr(self, name) + away * e) for name, e in errors.items()}

    def error_bars(self) -> ErrorBars:
        """The standard errors, computed when they are first requested, and why some are not reported."""
        self.fitted_model()
        assert self._state is not None
        found = self._state.error_bars
        if found is None:
            found = self._computed(self._state)
            self._state = replace(self._state, error_bars=found)
        return found

    def _computed(self, state: FittedState) -> ErrorBars:
        if state.sketch is None:
            return ErrorBars(withheld=WRITTEN_BEFORE)
        if self.n_records_ < self.least_records:
            return ErrorBars(
                withheld=f"intervals of fewer than {self.least_records} records contain the truth too rarely, and "
                f"there are {self.n_records_:,.0f}: learn from more"
            )
        try:
            with one_blas_thread():
                return self.find_error_bars(state, self._generator())
        except UndeterminedError as reason:
            return ErrorBars(withheld=str(reason))

    @property
    def sketch_(self) -> Sketch:
        """The sketch of all rows so far, without its sample of rows."""
        return super().sketch_.without_rows()

    def sketch_with_rows(self) -> Sketch:
        """The sketch of all rows so far, with its sample of rows, which are personal data."""
        sketch: Sketch = self._sketched_state().sketch
        return sketch.copy()

    def certainty_facts(self) -> Document:
        return {**super().certainty_facts(), "error_bars": self.error_bars().to_json()}
