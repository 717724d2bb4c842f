"""Operators whose rows have a declared bound: rows outside are refused, or moved onto it."""

from __future__ import annotations

import contextlib
import numbers
from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Single, Weights
from sketchlearn.core.errors import either
from sketchlearn.core.values import choice, listed, positive, shortened, whole
from sketchlearn.features.operator import MOST_FEATURES, Operator
from sketchlearn.rows.schemas.table_schema import Schema, SchemaColumns
from sketchlearn.sketch.priority_sample import check_keeping


def larger_bound() -> str:
    """What to do about a row beyond the bound."""
    return either(
        "declare a larger bound (estimators take bounds=(lowest, highest) of the columns)",
        "use sketchlearn design with wider --bounds",
    )


def check_columns(columns: Any, n_features: int) -> tuple[str, ...] | None:
    """The columns' names, if there are as many as columns, all different."""
    if columns is None:
        return None
    names = SchemaColumns(columns) if isinstance(columns, Schema) else columns
    names = names if isinstance(names, SchemaColumns) else listed(names)
    if len(names) != n_features or not all(isinstance(name, str) for name in names) or len(set(names)) != len(names):
        raise ValueError(f"columns must be {n_features} different names, not {shortened(columns)}")
    return names


def check_column_numbers(name: str, numbers_of: Any, n_features: int) -> tuple[int, ...]:
    """Numbers of columns, from 0, at least one and all different."""
    found = tuple(whole(name, k, 0, n_features - 1) for k in listed(numbers_of))
    if not found or len(set(found)) < len(found):
        raise ValueError(f"{name} must be different numbers of columns, not {shortened(numbers_of)}")
    return found


def check_center(center: Any, n_features: int, dtype: Any) -> tuple[float, ...] | None:
    """A center as n_features finite numbers of this precision, or None for the origin."""
    if center is None:
        return None
    as_list = isinstance(center, tuple | list)
    fits = not as_list or len(center) == n_features  # before an array is made of what a file has
    kinds = set(map(type, center)) if as_list and fits else set()
    # an array of words would have room for the longest in each place
    if fits and all(issubclass(kind, numbers.Real) for kind in kinds) and not isinstance(center, np.ma.MaskedArray):
        with contextlib.suppress(TypeError, ValueError), np.errstate(all="ignore"):
            values = np.asarray(center)
            if values.dtype.kind in "fiu" and values.shape == (n_features,):
                values = values.astype(dtype).astype(np.float64) + 0.0  # equal centers have equal bytes: no -0.0
                if np.all(np.isfinite(values)):
                    return tuple(values.tolist()) if np.any(values) else None
    raise ValueError(f"center must be {n_features} finite numbers")


class Centred(Operator):
    """An operator that first subtracts a center from each row."""

    center: tuple[float, ...] | None
    _center_type: ClassVar[type] = np.float64

    def __post_init__(self) -> None:
        n_features = whole("n_features", self.n_features, most=MOST_FEATURES)
        center = check_center(self.center, n_features, self._center_type)
        check_keeping(self.keeping, n_features)
        self._set(n_features=n_features, center=center, columns=check_columns(self.columns, n_features))

    @property
    def middle(self) -> Double:
        """What is subtracted from each row."""
        return np.zeros(self.n_features) if self.center is None else np.array(self.center)


REFUSE, CLIP = "refuse", "clip"
VALUE_BITS = 22  # of a value within the bound, in kernels of cells, directions and mixtures
FIXED_POINT = 2**30  # One unit of a feature, in the integers of a sketch of a boxed operator.
LARGEST_BOUND = 1e150  # Products of two larger values could overflow.
SMALLEST_BOUND = 1e-300  # Factors of 2^22 over smaller bounds could overflow.
SMALLEST_SINGLE_BOUND = 1e-30  # The same in float32, and one over the largest bound.
FEATURES_PER_BLOCK = 1 << 18  # Features that are computed at a time, so that memory use does not grow with the rows.


class Bounded(Centred):
    """An operator with a bound. What becomes of a row outside it depends on that row alone."""

    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "outside": REFUSE}
    outside: str

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("outside", self.outside, REFUSE, CLIP)

    @abstractmethod
    def _is_outside(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows the kernel would refuse for the bound's sake."""

    @abstractmethod
    def _moved(self, rows: Double) -> Double:
        """Rows outside the bound, moved onto it but for rounding."""

    @property
    def data_dependent_errors(self) -> bool:
        return self.outside == REFUSE

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        if self.outside == REFUSE:
            return super().beyond(rows)
        with np.errstate(all="ignore"):
            return np.asarray(self._is_outside(rows) & np.all(np.isfinite(rows), axis=1))

    def within(self, rows: Rows) -> NDArray[Any]:
        """The rows, those outside moved onto the bound; values that are not finite stay, to be refused."""
        far = self.beyond(rows)
        if not far.any():
            return rows
        rows = rows.astype(np.float64)
        with np.errstate(all="ignore"):
            moved = self._moved(rows[far])
            # a center so far away that float64 has no number near the bound
            moved[self._is_outside(moved)] = self.middle
        rows[far] = moved
        return rows


@dataclass(frozen=True)
class Boxed(Bounded):
    """An operator with a bound of each column's distance from the center."""

    largest_contribution = FIXED_POINT
    n_features: int
    _: KW_ONLY
    bound: tuple[float, ...]
    center: tuple[float, ...] | None = None
    outside: str = REFUSE
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        table = np.asarray(self.bound, object)
        given = [table.item()] * self.n_features if table.ndim == 0 else table.tolist()
        if len(given) != self.n_features:  # before the numbers, of which a file may hold millions
            raise ValueError(f"bound must be one positive number, or one for each of the {self.n_features} columns")
        bounds = tuple(positive("bound", b) for b in given)
        if max(bounds) > LARGEST_BOUND:
            raise ValueError(f"bound {max(bounds)!r}: products of two values would overflow. Rescale the data")
        self._set(bound=bounds)

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        if not isinstance(fields.get("bound", ()), tuple):
            raise ValueError("bound must be a list of numbers, one per column")  # one would stand for thousands
        return super()._build(fields)

    @property
    def _single_scale(self) -> Single:
        """What columns are multiplied by, less the center, in kernels of float32."""
        return (2.0**VALUE_BITS / np.array(self.bound)).astype(np.float32)

    def _check_factors(self) -> None:
        if min(self.bound) < SMALLEST_BOUND:
            raise ValueError(f"bound {min(self.bound)!r} is too small to divide by: rescale the data")

    def _check_single_bounds(self) -> None:
        for bound in (min(self.bound), max(self.bound)):
            if not SMALLEST_SINGLE_BOUND <= bound <= 1 / SMALLEST_SINGLE_BOUND:
                raise ValueError(f"bound {bound!r} is beyond what float32 can divide by: rescale the data")

    def _is_outside(self, rows: Rows) -> NDArray[np.bool_]:
        return np.asarray(np.any(np.abs(rows.astype(np.float64) - self.middle) > np.array(self.bound), axis=1))

    def _moved(self, rows: Double) -> Double:
        center, bound = self.middle, np.array(self.bound)
        moved = np.clip(rows, center - bound, center + bound)
        # center + bound rounds, perhaps to beyond the bound
        return np.where(np.abs(moved - center) > bound, np.nextafter(moved, center), moved)

    def explain_refusal(self, row: Double) -> str:
        column = int(np.argmax(np.abs(row - self.middle) / np.array(self.bound)))
        return f"column {column} is {float(row[column])!r}, beyond the bound {self.bound[column]!r}: {larger_bound()}"


class Blockwise(Boxed):
    """A boxed operator whose features NumPy computes, a block of rows at a time."""

    @abstractmethod
    def _write_features(self, away: Double, features: Double) -> None:
        """Writes the features (n_sums, rows), before rounding, of rows less the center (n_features, rows)."""

    def _blocks(self, rows: Rows) -> Iterator[tuple[slice, Double, int]]:
        """Blocks of rows, their integers as floats of shape (n_sums, rows), and the first row to refuse, or -1."""
        step = max(1, FEATURES_PER_BLOCK // self.n_sums)
        for first in range(0, len(rows), step):
            block = slice(first, first + step)
            away = np.ascontiguousarray((self.within(rows[block]).astype(np.float64) - self.middle).T)
            features = np.zeros((self.n_sums, away.shape[1]))
            bad = ~np.all(np.abs(away) <= np.array(self.bound)[:, None], axis=0)
            if not np.any(bad):
                self._write_features(away, features)
            yield block, np.rint(features, out=features), first + int(np.argmax(bad)) if np.any(bad) else -1

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:  # noqa: ARG002
        added = np.zeros_like(sums)
        for block, features, bad in self._blocks(rows):
            if bad >= 0:
                return bad
            if weights is None:
                added += features.sum(axis=1).astype(np.int64)  # integers below 2^53: exact in any order
            else:
                added += features.astype(np.int64) @ weights[block]
        sums += added
        return -1

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:  # noqa: ARG002
        integers = np.zeros((len(rows), self.n_sums), np.int64)
        for block, features, bad in self._blocks(rows):
            if bad >= 0:
                return integers, bad
            integers[block] = features.T
        return integers, -1
