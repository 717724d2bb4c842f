"""`Questions`: queries for densities, histograms and means of functions, from a sketch alone."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp, ndtr

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.messages import in_certain_digits, in_digits
from sketchlearn.core.randomness import row_chooser
from sketchlearn.core.values import shortened, whole
from sketchlearn.features.families import frequencies_instead
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.histograms import Histograms
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
    share_by_features,
    shares_of_levels,
)
from sketchlearn.rows.schemas.columns import INDICATE, Category, Column, Date, Flag, Ordinal, Text
from sketchlearn.rows.schemas.table_schema import SchemaColumns, read_columns
from sketchlearn.sketch.sums import Sketch

MOST_COMPONENTS = 10  # that the density is asked for: it may take three times as many
LEAST_ROWS, MOST_ROWS = 256, 2048  # rows drawn from the density, on which functions are written in features
AVERAGED_ROWS = 200_000  # rows drawn from the density, over which a function is averaged
MOST_NUMBERS = 1 << 25  # features of drawn rows that are held at a time
NOTED_SUM = 0.02  # Shares whose sum is further from 1 are noted; sampling alone puts it 0.01 off.
REACH = 4.0  # of a histogram, in deviations of the density's components


@dataclass(frozen=True)
class Answer:
    """A mean, and its standard error by sampling and private noise."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{in_certain_digits(self.value, self.error / 10)} +- {in_digits(self.error, 2)}"


class Questions:
    """Queries about the records of a sketch, answered by a fitted density that is corrected by the sketch.

    Ridge regression on records drawn from the density writes a function f of a record as a.Phi(x) plus a residual. Its
    mean is a.z plus the residual's mean over the density: the features are control variates, and only the residual
    relies on the density.

    Parameters
    ----------
    sketch : a sketch of Fourier features, of histograms (which answer `marginal` alone, exactly), or of both. With a
        schema, `marginal` is in the terms of the table; points and rows of the others are the schema's numbers.
    seed : of the fit, and of the records drawn from it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((20_000, 2)) * [1, 3] + [0, 5]
    >>> ask = skl.Questions(skl.design(X, n_components=2).sketch(X))
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
        self._counts, waves = part_of(sketch, Histograms), part_of(sketch, FourierFeatures)
        if sketch.count == 0:
            raise ValueError("the sketch is empty: add records before asking")
        self._features = None if self._counts is not None and waves is None else fourier_part(sketch)[0]
        operator: Any = sketch.operator
        self._numbers: tuple[str, ...] = operator.column_names
        self._encoded = operator.columns if isinstance(operator.columns, SchemaColumns) else None
        #: names of the table's columns
        self.columns: tuple[str, ...] = self._numbers if self._encoded is None else read_columns(self._encoded)
        self._seed = whole("seed", seed, 0)

    @property
    def _sketch(self) -> Sketch:
        if self._features is None:
            raise InvalidValueError(
                "densities and means of functions need frequencies of all columns, and the sketch has none",
                f"design it with {frequencies_instead()}",
            )
        return self._features

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
        if self._encoded is None:
            return self.number_histogram(which, bins)
        return _table_marginal(self, self._encoded.schema.columns[which], self._encoded.first_number(which), bins)

    def value_share(self, position: int, value: float, missing: float | None = None) -> Share:
        """The proportion of records with this number at a position; others have 0, or half of it if missing."""
        if self._counts is not None:
            others = (0.0,) if missing is None else (0.0, value / 2)
            if (counted := ColumnCounts.of(self._counts, position).share_of(value, others)) is not None:
                return counted
        share = None
        if self._features is not None:
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
    where = int(np.searchsorted(found.edges, column.typical_numbers[0], side="right")) - 1
    if not missing or not 0 <= where < len(found.shares):
        return found
    shares = found.shares.copy()
    shares[where] = max(shares[where] - missing, 0.0)
    return replace(found, shares=shares)
