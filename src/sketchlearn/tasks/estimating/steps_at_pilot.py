"""Estimators that fit a pilot on a sample and take exact steps of their algorithm on all records, one for each pass."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Protocol

from sklearn.exceptions import ConvergenceWarning

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.estimating.component_estimator import DesignedEstimator
from sketchlearn.tasks.estimating.fitted_state import FittedState, IncomingRows
from sketchlearn.values import whole

AUTO = "auto"


class Step(Protocol):
    """A step of the algorithm on all records of a sketch, from the pilot at which they were summed."""

    @property
    def gain(self) -> float:
        """By how much the step lowered what is minimised."""

    @property
    def gain_in_words(self) -> str:
        """The same, after "The last pass"."""

    @property
    def cost(self) -> float:
        """What is minimised, after the step, at most."""

    @property
    def n_parts(self) -> int:
        """Clusters or components with records."""

    @property
    def settled(self) -> bool:
        """Whether another step would gain less than is worth a pass."""

    @property
    def still(self) -> bool:
        """Whether nothing moves any more."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What to say of records that are unlike those of the pilot's sample."""

    def next_operator(self) -> Operator:
        """What records contribute to the step after this one."""


@dataclass(eq=False, repr=False)
class StepEstimator(DesignedEstimator):
    """An estimator of which each pass over the rows is a step of its algorithm: never worse than the pilot."""

    _: KW_ONLY
    n_passes: int | str = AUTO

    #: passes over rows in memory, at most
    most_passes = 100

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.n_passes, str) or self.n_passes != AUTO:
            whole("n_passes", self.n_passes)

    @abstractmethod
    def step_of(self, sketch: Sketch) -> Step | None:
        """The step that a sketch tells exactly; None for sketches of other features, or with noise."""

    @abstractmethod
    def model_of_step(self, step: Any, state: FittedState) -> Any:
        """The model after a step; the one before is in the state."""

    def at_model(self, step: Any, state: FittedState) -> Any:  # noqa: ARG002
        """The step, from which passes go on at the model of the state."""
        return step

    def rival_of(self, step: Any, state: FittedState) -> Operator | None:  # noqa: ARG002
        """The operator at another start, where rows that are kept tell of some that the pilot's sample lacked."""
        return None

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        if (found := self.step_of(state.sketch)) is not None:
            step = self.at_model(found, state)
            if incoming is not None:
                state, step = self._further_passes(state, step, incoming)
            for doubt in step.doubts:
                warn_caller(doubt, ConvergenceWarning)
        return super()._after_learning(state, incoming)

    def _further_passes(self, state: FittedState, step: Any, incoming: IncomingRows) -> tuple[FittedState, Any]:
        """More steps, a pass over the rows each."""
        auto = self.n_passes == AUTO
        most = int(self.n_passes) if not auto else self.most_passes if incoming.at_hand else 1
        if most == 1:
            return state, step
        if not incoming.replayable:
            raise ValueError("these rows can only be read once: leave out n_passes")
        if (rival := self.rival_of(step, state)) is not None:
            most -= 1
            if (other := self._pass_at(rival, state, incoming)) is not None and other[1].cost < step.cost:
                state, step = other
        for _ in range(most - 1):
            if step.still or (auto and step.settled):
                break
            if (after := self._pass_at(step.next_operator(), state, incoming)) is None:
                break
            state, step = after
        return state, step

    def _pass_at(
        self, operator: Operator, state: FittedState, incoming: IncomingRows
    ) -> tuple[FittedState, Any] | None:
        """The step at which all rows are summed by an operator; None where a center is nearest to no record."""
        self._say("another pass over the rows")
        sketch = self._sketched_by(operator.without_keeping(), incoming)
        sketch = replace(sketch, operator=operator, kept=state.sketch.kept)  # rows that were kept stay so
        step = self.step_of(sketch)
        if step is None or step.n_parts < len(state.model.weights):
            return None
        state = replace(state, sketch=sketch)
        return replace(state, model=self.model_of_step(step, state)), step
