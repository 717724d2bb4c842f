"""Mean and mean square of each column by itself."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators.bounded_operators import REFUSE, Boxed, check_outside
from sketchlearn.operators.operator_base import check_center, check_columns, check_features
from sketchlearn.operators.second_moments import FIXED_POINT, check_bounds, of_replaced_moments
from sketchlearn.sensitivity import Sensitivity

NUMBERS_PER_BLOCK = 1 << 18  # numbers worked on at a time


@dataclass(frozen=True)
class ColumnMoments(Boxed):
    """Phi(x) = (y, y_k^2 for each k), y = x - center: means and variances, where second moments would be too many.

    Parameters
    ----------
    n_features : number of columns of the data.
    bound : no value may be further than this from the center; one number, or one per column.
    center : subtracted from each row.
    outside : "refuse" rows with a value beyond the bound, or "clip" such values to it, as private releases need.
    columns : names of the columns, for tables that have names.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.ColumnMoments(2, bound=10.0)
    >>> operator.sketch([[1.0, 2.0], [3.0, 4.0]]).mean.round(6).tolist()
    [2.0, 3.0, 5.0, 10.0]
    """

    n_features: int
    _: KW_ONLY
    bound: tuple[float, ...]
    center: tuple[float, ...] | None = None
    outside: str = REFUSE
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        n_features = check_features(self.n_features)
        self._set(
            n_features=n_features,
            bound=check_bounds(self.bound, n_features),
            center=check_center(self.center, n_features, np.float64),
            outside=check_outside(self.outside),
            columns=check_columns(self.columns, n_features),
        )

    @property
    def in_words(self) -> str:
        return f"means and squares of {self.n_features:,} columns"

    def change_by_record(self) -> Sensitivity:
        return Sensitivity.of_integers(self.n_sums, FIXED_POINT)

    def change_by_replacement(self) -> Sensitivity:
        return of_replaced_moments(self.n_features, self.n_sums)

    @property
    def n_sums(self) -> int:
        return 2 * self.n_features

    @property
    def ceiling(self) -> int:
        return FIXED_POINT

    def add_rows(
        self,
        rows: NDArray[Any],
        weights: NDArray[np.int64] | None,
        threads: int,  # noqa: ARG002
        sums: NDArray[np.int64],
    ) -> int:
        added, step = np.zeros_like(sums), max(1, NUMBERS_PER_BLOCK // self.n_features)
        for first in range(0, len(rows), step):
            integers, bad = self.write_rows(rows[first : first + step], 1)
            if bad >= 0:
                return first + bad
            added += integers.sum(axis=0) if weights is None else weights[first : first + step] @ integers
        sums += added
        return -1

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]:  # noqa: ARG002
        away = self.within(rows).astype(np.float64) - self.middle
        bad = ~np.all(np.abs(away) <= np.array(self.bound), axis=1)
        if np.any(bad):
            return np.zeros((len(rows), self.n_sums), np.int64), int(np.argmax(bad))
        y = away / np.array(self.bound)
        return np.rint(np.concatenate([FIXED_POINT * y, (FIXED_POINT * y) * y], axis=1)).astype(np.int64), -1

    def mean_of(self, sums: NDArray[np.float64]) -> NDArray[Any]:
        b = np.array(self.bound)
        return sums * (np.concatenate([b, b * b]) / FIXED_POINT)
