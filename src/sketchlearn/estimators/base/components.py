"""What estimators of clusters and mixtures share: a sketch of Fourier features, designed for k components."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Protocol, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, DensityMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, called, either
from sketchlearn.core.messages import counted, in_digits, warn_caller
from sketchlearn.core.values import number, shortened, whole
from sketchlearn.estimators.base.arrays import decoded_table
from sketchlearn.estimators.base.error_barred import ErrorBarredEstimator
from sketchlearn.estimators.base.estimator import SketchEstimator, model_attribute
from sketchlearn.estimators.base.model import Document, FittedModel, Known, model_array, saved, scalar
from sketchlearn.estimators.base.state import DesignSample, FittedState, IncomingRows, given_rows, kept_rows
from sketchlearn.estimators.cluster_choice import ClusterChoice
from sketchlearn.estimators.design.cells import WIDE, passive_columns
from sketchlearn.estimators.design.designs import FAMILIES, design
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, Sampled, rows_of_pilot, rows_wanted
from sketchlearn.estimators.design.standard import with_standard_parts
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.families import AUTO, Cells, Features, Fourier, checked
from sketchlearn.features.operator import Operator
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.loop import Decoder, Outcome, Status
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.errors.influence import UndeterminedError, hidden_by_noise, no_rows
from sketchlearn.inference.errors.means import (
    DrawnRows,
    KnownMeans,
    estimated_mean,
    fitted_optimism,
    keep_rows,
    mean_of_density,
)
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.inference.kmeans import few_distinct
from sketchlearn.inference.weighted_clusters import RowSample, mixture_near, rough_centers
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.source import is_array, source
from sketchlearn.sketch.sums import Sketch

MOST_ADDED_ERROR = 0.01  # of the squared error, by subsampling (`designing.touched_frequencies`)
ROWS_PER_COMPONENT = 25  # that are kept, where a few thousand would be fewer
SAMPLED_PER_COMPONENT = 2  # rows at least, given or kept: halves of fewer had fewer rows than centers, a NumPy error


@dataclass(eq=False, repr=False)
class DesignedEstimator(ErrorBarredEstimator):
    """An estimator of k components, which a decoder finds in a sketch of Fourier features."""

    _: KW_ONLY
    decoder: str | Decoder = "auto"
    features: Features | None = None

    _learns_points: ClassVar[bool] = False  # whether decoders may find points, which are no density
    standardize = False  # a parameter of k-means alone
    profile_columns = cast("Any", None)  # and so are these
    outcome_ = model_attribute("outcome")
    weights_ = model_attribute("weights")

    @property
    def n_iter_(self) -> int:
        """Steps that a decoder's search took; 0 where there was none: passes over rows do not count."""
        iterations: int = self.outcome_.iterations
        return iterations

    @abstractmethod
    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None) -> Any:
        """The model of a sketch and, where rows are at hand, of those."""

    @property
    @abstractmethod
    def _n_components(self) -> int:
        """How many clusters or components are asked for."""

    @property
    def _task(self) -> str:
        """What the operator is designed for."""
        return "kmeans"

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:
        own = {name: getattr(self, name) for name in ("features", "standardize", "profile_columns")}
        return {"task": self._task, "n_components": self._n_components, **own, **size}

    def _most_rows(self, width: int | None) -> int:
        wanted = rows_wanted(self._task, self._n_components)
        pilot = self._task == "kmeans" and not isinstance(self.features, Fourier) and (width is None or width <= WIDE)
        return max(wanted, rows_of_pilot(self._n_components)) if pilot else wanted

    def check_parameters(self) -> None:
        k = self._n_components
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
            raise ValueError(f"the number of clusters or components must be a positive whole number, not {k!r}")
        if self.decoder != AUTO and decoder_from(self.decoder).points and not self._learns_points:
            raise ValueError(
                f"decoder {shortened(self.decoder)} finds the points of k-means, which are no density: choose another "
                "decoder here"
            )
        checked(self.features, FAMILIES[self._task], type(self).__name__)

    def check_size(self, n_rows: int) -> None:
        if n_rows < self._n_components:
            rows = either(f"n_samples={n_rows} rows", f"{n_rows} records")
            raise InvalidValueError(f"{rows} cannot have {self._n_components} clusters", "ask for fewer clusters")

    def fit_sketch(self, sketch: Sketch, *, sample: Any = None, assume_public_sample: bool = False) -> Self:
        """Learns from a sketch: of `design(...)`'s operator, of another estimator, merged or loaded.

        Parameters
        ----------
        sketch : the sketch.
        sample : some of the sketched rows, or rows like them, as `source` takes them. They need not be representative:
            they are reweighted until their features agree with the sketch. Without a sample, rows that the sketch
            keeps (`design(..., rows=500)`) are used so.
        assume_public_sample : the caller knows that the sample is public, or of people whom the release need not
            protect. A private release beside other rows is refused; `privacy_` notes what was assumed.
        """
        state, given = self._state_of(sketch), None
        if sample is not None:
            given = given_rows(sketch, sample, assume_public_sample)
            state = replace(state, given_rows=given, public_sample=assume_public_sample)
        self._learn(state, self._generator())
        if given is not None and self.outcome_.status is Status.ROWS:
            self._state = replace(self._sketched_state(), error_bars=ErrorBars(withheld=no_rows()))
        return self

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> Any:
        return self.learn_from_sketch(state.sketch, rng, state.given_rows)

    def _sample(self, sketch: Sketch, given: RowSample | None) -> RowSample | None:
        """Rows to learn from beside the sketch; a decoder that is named learns from the sketch alone."""
        return given if given is not None or self.decoder != "auto" else kept_rows(sketch)

    def _check_determined(self, sketch: Sketch, sample: RowSample | None, k: int) -> None:
        """Refuses more components than there are rows, or numbers to tell them."""
        target = Target.of(sketch)  # which refuses an empty sketch
        self.check_size(int(np.ceil(sketch.count)))
        d = target.n_features
        if sample is None and k * target.subsampling > MOST_ADDED_ERROR:
            warn_caller(
                f"each frequency is that of few records, as a record contributes to {target.group_size:,} of "
                f"{target.group_size * target.n_groups:,}: clusters may miss the best ones by more than 1 %; design "
                "the sketch for the number of its records, or without subsampling",
                ConvergenceWarning,
            )
        if sample is None and k * d > target.n_numbers:
            raise ValueError(
                f"a sketch of {target.n_numbers:,.0f} numbers cannot tell {k:,} clusters or components in {d} columns: "
                "ask for fewer, or design the sketch for as many"
            )
        least = SAMPLED_PER_COMPONENT * k
        if sample is not None and not sample.complete and len(sample.rows) < least:
            raise ValueError(
                f"{counted(len(sample.rows), 'row')} beside the sketch cannot tell {k:,} clusters or components, as "
                f"each half of the rows judges those of the other: give or keep at least {least:,} rows, or ask for "
                "fewer"
            )

    def _check_distinct(self, rows: NDArray[Any]) -> None:
        """Warns of fewer distinct rows than there shall be clusters."""
        if (distinct := few_distinct(rows, k := self._n_components)) is not None:
            warn_caller(
                f"there are only {len(distinct)} distinct rows for {k} clusters: some of them coincide",
                ConvergenceWarning,
            )

    @property
    def _wanted_features(self) -> Features | None:
        """The features that the parameters ask for; None where the rows decide."""
        return self.features

    @property
    def _pilot_suits(self) -> bool:
        """Whether cells of a pilot's centers are the best features for rows of few columns."""
        return self._task == "kmeans" and self.profile_columns is None

    def _features_for(self, design_sample: DesignSample) -> Features:
        """The features for these rows. Frequencies encode tables with a schema, unless cells are asked for."""
        wanted, narrow = self._wanted_features, design_sample.rows.shape[1] <= WIDE
        if wanted is not None:
            in_columns = wanted == Cells() and narrow and self._pilot_suits
            return Cells(n_directions=0) if in_columns else wanted
        if self.profile_columns is not None:
            return Cells()
        if (isinstance(design_sample.columns, SchemaColumns) and narrow) or Cells not in FAMILIES[self._task]:
            return Fourier()
        if not narrow:
            return Cells()
        return Cells(n_directions=0) if design_sample.representative and self._pilot_suits else Fourier()

    def _n_kept(self, design_sample: DesignSample, k: int) -> int | None:
        """How many rows are kept beside the sketch; beside cells in directions none, unless all rows are few."""
        features = self._features_for(design_sample)
        if isinstance(features, Fourier) or features == Cells(n_directions=0):
            return max(rows_wanted(self._task), ROWS_PER_COMPONENT * k)
        few = design_sample.n_rows is not None and design_sample.n_rows <= MOST_ROWS
        return MOST_ROWS if few and self._task == "kmeans" else None

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        everything, k = design_sample.everything, self._n_components
        if everything is not None and everything.n_records == len(design_sample.rows):
            self._check_distinct(design_sample.rows)
        operator = design(
            design_sample.rows,
            n_components=k,
            task=self._task,
            representative=design_sample.representative,
            features=self._features_for(design_sample),
            seed=int(rng.integers(2**31)),
            standardize=self.standardize,
            rows=self._n_kept(design_sample, k),
            n_rows=design_sample.n_rows,
            profile_columns=passive_columns(self.profile_columns, design_sample.columns, design_sample.rows.shape[1])
            or None,
        )
        return operator.with_columns(design_sample.columns)

    def _designed(self, design_sample: DesignSample, rng: np.random.Generator) -> tuple[Operator, Any]:
        """The operator; with the parts of the standard sketch if it is shared, or that of a table with a schema."""
        operator, more = super()._designed(design_sample, rng)
        asked = design_sample.shared or isinstance(design_sample.columns, SchemaColumns)
        if asked and self.features is None and isinstance(operator, CellSums):
            sampled = Sampled(design_sample.rows, design_sample.representative, operator.columns)
            operator = with_standard_parts(operator, sampled, self._n_components, int(rng.integers(2**31)))
        return operator, more


def require_rows(status: Status) -> None:
    """Refuses errors of a result that is neither that of kept rows nor of a mixture that explains the sketch."""
    if status in (Status.ROWS, Status.ALL_ROWS):
        return
    if status is Status.HIDDEN:
        raise UndeterminedError(status.value, status.advice)
    raise UndeterminedError(
        "no mixture explains the sketch up to noise, and it keeps no rows that would tell",
        f"keep some beside it, with {called('design', '...', rows=500)}",
    )


def largest_first(weights: Double) -> NDArray[np.intp]:
    """The order in which clusters and components are numbered: by their shares, so that 0 is the largest.

    >>> largest_first(np.array([0.2, 0.5, 0.3])).tolist()
    [1, 2, 0]
    """
    return np.argsort(-weights, kind="stable")


def check_shares(weights: Double) -> None:
    """Refuses weights of a model file that are not shares of a whole."""
    if np.any(weights < 0) or not math.isclose(float(weights.sum()), 1.0, rel_tol=1e-3):
        raise ValueError("weights must not be negative and must sum to 1")


def _outcome_content(outcome: Outcome) -> Document:
    """What a model file says of how decoding went."""
    return {
        "squared_residual": float(outcome.cost),
        "misfit": float(outcome.misfit),
        "iterations": int(outcome.iterations),
        "status": outcome.status.name,
    }


def _read_outcome(name: str, form: Any, known: Known) -> Outcome:  # noqa: ARG001
    """How decoding went, as a model file says, without its mixture."""
    if not isinstance(form, dict) or form.keys() != {"squared_residual", "misfit", "iterations", "status"}:
        raise ValueError("outcome must say squared_residual, misfit, iterations and status")
    if not isinstance(form["status"], str) or form["status"] not in Status.__members__:
        raise ValueError(f"outcome: {shortened(form['status'])} is not a status")
    cost, misfit = (number(field, form[field]) for field in ("squared_residual", "misfit"))
    if cost < 0:
        raise ValueError("outcome: squared_residual must not be negative")
    nothing: Any = None
    return Outcome(nothing, cost, misfit, whole("iterations", form["iterations"], 0), Status[form["status"]])


def _read_choice(name: str, form: Any, known: Known) -> ClusterChoice:  # noqa: ARG001
    return ClusterChoice.from_json(form)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedComponents(FittedModel):
    """Weights of components, the density that they are of, and how decoding went; a file has no density."""

    kind_of_part: ClassVar[str] = "component"

    weights: Double = model_array("k")
    outcome: Outcome = saved(_read_outcome, _outcome_content)
    density: Mixture = None  # type: ignore[assignment]
    choice: ClusterChoice | None = saved(_read_choice, ClusterChoice.to_json, optional=True, default=None)

    def __post_init__(self) -> None:
        if self.density is None:
            object.__setattr__(self, "density", self.restored_density())
            object.__setattr__(self, "outcome", replace(self.outcome, mixture=self.density))

    @property
    @abstractmethod
    def centers_of_parts(self) -> Double:
        """Where the clusters or components lie."""

    @property
    def deviations_of_parts(self) -> Double:
        """How far records lie from the middle of their cluster or component, column by column; NaN where unknown."""
        return np.sqrt(self.density.variances())

    @abstractmethod
    def restored_density(self) -> Mixture:
        """The density that the fields of a file tell of."""

    def check(self) -> None:
        check_shares(self.weights)


class Step(Protocol):
    """A step of the algorithm on all records of a sketch, from the pilot at which they were summed."""

    @property
    def gain(self) -> float:
        """By how much the step lowered what is minimised."""

    @property
    def gain_in_words(self) -> str:
        """The same, after "The last pass"."""

    @property
    def cost(self) -> float:
        """What is minimised, after the step, at most."""

    @property
    def n_parts(self) -> int:
        """Clusters or components with records."""

    @property
    def settled(self) -> bool:
        """Whether another step would gain less than is worth a pass."""

    @property
    def still(self) -> bool:
        """Whether nothing moves any more."""

    @property
    def doubts(self) -> tuple[str, ...]:
        """What to say of records that are unlike those of the pilot's sample."""

    def next_operator(self) -> Operator:
        """What records contribute to the step after this one."""


@dataclass(eq=False, repr=False)
class StepEstimator(DesignedEstimator):
    """An estimator of which each pass over the rows is a step of its algorithm: never worse than the pilot."""

    _: KW_ONLY
    n_passes: int | str = AUTO

    #: passes over rows in memory, at most
    most_passes = 100

    def check_parameters(self) -> None:
        super().check_parameters()
        if not isinstance(self.n_passes, str) or self.n_passes != AUTO:
            whole("n_passes", self.n_passes)

    @abstractmethod
    def step_of(self, sketch: Sketch) -> Step | None:
        """The step that a sketch tells exactly; None for sketches of other features, or with noise."""

    @abstractmethod
    def model_of_step(self, step: Any, state: FittedState) -> Any:
        """The model after a step; the one before is in the state."""

    def at_model(self, step: Any, state: FittedState) -> Any:  # noqa: ARG002
        """The step, from which passes go on at the model of the state."""
        return step

    def rival_of(self, step: Any, state: FittedState) -> Operator | None:  # noqa: ARG002
        """The operator at another start, where rows that are kept tell of some that the pilot's sample lacked."""
        return None

    def has_little_to_gain(self, step: Any, state: FittedState, incoming: IncomingRows) -> bool:  # noqa: ARG002
        """Whether some of the rows show that another pass is not worth its time, whatever the last one gained."""
        return False

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        if (found := self.step_of(state.sketch)) is not None:
            step = self.at_model(found, state)
            if incoming is not None:
                state, step = self._further_passes(state, step, incoming)
            for doubt in step.doubts:
                warn_caller(doubt, ConvergenceWarning)
        return super()._after_learning(state, incoming)

    def _further_passes(self, state: FittedState, step: Any, incoming: IncomingRows) -> tuple[FittedState, Any]:
        """More steps, a pass over the rows each."""
        auto = self.n_passes == AUTO
        most = int(self.n_passes) if not auto else self.most_passes if incoming.at_hand else 1
        if most == 1:
            return state, step
        if not incoming.replayable:
            raise ValueError("these rows can only be read once: leave out n_passes")
        if (rival := self.rival_of(step, state)) is not None:
            most -= 1
            if (other := self._pass_at(rival, state, incoming)) is not None and other[1].cost < step.cost:
                state, step = other
        if auto and not (step.still or step.settled) and self.has_little_to_gain(step, state, incoming):
            return state, step
        for _ in range(most - 1):
            if step.still or (auto and step.settled):
                break
            if (after := self._pass_at(step.next_operator(), state, incoming)) is None:
                break
            state, step = after
        return state, step

    def _pass_at(
        self, operator: Operator, state: FittedState, incoming: IncomingRows
    ) -> tuple[FittedState, Any] | None:
        """The step at which all rows are summed by an operator; None where a center is nearest to no record."""
        self._say("another pass over the rows")
        sketch = self._sketched_by(operator.without_keeping(), incoming)
        sketch = replace(sketch, operator=operator, kept=state.sketch.kept)  # rows that were kept stay so
        step = self.step_of(sketch)
        if step is None or step.n_parts < len(state.model.weights):
            return None
        state = replace(state, sketch=sketch)
        return replace(state, model=self.model_of_step(step, state)), step


def array_blocks(rows: Any) -> Iterable[NDArray[Any]]:
    """An array as one block, a sparse matrix in blocks."""
    return [rows] if isinstance(rows, np.ndarray) else (block.rows for block in source(rows).blocks())


class NearestClusters(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, SketchEstimator):
    """An estimator whose model tells the `nearest` cluster of rows, and their `distances` to all clusters."""

    @property
    def labels_(self) -> NDArray[np.int32]:
        labels = None if self._state is None else self._state.row_labels
        if labels is None:
            raise AttributeError(
                "labels_ are there after fit on an array or a data frame, if no row was left out: predict tells others"
            )
        return labels

    @property
    def _n_features_out(self) -> int:
        return len(self.fitted_model().weights)

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        state = super()._after_learning(state, incoming)
        if incoming is None or incoming.array is None:
            return state
        return self._with_array(state, incoming.array, incoming.rows.weights)

    def _with_array(self, state: FittedState, rows: Any, weights: Any) -> FittedState:  # noqa: ARG002
        """The state with what the model says of an array of rows that was fitted."""
        labels = map(state.model.nearest, array_blocks(rows))
        return replace(state, row_labels=np.concatenate([np.empty(0, np.int32), *labels]))

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The nearest cluster of each row."""
        model = self.fitted_model()
        return np.concatenate([np.empty(0, np.int32), *map(model.nearest, self.row_blocks(X))])

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int32]:
        """`fit`, then the cluster of each row."""
        fitted = self.fit(X, y, sample_weight)
        return fitted.labels_ if is_array(X) else fitted.predict(X)

    def transform(self, X: Any) -> Double:
        """Distances of each row to each cluster."""
        model = self.fitted_model()
        return np.concatenate([np.empty((0, len(model.weights))), *map(model.distances, self.row_blocks(X))])


def _read_chance(name: str, value: Any, known: Known) -> float:  # noqa: ARG001
    if not 0 <= number(name, value) <= 1:
        raise ValueError(f"{name} must be between 0 and 1, not {value}")
    return float(value)


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedMixture(FittedComponents):
    """A mixture, and its fit test: 1 on average if records come from it, and the p-value, where it is known."""

    means: Double = model_array("k", "d")
    fit_test: float = scalar()
    fit_p_value: float | None = saved(_read_chance, float, optional=True, default=None)

    @property
    def centers_of_parts(self) -> Double:
        return self.means

    @property
    def fit_in_words(self) -> str:
        """The fit test in a few words."""
        if self.fit_test == 0.0:
            return "unknown: a sketch of cells has none"
        figure = f"{in_digits(self.fit_test, 3)} (about 1 if records come from such a mixture)"
        return figure if self.fit_p_value is None else f"{figure}, p-value {in_digits(self.fit_p_value, 2)}"


@dataclass(eq=False, repr=False)
class SketchMixture(DensityMixin, DesignedEstimator):
    """A mixture of `n_components` distributions; each kind says how to learn it and what its densities are."""

    n_components: int = 1

    means_ = model_attribute("means")
    fit_test_ = model_attribute("fit_test")
    fit_p_value_ = model_attribute("fit_p_value")

    @property
    def _n_components(self) -> int:
        return self.n_components

    @classmethod
    def parameters_of(cls, model: Any) -> Document:
        return {"n_components": len(model.weights)}

    @abstractmethod
    def _log_densities(self, rows: Double) -> Double:
        """Log-density of each component at each row: (rows, components)."""

    def _log_parts(self, X: Any) -> Double:
        """log(weight times density) of each row and component."""
        self.fitted_model()
        shares = np.log(np.maximum(self.weights_, 1e-300))
        parts = [self._log_densities(rows) + shares for rows in self.row_blocks(X, np.float64)]
        return np.concatenate(parts) if parts else np.empty((0, len(shares)))

    def score_samples(self, X: Any) -> Double:
        """Log-likelihood of each row."""
        return np.asarray(logsumexp(self._log_parts(X), axis=1))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Mean log-likelihood of the rows."""
        return float(np.mean(self.score_samples(X)))

    def predict(self, X: Any) -> NDArray[np.int64]:
        """The likeliest component of each row."""
        return np.argmax(self._log_parts(X), axis=1)

    def predict_proba(self, X: Any) -> Double:
        """The probability of each component, row by row."""
        parts = self._log_parts(X)
        return np.asarray(np.exp(parts - logsumexp(parts, axis=1, keepdims=True)))

    def fit_predict(self, X: Any, y: Any = None, sample_weight: Any = None) -> NDArray[np.int64]:
        """`fit`, then the likeliest component of each row."""
        return self.fit(X, y, sample_weight).predict(X)

    def sample(self, n_samples: int = 1) -> tuple[Any, NDArray[np.int64]]:
        """Random rows of the mixture and the component of each.

        With a schema, the rows are in the terms of the table: a data frame, or an Arrow table without pandas.
        """
        rows, components = self.fitted_model().density.sample(n_samples, self._generator())
        return decoded_table(rows, self.columns_), components


ROWS_OF_ATOMS = 5000  # drawn near the atoms, to look for a mixture there
NEVER_MEASURED = "a model file of an earlier version does not say it: learn the model again, or score rows"


@dataclass(eq=False, repr=False)
class RowMeanEstimator(DesignedEstimator):
    """An estimator that knows the mean over all sketched rows of what each row costs, or of how likely it is.

    From the rows themselves where they were at hand; from rows beside the sketch, which knows the means of features
    over all rows; or from the sketch alone, where the density that was learned explains it.
    """

    @abstractmethod
    def row_values(self, model: Any, rows: Double) -> Double:
        """What is averaged, row by row."""

    @abstractmethod
    def distance_units(self, model: Any) -> Double:
        """The units in which distances from centers count, column by column."""

    @abstractmethod
    def fitted_again(self, model: Any, sample: WeightedRows) -> Callable[[Double], Double]:
        """What is averaged, as a function of rows, under the model near this one that suits weighted rows best."""

    def share_of_rows(self, sketch: Sketch, n_rows: int) -> float:  # noqa: ARG002
        """How much of a model that was fitted to rows is owed to those."""
        return 1.0

    def row_mean(self) -> RowMean:
        """The mean over all sketched rows, found when it is first asked for, and why it is withheld, if it is."""
        self.fitted_model()
        state = self._state
        assert state is not None
        if state.row_mean is None:
            if not state.has_rows:
                return RowMean(withheld=NEVER_MEASURED)
            state = self._state = replace(state, row_mean=self._find_row_mean(state))
        assert state.row_mean is not None
        return state.row_mean

    @abstractmethod
    def measured(self) -> tuple[str, RowMean]:
        """What is told of the mean, with its error: under which name, and in the units of that."""

    def certainty_facts(self) -> Document:
        found = self.row_mean()
        facts = super().certainty_facts()
        return facts if found.withheld == NEVER_MEASURED else {**facts, "row_mean": found.to_json()}

    def _told(self, name: str, number: float | None) -> float | None:
        """A number of the row mean, with a warning where there is none."""
        if number is None:
            warn_caller(f"{name} is withheld: {self.row_mean().withheld}")
        return number

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        """The state after learning; rows that were given are used once more before they are dropped."""
        if state.given_rows is not None:
            state = replace(state, row_mean=self._find_row_mean(state))
        return super()._after_learning(state, incoming)

    def _find_row_mean(self, state: FittedState) -> RowMean:
        with one_blas_thread():
            return self._estimated(state.sketch, state, self._generator())

    def _estimated(self, sketch: Sketch, state: FittedState, rng: np.random.Generator) -> RowMean:
        model, given = state.model, state.given_rows
        known = KnownMeans.of(sketch, model.centers_of_parts, self.distance_units(model))
        drawn = DrawnRows.kept(sketch) if given is None else DrawnRows.sampled(given.rows.rows, float(sketch.count))
        if drawn is None:
            return self._of_density(sketch, model, known, rng)
        optimism = None
        if model.outcome.status is Status.ROWS:
            share = self.share_of_rows(sketch, len(drawn.rows))
            optimism = share * fitted_optimism(sketch, drawn, partial(self.fitted_again, model), rng)
        return estimated_mean(known, drawn, self.row_values(model, drawn.rows), optimism)

    def _of_density(self, sketch: Sketch, model: Any, known: KnownMeans, rng: np.random.Generator) -> RowMean:
        """The mean from the sketch alone."""
        target, density = Target.of(sketch), model.density if model.outcome.status is Status.EXPLAINED else None
        if hidden := hidden_by_noise(target, len(model.weights)):
            return RowMean(withheld=hidden)
        if model.outcome.status is Status.ATOMS:  # they assume no law, but a mixture near them may explain the sketch
            sample = RowSample(WeightedRows.of(model.density.sample(ROWS_OF_ATOMS, rng)[0]), self.distance_units(model))
            problem = Problem.of(target, len(model.weights))
            near = mixture_near(problem, sample, rough_centers(sample, problem.n_components, rng))
            density = problem.in_data_units(near.mixture.heavy()) if near.status is Status.EXPLAINED else None
        if density is not None:
            ratio, values = target.noise / target.sampling, partial(self.row_values, model)
            found = mean_of_density(known, density, values, float(sketch.count), ratio, rng)
            if found is not None:
                return found
        given = either("sample=rows", "--sample FILE")
        remedy = f"{keep_rows()}, or give some with {given}"
        if sketch.ledger is not None:
            public = Parameter("assume_public_sample", True)
            remedy = f"give public rows that are like the private ones with {given} and {public}"
        return RowMean(withheld=f"a sketch alone tells it where a density explains all of it, and none does: {remedy}")
