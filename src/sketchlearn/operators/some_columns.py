"""Operators of some columns of rows that have more."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu import ColumnsPlan, Device, FeatureWriter
from sketchlearn.operators.column_checks import check_column_numbers, check_columns
from sketchlearn.operators.composed_operators import Composed, Mapped
from sketchlearn.operators.operator_base import LEADING_COLUMN, MOST_FEATURES, Double, Integers, Kind, Operator
from sketchlearn.sketch import Sketch
from sketchlearn.values import shortened, whole


@dataclass(frozen=True)
class SomeColumns(Composed, Mapped):
    """Phi(x) = Psi(x_S): what an operator Psi makes of some columns of a row.

    Clusters or mixtures of these columns are learned from its sketch as from that of Psi; what stands beside it in one
    pass, such as `CrossFeatures` of it, may look at the other columns.

    Parameters
    ----------
    inner_operator : the operator of the chosen columns.
    n_features : number of columns of the data.
    which : the chosen columns, as numbers from 0, in the inner operator's order.
    columns : names of all columns, for tables that have names; the inner operator then has those of the chosen ones.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> waves = skl.FourierFeatures(2, 50, law=skl.frequencies.Gaussian(1.0))
    >>> some, rows = skl.SomeColumns(waves, 4, which=[2, 0]), np.eye(4)
    >>> bool(np.all(some.sketch(rows).sums == waves.sketch(rows[:, [2, 0]]).sums))
    True
    """

    _omitted: ClassVar[dict[str, Any]] = {"columns": None}
    _has_numbers = False
    inner_operator: Operator
    n_features: int
    _: KW_ONLY
    which: tuple[int, ...]
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.inner_operator, Operator):
            raise ValueError(f"inner_operator must be an operator, not {shortened(self.inner_operator)}")
        inner, n_features = (
            self.inner_operator.without_keeping(),
            whole("n_features", self.n_features, most=MOST_FEATURES),
        )
        which = check_column_numbers("which", self.which, n_features)
        if len(which) != inner.n_features:
            raise ValueError(f"which must be {inner.n_features} columns, as many as the operator takes")
        columns = check_columns(self.columns, n_features)
        chosen = None if columns is None else tuple(columns[k] for k in which)
        if inner.columns != chosen:
            inner = inner.with_columns(chosen)
        self._set(inner_operator=inner, n_features=n_features, which=which, columns=columns)
        self._set(inner_operator=inner.with_worse_origin(self))  # which has names of a schema, perhaps
        self.check_depth()

    @property
    def inner(self) -> Operator:
        return self.inner_operator

    def mapped(self, rows: NDArray[Any], threads: int) -> NDArray[Any]:  # noqa: ARG002
        """The chosen columns."""
        return rows[:, self.which]

    def device_plan(self, owner: Device) -> ColumnsPlan | None:
        inner = self.inner.device_plan(owner)
        return None if inner is None else ColumnsPlan(owner, self.which, inner)

    def feature_writer(self, owner: Device, n: int | None = None) -> FeatureWriter | None:
        inner = self.inner.feature_writer(owner, n)
        return None if inner is None else inner.of_columns(self.which)

    @property
    def in_words(self) -> str:
        return f"of {len(self.which):,} of {self.n_features:,} columns: {self.inner.in_words}"

    def part(self, kind: type[Kind]) -> Kind | None:
        return super().part(kind) or self.inner.part(kind)

    def leaves(self, sketch: Sketch) -> list[Sketch]:
        return self.inner.leaves(self.inner_sketch(sketch))

    @property
    def tells_by_refusing(self) -> bool:
        return self.inner.tells_by_refusing

    def add_counted(
        self, rows: NDArray[Any], weights: Integers | None, threads: int, sums: Integers
    ) -> tuple[int, int]:
        return self.inner.add_counted(self.mapped(rows, threads), weights, threads, sums)

    @property
    def packed_bits(self) -> int | None:
        return self.inner.packed_bits

    def beyond(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        return self.inner.beyond(self.mapped(rows, 1))

    def warn_of_noise(self, rows: NDArray[Any]) -> None:
        self.inner.warn_of_noise(self.mapped(rows, 1))

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        return self.inner.why_impossible(sums, units)

    def explain_refusal(self, row: Double) -> str:
        said = self.inner.explain_refusal(row[list(self.which)])
        return LEADING_COLUMN.sub(lambda found: f"column {self.which[int(found[1])]}", said)

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        operator = super()._build(fields)
        if operator.inner.columns != fields["inner_operator"].columns:  # nothing is renamed while a file is read
            raise ValueError("SomeColumns: its inner operator must have the names of the chosen columns")
        return operator
