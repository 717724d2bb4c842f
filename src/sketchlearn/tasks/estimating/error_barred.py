"""Estimators whose attributes have standard errors and intervals."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace

import numpy as np
from scipy.special import ndtri

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import Double
from sketchlearn.tasks.estimating.fitted_model import Document
from sketchlearn.tasks.estimating.fitted_state import FittedState
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.sketch_influence import UndeterminedError
from sketchlearn.values import number


@dataclass(eq=False, repr=False)
class ErrorBarredEstimator(SketchEstimator):
    """An estimator that says how sure its attributes are; each task says how it finds that out."""

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
            return ErrorBars(withheld="the model file has none: fit the sketch again, and save the model")
        try:
            with one_blas_thread():
                return self.find_error_bars(state, self._generator())
        except UndeterminedError as reason:
            return ErrorBars(withheld=str(reason))

    def certainty_facts(self) -> Document:
        return {**super().certainty_facts(), "error_bars": self.error_bars().to_json()}
