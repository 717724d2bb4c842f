"""Summary statistics of the columns of a table, in its own units, each with an interval."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from dataclasses import asdict, dataclass, field, replace
from datetime import datetime, timedelta
from statistics import NormalDist
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import in_certain_digits, in_date, in_digits, printable
from sketchlearn.core.packages import required
from sketchlearn.features.bounded import FIXED_POINT, VALUE_BITS
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.moments import ColumnMoments, SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.inference.moments import part_of
from sketchlearn.questions.marginals import LevelShares, Share, bin_of
from sketchlearn.rows.schemas.columns import Category, Column, Date, Flag, Number, Ordinal, Text
from sketchlearn.sketch.sums import Sketch

QUANTILES = (0.01, 0.25, 0.5, 0.75, 0.99)  # of a description
SHOWN_LEVELS = 3  # most frequent categories that a table of all columns names
NEGLIGIBLE = 1e-3  # An interval that is narrower than this part of its value is not printed.
NEAR_WHOLE = 1e-9  # relative to a value: how far from a whole number decoding may move it
LEAST_DAYS, MOST_DAYS = -719_162, 2_932_896  # days since 1970 of the years 1 and 9999


def deviations_at(confidence: float) -> float:
    """Half the width, in standard errors, of a confidence interval.

    >>> round(deviations_at(0.95), 2)
    1.96
    """
    if not 0 < confidence < 1:
        raise ValueError(f"confidence must be between 0 and 1, not {confidence!r}")
    return NormalDist().inv_cdf((1 + confidence) / 2)


@dataclass(frozen=True)
class Statistic:
    """A statistic of the records in a sketch, and an interval that contains it.

    Attributes
    ----------
    value : in the column's unit; of dates, days since 1970.
    low, high : ends of the interval; infinite where the sketch does not bound the values of the column.
    confidence : 1.0 if the interval certainly contains the statistic; less with private noise, or from a sample.
    dates : whether the numbers are days since 1970.

    Examples
    --------
    >>> print(Statistic(41.66, 41.2, 42.1))
    41.7 (41.20 to 42.10)
    >>> print(Statistic(17000.0, 16900.0, np.inf, dates=True))
    2016-07-18 (2016-04-09 or later)
    """

    value: float
    low: float
    high: float
    confidence: float = 1.0
    dates: bool = False

    def __str__(self) -> str:
        if self.is_sharp:
            return self.short
        ends = (math.floor(self.low), math.ceil(self.high)) if self.dates and self.is_closed else (self.low, self.high)
        low, high = (self._written(end, (self.high - self.low) / 10) for end in ends)
        least, most = ("or earlier", "or later") if self.dates else ("or less", "or more")
        if self.is_closed:
            return f"{self.short} ({low} to {high})"
        if math.isfinite(self.low):
            return f"{self.short} ({low} {most})"
        return f"{self.short} ({high} {least})" if math.isfinite(self.high) else f"{self.short} (no bounds)"

    @property
    def is_closed(self) -> bool:
        """Whether both ends are finite."""
        return math.isfinite(self.high - self.low)

    @property
    def is_sharp(self) -> bool:
        """Whether the interval is narrow beside the value."""
        return self.high - self.low <= (1.0 if self.dates else NEGLIGIBLE * abs(self.value))

    @property
    def short(self) -> str:
        """The value alone, in the digits that the interval leaves."""
        return self._written(self.value, (self.high - self.low) / 4)

    def as_bound(self, *, lower: bool) -> str:
        """The end of the interval that bounds all values, where it is not sharp.

        >>> Statistic(4.2, 3.0, 5.0).as_bound(lower=True), Statistic(9.0, 8.0, np.inf).as_bound(lower=False)
        ('>= 3', 'unknown')
        """
        end = self.low if lower else self.high
        if self.is_sharp:
            return self.short
        if not math.isfinite(end):
            return "unknown"
        return f"{'>=' if lower else '<='} {self._written(end, (self.high - self.low) / 10)}"

    @property
    def percent(self) -> str:
        """A proportion, in per cent."""
        return f"{100 * self.value:.3g} %"

    @classmethod
    def around(
        cls, value: float, error: float, confidence: float = 1.0, *, least: float = -np.inf, most: float = np.inf
    ) -> Statistic:
        """A value and its largest error, within the range of the statistic."""
        low, high = (float(np.clip(end, least, most)) for end in (value - error, value + error))
        return cls(float(np.clip(value, least, most)), low, high, confidence)

    def mapped(self, function: Callable[[float], float]) -> Statistic:
        """An increasing function of the statistic."""
        return replace(self, value=function(self.value), low=function(self.low), high=function(self.high))

    def plain(self) -> Any:
        """The value as Python has it: a date, an integer where it is one for certain, or a float."""
        return self._plain(self.value)

    def ends(self) -> tuple[Any, Any]:
        """The ends of the interval likewise; None where it is open."""
        low, high = (self._plain(end) if math.isfinite(end) else None for end in (self.low, self.high))
        return low, high

    def _plain(self, value: float) -> Any:
        if self.dates:
            return datetime(1970, 1, 1) + timedelta(days=min(max(value, LEAST_DAYS), MOST_DAYS))
        return int(value) if self.low == self.high == round(value) else value

    def _written(self, value: float, error: float) -> str:
        if self.dates and math.isfinite(value):
            return in_date(value)
        if abs(value) < FIXED_POINT and value == round(value):
            return f"{value:,.0f}"
        return in_digits(value) if self.is_sharp or math.isinf(error) else in_certain_digits(value, error)


def sample_factor(count: float) -> float:
    """What a standard deviation of so many values is multiplied by, for n - 1 degrees of freedom."""
    return math.sqrt(count / max(count - 1, 1.0))


@dataclass(frozen=True)
class Bins:
    """The records of a column with a known value, by bins in the column's unit, in ascending order."""

    low: Double  # (bins,): values in a bin are at least this; -inf below all edges
    high: Double  # at most this
    at: Double  # the value that stands for those of a bin
    counts: Double  # numbers of records
    variances: Double  # of the counts: private noise, or sampling error
    whole: bool = False  # whether the column seems to have whole numbers only
    points: bool = False  # whether the records of a bin have its value: of a sample, only the other records are between

    @classmethod
    def between(
        cls, column: Column, edges: Double, values: Double | None, counts: Double, variances: Double, missing: Share
    ) -> Bins:
        """Those between encoded edges, below and above which bins are open; missing values are taken out.

        `values` are those of the bins, where the column takes a few only.
        """
        counts, variances = counts.copy(), variances.copy()
        where = bin_of(edges, column.typical_numbers[0])
        counts[where], variances[where] = counts[where] - missing.value, variances[where] + missing.error**2
        ends = in_unit(column, edges)
        middles = in_unit(column, edges[:-1] / 2 + edges[1:] / 2 if values is None else values)
        low, high = np.append(0.0 if is_logarithm(column) else -np.inf, ends), np.append(ends, np.inf)
        whole = _are_whole(ends - 0.5 if values is None else middles)
        if whole:
            low, middles, high = np.ceil(low), np.rint(middles), np.floor(high)
        return cls(low, high, np.concatenate([ends[:1], middles, ends[-1:]]), counts, variances, whole)

    @classmethod
    def of_values(cls, known: Double, weights: Double, chances: Double) -> Bins:
        """Those of a sample with these weights and inclusion probabilities: points, if it has all records."""
        whole = _are_whole(known)
        values, where = np.unique(np.rint(known) if whole else known, return_inverse=True)
        counts = np.bincount(where, weights, len(values)).astype(np.float64)
        counts = np.where(_near_whole(counts), np.rint(counts), counts)
        variances = np.bincount(where, weights**2 * (1 - chances), len(values)).astype(np.float64)
        if np.all(chances == 1):
            return cls(values, values, values, counts, variances, whole)
        low, high, none = np.append(-np.inf, values), np.append(values, np.inf), np.zeros(1)
        at, counts, variances = (np.append(*pair) for pair in ((values[:1], values), (none, counts), (none, variances)))
        return cls(low, high, at, counts, variances, whole, points=True)

    @property
    def ends(self) -> tuple[Double, Double]:
        """The least and the largest values that the counted records of each bin may have."""
        return (self.at, self.at) if self.points else (self.low, self.high)

    @property
    def total(self) -> float:
        """The number of records."""
        return max(float(self.counts.sum()), 0.0)

    def _occupied(self, z: float) -> NDArray[np.bool_]:
        """Bins with records; with noise, all bins within the edges, and others whose count is significant."""
        closed = np.isfinite(self.low) & np.isfinite(self.high) & (self.variances > 0)
        return (self.counts > z * np.sqrt(self.variances)) | closed

    def _is_hidden(self, z: float) -> bool:
        """Whether noise hides that there are records."""
        return self.total <= z * math.sqrt(float(self.variances.sum()))

    def quantile(self, q: float, confidence: float) -> Statistic:
        """The q-quantile as `numpy.quantile` computes it: between the two records nearest to it.

        An edge is at or below it if so many records are below the edge, which is tested at each edge; the interval
        contains all bins between the edges that are not rejected.
        """
        z = deviations_at(confidence)
        below, noise = np.cumsum(self.counts), np.cumsum(self.variances)
        error = z * np.sqrt((1 - q) ** 2 * noise + q**2 * (noise[-1] - noise))
        place = q * max(self.total - 1, 0.0)
        slack = 1e-6  # of a record, for sums of weights
        last = len(below) - 1
        first = int(np.argmax(np.append(below[:-1] + error[:-1] > math.floor(place + slack) + slack, True)))
        rejected = np.flatnonzero(below[:-1] - error[:-1] <= math.ceil(place - slack) + slack)
        final = min(int(rejected[-1]) + 1, last) if len(rejected) else 0
        low, high = float(self.low[first]), float(self.high[max(final, first)])
        inside = int(np.argmax(np.append(np.maximum.accumulate(below)[:-1] > place + slack, True)))
        value = float(np.clip(self._within(inside, place + 0.5 - (below[inside] - self.counts[inside])), low, high))
        certain = not np.any(self.variances)
        return Statistic(value, low, high, 1.0 if certain else confidence)

    def _within(self, k: int, place: float) -> float:
        """The value at this place among the records of a bin, as if they lay evenly in it."""
        low, high = self.low[k], self.high[k]
        if self.points or not (np.isfinite(low) and np.isfinite(high)):
            return float(self.at[k])
        value = low + (high - low) * np.clip(place / max(self.counts[k], 1.0), 0, 1)
        return float(np.rint(value) if self.whole else value)

    def mean(self, confidence: float) -> Statistic:
        """The mean: certain bounds by the ends of bins, widened by the noise of counts."""
        z, total = deviations_at(confidence), self.total
        if self._is_hidden(z):
            return Statistic(math.nan, -np.inf, np.inf, confidence)
        value = float(self.counts @ self.at / total)
        noise = z * math.sqrt(float(self.variances @ (self.at - value) ** 2)) / total
        there = self._occupied(z)
        counts = self.counts[there] / total
        below, above = (float(np.abs(counts @ (ends[there] - self.at[there]))) for ends in self.ends)
        return Statistic(value, value - below - noise, value + above + noise, confidence if noise else 1.0)

    def std(self, confidence: float) -> Statistic:
        """The standard deviation: those of two columns differ by their root mean square difference at most."""
        z = deviations_at(confidence)
        if self._is_hidden(z):
            return Statistic(math.nan, 0.0, np.inf, confidence)
        total, shares = self.total, self.counts / self.total
        mean = float(shares @ self.at)
        variance = float(shares @ (self.at - mean) ** 2)
        noise = z * math.sqrt(float(self.variances @ ((self.at - mean) ** 2 - variance) ** 2)) / total
        there = self._occupied(z)
        lowest, highest = self.ends
        far = np.maximum(self.at - lowest, highest - self.at)[there]
        moved = math.sqrt(max(float(shares[there] @ far**2), 0.0))
        low, value, high = (math.sqrt(max(variance + sign * noise, 0.0)) for sign in (-1, 0, 1))
        found = Statistic(value, max(low - moved, 0.0), high + moved, confidence if noise else 1.0)
        return found.mapped(lambda end: end * sample_factor(total))

    def count_above(self, value: float, confidence: float) -> Statistic:
        """The number of records above a value."""
        value = round(value) if self.whole and abs(value - round(value)) <= NEAR_WHOLE * max(abs(value), 1) else value
        lowest, highest = self.ends
        sure, may = lowest > value, highest > value
        part = np.where(sure, 1.0, 0.0)
        cut = may & ~sure
        with np.errstate(invalid="ignore", divide="ignore"):
            within = (highest[cut] - value) / (highest[cut] - lowest[cut])
        part[cut] = np.where(np.isfinite(within), within, self.at[cut] > value)
        z = deviations_at(confidence)
        least, most = (
            float(self.counts[which].sum()) + sign * z * math.sqrt(float(self.variances[which].sum()))
            for which, sign in ((sure, -1), (may, 1))
        )
        level = confidence if np.any(self.variances) else 1.0
        return Statistic(max(float(self.counts @ part), 0.0), max(least, 0.0), max(most, 0.0), level)


@dataclass(frozen=True)
class ColumnSums:
    """Exact sums of the values and squares of each encoded column: its mean and mean square about a center."""

    center: Double
    bound: Double  # how far from the center values were not clipped
    mean: Double  # less the center
    square: Double  # NaN where it is unknown
    #: mean products of columns; or those of the cells' mean rows, and the roots of the mean squares about them
    products: Double | None
    cells: tuple[Double, Double] | None
    step: float  # of a value over its bound, in fixed-point arithmetic
    sum_noise: float  # standard error of a mean over its bound by private noise
    count_noise: float  # relative one of the number of records

    @classmethod
    def of(cls, sketch: Sketch) -> ColumnSums | None:
        """Those of second moments, of column moments, or of cells; None where a sketch has none of all columns."""
        kinds: tuple[type[Operator], ...] = (SecondMoments, ColumnMoments, CellSums)
        parts = (part_of(sketch, kind) for kind in kinds)
        part = next((one for one in parts if one and one.operator.n_features == sketch.operator.n_features), None)
        if part is None or getattr(part.operator, "normalize", False):
            return None
        operator: Any = part.operator
        values, d, n_cells, step = np.asarray(part.mean, np.float64), operator.n_features, 1, 2.0**-30
        products, cells = None, None
        if isinstance(operator, CellSums):
            n_cells, step, by_column = operator.n_cells, 2.0**-VALUE_BITS, operator.squares == "columns"
            n_squares = d if by_column else 1
            total = values.reshape(n_cells, -1).sum(axis=0)
            mean = total[1 + n_squares : 1 + n_squares + d]
            square = total[1 : 1 + d] if by_column else np.full(d, np.nan)
            if by_column and part.ledger is None:
                shares, means, squares = operator.split(values)
                roots = np.sqrt(shares)[:, None]
                cells = roots * (means - operator.middle), roots * np.sqrt(squares)
        elif isinstance(operator, SecondMoments):
            mean, products = operator.split(values)
            square = np.diag(products)
        else:
            mean, square = np.split(values, 2)
        noise = of_count = 0.0
        if (ledger := part.ledger) is not None:
            noise = math.sqrt(n_cells * ledger.sum_variance) / (FIXED_POINT * part.units)
            of_count = math.sqrt(ledger.count_variance) / part.units
        return cls(operator.middle, np.array(operator.bound), mean, square, products, cells, step, noise, of_count)

    def of_known(self, position: int, missing: Share, typical: float, confidence: float) -> tuple[Statistic, Statistic]:
        """The mean and the variance of a column, whose missing values count as a typical number.

        That leaves the sums of x - typical and of its square as they are without them.
        """
        center, bound = float(self.center[position]), float(self.bound[position])
        typical = typical if missing.value or missing.error else center  # a shift costs precision
        shift = center - typical
        mean, square = float(self.mean[position]), max(float(self.square[position]), 0.0)
        known, z = max(1 - missing.value, 1e-300), deviations_at(confidence)
        first, second = (mean + shift) / known, (square + 2 * shift * mean + shift**2) / known
        of_mean = bound * self.step + z * math.hypot(bound * self.sum_noise, mean * self.count_noise)
        of_square = 2 * math.sqrt(square) * bound * self.step + bound**2 * 2.0**-30
        of_square += z * math.hypot(bound**2 * self.sum_noise, square * self.count_noise) + 2 * abs(shift) * of_mean
        of_mean, of_square = (
            (error + z * missing.error * abs(value)) / known for error, value in ((of_mean, first), (of_square, second))
        )
        level = confidence if self.sum_noise or missing.error else 1.0
        variance, error = second - first**2, of_square + 2 * abs(first) * of_mean
        return (
            Statistic.around(typical + first, of_mean, level),
            Statistic.around(variance, error, level, least=0.0),
        )

    def correlation(self, a: int, b: int, confidence: float) -> Statistic | None:
        """The correlation of two columns; of cells, bounds by the inequality of Cauchy and Schwarz within each."""
        if self.products is None and self.cells is None:
            return None
        spread = np.sqrt(np.maximum(self.square - self.mean**2, 0))
        if not spread[a] > 0 < spread[b]:
            return None
        unknown = 0.0
        if self.products is not None:
            product = float(self.products[a, b])
        else:
            means, within = self.cells  # type: ignore[misc]
            product, unknown = float(means[:, a] @ means[:, b]), float(within[:, a] @ within[:, b])
        value = (product - float(self.mean[a] * self.mean[b])) / float(spread[a] * spread[b])
        unit = self.bound / np.maximum(spread, 1e-300)  # the noise of a product, over the deviations
        error = 4 * self.step + deviations_at(confidence) * self.sum_noise
        error *= float(unit[a] * unit[b] + abs(value) / 2 * (unit[a] ** 2 + unit[b] ** 2))
        error += unknown / float(spread[a] * spread[b])
        return Statistic.around(value, error, confidence if self.sum_noise else 1.0, least=-1.0, most=1.0)

    def holds(self, position: int, value: float) -> bool:
        """Whether this value of a column is not clipped."""
        return bool(abs(value - self.center[position]) <= self.bound[position] * (1 + 1e-9))


def _are_whole(values: Double) -> bool:
    return bool(np.all(_near_whole(values)))


def _near_whole(values: Double) -> NDArray[np.bool_]:
    return np.asarray(np.abs(values - np.rint(values)) <= NEAR_WHOLE * np.maximum(np.abs(values), 1))


@dataclass(frozen=True)
class ColumnSummary:
    """The summary statistics of one column.

    Attributes
    ----------
    name, kind : of the column; the kind is that of its schema.
    count : number of records with a value.
    missing : proportion of those without.
    mean, std : None where the kind of column has none, or the sketch does not determine it.
    quantiles : by their probability, with 0 and 1 for the minimum and the maximum; empty likewise.
    levels : the most frequent values, where the column takes a few only.
    """

    name: str
    kind: str
    count: Statistic
    missing: Statistic
    mean: Statistic | None = None
    std: Statistic | None = None
    quantiles: dict[float, Statistic] = field(default_factory=dict)
    levels: LevelShares | None = None

    @property
    def statistics(self) -> dict[str, Statistic]:
        """Those with values in the column's unit, by the names that pandas has for them."""
        named = {"mean": self.mean, "std": self.std, "min": self.quantiles.get(0.0)}
        named |= {f"{100 * q:g}%": self.quantiles.get(q) for q in QUANTILES}
        named["max"] = self.quantiles.get(1.0)
        return {name: one for name, one in named.items() if one is not None}

    @property
    def common_levels(self) -> str:
        """The most frequent values with their shares, in words."""
        if self.levels is None:
            return ""
        pairs = zip(self.levels.levels, self.levels.shares, strict=True)
        return ", ".join(f"{printable(level)} {100 * share:.3g} %" for level, share in list(pairs)[:SHOWN_LEVELS])

    def to_json(self) -> dict[str, Any]:
        """The statistics with their intervals, whose open ends are None, and the most frequent values."""
        told = {"count": self.count, "missing": self.missing, **self.statistics}
        figures = {name: {**asdict(one), "low": one.ends()[0], "high": one.ends()[1]} for name, one in told.items()}
        levels = None if self.levels is None else dict(zip(self.levels.levels, self.levels.shares, strict=True))
        return {"column": self.name, "kind": self.kind, **figures, "top": levels}

    def __str__(self) -> str:
        lines = [("count", str(self.count))]
        lines += [("missing", self.missing.percent)] if self.missing.high > 0 else []
        lines += [(name, str(one)) for name, one in self.statistics.items()]
        lines += [("most frequent", self.common_levels)] if self.levels is not None else []
        width = max(len(name) for name, _ in lines)
        return "\n".join([f"{printable(self.name)} ({self.kind})", *(f"  {n:{width}}  {text}" for n, text in lines)])


NAMES = ("mean", "std", "min", *(f"{100 * q:g}%" for q in QUANTILES), "max")


@dataclass(frozen=True)
class Description:
    """Summary statistics of all columns of a table.

    Attributes
    ----------
    columns : the summary of each.
    notes : what the sketch does not determine, and the remedy.
    """

    columns: tuple[ColumnSummary, ...]
    notes: tuple[str, ...] = ()

    def __iter__(self) -> Iterator[ColumnSummary]:
        return iter(self.columns)

    def __str__(self) -> str:
        rows = [["", "kind", "count", "missing", *NAMES, "most frequent"]]
        for one in self.columns:
            own = one.statistics
            texts = {name: found.short for name, found in own.items()}
            texts |= {name: own[name].as_bound(lower=name == "min") for name in ("min", "max") if name in own}
            figures = [texts.get(name, "") for name in NAMES]
            rows.append(
                [printable(one.name), one.kind, one.count.short, one.missing.percent, *figures, one.common_levels]
            )
        there = [i for i in range(len(rows[0])) if i < 4 or any(row[i] for row in rows[1:])]
        widths = [max(len(row[i]) for row in rows) for i in there]
        justify = [str.ljust if i < 2 or i == len(rows[0]) - 1 else str.rjust for i in there]
        lines = ["  ".join(f(row[i], w) for i, w, f in zip(there, widths, justify, strict=True)) for row in rows]
        return "\n".join([*(line.rstrip() for line in lines), *self.notes])

    def to_frame(self) -> Any:
        """A pandas data frame with a row for each column of the table.

        The columns are those of `DataFrame.describe`, "top" and "freq" included, and "low" and "high" ends of each
        interval. Dates are `datetime` objects, and open ends are None.
        """
        pd = required("pandas", "pandas")

        rows = []
        for one in self.columns:
            row = {"kind": one.kind, "count": one.count.plain(), "missing": one.missing.value}
            for name, own in one.statistics.items():
                row[name] = own.plain()
                row[f"{name} low"], row[f"{name} high"] = own.ends()
            if one.levels is not None:
                row |= {"top": one.levels.levels[0], "freq": float(one.levels.shares[0])}
            rows.append(row)
        names = [f"{name}{end}" for name in NAMES for end in ("", " low", " high")]
        order = ["kind", "count", "missing", *names, "top", "freq"]
        known = set().union(*rows)
        index = pd.Index([one.name for one in self.columns], name="column")
        return pd.DataFrame(rows, index=index, columns=[name for name in order if name in known])


KINDS = {Category: "category", Flag: "boolean", Ordinal: "ordered category", Date: "date"}


def kind_in_words(column: Column | None) -> str:
    """What a column of a schema is, for readers who do not know of encodings."""
    if isinstance(column, Text):
        return "text, by its words" if column.n_words else "text, by its length"
    return next((words for kind, words in KINDS.items() if isinstance(column, kind)), "number")


def is_logarithm(column: Column) -> bool:
    return isinstance(column, Text) or (isinstance(column, Number) and column.scaling == "log")


def in_unit(column: Column, numbers: Double) -> Double:
    """Encoded numbers in the column's unit; those of booleans are 0 and 1."""
    return numbers / column.weight if isinstance(column, Flag) else np.asarray(column.plain(numbers))
