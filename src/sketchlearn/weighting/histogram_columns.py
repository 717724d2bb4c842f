"""What a histogram says of a column by itself: values drawn from it, their mean and spread."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.weighting.weighted_rows import WeightedRows

EMPTY = 1e-300  # a share or variance that stands for none
#: Bins with less beyond, and that many times farther at one end than at the other, are wide ones of the tails.
TAIL_SHARE, WIDE_RATIO = 0.05, 1.5
VALUES_PER_BIN = 8  # A bin's mean is taken of so many values inside it.


@dataclass(frozen=True)
class Column:
    """A column's histogram: shares of the records below the edges, in each bin, and above, with noise or without."""

    edges: Double
    shares: Double  # one more than edges
    values: Double | None = None  # those that records have in each bin, if known
    noise: float = 0.0  # variance of a private release's noise in each share

    @cached_property
    def limits(self) -> tuple[Double, Double]:
        """Lowest and highest value of each bin; values beyond the edges count as if they were at the edges."""
        first, last = self.edges[:1], self.edges[-1:]
        inner = (self.edges[:-1], self.edges[1:]) if self.values is None else (self.values, self.values)
        return np.concatenate([first, inner[0], last]), np.concatenate([first, inner[1], last])

    @cached_property
    def chances(self) -> Double:
        """The shares, or the nearest to noisy ones that are at least 0 and have the sum 1."""
        descending = np.sort(self.shares)[::-1]
        surplus = (np.cumsum(descending) - 1) / np.arange(1, len(descending) + 1)
        last = np.flatnonzero(descending > surplus)[-1]
        return np.asarray(np.maximum(self.shares - surplus[last], 0))

    @cached_property
    def _inside(self) -> Double:
        """Some values inside each bin, at even steps of chance: shape (steps, bins)."""
        steps = (np.arange(VALUES_PER_BIN) + 0.5) / VALUES_PER_BIN
        return np.stack([self._at(np.arange(len(self.chances)), step) for step in steps])

    @cached_property
    def mean(self) -> float:
        return float(self.chances @ self._inside.mean(axis=0))

    @cached_property
    def squares(self) -> Double:
        """Each bin's mean squared distance from the column's mean."""
        return np.asarray(np.mean((self._inside - self.mean) ** 2, axis=0))

    @property
    def spread(self) -> float:
        """The variance of the column."""
        return float(self.chances @ self.squares)

    def quantiles(self, levels: Double) -> Double:
        """The values below which these shares of the records lie."""
        cumulated = np.cumsum(self.chances)
        last = np.flatnonzero(self.chances)[-1]
        bins = np.minimum(np.searchsorted(cumulated, levels, side="right"), last)
        inside = (levels - cumulated[bins]) / np.maximum(self.chances[bins], EMPTY) + 1
        return self._at(bins, np.clip(inside, 0, 1))

    def far(self, n: int, rng: np.random.Generator) -> Double:
        """Values drawn with chances in proportion to their squared distance from the mean, bin by bin."""
        chances = self.chances * self.squares
        if not chances.sum() > 0:  # all records have one value
            return self.quantiles(rng.random(n))
        bins = rng.choice(len(chances), n, p=chances / chances.sum())
        return self._at(bins, rng.random(n))

    def _at(self, bins: NDArray[np.int64], inside: Double | float) -> Double:
        """Values at these parts of the way through bins: evenly, but in wide bins of the tails as under t^-3.

        Evenly filled, those would make the variance of a column up to four times as large as it is.
        """
        low, high = (limit[bins] for limit in self.limits)
        middle, *tails = self._tails
        side, near, far = (part[bins] for part in tails)
        on = np.where(side > 0, inside, 1 - inside)
        distance = near / np.sqrt(1 - on * (1 - (near / far) ** 2))
        return np.where(side == 0, low + (high - low) * inside, middle + side * distance)

    @cached_property
    def _tails(self) -> tuple[Double, Double, Double, Double]:
        """Middle of the median's bin; per bin, the tail of which it is a wide one (-1, 1, or 0), and its distances."""
        half = int(np.searchsorted(np.cumsum(self.chances), 0.5))
        middle = self.limits[0][half] / 2 + self.limits[1][half] / 2
        low, high = (limit - middle for limit in self.limits)
        above, below = np.cumsum(self.chances[::-1])[::-1], np.cumsum(self.chances)
        upper = (above < TAIL_SHARE) & (low > 0) & (high > WIDE_RATIO * low)
        lower = (below < TAIL_SHARE) & (high < 0) & (low < WIDE_RATIO * high)
        side = upper.astype(np.float64) - lower
        near, far = np.where(upper, low, -high), np.where(upper, high, -low)
        return middle, side, np.where(side == 0, 1.0, near), np.where(side == 0, 1.0, far)


def histogram_misfit(columns: Sequence[Column], drawn: WeightedRows, count: float) -> float:
    """Mean square of what drawn rows leave of the shares of so many records, in units of its variance.

    It is about 1 where the rows have the records' law.
    """
    chance, squares = 1 / max(count, 1) + 1 / drawn.effective_size, []
    for column, values in zip(columns, drawn.rows.T, strict=True):
        last = len(column.edges) - 2  # Values beyond the edges count as if they were in the bins there.
        bins = np.clip(np.searchsorted(column.edges, values, side="right") - 1, 0, last)
        own = np.bincount(bins, drawn.weights, minlength=last + 1)
        shares = column.shares[1:-1].copy()
        shares[0] += column.shares[0]
        shares[-1] += column.shares[-1]
        squares.append((shares - own) ** 2 / (column.noise + np.maximum(own * (1 - own), 0) * chance))
    return float(np.mean(np.concatenate(squares)))
