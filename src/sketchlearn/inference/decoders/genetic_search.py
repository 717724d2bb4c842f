"""Genetic search: a population of whole solutions. Slow, for research on costs and decoders."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.loop import Decoder, State
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import nonnegative

TOURNAMENT_SIZE = 3  # sets, of which the best becomes a parent
JITTER_RANGE = (0.02, 1.0)  # deviation of mutated locations, in those of a cluster
MUTATED_SHARE = 0.5  # of the components of every second child; in the others, about one component is mutated


@dataclass(frozen=True)
class Genetic(Decoder):
    """Evolves sets of k locations by the cost with their best weights; the best set is refined at the end.

    A child has the components of one parent on one side of a random plane, and those of the other on the other side.
    Mutations add Gaussian noise or redraw components from N(0, spread^2). The best sets survive. (Schellekens 2021,
    section 6.3.)

    Parameters
    ----------
    population : sets per generation.
    generations : after which the search ends.
    elite : best sets that live on unchanged.
    redrawn : probability that a component is drawn anew; one without weight is drawn anew in half of the cases.
    refinement : iterations of joint refinement of the best set; 0 for none.
    """

    population: int = 60
    generations: int = 200
    elite: int = 6
    redrawn: float = 0.03
    refinement: int = 100

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        size = (self.population, problem.n_components, problem.target.n_features)
        living = problem.box.clip(rng.standard_normal(size) * problem.spread)
        weights, costs = fitness(problem, living)
        for _ in range(self.generations):
            children = self.children(problem, living, weights, costs, rng)
            best = np.argsort(costs)[: self.elite]
            new_weights, new_costs = fitness(problem, children)
            living = np.concatenate([living[best], children])
            weights = np.concatenate([weights[best], new_weights])
            costs = np.concatenate([costs[best], new_costs])
        fittest = int(np.argmin(costs))
        mixture = replace(problem.start, weights=weights[fittest], locations=living[fittest])
        found = State(mixture, problem.target.cost(mixture))
        if self.refinement:
            found = found.refined(problem, mixture, self.refinement)
        return State(found.mixture, found.cost, state.iterations + self.generations, finished=True)

    def children(
        self, problem: Problem, living: Double, weights: Double, costs: Double, rng: np.random.Generator
    ) -> Double:
        """The next generation, without the elite: (children, components, d)."""
        n, (_, k, d) = self.population - self.elite, living.shape
        drawn = rng.integers(len(living), size=(n, 2, TOURNAMENT_SIZE))
        parents = np.take_along_axis(drawn, costs[drawn].argmin(axis=2)[..., None], axis=2)[..., 0]
        order = np.argsort(np.einsum("npkd,nd->npk", living[parents], rng.standard_normal((n, d))), axis=2)
        side = (np.arange(k) >= rng.integers(k + 1, size=(n, 1))).astype(int)
        parent = np.take_along_axis(parents, side, axis=1)
        component = np.where(side, order[:, 1], order[:, 0])
        moved = rng.random((n, k, 1)) < np.where(np.arange(n) % 2, MUTATED_SHARE, 1 / k)[:, None, None]
        jitter = np.exp(rng.uniform(np.log(JITTER_RANGE[0]), np.log(JITTER_RANGE[1]), size=(n, 1, 1)))
        children = living[parent, component] + moved * jitter * rng.standard_normal((n, k, d))
        chance = np.where(weights[parent, component] > 0, self.redrawn, 0.5)
        redrawn = (rng.random((n, k)) < chance)[..., None]
        return problem.box.clip(np.where(redrawn, rng.standard_normal((n, k, d)) * problem.spread, children))


def fitness(problem: Problem, living: Double) -> tuple[Double, Double]:
    """The best weights of each set of locations, and the cost with them."""
    target, (n, k, d) = problem.target, living.shape
    exponents = problem.start.model.exponents(problem.start.shapes, target.frequencies)
    waves = target.frequencies.waves(living.reshape(-1, d), exponents)
    power, gram, right = 0.0, np.zeros((n, k, k)), np.zeros((n, k))
    for flat, z, w in zip(waves, target.parts, target.part_weights, strict=True):
        wave = flat.reshape(n, k, -1)
        gram += (wave * w) @ wave.transpose(0, 2, 1)
        right += wave @ (z * w)
        power += float(z @ (z * w))
    weights = np.stack([nonnegative(g, r) for g, r in zip(gram, right, strict=True)])
    explained = 2 * np.sum(weights * right, axis=1) - np.einsum("nk,nkl,nl->n", weights, gram, weights)
    return weights, (power - explained) / len(target)
