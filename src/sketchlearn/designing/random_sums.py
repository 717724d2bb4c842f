"""Operators for wide rows of which only bounds are known: waves of random sums, and those times all columns."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from sketchlearn.designing import frequency_laws as laws
from sketchlearn.designing.cluster_operators import Asked, in_bounds
from sketchlearn.designing.private_budget import Budget
from sketchlearn.frequencies import LogUniform
from sketchlearn.models import Double
from sketchlearn.operators import CrossFeatures, FourierFeatures, Operator, SomeDirections, concatenate
from sketchlearn.operators.bounded_operators import CLIP
from sketchlearn.operators.cell_numbers import packed
from sketchlearn.operators.directed import DIRECTION_BITS, PLACE_BITS, VALUE_BITS
from sketchlearn.randomness import Stream

N_DIRECTIONS = 16
DEVIATIONS_IN_RANGE = 4.0  # of a random sum: one of ten thousand rows in the corners of the bounds lies beyond
CROSSED_PER_CLUSTER, LEAST_CROSSED = 20, 200  # frequencies times all columns; half as many had 1.045, not 1.03
MOST_CROSSED_BYTES = 1.5e6
CROSSED_LENGTHS = (2.0, 64.0)  # of those frequencies, times half the width of the range of a sum
SUMS_SHARE = 0.65  # of a private release's budget, beside frequencies times columns


def sums_in_bounds(
    asked: Asked, low: Double, high: Double, budget: Budget | None, n_directions: int | None
) -> Operator:
    """Frequencies of random sums of all columns, as for rows of so few columns, and some of them times all columns.

    Each sum is of all columns, every one with a sign drawn by chance: distances between rows stay what they were, up to
    chance (Johnson and Lindenstrauss), so that clusters show in some tens of sums, though nothing is known of them.
    """
    d, p, bound = len(low), n_directions or N_DIRECTIONS, (high - low) / 2
    signs = Stream(asked.seed, "directions").signs(p * d).reshape(p, d)
    relative = bound / np.max(bound)
    widest = DEVIATIONS_IN_RANGE * float(np.sqrt(np.sum(relative**2))) * 2.0 ** (VALUE_BITS + DIRECTION_BITS)
    shift = max(0, math.ceil(math.log2(widest)) - PLACE_BITS)
    reach = np.full(p, widest * 2.0**-shift)
    box = {"bound": laws.plain(bound), "center": laws.plain((low + high) / 2), "outside": CLIP}
    given = {"n_directions": p, "directions": packed(np.rint(2**DIRECTION_BITS * signs * relative), "<i2")}

    def of_sums(operator: Operator) -> SomeDirections:
        return SomeDirections(d, inner_operator=operator, shift=shift, **given, **box)  # type: ignore[arg-type]

    left = None if budget is None else replace(budget, epsilon=SUMS_SHARE * budget.epsilon)
    inner = in_bounds(asked, -reach, reach, left)
    wanted = max(CROSSED_PER_CLUSTER * asked.n_components, LEAST_CROSSED)
    m = max(asked.n_components, min(wanted, int(MOST_CROSSED_BYTES / (16 * d))))
    law = LogUniform(*(float(reach[0]) * math.sqrt(p) / length for length in reversed(CROSSED_LENGTHS)))
    waves = of_sums(FourierFeatures(p, m, law=law, seed=asked.seed))
    return concatenate([*map(of_sums, inner.side_by_side), CrossFeatures(waves, **box)])  # type: ignore[arg-type]
