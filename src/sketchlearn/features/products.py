"""Features times values, and times each other: what conditional means are read from."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Weights
from sketchlearn.core.limits import Cost
from sketchlearn.core.values import shortened, whole
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import FIXED_POINT, REFUSE, check_column_numbers
from sketchlearn.features.composed import Composed, FeatureUser, Mapped, first_bad, renumbered
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.moments import SecondMoments
from sketchlearn.features.operator import Operator, of
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import add_crosses, write_crosses
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import CrossPlan, FeatureMomentsPlan

FACTOR_UNIT = 2**15  # What a feature and a value of 1 become before they are multiplied.
INTEGERS_AT_A_TIME = 1 << 20  # Integers of features that are held at a time, whatever the number of rows.
MOST_SUMS = 2**31


@dataclass(frozen=True)
class Crossed(Composed):
    """An operator of Fourier features and of values of the same rows, which lie within bounds."""

    _omitted: ClassVar[dict[str, Any]] = {"n_crossed": None, "values": None, "outside": REFUSE}
    # of all frequencies and all columns, unless a subclass has fields for them
    n_crossed: ClassVar[int | None] = None
    values: ClassVar[tuple[int, ...] | None] = None
    n_features = of("crossed.n_features")
    columns = of("crossed.columns")
    warn_of_noise = of("crossed.warn_of_noise")
    #: what is subtracted from the values
    middle = of("_box.middle")
    crossed: Operator
    _: KW_ONLY
    bound: tuple[float, ...]
    center: tuple[float, ...] | None = None
    outside: str = REFUSE

    def __post_init__(self) -> None:
        if not isinstance(self.crossed, Operator) or _waves(self.crossed) is None:
            raise ValueError(f"crossed must be Fourier features of rows, not {shortened(self.crossed)}")
        self._set(crossed=_alone(self.crossed))  # what a design notes beside the features is left out
        self.check_depth()

    @property
    def waves(self) -> FourierFeatures:
        """The Fourier features that are crossed, of rows or of what they are mapped to."""
        found = _waves(self.crossed)
        assert found is not None
        return found

    @property
    def n_frequencies(self) -> int:
        """How many of the frequencies are crossed, the first ones."""
        return self.waves.n_frequencies if self.n_crossed is None else self.n_crossed

    @property
    def n_values(self) -> int:
        """How many columns are values."""
        return self.n_features if self.values is None else len(self.values)

    def _values_of(self, rows: Rows) -> NDArray[Any]:
        """The columns that are values."""
        return rows if self.values is None else rows[:, self.values]

    @cached_property
    def _box(self) -> SecondMoments:
        """Where values may lie, and what becomes of others: as in second moments of these columns."""
        return SecondMoments(self.n_values, bound=self.bound, center=self.center, outside=self.outside)

    def with_columns(self, columns: tuple[str, ...] | None) -> Self:
        return self._twin(crossed=self.crossed.with_columns(columns))

    @property
    def data_dependent_errors(self) -> bool:
        return self._box.data_dependent_errors or self.crossed.data_dependent_errors

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(self.crossed.beyond(rows) | self._box.beyond(self._values_of(rows)))

    def _integers_of(
        self, rows: Rows, threads: int, weights: Weights = None, sums: Integers | None = None
    ) -> tuple[NDArray[np.int32], int]:
        """The integers of the crossed features, row by row; those of all are added to sums, if there are any."""
        features = self.crossed
        while isinstance(features, Mapped):
            rows, features = features.mapped(rows, threads), features.inner
        return self.waves.write_first(rows, self.n_frequencies, threads, weights, sums)

    def explain_refusal(self, row: Double) -> str:
        if self.crossed.add_rows(row[None], None, 1, np.zeros(self.crossed.n_sums, np.int64)) >= 0:
            return self.crossed.explain_refusal(row)
        reason = self._box.explain_refusal(self._values_of(row[None])[0])
        return reason if self.values is None else renumbered(reason, self.values)

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        if not isinstance(fields.get("bound", ()), tuple):
            raise ValueError("bound must be a list of numbers, one per value")  # one would stand for thousands
        return super()._build(fields)


@dataclass(frozen=True)
class CrossFeatures(Crossed, FeatureUser):
    """Phi_jk(x) = Psi_j(x) (x_k - center_k): Fourier features of a row times values of the row.

    If clusters are known by where their rows lie, the sums tell the means of other columns, cluster by cluster: that of
    Psi_j x_k is the sum over clusters of share, mean of Psi_j and mean of x_k, if the two are independent inside each.
    `concatenate([features, CrossFeatures(features, ...)])` computes the features once.

    Parameters
    ----------
    crossed : `FourierFeatures`, or an operator that maps rows first and takes such features of what that gives.
    bound : no value may be further than this from the center; one number, or one per value. Products are kept to 2^-31
        of it.
    center : subtracted from the values; one number per value.
    n_crossed : how many of the features, the first ones, are multiplied by values; None for all.
    values : which columns of the rows they are multiplied by, as numbers from 0; None for all.
    outside : "refuse" rows with a value beyond its bound, or "clip" such values to it, as private releases need.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> waves = skl.features.FourierFeatures(3, 100, law=skl.features.frequencies.Gaussian(1.0))
    >>> crosses = skl.features.CrossFeatures(waves, bound=10.0, n_crossed=20, values=[2])
    >>> both = skl.features.concatenate([waves, crosses])
    >>> of_waves, of_products = both.split(both.sketch(np.eye(3)))
    >>> of_products.operator.split(of_products.mean).shape
    (20, 1)
    """

    _: KW_ONLY
    n_crossed: int | None = None  # type: ignore[misc]
    values: tuple[int, ...] | None = None  # type: ignore[misc]

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.values is not None:
            self._set(values=check_column_numbers("values", self.values, self.n_features))
        if self.n_crossed is not None:
            self._set(n_crossed=whole("n_crossed", self.n_crossed, most=self.waves.n_frequencies))
        self._set(bound=self._box.bound, center=self._box.center)
        if self.n_sums > MOST_SUMS:
            raise ValueError(f"{self.n_sums:,} products are too many: cross fewer features with n_crossed")

    @property
    def n_sums(self) -> int:
        return self.waves.wave.parts * self.n_frequencies * self.n_values

    @property
    def largest_contribution(self) -> int:
        return -(-self.waves.wave.largest_contribution * FIXED_POINT // self.waves.wave.unit)

    @property
    def in_words(self) -> str:
        return f"{self.n_frequencies:,} features times {self.n_values:,} columns, of {self.crossed.in_words}"

    def add_remove_sensitivity(self) -> Sensitivity:
        waves = self.waves
        one = waves.wave.add_remove_sensitivity()
        touched = min(waves.subsample or waves.n_frequencies, self.n_frequencies)
        unit, n = FIXED_POINT / waves.wave.unit, touched * waves.wave.parts * self.n_values
        l1 = unit * one.l1 * touched * self.n_values + 0.5 * n
        l2 = unit * math.sqrt(one.l2_squared * touched * self.n_values) + 0.5 * math.sqrt(n)
        return Sensitivity.of_norms(l1, l2, n=n, largest=self.largest_contribution)

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
        return self.add_with_features(rows, weights, threads, None, sums)

    def add_with_features(
        self, rows: Rows, weights: Weights, threads: int, of_features: Integers | None, sums: Integers
    ) -> int:
        step = max(1, INTEGERS_AT_A_TIME // (self.waves.wave.parts * self.n_frequencies))
        for first in range(0, len(rows), step):
            some, own = rows[first : first + step], None if weights is None else weights[first : first + step]
            integers, bad = self._integers_of(some, threads, own, of_features)
            outcomes = (bad, add_crosses(*self._crossed(some, integers), own, threads, sums))
            if max(outcomes) >= 0:
                return first + first_bad(*outcomes)
        return -1

    def device_plan(self, owner: Device) -> CrossPlan | None:
        writer, box = self.crossed.feature_writer(owner, self.n_frequencies), self._box
        if writer is None:
            return None
        return CrossPlan(writer, FACTOR_UNIT / self.waves.wave.unit, box.middle, np.array(box.bound), self.values)

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        products = np.zeros((len(rows), self.n_sums), np.int64)
        integers, bad = self._integers_of(rows, threads)
        outcomes = (bad, write_crosses(*self._crossed(rows, integers), threads, products))
        return products, first_bad(*outcomes)

    def _crossed(self, rows: Rows, integers: NDArray[np.int32]) -> tuple[str, Any, float, Any, Any, Any]:
        """What the kernel multiplies."""
        values, box = self._box.within(self._values_of(rows)), self._box
        return kernel.active, integers, FACTOR_UNIT / self.waves.wave.unit, values, box.middle, np.array(box.bound)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        wave, before = self.waves.wave, sums.shape[:-1]
        values = sums.reshape(*before, wave.parts, self.n_frequencies, self.n_values)
        products = values[..., 0, :, :] + 1j * values[..., 1, :, :] if wave.complex else values[..., 0, :, :]
        factors = self.waves.feature_weights[: self.n_frequencies] * (self.waves.n_groups / FIXED_POINT)
        means = products * (factors[:, None] * np.array(self.bound))
        return np.asarray(means.reshape(*before, self.n_frequencies * self.n_values))

    def split(self, values: NDArray[Any]) -> NDArray[Any]:
        """The mean of each feature times each value less its center, (n_frequencies, n_values), of a mean vector."""
        return values.reshape(self.n_frequencies, self.n_values)


def _waves(features: Operator) -> FourierFeatures | None:
    while isinstance(features, Mapped) and not features.inner_is_drawn:
        features = features.inner
    return features if isinstance(features, FourierFeatures) else None


def _alone(features: Operator) -> Operator:
    """The features without what a design notes beside them, which is not compared."""
    features = features.without_keeping()
    if not isinstance(features, FourierFeatures) or (features.outline is None and features.units is None):
        return features
    return replace(features, outline=None, units=None).with_origin(features.origin)


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
    >>> waves = skl.features.FourierFeatures(2, 10, law=skl.features.frequencies.Gaussian(1.0))
    >>> operator = skl.features.FeatureMoments(skl.features.SomeColumns(waves, 3, which=[0, 1]), bound=5.0)
    >>> means, products = operator.split(operator.sketch(np.eye(3)).mean)
    >>> means.shape, products.shape, bool(abs(products[0, 0] + products[10, 10] - 1) < 1e-5)
    ((23,), (23, 23), True)
    """

    abilities = frozenset({Ability.KERNEL_REGRESSIONS})
    _words = "second moments of features and {0.n_values:,} columns together; features: {0.crossed.in_words}"
    #: how many features come before the columns
    n_waves = of("waves.n_sums")

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.waves.subsample is not None or self.waves.law.weighted:
            raise ValueError("crossed must be Fourier features without subsample, of a distribution without weights")
        self._set(bound=self._box.bound, center=self._box.center)
        width = self.n_waves + self.n_values
        if width * (width + 3) // 2 > MOST_SUMS:
            raise ValueError(f"the products of {width:,} features and columns are too many: take fewer frequencies")

    @cached_property
    def inner(self) -> SecondMoments:
        """The operator of features and columns side by side."""
        bound = (self.waves.wave.moment_bound,) * self.n_waves + self.bound
        center = None if self.center is None else (0.0,) * self.n_waves + self.center
        return SecondMoments(len(bound), bound=bound, center=center)

    @property
    def own_cost(self) -> Cost:
        return Cost.of_numbers(self.n_waves + self.n_values, bytes_each=100, operations_each=700)  # of `inner`

    def mapped(self, rows: Rows, threads: int) -> Double:
        """The features of each row, and its columns; those beyond their bounds are clipped, if they are to be."""
        integers, bad = self._integers_of(rows, threads)
        found = np.empty((len(rows), self.inner.n_features))
        np.multiply(integers, 1 / self.waves.wave.unit, out=found[:, : self.n_waves])
        found[:, self.n_waves :] = self._box.within(rows)
        if bad >= 0:
            found[bad:] = np.nan  # refused there: a value too far for a phase
        return found

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
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

    def split(self, values: Double) -> tuple[Double, Double]:
        """The mean of features and columns less their center, and the matrix of mean products, of a mean vector."""
        return self.inner.split(values)
