"""Clusters of rows with many columns, from the exact counts and means of cells."""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders import Outcome, Status
from sketchlearn.decoders.refinements.reduction_to_points import nearest
from sketchlearn.models import Dirac, Double, Mixture
from sketchlearn.tasks.clusters.cluster_doubts import MOST_ERROR_OF_NOISE, RELEASE_MORE
from sketchlearn.tasks.clusters.cluster_task import Decoded
from sketchlearn.weighting.cells_of_sketch import Cells
from sketchlearn.weighting.clusters_of_rows import DistanceLoss, RowSample, SquaredLoss, clusters_of_rows
from sketchlearn.weighting.weighted_rows import WeightedRows

ROUNDS, STILL = 100, 1e-6


def clusters_of_cells(cells: Cells, k: int, loss: SquaredLoss, rng: np.random.Generator) -> Decoded:
    """The best clusters of cells, as points of their weight: those of k-medians, with what lies within the cells."""
    cells.require(k)
    units = cells.units
    sample = RowSample(WeightedRows.of(cells.means, cells.shares), units)
    centers, shares = clusters_of_rows(sample, k, SquaredLoss(), rng)
    if isinstance(loss, DistanceLoss):
        centers, shares = _medians(cells, centers, units)
    doubts = cells.doubts
    if cells.error_of_noise(centers) > MOST_ERROR_OF_NOISE:
        doubts += (f"clusters may be poor, as the noise of the release is large: {RELEASE_MORE}",)
    density = Mixture(Dirac(), shares, centers, np.zeros((k, 0)))
    return Decoded(centers, shares, density, Outcome(density, 0.0, 0.0, 0, Status.CELLS), doubts)


def _medians(cells: Cells, centers: Double, units: Double) -> tuple[Double, Double]:
    """Weiszfeld's steps. A record of a cell lies from a point as far as the root of its mean squared distance says."""
    points, within, middle = cells.means / units, cells.within, cells.shares @ cells.means / units
    rows, found = points - middle, centers / units - middle
    tiny = 1e-12 * max(float(cells.shares @ np.sum(rows * rows, axis=1)), 1e-300)
    for _ in range(ROUNDS):
        labels, score = nearest(rows, found)
        squares = np.maximum(score + np.sum(rows * rows, axis=1), 0) + within
        pull = cells.shares / np.sqrt(squares + tiny)
        pulls = np.bincount(labels, pull, minlength=len(found))
        moved = np.zeros_like(found)
        np.add.at(moved, labels, pull[:, None] * rows)
        moved = np.where(pulls[:, None] > 0, moved / np.maximum(pulls, 1e-300)[:, None], found)
        change = float(np.max(np.sum((moved - found) ** 2, axis=1)))
        found = moved
        if change <= STILL * tiny * 1e12:
            break
    shares = np.bincount(nearest(rows, found)[0], cells.shares, minlength=len(found)).astype(np.float64)
    return (found + middle) * units, shares
