"""The weighted law of the theory of sketched clustering."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sketchlearn.frequencies.law_base import ScaledLaw
from sketchlearn.randomness import Floats, Stream, logarithm
from sketchlearn.values import whole


@dataclass(frozen=True)
class Weighted(ScaledLaw):
    """p(omega) ~ (1 + e^2 |omega|^2) exp(-e^2 |omega|^2 / (2 log k)), and features divided by 1 + e |omega|.

    k is `n_components`; e, half the separation of the clusters in the theory, follows from `scale`. The constant factor
    of the theory's weights is left out. (Gribonval, Blanchard, Keriven, Traonmilin, "Compressive statistical learning
    with random feature moments".)

    >>> Weighted(scale=2.0, n_components=10).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    weighted = True
    n_components: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(n_components=whole("n_components", self.n_components, 2))

    def _parameters(self, n_features: int) -> tuple[float, float, float]:
        """Share of the plain Gaussian part, length unit, and e, from the mean square length n_features / scale^2."""
        log_k = float(logarithm(np.array([float(self.n_components)]))[0])
        plain = 1.0 / (1.0 + n_features * log_k)
        mean_square = n_features + 2.0 * (1.0 - plain)
        unit = math.sqrt(n_features / mean_square) / self.scale
        return plain, unit, math.sqrt(log_k) / unit

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        # |omega|^2 times a Gaussian density is the density of two more degrees of freedom.
        plain, unit, _ = self._parameters(n_features)
        short = stream.chi(n_features, n_frequencies)
        longer = np.sqrt(short * short + stream.chi(2, n_frequencies) ** 2)
        return np.where(stream.uniform(n_frequencies) < plain, short, longer) * unit

    def weights(self, n_features: int, radii: Floats) -> Floats:
        return 1.0 / (1.0 + self._parameters(n_features)[2] * radii)
