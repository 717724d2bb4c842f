"""CL-OMPR: orthogonal matching pursuit with replacement, many starts and several components at a time."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.mixture_cost import best_weights, prune
from sketchlearn.decoders.refinements.joint_refinement import refine
from sketchlearn.decoders.searches.mean_shift import find_modes
from sketchlearn.decoders.searches.search_loop import FEW_CLUSTERS, Decoder, State
from sketchlearn.models import Mixture

FIRST_ROUNDS = 4  # in which the first n_components components are found
SHORT_REFINEMENT, LONG_REFINEMENT = 15, 100  # iterations after each round, and at milestones


@dataclass(frozen=True)
class ClOmpr(Decoder):
    """Adds the components that correlate best with the residual and refines all of them together.

    The first components share one variance that is fixed; then it is set free, then each component has its own. At full
    size, each step adds a few and takes out those that are missed least. (Keriven et al. 2018; here in batches, with
    Gaussian components from the start.)
    """

    other: Decoder | None = None

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        mixture, k = state.mixture, problem.n_components
        size, most = len(mixture), problem.n_atoms
        batch = -(-k // FIRST_ROUNDS)
        if size < k <= FEW_CLUSTERS and size + batch >= k:
            # some more than k, and then the best of them: one draw in ten would lack a cluster otherwise
            grown = self.grown(problem, mixture, k - size + batch, rng)
            grown = self.refined(problem, grown, state, SHORT_REFINEMENT, free=False).mixture
            return self.refined(problem, prune(problem.target, grown, k), state, LONG_REFINEMENT)
        if size < k:
            grown = self.grown(problem, mixture, min(batch, k - size), rng)
            full = len(grown) >= k
            return self.refined(problem, grown, state, LONG_REFINEMENT if full else SHORT_REFINEMENT, free=full)
        if mixture.model.tied and size < min(2 * k, most):
            # k components did not suffice, and have become too wide: narrow again, until there are enough
            narrow = replace(mixture, shapes=problem.start.shapes)
            grown = self.grown(problem, narrow, min(batch, most - size), rng)
            full = len(grown) >= min(2 * k, most)
            return self.refined(problem, grown, state, LONG_REFINEMENT if full else SHORT_REFINEMENT, free=full)
        if mixture.model.tied and problem.own_shapes:
            return self.refined(problem, mixture.untied(), state, LONG_REFINEMENT)
        grown = self.grown(problem, mixture, batch if size >= most else min(2 * batch, most - size), rng)
        return self.refined(problem, prune(problem.target, grown, most), state, LONG_REFINEMENT // 2)

    @staticmethod
    def grown(problem: Problem, mixture: Mixture, n: int, rng: np.random.Generator) -> Mixture:
        """The mixture with up to n more components, where its residual is largest."""
        new = find_modes(problem, mixture, n, rng)
        locations, shapes = np.concatenate([mixture.locations, new]), mixture.shapes
        if not mixture.model.tied:
            shapes = np.concatenate([shapes, np.tile(np.median(shapes, axis=0), (len(new), 1))])
        grown = Mixture(mixture.model, np.zeros(len(locations)), locations, shapes)
        return replace(grown, weights=best_weights(problem.target, grown))

    @staticmethod
    def refined(problem: Problem, mixture: Mixture, state: State, iterations: int, free: bool = True) -> State:
        """All parameters refined together."""
        mixture, cost, done = refine(problem.target, mixture, problem.box, iterations=iterations, shapes=free)
        return State(mixture, cost, state.iterations + done)
