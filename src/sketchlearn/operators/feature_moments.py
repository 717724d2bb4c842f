"""Second moments of features and of the columns beside them: kernel regression in one pass."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.cost import Cost
from sketchlearn.gpu import Device, FeatureMomentsPlan
from sketchlearn.operators.bounded_operators import REFUSE
from sketchlearn.operators.composed_operators import Mapped
from sketchlearn.operators.crosses import MOST_SUMS, Crossed
from sketchlearn.operators.moment_operators import SecondMoments
from sketchlearn.operators.operator_base import Double, Integers, Operator

NUMBERS_AT_A_TIME = 1 << 22  # Numbers of mapped rows that are held at a time: 32 MB, whatever the number of rows.


@dataclass(frozen=True)
class FeatureMoments(Crossed, Mapped):
    """Phi(x) = (f, and f_j f_k for k <= j), f = (Psi(x), x - center): second moments of features and columns together.

    Least squares of some columns on Fourier features of the others need nothing else. The real parts of the features
    come first, then the imaginary ones, then the columns.

    Parameters
    ----------
    crossed : `FourierFeatures` without subsample, or an operator that maps rows first and takes such features of what
        that gives, such as `SomeColumns`.
    bound : no value may be further than this from the center; one number, or one per column. Products are kept to 2^-31
        of the product of bounds, of which that of a feature is 1.
    center : subtracted from the columns; one number per column.
    outside : "refuse" rows with a value beyond its bound, or "clip" such values to it, as private releases need.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> waves = skl.FourierFeatures(2, 10, law=skl.frequencies.Gaussian(1.0))
    >>> operator = skl.FeatureMoments(skl.SomeColumns(waves, 3, which=[0, 1]), bound=5.0)
    >>> means, products = operator.split(operator.sketch(np.eye(3)).mean)
    >>> means.shape, products.shape, bool(abs(products[0, 0] + products[10, 10] - 1) < 1e-5)
    ((23,), (23, 23), True)
    """

    _omitted: ClassVar[dict[str, Any]] = {"outside": REFUSE}
    crossed: Operator
    _: KW_ONLY
    bound: tuple[float, ...]
    center: tuple[float, ...] | None = None
    outside: str = REFUSE

    def __post_init__(self) -> None:
        self._check_crossed()
        if self.waves.subsample is not None or self.waves.law.weighted:
            raise ValueError("crossed must be Fourier features without subsample, of a law without weights")
        box = SecondMoments(self.n_values, bound=self.bound, center=self.center, outside=self.outside)
        self._set(bound=box.bound, center=box.center)
        width = self.n_waves + self.n_values
        if width * (width + 3) // 2 > MOST_SUMS:
            raise ValueError(f"the products of {width:,} features and columns are too many: take fewer frequencies")

    @property
    def n_values(self) -> int:
        return self.n_features

    @property
    def n_frequencies(self) -> int:
        """How many frequencies there are, each with one feature or two."""
        return self.waves.n_frequencies

    @property
    def n_waves(self) -> int:
        """How many features come before the columns."""
        return self.waves.n_sums

    @cached_property
    def inner(self) -> SecondMoments:
        """The operator of features and columns side by side."""
        bound = (self.waves.wave.moment_bound,) * self.n_waves + self.bound
        center = None if self.center is None else (0.0,) * self.n_waves + self.center
        return SecondMoments(len(bound), bound=bound, center=center)

    @property
    def own_cost(self) -> Cost:
        return Cost.of_numbers(self.n_waves + self.n_values, bytes_each=100, operations_each=700)  # of `inner`

    def mapped(self, rows: NDArray[Any], threads: int) -> Double:
        """The features of each row, and its columns; those beyond their bounds are clipped, if they are to be."""
        integers, bad = self._integers_of(rows, threads)
        found = np.empty((len(rows), self.inner.n_features))
        np.multiply(integers, 1 / self.waves.wave.unit, out=found[:, : self.n_waves])
        found[:, self.n_waves :] = self._box.within(rows)
        if bad >= 0:
            found[bad:] = np.nan  # refused there: a value too far for a phase
        return found

    def add_rows(self, rows: NDArray[Any], weights: Integers | None, threads: int, sums: Integers) -> int:
        step = max(1, NUMBERS_AT_A_TIME // self.inner.n_features)
        for first in range(0, len(rows), step):
            own = None if weights is None else weights[first : first + step]
            bad = super().add_rows(rows[first : first + step], own, threads, sums)
            if bad >= 0:
                return first + bad
        return -1

    def device_plan(self, owner: Device) -> FeatureMomentsPlan | None:
        writer = self.crossed.feature_writer(owner, self.n_frequencies)
        if writer is None:
            return None
        return FeatureMomentsPlan(writer, 1 / self.waves.wave.unit, self.inner.device_plan(owner))

    @property
    def in_words(self) -> str:
        return f"second moments of features and {self.n_values:,} columns together; features: {self.crossed.in_words}"

    def split(self, values: Double) -> tuple[Double, Double]:
        """The mean of features and columns less their center, and the matrix of mean products, of a mean vector."""
        return self.inner.split(values)

    def explain_refusal(self, row: Double) -> str:
        if self.crossed.add_rows(row[None], None, 1, np.zeros(self.crossed.n_sums, np.int64)) >= 0:
            return self.crossed.explain_refusal(row)
        return self._box.explain_refusal(row)
