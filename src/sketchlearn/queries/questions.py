"""`Questions`: densities, histograms and means of functions, from a sketch alone."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import logsumexp, ndtr

from sketchlearn.decoders import Problem, Target, cleaned, decoder_from, fit_density
from sketchlearn.decoders.problems.blas_threads import one_blas_thread
from sketchlearn.decoders.problems.first_reading import FREQUENCIES_PER_PARAMETER
from sketchlearn.models import Mixture
from sketchlearn.models.frequency_set import Double
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import FourierFeatures, Histograms
from sketchlearn.queries.column_counts import Counted
from sketchlearn.queries.column_frequencies import Axis
from sketchlearn.queries.feature_regression import Regression
from sketchlearn.queries.sampling_noise import fourier_sketch, noise_in, real_parts
from sketchlearn.sketch import Sketch
from sketchlearn.values import shortened, whole

MOST_COMPONENTS = 10  # that the density is asked for: it may take three times as many
FEWEST, DRAWN = 256, 2048  # records of the density on which functions are written in features
MANY = 200_000  # records of the density over which a function is averaged
NUMBERS = 1 << 25  # features of drawn records that are held at a time
REACH = 4.0  # of a histogram, in deviations of the density's components


@dataclass(frozen=True)
class Histogram:
    """Shares of the records between edges, and the deviation that sampling and private noise leave in each.

    >>> print(Histogram("age", np.array([0.0, 1.0, 2.0]), np.array([0.25, 0.75]), np.array([0.01, 0.01])))
    age
      0 to 1  0.25     ######
      1 to 2  0.75     ####################
    """

    column: str
    edges: Double
    shares: Double
    errors: Double
    exact: NDArray[np.bool_] | None = None  # which shares are counts of the records; None if the sketch has no counts
    note: str = ""  # the same in words

    def __str__(self) -> str:
        names = [f"{a:.3g} to {b:.3g}" for a, b in zip(self.edges[:-1], self.edges[1:], strict=True)]
        width, most = max(map(len, names)), max(float(self.shares.max()), 1e-300)
        bars = ["#" * int(20 * share / most) for share in self.shares]
        lines = [
            f"  {name:>{width}}  {share:<8.3g} {bar}" for name, share, bar in zip(names, self.shares, bars, strict=True)
        ]
        return "\n".join([self.column, *lines, *([f"  ({self.note})"] if self.note else [])])


@dataclass(frozen=True)
class Answer:
    """A mean, and the deviation that sampling and private noise leave in it."""

    value: float
    error: float

    def __str__(self) -> str:
        return f"{self.value:.6g} +- {self.error:.2g}"


class Questions:
    """What the records of a sketch are like: a density is fitted to it once, then each answer is corrected by it.

    A function f of a record is written as a.Phi(x) plus a rest, by ridge regression on records drawn from the density.
    Its mean is that of the rest, over the density, plus a.z: what the features tell is taken from the sketch itself
    (control variates), and only what they do not tell from the density.

    Parameters
    ----------
    sketch : a sketch of Fourier features, of histograms (which answer `marginal` alone, exactly), or of both.
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
        self._operator_of_all, self._counts = sketch.operator, part_of(sketch, Histograms)
        waves = part_of(sketch, FourierFeatures)
        self._features = None if self._counts is not None and waves is None else fourier_sketch(sketch)
        if sketch.count == 0:
            raise ValueError("the sketch is empty: add records before asking")
        self._seed = whole("seed", seed, 0)

    @property
    def _sketch(self) -> Sketch:
        if self._features is None:
            raise ValueError(
                "the question is about Fourier features, but the sketch has histograms alone: concatenate both, or "
                "make the operator with design(sample, n_components=...)"
            )
        return self._features

    @property
    def _operator(self) -> FourierFeatures:
        operator = self._sketch.operator
        assert isinstance(operator, FourierFeatures)
        return operator

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return self._operator_of_all.column_names  # type: ignore[attr-defined]

    @cached_property
    def mixture(self) -> Mixture:
        """The density that was fitted: a mixture of Gaussians, in the units of the data."""
        target, rng = Target.of(self._sketch), np.random.default_rng(self._seed)
        k = int(np.clip(target.n_numbers / 2 / (FREQUENCIES_PER_PARAMETER * target.n_features), 1, MOST_COMPONENTS))
        decoder = decoder_from("auto")
        return fit_density(cleaned(Problem.of(target, k), decoder, rng), decoder, rng)[0].heavy()

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

    def marginal(self, column: int | str, bins: int | ArrayLike = 50) -> Histogram:
        """The histogram of one column, by number or name; bins are their number, or their edges.

        If the sketch has histograms, shares are exact wherever the edges are those of its bins (`exact` and `note` say
        where), and a number of bins is how many of those there are at most.
        """
        which = self._column(column)
        edges = None if np.ndim(bins) == 0 else _checked_edges(bins)
        n = whole("bins", bins) if edges is None else 0
        if self._counts is not None:
            return self._counted(self._counts, which, edges, n)
        axis = Axis.of(self._sketch, which)
        if axis is not None:
            edges = axis.edges(n) if edges is None else edges
            shares, errors = axis.histogram(edges)
        else:
            edges = self._edges(which, n) if edges is None else edges
            shares, errors = self._marginal(which, edges)
        return Histogram(self.columns[which], edges, _possible_shares(shares), errors)

    def _counted(self, counts: Sketch, which: int, edges: Double | None, n: int) -> Histogram:
        """The histogram from counts in the sketch."""
        counted = Counted.of(counts, which)
        edges = counted.default_edges(n) if edges is None else edges
        shares, errors, exact = counted.histogram(edges)
        shares = shares if counts.ledger is None else _possible_shares(shares)
        return Histogram(self.columns[which], edges, shares, errors, exact, counted.in_words(exact))

    def mean_of(self, function: Callable[[Double], ArrayLike]) -> Answer:
        """The mean over all records of a function that takes rows and gives one number for each."""
        rows = self._rows

        def checked(rows: Double) -> Double:
            values = np.asarray(function(rows), np.float64)
            if values.shape != (len(rows),) or not np.all(np.isfinite(values)):
                raise ValueError("the function must give one finite number for each row of a table")
            return values[:, None]

        step = max(1, NUMBERS // rows.shape[1])
        expected = np.mean(np.concatenate([checked(rows[i : i + step]) for i in range(0, len(rows), step)]), axis=0)
        more, error = self._told(checked(self._regression[0]), self._drawn_mean)
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
        return self.mixture.sample(MANY, np.random.default_rng(self._seed))[0]

    @cached_property
    def _drawn_mean(self) -> Double:
        """Mean features of those records."""
        return real_parts(self._operator.sketch(self._rows).mean[None])[0].astype(np.float64)

    @cached_property
    def _predicted(self) -> Double:
        """Mean features of the density: exactly, unless harmonics of the wave must be sampled."""
        if self._operator.wave.harmonics() or self._operator.n_groups > 1:
            return self._drawn_mean
        return real_parts(self.mixture.sketch(self._operator)[None])[0].astype(np.float64)

    @cached_property
    def _regression(self) -> tuple[Double, Regression]:
        """Some of the records, and functions of them in their features."""
        n = int(np.clip(NUMBERS // self._operator.n_sums, FEWEST, DRAWN))
        rows = self._rows[np.random.default_rng(self._seed).choice(len(self._rows), n, replace=False)]
        features = real_parts(self._operator.features(rows))
        return rows, Regression(features, np.full(n, 1 / n), noise_in(self._sketch, features))

    def _edges(self, which: int, n: int) -> Double:
        means, deviations = self._column_of_mixture(which)
        return np.linspace(np.min(means - REACH * deviations), np.max(means + REACH * deviations), n + 1)

    def _column_of_mixture(self, which: int) -> tuple[Double, Double]:
        mixture = self.mixture
        return mixture.locations[:, which], np.sqrt(mixture.covariances()[:, which, which])

    def _marginal(self, which: int, edges: Double) -> tuple[Double, Double]:
        """Shares between edges, from the density and what the sketch adds to it."""
        means, deviations = self._column_of_mixture(which)
        below = self.mixture.weights @ ndtr((edges - means[:, None]) / deviations[:, None])
        rows, _ = self._regression
        bins = (np.searchsorted(edges, rows[:, which], side="right")[:, None] == np.arange(1, len(edges))).astype(float)
        more, errors = self._told(bins, self._predicted)
        return np.diff(below) + more, errors

    def _told(self, values: Double, expected: Double) -> tuple[Double, Double]:
        """What the sketch adds to the means of functions over the density, and the error of the sum.

        `expected` are the mean features of the density.
        """
        z = real_parts(self._sketch.mean[None])[0].astype(np.float64) - expected
        with one_blas_thread():
            told, _, errors = self._regression[1].doubted(z).change(values, z)
        return told, np.sqrt(errors**2 + values.var(axis=0) / float(self._sketch.count))


def _possible_shares(shares: Double) -> Double:
    """Shares without negative ones, whose sum is no larger than it was, or than 1."""
    positive = np.maximum(shares, 0)
    return np.asarray(positive * (np.clip(shares.sum(), 0, 1) / max(float(positive.sum()), 1e-300)))


def _checked_edges(bins: ArrayLike) -> Double:
    edges = np.asarray(bins, np.float64)
    if edges.ndim != 1 or len(edges) < 2 or not np.all(np.isfinite(edges)) or np.any(np.diff(edges) <= 0):
        raise ValueError("bins must be a number of bins, or at least two finite edges in ascending order")
    return edges
