"""The loop that all decoders share: start, step, and when to stop."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.problems.blas_threads import one_blas_thread
from sketchlearn.decoders.problems.decoding_outcome import Outcome, Status
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.models import Mixture

FEW_CLUSTERS = 20
MOST_STEPS = 100
EXPLAINED = 1.25  # misfit; the floor is an average, and twenty draws of a mixture scattered from 0.9 to 1.13 of it
PATIENCE = 2  # steps at full size that may fail to lower the cost

Progress = Callable[[str], None]


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

    def start(self, problem: Problem, rng: np.random.Generator) -> State:  # noqa: ARG002
        """The state before the first step."""
        return State(problem.start)

    @abstractmethod
    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        """One round."""


def decode(
    decoder: Decoder, problem: Problem, rng: np.random.Generator, *, progress: Progress | None = None
) -> Outcome:
    """Steps until the sketch is explained, the decoder has finished, or patience ends; the best state counts."""
    with one_blas_thread():
        state = best = decoder.start(problem, rng)
        status, failures, explained = Status.REFINED, 0, False
        # among many clusters, the misfit of the whole would not tell of two that were taken for one
        enough = problem.n_components * (1 if problem.n_components <= FEW_CLUSTERS else 2)
        for _ in range(MOST_STEPS):
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
