"""What is read off a sketch before it is decoded: where records lie, how far they spread, how wide clusters are."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.refinement import Box, refine
from sketchlearn.decoders.target import Target
from sketchlearn.models import DiagonalGaussian, Mixture
from sketchlearn.models.frequency_set import Double

ROUNDS = 3
#: a coordinate's variance is at least this part of the mean one: few low frequencies tell little of a narrow coordinate
NARROWEST = 0.05


@dataclass(frozen=True)
class Reading:
    """In the target's unit: mean and variance of all records, by coordinate, and the variance of a cluster."""

    mean: Double
    variances: Double
    within: float


def read(target: Target, n_components: int) -> Reading:
    """Reads location, spread and cluster width off the target."""
    if target.one_scale and np.all(target.declared > 0) and (target.harmonics or not target.imaginary):
        # half the numbers, or disturbed ones, tell less than the sample that the operator was designed on
        mean, variances = np.zeros(target.n_features), target.declared**2
    else:
        mean, variances = _spread(target)
    variances = np.maximum(variances, target.declared**2)
    if not target.one_scale:
        return Reading(mean, variances, _within(target, variances, n_components))
    # the design's rule, backwards: scale^2 = d s^2 sqrt(10 k d / m)
    d = target.n_features
    return Reading(mean, variances, min(1.0, np.sqrt(len(target) / (10 * n_components * d))) / d)


def _spread(target: Target) -> tuple[Double, Double]:
    """One Gaussian fitted to the frequencies along the axes; if there are none, to those where it is not small."""
    probes = np.count_nonzero(target.frequencies.omega, axis=1) == 1
    part = target.some(probes) if np.sum(probes) >= target.n_features else target
    d = target.n_features
    guess = _decay(part)
    mixture = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, d)), guess[None])
    for _ in range(ROUNDS):
        variances = mixture.shapes[0]
        # the lower the frequency, the less heavy tails disturb
        slow = np.exp(-(1 if target.harmonics else 8) * (part.frequencies.squares @ variances).astype(np.float64))
        reach = 6 * np.sqrt(variances)
        box = Box(-reach, reach, NARROWEST * float(variances.min()))
        counted = part.weighted(slow)
        mixture, _, _ = refine(counted, replace(mixture, weights=np.ones(1)), box, iterations=50, tolerance=1e-3)
    return mixture.locations[0], np.maximum(mixture.shapes[0], NARROWEST * mixture.shapes.mean())


def _decay(target: Target) -> Double:
    """A first guess of the variance of each coordinate, from the decay of |z|^2 along it."""
    power = np.abs(target.values) ** 2 * (1 if target.imaginary else 2)
    squares = target.frequencies.squares.astype(np.float64)
    guesses = np.geomspace(1e-3, 1e3, 80)
    variances = np.empty(target.n_features)
    alone = np.count_nonzero(squares, axis=1) == 1
    if not np.all(alone):
        total = squares.sum(axis=1)
        slow = np.argsort(total)[: max(4 * target.n_features, len(target) // 20)]
        return np.full(target.n_features, _best_decay(total[slow], power[slow], guesses))
    for column in range(target.n_features):
        seen = squares[:, column] > 0
        variances[column] = _best_decay(squares[seen, column], power[seen], guesses)
    return variances


def _best_decay(squares: Double, power: Double, guesses: Double) -> float:
    """The guess v for which exp(-squares v) is nearest to the powers."""
    misfit = np.sum((power - np.exp(-np.outer(guesses, squares))) ** 2, axis=1)
    return float(guesses[int(np.argmin(misfit))])


def _within(target: Target, variances: Double, n_components: int) -> float:
    """|z|^2 is, on average, (1 - 1/k) exp(-omega' V omega) + exp(-|omega|^2 s^2) / k: least squares for s^2."""
    decay = (target.frequencies.squares @ variances).astype(np.float64)
    lengths = target.frequencies.lengths.astype(np.float64)
    power = np.abs(target.values) ** 2 * (1 if target.imaginary else 2) - target.noise
    share = 1 / n_components
    clear = decay > 1
    if n_components == 1 or not np.any(clear):
        return float(variances.mean())
    # a designed sketch has its frequencies where clusters are resolved: |omega|^2 s^2 near 1
    low, high = np.quantile(
        lengths, [0.95, 0.05 if np.quantile(decay, 0.05) > 1 else min(np.mean(~clear) + 0.05, 0.95)]
    )
    guesses = np.geomspace(0.5 / low, min(1 / high, variances.mean()), 60)
    best = (np.inf, guesses[0])
    for s in guesses:
        apart, together = np.exp(-lengths[clear] * s), np.exp(-decay[clear])
        contrast = apart - together
        q = np.clip((power[clear] - together) @ contrast / max(contrast @ contrast, 1e-300), share, 3 * share)
        best = min(best, (float(np.sum((power[clear] - together - q * contrast) ** 2)), s))
    return float(best[1])
