"""Fourier features for clusters and mixtures: the number and distribution of frequencies, and histograms."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.randomness import Stream
from sketchlearn.core.values import whole
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.design.sample_summary import (
    MOST_ROWS,
    Summary,
    cluster_shapes,
    deviations,
    summarize,
    thinned,
)
from sketchlearn.features.bounded import CLIP, VALUE_BITS
from sketchlearn.features.composed import concatenate
from sketchlearn.features.directions import DIRECTION_BITS, PLACE_BITS, SomeDirections, packed
from sketchlearn.features.families import AUTO
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import AdaptedRadius, Gaussian, LogUniform, Mixture, Probed, Shaped
from sketchlearn.features.histograms import MOST_BINS, Histograms
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.outline import Outline
from sketchlearn.features.products import CrossFeatures
from sketchlearn.features.waves import Exponential, Wave
from sketchlearn.inference.decoders.problem import FREQUENCIES_PER_PARAMETER, WIDTH_FACTOR, coarseness, read
from sketchlearn.inference.decoders.target import Target, fourier_part
from sketchlearn.privacy.forecast import Forecast, forecast
from sketchlearn.privacy.noise_plan import checked_budget
from sketchlearn.sketch.ledger import ADD_REMOVE, check_neighbors
from sketchlearn.sketch.priority_sample import Keeping
from sketchlearn.sketch.sums import Sketch

LOOSE_BOUNDS_FACTOR = 2.0  # Bounds may be that many times too wide, and more at a price.
SHORTEST = 4.0  # length of the lowest frequencies, times half the width of the bounds
SHORTEST_PER_COLUMN = 1.26  # the same, per square root of a column: records fill more of a box of few columns
LEAST_FREQUENCIES, MOST_FREQUENCIES = 3, 10  # per coordinate of a center; with delta > 0, per parameter
PREFERRED_FREQUENCIES = 4  # per coordinate: MNIST at epsilon 1 had 1.06 (ten draws), with three 1.2 (three draws)
ERROR_FACTOR = 2.0  # The error that was seen is that many times the one of a center that is all alone.
# The error that more frequencies may cost, of noise that includes the count's share: with 0.02, tables at epsilon 1 had
# 1.04 instead of 1.02; with 0.001, five clusters in three columns at epsilon 0.3 had 1.0046 instead of 1.0029 (of ten).
ERROR_PRICE = 0.001042
PREFERRED_PRICE = 0.003126  # the same of the preferred ones, which real data need more than Gaussian clusters do
SHAPES_PRICE = 0.0003126  # the same, where shapes of clusters are asked for: the likelihood is sensitive to them
MOST_ERROR_FOR_HISTOGRAMS = 0.052  # Up to this error, histograms are worth their share.
MOST_MOMENT_NOISE = 0.06  # deviation in squared bounds: beyond it, few correlations show


@dataclass(frozen=True)
class Budget:
    """What a private release will spend, and about how many records it will have."""

    n_rows: int
    epsilon: float
    delta: float
    neighbors: str

    def size(self, n_components: int, n_parameters: int, waves_of: Callable[[int], FourierFeatures]) -> int:
        """The number of frequencies.

        Under pure epsilon, the noise on each grows with their number, and so does the error; but a search needs some
        frequencies per parameter, and more are a safeguard. With delta > 0, the error does not depend on their number,
        as the noise on a mean grows with its root. (Under `subsample` it grows with the number itself; designs have
        none.)
        """
        if self.delta:
            return MOST_FREQUENCIES * n_parameters
        centers = n_components * waves_of(1).n_features
        fewest, most = (max(n * centers, n_parameters) for n in (LEAST_FREQUENCIES, MOST_FREQUENCIES))
        price = ERROR_PRICE if n_parameters <= centers else SHAPES_PRICE
        preferred = PREFERRED_FREQUENCIES * centers if n_parameters <= centers else 0
        waves = waves_of(most)
        # Waves that need more noise have harmonics, too, against which frequencies help: with as few as their own error
        # allows (90 instead of 163), clusters from private sawtooth sketches had 1.25 instead of 1.13.
        errors = [self.error(n_components, w) for w in (waves, replace(waves, wave=Exponential()))]
        affordable = math.floor(most * price / min(errors))
        preferred = min(preferred, math.floor(most * PREFERRED_PRICE / min(errors)))
        return min(max(affordable, preferred, fewest), most)

    def shows(self, n_components: int, waves: FourierFeatures) -> bool:
        """Whether clusters show so well in these frequencies that histograms are worth their share of the budget.

        Under pure epsilon that share costs most where clusters barely show: k = d = 10, epsilon n = 10^4 went from an
        RSSE of 1.135 to 1.7.
        """
        return bool(self.delta) or self.error(n_components, waves) <= MOST_ERROR_FOR_HISTOGRAMS

    def shows_moments(self, operator: Operator) -> bool:
        """Whether the second moments of this operator are worth their share of the budget."""
        if not self.delta:
            return False  # Pure epsilon counts each number.
        parts = zip(operator.side_by_side, self.forecast(operator).parts, strict=True)
        return all(
            found.mean_deviation <= MOST_MOMENT_NOISE for part, found in parts if isinstance(part, SecondMoments)
        )

    def error(self, n_components: int, waves: FourierFeatures) -> float:
        """Squared error of a center that the noise causes, in each column, in squared widths of its cluster.

        It is also the relative increase of the k-means cost. A cluster of weight 1 / k and width s shows in
        exp(-|omega|^2 s^2 / 2) / k, whose slope along a column has the mean square |omega|^2 exp(-|omega|^2 s^2) /
        (k^2 d), half of it in each part of a complex number; over lengths in a range of ratio r that averages to
        1 / (2 log(r) k^2 d s^2).
        """
        (part,) = self.forecast(waves, n_components).parts
        assert part.noise_over_signal is not None
        shortest, longest = lengths(n_components, waves.n_features)
        slope = 1 / (4 * math.log(longest / shortest) * waves.n_features)  # of a number, in squared signals
        return ERROR_FACTOR * part.noise_over_signal**2 / (part.numbers * slope)

    def forecast(self, operator: Operator, n_components: int | None = None) -> Forecast:
        return forecast(operator, n_components=n_components, **asdict(self))


def lengths(n_components: int, n_features: int) -> tuple[float, float]:
    """The least and the greatest length of frequencies, times half the width of the bounds."""
    shortest = min(SHORTEST, SHORTEST_PER_COLUMN * math.sqrt(n_features))
    return shortest, 16 * LOOSE_BOUNDS_FACTOR * n_components ** (1 / n_features)


def budget_of(bounds: Any, n_rows: int | None, epsilon: float | None, delta: float, neighbors: str) -> Budget | None:
    """The budget of a private release; None if no epsilon is given."""
    if epsilon is None:
        if delta or neighbors != ADD_REMOVE or (n_rows is not None and bounds is not None):
            given = "delta and neighbors" if bounds is None else f"{Parameter('n_rows')}, delta and neighbors"
            raise ValueError(f"{given} are for private releases: give epsilon, too")
        return None
    if bounds is None or n_rows is None:
        raise InvalidValueError(
            "a design for private releases looks at no rows", f"give bounds, and {Parameter('n_rows')} (an estimate)"
        )
    return Budget(whole("n_rows", n_rows), *checked_budget(epsilon, delta), check_neighbors(neighbors))


LEAST_PER_PARAMETER = 2
MOST_NUMBERS = 10_000_000  # of the matrix of frequencies, where fewer frequencies would do
LENGTH_FACTOR = 1.34  # A mixture's frequencies are that much longer than its clusters' own scale suggests.
LOW_PROBES = (0.3, 0.6, 1.2)  # Heavy tails disturb low ones least, and harmonics of a wave disturb them most.
HIGH_PROBES = (1.2, 1.6, 2.0)
MOST_SCALES = 50
LOCAL_SHARE = 0.5  # of a mixture's frequencies: they are drawn in the metric of a cluster
LOCAL_SCALES = (1.0, 1.7, 3.0)  # in a cluster's own: tails, and how clusters lie to each other, show too
LOCAL_SCALES_WITH_HARMONICS = (0.7,)  # Harmonics of a wave disturb long frequencies least.
AXES_SHARE = 0.5  # of the frequencies, for histograms of columns
HALF_PERIOD = 1.25  # of those along the axes, in the largest distances of the sample from its mean
BROAD, BROAD_LENGTHS = 75, (0.3, 3.0)  # frequencies that show how columns are correlated; radians per deviation
LENGTHS_IN_BOUNDS = (0.7, 6.0)  # of broad frequencies, per half the width of the bounds
STREAM_SPREAD_FACTOR = 16.0  # The records of a stream may spread that many times as far as its first rows.


def size_of(k: int, d: int, task: str, wave: Wave) -> int:
    """Frequencies in proportion to the parameters, fewer where the matrix of frequencies would be huge."""
    parameters = n_parameters(k, d, task)
    most = max(LEAST_PER_PARAMETER * parameters, MOST_NUMBERS // d)
    return math.ceil(min(FREQUENCIES_PER_PARAMETER * parameters, most) * times_as_many(wave))


def times_as_many(wave: Wave) -> float:
    """How many times as many frequencies as the exponential a nonlinearity needs."""
    return 1.0 if not wave.dithered else 1.25 if wave.complex else 2.0


def n_parameters(k: int, d: int, task: str) -> int:
    """Coordinates of centers, or parameters of a mixture."""
    shape = {"kmeans": 0, "mixture": d, "mixture-full": d * (d + 1) // 2, "stable": d + 1, "histograms": 0}[task]
    return k * d if shape == 0 else k * (1 + d + shape)


def law_of_clusters(summary: Summary, k: int, m: int, task: str, wave: Wave) -> Probed:
    """The distribution of frequencies that resolve the sample's clusters, after probes along the axes."""
    d = len(summary.mean)
    probes = HIGH_PROBES if wave.harmonics() else LOW_PROBES
    if task == "kmeans":
        scale = math.sqrt(summary.cost * coarseness(k, d, m))
        return Probed(Gaussian(scale), units=plain(summary.units), spread=plain(summary.spread), probes=probes)
    # in units of each column's deviation within clusters, one scale per cluster
    units = summary.within / np.exp(np.mean(np.log(summary.within)))
    factor = np.mean((summary.units / units) ** 2)
    costs = np.quantile(summary.cluster_costs * factor, np.linspace(0, 1, min(k, MOST_SCALES)))
    scales = np.sqrt(costs) / LENGTH_FACTOR
    law = Mixture(tuple(AdaptedRadius(float(s)) for s in scales))
    return Probed(law, units=plain(units), spread=plain(summary.spread), probes=probes)


def broadened(law: Probed, width: float, lengths: tuple[float, float], shares: tuple[int, int]) -> Probed:
    """The distribution with a share of low frequencies for data of this width; lengths are in radians per width."""
    waves = LogUniform(width / lengths[1], width / lengths[0])
    return replace(law, law=Mixture((law.law, waves), shares=shares))


def shaped(law: Probed, rows: Double, k: int, wave: Wave, seed: int, *, full: bool) -> Probed:
    """The distribution with a share of frequencies in the metric of the sample's clusters, at several scales."""
    shapes = cluster_shapes(rows / np.array(law.units), k, seed, full=full)
    if not shapes:
        return law
    scale = math.sqrt(rows.shape[1]) / LENGTH_FACTOR
    factors = LOCAL_SCALES_WITH_HARMONICS if wave.harmonics() else LOCAL_SCALES
    local = Mixture(tuple(AdaptedRadius(scale * factor) for factor in factors))
    return replace(law, law=Shaped(law.law, local, shapes, share=LOCAL_SHARE))


def with_axes(law: Probed, rows: Double, m: int) -> Probed:
    """The distribution with a share of frequencies on grids along the axes, with periods wider than the sample."""
    reach = np.maximum(np.max(np.abs(rows - rows.mean(axis=0)), axis=0), np.array(law.spread))
    n = max(1, int(AXES_SHARE * m / rows.shape[1]))
    return replace(law, spread=plain(HALF_PERIOD * reach / np.pi), probes=tuple(float(i) for i in range(1, n + 1)))


def law_of_stream(summary: Summary) -> Probed:
    """Frequencies of all lengths, for records that may differ from the first rows."""
    probes = tuple(float(r) for r in np.geomspace(0.6 / STREAM_SPREAD_FACTOR, 1.2, 6))
    widest = summary.width * STREAM_SPREAD_FACTOR
    law = LogUniform(0.8 * math.sqrt(summary.cost), max(widest, 2 * math.sqrt(summary.cost * len(summary.mean))))
    return Probed(law, units=plain(summary.units), spread=plain(summary.spread), probes=probes)


def law_of_bounds(reach: Double, k: int, *, private: bool) -> Probed:
    """Frequencies of all lengths, from the width of the bounds to that of clusters."""
    root = math.sqrt(len(reach))
    shortest, longest = lengths(k, len(reach))
    law = LogUniform(root / longest, root / (shortest if private else SHORTEST))
    probes = () if private else (0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0)
    return Probed(law, units=plain(reach), spread=plain(reach / 16), probes=probes)


def plain(values: Double) -> tuple[float, ...]:
    return tuple(values.tolist())


EXCESS_PER_CLUSTER = 1.0  # times m / (r n): 0.15 to 0.85 were seen (docs/decisions/)
MOST_EXCESS = 2e-4  # of the squared error: a tenth of what results are held to, beside k-means of all rows
WORTHWHILE_FEATURES = 2e8  # of all records: fewer take a third of a second, less than decoding does
FEWEST_TOUCHED = 25  # Fewer save little: centring, hashing and sorting a record take as long as forty features.
MOST_WARNED_EXCESS = 2e-3  # of the squared error, without a warning of a given number
UNSEEN_PAIRS = 3.0  # of equal rows that a sample may have missed: less likely than one in twenty


def touched(n_frequencies: int, n_components: int, n_rows: int, n_distinct: float) -> int | None:
    """The fewest frequencies that a record may contribute to, in groups of one size; None if it must be all of them.

    >>> [touched(1000, 10, n, n) for n in (10**5, 3 * 10**5, 10**6, 10**7)]
    [None, 200, 50, 25]
    >>> touched(1000, 10, 10**6, 5000.0)
    """
    if n_frequencies * n_rows < WORTHWHILE_FEATURES:
        return None
    least = max(EXCESS_PER_CLUSTER / MOST_EXCESS * n_components * n_frequencies / n_distinct, FEWEST_TOUCHED)
    groups = next((g for g in range(int(n_frequencies / least), 1, -1) if n_frequencies % g == 0), 1)
    return None if groups == 1 else n_frequencies // groups


def distinct_records(rows: Double, n_rows: float = math.inf, unseen: float = UNSEEN_PAIRS) -> float:
    """The effective number of distinct records among n_rows, at least, if they are like those of a random sample.

    That is 1 / (1 / n_rows + p), where p is the probability that two rows of the sample are equal, with `unseen` more
    pairs of equal rows.

    >>> rows = np.random.default_rng(0).standard_normal((5000, 2))
    >>> round(distinct_records(rows, 10**6)), round(distinct_records(rows.round(), 10**6))
    (806420, 14)
    """
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    pairs = float(counts @ (counts - 1)) / 2
    chance = (pairs + unseen) / math.comb(max(len(rows), 2), 2)
    return 1 / (1 / n_rows + chance) if chance or n_rows < math.inf else math.inf


BINS, BINS_IN_BOUNDS = 128, 64  # of a column: noise on more would hide more than they show
DECADES, STREAM_DECADES = 4, 8  # tenfold rows beyond the sample for which its tails are extended as they grew so far
LEAST_REACH, MOST_REACH = 4.0, 1e6  # Bins reach that many times as far from the median as the sample does.
UNSEEN_SHARE = 0.1  # of rows with values that the sample lacks, estimated by values seen once: more is no code
FREQUENT_SHARE = 0.05  # of the rows: from here on, a value among many others has a bin of its own
MOST_FREQUENT = 4  # such values of a column; most columns that have any have one, zero
OWN_WIDTH = 1e-3  # of such a bin, relative to the distance of the next value
ROUNDING = 0.05  # of a bin's width by which edges may move so that they have few digits
WHOLE_LIMIT = 2.0**52  # whole numbers beyond this have no halves
LARGEST = np.finfo(np.float64).max
HUGE, SHRINK = 1e280, 2.0**-64  # values beyond HUGE are shrunk while edges are computed: their differences overflow


def bins_of_rows(
    rows: NDArray[Any], n_bins: int = 64, *, representative: bool = True, columns: tuple[str, ...] | None = None
) -> Histograms:
    """Histograms with up to n_bins bins per column, for data of which these rows are a sample.

    A column with at most n_bins distinct values, which repeat, has a bin around each of them. Others have bins at
    quantiles of the sample, as many at even steps of asinh, and some beyond its extremes, as far as its tails suggest;
    a value that many rows share has a bin of its own. Bins reach further if the rows are a stream's first ones, not
    `representative`.

    >>> operator = bins_of_rows(np.array([[0.0, 1.5], [1.0, 2.5], [0.0, 4.5]]))
    >>> operator.edges[0], operator.values[0]
    ((-0.5, 0.5, 1.5), (0.0, 1.0))
    """
    table = np.asarray(rows, np.float64)
    if table.ndim != 2 or not table.size or not np.all(np.isfinite(table)):
        raise ValueError("bins are chosen from a table of at least one row of finite numbers")
    n_bins, decades = whole("n_bins", n_bins, 4, MOST_BINS), DECADES if representative else STREAM_DECADES
    with np.errstate(over="ignore", under="ignore"):
        found = [_of_column(np.sort(column + 0.0), n_bins, decades) for column in table.T]
    edges = tuple(tuple(own.tolist()) for own, _ in found)
    values = tuple(None if own is None else tuple(own.tolist()) for _, own in found)
    return Histograms(table.shape[1], edges=edges, values=values, columns=columns)


def _of_column(column: Double, n_bins: int, decades: int) -> tuple[Double, Double | None]:
    """Edges, and the value of each bin if the column has few values. The column is sorted."""
    values, counts = np.unique(column, return_counts=True)
    seen_once = int(np.sum(counts == 1))
    if len(values) <= 2 or (len(values) <= n_bins and seen_once <= UNSEEN_SHARE * (len(column) - counts.max())):
        return _around(values), values
    factor = SHRINK if max(abs(column[0]), abs(column[-1])) > HUGE else 1.0
    edges = _spread(factor * column, factor * values, counts, n_bins, decades) / factor
    edges = np.unique(np.clip(edges, -LARGEST, LARGEST))
    whole_numbers = max(abs(edges[0]), abs(edges[-1])) < WHOLE_LIMIT and np.array_equal(column, np.rint(column))
    return (np.unique(np.floor(edges) + 0.5) if whole_numbers else _rounded(edges)), None


def _around(values: Double) -> Double:
    """Edges midway between values, and half the next distance beyond the outermost."""
    if len(values) == 1:
        low_margin = high_margin = abs(values[0]) / 2 or 0.5
    else:
        low_margin, high_margin = values[1] / 2 - values[0] / 2, values[-1] / 2 - values[-2] / 2
    middles = values[:-1] / 2 + values[1:] / 2
    # between neighbours without a number between them, the upper one is the edge: it belongs to the bin above
    middles = np.where(middles > values[:-1], middles, values[1:])
    low = max(min(values[0] - low_margin, np.nextafter(values[0], -np.inf)), -LARGEST)
    high = min(max(values[-1] + high_margin, np.nextafter(values[-1], np.inf)), LARGEST)
    edges = np.concatenate([[low], middles, [high]])
    rounded = _rounded(edges)
    # rounding must not move an edge past a value
    fits = (rounded[:-1] <= values) & (values < rounded[1:]) if len(rounded) == len(edges) else np.zeros(1, bool)
    return rounded if np.all(fits) else np.unique(edges)


def _spread(column: Double, values: Double, counts: NDArray[np.int64], n_bins: int, decades: int) -> Double:
    frequent = np.flatnonzero(counts >= max(3.0, FREQUENT_SHARE * len(column)))
    frequent = frequent[np.argsort(-counts[frequent], kind="stable")][: min(MOST_FREQUENT, n_bins // 8)]
    rest = column[~np.isin(column, values[frequent])] if len(frequent) else column
    rest = rest if len(rest) and rest[0] < rest[-1] else column
    n_tail = max(1, n_bins // 10)
    inner = max(2, n_bins + 1 - 2 * n_tail - 2 * len(frequent))
    inside = [np.quantile(rest, np.linspace(0, 1, inner - inner // 2)), _even_in_asinh(rest, inner // 2)]
    edges = np.concatenate([_low_tail(rest, n_tail, decades), *inside, -_low_tail(-rest[::-1], n_tail, decades)])
    for v in frequent.tolist():  # a narrow bin around the value, which holds nothing of its neighbours
        gap = np.min(np.abs(np.delete(values[max(0, v - 1) : v + 2], min(v, 1)) - values[v]))
        low = values[v] - OWN_WIDTH * gap
        high = max(values[v] + OWN_WIDTH * gap, np.nextafter(values[v], np.inf))
        edges = np.append(edges[(edges < low) | (edges > high)], [low, high])
    return np.unique(edges)


def _low_tail(column: Double, n: int, decades: int) -> Double:
    """Edges below the sample's lowest value, each as many times as far below it as the one before.

    How far values reach when rows are ten times as many is read off the sample: from the tenth lowest to the lowest.
    """
    middle = np.median(column)
    lowest, tenth = middle - column[0], middle - column[min(9, len(column) // 10)]
    growth = lowest / tenth if tenth > 0 else 1.0
    reach = float(np.clip(growth**decades, LEAST_REACH, MOST_REACH))
    extent = max(lowest, 0.1 * (column[-1] - column[0]))
    return np.asarray(column[0] - extent * np.geomspace(min(1.0, reach - 1) / 8 ** min(n - 1, 2), reach - 1, n))


def _even_in_asinh(column: Double, n: int) -> Double:
    """Edges within the sample's range: even near the median, and ever further apart in long tails."""
    middle = np.median(column)
    widths = [np.subtract(*np.quantile(column, [1 - q, q])) / 2 for q in (0.25, 0.1, 0.01, 0.0)]
    unit = next(width for width in widths if width > 0)
    low, high = np.arcsinh(np.clip((column[[0, -1]] - middle) / unit, -HUGE, HUGE))
    return np.asarray(middle + unit * np.sinh(np.linspace(low, high, n + 2)[1:-1]))


def _rounded(edges: Double) -> Double:
    """The edges with as few digits as leave bins about as they are, so that JSON forms stay small."""
    gaps = np.diff(edges)
    room = ROUNDING * np.minimum(np.append(gaps[0], gaps), np.append(gaps, gaps[-1]))
    with np.errstate(divide="ignore"):
        digits = np.ceil(np.log10(np.abs(edges)) - np.log10(room))
    digits = np.clip(np.where(edges == 0, 1, digits), 1, 17).astype(int)
    short = [float(f"{edge:.{n - 1}e}") for edge, n in zip(edges.tolist(), digits.tolist(), strict=True)]
    return np.unique(np.clip(short, -LARGEST, LARGEST)) + 0.0


CLUSTERS = ("kmeans", "histograms")
MOST_COLUMNS_COUNTED = 256  # Histograms of more columns would be larger than all else.
FREQUENCIES_PER_BROAD = 10  # With as many frequencies for each broad one, those are among them, not added.
BROAD_IN_BOUNDS, BROAD_UNDER_PURE_NOISE = 160, 60
MOST_COLUMNS_WITH_MOMENTS = 64  # Covariances of more columns would be larger than all else.
MOST_COLUMNS_OF_WAVES = 16  # Up to here, frequencies alone may show clusters that noise nearly hides.


@dataclass(frozen=True)
class Asked:
    """The clusters or mixture components that an operator is designed for."""

    n_components: int
    task: str
    wave: Wave
    n_frequencies: int | None
    seed: int
    n_rows: int | None = None  # that will be sketched, if it is known
    subsample: int | str | None = None  # how many frequencies a record contributes to: "auto", or None for all
    standardize: bool = False
    n_kept: int | None = None  # rows of the priority sample

    def size(self, n_features: int) -> int:
        """The number of frequencies that resolve the components without noise."""
        return self.n_frequencies or size_of(self.n_components, n_features, self.task, self.wave)

    def broad(self, n_features: int) -> bool:
        """Whether low frequencies are added: not if the number is given."""
        return self.counted(n_features) and self.task == "kmeans" and self.n_frequencies is None

    def counted(self, n_features: int) -> bool:
        """Whether histograms are added: for clusters, unless there are very many columns."""
        return self.task in CLUSTERS and n_features <= MOST_COLUMNS_COUNTED


def clusters_resolved(m: int, d: int, wave: Wave) -> int:
    """The number of clusters for which a design has about m frequencies, broad ones included.

    >>> from sketchlearn.features.waves import wave_from
    >>> [clusters_resolved(m, 4, wave_from("exponential")) for m in (40, 120 + 75, 600 + 75, 800)]
    [1, 3, 15, 20]
    """
    k = resolved = 1
    broad = math.ceil(BROAD * times_as_many(wave))
    while (size := size_of(k, d, "kmeans", wave)) <= m:
        resolved = k if size + (0 if size >= FREQUENCIES_PER_BROAD * broad else broad) <= m else resolved
        k += 1
    return resolved


def in_bounds(asked: Asked, low: Double, high: Double, budget: Budget | None) -> Operator:
    """The operator for records of which only bounds are known, and perhaps the budget of a private release."""
    k, d, reach, center = asked.n_components, len(low), plain((high - low) / 2), plain((low + high) / 2)

    def waves(m: int, broad: int = 0) -> FourierFeatures:
        law = law_of_bounds((high - low) / 2, k, private=budget is not None)
        if broad:
            law = broadened(law, math.sqrt(d), LENGTHS_IN_BOUNDS, (m, broad))
        return FourierFeatures(d, m + broad, law=law, wave=asked.wave, center=center, seed=asked.seed)

    def operator(m: int, *, shown: bool, moments: bool) -> Operator:
        """Frequencies and, for clusters that show through the noise, what helps to decode them."""
        broad = 0
        if shown and asked.broad(d):
            pure = budget is not None and not budget.delta  # Each frequency more is more noise on all of them.
            broad = min(BROAD_UNDER_PURE_NOISE, m) if pure else BROAD_IN_BOUNDS
        if not asked.counted(d) or not (shown or d > MOST_COLUMNS_OF_WAVES):
            return waves(m, broad)
        parts: list[Operator] = [waves(m, broad), Histograms.even(low, high, BINS_IN_BOUNDS)]
        if moments and 2 <= d <= MOST_COLUMNS_WITH_MOMENTS:
            parts.append(SecondMoments(d, bound=reach, center=center, outside=CLIP))
        return concatenate(parts)

    if budget is None:
        return operator(asked.size(d), shown=True, moments=True)
    m = asked.n_frequencies or budget.size(k, n_parameters(k, d, asked.task), waves)
    shown = budget.shows(k, waves(m))
    designed = operator(m, shown=shown, moments=True)
    if not budget.shows_moments(designed):
        designed = operator(m, shown=shown, moments=False)
    if (hidden := budget.forecast(designed, k).hidden) is not None:
        warn_caller(hidden, UserWarning)
    return designed


def on_sample(asked: Asked, sampled: DesignSample) -> Operator:
    """The operator for records like those of a sample."""
    rows, d = sampled.rows, sampled.rows.shape[1]
    some = thinned(rows, MOST_ROWS)
    if asked.standardize and asked.task not in CLUSTERS:
        task = either(f"task {asked.task!r}", f"--task {asked.task}")
        raise InvalidValueError(
            "is for clusters", f"{task} gives the same result in any units", parameter="standardize"
        )
    metric = None  # units of squared errors, which mixtures do not have
    if asked.task in CLUSTERS:
        metric = deviations(some) if asked.standardize else np.ones(d)
    if asked.task == "stable":  # Such distributions have no variance: rows are clipped to the middle 90 %.
        some = np.clip(some, *np.quantile(some, [0.05, 0.95], axis=0))
    summary = summarize(some, asked.n_components, asked.seed, metric)
    law, m = _law(asked, summary, sampled)
    notes: dict[str, Any] = {"center": plain(summary.mean), "columns": sampled.columns}
    if asked.standardize and metric is not None:
        notes["units"] = plain(metric)
    if asked.n_kept is not None:
        lengths = deviations(rows) if metric is None else metric
        notes["keeping"] = Keeping.designed(rows, asked.n_kept, lengths, asked.seed)
    if asked.task in CLUSTERS and sampled.representative:
        notes["outline"] = Outline.of(rows, asked.n_components)
    few = _touched(asked, sampled, m)
    waves = FourierFeatures(d, m, law=law, wave=asked.wave, seed=asked.seed, subsample=few, **notes)
    if not asked.counted(d):
        return waves
    bins = bins_of_rows(rows, BINS, representative=sampled.representative, columns=sampled.columns)
    return concatenate([waves, bins])


def _touched(asked: Asked, sampled: DesignSample, m: int) -> int | None:
    """How many of m frequencies a record contributes to, None for all."""
    if isinstance(few := asked.subsample, int):
        distinct = distinct_records(sampled.rows, unseen=0.0)
        if EXCESS_PER_CLUSTER * asked.n_components * (m / few - 1) / distinct > MOST_WARNED_EXCESS:
            warn_caller(
                f"the rows repeat as often as draws from about {in_digits(distinct, 2)} different ones, and equal rows "
                f"contribute to the same frequencies: with {Parameter('subsample', few)} clusters are less exact; "
                "leave it out"
            )
        return few
    if asked.subsample != AUTO:
        return None
    if asked.n_rows is None or asked.task not in CLUSTERS or asked.wave.dithered or not sampled.representative:
        return None
    return touched(m, asked.n_components, asked.n_rows, distinct_records(sampled.rows, asked.n_rows))


def _law(asked: Asked, summary: Summary, sampled: DesignSample) -> tuple[Probed, int]:
    k, d, task, wave = asked.n_components, len(summary.mean), asked.task, asked.wave
    m = asked.size(d)
    if not sampled.representative:
        return law_of_stream(summary), m
    law = law_of_clusters(summary, k, m, "kmeans" if task in CLUSTERS else task, wave)
    if task == "histograms":
        return with_axes(law, sampled.rows, m), m
    if task.startswith("mixture"):
        return shaped(law, sampled.rows, k, wave, asked.seed, full=task == "mixture-full"), m
    if asked.broad(d):
        more = math.ceil(BROAD * times_as_many(wave))
        fine = m - more if m >= FREQUENCIES_PER_BROAD * more else m  # a small sketch needs them all
        shown = fine - min(len(law.probes) * d, fine)  # probes take the place of the first frequencies
        return broadened(law, summary.width, BROAD_LENGTHS, (max(shown, 1), more)), fine + more
    return law, m


N_DIRECTIONS = 16
DEVIATIONS_IN_RANGE = 4.0  # of a random sum: one of ten thousand rows in the corners of the bounds lies beyond
CROSSED_PER_CLUSTER, LEAST_CROSSED = 20, 200  # frequencies times all columns; half as many had 1.045, not 1.03
MOST_CROSSED_BYTES = 1.5e6
CROSSED_LENGTHS = (2.0, 64.0)  # of those frequencies, times half the width of the range of a sum
SUMS_SHARE = 0.65  # of a private release's budget, beside frequencies times columns


def sums_in_bounds(
    asked: Asked, low: Double, high: Double, budget: Budget | None, n_directions: int | None
) -> Operator:
    """Frequencies of random projections, as for rows of few columns, and products of some of them with all columns.

    Each projection is the sum of all columns with random signs, which approximately preserves distances (Johnson and
    Lindenstrauss), so that clusters show in some tens of projections though nothing is known of them.
    """
    d, p, bound = len(low), n_directions or N_DIRECTIONS, (high - low) / 2
    signs = Stream(asked.seed, "directions").signs(p * d).reshape(p, d)
    relative = bound / np.max(bound)
    widest = DEVIATIONS_IN_RANGE * float(np.sqrt(np.sum(relative**2))) * 2.0 ** (VALUE_BITS + DIRECTION_BITS)
    shift = max(0, math.ceil(math.log2(widest)) - PLACE_BITS)
    reach = np.full(p, widest * 2.0**-shift)
    box = {"bound": plain(bound), "center": plain((low + high) / 2), "outside": CLIP}
    given = {"n_directions": p, "directions": packed(np.rint(2**DIRECTION_BITS * signs * relative), "<i2")}

    def of_sums(operator: Operator) -> SomeDirections:
        return SomeDirections(d, inner_operator=operator, shift=shift, **given, **box)  # type: ignore[arg-type]

    left = None if budget is None else replace(budget, epsilon=SUMS_SHARE * budget.epsilon)
    inner = in_bounds(asked, -reach, reach, left)
    wanted = max(CROSSED_PER_CLUSTER * asked.n_components, LEAST_CROSSED)
    m = max(asked.n_components, min(wanted, int(MOST_CROSSED_BYTES / (16 * d))))
    law = LogUniform(*(float(reach[0]) * math.sqrt(p) / length for length in reversed(CROSSED_LENGTHS)))
    waves = of_sums(FourierFeatures(p, m, law=law, seed=asked.seed))
    return concatenate([*map(of_sums, inner.side_by_side), CrossFeatures(waves, **box)])  # type: ignore[arg-type]


def on_sketch(asked: Asked, sketch: Sketch) -> Operator:
    """The operator for clusters of the width estimated from a sketch, with its other parts."""
    target, (_, first) = Target.of(sketch), fourier_part(sketch)
    if target.one_scale:
        raise ValueError(
            "the frequencies of this sketch have one scale, from which no better one can be estimated: give design a "
            "sketch with many scales, of design(bounds=...) or design(sample, representative=False)"
        )
    k, d = asked.n_components, target.n_features
    mean, variances, within = read(target, k)
    m = asked.size(d)
    scale = math.sqrt(d * within * coarseness(k, d, m)) / WIDTH_FACTOR  # the reading is too wide on purpose
    probes = HIGH_PROBES if asked.wave.harmonics() else LOW_PROBES
    units = np.array(first.law.units) if isinstance(first.law, Probed) else np.ones(d)
    units *= np.exp(np.mean(np.log(target.unit / units)))  # Those of the target have errors, too.
    spread = np.sqrt(variances) * target.unit
    law = Probed(Gaussian(scale), units=plain(units), spread=plain(spread), probes=probes)
    center = plain(target.origin + mean * target.unit)
    new: dict[str, Any] = {"n_frequencies": m, "law": law, "wave": asked.wave, "center": center, "seed": asked.seed}
    # Columns, units of errors and the priority sample stay as they are.
    waves = replace(first, **new, structured=False, subsample=None, keeping=sketch.operator.keeping)
    parts = (leaf.operator for leaf in sketch.operator.leaves(sketch))
    others = [part for part in parts if not isinstance(part, FourierFeatures)]
    return concatenate([waves, *others]) if others else waves
