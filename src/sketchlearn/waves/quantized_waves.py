"""Waves of a few bits: another wave in 2^bits values."""

from __future__ import annotations

import math
import numbers
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from sketchlearn.sensitivity import Sensitivity
from sketchlearn.values import whole
from sketchlearn.waves.periodic_waves import FEATURE_ERROR, FIXED_POINT, Floats, Number, Wave, from_nearest


class Quantized(Wave):
    """A wave of 2^bits values: the middles of equal steps from -1 to 1, in one of which another wave is.

    In integers these are the odd numbers from 1 - 2^bits to 2^bits - 1, over 2^bits. The bits of such a number are the
    signs of its powers of two: 2^(bits - 1), ..., 2, 1, each added or subtracted.
    """

    bits: int
    complex: bool
    #: bounds of the L1 and L2 norms of the other wave's two parts
    _norms_before: ClassVar[tuple[float, float]]

    def __post_init__(self) -> None:
        super().__post_init__()
        if isinstance(self.bits, numbers.Real) and self.bits == 1:
            raise ValueError("bits must be 2 to 8: a wave of one bit is Square")
        self._set(bits=whole("bits", self.bits, 2, 8))

    @property
    def unit(self) -> int:  # type: ignore[override]
        return int(2**self.bits)

    @property
    def ceiling(self) -> int:  # type: ignore[override]
        return int(2**self.bits - 1)

    @property
    def packed_bits(self) -> int:  # type: ignore[override]
        return self.bits

    @property
    def kernel_coefficients(self) -> list[float]:
        return [float(self.bits)]

    @property
    def _thresholds(self) -> Floats:
        """Where a step of the other wave ends and the next one begins."""
        return 2 * np.arange(1, self.unit) / self.unit - 1

    def _middles(self, values: Floats) -> Floats:
        """The middle of each value's step; 1 belongs to the last one."""
        step = np.minimum(np.floor((values + 1) * (self.unit / 2)), self.unit - 1)
        return np.asarray((2 * step + 1) / self.unit - 1)

    def change_by_record(self) -> Sensitivity:
        # A middle is within one integer of the other wave, which is itself known to FEATURE_ERROR only.
        away = 1 + FEATURE_ERROR * self.unit / FIXED_POINT
        l1, l2 = self._norms_before if self.complex else (1.0, 1.0)
        l1, l2 = self.unit * l1 + self.parts * away, self.unit * l2 + math.sqrt(self.parts) * away
        bound = Sensitivity.of_norms(l1, l2, n=self.parts, largest=self.ceiling)
        every = Sensitivity.of_integers(self.parts, self.ceiling)
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

    bits: int
    complex: bool = True
    name = "quantized_cosine"
    _norms_before = (math.sqrt(2), 1.0)

    def real_part(self, t: Floats) -> Floats:
        return self._middles(np.cos(2 * np.pi * from_nearest(t)))

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

    bits: int
    complex: bool = True
    name = "quantized_sawtooth"
    _norms_before = (1.5, math.sqrt(1.25))

    def real_part(self, t: Floats) -> Floats:
        return self._middles(2 * (t - np.floor(t + 0.5)))

    def _coefficient(self, k: int) -> Number:
        # each threshold adds a step of 2 / 2^bits from half of it to half a turn
        if not k:
            return 0.0
        ends = np.exp(-1j * np.pi * k * self._thresholds) - (-1) ** (k % 2)
        return Number(np.sum(ends) / (1j * np.pi * k * self.unit))
