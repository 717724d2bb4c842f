"""What is read off a sketch before it is decoded: where records lie, how far they spread, how wide clusters are."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.refinements.joint_refinement import Box, refine
from sketchlearn.models import DiagonalGaussian, Double, Mixture, SphericalGaussian

REWEIGHTING_ROUNDS = 3
FREQUENCIES_PER_PARAMETER = 10  # frequencies per coordinate of a center, in a sketch as fine as the clusters
COARSENING_EXPONENT = 0.6
BACKGROUND_POWER = 0.3  # Relative to the power of clusters where they are resolved.
WIDTH_FACTOR = 1.2  # Components that are too wide cost less than too narrow ones.
LEAST_RELATIVE_VARIANCE = 0.05  # Few low frequencies tell little of a coordinate narrower than the others.
LARGEST_MEAN = 6.0  # standard deviations


def read(target: Target, n_components: int) -> tuple[Double, Double, float]:
    """Mean and variance of all records, by coordinate, and the variance of a cluster, in the target's unit."""
    if target.one_scale and np.all(target.declared > 0) and (target.harmonics or not target.imaginary):
        # half the numbers, or disturbed ones, tell less than the sample that the operator was designed on
        mean, variances = np.zeros(target.n_features), target.declared**2
    else:
        mean, variances = _spread(target)
    variances = np.maximum(variances, target.declared**2)
    d = target.n_features
    if target.one_scale:
        return mean, variances, 1 / coarseness(n_components, d, len(target)) / d
    return mean, variances, _within(target, variances, n_components)


def coarseness(n_components: int, n_features: int, n_frequencies: int) -> float:
    """The squared scale of a sketch, in squared deviations of a cluster: small sketches are coarser."""
    return float(max(1.0, FREQUENCIES_PER_PARAMETER * n_components * n_features / n_frequencies) ** COARSENING_EXPONENT)


def _spread(target: Target) -> tuple[Double, Double]:
    """One Gaussian fitted to the frequencies along the axes; if there are none, to those where it is not small."""
    if target.released:
        return _spread_in_noise(target)
    probes = np.count_nonzero(target.frequencies.omega, axis=1) == 1
    part = target.some(probes) if np.sum(probes) >= target.n_features else target
    mixture = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, target.n_features)), _decay(part)[None])
    for _ in range(REWEIGHTING_ROUNDS):
        # the lower the frequency, the less heavy tails disturb
        mixture = _one_gaussian(part, mixture, mixture.shapes[0], steepness=1 if target.harmonics else 8)
    return mixture.locations[0], np.maximum(mixture.shapes[0], LEAST_RELATIVE_VARIANCE * mixture.shapes.mean())


def _spread_in_noise(target: Target) -> tuple[Double, Double]:
    """One Gaussian fitted to all frequencies where it is not small: one variance first, then one per coordinate.

    Those are drawn together as far as they differ by no more than the noise makes them differ.
    """
    d, squares = target.n_features, target.frequencies.squares.astype(np.float64)
    mixture = Mixture(SphericalGaussian(), np.ones(1), np.zeros((1, d)), np.full((1, 1), _decay(target).mean()))
    for _ in range(REWEIGHTING_ROUNDS):
        mixture = _one_gaussian(target, mixture, np.full(d, mixture.shapes[0, 0]))
    common = np.full(d, mixture.shapes[0, 0])
    own = _one_gaussian(target, replace(mixture, model=DiagonalGaussian(), shapes=common[None]), common)
    slow = np.exp(-squares @ common)
    slopes = (squares * common / 2) ** 2
    error = target.noise / 2 * (slow**3 @ slopes) / (slow**2 @ slopes) ** 2
    logs = np.log(own.shapes[0] / common)
    between = max(float(np.mean(logs**2 - error)), 0.0)
    return own.locations[0], common * np.exp(logs * between / (between + error))


def _one_gaussian(target: Target, mixture: Mixture, variances: Double, steepness: int = 1) -> Mixture:
    """The Gaussian refined where one of these variances is not small."""
    slow = np.exp(-steepness * (target.frequencies.squares @ variances).astype(np.float64))
    reach = LARGEST_MEAN * np.sqrt(variances)
    box = Box(-reach, reach, LEAST_RELATIVE_VARIANCE * float(variances.min()))
    return refine(target.weighted(slow), replace(mixture, weights=np.ones(1)), box, iterations=50, tolerance=1e-3)[0]


def _decay(target: Target) -> Double:
    """A first guess of the variance of each coordinate, from the decay of |z|^2 along it."""
    power = np.abs(target.values) ** 2 * (1 if target.imaginary else 2)
    squares = target.frequencies.squares.astype(np.float64)
    if not np.all(np.count_nonzero(squares, axis=1) == 1):
        total = squares.sum(axis=1)
        slow = np.argsort(total)[: max(4 * target.n_features, len(target) // 20)]
        return np.full(target.n_features, _best_decay(total[slow], power[slow]))
    return np.array([_best_decay(column[column > 0], power[column > 0]) for column in squares.T])


def _best_decay(squares: Double, power: Double) -> float:
    """The variance v, of 80 guesses, for which exp(-squares v) is nearest to the powers."""
    guesses = np.geomspace(1e-3, 1e3, 80)
    misfit = np.sum((power - np.exp(-np.outer(guesses, squares))) ** 2, axis=1)
    return float(guesses[int(np.argmin(misfit))])


def _within(target: Target, variances: Double, n_components: int) -> float:
    """|z|^2 is, on average, (1 - q) exp(-omega' V omega) + q exp(-|omega|^2 s^2), q about 1 / k: likelihood for s^2.

    Far from each other, the centers' phases are random, and |z|^2 is exponentially distributed around that average.
    The background keeps what the narrowest clusters leave at high frequencies from deciding; the widest matter most.
    """
    decay = (target.frequencies.squares @ variances).astype(np.float64)
    lengths = target.frequencies.lengths.astype(np.float64)
    power = np.abs(target.values) ** 2 * (1 if target.imaginary else 2)
    share, clear = 1 / n_components, decay > 1
    if n_components == 1 or not np.any(clear):
        return float(variances.mean())
    # a designed sketch has its frequencies where clusters are resolved: |omega|^2 s^2 near 1
    shortest = 0.05 if np.quantile(decay, 0.05) > 1 else min(np.mean(~clear) + 0.05, 0.95)
    long, short = np.quantile(lengths, [0.95, shortest])
    guesses = np.geomspace(0.5 / long, min(1 / short, variances.mean()), 60)
    best, together = (np.inf, guesses[0]), np.exp(-decay[clear])
    for s in guesses:
        contrast = np.exp(-lengths[clear] * s) - together
        for q in (share, 1.5 * share, 2 * share, 3 * share):
            background = BACKGROUND_POWER * q + target.noise
            mean = np.maximum(together + min(q, 1.0) * contrast, 0) + background
            best = min(best, (float(np.sum(np.log(mean) + (power[clear] + BACKGROUND_POWER * q) / mean)), s))
    return WIDTH_FACTOR**2 * float(best[1])
