"""The standard sketch: cells and, beside them, what answers other questions about all columns."""

from __future__ import annotations

from sketchlearn.estimators.design.cells import WIDE, moments_in_directions
from sketchlearn.estimators.design.fourier import BINS, MOST_COLUMNS_COUNTED, Asked, bins_of_rows, on_sample
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, Sampled
from sketchlearn.features.composed import concatenate
from sketchlearn.features.operator import Operator
from sketchlearn.features.waves import wave_from

N_DIRECTIONS, N_FREQUENCIES = 16, 256


def with_standard_parts(cells: Operator, sampled: Sampled, n_components: int, seed: int) -> Operator:
    """Cells beside histograms of all columns, for marginal distributions, and frequencies, for comparisons.

    Frequencies of more than 64 columns are in principal directions. Histograms of more than 256 columns would be larger
    than all else, and are left out.
    """
    sampled = sampled.doubles(MOST_ROWS)
    (rows, from_all_over, columns), parts = sampled, [cells]
    if (d := rows.shape[1]) <= MOST_COLUMNS_COUNTED:
        parts.append(bins_of_rows(rows, BINS, representative=from_all_over, columns=columns))
    asked = Asked(n_components, "mixture", wave_from("exponential"), N_FREQUENCIES, seed)
    if d > WIDE:
        directed = moments_in_directions(sampled, N_DIRECTIONS, seed)
        places = sampled._replace(rows=directed.mapped(rows, 1), columns=None)
        waves: Operator = directed.with_inner(on_sample(asked, places, standardize=False, n_kept=None))
    else:
        waves = on_sample(asked, sampled, standardize=False, n_kept=None)
    return concatenate([*parts, waves])
