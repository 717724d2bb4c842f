"""Clusters of rows with many columns, from the exact counts and means of cells."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np

from sketchlearn.decoders import Outcome, Status
from sketchlearn.decoders.refinements.reduction_to_points import nearest
from sketchlearn.models import Dirac, Double, Mixture
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import CellSums
from sketchlearn.operators.bounded_operators import FIXED_POINT
from sketchlearn.plain_digits import in_digits
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.clusters.cluster_task import Decoded
from sketchlearn.tasks.estimating.row_samples import error_units
from sketchlearn.weighting.clusters_of_rows import DistanceLoss, RowSample, SquaredLoss, clusters_of_rows
from sketchlearn.weighting.weighted_rows import WeightedRows

MOST_WIDER_RATIO = 1.3  # of the squared distance within cells to that of the sample, which has a little less by chance
MOST_CLIPPED = 1e-3  # of the records
NOISE_DEVIATIONS = 5.0  # With a smaller count, a cell of a private sketch may be noise.
ROUNDS, STILL = 100, 1e-6
FROM_ALL_OVER = "design it on a sample from all over the data"


@dataclass(frozen=True)
class Cells:
    """The cells of a sketch that hold records: shares, mean rows, and mean squares about those."""

    operator: CellSums
    shares: Double
    means: Double
    squares: Double
    wider: float  # how many times as large squared distances within cells are as those of the sample; 0 if unknown
    clipped: float  # share of the records

    @classmethod
    def of(cls, sketch: Sketch) -> Cells | None:
        """Those of a sketch; None if it has none."""
        part = part_of(sketch, CellSums)
        if part is None:
            return None
        if not part.units:
            raise ValueError("the sketch is empty: add records before learning from it")
        operator: CellSums = part.operator  # type: ignore[assignment]
        shares, means, squares = operator.split(np.asarray(part.mean, np.float64))
        noise = 0.0 if part.ledger is None else math.sqrt(part.ledger.sum_variance) / (FIXED_POINT * part.units)
        there = shares > NOISE_DEVIATIONS * noise
        if not np.any(there):
            raise ValueError("the noise of the release hides all cells: release more records, or a larger epsilon")
        bound, middle = np.array(operator.bound), operator.middle
        shares, means = shares[there] / shares[there].sum(), np.clip(means[there], middle - bound, middle + bound)
        units, squares = error_units(operator), squares[there]
        within = squares if squares.ndim == 1 else np.sum(squares / units**2, axis=1)
        wider = float(shares @ within) / operator.spread if operator.spread > 0 and part.ledger is None else 0.0
        return cls(operator, shares, means, squares, wider, float(sketch.clipped / sketch.count))

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def within(self) -> Double:
        """Mean squared distance of each cell's records from their mean, in error units."""
        return self.squares if self.squares.ndim == 1 else np.sum(self.squares / error_units(self.operator) ** 2, axis=1)

    def require(self, k: int) -> None:
        """Refuses more clusters than there are cells."""
        if k > len(self):
            raise ValueError(
                f"a sketch with records in {len(self):,} cells cannot tell {k:,} clusters or components: ask for "
                "fewer, or design the sketch for as many"
            )

    @property
    def doubts(self) -> tuple[str, ...]:
        """What to say of records that are not like those that the cells were made for."""
        found = []
        if self.wider > MOST_WIDER_RATIO:
            found.append(
                f"records lie {in_digits(math.sqrt(self.wider), 2)} times as far from the means of their cells as the "
                f"rows that the sketch was designed on, so that clusters may be poor: {FROM_ALL_OVER}"
            )
        if self.clipped > MOST_CLIPPED:
            found.append(f"{self.clipped:.1%} of the records lie beyond the design's range, and were clipped")
        return tuple(found)


def clusters_of_cells(cells: Cells, k: int, loss: SquaredLoss, rng: np.random.Generator) -> Decoded:
    """The best clusters of cells, as points of their weight: those of k-medians, with what lies within the cells."""
    cells.require(k)
    units = error_units(cells.operator)
    sample = RowSample(WeightedRows.of(cells.means, cells.shares), units)
    centers, shares = clusters_of_rows(sample, k, SquaredLoss(), rng)
    if isinstance(loss, DistanceLoss):
        centers, shares = _medians(cells, centers, units)
    density = Mixture(Dirac(), shares, centers, np.zeros((k, 0)))
    return Decoded(centers, shares, density, Outcome(density, 0.0, 0.0, 0, Status.CELLS), cells.doubts)


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
