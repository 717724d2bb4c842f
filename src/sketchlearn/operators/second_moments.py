"""First and second moments: the mean and the matrix of products."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn._native import add_moments, write_moments
from sketchlearn.operators.bounded_operators import REFUSE, Boxed, check_outside
from sketchlearn.operators.operator_base import check_center, check_columns, check_features
from sketchlearn.sensitivity import Sensitivity
from sketchlearn.values import positive

FIXED_POINT = 2**30
LARGEST_BOUND = 1e150


@dataclass(frozen=True)
class SecondMoments(Boxed):
    """Phi(x) = (y, and y_j y_k for k <= j), y = x - center: exact sums for PCA and least squares.

    Parameters
    ----------
    n_features : number of columns of the data.
    bound : no value may be further than this from the center, so that the fixed point holds its products; one number,
        or one per column. Precision is relative to it: products are kept to 2^-31 of the product of bounds.
    center : subtracted from each row.
    outside : "refuse" rows with a value beyond the bound, or "clip" such values to it, as private releases need.
    columns : names of the columns, for tables that have names.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.SecondMoments(2, bound=10.0)
    >>> mean, products = operator.split(operator.sketch([[1.0, 2.0], [3.0, 4.0]]).mean)
    >>> mean.round(6), products.round(6)
    (array([2., 3.]), array([[ 5.,  7.], [ 7., 10.]]))
    """

    n_features: int
    _: KW_ONLY
    bound: tuple[float, ...]
    center: tuple[float, ...] | None = None
    outside: str = REFUSE
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        n_features = check_features(self.n_features)
        bounds = check_bounds(self.bound, n_features)
        center = check_center(self.center, n_features, np.float64)
        columns, outside = check_columns(self.columns, n_features), check_outside(self.outside)
        self._set(n_features=n_features, bound=bounds, center=center, outside=outside, columns=columns)

    @property
    def in_words(self) -> str:
        return f"means and second moments of {self.n_features:,} columns"

    def change_by_record(self) -> Sensitivity:
        return Sensitivity.of_integers(self.n_sums, FIXED_POINT)

    def change_by_replacement(self) -> Sensitivity:
        return of_replaced_moments(self.n_features, self.n_sums)

    @property
    def n_sums(self) -> int:
        return self.n_features + self.n_features * (self.n_features + 1) // 2

    @property
    def ceiling(self) -> int:
        return FIXED_POINT

    def add_rows(
        self, rows: NDArray[Any], weights: NDArray[np.int64] | None, threads: int, sums: NDArray[np.int64]
    ) -> int:
        return add_moments(kernel.active, self.within(rows), self.middle, np.array(self.bound), weights, threads, sums)

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int64)
        bounds = np.array(self.bound)
        return integers, write_moments(kernel.active, self.within(rows), self.middle, bounds, threads, integers)

    def mean_of(self, sums: NDArray[np.float64]) -> NDArray[Any]:
        b = np.array(self.bound)
        j, k = np.tril_indices(self.n_features)
        return sums * (np.concatenate([b, b[j] * b[k]]) / FIXED_POINT)

    def split(self, values: NDArray[np.float64]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The mean of x - center, and the symmetric matrix of mean products, of a mean feature vector."""
        products = np.empty((self.n_features, self.n_features))
        products[np.tril_indices(self.n_features)] = values[self.n_features :]
        return values[: self.n_features], np.where(np.tri(self.n_features, dtype=bool), products, products.T)


def of_replaced_moments(never_negative: int, n_sums: int) -> Sensitivity:
    """Of sums of which some are never negative, from 0 to 1 in units of the fixed point; others from -1 to 1."""
    others = Sensitivity.of_integers(n_sums - never_negative, 2 * FIXED_POINT)
    return Sensitivity.of_integers(never_negative, FIXED_POINT) + others


def check_bounds(bound: Any, n_features: int) -> tuple[float, ...]:
    """One positive bound per column, given one for all or one for each."""
    table = np.asarray(bound, object)
    given = [table.item()] * n_features if table.ndim == 0 else table.tolist()
    bounds = tuple(positive("bound", b) for b in given)
    if len(bounds) != n_features:
        raise ValueError(f"bound must be one positive number, or one for each of the {n_features} columns")
    if max(bounds) > LARGEST_BOUND:
        raise ValueError(f"bound {max(bounds)!r} is too large for products of values: rescale the data")
    return bounds
