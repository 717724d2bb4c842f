"""How far values lie from a center: bounds for operators whose fixed point needs them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.operators import SecondMoments, VeroneseMoments
from sketchlearn.operators.origin import Origin
from sketchlearn.sources import Source

Double = NDArray[np.float64]

#: how many times as far as the rows of a sample others may lie: of one from all over, and of a stream's first rows
FROM_ALL_OVER, OF_STREAM = 8.0, 32.0
ROUNDING_ROOM = 1 + 1e-12  # the kernel's own rounding


def second_moments(
    rows: NDArray[Any],
    columns: tuple[str, ...] | None = None,
    *,
    everything: Source | None = None,
    bounds: Any = None,
    representative: bool = True,
) -> SecondMoments:
    """Second moments of rows such as these, within a range as `box` finds it.

    >>> second_moments(np.empty((0, 2)), bounds=(0, 10)).center
    (5.0, 5.0)
    """
    center, reach = box(rows, everything, bounds, representative=representative)
    moments = SecondMoments(rows.shape[1], bound=tuple(reach.tolist()), center=tuple(center.tolist()), columns=columns)
    return moments.with_origin(origin_of(bounds))


def fourth_moments(
    rows: NDArray[Any],
    columns: tuple[str, ...] | None = None,
    *,
    everything: Source | None = None,
    bounds: Any = None,
    representative: bool = True,
) -> VeroneseMoments:
    """Moments of order 4 about the origin: as far from it as declared, as seen in all rows, or with some room.

    >>> fourth_moments(np.empty((0, 2)), bounds=(-1, 10)).bound
    (10.0..., 10.0...)
    """
    if bounds is not None:
        low, high = (np.broadcast_to(bound, rows.shape[1:]) for bound in _declared(bounds, rows.shape[1]))
        reach = np.maximum(np.abs(low), np.abs(high)) * ROUNDING_ROOM
    elif not len(rows):
        raise ValueError("there are no rows to tell how far values lie: give rows, or bounds")
    else:
        blocks = [rows] if everything is None else (block.rows for block in everything.blocks())
        reach = np.max([np.max(np.abs(block), axis=0, initial=0.0) for block in blocks], axis=0).astype(np.float64)
        # products of four spread far: more room would cost precision
        reach = _positive(
            reach * (ROUNDING_ROOM if everything is not None else np.sqrt(room(representative))), np.zeros(1)
        )
    moments = VeroneseMoments(rows.shape[1], bound=tuple(reach.tolist()), columns=columns)
    return moments.with_origin(origin_of(bounds))


def origin_of(bounds: Any) -> Origin:
    """Where a range comes from that is as declared, if it is, or else as rows have it."""
    return Origin.SAMPLE if bounds is None else Origin.DECLARED


def box(rows: NDArray[Any], everything: Source | None, bounds: Any, *, representative: bool) -> tuple[Double, Double]:
    """A center per column, and how far from it values may lie: as declared, as seen in all rows, or with much room.

    >>> center, reach = box(np.array([[1.0], [3.0]]), None, None, representative=False)
    >>> center.tolist(), reach.tolist()
    ([2.0], [32.0])
    """
    if bounds is not None:
        low, high = (np.broadcast_to(bound, rows.shape[1:]) for bound in _declared(bounds, rows.shape[1]))
        return (low + high) / 2, (high - low) / 2 * ROUNDING_ROOM
    if not len(rows):
        raise ValueError("there are no rows to tell how far values lie: give rows, or bounds")
    center = rows.mean(axis=0, dtype=np.float64)
    if everything is not None:
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        for block in everything.blocks():
            low, high = np.minimum(low, block.rows.min(axis=0)), np.maximum(high, block.rows.max(axis=0))
        return center, _positive(np.maximum(high - center, center - low) * ROUNDING_ROOM, center)
    return center, _positive(room(representative) * np.max(np.abs(rows - center), axis=0), center)


def radius(rows: NDArray[Any], everything: Source | None, center: Double, *, representative: bool) -> float:
    """How far from the center whole rows may lie: lengths of many columns vary less than values, and need less room."""
    blocks = [rows] if everything is None else (block.rows for block in everything.blocks())
    squares = (np.max(np.sum((block - center) ** 2, axis=1), initial=0.0) for block in blocks)
    longest = float(np.sqrt(max(squares))) or float(np.linalg.norm(center)) or 1.0
    if everything is not None:
        return longest * (1 + 1e-5)  # rows are rounded to float32
    return longest * np.sqrt(room(representative))


def room(representative: bool) -> float:
    """How many times as far from the center as the rows of a sample others may lie."""
    return FROM_ALL_OVER if representative else OF_STREAM


def _declared(bounds: Any, n_features: int) -> tuple[Double, Double]:
    low, high = checked_bounds(bounds)
    if len(low) not in (1, n_features):
        raise ValueError(f"bounds must be one pair, or as many as the {n_features} columns, not {len(low)}")
    return low, high


def _positive(reach: Double, center: Double) -> Double:
    """Columns that never change are given a reach of their own size."""
    return np.where(reach > 0, reach, np.where(center == 0, 1.0, np.abs(center)))


def checked_bounds(bounds: Any) -> tuple[Double, Double]:
    """Lowest and highest values of columns, as arrays of equal length."""
    message = "bounds must be the lowest and the highest value of each column, finite, the lowest below the highest"
    try:
        lowest, highest = bounds
        low, high = np.broadcast_arrays(*(np.atleast_1d(np.asarray(b, np.float64)) for b in (lowest, highest)))
    except (TypeError, ValueError):
        raise ValueError(message) from None
    if low.ndim != 1 or not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise ValueError(message)
    return low, high
