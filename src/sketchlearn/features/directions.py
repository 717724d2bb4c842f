"""Operators of projections onto a few directions."""

from __future__ import annotations

import base64
import contextlib
import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Rows
from sketchlearn.core.limits import Cost
from sketchlearn.core.messages import counted
from sketchlearn.core.values import whole
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import CLIP, REFUSE, VALUE_BITS, Boxed
from sketchlearn.features.composed import Selecting
from sketchlearn.features.operator import LEADING_COLUMN, Operator
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import Directions, directions

MOST_DIRECTIONS, MOST_CELLS = 256, 2**16


def checked_covariances(text: Any, n_cells: int, n_directions: int) -> tuple[Double, Double]:
    """The counts and matrices that a text holds."""
    numbers = unpacked("covariances", text, "<f4", n_cells * (1 + n_directions * (n_directions + 1) // 2))
    n = (math.isqrt(8 * (len(numbers) // n_cells) - 7) - 1) // 2 if len(numbers) > n_cells else 0
    width = 1 + n * (n + 1) // 2
    if not 0 < n <= n_directions or len(numbers) != n_cells * width or not np.all(np.isfinite(numbers)):
        raise ValueError("covariances must be a count and the lower triangle of a matrix for each cell")
    table, (i, j) = numbers.reshape(n_cells, width).astype(np.float64), np.tril_indices(n)
    matrices = np.zeros((n_cells, n, n))
    matrices[:, i, j] = matrices[:, j, i] = table[:, 1:]
    if np.any(table[:, 0] < 0) or np.any(np.diagonal(matrices, axis1=1, axis2=2) < 0):
        raise ValueError("covariances must have no negative count or variance")
    return table[:, 0], matrices


def packed(numbers: NDArray[Any], kind: str) -> str:
    """Numbers as text: base 64 of their bytes, of a kind such as "<i2".

    >>> unpacked("cells", packed(np.array([[1, -2]]), "<i4"), "<i4", None)
    array([ 1, -2], dtype=int32)
    """
    return base64.b64encode(np.ascontiguousarray(numbers).astype(kind).tobytes()).decode()


def unpacked(name: str, text: Any, kind: str, most: int | None) -> NDArray[Any]:
    """The numbers that `packed` wrote, `most` of them at most."""
    size, data = np.dtype(kind).itemsize, b""
    longest = 4 * size * (MOST_CELLS * MOST_DIRECTIONS if most is None else most + 2)
    if isinstance(text, str) and len(text) <= longest:
        with contextlib.suppress(ValueError):
            data = base64.b64decode(text, validate=True)
    if not data or len(data) % size:
        raise ValueError(f"{name} must be whole numbers of {8 * size} bits, in base 64")
    return np.frombuffer(data, kind)


def unpacked_rows(name: str, text: Any, width: int) -> NDArray[np.float32]:
    """Rows of float32 numbers that `packed` wrote."""
    numbers = unpacked(name, text, "<f4", None)
    if len(numbers) % width:
        raise ValueError(f"{name} must be rows of {width} numbers")
    return numbers.reshape(-1, width)


DIRECTION_BITS, PLACE_BITS, MOST_SHIFT = 14, 20, 52


class Directed(Boxed):
    """A boxed operator that projects rows onto a few directions."""

    n_directions: int
    directions: str
    shift: int
    normalize: bool = False

    def _check_directions(self) -> NDArray[Any]:
        """The directions, (n_directions, n_features), checked."""
        d, p = self.n_features, whole("n_directions", self.n_directions, most=MOST_DIRECTIONS)
        directions = unpacked("directions", self.directions, "<i2", p * d)
        if len(directions) != p * d or np.max(np.abs(directions)) > 2**DIRECTION_BITS:
            raise ValueError(f"directions must be {p} x {d} whole numbers up to {2**DIRECTION_BITS:,}")
        self._check_factors()
        self._set(n_directions=p, shift=whole("shift", self.shift, 0, MOST_SHIFT))
        return directions.reshape(p, d)

    @cached_property
    def _matrix(self) -> Double:
        found = unpacked("directions", self.directions, "<i2", None).astype(np.float64)
        return np.ascontiguousarray(found.reshape(self.n_directions, self.n_features).T)

    @property
    def projection(self) -> Double:
        """The directions (n_directions, n_features), in steps of places, for rows less the center."""
        factors = 2.0 ** (VALUE_BITS - self.shift) / np.array(self.bound)
        return np.asarray(self._matrix.T * factors)

    @cached_property
    def _directions(self) -> Directions:
        """The directions as native kernels take them."""
        box, unit = (self.middle, np.array(self.bound)), 2.0**-self.shift
        return directions(kernel.active, *box, self._matrix, unit, self.normalize, self.outside != CLIP)

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        if not len(rows):
            return np.zeros(0, bool)
        with np.errstate(all="ignore"):
            reach = np.maximum(rows.max(axis=0) - self.middle, self.middle - rows.min(axis=0))
        if np.all(reach <= np.array(self.bound)):
            return np.zeros(len(rows), bool)
        return super().beyond(rows)


@dataclass(frozen=True)
class SomeDirections(Selecting, Directed):
    """Phi(x) = Psi(y), y = D (x - center): what an operator Psi makes of a row's places in a few directions.

    Places are whole numbers up to 2^20, so that they are the same everywhere. Of rows with hundreds of columns,
    `SketchClassifier` sketches these; `design(task="moments", features=skl.features.Moments(32))` makes one, too.

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
    >>> operator = skl.design(rows, task="moments", features=skl.features.Moments(2))
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
        inner = self._checked_inner()
        if inner.n_features != self.n_directions or inner.columns is not None:
            raise ValueError(f"inner_operator must take {self.n_directions} columns without names, one per direction")
        self._set(inner_operator=inner)
        self.check_depth()

    def mapped(self, rows: Rows, threads: int) -> Double:
        """The places of rows, (rows, n_directions); not finite where a row is refused."""
        places = np.empty((len(rows), self.n_directions))
        self._directions.places(rows, threads, places)
        return places

    @property
    def in_words(self) -> str:
        return f"in {counted(self.n_directions, 'direction')} of {self.n_features:,} columns: {self.inner.in_words}"

    @property
    def abilities(self) -> frozenset[Ability]:  # type: ignore[override]
        """Those of what is known of places: distributions are compared there, and all else is in units of places."""
        return self.inner.abilities & {Ability.COMPARISONS}

    def with_inner(self, inner: Operator) -> Self:
        """The same directions, with another operator of places."""
        return replace(self, inner_operator=inner).with_origin(self.origin.worse(inner.origin))

    @property
    def data_dependent_errors(self) -> bool:
        return self.outside == REFUSE or self.inner.data_dependent_errors

    def explain_refusal(self, row: Double) -> str:
        places = self.mapped(row[None], 1)
        if not np.all(np.isfinite(places)):
            return super().explain_refusal(row)
        said = self.inner.explain_refusal(places[0])
        return LEADING_COLUMN.sub(lambda found: f"direction {found[1]}", said)

    @property
    def own_cost(self) -> Cost:
        return Cost.of_numbers(len(self.directions), operations_each=10)
