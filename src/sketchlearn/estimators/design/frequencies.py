"""Size and law of an operator for private sketches: from declared knowledge alone, by the noise to be expected."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.values import whole
from sketchlearn.estimators.design.sample_summary import Summary, cluster_shapes
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import AdaptedRadius, Gaussian, LogUniform, Mixture, Probed, Shaped
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.waves import Exponential, Wave
from sketchlearn.inference.decoders.problem import FREQUENCIES_PER_PARAMETER, coarseness
from sketchlearn.privacy.forecast import Forecast, forecast
from sketchlearn.privacy.noise_plan import checked_budget
from sketchlearn.sketch.ledger import ADD_REMOVE, check_neighbors

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
        """How many frequencies: under pure epsilon the noise on each grows with their number, with delta > 0 hardly.

        The error grows with it, too, but a search needs some frequencies per parameter, and more are a safeguard. With
        delta > 0 the error does not depend on the size: the noise on a mean grows with its root. (Under `subsample` it
        grows with the size itself; designs have none.)
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
        """Whether clusters show so well in these frequencies that a share of the budget can be spared for histograms.

        Under pure epsilon that share costs most where clusters barely show: k = d = 10, epsilon n = 10^4 went from an
        RSSE of 1.135 to 1.7.
        """
        return bool(self.delta) or self.error(n_components, waves) <= MOST_ERROR_FOR_HISTOGRAMS

    def shows_moments(self, operator: Operator) -> bool:
        """Whether the second moments of this operator are worth their share of the budget."""
        if not self.delta:
            return False  # pure epsilon counts each number
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
        """The noise that a release of this operator's sketches will have."""
        return forecast(
            operator,
            n_rows=self.n_rows,
            epsilon=self.epsilon,
            delta=self.delta,
            neighbors=self.neighbors,
            n_components=n_components,
        )


def lengths(n_components: int, n_features: int) -> tuple[float, float]:
    """The least and the greatest length of frequencies, times half the width of the bounds."""
    shortest = min(SHORTEST, SHORTEST_PER_COLUMN * math.sqrt(n_features))
    return shortest, 16 * LOOSE_BOUNDS_FACTOR * n_components ** (1 / n_features)


def budget_of(bounds: Any, n_rows: int | None, epsilon: float | None, delta: float, neighbors: str) -> Budget | None:
    """What a private release will spend; None if no epsilon is given."""
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
BROAD, BROAD_LENGTHS = 75, (0.3, 3.0)  # frequencies that show how columns hang together; radians per deviation
LENGTHS_IN_BOUNDS = (0.7, 6.0)  # of broad frequencies, per half the width of the bounds
STREAM_SPREAD_FACTOR = 16.0  # The records of a stream may spread that many times as far as its first rows.


def size_of(k: int, d: int, task: str, wave: Wave) -> int:
    """Frequencies in proportion to the parameters, fewer where the matrix of frequencies would be huge."""
    parameters = n_parameters(k, d, task)
    most = max(LEAST_PER_PARAMETER * parameters, MOST_NUMBERS // d)
    return math.ceil(min(FREQUENCIES_PER_PARAMETER * parameters, most) * times_as_many(wave))


def times_as_many(wave: Wave) -> float:
    """How many times as many frequencies a wave needs as the exponential."""
    return 1.0 if not wave.dithered else 1.25 if wave.complex else 2.0


def n_parameters(k: int, d: int, task: str) -> int:
    """Coordinates of centers, or parameters of a mixture."""
    shape = {"kmeans": 0, "mixture": d, "mixture-full": d * (d + 1) // 2, "stable": d + 1, "histograms": 0}[task]
    return k * d if shape == 0 else k * (1 + d + shape)


def law_of_clusters(summary: Summary, k: int, m: int, task: str, wave: Wave) -> Probed:
    """Frequencies that resolve the sample's clusters, after probes along the axes."""
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
    """The law with a share of frequencies that show the whole of data so wide; lengths are in radians per width."""
    waves = LogUniform(width / lengths[1], width / lengths[0])
    return replace(law, law=Mixture((law.law, waves), shares=shares))


def shaped(law: Probed, rows: Double, k: int, wave: Wave, seed: int, *, full: bool) -> Probed:
    """The law with a share of frequencies in the metric of the sample's clusters, at several distances from them."""
    shapes = cluster_shapes(rows / np.array(law.units), k, seed, full=full)
    if not shapes:
        return law
    scale = math.sqrt(rows.shape[1]) / LENGTH_FACTOR
    factors = LOCAL_SCALES_WITH_HARMONICS if wave.harmonics() else LOCAL_SCALES
    local = Mixture(tuple(AdaptedRadius(scale * factor) for factor in factors))
    return replace(law, law=Shaped(law.law, local, shapes, share=LOCAL_SHARE))


def with_axes(law: Probed, rows: Double, m: int) -> Probed:
    """The law with a share of frequencies on regular grids along the axes, whose periods are wider than the sample."""
    reach = np.maximum(np.max(np.abs(rows - rows.mean(axis=0)), axis=0), np.array(law.spread))
    n = max(1, int(AXES_SHARE * m / rows.shape[1]))
    return replace(law, spread=plain(HALF_PERIOD * reach / np.pi), probes=tuple(float(i) for i in range(1, n + 1)))


def law_of_stream(summary: Summary) -> Probed:
    """Frequencies of all lengths, for records that may be unlike the first rows."""
    probes = tuple(float(r) for r in np.geomspace(0.6 / STREAM_SPREAD_FACTOR, 1.2, 6))
    widest = summary.width * STREAM_SPREAD_FACTOR
    law = LogUniform(0.8 * math.sqrt(summary.cost), max(widest, 2 * math.sqrt(summary.cost * len(summary.mean))))
    return Probed(law, units=plain(summary.units), spread=plain(summary.spread), probes=probes)


def law_of_bounds(reach: Double, k: int, *, private: bool) -> Probed:
    """Frequencies of all lengths between those that show the whole of the bounds and those that resolve clusters."""
    root = math.sqrt(len(reach))
    shortest, longest = lengths(k, len(reach))
    law = LogUniform(root / longest, root / (shortest if private else SHORTEST))
    probes = () if private else (0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0)
    return Probed(law, units=plain(reach), spread=plain(reach / 16), probes=probes)


def plain(values: Double) -> tuple[float, ...]:
    """The numbers as a tuple, as values keep them."""
    return tuple(values.tolist())


EXCESS_PER_CLUSTER = 1.0  # times m / (r n): 0.15 to 0.85 were seen (docs/decisions/)
MOST_EXCESS = 2e-4  # of the squared error: a tenth of what results are held to, beside k-means of all rows
WORTHWHILE_FEATURES = 2e8  # of all records: fewer take a third of a second, less than decoding does
FEWEST_TOUCHED = 25  # Fewer save little: centring, hashing and sorting a record take as long as forty features.
MOST_WARNED_EXCESS = 2e-3  # of the squared error, before anything is said of a number that was given
UNSEEN_PAIRS = 3.0  # of equal rows that a sample may have missed: less likely than one in twenty


def touched(n_frequencies: int, n_components: int, n_rows: int, n_distinct: float) -> int | None:
    """The fewest frequencies that a record may touch, in groups of the same size; None where it must be all of them.

    >>> [touched(1000, 10, n, n) for n in (10**5, 3 * 10**5, 10**6, 10**7)]
    [None, 200, 50, 25]
    >>> touched(1000, 10, 10**6, 5000.0)
    """
    if n_frequencies * n_rows < WORTHWHILE_FEATURES:
        return None
    least = max(EXCESS_PER_CLUSTER / MOST_EXCESS * n_components * n_frequencies / n_distinct, FEWEST_TOUCHED)
    groups = next((g for g in range(int(n_frequencies / least), 1, -1) if n_frequencies % g == 0), 1)
    return None if groups == 1 else n_frequencies // groups


def warn_of_repetitions(rows: Double, n_frequencies: int, n_components: int, subsample: int) -> None:
    """Warns where records of a sample repeat so often that a given number of frequencies makes clusters worse."""
    distinct = distinct_records(rows, unseen=0.0)
    if EXCESS_PER_CLUSTER * n_components * (n_frequencies / subsample - 1) / distinct > MOST_WARNED_EXCESS:
        warn_caller(
            f"the rows repeat as often as if they were drawn from about {in_digits(distinct, 2)} different ones, and "
            "equal rows contribute to the same frequencies: "
            f"with {Parameter('subsample', subsample)} clusters are less exact; leave it out"
        )


def distinct_records(rows: Double, n_rows: float = math.inf, unseen: float = UNSEEN_PAIRS) -> float:
    """How many distinct records n_rows count as, at least, if they are like those of a random sample.

    That is 1 / (1 / n_rows + p), p the chance of two rows of the sample to be equal, were there `unseen` pairs more.

    >>> rows = np.random.default_rng(0).standard_normal((5000, 2))
    >>> round(distinct_records(rows, 10**6)), round(distinct_records(rows.round(), 10**6))
    (806420, 14)
    """
    counts = np.unique(rows, axis=0, return_counts=True)[1]
    pairs = float(counts @ (counts - 1)) / 2
    chance = (pairs + unseen) / math.comb(max(len(rows), 2), 2)
    return 1 / (1 / n_rows + chance) if chance or n_rows < math.inf else math.inf
