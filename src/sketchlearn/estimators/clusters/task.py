"""What to say of clusters that may be far from the best."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import called, either
from sketchlearn.core.messages import counted, in_digits
from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.decoders.density import error_of_noise
from sketchlearn.inference.decoders.loop import Outcome, Progress, Status
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.errors.means import keep_rows
from sketchlearn.inference.kmeans import nearest
from sketchlearn.inference.moments import part_of
from sketchlearn.inference.tilting import Column, SupportPoints
from sketchlearn.inference.weighted_clusters import RowSample, SquaredLoss
from sketchlearn.sketch.sums import Sketch

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
        histograms: Histograms = counts.operator
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


# Risks in the comments below are those on public tables, relative to scikit-learn's KMeans on all rows.
MOST_RISK_BEYOND = 0.12  # share beyond the range of the design: tables with risks above 1.1 had 0.14 or more
BEYOND = "some records lie so far beyond the range of the design that the clusters may miss them"
RELEASE_MORE = "release more records at once, with a larger epsilon or with delta > 0, or ask for fewer clusters"
LEAST_SAMPLE_ROWS = 3  # of a given sample in a cluster
HEAVY_TAIL_SHARE = 0.33  # of the variance: samples with risks of 1.06 to 8 had 0.34 to 0.92, others less
LEAST_RECORDS = 10  # of a cluster: those with risks above 1.05, of eight clusters, had one of 1 to 5
LEAST_SHARE = 1 / 1500  # of the records: a design's 5000 rows have about three of such a cluster (Shuttle had 1.11)
MOST_TIMES_WIDER = 10.0  # the variance of a column in a density; tails beyond the histogram have some
MOST_MISFIT = 3.0  # of clusters that nothing but the sketch judges: with 160 and 300, risks were 3.0 and 2.1
MOST_ERROR_OF_NOISE = 0.025  # of a private sketch: with more, 20 of 29 had risks above 1.1, up to 22


def _keep_rows() -> str:
    return f"{keep_rows()}, or give some with {either('sample=rows', '--sample FILE')}"


def doubts_of_atoms(task: Task, atoms: SupportPoints, found: Decoded, beyond: float = 0.0) -> tuple[str, ...]:
    """What to say of clusters that may be far from the best; `beyond` tells how much lies beyond the design."""
    count = float(task.sketch.count)
    least = float(found.shares.min()) * count
    remedy = RELEASE_MORE if task.private else _keep_rows()
    doubts = []
    if not atoms.explain:
        doubts.append(f"clusters may be poor, as the sketch says little of how columns depend on each other: {remedy}")
    if beyond > MOST_RISK_BEYOND and not task.private:  # noise alone puts some there
        doubts.append(f"{BEYOND}: design on a sample that reaches further, or on wider bounds")
    if least < max(LEAST_RECORDS, LEAST_SHARE * count) and not task.private:
        doubts.append(
            f"a cluster has only about {max(least, 1):,.0f} of {count:,.0f} records, too few to be placed well by a "
            f"sketch alone: {remedy}, or ask for fewer clusters"
        )
    return tuple(doubts)


def doubts_of_noise(task: Task) -> tuple[str, ...]:
    large = error_of_noise(task.problem.target, task.k) > MOST_ERROR_OF_NOISE
    return (f"clusters may be poor, as the noise of the release is large: {RELEASE_MORE}",) if large else ()


def judgeable(task: Task, found: Decoded) -> Decoded:
    """The clusters of a mixture, with doubts where noise hides them or any mixture explains so few records."""
    outcome = found.outcome
    if outcome.status is Status.HIDDEN:
        return replace(found, doubts=(f"{outcome.status.value}; {outcome.advice}",))
    if outcome.status is not Status.EXPLAINED and not task.private and outcome.misfit > MOST_MISFIT:
        misfit = f"no mixture was found that explains the sketch (misfit {in_digits(outcome.misfit)})"
        return replace(found, doubts=(f"clusters may be poor, as {misfit}: {_keep_rows()}, or {outcome.advice}",))
    if outcome.status is not Status.EXPLAINED or task.many_records:
        return replace(found, doubts=doubts_of_noise(task))
    n, d = float(task.sketch.count), task.problem.target.n_features
    doubt = (
        f"{counted(round(n), 'record')} cannot tell {counted(task.k, 'cluster')} in {counted(d, 'column')} from a "
        f"sketch alone: keep rows beside it with {called('design', '...', rows=500)}, give some with "
        f"{either('sample=rows', '--sample FILE')}, or ask for fewer clusters"
    )
    return replace(found, outcome=replace(outcome, status=Status.UNJUDGED), doubts=(doubt,))


def doubts_of_rows(task: Task, sample: RowSample, found: Decoded) -> tuple[str, ...]:
    """What to say of clusters of given rows, which may miss what is rare and far away."""
    remedy = f"give more rows, or keep some with {called('design', '...', rows=500)}"
    rows, doubts = sample.scaled_rows(), []
    sizes = np.bincount(nearest(rows.rows, sample.scaled(found.centers))[0], minlength=task.k)
    if sizes.min() < LEAST_SAMPLE_ROWS:
        doubts.append(f"a cluster rests on {sizes.min()} of the {len(rows):,} rows of the sample: {remedy}")
    if task.columns and risk_beyond(task, task.columns, task.risk(sample, found.centers)) > MOST_RISK_BEYOND:
        doubts.append(f"{BEYOND}: {remedy}")
    away = rows.weights * np.sum((rows.rows - rows.weights @ rows.rows) ** 2, axis=1)
    share = float(np.sum(np.sort(away)[-max(1, len(away) // 100) :]) / max(away.sum(), 1e-300))
    if not doubts and share > HEAVY_TAIL_SHARE:
        doubts.append(
            f"the farthest hundredth of the sample's rows holds {share:.0%} of its variance, and rows that it misses "
            f"may lie farther still: {remedy}"
        )
    return tuple(doubts)


def is_possible(density: Mixture, columns: Sequence[Column]) -> bool:
    """Whether no column of a density is far wider than its histogram: round components may be, where units differ."""
    away = density.locations - density.weights @ density.locations
    variances = density.weights @ (density.variances() + away**2) / density.weights.sum()
    return bool(np.all(variances <= MOST_TIMES_WIDER * np.array([column.spread for column in columns])))


def refuse_other_ranges(task: Task, columns: Sequence[Column]) -> None:
    """Refuses sketches of records of which nearly all lie outside the design in a column: nothing tells them apart."""
    operator: Any = task.sketch.operator
    outside = np.array([column.chances[0] + column.chances[-1] for column in columns])
    if said := operator.part(Histograms).said_outside(outside, "records"):
        raise ValueError(said)


def risk_beyond(task: Task, columns: Sequence[Column], risk: float) -> float:
    """What records beyond the ends of the histograms cost at least, at the columns' means, as a share of a risk."""
    shares = np.array([column.chances[[0, -1]] for column in columns])
    away = np.array([column.edges[[0, -1]] - column.mean for column in columns]) / task.units[:, None]
    return float(shares.ravel() @ task.loss.losses(away.reshape(-1, 1), np.zeros((1, 1)))) / max(risk, 1e-300)
