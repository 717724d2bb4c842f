"""Operators for clusters and mixtures: Fourier features and, for clusters, histograms beside them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.designing import frequency_laws as laws
from sketchlearn.designing.histogram_bins import BINS, BINS_IN_BOUNDS, bins_of_rows
from sketchlearn.designing.private_budget import Budget
from sketchlearn.designing.sample_summary import MOST_ROWS, Sampled, Summary, deviations, summarize, thinned
from sketchlearn.designing.touched_frequencies import AUTO, distinct_records, touched, warn_of_repetitions
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
    n_rows: int | None = None  # that will be sketched, if it is known
    subsample: int | str | None = None  # how many frequencies a record touches: "auto", or None for all

    def size(self, n_features: int) -> int:
        """How many frequencies resolve the components, where there is no noise."""
        return self.n_frequencies or laws.size_of(self.n_components, n_features, self.task, self.wave)

    def broad(self, n_features: int) -> bool:
        """Whether frequencies are added that show the whole: not where their number is given."""
        return self.counted(n_features) and self.task == "kmeans" and self.n_frequencies is None

    def counted(self, n_features: int) -> bool:
        """Whether histograms pay: for clusters, unless there are very many columns."""
        return self.task in CLUSTERS and n_features <= MOST_COLUMNS_COUNTED


def clusters_resolved(m: int, d: int, wave: Wave) -> int:
    """For about how many clusters of a sample's columns a design has m frequencies, broad ones among them.

    >>> from sketchlearn.waves import wave_from
    >>> [clusters_resolved(m, 4, wave_from("exponential")) for m in (40, 120 + 75, 600 + 75, 800)]
    [1, 3, 15, 20]
    """
    k = resolved = 1
    broad = math.ceil(laws.BROAD * laws.times_as_many(wave))
    while (size := laws.size_of(k, d, "kmeans", wave)) <= m:
        resolved = k if size + (0 if size >= FREQUENCIES_PER_BROAD * broad else broad) <= m else resolved
        k += 1
    return resolved


def in_bounds(asked: Asked, low: Double, high: Double, budget: Budget | None) -> Operator:
    """The operator for records of which only bounds are known."""
    k, d, box = asked.n_components, len(low), Box(asked, low, high, budget)
    if budget is None:
        return box.operator(asked.size(d), shown=True, moments=True)
    m = asked.n_frequencies or budget.size(k, laws.n_parameters(k, d, asked.task), box.waves)
    shown = budget.shows(k, box.waves(m))
    operator = box.operator(m, shown=shown, moments=True)
    if not budget.shows_moments(operator):
        operator = box.operator(m, shown=shown, moments=False)
    hidden = budget.forecast(operator, k).hidden
    if hidden is not None:
        warn_caller(hidden, UserWarning)
    return operator


@dataclass(frozen=True)
class Box:
    """What is known of records before any is seen: bounds, and what a private release will spend."""

    asked: Asked
    low: Double
    high: Double
    budget: Budget | None

    def waves(self, m: int, broad: int = 0) -> FourierFeatures:
        """So many frequencies, and some broad ones."""
        asked, d, reach = self.asked, len(self.low), (self.high - self.low) / 2
        law = laws.law_of_bounds(reach, asked.n_components, private=self.budget is not None)
        if broad:
            law = laws.broadened(law, math.sqrt(d), laws.LENGTHS_IN_BOUNDS, (m, broad))
        center = laws.plain((self.low + self.high) / 2)
        return FourierFeatures(d, m + broad, law=law, wave=asked.wave, center=center, seed=asked.seed)

    def operator(self, m: int, *, shown: bool, moments: bool) -> Operator:
        """Frequencies and, for clusters that noise lets show, what helps to decode them."""
        d, broad = len(self.low), 0
        if shown and self.asked.broad(d):
            pure = self.budget is not None and not self.budget.delta  # each frequency more is more noise on all of them
            broad = min(BROAD_UNDER_PURE_NOISE, m) if pure else BROAD_IN_BOUNDS
        waves = self.waves(m, broad)
        if not self.asked.counted(d) or not (shown or d > MOST_COLUMNS_OF_WAVES):
            return waves
        parts: list[Operator] = [waves, Histograms.even(self.low, self.high, BINS_IN_BOUNDS)]
        if moments and 2 <= d <= MOST_COLUMNS_WITH_MOMENTS:
            reach = laws.plain((self.high - self.low) / 2)
            parts.append(SecondMoments(d, bound=reach, center=waves.center, outside=CLIP))
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
    few = _touched(asked, sampled, m)
    waves = FourierFeatures(d, m, law=law, wave=asked.wave, seed=asked.seed, subsample=few, **notes)
    if not asked.counted(d):
        return waves
    bins = bins_of_rows(rows, BINS, representative=sampled.from_all_over, columns=sampled.columns)
    return concatenate([waves, bins])


def _touched(asked: Asked, sampled: Sampled, m: int) -> int | None:
    """How many of m frequencies a record touches, None for all: chosen for clusters of many rows, and plain waves."""
    if isinstance(asked.subsample, int):
        warn_of_repetitions(sampled.rows, m, asked.n_components, asked.subsample)
        return asked.subsample
    if asked.subsample != AUTO:
        return None
    if asked.n_rows is None or asked.task not in CLUSTERS or asked.wave.dithered or not sampled.from_all_over:
        return None
    return touched(m, asked.n_components, asked.n_rows, distinct_records(sampled.rows, asked.n_rows))


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
