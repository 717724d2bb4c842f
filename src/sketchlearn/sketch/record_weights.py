"""How many records of equal weight those of a sketch are worth.

Whole weights are repetitions: a row of weight 3 is three records. Fractions are those of surveys and the like: a row of
weight w is one record that counts w times, and n records with such weights are worth (sum w)^2 / sum w^2 of equal
weight (Kish 1965).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from sketchlearn.rows.weights import WEIGHT_BITS

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from sketchlearn.sketch.sums import Sketch


FEWEST_ROWS = 100  # From fewer rows, a mean of weights is not known well enough.


def heaviest_record(sketch: Sketch) -> int:
    """The most that one record counts."""
    return sketch.heaviest * (sketch.batches.largest if sketch.ledger is None else 1)


def drawn_weights(sketch: Sketch) -> NDArray[np.float64] | None:
    """How much one record like each kept row weighs; None where the kept rows do not tell.

    Equal records are one row there: how many they were is not known, but one weighs as much as the heaviest at most.
    """
    kept = sketch.kept
    if kept is None or not (len(kept) >= FEWEST_ROWS or (kept.complete and len(kept))):
        return None
    if sketch.bits == 0:
        return np.ones(len(kept))
    return np.minimum(kept.units / 2.0**WEIGHT_BITS, float(heaviest_record(sketch)))


def distinct_records(sketch: Sketch) -> float:
    """How many distinct records of equal weight the sketch is worth, as far as its kept rows tell.

    Equal records contribute to the same frequencies under `subsample`, so that their errors do not average out. It is
    (sum c)^2 / sum c^2 over the distinct records, of weights c.

    >>> import sketchlearn as skl
    >>> rows = np.random.default_rng(0).integers(5, size=(10_000, 2)).astype(float)
    >>> operator = skl.design(rows, n_components=1, rows=500)
    >>> round(distinct_records(operator.sketch(rows)))
    25
    """
    kept, count = sketch.kept, float(sketch.count)
    if kept is None or not (len(kept) >= FEWEST_ROWS or (kept.complete and len(kept))):
        return effective_records(sketch) or count
    return count / float(kept.weights(count) @ (kept.units / 2.0**WEIGHT_BITS))


def effective_records(sketch: Sketch) -> float | None:
    """How many records of equal weight the sketch is worth; None where weights are fractions that no kept rows tell.

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
