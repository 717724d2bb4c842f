"""Frequencies in float32, dense ones and structured ones.

Structured frequencies are products of Hadamard matrices and random diagonals, whose product is never stored: a block of
`size` frequencies is D0 H D1 H D2 H D3, cut to the columns of the data, H the Walsh-Hadamard matrix, D1 to D3 random
signs. D0 gives each frequency exactly the length that the distribution drew.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.limits import Cost
from sketchlearn.core.randomness import NUMBERS_PER_CHUNK, Stream, uniform_cost
from sketchlearn.features.frequencies import Law
from sketchlearn.kernels import dispatch as kernel

COLUMNS_AT_A_TIME = 64  # of a product of transforms, whose rows' lengths are added up
FEWEST_FEATURES = 8  # With fewer columns, rows of zeros are likely, and dense frequencies are as fast.


def in_turns(omega: Double) -> Single:
    """Frequencies (or their lengths) in float32 turns, if the kernels take them."""
    turns = np.empty(omega.shape, np.float32)
    given, taken = omega.reshape(-1), turns.reshape(-1)
    for first in range(0, len(taken), NUMBERS_PER_CHUNK):
        chunk = taken[first : first + NUMBERS_PER_CHUNK]
        chunk[:] = given[first : first + NUMBERS_PER_CHUNK] / (2 * np.pi)
        if not np.all(np.abs(chunk) <= kernel.FREQUENCY_LIMIT):
            raise ValueError("the scale is too small for float32 frequencies: measure the data in smaller units")
    return turns


def float32_cost(size: int) -> Cost:
    """The cost of rounding float64 numbers, which are there, to float32, and of digesting them."""
    chunk = Cost(32 * min(size, NUMBERS_PER_CHUNK))
    return Cost.of_numbers(size, bytes_each=12, operations_each=10) + chunk


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
        signs = Stream(seed, "signs").signs(3 * blocks * size).astype(np.float32).reshape(blocks, 3, size)
        radii = law.radii(n_features, blocks * size, Stream(seed, "radii"))
        in_turns(radii)  # refuses what dense frequencies would
        lengths = np.concatenate([_row_lengths(block, n_features) for block in signs])
        # Among few columns a row of zeros can happen; its frequency is zero then.
        turns = np.where(lengths > 0, radii / (2 * math.pi * np.maximum(lengths, 1.0)), 0.0).astype(np.float32)
        return cls(signs, turns.reshape(blocks, size), n_features, n_frequencies)

    @classmethod
    def cost(cls, law: Law, n_features: int, n_frequencies: int) -> Cost:
        """What `draw` takes: the lengths of the transforms' rows are found by multiplying them out."""
        size = cls.block_size(n_features)
        blocks = -(-n_frequencies // size)
        drawn = size * blocks
        kept = uniform_cost(3 * drawn) + law.radii_cost(n_features, drawn) + float32_cost(4 * drawn)
        columns = len(_fewer_columns(n_features, size))
        calls = blocks * (50_000 + 200_000 * -(-columns // COLUMNS_AT_A_TIME))
        products = (3 * size.bit_length() + 3) * columns * drawn
        return kept + Cost(24 * size * min(COLUMNS_AT_A_TIME, columns), calls + products)

    def matrix(self) -> Double:
        """The frequencies multiplied out, in turns: shape (n_features, n_frequencies)."""
        pairs = zip(self.signs.astype(np.float64), self.radii.astype(np.float64), strict=True)
        blocks = [(d0[:, None] * _columns(signs, range(self.n_features))).T for signs, d0 in pairs]
        return np.concatenate(blocks, axis=1)[:, : self.n_frequencies]


def _columns(signs: NDArray[Any], which: range) -> NDArray[Any]:
    """Some columns of H D1 H D2 H D3."""
    d3, d2, d1 = signs
    y = np.zeros((len(d3), len(which)), signs.dtype)
    y[which, range(len(which))] = d3[which]
    for d in (d2, d1):
        _transform(y)
        y *= d[:, None]
    _transform(y)
    return y


def _row_lengths(signs: Single, n_features: int) -> Double:
    """Lengths of the rows of the first n_features columns of H D1 H D2 H D3, a few columns at a time.

    All numbers are integers: those of the columns up to 2^24, exact in float32, and sums of squares up to 2^48. The
    transforms are orthogonal: the squares of all columns add up to size^3, so that the other columns do as well.
    """
    size = signs.shape[1]
    total = np.zeros(size)
    columns = _fewer_columns(n_features, size)
    for first in range(columns.start, columns.stop, COLUMNS_AT_A_TIME):
        some = _columns(signs, range(first, min(first + COLUMNS_AT_A_TIME, columns.stop)))
        total += np.sum(np.square(some, dtype=np.float64), axis=1)
    return np.sqrt(total if columns.start == 0 else float(size) ** 3 - total)


def _fewer_columns(n_features: int, size: int) -> range:
    """The first columns, or all others, whichever are fewer."""
    return range(n_features) if 2 * n_features <= size else range(n_features, size)


def _transform(y: NDArray[Any]) -> None:
    """Walsh-Hadamard transform of each column, in place."""
    size, h = len(y), 1
    while h < size:
        pairs = y.reshape(size // (2 * h), 2, h, -1)
        upper, lower = pairs[:, 0], pairs[:, 1]
        difference = upper - lower
        upper += lower
        lower[:] = difference
        h *= 2
