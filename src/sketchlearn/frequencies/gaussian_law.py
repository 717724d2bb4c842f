"""The Gaussian law, whose kernel is Gaussian."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.frequencies.law_base import ScaledLaw
from sketchlearn.randomness import Floats, Stream


@dataclass(frozen=True)
class Gaussian(ScaledLaw):
    """omega ~ N(0, I / scale^2): the kernel exp(-|x - y|^2 / (2 scale^2)).

    >>> Gaussian(scale=2.0).draw(3, 5, Stream(0, "example")).shape
    (3, 5)
    """

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        return stream.chi(n_features, n_frequencies) / self.scale

    def kernel(self, distances: Floats, n_features: int) -> Floats:  # noqa: ARG002
        return np.asarray(np.exp(-((distances / self.scale) ** 2) / 2))

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        return stream.normal(n_features * n_frequencies).reshape(n_features, n_frequencies) / self.scale
