"""Rows to learn from beside a sketch: those that it keeps, or those that are given with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from sketchlearn.ledger import Ledger
from sketchlearn.models import Double
from sketchlearn.operators import FourierFeatures
from sketchlearn.sketch import Sketch
from sketchlearn.sources import WEIGHT_BITS, source
from sketchlearn.values import truth
from sketchlearn.weighting.clusters_of_rows import RowSample
from sketchlearn.weighting.weighted_rows import WeightedRows


def kept_rows(sketch: Sketch) -> RowSample | None:
    """The rows that a sketch keeps, if it does; rows too far for a phase, which sums can bear, are refused."""
    operator: Any = sketch.operator
    kept = sketch.kept
    if kept is None or len(kept) == 0:
        return None
    for waves in (part for part in operator.side_by_side if isinstance(part, FourierFeatures)):
        for row in kept.rows[waves.beyond(kept.rows)]:
            raise ValueError(f"of a row that is kept, {waves.with_names(waves.explain_refusal(row))}")
    copies = kept.units / 2.0**WEIGHT_BITS
    rows = WeightedRows(kept.rows, kept.weights(float(sketch.count)), copies, kept.openness)
    return RowSample(rows, error_units(sketch.operator), kept.complete, kept.chances_of)


def check_public_rows(ledger: Ledger | None, assume_public_sample: bool) -> None:
    """Refuses rows beside a private release, unless the caller says that they are public."""
    if not truth("assume_public_sample", assume_public_sample) and ledger is not None:
        raise ValueError(
            "rows beside a private release are not protected by its noise, and what is learned from both tells about "
            "them: leave them out or, if these rows are public, say assume_public_sample=True"
        )


def given_rows(sketch: Sketch, sample: Any, assume_public_sample: bool) -> RowSample:
    """Rows that were given to learn from beside a sketch; those beside a private release must be public."""
    check_public_rows(sketch.ledger, assume_public_sample)
    operator: Any = sketch.operator
    rows = source(sample)
    rows = rows if operator.columns is None else rows.only(operator.columns, any_order=True)
    blocks = [block.rows.astype(np.float64) for block in rows.blocks(operator.n_features)]
    if not blocks or not sum(map(len, blocks)):
        raise ValueError("the sample has no rows: give some, or leave it out")
    given = np.concatenate(blocks)
    if not np.all(np.isfinite(given)):
        raise ValueError("the sample has missing or infinite values: fill or drop them first")
    return RowSample(WeightedRows.of(given), error_units(operator))


def error_units(operator: Any) -> Double:
    """The units in which squared errors of the columns count."""
    return np.ones(operator.n_features) if operator.error_units is None else np.array(operator.error_units)
