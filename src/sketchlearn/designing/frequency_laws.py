"""Laws and numbers of frequencies for clusters and mixtures."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sketchlearn.decoders.problems.first_reading import FREQUENCIES_PER_PARAMETER, coarseness
from sketchlearn.designing.private_budget import SHORTEST, lengths
from sketchlearn.designing.sample_summary import Summary, cluster_shapes
from sketchlearn.frequencies import AdaptedRadius, Gaussian, LogUniform, Mixture, Probed, Shaped
from sketchlearn.models import Double
from sketchlearn.waves import Wave

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
