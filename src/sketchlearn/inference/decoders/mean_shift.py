"""Mean shift: many starts climb the correlation of components with the residual of a mixture, all at once."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import eigh

from sketchlearn.core.arrays import Double, Single
from sketchlearn.inference.decoders.loop import Decoder, State
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import Box, prune
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import Mixture
from sketchlearn.kernels import dispatch as kernel

MOMENTUM = 0.5
LONGEST_STEP = 0.7  # kernel widths
CLIMBING_STEPS = 15
FEWEST_STARTS = 32
MOST_RIDGES = 20  # heavy components from whose sides climbs start
SCREENED_PER_START = 12  # points
LEAST_GAP = 0.5  # squared distance of distinct modes, in squared kernel widths
REFINEMENT_ITERATIONS = 200
MODES_PER_COMPONENT = 3  # from which nonnegative least squares chooses


class Landscape:
    """f(c) = sum_j D_j w_j Re(r_j exp(-i omega_j . c)): a density estimate made of the residual r.

    D is the damping of a component of the wanted width, and w the target's weights.
    """

    def __init__(self, target: Target, residual: Single, damping: Single) -> None:
        self.frequencies = target.frequencies
        w_re, w_im = target.part_weights
        self.field = residual * damping * target.part_weights
        power = (damping * damping * (w_re + w_im)).astype(np.float64)
        self.norm = float(np.sqrt(power.sum()))
        #: squared width of the kernel, per coordinate
        self.width = power.sum() / np.mean(power @ target.frequencies.squares)

    def climb(self, starts: Double, box: Box, steps: int) -> tuple[Double, Double]:
        """Mean-shift steps from each start; the ends and their heights."""
        c, velocity = starts, np.zeros_like(starts)
        longest = LONGEST_STEP * np.sqrt(self.width * c.shape[1])
        for _ in range(steps):
            height, slope = self.evaluate(c)
            step = self.width * slope / np.maximum(height, 0.05 * np.abs(height.max()) + 1e-12)[:, None]
            length = np.sqrt(np.sum(step * step, axis=1, keepdims=True))
            step *= np.minimum(1, longest / np.maximum(length, 1e-12))
            velocity = MOMENTUM * velocity + step
            c = box.clip(c + velocity)
        return c, self.heights(c)

    def heights(self, c: Double) -> Double:
        """f at each point, for components of norm one."""
        return self.evaluate(c)[0] / self.norm

    def evaluate(self, c: Double) -> tuple[Double, Double]:
        """f and its gradient at each point."""
        sums = kernel.compare(
            (self.frequencies.turns, self.frequencies.shift_turns, self.frequencies.half_squares[:0]),
            (None, self.field),
            (np.zeros(len(c), np.float32), c.astype(np.float32), np.zeros((1, 0), np.float32)),
        )
        return sums[1 : 1 + len(c)], 2 * np.pi * sums[1 + len(c) :].reshape(c.shape)

    def ridges(self, points: Double, directions: list[int]) -> Double:
        """Starts on both sides of points, along the directions of largest curvature of f."""
        cosines, sines = self.frequencies.waves(points)
        inner = cosines * self.field[0] + sines * self.field[1]
        omega, d, starts = self.frequencies.omega, points.shape[1], []
        for point, row, n in zip(points, inner, directions, strict=True):
            curvature = -((omega * row[:, None]).T @ omega).astype(np.float64)
            _, vectors = eigh(curvature, subset_by_index=[d - min(d, n), d - 1])
            away = vectors.T * np.sqrt(self.width)
            starts += [point + away, point - away]
        return np.concatenate(starts)


def distinct(locations: Double, heights: Double, n: int, width: float) -> Double:
    """The n highest of the locations that lie apart."""
    kept: list[int] = []
    for i in np.argsort(-heights):
        if len(kept) >= n or heights[i] <= 0:
            break
        if not kept or np.min(np.sum((locations[kept] - locations[i]) ** 2, axis=1)) > LEAST_GAP * width:
            kept.append(int(i))
    return locations[kept]


def scattered(problem: Problem, n: int, wide: list[float], rng: np.random.Generator) -> Double:
    """n random points, with the spread of the records times these factors in turn."""
    points = rng.standard_normal((n, problem.target.n_features)) * problem.spread
    return problem.box.clip(points * np.resize(wide, n)[:, None])


def find_modes(problem: Problem, mixture: Mixture, n: int, rng: np.random.Generator) -> Double:
    """The n highest modes of the mixture's residual."""
    target, box, d = problem.target, problem.box, problem.target.n_features
    landscape = Landscape(target, target.residual(mixture), problem.damping(mixture))
    n_starts = max(FEWEST_STARTS, 2 * problem.n_components)
    starts = scattered(problem, n_starts // 2, [1.0, 1.5], rng)
    # distant clusters are reached from the highest of many points only
    many = scattered(problem, SCREENED_PER_START * n_starts, [1.0, 1.5, 2.0], rng)
    many = many[np.argsort(-landscape.heights(many))[: n_starts // 2]]
    heavy = mixture.locations[np.argsort(-mixture.weights)[:MOST_RIDGES]]
    ridges = landscape.ridges(np.concatenate([np.zeros((1, d)), heavy]), [min(d, 8)] + [1] * len(heavy))
    starts = np.concatenate([starts, many, box.clip(ridges)])
    ends, heights = landscape.climb(starts, box, CLIMBING_STEPS)
    found = distinct(ends, heights, n, landscape.width)
    return found if len(found) else starts[:1]


@dataclass(frozen=True)
class SketchAndShift(Decoder):
    """Takes the modes of c -> Re<Phi(c), z> / m for the locations of components, and refines them together.

    Modes of clusters nearer to each other than the kernel's width merge into one. So further rounds search for modes of
    the residual, until that does not help. (Belhadji and Gribonval, arXiv 2312.09940.)

    Parameters
    ----------
    starts : of the mean shift, per component.
    steps : of the mean shift, from each start.
    """

    starts: int = 20
    steps: int = 30

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        target, before, d, k = problem.target, state.mixture, problem.target.n_features, problem.n_components
        landscape = Landscape(target, target.residual(before), problem.damping(problem.start))
        starts = scattered(problem, self.starts * k, [1.5, 1.0], rng)
        ridges = problem.box.clip(landscape.ridges(np.zeros((1, d)), [d]))
        ends, heights = landscape.climb(np.concatenate([starts, ridges]), problem.box, self.steps)
        modes = distinct(ends, heights, MODES_PER_COMPONENT * k, landscape.width)
        locations = np.concatenate([before.locations, modes])
        mixture = replace(problem.start, weights=np.zeros(len(locations)), locations=locations)
        found = state.refined(problem, prune(target, mixture, k), REFINEMENT_ITERATIONS)
        if len(found.mixture) <= len(before) and found.cost > 0.99 * state.cost:
            return replace(state, iterations=found.iterations, finished=True)
        return found
