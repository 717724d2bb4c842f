"""Clusters of wide rows from waves of their random sums, and their means in all columns from waves times columns."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sketchlearn.decoders.refinements.kmeans_of_rows import nearest
from sketchlearn.decoders.refinements.reduction_to_points import antithetic_sample
from sketchlearn.models import Dirac, Double, Mixture
from sketchlearn.operators import Concatenated, CrossFeatures, SomeDirections, concatenate
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.clusters.cluster_task import Decoded
from sketchlearn.weighting.weighted_rows import WeightedRows

DRAWS = 10_000  # points that stand for a mixture
MODEL_ERROR = 1e-3  # variance of what points miss of the law, relative to that of the waves
ROUNDING_ERROR = 1e-6  # the same of each number, since points are finitely many
LEAST_FILLED = 0.08  # deviation of a column over its bound: with 0.06 the squared error was 1.5 times the least
BOUNDS_TOO_WIDE = "the centers may be poor, as values fill little of the declared bounds: declare tighter ones"
MOST_ADDED_ERROR = 0.008  # as halves tell it: 0.002 and 0.003 where 2 and 3 % were added, 0.013 to 0.09 where 9 to 17 %
UNCERTAIN_MEANS = (
    "the centers may be poor, as one half of the sketch tells other means than the other: design it on a sample of "
    "rows, ask for fewer clusters or, of a private sketch, spend more epsilon"
)
EVERY, HALVES = slice(None), (slice(0, None, 2), slice(1, None, 2))  # of the waves


@dataclass(frozen=True)
class SketchOfSums:
    """The sketch of random sums of wide rows, as of rows of few columns, and that of waves times all columns."""

    sums: Sketch
    crosses: Sketch
    map: SomeDirections  # of rows to sums

    @classmethod
    def of(cls, sketch: Sketch) -> SketchOfSums | None:
        """The two in a sketch of a design in bounds of many columns; None in others."""
        operator = sketch.operator
        if not isinstance(operator, Concatenated):
            return None
        *parts, last = operator.parts
        maps = [part for part in parts if isinstance(part, SomeDirections)]
        if not isinstance(last, CrossFeatures) or not isinstance(last.crossed, SomeDirections):
            return None
        if not maps or len(maps) < len(parts) or {*map(_directions, maps)} != {_directions(last.crossed)}:
            return None
        inner, ledger = concatenate([part.inner for part in maps]), sketch.ledger
        if ledger is not None and ledger.parts is not None:
            ledger = replace(ledger, parts=ledger.parts[:-1])
        sums = sketch.of_same_records(inner, sketch.sums[: inner.n_sums], ledger)
        return cls(sums, operator.split(sketch)[-1], maps[0])

    @property
    def middle(self) -> Double:
        """What was subtracted from rows."""
        return self.crosses.operator.middle  # type: ignore[attr-defined]

    @cached_property
    def _back(self) -> Double:
        """What sums are multiplied by to be the least row that has them."""
        return np.asarray(np.linalg.pinv(self.map.projection.T), np.float64)

    def lifted(self, found: Decoded, rng: np.random.Generator) -> Decoded:
        """Clusters of the sums, with their centers in all columns."""
        points = found.points or WeightedRows.of(antithetic_sample(found.density, DRAWS, rng))
        centers = self.middle + self._means(points, found.centers)
        box = np.array(self.map.bound)
        centers = np.clip(centers, self.middle - box, self.middle + box)
        density = Mixture(Dirac(), found.shares, centers, np.zeros((len(centers), 0)))
        outcome, doubts = replace(found.outcome, mixture=density), found.doubts
        if self._filled(points) < LEAST_FILLED:
            doubts += (BOUNDS_TOO_WIDE,)
        if self._added_error(points, found) > MOST_ADDED_ERROR:
            doubts += (UNCERTAIN_MEANS,)
        return replace(found, centers=centers, density=density, outcome=outcome, doubts=doubts)

    def _means(self, points: WeightedRows, centers: Double, some: slice = EVERY) -> Double:
        """Means of rows, less the middle, that lie nearest to each center in their sums; by some of the waves, or all.

        A row is taken to be the mean of its cluster, plus what follows linearly from where it lies in it, plus chance:
        so sums of waves times rows are linear in the means, with factors that points with the law of the sums tell.
        """
        operator, weights = self.crosses.operator, points.weights[:, None]
        assert isinstance(operator, CrossFeatures)
        labels = nearest(points.rows, centers)[0]
        waves, seen = operator.waves.features(points.rows)[:, some], operator.split(self.crosses.mean)[some]
        waves, seen = np.hstack([waves.real, waves.imag]), np.vstack([seen.real, seen.imag])
        spread = _squares(points, points.weights @ points.rows)
        unit = np.sqrt(spread / points.rows.shape[1])
        known = np.hstack([np.eye(len(centers))[labels], (points.rows - centers[labels]) / unit])
        factors, products = waves.T @ (weights * known), waves.T @ (weights * waves)
        noise = self._noise() / (spread * self._per_column)
        errors = MODEL_ERROR * products + (ROUNDING_ERROR + noise) * np.eye(len(products))
        middle = (points.weights @ points.rows) @ self._back
        usual = np.vstack([np.tile(middle, (len(centers), 1)), np.zeros((known.shape[1] - len(centers), len(middle)))])
        told = np.linalg.solve(errors, factors)
        found = usual + np.linalg.solve(told.T @ factors + np.eye(known.shape[1]), told.T @ (seen - factors @ usual))
        means = found[: len(centers)]
        return np.asarray(means + (centers - means @ self.map.projection.T) @ self._back)

    @property
    def _per_column(self) -> float:
        """The variance of a column, for one of all sums together: random sums keep the total, up to their unit."""
        return 1 / float(np.sum(self.map.projection**2))

    def _filled(self, points: WeightedRows) -> float:
        """The deviation of the columns over their bounds."""
        variance = _squares(points, points.weights @ points.rows) * self._per_column
        return float(np.sqrt(variance / np.mean(np.square(self.map.bound))))

    def _added_error(self, points: WeightedRows, found: Decoded) -> float:
        """By what part of itself errors of the means make the squared error larger, as both halves of the waves tell.

        The mean of two estimates errs by half of what they differ by.
        """
        halves = [self._means(points, found.centers, half) for half in HALVES]
        apart = float(found.shares @ np.sum((halves[0] - halves[1]) ** 2, axis=1))
        own = nearest(points.rows, found.centers)[0]
        within = _squares(points, found.centers[own]) * self._per_column * len(self.middle)
        return apart / 4 / within

    def _noise(self) -> float:
        """Variance of the noise of a private release in each mean of a wave times a column, averaged over columns."""
        ledger, operator = self.crosses.ledger, self.crosses.operator
        if ledger is None:
            return 0.0
        one = np.abs(operator.mean_of(np.ones(operator.n_sums)))
        return float(np.mean(one**2) / 2 * ledger.sum_variance / float(self.crosses.units) ** 2)


def _directions(operator: SomeDirections) -> tuple[object, ...]:
    """What decides which sums it takes of a row."""
    return operator.directions, operator.shift, operator.bound, operator.center


def _squares(points: WeightedRows, centers: Double) -> float:
    """The mean squared distance of points from centers."""
    return max(float(points.weights @ np.sum((points.rows - centers) ** 2, axis=1)), 1e-300)
