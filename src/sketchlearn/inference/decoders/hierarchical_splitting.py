"""Hierarchical splitting: one Gaussian for all records, then each is split in two, until there are enough."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.inference.decoders.loop import Decoder, State
from sketchlearn.inference.decoders.orthogonal_matching_pursuit import ClOmpr
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import prune
from sketchlearn.inference.distributions import Mixture

REFINEMENT_ITERATIONS = 100
CLUSTERS_PER_REPLACEMENT = 4  # At full size, a step replaces one component for this many clusters.
VARIANCE_OF_HALVES = 0.25  # along the split, relative to that before


@dataclass(frozen=True)
class HierarchicalSplitting(Decoder):
    """Splits all components along their widest coordinates, mu +- sigma e, and refines them together: log2 n rounds.

    The last of these rounds splits only the widest ones. No split reaches a cluster far from all components: at full
    size, steps replace the components of least use, as CL-OMPR does. (Keriven et al. 2018, algorithm 2.)
    """

    def start(self, problem: Problem, rng: np.random.Generator) -> State:  # noqa: ARG002
        return State(problem.one_gaussian)

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        mixture, most = state.mixture, problem.n_atoms
        if len(mixture) < most:
            mixture = split(mixture, most - len(mixture))
        else:
            added = -(-problem.n_components // CLUSTERS_PER_REPLACEMENT)
            mixture = prune(problem.target, ClOmpr.grown(problem, mixture, added, rng), most)
        return state.refined(problem, mixture, REFINEMENT_ITERATIONS)


def split(mixture: Mixture, n: int) -> Mixture:
    """The mixture with its n widest components (or all) split in two along their widest coordinates."""
    by_column = mixture.variances()
    directions, variances = np.eye(by_column.shape[1])[by_column.argmax(axis=1)], by_column.max(axis=1)
    chosen = np.argsort(-mixture.weights * variances)[:n]
    away = np.zeros_like(directions)
    away[chosen] = directions[chosen] * np.sqrt(variances[chosen])[:, None]
    weights, shapes, d = mixture.weights.copy(), mixture.shapes.copy(), mixture.locations.shape[1]
    weights[chosen] /= 2
    factors = 1 - (1 - VARIANCE_OF_HALVES) * directions[chosen]
    if shapes.shape[1] == 2 * d:  # variances and a direction of stretch
        factors = np.hstack([factors, np.sqrt(factors)])
    elif shapes.shape[1] < d:  # one variance for all coordinates
        factors = factors.mean(axis=1, keepdims=True)
    shapes[chosen] *= factors
    return Mixture(
        mixture.model,
        np.concatenate([weights, weights[chosen]]),
        np.concatenate([mixture.locations + away, mixture.locations[chosen] - away[chosen]]),
        np.concatenate([shapes, shapes[chosen]]),
    )
