"""Frequencies in the form that models need them: single precision, with their squares."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel

Single = NDArray[np.float32]
Double = NDArray[np.float64]


class FrequencySet:
    """The frequencies omega, one per row, in radians, and the shifts of their phases."""

    def __init__(self, omega: NDArray[Any], shift: NDArray[Any] | None = None) -> None:
        self.omega: Single = np.ascontiguousarray(omega, np.float32)
        self.shift: Single | None = None if shift is None else np.asarray(shift, np.float32)
        #: omega in turns, shape (d, m)
        self.turns: Single = np.ascontiguousarray((np.asarray(omega, np.float64) / (2 * np.pi)).T, np.float32)

    def __len__(self) -> int:
        return len(self.omega)

    @property
    def n_features(self) -> int:
        return int(self.omega.shape[1])

    @cached_property
    def squares(self) -> Single:
        """omega squared, coordinate by coordinate: shape (m, d)."""
        return self.omega * self.omega

    @cached_property
    def half_squares(self) -> Single:
        """omega^2 / 2, coordinate by coordinate: shape (d, m)."""
        return np.ascontiguousarray(0.5 * self.squares.T)

    @cached_property
    def half_lengths(self) -> Single:
        """|omega|^2 / 2: shape (1, m)."""
        return np.ascontiguousarray(0.5 * self.lengths[None])

    @cached_property
    def shift_turns(self) -> Single | None:
        """The shifts in turns."""
        return None if self.shift is None else self.shift / np.float32(2 * np.pi)

    @cached_property
    def lengths(self) -> Single:
        """Squared lengths |omega|^2."""
        return np.asarray(self.squares.sum(axis=1))

    def waves(
        self, locations: NDArray[Any], exponents: Single | None = None, space: Single | None = None
    ) -> tuple[Single, Single]:
        """exp(-exponent) times cos and sin of omega . location + shift: two arrays of shape (locations, m).

        `space`, of shape (3, locations, m), is where phases, cosines and sines go; fresh memory otherwise.
        """
        if space is None:
            space = np.empty((3, len(locations), len(self)), np.float32)
        phases, cosines, sines = space
        np.matmul(np.asarray(locations, np.float32), self.turns, out=phases)
        if self.shift_turns is not None:
            phases += self.shift_turns
        kernel.damped_waves(phases, exponents, cosines, sines)
        return cosines, sines
