"""Clusters from a sketch of Fourier features: of support points, of rows, or of a mixture that explains it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache, cached_property, partial
from typing import Any

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import called
from sketchlearn.core.messages import counted, in_digits
from sketchlearn.features.composed import Concatenated, concatenate
from sketchlearn.features.directions import SomeDirections
from sketchlearn.features.histograms import Histograms
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.products import CrossFeatures
from sketchlearn.inference.calibration import WeightedRows, calibrated
from sketchlearn.inference.decoders.density import (
    cleaned,
    continued_density,
    error_of_noise,
    fit_density,
    pooled_density,
)
from sketchlearn.inference.decoders.goodness_of_fit import efficient
from sketchlearn.inference.decoders.loop import Decoder, Outcome, Progress, Status, decode
from sketchlearn.inference.decoders.points import antithetic_sample, centroids, medians
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target, fourier_part
from sketchlearn.inference.distributions import DiagonalGaussian, Dirac, Mixture
from sketchlearn.inference.errors.means import more_rows
from sketchlearn.inference.kmeans import nearest
from sketchlearn.inference.moments import Moments, part_of
from sketchlearn.inference.tilting import Column, SupportPoints, histogram_residual, tilted_draws, tilted_points
from sketchlearn.inference.weighted_clusters import (
    DistanceLoss,
    RowSample,
    SquaredLoss,
    are_within_sampling_error,
    cluster_gaussians,
    clusters_of_rows,
    has_less_risk,
    knows_more,
    mixture_near,
    rough_centers,
)
from sketchlearn.sketch.sums import Sketch

ATOMS, ATOMS_PER_CLUSTER = 10_000, 200
OUTLINE_SHARE = 0.7  # of the atoms are drawn from the design's outline
MOST_COMPARED = 1000  # frequencies on which atoms and a mixture are compared
# "Atoms" are support points with exponential tilting. Risks in the comments below are those on public tables, relative
# to scikit-learn's KMeans on all rows.
IMPLAUSIBLE_RISK_RATIO = 1.5  # of a mixture's clusters to the atoms' own, on the atoms: noise made some of 8
ENOUGH_ROWS, ENOUGH_SHARE = 2000, 1 / 2  # Atoms add little to as many rows, or to such a share of the records.
MUCH_LESS_LEFT_RATIO = 0.7  # of a sketch: good clusters left 0.6 of what atoms do, those worse than atoms 0.75
LESS_LEFT_RATIO = 0.9  # of a private sketch: mixtures better than atoms left 0.12 to 0.88, worse ones 0.92 to 1.1
FAR_LESS_RISK_RATIO = 0.5  # of the risks of both, each by itself: Gaussians had 0.2 to 0.45, tables 0.56 or more
DRAWS_LEFT_RATIO = 0.55  # of what atoms leave: draws better than those left 0.36 to 0.49, worse ones 0.62 to 0.66
MISFIT_WORTH_DRAWS = 3.0  # of a mixture of a private sketch: with 1.6 to 2.3, draws had risks of 1.3 to 2 and atoms 1.1
EQUAL_RISK_RATIO = 1.005  # of a mixture's clusters on the atoms: overlapping Gaussians had 1.0008
ALIKE_RISK_RATIO = 1.04  # of a mixture's clusters on the atoms: good ones had up to 1.03, others 1.06 or more
MOST_HISTOGRAM_MISFIT = 2.0  # of a mixture: true ones had 0.9 to 1.8, those worse than atoms 2.3 to 200
MISFIT_WORTH_A_SEARCH = 30.0  # Above it, near the atoms, a search has little hope to explain the sketch.
RECORDS_PER_PARAMETER = 10  # With fewer, any mixture explains a sketch.
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
    """Clusters of a sketch to find, under a loss."""

    sketch: Sketch
    problem: Problem
    units: Double
    loss: SquaredLoss
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
        """Whether there are enough records that not every mixture explains their sketch."""
        return float(self.sketch.count) >= RECORDS_PER_PARAMETER * self.k * (self.problem.target.n_features + 1)

    @cached_property
    def columns(self) -> list[Column]:
        """The histograms of the sketch, column by column, if it has any."""
        return Column.of(self.sketch) or []

    def risk(self, sample: RowSample, centers: Double) -> float:
        losses = self.loss.losses(sample.scaled_rows().rows, sample.scaled(centers))
        return float(sample.rows.weights @ losses)


def reduced_in_units(
    reduce: Callable[[Mixture, int, np.random.Generator, float], tuple[Double, Double]],
    density: Mixture,
    problem: Problem,
    units: Double,
    rng: np.random.Generator,
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


def mixture_clusters(task: Task, decoder: Decoder) -> Decoded:
    """Those of a mixture that a decoder fits to the sketch."""
    problem = cleaned(task.problem, decoder, task.rng, task.progress)
    density, outcome = fit_density(problem, decoder, task.rng, task.progress)
    return _of_mixture(task, outcome, density)


def point_clusters(task: Task, decoder: Decoder) -> Decoded:
    """The points themselves that a decoder fits to the sketch."""
    outcome = decode(decoder, task.problem, task.rng, progress=task.progress)
    density = task.problem.in_data_units(outcome.mixture)
    shares = density.weights / density.weights.sum()
    return Decoded(density.locations, shares, replace(density, weights=shares), outcome)


def clusters_of_sketch(task: Task, decoder: Decoder) -> Decoded:
    """The better of two: clusters of support points, for any distribution, and those of a mixture.

    Both are compared by their residuals; a mixture of a private sketch must explain it.
    """
    if not task.columns:
        return _without_columns(task, decoder)
    operator: Any = task.sketch.operator
    outside = np.array([column.chances[0] + column.chances[-1] for column in task.columns])
    if said := operator.part(Histograms).said_outside(outside, "records"):
        raise ValueError(said)
    atoms = _atoms(task)
    sample = RowSample(atoms.points, task.units)
    left = cache(partial(_left_by_atoms, task, atoms))
    found = _of_points(task, sample, Status.ATOMS)
    of_mixture, joined = _explained(task, atoms, found.centers, left, decoder)
    if joined is not None:
        sample, found = joined, _of_points(task, joined, Status.ATOMS)
    best = found
    if (
        of_mixture
        and is_possible(of_mixture.density, task.columns)
        and _better(task, of_mixture, atoms, found.centers, left)
    ):
        best = of_mixture
    elif of_mixture and task.private and (drawn := _drawn_atoms(task, of_mixture.outcome, left(), decoder)):
        atoms, sample = drawn, RowSample(drawn.points, task.units)
        best = found = _of_points(task, sample, Status.ATOMS)
    doubts = _doubts_of_noise(task)
    if not doubts and best.outcome.status is not Status.EXPLAINED:
        doubts = _doubts_of_atoms(task, atoms, found, _risk_beyond(task, task.risk(sample, found.centers)))
    low, high = np.array([column.edges[[0, -1]] for column in task.columns]).T
    return replace(best, centers=np.clip(best.centers, low, high), doubts=doubts)


def _without_columns(task: Task, decoder: Decoder) -> Decoded:
    """Clusters of a sketch without histograms: of a mixture, or of draws from one with much smaller residuals."""
    found = _judgeable(task, mixture_clusters(task, decoder))
    if not task.private or found.outcome.status not in (Status.REFINED, Status.STALLED):
        return found
    atoms = _drawn_atoms(task, found.outcome, _left_by_mixture(task, found.outcome.mixture), decoder)
    if atoms is None:
        return found
    of_atoms = _of_points(task, RowSample(atoms.points, task.units), Status.ATOMS)
    return replace(of_atoms, doubts=_doubts_of_noise(task) or _doubts_of_atoms(task, atoms, of_atoms))


def _better(task: Task, found: Decoded, atoms: SupportPoints, centers: Double, left: Callable[[], float]) -> bool:
    """Whether a mixture is better than support points with these centers, whose residual is `left()`.

    One that explains the sketch is, if its centers are as good for the support points: smaller residuals of those fit
    sampling noise, too. Otherwise the residual is a poor criterion: support points that explain the sketch are taken,
    unless the mixture's residual is much smaller, or smaller with centers that are nearly as good for them.
    """
    sample = RowSample(atoms.points, task.units)
    risk, explained = task.risk(sample, centers), found.outcome.status is Status.EXPLAINED
    relative_risk = task.risk(sample, found.centers) / max(risk, 1e-300)
    if explained and relative_risk <= EQUAL_RISK_RATIO:
        return True
    by_mixture = _left_by_mixture(task, found.outcome.mixture)
    if task.private:
        return explained and _better_in_noise(task, found, by_mixture / left(), risk)
    if relative_risk > IMPLAUSIBLE_RISK_RATIO:
        return False
    alike = relative_risk <= ALIKE_RISK_RATIO or not atoms.explain
    return by_mixture <= (1.0 if alike else MUCH_LESS_LEFT_RATIO) * left()


def _better_in_noise(task: Task, found: Decoded, relative_left: float, risk: float) -> bool:
    """Whether a mixture that explains the waves of a private sketch, as many do, explains its histograms, too."""
    rows = RowSample(WeightedRows.of(antithetic_sample(found.density, ATOMS, task.rng)), task.units)
    if histogram_residual(task.columns, rows.rows, float(task.sketch.count)) > MOST_HISTOGRAM_MISFIT:
        return False
    return relative_left <= LESS_LEFT_RATIO or task.risk(rows, found.centers) <= FAR_LESS_RISK_RATIO * risk


def clusters_with_rows(task: Task, sample: RowSample) -> Decoded:
    """Clusters of rows calibrated to the sketch; or those of a mixture that explains it, if they are better."""
    if sample.complete:
        return _of_points(task, sample, Status.ALL_ROWS)
    own = rough_centers(sample, task.k, task.rng)
    near = mixture_near(task.problem, sample, own)
    points = cache(lambda: _with_atoms(task, replace(sample, rows=calibrated(task.sketch, [sample.rows], task.rng)[0])))
    if near.status is Status.EXPLAINED:
        found = _of_mixture(task, near)
        if knows_more(task.sketch, sample):
            if are_within_sampling_error(sample, found.centers, own, task.loss):
                return found
            joined = are_few(len(sample.rows), task.sketch) and len(points().rows) > len(sample.rows)
            if has_less_risk(task.sketch, sample, found.centers, task.loss, task.rng, joined=joined):
                return found
    found = _of_points(task, points(), Status.ROWS)
    return found if sample.chances_of is not None else replace(found, doubts=_doubts_of_rows(task, sample, found))


def are_few(n_rows: int, sketch: Sketch) -> bool:
    """Whether so few rows are combined with support points."""
    return n_rows < min(ENOUGH_ROWS, float(sketch.count) * ENOUGH_SHARE)


def _with_atoms(task: Task, sample: RowSample) -> RowSample:
    """Few rows, combined with support points of the same weight: the random errors of both average out.

    Where rows have the inclusion probability c, which is large far from the center, they have the share (1 + c) / 2.
    """
    few = are_few(len(sample.rows), task.sketch)
    atoms = _atoms(task) if few and task.columns and not task.private else None
    if atoms is None or not atoms.explain:
        return sample
    rows, points = sample.rows, atoms.points
    known = sample.chances_of or (lambda rows: np.zeros(len(rows)))
    of_rows, of_atoms = rows.weights * (1 + known(rows.rows)) / 2, points.weights * (1 - known(points.rows))
    of_atoms *= (1 - of_rows.sum()) / max(of_atoms.sum(), 1e-300)
    weights = np.concatenate([of_rows, of_atoms])
    return replace(sample, rows=WeightedRows.of(np.concatenate([rows.rows, points.rows]), weights))


def _explained(
    task: Task, atoms: SupportPoints, centers: Double, left: Callable[[], float], decoder: Decoder
) -> tuple[Decoded | None, RowSample | None]:
    """Clusters of a mixture of a private sketch, or of one that explains an exact sketch; None without such a mixture.

    Without noise, the search starts at the centers of the support points: first there alone, then with a few steps of
    the decoder. The decoder's whole search, which takes longer, is for sketches that support points do not explain. If
    a mixture does not explain the sketch, but has much smaller residuals, its draws are added to the support points:
    the second result.
    """
    if task.private:
        return mixture_clusters(task, decoder), None
    if not task.many_records:
        return None, None
    sample = RowSample(atoms.points, task.units)
    near = mixture_near(task.problem, sample, centers)
    if near.status is Status.EXPLAINED:
        return _of_mixture(task, near), None
    if not atoms.explain:
        return mixture_clusters(task, decoder), None
    if near.misfit > MISFIT_WORTH_A_SEARCH and _left_by_mixture(task, near.mixture) > left():
        return None, None
    problem = task.problem.without_harmonics(near.mixture)
    density, outcome = continued_density(problem, decoder, near, task.rng, task.progress)
    if outcome.status is Status.EXPLAINED:
        return _of_mixture(task, outcome, density), None
    if _left_by_mixture(task, outcome.mixture) > MUCH_LESS_LEFT_RATIO * left():
        return None, None
    draws = antithetic_sample(density, len(atoms.points), task.rng)
    rows, half = np.concatenate([atoms.points.rows, draws]), np.full(len(draws), 1 / len(draws))
    return None, replace(sample, rows=WeightedRows.of(rows, np.concatenate([atoms.points.weights, half])))


def _atoms(task: Task) -> SupportPoints:
    operator = fourier_part(task.sketch)[1]
    n = max(ATOMS, ATOMS_PER_CLUSTER * task.k)
    outline = None if operator.outline is None else operator.outline.draw(int(OUTLINE_SHARE * n), task.rng)
    target, correlation = Target.of(task.sketch), None
    if outline is None and part_of(task.sketch, SecondMoments) is not None:
        deviations = np.sqrt([column.spread for column in task.columns])
        correlation = Moments.of(task.sketch, "clusters").correlation(deviations)
    return tilted_points(target, task.columns, n, task.rng, units=task.units, outline=outline, correlation=correlation)


def _efficient(task: Task, outcome: Outcome) -> Outcome:
    """The outcome with the mixture of least variance, if a mixture is known to explain the sketch."""
    mixture, found = outcome.mixture, None
    determined = len(mixture) <= task.k and task.many_records and not mixture.model.tied
    if determined and outcome.status is Status.EXPLAINED:
        found = efficient(task.problem.plain, mixture)
    if found is None:
        return outcome
    cost = task.problem.target.cost(found)
    return replace(outcome, mixture=found, cost=cost, misfit=task.problem.misfit(cost))


def _drawn_atoms(task: Task, outcome: Outcome, left: float, decoder: Decoder) -> SupportPoints | None:
    """Support points drawn from a density of many components, for a private sketch that a mixture does not explain.

    None, if their residual is hardly smaller than `left`.
    """
    if outcome.status is Status.HIDDEN or outcome.misfit < MISFIT_WORTH_DRAWS:
        return None
    problem = cleaned(task.problem, decoder, task.rng, task.progress)
    density, best = pooled_density(problem, decoder, task.rng, task.progress)
    rows = antithetic_sample(density, max(ATOMS, ATOMS_PER_CLUSTER * task.k), task.rng)
    target = Target.of(task.sketch)
    atoms = tilted_draws(target, rows, task.rng)
    followed = 2 * target.number_variance * problem.n_parameters(best.mixture) / problem.plain.n_numbers
    return atoms if _left_by_atoms(task, atoms) + followed <= DRAWS_LEFT_RATIO * left else None


def _of_mixture(task: Task, outcome: Outcome, density: Mixture | None = None) -> Decoded:
    """Clusters of an outcome's density, or of a more efficient mixture."""
    better = _efficient(task, outcome)
    if density is None or better is not outcome:
        density = task.problem.in_data_units(better.mixture.heavy())
    reduce = medians if isinstance(task.loss, DistanceLoss) else centroids
    return Decoded(*reduced_in_units(reduce, density, task.problem, task.units, task.rng), density, better)


def _of_points(task: Task, sample: RowSample, status: Status) -> Decoded:
    centers, shares = clusters_of_rows(sample, task.k, task.loss, task.rng)
    density = cluster_gaussians(centers, sample.rows)
    own = task.problem.in_own_units(DiagonalGaussian(), *density.parts())
    cost = task.problem.target.cost(own)
    outcome = Outcome(own, cost, task.problem.misfit(cost), 0, status)
    return Decoded(centers, shares, density, outcome, points=sample.rows)


def _left_by_atoms(task: Task, atoms: SupportPoints) -> float:
    target = Target.of(task.sketch).some(_compared(task))
    left = target.numbers - atoms.points.weights.astype(np.float32) @ target.features(atoms.points.rows)
    return float(np.mean(left**2) + 2 * target.number_variance * atoms.freedom / task.problem.plain.n_numbers)


def _left_by_mixture(task: Task, mixture: Mixture) -> float:
    problem, noise = task.problem.without_harmonics(mixture), task.problem.target.number_variance
    plain = problem.plain.some(_compared(task))
    left = plain.residual(mixture)
    followed = 2 * noise * problem.n_parameters(mixture) / problem.plain.n_numbers
    return float(np.mean(left**2 if plain.imaginary else left[0] ** 2) + followed)


def _compared(task: Task) -> np.ndarray:
    m = len(task.problem.plain)
    return np.unique(np.linspace(0, m - 1, min(m, MOST_COMPARED)).astype(int))


def _doubts_of_atoms(task: Task, atoms: SupportPoints, found: Decoded, beyond: float = 0.0) -> tuple[str, ...]:
    """Warnings of clusters that may be far from the best; `beyond` is the share of the risk beyond the design."""
    count = float(task.sketch.count)
    least = float(found.shares.min()) * count
    remedy = RELEASE_MORE if task.private else more_rows()
    doubts = []
    if not atoms.explain:
        doubts.append(f"clusters may be poor, as the sketch has little information on dependent columns: {remedy}")
    if beyond > MOST_RISK_BEYOND and not task.private:  # noise alone puts some there
        doubts.append(f"{BEYOND}: design on a sample that reaches further, or on wider bounds")
    if least < max(LEAST_RECORDS, LEAST_SHARE * count) and not task.private:
        doubts.append(
            f"a cluster has only about {max(least, 1):,.0f} of {count:,.0f} records, too few to estimate its center "
            f"from a sketch alone: {remedy}, or ask for fewer clusters"
        )
    return tuple(doubts)


def _doubts_of_noise(task: Task) -> tuple[str, ...]:
    large = error_of_noise(task.problem.target, task.k) > MOST_ERROR_OF_NOISE
    return (f"clusters may be poor, as the noise of the release is large: {RELEASE_MORE}",) if large else ()


def _judgeable(task: Task, found: Decoded) -> Decoded:
    """The clusters of a mixture, with doubts if noise hides them or any mixture explains so few records."""
    outcome = found.outcome
    if outcome.status is Status.HIDDEN:
        return replace(found, doubts=(f"{outcome.status.value}; {outcome.advice}",))
    if outcome.status is not Status.EXPLAINED and not task.private and outcome.misfit > MOST_MISFIT:
        misfit = f"no mixture was found that explains the sketch (misfit {in_digits(outcome.misfit)})"
        return replace(found, doubts=(f"clusters may be poor, as {misfit}: {more_rows()}, or {outcome.advice}",))
    if outcome.status is not Status.EXPLAINED or task.many_records:
        return replace(found, doubts=_doubts_of_noise(task))
    n, d = float(task.sketch.count), task.problem.target.n_features
    doubt = (
        f"a sketch of {counted(round(n), 'record')} alone cannot determine {counted(task.k, 'cluster')} in "
        f"{counted(d, 'column')}: {more_rows()}, or ask for fewer clusters"
    )
    return replace(found, outcome=replace(outcome, status=Status.UNJUDGED), doubts=(doubt,))


def _doubts_of_rows(task: Task, sample: RowSample, found: Decoded) -> tuple[str, ...]:
    """Warnings of clusters of given rows, which may miss rare and distant records."""
    remedy = f"give more rows, or keep some with {called('design', '...', rows=500)}"
    rows, doubts = sample.scaled_rows(), []
    sizes = np.bincount(nearest(rows.rows, sample.scaled(found.centers))[0], minlength=task.k)
    if sizes.min() < LEAST_SAMPLE_ROWS:
        doubts.append(f"a cluster has only {sizes.min()} of the {len(rows):,} rows of the sample: {remedy}")
    if task.columns and _risk_beyond(task, task.risk(sample, found.centers)) > MOST_RISK_BEYOND:
        doubts.append(f"{BEYOND}: {remedy}")
    away = rows.weights * np.sum((rows.rows - rows.weights @ rows.rows) ** 2, axis=1)
    share = float(np.sum(np.sort(away)[-max(1, len(away) // 100) :]) / max(away.sum(), 1e-300))
    if not doubts and share > HEAVY_TAIL_SHARE:
        doubts.append(
            f"the farthest hundredth of the sample's rows has {share:.0%} of its variance, and other rows may lie even "
            f"farther: {remedy}"
        )
    return tuple(doubts)


def is_possible(density: Mixture, columns: list[Column]) -> bool:
    """Whether no column of a density is far wider than its histogram, as round components may be if units differ."""
    away = density.locations - density.weights @ density.locations
    variances = density.weights @ (density.variances() + away**2) / density.weights.sum()
    return bool(np.all(variances <= MOST_TIMES_WIDER * np.array([column.spread for column in columns])))


def _risk_beyond(task: Task, risk: float) -> float:
    """The least cost of records beyond the ends of the histograms, for a center at the mean, as a share of a risk."""
    shares = np.array([column.chances[[0, -1]] for column in task.columns])
    away = np.array([column.edges[[0, -1]] - column.mean for column in task.columns]) / task.units[:, None]
    return float(shares.ravel() @ task.loss.losses(away.reshape(-1, 1), np.zeros((1, 1)))) / max(risk, 1e-300)


DRAWS = 10_000  # points that stand for a mixture
MODEL_ERROR = 1e-3  # variance of the error of points as a model of the distribution, relative to that of the waves
ROUNDING_ERROR = 1e-6  # the same of each number, since points are finitely many
LEAST_FILLED = 0.08  # deviation of a column over its bound: with 0.06 the squared error was 1.5 times the least
BOUNDS_TOO_WIDE = "the centers may be poor, as values fill little of the declared bounds: declare tighter ones"
MOST_ADDED_ERROR = 0.008  # estimated: 0.002 and 0.003 where 2 and 3 % were added, 0.013 to 0.09 where 9 to 17 %
UNCERTAIN_MEANS = (
    "the centers may be poor, as estimates from two halves of the sketch differ: design it on a sample of rows, ask "
    "for fewer clusters or, for a private sketch, spend more epsilon"
)
EVERY, HALVES = slice(None), (slice(0, None, 2), slice(1, None, 2))  # of the waves


@dataclass(frozen=True)
class SketchOfSums:
    """The sketch of random projections of wide rows, and that of products of waves with all columns."""

    sums: Sketch
    crosses: Sketch
    map: SomeDirections  # of rows to projections

    @classmethod
    def of(cls, sketch: Sketch) -> SketchOfSums | None:
        """Those of a design in bounds of many columns; None in other sketches."""
        operator = sketch.operator
        if not isinstance(operator, Concatenated):
            return None
        *parts, last = operator.parts
        maps = [part for part in parts if isinstance(part, SomeDirections)]
        if not isinstance(last, CrossFeatures) or not isinstance(last.crossed, SomeDirections):
            return None
        if not maps or len(maps) < len(parts) or {*map(_directions, maps)} != {_directions(last.crossed)}:
            return None
        inner, ledger = concatenate([part.inner for part in maps]), sketch.ledger
        if ledger is not None and ledger.parts is not None:
            ledger = replace(ledger, parts=ledger.parts[:-1])
        sums = sketch.of_same_records(inner, sketch.sums[: inner.n_sums], ledger)
        return cls(sums, operator.split(sketch)[-1], maps[0])

    @property
    def middle(self) -> Double:
        return self.crosses.operator.middle

    @cached_property
    def _back(self) -> Double:
        """The matrix from projections to the shortest row that has them."""
        return np.asarray(np.linalg.pinv(self.map.projection.T), np.float64)

    def lifted(self, found: Decoded, rng: np.random.Generator) -> Decoded:
        """Clusters of projections, with their centers in all columns."""
        points = found.points or WeightedRows.of(antithetic_sample(found.density, DRAWS, rng))
        centers = self.middle + self._means(points, found.centers)
        box = np.array(self.map.bound)
        centers = np.clip(centers, self.middle - box, self.middle + box)
        density = Mixture(Dirac(), found.shares, centers, np.zeros((1, 0)))
        outcome, doubts = replace(found.outcome, mixture=density), found.doubts
        variance = _squares(points, points.weights @ points.rows) * self._per_column
        if float(np.sqrt(variance / np.mean(np.square(box)))) < LEAST_FILLED:
            doubts += (BOUNDS_TOO_WIDE,)
        if self._added_error(points, found) > MOST_ADDED_ERROR:
            doubts += (UNCERTAIN_MEANS,)
        return replace(found, centers=centers, density=density, outcome=outcome, doubts=doubts)

    def _means(self, points: WeightedRows, centers: Double, some: slice = EVERY) -> Double:
        """Means of the rows whose projections lie nearest to each center, less the middle; by some of the waves.

        A row is modelled as the mean of its cluster, a linear function of its projections relative to the center, and
        noise: sums of waves times rows are then linear in the means, with factors estimated from the points.
        """
        operator, weights = self.crosses.operator, points.weights[:, None]
        assert isinstance(operator, CrossFeatures)
        labels = nearest(points.rows, centers)[0]
        waves, seen = operator.waves.features(points.rows)[:, some], operator.split(self.crosses.mean)[some]
        waves, seen = np.hstack([waves.real, waves.imag]), np.vstack([seen.real, seen.imag])
        spread = _squares(points, points.weights @ points.rows)
        unit = np.sqrt(spread / points.rows.shape[1])
        known = np.hstack([np.eye(len(centers))[labels], (points.rows - centers[labels]) / unit])
        factors, products = waves.T @ (weights * known), waves.T @ (weights * waves)
        noise = self._noise() / (spread * self._per_column)
        errors = MODEL_ERROR * products + (ROUNDING_ERROR + noise) * np.eye(len(products))
        middle = (points.weights @ points.rows) @ self._back
        usual = np.vstack([np.tile(middle, (len(centers), 1)), np.zeros((known.shape[1] - len(centers), len(middle)))])
        told = np.linalg.solve(errors, factors)
        found = usual + np.linalg.solve(told.T @ factors + np.eye(known.shape[1]), told.T @ (seen - factors @ usual))
        means = found[: len(centers)]
        return np.asarray(means + (centers - means @ self.map.projection.T) @ self._back)

    @property
    def _per_column(self) -> float:
        """The variance of a column per variance of all projections, which keep the total up to their unit."""
        return 1 / float(np.sum(self.map.projection**2))

    def _added_error(self, points: WeightedRows, found: Decoded) -> float:
        """The relative increase of the squared error by errors of the means, estimated from two halves of the waves.

        The error of the mean of two estimates is half their difference.
        """
        halves = [self._means(points, found.centers, half) for half in HALVES]
        apart = float(found.shares @ np.sum((halves[0] - halves[1]) ** 2, axis=1))
        own = nearest(points.rows, found.centers)[0]
        within = _squares(points, found.centers[own]) * self._per_column * len(self.middle)
        return apart / 4 / within

    def _noise(self) -> float:
        """Variance of a private release's noise in a mean of a wave times a column, averaged over columns."""
        ledger, operator = self.crosses.ledger, self.crosses.operator
        if ledger is None:
            return 0.0
        one = np.abs(operator.mean_of(np.ones(operator.n_sums)))
        return float(np.mean(one**2) / 2 * ledger.sum_variance / float(self.crosses.units) ** 2)


def _directions(operator: SomeDirections) -> tuple[object, ...]:
    return operator.directions, operator.shift, operator.bound, operator.center


def _squares(points: WeightedRows, centers: Double) -> float:
    return max(float(points.weights @ np.sum((points.rows - centers) ** 2, axis=1)), 1e-300)
