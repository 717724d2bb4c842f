"""Rows that a sketch keeps as a sample of the law, and how many independent rows its records count as."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from sketchlearn.models import Double
from sketchlearn.operators.bounded_operators import Bounded
from sketchlearn.record_weights import heaviest_record
from sketchlearn.sketch import Sketch
from sketchlearn.sources import WEIGHT_BITS

FEWEST_ROWS = 100  # From fewer rows a variance is known to no better than 14 %.


@dataclass(frozen=True)
class SampledRows:
    """Kept rows, from which the variance of any mean over the records follows, whatever their law.

    The mean of a function f of the records that is 0 on average has the variance sum_i shares_i f(row_i)^2: a row of
    weight w is one draw that counts w times, so that squares of weights are in the shares.

    Attributes
    ----------
    rows : array (rows, columns).
    shares : array (rows,).
    parts : array (rows,), of all records' weight that which one draw like the row has.
    """

    rows: Double
    shares: Double
    parts: Double

    @classmethod
    def of(cls, sketch: Sketch) -> SampledRows | None:
        """The rows that a sketch keeps, within its bounds; None if it keeps none, or too few of its records."""
        kept, count = sketch.kept, float(sketch.count)
        if kept is None or not (len(kept) >= FEWEST_ROWS or (kept.complete and len(kept))):
            return None
        # equal records are one row here: how many draws of which weight they were is known if all weigh 1, and bounded
        # by the largest weight otherwise
        most = float(heaviest_record(sketch))
        drawn = np.minimum(kept.units / 2.0**WEIGHT_BITS, most) if is_weighted(sketch) else np.ones(len(kept))
        operator: Any = sketch.operator
        bounded = operator.part(Bounded)
        rows = kept.rows if bounded is None else bounded.within(kept.rows)
        return cls(rows, kept.weights(count) * drawn / count, drawn / count)

    def variances(self, functions: Double) -> Double:
        """Variances of the means of functions, whose values at the rows are given (rows, ...)."""
        return np.asarray(np.tensordot(self.shares, functions**2, axes=1))


def is_weighted(sketch: Sketch) -> bool:
    """Whether some records count more, or less, than once."""
    return sketch.bits > 0 or heaviest_record(sketch) > 1


def least_rows(sketch: Sketch) -> float:
    """How many independent rows of equal weight the records are worth, at least: (sum w)^2 / sum w^2."""
    return float(sketch.count) / heaviest_record(sketch)
