"""Distributed noise generation: each of n parties adds a share of noise, and the sum has the noise of one curator.

Discrete Laplace noise P(k) ~ p^|k| is the difference of two geometric numbers. With odds theta = p / (1 - p), which is
also its mean, a geometric number has the generating function 1 / (1 + theta (1 - z)), and the Polya (negative binomial)
number of shape a has its power (1 + theta (1 - z))^-a. So n numbers of shape 1 / n add up to a geometric one, exactly,
and each party adds the difference of two of them. More than n parties have more noise; fewer have less than claimed.

Privacy. Probabilities of neighbours differ by at most 1 / p = 1 + 1 / theta for each unit of their difference. For
sensitivity D and budget epsilon, theta = 1 / x or more, where x <= e^(epsilon / D) - 1 is a fraction
(exponential_bound.py), rounded up to a whole number.

Sampling, with integers alone. Halving the odds, with h(z) = 1 / (1 + (theta / 2) (1 - z)),

    (1 + theta (1 - z))^-a = (1 + (theta / 2) (1 - z))^-a * ((1/2) / (1 - h(z) / 2))^a,

as is seen by putting h in. The second factor is a sum of M geometric numbers of odds theta / 2, where M is Polya of
shape a and p = 1/2. So we go from theta to theta / 2, theta / 4, ... until the odds are below 1: about log2(theta)
numbers M, nearly all of them 0, and one Polya number of small odds.

- Small Polya numbers (p <= 1/2, shape 1 / n): P(k) is in proportion to p^k times the product of (i - 1 + 1/n) / i for
  i = 1, ..., k. We count up from 0: with probability 1 - p we stop; otherwise step i is allowed with probability
  (n (i - 1) + 1) / (n i), and without it we begin anew. That is rejection from geometric numbers.
- Geometric numbers of large odds: their binary digits are independent, digit b is 1 with probability q / (1 + q),
  q = p^(2^b); what is left above digit B is geometric with p^(2^B). Probabilities are enclosed in intervals of
  integers over 2^192, and a uniform number that falls inside of one gets more digits, as the interval does.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache, partial

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Integers
from sketchlearn.core.randomness import exponential_excess, uniform_below, words
from sketchlearn.privacy.mechanisms import DiscreteLaplace, short_scale

DIGITS = 192  # of the intervals that enclose probabilities; 64 of a uniform number decide nearly always


@dataclass(frozen=True)
class DiscreteLaplaceShare(DiscreteLaplace):
    """One party's share of noise with P(k) in proportion to (1 + 1 / scale)^-|k|, whole scales."""

    parties: int

    def scales(self, sensitivities: Sequence[int], shares: Sequence[float]) -> list[float]:
        total, found = sum(map(Fraction, shares)), []
        for sensitivity, share in zip(sensitivities, shares, strict=True):
            least = 1 / exponential_excess(Fraction(self.epsilon) * Fraction(share) / total / max(1, sensitivity))
            found.append(short_scale(float(min(-(-least.numerator // least.denominator), 10**300))))
        return found

    def variance(self, scale: float) -> float:
        return 2 * scale * (1 + scale) / self.parties

    def release(self, values: Integers, scale: float, rng: np.random.Generator | None) -> Integers:
        if rng is not None:
            return values + self.seeded(len(values), scale, rng)
        one, other = (polya(self.parties, int(scale), len(values)) for _ in range(2))
        return values + one - other

    def seeded(self, size: int, scale: float, rng: np.random.Generator) -> Integers:
        shape, p = 1 / self.parties, 1 / (1 + scale)
        return rng.negative_binomial(shape, p, size) - rng.negative_binomial(shape, p, size)


def polya(parties: int, odds: int, size: int) -> Integers:
    """Polya numbers of shape 1 / parties and mean odds / parties, exactly, from the secure source.

    >>> sum(polya(10, 1000, 5) for _ in range(10)).shape  # geometric numbers of mean 1000
    (5,)
    """
    halvings = odds.bit_length()
    total = small_polya(parties, odds, 2**halvings + odds, size)
    numbers = small_polya(parties, 1, 2, halvings * size).reshape(halvings, size)
    for level, how_many in enumerate(numbers, 1):
        added = geometric(odds, 2**level + odds, int(how_many.sum()))
        np.add.at(total, np.repeat(np.arange(size), how_many), added)
    return total


def small_polya(parties: int, numerator: int, denominator: int, size: int) -> Integers:
    """Polya numbers of shape 1 / parties, with p = numerator / denominator <= 1/2."""
    found, active = np.zeros(size, np.int64), np.arange(size)
    while len(active):
        active = active[uniform_below(denominator, len(active)) < np.uint64(numerator)]
        step = found[active] + 1
        allowed = uniform_below(parties * step, len(active)) < (parties * (step - 1) + 1).astype(np.uint64)
        found[active] = np.where(allowed, step, 0)
    return found


def geometric(numerator: int, denominator: int, size: int) -> Integers:
    """Geometric numbers, P(k) = (1 - p) p^k with p = numerator / denominator: digit by digit."""
    n_digits = (numerator // (denominator - numerator)).bit_length()
    total = np.zeros(size, np.int64)
    for digit in range(n_digits):
        ones = bernoulli(partial(_odd, numerator, denominator, digit), size)
        total += ones.astype(np.int64) << digit
    active = np.arange(size)
    while len(active):
        active = active[bernoulli(partial(_power, numerator, denominator, n_digits), len(active))]
        total[active] += 1 << n_digits
    return total


def bernoulli(enclosed: Callable[[int], tuple[int, int]], size: int) -> NDArray[np.bool_]:
    """True with a probability between the two integers over 2^n that `enclosed(n)` gives, however large n is."""
    low, high = enclosed(DIGITS)
    drawn, rest = words(size), DIGITS - 64
    found = drawn < np.uint64(low >> rest)
    for i in np.flatnonzero((drawn >= np.uint64(low >> rest)) & (drawn <= np.uint64(min(high >> rest, 2**64 - 1)))):
        found[i] = _decided(int(drawn[i]), 64, enclosed)
    return found


def _decided(drawn: int, n_drawn: int, enclosed: Callable[[int], tuple[int, int]]) -> bool:
    """Whether a uniform number, of which some digits are drawn, is below the probability."""
    digits = DIGITS
    while True:
        drawn, n_drawn = drawn << (digits - n_drawn) | secrets.randbits(digits - n_drawn), digits
        low, high = enclosed(digits)
        if drawn + 1 <= low or drawn >= high:
            return drawn < low
        digits *= 2


@lru_cache(2**14)  # all parties of a process need the same few thousand numbers
def _power(numerator: int, denominator: int, squarings: int, digits: int) -> tuple[int, int]:
    """p^(2^squarings), enclosed."""
    if not squarings:
        return (numerator << digits) // denominator, -(-(numerator << digits) // denominator)
    low, high = _power(numerator, denominator, squarings - 1, digits)
    return low * low >> digits, -(-high * high >> digits)


def _odd(numerator: int, denominator: int, digit: int, digits: int) -> tuple[int, int]:
    """q / (1 + q) for q = p^(2^digit), enclosed."""
    low, high = _power(numerator, denominator, digit, digits)
    one = 1 << digits
    return (low << digits) // (one + low), -(-(high << digits) // (one + high))
