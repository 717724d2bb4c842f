"""What the estimators share: rows become a sketch by an operator that suits them, and the sketch becomes a model."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Iterator
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from rich.console import Console
from sklearn.base import BaseEstimator
from sklearn.exceptions import NotFittedError
from sklearn.utils import check_random_state
from sklearn.utils.validation import check_is_fitted, validate_data

from sketchlearn import engines
from sketchlearn.decoders.problems.blas_threads import one_blas_thread
from sketchlearn.designing.sample_summary import MOST_ROWS
from sketchlearn.ledger import Ledger
from sketchlearn.operators import Operator
from sketchlearn.operators.operator_base import check_columns
from sketchlearn.sketch import Sketch
from sketchlearn.sources import Source, is_array, sample, source
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.values import shortened

Double = NDArray[np.float64]
Document = dict[str, Any]


class SketchEstimator(BaseEstimator):
    """An estimator that learns from a sketch: of all rows (`fit`), of batches (`partial_fit`), or a given one."""

    #: what a model file says of this task alone, as names of the fitted model's fields
    model_fields: ClassVar[tuple[str, ...]] = ()

    _sketch: Any = None
    _buffer: tuple[NDArray[Any], ...] = ()  # the first rows of a stream
    _model: Any = None
    _privacy: Ledger | None = None  # of a model that was loaded, without its sketch
    _most_rows: int = MOST_ROWS  # that the operator is designed on, where they come from all over the data
    random_state: Any
    n_jobs: int | None
    verbose: int
    n_features_in_: int

    @abstractmethod
    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Any:
        """The model of a sketch."""

    @abstractmethod
    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> Operator:
        """The operator for rows such as these."""

    def check_parameters(self) -> None:
        """Refuses parameters that make no sense, before any row is read."""

    def check_size(self, n_rows: int) -> None:
        """Refuses too few rows."""

    def fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Learns from rows, which are read once, after a small sample of them.

        Parameters
        ----------
        X : array of shape (rows, columns) or data frame; or files, Arrow tables and all else that `source` takes; or a
            Dask collection or a Spark data frame, whose rows stay where they are.
        y : ignored.
        """
        if engines.engine_of(X):
            return self.fit_sketch(self._engine_sketch(X))
        if not is_array(X):
            return self._fit_source(source(X))
        rows = self._rows(X, reset=True)
        self._fit_rows(source(rows))
        self._after_fit(rows)
        return self

    def _fit_rows(self, rows: Source) -> None:
        """Learns from rows in memory."""
        self.check_size(rows.n_rows or 0)
        rng = self._generator()
        few = (rows.n_rows or 0) <= self._most_rows
        some = np.concatenate([block.rows for block in rows.blocks()]) if few else sample(rows, self._most_rows, rng)[0]
        operator = self.design_operator(Glimpse(some, True, self._columns(), rows), rng)
        sketch = self._sketched(operator, rows)
        self._accept(sketch, self._learned(sketch, rng))

    def _engine_sketch(self, X: Any) -> Sketch:
        """The sketch of rows that stay on other machines."""
        self.check_parameters()
        rng = self._generator()
        some, columns = engines.sample(X, self._most_rows, int(rng.integers(2**31)))
        sketch = engines.sketch(X, self.design_operator(Glimpse(some, True, columns), rng))
        self.check_size(int(sketch.count))
        return sketch

    def _fit_source(self, rows: Source) -> Self:
        """Learns from rows that are not in memory. Those of a stream, which is read once, are all counted."""
        self.check_parameters()
        rng = self._generator()
        most = self._most_rows if rows.replayable else MOST_ROWS
        some, representative, rest = sample(rows, most, rng)
        if len(some) < most and representative:
            self.check_size(len(some))
        operator = self.design_operator(Glimpse(some, representative, rows.columns), rng)
        sketch = self._sketched(operator, rest)
        self.check_size(int(sketch.count))
        self._accept(sketch, self._learned(sketch, rng))
        self._set_names(rows.columns, some.shape[1])
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:  # noqa: ARG002
        """Adds rows to those seen so far. The model is learned anew when it is next asked for.

        The operator is designed on the first 5000 rows, which are kept until then, with frequencies of many scales,
        so that first rows unlike the later ones do not mislead it; then it is fixed.
        """
        first = self._sketch is None and not self._buffer
        if not is_array(X):
            return self._add_source(source(X), first)
        self._add_rows(self._rows(X, reset=first))
        return self

    def _add_rows(self, rows: NDArray[Any]) -> None:
        """Adds rows in memory to the sketch or, while there are few, to those kept for its design."""
        if self._sketch is not None and not self._buffer:
            self._sketch.update(rows, n_jobs=self.n_jobs)
        else:
            self._buffer, self._sketch = (*self._buffer, rows.copy()), None
            if sum(map(len, self._buffer)) >= MOST_ROWS:
                self._sketch, self._buffer = self._sketch_of_buffer(self._buffer, self._columns()), ()
        self._forget_model()

    def _add_source(self, rows: Source, first: bool) -> Self:
        """Adds rows that are not in memory, all of them or none."""
        self.check_parameters()
        names = None if first else self._columns()
        rows = rows if names is None else rows.only(names)
        if self._sketch is not None and not self._buffer:
            self._sketch.update(rows, n_jobs=self.n_jobs)
        else:
            buffer, sketch, width = self._buffer, None, 0
            for block in rows.blocks(None if first else self._width):
                width = block.rows.shape[1]
                if sketch is None:
                    buffer = (*buffer, block.rows.copy())
                    if sum(map(len, buffer)) >= MOST_ROWS:
                        sketch, buffer = self._sketch_of_buffer(buffer, rows.columns), ()
                else:
                    sketch.update(block.rows, n_jobs=self.n_jobs)
            if first and not buffer and sketch is None:
                raise ValueError("there are no rows: the first ones tell how many columns there are")
            self._buffer, self._sketch = buffer, sketch
            self._set_names(rows.columns, width or self._width)
        self._forget_model()
        return self

    def _forget_model(self) -> None:
        self._model = None
        self.__dict__.pop("labels_", None)

    def fit_sketch(self, sketch: Sketch) -> Self:
        """Learns from a sketch alone: of `design(...)`'s operator, of another estimator, merged or loaded."""
        if not isinstance(sketch, Sketch):
            raise TypeError(f"expected a Sketch, not {type(sketch).__name__}: rows go through fit(rows)")
        self.check_parameters()
        self._accept(sketch.copy(), self._learned(sketch, self._generator()))
        operator: Any = sketch.operator
        self._set_names(operator.columns, operator.n_features)
        return self

    def _accept(self, sketch: Sketch, model: Any) -> None:
        """Takes over what was learned, all at once: an error before leaves the estimator as it was."""
        self.__dict__.pop("labels_", None)
        self._sketch, self._model, self._buffer = sketch, model, ()

    @property
    def sketch_(self) -> Sketch:
        """The sketch of all rows so far."""
        return self._state()

    def _state(self) -> Any:
        """What is known of all rows so far: a sketch, or several."""
        if self._sketch is None and not self._buffer:
            raise NotFittedError(f"this {type(self).__name__} has no sketch yet: fit it first")
        sketch = self._sketch if self._sketch is not None else self._sketch_of_buffer(self._buffer, self._columns())
        self._sketch = sketch
        return sketch

    @property
    def privacy_(self) -> Ledger | None:
        """What the sketch that was learned from has spent, if it is private: learning adds nothing to it."""
        loaded = self._model is not None and self._sketch is None
        return self._privacy if loaded else self.sketch_.ledger

    def _sketch_of_buffer(self, buffer: tuple[NDArray[Any], ...], columns: tuple[str, ...] | None) -> Sketch:
        rows = np.concatenate(buffer)
        operator = self.design_operator(Glimpse(rows[:MOST_ROWS], False, columns), self._generator())
        return self._sketched(operator, rows)

    def _sketched(self, operator: Operator, rows: Any) -> Any:
        return operator.sketch(rows, n_jobs=self.n_jobs, progress=bool(self.verbose))

    def _learned(self, sketch: Sketch, rng: np.random.Generator) -> Any:
        with one_blas_thread():
            return self.learn_from_sketch(sketch, rng)

    def fitted_model(self) -> Any:
        """The model, learned now if rows were added since."""
        if self._model is None:
            check_is_fitted(self, "sketch_")
            self._model = self._learned(self._state(), self._generator())
        return self._model

    def _after_fit(self, rows: NDArray[Any]) -> None:
        """What `fit` adds that needs the rows."""

    def _rows(self, X: Any, *, reset: bool) -> NDArray[Any]:
        self.check_parameters()
        rows: NDArray[Any] = validate_data(self, X, reset=reset, dtype=[np.float64, np.float32])
        return rows

    def row_blocks(self, X: Any, dtype: Any = (np.float64, np.float32)) -> Iterator[NDArray[Any]]:
        """Rows to predict: an array or data frame as one block, other sources in blocks."""
        if is_array(X):
            yield validate_data(self, X, reset=False, dtype=dtype if dtype is np.float64 else list(dtype))
            return
        for block in self._alike(source(X)).blocks(self.n_features_in_):
            yield block.rows.astype(dtype, copy=False) if dtype is np.float64 else block.rows

    def _alike(self, rows: Source) -> Source:
        """The columns that were fitted, of a table that has names."""
        names = self._names()
        return rows if names is None else rows.only(names)

    def _names(self) -> tuple[str, ...] | None:
        names = getattr(self, "feature_names_in_", None)
        return None if names is None else tuple(str(name) for name in names)

    def _columns(self) -> tuple[str, ...] | None:
        """Names of the columns that are sketched."""
        return self._names()

    @property
    def _width(self) -> int:
        """Number of the columns that are sketched."""
        return self.n_features_in_

    def _set_names(self, names: tuple[str, ...] | None, n_features: int) -> None:
        self.__dict__.pop("feature_names_in_", None)
        if names is not None:
            self.feature_names_in_ = np.array(names, object)
        self.n_features_in_ = n_features

    def _generator(self) -> np.random.Generator:
        return np.random.default_rng(check_random_state(self.random_state).randint(2**31 - 1))

    def model_content(self) -> Document:
        """What a model file says of this task: by default the fields of the fitted model that it names."""
        return {name: as_plain(getattr(self.fitted_model(), name)) for name in self.model_fields}

    @classmethod
    def from_model_content(cls, document: Document, n_features: int) -> Self:  # noqa: ARG003
        """The estimator that the fields of a model file describe."""
        raise ValueError(f"a {cls.__name__} cannot be read from a file")

    def with_model(self, model: Any) -> Self:
        """Takes over a model that was learned elsewhere, without a sketch."""
        self._model = model
        return self

    def model_facts(self) -> Document:
        """What every model file says, of whatever task."""
        named, sketch = getattr(self, "feature_names_in_", None), self._sketch
        facts: Document = {
            "n_features": int(self.n_features_in_),
            "columns": None if named is None else [str(name) for name in named],
            "n_records": getattr(self, "n_records_", 0) if sketch is None else sketch.count,
            "parameters": self._chosen_parameters(),
        }
        return facts if self.privacy_ is None else {**facts, "privacy": self.privacy_.to_json()}

    def _chosen_parameters(self) -> Document:
        """Parameters that differ from the defaults, as far as they are words and numbers."""
        defaults, chosen = type(self)().get_params(deep=False), {}
        for name, value in self.get_params(deep=False).items():
            plain = value.item() if isinstance(value, np.generic) else value
            if _is_plain(plain) and plain != defaults[name]:
                chosen[name] = plain
        return chosen

    def with_facts(self, document: Document, n_features: int) -> Self:
        """Takes over what every model file says."""
        columns = check_columns(document["columns"], n_features)
        self._set_names(columns, n_features)
        self.columns_, self.n_records_ = columns, _count(document["n_records"])
        if "parameters" in document:  # files that were written before have none
            self._take_parameters(document["parameters"])
        self._privacy = Ledger.from_json(document["privacy"]) if "privacy" in document else None
        return self

    def _take_parameters(self, parameters: Any) -> None:
        """Makes these the parameters, and all others that are words and numbers the defaults."""
        if not isinstance(parameters, dict) or not all(map(_is_plain, parameters.values())):
            raise ValueError("parameters must be an object of words and numbers")
        if odd := sorted(parameters.keys() - self.get_params(deep=False).keys()):
            raise ValueError(f"a {type(self).__name__} has no parameter {shortened(odd[0])}")
        defaults = type(self)().get_params(deep=False)
        others = {name: defaults[name] for name, value in self.get_params(deep=False).items() if _is_plain(value)}
        self.set_params(**(others | parameters))
        self.check_parameters()

    def _say(self, message: str) -> None:
        if self.verbose:
            Console(stderr=True, highlight=False).print(f"{type(self).__name__}: {message}")


def as_plain(value: Any) -> Any:
    """Arrays as lists of numbers, also within tuples."""
    if isinstance(value, tuple):
        return [as_plain(part) for part in value]
    return value.tolist() if isinstance(value, np.ndarray) else value


def _is_plain(value: Any) -> bool:
    """Whether it is a word, a number, None, or a list of such."""
    if isinstance(value, list):
        return all(map(_is_plain, value))
    return value is None or isinstance(value, bool | int | str) or (isinstance(value, float) and math.isfinite(value))


def _count(number: Any) -> int | float:
    if isinstance(number, bool) or not isinstance(number, int | float) or not 0 <= number < 2**80:
        raise ValueError(f"n_records must be a number of records, not {shortened(number)}")
    return number
