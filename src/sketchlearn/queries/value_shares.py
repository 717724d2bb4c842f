"""Shares of the records that have a level of a category, a flag, or no value: numbers that are 0 or one other value."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from sketchlearn.models import Double
from sketchlearn.operators import FourierFeatures
from sketchlearn.sketch import Sketch

ROUNDING = 1e-9  # Shares whose sum is nearer to what it should be are exact.


class Share(NamedTuple):
    """A share of the records, its error, and whether it is a count of them; None if the sketch has no counts."""

    value: float
    error: float
    exact: bool | None = None


def shares_of_levels(values: Double, room: float = 1.0) -> tuple[Double, float]:
    """Shares of levels that exclude each other, and how far they were from filling their room, which each may be off.

    None is below 0. Where they are more than the room together, which cannot be, all are made smaller alike. Where they
    are less, nobody knows which of them are too small, and they stay.

    >>> shares_of_levels(np.array([0.99, 0.04, -0.01]))[0].round(3).tolist(), shares_of_levels(np.array([0.5, 0.2]))[0]
    ([0.961, 0.039, 0.0], array([0.5, 0.2]))
    >>> [round(shares_of_levels(np.array(values))[1], 2) for values in ([0.99, 0.04], [0.5, 0.2], [0.25, 0.75])]
    [0.03, 0.3, 0.0]
    """
    shares = np.maximum(values, 0.0)
    total = float(shares.sum())
    off = abs(total - room)
    if off < ROUNDING:
        return shares, 0.0
    return (shares * (room / total) if total > room else shares), min(off, 1.0)


def share_by_features(
    sketch: Sketch, operator: FourierFeatures, position: int, size: float, gaps: float = 0.0
) -> float | None:
    """The share p of records whose number at a position is `size`, where all others are 0, or half of it in gaps.

    The mean of each feature along the axis is p f(size) + gaps f(size / 2) + (1 - p - gaps) f(0), whatever the wave.
    None where no frequency is along the axis.

    >>> import sketchlearn as skl
    >>> rows = np.repeat([[0.0, 1.0], [2.0, 5.0]], [70, 30], axis=0)
    >>> operator = skl.design(rows, n_components=1).part(skl.FourierFeatures)
    >>> round(share_by_features(operator.sketch(rows), operator, 0, 2.0), 4)
    0.3
    """
    frequencies = operator.frequencies
    others = np.delete(frequencies, position, axis=0)
    along = np.flatnonzero(~np.any(others != 0, axis=0) & (frequencies[position] != 0))
    if not len(along) or operator.n_groups > 1:  # records contribute to some of the frequencies only
        return None
    rows = np.tile(operator.middle, (3, 1))
    rows[:, position] = 0.0, size / 2, size
    none, half, full = operator.features(rows)[:, along]
    left, step = sketch.mean[along] - gaps * half - (1 - gaps) * none, full - none
    square = float(np.real(np.vdot(step, step)))
    return float(np.clip(np.real(np.vdot(step, left)) / square, 0.0, 1.0)) if square > 0 else None
