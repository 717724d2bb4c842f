"""Operators of where rows lie in a few directions of a sample."""

from __future__ import annotations

import numpy as np

from sketchlearn.designing import frequency_laws as laws
from sketchlearn.designing.cell_operators import (
    REACH_FACTOR,
    STREAM_REACH_FACTOR,
    CellsAsked,
    principal_directions,
    whole_directions,
)
from sketchlearn.designing.sample_summary import MOST_ROWS, Sampled, thinned
from sketchlearn.models import Double, Single
from sketchlearn.operators import SecondMoments, SomeDirections
from sketchlearn.operators.bounded_operators import CLIP
from sketchlearn.operators.cell_numbers import packed
from sketchlearn.operators.directed import PLACE_BITS

MOST_UNEVEN = 64.0  # The widest direction keeps 8 bits of its numbers.


def moments_in_directions(sampled: Sampled, n_directions: int, seed: int) -> SomeDirections:
    """Second moments in so many principal directions of a sample."""
    rows = thinned(sampled.rows, MOST_ROWS)
    asked = CellsAsked(1, n_directions, normalize=False, columns_squared=False, seed=seed)
    around = (rows - rows.mean(axis=0)).astype(np.float32)
    directions, _ = principal_directions(around, asked, np.random.default_rng(seed))
    return in_directions(sampled, directions, np.ones(rows.shape[1]))


def in_directions(sampled: Sampled, directions: Single, units: Double) -> SomeDirections:
    """Second moments of places in these directions (p, d), of rows like a sample's, less its mean, in units."""
    rows, (p, d) = sampled.rows, directions.shape
    center = rows.mean(axis=0).astype(np.float32).astype(np.float64)
    seen = (rows - center) / units
    reach = REACH_FACTOR if sampled.from_all_over else STREAM_REACH_FACTOR
    bound = reach * (float(np.max(np.abs(seen))) or 1.0)
    farthest = np.max(np.abs(seen @ directions.T), axis=0)
    # Places have one range in all directions, so that fixed point, and the noise of a release, suit each.
    even = directions / np.maximum(farthest, max(float(farthest.max()), 1e-300) / MOST_UNEVEN)[:, None]
    scaled, shift, _ = whole_directions(even, bound, seen @ even.T)
    return SomeDirections(
        d,
        inner_operator=SecondMoments(p, bound=(2.0**PLACE_BITS,) * p, outside=CLIP),  # No place is outside.
        n_directions=p,
        directions=packed(scaled, "<i2"),
        shift=shift,
        bound=laws.plain(bound * units),
        center=laws.plain(center),
        columns=sampled.columns,
    )
