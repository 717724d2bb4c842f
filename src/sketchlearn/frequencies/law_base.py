"""What every law of frequencies offers."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import ClassVar

import numpy as np

from sketchlearn.randomness import Floats, Stream, lengths
from sketchlearn.values import Value


class Law(Value, ABC):
    """A law of frequencies, in radians per unit of the data."""

    #: whether all directions are equally likely
    isotropic: ClassVar[bool] = True
    #: whether features have factors that depend on their frequency
    weighted: ClassVar[bool] = False

    @abstractmethod
    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        """Random lengths of frequencies."""

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        """Random frequencies, one per column: shape (n_features, n_frequencies)."""
        vectors = stream.normal(n_features * n_frequencies).reshape(n_features, n_frequencies)
        return vectors * (self.radii(n_features, n_frequencies, stream) / lengths(vectors))

    @property
    def in_words(self) -> str:
        """The law in plain words: its name, and its scale if it has one."""
        name = "".join(f" {c.lower()}" if c.isupper() else c for c in type(self).__name__).strip()
        return f"{name} law"

    def kernel(self, distances: Floats, n_features: int) -> Floats:  # noqa: ARG002
        """E cos(omega . x) for rows x of these lengths: the kernel that the law's features give."""
        raise ValueError(f"the kernel of {type(self).__name__} frequencies is not known in closed form: use features")

    def widths(self, n_features: int) -> Floats | None:  # noqa: ARG002
        """The scale in each column, or None where the law has no single scale."""
        return None

    def spreads(self, n_features: int) -> Floats:
        """About the least standard deviation that each column is declared to have; zero where nothing is declared."""
        return np.zeros(n_features)

    def covariances(self, n_features: int) -> Floats:
        """Covariances of clusters that the law was made for, if it declares any: (clusters, n_features, n_features)."""
        return np.zeros((0, n_features, n_features))

    def weights(self, n_features: int, radii: Floats) -> Floats:
        """The factor of each feature, given the lengths of the frequencies, for laws that are `weighted`."""
        raise NotImplementedError
