"""How far one record can move the integers of a sketch. docs/privacy.md derives each bound."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import singledispatch

import numpy as np

from sketchlearn.ledger import ADD_REMOVE, REPLACE
from sketchlearn.operators import (
    ColumnMoments,
    Concatenated,
    CumulantFeatures,
    FourierFeatures,
    Histograms,
    Operator,
    QuadraticFeatures,
    SecondMoments,
    VeroneseMoments,
)
from sketchlearn.operators.mapped import Mapped
from sketchlearn.operators.moments import FIXED_POINT as MOMENTS_UNIT
from sketchlearn.values import shortened
from sketchlearn.waves import FIXED_POINT, Cosine, Exponential, FourierSeries, Sawtooth, Square, Triangle, Wave

_GRID = np.arange(2**16) / 2**16
ERROR = 2  # of one part of a feature, in integers: docs/arithmetic.md promises 2^-19 of a unit


@dataclass(frozen=True)
class Sensitivity:
    """Integer bounds of the L1 norm and of the squared L2 norm of what changes between neighbors."""

    l1: int
    l2_squared: int

    @property
    def l2(self) -> int:
        """The L2 norm, rounded up."""
        return math.isqrt(self.l2_squared - 1) + 1 if self.l2_squared else 0

    def times(self, n: int) -> Sensitivity:
        """Of n parts that are bounded alike."""
        return Sensitivity(n * self.l1, n * self.l2_squared)

    def __add__(self, other: Sensitivity) -> Sensitivity:
        """Of two parts side by side."""
        return Sensitivity(self.l1 + other.l1, self.l2_squared + other.l2_squared)


def sensitivity(operator: Operator, neighbors: str = ADD_REMOVE) -> Sensitivity:
    """The most that adding or removing one record, or replacing one by another, changes the sums.

    A record is one row of weight 1. The bound includes the rounding to integers, and holds for every row.

    >>> import sketchlearn as skl
    >>> sensitivity(skl.FourierFeatures(3, 100, law=skl.frequencies.Gaussian(1.0), wave="square"))
    Sensitivity(l1=200, l2_squared=200)
    """
    if neighbors == ADD_REMOVE:
        return _of_record(operator)
    if neighbors == REPLACE:
        return _of_replacement(operator)
    raise ValueError(f"neighbors must be {ADD_REMOVE!r} or {REPLACE!r}, not {shortened(neighbors)}")


@singledispatch
def _of_record(operator: Operator) -> Sensitivity:
    raise ValueError(f"one record of a {type(operator).__name__} has no known bound: it cannot be made private")


@singledispatch
def _of_replacement(operator: Operator) -> Sensitivity:
    """One record leaves, another one comes: the triangle inequality."""
    one = _of_record(operator)
    return Sensitivity(2 * one.l1, 4 * one.l2_squared)


@_of_record.register
def _(operator: FourierFeatures) -> Sensitivity:
    return of_wave(operator.wave).times(operator.subsample or operator.n_frequencies)


@_of_record.register(SecondMoments)
@_of_record.register(ColumnMoments)
def _(operator: SecondMoments | ColumnMoments) -> Sensitivity:
    return Sensitivity(MOMENTS_UNIT, MOMENTS_UNIT**2).times(operator.n_sums)


@_of_replacement.register(SecondMoments)
@_of_replacement.register(ColumnMoments)
def _(operator: SecondMoments | ColumnMoments) -> Sensitivity:
    d = operator.n_features
    squares = Sensitivity(MOMENTS_UNIT, MOMENTS_UNIT**2).times(d)  # from 0 to 1, the others from -1 to 1
    return squares + Sensitivity(2 * MOMENTS_UNIT, 4 * MOMENTS_UNIT**2).times(operator.n_sums - d)


@_of_record.register
def _(operator: Histograms) -> Sensitivity:
    return Sensitivity(1, 1).times(operator.n_features)  # one count of each column


@_of_replacement.register
def _(operator: Histograms) -> Sensitivity:
    return Sensitivity(2, 2).times(operator.n_features)  # of each column, one count falls by 1 and another rises


@_of_record.register
def _(operator: CumulantFeatures) -> Sensitivity:
    k, n = operator.n_components, operator.n_sums
    l1 = MOMENTS_UNIT * k * math.hypot(k + 1, 1) + n  # of each component |sin| (1 + k) + |cos|; n for rounding
    l2 = MOMENTS_UNIT * math.sqrt(k * (k + 1)) + math.sqrt(n)
    return _least(l1, l2, n, operator.ceiling)


@_of_record.register
def _(operator: Mapped) -> Sensitivity:
    return _of_record(operator.inner)


@_of_replacement.register
def _(operator: Mapped) -> Sensitivity:
    return _of_replacement(operator.inner)


@_of_replacement.register
def _(operator: VeroneseMoments) -> Sensitivity:
    unit, d = Sensitivity(MOMENTS_UNIT, MOMENTS_UNIT**2), operator.n_features
    never_negative = d + operator.inner.n_features + d * (d - 1) // 2  # y_a^2, (y_a y_b)^2, and y_a^2 y_b^2 for b < a
    others = Sensitivity(2 * MOMENTS_UNIT, 4 * MOMENTS_UNIT**2).times(operator.n_sums - never_negative)
    return unit.times(never_negative) + others


@_of_record.register
def _(operator: QuadraticFeatures) -> Sensitivity:
    d, m, most = operator.n_features, operator.n_directions, operator.ceiling
    energy, error = _energy(operator), (d + 3) * 2.0**-24
    rounding = 0.5  # of the last product; t * 2^20 is exact
    l1 = FIXED_POINT * (energy + 2 * error * math.sqrt(m * energy) + m * error**2) + m * rounding
    l2 = FIXED_POINT * ((1 + 2 * error) * math.sqrt(energy) + math.sqrt(m) * error**2) + math.sqrt(m) * rounding
    return _least(l1, l2, m, most)


@_of_replacement.register
def _(operator: QuadraticFeatures) -> Sensitivity:
    one = _of_record(operator)  # no feature is negative, so that two vectors of them never point apart
    return Sensitivity(min(2 * one.l1, operator.n_directions * operator.ceiling), 2 * one.l2_squared)


def _energy(operator: QuadraticFeatures) -> float:
    """An upper bound of the sum over j of (omega_j . y / bound)^2 for |y| <= bound: a largest eigenvalue."""
    directions = operator.directions / math.sqrt(operator.n_features)
    small = directions if operator.n_features > operator.n_directions else directions.T
    return float(np.linalg.eigvalsh(small.T @ small)[-1]) * (1 + 1e-6)  # far above the errors of float64


@_of_record.register
def _(operator: Concatenated) -> Sensitivity:
    return sum((_of_record(part) for part in operator.parts), Sensitivity(0, 0))


@_of_replacement.register
def _(operator: Concatenated) -> Sensitivity:
    return sum((_of_replacement(part) for part in operator.parts), Sensitivity(0, 0))


@singledispatch
def of_wave(wave: Wave) -> Sensitivity:
    """Bounds of one feature; of a wave without a bound of its own, each part may reach the ceiling."""
    return Sensitivity(wave.ceiling, wave.ceiling**2).times(wave.parts)


@of_wave.register
def _(wave: Exponential) -> Sensitivity:
    return _rounded(wave, math.sqrt(2), 1.0)  # |cos| + |sin| <= sqrt(2)


@of_wave.register(Cosine)
@of_wave.register(Square)
def _(wave: Wave) -> Sensitivity:
    return Sensitivity(wave.ceiling, wave.ceiling**2).times(wave.parts)


@of_wave.register
def _(wave: Sawtooth) -> Sensitivity:
    return _rounded(wave, 1.5, math.sqrt(1.25)) if wave.complex else _rounded(wave, 1.0, 1.0)


@of_wave.register
def _(wave: Triangle) -> Sensitivity:
    return _rounded(wave, 1.0, 1.0)  # the two parts' sizes add up to 1


@of_wave.register
def _(wave: FourierSeries) -> Sensitivity:
    # the largest values on a grid, and what they can rise by between its points
    values = np.atleast_2d(np.array([wave.real_part(_GRID), wave.quarter_later(_GRID)])[: wave.parts])
    slope = sum(4 * math.pi * k * math.hypot(*c) for k, c in enumerate(wave.coefficients, start=1))
    rise = slope / (2 * len(_GRID)) + 1e-9
    l1 = float(np.abs(values).sum(axis=0).max()) + wave.parts * rise
    l2 = math.sqrt(float((values**2).sum(axis=0).max())) + math.sqrt(wave.parts) * rise
    return _rounded(wave, l1, l2)


def _rounded(wave: Wave, l1: float, l2: float) -> Sensitivity:
    """Bounds of the integers, of bounds of the wave itself."""
    parts = wave.parts
    return _least(FIXED_POINT * l1 + ERROR * parts, FIXED_POINT * l2 + ERROR * math.sqrt(parts), parts, wave.ceiling)


def _least(l1: float, l2: float, n: int, ceiling: int) -> Sensitivity:
    """The bounds as integers, or those of n integers up to a ceiling where they are smaller."""
    squared = math.ceil(Fraction(l2 * (1 + 1e-12)) ** 2)
    return Sensitivity(min(math.ceil(l1 * (1 + 1e-12)), n * ceiling), min(squared, n * ceiling**2))
