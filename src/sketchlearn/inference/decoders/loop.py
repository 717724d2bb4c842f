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
from sketchlearn.inference.decoders.refinement import refine
from sketchlearn.inference.distributions import Mixture
from sketchlearn.kernels.dispatch import one_blas_thread

FEW_CLUSTERS = 20
MOST_STEPS = 100
EXPLAINED = 1.25  # misfit: the floor is an average, and twenty draws of a mixture scattered from 0.9 to 1.13 of it
PATIENCE = 2  # steps at full size that may fail to lower the cost

Progress = Callable[[str], None]


class Status(Enum):
    """How a decoder ended."""

    EXPLAINED = "the mixture fits the sketch: the residual is within sampling error"
    REFINED = "the search converged; the mixture leaves a residual larger than the sampling error"
    STALLED = "no new component lowered the cost"
    ALL_ROWS = "fitted on all rows: they were few enough to be kept"
    ROWS = "fitted on a sample, with weights calibrated to the sketch"
    ATOMS = "fitted on support points with exponential tilting: no mixture fits the sketch"
    CELLS = "fitted on Voronoi cells, whose means over all records are exact"
    STEP = "a pilot fitted on a sample, then exact steps on all records"
    UNJUDGED = "the fit cannot be tested: there are too few records for this many parameters"
    HIDDEN = "the noise of the private release hides the clusters: a single Gaussian fits the sketch as well"

    @property
    def advice(self) -> str:
        """What may help."""
        scale, seed = f"another scale ({called('explain')} says in which direction)", Parameter("random_state")
        remedies = {
            Status.REFINED: "if the result is poor, try more components or more frequencies",
            Status.STALLED: f"try more frequencies, {scale}, or another {seed}",
            Status.UNJUDGED: "keep or give rows beside the sketch, or ask for fewer clusters",
            Status.HIDDEN: "release more records at once, with a larger epsilon, with delta > 0, or ask for fewer "
            "clusters",
        }
        return remedies.get(self, "")


ROBUST = (Status.ALL_ROWS, Status.ROWS, Status.ATOMS, Status.CELLS, Status.STEP)  # fits without Gaussian clusters


@dataclass(frozen=True, repr=False)
class Outcome:
    """A fitted mixture in the problem's units, and its goodness of fit."""

    mixture: Mixture
    cost: float
    misfit: float  # mean squared residual relative to the sampling error: at about 1 or below, the fit is good
    iterations: int
    status: Status

    @classmethod
    def of(
        cls, problem: Problem, mixture: Mixture, cost: float, iterations: int, status: Status = Status.REFINED
    ) -> Outcome:
        """The outcome with this status, or EXPLAINED where the residual is no larger than sampling errors make it."""
        misfit = problem.misfit(cost)
        return cls(mixture, cost, misfit, iterations, Status.EXPLAINED if misfit <= EXPLAINED else status)

    def refined(self, problem: Problem, mixture: Mixture, iterations: int) -> Outcome:
        """The outcome after all parameters of a mixture were refined together."""
        mixture, cost, done = refine(problem.target, mixture, problem.box, iterations=iterations)
        return Outcome.of(problem, mixture, cost, self.iterations + done, self.status)

    @property
    def residual(self) -> float:
        """Root mean squared residual."""
        return float(self.cost**0.5)

    @property
    def misfit_in_words(self) -> str:
        """The misfit; if clusters need not be Gaussian, with a note that a large one is harmless."""
        figure = f"misfit {in_digits(self.misfit)}"
        return f"{figure} of a Gaussian for each cluster, which need not fit" if self.status in ROBUST else figure

    @property
    def advice(self) -> str:
        """What to try if the result is poor."""
        return self.status.advice

    def __repr__(self) -> str:
        parts = f"{len(self.mixture):,} components, misfit {self.misfit:.3g}, {self.iterations:,} iterations"
        return f"<Outcome: {parts}; {self.status.value}>"


@dataclass
class State:
    """The state of a search."""

    mixture: Mixture
    cost: float = np.inf
    iterations: int = 0
    finished: bool = False  # nothing is left to do

    def refined(self, problem: Problem, mixture: Mixture, iterations: int, *, shapes: bool = True) -> State:
        """The state after all parameters of a mixture, or all but its shapes, were refined together."""
        mixture, cost, done = refine(problem.target, mixture, problem.box, iterations=iterations, shapes=shapes)
        return State(mixture, cost, self.iterations + done)


class Decoder(ABC):
    """An algorithm that recovers a mixture from a sketch: an initial state, and a step."""

    #: alternates with this one where a sketch is small
    other: Decoder | None = None
    #: recovers points, for k-means, but no density
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
    """The best state of a search that ends with a good fit, when the decoder has finished, or without progress.

    It starts anew or from a known outcome.
    """
    with one_blas_thread():
        known = start and State(start.mixture, start.cost, start.iterations)
        state = best = known or decoder.start(problem, rng)
        status, failures, explained = Status.REFINED, 0, False
        # among many clusters, the misfit of the whole does not show two that were taken for one
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
            # private noise also hides the residual of a wrong mixture
            if state.finished or (explained and not problem.target.released):
                break
            if full and failures >= PATIENCE:
                status = Status.STALLED
                break
    status = Status.EXPLAINED if explained else status
    return Outcome(best.mixture, best.cost, problem.misfit(best.cost), state.iterations, status)
