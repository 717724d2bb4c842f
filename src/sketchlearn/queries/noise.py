"""The sampling noise of a sketch's values: their covariance, as far as one needs it, whatever the wave.

The mean of each feature is in the sketch. Its mean square is that of the wave, 1 or 2 for most of them, so each
variance is known. Only how the features of a record are *correlated* is not in the sketch; records drawn from a
density that was fitted to it, and sketched by the operator itself, tell that, with dither, harmonics and subsampling.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import minimize

from sketchlearn.decoders import HierarchicalSplitting, Problem, Target, decode
from sketchlearn.decoders.reading import PER_PARAMETER
from sketchlearn.models import Mixture
from sketchlearn.operators import Concatenated, FourierFeatures
from sketchlearn.sketch import Sketch

Double = NDArray[np.float64]
Single = NDArray[np.float32]

TILTING = 60  # iterations
BELIEF = 50.0  # in the density, in records: with 5, discrete one-bit sketches of 10 columns were never rejected
NARROWEST = 1e-2  # variance of a value that is matched closely, of its mean square
MOST_COMPONENTS = 8  # of the density; more change no correlation that matters
NUMBERS, FEWEST_ROWS, MOST_ROWS = 1 << 22, 1024, 4096  # features drawn in all, and rows


def fourier_sketch(sketch: Sketch) -> Sketch:
    """The sketch itself, or its part, if it is one of Fourier features."""
    parts = sketch.operator.split(sketch) if isinstance(sketch.operator, Concatenated) else [sketch]
    found = [part for part in parts if isinstance(part.operator, FourierFeatures)]
    if len(found) != 1:
        raise ValueError(
            f"the question is about Fourier features, but the sketch is of {type(sketch.operator).__name__}: make the "
            "operator with design(sample, n_components=...)"
        )
    return found[0]


def n_determined(target: Target) -> int:
    """How many clusters the sketch determines well (for operators of `design`, those asked for), up to a few."""
    return int(np.clip(target.n_numbers / 2 / (PER_PARAMETER * target.n_features), 1, MOST_COMPONENTS))


def density_of(sketch: Sketch, rng: np.random.Generator) -> Mixture:
    """A quick density of the records, in the units of the data, from their sketch alone.

    Harmonics of a one-bit wave are taken for noise: a density without them was too narrow to draw records from.

    >>> import sketchlearn as skl
    >>> sketch = skl.FourierFeatures(2, 60, law=skl.frequencies.Gaussian(1.0)).sketch(np.ones((100, 2)))
    >>> density_of(sketch, np.random.default_rng(0)).locations.round(1)[0]
    array([1., 1.])
    """
    target = Target.of(sketch)
    problem = Problem.of(target, n_determined(target))
    mixture = decode(HierarchicalSplitting(), problem, rng).mixture
    return problem.in_data_units(mixture.heavy())


@dataclass(frozen=True)
class Noise:
    """What one record adds to the values, less its mean.

    Parameters
    ----------
    variances : of each value, E |Phi_j - E Phi_j|^2.
    deviations : such differences of drawn records, times the square root of how much each counts, real parts before
        imaginary ones: (records, 1 or 2 times m).
    """

    variances: Double
    deviations: Single

    @classmethod
    def of(cls, sketch: Sketch, density: Mixture, rng: np.random.Generator) -> Noise:
        """The noise of a sketch of Fourier features whose records are about those of the density."""
        operator = sketch.operator
        assert isinstance(operator, FourierFeatures)
        n = int(np.clip(NUMBERS // operator.n_frequencies, FEWEST_ROWS, MOST_ROWS))
        features = operator.features(density.sample(n, rng)[0], n_jobs=1)
        square = np.mean(np.abs(features) ** 2, axis=0)
        count = max(float(sketch.count), 2.0)
        variances = np.maximum(square - np.abs(sketch.mean) ** 2, 0) * (count / (count - 1))
        shares = _shares(real_parts((features - sketch.mean) / np.sqrt(variances + NARROWEST * square)), BELIEF / count)
        features -= shares @ features
        features *= np.sqrt(n * shares)[:, None]
        drawn = np.mean(np.abs(features) ** 2, axis=0)
        # the density knows the correlations, the sketch the variances
        features *= np.sqrt(variances / np.maximum(drawn, 1e-12 * np.maximum(square, 1e-300)))
        return cls(variances, real_parts(features))

    @cached_property
    def parts(self) -> int:
        """Real numbers per value."""
        return self.deviations.shape[1] // len(self.variances)

    def spectrum(self, weights: Double) -> Double:
        """The eigenvalues of the weighted values' covariance: weights of the chi-squares that chance makes of them.

        A sample's eigenvalues lie further apart than the true ones, the more so the more there are: they are drawn
        together until the sum of their squares is that of pairs of *different* records, which is unbiased.
        """
        used = np.flatnonzero(weights > 0)
        columns = np.concatenate([used + part * len(weights) for part in range(self.parts)])
        scaled = self.deviations[:, columns] * np.tile(np.sqrt(weights[used]), self.parts).astype(np.float32)
        n, p = scaled.shape
        product = scaled.T @ scaled if p <= n else scaled @ scaled.T
        found = np.linalg.eigvalsh(product.astype(np.float64) / n)
        values = np.zeros(p)
        values[: min(n, p)] = np.maximum(found, 0)
        total, squares = float(values.sum()), float(np.sum(values**2))
        same = total**2 / n  # were shares equal: where a few records have large ones, they stand for many that repeat
        equal = total**2 / p
        if squares <= equal:
            return values
        nearer = np.sqrt(np.clip(squares - same - equal, 0, None) / (squares - equal))
        # sums of weights stay what the variances say
        return np.asarray(total / p + nearer * (values - total / p))


def real_parts(features: NDArray[Any]) -> Single:
    """Real parts before imaginary ones."""
    parts = [features.real, features.imag] if np.iscomplexobj(features) else [features]
    return np.concatenate(parts, axis=1).astype(np.float32)


def noise_in(sketch: Sketch, features: Single) -> float:
    """The mean square error of each real number of a sketch's z, from real features of some of its records."""
    return float(np.mean(features.astype(np.float64) ** 2)) / float(sketch.count)


def _shares(residuals: Single, ridge: float) -> Double:
    """Shares of drawn records, as equal as possible (in entropy) while their residuals average to about zero.

    They correct a density that does not explain the sketch: mixtures of Gaussians fit one-bit sketches of discrete
    records poorly, and 13 of 90 true hypotheses were rejected at the 5 % level. The shares are exp(residuals @ theta),
    theta the minimum of the convex log-mean-exp(residuals @ theta) + ridge |theta|^2 / 2.
    """

    def objective(theta: Double) -> tuple[float, Double]:
        shares, top = _exponentials(residuals, theta)
        total = float(shares.sum())
        slope = (shares / total).astype(np.float32) @ residuals + ridge * theta
        return top + float(np.log(total / len(residuals))) + 0.5 * ridge * float(theta @ theta), slope

    start = np.zeros(residuals.shape[1])
    found = minimize(objective, start, jac=True, method="L-BFGS-B", options={"maxiter": TILTING})
    shares = _exponentials(residuals, found.x)[0]
    return shares / shares.sum()


def _exponentials(residuals: Single, theta: Double) -> tuple[Double, float]:
    """exp(residuals @ theta), divided by its largest value, and the logarithm of that."""
    heights = (residuals @ theta.astype(np.float32)).astype(np.float64)
    top = float(heights.max())
    return np.exp(heights - top), top
