"""The range of values around a center: bounds for the fixed point of operators."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import either
from sketchlearn.core.messages import in_digits
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.design.frequencies import plain
from sketchlearn.estimators.design.sample_summary import deviations, room
from sketchlearn.features.moments import SecondMoments, VeroneseMoments
from sketchlearn.features.operator import Kind
from sketchlearn.features.provenance import Origin
from sketchlearn.kernels.dispatch import column_range
from sketchlearn.rows.source_base import Source
from sketchlearn.sketch.priority_sample import Keeping

#: Sizes of the priority sample for standard errors, whose own error is then 1 % to 4 %.
KEPT_ROWS, FEWEST_KEPT_ROWS, MOST_KEPT_NUMBERS = 4000, 500, 2**20
ROUNDING_ROOM = 1 + 1e-12  # The kernel rounds, too.


def second_moments(design_sample: DesignSample, bounds: Any = None) -> SecondMoments:
    """Second moments of rows such as these, with the range of `box`.

    >>> second_moments(DesignSample(np.empty((0, 2)), False, None), bounds=(0, 10)).center
    (5.0, 5.0)
    """
    center, reach = box(design_sample, bounds)
    moments = SecondMoments(len(center), bound=plain(reach), center=plain(center), columns=design_sample.columns)
    return moments.with_origin(origin_of(bounds))


def keeping_rows(operator: Kind, design_sample: DesignSample, size: int | None = None) -> Kind:
    """The operator with a priority sample of rows, from which standard errors are estimated.

    >>> rows = np.random.default_rng(0).standard_normal((100, 3))
    >>> design_sample = DesignSample(rows, True, None)
    >>> keeping_rows(second_moments(design_sample), design_sample).keeping.size
    4000
    """
    rows = design_sample.rows.astype(np.float64)
    if not len(rows):
        return operator
    most = size or int(np.clip(MOST_KEPT_NUMBERS // rows.shape[1], FEWEST_KEPT_ROWS, KEPT_ROWS))
    return operator.with_keeping(Keeping.designed(rows, most, deviations(rows), 0))


def fourth_moments(design_sample: DesignSample, bounds: Any = None) -> VeroneseMoments:
    """Moments of order 4 about the origin, with the range as declared, as in all rows, or with some room.

    >>> fourth_moments(DesignSample(np.empty((0, 2)), False, None), bounds=(-1, 10)).bound
    (10.0..., 10.0...)
    """
    d = design_sample.rows.shape[1]
    if bounds is not None:
        reach = np.max(np.abs(_declared(bounds, d)), axis=0) * ROUNDING_ROOM
    else:
        extremes = [np.max(np.abs(block), axis=0, initial=0.0) for block in _blocks(design_sample)]
        # Products of four spread far: more room would cost precision.
        factor = ROUNDING_ROOM if design_sample.everything is not None else np.sqrt(room(design_sample))
        reach = _positive(np.max(extremes, axis=0).astype(np.float64) * factor, np.zeros(1))
    return VeroneseMoments(d, bound=plain(reach), columns=design_sample.columns).with_origin(origin_of(bounds))


def origin_of(bounds: Any) -> Origin:
    """The provenance of a range: declared, or read from rows."""
    return Origin.SAMPLE if bounds is None else Origin.DECLARED


def box(design_sample: DesignSample, bounds: Any, middle: Sequence[int] = ()) -> tuple[Double, Double]:
    """A center per column, and how far from it values may lie: as declared, as in all rows, or with much room.

    With all rows at hand, the center is the mean of a sample; for the columns `middle`, it is that of the range.

    >>> center, reach = box(DesignSample(np.array([[1.0], [3.0]]), False, None), None)
    >>> center.tolist(), reach.tolist()
    ([2.0], [32.0])
    """
    rows = design_sample.rows
    if bounds is not None:
        low, high = _declared(bounds, rows.shape[1])
        return (low + high) / 2, (high - low) / 2 * ROUNDING_ROOM
    _check_rows(design_sample)
    center = rows.mean(axis=0, dtype=np.float64)
    if design_sample.everything is not None:
        low, high = np.hstack([extremes(part) for part in design_sample.everything.side_by_side()])
        at = list(middle)
        center[at] = (low[at] + high[at]) / 2
        return center, _positive(np.maximum(high - center, center - low) * ROUNDING_ROOM, center)
    return center, _positive(room(design_sample) * np.max(np.abs(rows - center), axis=0), center)


def radius(design_sample: DesignSample, center: Double) -> float:
    """How far from the center whole rows may lie: lengths vary less than values, and need less room."""
    squares = (np.max(np.sum((block - center) ** 2, axis=1), initial=0.0) for block in _blocks(design_sample))
    longest = float(np.sqrt(max(squares))) or float(np.linalg.norm(center)) or 1.0
    if design_sample.everything is not None:
        return longest * (1 + 1e-5)  # Rows are rounded to float32.
    return longest * np.sqrt(room(design_sample))


def _blocks(design_sample: DesignSample) -> Iterator[NDArray[Any]]:
    _check_rows(design_sample)
    everything = design_sample.everything
    return iter([design_sample.rows]) if everything is None else (block.rows for block in everything.blocks())


def _check_rows(design_sample: DesignSample) -> None:
    if not len(design_sample.rows):
        raise ValueError("there are no rows to determine the range of values: give rows, or bounds")


def extremes(rows: Source) -> Double:
    """The lowest and the highest value of each column, (2, columns).

    >>> from sketchlearn.rows.source import source
    >>> extremes(source([[1.0, 5.0], [3.0, -2.0]])).tolist()
    [[1.0, -2.0], [3.0, 5.0]]
    """
    found = [column_range(block.rows, None) for block in rows.blocks()]
    return np.array([np.min([low for low, _ in found], axis=0), np.max([high for _, high in found], axis=0)])


def _declared(bounds: Any, n_features: int) -> tuple[Double, Double]:
    low, high = checked_bounds(bounds)
    if len(low) not in (1, n_features):
        raise ValueError(f"bounds must be one pair, or one for each of the {n_features} columns, not {len(low)}")
    return np.broadcast_to(low, n_features), np.broadcast_to(high, n_features)


def _positive(reach: Double, center: Double) -> Double:
    """The reach; for constant columns, the size of their value."""
    return np.where(reach > 0, reach, np.where(center == 0, 1.0, np.abs(center)))


def _pairs_instead(bounds: Any) -> str:
    """Advice for bounds that are a pair for each column.

    >>> _pairs_instead([(17, 42), (0, 23), (9, 20)])
    '. If these are a pair for each column, write ([17, 0, 9], [42, 23, 20])'
    >>> _pairs_instead(([0.0, 1.0], [1.0, 1.0])), _pairs_instead(3.0)
    ('', '')
    """
    try:
        pairs = np.asarray(bounds, np.float64)
    except (TypeError, ValueError):
        return ""
    if pairs.ndim != 2 or pairs.shape[1] != 2 or not np.all(pairs[:, 0] < pairs[:, 1]):
        return ""
    lows, highs = (f"[{', '.join(in_digits(end, 15).replace(',', '') for end in ends)}]" for ends in pairs.T)
    return f". If these are a pair for each column, write ({lows}, {highs})"


def checked_bounds(bounds: Any) -> tuple[Double, Double]:
    """Lowest and highest values of columns, as arrays of equal length."""
    message = either(
        "bounds must be two lists, (lows, highs): the lowest value of each column, then the highest of each; "
        f"all finite, each lowest below its highest{_pairs_instead(bounds)}",
        "--bounds must be LOW,HIGH for all columns, or LOW,HIGH;LOW,HIGH;... for each: finite, each LOW below its HIGH",
    )
    try:
        lowest, highest = (np.atleast_1d(np.asarray(bound, np.float64)) for bound in bounds)
        low, high = np.broadcast_arrays(lowest, highest)
    except (TypeError, ValueError):
        raise ValueError(message) from None
    if low.ndim != 1 or not np.all(np.isfinite(low) & np.isfinite(high) & (low < high)):
        raise ValueError(message)
    return low, high
