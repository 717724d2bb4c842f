"""What estimators of classes share: labels, and one sketch per class."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets

from sketchlearn.control_characters import check_names
from sketchlearn.operators import Operator
from sketchlearn.privacy.class_selection import SelectedClasses
from sketchlearn.private_sums import require_enough_shares
from sketchlearn.schemas import Column, Number, Ordinal, SchemaColumns
from sketchlearn.schemas.raw_values import word_of
from sketchlearn.sketch import Sketch
from sketchlearn.sources import Source
from sketchlearn.tasks.classes.class_sketches import ClassSketches
from sketchlearn.tasks.estimating.fitted_state import FittedState, IncomingRows, SketchedTable
from sketchlearn.tasks.estimating.schema_rows import with_targets
from sketchlearn.tasks.estimating.supervised_estimator import SupervisedEstimator
from sketchlearn.values import difference, shortened

WHOLE_NUMBER = re.compile(r"0|-?[1-9]\d{0,17}")  # which is written again as it was read, unlike 007


def check_labels(labels: Any) -> None:
    """Refuses labels of a model file that are not different words, or different numbers."""
    if not isinstance(labels, list) or not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError("labels must be a list of words or numbers")
    alike = len({isinstance(label, str) for label in labels}) <= 1
    # in order, as whole numbers can be chosen so that a set takes the square of their number to make
    if not alike or any(one == other for one, other in pairwise(sorted(labels))):
        raise ValueError("labels must differ, and be all words or all numbers")
    check_names("a class", labels)


def _check_declared(sketches: Mapping[Any, Sketch], classes: Any) -> None:
    """Refuses private sketches of classes whose names may come from the data."""
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
    if odd and selected:  # whose names must not be seen
        raise ValueError(f"{len(odd):,} of the sketches are of classes that were not selected: leave them out")
    if odd:
        raise ValueError(f"the class {odd[0]!r} is not among the declared classes")


def _with_selection(sketch: Sketch, classes: Any) -> Sketch:
    """The sketch, with what selecting the classes has cost, if its ledger does not include that already."""
    if sketch.ledger is None or not isinstance(classes, SelectedClasses) or sketch.ledger.includes(classes.ledger):
        return sketch.copy()
    return sketch.of_same_records(sketch.operator, sketch.sums, sketch.ledger.after(classes.ledger))


def _check_disjoint(sketches: Mapping[Any, Sketch]) -> None:
    """Refuses the same rows under two labels."""
    seen: dict[int, Any] = {}
    for label, sketch in sketches.items():
        for batch in sketch.batches.times:
            if seen.setdefault(batch, label) != label:
                both = f"{seen[batch]!r} and {label!r}"
                raise ValueError(f"the sketches of {both} share a batch of rows: a row has one class")


def _every_label(found: list[Any], before: SketchedTable | None, classes: Any) -> tuple[Any, ...]:
    """The labels that are known, and those that came now; others than the declared ones are refused."""
    known = before.labels or () if before else ()
    if classes and (other := [label for label in found if label not in classes]):
        raise ValueError(f"y has the label {shortened(other[0])}, which is not among the declared classes")
    return (*known, *(label for label in found if label not in known))


def _labels_in(rows: Source, name: str) -> list[Any]:
    """The different labels in a column of a table, in order: text is whole numbers if all of it is."""
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

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learns from labelled rows, which are read once, after a small sample of them.

        Parameters
        ----------
        X : array of shape (rows, columns), sparse matrix or data frame; or files, Arrow tables and all else that
            `source` takes.
        y : the label of each row; or, where X holds them too, as numbers, the name of their column, or [its position].
            With a schema, a column that y names may hold text.
        sample_weight : how often each row counts, as in `SketchKMeans.fit`.
        """
        return super().fit(X, y, sample_weight)

    def partial_fit(  # type: ignore[override]
        self, X: Any, y: Any = None, classes: Any = None, sample_weight: Any = None
    ) -> Self:
        """Adds labelled rows to those seen so far. The model is learned anew when it is next asked for.

        Parameters
        ----------
        X, y, sample_weight : as in `fit`.
        classes : all labels that may come, if that is to be checked; others are refused from then on.
        """
        return self._add(X, y, sample_weight, classes)

    def fit_sketch(self, sketch: Mapping[Any, Sketch], *, classes: Any = None) -> Self:  # type: ignore[override]
        """Learns from one sketch per class: a dictionary of labels and sketches of one operator.

        Private sketches are taken to be of disjoint records, as classes are: the largest epsilon holds for all, or
        twice that for replaced records, which may change their class.

        Parameters
        ----------
        sketch : the dictionary.
        classes : for private sketches, all labels, known without looking at the data: a label that comes from the data
            would tell that there is a record of it. Each needs a release, of an empty sketch if it has no records. Or
            what `skl.privacy.select_classes` has selected, whose cost is added, unless the releases include it.
        """
        return self._learn(self._state_of_classes(sketch, classes), self._generator())

    def _state_of_classes(self, sketches: Mapping[Any, Sketch], classes: Any = None) -> FittedState:
        """What sketches of classes say."""
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
        return (
            Ordinal(names[0], tuple(map(word_of, labels)), weight=len(labels) - 1),
        ), labels  # the place is the code

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
