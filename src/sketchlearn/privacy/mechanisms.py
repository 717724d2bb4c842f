"""Noise in integers: OpenDP's samplers and privacy maps, and seeded twins of the same laws for tests."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from types import SimpleNamespace
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.extras import required
from sketchlearn.ledger import GAUSSIAN, LAPLACE
from sketchlearn.sensitivity import Sensitivity

Integers = NDArray[np.int64]
LARGEST_COMPUTED = 1e300  # Scales beyond this, and budgets below its inverse, are refused: float64 ends there.
SCALE_BITS = 16  # OpenDP's exact samplers are four times slower with scales of 53 bits.


@cache
def opendp() -> Any:
    """What is needed of OpenDP."""
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

    @abstractmethod
    def norm(self, bound: Sensitivity) -> int:
        """The sensitivity that counts."""

    @abstractmethod
    def start(self, sensitivity: int, share: float) -> float:
        """The scale for a share of the budget, but for rounding."""

    @property
    @abstractmethod
    def budget(self) -> Fraction:
        """What the parts may spend, in the measure in which they add up."""

    @abstractmethod
    def measurement(self, size: int, scale: float) -> Any:
        """OpenDP's measurement of a vector."""

    @abstractmethod
    def variance(self, scale: float) -> float:
        """The variance of the noise."""

    @abstractmethod
    def seeded(self, size: int, scale: float, rng: np.random.Generator) -> Integers:
        """Noise of the same law from a seed: not private."""

    def scales(self, sensitivities: Sequence[int], shares: Sequence[float]) -> list[float]:
        """Scales of the parts, such that OpenDP's own privacy maps add up to no more than the budget."""
        starts = list(map(self.start, sensitivities, shares))
        if not all(map(math.isfinite, starts)):
            raise ValueError(f"epsilon {self.epsilon!r} is so small that its noise has no finite scale: ask for more")
        found = list(map(_short, starts))
        while sum(map(self._spent, sensitivities, found)) > self.budget:
            found = [_short(math.nextafter(scale, math.inf)) for scale in found]
        return found

    def _spent(self, sensitivity: int, scale: float) -> Fraction:
        return Fraction(self.measurement(1, scale).map(d_in=sensitivity))

    def release(self, values: Integers, scale: float, rng: np.random.Generator | None) -> Integers:
        """The values with noise: OpenDP's, from its own secure source, unless a seeded generator is given."""
        if rng is not None:
            return values + self.seeded(len(values), scale, rng)
        return np.array(self.measurement(len(values), scale)(values.tolist()), np.int64)


@dataclass(frozen=True)
class DiscreteLaplace(Mechanism):
    """P(k) in proportion to exp(-|k| / scale): pure epsilon."""

    name = LAPLACE

    def norm(self, bound: Sensitivity) -> int:
        return bound.l1

    def start(self, sensitivity: int, share: float) -> float:
        spent = self.epsilon * share
        return sensitivity / spent if spent > sensitivity / LARGEST_COMPUTED else math.inf

    @property
    def budget(self) -> Fraction:
        return Fraction(self.epsilon)

    def measurement(self, size: int, scale: float) -> Any:
        dp = opendp()
        return dp.measurements.make_laplace(_vectors(size), dp.metrics.l1_distance(T="i64"), scale=scale)

    def variance(self, scale: float) -> float:
        return 0.5 / math.sinh(0.5 / scale) ** 2 if scale > 2.0**-8 else 0.0

    def seeded(self, size: int, scale: float, rng: np.random.Generator) -> Integers:
        """The difference of two geometric numbers."""
        p = -math.expm1(-1 / scale)
        return rng.geometric(p, size) - rng.geometric(p, size)


@dataclass(frozen=True)
class DiscreteGaussian(Mechanism):
    """P(k) in proportion to exp(-k^2 / (2 scale^2)): zero-concentrated privacy, converted to epsilon and delta."""

    delta: float
    name = GAUSSIAN

    def norm(self, bound: Sensitivity) -> int:
        return bound.l2

    def start(self, sensitivity: int, share: float) -> float:
        if not 1 / LARGEST_COMPUTED < self.epsilon < LARGEST_COMPUTED or self.delta <= 1 / LARGEST_COMPUTED:
            limits = f"epsilon {self.epsilon!r} and delta {self.delta!r}"
            raise ValueError(f"{limits} are beyond what Gaussian noise is computed for: ask for others")
        return sensitivity * unit_scale(self.epsilon, self.delta) / math.sqrt(share)

    @property
    def budget(self) -> Fraction:
        return Fraction(self.measurement(1, unit_scale(self.epsilon, self.delta)).map(d_in=1))

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
        """Discrete Laplace numbers, accepted in proportion to the ratio of the laws (Canonne, Kamath, Steinke 2020)."""
        width = math.floor(scale) + 1.0
        found = np.empty(0, np.int64)
        while len(found) < size:
            drawn = DiscreteLaplace(self.epsilon).seeded(2 * size + 16, width, rng)
            ratio = np.exp(-0.5 * ((np.abs(drawn) - scale**2 / width) / scale) ** 2)
            found = np.concatenate([found, drawn[rng.random(len(drawn)) < ratio]])
        return found[:size]


def _short(scale: float) -> float:
    """The next number from a scale on that has few bits."""
    mantissa, exponent = math.frexp(scale)
    return math.ldexp(math.ceil(mantissa * 2**SCALE_BITS), exponent - SCALE_BITS)


@cache
def unit_scale(epsilon: float, delta: float) -> float:
    """The scale at which Gaussian noise on one integer of sensitivity 1 is (epsilon, delta)-private, to 1e-6 of itself.

    OpenDP's conversion is searched from above; where it gives no answer, Bun and Steinke's simple one holds.
    """
    dp, noise = opendp(), DiscreteGaussian(epsilon, delta)

    def suffices(scale: float) -> bool:
        converted = dp.combinators.make_zCDP_to_approxDP(noise.measurement(1, scale))
        try:
            return bool(dp.combinators.make_fix_delta(converted, delta=delta).check(1, (epsilon, delta)))
        except dp.mod.OpenDPException:  # numbers beyond float64
            return False

    log = math.log(1 / delta)
    high = (math.sqrt(log + epsilon) + math.sqrt(log)) / (math.sqrt(2) * epsilon) * (1 + 1e-9)
    low = high / 1024
    while high > low * (1 + 1e-6):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if suffices(middle) else (middle, high)
    return high
