"""The cost of a mixture, sum_j w_j |z_j - sum_l alpha_l A_j(theta_l)|^2 / m, with gradients; and its best weights."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import replace

import numpy as np
from scipy.linalg import cho_factor, solve_triangular
from scipy.optimize import nnls

from sketchlearn import kernel
from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.models import Double, Mixture, Single


def cost_and_gradient(
    target: Target, mixture: Mixture, space: Single | None = None
) -> tuple[float, Double, Double, Double]:
    """The cost and its gradients with respect to weights, locations and shapes.

    `space`, of shape (4, components, m), may be overwritten: the system's fresh memory costs a third of the time.
    """
    quadratics = mixture.model.quadratics(target.frequencies)
    if quadratics is not None:
        return _compared(target, mixture, quadratics)
    space = np.empty((4, len(mixture), len(target)), np.float32) if space is None else space
    model, frequencies, m = mixture.model, target.frequencies, len(target)
    alpha = mixture.weights.astype(np.float32)
    cosines, sines = mixture.waves(frequencies, space[:3])
    (z_re, z_im), (w_re, w_im) = target.parts, target.part_weights
    r_re, r_im = alpha @ cosines - z_re, alpha @ sines - z_im
    f_re, f_im = r_re * w_re, r_im * w_im
    cost = (float(r_re.astype(np.float64) @ f_re) + float(r_im.astype(np.float64) @ f_im)) / m
    by_weight = (cosines @ f_re + sines @ f_im) * (2 / m)
    turned = np.multiply(cosines, f_im, out=space[0])  # the phases are not needed any more
    turned -= np.multiply(sines, f_re, out=space[3])
    by_location = (turned @ frequencies.omega) * (alpha * np.float32(2 / m))[:, None]
    if not mixture.shapes.size:
        return cost, by_weight.astype(np.float64), by_location.astype(np.float64), np.zeros_like(mixture.shapes)
    if model.tied:
        upstream = ((r_re + z_re) * f_re + (r_im + z_im) * f_im) * np.float32(-2 / m)
        by_shape = model.pull(mixture.shapes, frequencies, upstream[None])
    else:
        cosines *= f_re
        sines *= f_im
        cosines += sines
        cosines *= (alpha * np.float32(-2 / m))[:, None]
        by_shape = model.pull(mixture.shapes, frequencies, cosines)
    return cost, by_weight.astype(np.float64), by_location.astype(np.float64), by_shape


def _compared(target: Target, mixture: Mixture, quadratics: Single) -> tuple[float, Double, Double, Double]:
    """The same by the native kernel, one pass over the frequencies, for models whose exponents are linear in shapes."""
    frequencies, (K, d) = target.frequencies, mixture.locations.shape
    sums = kernel.compare(
        (frequencies.turns, frequencies.shift_turns, quadratics),
        (target.parts, target.part_weights),
        (mixture.weights.astype(np.float32), mixture.locations.astype(np.float32), mixture.shapes.astype(np.float32)),
    )
    sums *= 1 / len(target)
    alpha = 2 * mixture.weights[:, None]
    by_weight, by_location, by_shape = 2 * sums[1 : 1 + K], sums[1 + K : 1 + K + K * d], sums[1 + K + K * d :]
    by_location = by_location.reshape(K, d) * (2 * np.pi * alpha)
    by_shape = by_shape.reshape(mixture.shapes.shape) * (-alpha if len(mixture.shapes) > 1 else -2)
    return float(sums[0]), by_weight, by_location, by_shape


def best_weights(target: Target, mixture: Mixture) -> Double:
    """Nonnegative least squares for the weights."""
    return nonnegative(*normal_equations(target, mixture))


def normal_equations(target: Target, mixture: Mixture) -> tuple[Double, Double]:
    """Products of all components' sketches with each other, and with the target."""
    cosines, sines = mixture.waves(target.frequencies)
    (z_re, z_im), (w_re, w_im) = target.parts, target.part_weights
    damped, turned = cosines * w_re, sines * w_im
    gram, right = damped @ cosines.T + turned @ sines.T, damped @ z_re + turned @ z_im
    return gram.astype(np.float64), right.astype(np.float64)


def nonnegative(gram: Double, right: Double) -> Double:
    """argmin over alpha >= 0 of alpha' gram alpha - 2 right' alpha."""
    size = np.trace(gram) / len(gram)
    for ridge in (1e-7, 1e-4, 1e-2):  # float32 sums can leave a gram matrix slightly indefinite
        with suppress(np.linalg.LinAlgError):
            factor = np.triu(cho_factor(gram + ridge * size * np.eye(len(gram)))[0])
            return np.asarray(nnls(factor, solve_triangular(factor, right, trans="T"), maxiter=30 * len(gram))[0])
    return np.full(len(gram), 1 / len(gram))


def prune(target: Target, mixture: Mixture, n: int) -> Mixture:
    """The mixture without its least useful components: those whose removal raises the cost least, one by one."""
    gram, right = normal_equations(target, mixture)
    alive = np.flatnonzero(nonnegative(gram, right) > 0)
    if not len(alive):  # SciPy 1.17's nnls ends the process on an empty matrix: test_pruning_leaves_one
        return replace(mixture.some(np.array([np.argmax(right)])), weights=np.ones(1))
    while len(alive) > n:
        alpha = nonnegative(gram[np.ix_(alive, alive)], right[alive])
        inverse = np.linalg.inv(gram[np.ix_(alive, alive)] + 1e-6 * np.trace(gram) / len(gram) * np.eye(len(alive)))
        loss = alpha**2 / np.maximum(np.diag(inverse), 1e-300)
        alive = np.delete(alive, int(np.argmin(loss)))
    return replace(mixture.some(alive), weights=nonnegative(gram[np.ix_(alive, alive)], right[alive]))
