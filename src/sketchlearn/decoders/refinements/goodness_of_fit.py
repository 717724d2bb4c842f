"""Whether what a mixture leaves of a sketch is what chance leaves: a figure that is 1 on average, and a p-value.

A fit leaves e = (I - K) w of whitened errors w, K the projection on the whitened derivatives V of the mixture's numbers
(less than a projection where shapes are held). With C the covariance of w under the mixture, |e|^2 has the mean tr BC
and the variance 2 tr BCBC, B = (I - K)^2. C is not quite the identity: a ridge was added, or errors are correlated
that were taken for independent. |e|^2 is taken for a multiple of a chi-square with these moments.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import lapack, solve_triangular
from scipy.special import gammaincc

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.refinements.gauss_newton import (
    CorrelatedErrors,
    Whitening,
    derivatives,
    shape_coordinates,
)
from sketchlearn.models import Double, FrequencySet, Mixture

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
