"""What estimators of clusters and mixtures share: a sketch of Fourier features, designed for k components."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import KW_ONLY, dataclass, replace
from functools import partial
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from scipy.special import logsumexp
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, DensityMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from sketchlearn import engines
from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.core.messages import counted, in_digits, warn_caller
from sketchlearn.core.packages import required
from sketchlearn.core.values import number, shortened, whole
from sketchlearn.estimators.base.arrays import decoded_table
from sketchlearn.estimators.base.estimator import ErrorBarredEstimator, SketchEstimator, model_attribute
from sketchlearn.estimators.base.model import Document, FittedModel, Known, model_array, saved, scalar
from sketchlearn.estimators.base.state import DesignSample, FittedState, IncomingRows, given_rows, kept_rows
from sketchlearn.estimators.base.supervised import passive_columns
from sketchlearn.estimators.design.cells import WIDE
from sketchlearn.estimators.design.designs import FAMILIES, design
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, rows_of_pilot, rows_wanted
from sketchlearn.estimators.design.standard import with_standard_parts
from sketchlearn.estimators.number_of_clusters import ClusterChoice, choose_with_rows
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
    mean_of_density,
    more_rows,
)
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.inference.kmeans import few_distinct
from sketchlearn.inference.weighted_clusters import RowSample, mixture_near, rough_centers
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.source import is_array, source
from sketchlearn.sketch.sums import Sketch

MOST_ADDED_ERROR = 0.01  # of the squared error, by subsampling (`design.frequencies.touched`)
ROWS_PER_COMPONENT = 25  # in the priority sample, which has a few thousand rows at least
SAMPLED_PER_COMPONENT = 2  # rows at least, given or kept: halves of fewer had fewer rows than centers, a NumPy error


@dataclass(eq=False, repr=False)
class DesignedEstimator(ErrorBarredEstimator):
    """An estimator of k components, which a decoder finds in a sketch of Fourier features."""

    _: KW_ONLY
    decoder: str | Decoder = "auto"
    features: Features | None = None

    _weights_are_relative = True
    _learns_points: ClassVar[bool] = False  # whether decoders may find points, which are no density
    _chooses = False  # whether the number of components is to be chosen
    standardize = False  # a parameter of k-means alone
    profile_columns = cast("Any", None)  # and so are these
    outcome_ = model_attribute("outcome")
    weights_ = model_attribute("weights")

    @property
    def n_iter_(self) -> int:
        """Steps of the algorithm: passes over the rows, or iterations of a decoder's search."""
        return self.outcome_.iterations

    @abstractmethod
    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None) -> Any:
        """The model of a sketch and of a sample of rows, if there is one."""

    @property
    @abstractmethod
    def _n_components(self) -> int:
        """The number of clusters or components."""

    @property
    def _task(self) -> str:
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
        if n_rows < (1 if self._chooses else self._n_components):
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

    def plot(self, path: Any = None) -> Any:
        """Draws the clusters or components over the density of the records; needs matplotlib.

        Parameters
        ----------
        path : str or path, default=None
            Where to save the picture: .png, .svg or .pdf.

        Returns
        -------
        figure : matplotlib figure

        Examples
        --------
        >>> import sketchlearn as skl
        >>> X = np.random.default_rng(0).standard_normal((500, 2))
        >>> skl.SketchKMeans(2, random_state=0).fit(X).plot().axes[0].get_xlabel()
        'column 0'
        """
        pictures = required("sketchlearn.views.pictures", "plot")
        return pictures.plot_model(self.sketch_with_rows(), self, path)

    def report(self, path: Any = None, *, title: str = "Report") -> str:
        """Makes a page of HTML about the sketch and the clusters (see `skl.report`).

        Parameters
        ----------
        path : str or path, default=None
            Where to save the page; it is personal data, and written for its owner alone.
        title : str, default="Report"

        Returns
        -------
        page : str

        Examples
        --------
        >>> import sketchlearn as skl
        >>> X = np.random.default_rng(0).standard_normal((500, 2))
        >>> "<h1>Report</h1>" in skl.SketchKMeans(2, random_state=0).fit(X).report()
        True
        """
        page: str = required("sketchlearn.views.report.page", "plot").report(
            self.sketch_with_rows(), self, path, title=title
        )
        return page

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> Any:
        return self.learn_from_sketch(state.sketch, rng, state.given_rows)

    def _sample(self, sketch: Sketch, given: RowSample | None) -> RowSample | None:
        """Rows to learn from beside the sketch; a named decoder learns from the sketch alone."""
        return given if given is not None or self.decoder != "auto" else kept_rows(sketch)

    def _check_determined(self, sketch: Sketch, sample: RowSample | None, k: int) -> None:
        """Refuses more components than rows, or than the sketch's numbers determine."""
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
                f"a sketch of {target.n_numbers:,.0f} numbers cannot determine {k:,} clusters or components in {d} "
                "columns: ask for fewer, or design the sketch for as many"
            )
        least = SAMPLED_PER_COMPONENT * k
        if sample is not None and not sample.complete and len(sample.rows) < least:
            raise ValueError(
                f"{counted(len(sample.rows), 'row')} beside the sketch cannot determine {k:,} clusters or components, "
                f"as half of the rows validates those of the other half: give or keep at least {least:,} rows, or ask "
                "for fewer"
            )

    def _check_distinct(self, design_sample: DesignSample) -> None:
        if self._chooses or not design_sample.complete:
            return
        if (distinct := few_distinct(design_sample.rows, k := self._n_components)) is not None:
            warn_caller(
                f"there are only {len(distinct)} distinct rows for {k} clusters: some of them coincide",
                ConvergenceWarning,
            )

    @property
    def _wanted_features(self) -> Features | None:
        """The features that the parameters ask for; None where the rows decide."""
        return self.features if self.features is not None or self.decoder == AUTO else Fourier()

    def _features_for(self, design_sample: DesignSample) -> Features:
        """The features for these rows; by default, frequencies for tables of up to 64 encoded columns."""
        wanted, narrow = self._wanted_features, design_sample.rows.shape[1] <= WIDE
        pilot_suits = self._task == "kmeans" and self.profile_columns is None and not self._chooses
        if wanted is not None:
            in_columns = wanted == Cells() and narrow and pilot_suits
            return Cells(n_directions=0) if in_columns else wanted
        if self.profile_columns is not None:
            return Cells()
        if (isinstance(design_sample.columns, SchemaColumns) and narrow) or Cells not in FAMILIES[self._task]:
            return Fourier()
        if not narrow:
            return Cells()
        return Cells(n_directions=0) if design_sample.representative and pilot_suits else Fourier()

    def _n_kept(self, design_sample: DesignSample, k: int) -> int | None:
        """The size of the priority sample; beside cells in directions there is none, unless all rows are few."""
        features = self._features_for(design_sample)
        if isinstance(features, Fourier) or features == Cells(n_directions=0):
            return max(rows_wanted(self._task), ROWS_PER_COMPONENT * k)
        few = design_sample.n_rows is not None and design_sample.n_rows <= MOST_ROWS
        return MOST_ROWS if few and self._task == "kmeans" else None

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        self._check_distinct(design_sample)
        k, rows, features = self._n_components, design_sample.rows, self._features_for(design_sample)
        # The number of clusters is chosen from sketches without frequency subsampling.
        n_rows = None if self._chooses and isinstance(features, Fourier) else design_sample.n_rows
        operator = design(
            rows,
            n_components=k,
            task=self._task,
            representative=design_sample.representative,
            features=features,
            seed=int(rng.integers(2**31)),
            standardize=self.standardize,
            rows=self._n_kept(design_sample, k),
            n_rows=n_rows,
            profile_columns=passive_columns(self.profile_columns, design_sample.columns, rows.shape[1]) or None,
        )
        return operator.with_columns(design_sample.columns)

    def _designed(self, design_sample: DesignSample, rng: np.random.Generator) -> tuple[Operator, Any]:
        """The operator; with the parts of the standard sketch if it is shared, or that of a table with a schema."""
        operator, more = super()._designed(design_sample, rng)
        asked = design_sample.shared or isinstance(design_sample.columns, SchemaColumns)
        if asked and self.features is None and isinstance(operator, CellSums):
            sampled = replace(design_sample, columns=operator.columns)
            operator = with_standard_parts(operator, sampled, self._n_components, int(rng.integers(2**31)))
        return operator, more


def require_rows(status: Status, sketch: Sketch) -> None:
    """Refuses errors of a result that is neither that of sampled rows nor of a mixture that explains the sketch."""
    if status is Status.HIDDEN:
        raise UndeterminedError(status.value, status.advice)
    if status not in (Status.ROWS, Status.ALL_ROWS):
        raise UndeterminedError(
            "no mixture explains the sketch up to noise, and it has no sample of rows", more_rows(sketch.ledger)
        )


def largest_first(weights: Double) -> NDArray[np.intp]:
    """The order in which clusters and components are numbered: the largest first.

    >>> largest_first(np.array([0.2, 0.5, 0.3])).tolist()
    [1, 2, 0]
    """
    return np.argsort(-weights, kind="stable")


def _outcome_content(outcome: Outcome) -> Document:
    figures = {"squared_residual": float(outcome.cost), "misfit": float(outcome.misfit)}
    return {**figures, "iterations": int(outcome.iterations), "status": outcome.status.name}


def _read_outcome(name: str, form: Any, known: Known) -> Outcome:  # noqa: ARG001
    """The outcome in a model file, without its mixture."""
    if not isinstance(form, dict) or form.keys() != {"squared_residual", "misfit", "iterations", "status"}:
        raise ValueError("outcome must have the fields squared_residual, misfit, iterations and status")
    if not isinstance(form["status"], str) or form["status"] not in Status.__members__:
        raise ValueError(f"outcome: {shortened(form['status'])} is not a status")
    cost, misfit = (number(field, form[field]) for field in ("squared_residual", "misfit"))
    if cost < 0:
        raise ValueError("outcome: squared_residual must not be negative")
    mixture: Any = None
    return Outcome(mixture, cost, misfit, whole("iterations", form["iterations"], 0), Status[form["status"]])


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedComponents(FittedModel):
    """Weights of components, their density, and the outcome of decoding; a file has no density."""

    kind_of_part: ClassVar[str] = "component"

    weights: Double = model_array("k")
    outcome: Outcome = saved(_read_outcome, _outcome_content)
    density: Mixture = None  # type: ignore[assignment]
    choice: ClusterChoice | None = saved(
        lambda name, form, known: ClusterChoice.from_json(form),  # noqa: ARG005
        ClusterChoice.to_json,
        optional=True,
        default=None,
    )

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
        """Standard deviations within each cluster or component, by column; NaN where unknown."""
        return np.sqrt(self.density.variances())

    @abstractmethod
    def restored_density(self) -> Mixture:
        """The density from the fields of a file."""

    def check(self) -> None:
        if np.any(self.weights < 0) or not math.isclose(float(self.weights.sum()), 1.0, rel_tol=1e-3):
            raise ValueError("weights must not be negative and must sum to 1")


def array_blocks(rows: Any) -> Iterable[NDArray[Any]]:
    """An array as one block, a sparse matrix in blocks."""
    return [rows] if isinstance(rows, np.ndarray) else (block.rows for block in source(rows).blocks())


class NearestClusters(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, SketchEstimator):
    """An estimator whose model has the `nearest` cluster of rows, and their `distances` to all clusters."""

    @property
    def labels_(self) -> NDArray[np.int32]:
        labels = None if self._state is None else self._state.row_labels
        if labels is None:
            raise AttributeError(
                "labels_ exist only after fit on an array or a data frame without dropped rows: use predict"
            )
        return labels

    @property
    def _n_features_out(self) -> int:
        return len(self.fitted_model().weights)

    @property
    def _row_type(self) -> Any:
        self.fitted_model()
        assert self._state is not None
        return self._state.row_type

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        state = super()._after_learning(state, incoming)
        if incoming is None or incoming.array is None:
            return state
        return self._with_array(state, incoming.array, incoming.rows.weights)

    def _with_array(self, state: FittedState, rows: Any, weights: Any) -> FittedState:  # noqa: ARG002
        """The state with the labels of the fitted array."""
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
        model, own = self.fitted_model(), self._row_type
        found = [model.distances(rows).astype(np.result_type(rows, own), copy=False) for rows in self.row_blocks(X)]
        return np.concatenate(found) if found else np.empty((0, len(model.weights)))


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedMixture(FittedComponents):
    """A mixture, its fit test (about 1 if records come from it) and the p-value, where it is known."""

    means: Double = model_array("k", "d")
    fit_test: float = scalar()
    fit_p_value: float | None = scalar(optional=True, default=None)

    def check(self) -> None:
        super().check()
        if self.fit_p_value is not None and not 0 <= self.fit_p_value <= 1:
            raise ValueError(f"fit_p_value must be between 0 and 1, not {self.fit_p_value}")

    @property
    def centers_of_parts(self) -> Double:
        return self.means

    @property
    def fit_in_words(self) -> str:
        if self.fit_test == 0.0:
            return "unknown: a sketch of cells has none"
        figure = f"{in_digits(self.fit_test, 3)} (about 1 if records come from such a mixture)"
        return figure if self.fit_p_value is None else f"{figure}, p-value {in_digits(self.fit_p_value, 2)}"


@dataclass(eq=False, repr=False)
class SketchMixture(DensityMixin, DesignedEstimator):
    """A mixture of `n_components` distributions; subclasses define how it is learned, and the densities."""

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
NEVER_MEASURED = "a model file of an earlier version does not have it: learn the model again, or score rows"


@dataclass(eq=False, repr=False)
class StepEstimator(DesignedEstimator):
    """An estimator whose passes over the rows are steps of its algorithm: never worse than the pilot.

    It estimates the number of clusters or components, if it is "auto", and has the mean cost, or log-likelihood, of all
    sketched rows: from the rows, if they were in memory; from a sample of rows and the sketch's means of features; or
    from the sketch alone, if the fitted density explains it.
    """

    _: KW_ONLY
    max_clusters: int = 20
    n_passes: int | str = AUTO

    #: passes over rows in memory, at most
    most_passes = 100
    #: how the number was chosen, a `ClusterChoice`; None where it was given
    choice_ = model_attribute("choice")

    @property
    @abstractmethod
    def _number(self) -> int | str:
        """The requested number, or "auto"."""

    @property
    def _chooses(self) -> bool:  # type: ignore[override]
        return self._number == AUTO

    @property
    def _n_components(self) -> int:
        return self.max_clusters if self._chooses else self._number  # type: ignore[return-value]

    def check_parameters(self) -> None:
        if isinstance(self._number, str) and self._number != AUTO:
            raise ValueError(
                f'the number of clusters or components must be a positive whole number, or "auto", not {self._number!r}'
            )
        whole("max_clusters", self.max_clusters)
        super().check_parameters()
        if self.n_passes != AUTO:
            whole("n_passes", self.n_passes)

    def _chosen(
        self, sketch: Sketch, sample: RowSample | None, rng: np.random.Generator
    ) -> tuple[int, ClusterChoice | None]:
        if not self._chooses:
            return self._n_components, None
        say, of_mixture = self._say if self.verbose else None, self._task != "kmeans"
        choice = choose_with_rows(sketch, self.max_clusters, sample, rng, say, of_mixture=of_mixture)
        self._say(" ".join(choice.sentences))
        return choice.n_clusters, choice

    @abstractmethod
    def step_of(self, sketch: Sketch) -> Any:
        """The step that a sketch determines exactly; None for sketches of other features, or with noise.

        It has `cost`, what is minimized, after the step at most; `gain`, by how much the step lowered it, and
        `gain_in_words`, after "The last pass"; `n_parts`, the clusters or components with records; `settled`, whether
        another step would gain less than is worth a pass; `still`, whether nothing moves any more; `doubts` of records
        that are unlike the pilot's sample; and `next_operator()`, for the step after this one.
        """

    @abstractmethod
    def model_of_step(self, step: Any, state: FittedState) -> Any:
        """The model after a step; the one before is in the state."""

    def at_model(self, step: Any, state: FittedState) -> Any:  # noqa: ARG002
        """The step, so that further passes start at the model of the state."""
        return step

    def rival_of(self, step: Any, state: FittedState) -> Operator | None:  # noqa: ARG002
        """The operator at another start, if sampled rows show some that the pilot's sample lacked."""
        return None

    def has_little_to_gain(self, step: Any, state: FittedState, incoming: IncomingRows) -> bool:  # noqa: ARG002
        """Whether some of the rows show that another pass is not worth its time."""
        return False

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:
        if (found := self.step_of(state.sketch)) is not None:
            step = self.at_model(found, state)
            if incoming is not None:
                state, step = self._further_passes(state, step, incoming)
            for doubt in step.doubts:
                warn_caller(doubt, ConvergenceWarning)
        if state.given_rows is not None:  # They are used once more before they are dropped.
            state = replace(state, row_mean=self._find_row_mean(state))
        return super()._after_learning(state, incoming)

    def _further_passes(self, state: FittedState, step: Any, incoming: IncomingRows) -> tuple[FittedState, Any]:
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
        """The state and the step after a pass by an operator; None where a center is nearest to no record."""
        self._say("another pass over the rows")
        plain = operator.without_keeping()
        if incoming.frame is not None:
            sketch = engines.sketch(incoming.frame, plain, device=self.device)
        else:
            sketch = self._sketched(plain, incoming.rows, incoming.table)
        sketch = replace(sketch, operator=operator, kept=state.sketch.kept)  # the priority sample stays the same
        step = self.step_of(sketch)
        if step is None or step.n_parts < len(state.model.weights):
            return None
        n_steps = state.model.outcome.iterations + 1
        state = replace(state, sketch=sketch)
        model = self.model_of_step(step, state)
        model = replace(model, outcome=replace(model.outcome, iterations=n_steps))
        return replace(state, model=model), step

    @abstractmethod
    def row_values(self, model: Any, rows: Double) -> Double:
        """What is averaged, row by row."""

    @abstractmethod
    def distance_units(self, model: Any) -> Double:
        """The units in which distances from centers count, column by column."""

    @abstractmethod
    def fitted_again(self, model: Any, sample: WeightedRows) -> Callable[[Double], Double]:
        """The averaged function of rows, for the model near this one that fits weighted rows best."""

    def share_of_rows(self, sketch: Sketch, n_rows: int) -> float:  # noqa: ARG002
        """The share of the optimism of a fit to n rows that a model has, which was learned from more than rows."""
        return 1.0

    def row_mean(self) -> RowMean:
        """The mean over all sketched rows, computed at the first request, or why it is not reported."""
        self.fitted_model()
        assert self._state is not None
        if self._state.row_mean is None and self._state.has_rows:
            self._state = replace(self._state, row_mean=self._find_row_mean(self._state))
        return self._state.row_mean or RowMean(withheld=NEVER_MEASURED)

    @abstractmethod
    def measured(self) -> tuple[str, RowMean]:
        """The name of the reported figure, and its value with the error."""

    def certainty_facts(self) -> Document:
        found = self.row_mean()
        facts = super().certainty_facts()
        return facts if found.withheld == NEVER_MEASURED else {**facts, "row_mean": found.to_json()}

    def _told(self, name: str, number: float | None) -> float | None:
        if number is None:
            warn_caller(f"{name} is not reported: {self.row_mean().withheld}")
        return number

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
        target, density = Target.of(sketch), model.density if model.outcome.status is Status.EXPLAINED else None
        if hidden := hidden_by_noise(target, len(model.weights)):
            return RowMean(withheld=hidden)
        if model.outcome.status is Status.ATOMS:  # A mixture near the support points may explain the sketch.
            sample = RowSample(WeightedRows.of(model.density.sample(ROWS_OF_ATOMS, rng)[0]), self.distance_units(model))
            problem = Problem.of(target, len(model.weights))
            near = mixture_near(problem, sample, rough_centers(sample, problem.n_components, rng))
            density = problem.in_data_units(near.mixture.heavy()) if near.status is Status.EXPLAINED else None
        if density is not None:
            ratio, values = target.noise / target.sampling, partial(self.row_values, model)
            found = mean_of_density(known, density, values, float(sketch.count), ratio, rng)
            if found is not None:
                return found
        return RowMean(withheld=f"no density explains the sketch, and there are no rows: {more_rows(sketch.ledger)}")
