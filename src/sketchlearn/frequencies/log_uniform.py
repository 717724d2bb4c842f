"""Frequencies of every length between two limits, for data whose scale is not known beforehand."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sketchlearn.frequencies.law_base import Law
from sketchlearn.randomness import Floats, Stream, exponential, logarithm
from sketchlearn.values import positive


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
        return f"{self._name} law of scales {self.smallest:.4g} to {self.largest:.4g}"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        place = (np.arange(n_frequencies) + stream.uniform(n_frequencies)) / n_frequencies
        span = float(logarithm(np.array([self.largest / self.smallest]))[0])
        return math.sqrt(n_features) / self.largest * exponential(place * span)
