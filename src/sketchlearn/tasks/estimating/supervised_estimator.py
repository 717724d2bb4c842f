"""What estimators of targets share: rows and targets are sketched side by side, as one table."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.schemas import Column, Number, SchemaColumns, read_columns
from sketchlearn.sources import Beside, Source, is_array, source
from sketchlearn.sources.source_base import by_name
from sketchlearn.tasks.estimating.fitted_state import IncomingRows, SketchedTable
from sketchlearn.tasks.estimating.schema_rows import (
    encoded_rows,
    rows_in_memory,
    schema_columns,
    target_names,
    with_targets,
)
from sketchlearn.tasks.estimating.sketch_estimator import SketchEstimator
from sketchlearn.values import shortened


@dataclass(eq=False, repr=False)
class SupervisedEstimator(SketchEstimator):
    """An estimator whose sketch holds features and targets."""

    @abstractmethod
    def _arrays(
        self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None
    ) -> tuple[NDArray[Any], NDArray[np.float64], SketchedTable]:
        """Features, targets as columns of numbers, and the table of the features."""

    def fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Learns from rows and their targets, which are read once, after a small sample of them.

        Parameters
        ----------
        X : array of shape (rows, columns), sparse matrix or data frame; or files, Arrow tables and all else that
            `source` takes; or a Dask collection or a Spark data frame, whose rows stay where they are.
        y : the targets; or, where X holds them too, the name of their column, or a list of names or positions.
        sample_weight : how often each row counts, as in `SketchKMeans.fit`.
        """
        return super().fit(X, y, sample_weight)

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Adds rows to those seen so far. The model is learned anew when it is next asked for.

        The operator is designed on the first 5000 rows, which are kept until then; then it is fixed.
        """
        return self._add(X, y, sample_weight)

    def _incoming(self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None) -> IncomingRows:
        if not is_array(X) or isinstance(y, str):
            rows, schema = source(X), schema_columns(X, self.schema, before)
            if schema is not None:
                return self._encoded_rows(rows, schema, y, before, classes)
            if before is not None and before.columns is not None:
                rows = rows.only(before.columns, any_order=True)
            table = SketchedTable(rows.columns, _width(rows), labels=before.labels if before else None)
            return IncomingRows(rows, self._with_targets(table, y))
        left, right, features = self._arrays(X, y, before, classes)
        d, n_targets = left.shape[1], right.shape[1]
        columns = _joint_names(features.columns, y, n_targets) if before is None else before.columns
        table = replace(features, columns=columns, width=d + n_targets, targets=tuple(range(d, d + n_targets)))
        return rows_in_memory(left, replace(table, flat=is_flat(y, n_targets)), Beside(left, right))

    def _encoded_rows(
        self, rows: Source, schema: SchemaColumns, y: Any, before: SketchedTable | None, classes: Any
    ) -> IncomingRows:
        """Rows whose features a schema makes numbers of, with the columns that y names as targets."""
        targets, labels = self._target_columns(rows, target_names(y, rows), before, classes)
        columns = with_targets(schema, targets)
        n, first = len(targets), len(columns) - len(targets)
        table = SketchedTable(columns, len(columns), tuple(range(first, first + n)), is_flat(y, n), labels)
        return IncomingRows(encoded_rows(rows, columns, before), table)

    def _target_columns(
        self,
        rows: Source,  # noqa: ARG002
        names: list[str],
        before: SketchedTable | None,  # noqa: ARG002
        classes: Any,  # noqa: ARG002
    ) -> tuple[tuple[Column, ...], tuple[Any, ...] | None]:
        """How targets in a table become numbers, one each, and the labels that they stand for, if they are classes."""
        return tuple(map(Number, names)), None

    def _with_targets(self, table: SketchedTable, y: Any) -> SketchedTable:
        targets = positions(y, table.columns, table.width or 0)
        return replace(table, targets=targets, flat=is_flat(y, len(targets)))


def is_flat(y: Any, n_targets: int) -> bool:
    """Whether there is one target, given without a second dimension."""
    return n_targets == 1 and np.asarray(y).ndim < 2


def _joint_names(names: tuple[str, ...] | None, y: Any, n_targets: int) -> tuple[str, ...] | None:
    """Names of features and targets together, if the features have names."""
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
    return (
        with_targets(names, [Number(name) for name in found]) if isinstance(names, SchemaColumns) else (*names, *found)
    )


def positions(y: Any, columns: tuple[str, ...] | None, width: int) -> tuple[int, ...]:
    """Which columns of a table y names.

    >>> positions("b", ("a", "b", "c"), 3), positions([-1], None, 3)
    ((1,), (2,))
    """
    wanted: list[Any] = [y] if isinstance(y, str | int) else list(y) if isinstance(y, list | tuple) else []
    if wanted and all(isinstance(name, str) for name in wanted):
        if columns is None:
            raise ValueError(f"the table has no names of columns: say y=[{width - 1}] for the last one")
        found = by_name(read_columns(columns), wanted)
        if isinstance(columns, SchemaColumns):
            found = tuple(map(columns.first_number, found))
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
