"""Sketch-and-shift: the modes of the density estimate that a sketch is, by mean shift from many starts at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.mixture_cost import prune
from sketchlearn.decoders.refinements.joint_refinement import refine
from sketchlearn.decoders.searches.residual_climb import Landscape, distinct
from sketchlearn.decoders.searches.search_loop import Decoder, State
from sketchlearn.models import Mixture
from sketchlearn.models.frequency_set import Double

REFINEMENT = 200  # iterations after each round
CANDIDATES = 3  # modes per component, from which nonnegative least squares chooses


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
        shapes = problem.start.shapes
        mixture = replace(before, weights=np.zeros(len(locations)), locations=locations, shapes=shapes)
        mixture = prune(target, mixture, problem.n_components)
        mixture, cost, done = refine(target, mixture, problem.box, iterations=REFINEMENT)
        iterations = state.iterations + done
        if len(mixture) <= len(before) and cost > 0.99 * state.cost:
            return replace(state, iterations=iterations, finished=True)
        return State(mixture, cost, iterations)

    def modes(self, problem: Problem, mixture: Mixture, rng: np.random.Generator) -> Double:
        """The highest distinct modes of what a mixture leaves of the target."""
        target, d = problem.target, problem.target.n_features
        residual = target.residual(mixture) if len(mixture) else target.parts
        landscape = Landscape(target, residual, problem.damping(problem.start))
        n = self.starts * problem.n_components
        wide = np.where(np.arange(n) % 2, 1.0, 1.5)[:, None]
        starts = rng.standard_normal((n, d)) * problem.spread * wide
        starts = np.concatenate([starts, landscape.ridges(np.zeros((1, d)), [d])])
        ends, heights = landscape.climb(problem.box.clip(starts), problem.box, self.steps)
        return distinct(ends, heights, CANDIDATES * problem.n_components, landscape.width)
