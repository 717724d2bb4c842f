"""Laws with several scales at once, for data of structure at several scales or of unknown scale."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from sketchlearn.frequencies.law_base import Law
from sketchlearn.randomness import Floats, Stream, exponential, logarithm
from sketchlearn.values import listed, positive

MOST_LAWS = 1000


@dataclass(frozen=True)
class LogUniform(Law):
    """|omega| = sqrt(d) / s, log s uniform between the logarithms of two scales, each part of the range equally often.

    >>> LogUniform(1.0, 100.0).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    smallest: float
    largest: float

    def __post_init__(self) -> None:
        smallest, largest = positive("smallest", self.smallest), positive("largest", self.largest)
        if smallest >= largest:
            raise ValueError(f"smallest must be below largest, not {smallest:g} and {largest:g}")
        self._set(smallest=smallest, largest=largest)

    @property
    def in_words(self) -> str:
        return f"{super().in_words} of scales {self.smallest:.4g} to {self.largest:.4g}"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        place = (np.arange(n_frequencies) + stream.uniform(n_frequencies)) / n_frequencies
        span = float(logarithm(np.array([self.largest / self.smallest]))[0])
        return math.sqrt(n_features) / self.largest * exponential(place * span)


@dataclass(frozen=True)
class Mixture(Law):
    """Each frequency follows one of `laws`, chosen with probabilities proportional to `shares` (default: equal).

    >>> from sketchlearn.frequencies import Gaussian
    >>> Mixture((Gaussian(1.0), Gaussian(10.0)), shares=(3, 1)).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    laws: tuple[Law, ...]
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        laws = listed(self.laws)
        if not 1 <= len(laws) <= MOST_LAWS or not all(isinstance(law, Law) for law in laws):
            raise ValueError(f"laws must be a list of at least one law of frequencies and at most {MOST_LAWS}")
        if not all(law.isotropic for law in laws):
            raise ValueError("a law with probes or shapes cannot be part of a mixture: make it of the mixture instead")
        if any(law.weighted for law in laws):
            raise ValueError("the weighted law cannot be part of a mixture: its features have other weights")
        given = listed(self.shares) if isinstance(self.shares, Iterable) else (self.shares,)
        shares = tuple(positive("each share", share) for share in given) or (1.0,) * len(laws)
        if len(shares) != len(laws):
            raise ValueError(f"there are {len(laws)} laws but {len(shares)} shares")
        positive("the sum of all shares", sum(shares))
        self._set(laws=laws, shares=shares)

    def widths(self, n_features: int) -> Floats | None:
        """The geometric mean of the laws' scales, weighted by shares; laws without a scale do not count."""
        own = [(share, law.widths(n_features)) for law, share in zip(self.laws, self.shares, strict=True)]
        known = [(share, width) for share, width in own if width is not None]
        if not known:
            return None
        logs = sum(share * np.log(width) for share, width in known)
        return np.asarray(np.exp(logs / sum(share for share, _ in known)))

    def kernel(self, distances: Floats, n_features: int) -> Floats:
        parts = (share * law.kernel(distances, n_features) for law, share in zip(self.laws, self.shares, strict=True))
        return np.asarray(sum(parts) / sum(self.shares))

    @property
    def in_words(self) -> str:
        return f"mixture of {len(self.laws)} laws"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        point = stream.uniform(n_frequencies) * sum(self.shares)
        result, reached = np.zeros(n_frequencies), 0.0
        for law, share in zip(self.laws, self.shares, strict=True):
            result = np.where(point >= reached, law.radii(n_features, n_frequencies, stream), result)
            reached += share
        return result
