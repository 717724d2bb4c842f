"""Operators whose rows have a declared bound: rows outside are refused, or moved onto it."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators.operator_base import REMEDY, Centred
from sketchlearn.values import shortened

REFUSE, CLIP = "refuse", "clip"
Double = NDArray[np.float64]


class Bounded(Centred):
    """An operator with a bound. What becomes of a row outside it depends on that row alone."""

    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "outside": REFUSE}
    outside: str

    @abstractmethod
    def _is_outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        """Which rows the kernel would refuse for the bound's sake."""

    @abstractmethod
    def _moved(self, rows: Double) -> Double:
        """Rows outside the bound, moved onto it but for rounding."""

    @property
    def tells_by_refusing(self) -> bool:
        return self.outside == REFUSE

    def beyond(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        if self.outside == REFUSE:
            return super().beyond(rows)
        with np.errstate(all="ignore"):
            return np.asarray(self._is_outside(rows) & np.all(np.isfinite(rows), axis=1))

    def within(self, rows: NDArray[Any]) -> NDArray[Any]:
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


class Boxed(Bounded):
    """An operator with a bound of each column's distance from the center."""

    bound: tuple[float, ...]

    def _is_outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
        return np.asarray(np.any(np.abs(rows.astype(np.float64) - self.middle) > np.array(self.bound), axis=1))

    def _moved(self, rows: Double) -> Double:
        center, bound = self.middle, np.array(self.bound)
        moved = np.clip(rows, center - bound, center + bound)
        # center + bound rounds, perhaps to beyond the bound
        return np.where(np.abs(moved - center) > bound, np.nextafter(moved, center), moved)

    def explain_refusal(self, row: Double) -> str:
        column = int(np.argmax(np.abs(row - self.middle) / np.array(self.bound)))
        return f"column {column} is {float(row[column])!r}, beyond the bound {self.bound[column]!r}: {REMEDY}"


def check_outside(outside: Any) -> str:
    """What becomes of rows outside a bound."""
    if not isinstance(outside, str) or outside not in (REFUSE, CLIP):
        raise ValueError(f"outside must be 'refuse' or 'clip', not {shortened(outside)}")
    return outside
