"""`distance`: how far two sketches' distributions are apart, with an interval."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import brentq
from scipy.special import ndtr

from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import Double
from sketchlearn.plain_digits import in_digits
from sketchlearn.queries.sampling_noise import Noise, Released, density_of, real_parts
from sketchlearn.queries.two_sample import checked_pair
from sketchlearn.sketch import Sketch
from sketchlearn.values import positive, whole


@dataclass(frozen=True)
class Distance:
    """A distance of two distributions, and the interval that holds it with a stated confidence.

    >>> print(Distance(0.12, 0.1, 0.14, 0.95))
    0.12 (95 % interval 0.1 to 0.14)
    """

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        value, low, high = (in_digits(number, 3) for number in (self.value, self.low, self.high))
        return f"{value} ({100 * self.confidence:g} % interval {low} to {high})"


def distance(a: Sketch, b: Sketch, *, confidence: float = 0.95, seed: int = 0) -> Distance:
    """The distance D of two distributions, D^2 = mean over frequencies of |phi_a - phi_b|^2, and an interval for it.

    It estimates the maximum mean discrepancy. Unlike `Sketch.distance`, which is the distance of the two sketches as
    they are, it is freed of what sampling adds; two sketches of the same distribution are about 0 apart.

    The mean square T of z_a - z_b is a quadratic form of Gaussian noise around D^2. Its law for a given D follows from
    its first cumulants (Liu, Tang and Zhang 2009, 10.1016/j.csda.2008.11.025), and the interval holds all D for
    which T is not surprising.

    Parameters
    ----------
    a, b : sketches of one operator of Fourier features, alone or among others, whose records do not overlap.
    confidence : that the interval holds D.
    seed : of the densities that tell how the noise of features is correlated.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((10_000, 2))
    >>> operator = skl.design(X, n_components=1)
    >>> print(skl.distance(operator.sketch(X[:5000]), operator.sketch(X[5000:] + [0.5, 0])))
    0.161 (95 % interval 0.147 to 0.175)
    """
    if not positive("confidence", confidence) < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence!r}")
    rng = np.random.default_rng(whole("seed", seed, 0))
    a, b = checked_pair(a, b)
    with one_blas_thread():
        noises = [(Noise.of(sketch, density_of(sketch, rng), rng), float(sketch.count)) for sketch in (a, b)]
        variances = sum(noise.variances / n for noise, n in noises)
        rows = sum(len(noise.deviations) for noise, _ in noises)
        deviations = [noise.deviations * np.sqrt(rows / len(noise.deviations) / n) for noise, n in noises]
        mean = np.mean([noise.mean for noise, _ in noises], axis=0)
        noise = Noise(np.asarray(variances), np.concatenate(deviations).astype(np.float32), mean)  # of z_a - z_b
        m = len(noise.variances)
        released = Released.of(a) + Released.of(b)
        spectrum = noise.spectrum(np.full(m, 1 / m), released)
        gap = real_parts(a.mean - b.mean).astype(np.float64)
        # gap' Sigma gap: T's noise along its own direction
        private = float(gap**2 @ np.tile(released.variances, noise.parts))
        along = (float(np.mean((noise.deviations @ gap) ** 2)) + private) / m**2
    seen = float(gap @ gap) / m
    law = _Law(spectrum, seen, along)
    tail = (1 - confidence) / 2
    # sketches that agree far better than chance lets them are no nearer than those that agree a little better
    unsurprising = _Law(spectrum, max(seen, law.usual(2 * tail)), along)
    squares = [law.solve(tail), max(seen - law.powers[0], 0.0), unsurprising.solve(1 - tail)]
    low, value, high = np.sqrt(squares).tolist()
    return Distance(value, low, high, float(confidence))


class _Law:
    """The law of T for each D^2, from its cumulants c_k = tr S^k + k d' S^(k-1) d, S the covariance, |d| = D."""

    def __init__(self, spectrum: Double, seen: float, along: float) -> None:
        self.powers = [float(np.sum(spectrum**k)) for k in (1, 2, 3, 4)]
        self.seen = seen
        # d' S d / |d|^2: the noise adds tr S^2 to its estimate; what is left of a small gap tells nothing
        typical = self.powers[1] / max(self.powers[0], 1e-300)
        excess, size = along - self.powers[1], seen - self.powers[0]
        trust = np.clip(size / max(seen, 1e-300), 0, 1)
        direction = np.clip(excess / size, 0, float(spectrum.max())) if size > 0 else typical
        self.direction = float(trust * direction + (1 - trust) * typical)

    def above(self, square: float, seen: float | None = None) -> float:
        """P(T > what was seen), if D^2 is `square`."""
        from scipy.stats import ncx2  # takes as long to import as all else that a question needs

        seen, s = self.seen if seen is None else seen, self.direction
        c1, c2, c3, c4 = (power + (k + 1) * s**k * square for k, power in enumerate(self.powers))
        if c2 <= 0:
            return float(square > seen)
        skewness, kurtosis = c3 / c2**1.5, c4 / c2**2
        if skewness**2 > kurtosis:
            root = 1 / (skewness - np.sqrt(skewness**2 - kurtosis))
            shift = skewness * root**3 - root**2
            freedom = root**2 - 2 * shift
        else:
            shift, freedom = 0.0, c2**3 / c3**2
        away = (seen - c1) / np.sqrt(2 * c2)
        value = away * np.sqrt(2 * (freedom + 2 * shift)) + freedom + shift
        found = float(ncx2.sf(value, freedom, shift if shift > 0 else 1e-12))
        return found if np.isfinite(found) else float(ndtr(-away))

    def usual(self, probability: float) -> float:
        """The T below which sketches of one distribution stay with this probability."""
        low, high = 0.0, self.powers[0]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.above(0.0, middle) > 1 - probability else (low, middle)
        return low

    def solve(self, probability: float) -> float:
        """The D^2 for which T exceeds what was seen with this probability; 0 if there is none."""
        if self.above(0.0) >= probability:
            return 0.0
        high = max(self.seen, self.powers[0])
        while self.above(high) < probability:
            high *= 2
        return float(brentq(lambda square: self.above(square) - probability, 0.0, high, xtol=1e-12 * high))
