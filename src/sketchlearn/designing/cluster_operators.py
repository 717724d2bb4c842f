"""Operators for clusters and mixtures: Fourier features and, for clusters, histograms beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.designing import frequency_laws as laws
from sketchlearn.designing.histogram_bins import BINS, BINS_IN_BOUNDS, bins_of_rows
from sketchlearn.designing.private_budget import Budget
from sketchlearn.designing.sample_summary import MOST_ROWS, Sampled, Summary, deviations, summarize, thinned
from sketchlearn.frequencies import Probed
from sketchlearn.keeping import Keeping
from sketchlearn.models import Double
from sketchlearn.operators import FourierFeatures, Histograms, Operator, SecondMoments, concatenate
from sketchlearn.operators.bounded_operators import CLIP
from sketchlearn.outline import Outline
from sketchlearn.waves import Wave

CLUSTERS = ("kmeans", "histograms")
MOST_COLUMNS_COUNTED = 256  # Histograms of more columns would be larger than all else.
FREQUENCIES_PER_BROAD = 10  # With as many frequencies for each broad one, those are among them, not added.
BROAD_IN_BOUNDS, BROAD_UNDER_PURE_NOISE = 160, 60
MOST_COLUMNS_WITH_MOMENTS = 64  # Covariances of more columns would be larger than all else.
MOST_COLUMNS_OF_WAVES = 16  # Up to here, frequencies alone may show clusters that noise nearly hides.


@dataclass(frozen=True)
class Asked:
    """What an operator is designed for."""

    n_components: int
    task: str
    wave: Wave
    n_frequencies: int | None
    seed: int

    def size(self, n_features: int, budget: Budget | None = None) -> int:
        """How many frequencies resolve the components, if noise allows as many."""
        if self.n_frequencies or budget is None:
            return self.n_frequencies or laws.size_of(self.n_components, n_features, self.task, self.wave)
        n_parameters = laws.n_parameters(self.n_components, n_features, self.task)
        return budget.size(self.n_components, n_features, n_parameters)

    def broad(self, n_features: int) -> bool:
        """Whether frequencies are added that show the whole: not where their number is given."""
        return self.counted(n_features) and self.task == "kmeans" and self.n_frequencies is None

    def counted(self, n_features: int) -> bool:
        """Whether histograms pay: for clusters, unless there are very many columns."""
        return self.task in CLUSTERS and n_features <= MOST_COLUMNS_COUNTED


def in_bounds(asked: Asked, low: Double, high: Double, budget: Budget | None) -> Operator:
    """The operator for records of which only bounds are known."""
    k, d, reach = asked.n_components, len(low), (high - low) / 2
    law = laws.law_of_bounds(reach, k, private=budget is not None)
    m = asked.size(d, budget)
    shown = budget is None or budget.shows(k, d, m)
    if shown and asked.broad(d):
        pure = budget is not None and not budget.delta  # each frequency more is more noise on all of them
        more = min(BROAD_UNDER_PURE_NOISE, m) if pure else BROAD_IN_BOUNDS
        law, m = laws.broadened(law, math.sqrt(d), laws.LENGTHS_IN_BOUNDS, (m, more)), m + more
    center = laws.plain((low + high) / 2)
    waves = FourierFeatures(d, m, law=law, wave=asked.wave, center=center, seed=asked.seed)
    if not asked.counted(d) or not (shown or d > MOST_COLUMNS_OF_WAVES):
        return waves
    parts: list[Operator] = [waves, Histograms.even(low, high, BINS_IN_BOUNDS)]
    if 2 <= d <= MOST_COLUMNS_WITH_MOMENTS and (budget is None or budget.shows_moments(d)):
        parts.append(SecondMoments(d, bound=laws.plain(reach), center=center, outside=CLIP))
    return concatenate(parts)


def on_sample(asked: Asked, sampled: Sampled, *, standardize: bool, n_kept: int | None) -> Operator:
    """The operator for records like those of a sample."""
    rows, d = sampled.rows, sampled.rows.shape[1]
    some = thinned(rows, MOST_ROWS)
    if standardize and asked.task not in CLUSTERS:
        raise ValueError(f"standardize is for clusters: task {asked.task!r} gives the same result in any units")
    metric = None  # units of squared errors; mixtures measure in none
    if asked.task in CLUSTERS:
        metric = deviations(some) if standardize else np.ones(d)
    if asked.task == "stable":  # such laws have no variance: rows are pulled in to the range of nine tenths of them
        some = np.clip(some, *np.quantile(some, [0.05, 0.95], axis=0))
    summary = summarize(some, asked.n_components, asked.seed, metric)
    law, m = _law(asked, summary, sampled)
    notes: dict[str, Any] = {"center": laws.plain(summary.mean), "columns": sampled.columns}
    if standardize and metric is not None:
        notes["units"] = laws.plain(metric)
    if n_kept is not None:
        lengths = deviations(rows) if metric is None else metric
        notes["keeping"] = Keeping.designed(rows, n_kept, lengths, asked.seed)
    if asked.task in CLUSTERS and sampled.from_all_over:
        notes["outline"] = Outline.of(rows, asked.n_components)
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
        return laws.law_of_stream(summary), m
    law = laws.law_of_clusters(summary, k, m, "kmeans" if task in CLUSTERS else task, wave)
    if task == "histograms":
        return laws.with_axes(law, sampled.rows, m), m
    if task.startswith("mixture"):
        return laws.shaped(law, sampled.rows, k, wave, asked.seed, full=task == "mixture-full"), m
    if asked.broad(d):
        more = math.ceil(laws.BROAD * laws.times_as_many(wave))
        fine = m - more if m >= FREQUENCIES_PER_BROAD * more else m  # a small sketch needs them all
        shown = fine - min(len(law.probes) * d, fine)  # probes take the place of the first frequencies
        return laws.broadened(law, summary.width, laws.BROAD_LENGTHS, (max(shown, 1), more)), fine + more
    return law, m
