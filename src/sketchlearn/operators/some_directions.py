"""Operators of where rows lie in a few directions."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.cost import Cost
from sketchlearn.operators.bounded_operators import CLIP
from sketchlearn.operators.composed_operators import Composed, Mapped
from sketchlearn.operators.directed import Directed
from sketchlearn.operators.operator_base import LEADING_COLUMN, Double, Integers, Operator
from sketchlearn.values import shortened


@dataclass(frozen=True)
class SomeDirections(Composed, Mapped, Directed):
    """Phi(x) = Psi(y), y = D (x - center): what an operator Psi makes of a row's places in a few directions.

    Places are whole numbers up to 2^20, so that they are the same everywhere. Of rows with hundreds of columns,
    `SketchClassifier` sketches these; `design(task="moments", n_directions=32)` makes one, too.

    Parameters
    ----------
    n_features : number d of columns of the data.
    inner_operator : the operator Psi of places.
    n_directions : number p of directions.
    directions : whole numbers, p rows of d, as those of `CellSums`.
    shift : sums of whole numbers are divided by 2^shift before they are rounded to places.
    bound, center, outside, columns : as those of `SecondMoments`; values beyond the bound are clipped by default.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = np.repeat(np.eye(100)[:3], 4, axis=0)
    >>> operator = skl.design(rows, task="moments", n_directions=2)
    >>> operator.in_words
    'in 2 directions of 100 columns: means and second moments of 2 columns'
    >>> operator.sketch(rows).sums.shape
    (5,)
    """

    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "outside": CLIP}
    inner_operator: Operator = field(kw_only=True)
    n_directions: int = field(kw_only=True)
    directions: str = field(kw_only=True)
    shift: int = field(kw_only=True)
    outside: str = field(default=CLIP, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        self._check_directions()
        if not isinstance(self.inner_operator, Operator):
            raise ValueError(f"inner_operator must be an operator, not {shortened(self.inner_operator)}")
        if self.inner_operator.n_features != self.n_directions or self.inner_operator.columns is not None:
            raise ValueError(f"inner_operator must take {self.n_directions} columns without names, one per direction")
        self._set(inner_operator=self.inner_operator.without_keeping())
        self.check_depth()

    @property
    def inner(self) -> Operator:
        return self.inner_operator

    def mapped(self, rows: NDArray[Any], threads: int) -> Double:
        """The places of rows, (rows, n_directions); not finite where a row is refused."""
        places = np.empty((len(rows), self.n_directions))
        self._directions.places(rows, threads, places)
        return places

    @property
    def in_words(self) -> str:
        directions = f"{self.n_directions} direction" + ("s" if self.n_directions > 1 else "")
        return f"in {directions} of {self.n_features:,} columns: {self.inner.in_words}"

    def with_inner(self, inner: Operator) -> Self:
        """The same directions, with another operator of places."""
        return replace(self, inner_operator=inner).with_origin(self.origin.worse(inner.origin))

    @property
    def tells_by_refusing(self) -> bool:
        return super().tells_by_refusing or self.inner.tells_by_refusing

    def warn_of_noise(self, rows: NDArray[Any]) -> None:
        self.inner.warn_of_noise(self.mapped(rows, 1))

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        return self.inner.why_impossible(sums, units)

    def explain_refusal(self, row: Double) -> str:
        places = self.mapped(row[None], 1)
        if not np.all(np.isfinite(places)):
            return super().explain_refusal(row)
        said = self.inner.explain_refusal(places[0])
        return LEADING_COLUMN.sub(lambda found: f"direction {found[1]}", said)

    @property
    def own_cost(self) -> Cost:
        return Cost.of_numbers(len(self.directions), operations_each=10)
