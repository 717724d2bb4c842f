"""Joint refinement by Levenberg-Marquardt, in coordinates that suit each component.

Weights move by factors, locations in units of their component's own width, covariances by S <- L exp(A) L'. Residuals
are measured in units of their own covariance, which makes the estimate efficient (generalised method of moments).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, cholesky, solve_triangular

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.models import Double, Mixture

LONGEST_STEP = 1.0  # component widths for a location, factors of e for a weight
RELATIVE_RIDGE = 1e-5  # of the residual's covariance, relative to its mean eigenvalue
COST_TOLERANCE = 1e-6
FREQUENCIES_PER_BLOCK = 64
SUM_PENALTY = 10.0  # on weights that do not sum to one, per square root of a frequency

#: Divides residuals, an array (2 m, ...) of real parts above imaginary ones, by the square root of their covariance.
Whitening = Callable[[Double], Double]


def independent_errors(target: Target) -> Whitening:
    """Each part of a value by its own deviation, about sqrt((1 - |z|^2) / 2n) where records add to all values."""
    power = (1 + sum(abs(ratio) ** 2 for _, ratio in target.harmonics)) / 2
    own = target.sampling * np.maximum(1 - np.abs(target.values) ** 2, 1e-3)
    scales = np.tile(1 / np.sqrt(power * (own + target.subsampling) + target.released / 2), 2)
    return lambda parts: parts * (scales if parts.ndim == 1 else scales[:, None])


@dataclass(frozen=True)
class CorrelatedErrors:
    """Residuals by the square root of their whole covariance, to which a ridge was added."""

    factor: Double  # lower triangular
    ridge: float

    def __call__(self, parts: Double) -> Double:
        return np.asarray(solve_triangular(self.factor, parts, lower=True, check_finite=False))

    def weighed(self, parts: Double) -> Double:
        """Parts by the covariance itself."""
        return np.asarray(cho_solve((self.factor, True), parts, check_finite=False))


def correlated_errors(target: Target, mixture: Mixture) -> CorrelatedErrors:
    """The whole covariance, from the mixture's characteristic function at sums and differences of frequencies."""
    m, total, mean = len(target), np.zeros((2 * len(target),) * 2), np.zeros(2 * len(target))
    waves = list(_component_waves(target.frequencies.omega.astype(np.float64), mixture))
    for wave in waves:
        mean += wave.mean
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
    ridge = RELATIVE_RIDGE * np.trace(total) / len(total)
    total[np.diag_indices_from(total)] += ridge + target.released / 2
    factor = cholesky(total, lower=True, overwrite_a=True, check_finite=False)
    return CorrelatedErrors(np.asarray(factor, np.float64), float(ridge))


@dataclass(frozen=True)
class _ComponentWave:
    """What a component adds to means of products of waves, from those at sums and differences of frequencies."""

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
    """What a mixture, its weights made to sum to one, leaves of the values' parts, whitened."""
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

    `hold` pulls shapes back to those at the start: it is the price of a squared deviation (a factor e of a variance);
    with an infinite one they do not move at all. Two steps that lower the cost by less than this share of it end it.
    """
    stiff, free = SUM_PENALTY * np.sqrt(len(target)), bool(np.isfinite(hold))
    lam, quiet, start = 1e-2, 0, mixture.shapes
    left, waves = _residual(target, mixture, whitening, stiff)
    cost = float(left @ left)
    for _ in range(iterations):
        jacobian = _jacobian(target, mixture, waves, whitening, stiff, free=free)
        normal, slope = jacobian.T @ jacobian, jacobian.T @ left
        if hold and free:
            away, is_shape = _away(mixture, start)
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
                other_cost += hold * float(np.sum(_away(other, start)[0] ** 2))
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
    cosines, sines = mixture.waves(target.frequencies)
    waves = cosines.astype(np.float64) + 1j * sines.astype(np.float64)
    left = target.values - mixture.weights @ waves
    parts = whitening(np.concatenate([left.real, left.imag * target.imaginary]))
    return np.append(parts, stiff * (1 - mixture.weights.sum())), waves


def _jacobian(
    target: Target, mixture: Mixture, waves: NDArray[np.complex128], whitening: Whitening, stiff: float, *, free: bool
) -> Double:
    """Whitened derivatives; last, those of the sum of weights."""
    parts = derivatives(target, mixture, waves, free=free)
    per = parts.shape[1] // len(mixture) if not (free and mixture.model.tied) else 1 + target.n_features
    last = np.zeros(parts.shape[1])
    last[: len(mixture) * per : per] = stiff * mixture.weights
    return np.concatenate([whitening(parts), last[None]])


def derivatives(
    target: Target, mixture: Mixture, waves: NDArray[np.complex128] | None = None, *, free: bool = True
) -> Double:
    """Derivatives of the values' parts, (2 m, coordinates), along the coordinates of small steps.

    Those are, for each component, the logarithm of its weight, its location in units of `widths`, and the coordinates
    of `Model.moved`, unless shapes are not free; those of a shape that all components share come last. `waves` are the
    components' characteristic functions, if they are known.
    """
    if waves is None:
        cosines, sines = mixture.waves(target.frequencies)
        waves = cosines.astype(np.float64) + 1j * sines.astype(np.float64)
    weighted = (mixture.weights[:, None] * waves)[:, :, None]
    projected = target.frequencies.omega.astype(np.float64) @ widths(mixture)
    own = [weighted, 1j * weighted * projected]
    shapes = mixture.model.steps(mixture.shapes, target.frequencies).astype(np.float64) if free else np.empty(0)
    if free and not mixture.model.tied:
        own.append(-weighted * shapes)
    columns = np.concatenate(own, axis=2).transpose(1, 0, 2).reshape(len(target), -1)
    if free and mixture.model.tied:
        columns = np.concatenate([columns, -weighted.sum(axis=0) * shapes[0]], axis=1)
    return np.concatenate([columns.real, columns.imag * target.imaginary])


def widths(mixture: Mixture) -> Double:
    """A factor L of each component's covariance (or of nearly nothing)."""
    covariances = mixture.covariances()
    d = covariances.shape[1]
    least = 1e-6 * max(float(np.mean(np.trace(covariances, axis1=1, axis2=2))) / d, 1e-6)
    return np.linalg.cholesky(covariances + least * np.eye(d))


def shape_coordinates(mixture: Mixture) -> NDArray[np.bool_]:
    """Which coordinates of small steps are those of shapes."""
    return _away(mixture, mixture.shapes)[1]


def _away(mixture: Mixture, start: Double) -> tuple[Double, NDArray[np.bool_]]:
    """How far shapes are from those at the start, among zeros for other parameters; and which ones are shapes."""
    K, d = mixture.locations.shape
    deviations = mixture.model.deviations(mixture.shapes, start)
    if mixture.model.tied:
        away = np.concatenate([np.zeros(K * (1 + d)), deviations[0]])
        return away, np.arange(len(away)) >= K * (1 + d)
    away = np.concatenate([np.zeros((K, 1 + d)), deviations], axis=1)
    return away.ravel(), np.broadcast_to(np.arange(away.shape[1]) > d, away.shape).ravel()


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
