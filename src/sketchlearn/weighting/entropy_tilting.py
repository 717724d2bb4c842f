"""Maximum entropy weights: rows reweighted so that their features have given means, as far as noise allows.

Rows with features P (N x q) and base weights u get weights w ~ u exp(P a), the nearest to u (in entropy) under which
the features' means agree with z. The vector a minimises the convex dual

    log sum u exp(P a) - z . a + sum v_j a_j^2 / 2,

where v_j is the variance of the noise in z_j: at the minimum, the features' means differ from z by v a.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import ssyrk
from scipy.optimize import minimize

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.models import Double, Single

ITERATIONS, ROUGH_ITERATIONS = 60, 25  # Rough tilts are for atoms that will be moved and tilted again.
CORRECTIONS = 20  # that L-BFGS remembers: in whitened coordinates 40 to 80 evaluations suffice for 300 features
TOLERANCE = 1e-7  # of the dual: sums in float32 know no less, and line searches in their noise took half of the time
ROWS_TO_WHITEN = 4000  # rows that the covariance of the features is taken from: it only sets the coordinates
JITTER = 1e-7  # added to the curvature: features that are copies of each other leave it singular
MOST_CAUTION, CAUTION_STEP = 100.0, 10.0  # the first factor of the noise's variance, and by how much it falls at a time


@dataclass(frozen=True)
class WaveMeans:
    """The real numbers z of a target: means, over all records, of waves of y = (x - origin) / unit.

    A complex value gives two numbers, cosine and sine; one of a real wave gives one. Harmonics of one-bit and modulo
    waves are part of the features, so that they need not be removed from z.
    """

    target: Target

    def __len__(self) -> int:
        return len(self.target)

    @property
    def variance(self) -> float:
        """Of the noise in each number."""
        return self.target.released / (2 if self.target.imaginary else 1) + self.target.subsampling / 2

    @property
    def numbers(self) -> Double:
        """The numbers z: real parts, and imaginary ones if they are known."""
        values = self.target.values
        return np.concatenate([values.real, values.imag]) if self.target.imaginary else values.real

    def some(self, which: NDArray[np.int64]) -> WaveMeans:
        """The numbers of some of the frequencies."""
        return WaveMeans(self.target.some(which))

    def features(self, rows: Double) -> Single:
        """Features of rows, whose means over all records are the numbers: shape (N, q)."""
        target, omega, shift = self.target, self.target.frequencies.omega, self.target.frequencies.shift
        phases = (((rows - target.origin) / target.unit) @ omega.astype(np.float64).T).astype(np.float32)
        first = phases + (np.float32(0) if shift is None else shift)
        waves = (np.cos, np.sin) if target.imaginary else (np.cos,)
        parts = [wave(first) for wave in waves]
        for order, ratio in target.harmonics:
            turns = (order - 1 if target.imaginary else order) * target.dither + np.angle(ratio)
            turned = order * phases + turns.astype(np.float32)
            for part, wave in zip(parts, waves, strict=True):
                part += np.float32(abs(ratio)) * wave(turned)
        return np.concatenate(parts, axis=1)

    def places(self, which: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of the features are those of some of the frequencies."""
        return np.tile(which, 2 if self.target.imaginary else 1)

    def unexplained(self, features: Single, weights: Double) -> float:
        """Mean square, per number, of what weighted features leave of the numbers, less the noise's share of it."""
        left = self.numbers - weights.astype(np.float32) @ features
        return float(np.mean(left**2) - self.variance)


@dataclass(frozen=True)
class Tilt:
    """Weights (sum 1) of rows, and the dual vector that gives them."""

    weights: Double
    dual: Double
    caution: float  # the noise's variance was taken to be that many times as large

    @property
    def effective(self) -> float:
        """How many equal weights would be as uneven as these: 1 / sum w^2."""
        return float(1 / np.sum(self.weights**2))

    def freedom(self, features: Single, variance: float) -> float:
        """How many of the target's numbers the weights follow freely: the trace of C (C + v)^-1, C their covariance."""
        own = self.weights.astype(np.float32)
        centered = (features - own @ features) * np.sqrt(own)[:, None]
        covariance = ssyrk(1.0, centered.T, lower=1).astype(np.float64)  # eigvalsh reads the lower half alone
        values = np.maximum(np.linalg.eigvalsh(covariance), 0)
        return float(np.sum(values / (values + self.caution * variance)))


def tilt(
    features: Single,
    target: Double,
    variance: float,
    base: Double | None = None,
    start: Double | None = None,
    caution: float = 1.0,
    iterations: int = ITERATIONS,
) -> Tilt:
    """Weights near the base ones under which features have the target's means, within `caution` times the noise."""
    n, q = features.shape
    u = np.full(n, 1 / n, np.float32) if base is None else (base / base.sum()).astype(np.float32)
    v = caution * variance
    mean = (u @ features).astype(np.float64)
    lower = _whitening(features, mean.astype(np.float32), u, v)

    def dual(b: Double) -> tuple[float, Double]:
        a = solve_triangular(lower, b, lower=True, trans=1, check_finite=False)
        weights, log_total = _weights(features, a, mean, u)
        slope = (weights @ features).astype(np.float64) - target + v * a
        value = log_total - float((target - mean) @ a) + v * float(a @ a) / 2
        return value, solve_triangular(lower, slope, lower=True, check_finite=False)

    b = np.zeros(q) if start is None else lower.T @ start
    options = {"maxiter": iterations, "maxcor": CORRECTIONS, "ftol": TOLERANCE, "gtol": 1e-5, "maxls": 6}
    found = minimize(dual, b, jac=True, method="L-BFGS-B", options=options)
    a = solve_triangular(lower, found.x, lower=True, trans=1)
    weights = _weights(features, a, mean, u)[0].astype(np.float64)
    return Tilt(weights / weights.sum(), a, caution)


def tempered(
    features: Single, target: Double, variance: float, least_effective: float, caution: float = MOST_CAUTION
) -> Tilt:
    """The least cautious tilt of equal weights that leaves so many effective rows; else the most cautious one."""
    found = tilt(features, target, variance, caution=caution, iterations=ROUGH_ITERATIONS)
    while found.caution > 1 and found.effective >= least_effective:
        less = max(found.caution / CAUTION_STEP, 1.0)
        bolder = tilt(features, target, variance, start=found.dual, caution=less, iterations=ROUGH_ITERATIONS)
        if bolder.effective < least_effective:
            break
        found = bolder
    return found


def _whitening(features: Single, mean: Single, base: Single, variance: float) -> Double:
    """The Cholesky factor of about the dual's curvature at the base weights, from evenly spaced rows."""
    some = slice(None, None, max(1, len(features) // ROWS_TO_WHITEN))
    centered = (features[some] - mean) * np.sqrt(base[some] / base[some].sum())[:, None]
    curvature = ssyrk(1.0, centered.T, lower=1).astype(np.float64)  # np.linalg.cholesky reads the lower half alone
    curvature[np.diag_indices_from(curvature)] += variance + JITTER
    return np.asarray(np.linalg.cholesky(curvature))


def _weights(features: Single, dual: Double, mean: Double, base: Single) -> tuple[Single, float]:
    """Weights (sum 1) and the logarithm of the base's mean of exp((P - mean) a)."""
    exponents = features @ dual.astype(np.float32)
    exponents -= np.float32(mean @ dual)
    top = exponents.max()
    weights = base * np.exp(exponents - top)
    total = float(weights.sum(dtype=np.float64))
    return weights / np.float32(total), float(np.log(total) + top)
