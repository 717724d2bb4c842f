"""Second and fourth moments: means and products of all monomials of degree 2."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators.bounded_operators import Boxed, replaced_moments
from sketchlearn.operators.composed_operators import Mapped
from sketchlearn.operators.operator_base import Double
from sketchlearn.operators.second_moments import SecondMoments
from sketchlearn.sensitivity import Sensitivity
from sketchlearn.values import whole

MOST_COLUMNS = 12  # There are then 78 monomials, and 3,081 products of two of them.
SMALLEST_BOUND, LARGEST_BOUND = 1e-75, 1e75  # Products of four values must neither vanish nor overflow.


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
    >>> operator = skl.VeroneseMoments(2, bound=10.0)
    >>> second, fourth = operator.split(operator.sketch([[1.0, 2.0], [3.0, 4.0]]).mean)
    >>> second.round(4).tolist(), fourth[0, 0, 1, 1].round(4)
    ([[5.0, 7.0], [7.0, 10.0]], np.float64(74.0))
    """

    def __post_init__(self) -> None:
        whole("n_features", self.n_features, most=MOST_COLUMNS)
        super().__post_init__()
        least, most = min(self.bound), max(self.bound)
        if not SMALLEST_BOUND <= least <= most <= LARGEST_BOUND:
            raise ValueError(f"bounds from {least!r} to {most!r} have no products of four: rescale the data")

    @property
    def in_words(self) -> str:
        return f"moments of order 2 and 4 of {self.n_features:,} columns"

    def change_by_replacement(self) -> Sensitivity:
        d = self.n_features
        never_negative = d + self.inner.n_features + d * (d - 1) // 2  # y_a^2, (y_a y_b)^2, and y_a^2 y_b^2 for b < a
        return replaced_moments(self.n_sums, never_negative)

    @cached_property
    def inner(self) -> SecondMoments:
        """The operator of monomials. A product of rounded values is no larger than that of their rounded bounds."""
        b = np.array(self.bound)
        a, c = np.tril_indices(self.n_features)
        return SecondMoments(len(a), bound=tuple((b[a] * b[c]).tolist()))

    def mapped(self, rows: NDArray[Any], threads: int) -> Double:  # noqa: ARG002
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
