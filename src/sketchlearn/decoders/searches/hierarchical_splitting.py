"""Hierarchical splitting: one Gaussian for all records, then each is split in two, until there are enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.mixture_cost import prune
from sketchlearn.decoders.refinements.joint_refinement import refine
from sketchlearn.decoders.searches.matching_pursuit import ClOmpr
from sketchlearn.decoders.searches.search_loop import Decoder, State
from sketchlearn.models import DiagonalGaussian, Mixture

REFINEMENT = 100  # iterations after each round
REPLACED = 4  # a step at full size adds a component for so many clusters
NARROWED = 0.25  # variance of the halves along the split, of that before


@dataclass(frozen=True)
class HierarchicalSplitting(Decoder):
    """Splits all components along their widest coordinates, mu +- sigma e, and refines them together: log2 n rounds.

    The last of these rounds splits only those that spread most. No split reaches a cluster far from all components: at
    full size, steps replace the components that are missed least, as CL-OMPR does. (Keriven et al. 2018, algorithm 2.)
    """

    def start(self, problem: Problem, rng: np.random.Generator) -> State:  # noqa: ARG002
        one = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, len(problem.spread))), problem.spread[None] ** 2)
        return State(one)

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        target, mixture, most = problem.target, state.mixture, problem.n_atoms
        size = len(mixture)
        if size < most:
            mixture = split(mixture, min(size, most - size))
        else:
            mixture = prune(target, ClOmpr.grown(problem, mixture, -(-problem.n_components // REPLACED), rng), most)
        mixture, cost, done = refine(target, mixture, problem.box, iterations=REFINEMENT)
        return State(mixture, cost, state.iterations + done)


def split(mixture: Mixture, n: int) -> Mixture:
    """The mixture with n components, those that spread most, in two halves along their widest coordinates."""
    directions, variances = np.eye(mixture.shapes.shape[1])[mixture.shapes.argmax(axis=1)], mixture.shapes.max(axis=1)
    chosen = np.argsort(-mixture.weights * variances)[:n]
    away = np.zeros_like(directions)
    away[chosen] = directions[chosen] * np.sqrt(variances[chosen])[:, None]
    weights, shapes = mixture.weights.copy(), mixture.shapes.copy()
    weights[chosen] /= 2
    shapes[chosen] *= 1 - (1 - NARROWED) * directions[chosen]
    return Mixture(
        mixture.model,
        np.concatenate([weights, weights[chosen]]),
        np.concatenate([mixture.locations + away, mixture.locations[chosen] - away[chosen]]),
        np.concatenate([shapes, shapes[chosen]]),
    )
