"""Laws and numbers of frequencies for clusters and mixtures."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders.problems.first_reading import FREQUENCIES_PER_PARAMETER, coarseness
from sketchlearn.designing.cluster_shapes import cluster_shapes
from sketchlearn.designing.sample_summary import Summary
from sketchlearn.frequencies import AdaptedRadius, Gaussian, LogUniform, Mixture, Probed, Shaped
from sketchlearn.waves import Wave

Double = NDArray[np.float64]

FEWEST_PER_PARAMETER = 2
MOST_NUMBERS = 10_000_000  # of the matrix of frequencies, where fewer frequencies would do
FINER = 1.34  # a mixture's frequencies are that much longer than its clusters' own scale suggests
LOW_PROBES = (0.3, 0.6, 1.2)  # low ones are disturbed least by heavy tails, and most by harmonics of a wave
HIGH_PROBES = (1.2, 1.6, 2.0)
MOST_SCALES = 50
LOCAL = 0.5  # share of a mixture's frequencies that are drawn in the metric of a cluster
NARROWER = (0.7,)  # scales where a wave has harmonics, which disturb long frequencies least
CLUSTER_SCALE_FACTORS = (
    1.0,
    1.7,
    3.0,
)  # scales of those, in a cluster's own: tails, and how clusters lie to each other, show too
ALONG = 0.5  # share of the frequencies that lie along the axes, for histograms of columns
PERIOD = 1.25  # half of it, in the largest distances of the sample from its mean
BROAD, BROAD_LENGTHS = 75, (0.3, 3.0)  # frequencies that show how columns hang together; radians per deviation
LENGTHS_IN_BOUNDS = (0.7, 6.0)  # of broad frequencies, per half the width of the bounds
LOOSE_BOUNDS_FACTOR = 2.0  # bounds may be that many times too wide
BEYOND = 16.0  # the records of a stream may spread that many times as far as its first rows


def size_of(k: int, d: int, task: str, wave: Wave) -> int:
    """Frequencies in proportion to the parameters, fewer where the matrix of frequencies would be huge."""
    parameters = n_parameters(k, d, task)
    most = max(FEWEST_PER_PARAMETER * parameters, MOST_NUMBERS // d)
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
    probes = LOW_PROBES if not wave.harmonics() else HIGH_PROBES
    if task == "kmeans":
        scale = math.sqrt(summary.cost * coarseness(k, d, m))
        return Probed(Gaussian(scale), units=plain(summary.units), spread=plain(summary.spread), probes=probes)
    # in units of each column's deviation within clusters, one scale per cluster
    units = summary.within / np.exp(np.mean(np.log(summary.within)))
    factor = np.mean((summary.units / units) ** 2)
    scales = np.sqrt(np.quantile(summary.cluster_costs * factor, np.linspace(0, 1, min(k, MOST_SCALES)))) / FINER
    law = Mixture(tuple(AdaptedRadius(float(s)) for s in scales))
    return Probed(law, units=plain(units), spread=plain(summary.spread), probes=probes)


def broadened(law: Probed, summary: Summary, m: int, broad: int) -> Probed:
    """The law with some more frequencies, of waves from ten to one deviation of all rows long."""
    d = len(summary.mean)
    spread = math.sqrt(float(np.sum((summary.spread / summary.units) ** 2)))
    waves = LogUniform(spread / BROAD_LENGTHS[1], spread / BROAD_LENGTHS[0])
    shown = m - min(len(law.probes) * d, m)  # probes take the place of the first frequencies
    return replace(law, law=Mixture((law.law, waves), shares=(max(shown, 1), broad)))


def shaped(law: Probed, rows: Double, k: int, wave: Wave, seed: int, *, full: bool) -> Probed:
    """The law with a share of frequencies in the metric of the sample's clusters, at several distances from them."""
    shapes = cluster_shapes(rows / np.array(law.units), k, seed, full=full)
    if not shapes:
        return law
    scale = math.sqrt(rows.shape[1]) / FINER
    wider = CLUSTER_SCALE_FACTORS if not wave.harmonics() else NARROWER
    local = Mixture(tuple(AdaptedRadius(scale * factor) for factor in wider))
    return replace(law, law=Shaped(law.law, local, shapes, share=LOCAL))


def with_axes(law: Probed, rows: Double, m: int) -> Probed:
    """The law with a share of frequencies on regular grids along the axes, whose periods are wider than the sample."""
    reach = np.maximum(np.max(np.abs(rows - rows.mean(axis=0)), axis=0), np.array(law.spread))
    n = max(1, int(ALONG * m / rows.shape[1]))
    return replace(law, spread=plain(PERIOD * reach / np.pi), probes=tuple(float(i) for i in range(1, n + 1)))


def law_of_stream(summary: Summary) -> Probed:
    """Frequencies of all lengths, for records that may be unlike the first rows."""
    d = len(summary.mean)
    probes = tuple(float(r) for r in np.geomspace(0.6 / BEYOND, 1.2, 6))
    widest = math.sqrt(float(np.sum((summary.spread / summary.units) ** 2))) * BEYOND
    law = LogUniform(0.8 * math.sqrt(summary.cost), max(widest, 2 * math.sqrt(summary.cost * d)))
    return Probed(law, units=plain(summary.units), spread=plain(summary.spread), probes=probes)


def broadened_in_bounds(law: Probed, n_features: int, shares: tuple[int, int]) -> Probed:
    """The law with a share of waves that show the whole of the bounds."""
    longest, shortest = (math.sqrt(n_features) / length for length in LENGTHS_IN_BOUNDS)
    return replace(law, law=Mixture((law.law, LogUniform(shortest, longest)), shares=shares))


def law_of_bounds(reach: Double, k: int) -> Probed:
    """Frequencies of all lengths that records within bounds may need."""
    d = len(reach)
    law = LogUniform(math.sqrt(d) / (16 * LOOSE_BOUNDS_FACTOR * k ** (1 / d)), math.sqrt(d) / 4)
    return Probed(law, units=plain(reach), spread=plain(reach / 16), probes=(0.03125, 0.0625, 0.125, 0.25, 0.5, 1.0))


def plain(values: Double) -> tuple[float, ...]:
    """The numbers as a tuple, as values keep them."""
    return tuple(values.tolist())
