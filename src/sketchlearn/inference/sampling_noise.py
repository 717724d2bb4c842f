"""The covariance of a sketch's sampling errors, for any periodic nonlinearity.

The sketch holds the mean of each feature, and the nonlinearity its mean square, so variances are known. The features'
correlations are not in the sketch: they are estimated from records drawn from a density that was fitted to it, and
sketched by the operator itself, with dither, harmonics and subsampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq, minimize
from scipy.special import ndtr

from sketchlearn.core.arrays import Double, Single
from sketchlearn.inference.decoders.hierarchical_splitting import HierarchicalSplitting
from sketchlearn.inference.decoders.loop import decode
from sketchlearn.inference.decoders.problem import FREQUENCIES_PER_PARAMETER, Problem
from sketchlearn.inference.decoders.target import Target, fourier_part, released_variance
from sketchlearn.inference.distributions import Mixture
from sketchlearn.sketch.ledger import LAPLACE
from sketchlearn.sketch.sums import Sketch

TILTING_ITERATIONS = 60
DENSITY_RECORDS = 50.0  # The density's weight in records: with 5, discrete one-bit sketches passed every test.
VALUE_VARIANCE_RIDGE = 1e-2  # relative to a value's mean square: how closely values are matched
MOST_COMPONENTS = 8  # of the density; more make no difference
NEAR_MEAN = 1e-3  # deviations: the saddlepoint formula is 0 / 0 there, and is interpolated
NEGLIGIBLE_WEIGHT = 1e-12  # of a chi-square, in the largest
NUMBERS, LEAST_ROWS, MOST_ROWS = 1 << 22, 1024, 4096  # features drawn in all, and rows


def n_determined(target: Target, most: int = MOST_COMPONENTS) -> int:
    """The number of clusters that the sketch determines well (those asked for in `design`), up to a few."""
    return int(np.clip(target.n_numbers / 2 / (FREQUENCIES_PER_PARAMETER * target.n_features), 1, most))


def density_of(sketch: Sketch, rng: np.random.Generator) -> Mixture:
    """A quick density of the records, in the units of the data, from their sketch alone.

    Harmonics of a one-bit wave count as noise: a density freed of them was too narrow.

    >>> import sketchlearn as skl
    >>> law = skl.features.frequencies.Gaussian(1.0)
    >>> sketch = skl.features.FourierFeatures(2, 60, law=law).sketch(np.ones((100, 2)))
    >>> density_of(sketch, np.random.default_rng(0)).locations.round(1)[0]
    array([1., 1.])
    """
    target = Target.of(sketch)
    problem = Problem.of(target, n_determined(target))
    mixture = decode(HierarchicalSplitting(), problem, rng).mixture
    return problem.in_data_units(mixture.heavy())


@dataclass(frozen=True)
class Released:
    """Private noise in each real number of a value: its variance and fourth cumulant."""

    variances: Double
    fourth: Double
    count: float = 0.0  # squared relative error of the number of records, which all values are divided by

    @classmethod
    def of(cls, sketch: Sketch) -> Released:
        """The noise in the mean of a sketch; none if it is exact."""
        operator, ledger = fourier_part(sketch)[1], sketch.ledger
        variances = released_variance(sketch, operator) * operator.feature_weights**2
        # Laplace noise has a positive fourth cumulant, which sums of many releases average out
        share = 0.0 if ledger is None or LAPLACE not in ledger.mechanism else 3 / ledger.releases
        count = 0.0 if ledger is None else ledger.count_variance / float(sketch.count) ** 2
        return cls(variances, share * variances**2, count)

    def __add__(self, other: Released) -> Released:
        return Released(self.variances + other.variances, self.fourth + other.fourth, self.count + other.count)

    def times(self, factor: float) -> Released:
        """The noise in units in which variances are `factor` times as large."""
        return Released(factor * self.variances, factor**2 * self.fourth, factor * self.count)


@dataclass(frozen=True)
class Noise:
    """Deviations of one record's features from their means."""

    variances: Double  # of each value, E |Phi_j - E Phi_j|^2
    #: deviations of drawn records, times the root of their weights: (records, m), or (records, 2 m) if complex
    deviations: Single
    mean: Single  # of the drawn records

    @classmethod
    def of(cls, sketch: Sketch, density: Mixture, rng: np.random.Generator) -> Noise:
        """The noise of a sketch of Fourier features whose records are about those of the density."""
        operator = fourier_part(sketch)[1]
        n = int(np.clip(NUMBERS // operator.n_frequencies, LEAST_ROWS, MOST_ROWS))
        features = operator.features(density.sample(n, rng)[0], n_jobs=1)
        square = np.mean(np.abs(features) ** 2, axis=0)
        count = max(float(sketch.count), 2.0)
        released, numbers = Released.of(sketch).variances, operator.wave.parts
        power = np.maximum(np.abs(sketch.mean) ** 2 - numbers * released, 0)
        variances = np.maximum(square - power, 0) * (count / (count - 1))
        ridge = DENSITY_RECORDS / count + numbers * float(np.mean(released / square))
        residuals = (features - sketch.mean) / np.sqrt(variances + VALUE_VARIANCE_RIDGE * square)
        shares = _shares(real_parts(residuals), ridge)
        mean = shares @ features
        features -= mean
        features *= np.sqrt(n * shares)[:, None]
        drawn = np.mean(np.abs(features) ** 2, axis=0)
        # the density knows the correlations, the sketch the variances
        features *= np.sqrt(variances / np.maximum(drawn, 1e-12 * np.maximum(square, 1e-300)))
        return cls(variances, real_parts(features), real_parts(mean))

    @property
    def parts(self) -> int:
        """Real numbers per value."""
        return self.deviations.shape[1] // len(self.variances)

    def spectrum(self, weights: Double, released: Released) -> Double:
        """Eigenvalues of the weighted values' covariance: the weights of a sum of chi-squares.

        `released` is the private noise, in the units of the variances. The eigenvalues of a sample spread more than the
        true ones: they are shrunk until the sum of their squares is that of pairs of *different* records.
        """
        used = np.flatnonzero(weights > 0)
        columns = np.concatenate([used + part * len(weights) for part in range(self.parts)])
        roots = np.tile(np.sqrt(weights[used]), self.parts)
        scaled = self.deviations[:, columns] * roots.astype(np.float32)
        n, p = scaled.shape
        private = bool(np.any(released.variances))
        product = (scaled.T @ scaled if p <= n or private else scaled @ scaled.T).astype(np.float64) / n
        found = np.linalg.eigvalsh(product)
        values = np.zeros(p)
        values[: len(found)] = np.maximum(found, 0)
        total, squares = float(values.sum()), float(np.sum(values**2))
        same = total**2 / n  # were shares equal: where a few records have large ones, they stand for many that repeat
        equal, nearer = total**2 / p, 1.0
        if squares > equal:
            nearer = float(np.sqrt(np.clip(squares - same - equal, 0, None) / (squares - equal)))
        if private:
            added = np.tile(released.variances[used] * weights[used], self.parts)
            product = nearer * product + np.diag(added + (1 - nearer) * total / p)
            along = self.mean[columns] * roots
            values = np.linalg.eigvalsh(product + released.count * np.outer(along, along))
            # fewer and larger ones, with the same sum and the variance of the fourth cumulant
            fourth = self.parts * float(released.fourth @ weights**2)
            factor = 1 + fourth / (2 * float(np.sum(values**2)))
            places = np.floor(np.arange(max(1, round(p / factor))) * factor).astype(int)
            kept = values[places.clip(max=p - 1)]
            return np.asarray(kept * (values.sum() / kept.sum()))
        # sums of weights stay what the variances say
        return np.asarray(total / p + nearer * (values - total / p))


def real_parts(features: NDArray[Any]) -> Single:
    """Real parts before imaginary ones."""
    parts = [features.real, features.imag] if np.iscomplexobj(features) else [features]
    return np.concatenate(parts, axis=-1).astype(np.float32)


def noise_in(sketch: Sketch, features: Single) -> float:
    """The mean squared error of each real number of a sketch's z, from real features of some of its records."""
    sampled = float(np.mean(features.astype(np.float64) ** 2)) / float(sketch.count)
    return sampled + float(np.mean(Released.of(sketch).variances))


def _shares(residuals: Single, ridge: float) -> Double:
    """Maximum-entropy weights of drawn records, under which their residuals average to about zero.

    They correct a poor fit: mixtures of Gaussians fit one-bit sketches of discrete records badly, and 13 of 90 true
    hypotheses were rejected at the 5 % level. The weights are exp(residuals @ theta), theta the minimum of the convex
    log-mean-exp(residuals @ theta) + ridge |theta|^2 / 2.
    """

    def objective(theta: Double) -> tuple[float, Double]:
        shares, top = _exponentials(residuals, theta)
        total = float(shares.sum())
        slope = (shares / total).astype(np.float32) @ residuals + ridge * theta
        return top + float(np.log(total / len(residuals))) + 0.5 * ridge * float(theta @ theta), slope

    start = np.zeros(residuals.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": TILTING_ITERATIONS})
    shares = _exponentials(residuals, found.x)[0]
    return shares / shares.sum()


def _exponentials(residuals: Single, theta: Double) -> tuple[Double, float]:
    """exp(residuals @ theta), divided by its largest value, and the logarithm of that."""
    heights = (residuals @ theta.astype(np.float32)).astype(np.float64)
    top = float(heights.max())
    return np.exp(heights - top), top


def exceedance(weights: Double, value: float) -> float:
    """P(sum of weights_l g_l^2 > value), g_l standard normal: Lugannani and Rice's saddlepoint formula.

    Its relative error stays at a few per cent however small the probability is (Kuonen 1999, 10.1093/biomet/86.4.929).

    >>> round(exceedance(np.ones(10), 18.307), 3)  # the 95 % quantile of chi-square with 10 degrees of freedom
    0.05
    """
    largest = float(np.max(weights, initial=0.0))
    if largest <= 0 or value <= 0:
        return float(value <= 0)
    weights = weights[weights > NEGLIGIBLE_WEIGHT * largest] / largest
    value /= largest
    mean, deviation = float(np.sum(weights)), float(np.sqrt(2 * np.sum(weights**2)))
    away = (value - mean) / deviation
    if abs(away) >= NEAR_MEAN:
        return _saddlepoint(weights, value)
    sides = [_saddlepoint(weights, mean + sign * NEAR_MEAN * deviation) for sign in (-1, 1)]
    return float(np.interp(away, [-NEAR_MEAN, NEAR_MEAN], sides))


def _saddlepoint(weights: Double, value: float) -> float:
    """For weights of at most 1, of which one is 1, and a value that is not their sum."""

    def slope(t: float) -> float:
        return float(np.sum(weights / (1 - 2 * t * weights))) - value

    # the slope of the cumulant generating function rises from 0 at minus infinity to infinity at t = 1/2
    high = 0.5 - 0.25 / (value + len(weights) + 1)
    while slope(high) < 0:
        high = 0.25 + 0.5 * high
    low = min(-1.0, -float(len(weights)) / value)
    t = float(brentq(slope, low, high, xtol=1e-15, rtol=1e-14))
    cumulant = -0.5 * float(np.sum(np.log1p(-2 * t * weights)))
    curvature = 2 * float(np.sum((weights / (1 - 2 * t * weights)) ** 2))
    root = np.sign(t) * np.sqrt(max(2 * (t * value - cumulant), 0.0))
    ratio = t * np.sqrt(curvature)
    # as r* = r + log(u / r) / r, which keeps its relative precision in the far tail
    return float(ndtr(-(root + np.log(ratio / root) / root)))
