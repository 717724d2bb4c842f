"""The privacy of discrete Gaussian noise on a few integers, computed from its own probabilities.

Let a record change at most n integers, each by at most w, and let each have discrete Gaussian noise of scale s. The
worst record moves all n by w: for one integer, the best test of a shift v asks whether the release is at least some T,
and P(noise >= T - v) grows with v. What tells the two tables apart is then the sum K of the n integers alone, which
moves by n w. The noise is as private as continuous noise of ratio mu if for every T

    quantile(P(K >= T - n w)) - quantile(P(K >= T)) <= mu,

`quantile` that of the normal law: each such test is then no better than some test of continuous noise, and all other
tests are mixtures of these. It suffices to look at T > n w / 2, because K is symmetric, and at those T with
P(K >= T - n w) above a chance of 1e-60, which is negligible beside any delta that is computed with here.

The sum of n discrete Gaussians of scale s >= 2 is one of scale s sqrt(n), up to factors 1 +- 1e-16 n: two of variances
v_1 and v_2 add up to a Gaussian factor times the sum over all integers j of exp(-(j - c)^2 / (2 v)),
v = v_1 v_2 / (v_1 + v_2) >= s^2 / 2, which by Poisson summation varies with c by factors 1 +- 2.1 exp(-2 pi^2 v) only.
Of smaller scales, probabilities are convolved.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtri

Double = NDArray[np.float64]
NEGLIGIBLE = 1e-60
SMALLEST_DELTA = 1e-45  # NEGLIGIBLE is far below what rounding sets aside of it.
SMALLEST_SUMMED_SCALE = 2.0  # From here on, sums of discrete Gaussians are discrete Gaussians.
PROBABILITY_ERROR = 1e-10  # Above the errors of sums of 600,000 numbers in float64, and those of 10^5 such Gaussians.
MOST_INTEGERS, MOST_CONVOLVED = 10**5, 128
LARGEST_SCALE, LARGEST_RATIO = 40.0, 64.0
DEVIATIONS_BEYOND = 12.0  # Tails that are cut off there are e^-72 of those that are looked at.
SMALLEST_PROBABILITY = 1e-290
SCALE_STEP = 1e-5  # relative; scales are rounded to 16 bits later


def is_computed(n: int, shift: int, ratio: float, delta: float) -> bool:
    """Whether `smallest_scale` is for noise of this ratio: small noise on not too many integers.

    Of larger noise, what integers add to continuous noise is below a thousandth.
    """
    scale = shift * math.sqrt(n) / ratio
    few = n <= (MOST_INTEGERS if scale >= SMALLEST_SUMMED_SCALE else MOST_CONVOLVED)
    return few and scale < LARGEST_SCALE and ratio < LARGEST_RATIO and delta > SMALLEST_DELTA


def ratio_of(scale: float, n: int, shift: int) -> float:
    """The ratio mu of continuous noise that is no more private than noise of this scale on n integers, rounded up.

    >>> round(ratio_of(1.0, n=1, shift=1), 4), round(ratio_of(10.0, n=100, shift=1), 4)
    (1.0458, 1.0)
    """
    total, deviation = n * shift, scale * math.sqrt(n)
    furthest = math.sqrt(-2 * math.log(NEGLIGIBLE))
    reach = 2 * total + math.ceil(deviation * (furthest + DEVIATIONS_BEYOND)) + 32
    tails = np.cumsum(sum_of_noise(scale, n, reach)[::-1])[::-1][reach:]  # P(K >= k) for k = 0, 1, ...
    thresholds = np.arange(total // 2 + 1, reach)
    # P(K >= T - n w), from the other side where it is above a half
    near = thresholds - total
    power = np.where(near > 0, tails[np.maximum(near, 0)], tails[np.maximum(1 - near, 0)])
    quantiles = np.where(near > 0, 1.0, -1.0) * ndtri(power * (1 + np.where(near > 0, 1, -1) * PROBABILITY_ERROR))
    seen = (near <= 0) | (power > NEGLIGIBLE)
    excess = quantiles[seen] - ndtri(tails[thresholds[seen]] * (1 - PROBABILITY_ERROR))
    return float(excess.max()) * (1 + PROBABILITY_ERROR)


@cache
def smallest_scale(ratio: float, n: int, shift: int) -> float:
    """A scale at which noise on n integers is as private as continuous noise of this ratio, about the smallest one.

    >>> scale = smallest_scale(1.0, n=1, shift=1)
    >>> round(scale, 3), ratio_of(scale, n=1, shift=1) <= 1.0
    (1.042, True)
    """
    high = shift * math.sqrt(n) / ratio
    while ratio_of(high, n, shift) > ratio:
        high *= 1.125
    low = high / 1.25
    while high - low > SCALE_STEP * high:
        middle = (low + high) / 2
        low, high = (low, middle) if ratio_of(middle, n, shift) <= ratio else (middle, high)
    return high


def sum_of_noise(scale: float, n: int, reach: int) -> Double:
    """The probabilities of -reach, ..., reach as sums of n discrete Gaussian numbers.

    >>> sum_of_noise(0.5, n=2, reach=2).round(4).tolist()
    [0.0117, 0.1675, 0.6414, 0.1675, 0.0117]
    """
    if n == 1 or scale >= SMALLEST_SUMMED_SCALE:
        return _normalised(scale * math.sqrt(n), reach)
    total, power, left = np.ones(1), _trimmed(_normalised(scale, math.ceil(40 * scale) + 2)), n
    while left:
        if left & 1:
            total = _trimmed(np.convolve(total, power))
        left >>= 1
        if left:
            power = _trimmed(np.convolve(power, power))
    half = len(total) // 2
    return np.pad(total, reach - half) if half < reach else total[half - reach : half + reach + 1]


def _normalised(scale: float, reach: int) -> Double:
    weights = np.exp(-0.5 * (np.arange(-reach, reach + 1) / scale) ** 2)
    return np.asarray(weights / weights.sum())


def _trimmed(law: Double) -> Double:
    """A symmetric law without the ends that are as good as 0."""
    kept = int(np.count_nonzero(law[len(law) // 2 :] > SMALLEST_PROBABILITY)) - 1
    half = len(law) // 2
    return law[half - kept : half + kept + 1]
