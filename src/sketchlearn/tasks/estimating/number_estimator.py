"""What regressions share: targets that are numbers."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin

from sketchlearn.schemas import Number, SchemaColumns
from sketchlearn.schemas.column_kinds import DROP
from sketchlearn.tasks.estimating.fitted_state import SketchedTable
from sketchlearn.tasks.estimating.supervised_estimator import SupervisedEstimator


def shaped_attribute(name: str) -> Any:
    """An attribute that shows a field of the fitted model, as one number or row where one flat target was given."""

    def shaped(estimator: NumberEstimator) -> Any:
        fit = estimator.fitted_model()
        values = getattr(fit, name)
        if not fit.flat:
            return values
        return float(values[0]) if values.ndim == 1 else values[0]

    return property(shaped)


@dataclass(eq=False, repr=False)
class NumberEstimator(MultiOutputMixin, RegressorMixin, SupervisedEstimator):
    """An estimator of targets that are numbers; what it learns says `flat` and has an `r2` of each target."""

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
            raise ValueError(f"n_samples={n_rows} rows cannot tell a regression: give at least 2")

    @property
    def r2_(self) -> float:
        return float(np.mean(self.fitted_model().r2))


def target_numbers(columns: tuple[str, ...] | None, targets: tuple[int, ...]) -> list[Number]:
    """The targets among the columns of a schema, if there is one; what is no number of one unit is refused."""
    found = [columns.column_at(i) for i in targets] if isinstance(columns, SchemaColumns) else []
    for column in found:
        if not isinstance(column, Number) or column.scaling == "log" or column.missing != DROP:
            gaps = "" if column.missing == DROP else ", with gaps"
            raise ValueError(
                f"the target {column.name!r} is a {column.in_words}{gaps}, by the schema of this sketch: take another "
                "target, or a schema in which it is a plain number, and rows without it are left out"
            )
    return [column for column in found if isinstance(column, Number)]
