"""Joint refinement of all parameters of a mixture by L-BFGS-B."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, minimize

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.problems.mixture_cost import cost_and_gradient
from sketchlearn.models import Double, Mixture


@dataclass(frozen=True)
class Box:
    """Where components may lie, and how narrow they may be."""

    low: Double
    high: Double
    least_variance: float = 0.0

    def clip(self, locations: Double) -> Double:
        return np.clip(locations, self.low, self.high)


def refine(
    target: Target, mixture: Mixture, box: Box, *, iterations: int, shapes: bool = True, tolerance: float = 2e-5
) -> tuple[Mixture, float, int]:
    """The mixture at a local minimum of the cost (or after so many iterations), the cost, and the iterations.

    Locations and shapes are measured in steps of 1 / weight, which makes the problem well conditioned: the cost's
    curvature along a component's location is proportional to its squared weight.
    """
    K, d = mixture.locations.shape
    free = mixture.shapes if shapes else mixture.shapes[:0]
    slow = 1 / np.maximum(mixture.weights, 0.1 / K)
    shape_step = 1.0 if mixture.model.tied else slow[: len(free), None]
    shape_low, shape_high = mixture.model.bounds(d, box.least_variance)
    step = np.concatenate([np.ones(K), np.repeat(slow, d), np.broadcast_to(shape_step, free.shape).ravel()])
    low = np.concatenate([np.zeros(K), np.tile(box.low, K), np.broadcast_to(shape_low, free.shape).ravel()])
    high = np.concatenate([np.full(K, np.inf), np.tile(box.high, K), np.broadcast_to(shape_high, free.shape).ravel()])
    start = np.clip(np.concatenate([mixture.weights, mixture.locations.ravel(), free.ravel()]), low, high)
    space = np.empty((4, K, len(target)), np.float32)
    scale = 10 / target.noise  # the optimiser's tolerance is relative down to a cost of 1

    def unpacked(p: Double) -> Mixture:
        weights, locations, moved = np.split(start + p * step, [K, K * (d + 1)])
        moved = moved.reshape(free.shape) if shapes else mixture.shapes
        return replace(mixture, weights=weights, locations=locations.reshape(K, d), shapes=moved)

    def evaluate(p: Double) -> tuple[float, Double]:
        cost, by_weight, by_location, by_shape = cost_and_gradient(target, unpacked(p), space)
        gradient = np.concatenate([by_weight, by_location.ravel(), by_shape[: len(free)].ravel()])
        return cost * scale, gradient * (step * scale)

    outcome = minimize(
        evaluate,
        np.zeros(len(start)),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds((low - start) / step, (high - start) / step),
        options={"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20, "ftol": tolerance, "gtol": 1e-10},
    )
    return unpacked(outcome.x), float(outcome.fun) / scale, int(outcome.nit)
