"""Estimators whose attributes have standard errors and intervals."""

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
    """An estimator that says how sure its attributes are; each task says how it finds that out."""

    #: With fewer, 62 to 82 % of 95 % intervals held the truth (k-means and principal components of 3 to 10 records).
    least_records: ClassVar[int] = 30

    @abstractmethod
    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        """The standard errors of what was learned from the state's sketch; `UndeterminedError` says why not."""

    @property
    def standard_errors_(self) -> dict[str, Double]:
        """One standard deviation of the numbers of each attribute, by the attribute's name.

        Where it cannot be told, an attribute is missing, and a warning says why.
        """
        bars = self.error_bars()
        if bars.withheld:
            warn_caller(f"standard errors are withheld: {bars.withheld}")
        return dict(bars.standard_errors)

    def intervals(self, level: float = 0.95) -> dict[str, tuple[Double, Double]]:
        """Lower and upper ends of intervals that hold the truth with this probability, by the attribute's name."""
        if not 0 < number("level", level) < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level!r}")
        away = ndtri((1 + level) / 2)
        errors = self.standard_errors_
        return {name: (getattr(self, name) - away * e, getattr(self, name) + away * e) for name, e in errors.items()}

    def error_bars(self) -> ErrorBars:
        """The standard errors, found when they are first asked for, and why some are withheld."""
        self.fitted_model()
        state = self._state
        assert state is not None
        if state.error_bars is None:
            state = replace(state, error_bars=self._found(state))
            self._state = state
        assert state.error_bars is not None
        return state.error_bars

    def _found(self, state: FittedState) -> ErrorBars:
        if state.sketch is None:
            return ErrorBars(withheld=WRITTEN_BEFORE)
        if self.n_records_ < self.least_records:
            return ErrorBars(
                withheld=f"intervals of fewer than {self.least_records} records hold the truth too seldom, and there "
                f"are {self.n_records_:,.0f}: learn from more"
            )
        try:
            with one_blas_thread():
                return self.find_error_bars(state, self._generator())
        except UndeterminedError as reason:
            return ErrorBars(withheld=str(reason))

    @property
    def sketch_(self) -> Sketch:
        """The sketch of all rows so far; rows that the estimator keeps are not in it."""
        return super().sketch_.without_rows()

    def sketch_with_rows(self) -> Sketch:
        """The sketch of all rows so far, with those that are kept beside it to learn from: they are personal data."""
        sketch: Sketch = self._sketched_state().sketch
        return sketch.copy()

    def certainty_facts(self) -> Document:
        return {**super().certainty_facts(), "error_bars": self.error_bars().to_json()}
