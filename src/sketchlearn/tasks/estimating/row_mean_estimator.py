"""Estimators of clusters and mixtures that say how well these fit the rows that were sketched, and how sure that is."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.decoders import Problem, Status, Target
from sketchlearn.kernel import one_blas_thread
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.estimating.component_estimator import DesignedEstimator
from sketchlearn.tasks.estimating.fitted_model import Document, Double
from sketchlearn.tasks.estimating.fitted_state import FittedState, IncomingRows
from sketchlearn.uncertainty.error_bars import RowMean
from sketchlearn.uncertainty.fitted_optimism import fitted_optimism
from sketchlearn.uncertainty.known_means import KnownMeans
from sketchlearn.uncertainty.mean_of_density import mean_of_density
from sketchlearn.uncertainty.mean_over_rows import KEEP_ROWS, DrawnRows, estimated_mean
from sketchlearn.uncertainty.sketch_influence import hidden_by_noise
from sketchlearn.weighting.clusters_of_rows import RowSample, mixture_near, rough_centers
from sketchlearn.weighting.weighted_rows import WeightedRows

ROWS_OF_ATOMS = 5000  # drawn near the atoms, to look for a mixture there
NEVER_MEASURED = "a model file of an earlier version does not say it: learn the model again, or score rows"


@dataclass(eq=False, repr=False)
class RowMeanEstimator(DesignedEstimator):
    """An estimator that knows the mean over all sketched rows of what each row costs, or of how likely it is.

    From the rows themselves where they were at hand; from rows beside the sketch, which knows the means of features
    over all rows; or from the sketch alone, where the density that was learned explains it.
    """

    @abstractmethod
    def row_values(self, model: Any, rows: Double) -> Double:
        """What is averaged, row by row."""

    @abstractmethod
    def distance_units(self, model: Any) -> Double:
        """The units in which distances from centers count, column by column."""

    @abstractmethod
    def fitted_again(self, model: Any, sample: WeightedRows) -> Callable[[Double], Double]:
        """What is averaged, as a function of rows, under the model near this one that suits weighted rows best."""

    def share_of_rows(self, sketch: Sketch, n_rows: int) -> float:  # noqa: ARG002
        """How much of a model that was fitted to rows is owed to those."""
        return 1.0

    def row_mean(self) -> RowMean:
        """The mean over all sketched rows, found when it is first asked for, and why it is withheld, if it is."""
        self.fitted_model()
        state = self._state
        assert state is not None
        if state.row_mean is None:
            if not state.has_rows:
                return RowMean(withheld=NEVER_MEASURED)
            state = self._state = replace(state, row_mean=self._find_row_mean(state))
        assert state.row_mean is not None
        return state.row_mean

    @abstractmethod
    def measured(self) -> tuple[str, RowMean]:
        """What is told of the mean, with its error: under which name, and in the units of that."""

    def certainty_facts(self) -> Document:
        found = self.row_mean()
        facts = super().certainty_facts()
        return facts if found.withheld == NEVER_MEASURED else {**facts, "row_mean": found.to_json()}

    def _told(self, name: str, number: float | None) -> float | None:
        """A number of the row mean, with a warning where there is none."""
        if number is None:
            warn_caller(f"{name} is withheld: {self.row_mean().withheld}")
        return number

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        """The state after learning; rows that were given are used once more before they are dropped."""
        if state.given_rows is not None:
            state = replace(state, row_mean=self._find_row_mean(state))
        return super()._after_learning(state, incoming)

    def _find_row_mean(self, state: FittedState) -> RowMean:
        with one_blas_thread():
            return self._estimated(state.sketch, state, self._generator())

    def _estimated(self, sketch: Sketch, state: FittedState, rng: np.random.Generator) -> RowMean:
        model, given = state.model, state.given_rows
        known = KnownMeans.of(sketch, model.centers_of_parts, self.distance_units(model))
        drawn = DrawnRows.kept(sketch) if given is None else DrawnRows.sampled(given.rows.rows, float(sketch.count))
        if drawn is None:
            return self._of_density(sketch, model, known, rng)
        optimism = None
        if model.outcome.status is Status.ROWS:
            share = self.share_of_rows(sketch, len(drawn.rows))
            optimism = share * fitted_optimism(sketch, drawn, partial(self.fitted_again, model), rng)
        return estimated_mean(known, drawn, self.row_values(model, drawn.rows), optimism)

    def _of_density(self, sketch: Sketch, model: Any, known: KnownMeans, rng: np.random.Generator) -> RowMean:
        """The mean from the sketch alone."""
        target, density = Target.of(sketch), model.density if model.outcome.status is Status.EXPLAINED else None
        if hidden := hidden_by_noise(target, len(model.weights)):
            return RowMean(withheld=hidden)
        if model.outcome.status is Status.ATOMS:  # they assume no law, but a mixture near them may explain the sketch
            sample = RowSample(WeightedRows.of(model.density.sample(ROWS_OF_ATOMS, rng)[0]), self.distance_units(model))
            problem = Problem.of(target, len(model.weights))
            near = mixture_near(problem, sample, rough_centers(sample, problem.n_components, rng))
            density = problem.in_data_units(near.mixture.heavy()) if near.status is Status.EXPLAINED else None
        if density is not None:
            ratio, values = target.noise / target.sampling, partial(self.row_values, model)
            found = mean_of_density(known, density, values, float(sketch.count), ratio, rng)
            if found is not None:
                return found
        remedy = f"{KEEP_ROWS}, or give some with sample=rows"
        if sketch.ledger is not None:
            remedy = "give public rows that are like the private ones with sample=rows and assume_public_sample=True"
        return RowMean(withheld=f"a sketch alone tells it where a density explains all of it, and none does: {remedy}")
