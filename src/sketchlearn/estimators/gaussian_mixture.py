"""Mixtures of Gaussians: of rows, of cells, of sketches, and by steps of EM on expected statistics."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass, replace
from operator import itemgetter
from typing import Any

import numpy as np
from numpy.typing import ArrayLike
from scipy.special import logsumexp
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.limits import Cost
from sketchlearn.core.messages import counted, in_digits, warn_caller
from sketchlearn.estimators.base.components import (
    FittedMixture,
    SketchMixture,
    StepEstimator,
    largest_first,
    require_rows,
)
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document, Known, read_array, saved, word
from sketchlearn.estimators.base.state import DesignSample, FittedState
from sketchlearn.estimators.design.cells import WIDE
from sketchlearn.estimators.design.column_ranges import extremes
from sketchlearn.estimators.design.sample_summary import (
    MOST_ROWS,
    REACH_FACTOR,
    ROWS_PER_PARAMETER,
    deviations,
    steps_pay,
    thinned,
)
from sketchlearn.estimators.number_of_clusters import ClusterChoice
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.expected_statistics import LARGEST_REACH, ExpectedStatistics, Gaussians
from sketchlearn.features.families import AUTO, Features, Fourier, former_parameters, frequencies_instead
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.inference.calibration import WeightedRows, calibrated
from sketchlearn.inference.cells import Cells, from_frequencies, no_distances_of_cells
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.gaussian_mixture import MixtureFit, fit_mixture, fit_test, refined
from sketchlearn.inference.decoders.goodness_of_fit import FitTest
from sketchlearn.inference.decoders.loop import Outcome, Status
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target
from sketchlearn.inference.distributions import (
    DiagonalGaussian,
    FullGaussian,
    KnownGaussian,
    Mixture,
    Model,
    SphericalGaussian,
    TiedGaussian,
)
from sketchlearn.inference.em import (
    MStep,
    PilotRows,
    Start,
    cholesky_log_densities,
    diagonal_log_densities,
    gain_of_step,
    log_likelihoods,
    pilot_mixture,
    weighted_em,
)
from sketchlearn.inference.errors.mixtures import errors_of_likelihood, errors_of_sketch
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.inference.kmeans import nearest
from sketchlearn.inference.moments import part_of
from sketchlearn.inference.weighted_clusters import RowSample, SquaredLoss, cluster_gaussians, clusters_of_rows, halves
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.rows.schemas.table_schema import SchemaColumns
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
        return self.model.covariance if isinstance(self.model, KnownGaussian) else None

    def n_parameters(self, n_features: int) -> int:
        return self.model.n_parameters(self.n_components, n_features) - 1

    def fitted(
        self, sample: WeightedRows, rng: np.random.Generator, *, n_init: int = 3, starts: Sequence[Start] = ()
    ) -> Mixture:
        """The maximum likelihood mixture of weighted rows."""
        k, kind, known = self.n_components, self.covariance_type, self.covariance
        fit = weighted_em(sample, k, kind, rng, covariance=known, n_init=n_init, starts=starts)
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
    start = cluster_gaussians(clusters, rows)
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
COVARIANCE_FLOOR = 1e-6  # in the mean variance of the columns, as scikit-learn's GaussianMixture adds it
LEAST_INCREASE = 1e-6  # nats by which a round must raise the bound
NO_TEST = FitTest(0.0, None)  # Sketches of cells and of expected statistics have no fit test.


def fit_mixture_of_cells(cells: Cells, k: int, kind: str, rng: np.random.Generator) -> MixtureFit:
    """The maximum likelihood mixture of the kind "diag" or "spherical" of cells: the best of several starts."""
    cells.require(k)
    middle, spherical = cells.shares @ cells.means, kind == "spherical"
    rows, squares = cells.means - middle, cells.squares
    size = np.sqrt(cells.shares @ (rows**2 + squares))
    units = np.where(size > 0, size, 1.0)
    floor, found = COVARIANCE_FLOOR * max(float(np.mean(size**2)), 1e-300), []
    for start in range(STARTS):
        scale = np.ones_like(units) if start % 2 == 0 else units  # k-means in the columns' own units, or in deviations
        sample = RowSample(WeightedRows.of(rows, cells.shares), scale)
        centers, _ = clusters_of_rows(sample, k, SquaredLoss(), rng)
        found.append(_climbed(cells.shares, rows, squares, centers / scale, scale, floor, spherical=spherical))
    _, weights, means, variances = max(found, key=itemgetter(0))
    mixture = Mixture(MODELS[kind](), weights, means + middle, variances[:, :1] if spherical else variances)
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


def statistics_at_pilot(design_sample: DesignSample, family: Family, rng: np.random.Generator) -> ExpectedStatistics:
    """The operator at the mixture of a sample."""
    rows, everything, seed = design_sample.rows, design_sample.everything, int(rng.integers(2**31))
    n, p = design_sample.n_rows or len(rows), family.n_parameters(rows.shape[1])
    few = thinned(rows, max(n // 10, ROWS_PER_PARAMETER * p, MOST_ROWS)) if n > len(rows) else rows
    mixture, step = pilot_mixture(few, family.n_components, family.covariance_type, n, rng, family.covariance)
    sample = PilotRows.of(rows)
    bound = REACH_FACTOR * sample.bound
    if everything is not None:
        low, high = extremes(everything)
        wide = np.maximum(high - sample.center, sample.center - low) * (1 + 2.0**-20)
        bound = np.maximum(bound, np.minimum(wide, MOST_BOUND_RATIO * sample.bound))
    reach = LEAST_REACH + np.sqrt(rows.shape[1])
    while reach < LARGEST_REACH / 2 and sample.statistics(mixture, reach)[2]:
        reach *= 2
    few = thinned(rows, MOST_ROWS).astype(np.float64)
    return ExpectedStatistics.at_mixture(
        mixture.weights,
        mixture.means,
        mixture.factors,
        bound=bound,
        center=sample.center,
        reach=float(min(1.5 * reach, LARGEST_REACH)),
        ridge=tuple(map(float, step.least)),
        keeping=Keeping.designed(few, MOST_ROWS, deviations(few), seed),
    )


@dataclass(frozen=True)
class EMStep:
    """A `Step` of EM on all records of a sketch."""

    operator: ExpectedStatistics
    family: Family
    n_records: float
    n_clipped: int
    after: Gaussians
    gain: float  # of the expected log-likelihood, in nats per record
    log_likelihood: float  # of the records under the pilot

    @classmethod
    def of(cls, sketch: Sketch, family: Family) -> EMStep:
        """The step from a sketch of expected statistics."""
        operator: ExpectedStatistics = sketch.operator
        if operator.n_components != (k := family.n_components):
            raise ValueError(
                f"this sketch has expected statistics of {operator.n_components} Gaussians: ask for as many, or sketch "
                f"the rows again for {k}"
            )
        if not sketch.count > 0:
            raise ValueError("the sketch is empty: add records before learning from it")
        before = operator.at.mixture
        variances = before.factors**2 if before.factors.ndim == 2 else np.sum(before.factors**2, axis=2)
        least = np.zeros(operator.n_features) if operator.ridge is None else np.array(operator.ridge)
        least = np.maximum(least, LEAST_VARIANCE_RATIO * variances.min(axis=0))
        step = MStep(family.covariance_type, least, family.covariance)
        if step.full != (operator.covariances == "full"):
            raise InvalidValueError(
                f'this sketch has expected statistics of "{operator.covariances}" covariances',
                f"choose such a {Parameter('covariance_type')}, or sketch the rows again for another one",
            )
        values = np.asarray(sketch.mean)
        moments = operator.moments(values)
        after = step(moments, before)
        gain, likelihood = gain_of_step(moments, before, after), operator.at.log_likelihood(values)
        return cls(operator, family, float(sketch.count), sketch.clipped, after, gain, likelihood)

    @property
    def settled(self) -> bool:
        costs = self.family.n_parameters(self.after.means.shape[1]) / (2 * self.n_records)
        return self.gain <= LEAST_GAIN * costs and not self.n_clipped

    @property
    def still(self) -> bool:
        return self.gain <= 0.0 and not self.n_clipped

    @property
    def doubts(self) -> tuple[str, ...]:
        if not self.n_clipped:
            return ()
        return (
            f"{counted(self.n_clipped, 'row')} lay farther from all components than any row of the sample and were "
            "moved nearer: use more components, or read the rows twice, as the second pass has a wider range",
        )

    @property
    def gain_in_words(self) -> str:
        return f"raised the mean log-likelihood by {in_digits(self.gain, 2)} or more"

    @property
    def cost(self) -> float:
        return -self.log_likelihood - self.gain

    @property
    def n_parts(self) -> int:
        return len(self.after.weights)

    def fit(self) -> MixtureFit:
        factors, model = self.after.factors, self.family.model
        if factors.ndim == 2:
            covariances = factors[:, :, None] ** 2 * np.eye(factors.shape[1])
        else:
            covariances = factors @ factors.transpose(0, 2, 1)
        mixture = Mixture(model, self.after.weights, self.after.means, model.shapes_of(covariances))
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


MODELS: dict[str, type[Model]] = {
    "spherical": SphericalGaussian,
    "tied": TiedGaussian,
    "diag": DiagonalGaussian,
    "full": FullGaussian,
    "known": KnownGaussian,
}
#: shapes of the covariances of k components in d columns
SHAPES = {"full": ("k", "d", "d"), "tied": ("d", "d"), "known": ("d", "d"), "diag": ("k", "d"), "spherical": ("k",)}
VARIANCES_ALONE = ("diag", "spherical")  # covariance types without matrices
ROUNDING = 1e-5  # of a log-likelihood, whose terms are rounded to 2^-10
LEAST_COLUMN_VARIANCE = 1e-300  # of a column that is constant within all components


def _read_covariances(name: str, value: Any, known: Known) -> Double:
    return read_array(SHAPES[known["covariance_type"]], None, name, value, known)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedGaussians(FittedMixture):
    """A mixture of Gaussians; its covariances have the shape that their type says."""

    covariance_type: str = word(*SHAPES)
    covariances: Double = saved(_read_covariances, lambda value: value.tolist())

    @classmethod
    def of(cls, fit: MixtureFit, kind: str, choice: ClusterChoice | None = None) -> FittedGaussians:
        """The fitted mixture, in the units of the data."""
        mixture = fit.mixture.some(largest_first(fit.mixture.weights))
        if kind in VARIANCES_ALONE:  # avoids matrices of hundreds of columns
            variances = mixture.variances()
            covariances = (variances if kind == "diag" else variances[:, 0]).copy()
        else:
            covariances = mixture.covariances() if kind == "full" else mixture.covariances()[0]
        return cls(
            weights=mixture.weights,
            means=mixture.locations,
            covariance_type=kind,
            covariances=covariances,
            fit_test=fit.test.figure,
            fit_p_value=fit.test.p_value,
            outcome=fit.outcome,
            density=mixture,
            choice=choice,
        )

    def restored_density(self) -> Mixture:
        kind, given = self.covariance_type, self.covariances
        if kind in VARIANCES_ALONE:
            if np.any(given <= 0):
                raise ValueError("covariances must be positive definite")
            shapes = given.reshape(len(given), -1).copy()
            return Mixture(MODELS[kind](), self.weights, self.means, shapes)
        matrices = given if kind == "full" else given[None]
        try:
            np.linalg.cholesky(matrices)
        except np.linalg.LinAlgError:
            raise ValueError("covariances must be positive definite") from None
        if not np.allclose(matrices, matrices.transpose(0, 2, 1)):
            raise ValueError("covariances must be symmetric")
        if kind == "known":
            return Mixture(KnownGaussian(given), self.weights, self.means, np.zeros((len(self.weights), 0)))
        model = MODELS[kind]()
        return Mixture(model, self.weights, self.means, model.shapes_of(matrices))

    @classmethod
    def cost_of(cls, known: Known) -> Cost:
        kind, covariances = known["covariance_type"], known["covariances"]
        if kind in VARIANCES_ALONE:
            return Cost()
        # two triangular factors of each matrix; LAPACK multiplies some numbers in a nanosecond
        return Cost(6 * covariances.nbytes, covariances.size * (20 + covariances.shape[-1] // 6))


@former_parameters
@dataclass(eq=False, repr=False)
class SketchGaussianMixture(StepEstimator, SketchMixture):
    """A mixture of Gaussians, from rows or from a sketch alone.

    Parameters
    ----------
    n_components : number of Gaussians; "auto" estimates it (see `choose_k`).
    max_clusters : the largest number that "auto" tries.
    covariance_type : "full", "tied", "diag", "spherical", or "known".
    covariance : the common covariance matrix, for "known".
    decoder, random_state, n_jobs, device, verbose, schema : as in `SketchKMeans`.
    features : as in `SketchKMeans`; of random frequencies, 10 per parameter of the mixture. "diag" and "spherical"
        covariances of more than 64 columns are learned from the exact means and mean squares of cells, unless
        frequencies are given. There is no `fit_test_` then (it is 0).
    n_passes : how often rows are read, where a decoder would take more than about a second (above 66 parameters). EM on
        a sample gives a first mixture. Each pass over all rows is then a step of EM on their exact expected statistics
        (`ExpectedStatistics`). "auto" means one pass; for arrays, data frames and rows on a GPU, passes until one gains
        less than a quarter of the log-likelihood that estimation itself costs, at most twenty. There is no `fit_test_`
        then. `features=skl.features.Fourier()` gives a sketch of random frequencies instead.

    Attributes
    ----------
    weights_, means_ : arrays (n_components,) and (n_components, columns); the component of the largest weight is 0.
    covariances_ : (n_components, columns, columns) for "full", (columns, columns) for "tied" and "known",
        (n_components, columns) for "diag", (n_components,) for "spherical".
    fit_test_ : goodness of fit: squared residual relative to its mean for rows of such a mixture, so 1 on average if it
        holds. Above 2, if significant, there is a warning, and the mixture is the likeliest one under a finer density
        fitted to the sketch. Where the operator declares cluster covariances (`design` does, from its sample), "diag"
        and "full" covariances are then held near those.
    fit_p_value_ : its p-value. Near 0, the rows come from no such mixture (with very many rows, the slightest
        difference is significant). None if it is not known, as in files of earlier versions.
    log_likelihood_, log_likelihood_error_ : the mean log-likelihood of the sketched rows, and its standard error, as
        `SketchKMeans.inertia_` has them.
    sketch_, outcome_ : the sketch, and how decoding went.
    standard_errors_ : of `weights_`, `means_` and `covariances_`, as estimates of those of the population; see
        `SketchKMeans`. If the population is no such mixture, as estimates of its likeliest mixture.
    n_components_, choice_ : the number of Gaussians, and how it was chosen, if it was (a `ClusterChoice`).

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 2)) * [1, 3] + 10 * rng.integers(0, 2, (5000, 1))
    >>> mixture = skl.SketchGaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    >>> np.sqrt(mixture.covariances_).round().tolist()
    [[1.0, 3.0], [1.0, 3.0]]
    >>> {name: errors.shape for name, errors in mixture.standard_errors_.items()}
    {'weights_': (2,), 'means_': (2, 2), 'covariances_': (2, 2)}
    """

    n_components: int | str = 1  # type: ignore[assignment]
    _: KW_ONLY
    covariance_type: str = "full"
    covariance: ArrayLike | None = None

    model_type = FittedGaussians
    most_passes = 20
    covariances_ = model_attribute("covariances")

    @classmethod
    def parameters_of(cls, model: FittedGaussians) -> Document:
        kind = model.covariance_type
        known = {"covariance": model.covariances} if kind == "known" else {}
        return {**super().parameters_of(model), "covariance_type": kind, **known}

    @property
    def _number(self) -> int | str:
        return self.n_components

    @property
    def n_components_(self) -> int:
        return len(self.weights_)

    @property
    def _task(self) -> str:
        return "mixture-full" if self.covariance_type == "full" else "mixture"

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.covariance_type not in MODELS:
            wanted = f"must be one of {', '.join(MODELS)}, not {self.covariance_type!r}"
            raise InvalidValueError(wanted, parameter="covariance_type")
        if (self.covariance is None) == (self.covariance_type == "known"):
            needing = Parameter("covariance_type", "known")
            raise InvalidValueError(f"a covariance matrix is needed for {needing}, and for no other type")

    def learn_from_sketch(
        self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None
    ) -> FittedGaussians:
        if (cells := Cells.of(sketch)) is not None:
            return self._of_cells(sketch, cells, rng)
        if isinstance(sketch.operator, ExpectedStatistics):
            step = EMStep.of(sketch, self._family(sketch.operator.n_features))
            return FittedGaussians.of(step.fit(), self.covariance_type)
        sample = self._sample(sketch, sample)
        k, choice = self._chosen(sketch, sample, rng)
        self._check_determined(sketch, sample, k)
        problem, kind = Problem.of(Target.of(sketch, HIGHEST_HARMONIC), k), self.covariance_type
        model = self._gaussian(problem.target.n_features)
        if sample is not None:
            fit = fit_mixture_of_rows(sketch, problem, sample, Family(k, kind, model), rng)
            self._say(f"{fit.outcome.status.value}; fit test {in_digits(fit.test.figure, 3)}")
        else:
            progress = self._say if self.verbose else None
            fit = fit_mixture(problem, model, kind, decoder_from(self.decoder), rng, progress)
        gaussians, another = counted(len(fit.mixture), "Gaussian"), f"another {Parameter('covariance_type')}"
        if not fit.test.passes:
            found = "the likeliest one of the sampled rows"
            if sample is None:
                found = "a likely one under a finer density, with covariances near those that the operator declares"
            warn_caller(
                f"a mixture of {gaussians} does not fit the sketch (fit test {in_digits(fit.test.figure, 3)}, about 1 "
                f"for a good fit): the result is {found}; try more components or {another}",
                ConvergenceWarning,
            )
        elif sketch.count < (p := problem.n_parameters(fit.outcome.mixture)):
            warn_caller(
                f"{counted(sketch.count, 'record')} do not determine the {p:,} parameters of this mixture, which may "
                f"not hold for other records: ask for fewer components or {another}",
                ConvergenceWarning,
            )
        return FittedGaussians.of(fit, kind, choice)

    def _family(self, d: int) -> Family:
        if self._number == AUTO:
            raise InvalidValueError(
                "a sketch of expected statistics is for a fixed number of Gaussians",
                f"set {Parameter('n_components')} to that number",
            )
        return Family(self._n_components, self.covariance_type, self._gaussian(d))

    def _by_steps(self, design_sample: DesignSample) -> bool:
        """Whether rows like these are sketched by expected statistics at a pilot."""
        n, d = design_sample.rows.shape
        asked = self._number == AUTO or self._wanted_features is not None
        if asked or not design_sample.representative or d > WIDE or isinstance(design_sample.columns, SchemaColumns):
            return False
        return steps_pay(self._n_components, d, self.covariance_type, n)

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        if not self._by_steps(design_sample):
            return super().design_operator(design_sample, rng)
        with one_blas_thread():
            operator = statistics_at_pilot(design_sample, self._family(design_sample.rows.shape[1]), rng)
        return operator.with_columns(design_sample.columns).with_origin(Origin.SAMPLE)

    def step_of(self, sketch: Sketch) -> EMStep | None:
        if not isinstance(sketch.operator, ExpectedStatistics) or sketch.ledger is not None:
            return None
        return EMStep.of(sketch, self._family(sketch.operator.n_features))

    def model_of_step(self, step: EMStep, state: FittedState) -> FittedGaussians:  # noqa: ARG002
        return FittedGaussians.of(step.fit(), self.covariance_type)

    def _features_for(self, design_sample: DesignSample) -> Features:
        decides = self._wanted_features is None
        if decides and (self._number == AUTO or self.covariance_type not in VARIANCES_ALONE):
            return Fourier()
        return super()._features_for(design_sample)

    def _of_cells(self, sketch: Sketch, cells: Cells, rng: np.random.Generator) -> FittedGaussians:
        if self._number == AUTO or self.covariance_type not in VARIANCES_ALONE or cells.squares.ndim == 1:
            raise InvalidValueError(
                'a sketch of cells suffices for mixtures of a given number of "diag" or "spherical" Gaussians if it is '
                f"designed with {Parameter('task', 'mixture')}; for others, design it with {frequencies_instead()}"
            )
        self.check_size(int(np.ceil(sketch.count)))
        for doubt in cells.doubts(float(cells.shares @ cells.within)):
            warn_caller(doubt, ConvergenceWarning)
        fit = fit_mixture_of_cells(cells, self._n_components, self.covariance_type, rng)
        return FittedGaussians.of(fit, self.covariance_type)

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        model, sketch, kind = state.model, state.sketch, state.model.covariance_type
        if part_of(sketch, CellSums) is not None:
            return ErrorBars(withheld=f"a sketch of cells does not determine them: {from_frequencies()}")
        status = model.outcome.status
        if status in (Status.STEP, Status.ROWS, Status.ALL_ROWS):
            decided = status is not Status.STEP
            return ErrorBars(errors_of_likelihood(sketch, model.density, kind, rng, decided=decided))
        if not FitTest(model.fit_test, model.fit_p_value).passes or status is Status.HIDDEN:
            require_rows(status, sketch)
        problem = Problem.of(Target.of(sketch, HIGHEST_HARMONIC), len(model.weights))
        return ErrorBars(errors_of_sketch(sketch, problem, model.density, kind, rng))

    def _gaussian(self, d: int) -> Model:
        """The model of the components, in the units of the data."""
        if self.covariance_type != "known":
            return MODELS[self.covariance_type]()
        given = np.asarray(self.covariance, np.float64)
        if given.shape != (d, d) or not np.allclose(given, given.T) or np.any(np.linalg.eigvalsh(given) <= 0):
            raise ValueError(f"covariance must be a positive definite matrix of {d} rows and columns")
        return KnownGaussian(given)

    def _estimated(self, sketch: Sketch, state: FittedState, rng: np.random.Generator) -> RowMean:
        if part_of(sketch, CellSums) is not None:
            return RowMean(withheld=no_distances_of_cells())
        if (step := self.step_of(sketch)) is not None:
            # The step gains its expected gain, and at most about as much again.
            return RowMean(step.log_likelihood + 1.5 * step.gain, step.gain + ROUNDING)
        if isinstance(sketch.operator, ExpectedStatistics):
            return RowMean(withheld="the log-likelihood contains the noise of the release: score public rows")
        return super()._estimated(sketch, state, rng)

    def _log_densities(self, rows: Double) -> Double:
        mixture = self.fitted_model().density
        if self.covariance_type in VARIANCES_ALONE and rows.shape[1] > WIDE:
            return diagonal_log_densities(rows, mixture.locations, mixture.variances())
        return cholesky_log_densities(rows, mixture.locations, np.linalg.cholesky(mixture.covariances()))

    @property
    def log_likelihood_(self) -> float | None:
        return self._told("log_likelihood_", self.row_mean().value)

    @property
    def log_likelihood_error_(self) -> float | None:
        return self._told("log_likelihood_error_", self.row_mean().error)

    def measured(self) -> tuple[str, RowMean]:
        return "mean log-likelihood", self.row_mean()

    def row_values(self, model: FittedGaussians, rows: Double) -> Double:
        return log_likelihoods(rows, model.density)

    def distance_units(self, model: FittedGaussians) -> Double:
        within = model.density.weights @ model.density.variances()
        return np.sqrt(np.maximum(within, LEAST_COLUMN_VARIANCE))

    def fitted_again(self, model: FittedGaussians, sample: WeightedRows) -> Callable[[Double], Double]:
        mixture = model.density
        family = Family(len(mixture), self.covariance_type, mixture.model)
        again = family.fitted(sample, np.random.default_rng(0), n_init=0, starts=[mixture.parts()])
        return lambda rows: log_likelihoods(rows, again)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on rows, the lower the better."""
        scores = self.score_samples(X)
        return -2 * float(np.sum(scores)) + self._n_parameters() * float(np.log(len(scores)))

    def aic(self, X: Any) -> float:
        """Akaike information criterion on rows, the lower the better."""
        return -2 * float(np.sum(self.score_samples(X))) + 2 * self._n_parameters()

    def _n_parameters(self) -> int:
        mixture: Mixture = self.fitted_model().density
        return mixture.model.n_parameters(len(mixture), mixture.locations.shape[1]) - 1
