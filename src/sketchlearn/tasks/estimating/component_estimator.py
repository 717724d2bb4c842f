"""What estimators of clusters and mixtures share: a sketch of Fourier features, designed for k components."""

from __future__ import annotations

import math
import numbers
from abc import abstractmethod
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.decoders import Decoder, Outcome, Status, Target, decoder_from
from sketchlearn.decoders.refinements.kmeans_of_rows import few_distinct
from sketchlearn.decoders.searches.search_loop import ADVICE
from sketchlearn.designing.cell_operators import WIDE, columns_along, directions_for
from sketchlearn.designing.sample_summary import MOST_ROWS, rows_of_pilot, rows_wanted
from sketchlearn.designing.touched_frequencies import AUTO, checked_subsample
from sketchlearn.models import Mixture
from sketchlearn.operators import Operator
from sketchlearn.plain_digits import counted
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.choosing.cluster_choice import ClusterChoice
from sketchlearn.tasks.estimating.error_barred import ErrorBarredEstimator
from sketchlearn.tasks.estimating.fitted_model import Document, Double, FittedModel, Known, model_array, saved
from sketchlearn.tasks.estimating.fitted_state import FittedState
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.row_samples import given_rows, kept_rows
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.tasks.task_design import design
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.row_errors import NO_ROWS
from sketchlearn.uncertainty.sketch_influence import UndeterminedError
from sketchlearn.values import number, shortened, whole
from sketchlearn.waves import Wave
from sketchlearn.weighting.clusters_of_rows import RowSample

MOST_ADDED_ERROR = 0.01  # of the squared error, by subsampling (`designing.touched_frequencies`)
ROWS_PER_COMPONENT = 25  # that are kept, where a few thousand would be fewer
SAMPLED_PER_COMPONENT = 2  # rows at least, given or kept: halves of fewer had fewer rows than centers, a NumPy error


@dataclass(eq=False, repr=False)
class DesignedEstimator(ErrorBarredEstimator):
    """An estimator of k components, which a decoder finds in a sketch of Fourier features."""

    _: KW_ONLY
    decoder: str | Decoder = "auto"
    n_frequencies: int | None = None
    wave: str | Wave = "exponential"
    subsample: int | str | None = AUTO

    _learns_points: ClassVar[bool] = False  # whether decoders may find points, which are no density
    standardize = False  # a parameter of k-means alone
    normalize = False  # and so are these
    along: Any = None
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
    def _chooses_number(self) -> bool:
        """Whether the sketch shall tell the number of clusters: frequencies do so better than cells."""
        return False

    @property
    def _task(self) -> str:
        """What the operator is designed for."""
        return "kmeans"

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:
        return {"task": self._task, "n_components": self._n_components, **size}

    def _most_rows(self, width: int | None) -> int:
        wanted = rows_wanted(self._task, self._n_components)
        pilot = self._task == "kmeans" and self._suits_cells and (width is None or width <= WIDE)
        return max(wanted, rows_of_pilot(self._n_components)) if pilot else wanted

    def check_parameters(self) -> None:
        k = self._n_components
        if isinstance(k, bool) or not isinstance(k, numbers.Integral) or k < 1:
            raise ValueError(f"the number of clusters or components must be a positive whole number, not {k!r}")
        if decoder_from(self.decoder).points and not self._learns_points:
            raise ValueError(
                f"decoder {shortened(self.decoder)} finds the points of k-means, which are no density: choose another "
                "decoder here"
            )
        checked_subsample(self.subsample)

    def check_size(self, n_rows: int) -> None:
        if n_rows < self._n_components:
            raise ValueError(
                f"n_samples={n_rows} rows cannot have {self._n_components} clusters: ask for fewer clusters"
            )

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
            self._state = replace(self._sketched_state(), error_bars=ErrorBars(withheld=NO_ROWS))
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
    def _directions(self) -> int | str | None:
        """In how many directions rows of many columns are put into cells; None for frequencies instead."""
        return None

    def _directions_of(self, glimpse: Glimpse) -> int | str | None:
        """The same for these rows: the numbers of a schema go by frequencies, unless directions are asked for."""
        in_cells = self.normalize or self.along is not None
        found = directions_for(glimpse.columns, self._directions, in_cells=in_cells)
        pilot = self._task == "kmeans" and not self._chooses_number and glimpse.representative and self._suits_cells
        return 0 if pilot and found == AUTO and not in_cells and glimpse.rows.shape[1] <= WIDE else found

    @property
    def _suits_cells(self) -> bool:
        """Whether no frequencies are asked for."""
        return self.n_frequencies is None and self.wave == "exponential" and self.subsample in (AUTO, None)

    def _in_cells(self, glimpse: Glimpse) -> bool:
        """Whether rows such as these are put into cells."""
        directions = self._directions_of(glimpse)
        wide = glimpse.rows.shape[1] > WIDE or self.normalize or self.along is not None or directions != AUTO
        return self._suits_cells and wide and directions is not None

    def _n_kept(self, glimpse: Glimpse, k: int) -> int | None:
        """How many rows are kept beside the sketch; beside cells in directions none, unless all rows are few."""
        if not self._in_cells(glimpse) or self._directions_of(glimpse) == 0:
            return max(rows_wanted(self._task), ROWS_PER_COMPONENT * k)
        few = glimpse.n_rows is not None and glimpse.n_rows <= MOST_ROWS
        return MOST_ROWS if few and self._task == "kmeans" else None

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> Operator:
        everything, k = glimpse.everything, self._n_components
        if everything is not None and everything.n_records == len(glimpse.rows):
            self._check_distinct(glimpse.rows)
        operator = design(
            glimpse.rows,
            n_components=k,
            task=self._task,
            representative=glimpse.representative,
            n_frequencies=self.n_frequencies,
            wave=self.wave,
            seed=int(rng.integers(2**31)),
            standardize=self.standardize,
            rows=self._n_kept(glimpse, k),
            n_rows=glimpse.n_rows,
            subsample=self.subsample,
            n_directions=self._directions_of(glimpse),
            normalize=self.normalize,
            along=columns_along(self.along, glimpse.columns, glimpse.rows.shape[1]) or None,
        )
        return operator.with_columns(glimpse.columns)


def require_rows(status: Status) -> None:
    """Refuses errors of a result that is neither that of kept rows nor of a mixture that explains the sketch."""
    if status in (Status.ROWS, Status.ALL_ROWS):
        return
    if status is Status.HIDDEN:
        raise UndeterminedError(f"{status.value}: {ADVICE[status]}")
    raise UndeterminedError(
        "no mixture explains the sketch up to noise, and it keeps no rows that would tell: keep some beside it, with "
        "design(..., rows=500)"
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
