"""Clusters from a sketch: of atoms or of rows that agree with it, or of a mixture that explains it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.densities.density_from_sketch import cleaned, fit_density
from sketchlearn.decoders.problems.decoding_outcome import Outcome, Status
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.decoding_target import Target, fourier_part
from sketchlearn.decoders.refinements.reduction_to_points import nearest
from sketchlearn.decoders.searches.search_loop import Decoder, Progress
from sketchlearn.models import DiagonalGaussian, Mixture
from sketchlearn.models.frequency_set import Double
from sketchlearn.moments.moments_of_sketch import Moments, part_of
from sketchlearn.operators import Histograms, SecondMoments
from sketchlearn.sketch import Sketch
from sketchlearn.weighting.calibrated_rows import calibrated
from sketchlearn.weighting.clusters_of_rows import (
    RowSample,
    SquaredLoss,
    clouds,
    clusters_of_rows,
    has_less_risk,
    mixture_near,
    parts_of,
)
from sketchlearn.weighting.entropy_tilting import WaveMeans
from sketchlearn.weighting.histogram_columns import Column
from sketchlearn.weighting.tilted_atoms import Atoms, tilted_atoms
from sketchlearn.weighting.weighted_rows import WeightedRows

ATOMS, ATOMS_PER_CLUSTER = 10_000, 200
OUTLINED = 0.7  # share of the atoms that are drawn from the design's outline
MOST_COMPARED = 1000  # frequencies on which atoms and a mixture are compared
RECORDS_PER_PARAMETER = 10  # below that, anything explains a sketch
MOST_BEYOND = 0.12  # of what clusters cost, beyond the range of the design: public tables above 1.1 had 0.14 or more
BEYOND = "some records lie so far beyond the range of the design that the clusters may miss them"
FEW_ROWS = 3  # of a given sample in a cluster
HEAVY_TAILED = 0.33  # share of the variance: tables whose samples were wrong by 1.06 to 8 had 0.34 to 0.92, others less
FEW_RECORDS = 10  # of a cluster: those above 1.05 on public tables, eight clusters, had one of 1 to 5
RARE_SHARE = 1 / 1500  # of the records: a design's 5000 rows have about three of such a cluster (Shuttle: 1.07 to 1.11)
#: risk of a mixture's clusters on the atoms, in that of the atoms' own: noise made some of 8
IMPLAUSIBLE_RISK_RATIO = 1.5
ENOUGH_ROWS, ROWS_OF_MANY = 2000, 2  # so many rows, or one of so many records, to which atoms have little to add
#: of what atoms leave of a private sketch: clusters had 0.6, mixtures that erred more than atoms 0.75
MUCH_LESS_LEFT_RATIO = 0.7
#: risk of a mixture's clusters on the atoms: clear ones had up to 1.03, those that erred 1.06 or more
ALIKE_RISK_RATIO = 1.04
MISFIT_WORTH_A_SEARCH = 30.0  # misfit near the atoms, up to which a search may find a mixture that explains the sketch

Reduction = Callable[[Mixture, int, np.random.Generator], tuple[Double, Double]]


@dataclass(frozen=True)
class Decoded:
    """Clusters, the density that goes with them, how it went, and what is doubtful."""

    centers: Double
    shares: Double
    density: Mixture
    outcome: Outcome
    doubts: tuple[str, ...] = ()


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

    def losses(self, sample: RowSample, centers: Double) -> Double:
        """What each of the rows costs."""
        return self.loss.losses(sample.scaled_rows().rows, sample.scaled(centers))

    def reduced(self, density: Mixture) -> tuple[Double, Double]:
        """Clusters of a mixture, and their shares."""
        return reduced_in_units(self.reduce, density, self.k, self.units, self.rng)


def reduced_in_units(
    reduce: Reduction, density: Mixture, k: int, units: Double, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Clusters of a mixture, where errors count in these units, and their shares."""
    if np.all(units == 1):
        return reduce(density, k, rng)
    model, inverse = density.model, 1 / units
    shapes = model.scaled(density.shapes, inverse)
    inside = replace(density, model=model.in_units(inverse), locations=density.locations / units, shapes=shapes)
    centers, shares = reduce(inside, k, rng)
    return centers * units, shares


def mixture_clusters(task: Task, decoder: Decoder) -> Decoded:
    """Those of a mixture that a decoder fits to the sketch."""
    problem = cleaned(task.problem, decoder, task.rng, task.progress)
    density, outcome = fit_density(problem, decoder, task.rng, task.progress)
    return Decoded(*task.reduced(density), density, outcome)


def clusters_of_sketch(task: Task, decoder: Decoder) -> Decoded:
    """The better of two kinds: clusters of atoms, which assume no law, and those of a mixture.

    Both are judged by what they leave of the sketch, and by how much of a release's noise they can follow (Mallows).
    """
    counts = part_of(task.sketch, Histograms)
    if counts is None:
        return _judgeable(task, mixture_clusters(task, decoder))
    columns = _columns(counts)
    atoms = _atoms(task, columns)
    sample = RowSample(atoms.points, task.units)
    private = task.problem.target.released > 0
    left = _left_by_atoms(task, atoms)
    found = _in_noise(task, decoder) if private else _explained(task, atoms, left, decoder)
    of_atoms = _of_points(task, sample, Status.ATOMS)
    risk = _risk(task, sample, of_atoms)
    of_atoms = replace(of_atoms, doubts=_doubts(task, atoms, of_atoms, _beyond(task, columns, risk)))
    if found is None or not _better(task, found, atoms, left, _risk(task, sample, found) / risk):
        return _inside(of_atoms, counts)
    doubts = () if found.outcome.status is Status.EXPLAINED else of_atoms.doubts
    return _inside(replace(found, doubts=doubts), counts)


def _better(task: Task, found: Decoded, atoms: Atoms, left: float, relative_risk: float) -> bool:
    """Whether a mixture is taken instead of atoms that leave so much of the sketch.

    Noise makes what is left a poor judge: atoms that explain a private sketch are taken, unless a mixture leaves much
    less of it, or has centers that are as good for the atoms, too.
    """
    if relative_risk > IMPLAUSIBLE_RISK_RATIO:
        return False
    by_mixture = _left_by_mixture(task, found.outcome.mixture)
    if task.problem.target.released == 0:
        return by_mixture <= left
    alike = relative_risk <= ALIKE_RISK_RATIO and by_mixture <= left
    return not atoms.explain or by_mixture <= MUCH_LESS_LEFT_RATIO * left or alike


def clusters_with_rows(task: Task, sample: RowSample) -> Decoded:
    """Clusters of rows that agree with the sketch; or those of a mixture that explains it, if they are better."""
    if sample.complete:
        return _of_points(task, sample, Status.ALL_ROWS)
    rows = replace(sample, rows=calibrated(task.sketch, [sample.rows], task.rng)[0])
    near, points = mixture_near(task.problem, rows, task.rng), _with_atoms(task, rows)
    if near.status is Status.EXPLAINED:
        found, joined = _of_mixture(task, near), points is not rows
        if has_less_risk(task.sketch, sample, found.centers, task.loss, task.rng, joined=joined):
            return found
    found = _of_points(task, points, Status.ROWS)
    return found if sample.chances_of is not None else replace(found, doubts=_doubts_of_given(task, sample, found))


def _doubts_of_given(task: Task, sample: RowSample, found: Decoded) -> tuple[str, ...]:
    """What to say of clusters of given rows, which may miss what is rare and far away."""
    remedy = "give more rows, or keep some with design(..., rows=500)"
    counts, rows = part_of(task.sketch, Histograms), sample.scaled_rows()
    doubts = []
    sizes = np.bincount(nearest(rows.rows, sample.scaled(found.centers))[0], minlength=task.k)
    if sizes.min() < FEW_ROWS:
        doubts.append(f"a cluster rests on {sizes.min()} of the {len(rows):,} rows of the sample: {remedy}")
    if counts is not None and _beyond(task, _columns(counts), _risk(task, sample, found)) > MOST_BEYOND:
        doubts.append(f"{BEYOND}: {remedy}")
    if not doubts and (share := _held_by_farthest(rows)) > HEAVY_TAILED:
        doubts.append(
            f"the farthest hundredth of the sample's rows holds {share:.0%} of its variance, and rows that it misses "
            f"may lie farther still: {remedy}"
        )
    return tuple(doubts)


def _held_by_farthest(rows: WeightedRows) -> float:
    """What the farthest hundredth of the rows has of the variance."""
    away = rows.weights * np.sum((rows.rows - rows.weights @ rows.rows) ** 2, axis=1)
    return float(np.sum(np.sort(away)[-max(1, len(away) // 100) :]) / max(away.sum(), 1e-300))


def _risk(task: Task, sample: RowSample, found: Decoded) -> float:
    """The mean loss of a sample's rows at the centers that were found."""
    return float(sample.rows.weights @ task.losses(sample, found.centers))


def _beyond(task: Task, columns: Sequence[Column], risk: float) -> float:
    """What records beyond the ends of the histograms cost at least, at the columns' means, as a share of a risk."""
    shares = np.array([column.chances[[0, -1]] for column in columns])
    away = np.array([column.edges[[0, -1]] - column.mean for column in columns]) / task.units[:, None]
    losses = task.loss.losses(away.reshape(-1, 1), np.zeros((1, 1)))
    return float(shares.ravel() @ losses) / max(risk, 1e-300)


def _with_atoms(task: Task, sample: RowSample) -> RowSample:
    """Few rows of many, joined by atoms of the same weight: what either has by chance averages out.

    Where a share c of the records was kept, such as far from the center, rows have the share (1 + c) / 2.
    """
    counts = part_of(task.sketch, Histograms)
    few = len(sample.rows) < min(ENOUGH_ROWS, float(task.sketch.count) / ROWS_OF_MANY)
    if not few or counts is None or task.problem.target.released > 0:
        return sample
    atoms = _atoms(task, _columns(counts))
    if not atoms.explain:
        return sample
    rows, points = sample.rows, atoms.points
    known = sample.chances_of or (lambda rows: np.zeros(len(rows)))
    of_rows, of_atoms = rows.weights * (1 + known(rows.rows)) / 2, points.weights * (1 - known(points.rows))
    of_atoms *= (1 - of_rows.sum()) / max(of_atoms.sum(), 1e-300)
    weights = np.concatenate([of_rows, of_atoms])
    return replace(sample, rows=WeightedRows.of(np.concatenate([rows.rows, points.rows]), weights))


def _in_noise(task: Task, decoder: Decoder) -> Decoded | None:
    """Clusters of a mixture that explains a private sketch; None where none does."""
    found = mixture_clusters(task, decoder)
    return found if found.outcome.status is Status.EXPLAINED else None


def _explained(task: Task, atoms: Atoms, left: float, decoder: Decoder) -> Decoded | None:
    """Clusters of a mixture that may explain an exact sketch of many records; None where that is hopeless.

    It is looked for near the atoms first; a decoder's search, which takes longer, is for sketches that are nearly
    explained there, or that atoms explain less well.
    """
    if float(task.sketch.count) < RECORDS_PER_PARAMETER * task.k * (task.problem.target.n_features + 1):
        return None  # anything explains a sketch of few records
    near = mixture_near(task.problem, RowSample(atoms.points, task.units), task.rng)
    if near.status is Status.EXPLAINED:
        return _of_mixture(task, near)
    promising = near.misfit <= MISFIT_WORTH_A_SEARCH or _left_by_mixture(task, near.mixture) <= left
    return mixture_clusters(task, decoder) if promising or not atoms.explain else None


def _columns(counts: Sketch) -> list[Column]:
    """The histograms of a sketch, column by column."""
    histograms = counts.operator
    assert isinstance(histograms, Histograms)
    shares = histograms.split_columns(counts.mean)
    values = histograms.values or (None,) * histograms.n_features
    return [
        Column(np.array(edges), np.asarray(share, np.float64), None if value is None else np.array(value))
        for edges, share, value in zip(histograms.edges, shares, values, strict=True)
    ]


def _atoms(task: Task, columns: Sequence[Column]) -> Atoms:
    operator = fourier_part(task.sketch)[1]
    n = max(ATOMS, ATOMS_PER_CLUSTER * task.k)
    outline = None if operator.outline is None else operator.outline.draw(int(OUTLINED * n), task.rng)
    means, correlation = WaveMeans.of(Target.of(task.sketch)), None
    if outline is None and part_of(task.sketch, SecondMoments) is not None:
        deviations = np.sqrt([column.spread for column in columns])
        correlation = Moments.of(task.sketch, "clusters").correlation(deviations)
    return tilted_atoms(means, columns, n, task.rng, units=task.units, outline=outline, correlation=correlation)


def _of_mixture(task: Task, outcome: Outcome) -> Decoded:
    density = task.problem.in_data_units(outcome.mixture.heavy())
    return Decoded(*task.reduced(density), density, outcome)


def _of_points(task: Task, sample: RowSample, status: Status) -> Decoded:
    centers, shares = clusters_of_rows(sample, task.k, task.loss, task.rng)
    density = clouds(centers, sample.rows)
    own = task.problem.in_own_units(DiagonalGaussian(), *parts_of(density))
    cost = task.problem.target.cost(own)
    return Decoded(centers, shares, density, Outcome(own, cost, task.problem.misfit(cost), 0, status))


def _doubts(task: Task, atoms: Atoms, found: Decoded, beyond: float) -> tuple[str, ...]:
    """What to say of clusters that may be far from the best; `beyond` tells how much lies beyond the design."""
    private = task.problem.target.released > 0
    count = float(task.sketch.count)
    least = float(found.shares.min()) * count
    remedy = "keep rows beside the sketch with design(..., rows=500), or give some with sample=rows"
    if private:
        remedy = "release more records at once, with a larger epsilon or with delta > 0, or ask for fewer clusters"
    doubts = []
    if not atoms.explain:
        doubts.append(
            f"the sketch does not tell well how its columns depend on each other, so clusters may be poor: {remedy}"
        )
    if beyond > MOST_BEYOND and not private:  # noise alone puts some there
        doubts.append(f"{BEYOND}: design on a sample that reaches further, or on wider bounds")
    if least < max(FEW_RECORDS, RARE_SHARE * count) and not private:
        doubts.append(
            f"a cluster has only about {max(least, 1):,.0f} of {count:,.0f} records, too few to be placed well by a "
            f"sketch alone: {remedy}, or ask for fewer clusters"
        )
    return tuple(doubts)


def _left_by_atoms(task: Task, atoms: Atoms) -> float:
    means = WaveMeans.of(Target.of(task.sketch)).some(_compared(task))
    left = means.numbers - atoms.points.weights.astype(np.float32) @ means.features(atoms.points.rows)
    return float(np.mean(left**2) + 2 * means.variance * atoms.freedom / task.problem.plain.n_numbers)


def _left_by_mixture(task: Task, mixture: Mixture) -> float:
    problem = task.problem
    if problem.target.harmonics:
        problem = problem.without_harmonics(mixture)
    plain = problem.plain.some(_compared(task))
    left = plain.residual(mixture)
    noise = WaveMeans.of(task.problem.target).variance
    followed = 2 * noise * problem.n_parameters(mixture) / problem.plain.n_numbers
    return float(np.mean(left**2 if plain.imaginary else left[0] ** 2) + followed)


def _compared(task: Task) -> np.ndarray:
    m = len(task.problem.plain)
    return np.unique(np.linspace(0, m - 1, min(m, MOST_COMPARED)).astype(int))


def _inside(found: Decoded, counts: Sketch) -> Decoded:
    """The clusters with centers inside the range of the columns."""
    histograms = counts.operator
    assert isinstance(histograms, Histograms)
    low, high = (np.array([edges[end] for edges in histograms.edges]) for end in (0, -1))
    return replace(found, centers=np.clip(found.centers, low, high))


def _judgeable(task: Task, found: Decoded) -> Decoded:
    """The clusters of a mixture, with doubts where there are so few records that anything explains their sketch."""
    n, d = float(task.sketch.count), task.problem.target.n_features
    if found.outcome.status is Status.HIDDEN:
        doubt = f"{Status.HIDDEN.value}; {found.outcome.advice}"
        return replace(found, doubts=(*found.doubts, doubt))
    if found.outcome.status is not Status.EXPLAINED or n >= RECORDS_PER_PARAMETER * task.k * (d + 1):
        return found
    doubt = (
        f"{n:,.0f} records are too few to judge {task.k} clusters in {d} columns from a sketch alone: keep rows beside "
        "it with design(..., rows=500), give some with sample=rows, or ask for fewer clusters"
    )
    outcome = replace(found.outcome, status=Status.UNJUDGED)
    return replace(found, outcome=outcome, doubts=(*found.doubts, doubt))
