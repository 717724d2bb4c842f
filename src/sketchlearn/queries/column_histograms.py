"""One column by itself: from the exact counts of `Histograms`, or from the frequencies along its axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders.problems.decoding_target import fourier_part
from sketchlearn.models import Double
from sketchlearn.operators import FourierFeatures, Histograms
from sketchlearn.private_sums import require_enough_shares
from sketchlearn.queries.feature_regression import Regression
from sketchlearn.queries.sampling_noise import noise_in, real_parts
from sketchlearn.queries.value_shares import Share
from sketchlearn.sketch import Sketch

MOST_BEYOND = 0.01  # of the records, above or below all bins: with more, bins do not tell a mean
LEFT_OUT_SHARE = 5e-4  # of the records beyond either end of the default bins
CLEAR_DEVIATIONS = 2.0  # of noise: a count or share above them is taken for more than noise
LEAST_FREQUENCIES = 16  # With fewer along an axis, a fitted density draws a better histogram.
POINTS_PER_BIN = 16  # With 6, one-bit waves were seen too coarsely (total variation 0.05 instead of 0.016).
ROUNDS = 2  # of weighting points by the density found so far
LEAST_DENSITY = 0.02  # of the mean one, so that no point counts for nothing


@dataclass(frozen=True)
class Counted:
    """A column of a sketch of histograms."""

    edges: Double  # of the sketch's bins
    counts: Double  # of the records below the bins, in each of them, and above them, in steps of weights
    values: Double | None  # of the records in each bin, where the column takes few values
    total: float  # number of records, in the same steps
    records: float  # number of records
    variance: float  # of the private noise in each count; 0 if counts are exact

    @classmethod
    def of(cls, sketch: Sketch, column: int) -> Counted:
        operator = sketch.operator
        assert isinstance(operator, Histograms)
        require_enough_shares(sketch.ledger)
        values = None if operator.values is None else operator.values[column]
        return cls(
            edges=np.array(operator.edges[column]),
            counts=operator.split_columns(sketch.sums)[column].astype(np.float64),
            values=None if values is None else np.array(values),
            total=float(sketch.units),
            records=float(sketch.count),
            variance=0.0 if sketch.ledger is None else sketch.ledger.sum_variance,
        )

    def histogram(self, edges: Double) -> tuple[Double, Double, NDArray[np.bool_]]:
        """Shares of the records between edges, their errors, and which of them are exact.

        A share is exact if no bin with records is cut by one of its edges. Records of a bin that is cut count at their
        value, if the sketch has it, and as spread evenly over the bin if not; those below or above all bins count next
        to them, if the edges reach there.
        """
        parts = np.stack([self._part_below(edge, last=edge == edges[-1]) for edge in edges])
        within = np.diff(parts, axis=0)
        inside = (edges[:, None] > self.edges[:-1]) & (edges[:, None] < self.edges[1:])
        cut = np.column_stack([edges < self.edges[0], inside, edges > self.edges[-1]]) & (self.counts != 0)
        exact = ~np.any(cut[1:] | cut[:-1], axis=1) & (self.variance == 0)
        # a part f of a bin, if nothing is known: as uncertain as a beta number of that mean with two records before
        spread = (within * (1 - within) / 3) @ self.counts**2 + within**2 @ np.full(len(self.counts), self.variance)
        shares = within @ self.counts / self.total
        sampling = np.clip(shares * (1 - shares), 0, None) / self.records
        return shares, np.sqrt(sampling + spread / self.total**2), exact

    def mean_and_variance(self) -> tuple[float, float] | None:
        """Of the column; None where counts are noisy, or many records lie beyond the bins."""
        shares = self.counts / self.total
        if self.variance or shares[0] + shares[-1] > MOST_BEYOND:
            return None
        low, high = (self.edges[:-1], self.edges[1:]) if self.values is None else (self.values, self.values)
        at = np.concatenate([self.edges[:1], low / 2 + high / 2, self.edges[-1:]])
        within = np.concatenate([[0.0], (high - low) ** 2 / 12, [0.0]])  # of records spread evenly over a bin
        mean = float(shares @ at)
        return mean, float(shares @ ((at - mean) ** 2 + within))

    def share_of(self, value: float, others: tuple[float, ...]) -> Share | None:
        """The share of the records that have a value, if all have it or one of the others; None if bins mix them."""
        place, *elsewhere = (self._place(one) for one in (value, *others))
        if place in elsewhere:
            return None
        share = float(np.clip(self.counts[place] / self.total, 0, 1))
        error = np.sqrt(share * (1 - share) / self.records + self.variance / self.total**2)
        return Share(share, float(error), self.variance == 0)

    def _place(self, value: float) -> int:
        """Which of the counts a value is in."""
        return int(np.searchsorted(self.edges, value, side="right")) - int(value == self.edges[-1])

    def in_words(self, exact: NDArray[np.bool_]) -> str:
        """Which shares are exact."""
        if self.variance:
            return "counts with private noise"
        if np.all(exact):
            return "exact counts"
        cut = int(np.sum(~exact))
        which = "all" if cut == len(exact) else f"{cut:,} of {len(exact):,}"
        return f"exact counts, but {which} are estimated: an edge lies within one of the sketch's bins, or beyond them"

    def default_edges(self, n: int) -> Double:
        """At most n + 1 of the sketch's own edges, about equally far apart, that leave out few records."""
        if self.values is not None and len(self.values) <= n:
            return self.edges
        clear = np.where(self.counts > CLEAR_DEVIATIONS * np.sqrt(self.variance), self.counts, 0)
        total = max(float(clear.sum()), 1e-300)
        below = np.cumsum(clear)[:-1] / total  # of each edge
        first = max(int(np.searchsorted(below, LEFT_OUT_SHARE, side="right")) - 1, 0)
        last = max(min(int(np.searchsorted(below, 1 - LEFT_OUT_SHARE)), len(below) - 1), first + 1)
        own = self.edges[first : last + 1] if last < len(self.edges) else self.edges[-2:]
        wanted = np.linspace(own[0], own[-1], n + 1)
        nearest = np.abs(own[:, None] - wanted).argmin(axis=0)
        return own[np.unique(nearest)]

    def _part_below(self, edge: float, *, last: bool) -> Double:
        """Which part of each bin lies below an edge, those below and above all bins included."""
        low, high = self.edges[:-1], self.edges[1:]
        with np.errstate(over="ignore", invalid="ignore"):
            part = np.clip((edge - low) / (high - low), 0, 1)
        if self.values is not None:
            part = np.where((edge > low) & (edge < high), self.values <= edge if last else self.values < edge, part)
        return np.concatenate([[float(edge >= low[0])], part, [float(edge > high[-1])]])


@dataclass(frozen=True)
class Axis:
    """A column of a sketch whose operator has many frequencies along the column's axis.

    Its values repeat after `period`: records further than half of that from the operator's center are seen elsewhere.
    """

    sketch: Sketch
    operator: FourierFeatures
    column: int
    own: NDArray[np.int64]  # the frequencies along the axis

    @classmethod
    def of(cls, sketch: Sketch, column: int) -> Axis | None:
        """None where there are too few frequencies along the axis, or records contribute to some of them only."""
        operator = fourier_part(sketch)[1]
        others = np.delete(operator.frequencies, column, axis=0)
        own = np.flatnonzero(~np.any(others != 0, axis=0) & (operator.frequencies[column] != 0))
        if operator.n_features == 1:
            own = np.arange(operator.n_frequencies)
        return cls(sketch, operator, column, own) if len(own) >= LEAST_FREQUENCIES and operator.n_groups == 1 else None

    @property
    def period(self) -> float:
        return float(2 * np.pi / np.min(np.abs(self.operator.frequencies[self.column, self.own])))

    def histogram(self, edges: Double) -> tuple[Double, Double]:
        """Shares of the records between edges, and their errors."""
        middle = self.operator.middle[self.column]
        low, high = min(middle - self.period / 2, edges[0]), max(middle + self.period / 2, edges[-1])
        # the bins, and others of about their width to both sides
        width = float(np.median(np.diff(edges)))
        left = np.linspace(low, edges[0], 1 + int(np.ceil((edges[0] - low) / width)))[:-1]
        right = np.linspace(edges[-1], high, 1 + int(np.ceil((high - edges[-1]) / width)))[1:]
        cells = np.concatenate([left, edges, right])
        steps = (np.arange(POINTS_PER_BIN) + 0.5) / POINTS_PER_BIN
        rows = np.tile(self.operator.middle, (POINTS_PER_BIN * (len(cells) - 1), 1))
        rows[:, self.column] = (cells[:-1, None] + np.diff(cells)[:, None] * steps).ravel()
        features = real_parts(self.operator.features(rows)[:, self.own])
        z = real_parts(self.sketch.mean[self.own]).astype(np.float64)
        bins = np.repeat(np.eye(len(cells) - 1), POINTS_PER_BIN, axis=0)
        noise = noise_in(self.sketch, features)
        shares = np.repeat(np.diff(cells), POINTS_PER_BIN)
        for _ in range(ROUNDS + 1):
            shares = shares / shares.sum()
            regression = Regression(features, shares, noise)
            told, errors, _ = regression.change(bins, z - regression.mean)
            found = shares @ bins + told
            # the density found so far, smoothed over neighbours
            smooth = np.convolve(np.maximum(found, 0), [0.25, 0.5, 0.25], mode="same")
            shares = np.repeat(np.maximum(smooth, LEAST_DENSITY / len(found)), POINTS_PER_BIN)
        inside = slice(len(left), len(left) + len(edges) - 1)
        return found[inside], errors[inside]

    def edges(self, n: int) -> Double:
        """n + 1 edges, equally far apart, that leave out few records."""
        middle, cells = self.operator.middle[self.column], max(2 * len(self.own), 2 * n)
        edges = np.linspace(middle - self.period / 2, middle + self.period / 2, cells + 1)
        found, errors = self.histogram(edges)
        shares = np.cumsum(np.where(found > CLEAR_DEVIATIONS * errors, found, 0))
        inside = np.flatnonzero((shares > LEFT_OUT_SHARE * shares[-1]) & (shares < (1 - LEFT_OUT_SHARE) * shares[-1]))
        first, last = (inside[0], inside[-1] + 1) if len(inside) else (0, cells - 1)
        return np.linspace(edges[first], edges[last + 1], n + 1)
