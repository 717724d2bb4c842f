"""Errors of what was learned from kept rows that were calibrated to a sketch, whatever the law of the records.

A parameter that solves an equation of means over records moves by the mean of an influence psi(x). Its error has two
parts: the records are a sample of a law, and the kept rows one of the records. Of the second part, calibration leaves
what the sketch's features do not tell of psi, the residuals e of a regression (Deville and Sarndal 1992). With w the
weights of kept rows, and chances p of being kept,

    variance = sum of w psi^2 / n + sum of (1 - p) (w e)^2.

What was learned from sums over all records, at a pilot, has the first part alone.
Where records have weights v that are fractions, as those of surveys, the first part is sum of w v psi^2 / sum of v.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.keeping import KeptRows
from sketchlearn.models import Double
from sketchlearn.record_weights import drawn_weights
from sketchlearn.sketch import Sketch
from sketchlearn.uncertainty.sketch_influence import UndeterminedError, independent_records
from sketchlearn.weighting.calibrated_rows import calibrated, left_to_chance
from sketchlearn.weighting.weighted_rows import WeightedRows

PARAMETERS_PER_BLOCK = 512

NO_ROWS = (
    "the result is that of rows which were given beside the sketch, and of those it is not known how they were chosen: "
    "keep rows in the sketch, with design(..., rows=500)"
)


@dataclass(frozen=True)
class StandingRows:
    """Kept rows of a sketch, with the weights under which they stand for all records."""

    sketch: Sketch
    kept: KeptRows
    drawn: WeightedRows  # with the weights that they were kept with
    rows: WeightedRows  # with calibrated ones
    decided: bool  # whether what was learned is theirs, and not that of all records

    @classmethod
    def of(cls, sketch: Sketch, rng: np.random.Generator, *, decided: bool = True) -> StandingRows:
        """Those of a sketch that keeps rows."""
        kept = sketch.kept
        if kept is None or not len(kept):
            raise UndeterminedError(NO_ROWS)
        drawn = WeightedRows(kept.rows, kept.weights(float(sketch.count)), None, kept.openness)
        decided = decided and not kept.complete
        return cls(sketch, kept, drawn, calibrated(sketch, [drawn], rng)[0] if decided else drawn, decided)

    def errors(self, influence: Callable[[slice], Double], n: int, rng: np.random.Generator) -> Double:
        """Standard errors of n parameters; `influence` of some of them is an array (rows, parameters)."""
        found = []
        for first in range(0, n, PARAMETERS_PER_BLOCK):
            found.append(self._variances(influence(slice(first, min(first + PARAMETERS_PER_BLOCK, n))), rng))
        return np.sqrt(np.concatenate(found))

    def _variances(self, values: Double, rng: np.random.Generator) -> Double:
        weights = self.rows.weights
        values = values - weights @ values
        drawn = drawn_weights(self.sketch)
        if self.sketch.bits and drawn is not None and self.sketch.unit is None:
            sampling = (weights * drawn) @ values**2 / float(self.sketch.count)
        else:
            sampling = weights @ values**2 / independent_records(self.sketch)
        if not self.decided:
            return np.asarray(sampling)
        left, noise = left_to_chance(self.sketch, replace(self.drawn, weights=weights), values, rng)
        return np.asarray(sampling + noise + ((1 - self.kept.chances) * weights**2) @ left**2)
