"""Sketch-and-shift: the modes of the density estimate that a sketch is, by mean shift from many starts at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.mixture_cost import prune
from sketchlearn.decoders.refinements.joint_refinement import refine
from sketchlearn.decoders.searches.residual_climb import Landscape, distinct, scattered
from sketchlearn.decoders.searches.search_loop import Decoder, State
from sketchlearn.models import Double, Mixture

REFINEMENT_ITERATIONS = 200
MODES_PER_COMPONENT = 3  # from which nonnegative least squares chooses


@dataclass(frozen=True)
class SketchAndShift(Decoder):
    """Takes the modes of c -> Re<Phi(c), z> / m for the locations of components, and refines them together.

    Modes of clusters nearer to each other than the kernel's width merge into one. So further rounds look for modes in
    what the components leave of z, until that does not help. (Belhadji and Gribonval, arXiv 2312.09940.)

    Parameters
    ----------
    starts : of the mean shift, per component.
    steps : of the mean shift, from each start.
    """

    starts: int = 20
    steps: int = 30

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        target, before = problem.target, state.mixture
        locations = np.concatenate([before.locations, self.modes(problem, before, rng)])
        mixture = replace(problem.start, weights=np.zeros(len(locations)), locations=locations)
        mixture = prune(target, mixture, problem.n_components)
        mixture, cost, done = refine(target, mixture, problem.box, iterations=REFINEMENT_ITERATIONS)
        iterations = state.iterations + done
        if len(mixture) <= len(before) and cost > 0.99 * state.cost:
            return replace(state, iterations=iterations, finished=True)
        return State(mixture, cost, iterations)

    def modes(self, problem: Problem, mixture: Mixture, rng: np.random.Generator) -> Double:
        """The highest distinct modes of what a mixture leaves of the target."""
        target, d = problem.target, problem.target.n_features
        landscape = Landscape(target, target.residual(mixture), problem.damping(problem.start))
        starts = scattered(problem, self.starts * problem.n_components, [1.5, 1.0], rng)
        ridges = problem.box.clip(landscape.ridges(np.zeros((1, d)), [d]))
        ends, heights = landscape.climb(np.concatenate([starts, ridges]), problem.box, self.steps)
        return distinct(ends, heights, MODES_PER_COMPONENT * problem.n_components, landscape.width)
