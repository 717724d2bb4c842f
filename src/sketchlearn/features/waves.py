"""Waves: the periodic nonlinearities of random features, with their Fourier coefficients and bounds."""

from __future__ import annotations

import cmath
import math
import numbers
from abc import ABC, abstractmethod
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.values import Value, shortened, truth, whole
from sketchlearn.features.sensitivity import Sensitivity

Floats = NDArray[np.float64]
FIXED_POINT = 2**20
FEATURE_ERROR = 2  # The largest error of a part of a feature, in integers: docs/reference/arithmetic.md promises it.
SERIES_ERROR = 4  # The same of a series, with room: 16 harmonics, two roundings of at most 1/16 each.
GRID_POINTS = 2**16  # phases at which a series is evaluated for its bounds
Number = complex  # the fields named complex hide the type


class Wave(Value, ABC):
    """A periodic nonlinearity, whose values have modulus at most 1 in each part."""

    complex: bool
    #: the kernel's name of the complex form
    name: ClassVar[str]
    dithered: ClassVar[bool] = True
    #: one unit of the wave in the integers of a sketch
    unit: ClassVar[int] = FIXED_POINT
    #: the largest size of one part of one record's feature, in those integers
    largest_contribution: ClassVar[int] = FIXED_POINT
    #: bits that hold each part of a record's feature, for waves of 2^bits values; None for others
    packed_bits: ClassVar[int | None] = None
    #: bounds of the L1 and L2 norms of the complex form's two parts, if both cannot be largest at once
    norms: ClassVar[tuple[float, float] | None] = None

    def __post_init__(self) -> None:
        if "complex" in self.__dict__:  # a field, not fixed by the class
            self._set(complex=truth("complex", self.complex))

    @property
    def feature(self) -> str:
        """What the kernels call the wave."""
        return self.name if self.complex else f"{self.name}_real"

    @property
    def parts(self) -> int:
        """Integers per feature: 2 if the wave is complex."""
        return 1 + self.complex

    @property
    def kernel_coefficients(self) -> list[float]:
        """What the kernels need of a wave that is given by coefficients."""
        return []

    @property
    def moment_bound(self) -> float:
        """The bound of each part of a feature where products of features are scaled by it: a part of the arithmetic."""
        return self.largest_contribution / self.unit

    def harmonics(self, most: int = 9) -> tuple[tuple[int, Number], ...]:
        """Orders k beyond the first harmonic, with F_k / F_1 (for a real wave, of k > 0 only, over |F_1|).

        >>> [(k, round(abs(ratio), 4)) for k, ratio in Square().harmonics(most=5)]
        [(-3, 0.3333), (5, 0.2)]
        """
        first = self.coefficient(1) if self.complex else abs(self.coefficient(1))
        orders = [k for k in range(-most if self.complex else 2, most + 1) if k not in (0, 1)]
        ratios = ((k, Number(self.coefficient(k) / first)) for k in orders)
        return tuple((k, ratio) for k, ratio in ratios if abs(ratio) > 1e-6)

    @abstractmethod
    def real_part(self, t: Floats) -> Floats:
        """f(t), t in turns."""

    @abstractmethod
    def _coefficient(self, k: int) -> Number:
        """Fourier coefficient of `real_part`."""

    def __call__(self, t: Floats) -> NDArray[Any]:
        """The wave at phases t, in turns."""
        return self.real_part(t) + 1j * self.quarter_later(t) if self.complex else self.real_part(t)

    def quarter_later(self, t: Floats) -> Floats:
        """f(t - 1/4), the imaginary part of the complex form."""
        return self.real_part(t - 0.25)

    def coefficient(self, k: int = 1) -> Number:
        """Fourier coefficient F_k: f(t) = sum over k of F_k exp(2 pi i k t).

        >>> Square(complex=False).coefficient().real * math.pi
        2.0
        """
        return Number(self._coefficient(k) * (1 + 1j ** (1 - k % 4)) if self.complex else self._coefficient(k))

    def add_remove_sensitivity(self) -> Sensitivity:
        """The most that one record adds to the integers of one feature."""
        if self.norms is None or not self.complex:
            return Sensitivity.of_integers(self.parts, self.largest_contribution)
        return self._rounded(*self.norms)

    def _rounded(self, l1: float, l2: float) -> Sensitivity:
        """The same, of bounds of the wave itself."""
        l1 = FIXED_POINT * l1 + FEATURE_ERROR * self.parts
        l2 = FIXED_POINT * l2 + FEATURE_ERROR * math.sqrt(self.parts)
        return Sensitivity.of_norms(l1, l2, n=self.parts, largest=self.largest_contribution)

    def softened(self) -> FourierSeries:
        """A smooth wave near this one: its first 15 harmonics, times Lanczos' factors, its phase and form kept.

        >>> soft = Square(complex=False).softened()
        >>> soft(np.array([0.0, 0.2, 0.25, 0.3])).round(2) + 0.0
        array([ 0.46,  0.47,  0.  , -0.47])
        """
        series = np.array([self._coefficient(k) for k in range(1, 16)]) * np.sinc(np.arange(1, 16) / 16)
        series = series / max(1.0, float(np.sum(2 * np.abs(series))))
        return FourierSeries(tuple((float(c.real), float(c.imag)) for c in series), complex=self.complex)


def from_nearest(t: Floats) -> Floats:
    return np.asarray(t - np.rint(t))


@dataclass(frozen=True)
class Exponential(Wave):
    """exp(2 pi i t): random Fourier features, the default."""

    complex: ClassVar[bool] = True  # type: ignore[misc]
    name = "exponential"
    dithered = False
    norms = (math.sqrt(2), 1.0)

    def real_part(self, t: Floats) -> Floats:
        return np.asarray(np.cos(2 * np.pi * from_nearest(t)))

    def _coefficient(self, k: int) -> Number:
        return 0.5 * (abs(k) == 1)


@dataclass(frozen=True)
class Cosine(Exponential):
    """cos(2 pi t): real random Fourier features."""

    complex: ClassVar[bool] = False  # type: ignore[misc]
    dithered = True
    feature = "cosine"


@dataclass(frozen=True)
class Square(Wave):
    """The sign of the cosine: one bit per part (universal quantisation)."""

    complex: bool = True
    name = "square"
    unit = 1
    largest_contribution = 1
    packed_bits = 1

    def real_part(self, t: Floats) -> Floats:
        return np.where(np.isin(np.floor(4 * np.asarray(t)) % 4, (0, 3)), 1.0, -1.0)

    def quarter_later(self, t: Floats) -> Floats:
        return np.where(np.floor(4 * np.asarray(t)) % 4 < 2, 1.0, -1.0)  # t - 1/4 could round

    def _coefficient(self, k: int) -> Number:
        return 2 / (k * math.pi) * (-1) ** ((k - 1) // 2) if k % 2 else 0.0


@dataclass(frozen=True)
class Sawtooth(Wave):
    """2 (t - nearest integer), -1 at the jump: the modulo sketch."""

    complex: bool = True
    name = "sawtooth"
    norms = (1.5, math.sqrt(1.25))

    def real_part(self, t: Floats) -> Floats:
        return np.asarray(2 * (t - np.floor(t + 0.5)))

    def _coefficient(self, k: int) -> Number:
        return 1j * (-1) ** k / (math.pi * k) if k else 0.0


@dataclass(frozen=True)
class Triangle(Wave):
    """1 - 4 |t - nearest integer|: the piecewise linear cosine."""

    complex: bool = True
    name = "triangle"
    norms = (1.0, 1.0)

    def real_part(self, t: Floats) -> Floats:
        return 1 - 4 * np.abs(from_nearest(t))

    def _coefficient(self, k: int) -> Number:
        return 4 / (math.pi * k) ** 2 if k % 2 else 0.0


@dataclass(frozen=True)
class FourierSeries(Wave):
    """f(t) = 2 Re sum over k of c_k exp(2 pi i k t), for coefficients c_1, c_2, ... with sum of 2 |c_k| at most 1.

    >>> FourierSeries((0.3, 0.1j)).coefficient(2)
    0.1j
    """

    coefficients: tuple[tuple[float, float], ...]
    complex: bool = False
    name = "series"
    moment_bound = 1 + SERIES_ERROR / FIXED_POINT  # whatever the coefficients are

    def __post_init__(self) -> None:
        super().__post_init__()
        try:
            values = [_complex(c) for c in self.coefficients]
        except (TypeError, ValueError, OverflowError):
            raise ValueError("coefficients must be complex numbers") from None
        size = sum(2 * abs(c) for c in values)
        if not 1 <= len(values) <= 16 or not all(map(cmath.isfinite, values)) or not 0 < size < math.inf:
            raise ValueError("coefficients must be 1 to 16 finite numbers, not all zero")
        if size > 1 + 1e-12:
            raise ValueError(f"the wave could exceed 1: divide the coefficients by {size:.6g}")
        self._set(coefficients=tuple((c.real + 0.0, c.imag + 0.0) for c in values))

    def real_part(self, t: Floats) -> Floats:
        u = from_nearest(t)
        angles = [2 * np.pi * from_nearest(k * u) for k in range(1, len(self.coefficients) + 1)]
        pairs = zip(self.coefficients, angles, strict=True)
        return np.asarray(sum(2 * a * np.cos(x) - 2 * b * np.sin(x) for (a, b), x in pairs))

    def _coefficient(self, k: int) -> Number:
        if not 1 <= abs(k) <= len(self.coefficients):
            return 0.0
        a, b = self.coefficients[abs(k) - 1]
        return Number(a, b if k > 0 else -b)

    @cached_property
    def largest_contribution(self) -> int:  # type: ignore[override]
        largest = sum(2 * math.hypot(*c) for c in self.coefficients)
        return math.ceil(FIXED_POINT * min(1.0, largest)) + SERIES_ERROR

    def add_remove_sensitivity(self) -> Sensitivity:
        # the largest values on a grid, and what they can rise by between its points
        terms = [0.0, *(Number(a, b) for a, b in self.coefficients)]
        first = np.fft.irfft(terms, GRID_POINTS, norm="forward")
        values = np.array([first, np.roll(first, GRID_POINTS // 4)])[: self.parts]
        slope = sum(4 * math.pi * k * math.hypot(*c) for k, c in enumerate(self.coefficients, start=1))
        rise = slope / (2 * GRID_POINTS) + 1e-9
        l1 = float(np.abs(values).sum(axis=0).max()) + self.parts * rise
        l2 = math.sqrt(float((values**2).sum(axis=0).max())) + math.sqrt(self.parts) * rise
        return self._rounded(l1, l2)

    @property
    def kernel_coefficients(self) -> list[float]:
        first: list[float] = []
        second: list[float] = []
        for k, (re, im) in enumerate(self.coefficients, start=1):
            a, b = 2.0 * re * FIXED_POINT, -2.0 * im * FIXED_POINT
            cosine, sine = ((1, 0), (0, 1), (-1, 0), (0, -1))[k % 4]
            first += [a, b]
            second += [a * cosine - b * sine, a * sine + b * cosine]
        return first + second if self.complex else first


def _complex(c: Any) -> Number:
    parts = c if isinstance(c, tuple) and len(c) == 2 else (c,)
    if not all(isinstance(part, numbers.Real if len(parts) == 2 else numbers.Complex) for part in parts):
        raise TypeError("not a number, nor a pair of real numbers")
    return Number(*parts)


NAMED: dict[str, Wave] = {
    type(wave).__name__.lower(): wave for wave in (Exponential(), Cosine(), Square(), Sawtooth(), Triangle())
}


def wave_from(wave: str | Wave) -> Wave:
    """The wave itself, or the one with this name."""
    if isinstance(wave, Wave):
        return wave
    if isinstance(wave, str) and wave in NAMED:
        return NAMED[wave]
    raise ValueError(
        f"wave must be one of {', '.join(NAMED)}, or a wave of sketchlearn.features.waves, not {shortened(wave)}"
    )


@dataclass(frozen=True)
class Quantized(Wave):
    """A wave of 2^bits values: the middles of equal steps from -1 to 1, in one of which another real wave is.

    In integers these are the odd numbers from 1 - 2^bits to 2^bits - 1, over 2^bits. The bits of such a number are the
    signs of its powers of two: 2^(bits - 1), ..., 2, 1, each added or subtracted.
    """

    bits: int
    complex: bool = True
    _other: ClassVar[Wave]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bits, numbers.Real) and self.bits == 1:
            raise ValueError("bits must be 2 to 8: a wave of one bit is Square")
        self._set(bits=whole("bits", self.bits, 2, 8))

    @property
    def unit(self) -> int:  # type: ignore[override]
        return int(2**self.bits)

    @property
    def largest_contribution(self) -> int:  # type: ignore[override]
        return int(2**self.bits - 1)

    @property
    def packed_bits(self) -> int:  # type: ignore[override]
        return self.bits

    @property
    def kernel_coefficients(self) -> list[float]:
        return [float(self.bits)]

    @property
    def _thresholds(self) -> Floats:
        """Where one step ends and the next one begins."""
        return 2 * np.arange(1, self.unit) / self.unit - 1

    def real_part(self, t: Floats) -> Floats:
        step = np.minimum(np.floor((self._other.real_part(t) + 1) * (self.unit / 2)), self.unit - 1)  # 1 is in the last
        return np.asarray((2 * step + 1) / self.unit - 1)

    def add_remove_sensitivity(self) -> Sensitivity:
        # A middle is within one integer of the other wave, which is itself known to FEATURE_ERROR only.
        away = 1 + FEATURE_ERROR * self.unit / FIXED_POINT
        l1, l2 = self._other.norms if self.complex and self._other.norms else (1.0, 1.0)
        l1, l2 = self.unit * l1 + self.parts * away, self.unit * l2 + math.sqrt(self.parts) * away
        bound = Sensitivity.of_norms(l1, l2, n=self.parts, largest=self.largest_contribution)
        every = Sensitivity.of_integers(self.parts, self.largest_contribution)
        return every if every == bound else bound


@dataclass(frozen=True)
class QuantizedCosine(Quantized):
    """The cosine in 2^bits values: random Fourier features after a uniform quantiser of 2 to 8 bits.

    >>> wave = QuantizedCosine(2, complex=False)
    >>> wave(np.array([0.0, 0.2, 0.3, 0.5]))
    array([ 0.75,  0.25, -0.25, -0.75])
    >>> round(wave.coefficient().real, 4)  # of the cosine, 0.5
    0.4348
    """

    name = "quantized_cosine"
    _other = Cosine()

    def _coefficient(self, k: int) -> Number:
        # each threshold adds a step of 2 / 2^bits where the cosine is above it: between plus and minus an angle
        angles = np.arccos(self._thresholds)
        return float(np.sum(np.sin(k * angles))) * 2 / (self.unit * math.pi * k) if k else 0.0


@dataclass(frozen=True)
class QuantizedSawtooth(Quantized):
    """The sawtooth in 2^bits values: the lowest 2 to 8 bits of a uniform quantiser, or universal quantisation.

    >>> wave = QuantizedSawtooth(2, complex=False)
    >>> wave(np.array([-0.5, -0.2, 0.0, 0.3, 0.5]))
    array([-0.75, -0.25,  0.25,  0.75, -0.75])
    """

    name = "quantized_sawtooth"
    _other = Sawtooth()

    def _coefficient(self, k: int) -> Number:
        # each threshold adds a step of 2 / 2^bits from half of it to half a turn
        if not k:
            return 0.0
        ends = np.exp(-1j * np.pi * k * self._thresholds) - (-1) ** (k % 2)
        return Number(np.sum(ends) / (1j * np.pi * k * self.unit))


TAIL_SHARE = 1e-3  # The coefficients that a pair leaves out add up to at most this share of its mean product.
HIGHEST_ORDER = 4096  # of a pair's coefficients
PAIR_GRID = (np.arange(2**14) + 0.5) / 2**14


@dataclass(frozen=True)
class Pair:
    """Two waves, both real or both complex; of complex ones, the real part of the product counts."""

    query: Wave
    wave: Wave

    def __post_init__(self) -> None:
        if self.query.complex != self.wave.complex:
            raise ValueError("wave and query must both be real or both be complex")
        if abs(self.product) < 1e-6:
            raise ValueError(
                "the two waves are a quarter turn apart, so that their mean product is 0: use wave='cosine'"
            )

    @cached_property
    def product(self) -> float:
        """Mean of f conj(g) over a turn.

        >>> from sketchlearn.features.waves import Cosine, Square
        >>> round(Pair(Square(complex=False), Cosine()).product * np.pi, 6)
        2.0
        """
        return float(np.mean((self.query(PAIR_GRID) * np.conj(self.wave(PAIR_GRID))).real))

    @cached_property
    def size(self) -> float:
        """Root mean square of g over a turn."""
        return float(np.sqrt(np.mean(np.abs(self.wave(PAIR_GRID)) ** 2)))

    @cached_property
    def coefficients(self) -> dict[int, float]:
        """Of each order k, Re(F_k conj(G_k) + F_-k conj(G_-k)), as far as those left out exceed `TAIL_SHARE`."""
        f, g = self.query.coefficient, self.wave.coefficient
        products = {k: float((f(k) * g(k).conjugate()).real) for k in range(-HIGHEST_ORDER, HIGHEST_ORDER + 1)}
        both = {k: products[k] + products[-k] for k in range(1, HIGHEST_ORDER + 1)}
        left, kept = sum(abs(c) for c in both.values()), {}
        for k, c in both.items():
            if left < TAIL_SHARE / 2 * abs(self.product):
                break
            left -= abs(c)
            if abs(c) > 1e-12:
                kept[k] = c
        return kept

    def kernel(self, kappa: Callable[[Floats], Floats], distances: Floats) -> Floats:
        """The expected product at these distances, divided by that at none; wrong by `TAIL_SHARE` at most."""
        result, rest, last = np.zeros(np.shape(distances)), self.product, 1
        for k, c in self.coefficients.items():
            result += c * kappa(k * distances)
            rest, last = rest - c, k
        return np.asarray((result + rest * kappa(2 * last * distances)) / self.product)
