"""Operators for clusters and mixtures: Fourier features and, for clusters, histograms beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.designing.frequency_laws import (
    BROAD,
    broadened,
    broadened_in_bounds,
    law_of_bounds,
    law_of_clusters,
    law_of_stream,
    n_parameters,
    plain,
    shaped,
    size_of,
    times_as_many,
    with_axes,
)
from sketchlearn.designing.histogram_bins import bins_of_rows
from sketchlearn.designing.private_budget import Budget, law_of_lengths
from sketchlearn.designing.sample_summary import (
    MOST_ROWS,
    Summary,
    deviations,
    summarize,
    thinned,
    without_tails,
)
from sketchlearn.frequencies import Probed
from sketchlearn.keeping import Keeping
from sketchlearn.operators import FourierFeatures, Histograms, Operator, SecondMoments, concatenate
from sketchlearn.operators.bounded_operators import CLIP
from sketchlearn.outline import Outline
from sketchlearn.waves import Wave

Double = NDArray[np.float64]

CLUSTERS = ("kmeans", "histograms")
BINS, MOST_COUNTED = 128, 256  # of a column; columns beyond which histograms would be larger than all else
FEW_BROAD = 10  # times as many frequencies as broad ones, from which on those are among them
BROAD_IN_BOUNDS, BROAD_UNDER_PURE_NOISE = 160, 60
MOST_WITH_MOMENTS = 64  # columns whose covariances are kept in bounds: those of more would be larger than all else
FEW_COLUMNS = 16  # up to which frequencies alone may show clusters that noise nearly hides
BINS_IN_BOUNDS = 64  # noise on more would hide more than they show


@dataclass(frozen=True)
class Asked:
    """What an operator is designed for."""

    n_components: int
    task: str
    wave: Wave
    n_frequencies: int | None
    seed: int

    def size(self, n_features: int) -> int:
        """How many frequencies resolve the components."""
        return self.n_frequencies or size_of(self.n_components, n_features, self.task, self.wave)

    def broad(self, n_features: int) -> bool:
        """Whether frequencies are added that show the whole: not where their number is given."""
        return self.counted(n_features) and self.task == "kmeans" and self.n_frequencies is None

    def counted(self, n_features: int) -> bool:
        """Whether histograms pay: for clusters, unless there are very many columns."""
        return self.task in CLUSTERS and n_features <= MOST_COUNTED


def in_bounds(asked: Asked, low: Double, high: Double, budget: Budget | None) -> Operator:
    """The operator for records of which only bounds are known."""
    k, d, reach = asked.n_components, len(low), (high - low) / 2
    if budget is None:
        law, m = law_of_bounds(reach, k), asked.size(d)
    else:
        law = Probed(law_of_lengths(k, d), units=plain(reach), spread=plain(reach / 16), probes=())
        m = asked.n_frequencies or budget.size(k, d, n_parameters(k, d, asked.task))
    shown = budget is None or budget.shows(k, d, m)
    if shown and asked.broad(d):
        pure = budget is not None and not budget.delta  # each frequency more is more noise on all of them
        more = min(BROAD_UNDER_PURE_NOISE, m) if pure else BROAD_IN_BOUNDS
        law, m = broadened_in_bounds(law, d, (m, more)), m + more
    center = plain((low + high) / 2)
    waves = FourierFeatures(d, m, law=law, wave=asked.wave, center=center, seed=asked.seed)
    if not asked.counted(d) or not (shown or d > FEW_COLUMNS):
        return waves
    counts = Histograms.even(low, high, BINS_IN_BOUNDS)
    if not 2 <= d <= MOST_WITH_MOMENTS or (budget is not None and not budget.shows_moments(d)):
        return concatenate([waves, counts])
    moments = SecondMoments(d, bound=plain(reach), center=center, outside=CLIP)
    return concatenate([waves, counts, moments])


@dataclass(frozen=True)
class Sampled:
    """Rows of a sample, names of their columns, and whether they come from all over the data."""

    rows: Double
    columns: tuple[str, ...] | None
    from_all_over: bool


def on_sample(asked: Asked, sampled: Sampled, *, standardize: bool, n_kept: int | None) -> Operator:
    """The operator for records like those of a sample."""
    rows, d = sampled.rows, sampled.rows.shape[1]
    some = thinned(rows, MOST_ROWS)
    metric = _metric(some, asked.task, standardize)
    stable = asked.task == "stable"
    summary = summarize(without_tails(some) if stable else some, asked.n_components, asked.seed, metric)
    law, m = _law(asked, summary, sampled)
    notes: dict[str, Any] = {"units": plain(metric) if standardize and metric is not None else None}
    if n_kept is not None:
        lengths = deviations(rows) if metric is None else metric
        notes["keeping"] = Keeping.designed(rows, n_kept, lengths, asked.seed)
    if asked.task in CLUSTERS and sampled.from_all_over:
        notes["outline"] = Outline.of(rows, asked.n_components)
    notes |= {"center": plain(summary.mean), "columns": sampled.columns}
    waves = FourierFeatures(d, m, law=law, wave=asked.wave, seed=asked.seed, **notes)
    if not asked.counted(d):
        return waves
    bins = bins_of_rows(rows, BINS, representative=sampled.from_all_over, columns=sampled.columns)
    return concatenate([waves, bins])


def _law(asked: Asked, summary: Summary, sampled: Sampled) -> tuple[Probed, int]:
    """The law of the frequencies, and how many there are."""
    k, d, task, wave = asked.n_components, len(summary.mean), asked.task, asked.wave
    m = asked.size(d)
    if not sampled.from_all_over:
        return law_of_stream(summary), m
    law = law_of_clusters(summary, k, m, "kmeans" if task in CLUSTERS else task, wave)
    if task == "histograms":
        return with_axes(law, sampled.rows, m), m
    if task.startswith("mixture"):
        return shaped(law, sampled.rows, k, wave, asked.seed, full=task == "mixture-full"), m
    if asked.broad(d):
        more = math.ceil(BROAD * times_as_many(wave))
        fine = m - more if m >= FEW_BROAD * more else m  # a small sketch needs them all
        return broadened(law, summary, fine, more), fine + more
    return law, m


def _metric(rows: Double, task: str, standardize: bool) -> Double | None:
    """Units of squared errors: the columns' own or, standardised, deviations; mixtures measure in none."""
    if task not in CLUSTERS:
        if standardize:
            raise ValueError(f"standardize is for clusters: task {task!r} gives the same in any units")
        return None
    return deviations(rows) if standardize else np.ones(rows.shape[1])
