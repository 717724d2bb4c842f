"""Frequencies in the metric of clusters of known shapes: long across a flat cluster, short along it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.frequencies.law_base import Law
from sketchlearn.randomness import Floats, Stream
from sketchlearn.values import number, positive, shortened

MOST_SHAPES = 1000


@dataclass(frozen=True)
class Shaped(Law):
    """A `share` of the frequencies follows `local` in the coordinates of one of the `shapes`, the others follow `law`.

    A cluster of covariance L L' is round, of deviation one, in the coordinates y = L^-1 x. A frequency v there is the
    frequency omega = L'^-1 v of the data.

    Parameters
    ----------
    law : law of the frequencies that are not local.
    local : law of the local ones, in units of the clusters' deviations.
    shapes : of each cluster either L, the lower triangle row by row, or, if L is diagonal, its diagonal alone.
    share : of the local frequencies.

    Examples
    --------
    >>> from sketchlearn.frequencies import Gaussian
    >>> flat = Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((1.0, 100.0),), share=0.999)
    >>> np.abs(flat.draw(2, 1000, Stream(0, "example"))).mean(axis=1).round(2)
    array([0.82, 0.01])
    """

    isotropic = False
    law: Law
    local: Law
    shapes: tuple[tuple[float, ...], ...]
    share: float = 0.5

    def __post_init__(self) -> None:
        for name, law in (("law", self.law), ("local", self.local)):
            if not isinstance(law, Law) or not law.isotropic or law.weighted:
                raise ValueError(f"{name} must be an isotropic law without weights, not {shortened(law)}")
        shapes = tuple(_shape(shape) for shape in self.shapes) if isinstance(self.shapes, Iterable) else ()
        if not 1 <= len(shapes) <= MOST_SHAPES:
            raise ValueError(f"shapes must be a list of at least one shape and at most {MOST_SHAPES}")
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError("all shapes must have equally many numbers")
        share = positive("share", self.share)
        if share >= 1:
            raise ValueError(f"share must be below 1, not {shortened(share)}")
        self._set(shapes=shapes, share=share)

    @property
    def in_words(self) -> str:
        return f"{self.law.in_words} with clusters' shapes"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:  # noqa: ARG002
        raise ValueError("a law with shapes prefers some directions: it cannot be part of another law")

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        factors = self.factors(n_features)
        omega = self.law.draw(n_features, n_frequencies, stream)
        local = self.local.draw(n_features, n_frequencies, stream)
        place = stream.uniform(n_frequencies) / self.share
        which = np.minimum((place * len(factors)).astype(np.int64), len(factors) - 1)
        # back substitution of L' omega = v, in a fixed order of additions: the same bits on every machine
        for i in range(n_features - 1, -1, -1):
            for j in range(i + 1, n_features):
                local[i] = local[i] - factors[which, j, i] * local[j]
            local[i] = local[i] / factors[which, i, i]
        return np.where(place < 1.0, local, omega)

    def factors(self, n_features: int) -> Floats:
        """The factor L of each shape: (shapes, n_features, n_features)."""
        numbers = np.array(self.shapes)
        factors = np.zeros((len(numbers), n_features, n_features))
        if numbers.shape[1] == n_features:
            factors[:, np.arange(n_features), np.arange(n_features)] = numbers
        elif numbers.shape[1] == n_features * (n_features + 1) // 2:
            factors[:, *np.tril_indices(n_features)] = numbers
        else:
            raise ValueError(f"shapes of {numbers.shape[1]} numbers are not for {n_features} columns")
        if np.any(np.diagonal(factors, axis1=1, axis2=2) <= 0):
            raise ValueError("the diagonals of all shapes must be positive")
        return factors

    def widths(self, n_features: int) -> Floats | None:
        return self.law.widths(n_features)

    def covariances(self, n_features: int) -> Floats:
        factors = self.factors(n_features)
        return np.asarray(factors @ factors.transpose(0, 2, 1))


def _shape(given: Any) -> tuple[float, ...]:
    values = given.tolist() if isinstance(given, np.ndarray) else given
    return tuple(number("each number of a shape", value) for value in values) if isinstance(values, Iterable) else ()
