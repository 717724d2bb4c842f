"""Regression estimates: the mean of a function over all sketched rows, from a sample and the sketch, with its error.

Rows i are drawn with inclusion probabilities p_i, and stand for u_i equal records each. For them y_i = f(x_i) is known;
for all n rows, the means z of functions phi. For any vector a,

    R = 1/n sum over drawn rows of u_i / p_i (f - m - a . phi)(x_i) + m + a . z

has the mean of f over all rows as its expectation, and, with rest = f - m - a . phi, the variance
1/n^2 sum u_i^2 (1 - p_i) / p_i^2 rest_i^2, for any distribution of the rows (Duffield, Lund, Thorup 2007; Deville and
Sarndal 1992). For each row, m and a come from a ridge regression on the others (in closed form). Rows that are included
for certain are counted as they are.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray
from scipy.special import chdtrc

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import Parameter, called, either
from sketchlearn.inference.calibration import Means, WeightedRows, calibrated
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.errors.values import RowMean
from sketchlearn.inference.tilting import Column
from sketchlearn.rows.weights import WEIGHT_BITS
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import Sketch

#: of all records' variance to the sample's: above it, errors reached 100 deviations (airports)
LARGEST_SPREAD_RATIO = 1.5


@dataclass(frozen=True)
class BinFunctions:
    """Functions of one column that are constant within the bins of its histogram, so that their means are exact.

    They are a column's value x, its square, and its squared distance from the nearest of some points, in the middle of
    the bin and in the units of distances.
    """

    edges: Double
    table: Double  # (functions, bins): below, bins, above
    shares: Double  # of the records: below, bins, above

    @classmethod
    def of(cls, column: Column, points: Double, unit: float) -> BinFunctions:
        """The functions of a column, with distances in this unit."""
        edges, points = column.edges / unit, points / unit
        middle = (edges[:-1] + edges[1:]) / 2 if column.values is None else column.values / unit
        middle = np.concatenate([edges[:1], middle, edges[-1:]])
        x = middle - edges[0]
        return cls(edges, np.stack([x, x * x, np.min((middle[:, None] - points) ** 2, axis=1)]), column.shares)

    def bins(self, column: Double) -> NDArray[np.intp]:
        """The bins of some values."""
        found = np.searchsorted(self.edges, column, side="right")
        return np.where(column == self.edges[-1], len(self.edges) - 1, found)  # the last bin holds its upper edge

    def features(self, column: Double) -> Double:
        """The functions of some values: (values, functions)."""
        return np.asarray(self.table[:, self.bins(column)].T)

    def distance_spread(self) -> float:
        """The variance, over all records, of the squared distance from the nearest point."""
        distances = self.table[-1]
        return max(float(self.shares @ distances**2 - (self.shares @ distances) ** 2), 0.0)

    def distance_beyond(self, column: Double) -> float:
        """The mean squared distance, beyond that of the extreme values, of records that lie beyond these values."""
        bins, distances = self.bins(column), self.table[-1]
        low, high = bins.min(), bins.max()
        below = self.shares[:low] @ np.maximum(distances[:low] - distances[low], 0)
        above = self.shares[high + 1 :] @ np.maximum(distances[high + 1 :] - distances[high], 0)
        return float(below + above)


@dataclass(frozen=True)
class KnownMeans:
    """Means over all sketched rows, of functions of a row, and the noise in them."""

    waves: Means  # Fourier features and their means
    units: Double  # in which distances count, column by column
    columns: Sequence[BinFunctions] = ()  # functions of single columns, where the sketch has histograms
    bin_noise: float = 0.0  # variance of the private noise in each share of a histogram
    count_noise: float = 0.0  # variance of the relative error of the number of records, which sums are divided by

    @classmethod
    def of(cls, sketch: Sketch, points: Double, units: Double) -> KnownMeans:
        """Those of a sketch; distances in single columns are from the points (k, columns)."""
        columns, ledger = Column.of(sketch) or [], sketch.ledger
        functions = [BinFunctions.of(*each) for each in zip(columns, points.T, units, strict=False)]
        noise = columns[0].noise if columns else 0.0
        count = 0.0 if ledger is None else ledger.count_variance / float(sketch.units) ** 2
        return cls(Means.of(sketch), units, functions, noise, count)

    @cached_property
    def values(self) -> Double:
        """The means: (functions,)."""
        return np.concatenate([self.waves.values, *(column.table @ column.shares for column in self.columns)])

    @cached_property
    def noise(self) -> Double:
        """The variance of the noise in each of the means, but for that of the number of records: (functions,)."""
        of_bins = (self.bin_noise * np.sum(column.table**2, axis=1) for column in self.columns)
        return np.concatenate([np.full(len(self.waves.values), self.waves.variance), *of_bins])

    def features(self, rows: Double) -> Double:
        """The functions of rows: (rows, functions)."""
        parts = (column.features(rows[:, j] / self.units[j]) for j, column in enumerate(self.columns))
        return np.concatenate([self.waves.features(rows).astype(np.float64), *parts], axis=1)

    def relative_error_by_tails(self, rows: Double) -> float:
        """The error due to tails beyond a random sample, in deviations of squared distances; infinite if large.

        A sample lacks tails if its squared distances vary less than those of all records, column by column.
        """
        if not self.columns or self.bin_noise:  # noise in bins far away looks like tails
            return 0.0
        each = [(column, rows[:, j] / self.units[j]) for j, column in enumerate(self.columns)]
        own = sum(float(column.features(values)[:, -1].var()) for column, values in each)
        if sum(column.distance_spread() for column, _ in each) > LARGEST_SPREAD_RATIO * own:
            return float("inf")
        return sum(column.distance_beyond(values) for column, values in each) / max(float(np.sqrt(own)), 1e-300)

    def noise_along(self, a: Double) -> float:
        """The variance of the noise in a . values, by private release and frequency subsampling."""
        first = len(self.waves.values)
        variance = self.waves.variance * float(a[:first] @ a[:first])
        for column in self.columns if self.bin_noise else ():
            along = a[first : first + len(column.table)] @ column.table
            variance += self.bin_noise * float(along @ along)
            first += len(column.table)
        return variance + self.count_noise * float(a @ self.values) ** 2


RIDGES = 10.0 ** np.arange(-5.0, 3.1, 0.5)  # in units of a function's variance
LEAST_DEVIATION = 1e-9  # A function that varies less, for its size, counts as constant.
ROUNDING = 1e-4  # Means of a sketch of the same rows differ by less.
LEAST_ROWS = 30  # From fewer rows a variance is too uncertain.
#: Rows added to the variance with the weight of the heavy ones, as a few rows with most of the variance may be
#: missing. Without, 95 % intervals covered 75 % of the draws of breast cancer.
MORE_HEAVY_ROWS = 15
LEAST_HEAVY_ROWS = 12.0  # With fewer rows that carry the variance, errors reached 17 deviations (airports).
LEAST_P_VALUE = 1e-3  # of a sample's difference from the sketch, if it is random
MOST_DEVIATIONS = 4.5  # of a single column's mean in a random sample from the sketch's
LARGEST_TAIL_ERROR = 3.0  # in standard errors: one or two in samples of Gaussians, 40 in airports


def keep_rows() -> str:
    """The remedy where a sample of rows would help."""
    return f"keep rows beside the sketch with {called('design', '...', rows=500)}"


def more_rows(ledger: Ledger | None = None) -> str:
    """The remedy where rows would help that are kept, or given; beside a private release, these must be public."""
    given = either("sample=rows", "--sample FILE")
    if ledger is None:
        return f"{keep_rows()}, or give some with {given}"
    return f"give public rows that are like the private ones with {given} and {Parameter('assume_public_sample', True)}"


def _no_random_sample() -> str:
    return (
        "the rows of the sample differ significantly from all sketched rows, so that they are not a random "
        f"sample of them, or lack rows far away: give rows drawn at random, or {keep_rows()}"
    )


@dataclass(frozen=True)
class DrawnRows:
    """A sample of the sketched rows, with the number of equal records and the inclusion probability of each."""

    rows: Double  # (S, columns)
    copies: Double  # (S,)
    chances: Double  # (S,)
    count: float  # of all records
    given: bool = False  # by the user, as a random sample

    @classmethod
    def kept(cls, sketch: Sketch) -> DrawnRows | None:
        """The sample of a sketch, if it has one."""
        kept = sketch.kept
        if kept is None or not len(kept):
            return None
        return cls(kept.rows, kept.units / 2.0**WEIGHT_BITS, kept.chances, float(sketch.count))

    @classmethod
    def sampled(cls, rows: Double, count: float) -> DrawnRows:
        """A random sample of `count` records with equal inclusion probabilities."""
        n = len(rows)
        return cls(rows, np.ones(n), np.full(n, min(1.0, n / count)), count, given=True)

    @property
    def open(self) -> np.ndarray:
        """Which rows were not certain to be included."""
        return self.chances < 1


@dataclass(frozen=True)
class Regressed:
    """A regression estimate of a mean by functions with known means."""

    mean: float  # over the records that were not certain to be included
    left: Double  # leave-one-out residuals of the rows
    slope: Double  # a, of all rows
    noise: float  # the variance of the noise in the known means, as it enters


def estimated_mean(known: KnownMeans, drawn: DrawnRows, values: Double, optimism: Double | None = None) -> RowMean:
    """The mean over all records of a function that has these values at the drawn rows.

    `optimism` is the bias of each value because the function was fitted to the rows.
    """
    there, copies, chances = drawn.open, drawn.copies, drawn.chances
    certain = float(copies[~there] @ values[~there])
    rest = drawn.count - float(copies[~there].sum())
    if not np.any(there) and not drawn.given:
        return RowMean(certain / drawn.count, 0.0)
    if drawn.given and len(values) >= drawn.count:
        away = known.features(drawn.rows).mean(axis=0) - known.values
        same = np.all(np.abs(away) <= ROUNDING * (1 + np.abs(known.values))) and len(values) == drawn.count
        return RowMean(float(values.mean()), 0.0) if same else RowMean(withheld=_no_random_sample())
    if np.sum(there) < LEAST_ROWS:
        few = f"{np.sum(there):,} rows beside the sketch are too few for a standard error"
        return RowMean(withheld=f"{few}: keep or give {10 * LEAST_ROWS:,} or more")
    features = known.features(drawn.rows)
    means = (known.values * drawn.count - copies[~there] @ features[~there]) / rest
    stand_for = copies[there] / chances[there]
    spread = (stand_for / rest) ** 2 * (1 - chances[there])
    if drawn.given and (doubt := _not_random(features, means, known, drawn)):
        return RowMean(withheld=doubt)
    found = regressed(features[there], means, values[there], spread, stand_for / rest, known)
    changes = np.zeros(len(spread)) if optimism is None else optimism[there]
    change = float(stand_for @ changes) / rest
    sampling, heavy = _chance(spread * (found.left + changes - change) ** 2)
    if heavy < LEAST_HEAVY_ROWS:
        return RowMean(withheld=_heavy_tail(heavy, drawn))
    variance = sampling + found.noise + change**2  # One fit may be twice as optimistic as others, or not at all.
    error = float(np.sqrt(variance))
    if drawn.given and known.relative_error_by_tails(drawn.rows) * values.std() > LARGEST_TAIL_ERROR * error:
        return RowMean(withheld=f"the sample lacks outlying rows, which the sketch has: {keep_rows()}")
    value = (certain + rest * (found.mean + change)) / drawn.count
    return RowMean(float(value), float(error * rest / drawn.count))


def _chance(parts: Double) -> tuple[float, float]:
    """The variance of a sum of terms with these variances, and the effective number of terms.

    With heavy tails few terms carry the variance, and others like them may not have been drawn.
    """
    total, squares = float(parts.sum()), float(np.sum(parts**2))
    if not squares > 0:
        return total, float(len(parts))
    return total + MORE_HEAVY_ROWS * squares / total, total**2 / squares


def _heavy_tail(heavy: float, drawn: DrawnRows) -> str:
    more = f"keep more rows: {called('design', '...', rows=2000)}"
    remedy = f"{keep_rows()}, which prefers rows far away" if drawn.given else more
    return (
        f"about {max(1, round(heavy))} of {len(drawn.rows):,} rows account for most of the estimate's variance, and "
        f"others like them may be missing: {remedy}"
    )


def _not_random(features: Double, means: Double, known: KnownMeans, drawn: DrawnRows) -> str:
    """Why given rows cannot be a random sample of the sketched ones; "" if they can."""
    n = len(features)
    deviations = features.std(axis=0)
    clear = deviations > LEAST_DEVIATION * (1 + np.abs(features).max(axis=0))
    m = int(np.sum(clear[: len(known.waves.values)]))
    away = (features.mean(axis=0) - means)[clear] / deviations[clear]
    chance = 1 / n - 1 / drawn.count + known.noise[clear] / deviations[clear] ** 2
    scaled = ((features - features.mean(axis=0))[:, clear] / deviations[clear])[:, :m]
    gram = scaled.T @ scaled / n if m <= n else scaled @ scaled.T / n
    freedom = m**2 / max(float(np.sum(gram**2)), 1e-300)  # of the waves, which depend on each other
    ratio = float(np.sum(away[:m] ** 2) / max(float(np.sum(chance[:m])), 1e-300))
    odd = chdtrc(freedom, ratio * freedom) < LEAST_P_VALUE or np.any(away[m:] ** 2 > MOST_DEVIATIONS**2 * chance[m:])
    return _no_random_sample() if odd else ""


def regressed(
    features: Double, means: Double, values: Double, spread: Double, stand_for: Double, known: KnownMeans
) -> Regressed:
    """The leave-one-out regression with the ridge of least variance, preferably not carried by few rows.

    With w the weights of rows, Q the features in units of their deviations, H = (Q'WQ + ridge)^-1 and leverages
    h_i = w_i (1 + Q_i' H Q_i), leaving out a row changes its residual to e_i = r_i / (1 - h_i), m by -w_i e_i and a by
    -H Q_i w_i e_i.
    """
    w = spread / spread.sum()
    middle = w @ features
    deviations = np.sqrt(w @ (features - middle) ** 2)
    clear = deviations > LEAST_DEVIATION * (1 + np.abs(features).max(axis=0))
    q, target = (features[:, clear] - middle[clear]) / deviations[clear], (means - middle)[clear] / deviations[clear]
    level = float(w @ values)
    roots = np.sqrt(w)
    scaled, rest = q * roots[:, None], roots * (values - level)
    if len(q) < q.shape[1]:  # the same numbers in the coordinates that the rows span
        squares, left = np.linalg.eigh(scaled @ scaled.T)
        above = squares > squares[-1] * 1e-12
        squares = squares[above]
        axes = scaled.T @ (left[:, above] / np.sqrt(squares))
    else:
        squares, axes = np.linalg.eigh(scaled.T @ scaled)
        squares = np.maximum(squares, 0)
    along, goal, projected = q @ axes, target @ axes, (rest @ scaled) @ axes
    best: tuple[tuple[bool, float], Regressed] | None = None
    for ridge in RIDGES:
        shrunk = 1 / (squares + ridge)
        leverage = np.minimum(w * (1 + along**2 @ shrunk), 1 - 1e-9)
        left_out = (values - level - along @ (shrunk * projected)) / (1 - leverage)
        predicted = level + goal @ (shrunk * projected) - w * left_out * (1 + along @ (shrunk * goal))
        a = np.zeros(len(means))
        a[clear] = axes @ (shrunk * projected) / deviations[clear]
        noise = known.noise_along(a)
        variance, heavy = _chance(spread * left_out**2)
        doubt = (heavy < LEAST_HEAVY_ROWS, variance + noise)
        if best is None or doubt < best[0]:
            mean = float(stand_for @ left_out + (stand_for / stand_for.sum()) @ predicted)
            best = (doubt, Regressed(mean, left_out, a, noise))
    assert best is not None
    return best[1]


RECORDS_PER_PARAMETER = 10  # With fewer, many densities fit a sketch (breast cancer: 0.25 covered).
REGRESSED_ROWS, AVERAGED_ROWS, ROWS_AT_A_TIME = 4096, 60_000, 4096


def mean_of_density(
    known: KnownMeans,
    density: Mixture,
    function: Callable[[Double], Double],
    count: float,
    noise_ratio: float,
    rng: np.random.Generator,
) -> RowMean | None:
    """The mean of a function over `count` records whose density fits the sketch; None if it is not determined.

    `noise_ratio` is that of the other noise of the sketch's values to the sampling error.
    """
    k, d = density.locations.shape
    if count < RECORDS_PER_PARAMETER * k * (2 * d + 1):
        return None
    rows = density.sample(REGRESSED_ROWS, rng)[0]
    equal = np.full(len(rows), 1 / len(rows))
    a = regressed(known.features(rows), known.values, function(rows), equal**2, equal, known).slope
    n, left, left_square = 0, 0.0, 0.0
    sums, squares = np.zeros((2, len(a)))
    while n < AVERAGED_ROWS:
        rows = density.sample(ROWS_AT_A_TIME, rng)[0]
        features = known.features(rows)
        rest = function(rows) - features @ a
        n, left, left_square = n + len(rows), left + float(rest.sum()), left_square + float(rest @ rest)
        sums, squares = sums + features.sum(axis=0), squares + np.sum(features**2, axis=0)
    spread = 1 / n + (1 + noise_ratio) / count
    means, first = sums / n, len(known.waves.values)
    variances = (np.maximum(squares / n - means**2, 0) * spread)[first:]
    if np.any((known.values - means)[first:] ** 2 > MOST_DEVIATIONS**2 * (variances + known.noise[first:]) + 1e-18):
        return None  # the density has other columns than the sketch's histograms
    variance = max(left_square / n - (left / n) ** 2, 0.0) * spread + known.noise_along(a)
    return RowMean(left / n + float(a @ known.values), float(np.sqrt(variance)))


#: folds of cross-validation: with five, the inertia of one Gaussian (k = 3) was too low by 0.7 of its errors
PARTS = 2

#: from weighted rows to a function that gives each row's value under the model fitted to those
Refit = Callable[[WeightedRows], Callable[[Double], Double]]


def fitted_optimism(sketch: Sketch, drawn: DrawnRows, refit: Refit, rng: np.random.Generator) -> Double:
    """The bias of each row's value because the model was fitted to it, by cross-validation; 0 for certain rows."""
    there = drawn.open
    slack = None if sketch.kept is None or drawn.given else sketch.kept.calibration_slack
    parts = np.where(there, rng.permutation(len(there)) % PARTS, -1)
    # the first sample has all rows, as no part has the number of parts
    whole, *others = calibrated(sketch, [_without(drawn, slack, parts != part) for part in (PARTS, *range(PARTS))], rng)
    before, changes = refit(whole)(drawn.rows), np.zeros(len(there))
    for part, sample in enumerate(others):
        own = parts == part
        if np.any(own):
            changes[own] = refit(sample)(drawn.rows[own]) - before[own]
    return changes * 2 / (2 + 1 / (PARTS - 1))


def _without(drawn: DrawnRows, slack: Double | None, left: np.ndarray) -> WeightedRows:
    """The remaining rows; those that were not certain to be included get the weights of the removed ones."""
    there, plain = drawn.open, drawn.copies / drawn.chances
    share = plain[there].sum() / max(float(plain[there & left].sum()), 1e-300)
    weights = np.where(there, plain * share, plain)[left]
    slack = None if slack is None else slack[left]
    return WeightedRows(drawn.rows[left], weights / weights.sum(), drawn.copies[left], slack)
