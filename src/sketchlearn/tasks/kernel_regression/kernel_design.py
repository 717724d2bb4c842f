"""Random features for kernel regression: units of the columns and the kernel's width, as a sample tells them."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sketchlearn.designing.frequency_laws import plain
from sketchlearn.designing.sample_summary import MOST_ROWS, deviations, thinned
from sketchlearn.frequencies import Gaussian, Probed
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import Double
from sketchlearn.operators import FourierFeatures
from sketchlearn.tasks.kernel_regression.kernel_fit import inverse_units
from sketchlearn.tasks.kernel_regression.ridge_path import RidgePath

FREQUENCIES, FEWEST_FREQUENCIES = 300, 50
WIDTHS = np.geomspace(0.2, 4.0, 8)  # that are tried, in typical distances of rows from their mean
DECLARED_WIDTH = 1.0  # where there are no rows to try widths on
ROUNDS = 2  # of weighing the columns by the fit before; a third one changed errors by less than 0.2 %
LEAST_WEIGHT = 0.02  # of a column, relative to the mean: no column is left out for good
ROUND_ROWS, ROUND_FREQUENCIES = 2500, 150  # Weights of columns need fewer of both than widths.
LATER_ROWS = 20  # Where nobody knows how many rows there will be: so many times as many as in a full sample.


def n_frequencies_for(given: int | None, n_rows: int | None) -> int:
    """How many frequencies: as given, or 300, fewer for few rows."""
    if given is not None or n_rows is None:
        return FREQUENCIES if given is None else given
    return min(FREQUENCIES, max(FEWEST_FREQUENCIES, n_rows // 2))


def waves_in_box(
    low: Double, high: Double, n_frequencies: int, scale: float | None, seed: int, columns: tuple[str, ...] | None
) -> FourierFeatures:
    """Features for columns of which nothing but their range is known."""
    units, d = (high - low) / math.sqrt(12), len(low)  # deviations of values anywhere in the range
    width = DECLARED_WIDTH * math.sqrt(d) if scale is None else scale
    return _waves((low + high) / 2, units, n_frequencies, width, seed, columns)


def waves_on_sample(
    rows: Double,
    targets: Double,
    n_frequencies: int,
    scale: float | None,
    n_rows: int | None,
    seed: int,
    columns: tuple[str, ...] | None,
) -> FourierFeatures:
    """The features of least error to expect at new rows, once `n_rows` rows like the sample's were learned from.

    Columns in whose direction the target bends count more: their weights are the variances of the slopes of a first
    fit, found anew from the second. Beside these weights, equal ones are tried.
    """
    center, units = rows.mean(axis=0), deviations(rows)
    if scale is not None:
        return _waves(center, units, n_frequencies, scale, seed, columns)
    later = max(len(rows), n_rows or (LATER_ROWS * MOST_ROWS if len(rows) >= MOST_ROWS else 0))
    with one_blas_thread():
        trial = Trial.of(rows, targets, center, units, n_frequencies, seed)
        weights = trial.fewer().weights()
        equal = np.ones(len(weights))
        tried = [trial.best_width(w, later) for w in ((equal, weights) if np.any(weights != equal) else (equal,))]
    score, width = min(tried)
    chosen = equal if (score, width) == tried[0] else weights
    return _waves(center, units / np.sqrt(chosen), n_frequencies, width, seed, columns)


def _waves(
    center: Double, units: Double, n_frequencies: int, width: float, seed: int, columns: tuple[str, ...] | None
) -> FourierFeatures:
    law = Probed(Gaussian(float(width)), units=plain(units), spread=plain(units), probes=())
    return FourierFeatures(len(units), n_frequencies, law=law, center=plain(center), seed=seed, columns=columns)


@dataclass(frozen=True)
class Trial:
    """A sample of rows in deviations of the columns, their targets, and frequencies of a kernel of width 1."""

    rows: Double
    targets: Double
    frequencies: Double  # (columns, frequencies)

    @classmethod
    def of(cls, rows: Double, targets: Double, center: Double, units: Double, n_frequencies: int, seed: int) -> Trial:
        frequencies = _waves(center, np.ones(len(units)), n_frequencies, 1.0, seed, None).frequencies
        spread = targets.std(axis=0)
        away = (targets - targets.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
        return cls((rows - center) / units, away, frequencies)

    def fewer(self) -> Trial:
        """The same with fewer rows and frequencies."""
        both = thinned(np.hstack([self.rows, self.targets]), ROUND_ROWS)
        rows, targets = np.split(both, [self.rows.shape[1]], axis=1)
        return Trial(rows, targets, self.frequencies[:, :ROUND_FREQUENCIES])

    def best_width(self, weights: Double, n_rows: int | None = None) -> tuple[float, float]:
        """The least score and its width, for weights of the columns; of a fit of the sample, or of so many rows."""
        paths = ((self._path(weights, width)[0], width) for width in self._widths(weights))
        return min((path.score(path.best_penalty(n_rows), n_rows), width) for path, width in paths)

    def weights(self) -> Double:
        """What each column counts, 1 on average: the variance of the fit's slope along it."""
        weights = np.ones(self.rows.shape[1])
        for _ in range(ROUNDS):
            _, width = self.best_width(weights)
            path, units = self._path(weights, width)
            along = path.coefficients(path.best_penalty()) * units
            bends = np.zeros(len(weights))
            turned = self.frequencies * np.sqrt(weights)[:, None] / width
            phases = self.rows @ turned
            m = phases.shape[1]
            for coefficients in along:
                slopes = (np.cos(phases) * coefficients[m : 2 * m] - np.sin(phases) * coefficients[:m]) @ turned.T
                bends += slopes.var(axis=0)
            if not np.mean(bends) > 0:
                return np.ones(len(weights))
            weights = LEAST_WEIGHT + (1 - LEAST_WEIGHT) * bends / np.mean(bends)
        return weights

    def _widths(self, weights: Double) -> Double:
        return WIDTHS * math.sqrt(float(np.sum(weights * self.rows.var(axis=0))) or 1.0)

    def _path(self, weights: Double, width: float) -> tuple[RidgePath, Double]:
        """The regression on features of a width and on the columns; and what these are multiplied by."""
        phases = self.rows @ (self.frequencies * (np.sqrt(weights) / width)[:, None])
        features = np.hstack([np.cos(phases), np.sin(phases), self.rows])
        features -= features.mean(axis=0)
        m, n = self.frequencies.shape[1], len(self.rows)
        units = inverse_units(features[:, 2 * m :].std(axis=0), m, 2 * m)
        features *= units
        crosses = features.T @ self.targets / n
        return RidgePath(features.T @ features / n, crosses, self.targets.var(axis=0), n), units
