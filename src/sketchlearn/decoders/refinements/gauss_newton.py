"""Joint refinement by Levenberg-Marquardt, in coordinates that suit each component.

Weights move by factors, locations in units of their component's own width, covariances by S <- L exp(A) L'. Residuals
are measured in units of their own covariance, which makes the estimate efficient (generalised method of moments).
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, solve_triangular

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.models import Double, Mixture

LONGEST_STEP = 1.0  # component widths for a location, factors of e for a weight
RELATIVE_RIDGE = 1e-5  # of the residual's covariance, relative to its mean eigenvalue
COST_TOLERANCE = 1e-6
ROWS_AT_ONCE = 64  # of a covariance
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


def correlated_errors(target: Target, mixture: Mixture) -> CorrelatedErrors:
    """The whole covariance, from the mixture's characteristic function at sums and differences of frequencies."""
    omega, m = target.frequencies.omega.astype(np.float64), len(target)
    weights, covariances = mixture.weights / mixture.weights.sum(), mixture.covariances()
    decays = -0.5 * np.einsum("kij,ij->ki", omega @ covariances, omega)
    turns = np.exp(1j * (mixture.locations @ omega.T))
    mean = weights @ (turns * np.exp(decays))
    total = np.zeros((2 * m, 2 * m))  # the lower triangle of it, as many rows at once as a cache holds
    for first in range(0, m, ROWS_AT_ONCE):
        rows, columns = slice(first, min(first + ROWS_AT_ONCE, m)), slice(0, min(first + ROWS_AT_ONCE, m))
        minus, plus = (np.zeros((rows.stop - first, columns.stop), complex) for _ in range(2))
        for weight, covariance, decay, turn in zip(weights, covariances, decays, turns, strict=True):
            products, together = omega[rows] @ covariance @ omega[columns].T, decay[rows, None] + decay[columns]
            scaled = weight * turn[rows, None]
            minus += np.exp(together + products) * (scaled * turn[columns].conj())
            plus += np.exp(together - products) * (scaled * turn[columns])
        c, s = mean.real, mean.imag
        total[rows, columns] = 0.5 * (minus.real + plus.real) - np.outer(c[rows], c[columns])
        below = slice(m + first, m + rows.stop)
        total[below, m : m + columns.stop] = 0.5 * (minus.real - plus.real) - np.outer(s[rows], s[columns])
        total[m : m + columns.stop, rows] = 0.5 * (plus.imag - minus.imag).T - np.outer(s[columns], c[rows])
        total[below, columns] = 0.5 * (plus.imag + minus.imag) - np.outer(s[rows], c[columns])
    total *= target.sampling
    ridge = RELATIVE_RIDGE * np.trace(total) / len(total)
    total[np.diag_indices_from(total)] += ridge + target.released / 2
    return CorrelatedErrors(np.asarray(np.linalg.cholesky(total), np.float64), float(ridge))


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
            other = _moved(mixture, step, free=free)
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


def _moved(mixture: Mixture, step: Double, *, free: bool) -> Mixture:
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
