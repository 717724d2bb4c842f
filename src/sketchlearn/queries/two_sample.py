"""`two_sample_test`: whether two sketches hold records of the same distribution."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.special import ndtr

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.decoders.problems.decoding_target import fourier_part
from sketchlearn.frequencies import Probed
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import Histograms
from sketchlearn.plain_digits import in_digits
from sketchlearn.private_sums import require_enough_shares
from sketchlearn.queries.column_drift import LEVEL, ColumnDrift, by_table_column
from sketchlearn.queries.column_histograms import Counted
from sketchlearn.queries.sampling_noise import Noise, Released, density_of
from sketchlearn.record_weights import distinct_records
from sketchlearn.sketch import Sketch
from sketchlearn.values import difference, whole

SILENT_WEIGHT = 0.1  # Frequencies where the records' characteristic function vanishes count a little, too.
LEAST_VARIANCE = 0.05  # that a value is measured in, in its mean square
CLEAR_DEVIATIONS = 3.0  # of noise: smaller values have no phase to speak of
NAMED_COLUMNS = 3  # in the sentence
DISTINCT_PER_GROUP = 100  # records; with 9 in 4 groups, 40 % of true hypotheses were rejected at the 5 % level
NARROWEST = 1e-9  # squared deviation of a column, in the lowest frequency's units, that ratios are taken of
NEAR_MEAN = 1e-3  # deviations: the saddlepoint formula is 0 / 0 there, and is interpolated
NEGLIGIBLE_WEIGHT = 1e-12  # of a chi-square, in the largest


@dataclass(frozen=True)
class Drift:
    """What two sketches say about whether their records come from the same distribution.

    Attributes
    ----------
    distance : root mean square difference of the sketches' mean Fourier features (`Sketch.distance`, where the
        operator has no others).
    expected : the distance that chance alone would give.
    statistic : n_a n_b / (n_a + n_b) times the weighted mean of |z_a - z_b|^2.
    p_value : probability that records of one distribution differ at least as much.
    n_a, n_b : numbers of records.
    columns : drift of each column of the table, the most surprising first; empty if the operator has no frequencies
        along the axes (those of `design` have).

    >>> print(Drift(0.031, 0.004, 12.0, 1e-9, 1000, 1000))
    The two sketches differ: distance 0.031 where chance gives 0.004 (p < 1e-5).
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
        """Whether chance explains the distance less than once in a hundred times."""
        return self.p_value < LEVEL

    def __str__(self) -> str:
        p = "p < 1e-5" if self.p_value < 1e-5 else f"p = {in_digits(self.p_value, 2)}"
        figures = f"distance {in_digits(self.distance, 2)} where chance gives {in_digits(self.expected, 2)} ({p})"
        if not self.differ:
            return f"No difference is seen between the two sketches: {figures}."
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
    No difference is seen between the two sketches: distance ... where chance gives ... (p = ...).
    >>> drift = skl.two_sample_test(operator.sketch(X), operator.sketch(Z))
    >>> drift.p_value < 1e-5, drift.columns[0].column, round(drift.columns[0].shift, 1)
    (True, 'column 0', 0.2)
    """
    rng = np.random.default_rng(whole("seed", seed, 0))
    distinct = min(
        (distinct_records(given) for given in (a, b) if isinstance(given, Sketch) and given.count), default=0
    )
    tables = a, b
    a, b = checked_pair(a, b)
    if (groups := fourier_part(a)[1].n_groups) > 1 and distinct < DISTINCT_PER_GROUP * groups:
        warn_caller(
            f"few records are distinct, about {in_digits(distinct, 2)}, and equal ones contribute to the same "
            "frequencies: the p-value may be too small; compare sketches without subsampling"
        )
    n_a, n_b, pooled = float(a.count), float(b.count), a.merged(b, overlapping=True)
    # pools of several BLAS threads wait for each other: see SketchEstimator
    with one_blas_thread():
        density = density_of(pooled, rng)
        noise = Noise.of(pooled, density, rng)
        together = n_a * n_b / (n_a + n_b)
        private = (Released.of(a) + Released.of(b)).times(together)
        # Laplace noise that is large in one sketch is large in the mean of both, too: weights come from the density
        mean = pooled.mean if pooled.ledger is None else density.sketch(pooled.operator)  # type: ignore[arg-type]
        weights = frequency_weights(mean, pooled, noise, private)
        squares = np.abs(a.mean - b.mean) ** 2
        statistic = together * float(weights @ squares)
        return Drift(
            distance=float(np.sqrt(np.mean(squares))),
            expected=float(np.sqrt(np.mean(noise.variances + noise.parts * private.variances) / together)),
            statistic=statistic,
            p_value=exceedance(noise.spectrum(weights, private), statistic),
            n_a=a.count,
            n_b=b.count,
            columns=_columns(a, b, noise, weights, private, _counted(*tables)),
        )


def frequency_weights(mean: NDArray[Any], pooled: Sketch, noise: Noise, private: Released) -> Double:
    """How much each frequency counts, with sum one: (|phi|^2 + 0.1) / (1 - |phi|^2), phi the characteristic function.

    A shift by delta changes phi by i (omega . delta) phi. So differences are seen where phi has not yet vanished, and
    in units of the value's own deviation; the constant keeps an eye on finer ones. The weights come from the pooled
    sketch, whose noise is not correlated with that of the difference, so the null law stays what it is.
    """
    size = np.abs(mean) ** 2
    if pooled.ledger is None:
        signal = np.maximum(size - noise.variances / float(pooled.count), 0)
    else:  # a density follows some of the noise: what does not stand out of it must not count more
        signal = np.where(size > CLEAR_DEVIATIONS**2 * noise.parts * Released.of(pooled).variances, size, 0)
    square = np.maximum(size + noise.variances, 1e-300)
    variances = np.maximum(noise.variances + noise.parts * private.variances, LEAST_VARIANCE * square)
    weights = (signal / square + SILENT_WEIGHT) / variances
    return np.asarray(weights / weights.sum())


def checked_pair(a: Sketch, b: Sketch) -> tuple[Sketch, Sketch]:
    for given in (a, b):
        if not isinstance(given, Sketch):
            raise TypeError(f"two sketches are compared, not {type(given).__name__}: sketch the rows first")
    reason = difference(a.operator, b.operator)
    if reason:
        raise ValueError(f"cannot compare sketches: {reason}")
    for name, given in (("first", a), ("second", b)):
        if given.count == 0:
            raise ValueError(f"the {name} sketch is empty: there is nothing to compare")
        require_enough_shares(given.ledger)
    if (a.ledger is None) != (b.ledger is None):
        raise ValueError("one sketch is private and the other exact: compare two of the same kind")
    return fourier_part(a)[0], fourier_part(b)[0]


def _counted(a: Sketch, b: Sketch) -> dict[int, tuple[float, float]]:
    """How far the mean of each column moved, and how many times wider it is spread, where histograms tell."""
    histograms = part_of(a, Histograms), part_of(b, Histograms)
    if histograms[0] is None or histograms[1] is None:
        return {}
    found = {}
    for column in range(len(histograms[0].operator.edges)):  # type: ignore[attr-defined]
        before, after = (Counted.of(part, column).mean_and_variance() for part in histograms if part is not None)
        if before is not None and after is not None and min(before[1], after[1]) > 0:
            found[column] = (after[0] - before[0], float(np.sqrt(after[1] / before[1])))
    return found


def _columns(
    a: Sketch, b: Sketch, noise: Noise, weights: Double, private: Released, counted: dict[int, tuple[float, float]]
) -> tuple[ColumnDrift, ...]:
    """The drift of each column, from the probes along its axis; a real wave has no phase to read shifts from.

    How far it moved is what histograms count, where there are any: of a skewed column, a phase follows its bulk.
    """
    operator = fourier_part(a)[1]
    if not isinstance(operator.law, Probed) or not operator.wave.complex:
        return ()
    d = operator.n_features
    probes = min(len(operator.law.probes) * d, operator.n_frequencies)
    together = float(a.count) * float(b.count) / (float(a.count) + float(b.count))
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
        shift, ratio = counted.get(column, (shift, float(np.sqrt(after / before))))
        found.append((surprise, column, ColumnDrift(operator.column_names[column], p, shift, ratio)))
    found.sort(key=lambda one: (one[2].p_value, -one[0]))
    return tuple(by_table_column([(column, drift) for _, column, drift in found], a, b, operator))


def exceedance(weights: Double, value: float) -> float:
    """P(sum of weights_l g_l^2 > value), g_l standard normal: Lugannani and Rice's saddlepoint formula.

    Its relative error stays at a few per cent however small the probability is (Kuonen 1999, 10.1093/biomet/86.4.929).

    >>> round(exceedance(np.ones(10), 18.307), 3)  # the 95 % quantile of chi-square with 10 degrees of freedom
    0.05
    """
    largest = float(np.max(weights, initial=0.0))
    if largest <= 0 or value <= 0:
        return float(value <= 0)
    weights = weights[weights > NEGLIGIBLE_WEIGHT * largest] / largest
    value /= largest
    mean, deviation = float(np.sum(weights)), float(np.sqrt(2 * np.sum(weights**2)))
    away = (value - mean) / deviation
    if abs(away) >= NEAR_MEAN:
        return _saddlepoint(weights, value)
    sides = [_saddlepoint(weights, mean + sign * NEAR_MEAN * deviation) for sign in (-1, 1)]
    return float(np.interp(away, [-NEAR_MEAN, NEAR_MEAN], sides))


def _saddlepoint(weights: Double, value: float) -> float:
    """For weights of at most 1, of which one is 1, and a value that is not their sum."""

    def slope(t: float) -> float:
        return float(np.sum(weights / (1 - 2 * t * weights))) - value

    # the slope of the cumulant generating function rises from 0 at minus infinity to infinity at t = 1/2
    high = 0.5 - 0.25 / (value + len(weights) + 1)
    while slope(high) < 0:
        high = 0.25 + 0.5 * high
    low = min(-1.0, -float(len(weights)) / value)
    t = float(brentq(slope, low, high, xtol=1e-15, rtol=1e-14))
    cumulant = -0.5 * float(np.sum(np.log1p(-2 * t * weights)))
    curvature = 2 * float(np.sum((weights / (1 - 2 * t * weights)) ** 2))
    root = np.sign(t) * np.sqrt(max(2 * (t * value - cumulant), 0.0))
    ratio = t * np.sqrt(curvature)
    # as r* = r + log(u / r) / r, which keeps its relative precision in the far tail
    return float(ndtr(-(root + np.log(ratio / root) / root)))
