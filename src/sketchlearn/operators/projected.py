"""Operators whose features are functions of random projections, computed by a native plan.

Structured frequencies are products of Hadamard matrices and random diagonals, whose product is never stored: a block of
`size` frequencies is D0 H D1 H D2 H D3, cut to the columns of the data, H the Walsh-Hadamard matrix, D1 to D3 random
signs. D0 gives each frequency exactly the length that the law drew.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn._native import Plan
from sketchlearn.frequencies import Law
from sketchlearn.operators.operator_base import Centred, Double, Integers
from sketchlearn.randomness import Stream

Single = NDArray[np.float32]
FEWEST_FEATURES = 8  # With fewer columns, rows of zeros are likely, and dense frequencies are as fast.


class Projected(Centred):
    """An operator with a plan."""

    _center_type = np.float32

    @property
    def n_drawn(self) -> int:
        return self.n_features * self.n_sums

    @property
    @abstractmethod
    def _plan(self) -> Plan:
        """The plan, for the active kernel."""

    def add_rows(self, rows: NDArray[Any], weights: Integers | None, threads: int, sums: Integers) -> int:
        return self._plan.add(rows, weights, threads, sums)

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int32)
        return integers, self._plan.write(rows, threads, integers)


def in_turns(omega: Double) -> Single:
    """Frequencies (or their lengths) in float32 turns, if the kernels take them."""
    turns = (omega / (2 * np.pi)).astype(np.float32)
    if not np.all(np.abs(turns) <= kernel.FREQUENCY_LIMIT):
        raise ValueError("the scale is too small for float32 frequencies: measure the data in smaller units")
    return turns


@dataclass(frozen=True)
class Structured:
    """Blocks of structured frequencies; `radii` are in turns, over the length that the transforms give a row."""

    signs: Single  # (blocks, 3, size): D3, D2, D1
    radii: Single  # (blocks, size)
    n_features: int
    n_frequencies: int

    @property
    def size(self) -> int:
        return int(self.radii.shape[1])

    @staticmethod
    def block_size(n_features: int) -> int:
        """Size of a block: the next power of two."""
        return int(max(kernel.SMALLEST_TRANSFORM, 1 << (n_features - 1).bit_length()))

    @classmethod
    def draw(cls, law: Law, n_features: int, n_frequencies: int, seed: int) -> Structured:
        size = cls.block_size(n_features)
        blocks = -(-n_frequencies // size)
        signs = Stream(seed, "signs").signs(3 * blocks * size).reshape(blocks, 3, size)
        radii = law.radii(n_features, blocks * size, Stream(seed, "radii"))
        in_turns(radii)  # refuses what dense frequencies would
        lengths = np.concatenate([_row_lengths(block, n_features) for block in signs])
        # Among few columns a row of zeros can happen; its frequency is zero then.
        turns = np.where(lengths > 0, radii / (2 * math.pi * np.maximum(lengths, 1.0)), 0.0).astype(np.float32)
        return cls(signs.astype(np.float32), turns.reshape(blocks, size), n_features, n_frequencies)

    def matrix(self) -> Double:
        """The frequencies multiplied out, in turns: shape (n_features, n_frequencies)."""
        pairs = zip(self.signs.astype(np.float64), self.radii.astype(np.float64), strict=True)
        blocks = [(d0[:, None] * _columns(signs, range(self.n_features))).T for signs, d0 in pairs]
        return np.concatenate(blocks, axis=1)[:, : self.n_frequencies]


def _columns(signs: Double, which: range) -> Double:
    """Some columns of H D1 H D2 H D3."""
    d3, d2, d1 = signs
    y = np.zeros((len(d3), len(which)))
    y[which, range(len(which))] = d3[which]
    return _hadamard(d1[:, None] * _hadamard(d2[:, None] * _hadamard(y)))


def _row_lengths(signs: Double, n_features: int) -> Double:
    """Lengths of the rows of the first n_features columns of H D1 H D2 H D3, a few columns at a time."""
    total = np.zeros(signs.shape[1])
    if n_features == len(total):
        return np.sqrt(total + float(n_features) ** 3)  # the transforms are orthogonal
    for first in range(0, n_features, 64):
        for column in _columns(signs, range(first, min(first + 64, n_features))).T:
            total += column * column
    return np.asarray(np.sqrt(total))


def _hadamard(y: Double) -> Double:
    """Walsh-Hadamard transform of each column."""
    size, h = len(y), 1
    while h < size:
        pairs = y.reshape(size // (2 * h), 2, h, -1)
        y = np.stack([pairs[:, 0] + pairs[:, 1], pairs[:, 0] - pairs[:, 1]], axis=1).reshape(size, -1)
        h *= 2
    return y
