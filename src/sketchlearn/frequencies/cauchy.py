"""The Cauchy law, whose kernel is exponential in the distance."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.frequencies.law_base import ScaledLaw
from sketchlearn.randomness import Floats, Stream

_MEDIAN = 0.6744897501960817  # of |N(0, 1)|


@dataclass(frozen=True)
class Cauchy(ScaledLaw):
    """omega ~ multivariate Cauchy: the kernel exp(-0.6745 |x - y| / scale).

    It has no mean square; the factor 0.6745 makes a typical frequency as long as in the other laws.

    >>> Cauchy(scale=2.0).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        divisor = np.abs(stream.normal(n_frequencies))
        return stream.chi(n_features, n_frequencies) / divisor * (_MEDIAN / self.scale)

    def kernel(self, distances: Floats, n_features: int) -> Floats:  # noqa: ARG002
        return np.asarray(np.exp(-_MEDIAN * distances / self.scale))
