"""The adapted-radius law, which avoids the short frequencies that tell nothing."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from scipy.special import hyp1f1

from sketchlearn.frequencies.law_base import ScaledLaw
from sketchlearn.frequencies.radial import LONGEST, radial_kernel
from sketchlearn.randomness import Floats, Stream
from sketchlearn.values import shortened

MEAN_SQUARES = {"mixture": 2.3039157775834984, "kmeans": 2.0}  # of R below; test_frequencies.py integrates them


@dataclass(frozen=True)
class AdaptedRadius(ScaledLaw):
    """|omega| proportional to R, p(R) ~ sqrt(R^2 + R^4 / 4) exp(-R^2 / 2) for mixtures, R exp(-R^2 / 2) for k-means.

    Where a Gaussian's characteristic function changes most with its mean and width (Keriven et al. 2018).

    >>> AdaptedRadius(scale=2.0, variant="kmeans").radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    variant: str = "mixture"

    def __post_init__(self) -> None:
        super().__post_init__()
        if not isinstance(self.variant, str) or self.variant not in MEAN_SQUARES:
            raise ValueError(f"variant must be 'mixture' or 'kmeans', not {shortened(self.variant)}")

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        r = stream.chi(2, n_frequencies) if self.variant == "kmeans" else _mixture_radii(n_frequencies, stream)
        return r * (math.sqrt(n_features / MEAN_SQUARES[self.variant]) / self.scale)

    def kernel(self, distances: Floats, n_features: int) -> Floats:
        lengths = np.asarray(distances) * (math.sqrt(n_features / MEAN_SQUARES[self.variant]) / self.scale)
        if self.variant == "kmeans":
            return np.asarray(hyp1f1(1.0, n_features / 2, -(lengths**2) / 2))
        near = np.minimum(lengths, LONGEST)
        values = radial_kernel(near, n_features, lambda r: r * np.sqrt(1 + r * r / 4) * np.exp(-r * r / 2), 0.0, 9.0)
        # far out, only the density of the shortest radii counts, which for mixtures begins like that for k-means
        return np.where(lengths > LONGEST, values * (LONGEST / np.maximum(lengths, LONGEST)) ** 2, values)


def _mixture_radii(size: int, stream: Stream) -> Floats:
    """By rejection: sqrt(1 + R^2 / 4) <= 1 + R / 2, so a mixture of chi with 2 and with 3 degrees lies above."""
    kept = np.empty(0)
    short = 1.0 / (1.0 + math.sqrt(math.pi / 8.0))  # the share of chi with 2 degrees
    while len(kept) < size:
        normals = stream.normal(3 * size).reshape(3, size)
        third = np.where(stream.uniform(size) < short, 0.0, normals[2])
        r = np.sqrt(normals[0] * normals[0] + normals[1] * normals[1] + third * third)
        accepted = stream.uniform(size) * (1.0 + 0.5 * r) < np.sqrt(1.0 + 0.25 * (r * r))
        kept = np.concatenate([kept, r[accepted]])
    return kept[:size]
