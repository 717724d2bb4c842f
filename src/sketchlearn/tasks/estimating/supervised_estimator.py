"""What estimators of targets share: rows and targets are sketched side by side, as one table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn import engines
from sketchlearn.sources import Beside, Source, is_array, source
from sketchlearn.sources.source_base import by_name
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.values import shortened


class SupervisedEstimator(SketchEstimator):
    """An estimator whose sketch holds features and targets; `_targets` says which of its columns are targets."""

    _targets: tuple[int, ...] = ()
    _table: tuple[str, ...] | None = None  # names of all columns, targets included

    @abstractmethod
    def _arrays(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        """Features, and targets as columns of numbers."""

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns from rows and their targets, which are read once, after a small sample of them.

        Parameters
        ----------
        X : array of shape (rows, columns) or data frame; or files, Arrow tables and all else that `source` takes; or a
            Dask collection or a Spark data frame, whose rows stay where they are.
        y : the targets; or, where X holds them too, the name of their column, or a list of names or positions.
        """
        if engines.engine_of(X):
            sketch = self._engine_sketch(X)
            operator: Any = sketch.operator
            return self._fit_targets(sketch, positions(y, operator.columns, operator.n_features))
        if not is_array(X) or isinstance(y, str):
            rows = source(X)
            with self._aiming(positions(y, rows.columns, _width(rows))):
                return self._fit_source(rows)
        left, right = self._arrays(X, y, reset=True)
        with self._aiming(tuple(range(left.shape[1], left.shape[1] + right.shape[1]))):
            self._table = self._joint_names(y, right.shape[1])
            self._fit_rows(source(Beside(left, right)))
        return self

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Adds rows to those seen so far. The model is learned anew when it is next asked for.

        The operator is designed on the first 5000 rows, which are kept until then; then it is fixed.
        """
        first = self._sketch is None and not self._buffer
        if not is_array(X) or isinstance(y, str):
            rows = source(X)
            with self._aiming(positions(y, rows.columns, _width(rows))):
                return self._add_source(rows, first)
        left, right = self._arrays(X, y, reset=first)
        with self._aiming(tuple(range(left.shape[1], left.shape[1] + right.shape[1]))):
            if first:
                self._table = self._joint_names(y, right.shape[1])
            self._add_rows(np.column_stack([left, right]))
        return self

    def _fit_targets(self, sketch: Any, targets: tuple[int, ...]) -> Self:
        with self._aiming(targets):
            return super().fit_sketch(sketch)

    @contextmanager
    def _aiming(self, targets: tuple[int, ...]) -> Iterator[None]:
        """Takes these columns as targets; an error leaves things as they were."""
        before = self._targets, self._table
        self._targets = targets
        try:
            yield
        except BaseException:
            self._targets, self._table = before
            raise

    def _joint_names(self, y: Any, n_targets: int) -> tuple[str, ...] | None:
        """Names of features and targets together, if the features have names."""
        names = self._names()
        if names is None:
            return None
        given = [getattr(y, "name", None)] if np.asarray(y).ndim == 1 else getattr(y, "columns", [None] * n_targets)
        found: list[str] = []
        for i, name in enumerate(given):
            text = name if isinstance(name, str) else "y" if n_targets == 1 else f"y{i}"
            while text in names or text in found:
                text += "_"
            found.append(text)
        return (*names, *found)

    def _columns(self) -> tuple[str, ...] | None:
        return self._table

    @property
    def _width(self) -> int:
        return self.n_features_in_ + len(self._targets)

    def _set_names(self, names: tuple[str, ...] | None, n_features: int) -> None:
        self._table = names
        features = None if names is None else tuple(n for i, n in enumerate(names) if i not in self._targets)
        super()._set_names(features, n_features - len(self._targets))


def positions(y: Any, columns: tuple[str, ...] | None, width: int) -> tuple[int, ...]:
    """Which columns of a table y names.

    >>> positions("b", ("a", "b", "c"), 3), positions([-1], None, 3)
    ((1,), (2,))
    """
    wanted: list[Any] = [y] if isinstance(y, str | int) else list(y) if isinstance(y, list | tuple) else []
    if wanted and all(isinstance(name, str) for name in wanted):
        if columns is None:
            raise ValueError(f"the table has no names of columns: say y=[{width - 1}] for the last one")
        found = by_name(columns, wanted)
    elif wanted and all(isinstance(i, int) and -width <= i < width for i in wanted):
        found = tuple(i % width for i in wanted)
    else:
        raise ValueError(
            f"y must say which columns of the table are targets, such as y='price' or y=[{width - 1}], "
            f"not {shortened(y)}: arrays of targets go with arrays of rows"
        )
    if len(set(found)) < len(found):
        raise ValueError(f"y names a column twice: {shortened(y)}")
    if len(found) == width:
        raise ValueError("all columns are targets: there is nothing to learn them from")
    return found


def _width(rows: Source) -> int:
    if rows.width is None:
        raise ValueError("there are no rows: the first ones tell how many columns there are")
    return rows.width
