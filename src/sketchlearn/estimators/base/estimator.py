"""The base of all estimators: design an operator, sketch rows, and learn a model from the sketch."""

from __future__ import annotations

import copy
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, ClassVar, Self, cast

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from scipy.special import ndtri
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sketchlearn import engines
from sketchlearn.core.arrays import Double
from sketchlearn.core.containers import MODEL, MODEL_VERSION, to_document
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.messages import check_names, warn_caller
from sketchlearn.core.values import listed, number, positive, shortened, truth
from sketchlearn.estimators.base import arrays as schema_rows
from sketchlearn.estimators.base.arrays import checked_array
from sketchlearn.estimators.base.model import Document, FittedModel, chosen_parameters, take_parameters
from sketchlearn.estimators.base.state import (
    DesignSample,
    FirstRows,
    FittedState,
    IncomingRows,
    SketchedTable,
)
from sketchlearn.estimators.design.column_ranges import checked_bounds
from sketchlearn.estimators.design.sample_summary import MOST_ROWS
from sketchlearn.features.bounded import check_columns
from sketchlearn.features.families import with_present_names
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.inference.errors.influence import UndeterminedError
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.rows.sampling import sample
from sketchlearn.rows.schemas.table_schema import Schema, SchemaColumns
from sketchlearn.rows.source import is_array, source
from sketchlearn.rows.source_base import Source
from sketchlearn.rows.weights import weighted
from sketchlearn.sketch.ledger import ADD_REMOVE, Ledger
from sketchlearn.sketch.sums import Sketch, require_enough_shares

FLOATS = (np.float64, np.float32)


def model_attribute(name: str) -> Any:
    """A field of the fitted model as an attribute of the estimator."""
    return property(lambda estimator: getattr(estimator.fitted_model(), name))


@dataclass(eq=False, repr=False)
class SketchEstimator(BaseEstimator):
    """An estimator that learns from a sketch: of all rows (`fit`), of batches (`partial_fit`), or a given one.

    It is its parameters, declared as fields of a dataclass, and one `FittedState`.
    """

    _: KW_ONLY
    random_state: Any = None
    n_jobs: int | None = None
    device: str | None = None
    verbose: int = 0
    schema: Schema | str | None = None

    #: what is learned
    model_type: ClassVar[type[FittedModel]]
    #: the task of `design` whose features its parameters choose
    design_task: ClassVar[str] = "kmeans"

    _state = cast("FittedState | None", None)
    _weights_are_relative: ClassVar[bool] = False  # whether their scale does not matter to the model

    @abstractmethod
    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        """The operator for rows such as these."""

    @abstractmethod
    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Any:
        """The model of a sketch."""

    def design(
        self,
        sample: Any = None,
        y: Any = None,
        *,
        bounds: Any = None,
        representative: bool | None = None,
        columns: tuple[str, ...] | None = None,
        neighbors: str = ADD_REMOVE,
        targets: Any = None,
        **size: Any,
    ) -> Operator:
        """Design the operator for this estimator, from a sample of rows or from declared bounds.

        Share its file so that several machines can sketch the same way; `fit_sketch` learns from the merged sketch.

        Parameters
        ----------
        sample : array, data frame, path or anything else that `source` takes, default=None
            Rows from all over the data. The operator is the one that `fit` would use for such rows.
        y : array, str or list of str, default=None
            Targets of the sample, as `fit` takes them.
        bounds : pair of numbers or lists, default=None
            Instead of a sample, the lowest and the highest value of each column. The operator then depends on public
            numbers alone, as private releases require.
        representative : bool, default=None
            False if the sample is not from all over the data, such as the first rows of a stream. None means True for
            arrays and tables, and False for the beginning of a stream.
        columns : tuple of str, default=None
            With bounds, the names of the columns.
        targets : str or list, default=None
            With bounds, for kernel regressions, the columns to predict.
        neighbors, **size
            With bounds: `n_rows`, `epsilon`, `delta` and `neighbors` of a release, which determine the number of
            frequencies (see `skl.design`).

        Examples
        --------
        >>> import sketchlearn as skl
        >>> X = np.random.default_rng(0).standard_normal((10_000, 2))
        >>> estimator = skl.SketchKMeans(3, random_state=0)
        >>> operator = estimator.design(X[:5000])
        >>> parts = [operator.sketch(X[:5000]), operator.sketch(X[5000:])]
        >>> estimator.fit_sketch(sum(parts)).cluster_centers_.shape
        (3, 2)
        >>> operator = skl.SketchKMeans(3).design(bounds=([0, 0], [1, 1]), n_rows=10_000, epsilon=1.0)
        >>> operator.origin.value
        'declared'
        """
        self.check_parameters()
        size = with_present_names(size, f"{type(self).__name__}.design", self.design_task)
        if (sample is None) == (bounds is None):
            raise ValueError("design needs either a sample of rows or bounds")
        if sample is None:
            return self._designed_on_bounds(bounds, columns, neighbors, targets, size)
        of_bounds = {**size, "columns": columns, "targets": targets, "neighbors": neighbors != ADD_REMOVE}
        if odd := next((name for name, value in of_bounds.items() if value), None):
            raise ValueError(f"{odd} is for designs from bounds: leave it out, or give bounds in place of a sample")
        if engines.engine_of(sample):
            raise TypeError(
                "design takes a sample of rows, not a Dask collection or a Spark data frame: draw some first"
            )
        rng = self._generator()
        design_sample, _, _ = self._design_sample_of(self._incoming(sample, y, None), rng)
        # other rows will be sketched
        design_sample = replace(design_sample, everything=None, n_rows=None, at_hand=False, shared=True)
        if representative is not None:
            design_sample = replace(design_sample, representative=truth("representative", representative))
        return self._designed(design_sample, rng)[0].with_origin(Origin.SAMPLE)

    def _designed_on_bounds(
        self, bounds: Any, columns: tuple[str, ...] | None, neighbors: str, targets: Any, size: dict[str, Any]
    ) -> Operator:
        from sketchlearn.estimators.base.supervised import positions
        from sketchlearn.estimators.design.designs import design

        arguments = self.design_arguments(**size)
        if arguments is None:
            name = type(self).__name__
            raise ValueError(f"{name} has no design from bounds alone: release its sketches with privatize")
        if targets is not None and arguments["task"] == "kernel":
            arguments["targets"] = list(positions(targets, columns, len(checked_bounds(bounds)[0])))
        if arguments.get("epsilon") is not None:
            arguments["neighbors"] = neighbors
        seed = int(self._generator().integers(2**31))
        made: Operator = design(bounds=bounds, seed=seed, **arguments)
        return made if columns is None else made.with_columns(tuple(columns))

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        """What `skl.design` needs to know beside bounds; None where it needs rows."""
        return None

    def check_parameters(self) -> None:
        """Validates parameters before reading any data."""

    def check_size(self, n_rows: int) -> None:
        """Refuses too few rows."""

    @classmethod
    def parameters_of(cls, model: Any) -> Document:  # noqa: ARG003
        """The parameters that follow from a model: files of earlier versions have no others."""
        return {}

    def __dir__(self) -> list[str]:
        """All names; scikit-learn's would compute every property."""
        return list(object.__dir__(self))

    @classmethod
    def can(cls, method: str) -> bool:
        """Whether models of this type `predict`, `predict_proba`, `transform`, `sample` or `score`."""
        return callable(getattr(cls, method, None))

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learns from rows, which are read once, after a small sample of them.

        Parameters
        ----------
        X : array of shape (rows, columns), sparse matrix or data frame; or files, Arrow tables and all else that
            `source` takes; or a Dask collection or a Spark data frame, whose rows stay where they are.
        y : for regressions and classes, the target or label of each row; or, where X holds them too, the name of their
            column, or a list of names or positions. Labels in X are numbers; with a schema, a column that y names may
            hold text. Other estimators ignore it.
        sample_weight : how often each row counts. Whole weights give the model of a table that repeats the rows; if any
            is a fraction, all are rounded to multiples of 2^-16. For clusters and mixtures, fractions may be of any
            scale: those with a mean below 1/4 or above 4 are divided by it first.
        """
        self.check_parameters()
        if type(X) is not np.ndarray and engines.engine_of(X):
            if sample_weight is not None:
                raise TypeError("sample_weight is not for Dask and Spark: repeat the rows there")
            state = self._sketch_on_engine(X, y)
            return self._learn(state, self._generator(), IncomingRows(None, state.table, frame=X))
        incoming = self._incoming(X, y, None).counted(sample_weight, relative=self._weights_are_relative)
        rng = self._generator()
        return self._learn(self._sketch_of(incoming, rng), rng, incoming)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Adds rows to those seen so far. The model is learned again when it is next needed.

        The operator is designed on the first 5000 rows, which are stored until then, with frequencies of many scales,
        in case later rows differ; then it is fixed.
        """
        return self._add(X, y, sample_weight)

    def fit_sketch(self, sketch: Sketch) -> Self:
        """Learns from a sketch alone: of `design(...)`'s operator, of another estimator, merged or loaded."""
        return self._learn(self._state_of(sketch), self._generator())

    def _state_of(self, sketch: Sketch) -> FittedState:
        if not isinstance(sketch, Sketch):
            raise TypeError(f"expected a Sketch, not {type(sketch).__name__}: rows go through fit(rows)")
        self.check_parameters()
        require_enough_shares(sketch.ledger)
        operator: Any = sketch.operator
        return FittedState(SketchedTable(operator.columns, operator.n_features), sketch.copy())

    def _incoming(self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None) -> IncomingRows:  # noqa: ARG002
        """Rows to sketch; their columns are those of earlier rows, if there are some."""
        return self._plain_rows(X, before)

    def _plain_rows(self, X: Any, before: SketchedTable | None) -> IncomingRows:
        if is_array(X):
            return schema_rows.rows_in_memory(*self._validated(X, before))
        rows = source(X)
        if (columns := schema_rows.schema_columns(X, self.schema, before)) is not None:
            table = before or SketchedTable(columns, len(columns))
            return IncomingRows(schema_rows.encoded_rows(rows, columns, before), table)
        if before is not None and before.columns is not None:
            rows = rows.only(before.columns)
        return IncomingRows(rows, SketchedTable(rows.columns, rows.width) if before is None else before)

    def _validated(self, X: Any, before: SketchedTable | None, **options: Any) -> tuple[Any, SketchedTable]:
        """Arrays as scikit-learn checks them, and their columns; the estimator does not change."""
        checked, columns = copy.copy(self), schema_rows.schema_columns(X, self.schema, before)
        known = None if before is None else before.feature_names
        if columns is not None:
            checked.__dict__.pop("feature_names_in_", None)  # the numbers have no names
            if before is None or not isinstance(X, np.ndarray):
                X, options = schema_rows.encoded_array(X, columns), {**options, "ensure_all_finite": "allow-nan"}
        found = checked_array(checked, X, known, reset=before is None, dtype=list(FLOATS), **options)
        names = getattr(checked, "feature_names_in_", None) if before is None else known
        names = columns if columns is not None or names is None else tuple(map(str, names))
        return found, SketchedTable(names, checked.n_features_in_)

    def _most_rows(self, width: int | None) -> int:  # noqa: ARG002
        """The largest size of a representative design sample with so many columns."""
        return MOST_ROWS

    def _designed(self, design_sample: DesignSample, rng: np.random.Generator) -> tuple[Operator, Any]:
        """The operator, and further results of the design that learning needs."""
        return self.design_operator(design_sample, rng), None

    def _sketched(self, operator: Operator, rows: Any, table: SketchedTable) -> Any:  # noqa: ARG002
        return operator.sketch(rows, n_jobs=self.n_jobs, progress=bool(self.verbose), device=self.device)

    def _design_sample_of(
        self, incoming: IncomingRows, rng: np.random.Generator
    ) -> tuple[DesignSample, SketchedTable, Source]:
        """The design sample, the table, and all rows, of which those of a stream are not yet counted."""
        rows, table, everything = incoming.rows, incoming.table, incoming.rows if incoming.in_memory else None
        most = self._most_rows(rows.width) if rows.replayable else MOST_ROWS
        if everything is not None:
            self._check_count(rows.n_records or 0, rows)
        if everything is not None and (rows.n_records or 0) <= most:
            some, representative = rows.first(most), True
        else:
            some, representative, rows = sample(rows, most, rng, progress=bool(self.verbose))
            if len(some) < most and representative:
                self.check_size(len(some))
        table = replace(table, width=some.shape[1])
        n_rows = rows.n_rows if rows.weights is None else None
        known = table.columns, everything, table.targets, n_rows, incoming.at_hand
        return DesignSample(some, representative, *known), table, rows

    def _sketch_of(self, incoming: IncomingRows, rng: np.random.Generator) -> FittedState:
        design_sample, table, rows = self._design_sample_of(incoming, rng)
        operator, notes = self._designed(design_sample, rng)
        del design_sample  # a sample of many columns is large
        sketch = self._sketched(operator, rows, table)
        self._check_count(sketch.count, rows)
        return FittedState(table, sketch, design_notes=notes, weight_scale=incoming.weight_scale)

    def _check_count(self, count: float, rows: Source) -> None:
        """Refuses too few rows, or weights that sum to too little."""
        try:
            self.check_size(round(count))
        except ValueError:
            if rows.weights is None:
                raise
            total = f"sample_weight sums to {np.sum(rows.weights):,.6g}, which counts as so many rows"
            raise ValueError(
                f"{total}, and those are too few: multiply the weights by a common factor if they are shares"
            ) from None

    def _sketch_on_engine(self, X: Any, y: Any) -> FittedState:
        if isinstance(self.schema, str):
            raise ValueError(
                'schema="auto" needs rows, and these are on other machines: give schema=skl.schema(sample), of a data '
                "frame with some of them"
            )
        if self.schema is not None and y is not None:
            raise ValueError(
                "with targets, Dask and Spark take a schema with a design: design(sample, schema=...), "
                "engines.dask.sketch or engines.spark.sketch, then fit_sketch"
            )
        encoded = None if self.schema is None else SchemaColumns(self.schema)
        self._check_engine(y)
        rng = self._generator()
        width = len(X.columns) if hasattr(X, "columns") else X.shape[1]
        some, columns = engines.sample(X, self._most_rows(width), int(rng.integers(2**31)), encoded)
        table = self._with_targets(SketchedTable(columns, some.shape[1]), y)
        operator, notes = self._designed(DesignSample(some, True, columns, None, table.targets), rng)
        sketch = engines.sketch(X, operator, device=self.device)
        self.check_size(int(sketch.count))
        return FittedState(table, sketch, design_notes=notes)

    def _check_engine(self, y: Any) -> None:
        """Refuses targets that cannot be sketched on other machines."""

    def _with_targets(self, table: SketchedTable, y: Any) -> SketchedTable:  # noqa: ARG002
        """The table, with the columns that y names as targets."""
        return table

    def _learn(self, state: FittedState, rng: np.random.Generator, incoming: IncomingRows | None = None) -> Self:
        """Takes over a sketch and its model together: an error before leaves the estimator as it was."""
        return self._become(self._after_learning(replace(state, model=self._learned(state, rng)), incoming))

    def _learned(self, state: FittedState, rng: np.random.Generator) -> Any:
        with one_blas_thread():
            return self.learn_from_state(state, rng)

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> Any:
        """The model of a sketch and of rows given with it."""
        return self.learn_from_sketch(state.sketch, rng)

    def _after_learning(self, state: FittedState, incoming: IncomingRows | None) -> FittedState:  # noqa: ARG002
        """The state without rows that were given beside a sketch; subclasses add results on the incoming rows."""
        return replace(state, given_rows=None)

    def _become(self, state: FittedState) -> Self:
        """Replaces the fitted state, here alone."""
        self.__dict__.pop("feature_names_in_", None)
        if (names := state.table.feature_names) is not None:
            self.feature_names_in_ = np.array(names, object)
        self.n_features_in_ = state.table.n_features
        self._state = state
        return self

    def _add(self, X: Any, y: Any, sample_weight: Any, classes: Any = None) -> Self:
        self.check_parameters()
        before = self._state if self._state is not None and self._state.has_rows else None
        if before is None and isinstance(self.schema, str):
            raise ValueError(
                'schema="auto" would infer scales and categories from the first rows only: give '
                "schema=skl.schema(sample), of a representative sample"
            )
        if before is not None and before.ledger is not None:
            raise ValueError(
                "a model of a private release cannot take in records: do that with the exact sketch, then release it "
                "and learn from the release"
            )
        incoming = self._incoming(X, y, None if before is None else before.table, classes)
        if before is not None and before.weight_scale != 1:
            if sample_weight is None:
                said = f"earlier rows had sample weights with a mean of {before.weight_scale:.3g}"
                raise InvalidValueError(said, "give these rows weights, too")
            sample_weight = np.asarray(sample_weight) / before.weight_scale
        incoming = incoming.counted(sample_weight)
        if before is None or before.first_rows:
            return self._become(self._begun(before, incoming))
        before.sketch.update(incoming.rows, n_jobs=self.n_jobs, device=self.device)
        notes = before.design_notes
        scale = before.weight_scale
        return self._become(FittedState(incoming.table, before.sketch, design_notes=notes, weight_scale=scale))

    def _begun(self, before: FittedState | None, incoming: IncomingRows) -> FittedState:
        """A stream with more rows: the first ones are stored until they suffice to design the operator."""
        table, begin, state = incoming.table, () if before is None else before.first_rows, None
        weights = incoming.rows.weights
        for block in incoming.rows.blocks(None if before is None else before.table.width):
            own = None if weights is None else weights[block.which]
            if state is not None:
                state.sketch.update(weighted(source(block.rows), own), n_jobs=self.n_jobs, device=self.device)
                continue
            table, begin = replace(table, width=block.rows.shape[1]), (*begin, FirstRows(block.rows.copy(), own))
            if sum(part.n_records for part in begin) >= MOST_ROWS:
                state = replace(self._sketch_first_rows(FittedState(table, None, begin)), first_rows=())
        if not begin:
            raise ValueError("there are no rows: the first ones determine the number of columns")
        return state or FittedState(table, None, begin)

    def _sketch_first_rows(self, state: FittedState) -> FittedState:
        parts, table = state.first_rows, state.table
        rows = source(np.concatenate([part.rows for part in parts]))
        if any(part.weights is not None for part in parts):
            each = (np.ones(len(part.rows), np.int64) if part.weights is None else part.weights for part in parts)
            rows = weighted(rows, np.concatenate(list(each)))
        design_sample = DesignSample(rows.first(MOST_ROWS), False, table.columns, None, table.targets)
        operator, notes = self._designed(design_sample, self._generator())
        return replace(state, sketch=self._sketched(operator, rows, table), design_notes=notes)

    def _sketched_state(self) -> FittedState:
        """The state, with a sketch of all rows so far."""
        if self._state is None or not self._state.has_rows:
            why = "was loaded, and model files hold no sketch: give the sketch that it was learned from"
            if self._state is None or self._state.model is None:
                why = "has no sketch yet: fit it first"
            raise NotFittedError(f"this {type(self).__name__} {why}")
        if self._state.sketch is None:
            self._state = self._sketch_first_rows(self._state)
        return self._state

    def fitted_model(self) -> Any:
        """The model, learned now if rows were added since."""
        if self._state is None or self._state.model is None:
            check_is_fitted(self, "sketch_")
            state = self._sketched_state()
            self._state = self._after_learning(replace(state, model=self._learned(state, self._generator())), None)
        return self._state.model

    @property
    def has_sketch(self) -> bool:
        """Whether there is a sketch to learn from: a model that was loaded has none."""
        return self._state is not None and self._state.has_rows

    @property
    def sketch_(self) -> Sketch:
        """The sketch of all rows so far: a copy, so that the model and its ledger do not change with it.

        Sample weights with a mean below 1/4 or above 4 are divided by it there.
        """
        return self._sketched_state().sketch.copy()

    @property
    def privacy_(self) -> Ledger | None:
        """The privacy budget spent on the data, if they are private; parameters of the estimator count as public."""
        return (self._state or self._sketched_state()).ledger

    @property
    def n_records_(self) -> int | float:
        """How many records were learned from."""
        if self._state is not None and not self.has_sketch:
            return self._state.n_records
        return self._sketched_state().sketch.count

    @property
    def columns_(self) -> tuple[str, ...] | None:
        """Names of the features, if they have names."""
        check_is_fitted(self, "n_features_in_")
        return None if self._state is None else self._state.table.feature_names

    def row_blocks(self, X: Any, dtype: Any = FLOATS) -> Iterator[NDArray[Any]]:
        """Rows to predict: an array or data frame as one block, sparse matrices and other sources in blocks.

        Columns of tables with names are found by name, in whichever order they come.
        """
        names = self.columns_
        if isinstance(names, SchemaColumns) and not names.are_in(X):
            yield from schema_rows.encoded_blocks(X, names)
            return
        if is_array(X):
            kinds = dtype if dtype is np.float64 else list(dtype)
            X = checked_array(self, X, names, reset=False, dtype=kinds)
            if isinstance(X, np.ndarray):
                yield X
                return
        rows = source(X)
        rows = rows if names is None else rows.only(names)
        for block in rows.blocks(self.n_features_in_):
            schema_rows.refuse_huge(block.rows, names, block.name)
            yield block.rows.astype(dtype, copy=False) if dtype is np.float64 else block.rows

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    def model_bytes(self, task: str) -> bytes:
        """A model file, of a task of this name."""
        content = self.fitted_model().to_fields()
        return to_document(MODEL, MODEL_VERSION, {"type": task, **self.model_facts(), **content})

    def model_facts(self) -> Document:
        """The fields of every model file, whatever its task."""
        columns = self.columns_
        check_names("a column", columns or ())  # a file with such names could not be read again
        check_names("a class", listed(getattr(self.fitted_model(), "labels", None)))
        scale = 1.0 if self._state is None else self._state.weight_scale
        facts: Document = {
            **({} if scale == 1 else {"weight_scale": scale}),
            "n_features": int(self.n_features_in_),
            "columns": columns.to_json() if isinstance(columns, SchemaColumns) else columns and list(columns),
            "n_records": self.n_records_,
            "parameters": chosen_parameters(self),
            **self.certainty_facts(),
        }
        return facts if self.privacy_ is None else {**facts, "privacy": self.privacy_.to_json()}

    def certainty_facts(self) -> Document:
        """The fields on the errors of a model."""
        return {}

    def with_model(self, model: Any, facts: Document) -> Self:
        """Takes over the model of a file, and the fields of every model file."""
        given = facts["columns"]
        columns = check_columns(Schema.from_json(given) if isinstance(given, dict) else given, facts["n_features"])
        check_names("a column", columns or ())
        privacy = Ledger.from_json(facts["privacy"]) if "privacy" in facts else None
        table, n_records = SketchedTable(columns, facts["n_features"]), facts["n_records"]
        if isinstance(n_records, bool) or not isinstance(n_records, int | float) or not 0 <= n_records < 2**80:
            raise ValueError(f"n_records must be a number of records, not {shortened(n_records)}")
        if "parameters" in facts:  # files that were written before have none
            take_parameters(self, facts["parameters"])
        if self.schema is None and isinstance(columns, SchemaColumns):
            self.schema = columns.schema
        scale = positive("weight_scale", facts.get("weight_scale", 1.0))
        state = FittedState(table, model=model, privacy=privacy, n_records=n_records, weight_scale=scale)
        kinds: dict[str, Any] = {"error_bars": ErrorBars, "row_mean": RowMean}
        found = {name: kind.from_json(facts[name]) for name, kind in kinds.items() if name in facts}
        return self._become(replace(state, **found))

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _say(self, message: str) -> None:
        if self.verbose:
            Console(stderr=True, highlight=False).print(f"{type(self).__name__}: {message}")


WRITTEN_BEFORE = "the model's file was written before models had standard errors: learn it again from its sketch"


@dataclass(eq=False, repr=False)
class ErrorBarredEstimator(SketchEstimator):
    """An estimator with standard errors."""

    #: With fewer, 62 to 82 % of 95 % intervals held the truth (k-means and principal components of 3 to 10 records).
    least_records: ClassVar[int] = 30

    @abstractmethod
    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        """The standard errors of the state's model, or an `UndeterminedError` with the reason why there are none."""

    @property
    def standard_errors_(self) -> dict[str, Double]:
        """Standard errors of the numbers of each attribute, by the attribute's name.

        An attribute is missing if its errors cannot be estimated, and a warning says why.
        """
        bars = self.error_bars()
        if bars.withheld:
            warn_caller(f"standard errors are not reported, because {bars.withheld}")
        return dict(bars.standard_errors)

    def intervals(self, level: float = 0.95) -> dict[str, tuple[Double, Double]]:
        """Lower and upper ends of confidence intervals of this level, by the attribute's name."""
        if not 0 < number("level", level) < 1:
            raise ValueError(f"level must lie between 0 and 1, not {level!r}")
        away = ndtri((1 + level) / 2)
        errors = self.standard_errors_
        return {name: (getattr(self, name) - away * e, getattr(self, name) + away * e) for name, e in errors.items()}

    def error_bars(self) -> ErrorBars:
        """The standard errors, computed when they are first requested, and why some are not reported."""
        self.fitted_model()
        assert self._state is not None
        if self._state.error_bars is None:
            self._state = replace(self._state, error_bars=self._computed(self._state))
        return self._state.error_bars or ErrorBars()

    def _computed(self, state: FittedState) -> ErrorBars:
        if state.sketch is None:
            return ErrorBars(withheld=WRITTEN_BEFORE)
        if state.sketch.count < self.least_records:
            return ErrorBars(
                withheld=f"intervals of fewer than {self.least_records} records contain the truth too rarely, and "
                f"there are {self.n_records_:,.0f}: learn from more"
            )
        try:
            with one_blas_thread():
                return self.find_error_bars(state, self._generator())
        except UndeterminedError as reason:
            return ErrorBars(withheld=str(reason))

    @property
    def sketch_(self) -> Sketch:
        """The sketch of all rows so far, without its sample of rows."""
        return super().sketch_.without_rows()

    def sketch_with_rows(self) -> Sketch:
        """The sketch of all rows so far, with its sample of rows, which are personal data."""
        return self._sketched_state().sketch.copy()

    def certainty_facts(self) -> Document:
        return {**super().certainty_facts(), "error_bars": self.error_bars().to_json()}
