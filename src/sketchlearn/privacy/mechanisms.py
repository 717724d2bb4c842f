"""Integer noise: OpenDP's samplers and privacy maps, and seeded twins of the same distributions for tests."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from operator import attrgetter
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from scipy.special import ndtri

from sketchlearn.core.arrays import Double, Integers
from sketchlearn.core.packages import required
from sketchlearn.features.sensitivity import ROUNDING_MARGIN, Sensitivity
from sketchlearn.sketch.ledger import (
    EPSILON_ROOM,
    GAUSSIAN,
    LAPLACE,
    LEAST_DEVIATION,
    ROUNDING_VARIANCE,
    largest_ratio,
)

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


def _trimmed(masses: Double) -> Double:
    half = len(masses) // 2
    kept = int(np.count_nonzero(masses[half:] > SMALLEST_PROBABILITY)) - 1
    return masses[half - kept : half + kept + 1]


LARGEST_COMPUTED = 1e300  # Scales beyond this, and budgets below its inverse, are refused: float64 ends there.
SCALE_BITS = 16  # OpenDP's exact samplers are four times slower with scales of 53 bits.


@cache
def opendp() -> Any:
    names = ("combinators", "domains", "measurements", "metrics", "mod")  # its prelude imports scikit-learn: seconds
    library = SimpleNamespace(**{name: required(f"opendp.{name}", "privacy") for name in names})
    library.mod.enable_features("contrib")
    return library


def _vectors(size: int) -> Any:
    domains = opendp().domains
    return domains.vector_domain(domains.atom_domain(T="i64"), size=size)


@dataclass(frozen=True)
class Mechanism(ABC):
    """Noise for several vectors of integers that are released together, within one budget."""

    epsilon: float
    name: ClassVar[str]
    norm: ClassVar[attrgetter[int]]  # the sensitivity that counts

    @abstractmethod
    def scales(self, sensitivities: Sequence[int], shares: Sequence[float]) -> list[float]:
        """Scales of the parts, such that together they spend no more than the budget."""

    def scales_of(self, bounds: Sequence[Sensitivity], shares: Sequence[float]) -> list[float]:
        """The same, from all that is known of what a record changes."""
        return self.scales([self.norm(bound) for bound in bounds], shares)

    @property
    def rho(self) -> float | None:
        """Half the squared ratio of sensitivity to noise, of Gaussian noise."""
        return None

    @abstractmethod
    def measurement(self, size: int, scale: float) -> Any:
        """OpenDP's measurement of a vector."""

    @abstractmethod
    def variance(self, scale: float) -> float:
        """The variance of the noise."""

    @abstractmethod
    def seeded(self, size: int, scale: float, rng: np.random.Generator) -> Integers:
        """Noise of the same distribution from a seed: not private."""

    def release(self, values: Integers, scale: float, rng: np.random.Generator | None) -> Integers:
        """The values with noise: OpenDP's, from its own secure source, unless a seeded generator is given."""
        if rng is not None:
            return values + self.seeded(len(values), scale, rng)
        return np.array(self.measurement(len(values), scale)(values.tolist()), np.int64)


@dataclass(frozen=True)
class DiscreteLaplace(Mechanism):
    """P(k) in proportion to exp(-|k| / scale): pure epsilon."""

    name = LAPLACE
    norm = attrgetter("l1")

    def scales(self, sensitivities: Sequence[int], shares: Sequence[float]) -> list[float]:
        """By OpenDP's own privacy maps."""
        starts = [_ratio(s, self.epsilon * share) for s, share in zip(sensitivities, shares, strict=True)]
        found = _finite(starts, self.epsilon)
        while sum(map(self._spent, sensitivities, found)) > Fraction(self.epsilon):
            found = [short_scale(math.nextafter(scale, math.inf)) for scale in found]
        return found

    def _spent(self, sensitivity: int, scale: float) -> Fraction:
        return Fraction(self.measurement(1, scale).map(d_in=sensitivity))

    def measurement(self, size: int, scale: float) -> Any:
        dp = opendp()
        return dp.measurements.make_laplace(_vectors(size), dp.metrics.l1_distance(T="i64"), scale=scale)

    def variance(self, scale: float) -> float:
        return 0.5 / math.sinh(0.5 / scale) ** 2 if scale > 2.0**-8 else 0.0

    def seeded(self, size: int, scale: float, rng: np.random.Generator) -> Integers:
        p = -math.expm1(-1 / scale)
        return rng.geometric(p, size) - rng.geometric(p, size)


@dataclass(frozen=True)
class DiscreteGaussian(Mechanism):
    """P(k) in proportion to exp(-k^2 / (2 scale^2)): epsilon and delta."""

    delta: float
    name = GAUSSIAN
    norm = attrgetter("l2")

    def scales(self, sensitivities: Sequence[int], shares: Sequence[float]) -> list[float]:
        return self.scales_of([Sensitivity(size, size**2) for size in sensitivities], shares)

    def scales_of(self, bounds: Sequence[Sensitivity], shares: Sequence[float]) -> list[float]:
        """By the exact profile of continuous noise: each part has its share of the squared ratio."""
        if not 1 / LARGEST_COMPUTED < self.epsilon < LARGEST_COMPUTED or self.delta <= 1 / LARGEST_COMPUTED:
            limits = f"epsilon {self.epsilon!r} and delta {self.delta!r}"
            raise ValueError(f"{limits} are outside the range of Gaussian noise: use other values")
        ratio = largest_ratio(self.epsilon * (1 - EPSILON_ROOM), self.delta)
        return [self._scale(bound, ratio * math.sqrt(share)) for bound, share in zip(bounds, shares, strict=True)]

    def _scale(self, bound: Sensitivity, ratio: float) -> float:
        """Of one part: by its own probabilities if they are few (discrete_profile.py), else by rounding."""
        if bound.each and bound.l1 and is_computed(n := bound.l1 // bound.each, bound.each, ratio, self.delta):
            scale = short_scale(smallest_scale(ratio, n, bound.each))
            while ratio_of(scale, n, bound.each) > ratio:
                scale = short_scale(math.nextafter(scale, math.inf))
            return scale
        continuous = _ratio(math.sqrt(bound.l2_squared) * ROUNDING_MARGIN, ratio)
        return _finite([math.hypot(max(continuous, LEAST_DEVIATION), math.sqrt(ROUNDING_VARIANCE))], self.epsilon)[0]

    @property
    def rho(self) -> float:
        return largest_ratio(self.epsilon, self.delta) ** 2 / 2

    def measurement(self, size: int, scale: float) -> Any:
        dp = opendp()
        return dp.measurements.make_gaussian(_vectors(size), dp.metrics.l2_distance(T="i64"), scale=scale)

    def variance(self, scale: float) -> float:
        if scale > 4:
            return scale**2  # to 60 digits
        k = np.arange(-64.0, 65.0)
        weights = np.exp(-0.5 * (k / scale) ** 2)
        return float(np.sum(k**2 * weights) / np.sum(weights))

    def seeded(self, size: int, scale: float, rng: np.random.Generator) -> Integers:
        """Discrete Laplace numbers, accepted by the ratio of the distributions (Canonne, Kamath, Steinke 2020)."""
        width = math.floor(scale) + 1.0
        found = np.empty(0, np.int64)
        while len(found) < size:
            drawn = DiscreteLaplace(self.epsilon).seeded(2 * size + 16, width, rng)
            ratio = np.exp(-0.5 * ((np.abs(drawn) - scale**2 / width) / scale) ** 2)
            found = np.concatenate([found, drawn[rng.random(len(drawn)) < ratio]])
        return found[:size]


def short_scale(scale: float) -> float:
    """The next number from a scale on that has few bits."""
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(mantissa * 2**SCALE_BITS), exponent - SCALE_BITS)


def _ratio(sensitivity: float, spent: float) -> float:
    return sensitivity / spent if spent > sensitivity / LARGEST_COMPUTED else math.inf


def _finite(scales: Sequence[float], epsilon: float) -> list[float]:
    """Scales of few bits, if they are numbers."""
    if not all(map(math.isfinite, scales)):
        raise ValueError(f"epsilon {epsilon!r} is so small that its noise has no finite scale: use a larger one")
    return [short_scale(scale) for scale in scales]
