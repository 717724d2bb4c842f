"""Errors of whatever is computed from mean features: small random changes of the means, and what they lead to."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sketchlearn.models import Double
from sketchlearn.uncertainty.sampled_rows import SampledRows

DRAWS = 400  # The errors' own error is then 3.5 %.
STEP = 0.01  # of changes as large as those of sampling: what is computed is linear so near


def errors_by_draws(
    mean: Double, features: Double, sample: SampledRows, computed: Callable[[Double], Double], rng: np.random.Generator
) -> Double:
    """One standard deviation, by sampling, of what is computed from mean features, given the features of sampled rows.

    Means move by sum_i g_i sqrt(shares_i) (features of row i - mean features), with g standard normal: their covariance
    is then that of sampling, for any law.
    """
    draws = rng.standard_normal((DRAWS, len(features))) * np.sqrt(sample.shares)
    start = computed(mean)
    moves = [(computed(mean + STEP * change) - start) / STEP for change in draws @ (features - mean)]
    return np.asarray(np.sqrt(np.mean(np.square(moves), axis=0)))
