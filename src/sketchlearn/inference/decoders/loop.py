"""The loop that all decoders share: start, step, when to stop, and what is returned."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace
from enum import Enum
from typing import ClassVar

import numpy as np

from sketchlearn.core.errors import Parameter, called
from sketchlearn.core.messages import in_digits
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.distributions import Mixture
from sketchlearn.kernels.dispatch import one_blas_thread

FEW_CLUSTERS = 20
MOST_STEPS = 100
EXPLAINED = 1.25  # misfit; the floor is an average, and twenty draws of a mixture scattered from 0.9 to 1.13 of it
PATIENCE = 2  # steps at full size that may fail to lower the cost

Progress = Callable[[str], None]


class Status(Enum):
    """How a decoder ended."""

    EXPLAINED = "the mixture explains the sketch up to sampling noise"
    REFINED = "the search ended; the sketch holds more detail than the mixture has"
    STALLED = "no new component lowered the cost"
    ALL_ROWS = "the result is that of all rows: they were few enough to be kept"
    ROWS = "the result is that of some rows, reweighted until they agree with the sketch"
    ATOMS = "the clusters are those of points that agree with the sketch: no mixture explains it"
    CELLS = "the clusters are those of cells, whose means over all records are exact"
    STEP = "a pilot fitted on a sample, then exact steps on all records"
    UNJUDGED = "the result cannot be judged: there are too few records for this many parameters"
    HIDDEN = "the noise of the private release hides the clusters: one Gaussian explains the sketch as well"

    @property
    def advice(self) -> str:
        """What may help."""
        match self:
            case Status.REFINED:
                return "if the result is poor, try more components or more frequencies"
            case Status.STALLED:
                scale = f"another scale ({called('explain')} tells which way)"
                return f"try more frequencies, {scale}, or another {Parameter('random_state')}"
            case Status.UNJUDGED:
                return "keep or give rows beside the sketch, or ask for fewer clusters"
            case Status.HIDDEN:
                release = "release more records at once, with a larger epsilon, with delta > 0"
                return f"{release}, or ask for fewer clusters"
            case _:
                return ""


NOT_OF_GAUSSIANS = (Status.ALL_ROWS, Status.ROWS, Status.ATOMS, Status.CELLS, Status.STEP)


@dataclass(frozen=True, repr=False)
class Outcome:
    """A fitted mixture in the problem's units, and how well it explains the sketch."""

    mixture: Mixture
    cost: float
    misfit: float  # mean squared residual, in units of sampling noise: near or below 1, the sketch asks for no more
    iterations: int
    status: Status

    @property
    def residual(self) -> float:
        """Root mean square of what the mixture leaves of the sketch."""
        return float(self.cost**0.5)

    @property
    def misfit_in_words(self) -> str:
        """The misfit, and what it is of where the clusters are no Gaussians: there, a large one is nothing bad."""
        figure = f"misfit {in_digits(self.misfit)}"
        return (
            f"{figure} of a Gaussian for each cluster, which need not fit"
            if self.status in NOT_OF_GAUSSIANS
            else figure
        )

    @property
    def advice(self) -> str:
        """What to try if the result is poor."""
        return self.status.advice

    def __repr__(self) -> str:
        parts = f"{len(self.mixture):,} components, misfit {self.misfit:.3g}, {self.iterations:,} iterations"
        return f"<Outcome: {parts}; {self.status.value}>"


@dataclass
class State:
    """Where a decoder stands."""

    mixture: Mixture
    cost: float = np.inf
    iterations: int = 0
    finished: bool = False  # nothing is left to do


class Decoder(ABC):
    """An algorithm from a sketch to a mixture: a state, and a step that takes it further."""

    #: takes turns with this one, where a small sketch leaves one search unsure
    other: Decoder | None = None
    #: finds points: clusters of k-means, but no density
    points: ClassVar[bool] = False

    def start(self, problem: Problem, rng: np.random.Generator) -> State:  # noqa: ARG002
        """The state before the first step."""
        return State(problem.start)

    @abstractmethod
    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        """One round."""


def decode(
    decoder: Decoder,
    problem: Problem,
    rng: np.random.Generator,
    *,
    progress: Progress | None = None,
    start: Outcome | None = None,
    steps: int = MOST_STEPS,
) -> Outcome:
    """Steps until the sketch is explained, the decoder has finished, or patience ends; the best state counts.

    They may start from an outcome that is known.
    """
    with one_blas_thread():
        known = start and State(start.mixture, start.cost, start.iterations)
        state = best = known or decoder.start(problem, rng)
        status, failures, explained = Status.REFINED, 0, False
        # among many clusters, the misfit of the whole would not tell of two that were taken for one
        enough = problem.n_components * (1 if problem.n_components <= FEW_CLUSTERS else 2)
        for _ in range(steps):
            state = decoder.step(problem, state, rng)
            full = len(state.mixture) >= problem.n_atoms
            if len(state.mixture) > len(best.mixture) or state.cost < 0.999 * best.cost:
                best, failures = state, 0
            elif full:
                failures += 1
                state = replace(best, iterations=state.iterations, finished=state.finished)
            if progress:
                progress(f"{len(best.mixture)} components, misfit {problem.misfit(best.cost):.3g}")
            explained = len(best.mixture) >= min(enough, problem.n_atoms) and problem.misfit(best.cost) <= EXPLAINED
            # noise also hides what a wrong mixture leaves
            if state.finished or (explained and not problem.target.released):
                break
            if full and failures >= PATIENCE:
                status = Status.STALLED
                break
    status = Status.EXPLAINED if explained else status
    return Outcome(best.mixture, best.cost, problem.misfit(best.cost), state.iterations, status)
