"""The standard sketch: cells and, beside them, what answers other questions about all columns."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.design.cells import WIDE, moments_in_directions
from sketchlearn.estimators.design.frequencies import BINS, MOST_COLUMNS_COUNTED, Asked, bins_of_rows, on_sample
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, thinned
from sketchlearn.features.composed import concatenate
from sketchlearn.features.operator import Operator
from sketchlearn.features.waves import wave_from

N_DIRECTIONS, N_FREQUENCIES = 16, 256


def with_standard_parts(cells: Operator, sampled: DesignSample, n_components: int, seed: int) -> Operator:
    """Cells beside histograms of all columns, for marginal distributions, and frequencies, for comparisons.

    Frequencies of more than 64 columns are in principal directions. Histograms of more than 256 columns would be larger
    than all else, and are left out.
    """
    rows, parts = thinned(sampled.rows, MOST_ROWS).astype(np.float64, copy=False), [cells]
    sampled = replace(sampled, rows=rows)
    if (d := rows.shape[1]) <= MOST_COLUMNS_COUNTED:
        parts.append(bins_of_rows(rows, BINS, representative=sampled.representative, columns=sampled.columns))
    asked = Asked(n_components, "mixture", wave_from("exponential"), N_FREQUENCIES, seed)
    if d > WIDE:
        directed = moments_in_directions(sampled, N_DIRECTIONS, seed)
        places = replace(sampled, rows=directed.mapped(rows, 1), columns=None)
        waves: Operator = directed.with_inner(on_sample(asked, places))
    else:
        waves = on_sample(asked, sampled)
    return concatenate([*parts, waves])
