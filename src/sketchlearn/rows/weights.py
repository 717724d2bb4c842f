"""Rows with weights."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.rows.source_base import Block, Floats, Source, Wrapped

WEIGHT_BITS = 16


def weight_units(weights: Any, n_rows: int) -> tuple[NDArray[np.int64], int]:
    """Integers w and a number of bits b so that the weights are w / 2^b.

    >>> weight_units([0.5, 2.0], 2)
    (array([1, 4]), 1)
    """
    real = _checked(weights, n_rows)
    bits = 0 if np.array_equal(real, np.rint(real)) else WEIGHT_BITS
    if np.sum(real) * 2.0**bits >= 2.0**62:
        raise OverflowError("the sample weights are too large to be added exactly: divide them by a common factor")
    array = np.asarray(weights)
    units = np.rint(real * 2.0**bits).astype(np.int64) if array.dtype.kind == "f" else array.astype(np.int64)
    lost = np.flatnonzero((units == 0) & (real > 0))
    if len(lost):
        tiny = f"sample_weight of row {lost[0]} is {real[lost[0]]:g}, which rounds to zero in steps of 2^-{WEIGHT_BITS}"
        raise ValueError(f"{tiny}: multiply all weights by a common factor")
    ones = int(np.bitwise_or.reduce(units))
    spare = min(bits, (ones & -ones).bit_length() - 1) if ones else bits
    return units >> spare, bits - spare


def _checked(weights: Any, n_rows: int) -> NDArray[np.float64]:
    """The weights, one finite number for each row, none negative."""
    if isinstance(weights, np.ma.MaskedArray):
        raise TypeError("masked sample weights are not supported: fill them first")
    try:
        array = np.asarray(weights)
    except ValueError:
        raise ValueError("sample_weight must be one number per row") from None
    if array.dtype.kind not in "fiub":
        raise TypeError(f"sample_weight must be numbers, not {array.dtype}")
    if array.shape != (n_rows,):
        raise ValueError(f"sample_weight has shape {array.shape}, but there are {n_rows} rows")
    real = array.astype(np.float64)
    bad = np.flatnonzero(~((real >= 0) & (real < np.inf)))
    if len(bad):
        raise ValueError(f"sample_weight of row {bad[0]} is {array[bad[0]]}: weights must be finite and not negative")
    return real


MOST_WHOLE = 2**31  # the total up to which whole weights are repetitions
NEAR_ONE = 4.0  # means up to this factor from 1 stay: sums of fits then weigh alike
ROWS_IN_FINEST_STEPS = 2**WEIGHT_BITS


def relative_weights(weights: Any, n_rows: int) -> tuple[NDArray[np.float64], float]:
    """Weights in steps that leave room for the sums, and the factor that restores their scale.

    Weights with a mean far from 1 are divided by it. Whole weights are repetitions, and stay as they are unless they
    are huge.

    >>> relative_weights([0.125, 0.0625, 0.1875], 3), relative_weights([0.5, 2.25], 2)
    ((array([1. , 0.5, 1.5]), 0.125), (array([0.5 , 2.25]), 1.0))
    """
    real = _checked(weights, n_rows)
    total = float(np.sum(real, dtype=np.longdouble))
    if not 0 < total < np.inf or (total <= MOST_WHOLE and np.array_equal(real, np.rint(real))):
        return real, 1.0
    scale = 1.0 if 1 / NEAR_ONE <= total / n_rows <= NEAR_ONE else total / n_rows
    step = 2.0 ** (max(0, math.ceil(math.log2(total / scale / ROWS_IN_FINEST_STEPS))) - WEIGHT_BITS)
    steps = np.maximum(np.rint(real / scale / step), real > 0)
    return steps * step, scale


def weighted(rows: Source, weights: Any) -> Source:
    """The same rows with these weights, one per row; without weights, the source itself.

    >>> import sketchlearn as skl
    >>> rows = weighted(skl.source(np.array([[1.0], [2.0], [3.0]])), [2, 0, 1])
    >>> [block.rows.tolist() for block in rows.blocks()], rows.n_records
    ([[[1.0], [3.0]]], 3)
    >>> rows.first(9).ravel().tolist()
    [1.0, 1.0, 3.0]
    """
    return rows if weights is None else Weighted(rows, weights)


class Weighted(Wrapped):
    """Rows with weights. Those of weight zero are left out, as if they were not there.

    With whole weights, samples are those of a table that repeats each row so often, to the bit. If any weight is a
    fraction, a sample has no more rows than the table, each about as often as its weight says.
    """

    weights: NDArray[Any]
    n_rows: int

    def __init__(self, rows: Source, weights: Any) -> None:
        if rows.n_rows is None or not rows.replayable:
            raise ValueError(
                "sample_weight needs rows whose number is known: give an array, a data frame or an Arrow table, or "
                "call partial_fit with one batch and its weights after the other"
            )
        super().__init__(rows)
        self.n_rows = rows.n_rows
        units, self.bits = weight_units(weights, rows.n_rows)
        if not np.any(units):
            raise ValueError("all sample weights are zero: there are no rows to learn from")
        self.weights, self.ends = np.asarray(weights), np.cumsum(units)

    @property
    def n_records(self) -> int | float:
        total = int(self.ends[-1])
        return total if self.bits == 0 else total / 2.0**self.bits

    def blocks(self, n_features: int | None = None) -> Iterator[Block]:
        for block in self.rows.blocks(n_features):
            kept = np.flatnonzero(self.weights[block.which])
            self.dropped, self.bytes_read = self.rows.dropped, self.rows.bytes_read
            if len(kept):
                yield block if len(kept) == len(block.rows) else block.picked(kept)

    def around(self, rows: Source) -> Source:
        return Weighted(rows, self.weights)

    def some(self, n_rows: int, rng: np.random.Generator) -> Floats:
        total = int(self.ends[-1])
        if self.bits:
            return self._spread(n_rows, rng.random)
        return self._at(np.sort(rng.choice(total, min(n_rows, total), replace=False)))

    def first(self, n_rows: int) -> Floats:
        """The first rows of a table that repeats each row as often as its weight says, at most so many.

        If any weight is a fraction, rows from all over, each about as often as its weight says.
        """
        if self.bits:
            return self._spread(n_rows, lambda n: np.full(n, 0.5))
        return self._at(np.arange(min(n_rows, int(self.ends[-1]))))

    def _spread(self, n_rows: int, offsets: Callable[[int], NDArray[Any]]) -> Floats:
        """Rows at steps of equal weight, each at an offset into its step."""
        n = min(n_rows, int(np.count_nonzero(self.weights)))
        return self._at((np.arange(n) + offsets(n)) * (int(self.ends[-1]) / n))

    def _at(self, places: NDArray[Any]) -> Floats:
        """The rows at which the cumulative weight reaches these places, in order."""
        which = np.minimum(np.searchsorted(self.ends, places, side="right"), self.n_rows - 1)
        times = np.bincount(which, minlength=self.n_rows)
        return np.concatenate([np.repeat(b.rows, times[b.which], axis=0) for b in self.rows.blocks()])
