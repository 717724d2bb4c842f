"""Clusters of rows with many columns, from the exact counts and means of cells."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import in_digits
from sketchlearn.estimators.clusters.task import MOST_ERROR_OF_NOISE, RELEASE_MORE, Decoded
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.cells import Cells, Members
from sketchlearn.inference.decoders.loop import Outcome, Status
from sketchlearn.inference.distributions import DiagonalGaussian, Dirac, Mixture
from sketchlearn.inference.kmeans import nearest
from sketchlearn.inference.weighted_clusters import DistanceLoss, RowSample, SquaredLoss, clusters_of_rows

ROUNDS, STILL = 100, 1e-6
LEAST_MOVE = 1e-12  # of the squared error: less is the rounding of points to float32
LEAST_GAIN = 1e-5  # of the squared error, that is worth a pass over rows in memory: docs/decisions/by-cost.md


@dataclass(frozen=True)
class LloydStep:
    """A step of Lloyd's algorithm on all records: from the points of cells to the means of their records."""

    cells: Cells
    centers: Double | None = None  # where the passes go on, if not from the means

    lowered = "squared error"

    @property
    def n_parts(self) -> int:
        """How many cells have records."""
        return len(self.cells)

    @property
    def after(self) -> Double:
        """The points of cells after the step."""
        return self.cells.means

    @cached_property
    def too_close(self) -> bool:
        """Whether float32 does not tell which point is nearest."""
        points = self.cells.operator.points[self.cells.there] if self.centers is None else self.centers
        return self.cells.too_close(points)

    @cached_property
    def cost(self) -> float:
        """The mean squared distance of records from the mean of their cell, in error units."""
        return float(self.cells.shares @ self.cells.within)

    @cached_property
    def gain(self) -> float:
        """The share of the squared error that the step took away."""
        cells = self.cells
        away = (cells.means - cells.operator.points[cells.there]) / cells.units
        gain = float(cells.shares @ np.sum(away**2, axis=1))
        return gain / max(gain + self.cost, 1e-300)

    @property
    def gain_in_words(self) -> str:
        """What the step gained, after "The last pass"."""
        return f"lowered the {self.lowered} by a share of {in_digits(self.gain, 2)}"

    @property
    def settled(self) -> bool:
        """Whether another step would gain less than is worth a pass."""
        return self.centers is None and self.gain <= LEAST_GAIN

    @property
    def still(self) -> bool:
        """Whether all points are the means of their cells, or as near to them as float32 can tell."""
        return self.centers is None and (self.gain <= LEAST_MOVE or self.too_close)

    @property
    def doubts(self) -> tuple[str, ...]:
        """What to say of records that are not like those of the sample."""
        return () if self.too_close else self.cells.doubts(float(self.cells.shares @ self.cells.within))

    def next_operator(self) -> CellSums:
        """Cells at the centers after the step."""
        return self.cells.operator.moved_to(self.after if self.centers is None else self.centers)


@dataclass(frozen=True)
class WeiszfeldStep(LloydStep):
    """The same towards the medians of records: means of them, each weighed by one over its distance."""

    lowered = "sum of distances"

    @property
    def _told(self) -> tuple[Double, float, float]:
        assert self.cells.towards_medians is not None
        return self.cells.towards_medians

    @property
    def after(self) -> Double:
        """The points of cells after the step."""
        return self._told[0]

    @cached_property
    def cost(self) -> float:
        """The mean distance of records from the point of their cell after the step, at most."""
        return self._told[1] - self._told[2]

    @cached_property
    def gain(self) -> float:
        """The share of the distances that the step took away, at least."""
        return self._told[2] / max(self._told[1], 1e-300)


def step_of_cells(cells: Cells, loss: SquaredLoss) -> LloydStep | None:
    """The step that cells tell exactly; None in directions, with noise, or without what medians need."""
    if not cells.operator.in_columns or cells.noise:
        return None
    if not isinstance(loss, DistanceLoss):
        return LloydStep(cells)
    return None if cells.towards_medians is None else WeiszfeldStep(cells)


def clusters_of_cells(cells: Cells, k: int, loss: SquaredLoss, rng: np.random.Generator) -> Decoded:
    """The best clusters of cells, as points of their weight: those of k-medians, with what lies within the cells."""
    cells.require(k)
    if k == len(cells) and (step := step_of_cells(cells, loss)) is not None:
        return clusters_of_step(step)
    sample = RowSample(WeightedRows.of(cells.scaled, cells.shares), np.ones(len(cells.counted)))
    centers, _ = clusters_of_rows(sample, k, SquaredLoss(), rng)
    if isinstance(loss, DistanceLoss):
        centers = _medians(cells, centers)
    doubts = cells.doubts(cells.cost(centers))
    if cells.error_of_noise(centers) > MOST_ERROR_OF_NOISE:
        doubts += (f"clusters may be poor, as the noise of the release is large: {RELEASE_MORE}",)
    members = Members(nearest(cells.scaled, centers)[0], cells.shares, k)
    squares = cells.squares if cells.squares.ndim > 1 else None
    lifted = _in_all_columns(centers * cells.units, cells.counted, members, cells.means)
    return _decoded(lifted, members, cells.means, squares, Status.CELLS, doubts)


def clusters_of_step(step: LloydStep) -> Decoded:
    """Each cell as a cluster, with its point after the step as its center."""
    cells = step.cells
    members = Members(np.arange(len(cells)), cells.shares, len(cells))
    return _decoded(step.after, members, cells.means, cells.squares, Status.STEP, step.doubts)


def clusters_of_all_rows(
    operator: CellSums, rows: RowSample, k: int, loss: SquaredLoss, rng: np.random.Generator
) -> Decoded:
    """Those of all records, where they are so few that a sketch keeps them beside its cells."""
    counted, every = operator.counted, rows.rows
    own = every.rows[:, counted]
    sample = RowSample(replace(every, rows=own), rows.units[counted], True)
    centers, _ = clusters_of_rows(sample, k, loss, rng)
    labels = nearest(sample.scaled(own), sample.scaled(centers))[0]
    members = Members(labels, every.weights / every.weights.sum(), k)
    lifted = _in_all_columns(centers, counted, members, every.rows)
    return _decoded(lifted, members, every.rows, np.zeros_like(every.rows), Status.ALL_ROWS, ())


def _in_all_columns(centers: Double, counted: NDArray[np.intp], members: Members, points: Double) -> Double:
    """Centers with the means of passive columns."""
    if len(counted) == points.shape[1]:
        return centers
    lifted = members.means(points)
    lifted[:, counted] = centers
    return lifted


def _decoded(
    centers: Double, members: Members, points: Double, squares: Double | None, status: Status, doubts: tuple[str, ...]
) -> Decoded:
    """Clusters, with the variances of their records where squares within points are known column by column."""
    shares = members.sizes
    density = Mixture(Dirac(), shares, centers, np.zeros((len(centers), 0)))
    if squares is not None:
        variances = members.means(squares + (points - centers[members.owners]) ** 2)
        density = Mixture(DiagonalGaussian(), shares, centers, variances)
    return Decoded(centers, shares, density, Outcome(density, 0.0, 0.0, 0, status), doubts)


def _medians(cells: Cells, centers: Double) -> Double:
    """Weiszfeld's steps, in units. A record lies from a point as far as the root of its cell's mean square says."""
    within, middle = cells.within, cells.shares @ cells.scaled
    rows, found = cells.scaled - middle, centers - middle
    tiny = 1e-12 * max(float(cells.shares @ np.sum(rows * rows, axis=1)), 1e-300)
    for _ in range(ROUNDS):
        labels, squares = nearest(rows, found)
        squares += within
        pull = cells.shares / np.sqrt(squares + tiny)
        pulls = np.bincount(labels, pull, minlength=len(found))
        moved = np.zeros_like(found)
        np.add.at(moved, labels, pull[:, None] * rows)
        moved = np.where(pulls[:, None] > 0, moved / np.maximum(pulls, 1e-300)[:, None], found)
        change = float(np.max(np.sum((moved - found) ** 2, axis=1)))
        found = moved
        if change <= STILL * tiny * 1e12:
            break
    return np.asarray(found + middle)
