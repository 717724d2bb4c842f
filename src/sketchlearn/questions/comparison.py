"""`two_sample_test`: whether two sketches hold records of the same distribution."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.values import difference, positive, whole
from sketchlearn.features.abilities import Ability, needed_part
from sketchlearn.features.directions import SomeDirections
from sketchlearn.features.frequencies import Probed
from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.moments import part_of
from sketchlearn.inference.sampling_noise import Noise, Released, density_of, exceedance, real_parts
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.questions.column_drift import counts_drift
from sketchlearn.questions.marginals import ColumnCounts, share_by_features
from sketchlearn.rows.schemas.columns import INDICATE, Category, Column, Date, Flag, Number, Ordinal, Text
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.record_weights import distinct_records
from sketchlearn.sketch.sums import Sketch, require_enough_shares

LEVEL = 0.01  # the significance level of what is reported
NAMED_LEVELS = 3  # categories of a column, in a sentence
LEAST_CHANGE = 0.005  # of a proportion: smaller changes are not named beside another
CLEAR_CHANGE = 0.02  # of a proportion: smaller changes are shown with one decimal of their percentages
TIMES, DAYS, STEPS = "times", "days", "levels"
LARGEST_EXPONENT = 700.0  # of e, that floats hold


@dataclass(frozen=True)
class LevelShift:
    """The share of a level in the first sketch and in the second; "missing" is that of records without a value."""

    level: str
    before: float
    after: float

    @property
    def change(self) -> float:
        return self.after - self.before

    def __str__(self) -> str:
        decimals = 0 if abs(self.change) >= CLEAR_CHANGE else 1
        return f"{self.level} {100 * self.before:.{decimals}f} % -> {100 * self.after:.{decimals}f} %"


@dataclass(frozen=True)
class ColumnDrift:
    """How one column differs between two sketches, by its histograms or by the frequencies along its axis.

    Attributes
    ----------
    column : its name in the table, or "column 3".
    p_value : of this column by itself, times the number of columns.
    shift : about how far its values moved from the first sketch to the second, in `unit`; of levels, how much the share
        moved that moved most.
    spread_ratio : about how many times wider they are spread in the second one; of levels, 1.
    unit : "" for the unit of the data, "days", "times" (the values are multiplied by the shift), "levels" of an order.
    levels : of flags and categories, the shares of all levels, those that moved most first.
    missing : of others, the share of records without a value, if it moved.

    >>> print(ColumnDrift("age", 1e-9, 3.14159, 1.0), ColumnDrift("income", 1e-9, 1.1, 1.0, "times"))
    age (+3.14, spread x 1) income (x 1.1, spread x 1)
    >>> print(ColumnDrift("country", 1e-9, 0.13, 1.0, levels=(LevelShift("FR", 0.31, 0.44),)))
    country: FR 31 % -> 44 %
    """

    column: str
    p_value: float
    shift: float
    spread_ratio: float
    unit: str = ""
    levels: tuple[LevelShift, ...] = ()
    missing: LevelShift | None = None

    def __str__(self) -> str:
        if shares := self.named_shares:
            return f"{self.column}: {', '.join(map(str, shares))}"
        moved = f"{self.shift_in_words}, spread x {in_digits(self.spread_ratio, 3)}"
        return f"{self.column} ({moved})" if self.missing is None else f"{self.column} ({moved}; {self.missing})"

    @property
    def named_shares(self) -> tuple[LevelShift, ...]:
        """The shares that a sentence names; none where numbers moved."""
        if self.missing is not None and self.shift == 0:
            return (self.missing,)
        clear = [one for i, one in enumerate(self.levels) if i == 0 or abs(one.change) >= LEAST_CHANGE]
        return tuple(clear[:NAMED_LEVELS])

    @property
    def shift_in_words(self) -> str:
        """How far numbers moved, with the unit."""
        if self.unit == TIMES:
            return f"x {in_digits(self.shift, 3)}"
        sign, unit = "" if self.shift < 0 else "+", f" {self.unit}" if self.unit else ""
        return f"{sign}{in_digits(self.shift, 3)}{unit}"


#: how surprising the drift of one of a record's numbers is, the position of that number, and the drift
_NumberDrift = tuple[float, int, ColumnDrift]


def _by_table_column(found: Sequence[_NumberDrift], a: Sketch, b: Sketch) -> list[ColumnDrift]:
    """The drifts of numbers as those of the table's columns, the most surprising first.

    A column has the least p-value of its numbers, which are corrected for the number of all of them already. The
    proportions of categories come from the sketches, of histograms or of frequencies of the columns.
    """
    drifts = [(at, drift) for _, at, drift in sorted(found, key=lambda one: (one[2].p_value, -one[0]))]
    columns: Any = a.operator.columns
    if not isinstance(columns, SchemaColumns):
        return [drift for _, drift in drifts]
    groups: dict[str, list[tuple[int, ColumnDrift]]] = {}
    for position, drift in drifts:
        groups.setdefault(columns.column_at(position).name, []).append((position, drift))
    return [_table_column_drift(columns.column_at(own[0][0]), own, a, b) for own in groups.values()]


def _table_column_drift(column: Column, own: list[tuple[int, ColumnDrift]], a: Sketch, b: Sketch) -> ColumnDrift:
    """The drift of one column of a table, whose numbers come with the most surprising one first."""
    names: Any = a.operator.columns
    drift = replace(own[0][1], column=column.name)
    values = [(position, one) for position, one in own if names[position] in column.own_names]
    gap = next(((position, one) for position, one in own if names[position] not in column.own_names), None)
    if isinstance(column, Flag | Category):
        found = (_proportion_shift(column, position, a, b) for position, _ in own)
        shares = sorted((one for one in found if one is not None), key=lambda one: -abs(one.change))
        shift = shares[0].change if shares else drift.shift / column.weight
        return replace(drift, shift=shift, spread_ratio=1.0, levels=tuple(shares))
    missing = None
    if gap is not None and gap[1].p_value < LEVEL:
        missing = _proportion_shift(column, gap[0], a, b)
    if not values or (missing is not None and values[0][1].p_value >= LEVEL):
        return replace(drift, shift=0.0, spread_ratio=1.0, missing=missing)
    first, moved = values[0]
    shift, unit = _shift_in_units(column, names[first], moved.shift)
    return replace(drift, shift=shift, spread_ratio=moved.spread_ratio, unit=unit, missing=missing)


def _shift_in_units(column: Column, name: str, shift: float) -> tuple[float, str]:
    if isinstance(column, Number) and column.scaling == "log":
        return math.exp(min(shift * column.width, LARGEST_EXPONENT)), TIMES
    if isinstance(column, Text) and not column.n_words:
        return math.exp(min(shift / column.weight, LARGEST_EXPONENT)), TIMES
    if isinstance(column, Ordinal):
        return shift / column.weight * (len(column.levels) - 1), STEPS
    if isinstance(column, Date) and name == column.name:
        return shift * column.width, DAYS
    return (shift * column.width if isinstance(column, Number) else shift), ""


def _proportion_shift(column: Column, position: int, a: Sketch, b: Sketch) -> LevelShift | None:
    """The proportions of a category, or of missing values, in both sketches; None where neither part shows them."""
    names: Any = a.operator.columns
    of_missing = names[position] not in column.own_names
    word = names[position].removeprefix(f"{column.name}=")
    if of_missing or isinstance(column, Flag):
        word = "missing" if of_missing else "yes"
    size = column.weight_of_gap if of_missing else column.weight
    flagged = isinstance(column, Flag) and column.missing == INDICATE and not of_missing
    both = []
    for sketch in (a, b):
        missing = (_share_of(sketch, position + 1, column.weight_of_gap) or 0.0) if flagged else None
        both.append(_share_of(sketch, position, size, missing))
    before, after = both
    return None if before is None or after is None else LevelShift(word, before, after)


def _share_of(part: Sketch, position: int, size: float, missing: float | None = None) -> float | None:
    """The proportion of records whose number is `size`, where others have 0, or half of it if missing."""
    if isinstance(part.operator, Histograms):
        share = ColumnCounts.of(part, position).share_of(size, (0.0,) if missing is None else (0.0, size / 2))
        return None if share is None else share.value
    return share_by_features(part, part.operator, position, size, missing or 0.0)


SILENT_WEIGHT = 0.1  # Frequencies where the records' characteristic function vanishes count a little, too.
LEAST_VALUE_VARIANCE = 0.05  # that a value is measured in, in its mean square
CLEAR_DEVIATIONS = 3.0  # of noise: smaller values have no phase to speak of
NAMED_COLUMNS = 3  # in the sentence
DISTINCT_PER_GROUP = 100  # records; with 9 in 4 groups, 40 % of true hypotheses were rejected at the 5 % level
NARROWEST = 1e-9  # squared deviation of a column, in the lowest frequency's units, that ratios are taken of


@dataclass(frozen=True)
class Drift:
    """The result of a two-sample test of two sketches.

    Attributes
    ----------
    distance : the maximum mean discrepancy (MMD): the root mean square difference of the sketches' mean Fourier
        features (`Sketch.distance`, where the operator has no others).
    expected : the MMD that sampling error and private noise give on average, if the distributions are equal.
    statistic : n_a n_b / (n_a + n_b) times the weighted mean of |z_a - z_b|^2.
    p_value : probability that records of one distribution differ at least as much.
    n_a, n_b : numbers of records.
    columns : drift of each column of the table, the most surprising first; empty if the operator has neither
        histograms nor frequencies along the axes (those of `design` have).

    >>> print(Drift(0.031, 0.004, 12.0, 1e-9, 1000, 1000))
    The two sketches differ: MMD 0.031 where sampling error gives 0.004 (p < 1e-5).
    """

    distance: float
    expected: float
    statistic: float
    p_value: float
    n_a: int | float
    n_b: int | float
    columns: tuple[ColumnDrift, ...] = field(default=(), repr=False)

    @property
    def differ(self) -> bool:
        """Whether the difference is significant at the 1 % level."""
        return self.p_value < LEVEL

    def __str__(self) -> str:
        p = "p < 1e-5" if self.p_value < 1e-5 else f"p = {in_digits(self.p_value, 2)}"
        figures = f"MMD {in_digits(self.distance, 2)} where sampling error gives {in_digits(self.expected, 2)} ({p})"
        if not self.differ:
            return f"No significant difference between the two sketches: {figures}."
        moved = [str(column) for column in self.columns if column.p_value < LEVEL][:NAMED_COLUMNS]
        where = f" Most in {'; '.join(moved)}." if moved else ""
        return f"The two sketches differ: {figures}.{where}"


def two_sample_test(a: Sketch, b: Sketch, *, seed: int = 0) -> Drift:
    """Tests whether two sketches hold records of the same distribution: a two-sample test without the rows.

    The statistic is n_a n_b / (n_a + n_b) times the weighted mean of |z_a - z_b|^2, an estimate of the maximum mean
    discrepancy. Under the hypothesis that nothing changed it is a weighted sum of chi-squares; the weights are the
    eigenvalues of the values' covariance, for which a density is fitted to the pooled sketch. No row is needed.

    Parameters
    ----------
    a, b : sketches of one operator of Fourier features, alone or among others, whatever its wave. Their records must
        not overlap, and counts must count records that are independent: repeated or weighted rows make the test too
        sure. So does an operator with `subsample` where few rows are distinct, because equal rows contribute to the
        same frequencies.
    seed : of the fit, and of the records drawn from it.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X, Y, Z = (rng.standard_normal((5000, 2)) + [shift, 0] for shift in (0, 0, 0.2))
    >>> operator = skl.design(X, n_components=1)
    >>> print(skl.two_sample_test(operator.sketch(X), operator.sketch(Y)))
    No significant difference between the two sketches: MMD ... where sampling error gives ... (p = ...).
    >>> drift = skl.two_sample_test(operator.sketch(X), operator.sketch(Z))
    >>> drift.p_value < 1e-5, drift.columns[0].column, round(drift.columns[0].shift, 1)
    (True, 'column 0', 0.2)
    """
    rng = np.random.default_rng(whole("seed", seed, 0))
    tables = a, b
    a, b = checked_pair(a, b)
    groups = a.operator.n_groups
    if groups > 1 and (distinct := min(map(distinct_records, tables))) < DISTINCT_PER_GROUP * groups:
        warn_caller(
            f"only about {in_digits(distinct, 2)} records are distinct, and equal records contribute to the same "
            "frequencies, so that the p-value may be too small: compare sketches without subsampling"
        )
    pooled = a.merged(b, overlapping=True)
    # pools of several BLAS threads wait for each other: see SketchEstimator
    with one_blas_thread():
        density = density_of(pooled, rng)
        noise = Noise.of(pooled, density, rng)
        together = effective_count(a, b)
        private = (Released.of(a) + Released.of(b)).times(together)
        # Laplace noise that is large in one sketch is large in the mean of both, too: weights come from the density
        mean = pooled.mean if pooled.ledger is None else density.sketch(pooled.operator)
        weights = frequency_weights(mean, pooled, noise, private)
        squares = np.abs(a.mean - b.mean) ** 2
        statistic = together * float(weights @ squares)
        parts, drifts = (a, b), []
        counts = part_of(tables[0], Histograms), part_of(tables[1], Histograms)
        if counts[0] is not None and counts[1] is not None:
            parts = counts[0], counts[1]
            drifts = _counted_columns(*parts)
        elif a.operator.n_features == tables[0].operator.n_features:
            drifts = _probed_columns(a, b, noise, weights, private)
        return Drift(
            distance=float(np.sqrt(np.mean(squares))),
            expected=float(np.sqrt(np.mean(noise.variances + noise.parts * private.variances) / together)),
            statistic=statistic,
            p_value=exceedance(noise.spectrum(weights, private), statistic),
            n_a=a.count,
            n_b=b.count,
            columns=tuple(_by_table_column(drifts, *parts)),
        )


def frequency_weights(mean: NDArray[Any], pooled: Sketch, noise: Noise, private: Released) -> Double:
    """Weights of frequencies, with sum one: (|phi|^2 + 0.1) / (1 - |phi|^2), phi the characteristic function.

    A shift by delta changes phi by i (omega . delta) phi: it shows where phi has not vanished, in units of the value's
    standard deviation. The constant 0.1 is for finer differences. The weights come from the pooled sketch, whose noise
    is not correlated with that of the difference, so the null distribution is unchanged.
    """
    size = np.abs(mean) ** 2
    if pooled.ledger is None:
        signal = np.maximum(size - noise.variances / float(pooled.count), 0)
    else:  # a density follows some of the noise: what does not stand out of it must not count more
        signal = np.where(size > CLEAR_DEVIATIONS**2 * noise.parts * Released.of(pooled).variances, size, 0)
    square = np.maximum(size + noise.variances, 1e-300)
    variances = np.maximum(noise.variances + noise.parts * private.variances, LEAST_VALUE_VARIANCE * square)
    weights = (signal / square + SILENT_WEIGHT) / variances
    return np.asarray(weights / weights.sum())


def compared_part(sketch: Sketch) -> Sketch:
    """The sketch of Fourier features, of all columns or of a few directions, that comparisons go by."""
    part = needed_part(sketch, Ability.COMPARISONS, "a comparison")
    return part.operator.inner_sketch(part) if isinstance(part.operator, SomeDirections) else part


def checked_pair(a: Sketch, b: Sketch) -> tuple[Sketch, Sketch]:
    for name, given in (("first", a), ("second", b)):
        if not isinstance(given, Sketch):
            raise TypeError(f"expected two sketches, not {type(given).__name__}: sketch the rows first")
        if given.count == 0:
            raise ValueError(f"the {name} sketch is empty: there is nothing to compare")
        require_enough_shares(given.ledger)
    if reason := difference(a.operator, b.operator):
        raise ValueError(f"cannot compare sketches: {reason}")
    if (a.ledger is None) != (b.ledger is None):
        raise ValueError("one sketch is private and the other exact: compare two of the same kind")
    return compared_part(a), compared_part(b)


def effective_count(a: Sketch, b: Sketch) -> float:
    """n_a n_b / (n_a + n_b): a difference of two means has the variance of one over this many records."""
    return float(a.count) * float(b.count) / (float(a.count) + float(b.count))


def _counted_columns(a: Sketch, b: Sketch) -> list[_NumberDrift]:
    """The drift of each number of a record, from its histograms; of columns with gaps, that of the known values."""
    names, columns = a.operator.column_names, a.operator.columns
    kinds = enumerate(columns.schema.columns if isinstance(columns, SchemaColumns) else ())
    numbers = {columns.first_number(i): kind for i, kind in kinds if isinstance(kind, Number | Date)}
    found = []
    for column, name in enumerate(names):
        drift = counts_drift(*(_known_counts(sketch, column, numbers.get(column)) for sketch in (a, b)))
        p = min(1.0, len(names) * drift.p_value)
        found.append((drift.statistic, column, ColumnDrift(name, p, drift.shift, drift.spread_ratio)))
    return found


def _known_counts(counts: Sketch, position: int, column: Column | None) -> ColumnCounts:
    """The counts of a number of a record, without missing values, where they are counted exactly."""
    found = ColumnCounts.of(counts, position)
    if column is None or column.missing != INDICATE:
        return found
    gaps = ColumnCounts.of(counts, position + column.n_own).share_of(column.weight_of_gap, (0.0,))
    if gaps is None or not gaps.exact:
        return found
    return found.without(float(column.typical_numbers[0]), gaps.value)


def _probed_columns(a: Sketch, b: Sketch, noise: Noise, weights: Double, private: Released) -> list[_NumberDrift]:
    """The drift of each number of a record, from the probes along its axis; real waves have no phase."""
    operator: Any = a.operator
    if not isinstance(operator.law, Probed) or not operator.wave.complex:
        return []
    d = operator.n_features
    probes = min(len(operator.law.probes) * d, operator.n_frequencies)
    together = effective_count(a, b)
    first = abs(operator.wave.coefficient(1))
    found = []
    for column in range(min(d, probes)):
        own = np.arange(column, probes, d)
        lowest = own[np.argmin(operator.frequencies[column, own])]
        z_a, z_b = (sketch.mean[lowest] / first for sketch in (a, b))
        spread = noise.variances[lowest] + 2 * private.variances[lowest]
        if min(abs(z_a), abs(z_b)) < CLEAR_DEVIATIONS * np.sqrt(spread / first**2 / (2 * together)):
            continue
        only = np.zeros_like(weights)
        only[own] = weights[own]
        statistic = together * float(only @ np.abs(a.mean - b.mean) ** 2)
        spectrum = noise.spectrum(only, private)
        surprise = statistic / max(float(spectrum.sum()), 1e-300)
        p = min(1.0, d * exceedance(spectrum, statistic))
        shift = float(np.angle(z_b * np.conj(z_a)) / operator.frequencies[column, lowest])
        # |phi| is about exp(-omega^2 s^2 / 2)
        before, after = (max(-np.log(abs(z)), NARROWEST) for z in (z_a, z_b))
        ratio = float(np.sqrt(after / before))
        found.append((surprise, column, ColumnDrift(operator.column_names[column], p, shift, ratio)))
    return found


@dataclass(frozen=True)
class Distance:
    """A maximum mean discrepancy (MMD) of two distributions, with its confidence interval.

    >>> print(Distance(0.12, 0.1, 0.14, 0.95))
    0.12 (95 % interval 0.1 to 0.14)
    """

    value: float
    low: float
    high: float
    confidence: float

    def __str__(self) -> str:
        value, low, high = (in_digits(number, 3) for number in (self.value, self.low, self.high))
        return f"{value} ({100 * self.confidence:g} % interval {low} to {high})"


def distance(a: Sketch, b: Sketch, *, confidence: float = 0.95, seed: int = 0) -> Distance:
    """The maximum mean discrepancy D of two distributions, D^2 = mean of |phi_a - phi_b|^2, with its interval.

    The mean is over frequencies. Unlike `Sketch.distance`, which compares the two sketches as they are, D is corrected
    for sampling error: it is about 0 for two sketches of the same distribution.

    The mean square T of z_a - z_b is a quadratic form of Gaussian noise around D^2. Its distribution for a given D
    follows from its first cumulants (Liu, Tang and Zhang 2009, 10.1016/j.csda.2008.11.025); the interval holds all D
    for which T is not significant.

    Parameters
    ----------
    a, b : sketches of one operator of Fourier features, alone or among others, whose records do not overlap.
    confidence : the confidence level of the interval.
    seed : of the densities by which the noise of features is correlated.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((10_000, 2))
    >>> operator = skl.design(X, n_components=1)
    >>> print(skl.distance(operator.sketch(X[:5000]), operator.sketch(X[5000:] + [0.5, 0])))
    0.161 (95 % interval 0.147 to 0.175)
    """
    if not positive("confidence", confidence) < 1:
        raise ValueError(f"confidence must lie between 0 and 1, not {confidence!r}")
    rng = np.random.default_rng(whole("seed", seed, 0))
    a, b = checked_pair(a, b)
    with one_blas_thread():
        noises = [(Noise.of(sketch, density_of(sketch, rng), rng), float(sketch.count)) for sketch in (a, b)]
        variances = sum(noise.variances / n for noise, n in noises)
        rows = sum(len(noise.deviations) for noise, _ in noises)
        deviations = [noise.deviations * np.sqrt(rows / len(noise.deviations) / n) for noise, n in noises]
        mean = np.mean([noise.mean for noise, _ in noises], axis=0)
        noise = Noise(np.asarray(variances), np.concatenate(deviations).astype(np.float32), mean)  # of z_a - z_b
        m = len(noise.variances)
        released = Released.of(a) + Released.of(b)
        spectrum = noise.spectrum(np.full(m, 1 / m), released)
        gap = real_parts(a.mean - b.mean).astype(np.float64)
        # gap' Sigma gap: T's noise along its own direction
        private = float(gap**2 @ np.tile(released.variances, noise.parts))
        along = (float(np.mean((noise.deviations @ gap) ** 2)) + private) / m**2
    seen = float(gap @ gap) / m
    null = _StatisticDistribution(spectrum, seen, along)
    tail = (1 - confidence) / 2
    # sketches that agree far better than sampling error allows are no nearer than those that agree a little better
    usual = _StatisticDistribution(spectrum, max(seen, null.usual(2 * tail)), along)
    squares = [null.solve(tail), max(seen - null.powers[0], 0.0), usual.solve(1 - tail)]
    low, value, high = np.sqrt(squares).tolist()
    return Distance(value, low, high, float(confidence))


class _StatisticDistribution:
    """The distribution of T for each D^2, by its cumulants c_k = tr S^k + k d' S^(k-1) d, S the covariance, |d| = D."""

    def __init__(self, spectrum: Double, seen: float, along: float) -> None:
        self.powers = [float(np.sum(spectrum**k)) for k in (1, 2, 3, 4)]
        self.seen = seen
        # d' S d / |d|^2: the noise adds tr S^2 to its estimate; what is left of a small gap tells nothing
        typical = self.powers[1] / max(self.powers[0], 1e-300)
        excess, size = along - self.powers[1], seen - self.powers[0]
        trust = np.clip(size / max(seen, 1e-300), 0, 1)
        direction = np.clip(excess / size, 0, float(spectrum.max())) if size > 0 else typical
        self.direction = float(trust * direction + (1 - trust) * typical)

    def above(self, square: float, seen: float | None = None) -> float:
        """P(T > what was seen), if D^2 is `square`."""
        from scipy.stats import ncx2  # takes as long to import as all else that a question needs

        seen, s = self.seen if seen is None else seen, self.direction
        c1, c2, c3, c4 = (power + (k + 1) * s**k * square for k, power in enumerate(self.powers))
        if c2 <= 0:
            return float(square > seen)
        skewness, kurtosis = c3 / c2**1.5, c4 / c2**2
        if skewness**2 > kurtosis:
            root = 1 / (skewness - np.sqrt(skewness**2 - kurtosis))
            shift = skewness * root**3 - root**2
            freedom = root**2 - 2 * shift
        else:
            shift, freedom = 0.0, c2**3 / c3**2
        away = (seen - c1) / np.sqrt(2 * c2)
        value = away * np.sqrt(2 * (freedom + 2 * shift)) + freedom + shift
        found = float(ncx2.sf(value, freedom, shift if shift > 0 else 1e-12))
        return found if np.isfinite(found) else float(ndtr(-away))

    def usual(self, probability: float) -> float:
        """The quantile of T for two sketches of one distribution."""
        low, high = 0.0, self.powers[0]
        for _ in range(40):
            middle = (low + high) / 2
            low, high = (middle, high) if self.above(0.0, middle) > 1 - probability else (low, middle)
        return low

    def solve(self, probability: float) -> float:
        """The D^2 for which T exceeds what was seen with this probability; 0 if there is none."""
        if self.above(0.0) >= probability:
            return 0.0
        high = max(self.seen, self.powers[0])
        while self.above(high) < probability:
            high *= 2
        return float(brentq(lambda square: self.above(square) - probability, 0.0, high, xtol=1e-12 * high))


@dataclass(frozen=True)
class Change:
    """The result of a `ChangeDetector` for the newest sketch."""

    step: int  # number of the sketch, from 0
    alarm: bool  # whether the records changed
    since: int | None  # the first sketch of the changed records, if there is an alarm
    p_value: float  # of the most surprising comparison, times the number of comparisons
    drift: Drift | None  # that comparison; None while there is nothing to compare with

    def __str__(self) -> str:
        if self.drift is None:
            return f"{self.step}: nothing to compare with yet"
        if not self.alarm:
            return f"{self.step}: no change (p = {in_digits(self.p_value, 2)})"
        return f"{self.step}: changed since {self.since}. {self.drift}"


class ChangeDetector:
    """Compares the newest sketches of a stream with all sketches before them since the last change.

    At each step, `two_sample_test` compares the newest sketch, the newest two, four, ... with those before: it detects
    a large change at once, and a small one after some steps. The comparisons share the level. After an alarm, further
    sketches are compared with the changed records.

    Sketches must have one distribution while nothing changes: where nights differ from days, give it sums of days.

    Parameters
    ----------
    level : the rate of false alarms, per step.
    windows : numbers of newest sketches that are compared with those before.
    seed : of the tests.
    history : earlier sketches of the stream since its last change, oldest first: compared with, but not tested again.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> days = [rng.standard_normal((500, 2)) + (1 if day >= 5 else 0) for day in range(8)]
    >>> operator = skl.design(days[0], n_components=1)
    >>> detector = skl.ChangeDetector()
    >>> [change.since for day in days if (change := detector.update(operator.sketch(day))).alarm]
    [5]
    """

    def __init__(
        self,
        *,
        level: float = 0.001,
        windows: Sequence[int] = (1, 2, 4, 8),
        seed: int = 0,
        history: Sequence[Sketch] = (),
    ) -> None:
        if not positive("level", level) < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level!r}")
        self.level = float(level)
        self.windows = tuple(sorted({whole("each of the windows", window) for window in windows}))
        if not self.windows:
            raise ValueError("windows must name at least one number of sketches")
        self.seed = whole("seed", seed, 0)
        #: what was said, step by step
        self.changes: list[Change] = []
        self._before: list[Sketch] = []  # the sum of those older than all windows, if there are any
        self._recent = list(history)
        self._steps_before = len(history)
        self._sum_older()

    def update(self, sketch: Sketch) -> Change:
        """Adds the next sketch of the stream, and tests whether the records changed."""
        if not isinstance(sketch, Sketch):
            raise TypeError(f"update takes a sketch, not {type(sketch).__name__}: sketch the rows first")
        if sketch.count == 0:
            raise ValueError("the sketch is empty: skip steps without records")
        step = self._steps_before + len(self.changes)
        recent = [*self._recent, sketch]
        found = []
        for window in self.windows:
            older = [*self._before, *recent[:-window]]
            if older and window <= len(recent):
                found.append((two_sample_test(_total(older), _total(recent[-window:]), seed=self.seed), window))
        drift, window = min(found, key=lambda pair: pair[0].p_value, default=(None, 0))
        p = 1.0 if drift is None else min(1.0, len(found) * drift.p_value)
        alarm = drift is not None and p < self.level
        self._before, self._recent = ([], recent[-window:]) if alarm else (self._before, recent)
        self._sum_older()
        self.changes.append(Change(step, alarm, step - window + 1 if alarm else None, p, drift))
        return self.changes[-1]

    def _sum_older(self) -> None:
        older = [*self._before, *self._recent[: -max(self.windows)]]
        self._before = [_total(older)] if older else []
        self._recent = self._recent[-max(self.windows) :]


def _total(sketches: list[Sketch]) -> Sketch:
    return reduce(lambda a, b: a.merged(b, overlapping=True), sketches)
