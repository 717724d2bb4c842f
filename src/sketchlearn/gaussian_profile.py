"""The exact privacy of Gaussian noise: epsilon, delta and the ratio mu of sensitivity to deviation.

Noise of deviation sigma on numbers that one record moves by at most Delta (L2) is (epsilon, delta)-private if and only
if delta >= profile(epsilon, Delta / sigma) (Balle and Wang 2018, "Improving the Gaussian mechanism"). Releases of
ratios mu_1, mu_2, ... are together as private as one of sqrt(mu_1^2 + mu_2^2 + ...): nothing is lost by composing them
(Dong, Roth and Su 2022, "Gaussian differential privacy").

Discrete noise. A discrete Gaussian of variance s^2 is, up to factors 1 +- t per number, what remains of a continuous
Gaussian of variance s^2 - r^2 after each number y is rounded at random, to a discrete Gaussian of variance r^2 around
y; t <= 4 exp(-2 pi^2 r^2 (1 - r^2 / s^2)) by Poisson summation. Rounding does not see which of two neighbouring tables
it comes from, so discrete noise of variance s^2 is as private as continuous noise of variance s^2 - r^2, with epsilon
larger by twice t per number. With r^2 = 2 and s^2 - r^2 >= 4, t is below 1.5e-11, and below 1e-16 from s = 12 on: a
millionth of epsilon is set aside for it, which suffices for 10^5 numbers of the smallest noise.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache

from scipy.special import log_ndtr

ROUNDING_VARIANCE = 2.0  # r^2
LEAST_DEVIATION = 2.0  # of the continuous noise
EPSILON_ROOM = 1e-6  # the share of epsilon that is set aside for rounding to integers
UNIT_ERROR = 1e-15  # several times what floating-point numbers of size 1 are rounded by
LARGEST_EPSILON = 1e12  # beyond, rounding errors are as large as what is computed


def profile(epsilon: float, mu: float) -> float:
    """The smallest delta, rounded up: Phi(mu / 2 - epsilon / mu) - e^epsilon Phi(-mu / 2 - epsilon / mu).

    >>> round(profile(1.0, 1.0), 6)
    0.126937
    """
    ratio = epsilon / mu
    first, second = log_ndtr(mu / 2 - ratio), epsilon + log_ndtr(-mu / 2 - ratio)
    error = UNIT_ERROR * (1 + ratio + mu) ** 2  # logarithms and epsilon are of the size of these squares
    return 1.0 if error > 1 else min(1.0, math.exp(first + error) * -math.expm1(min(second - first, 0.0) - error))


@cache
def largest_ratio(epsilon: float, delta: float) -> float:
    """The largest mu that is (epsilon, delta)-private, rounded down.

    >>> mu = largest_ratio(1.0, 1e-6)
    >>> round(1 / mu, 4), profile(1.0, mu) <= 1e-6
    (4.2247, True)
    """
    epsilon = min(epsilon, LARGEST_EPSILON)
    low = math.sqrt(2 * epsilon)  # where the first probability is a half
    while profile(epsilon, low) > delta:
        low /= 2
    high = 2 * low
    while profile(epsilon, high) <= delta:
        low, high = high, 2 * high
    return _bisected(lambda mu: profile(epsilon, mu) <= delta, low, high)


@cache
def smallest_epsilon(mu: float, delta: float) -> float:
    """The smallest epsilon at which noise of ratio mu is private with this delta, rounded up; infinite for delta 0.

    Ten releases of (1, 1e-6), with the delta of all of them:

    >>> round(smallest_epsilon(math.sqrt(10) * largest_ratio(1.0, 1e-6), 1e-5), 2)
    3.14
    """
    if profile(0.0, mu) <= delta:
        return 0.0
    high = mu
    while profile(high, mu) > delta:
        high *= 2
        if high > LARGEST_EPSILON or not delta > 0:
            return math.inf
    low = high / 2
    while profile(low, mu) <= delta:
        low, high = low / 2, low
    return _bisected(lambda epsilon: profile(epsilon, mu) <= delta, high, low)


def _bisected(holds: Callable[[float], bool], sound: float, wrong: float) -> float:
    """A number that holds, to 12 digits from one that does not."""
    while abs(wrong - sound) > 1e-12 * sound:
        middle = (sound + wrong) / 2
        sound, wrong = (middle, wrong) if holds(middle) else (sound, middle)
    return sound
