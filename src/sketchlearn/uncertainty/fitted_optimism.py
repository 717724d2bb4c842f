"""How much better rows look under a model that was fitted to them: measured by leaving out a part of them at a time.

With the rest of the rows, calibrated to the sketch as all of them are, the model is fitted again from where it is; the
part left out is then worse off by D. If e is the excess of the model over the best one, rows that were fitted look
better by 2e, and a model of (K - 1) / K of the rows has the excess e K / (K - 1): D is 2e + e / (K - 1).
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sketchlearn.models import Double
from sketchlearn.sketch import Sketch
from sketchlearn.uncertainty.mean_over_rows import DrawnRows
from sketchlearn.weighting.calibrated_rows import calibrated
from sketchlearn.weighting.weighted_rows import WeightedRows

#: of the rows, each left out once: with five, the inertia of one Gaussian (k = 3) was too low by 0.7 of its errors
PARTS = 2

#: from weighted rows to a function that gives each row's value under the model fitted to those
Refit = Callable[[WeightedRows], Callable[[Double], Double]]


def fitted_optimism(sketch: Sketch, drawn: DrawnRows, refit: Refit, rng: np.random.Generator) -> Double:
    """By how much each row's value would change, had the model not been fitted to it; rows that are certain stay."""
    there, plain = drawn.open, drawn.copies / drawn.chances
    openness = None if sketch.kept is None or drawn.given else sketch.kept.openness
    parts = np.where(there, rng.permutation(len(plain)) % PARTS, -1)
    samples = [_without(drawn, plain, openness, np.ones(len(plain), bool))]
    samples += [_without(drawn, plain, openness, parts != part) for part in range(PARTS)]
    whole, *others = calibrated(sketch, samples, rng)
    before, changes = refit(whole)(drawn.rows), np.zeros(len(plain))
    for part, sample in enumerate(others):
        own = parts == part
        if np.any(own):
            changes[own] = refit(sample)(drawn.rows[own]) - before[own]
    return changes * 2 / (2 + 1 / (PARTS - 1))


def _without(drawn: DrawnRows, plain: Double, openness: Double | None, left: np.ndarray) -> WeightedRows:
    """The rows that are left, of which those that chance decided on stand for the others, too."""
    there = drawn.open
    share = plain[there].sum() / max(float(plain[there & left].sum()), 1e-300)
    weights = np.where(there, plain * share, plain)[left]
    return WeightedRows(
        drawn.rows[left],
        weights / weights.sum(),
        drawn.copies[left],
        None if openness is None else openness[left],
    )
