"""Operators for generators: frequencies of many lengths, as nobody says at which scale generated rows are looked at.

Of rows with many columns they are frequencies of a few directions of a sample. Beside them there are second moments of
more directions, and means and squares of all columns, for what those directions leave.
"""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.values import whole
from sketchlearn.estimators.design import frequencies as laws
from sketchlearn.estimators.design.cells import WIDE, CellsAsked, directions_for, in_directions, principal_directions
from sketchlearn.estimators.design.frequencies import AUTO
from sketchlearn.estimators.design.sample_summary import Sampled, deviations
from sketchlearn.features.bounded import CLIP
from sketchlearn.features.composed import concatenate
from sketchlearn.features.directions import MOST_DIRECTIONS, SomeDirections, packed, unpacked
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import LogUniform, Probed
from sketchlearn.features.moments import ColumnMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.waves import Wave

DETAIL = (0.3, 40.0)  # lengths of frequencies, per deviation of a column
DETAIL_IN_BOUNDS = (0.5, 64.0)  # per half the width of the bounds, which the records may fill or not
FREQUENCIES, FREQUENCIES_PER_COLUMN = 400, 100
DIRECTIONS = 16  # in which a network makes rows of many columns: docs/decisions/ has others beside it
MORE_DIRECTIONS = 64  # in all: places in the others are Gaussian, given those


def waves_in_bounds(low: Double, high: Double, n_frequencies: int | None, wave: Wave, seed: int) -> FourierFeatures:
    """Frequencies for rows within bounds."""
    reach = (high - low) / 2
    return _waves((low + high) / 2, reach, reach / 16, DETAIL_IN_BOUNDS, n_frequencies, wave, seed, None)


def on_sample(
    sampled: Sampled, n_directions: int | str | None, n_frequencies: int | None, wave: Wave, seed: int
) -> Operator:
    """Frequencies for rows like those of a sample; of some directions, if they are asked for or columns are many."""
    rows, units, d = sampled.rows, deviations(sampled.rows), sampled.rows.shape[1]
    wanted = directions_for(sampled.columns, n_directions, in_cells=False)
    if wanted is None or (wanted == AUTO and d <= WIDE):
        return _waves_on_sample(sampled, n_frequencies, wave, seed, units)
    p = DIRECTIONS if wanted == AUTO else whole("n_directions", wanted, most=min(d, MOST_DIRECTIONS))
    asked = CellsAsked(1, max(p, min(d, MORE_DIRECTIONS)), normalize=False, columns_squared=False, seed=seed)
    around = ((rows - rows.mean(axis=0)) / units).astype(np.float32)
    directions, _ = principal_directions(around, asked, np.random.default_rng(seed))
    p = min(p, len(directions))
    seen = in_directions(sampled, directions, units)
    places = Sampled(seen.mapped(rows, 1)[:, :p], sampled.from_all_over, None)
    waves = _waves_on_sample(places, n_frequencies, wave, seed, _units(seen, places, units))
    first = unpacked("directions", seen.directions, "<i2", None)[: p * d]
    few = replace(seen, inner_operator=waves, n_directions=p, directions=packed(first, "<i2"))
    columns = ColumnMoments(d, bound=seen.bound, center=seen.center, outside=CLIP, columns=sampled.columns)
    return concatenate([few, seen, columns])  # side by side: a private release then has noise for each


def _units(seen: SomeDirections, places: Sampled, units: Double) -> Double:
    """Geometric means of the deviation in each direction and one for all of them, in the steps of each.

    In deviations of their own, a dozen directions of noise hide what the others show; in one for all, frequencies do
    not tell how wide those of noise are.
    """
    steps = np.linalg.norm(seen.projection[: places.rows.shape[1]] * units, axis=1)
    own = deviations(places.rows)
    return np.sqrt(own * steps * math.sqrt(float(np.mean((own / steps) ** 2))))


def _waves_on_sample(
    sampled: Sampled, n_frequencies: int | None, wave: Wave, seed: int, units: Double
) -> FourierFeatures:
    rows, (coarse, fine) = sampled.rows, DETAIL
    if not sampled.from_all_over:
        coarse /= laws.STREAM_SPREAD_FACTOR
    return _waves(rows.mean(axis=0), units, units, (coarse, fine), n_frequencies, wave, seed, sampled.columns)


def _waves(
    center: Double,
    units: Double,
    least: Double,
    detail: tuple[float, float],
    n_frequencies: int | None,
    wave: Wave,
    seed: int,
    columns: tuple[str, ...] | None,
) -> FourierFeatures:
    """Lengths log-uniform within the detail."""
    d, (coarse, fine) = len(center), detail
    m = FREQUENCIES + FREQUENCIES_PER_COLUMN * d
    m = math.ceil(m * laws.times_as_many(wave)) if n_frequencies is None else whole("n_frequencies", n_frequencies)
    lengths = LogUniform(math.sqrt(d) / fine, math.sqrt(d) / coarse)
    law = Probed(lengths, units=laws.plain(units), spread=laws.plain(least), probes=())
    return FourierFeatures(d, m, law=law, wave=wave, center=laws.plain(center), seed=seed, columns=columns)
