"""What estimators of classes share: labels, and one sketch per class."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import validate_data

from sketchlearn import engines
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.classes.class_sketches import ClassSketches
from sketchlearn.tasks.estimating.supervised_estimator import SupervisedEstimator
from sketchlearn.values import difference, shortened


def check_labels(labels: Any) -> None:
    """Refuses labels of a model file that are not different words, or different numbers."""
    if not isinstance(labels, list) or not all(isinstance(label, str | int | float) for label in labels):
        raise ValueError("labels must be a list of words or numbers")
    if len(set(labels)) < len(labels) or len({isinstance(label, str) for label in labels}) > 1:
        raise ValueError("labels must differ, and be all words or all numbers")


class LabelledEstimator(SupervisedEstimator):
    """An estimator that learns from one sketch per class, all of one operator; labels have codes 0, 1, ..."""

    _labels: tuple[Any, ...] | None = None  # label of each code; None where codes are the labels
    _declared: tuple[Any, ...] = ()  # classes that partial_fit was told of

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns from labelled rows, which are read once, after a small sample of them.

        Parameters
        ----------
        X : array of shape (rows, columns) or data frame; or files, Arrow tables and all else that `source` takes.
        y : the label of each row; or, where X holds them too, as numbers, the name of their column, or [its position].
        """
        before = self._labels, self._declared
        self._labels, self._declared = None, ()
        try:
            if engines.engine_of(X):
                raise TypeError(
                    "the rows of each class must be sketched apart there: give fit_sketch({label: sketch, ...}), each "
                    "made by skl.engines.sketch of the rows of that class"
                )
            return super().fit(X, y)
        except BaseException:
            self._labels, self._declared = before
            raise

    def partial_fit(self, X: Any, y: Any = None, classes: Any = None) -> Self:
        """Adds labelled rows to those seen so far. The model is learned anew when it is next asked for.

        Parameters
        ----------
        X, y : as in `fit`.
        classes : all labels that may come, if that is to be checked; others are refused from then on.
        """
        before = self._declared
        if classes is not None:
            self._declared = tuple(np.unique(np.asarray(classes)).tolist())
        try:
            return super().partial_fit(X, y)
        except BaseException:
            self._declared = before
            raise

    def fit_sketch(self, sketch: Mapping[Any, Sketch]) -> Self:  # type: ignore[override]
        """Learns from one sketch per class: a dictionary of labels and sketches of one operator.

        Private sketches are taken to be of disjoint records, as classes are: the largest epsilon holds for all.
        """
        if not isinstance(sketch, Mapping) or not all(isinstance(part, Sketch) for part in sketch.values()):
            raise TypeError("expected a dictionary of one Sketch per class, {label: sketch}: rows go through fit(X, y)")
        self.check_parameters()
        if not sketch:
            raise ValueError("there are no sketches: give one per class")
        parts = list(sketch.values())
        operator: Any = parts[0].operator
        for part in parts[1:]:
            if reason := difference(operator, part.operator):
                raise ValueError(f"the classes' sketches cannot be compared: {reason}")
        d = operator.n_features
        by_class = ClassSketches(operator, d, {float(i): part.copy() for i, part in enumerate(parts)})
        if any(part.ledger for part in parts):
            by_class.total  # noqa: B018 - refuses private sketches beside exact ones, and guarantees that differ
        before = self._labels, self._declared
        self._labels, self._declared = tuple(sketch), ()
        try:
            with self._aiming((d,)):
                self._accept(by_class, self._learned(by_class, self._generator()))  # type: ignore[arg-type]
        except BaseException:
            self._labels, self._declared = before
            raise
        self._set_names(None if operator.columns is None else (*operator.columns, "class"), d + 1)
        return self

    def _arrays(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        self.check_parameters()
        rows, labels = validate_data(self, X, y, reset=reset, dtype=[np.float64, np.float32])
        check_classification_targets(labels)
        known = () if self._labels is None else self._labels
        found = np.unique(labels).tolist()
        if self._declared and (other := [label for label in found if label not in self._declared]):
            raise ValueError(f"y has the label {shortened(other[0])}, which is not among the declared classes")
        self._labels = (*known, *(label for label in found if label not in known))
        code = {label: i for i, label in enumerate(self._labels)}
        codes = np.array([code[label] for label in found], np.float64)
        return rows, codes[np.searchsorted(np.array(found), labels)][:, None]

    def _sketched(self, operator: Operator, rows: Any) -> Any:
        return ClassSketches(operator, self._targets[0]).update(rows, n_jobs=self.n_jobs)

    def _label_of(self, code: float) -> Any:
        return code if self._labels is None else self._labels[int(code)]

    @property
    def classes_(self) -> NDArray[Any]:
        loaded = self._model is not None and self._sketch is None and not self._buffer  # from a file, without sketches
        labels = set() if loaded else {self._label_of(code) for code in self._state().sketches}
        labels |= set(self._declared)
        if self._labels is None and all(float(label).is_integer() for label in labels):
            labels = {int(label) for label in labels}
        return np.array(sorted(labels))

    @property
    def sketches_(self) -> dict[Any, Sketch]:
        sketches: dict[float, Sketch] = self._state().sketches
        return {self._label_of(code): sketch for code, sketch in sketches.items()}

    @property
    def sketch_(self) -> Sketch:
        total: Sketch = self._state().total
        return total
