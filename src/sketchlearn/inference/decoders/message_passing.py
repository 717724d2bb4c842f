"""CL-AMP: approximate message passing on the phases that the components' locations have at each frequency."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.core.arrays import Single
from sketchlearn.inference.decoders.loop import Decoder, State
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import prune, with_best_weights
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import Mixture
from sketchlearn.kernels import dispatch as kernel

REFINEMENT_ITERATIONS = 100
COMPONENTS_PER_REDRAW = 8  # Attempts after the first redraw one of so many components, those of least use.
KEPT_VARIANCE = 1.0  # at which the components that are not redrawn start
GOOD_MISFIT = 1.5  # Below it, no further attempt is made.
SETTLED_STEP = 1e-3  # of the locations, in deviations of a cluster
FIXED_ITERATIONS = 5  # after which weights and variance are learned, too
LEAST_WEIGHT = 0.1  # in units of 1 / k; a component without weight would receive no messages
NODES = np.linspace(-3.5, 3.5, 21, dtype=np.float32)  # at which posteriors are summed, in deviations before


@dataclass(frozen=True)
class ClAmp(Decoder):
    """Estimates each phase omega_j . c_l from z_j, given estimates of all others, and each c_l from its phases.

    The messages are Gaussian, with one variance per component; the noise is as large as the residual, which keeps wrong
    estimates from becoming certain. Weights and the shared variance are updated in between.
    Each step is an attempt, refined: the first starts at random locations, others redraw some. (Byrne, Chatalic,
    Gribonval and Schniter, arXiv 1712.02849; here with damping, and with posteriors summed on a grid.)

    Parameters
    ----------
    attempts : largest number of attempts, while the residual is large.
    iterations : largest number of iterations per attempt.
    damping : step size of each update, between 0 and 1.
    """

    attempts: int = 8
    iterations: int = 60
    damping: float = 0.5

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        found = state.refined(problem, self.passed(problem, state.mixture, rng), REFINEMENT_ITERATIONS)
        better, attempts = state if found.cost > state.cost else found, state.iterations + 1
        finished = attempts >= self.attempts or problem.misfit(better.cost) < GOOD_MISFIT
        return State(better.mixture, better.cost, attempts, finished)

    def passed(self, problem: Problem, before: Mixture, rng: np.random.Generator) -> Mixture:
        """The mixture after message passing from random locations and those kept of an earlier mixture."""
        target, k = problem.target, problem.n_components
        d, m = target.n_features, len(target)
        prior = float(np.mean(problem.spread**2))
        length = np.sqrt(np.maximum(target.frequencies.lengths, 1e-12))
        A = target.frequencies.omega / length[:, None]
        locations = rng.standard_normal((k, d)) * problem.spread
        q = np.full((k, 1), prior, np.float32)  # variance of each component's location, per coordinate
        if len(before) and k > 1:
            kept = prune(target, before, k - -(-k // COMPONENTS_PER_REDRAW)).locations
            locations[: len(kept)], q[: len(kept)] = kept, KEPT_VARIANCE
        mixture = replace(problem.start, weights=np.full(k, 1 / k), locations=locations)
        c = locations.astype(np.float32)
        s, precision = np.zeros((k, m), np.float32), np.zeros((k, 1), np.float32)
        for i in range(self.iterations):
            p = c @ A.T - q * s
            shift, share = phase_posteriors(target, mixture, p * length, np.sqrt(q) * length)
            rate = np.float32(self.damping if i else 1.0)
            s += rate * (shift / np.sqrt(q) - s)
            precision += rate * (np.maximum(1 - share.mean(axis=1, keepdims=True), 1e-3) / q - precision)
            r_variance = d / m / precision
            gain = prior / (prior + r_variance)
            step = rate * (gain * (c + r_variance * (s @ A)) - c)
            c += step
            q += rate * (gain * r_variance - q)
            mixture = replace(mixture, locations=problem.box.clip(c.astype(np.float64)))
            if i >= FIXED_ITERATIONS:
                mixture = self.learned(problem, mixture)
            if np.abs(step).max() < SETTLED_STEP:
                break
        return mixture

    @staticmethod
    def learned(problem: Problem, mixture: Mixture) -> Mixture:
        """The mixture with better weights, and its variance after one Gauss-Newton step."""
        target = problem.target
        mixture = with_best_weights(target, mixture)
        mixture = replace(mixture, weights=np.maximum(mixture.weights, LEAST_WEIGHT / len(mixture)))
        exponents = mixture.model.exponents(mixture.shapes, target.frequencies)
        assert exponents is not None
        wanted = moved = 0.0
        for z, left, w in zip(target.parts, target.residual(mixture), target.part_weights, strict=True):
            slope = exponents[0] * (left - z)
            wanted += float((slope * w) @ left)
            moved += float((slope * w) @ slope)
        shapes = mixture.shapes * np.exp(np.clip(wanted / moved, -0.2, 0.2))
        return replace(mixture, shapes=np.clip(shapes, problem.start.shapes / 4, 4 * problem.start.shapes))


def phase_posteriors(target: Target, mixture: Mixture, phases: Single, deviations: Single) -> tuple[Single, Single]:
    """The posterior shift of each phase's mean, in its deviations, and the remaining part of its variance.

    To a phase, the other components are Gaussian noise: their values exp(i theta), theta ~ N(phase, v), have the mean
    exp(i phase - v / 2), and parts of variance (1 - exp(-v)) (1 -+ exp(-v) cos(2 phase)) / 2.
    """
    if target.frequencies.shift is not None:
        phases = phases + target.frequencies.shift
    exponents = mixture.model.exponents(mixture.shapes, target.frequencies)
    assert exponents is not None
    beta = mixture.weights.astype(np.float32)[:, None] * np.exp(-exponents)
    damping = np.exp(-0.5 * deviations * deviations)
    cosines, sines = _waves(phases)
    square = damping * damping
    twist, half = square * (2 * cosines * cosines - 1), 0.5 * beta * beta * (1 - square)
    noise = np.float32(max(target.noise, target.cost(mixture)) / 2)
    data = []  # the residual without the component, and its precision
    for wave, sign, z, w in zip((cosines, sines), (-1, 1), target.parts, (1.0, target.imaginary), strict=True):
        mean, variance = beta * damping * wave, half * (1 + sign * twist)
        left = z - mean.sum(axis=0) + mean
        data.append((left, 0.5 * np.float32(w) / (noise + variance.sum(axis=0) - variance)))
    (u_re, w_re), (u_im, w_im) = data
    cosines, sines = _waves(phases + NODES[0] * deviations)
    turn_re, turn_im = _waves((NODES[1] - NODES[0]) * deviations)
    logs = np.empty((len(NODES), *phases.shape), np.float32)
    for x, log in zip(NODES, logs, strict=True):
        log[:] = -0.5 * x * x - w_re * (u_re - beta * cosines) ** 2 - w_im * (u_im - beta * sines) ** 2
        cosines, sines = cosines * turn_re - sines * turn_im, sines * turn_re + cosines * turn_im
    logs -= logs.max(axis=0)
    np.exp(logs, out=logs)
    logs /= logs.sum(axis=0)
    mean = np.tensordot(NODES, logs, 1)
    return mean, np.tensordot(NODES * NODES, logs, 1) - mean * mean


def _waves(phases: Single) -> tuple[Single, Single]:
    turns = np.ascontiguousarray(phases / np.float32(2 * np.pi))
    cosines, sines = np.empty_like(turns), np.empty_like(turns)
    kernel.damped_waves(turns, None, cosines, sines)
    return cosines, sines
