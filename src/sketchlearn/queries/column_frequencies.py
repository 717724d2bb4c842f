"""One column by itself, from the frequencies along its axis."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models.frequency_set import Double, Single
from sketchlearn.operators import FourierFeatures
from sketchlearn.queries.feature_regression import Regression
from sketchlearn.queries.sampling_noise import noise_in, real_parts
from sketchlearn.sketch import Sketch

FEWEST = 16  # frequencies along an axis that draw a histogram better than a fitted density does
POINTS = 16  # per bin: with 6, one-bit waves were seen too coarsely (total variation 0.05 instead of 0.016)
ROUNDS = 2  # of weighting points by the density found so far
FLOOR = 0.02  # of the mean density, so that no point counts for nothing
CLEAR = 2.0  # errors above which a share is taken for more than noise
CUT = 5e-4  # share of the records beyond either end of the default bins


@dataclass(frozen=True)
class Axis:
    """A column of a sketch whose operator has many frequencies along the column's axis.

    Its values repeat after `period`: records further than half of that from the operator's center are seen elsewhere.
    """

    sketch: Sketch
    operator: FourierFeatures
    column: int
    own: NDArray[np.int64]  # the frequencies along the axis

    @classmethod
    def of(cls, sketch: Sketch, column: int) -> Axis | None:
        """None where there are too few frequencies along the axis, or records contribute to some of them only."""
        operator = sketch.operator
        assert isinstance(operator, FourierFeatures)
        others = np.delete(operator.frequencies, column, axis=0)
        own = np.flatnonzero(~np.any(others != 0, axis=0) & (operator.frequencies[column] != 0))
        if operator.n_features == 1:
            own = np.arange(operator.n_frequencies)
        return cls(sketch, operator, column, own) if len(own) >= FEWEST and operator.n_groups == 1 else None

    @property
    def period(self) -> float:
        return float(2 * np.pi / np.min(np.abs(self.operator.frequencies[self.column, self.own])))

    def histogram(self, edges: Double) -> tuple[Double, Double]:
        """Shares of the records between edges, and their errors."""
        middle = self.operator.middle[self.column]
        low, high = min(middle - self.period / 2, edges[0]), max(middle + self.period / 2, edges[-1])
        # the bins, and others of about their width to both sides
        width = float(np.median(np.diff(edges)))
        left = np.linspace(low, edges[0], 1 + int(np.ceil((edges[0] - low) / width)))[:-1]
        right = np.linspace(edges[-1], high, 1 + int(np.ceil((high - edges[-1]) / width)))[1:]
        cells = np.concatenate([left, edges, right])
        steps = (np.arange(POINTS) + 0.5) / POINTS
        x = (cells[:-1, None] + np.diff(cells)[:, None] * steps).ravel()
        bins = np.repeat(np.eye(len(cells) - 1), POINTS, axis=0)
        features, z = self._features(x), real_parts(self.sketch.mean[None, self.own])[0].astype(np.float64)
        noise = noise_in(self.sketch, features)
        shares = np.repeat(np.diff(cells), POINTS)
        for _ in range(ROUNDS + 1):
            shares = shares / shares.sum()
            regression = Regression(features, shares, noise)
            told, errors, _ = regression.change(bins, z - regression.mean)
            found = shares @ bins + told
            # the density found so far, smoothed over neighbours
            smooth = np.convolve(np.maximum(found, 0), [0.25, 0.5, 0.25], mode="same")
            shares = np.repeat(np.maximum(smooth, FLOOR / len(found)), POINTS)
        inside = slice(len(left), len(left) + len(edges) - 1)
        return found[inside], errors[inside]

    def edges(self, n: int) -> Double:
        """n + 1 edges, equally far apart, that leave out few records."""
        middle, cells = self.operator.middle[self.column], max(2 * len(self.own), 2 * n)
        edges = np.linspace(middle - self.period / 2, middle + self.period / 2, cells + 1)
        found, errors = self.histogram(edges)
        shares = np.cumsum(np.where(found > CLEAR * errors, found, 0))
        inside = np.flatnonzero((shares > CUT * shares[-1]) & (shares < (1 - CUT) * shares[-1]))
        first, last = (inside[0], inside[-1] + 1) if len(inside) else (0, cells - 1)
        return np.linspace(edges[first], edges[last + 1], n + 1)

    def _features(self, x: Double) -> Single:
        rows = np.tile(self.operator.middle, (len(x), 1))
        rows[:, self.column] = x
        return real_parts(self.operator.features(rows)[:, self.own])
