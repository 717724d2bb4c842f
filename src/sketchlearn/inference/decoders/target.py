"""The target of decoders: the noisy empirical characteristic function at the sketch's frequencies."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.errors import InvalidValueError, called, either
from sketchlearn.features.families import frequencies_instead
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.inference.distributions import FrequencySet, Mixture
from sketchlearn.sketch.record_weights import distinct_records, effective_records
from sketchlearn.sketch.sums import Sketch

HIGHEST_HARMONIC = 41  # subtracted for mixtures; harmonics of narrow components vanish slowly


@dataclass(frozen=True)
class Target:
    """Values z of the characteristic function of y = (x - origin) / unit, their weights and their errors."""

    frequencies: FrequencySet
    values: NDArray[np.complex128]
    weights: Double
    imaginary: float  # 0 under a real wave, where only the real parts of the shifted values are known; 1 otherwise
    sampling: float  # about the mean squared sampling error of a value
    subsampling: float  # the mean squared error due to frequency subsampling
    released: float  # the mean squared error due to the noise of a private release
    origin: Double
    unit: Double
    declared: Double  # least spread of each coordinate, in the unit, if the frequency distribution declares one
    shapes: Double  # covariances of clusters, in the unit, if the frequency distribution declares any
    whole: bool  # each record adds exp(i omega . x) to each value, so that their covariance is known
    one_scale: bool  # the unit is the scale of the frequency distribution
    dither: Double  # shifts of the phases, in radians
    harmonics: tuple[tuple[int, complex], ...]  # order k and F_k / F_1 of those that disturb the values
    places: NDArray[np.int64]  # of the values among those of the sketch
    group_size: int  # how many of those that lie next to each other a record adds to
    n_groups: int = 1  # of the sketch's values
    cleaned: bool = False  # the harmonics of a fitted mixture are subtracted

    @classmethod
    def of(cls, sketch: Sketch, highest: int = 9) -> Target:
        """The target of a sketch of Fourier features: F_1 and the dither of its wave are divided out.

        It notes harmonics up to the `highest` order.
        """
        n_records, n_distinct = effective_records(sketch) or float(sketch.count), distinct_records(sketch)
        sketch, operator = fourier_part(sketch)
        part = released_variance(sketch, operator)
        first, omega = operator.wave.coefficient(1), operator.frequencies.T
        widths = operator.law.widths(operator.n_features)
        unit = 1 / np.sqrt(np.mean(omega * omega, axis=0)) if widths is None else widths
        if operator.wave.complex:
            shift, released = None, 2 * part / abs(first) ** 2
        else:  # f(t) = 2 Re F_1 exp(2 pi i t) + higher harmonics: one part of each value
            shift, released = operator.dither + np.angle(first), part / (2 * abs(first)) ** 2
        return cls(
            frequencies=FrequencySet(omega * unit, shift),
            values=sketch.mean * characteristic_factors(operator, operator.dither),
            weights=operator.feature_weights**2,
            imaginary=float(operator.wave.complex),
            sampling=1 / n_records,
            subsampling=(operator.n_groups - 1) / n_distinct,
            released=released,
            origin=operator.middle,
            unit=unit,
            declared=operator.law.spreads(operator.n_features) / unit,
            shapes=operator.law.covariances(operator.n_features) / np.outer(unit, unit),
            whole=not operator.wave.dithered and operator.n_groups == 1,
            one_scale=widths is not None,
            dither=operator.dither,
            harmonics=operator.wave.harmonics(highest),
            places=np.arange(operator.n_frequencies),
            group_size=operator.n_frequencies // operator.n_groups,
            n_groups=operator.n_groups,
        )

    def __len__(self) -> int:
        return len(self.values)

    @property
    def n_features(self) -> int:
        return self.frequencies.n_features

    @property
    def noise(self) -> float:
        """About the mean squared error of a value."""
        return self.sampling + self.subsampling + self.released

    @property
    def n_numbers(self) -> float:
        """The number of known real numbers."""
        return len(self) * (1 + self.imaginary)

    def weighted(self, weights: Double) -> Target:
        """The target with weights multiplied by these; values with next to no weight are left out."""
        total = self.weights * weights
        return replace(self, weights=total).some(total > 1e-3 * total.max())

    def some(self, which: NDArray[np.bool_] | NDArray[np.int64] | slice) -> Target:
        """Some of the values."""
        shift = self.frequencies.shift
        parts = {name: getattr(self, name)[which] for name in ("values", "weights", "dither", "places")}
        frequencies = FrequencySet(self.frequencies.omega[which], None if shift is None else shift[which])
        return replace(self, frequencies=frequencies, **parts)

    def on_features(self, operator: FourierFeatures, weights: Double) -> Double:
        """Weights of the known numbers, (numbers, sums), as weights of the real and imaginary parts of features.

        >>> import sketchlearn as skl
        >>> operator = skl.features.FourierFeatures(2, 3, law=skl.features.frequencies.Gaussian(1.0))
        >>> target, z = Target.of(operator.sketch(np.eye(2))), operator.features(np.eye(2)).mean(axis=0)
        >>> bool(np.allclose([*z.real, *z.imag] @ target.on_features(operator, np.eye(6)), target.parts.ravel()))
        True
        """
        dither, m = operator.dither.copy(), len(self)
        dither[self.places] = self.dither
        factors = characteristic_factors(operator, dither)[self.places, None]
        result = np.zeros((operator.wave.parts, operator.n_frequencies, weights.shape[1]))
        if self.imaginary:  # Re sum of c f (a - i b), where a and b are the weights of the parts of values c f
            turned = factors * (weights[:m] - 1j * weights[m:])
            result[0, self.places], result[1, self.places] = turned.real, -turned.imag
        else:
            result[0, self.places] = factors.real * weights
        return result.reshape(-1, weights.shape[1])

    def centered(self, factor: float, mean: Double) -> Target:
        """The target of y - mean, in units `factor` times as large."""
        omega, shift = self.frequencies.omega * np.float32(factor), self.frequencies.shift
        phase = omega.astype(np.float64) @ mean
        return replace(
            self,
            frequencies=FrequencySet(omega, None if shift is None else shift + phase),
            values=self.values * np.exp(-1j * phase) if shift is None else self.values,
            dither=self.dither + phase,
            unit=self.unit * factor,
            declared=self.declared / factor,
            shapes=self.shapes / (factor * factor),
        )

    def without_harmonics(self, mixture: Mixture) -> Target:
        """The target less the wave's harmonics under a mixture."""
        values = self.values.copy()
        for order, ratio in self.harmonics:
            turn = np.exp(1j * (order - 1 if self.imaginary else order) * self.dither)
            added = ratio * turn * mixture.characteristic(FrequencySet(order * self.frequencies.omega))
            values -= added if self.imaginary else added.real
        return replace(self, values=values, cleaned=True)

    @cached_property
    def parts(self) -> Single:
        """Real and imaginary parts of the values: shape (2, m)."""
        return np.stack([self.values.real, self.values.imag]).astype(np.float32)

    @cached_property
    def part_weights(self) -> Single:
        """Weights of the parts, one on average over the known numbers: shape (2, m)."""
        share = self.weights / self.weights.mean()
        return np.stack([share, share * self.imaginary]).astype(np.float32)

    def stacked(self, values: NDArray[np.complex128], axis: int = 0) -> Double:
        """Real parts of values, then imaginary ones, which are 0 where the target's are not known."""
        return np.concatenate([values.real, values.imag * self.imaginary], axis=axis)

    @property
    def numbers(self) -> Double:
        """The known numbers: real parts, and imaginary ones if they are known."""
        return self.stacked(self.values)[: round(self.n_numbers)]

    @property
    def number_variance(self) -> float:
        """Variance of the noise in each known number, beside the sampling error."""
        return self.released / (2 if self.imaginary else 1) + self.subsampling / 2

    def features(self, rows: Double) -> Single:
        """Features of rows, (rows, numbers), whose means over all records are the known numbers.

        They include the harmonics of one-bit and modulo waves, so that the values are used as they are.
        """
        omega, shift = self.frequencies.omega, self.frequencies.shift
        phases = (((rows - self.origin) / self.unit) @ omega.astype(np.float64).T).astype(np.float32)
        first = phases + (np.float32(0) if shift is None else shift)
        waves = (np.cos, np.sin) if self.imaginary else (np.cos,)
        parts = [wave(first) for wave in waves]
        for order, ratio in self.harmonics:
            turns = (order - 1 if self.imaginary else order) * self.dither + np.angle(ratio)
            turned = order * phases + turns.astype(np.float32)
            for part, wave in zip(parts, waves, strict=True):
                part += np.float32(abs(ratio)) * wave(turned)
        return np.concatenate(parts, axis=1)

    def residual(self, mixture: Mixture) -> Single:
        """The residual of a mixture in the two parts, not weighted."""
        weights = mixture.weights.astype(np.float32)
        return self.parts - np.stack([weights @ part for part in mixture.waves(self.frequencies)])

    def cost(self, mixture: Mixture) -> float:
        """The weighted mean squared residual of a mixture."""
        return sum(
            float(r.astype(np.float64) @ (r * w)) / len(self)
            for r, w in zip(self.residual(mixture), self.part_weights, strict=True)
        )


def characteristic_factors(operator: FourierFeatures, dither: Double) -> NDArray[np.complex128]:
    """Factors that turn features, or their means, into exp(i omega . x), up to harmonics of the wave."""
    first = operator.wave.coefficient(1)
    if operator.wave.complex:
        return np.asarray(np.exp(-1j * dither) / first / operator.feature_weights)
    return np.asarray(1 / operator.feature_weights / (2 * abs(first)) + 0j)


def released_variance(sketch: Sketch, operator: FourierFeatures) -> float:
    """The variance of private noise in each real number of the mean."""
    variance = 0.0 if sketch.ledger is None else sketch.ledger.sum_variance
    return float(variance * (operator.n_groups / operator.wave.unit / sketch.units) ** 2)


def fourier_part(sketch: Sketch) -> tuple[Sketch, FourierFeatures]:
    """The sketch of Fourier features, alone or among others, and its operator."""
    leaves = sketch.operator.leaves(sketch)
    found = [(leaf, leaf.operator) for leaf in leaves if isinstance(leaf.operator, FourierFeatures)]
    if len(found) != 1:
        kind = type(sketch.operator).__name__
        remedy = f"use {called('design', 'sample', '...')}"
        if kind in ("CellSums", "ExpectedStatistics", "Concatenated"):
            remedy = f"design it, or fit, with {frequencies_instead()}"
        has = either("has none" if kind == "Concatenated" else f"is of {kind}", "has none")
        raise InvalidValueError(f"a sketch of Fourier features is needed, but this one {has}", remedy)
    if found[0][0].count == 0:
        raise ValueError("the sketch is empty: add records before learning from it")
    return found[0]
