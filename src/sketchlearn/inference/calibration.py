"""Calibration weights: a sample reweighted as little as possible so that its mean features are the sketch's.

Rows x_i with weights u_i have features f(x_i), of which the sketch knows the exact means z over all rows. With the
features centred and scaled by u, Q, and r = (z - u'f) in the same scale,

    w = u (1 + Q (Q' diag(u) Q + ridge)^-1 r),

no weight below 0. A mean over all rows is then estimated by sum w_i g(x_i); its sampling error is that of the
residuals of g's regression on the features (Deville and Sarndal 1992).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Single
from sketchlearn.features.expected_statistics import ExpectedStatistics
from sketchlearn.features.waves import Wave
from sketchlearn.inference.decoders.target import fourier_part, released_variance
from sketchlearn.inference.moments import part_of
from sketchlearn.sketch.record_weights import distinct_records
from sketchlearn.sketch.sums import Sketch


@dataclass(frozen=True)
class WeightedRows:
    """A mean over all rows is estimated by sum over i of weights_i f(rows_i).

    >>> sample = WeightedRows.of([[0.0], [4.0]], [3, 1])
    >>> float(sample.weights @ sample.rows[:, 0]), round(sample.effective_size, 2)
    (1.0, 1.6)
    """

    rows: Double  # (S, d)
    weights: Double  # (S,), none of them negative, with sum 1
    #: (S,): the number of equal records that each row is; None means one. A sampled row is one, whatever its weight.
    copies: Double | None = None
    slack: Double | None = None  # (S,): calibration slack, from 0 (the weight is exact) to 1; None means 1

    @classmethod
    def of(cls, rows: object, weights: object = None) -> WeightedRows:
        """Rows with these weights, or with equal ones, brought to a sum of 1."""
        table = np.asarray(rows, np.float64)
        own = np.ones(len(table)) if weights is None else np.asarray(weights, np.float64)
        return cls(table, own / own.sum())

    def __len__(self) -> int:
        return len(self.rows)

    @property
    def effective_size(self) -> float:
        """The number of equally weighted rows with the same variance of a mean."""
        return float(1 / np.sum(self.weights**2))


RIDGES = (0.03, 0.1, 0.3, 1.0, 3.0)  # in units of a feature's variance
MOST_FEATURES = 400  # A solution costs the square of the features' number, times the rows.
HELD_OUT_SHARE = 0.2  # The ridge is chosen by this share of the features.
ROUNDS = 2  # Weights that were cut off at 0 leave a little to be calibrated again.
LEAST_DEVIATION = 1e-6  # A feature that varies less counts as constant.


@dataclass(frozen=True)
class Means:
    """Means of Fourier features over all rows, their noise, and the features of rows."""

    values: Double  # (features,)
    variance: float  # of the noise in each value
    omega: Double  # (columns, frequencies), in turns per unit
    origin: Double
    dither: Double  # in turns
    wave: Wave

    @classmethod
    def of(cls, sketch: Sketch) -> Means:
        """The first of the sketch's Fourier features, which include the frequencies along the axes."""
        n_distinct = distinct_records(sketch)
        sketch, operator = fourier_part(sketch)
        wave, some = operator.wave, slice(0, MOST_FEATURES // operator.wave.parts)
        mean = (sketch.mean / operator.feature_weights)[some]
        values = np.concatenate([mean.real, mean.imag]) if wave.complex else mean
        # a record that contributes to one group of frequencies alone leaves more noise
        variance = released_variance(sketch, operator) + (operator.n_groups - 1) / n_distinct
        turns, dither = operator.frequencies[:, some] / (2 * np.pi), operator.dither[some] / (2 * np.pi)
        return cls(values, variance, turns, operator.middle, dither, wave)

    def features(self, rows: Double) -> Single:
        """The same features of rows: (rows, features)."""
        phases = (rows - self.origin) @ self.omega + self.dither
        real = self.wave.real_part(phases)
        parts = [real, self.wave.quarter_later(phases)] if self.wave.complex else [real]
        return np.concatenate(parts, axis=1).astype(np.float32)

    def spread(self, features: Single, weights: Double) -> Double:
        """Deviations of the features over all rows, estimated from a sample.

        A wave's two parts have the variance 1 - |z|^2 together, z its mean. A sample with less lacks rare rows; its
        own deviation would give their weight to a single row (a tenth of digits' 1797).
        """
        center = (weights @ features).astype(np.float32)
        squares = (weights @ (features - center) ** 2).reshape(-1, self.omega.shape[1])
        if len(squares) == 2:
            whole = 1 - np.sum(self.values.reshape(2, -1) ** 2, axis=0)
            squares = squares * np.maximum(whole / np.maximum(squares.sum(axis=0), LEAST_DEVIATION**2), 1.0)
        return np.sqrt(squares).ravel()


def calibrated(sketch: Sketch, samples: Sequence[WeightedRows], rng: np.random.Generator) -> list[WeightedRows]:
    """Samples with calibration weights.

    The ridge is chosen by held-out features of the first sample. Rows beside expected statistics keep their weights.
    """
    if part_of(sketch, ExpectedStatistics) is not None:
        return list(samples)
    means = Means.of(sketch)
    features = means.features(samples[0].rows)
    ridge, result = _ridge(means, samples[0], features, rng), []
    for sample in samples:
        own = features if sample is samples[0] else means.features(sample.rows)
        spread = means.spread(own, sample.weights)
        for _ in range(ROUNDS):
            adjusted = _weights(sample, own, means.values, means.variance, spread, (ridge,))[0]
            sample = replace(sample, weights=adjusted)
        result.append(sample)
    return result


def calibration_residuals(
    sketch: Sketch, sample: WeightedRows, values: Double, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Residuals of values, (rows, q), in their regression on the features; and variances due to noise in the means.

    A mean over calibrated rows has the sampling error of the residuals' mean over the rows as drawn, and this noise.
    """
    means = Means.of(sketch)
    features = means.features(sample.rows)
    ridge, spread = _ridge(means, sample, features, rng), means.spread(features, sample.weights)
    found = _regression(sample, features, means.variance, spread)
    if found is None:
        return values, np.zeros(values.shape[1])
    loose, q, clear, normal, noise, left = found
    normal[np.diag_indices_from(normal)] += left * (ridge + noise)
    slopes = np.zeros((q.shape[1], values.shape[1]))
    for _ in range(ROUNDS):
        step = np.linalg.solve(normal, (q.T @ (values * loose[:, None]).astype(np.float32)).astype(np.float64))
        values, slopes = values - q @ step.astype(np.float32), slopes + step
    return values, means.variance * np.sum((slopes / spread[clear][:, None]) ** 2, axis=0)


def _ridge(means: Means, sample: WeightedRows, features: Single, rng: np.random.Generator) -> float:
    """The ridge that predicts held-out features best."""
    held = np.asarray(rng.random(features.shape[1]) < HELD_OUT_SHARE)
    if not 2 <= np.sum(held) < len(held):
        return RIDGES[-1]
    spread = means.spread(features, sample.weights)[~held]
    weights = _weights(sample, features[:, ~held], means.values[~held], means.variance, spread, RIDGES)
    errors = [np.sum((means.values[held] - w @ features[:, held]) ** 2) for w in weights]
    return RIDGES[int(np.argmin(errors))]


def _regression(
    sample: WeightedRows, features: Single, variance: float, spread: Double
) -> tuple[Double, Single, NDArray[np.bool_], Double, Double, float] | None:
    """Slack of weights, scaled features, their places, their products, noise, total slack; None without slack."""
    start = sample.weights
    loose = start if sample.slack is None else start * sample.slack
    left = float(loose.sum())
    if left <= 0:
        return None
    clear = spread > LEAST_DEVIATION
    middle = (loose @ features) / left
    q = np.asarray((features - middle.astype(np.float32))[:, clear] / spread[clear].astype(np.float32), np.float32)
    # noise in the means counts relative to the sampling error, 1 / n for n rows
    noise = variance / spread[clear] ** 2 * left / float(np.sum(loose**2))
    normal = ((q * loose[:, None].astype(np.float32)).T @ q).astype(np.float64)
    return loose, q, clear, normal, noise, left


def _weights(
    sample: WeightedRows, features: Single, means: Double, variance: float, spread: Double, ridges: tuple[float, ...]
) -> list[Double]:
    """Calibration weights for each of the ridges. Rows that were included for certain keep their weights."""
    start, regression = sample.weights, _regression(sample, features, variance, spread)
    if regression is None:
        return [start] * len(ridges)
    loose, q, clear, normal, noise, left = regression
    r = (means - start @ features)[clear] / spread[clear]
    found = []
    for ridge in ridges:
        damped = normal.copy()
        damped[np.diag_indices_from(damped)] += left * (ridge + noise)
        weights = np.maximum(start + loose * (q @ np.linalg.solve(damped, r)), 0)
        found.append(weights / weights.sum())
    return found
