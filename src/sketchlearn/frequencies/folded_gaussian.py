"""The folded Gaussian law, with many short frequencies in any dimension."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import hyp1f1

from sketchlearn.frequencies.law_base import ScaledLaw
from sketchlearn.randomness import Floats, Stream


@dataclass(frozen=True)
class FoldedGaussian(ScaledLaw):
    """|omega| is half-normal (Keriven et al. 2018).

    >>> FoldedGaussian(scale=2.0).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        return np.abs(stream.normal(n_frequencies)) * (math.sqrt(n_features) / self.scale)

    def kernel(self, distances: Floats, n_features: int) -> Floats:
        # the mean over the radius of 0F1(d/2; -(radius distance)^2 / 4), term by term
        return np.asarray(hyp1f1(0.5, n_features / 2, -n_features / 2 * (distances / self.scale) ** 2))
