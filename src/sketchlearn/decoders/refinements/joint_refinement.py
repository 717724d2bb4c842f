"""Joint refinement of all parameters of a mixture by L-BFGS-B."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, minimize

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.problems.mixture_cost import cost_and_gradient
from sketchlearn.models import Mixture
from sketchlearn.models.frequency_set import Double


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
    slow = 1 / np.maximum(mixture.weights, 0.1 / K)
    free = mixture.shapes.size if shapes else 0
    rows = len(mixture.shapes)
    shape_step = np.ones((rows, 1)) if mixture.model.tied else slow[:, None]
    step = np.concatenate([np.ones(K), np.repeat(slow, d)])
    start = np.concatenate([mixture.weights, mixture.locations.ravel()])
    low = np.concatenate([np.zeros(K), np.tile(box.low, K)])
    high = np.concatenate([np.full(K, np.inf), np.tile(box.high, K)])
    if free:
        model = mixture.model
        step = np.concatenate([step, np.broadcast_to(shape_step, mixture.shapes.shape).ravel()])
        start = np.concatenate([start, mixture.shapes.ravel()])
        low = np.concatenate([low, np.tile(model.lower(d, box.least_variance), rows)])
        high = np.concatenate([high, np.tile(model.upper(d), rows)])
    start = np.clip(start, low, high)
    space = np.empty((4, K, len(target)), np.float32)
    scale = 10 / target.noise  # the optimiser's tolerance is relative down to a cost of 1

    def unpacked(p: Double) -> Mixture:
        full = start + p * step
        shaped = full[K * (d + 1) :].reshape(mixture.shapes.shape) if free else mixture.shapes
        return replace(mixture, weights=full[:K], locations=full[K : K * (d + 1)].reshape(K, d), shapes=shaped)

    def evaluate(p: Double) -> tuple[float, Double]:
        cost, by_weight, by_location, by_shape = cost_and_gradient(target, unpacked(p), space)
        parts = [by_weight, by_location.ravel()] + ([by_shape.ravel()] if free else [])
        return cost * scale, np.concatenate(parts) * (step * scale)

    outcome = minimize(
        evaluate,
        np.zeros(len(start)),
        jac=True,
        method="L-BFGS-B",
        bounds=Bounds((low - start) / step, (high - start) / step),
        options={"maxiter": iterations, "maxfun": 2 * iterations, "maxcor": 20, "ftol": tolerance, "gtol": 1e-10},
    )
    return unpacked(outcome.x), float(outcome.fun) / scale, int(outcome.nit)
