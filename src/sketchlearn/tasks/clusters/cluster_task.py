"""What is looked for when clusters are learned from a sketch, and what is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sketchlearn.decoders import Outcome, Problem
from sketchlearn.decoders.searches.search_loop import Progress
from sketchlearn.models import Double, Mixture
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import Histograms
from sketchlearn.sketch import Sketch
from sketchlearn.weighting.clusters_of_rows import RowSample, SquaredLoss
from sketchlearn.weighting.histogram_columns import Column
from sketchlearn.weighting.weighted_rows import WeightedRows

RECORDS_PER_PARAMETER = 10  # With fewer, any mixture explains a sketch.

Reduction = Callable[[Mixture, int, np.random.Generator, float], tuple[Double, Double]]


@dataclass(frozen=True)
class Decoded:
    """Clusters, the density that goes with them, how it went, and what is doubtful."""

    centers: Double
    shares: Double
    density: Mixture
    outcome: Outcome
    doubts: tuple[str, ...] = ()
    points: WeightedRows | None = None  # that the clusters are of, where they are of points


@dataclass(frozen=True)
class Task:
    """What is looked for: clusters of a sketch under a loss, and how a mixture is reduced to them."""

    sketch: Sketch
    problem: Problem
    units: Double
    loss: SquaredLoss
    reduce: Reduction
    rng: np.random.Generator
    progress: Progress | None = None

    @property
    def k(self) -> int:
        return self.problem.n_components

    @property
    def private(self) -> bool:
        return self.problem.target.released > 0

    @property
    def many_records(self) -> bool:
        """Whether there are so many records that not any mixture explains their sketch."""
        return float(self.sketch.count) >= RECORDS_PER_PARAMETER * self.k * (self.problem.target.n_features + 1)

    @cached_property
    def columns(self) -> list[Column] | None:
        """The histograms of the sketch, column by column, if it has any."""
        counts = part_of(self.sketch, Histograms)
        if counts is None:
            return None
        histograms: Histograms = counts.operator  # type: ignore[assignment]
        values = histograms.values or (None,) * histograms.n_features
        noise = 0.0 if counts.ledger is None else counts.ledger.sum_variance / float(counts.units) ** 2
        each = zip(histograms.edges, histograms.split_columns(np.asarray(counts.mean, np.float64)), values, strict=True)
        return [Column(np.array(e), s, None if v is None else np.array(v), noise) for e, s, v in each]

    def risk(self, sample: RowSample, centers: Double) -> float:
        """The mean loss of a sample's rows."""
        losses = self.loss.losses(sample.scaled_rows().rows, sample.scaled(centers))
        return float(sample.rows.weights @ losses)

    def reduced(self, density: Mixture) -> tuple[Double, Double]:
        """Clusters of a mixture, and their shares."""
        return reduced_in_units(self.reduce, density, self.problem, self.units, self.rng)


def reduced_in_units(
    reduce: Reduction, density: Mixture, problem: Problem, units: Double, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Clusters of a mixture, where errors count in these units, and their shares."""
    k, records = problem.n_components, 1 / problem.target.noise
    if np.all(units == 1):
        return reduce(density, k, rng, records)
    model, inverse = density.model, 1 / units
    shapes = model.scaled(density.shapes, inverse)
    inside = replace(density, model=model.in_units(inverse), locations=density.locations / units, shapes=shapes)
    centers, shares = reduce(inside, k, rng, records)
    return centers * units, shares
