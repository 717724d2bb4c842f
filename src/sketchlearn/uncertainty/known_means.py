"""Functions of a row whose means over all sketched rows a sketch holds: its waves, and functions of its histograms."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import Histograms
from sketchlearn.sketch import Sketch
from sketchlearn.weighting.calibrated_rows import Means

MOST_SPREAD_RATIO = 1.5  # of all records' variance to a sample's: above it, errors were up to 100 deviations (airports)


@dataclass(frozen=True)
class BinFunctions:
    """Functions of one column that are constant within the bins of its histogram: their exact means are known.

    They are a column's value x, its square, and its squared distance from the nearest of some points, all of them in
    the middle of the bin and in the units in which distances count: what a sum of squared distances is made of, as far
    as one column tells.
    """

    edges: Double
    table: Double  # (functions, bins): below, bins, above
    shares: Double  # of the records: below, bins, above

    @classmethod
    def of(cls, edges: Double, values: Double | None, shares: Double, points: Double) -> BinFunctions:
        """Those of a column with these bins; `values` are what it takes in each bin, where they are known."""
        middle = (edges[:-1] + edges[1:]) / 2 if values is None else values
        middle = np.concatenate([edges[:1], middle, edges[-1:]])
        x = middle - edges[0]
        return cls(edges, np.stack([x, x * x, np.min((middle[:, None] - points) ** 2, axis=1)]), shares)

    def bins(self, column: Double) -> NDArray[np.intp]:
        """The bins of some values."""
        found = np.searchsorted(self.edges, column, side="right")
        return np.where(column == self.edges[-1], len(self.edges) - 1, found)  # the last bin holds its upper edge

    def features(self, column: Double) -> Double:
        """The functions of some values: (values, functions)."""
        return np.asarray(self.table[:, self.bins(column)].T)

    def distance_spread(self) -> float:
        """The variance, over all records, of the squared distance from the nearest point."""
        distances = self.table[-1]
        return max(float(self.shares @ distances**2 - (self.shares @ distances) ** 2), 0.0)

    def distance_beyond(self, column: Double) -> float:
        """What records beyond all of some values add to the mean squared distance, to that at the last of those."""
        bins, distances = self.bins(column), self.table[-1]
        low, high = bins.min(), bins.max()
        below = self.shares[:low] @ np.maximum(distances[:low] - distances[low], 0)
        above = self.shares[high + 1 :] @ np.maximum(distances[high + 1 :] - distances[high], 0)
        return float(below + above)


@dataclass(frozen=True)
class KnownMeans:
    """Means over all sketched rows, of functions of a row, and the noise in them.

    Attributes
    ----------
    waves : Fourier features and their means.
    units : in which distances count, column by column.
    columns : functions of single columns, where the sketch has histograms.
    bin_noise : variance of the private noise in each share of a histogram.
    count_noise : variance of the relative error of the number of records, which sums are divided by.
    """

    waves: Means
    units: Double
    columns: Sequence[BinFunctions] = ()
    bin_noise: float = 0.0
    count_noise: float = 0.0

    @classmethod
    def of(cls, sketch: Sketch, points: Double, units: Double) -> KnownMeans:
        """Those of a sketch; distances in single columns are from the points (k, columns)."""
        counts, columns, noise = part_of(sketch, Histograms), [], 0.0
        ledger = sketch.ledger
        if counts is not None:
            histograms: Histograms = counts.operator  # type: ignore[assignment]
            values = histograms.values or (None,) * histograms.n_features
            shares = histograms.split_columns(np.asarray(counts.mean, np.float64))
            for j, (edges, known) in enumerate(zip(histograms.edges, values, strict=True)):
                middle = None if known is None else np.array(known) / units[j]
                columns.append(BinFunctions.of(np.array(edges) / units[j], middle, shares[j], points[:, j] / units[j]))
            noise = 0.0 if counts.ledger is None else counts.ledger.sum_variance / float(counts.units) ** 2
        count = 0.0 if ledger is None else ledger.count_variance / float(sketch.units) ** 2
        return cls(Means.of(sketch), units, columns, noise, count)

    @cached_property
    def values(self) -> Double:
        """The means: (functions,)."""
        return np.concatenate([self.waves.values, *(column.table @ column.shares for column in self.columns)])

    @cached_property
    def noise(self) -> Double:
        """The variance of the noise in each of the means, but for that of the number of records: (functions,)."""
        of_bins = (self.bin_noise * np.sum(column.table**2, axis=1) for column in self.columns)
        return np.concatenate([np.full(len(self.waves.values), self.waves.variance), *of_bins])

    def features(self, rows: Double) -> Double:
        """The functions of rows: (rows, functions)."""
        parts = (column.features(rows[:, j] / self.units[j]) for j, column in enumerate(self.columns))
        return np.concatenate([self.waves.features(rows).astype(np.float64), *parts], axis=1)

    def relative_error_by_tails(self, rows: Double) -> float:
        """How far a random sample is from all records in tails, in deviations of squared distances; infinite, if far.

        A sample whose squared distances vary less than those of all records, column by column, lacks tails.
        """
        if not self.columns or self.bin_noise:  # noise in bins far away looks like tails
            return 0.0
        each = [(column, rows[:, j] / self.units[j]) for j, column in enumerate(self.columns)]
        own = sum(float(column.features(values)[:, -1].var()) for column, values in each)
        if sum(column.distance_spread() for column, _ in each) > MOST_SPREAD_RATIO * own:
            return float("inf")
        return sum(column.distance_beyond(values) for column, values in each) / max(float(np.sqrt(own)), 1e-300)

    def noise_along(self, a: Double) -> float:
        """The variance of the noise in a . values: of a private release, and of records that fill some values only."""
        first = len(self.waves.values)
        variance = self.waves.variance * float(a[:first] @ a[:first])
        if self.bin_noise:
            for column in self.columns:
                along = a[first : first + len(column.table)] @ column.table
                variance += self.bin_noise * float(along @ along)
                first += len(column.table)
        return variance + self.count_noise * float(a @ self.values) ** 2
