"""Moments: means with products of all pairs of columns, or with squares alone; and moments of order 2 and 4."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Weights
from sketchlearn.core.values import choice, whole
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import FIXED_POINT, REFUSE, Blockwise, Boxed
from sketchlearn.features.composed import Mapped
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import add_moments, write_moments
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import MomentsPlan
from sketchlearn.sketch.priority_sample import Keeping

# Each integer is within half of its true value, but for the float64 errors of a few products below 2^30.
CHANGE_BY_ROUNDING = 1.001


def _in_integers(l1: float, l2_squared: int, n_sums: int) -> Sensitivity:
    """Norms of the true change as norms of what changes in integers, each of which is rounded."""
    l1 = FIXED_POINT * l1 + CHANGE_BY_ROUNDING * n_sums
    l2 = FIXED_POINT * math.sqrt(l2_squared) + CHANGE_BY_ROUNDING * math.sqrt(n_sums)
    return Sensitivity.of_norms(l1, l2, n=n_sums, largest=2 * FIXED_POINT)


ONCE, TWICE = "once", "twice"

MOST_VERONESE_COLUMNS = 12  # There are then 78 monomials, and 3,081 products of two of them.
# Products of four values must neither vanish nor overflow.
SMALLEST_VERONESE_BOUND, LARGEST_VERONESE_BOUND = 1e-75, 1e75


@dataclass(frozen=True)
class BoxedMoments(Boxed):
    """A boxed operator of means and products, all of which a row at a corner of the box takes to the fixed point."""

    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "outside": REFUSE, "keeping": None}
    keeping: Keeping | None = field(default=None, compare=False, kw_only=True)

    def add_remove_sensitivity(self) -> Sensitivity:
        return Sensitivity.of_integers(self.n_sums, FIXED_POINT)


@dataclass(frozen=True)
class SecondMoments(BoxedMoments):
    """Phi(x) = (y, and y_j y_k for k <= j), y = x - center: exact sums for PCA and least squares.

    Parameters
    ----------
    n_features : number of columns of the data.
    bound : no value may be further than this from the center, so that the fixed point holds its products; one number,
        or one per column. Precision is relative to it: products are kept to 2^-31 of the product of bounds.
    center : subtracted from each row.
    outside : "refuse" rows with a value beyond the bound, or "clip" such values to it, as private releases need.
    columns : names of the columns, for tables that have names.
    keeping : the rule of the priority sample of rows, None for none: standard errors need one. Not compared.
    rounding : how often a product is rounded on its way to an integer: "once" is several times faster. "twice" is how
        files without this field were made; sketches of the two do not add up.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.features.SecondMoments(2, bound=10.0)
    >>> mean, products = operator.split(operator.sketch([[1.0, 2.0], [3.0, 4.0]]).mean)
    >>> mean.round(6), products.round(6)
    (array([2., 3.]), array([[ 5.,  7.], [ 7., 10.]]))
    """

    abilities = frozenset({Ability.MOMENTS})
    _words = "means and second moments of {0.n_features:,} columns"
    _omitted: ClassVar[dict[str, Any]] = {**BoxedMoments._omitted, "rounding": TWICE}
    rounding: str = field(default=ONCE, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        if choice("rounding", self.rounding, ONCE, TWICE) == ONCE:
            self._check_factors()

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        return super()._build({"rounding": TWICE, **fields})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update({"rounding": TWICE, **state})  # pickles of before have none, as files

    @property
    def n_sums(self) -> int:
        return self.n_features + self.n_features * (self.n_features + 1) // 2

    def replace_one_sensitivity(self) -> Sensitivity:
        d, n = self.n_features, self.n_sums
        return _in_integers(n + d / (2 * (d + 1)), 4 * ((d + 1) ** 2 // 4), n)

    def _box_of(self, rows: Rows) -> tuple[str, Any, Any, Any, bool]:
        """The rows and the box as native kernels take them."""
        return kernel.active, self.within(rows), self.middle, np.array(self.bound), self.rounding == ONCE

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
        return add_moments(*self._box_of(rows), weights, threads, sums)

    def device_plan(self, owner: Device) -> MomentsPlan:
        return MomentsPlan(owner, self.middle, np.array(self.bound), once=self.rounding == ONCE)

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int64)
        return integers, write_moments(*self._box_of(rows), threads, integers)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        b = np.array(self.bound)
        j, k = np.tril_indices(self.n_features)
        return sums * (np.concatenate([b, b[j] * b[k]]) / FIXED_POINT)

    def split(self, values: Double) -> tuple[Double, Double]:
        """The mean of x - center, and the symmetric matrix of mean products, of a mean feature vector."""
        products = np.empty((self.n_features, self.n_features))
        products[np.tril_indices(self.n_features)] = values[self.n_features :]
        return values[: self.n_features], np.where(np.tri(self.n_features, dtype=bool), products, products.T)


@dataclass(frozen=True)
class ColumnMoments(BoxedMoments, Blockwise):
    """Phi(x) = (y, y_k^2 for each k), y = x - center: means and variances, where second moments would be too many.

    Parameters
    ----------
    n_features, bound, center, outside, columns, keeping : as those of `SecondMoments`.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.features.ColumnMoments(2, bound=10.0)
    >>> operator.sketch([[1.0, 2.0], [3.0, 4.0]]).mean.round(6).tolist()
    [2.0, 3.0, 5.0, 10.0]
    """

    _words = "means and squares of {0.n_features:,} columns"

    @property
    def n_sums(self) -> int:
        return 2 * self.n_features

    def replace_one_sensitivity(self) -> Sensitivity:
        return _in_integers(2.25 * self.n_features, 4 * self.n_features, self.n_sums)

    def _write_features(self, away: Double, features: Double) -> None:
        y = away / np.array(self.bound)[:, None]
        values, squares = np.split(features, 2)
        np.multiply(FIXED_POINT, y, out=values)
        np.multiply(values, y, out=squares)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        b = np.array(self.bound)
        return sums * (np.concatenate([b, b * b]) / FIXED_POINT)


@dataclass(frozen=True)
class VeroneseMoments(Mapped, Boxed):
    """Phi(x) = (q, and q_j q_k for k <= j), q all y_a y_b for b <= a, y = x - center: exact sums for subspace clusters.

    The Veronese map q of degree 2 takes a union of subspaces to one of larger subspaces; its mean has the moments of
    order 2, its products those of order 4.

    Parameters
    ----------
    n_features : number of columns of the data, at most 12.
    bound : no value may be further than this from the center; one number, or one per column. Moments of order 4 are
        kept to 2^-31 of the product of bounds.
    center : subtracted from each row: where all subspaces meet.
    outside, columns : as those of `SecondMoments`.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.features.VeroneseMoments(2, bound=10.0)
    >>> second, fourth = operator.split(operator.sketch([[1.0, 2.0], [3.0, 4.0]]).mean)
    >>> second.round(4).tolist(), fourth[0, 0, 1, 1].round(4)
    ([[5.0, 7.0], [7.0, 10.0]], np.float64(74.0))
    """

    abilities = frozenset({Ability.SUBSPACES})
    _words = "moments of order 2 and 4 of {0.n_features:,} columns"

    def __post_init__(self) -> None:
        whole("n_features", self.n_features, most=MOST_VERONESE_COLUMNS)
        super().__post_init__()
        least, most = min(self.bound), max(self.bound)
        if not SMALLEST_VERONESE_BOUND <= least <= most <= LARGEST_VERONESE_BOUND:
            raise ValueError(f"products of four over- or underflow for bounds {least!r} to {most!r}: rescale the data")

    def replace_one_sensitivity(self) -> Sensitivity:
        at_corners = (self.inner.n_features + 1) ** 2 - ((self.n_features + 1) // 2 + 1) ** 2
        return _in_integers(self.n_sums, max(at_corners, self.n_sums), self.n_sums)

    @cached_property
    def inner(self) -> SecondMoments:
        """The operator of monomials. A product of rounded values is no larger than that of their rounded bounds."""
        b = np.array(self.bound)
        a, c = np.tril_indices(self.n_features)
        return SecondMoments(len(a), bound=tuple((b[a] * b[c]).tolist()), rounding=TWICE)

    def mapped(self, rows: Rows, threads: int) -> Double:  # noqa: ARG002
        """The monomials of each row, from one float64 multiplication each."""
        with np.errstate(all="ignore"):  # what is not finite is refused later
            y = self.within(rows).astype(np.float64) - self.middle
            a, c = np.tril_indices(self.n_features)
            return y[:, a] * y[:, c]

    def split(self, values: Double) -> tuple[Double, Double]:
        """The moments of x - center of order 2 (d, d) and 4 (d, d, d, d), of a mean feature vector.

        A moment such as that of y_0 y_0 y_1 y_1, which is also that of (y_0 y_1)^2, is the mean of its copies.
        """
        d = self.n_features
        means, products = self.inner.split(values)
        where = np.empty((d, d), np.intp)
        a, c = np.tril_indices(d)
        where[a, c] = where[c, a] = np.arange(len(a))
        tensor = products[where[:, :, None, None], where]
        symmetric = (tensor + tensor.transpose(0, 2, 1, 3) + tensor.transpose(0, 3, 2, 1)) / 3
        return means[where], symmetric
