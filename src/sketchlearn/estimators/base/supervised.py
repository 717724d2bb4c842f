"""Estimators with targets: numbers, in one sketch with the features, or labels, with one sketch per class."""

from __future__ import annotations

import re
from abc import abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.multiclass import check_classification_targets

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.messages import check_names
from sketchlearn.core.values import difference, number, shortened
from sketchlearn.estimators.base.arrays import encoded_rows, rows_in_memory, schema_columns, target_names, with_targets
from sketchlearn.estimators.base.estimator import SketchEstimator
from sketchlearn.estimators.base.model import FittedModel, flag, model_array, scalar
from sketchlearn.estimators.base.state import FittedState, IncomingRows, SketchedTable
from sketchlearn.features.operator import Operator
from sketchlearn.files.sketches import merge
from sketchlearn.privacy.class_selection import SelectedClasses
from sketchlearn.rows.memory import Beside
from sketchlearn.rows.schemas.cell_values import word_of
from sketchlearn.rows.schemas.columns import DROP, Column, Number, Ordinal
from sketchlearn.rows.schemas.table_schema import SchemaColumns, read_columns
from sketchlearn.rows.source import is_array, source
from sketchlearn.rows.source_base import Source, by_name
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import Sketch, require_enough_shares


@dataclass(eq=False, repr=False)
class SupervisedEstimator(SketchEstimator):
    """An estimator of targets, which are sketched with the features."""

    @abstractmethod
    def _arrays(
        self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float64], SketchedTable]:
        """Features, targets as columns of numbers, and the table of the features."""

    def _incoming(self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None) -> IncomingRows:
        if not is_array(X) or isinstance(y, str):
            rows, schema = source(X), schema_columns(X, self.schema, before)
            if schema is not None:
                targets, labels = self._target_columns(rows, target_names(y, rows), before, classes)
                encoded, n = with_targets(schema, targets), len(targets)
                width = len(encoded)
                table = SketchedTable(encoded, width, tuple(range(width - n, width)), _is_flat(y, n), labels)
                return IncomingRows(encoded_rows(rows, encoded, before), table)
            if before is not None and before.columns is not None:
                rows = rows.only(before.columns)
            if rows.width is None:
                raise ValueError("there are no rows: the first ones determine the number of columns")
            table = SketchedTable(rows.columns, rows.width, labels=before.labels if before else None)
            return IncomingRows(rows, self._with_targets(table, y))
        left, right, features = self._arrays(X, y, before, classes)
        d, n_targets = left.shape[1], right.shape[1]
        columns = _joint_names(features.columns, y, n_targets) if before is None else before.columns
        table = replace(features, columns=columns, width=d + n_targets, targets=tuple(range(d, d + n_targets)))
        return rows_in_memory(left, replace(table, flat=_is_flat(y, n_targets)), Beside(left, right))

    def _target_columns(
        self,
        rows: Source,  # noqa: ARG002
        names: list[str],
        before: SketchedTable | None,  # noqa: ARG002
        classes: Any,  # noqa: ARG002
    ) -> tuple[tuple[Column, ...], tuple[Any, ...] | None]:
        """Schema columns of the targets, each one number, and the labels of their codes, if they are classes."""
        return tuple(map(Number, names)), None

    def _with_targets(self, table: SketchedTable, y: Any) -> SketchedTable:
        targets = positions(y, table.columns, table.width or 0, "y")
        return replace(table, targets=targets, flat=_is_flat(y, len(targets)))


def _is_flat(y: Any, n_targets: int) -> bool:
    return n_targets == 1 and np.asarray(y).ndim < 2


def _joint_names(names: tuple[str, ...] | None, y: Any, n_targets: int) -> tuple[str, ...] | None:
    if names is None:
        return None
    taken = (*names, *read_columns(names))
    given = [getattr(y, "name", None)] if np.asarray(y).ndim == 1 else getattr(y, "columns", [None] * n_targets)
    found: list[str] = []
    for i, name in enumerate(given):
        text = name if isinstance(name, str) else "y" if n_targets == 1 else f"y{i}"
        while text in taken or text in found:
            text += "_"
        found.append(text)
    return with_targets(names, list(map(Number, found))) if isinstance(names, SchemaColumns) else (*names, *found)


def named_columns(
    wanted: list[Any], columns: tuple[str, ...] | None, width: int, parameter: str, *, every_number: bool = False
) -> tuple[int, ...] | None:
    """Positions of columns that are given by name or position; None if they are given otherwise.

    Of a column that a schema encodes, it is the first number, or every one.
    """
    if wanted and all(isinstance(name, str) for name in wanted):
        if columns is None:
            remedy = f"give their positions, such as {Parameter(parameter, width - 1)} for the last one"
            raise InvalidValueError("the columns have no names", remedy)
        found = by_name(read_columns(columns), wanted)
        if isinstance(columns, SchemaColumns):
            sizes = [column.n_numbers if every_number else 1 for column in columns.schema.columns]
            found = tuple(columns.first_number(i) + j for i in found for j in range(sizes[i]))
    elif wanted and all(isinstance(i, int | np.integer) and -width <= i < width for i in wanted):
        found = tuple(int(i) % width for i in wanted)
    else:
        return None
    if len(set(found)) < len(found):
        raise InvalidValueError(f"must name each column once, not {shortened(wanted)}", parameter=parameter)
    return found


def positions(y: Any, columns: tuple[str, ...] | None, width: int, parameter: str = "targets") -> tuple[int, ...]:
    """Which columns of a table the targets are, given by name or position.

    >>> positions("b", ("a", "b", "c"), 3), positions([-1], None, 3)
    ((1,), (2,))
    """
    wanted: list[Any] = [y] if isinstance(y, str | int) else list(y) if isinstance(y, list | tuple) else []
    if (found := named_columns(wanted, columns, width, parameter)) is None:
        which = either(
            f"say which columns of the table are targets, such as {parameter}='price' or {parameter}=[{width - 1}], "
            f"not {shortened(y)}: arrays of targets go with arrays of rows",
            "name columns of the sketch, or give their positions from 0",
        )
        raise InvalidValueError(f"must {which}", parameter=parameter)
    if len(found) == width:
        raise ValueError("all columns are targets: there are no features")
    return found


def passive_columns(wanted: Any, columns: tuple[str, ...] | None, width: int) -> tuple[int, ...]:
    """Positions of the profile columns, which are given by name or position.

    >>> passive_columns(["b"], ("a", "b", "c"), 3), passive_columns(-1, None, 3)
    ((1,), (2,))
    """
    listed = [wanted] if isinstance(wanted, str) or not np.iterable(wanted) else list(wanted)
    if wanted is None or not listed:
        return ()
    if (found := named_columns(listed, columns, width, "profile_columns", every_number=True)) is None:
        raise InvalidValueError(
            f"must be names of columns, or positions from {-width} to {width - 1}, not {shortened(listed)}",
            parameter="profile_columns",
        )
    if len(found) == width:
        raise ValueError("all columns are profile columns: leave some for the clusters")
    return tuple(sorted(found))


def shaped_attribute(name: str) -> Any:
    """A field of the fitted model as an attribute: one number or row for a flat target."""

    def shaped(estimator: NumberEstimator) -> Any:
        fit = estimator.fitted_model()
        values = getattr(fit, name)[0] if fit.flat else getattr(fit, name)
        return float(values) if np.ndim(values) == 0 else values

    return property(shaped)


def check_alpha(alpha: Any) -> None:
    if not (isinstance(alpha, str) and alpha == "gcv") and number('alpha must be "gcv" or a number: it', alpha) < 0:
        raise ValueError(f"alpha must not be negative, but is {alpha!r}")


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedRegression(FittedModel):
    """A regression of several targets."""

    intercepts: Double = model_array("t")
    r2: Double = model_array("t")  # proportion of each target's variance that is explained
    penalty: float = scalar()  # as of scikit-learn's Ridge and KernelRidge
    flat: bool = flag(default=True)  # one target, given without a second dimension

    #: fields that are proportional to the targets
    proportional: ClassVar[tuple[str, ...]]

    def check(self) -> None:
        if self.flat and len(self.intercepts) > 1:
            raise ValueError("several targets cannot be flat")

    @abstractmethod
    def values(self, rows: Double) -> Double:
        """The targets of each row, (rows, targets)."""

    def in_units(self, widths: Double, centers: Double) -> Self:
        """The regression of targets y, where this one is of (y - center) / width."""
        fields = {name: getattr(self, name) for name in self.proportional}
        scaled = {name: value * (widths[:, None] if value.ndim == 2 else widths) for name, value in fields.items()}
        return replace(self, intercepts=self.intercepts * widths + centers, **scaled)


@dataclass(eq=False, repr=False)
class NumberEstimator(MultiOutputMixin, RegressorMixin, SupervisedEstimator):
    """An estimator of targets that are numbers; it learns a `FittedRegression`."""

    def _arrays(
        self,
        X: Any,
        y: Any,
        before: SketchedTable | None,
        classes: Any = None,  # noqa: ARG002
    ) -> tuple[NDArray[Any], NDArray[np.float64], SketchedTable]:
        (rows, values), table = self._validated(X, before, y=y, multi_output=True, y_numeric=True)
        values = np.asarray(values, np.float64).reshape(rows.shape[0], -1)
        if before is not None and values.shape[1] != len(before.targets):
            raise ValueError(f"y has {values.shape[1]} targets, but before it had {len(before.targets)}")
        return rows, values, table

    def check_size(self, n_rows: int) -> None:
        if n_rows < 2:
            rows = either(f"n_samples={n_rows} rows", f"{n_rows} records")
            raise InvalidValueError(f"{rows} do not determine a regression", "give at least 2")

    def _learn_targets(self, state: FittedState, targets: tuple[int, ...]) -> Self:
        target_numbers(state.table.columns, targets)
        table = replace(state.table, targets=targets, flat=len(targets) == 1)
        return self._learn(replace(state, table=table), self._generator())

    def _in_table_units(self, fit: Any, table: SketchedTable, *, centered: bool = True) -> Any:
        """The regression of targets in the units of the table, if a schema standardized them."""
        if not (numbers := target_numbers(table.columns, table.targets)):
            return fit
        centers = np.array([column.center if centered else 0.0 for column in numbers])
        return fit.in_units(np.array([column.width for column in numbers]), centers)

    def predict(self, X: Any) -> Double:
        """The targets of each row."""
        fit = self.fitted_model()
        parts = map(fit.values, self.row_blocks(X, np.float64))
        values = np.concatenate([np.empty((0, len(fit.intercepts))), *parts])
        return values[:, 0] if fit.flat else values

    @property
    def r2_(self) -> float:
        return float(np.mean(self.fitted_model().r2))


def target_numbers(columns: tuple[str, ...] | None, targets: tuple[int, ...]) -> list[Number]:
    """The targets among the columns of a schema, if there is one; each must be a plain number."""
    found = [columns.column_at(i) for i in targets] if isinstance(columns, SchemaColumns) else []
    for column in found:
        if not isinstance(column, Number) or column.scaling == "log" or column.missing != DROP:
            missing = "" if column.missing == DROP else ", with missing values"
            raise ValueError(
                f"the target {column.name!r} is a {column.in_words}{missing}, by the schema of this sketch: choose "
                "another target, or a schema in which it is a plain number, and rows without it are dropped"
            )
    return [column for column in found if isinstance(column, Number)]


class ClassSketches:
    """One sketch per class; rows have the code of their class in column `label`."""

    def __init__(self, operator: Operator, label: int, sketches: Mapping[float, Sketch] | None = None) -> None:
        self.operator, self.label = operator, label
        self.sketches = dict(sketches or {})

    @property
    def count(self) -> int | float:
        return sum(sketch.count for sketch in self.sketches.values())

    @property
    def total(self) -> Sketch:
        """The sketch of all classes together. Each row is in one of them, so that private ones compose in parallel.

        Privacy units such as patients may have rows in all classes; their epsilons add up.
        """
        if not self.sketches:
            return Sketch(self.operator)
        of_units = any(s.unit is not None or (s.ledger and s.ledger.unit) for s in self.sketches.values())
        total = merge(self.sketches.values(), overlapping=None if of_units else False)
        if total.ledger is None or len(self.sketches) == 1:
            return total
        return total.of_same_records(total.operator, total.sums, total.ledger.across_classes())

    @property
    def ledger(self) -> Ledger | None:
        return self.total.ledger if any(sketch.ledger for sketch in self.sketches.values()) else None

    def copy(self) -> ClassSketches:
        return ClassSketches(self.operator, self.label, {c: sketch.copy() for c, sketch in self.sketches.items()})

    def update(self, data: Any, *, n_jobs: int | None = None, device: str | None = None) -> ClassSketches:
        """Adds rows, all or none."""
        new: dict[float, Sketch] = {}
        given = source(data)
        for block in given.blocks(self.operator.n_features + 1):
            labels, rows = block.rows[:, self.label], np.delete(block.rows, self.label, axis=1)
            weights = None if given.weights is None else given.weights[block.which]
            for code in np.unique(labels).tolist():
                sketch, own = new.setdefault(code, Sketch(self.operator)), labels == code
                weight = None if weights is None else weights[own]
                try:
                    sketch.update(rows[own], sample_weight=weight, n_jobs=n_jobs, device=device)
                except ValueError as error:
                    raise ValueError(f"among the rows of class {code:g}: {error}") from None
        for code, sketch in new.items():
            # One batch, whatever the size of the blocks; equal rows of two classes are two batches.
            self.sketches[code] = self.sketches.get(code, Sketch(self.operator)).copy()
            self.sketches[code].add_as_new(sketch.as_one_batch(f"class {code:g}"))
        return self


WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")  # 007 is text, as it would be written as 7


def check_labels(labels: Any) -> None:
    """Refuses labels of a model file that are not distinct words or distinct numbers."""
    if not isinstance(labels, list) or not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError("labels must be a list of words or numbers")
    alike = len({isinstance(label, str) for label in labels}) <= 1
    # Sorted, as integers can be chosen so that making a set of them takes quadratic time.
    if not alike or any(one == other for one, other in pairwise(sorted(labels))):
        raise ValueError("labels must differ, and be all words or all numbers")
    check_names("a class", labels)


def plain_labels(labels: tuple[Any, ...] | None) -> list[Any] | None:
    """The labels of a model file: words or numbers."""
    if not all(isinstance(label, str | int | float) for label in labels or ()):
        raise TypeError("models can be saved if their labels are words or numbers")
    return None if labels is None else list(labels)


def _check_declared(sketches: Mapping[Any, Sketch], classes: Any) -> None:
    if classes is None:
        raise ValueError(
            "the names of the classes would be released as they are, and one record may be the only one of its class: "
            "declare all of them with classes=[...], known without looking at the data, or select them with "
            "skl.privacy.select_classes"
        )
    selected = isinstance(classes, SelectedClasses)
    declared = list(classes) if selected else np.asarray(classes).tolist()
    if missing := [label for label in declared if label not in sketches]:
        raise ValueError(f"there is no sketch of the declared class {missing[0]!r}: release an empty one for it")
    odd = [label for label in sketches if label not in declared]
    if odd and selected:  # Their names must not be shown.
        raise ValueError(f"{len(odd):,} of the sketches are of classes that were not selected: leave them out")
    if odd:
        raise ValueError(f"the class {odd[0]!r} is not among the declared classes")


def _with_selection(sketch: Sketch, classes: Any) -> Sketch:
    """The sketch, with the cost of selecting the classes in its ledger."""
    if sketch.ledger is None or not isinstance(classes, SelectedClasses) or sketch.ledger.includes(classes.ledger):
        return sketch.copy()
    return sketch.of_same_records(sketch.operator, sketch.sums, sketch.ledger.after(classes.ledger))


def _check_disjoint(sketches: Mapping[Any, Sketch]) -> None:
    seen: dict[int, Any] = {}
    for label, sketch in sketches.items():
        for batch in sketch.batches.times:
            if seen.setdefault(batch, label) != label:
                both = f"{seen[batch]!r} and {label!r}"
                raise ValueError(f"the sketches of {both} share a batch of rows: a row has one class")


def _every_label(found: list[Any], before: SketchedTable | None, classes: Any) -> tuple[Any, ...]:
    """The labels of earlier rows, and new ones; undeclared labels are refused."""
    known = before.labels or () if before else ()
    if classes and (other := [label for label in found if label not in classes]):
        raise ValueError(f"y has the label {shortened(other[0])}, which is not among the declared classes")
    return (*known, *(label for label in found if label not in known))


def _labels_in(rows: Source, name: str) -> list[Any]:
    """The sorted labels in a column of a table: whole numbers if all text is such."""
    if not rows.replayable:
        raise ValueError("labels in a column are read before the rows: save the stream to a file first, or give y")
    values = {v for raw in rows.raw_columns([name]) for v in raw[name].unique().to_pylist() if v is not None and v == v}
    labels = {word_of(value): value for value in values if word_of(value)}
    if labels and len(set(map(type, labels.values()))) == 1 and not isinstance(next(iter(labels.values())), str):
        return sorted(labels.values())
    return sorted(map(int, labels)) if all(map(WHOLE_NUMBER.fullmatch, labels)) else sorted(labels)


@dataclass(eq=False, repr=False)
class LabelledEstimator(SupervisedEstimator):
    """An estimator that learns from one sketch per class, all of one operator; labels have codes 0, 1, ..."""

    def partial_fit(  # type: ignore[override]
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Adds labelled rows to those seen so far. The model is learned again when it is next needed.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`.
        classes : all possible labels, if they are to be checked; other labels are refused from then on.
        """
        return self._add(X, y, sample_weight, classes)

    def fit_sketch(self, sketch: Mapping[Any, Sketch], *, classes: Any = None) -> Self:  # type: ignore[override]
        """Learns from one sketch per class: a dictionary of labels and sketches of one operator.

        Private sketches must be of disjoint records, as classes are: the largest epsilon holds for all, or twice that
        for replaced records, which may change their class.

        Parameters
        ----------
        sketch : the dictionary.
        classes : for private sketches, all labels, known without looking at the data: a label from the data would
            reveal a record with it. Each needs a release, of an empty sketch if it has no records. Or the result of
            `skl.privacy.select_classes`; its cost is added, unless the releases include it.
        """
        return self._learn(self._state_of_classes(sketch, classes), self._generator())

    def _state_of_classes(self, sketches: Mapping[Any, Sketch], classes: Any = None) -> FittedState:
        if not isinstance(sketches, Mapping) or not all(isinstance(part, Sketch) for part in sketches.values()):
            raise TypeError("expected a dictionary of one Sketch per class, {label: sketch}: rows go through fit(X, y)")
        self.check_parameters()
        if not sketches:
            raise ValueError("there are no sketches: give one per class")
        parts = list(sketches.values())
        if classes is not None or any(part.ledger for part in parts):
            _check_declared(sketches, classes)
        operator: Any = parts[0].operator
        for part in parts:
            require_enough_shares(part.ledger)
            if reason := difference(operator, part.operator):
                raise ValueError(f"the classes' sketches cannot be compared: {reason}")
        _check_disjoint(sketches)
        d = operator.n_features
        paid = [_with_selection(part, classes) for part in parts]
        by_class = ClassSketches(operator, d, {float(i): part for i, part in enumerate(paid)})
        if any(part.ledger for part in parts):
            by_class.total  # noqa: B018 - refuses private sketches beside exact ones, and guarantees that differ
        columns = operator.columns
        if columns is not None:
            of_schema = isinstance(columns, SchemaColumns)
            columns = with_targets(columns, [Number("class")]) if of_schema else (*columns, "class")
        return FittedState(SketchedTable(columns, d + 1, (d,), labels=tuple(sketches)), by_class)

    def _incoming(self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None) -> IncomingRows:
        declared = before.declared if before else ()
        if classes is not None:
            declared = tuple(np.unique(np.asarray(classes)).tolist())
        incoming = super()._incoming(X, y, before, declared)
        return replace(incoming, table=replace(incoming.table, declared=declared))

    def _arrays(
        self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float64], SketchedTable]:
        (rows, labels), table = self._validated(X, before, y=y)
        check_classification_targets(labels)
        found = np.unique(labels).tolist()
        every = _every_label(found, before, classes)
        codes = np.array([every.index(label) for label in found], np.float64)
        return rows, codes[np.searchsorted(np.array(found), labels)][:, None], replace(table, labels=every)

    def _target_columns(
        self, rows: Source, names: list[str], before: SketchedTable | None, classes: Any
    ) -> tuple[tuple[Column, ...], tuple[Any, ...] | None]:
        if len(names) != 1:
            raise ValueError(f"there is one column of labels, not {len(names)}")
        labels = _every_label(_labels_in(rows, names[0]), before, classes)
        if len(labels) < 2:
            raise ValueError("all rows are of one class: a classifier needs at least two")
        column = Ordinal(names[0], tuple(map(word_of, labels)), weight=len(labels) - 1)  # positions are codes
        return (column,), labels

    def _check_engine(self, y: Any) -> None:  # noqa: ARG002
        raise TypeError(
            "the rows of each class must be sketched apart there: give fit_sketch({label: sketch, ...}), each "
            "made by skl.engines.sketch of the rows of that class"
        )

    def _sketched(self, operator: Operator, rows: Any, table: SketchedTable) -> Any:
        if not table.targets:
            return super()._sketched(operator, rows, table)
        return ClassSketches(operator, table.targets[0]).update(rows, n_jobs=self.n_jobs, device=self.device)

    @property
    def classes_(self) -> NDArray[Any]:
        if self._state is not None and not self._state.has_rows:  # from a file, without sketches
            return np.array(sorted(self.fitted_model().labels))
        state = self._sketched_state()
        labels = {state.table.label_of(code) for code in state.sketch.sketches} | set(state.table.declared)
        if state.table.labels is None and all(float(label).is_integer() for label in labels):
            labels = {int(label) for label in labels}
        return np.array(sorted(labels))

    @property
    def sketches_(self) -> dict[Any, Sketch]:
        state = self._sketched_state()
        return {state.table.label_of(code): sketch.copy() for code, sketch in state.sketch.sketches.items()}

    @property
    def sketch_(self) -> Sketch:
        sketch = self._sketched_state().sketch
        return sketch.total if isinstance(sketch, ClassSketches) else super().sketch_
