"""`Questions`: queries for statistics of columns, densities and means of functions, from a sketch alone."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import astuple, dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, called, either
from sketchlearn.core.messages import counted, in_certain_digits, in_date, in_digits
from sketchlearn.core.randomness import row_chooser
from sketchlearn.core.values import shortened, whole
from sketchlearn.features.families import frequencies_instead
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.histograms import MOST_BINS, Histograms
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.density import cleaned, fit_density
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target, fourier_part
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.moments import part_of
from sketchlearn.inference.sampling_noise import Released, n_determined, noise_in, real_parts
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.questions.marginals import (
    Axis,
    ColumnCounts,
    Histogram,
    LevelShares,
    Regression,
    Share,
    bin_of,
    share_by_features,
    shares_of_levels,
)
from sketchlearn.questions.profiles import Weights
from sketchlearn.questions.summaries import (
    QUANTILES,
    Bins,
    ColumnSummary,
    ColumnSums,
    Description,
    Statistic,
    deviations_at,
    in_unit,
    is_logarithm,
    kind_in_words,
    sample_factor,
)
from sketchlearn.rows.schemas.columns import INDICATE, Category, Column, Date, Flag, Number, Ordinal, Text, Words
from sketchlearn.rows.schemas.table_schema import SchemaColumns, read_columns
from sketchlearn.sketch.sums import Sketch

MOST_COMPONENTS = 10  # that the density is asked for: it may take three times as many
LEAST_ROWS, MOST_ROWS = 256, 2048  # rows drawn from the density, on which functions are written in features
AVERAGED_ROWS = 200_000  # rows drawn from the density, over which a function is averaged
MOST_NUMBERS = 1 << 25  # features of drawn rows that are held at a time
NOTED_SUM = 0.02  # Shares whose sum is further from 1 are noted; sampling alone puts it 0.01 off.
ONE_DEVIATION = 0.6827  # the confidence of an interval of one standard error to both sides
LEAST_KNOWN = 0.5  # records: fewer, by a noisy count, are none
FEW_VALUES = 12  # of a number, whose most frequent ones a description names
DRAWN_BINS = 200  # of a density, that quantiles are read off
EVERY = (0.0, *QUANTILES, 1.0)  # quantiles of a description
REACH = 4.0  # of a histogram, in deviations of the density's components


@dataclass(frozen=True)
class Answer:
    """A mean, and its standard error by sampling and private noise."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{in_certain_digits(self.value, self.error / 10)} +- {in_digits(self.error, 2)}"


class Questions:
    """Queries about the records of a sketch: statistics of columns with intervals, densities, and means of functions.

    `describe`, `quantile`, `mean` and the like are about the records in the sketch, and are read off its histograms,
    sums, cells or sampled rows, or off a density where it has none of them.

    `density` and `mean_of` use a fitted density that is corrected by the sketch. Ridge regression on records drawn from
    it writes a function f of a record as a.Phi(x) plus a residual. Its mean is a.z plus the residual's mean over the
    density: the features are control variates, and only the residual relies on the density.

    Parameters
    ----------
    sketch : a sketch. `density` and `mean_of` need Fourier features, whose points and rows are the numbers of a schema;
        all other answers are in the terms of the table.
    seed : of the fit, and of the records drawn from it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((20_000, 2)) * [1, 3] + [0, 5]
    >>> ask = skl.Questions(skl.design(X, n_components=2).sketch(X))
    >>> print(ask.quantile(1, 0.99), ask.mean(1))
    12.0 (11.90 to 12.60) 5.00 (4.90 to 5.09)
    >>> ask.density([[0, 5], [3, 5]]).round(2)
    array([0.05, 0.  ])
    >>> ask.marginal(1, bins=[-10, 5, 20]).shares.round(1)
    array([0.5, 0.5])
    >>> round(ask.mean_of(lambda rows: rows[:, 0] ** 2).value, 1)
    1.0
    """

    def __init__(self, sketch: Sketch, *, seed: int = 0) -> None:
        if not isinstance(sketch, Sketch):
            raise TypeError(f"questions are put to a sketch, not {type(sketch).__name__}: sketch the rows first")
        if sketch.count == 0:
            raise ValueError("the sketch is empty: add records before asking")
        self._whole, self._counts, self._sums = sketch, part_of(sketch, Histograms), ColumnSums.of(sketch)
        self._waves = part_of(sketch, FourierFeatures)
        operator: Any = sketch.operator
        if self._counts is not None and self._counts.operator.n_features != operator.n_features:
            self._counts = None  # of some columns, by other numbers
        self._numbers: tuple[str, ...] = operator.column_names
        encoded = operator.columns if isinstance(operator.columns, SchemaColumns) else None
        #: names of the table's columns
        self.columns: tuple[str, ...] = self._numbers if encoded is None else read_columns(encoded)
        numbers = (Number(name or "number") for name in self._numbers)
        self._kinds: tuple[Column, ...] = tuple(numbers) if encoded is None else encoded.schema.columns
        self._starts = np.cumsum([0, *(column.n_numbers for column in self._kinds)]).tolist()
        self._seed = whole("seed", seed, 0)
        self._found_bins: dict[int, Bins] = {}

    @cached_property
    def _sketch(self) -> Sketch:
        if self._waves is None:
            raise InvalidValueError(
                "densities and means of functions need frequencies of all columns, and the sketch has none",
                f"design it with {frequencies_instead()}",
            )
        return self._waves

    @property
    def _operator(self) -> FourierFeatures:
        return fourier_part(self._sketch)[1]

    @cached_property
    def mixture(self) -> Mixture:
        """The density that was fitted: a mixture of Gaussians, in the units of the data."""
        target, rng = Target.of(self._sketch), np.random.default_rng(self._seed)
        problem, decoder = Problem.of(target, n_determined(target, MOST_COMPONENTS)), decoder_from("auto")
        return fit_density(cleaned(problem, decoder, rng), decoder, rng)[0].heavy()

    def density(self, points: ArrayLike) -> Double:
        """The density of the records at each point."""
        rows = np.asarray(points, np.float64)
        d = self._operator.n_features
        if rows.ndim != 2 or rows.shape[1] != d:
            raise ValueError(f"points must be a table of {d} columns, not of shape {rows.shape}")
        mixture, parts = self.mixture, []
        for weight, location, covariance in zip(mixture.weights, mixture.locations, mixture.covariances(), strict=True):
            lower = np.linalg.cholesky(covariance)
            away = np.linalg.solve(lower, (rows - location).T)
            size = np.sum(np.log(np.diag(lower))) + 0.5 * d * np.log(2 * np.pi)
            parts.append(np.log(weight) - 0.5 * np.sum(away * away, axis=0) - size)
        return np.asarray(np.exp(logsumexp(parts, axis=0)))

    def marginal(self, column: int | str, bins: int | ArrayLike = 50) -> Histogram | LevelShares:
        """The histogram of one column, by number or name; bins are their number, or their edges.

        If the sketch has histograms, proportions are exact where the edges are those of its bins (see `exact` and
        `note`), and a number of bins is the largest number. With a schema, edges are in the column's unit (of dates,
        days since 1970), and booleans, categories and ordered categories have the proportions of their categories.
        """
        which = self._column(column)
        return _table_marginal(self, self._kinds[which], self._starts[which], bins)

    def describe(
        self, columns: int | str | Sequence[int | str] | None = None, *, confidence: float = 0.95
    ) -> Description:
        """Summary statistics of the columns: counts, missing values, means, quantiles, and most frequent values.

        It prints as a table, and has `to_frame()` for pandas.

        >>> import numpy as np, sketchlearn as skl
        >>> X = np.repeat([[0.0, 10.0], [1.0, 20.0]], [70, 30], axis=0)
        >>> print(skl.Questions(skl.SketchKMeans(2, random_state=0).design(X).sketch(X)).describe([0]))
                  kind    count  missing  mean     std  min  1%  25%  50%  75%  99%  max  most frequent
        column 0  number    100      0 %   0.3  0.4606    0   0    0    0    1    1    1  0 70 %, 1 30 %
        """
        unknown: dict[tuple[str, str], int] = {}

        def told(what: str, answer: Callable[..., Any], *asked: Any, **named: Any) -> Any:
            try:
                return answer(*asked, **named)
            except InvalidValueError as error:
                unknown[what, error.remedy] = unknown.get((what, error.remedy), 0) + 1
                return None

        found = []
        if columns is None:
            columns = range(len(self.columns))
        for which in map(self._column, [columns] if isinstance(columns, int | str) else columns):
            column, levels = self._kinds[which], None
            mean: Statistic | None = None
            std: Statistic | None = None
            quantiles: dict[float, Statistic] = {}
            missing = self.missing(which, confidence=confidence)
            valued = self._n_known(which) >= LEAST_KNOWN
            if valued and _has_values(column) and (bins := told("quantiles", self._bins, which)) is not None:
                quantiles = {q: self._stated(which, bins.quantile(q, confidence)) for q in EVERY}
            if valued and _has_mean(column):
                mean = told("means", self.mean, which, confidence=confidence)
                std = told("standard deviations", self.std, which, confidence=confidence)
            if isinstance(column, Words) or 0 < len(self._listed_values(which)) <= FEW_VALUES:
                levels = told("most frequent values", self.top, which)
            known = self._count_known(missing, confidence)
            name, kind = self.columns[which], kind_in_words(column)
            found.append(ColumnSummary(name, kind, known, missing, mean, std, quantiles, levels))
        notes = (f"{what} of {counted(n, 'column')} are not known: {remedy}" for (what, remedy), n in unknown.items())
        return Description(tuple(found), tuple(notes))

    def quantile(self, column: int | str, q: float, *, confidence: float = 0.95) -> Statistic:
        """The q-quantile of a column's known values, and an interval for that of the records in the sketch.

        Counts of bins bound it for certain; private noise and samples of rows at this confidence. An end is infinite
        where the quantile may lie beyond the bins.

        >>> import numpy as np, sketchlearn as skl
        >>> X = np.random.default_rng(0).standard_normal((10_000, 2)) * [1, 3] + [0, 5]
        >>> found = skl.Questions(skl.SketchKMeans(2, random_state=0).design(X).sketch(X)).quantile(1, 0.5)
        >>> bool(found.low <= np.median(X[:, 1]) <= found.high), found.high - found.low < 0.2
        (True, True)
        """
        which = self._column(column)
        if not 0 <= q <= 1:
            raise InvalidValueError("must be between 0 and 1", parameter=Parameter("q", q))
        self._require(which, _has_values, "quantiles")
        return self._stated(which, self._bins(which).quantile(q, confidence))

    def mean(self, column: int | str, *, confidence: float = 0.95) -> Statistic:
        """The mean of a column's known values; of booleans, the proportion of yes."""
        return self._moments(column, confidence, "mean")

    def std(self, column: int | str, *, confidence: float = 0.95) -> Statistic:
        """The standard deviation of a column's known values, with n - 1 degrees of freedom as in pandas."""
        return self._moments(column, confidence, "standard deviation")

    def correlation(self, a: int | str, b: int | str, *, confidence: float = 0.95) -> Statistic:
        """The correlation of two columns: exact from second moments, bounded by those of cells, or from sampled rows.

        >>> import numpy as np, sketchlearn as skl
        >>> X = np.random.default_rng(0).standard_normal((1000, 1)) + [[0.0, 0.0]]
        >>> print(skl.Questions(skl.features.SecondMoments(2, bound=9.0).sketch(X * [1, -1])).correlation(0, 1))
        -1
        """
        pair = [self._column(one) for one in (a, b)]
        for which in pair:
            self._require(which, _has_mean, "correlation")
        found, (i, j) = list[Statistic | None](), (self._starts[which] for which in pair)
        linear = not any(is_logarithm(self._kinds[which]) or self._missing(which).value for which in pair)
        if self._sums is not None and linear and (own := self._sums.correlation(i, j, confidence)) is not None:
            found.append(own if all(map(self._unclipped, pair)) else replace(own, low=-1.0, high=1.0))
        if self._whole.kept is not None and len(self._whole.kept):
            found.append(
                _correlation_of_rows(self._known_rows(pair[0]), self._known_rows(pair[1]), self._weights, confidence)
            )
        if not found and linear and self._waves is not None:
            found.append(self._correlation_of_density(i, j, confidence))
        what = f"the correlation of {self.columns[pair[0]]!r} and {self.columns[pair[1]]!r}"
        release = either("release a sketch of skl.features.SecondMoments", "release one of design --task moments")
        return self._narrowest(found, what, release)

    def count_above(self, column: int | str, value: Any, *, confidence: float = 0.95) -> Statistic:
        """The number of records whose value is above this one; exact where that is an edge of the sketch's bins.

        Of dates, the value is a date, text such as "2024-01-31", or a number of days since 1970.
        """
        which = self._column(column)
        self._require(which, _has_values, "values above others")
        if isinstance(self._kinds[which], Date) and not isinstance(value, int | float):
            value = (np.datetime64(value) - np.datetime64("1970-01-01")) / np.timedelta64(1, "D")
        encoded = self._kinds[which].scaled(np.array([value], np.float64))  # there and back as the records went
        same = float(in_unit(self._kinds[which], encoded)[0])
        return self._bins(which).count_above(float(value) if math.isnan(same) else same, confidence)

    def missing(self, column: int | str, *, confidence: float = 0.95) -> Statistic:
        """The proportion of records without a value. Records that the schema drops are not in the sketch."""
        share = self._missing(self._column(column))
        reach = deviations_at(confidence) * share.error
        return Statistic.around(share.value, reach, confidence if reach else 1.0, least=0.0, most=1.0)

    def top(self, column: int | str, n: int = 10) -> LevelShares:
        """The n most frequent values of a column that takes a few, with their proportions of all records."""
        which, n = self._column(column), whole("n", n)
        values = self._listed_values(which)
        if not (len(values) or isinstance(self._kinds[which], Words)):
            said = f"column {self.columns[which]!r} takes many values, which the sketch does not count one by one"
            raise InvalidValueError(said, f"ask for {called('marginal', 'column')}")
        found = self.marginal(which, MOST_BINS)
        if isinstance(found, Histogram):
            words = [in_date(value) if found.dates else f"{value:,.15g}" for value in values.tolist()]
            found = LevelShares(
                found.column, tuple(words), found.shares, found.errors, found.exact, found.note, found.missing
            )
        order = np.argsort(-found.shares, kind="stable")[:n]
        pick = {name: own[order] for name in ("shares", "errors", "exact") if (own := getattr(found, name)) is not None}
        return replace(found, levels=tuple(found.levels[i] for i in order), **pick)

    def value_share(self, position: int, value: float, missing: float | None = None) -> Share:
        """The proportion of records with this number at a position; others have 0, or half of it if missing."""
        if self._counts is not None:
            others = (0.0,) if missing is None else (0.0, value / 2)
            if (counted := ColumnCounts.of(self._counts, position).share_of(value, others)) is not None:
                return counted
        if self._sums is not None and self._sums.holds(position, value) and self._sums.holds(position, 0.0):
            mean = self._sums.of_known(position, Share(0.0, 0.0), 0.0, ONE_DEVIATION)[0]
            summed = float(np.clip(mean.value / value - (missing or 0.0) / 2, 0, 1))
            return Share(summed, (mean.high - mean.low) / 2 / value, mean.confidence == 1)
        share = None
        if self._waves is not None:
            share = share_by_features(self._sketch, self._operator, position, value, missing or 0.0)
        if share is None:
            found = self.number_histogram(position, [0.75 * value, 1.25 * value])
            return Share(float(found.shares[0]), float(found.errors[0]), None if found.exact is None else False)
        noise = float(np.mean(Released.of(self._sketch).variances))
        return Share(share, float(np.sqrt(share * (1 - share) / float(self._sketch.count) + noise)))

    def number_histogram(self, which: int, bins: int | ArrayLike = 50) -> Histogram:
        """The histogram of one of the numbers that a record becomes, which are its columns if there is no schema."""
        edges, n = None, 0
        if np.ndim(bins) == 0:
            n = whole("bins", bins)
        else:
            edges = np.asarray(bins, np.float64)
            if edges.ndim != 1 or len(edges) < 2 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
                raise ValueError("bins must be a number of bins, or at least two finite edges in ascending order")
        if self._counts is not None:
            counted = ColumnCounts.of(self._counts, which)
            edges = counted.default_edges(n) if edges is None else edges
            shares, errors, exact = counted.histogram(edges)
            shares = shares if self._counts.ledger is None else _possible_shares(shares)
            return Histogram(self._numbers[which], edges, shares, errors, exact, counted.in_words(exact))
        axis = Axis.of(self._sketch, which)
        if axis is None:
            edges, shares, errors = self._marginal(which, edges, n)
        else:
            edges = axis.edges(n) if edges is None else edges
            shares, errors = axis.histogram(edges)
        return Histogram(self._numbers[which], edges, _possible_shares(shares), errors)

    def mean_of(self, function: Callable[[Double], ArrayLike]) -> Answer:
        """The mean over all records of a function that takes rows and gives one number for each."""
        rows = self._rows

        def checked(rows: Double) -> Double:
            values = np.asarray(function(rows), np.float64)
            if values.shape != (len(rows),) or not np.all(np.isfinite(values)):
                raise ValueError("the function must give one finite number for each row of a table")
            return values[:, None]

        step = max(1, MOST_NUMBERS // rows.shape[1])
        expected = np.mean(np.concatenate([checked(rows[i : i + step]) for i in range(0, len(rows), step)]), axis=0)
        more, error = self._correction(checked(self._regression[0]), self._drawn_mean)
        return Answer(float(expected[0] + more[0]), float(error[0]))

    def _correlation_of_density(self, a: int, b: int, confidence: float) -> Statistic:
        chosen = [a, b]
        means = np.array([self.mean_of(itemgetter((..., i))).value for i in chosen])
        squares = [self.mean_of(lambda rows, k=k: (rows[:, chosen[k]] - means[k]) ** 2).value for k in (0, 1)]  # type: ignore[misc]
        spreads = np.sqrt(np.maximum(squares, 1e-300))
        found = self.mean_of(lambda rows: np.prod((rows[:, chosen] - means) / spreads, axis=1))
        return Statistic.around(found.value, deviations_at(confidence) * found.error, confidence, least=-1.0, most=1.0)

    def _count_known(self, missing: Statistic, confidence: float) -> Statistic:
        """The number of records with a value: certain, unless the count of the records or of the missing is noisy."""
        n, ledger = float(self._whole.count), self._whole.ledger
        error = 0.0 if ledger is None else deviations_at(confidence) * math.sqrt(ledger.count_variance)
        known, reach = n * (1 - missing.value), math.hypot(error, n * (missing.high - missing.low) / 2)
        return Statistic.around(known, reach, confidence if reach else 1.0, least=0.0)

    def _n_known(self, which: int) -> float:
        return float(self._whole.count) * (1 - self._missing(which).value)

    def _require(self, which: int, can: Callable[[Column], bool], what: str) -> None:
        """Refuses what a kind of column, or one without values, does not have."""
        if not can(self._kinds[which]):
            said = f"column {self.columns[which]!r} ({kind_in_words(self._kinds[which])}) has no {what}"
            hashed = isinstance(self._kinds[which], Text)
            raise InvalidValueError(said, f"ask for {called('missing' if hashed else 'top', 'column')}")
        if self._n_known(which) < LEAST_KNOWN:
            raise InvalidValueError(f"column {self.columns[which]!r} has no values: all are missing")

    def _stated(self, which: int, found: Statistic) -> Statistic:
        return replace(found, dates=isinstance(self._kinds[which], Date))

    def _missing(self, which: int) -> Share:
        """The proportion of missing values, and its error for the records in the sketch."""
        column, kept = self._kinds[which], self._whole.kept
        if column.missing != INDICATE:
            return Share(0.0, 0.0)
        if kept is not None and len(kept) and (kept.complete or (self._counts is None and self._sums is None)):
            missing = np.isnan(self._known_rows(which)).astype(np.float64)
            return Share(*astuple(self._weights.mean(missing, np.ones(len(missing), bool))))
        share = self.value_share(self._starts[which] + column.n_own, column.weight_of_gap)
        return Share(share.value, 0.0, True) if share.exact else share

    def _listed_values(self, which: int) -> Double:
        """The values of a number or a date that are counted one by one; none of others."""
        values = None if self._counts is None else ColumnCounts.of(self._counts, self._starts[which]).values
        kind = self._kinds[which]
        return in_unit(kind, values) if values is not None and _has_values(kind) else np.empty(0)

    @cached_property
    def _weights(self) -> Weights:
        return Weights.of(self._whole)

    def _known_rows(self, which: int) -> Double:
        """The values of a column in the sampled rows, NaN where they are missing."""
        column, start, kept = self._kinds[which], self._starts[which], self._whole.kept
        assert kept is not None
        known = in_unit(column, kept.rows[:, start])
        if column.missing != INDICATE:
            return known
        return np.where(kept.rows[:, start + column.n_own] > column.weight_of_gap / 2, np.nan, known)

    def _bins(self, which: int) -> Bins:
        """The bins of a column, found once."""
        if which not in self._found_bins:
            self._found_bins[which] = self._new_bins(which)
        return self._found_bins[which]

    def _new_bins(self, which: int) -> Bins:
        """The bins of all rows if they are kept, of histograms, of sampled rows, or of a density."""
        column, start, kept = self._kinds[which], self._starts[which], self._whole.kept
        if kept is not None and len(kept) and (kept.complete or self._counts is None):
            known = self._known_rows(which)
            there, weights = ~np.isnan(known), self._weights.whole * float(self._whole.count)
            return Bins.of_values(known[there], weights[there], kept.chances[there])
        missing, n = self._missing(which), float(self._whole.count)
        if self._counts is not None:
            own = ColumnCounts.of(self._counts, start)
            weight = own.records / own.total
            edges, values, counts = own.edges, own.values, weight * own.counts
            variances = np.full(len(counts), weight**2 * own.variance)
        else:
            try:
                drawn = self.number_histogram(start, DRAWN_BINS)
            except InvalidValueError as error:
                raise self._refusal(f"the distribution of {self.columns[which]!r}") from error
            beyond = max(1 - float(drawn.shares.sum()), 0.0) / 2
            edges, values = drawn.edges, None
            counts = n * np.concatenate([[beyond], drawn.shares, [beyond]])
            variances = (n * np.concatenate([[beyond], drawn.errors, [beyond]])) ** 2
        return Bins.between(column, edges, values, counts, variances, Share(n * missing.value, n * missing.error))

    def _unclipped(self, which: int) -> bool:
        """Whether no value of a column was clipped in the sums of columns."""
        if not self._whole.clipped:
            return True
        if self._counts is None or self._sums is None:
            return False
        own = ColumnCounts.of(self._counts, self._starts[which])
        ends = own.edges[[0, -1]]
        return not np.any(own.counts[[0, -1]]) and all(self._sums.holds(self._starts[which], e) for e in ends)

    def _moments(self, column: int | str, confidence: float, what: str) -> Statistic:
        """The mean or the standard deviation, by whatever determines it best."""
        which = self._column(column)
        self._require(which, _has_mean, what)
        kind, found = self._kinds[which], list[Statistic | None]()
        if self._sums is not None and not is_logarithm(kind):
            found.append(self._of_sums(which, self._sums, confidence, what))
        if not any(one is not None and one.is_sharp for one in found):  # others would hardly be narrower
            with suppress(InvalidValueError):
                bins = self._bins(which)
                found.append(bins.mean(confidence) if what == "mean" else bins.std(confidence))
        best = self._narrowest(found, f"the {what} of {self.columns[which]!r}")
        return self._stated(which, best) if what == "mean" else best

    def _of_sums(self, which: int, sums: ColumnSums, confidence: float, what: str) -> Statistic | None:
        """In the column's unit; None where sums do not determine it."""
        kind, missing = self._kinds[which], self._missing(which)
        mean, variance = sums.of_known(self._starts[which], missing, kind.typical_numbers[0], confidence)
        zero, one = in_unit(kind, np.array([0.0, 1.0])).tolist()
        if not self._unclipped(which):
            mean, variance = (
                replace(own, low=least, high=math.inf) for own, least in ((mean, -math.inf), (variance, 0.0))
            )
        if what == "mean":
            return mean.mapped(lambda end: zero + (one - zero) * end)
        if not math.isfinite(variance.value):
            return None
        known = self._n_known(which)
        return variance.mapped(lambda end: math.sqrt(end) * sample_factor(known) * (one - zero))

    def _narrowest(self, found: Sequence[Statistic | None], what: str, release: str | None = None) -> Statistic:
        known = [one for one in found if one is not None and math.isfinite(one.value)]
        if not known:
            raise self._refusal(what, release)
        return min(known, key=lambda one: one.high - one.low)

    def _refusal(self, what: str, release: str | None = None) -> InvalidValueError:
        """That a sketch does not determine something, and a design, or a private release, that does."""
        remedy = f"sketch with {called('design', 'sample', '...', rows=4000)}, which keeps a sample of the rows"
        if self._whole.ledger is not None:
            remedy = release or either(
                "release a sketch of skl.features.Histograms.even(low, high), alone or concatenated",
                "release a sketch of at most 64 columns, whose design has histograms (design --exclude)",
            )
        return InvalidValueError(f"the sketch does not determine {what}", remedy)

    def _column(self, column: int | str) -> int:
        if isinstance(column, str) and column in self.columns:
            return self.columns.index(column)
        if isinstance(column, int | np.integer) and not isinstance(column, bool) and 0 <= column < len(self.columns):
            return int(column)
        known = shortened(", ".join(self.columns), 200)
        raise ValueError(f"the sketch has no column {shortened(column)}: its columns are {known}")

    @cached_property
    def _rows(self) -> Double:
        """Records of the density."""
        return self.mixture.sample(AVERAGED_ROWS, np.random.default_rng(self._seed))[0]

    @cached_property
    def _drawn_mean(self) -> Double:
        """Mean features of those records."""
        return real_parts(self._operator.sketch(self._rows).mean).astype(np.float64)

    @cached_property
    def _predicted(self) -> Double:
        """Mean features of the density: exactly, unless harmonics of the wave must be sampled."""
        if self._operator.wave.harmonics() or self._operator.n_groups > 1:
            return self._drawn_mean
        return real_parts(self.mixture.sketch(self._operator)).astype(np.float64)

    @cached_property
    def _regression(self) -> tuple[Double, Regression]:
        """Some of the records, and functions of them in their features."""
        n = int(np.clip(MOST_NUMBERS // self._operator.n_sums, LEAST_ROWS, MOST_ROWS))
        rows = self._rows[row_chooser(self._seed).choice(len(self._rows), n, replace=False)]
        features = real_parts(self._operator.features(rows))
        return rows, Regression(features, np.full(n, 1 / n), noise_in(self._sketch, features))

    def _marginal(self, which: int, edges: Double | None, n: int) -> tuple[Double, Double, Double]:
        """Edges, proportions between them, and errors, from the density as corrected by the sketch."""
        mixture = self.mixture
        means, deviations = mixture.locations[:, which], np.sqrt(mixture.covariances()[:, which, which])
        if edges is None:
            edges = np.linspace(np.min(means - REACH * deviations), np.max(means + REACH * deviations), n + 1)
        below = mixture.weights @ ndtr((edges - means[:, None]) / deviations[:, None])
        places = np.searchsorted(edges, self._regression[0][:, which], side="right")
        bins = (places[:, None] == np.arange(1, len(edges))).astype(float)
        more, errors = self._correction(bins, self._predicted)
        return edges, np.diff(below) + more, errors

    def _correction(self, values: Double, expected: Double) -> tuple[Double, Double]:
        """The correction of functions' means over the density, whose mean features are `expected`, and its error."""
        z = real_parts(self._sketch.mean).astype(np.float64) - expected
        with one_blas_thread():
            change, _, errors = self._regression[1].doubted(z).change(values, z)
        return change, np.sqrt(errors**2 + values.var(axis=0) / float(self._sketch.count))


def _possible_shares(shares: Double) -> Double:
    """Proportions without negative ones, whose sum is no larger than it was, or than 1."""
    positive = np.maximum(shares, 0)
    return np.asarray(positive * (np.clip(shares.sum(), 0, 1) / max(float(positive.sum()), 1e-300)))


def _table_marginal(ask: Questions, column: Column, position: int, bins: Any) -> Histogram | LevelShares:
    """The marginal distribution of a column whose numbers begin at a position."""
    missing = None
    if column.missing == INDICATE:
        missing = ask.value_share(position + len(column.own_names), column.weight_of_gap).value
    if isinstance(column, Flag):
        yes = ask.value_share(position, column.weight, missing)
        no = Share(max(1 - yes.value - (missing or 0.0), 0.0), yes.error, yes.exact)
        return _level_shares(column, [("yes", yes), ("no", no)], missing)
    if isinstance(column, Category):
        alone = [ask.value_share(position + i, column.weight) for i in range(len(column.words))]
        together, note = _consistent(alone, 1 - (missing or 0.0))
        ordered = sorted(zip(column.words, together, strict=True), key=lambda pair: -pair[1].value)
        return _level_shares(column, ordered, missing, note)
    if isinstance(column, Ordinal):
        ends = (np.arange(len(column.levels) + 1) - 0.5) * (column.weight / (len(column.levels) - 1))
        found = _without_missing(ask.number_histogram(position, ends), column, missing)
        exact = [None] * len(found.shares) if found.exact is None else found.exact.tolist()
        shares = map(Share, map(float, found.shares), map(float, found.errors), exact)
        return _level_shares(column, list(zip(column.levels, shares, strict=True)), missing)
    if isinstance(column, Text) and column.n_words:
        raise ValueError(f"column {column.name!r} is {column.in_words}: these have no histogram in the table's terms")
    if np.ndim(bins):
        bins = column.scaled(np.asarray(bins, np.float64))
    found = _without_missing(ask.number_histogram(position, bins), column, missing)
    return replace(
        found, column=column.name, edges=column.plain(found.edges), missing=missing, dates=isinstance(column, Date)
    )


def _has_values(column: Column) -> bool:
    """Whether a column has quantiles in its unit."""
    return isinstance(column, Number | Date) or (isinstance(column, Text) and not column.n_words)


def _has_mean(column: Column) -> bool:
    return _has_values(column) or isinstance(column, Flag)


def _correlation_of_rows(a: Double, b: Double, weights: Weights, confidence: float) -> Statistic | None:
    """The correlation over weighted rows in which both are known, with its jackknife error."""
    there = ~(np.isnan(a) | np.isnan(b))

    def correlation(own: Double) -> float:
        own = own[there] / max(own[there].sum(), 1e-300)
        x, y = a[there] - own @ a[there], b[there] - own @ b[there]
        spread = float(own @ x**2) * float(own @ y**2)
        return float(own @ (x * y)) / math.sqrt(spread) if spread > 0 else math.nan

    value = correlation(weights.whole)
    others = np.array([correlation(own) for own in weights.without])
    if not np.all(np.isfinite([value, *others])):
        return None
    error = math.sqrt((len(others) - 1) * float(np.mean((others - value) ** 2))) if len(others) else 0.0
    level = confidence if error else 1.0
    return Statistic.around(value, deviations_at(confidence) * error, level, least=-1.0, most=1.0)


def _consistent(shares: list[Share], room: float) -> tuple[list[Share], str]:
    """Proportions of all categories of a column, made consistent, their errors, and a note; counts stay as they are."""
    if shares[0].exact is not None:
        return shares, ""
    values, off = shares_of_levels(np.array([share.value for share in shares]), room)
    found = [Share(float(v), math.hypot(one.error, off), one.exact) for v, one in zip(values, shares, strict=True)]
    total = in_digits(1 - room + sum(share.value for share in shares), 3)
    note = f"all shares added up to {total}, not 1, so each may be off by the rest; histograms count them"
    return found, note if off >= NOTED_SUM else ""


def _level_shares(column: Column, found: list[tuple[str, Share]], missing: float | None, note: str = "") -> LevelShares:
    levels, shares = zip(*found, strict=True)
    exact = None if shares[0].exact is None else np.array([bool(share.exact) for share in shares])
    if exact is not None:
        note = "exact counts" if exact.all() else "counts with private noise, or of bins that hold several levels"
    values, errors = (np.array([getattr(share, name) for share in shares]) for name in ("value", "error"))
    return LevelShares(column.name, tuple(levels), values, errors, exact, note, missing)


def _without_missing(found: Histogram, column: Column, missing: float | None) -> Histogram:
    """The histogram without missing values, which are counted in the bin of the typical value."""
    where = bin_of(found.edges, column.typical_numbers[0]) - 1
    if not missing or not 0 <= where < len(found.shares):
        return found
    shares = found.shares.copy()
    shares[where] = max(shares[where] - missing, 0.0)
    return replace(found, shares=shares)
