"""A mean over all sketched rows from the sketch alone, where a density explains it.

With rows drawn from the density p in place of sketched ones, R = E_p (f - a . phi) + a . z. What the functions phi do
not tell of f, rest = f - a . phi, has the variance Var_p(rest) / n over the n rows; and p itself, which was fitted to
the sketch, is wrong by as much at most: the efficient estimate of E_p rest varies no more than its mean over rows.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sketchlearn.models import Double, Mixture
from sketchlearn.uncertainty.error_bars import RowMean
from sketchlearn.uncertainty.known_means import KnownMeans
from sketchlearn.uncertainty.mean_over_rows import MOST_DEVIATIONS, regressed

RECORDS_PER_PARAMETER = (
    10  # With fewer, any density explains a sketch, and none is known (breast cancer: 0.25 covered).
)
REGRESSED_ROWS, AVERAGED_ROWS, ROWS_AT_A_TIME = 4096, 60_000, 4096


def mean_of_density(
    known: KnownMeans,
    density: Mixture,
    function: Callable[[Double], Double],
    count: float,
    noise_ratio: float,
    rng: np.random.Generator,
) -> RowMean | None:
    """The mean of a function over `count` records of which the density explains the sketch; None if it cannot be had.

    `noise_ratio` is how much larger than sampling noise all noise of the sketch's values is.
    """
    k, d = density.locations.shape
    if count < RECORDS_PER_PARAMETER * k * (2 * d + 1):
        return None
    rows = density.sample(REGRESSED_ROWS, rng)[0]
    equal = np.full(len(rows), 1 / len(rows))
    a = regressed(known.features(rows), known.values, function(rows), equal**2, equal, known).slope
    n, left, left_square = 0, 0.0, 0.0
    sums, squares = np.zeros((2, len(a)))
    while n < AVERAGED_ROWS:
        rows = density.sample(ROWS_AT_A_TIME, rng)[0]
        features = known.features(rows)
        rest = function(rows) - features @ a
        n, left, left_square = n + len(rows), left + float(rest.sum()), left_square + float(rest @ rest)
        sums, squares = sums + features.sum(axis=0), squares + np.sum(features**2, axis=0)
    spread = 1 / n + (1 + noise_ratio) / count
    means, first = sums / n, len(known.waves.values)
    variances = (np.maximum(squares / n - means**2, 0) * spread)[first:]
    if np.any((known.values - means)[first:] ** 2 > MOST_DEVIATIONS**2 * (variances + known.noise[first:]) + 1e-18):
        return None  # the density has other columns than the sketch's histograms
    variance = max(left_square / n - (left / n) ** 2, 0.0) * spread + known.noise_along(a)
    return RowMean(left / n + float(a @ known.values), float(np.sqrt(variance)))
