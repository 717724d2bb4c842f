"""The goodness of fit of a mixture: its squared residual relative to the expectation, and a p-value.

A fit leaves the residual e = (I - K) w of whitened errors w, K the projection on the whitened derivatives V of the
mixture's parameters (less than a projection where shapes are held). With C the covariance of w under the mixture, |e|^2
has the mean tr BC and the variance 2 tr BCBC, B = (I - K)^2. C is not quite the identity: a ridge was added, or errors
were taken for independent. |e|^2 is approximated by a multiple of a chi-square with these moments.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_solve, lapack, solve_triangular
from scipy.special import gammaincc

from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.refinement import (
    NORMAL_RIDGE,
    CorrelatedErrors,
    Whitening,
    away_from,
    correlated_errors,
    derivatives,
    moved,
    scaled_factor,
    weight_places,
)
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import FrequencySet, Mixture
from sketchlearn.kernels.dispatch import one_blas_thread

DRAWN_NUMBERS, FEWEST_AND_MOST_DRAWS = 1 << 21, (1024, 8192)
PASSING_FIT_TEST, PASSING_P_VALUE = 2.0, 0.001
LARGEST_DISTURBANCE = 0.02  # deviations, by the highest known harmonic: higher ones follow it
PLACES = 8192  # of a period at which a wave is tabulated: a power of two


@dataclass(frozen=True)
class FitTest:
    """The squared residual relative to its expectation under the mixture; and the p-value, or None if unknown."""

    figure: float
    p_value: float | None

    @property
    def passes(self) -> bool:
        """Whether the residual is small, or not significant."""
        return self.figure <= PASSING_FIT_TEST or (self.p_value or 0.0) >= PASSING_P_VALUE


def tested(target: Target, mixture: Mixture, whitening: Whitening, hold: float) -> FitTest:
    """The test of a mixture fitted with this whitening and `hold`; `CorrelatedErrors` are for Gaussians only."""
    left = whitening(target.stacked(target.values - mixture.characteristic(target.frequencies)))
    steps = whitening(derivatives(target, mixture))
    free = free_directions(mixture, steps.shape[1])
    price = free.T @ ((hold * away_from(mixture, mixture.shapes)[1])[:, None] * free)
    steps = steps @ free
    scale = 1 / np.sqrt(np.maximum(np.sum(steps**2, axis=0), 1e-300))
    steps, normal = steps * scale, price * np.outer(scale, scale)
    normal += steps.T @ steps
    normal[np.diag_indices_from(normal)] += NORMAL_RIDGE
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
    """Mean and variance of |e|^2 if the covariance of whitened errors is the identity, less a ridge."""
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
    """Mean and variance of |e|^2 for some of the numbers, from draws of whitened errors, as rows."""
    left = errors[:, known] - (errors @ steps) @ (inverse @ steps[known].T)
    mean, n = float(np.sum(left * left)) / len(left), len(left)
    products = left.T @ left if left.shape[1] <= n else left @ left.T  # their squares have the same sum
    squares = float(np.sum((products / n) ** 2)) - mean**2 / n  # The second is the bias of random draws.
    return mean, 2 * squares


def _clean(target: Target, mixture: Mixture, whitening: Whitening) -> NDArray[np.bool_]:
    """Which numbers are hardly disturbed by harmonics of higher order than the known ones."""
    if not target.harmonics:
        return np.ones(2 * len(target), bool)
    order, ratio = target.harmonics[-1]
    disturbed = np.abs(ratio * mixture.characteristic(FrequencySet(order * target.frequencies.omega)))
    return np.asarray(whitening(np.tile(disturbed, 2)) <= LARGEST_DISTURBANCE)


def _errors(target: Target, mixture: Mixture, whitening: Whitening) -> Double:
    """Draws of whitened errors, as rows, with harmonics of the wave and frequency subsampling."""
    rng, m = np.random.default_rng(0), len(target)
    draws = int(np.clip(DRAWN_NUMBERS // m, *FEWEST_AND_MOST_DRAWS))
    drawn, groups = _records(target, mixture, draws, rng), target.n_groups
    added = np.sqrt(target.sampling) * (drawn - drawn.mean(axis=0))
    if groups > 1:  # a record adds `groups` times as much to its group, and nothing to the others
        group = np.tile(target.places // target.group_size, 2)
        others = drawn * (groups * (group == rng.integers(groups, size=(draws, 1))) - 1)
        added += np.sqrt(target.subsampling / (groups - 1)) * others
    if target.released:
        deviations = np.sqrt(target.released / (1 + target.imaginary)) * np.repeat([1.0, target.imaginary], m)
        added += deviations * rng.standard_normal(added.shape)
    return whitening(added.T).T


def _records(target: Target, mixture: Mixture, n: int, rng: np.random.Generator) -> Double:
    """Contributions of records of the mixture to each value, without subsampling: (n, 2 m)."""
    rows = mixture.sample(n, rng)[0]
    turns = np.exp(2j * np.pi * np.arange(PLACES) / PLACES)
    shift = target.frequencies.shift
    first = 1.0 if shift is None else np.exp(1j * (shift - target.dither)[0])
    wave = first * turns + sum(ratio * turns**order for order, ratio in target.harmonics)
    phases = rows @ target.frequencies.omega.T.astype(np.float64) + target.dither
    values = wave[np.rint(phases * (PLACES / (2 * np.pi))).astype(np.int64) & (PLACES - 1)]
    if target.imaginary:
        values *= np.exp(-1j * target.dither)
    return target.stacked(values, axis=1)


def free_directions(mixture: Mixture, n: int) -> Double:
    """An orthonormal basis of steps that keep the sum of weights, as columns."""
    slope = np.zeros((n, 1))
    slope[weight_places(mixture, n), 0] = mixture.weights
    return np.asarray(np.linalg.qr(slope, mode="complete")[0][:, 1:])


BLOCK = 500  # frequencies, for clusters: half of 1000 had 1.2 % more variance, in half of the time
ONE_BLOCK = 1.2  # So many times as large, one alone is not cut.
LEAST_NUMBERS_PER_PARAMETER = 2.0
MOST_PRODUCTS = 3e9  # numbers times squared parameters: more would take seconds
LEAST_RELATIVE_SQUARE = 1e-24  # of a parameter's derivatives: components without weight have smaller ones
MOST_STEPS = 12
SETTLED, NEARLY_SETTLED = 1e-4, 0.02  # mean square of a step, in units of the parameters' deviations
LARGEST_RESIDUAL = 1.5  # squared, per degree of freedom, of records of the mixture


@dataclass(frozen=True)
class EfficientSteps:
    """Gauss-Newton steps from a mixture with the full covariance, along the coordinates of `derivatives`."""

    target: Target
    blocks: tuple[tuple[NDArray[np.int64], CorrelatedErrors], ...]  # places of parts of values, and their whitening
    slopes: Double  # derivatives of the parameters by the parts of values, (2 m, coordinates)
    weighed: Double  # V J, (2 m, coordinates)

    @classmethod
    def of(cls, target: Target, mixture: Mixture, block: int) -> EfficientSteps | None:
        """The steps near a mixture; None if the covariance of errors is unknown, or too expensive."""
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

    def residual(self, mixture: Mixture) -> float:
        """The squared residual of a mixture per degree of freedom: 1 or less on average for a good fit."""
        left = self._left(mixture)
        cost = sum(float(np.sum(errors(left[places]) ** 2)) for places, errors in self.blocks)
        return cost / float(len(left) - self.slopes.shape[1])

    def _left(self, mixture: Mixture) -> Double:
        return self.target.stacked(self.target.values - mixture.characteristic(self.target.frequencies))


def efficient(target: Target, mixture: Mixture, block: int = BLOCK) -> Mixture | None:
    """The efficient estimate near a mixture; None if it is not found, or the fit is poor."""
    found = replace(mixture, weights=mixture.weights / mixture.weights.sum())
    with one_blas_thread():
        steps = EfficientSteps.of(target, found, block)
        if steps is None:
            return None
        for _ in range(MOST_STEPS):
            found, size = steps.step(found)
            if not SETTLED < size < np.inf:
                break
        return found if size <= SETTLED and steps.residual(found) <= LARGEST_RESIDUAL else None


def slopes_of_efficient(target: Target, mixture: Mixture, block: int = BLOCK) -> Double | None:
    """Derivatives of an efficient estimate by the parts of values; None if the mixture is none."""
    steps = EfficientSteps.of(target, mixture, block)
    return None if steps is None or steps.step(mixture)[1] > NEARLY_SETTLED else steps.slopes


def _inverse_keeping_sum(normal: Double, mixture: Mixture) -> Double:
    """The inverse of J'VJ along the steps that keep the sum of weights; `LinAlgError` if it is singular."""
    squares = np.diag(normal)
    if not squares.min() > LEAST_RELATIVE_SQUARE * squares.max():
        raise LinAlgError
    factor, scale = scaled_factor(normal)
    found = cho_solve(factor, np.eye(len(normal))) * scale[:, None] * scale
    places = weight_places(mixture, len(found))
    of_sum = found[:, places] @ mixture.weights
    across = float(of_sum[places] @ mixture.weights)
    return np.asarray(found - np.outer(of_sum, of_sum) / across)
