"""Effective sample size: how many records of equal weight those of a sketch are worth.

Whole weights are repetitions: a row of weight 3 is three records. Fractions are those of surveys and the like: a row of
weight w is one record that counts w times, and n records with such weights are worth (sum w)^2 / sum w^2 of equal
weight (Kish 1965).
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketchlearn.rows.weights import WEIGHT_BITS
from sketchlearn.sketch.priority_sample import KeptRows
from sketchlearn.sketch.sums import Sketch, heaviest_record

FEWEST_ROWS = 100  # From fewer rows, a mean of weights is not known well enough.


def _large_sample(sketch: Sketch) -> KeptRows | None:
    """The priority sample, if it is large enough to estimate means of weights."""
    kept = sketch.kept
    return kept if kept is not None and len(kept) and (kept.complete or len(kept) >= FEWEST_ROWS) else None


def drawn_weights(sketch: Sketch) -> NDArray[np.float64] | None:
    """The weight of one record like each sampled row; None where the priority sample is too small.

    Equal records are one row there: how many they were is not known, but one weighs as much as the heaviest at most.
    """
    kept = _large_sample(sketch)
    if kept is None:
        return None
    if sketch.bits == 0:
        return np.ones(len(kept))
    return np.minimum(kept.units / 2.0**WEIGHT_BITS, float(heaviest_record(sketch)))


def distinct_records(sketch: Sketch) -> float:
    """How many distinct records of equal weight the sketch is worth, by its priority sample if that is large enough.

    Equal records contribute to the same frequencies under `subsample`, so that their errors do not average out. It is
    (sum c)^2 / sum c^2 over the distinct records, of weights c.

    >>> import sketchlearn as skl
    >>> rows = np.random.default_rng(0).integers(5, size=(10_000, 2)).astype(float)
    >>> operator = skl.design(rows, n_components=1, rows=500)
    >>> round(distinct_records(operator.sketch(rows)))
    25
    """
    kept, count = _large_sample(sketch), float(sketch.count)
    if kept is None:
        return effective_records(sketch) or count
    return count / float(kept.weights(count) @ (kept.units / 2.0**WEIGHT_BITS))


def effective_records(sketch: Sketch) -> float | None:
    """How many records of equal weight the sketch is worth; None where weights are fractions and there is no sample.

    >>> import sketchlearn as skl
    >>> rows = np.random.default_rng(0).standard_normal((200, 2))
    >>> operator = skl.design(rows, n_components=1, rows=500)
    >>> sketches = [operator.sketch(rows, sample_weight=w) for w in (None, np.full(200, 3), np.full(200, 0.5))]
    >>> [round(effective_records(sketch)) for sketch in sketches]
    [200, 600, 200]
    """
    count = float(sketch.count)
    if sketch.bits == 0 or not count:
        return count
    drawn = drawn_weights(sketch)
    if drawn is None or sketch.kept is None:
        return None
    return count / float(sketch.kept.weights(count) @ drawn)
