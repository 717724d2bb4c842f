"""Joint refinement by Levenberg-Marquardt, in coordinates that suit each component.

Weights move by factors, locations in units of their component's own width, covariances by S <- L exp(A) L'. Residuals
are measured in units of their own covariance, which makes the estimate efficient (generalised method of moments).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular
from scipy.optimize import Bounds, minimize, nnls

from sketchlearn.core.arrays import Double, Single
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import Mixture
from sketchlearn.kernels import dispatch as kernel


def cost_and_gradient(target: Target, mixture: Mixture, space: Single) -> tuple[float, Double, Double, Double]:
    """The cost and its gradients with respect to weights, locations and shapes.

    `space`, of shape (4, components, m), is overwritten: the system's fresh memory costs a third of the time.
    """
    quadratics = mixture.model.quadratics(target.frequencies)
    if quadratics is not None:
        return _compared(target, mixture, quadratics)
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


def with_best_weights(target: Target, mixture: Mixture) -> Mixture:
    """The mixture with weights by nonnegative least squares."""
    return replace(mixture, weights=nonnegative(*normal_equations(target, mixture)))


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
    """The mixture without the components whose removal raises the cost least, one by one."""
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


@dataclass(frozen=True)
class Box:
    """Bounds of locations and variances."""

    low: Double
    high: Double
    least_variance: float = 0.0

    def clip(self, locations: Double) -> Double:
        return np.clip(locations, self.low, self.high)


def refine(
    target: Target, mixture: Mixture, box: Box, *, iterations: int, shapes: bool = True, tolerance: float = 2e-5
) -> tuple[Mixture, float, int]:
    """The mixture at a local minimum of the cost, by L-BFGS-B; the cost, and the number of iterations.

    Locations and shapes are scaled by 1 / weight, as the cost's curvature along them is about the squared weight.
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


LONGEST_STEP = 1.0  # component widths for a location, factors of e for a weight
COVARIANCE_RIDGE = 1e-5  # of the residual's covariance, relative to its mean eigenvalue
COST_TOLERANCE = 1e-6
FREQUENCIES_PER_BLOCK = 64
SUM_PENALTY = 10.0  # on weights that do not sum to one, per square root of a frequency

#: Divides residuals, an array (2 m, ...) of real parts above imaginary ones, by the square root of their covariance.
Whitening = Callable[[Double], Double]


def independent_errors(target: Target) -> Whitening:
    """Whitening by each part's own deviation, about sqrt((1 - |z|^2) / 2n) without subsampling."""
    power = (1 + sum(abs(ratio) ** 2 for _, ratio in target.harmonics)) / 2
    own = target.sampling * np.maximum(1 - np.abs(target.values) ** 2, 1e-3)
    scales = np.tile(1 / np.sqrt(power * (own + target.subsampling) + target.released / 2), 2)
    return lambda parts: parts * (scales if parts.ndim == 1 else scales[:, None])


@dataclass(frozen=True)
class CorrelatedErrors:
    """Whitening by the Cholesky factor of the whole covariance, to which a ridge was added."""

    factor: Double  # lower triangular
    ridge: float

    def __call__(self, parts: Double) -> Double:
        return np.asarray(solve_triangular(self.factor, parts, lower=True, check_finite=False))

    def weighed(self, parts: Double) -> Double:
        """Parts multiplied by the inverse covariance."""
        return np.asarray(cho_solve((self.factor, True), parts, check_finite=False))


def correlated_errors(target: Target, mixture: Mixture) -> CorrelatedErrors:
    """The whole covariance, from the mixture's characteristic function at sums and differences of frequencies."""
    m, total = len(target), np.zeros((2 * len(target),) * 2)
    waves = list(_component_waves(target.frequencies.omega.astype(np.float64), mixture))
    mean = np.asarray(sum(wave.mean for wave in waves))
    for first in range(0, m, FREQUENCIES_PER_BLOCK):
        last = min(first + FREQUENCIES_PER_BLOCK, m)
        sums = np.zeros((4, last - first, last))
        for wave in waves:
            wave.add_products(sums, first, last)
        plus, plus_turned, minus, minus_turned = sums
        total[first:last, :last], total[m + first : m + last, m : m + last] = minus + plus, minus - plus
        total[m + first : m + last, :last] = plus_turned + minus_turned
        total[m : m + last, first:last] = (plus_turned - minus_turned).T
    total -= np.outer(mean, mean)
    total *= target.sampling
    ridge = COVARIANCE_RIDGE * np.trace(total) / len(total)
    total[np.diag_indices_from(total)] += ridge + target.released / 2
    factor = cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    return CorrelatedErrors(np.asarray(factor, np.float64), float(ridge))


@dataclass(frozen=True)
class _ComponentWave:
    """A component's part in means of products of waves, from those at sums and differences of frequencies."""

    mean: Double  # of cosines and sines, (2 m)
    left: Double  # exponents at sums and at differences are left @ right, (2, m, d + 2)
    right: Double  # (d + 2, m)
    turns: Double  # cosines and sines of phases of sums and differences are turns @ phases / 2, (4, m, 2)
    phases: Double  # (2, m)

    def add_products(self, sums: Double, first: int, last: int) -> None:
        """Adds the cosine and sine at sums, then at differences, of some frequencies and all those before them."""
        right, phases = self.right[:, :last], self.phases[:, :last]
        for side, left in enumerate(self.left):
            damping = left[first:last] @ right
            np.exp(damping, out=damping)
            for part in (2 * side, 2 * side + 1):
                turned = self.turns[part, first:last] @ phases
                turned *= damping
                sums[part] += turned


def _component_waves(omega: Double, mixture: Mixture) -> Iterator[_ComponentWave]:
    one, weights = np.ones((len(omega), 1)), mixture.weights / mixture.weights.sum()
    for weight, location, covariance in zip(weights, mixture.locations, mixture.covariances(), strict=True):
        along, phase = omega @ covariance, omega @ location
        half, c, s = 0.5 * np.sum(along * omega, axis=1, keepdims=True), np.cos(phase), np.sin(phase)
        sides = [np.concatenate([sign * along, -half, one], axis=1) for sign in (-1, 1)]
        turns = [np.stack(pair, axis=1) for pair in ((c, -s), (s, c), (c, s), (s, -c))]
        yield _ComponentWave(
            mean=weight * np.concatenate([c, s]) * np.tile(np.exp(-half[:, 0]), 2),
            left=np.stack(sides),
            right=np.concatenate([omega, one, -half], axis=1).T.copy(),
            turns=0.5 * weight * np.stack(turns),
            phases=np.stack([c, s]),
        )


def residual(target: Target, mixture: Mixture, whitening: Whitening) -> Double:
    """The whitened residual of a mixture, its weights made to sum to one."""
    whole = replace(mixture, weights=mixture.weights / mixture.weights.sum())
    return _residual(target, whole, whitening, 0.0)[0][:-1]


def levenberg_marquardt(
    target: Target,
    mixture: Mixture,
    whitening: Whitening,
    *,
    iterations: int,
    hold: float = 0.0,
    tolerance: float = COST_TOLERANCE,
) -> tuple[Mixture, float]:
    """The mixture at a local minimum of the whitened squared residual, and that minimum.

    `hold` is the price of a squared deviation of shapes from those at the start (a factor e of a variance); with an
    infinite one they are fixed. The search ends after two steps of less than this relative gain.
    """
    stiff, free = SUM_PENALTY * np.sqrt(len(target)), bool(np.isfinite(hold))
    lam, quiet, start = 1e-2, 0, mixture.shapes
    left, waves = _residual(target, mixture, whitening, stiff)
    cost = float(left @ left)
    for _ in range(iterations):
        jacobian = _jacobian(target, mixture, waves, whitening, stiff, free=free)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ left
        if hold and free:
            away, is_shape = away_from(mixture, start)
            normal[np.diag_indices_from(normal)] += hold * is_shape
            slope -= hold * away
        size = np.diag(normal) + 1e-6 * np.diag(normal).max()
        while lam < 1e8:
            try:
                step = cho_solve(cho_factor(normal + np.diag(lam * size)), slope)
            except LinAlgError:
                lam *= 10
                continue
            other = moved(mixture, step, free=free)
            other_left, other_waves = _residual(target, other, whitening, stiff)
            other_cost = float(other_left @ other_left)
            if hold and free:
                other_cost += hold * float(np.sum(away_from(other, start)[0] ** 2))
            if other_cost < cost:
                break
            lam *= 5
        else:
            break
        expected = 2 * step @ slope - step @ normal @ step
        gained = (cost - other_cost) / max(expected, 1e-300)
        lam = max(lam * (0.2 if gained > 0.5 else 1 if gained > 0.1 else 2), 1e-8)
        quiet = quiet + 1 if cost - other_cost < tolerance * cost else 0
        mixture, left, waves, cost = other, other_left, other_waves, other_cost
        if quiet >= 2:
            break
    return mixture, cost


def _residual(
    target: Target, mixture: Mixture, whitening: Whitening, stiff: float
) -> tuple[Double, NDArray[np.complex128]]:
    """The whitened residual, last the sum of weights; and each component's characteristic function."""
    waves = mixture.component_characteristics(target.frequencies)
    parts = whitening(target.stacked(target.values - mixture.weights @ waves))
    return np.append(parts, stiff * (1 - mixture.weights.sum())), waves


def _jacobian(
    target: Target, mixture: Mixture, waves: NDArray[np.complex128], whitening: Whitening, stiff: float, *, free: bool
) -> Double:
    """Whitened derivatives; last, those of the sum of weights."""
    parts = derivatives(target, mixture, waves, free=free)
    last = np.zeros(parts.shape[1])
    last[weight_places(mixture, len(last))] = stiff * mixture.weights
    return np.concatenate([whitening(parts), last[None]])


def derivatives(
    target: Target, mixture: Mixture, waves: NDArray[np.complex128] | None = None, *, free: bool = True
) -> Double:
    """Derivatives of the values' parts, (2 m, coordinates), along the coordinates of small steps.

    Coordinates are, for each component, the logarithm of its weight, its location in units of `widths`, and, if shapes
    are free, those of `Model.moved`; those of a shared shape come last. `waves` are the components' characteristic
    functions, if known.
    """
    if waves is None:
        waves = mixture.component_characteristics(target.frequencies)
    weighted = (mixture.weights[:, None] * waves)[:, :, None]
    projected = target.frequencies.omega.astype(np.float64) @ widths(mixture)
    own = [weighted, 1j * weighted * projected]
    shapes = mixture.model.steps(mixture.shapes, target.frequencies).astype(np.float64) if free else np.empty(0)
    if free and not mixture.model.tied:
        own.append(-weighted * shapes)
    columns = np.concatenate(own, axis=2).transpose(1, 0, 2).reshape(len(target), -1)
    if free and mixture.model.tied:
        columns = np.concatenate([columns, -weighted.sum(axis=0) * shapes[0]], axis=1)
    return target.stacked(columns)


NORMAL_RIDGE = 1e-10  # of the normal matrix whose diagonal is one


def weight_places(mixture: Mixture, n: int) -> slice:
    """The coordinates of weights among all n of small steps."""
    k, d = mixture.locations.shape
    per = 1 + d if mixture.model.tied else n // k
    return slice(0, k * per, per)


def scaled_factor(normal: Double) -> tuple[tuple[Double, bool], Double]:
    """The Cholesky factor of a normal matrix whose rows and columns are scaled to a diagonal of 1, and the scales."""
    scale = 1 / np.sqrt(np.maximum(np.diag(normal), 1e-300))
    scaled = normal * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] += NORMAL_RIDGE
    return cho_factor(scaled), scale


def widths(mixture: Mixture) -> Double:
    """A factor L of each component's covariance, plus a tiny ridge."""
    covariances = mixture.covariances()
    d = covariances.shape[1]
    least = 1e-6 * max(float(np.mean(np.trace(covariances, axis1=1, axis2=2))) / d, 1e-6)
    return np.linalg.cholesky(covariances + least * np.eye(d))


def away_from(mixture: Mixture, start: Double) -> tuple[Double, NDArray[np.bool_]]:
    """Deviations of shapes from those at the start, 0 for other parameters; and which coordinates are shapes."""
    K, d = mixture.locations.shape
    deviations = mixture.model.deviations(mixture.shapes, start)
    others = np.zeros((len(deviations), K * (1 + d) // len(deviations)))
    away = np.concatenate([others, deviations], axis=1)
    return away.ravel(), np.broadcast_to(np.arange(away.shape[1]) >= others.shape[1], away.shape).ravel()


def moved(mixture: Mixture, step: Double, *, free: bool) -> Mixture:
    K, d = mixture.locations.shape
    per = 1 + d if mixture.model.tied else len(step) // K
    own = step[: K * per].reshape(K, per)
    away = own[:, 1 : 1 + d]
    away = away / np.maximum(1, np.linalg.norm(away, axis=1, keepdims=True) / (LONGEST_STEP * np.sqrt(d)))
    shape_step = step[K * per :][None] if mixture.model.tied else own[:, 1 + d :]
    return replace(
        mixture,
        weights=mixture.weights * np.exp(np.clip(own[:, 0], -1.5 * LONGEST_STEP, 1.5 * LONGEST_STEP)),
        locations=mixture.locations + np.einsum("kij,kj->ki", widths(mixture), away),
        shapes=mixture.model.moved(mixture.shapes, shape_step) if free else mixture.shapes,
    )
