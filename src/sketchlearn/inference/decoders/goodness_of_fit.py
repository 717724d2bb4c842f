"""Whether what a mixture leaves of a sketch is what chance leaves: a figure that is 1 on average, and a p-value.

A fit leaves e = (I - K) w of whitened errors w, K the projection on the whitened derivatives V of the mixture's numbers
(less than a projection where shapes are held). With C the covariance of w under the mixture, |e|^2 has the mean tr BC
and the variance 2 tr BCBC, B = (I - K)^2. C is not quite the identity: a ridge was added, or errors are correlated
that were taken for independent. |e|^2 is taken for a multiple of a chi-square with these moments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve, lapack, solve_triangular
from scipy.special import gammaincc

from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.refinement import (
    CorrelatedErrors,
    Whitening,
    correlated_errors,
    derivatives,
    moved,
    shape_coordinates,
)
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import FrequencySet, Mixture
from sketchlearn.kernels.dispatch import one_blas_thread

RELATIVE_RIDGE = 1e-10  # of the normal matrix whose diagonal is one
DRAWN_NUMBERS, FEWEST_AND_MOST_DRAWS = 1 << 21, (1024, 8192)
PASSING_FIT_TEST, PASSING_P_VALUE = 2.0, 0.001
MOST_DISTURBED = 0.02  # deviations, by the highest harmonic that is known: others follow it
PLACES = 8192  # in a wave, at which its values are computed: a power of two


@dataclass(frozen=True)
class FitTest:
    """The squared residual relative to its mean, 1 on average if records come from the mixture; and how likely a
    larger one is then, or None where that is not known."""

    figure: float
    p_value: float | None

    @property
    def passes(self) -> bool:
        """Whether a sketch agrees with records of the mixture, or differs by little, as those of many records do."""
        return self.figure <= PASSING_FIT_TEST or (self.p_value or 0.0) >= PASSING_P_VALUE


def tested(target: Target, mixture: Mixture, whitening: Whitening, hold: float) -> FitTest:
    """That of a mixture that was fitted with this whitening; `hold` as in `levenberg_marquardt`.

    With `CorrelatedErrors`, of a mixture of Gaussians.
    """
    residual = target.values - mixture.characteristic(target.frequencies)
    left = whitening(np.concatenate([residual.real, residual.imag * target.imaginary]))
    steps = whitening(derivatives(target, mixture))
    free = _free_directions(mixture, steps.shape[1])
    price = free.T @ ((hold * shape_coordinates(mixture))[:, None] * free)
    steps = steps @ free
    scale = 1 / np.sqrt(np.maximum(np.sum(steps**2, axis=0), 1e-300))
    steps, normal = steps * scale, price * np.outer(scale, scale)
    normal += steps.T @ steps
    normal[np.diag_indices_from(normal)] += RELATIVE_RIDGE
    inverse = np.asarray(np.linalg.inv(normal), np.float64)
    if isinstance(whitening, CorrelatedErrors):
        mean, variance = _known_moments(whitening, steps, inverse)
    else:
        known = _clean(target, mixture, whitening)
        mean, variance = _drawn_moments(_errors(target, mixture, whitening), steps, inverse, known)
        left = left[known]
    cost, mean, variance = float(left @ left), max(mean, 1e-300), max(variance, 1e-300)
    return FitTest(cost / mean, float(gammaincc(mean**2 / variance, cost * mean / variance)))


def _known_moments(whitening: CorrelatedErrors, steps: Double, inverse: Double) -> tuple[float, float]:
    """Mean and variance of |e|^2, where the covariance of whitened errors is the identity, less a ridge."""
    factor, ridge = whitening.factor, whitening.ridge
    precision = np.tril(lapack.dpotri(factor, lower=1)[0])
    diagonal = np.diag(precision)
    n, once = len(factor), ridge * diagonal.sum()
    squares = n - 2 * once + ridge**2 * (2 * np.sum(precision * precision) - diagonal @ diagonal)  # tr CC
    back = solve_triangular(factor, steps, lower=True, trans="T", check_finite=False)
    moved = steps - ridge * whitening(back)  # C V
    taken = 2 * inverse - inverse @ (steps.T @ steps) @ inverse  # B = I - V taken V'
    seen = taken @ (steps.T @ moved)
    variance = 2 * (squares - 2 * np.sum(taken * (moved.T @ moved)) + np.sum(seen * seen.T))
    return float(n - once - np.trace(seen)), float(variance)


def _drawn_moments(errors: Double, steps: Double, inverse: Double, known: NDArray[np.bool_]) -> tuple[float, float]:
    """The same from draws of whitened errors, as rows, for some of the numbers."""
    left = errors[:, known] - (errors @ steps) @ (inverse @ steps[known].T)
    mean, n = float(np.sum(left * left)) / len(left), len(left)
    products = left.T @ left if left.shape[1] <= n else left @ left.T  # their squares have the same sum
    squares = float(np.sum((products / n) ** 2)) - mean**2 / n  # The second is what random draws add.
    return mean, 2 * squares


def _clean(target: Target, mixture: Mixture, whitening: Whitening) -> NDArray[np.bool_]:
    """Which numbers of the sketch harmonics of the wave disturb little that are of higher order than those known."""
    if not target.harmonics:
        return np.ones(2 * len(target), bool)
    order, ratio = target.harmonics[-1]
    disturbed = np.abs(ratio * mixture.characteristic(FrequencySet(order * target.frequencies.omega)))
    return np.asarray(whitening(np.tile(disturbed, 2)) <= MOST_DISTURBED)


def _errors(target: Target, mixture: Mixture, whitening: Whitening) -> Double:
    """Draws of whitened errors, as rows: waves may have harmonics, and records may add to one group of values each."""
    rng, m = np.random.default_rng(0), len(target)
    draws = int(np.clip(DRAWN_NUMBERS // m, *FEWEST_AND_MOST_DRAWS))
    added = _records(target, mixture, draws, rng)
    mean, groups = added.mean(axis=0), target.n_groups
    if groups > 1:  # records add to their group that many times as much, and nothing to the others: so on average
        group = np.tile(target.places // target.group_size, 2)
        others = added * (groups * (group == rng.integers(groups, size=(draws, 1))) - 1)
        added = np.sqrt(target.sampling) * (added - mean) + np.sqrt(target.subsampling / (groups - 1)) * others
    else:
        added = np.sqrt(target.sampling) * (added - mean)
    if target.released:
        deviations = np.sqrt(target.released / (1 + target.imaginary)) * np.repeat([1.0, target.imaginary], m)
        added += deviations * rng.standard_normal(added.shape)
    return whitening(added.T).T


def _records(target: Target, mixture: Mixture, n: int, rng: np.random.Generator) -> Double:
    """What records of the mixture would add to each value, were it not for groups: (n, 2 m)."""
    rows = mixture.sample(n, rng)[0]
    turns = np.exp(2j * np.pi * np.arange(PLACES) / PLACES)
    shift = target.frequencies.shift
    first = 1.0 if shift is None else np.exp(1j * (shift - target.dither)[0])
    wave = first * turns + sum(ratio * turns**order for order, ratio in target.harmonics)
    phases = rows @ target.frequencies.omega.T.astype(np.float64) + target.dither
    values = wave[np.rint(phases * (PLACES / (2 * np.pi))).astype(np.int64) & (PLACES - 1)]
    if target.imaginary:
        values *= np.exp(-1j * target.dither)
    return np.concatenate([values.real, values.imag * target.imaginary], axis=1)


def _free_directions(mixture: Mixture, n: int) -> Double:
    """Directions of the coordinates along which weights keep their sum, as columns."""
    per = 1 + mixture.locations.shape[1] if mixture.model.tied else n // len(mixture)
    slope = np.zeros((n, 1))
    slope[: len(mixture) * per : per, 0] = mixture.weights
    return np.asarray(np.linalg.qr(slope, mode="complete")[0][:, 1:])


BLOCK = 500  # frequencies, for clusters: half of 1000 had 1.2 % more variance, in half of the time
ONE_BLOCK = 1.2  # So many times as large, one alone is not cut.
LEAST_NUMBERS_PER_PARAMETER = 2.0
MOST_PRODUCTS = 3e9  # numbers times squared parameters: more would take seconds
LEAST_RELATIVE_SQUARE = 1e-24  # of what a parameter changes: components that came to nothing change less
MOST_STEPS = 12
SETTLED, NEARLY_SETTLED = 1e-4, 0.02  # mean square of a step, in units of the parameters' deviations
MOST_LEFT = 1.5  # squared residual per degree of freedom: with more, records are not of the mixture


@dataclass(frozen=True)
class EfficientSteps:
    """Small steps of the parameters of a mixture that fit it to a target, along the coordinates of `derivatives`."""

    target: Target
    blocks: tuple[tuple[NDArray[np.int64], CorrelatedErrors], ...]  # places of parts of values, and their whitening
    slopes: Double  # how parameters follow the parts of values, (2 m, coordinates)
    weighed: Double  # V J, (2 m, coordinates)

    @classmethod
    def of(cls, target: Target, mixture: Mixture, block: int) -> EfficientSteps | None:
        """Those near a mixture; None where the covariance of errors is not known, or would take long."""
        p = mixture.model.n_parameters(len(mixture), target.n_features)
        enough = target.n_numbers >= LEAST_NUMBERS_PER_PARAMETER * p and target.n_numbers * p**2 <= MOST_PRODUCTS
        if not target.whole or target.released or not enough:
            return None
        jacobian, m = derivatives(target, mixture), len(target)
        blocks, weighed = [], np.empty_like(jacobian)
        try:
            for which in np.array_split(np.arange(m), 1 if m <= ONE_BLOCK * block else -(-m // block)):
                places = np.concatenate([which, m + which])
                errors = correlated_errors(target.some(which), mixture)
                weighed[places] = errors.weighed(jacobian[places])
                blocks.append((places, errors))
            follow = _inverse_keeping_sum(jacobian.T @ weighed, mixture)
        except LinAlgError:
            return None
        return cls(target, tuple(blocks), weighed @ follow, weighed)

    def step(self, mixture: Mixture) -> tuple[Mixture, float]:
        """The mixture after a step, and the step's mean square in units of the parameters' deviations."""
        left = self._left(mixture)
        step = left @ self.slopes
        other = moved(mixture, step, free=True)
        other = replace(other, weights=other.weights / other.weights.sum())
        return other, float(left @ self.weighed @ step) / len(step)

    def leaves(self, mixture: Mixture) -> float:
        """The squared residual of a mixture per degree of freedom, 1 or less on average if records are of it."""
        left = self._left(mixture)
        cost = sum(float(np.sum(errors(left[places]) ** 2)) for places, errors in self.blocks)
        return cost / float(len(left) - self.slopes.shape[1])

    def _left(self, mixture: Mixture) -> Double:
        left = self.target.values - mixture.characteristic(self.target.frequencies)
        return np.concatenate([left.real, left.imag])


def efficient(target: Target, mixture: Mixture, block: int = BLOCK) -> Mixture | None:
    """The mixture nearby whose errors are least; None where it is not found, or records are not of such a mixture."""
    found = replace(mixture, weights=mixture.weights / mixture.weights.sum())
    with one_blas_thread():
        steps = EfficientSteps.of(target, found, block)
        if steps is None:
            return None
        for _ in range(MOST_STEPS):
            found, size = steps.step(found)
            if not SETTLED < size < np.inf:
                break
        return found if size <= SETTLED and steps.leaves(found) <= MOST_LEFT else None


def slopes_of_efficient(target: Target, mixture: Mixture, block: int = BLOCK) -> Double | None:
    """How the parameters of a mixture, if it is an efficient fit, follow the parts of values; None if it is not."""
    steps = EfficientSteps.of(target, mixture, block)
    return None if steps is None or steps.step(mixture)[1] > NEARLY_SETTLED else steps.slopes


def _inverse_keeping_sum(normal: Double, mixture: Mixture) -> Double:
    """The inverse of J'VJ along the steps that keep the sum of weights; an error where some steps change nothing."""
    squares = np.diag(normal)
    if not squares.min() > LEAST_RELATIVE_SQUARE * squares.max():
        raise LinAlgError
    scale = 1 / np.sqrt(squares)
    scaled = normal * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] += RELATIVE_RIDGE
    found = cho_solve(cho_factor(scaled), np.eye(len(scaled))) * scale[:, None] * scale
    per = 1 + mixture.locations.shape[1] if mixture.model.tied else len(found) // len(mixture)
    of_sum = found[:, : len(mixture) * per : per] @ mixture.weights
    across = float(of_sum[: len(mixture) * per : per] @ mixture.weights)
    return np.asarray(found - np.outer(of_sum, of_sum) / across)
