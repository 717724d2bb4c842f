"""Mixtures of Gaussians of rows, of cells, and by steps of EM on the expected statistics of all records."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import counted, in_digits
from sketchlearn.estimators.design.cells import REACH_FACTOR
from sketchlearn.estimators.design.costs import ROWS_PER_PARAMETER
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, deviations, thinned
from sketchlearn.features.expected_statistics import LARGEST_REACH, ExpectedStatistics, Gaussians
from sketchlearn.inference.calibration import WeightedRows, calibrated
from sketchlearn.inference.cells import Cells
from sketchlearn.inference.decoders.gaussian_mixture import MixtureFit, fit_test, refined
from sketchlearn.inference.decoders.goodness_of_fit import FitTest
from sketchlearn.inference.decoders.loop import Outcome, Status
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.distributions import (
    DiagonalGaussian,
    KnownGaussian,
    Mixture,
    Model,
    SphericalGaussian,
    n_parameters,
)
from sketchlearn.inference.em import (
    MStep,
    SampledRows,
    Start,
    gain_of_step,
    log_likelihoods,
    pilot_mixture,
    weighted_em,
)
from sketchlearn.inference.kmeans import nearest
from sketchlearn.inference.weighted_clusters import RowSample, SquaredLoss, clouds, clusters_of_rows, halves
from sketchlearn.sketch.priority_sample import Keeping
from sketchlearn.sketch.sums import Sketch

MOST_MISFIT_TO_REFINE = 40.0  # fit test of EM's mixture, per record of a sampled row: above it, refining does not help
MOST_PARAMETERS = 600  # More would take minutes to refine on the sketch.


@dataclass(frozen=True)
class Family:
    """The requested kind of mixture: number and kind of its components, in the units of the data."""

    n_components: int
    covariance_type: str
    model: Model

    @property
    def covariance(self) -> Double | None:
        """The covariance, if it is known."""
        return self.model.covariance if isinstance(self.model, KnownGaussian) else None

    def n_parameters(self, n_features: int) -> int:
        """Free parameters of the mixture."""
        return n_parameters(self.n_components, n_features, self.covariance_type)

    def fitted(
        self, sample: WeightedRows, rng: np.random.Generator, *, n_init: int = 3, starts: Sequence[Start] = ()
    ) -> Mixture:
        """The maximum likelihood mixture of weighted rows."""
        known = {"covariance": self.covariance, "n_init": n_init, "starts": starts}
        fit = weighted_em(sample, self.n_components, self.covariance_type, rng, **known)
        return Mixture(self.model, fit.weights, fit.means, self.model.shapes_of(fit.covariances))


def fit_mixture_of_rows(
    sketch: Sketch, problem: Problem, sample: RowSample, family: Family, rng: np.random.Generator
) -> MixtureFit:
    """The maximum likelihood mixture of sampled rows with weights calibrated to the sketch.

    Where such a mixture fits the sketch, it is refined on the sketch. The refined one is taken if it is likelier on
    held-out rows.
    """
    rows = sample.rows if sample.complete else calibrated(sketch, [sample.rows], rng)[0]
    clusters = clusters_of_rows(replace(sample, rows=rows), family.n_components, SquaredLoss(), rng)[0]
    start = clouds(clusters, rows)
    found = family.fitted(rows, rng, starts=[start.parts()] if len(start) == len(clusters) else [])
    own = problem.in_own_units(family.model, *found.parts())
    status = Status.ALL_ROWS if sample.complete else Status.ROWS
    problem = problem.without_harmonics(own)
    test, most = fit_test(problem, own), MOST_MISFIT_TO_REFINE * max(1.0, float(sketch.count) / len(rows))
    if not sample.complete and test.figure <= most and problem.n_parameters(own) <= MOST_PARAMETERS:
        better, other = refined(problem, own)
        candidate = problem.in_data_units(replace(better, weights=better.weights / better.weights.sum()))
        if other.passes and _likelier(sketch, sample, candidate, family, rng):
            found, own, test, status = candidate, better, other, Status.EXPLAINED
    cost = problem.target.cost(own)
    return MixtureFit(found, test, Outcome(own, cost, problem.misfit(cost), 0, status))


def _likelier(sketch: Sketch, sample: RowSample, candidate: Mixture, family: Family, rng: np.random.Generator) -> bool:
    """Whether held-out rows are likelier under the candidate than under mixtures of other rows."""
    parts = calibrated(sketch, halves(sample.rows, rng), rng)
    own = [family.fitted(part, rng, n_init=1) for part in parts]

    def mean(mixtures: list[Mixture]) -> float:
        each = zip(parts, mixtures, strict=True)
        return sum(float(part.weights @ log_likelihoods(part.rows, mixture)) for part, mixture in each)

    return mean([candidate, candidate]) >= 0.75 * mean(own[::-1]) + 0.25 * mean(own)


STARTS, ROUNDS = 5, 200
LEAST_VARIANCE = 1e-6  # in the mean variance of the columns, as scikit-learn's GaussianMixture adds it
LEAST_INCREASE = 1e-6  # nats by which a round must raise the bound
NO_TEST = FitTest(0.0, None)  # Sketches of cells and of expected statistics have no fit test.


def fit_mixture_of_cells(cells: Cells, k: int, kind: str, rng: np.random.Generator) -> MixtureFit:
    """The maximum likelihood mixture of the kind "diag" or "spherical" of cells: the best of several starts."""
    cells.require(k)
    middle = cells.shares @ cells.means
    rows, squares = cells.means - middle, cells.squares
    size = np.sqrt(cells.shares @ (rows**2 + squares))
    units = np.where(size > 0, size, 1.0)
    floor = LEAST_VARIANCE * max(float(np.mean(size**2)), 1e-300)
    found = []
    for start in range(STARTS):
        scale = np.ones_like(units) if start % 2 == 0 else units  # k-means in the columns' own units, or in deviations
        sample = RowSample(WeightedRows.of(rows, cells.shares), scale)
        centers, _ = clusters_of_rows(sample, k, SquaredLoss(), rng)
        found.append(
            _climbed(cells.shares, rows, squares, centers / scale, scale, floor, spherical=kind == "spherical")
        )
    _, weights, means, variances = max(found, key=itemgetter(0))
    model = DiagonalGaussian() if kind == "diag" else SphericalGaussian()
    shapes = variances if kind == "diag" else variances[:, :1]
    mixture = Mixture(model, weights, means + middle, shapes)
    return MixtureFit(mixture, NO_TEST, Outcome(mixture, 0.0, 0.0, 0, Status.CELLS))


def _climbed(
    shares: Double, rows: Double, squares: Double, centers: Double, scale: Double, floor: float, *, spherical: bool
) -> tuple[float, Double, Double, Double]:
    """The bound, weights, means and variances after rounds of EM from the cells nearest to some centers."""
    belongs = np.zeros((len(rows), len(centers)))
    belongs[np.arange(len(rows)), nearest(rows / scale, centers)[0]] = 1.0
    raw, before = rows**2 + squares, -np.inf
    for _ in range(ROUNDS):
        part = shares[:, None] * belongs
        weights = np.maximum(part.sum(axis=0), 1e-12)
        means = part.T @ rows / weights[:, None]
        variances = np.maximum(part.T @ raw / weights[:, None] - means**2, floor)
        if spherical:
            variances = np.broadcast_to(variances.mean(axis=1, keepdims=True), variances.shape).copy()
        inverse = 1 / variances
        constant = np.sum(np.log(2 * np.pi * variances) + means**2 * inverse, axis=1)
        logs = np.log(weights / weights.sum()) - 0.5 * (constant + raw @ inverse.T - 2 * rows @ (means * inverse).T)
        total = logsumexp(logs, axis=1)
        bound, belongs = float(shares @ total), np.exp(logs - total[:, None])
        if bound - before < LEAST_INCREASE:
            break
        before = bound
    return bound, weights / weights.sum(), means, variances


MOST_BOUND_RATIO = 2.0**20  # of the bound of all rows to that of a sample
LEAST_REACH = 8.0  # deviations beyond those of a typical row
LEAST_GAIN = 0.25  # worth a pass over rows in memory, relative to the log-likelihood that estimation itself costs
LEAST_VARIANCE_RATIO = 1e-12  # of a component's variance to the pilot's, where no least one is declared


def statistics_at_pilot(
    rows: NDArray[Any],
    family: Family,
    n_rows: int | None,
    rng: np.random.Generator,
    *,
    extremes: Double | None,
    n_kept: int | None,
) -> ExpectedStatistics:
    """The operator at the mixture of a sample; `extremes` are those of all rows, if they are in memory."""
    k, kind, seed = family.n_components, family.covariance_type, int(rng.integers(2**31))
    n, p = n_rows or len(rows), family.n_parameters(rows.shape[1])
    few = thinned(rows, max(n // 10, ROWS_PER_PARAMETER * p, MOST_ROWS)) if n > len(rows) else rows
    mixture, step = pilot_mixture(few, k, kind, n, rng, family.covariance)
    sample = SampledRows.of(rows)
    bound = REACH_FACTOR * sample.bound
    if extremes is not None:
        wide = np.maximum(extremes[1] - sample.center, sample.center - extremes[0]) * (1 + 2.0**-20)
        bound = np.maximum(bound, np.minimum(wide, MOST_BOUND_RATIO * sample.bound))
    reach = LEAST_REACH + np.sqrt(rows.shape[1])
    while reach < LARGEST_REACH / 2 and sample.statistics(mixture, reach)[2]:
        reach *= 2
    keeping = None
    if n_kept is not None:
        few = thinned(rows, MOST_ROWS).astype(np.float64)
        keeping = Keeping.designed(few, n_kept, deviations(few), seed)
    return ExpectedStatistics.at_mixture(
        mixture.weights,
        mixture.means,
        mixture.factors,
        bound=bound,
        center=sample.center,
        reach=float(min(1.5 * reach, LARGEST_REACH)),
        ridge=tuple(map(float, step.least)),
        keeping=keeping,
    )


@dataclass(frozen=True)
class EMStep:
    """A step of EM on all records of a sketch."""

    operator: ExpectedStatistics
    family: Family
    n_records: float
    n_clipped: int
    before: Gaussians
    after: Gaussians
    gain: float  # nats a record, of the expected log-likelihood
    log_likelihood: float  # of the records under the pilot

    @classmethod
    def of(cls, sketch: Sketch, family: Family) -> EMStep:
        """The step from a sketch of expected statistics."""
        operator: ExpectedStatistics = sketch.operator  # type: ignore[assignment]
        k, kind = family.n_components, family.covariance_type
        if operator.n_components != k:
            raise ValueError(
                f"this sketch has expected statistics of {operator.n_components} Gaussians: ask for as many, or sketch "
                f"the rows for {k}"
            )
        if not sketch.count > 0:
            raise ValueError("the sketch is empty: add records before learning from it")
        before = operator.at.mixture
        variances = before.factors**2 if before.factors.ndim == 2 else np.sum(before.factors**2, axis=2)
        least = np.zeros(operator.n_features) if operator.ridge is None else np.array(operator.ridge)
        step = MStep(kind, np.maximum(least, LEAST_VARIANCE_RATIO * variances.min(axis=0)), family.covariance)
        if step.full != (operator.covariances == "full"):
            raise ValueError(
                f'this sketch has expected statistics of "{operator.covariances}" covariances: ask for such a '
                "covariance_type, or sketch the rows for another one"
            )
        values = np.asarray(sketch.mean)
        moments = operator.moments(values)
        after = step(moments, before)
        gain, likelihood = gain_of_step(moments, before, after), operator.at.log_likelihood(values)
        return cls(operator, family, float(sketch.count), sketch.clipped, before, after, gain, likelihood)

    @property
    def settled(self) -> bool:
        """Whether another step would gain less than is worth a pass."""
        costs = self.family.n_parameters(self.after.means.shape[1]) / (2 * self.n_records)
        return self.gain <= LEAST_GAIN * costs and not self.n_clipped

    @property
    def still(self) -> bool:
        """Whether the likelihood does not grow any more."""
        return self.gain <= 0.0 and not self.n_clipped

    @property
    def doubts(self) -> tuple[str, ...]:
        """Warnings of records that are unlike those of the sample."""
        if not self.n_clipped:
            return ()
        return (
            f"{counted(self.n_clipped, 'row')} lay farther from all components than any of the sample and were moved "
            "nearer: give more components, or read rows twice, as the second pass goes farther",
        )

    @property
    def gain_in_words(self) -> str:
        """The gain of the step, after "The last pass"."""
        return f"raised the mean log-likelihood by {in_digits(self.gain, 2)} or more"

    @property
    def cost(self) -> float:
        """Minus the log-likelihood after the step, in nats a record, at most."""
        return -self.log_likelihood - self.gain

    @property
    def n_parts(self) -> int:
        """The number of components."""
        return len(self.after.weights)

    def fit(self) -> MixtureFit:
        """The mixture after the step."""
        factors, family = self.after.factors, self.family
        if factors.ndim == 2:
            covariances = factors[:, :, None] ** 2 * np.eye(factors.shape[1])
        else:
            covariances = factors @ factors.transpose(0, 2, 1)
        mixture = Mixture(family.model, self.after.weights, self.after.means, family.model.shapes_of(covariances))
        return MixtureFit(mixture, NO_TEST, Outcome(mixture, 0.0, 0.0, 1, Status.STEP))

    def next_operator(self) -> ExpectedStatistics:
        """The operator at the mixture after the step; wider, where rows were clipped."""
        own = self.operator
        moved = ExpectedStatistics.at_mixture(
            self.after.weights,
            self.after.means,
            self.after.factors,
            bound=np.array(own.bound),
            center=own.middle,
            reach=float(min(own.at.reaches.max() * (4 if self.n_clipped else 1), LARGEST_REACH)),
            ridge=own.ridge,
            keeping=own.keeping,
            columns=own.columns,
        )
        return moved.with_origin(own.origin)
