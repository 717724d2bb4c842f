"""Marginal distributions of columns, from the exact counts of `Histograms` or the frequencies along an axis."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import cho_factor, cho_solve

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.messages import in_certain_digits, in_date, in_digits, printable, ungrouped
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.decoders.target import fourier_part
from sketchlearn.inference.sampling_noise import noise_in, real_parts
from sketchlearn.sketch.sums import Sketch, require_enough_shares

ROUNDING = 1e-9  # Shares whose sum is nearer to what it should be are exact.


class Share(NamedTuple):
    """A proportion of the records, its standard error, and whether it is exact; None if the sketch has no counts."""

    value: float
    error: float
    exact: bool | None = None


def shares_of_levels(values: Double, room: float = 1.0) -> tuple[Double, float]:
    """Proportions of exclusive categories, none negative, and how far their sum was from `room`: the error of each.

    If their sum exceeds the room, all are scaled to it. If it is smaller, they stay: any of them may be too small.

    >>> shares_of_levels(np.array([0.99, 0.04, -0.01]))[0].round(3).tolist(), shares_of_levels(np.array([0.5, 0.2]))[0]
    ([0.961, 0.039, 0.0], array([0.5, 0.2]))
    >>> [round(shares_of_levels(np.array(values))[1], 2) for values in ([0.99, 0.04], [0.5, 0.2], [0.25, 0.75])]
    [0.03, 0.3, 0.0]
    """
    shares = np.maximum(values, 0.0)
    total = float(shares.sum())
    off = abs(total - room)
    if off < ROUNDING:
        return shares, 0.0
    return (shares * (room / total) if total > room else shares), min(off, 1.0)


def frequencies_along(operator: FourierFeatures, position: int) -> NDArray[np.int64]:
    """The numbers of the frequencies along an axis."""
    others = np.delete(operator.frequencies, position, axis=0)
    return np.flatnonzero(~np.any(others != 0, axis=0) & (operator.frequencies[position] != 0))


def share_by_features(
    sketch: Sketch, operator: FourierFeatures, position: int, size: float, missing: float = 0.0
) -> float | None:
    """The proportion p of records whose number at a position is `size`; others are 0, or half of it if missing.

    The mean of each feature along the axis is p f(size) + missing f(size / 2) + (1 - p - missing) f(0), for any
    periodic nonlinearity. None where no frequency is along the axis.

    >>> import sketchlearn as skl
    >>> rows = np.repeat([[0.0, 1.0], [2.0, 5.0]], [70, 30], axis=0)
    >>> operator = skl.design(rows, n_components=1).part(skl.features.FourierFeatures)
    >>> round(share_by_features(operator.sketch(rows), operator, 0, 2.0), 4)
    0.3
    """
    along = frequencies_along(operator, position)
    if not len(along) or operator.n_groups > 1:  # records contribute to some of the frequencies only
        return None
    rows = np.tile(operator.middle, (3, 1))
    rows[:, position] = 0.0, size / 2, size
    none, half, full = operator.features(rows)[:, along]
    left, step = sketch.mean[along] - missing * half - (1 - missing) * none, full - none
    square = float(np.real(np.vdot(step, step)))
    return float(np.clip(np.real(np.vdot(step, left)) / square, 0.0, 1.0)) if square > 0 else None


LEAST_RIDGE = 1e-12  # in the features' mean square


@dataclass(frozen=True)
class Regression:
    """Ridge regression of functions on features, at points whose weights are those of records up to an error.

    Weights p_i (1 + e_i), e_i independent with variance `doubt` / p_i, change the mean features by z, known with noise:
    the most likely change of a function's mean is a . z, a the ridge regression with ridge noise / doubt.

    >>> x = np.linspace(-3, 3, 100)[:, None]
    >>> features = np.concatenate([np.cos(x), np.sin(x)], axis=1).astype(np.float32)
    >>> regression = Regression(features, np.full(100, 0.01), noise=1e-6)
    >>> change, noise, _ = regression.change(np.sin(x), np.array([0.5, 0.25]) - regression.mean)
    >>> change.round(3), noise.round(3)
    (array([0.25]), array([0.001]))
    """

    features: Single  # of the points, real: (points, numbers)
    shares: Double  # of the points, with sum one
    noise: float  # mean square error of each number of z
    doubt: float = 1.0  # about the shares; 1 if they are a guess

    @cached_property
    def mean(self) -> Double:
        """Mean features of the points."""
        return np.asarray(self.shares @ self.features)

    def change(self, values: Double, z: Double) -> tuple[Double, Double, Double]:
        """The changes of functions' means for a change z of mean features, their errors by noise, and in all.

        The latter include what is no function of the features. Values have the shape (points, functions).
        """
        if self.doubt == 0:
            none = np.zeros(values.shape[1])
            return none, none, none
        rest = np.sqrt(self.shares)[:, None] * (values - self.shares @ values)
        scaled, dual, factor = self._factor
        a = scaled.T @ cho_solve(factor, rest) if dual else cho_solve(factor, scaled.T @ rest)
        left = np.sum(rest * (rest - scaled @ a), axis=0)
        return z @ a, np.sqrt(self.noise * np.sum(a * a, axis=0)), np.sqrt(self.doubt * np.maximum(left, 0))

    def reweighted(self, z: Double) -> Double:
        """The most likely weights of the points, for a change z of mean features; some may be negative."""
        scaled, dual, factor = self._factor
        moved = cho_solve(factor, scaled @ z) if dual else scaled @ cho_solve(factor, z)
        return np.asarray(self.shares + np.sqrt(self.shares) * moved)

    def doubted(self, z: Double) -> Regression:
        """The same, with the doubt about the weights that a change z of mean features implies."""
        spread = float(np.sum((self.features - self.mean) ** 2 * self.shares[:, None]))
        excess = float(z @ z) - self.noise * len(z)
        return replace(self, doubt=max(excess, 0.0) / max(spread, 1e-300))

    @cached_property
    def _factor(self) -> tuple[Double, bool, Any]:
        """Features about their mean, weighted; whether products of points are fewer; the factor of the products."""
        scaled = (self.features - self.mean) * np.sqrt(self.shares)[:, None]
        dual = scaled.shape[0] <= scaled.shape[1]
        product = scaled @ scaled.T if dual else scaled.T @ scaled
        ridge = self.noise / self.doubt + LEAST_RIDGE * np.trace(product) / len(product)
        product[np.diag_indices_from(product)] += ridge
        return scaled, dual, cho_factor(product, overwrite_a=True)


MOST_BEYOND = 0.01  # of the records, above or below all bins: with more, no mean is computed from bins
LEFT_OUT_SHARE = 5e-4  # of the records beyond either end of the default bins
CLEAR_DEVIATIONS = 2.0  # standard errors: a larger count or proportion is significant
LEAST_FREQUENCIES = 16  # With fewer along an axis, a fitted density draws a better histogram.
POINTS_PER_BIN = 16  # With 6, one-bit waves were seen too coarsely (total variation 0.05 instead of 0.016).
ROUNDS = 2  # of weighting points by the density found so far
LEAST_DENSITY = 0.02  # of the mean one, so that no point counts for nothing


def bin_of(edges: Double, value: float) -> int:
    """The bin of a value, the last of which holds its upper edge: 0 is below all edges, len(edges) above.

    >>> [bin_of(np.array([0.0, 1.0, 2.0]), value) for value in (-1.0, 0.0, 1.0, 2.0, 3.0)]
    [0, 1, 2, 2, 3]
    """
    return int(np.searchsorted(edges, value, side="right")) - int(value == edges[-1])


@dataclass(frozen=True)
class ColumnCounts:
    """A column of a sketch of histograms."""

    edges: Double  # of the sketch's bins
    counts: Double  # of the records below the bins, in each of them, and above them, in steps of weights
    values: Double | None  # of the records in each bin, where the column takes few values
    total: float  # number of records, in the same steps
    records: float  # number of records
    variance: float  # of the private noise in each count; 0 if counts are exact

    @classmethod
    def of(cls, sketch: Sketch, column: int) -> ColumnCounts:
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

        A share is exact if its edges cut no bin with records. Records of a bin that is cut count at their value, if the
        sketch has it, and as uniform over the bin if not; those beyond all bins count next to them.
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

    def without(self, value: float, share: float) -> ColumnCounts:
        """The column without this share of the records, which have this value."""
        counts, place = self.counts.copy(), bin_of(self.edges, value)
        counts[place] = max(counts[place] - share * self.total, 0.0)
        left = 1 - share
        return replace(self, counts=counts, total=self.total * left, records=self.records * left)

    def quantiles(self, at: Double) -> Double:
        """Values below which such proportions of the records lie, linear within bins."""
        cumulative = np.maximum.accumulate(np.cumsum(np.maximum(self.counts, 0))[:-1])
        steps = np.arange(len(cumulative)) * 1e-12  # ascending, where bins are empty
        return np.interp(at, cumulative / max(float(np.maximum(self.counts, 0).sum()), 1e-300) + steps, self.edges)

    def share_of(self, value: float, others: tuple[float, ...]) -> Share | None:
        """The share of the records that have a value, if all have it or one of the others; None if bins mix them."""
        place, *elsewhere = (bin_of(self.edges, one) for one in (value, *others))
        if place in elsewhere:
            return None
        share = float(np.clip(self.counts[place] / self.total, 0, 1))
        error = np.sqrt(share * (1 - share) / self.records + self.variance / self.total**2)
        return Share(share, float(error), self.variance == 0)

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
        one_column = operator.n_features == 1
        own = np.arange(operator.n_frequencies) if one_column else frequencies_along(operator, column)
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
            change, errors, _ = regression.change(bins, z - regression.mean)
            found = shares @ bins + change
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


UNEVEN = 20.0  # Edges whose distances differ by more than this are rounded each to its own ones.
BAR = 20  # characters of the longest bar


@dataclass(frozen=True)
class Histogram:
    """Proportions of the records between edges, with the standard error of each by sampling and private noise.

    Attributes
    ----------
    column : its name.
    edges : in the table's own unit; of dates, days since 1970.
    shares, errors : of all records, those without a value included.
    exact : which shares are counts of the records; None if the sketch has no counts.
    note : the same in words.
    missing : proportion of missing values, where a schema indicates them.
    dates : whether the edges are days.

    >>> print(Histogram("age", np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.75]), np.array([0.01, 0.01])))
    age
      0 to 1  0.25     ######
      1 to 2  0.75     ####################
    """

    column: str
    edges: Double
    shares: Double
    errors: Double
    exact: NDArray[np.bool_] | None = None
    note: str = ""
    missing: float | None = None
    dates: bool = False

    @property
    def outside(self) -> float:
        """Proportion of the records whose values lie below or above all edges; 0 where it may be an error."""
        left = 1 - float(self.shares.sum()) - (self.missing or 0.0)
        exact = self.exact is not None and bool(np.all(self.exact))
        least = ROUNDING if exact else CLEAR_DEVIATIONS * float(np.linalg.norm(self.errors))
        return left if left > least else 0.0

    def __str__(self) -> str:
        names, shares = [f"{a} to {b}" for a, b in pairwise(self._edges_in_words())], self.shares
        if self.outside:
            names, shares = [*names, "outside"], np.append(shares, self.outside)
        return _text_histogram(self.column, names, shares, self.missing, self.note)

    def _edges_in_words(self) -> list[str]:
        if self.dates:
            return list(map(in_date, self.edges))
        widths = np.diff(self.edges)
        if widths.max() > UNEVEN * widths.min() > 0:
            near = np.minimum(np.append(widths, np.inf), np.append(np.inf, widths))
            return [in_certain_digits(edge, width / 10) for edge, width in zip(self.edges, near, strict=True)]
        digits = _digits_apart(self.edges)
        return [ungrouped(in_digits(edge, digits), self.column) for edge in self.edges]


@dataclass(frozen=True)
class LevelShares:
    """Proportions of the categories of a column, with their standard errors.

    Attributes
    ----------
    column : its name.
    levels : the categories, the largest first, unless they have an order; of booleans, yes and no.
    shares, errors, exact, note, missing : as in `Histogram`.

    Examples
    --------
    >>> print(LevelShares("country", ("FR", "DE"), np.array([0.6, 0.37]), np.zeros(2), missing=0.03))
    country
           FR  0.6      ####################
           DE  0.37     ############
      missing  0.03     #
    """

    column: str
    levels: tuple[str, ...]
    shares: Double
    errors: Double
    exact: NDArray[np.bool_] | None = None
    note: str = ""
    missing: float | None = None

    def __str__(self) -> str:
        return _text_histogram(self.column, list(self.levels), self.shares, self.missing, self.note)


def _text_histogram(column: str, names: list[str], shares: Double, missing: float | None, note: str) -> str:
    """Lines of names, shares and bars."""
    names = list(map(printable, names))
    if missing is not None:
        names, shares = [*names, "missing"], np.append(shares, missing)
    width, most = max(map(len, names)), max(float(shares.max()), 1e-300)
    bars = ["#" * int(BAR * share / most) for share in shares]
    rows = zip(names, shares, bars, strict=True)
    lines = [f"  {name:>{width}}  {in_digits(round(share, 6), 3):<8} {bar}".rstrip() for name, share, bar in rows]
    return "\n".join([printable(column), *lines, *([f"  ({note})"] if note else [])])


def _digits_apart(edges: Double) -> int:
    """How many digits tell neighbouring edges apart."""
    widths, largest = np.diff(edges), float(np.max(np.abs(edges)))
    narrowest = float(np.min(widths[widths > 0], initial=largest))
    return 3 if narrowest <= 0 else min(15, max(3, math.ceil(math.log10(largest / narrowest)) + 1))
