"""Voronoi cells of a sketch: the number of records in each, and their exact means and squares in all columns."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.spatial import KDTree
from scipy.special import ndtr

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import in_digits
from sketchlearn.features.bounded import FIXED_POINT
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.families import frequencies_instead
from sketchlearn.inference.kmeans import FINE_SHARE, nearest, systematic_draws
from sketchlearn.inference.moments import part_of
from sketchlearn.sketch.sums import Sketch

LARGEST_WIDTH_RATIO = 1.3  # of squared distances within cells to the sample's, which are a little smaller by chance
LARGEST_ADDED_COST = 0.1  # by wider cells, relative to the cost of the clusters: many small wide cells do no harm
MOST_CLIPPED = 1e-3  # of the records
SMOOTHING = 2.0  # of variances of rows drawn from cells: Gaussians of the same variance leave gaps between cells
NOISE_DEVIATIONS = 5.0  # With a smaller count, a cell of a private sketch may be noise.


def from_frequencies() -> str:
    """The remedy where cells do not determine something."""
    return f"learn from frequencies, with {frequencies_instead()}"


def no_distances_of_cells() -> str:
    """Why there is no mean distance of the records."""
    return f"Voronoi cells do not determine it: score rows, or {from_frequencies()}"


@dataclass(frozen=True)
class Cells:
    """The cells of a sketch that hold records: their shares, mean rows, and mean squared deviations."""

    operator: CellSums
    shares: Double
    means: Double
    squares: Double
    there: NDArray[np.intp]  # positions of these cells among all of the operator
    wider: float  # how many times as large squared distances within cells are as those of the sample; 0 if unknown
    clipped: float  # share of the records
    #: if known: points after a step towards the medians of records, the mean distance before, and what the step gains
    towards_medians: tuple[Double, float, float] | None = None
    noise: float = 0.0  # deviation that a private release adds to a share, or to a share times a value over its bound

    @classmethod
    def of(cls, sketch: Sketch) -> Cells | None:
        """Those of a sketch; None if it has none."""
        part = part_of(sketch, CellSums)
        if part is None:
            return None
        if not part.units:
            raise ValueError("the sketch is empty: add records before learning from it")
        operator: CellSums = part.operator
        shares, means, squares = operator.split(np.asarray(part.mean, np.float64))
        noise = 0.0 if part.ledger is None else math.sqrt(part.ledger.sum_variance) / (FIXED_POINT * part.units)
        there = shares > NOISE_DEVIATIONS * noise
        if not np.any(there):
            raise ValueError("the noise of the release hides all cells: release more records, or use a larger epsilon")
        bound, middle = np.array(operator.bound), operator.middle
        shares, means = shares[there] / shares[there].sum(), np.clip(means[there], middle - bound, middle + bound)
        clipped = float(sketch.clipped / sketch.count)
        step = None
        if operator.radius is not None:
            points, distance, gain = operator.weiszfeld_step(np.asarray(part.mean, np.float64))
            step = points[there], distance, gain
        found = cls(operator, shares, means, squares[there], np.flatnonzero(there), 0.0, clipped, step, noise)
        if not operator.spread or part.ledger is not None:
            return found
        return replace(found, wider=float(shares @ found.within) / operator.spread)

    def __len__(self) -> int:
        return len(self.shares)

    @property
    def within(self) -> Double:
        """Mean squared distance of each cell's records from their mean, in error units."""
        return self.squares if self.squares.ndim == 1 else np.sum(self.squares[:, self.counted] / self.units**2, axis=1)

    def sample(self, n: int, rng: np.random.Generator) -> Double:
        """Rows drawn from a Gaussian in each cell, in the columns and units that count."""
        cells = systematic_draws(self.shares, n, rng.random())
        if self.squares.ndim > 1:
            variances = self.squares[:, self.counted] / self.units**2
        else:
            variances = np.tile((self.squares / len(self.counted))[:, None], len(self.counted))
        drawn = rng.standard_normal((n, len(self.counted)))
        return np.asarray(self.scaled[cells] + np.sqrt(SMOOTHING * np.maximum(variances, 0.0))[cells] * drawn)

    def too_close(self, points: Double) -> bool:
        """Whether float32 cannot resolve which point is nearest: points close together, relative to their size.

        Where records lie farther away than the points from each other, a wrong choice costs little.
        """
        within, means = float(self.shares @ self.within), self.scaled
        around = float(self.shares @ np.sum((means - self.shares @ means) ** 2, axis=1))
        if len(points) < 2 or within >= FINE_SHARE * (within + around):
            return False
        seen = (points - self.operator.middle)[:, self.counted] / self.units
        gaps = KDTree(seen).query(seen, 2)[0][:, 1]
        return bool(np.any(gaps**2 < FINE_SHARE * np.sum(seen**2, axis=1)))

    @property
    def counted(self) -> NDArray[np.intp]:
        """Positions of the columns whose squared errors count."""
        return self.operator.counted

    @property
    def units(self) -> Double:
        """The units in which squared errors of these columns count."""
        given = self.operator.units
        return np.ones(len(self.counted)) if given is None else np.array(given)[self.counted]

    @property
    def scaled(self) -> Double:
        """Mean rows in those columns and units."""
        return self.means[:, self.counted] / self.units

    def error_of_noise(self, centers: Double) -> float:
        """The squared error that noise adds to centers, which are means of the cells nearest to them, per record.

        Centers are in units. It is relative to the estimated squared error of the records.
        """
        if not self.noise:
            return 0.0
        rows = self.scaled
        owners, squares = nearest(rows, centers)
        sizes = np.bincount(owners, self.shares, minlength=len(centers))
        n_cells = np.bincount(owners, minlength=len(centers))
        reach = self.operator.bound[self.counted[0]] / self.units[0]
        added = rows.shape[1] * (self.noise * reach) ** 2 * float(np.sum(n_cells[sizes > 0] / sizes[sizes > 0]))
        return float(added) / max(self.operator.spread + float(self.shares @ squares), 1e-300)

    def members(self, centers: Double) -> Members:
        """The assignment of cells to the nearest of some centers, of all columns."""
        return Members(nearest(self.scaled, centers[:, self.counted] / self.units)[0], self.shares, len(centers))

    def require(self, k: int) -> None:
        """Refuses more clusters than there are cells."""
        if k > len(self):
            raise ValueError(
                f"a sketch with records in {len(self):,} cells cannot recover {k:,} clusters or components: ask for "
                "fewer, or design the sketch for as many"
            )

    def cost(self, centers: Double) -> float:
        """The mean squared distance, in units, of records from the center that is nearest to the mean of their cell."""
        return float(self.shares @ (self.within + nearest(self.scaled, centers)[1]))

    def doubts(self, cost: float) -> tuple[str, ...]:
        """Warnings about records unlike those of the design's sample, in clusters of this cost."""
        found = []
        added = (1 - 1 / self.wider) * float(self.shares @ self.within) if self.wider else 0.0
        if self.wider > LARGEST_WIDTH_RATIO and added > LARGEST_ADDED_COST * cost:
            found.append(
                f"records lie {in_digits(math.sqrt(self.wider), 2)} times as far from the means of their cells as the "
                f"rows of the design's sample, so clusters may be poor: design it on a sample from all over the data"
            )
        if self.clipped > MOST_CLIPPED:
            found.append(f"{self.clipped:.1%} of the records lie beyond the design's range, and were clipped")
        return tuple(found)


@dataclass(frozen=True)
class Members:
    """Points assigned to clusters, and the points' shares of the records."""

    owners: NDArray[Any]
    shares: Double
    k: int

    @property
    def sizes(self) -> Double:
        """The share of each cluster."""
        return np.bincount(self.owners, self.shares, minlength=self.k).astype(np.float64)

    def means(self, values: Double) -> Double:
        """Means of the points' values by cluster, (k, columns); an empty cluster has those of all points."""
        totals, sizes = np.zeros((self.k, values.shape[1])), self.sizes
        np.add.at(totals, self.owners, self.shares[:, None] * values)
        everywhere = self.shares @ values
        return np.where(sizes[:, None] > 0, totals / np.maximum(sizes, 1e-300)[:, None], everywhere)

    def deviations(self, values: Double, within: Double) -> Double:
        """Standard deviations in each cluster, of points with these values and variances within them."""
        away = values - self.means(values)[self.owners]
        return np.sqrt(self.means(within + away**2))


LEAST_GAP = 1.0  # deviations; distant records of a heavy-tailed cluster are spread more widely than this
NO_COVARIANCES = (
    "the design has no covariances within cells, as its sample was small, there are many columns and cells, or an "
    "earlier version made it. Design it on more rows, or for fewer clusters"
)


@dataclass(frozen=True)
class CellClusters:
    """Clusters of cells: shares, centers, and covariances of their records, in principal components."""

    shares: Double  # (k,)
    places: Double  # (k, directions)
    covariances: Double  # (k, directions, directions)
    n_sampled: Double  # (k,): rows of the sample, which the covariances are of

    @classmethod
    def of_each(cls, cells: Cells) -> CellClusters | None:
        """Each cell as a cluster of its own; None if the design has no covariances within cells."""
        operator, noted = cells.operator, cells.operator.sampled_cells
        if noted is None:
            return None
        counts, shapes = (part[cells.there] for part in noted)
        q = shapes.shape[1]
        places = (cells.means - operator.middle) @ operator.projection[:q].T
        return cls(cells.shares, places, shapes * (cells.wider or 1.0), counts)

    @classmethod
    def of(cls, cells: Cells, members: Members) -> CellClusters | None:
        """Clusters of cells; None if the design has no covariances within cells."""
        each = cls.of_each(cells)
        return None if each is None else each.merged(members)

    def merged(self, members: Members) -> CellClusters:
        """Clusters of these."""
        q, centers = self.places.shape[1], members.means(self.places)
        away = self.places - centers[members.owners]
        moments = self.covariances + away[:, :, None] * away[:, None]
        covariances = members.means(moments.reshape(-1, q * q)).reshape(-1, q, q)
        counts = np.bincount(members.owners, self.n_sampled, minlength=members.k)
        return CellClusters(members.sizes, centers, covariances, counts.astype(np.float64))

    def gaps(self) -> Double:
        """The distance of each center from each border, in deviations of its cluster: (k, k); infinite to itself."""
        apart = self.places[:, None] - self.places[None]
        squares = np.sum(apart**2, axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = squares / (2 * np.sqrt(self.variances(apart)))
        found[np.isnan(found)] = 0.0  # centers that coincide
        np.fill_diagonal(found, np.inf)
        return np.asarray(found)

    def variances(self, directions: Double) -> Double:
        """Variances of each cluster along directions to others, times their squared lengths: (k, others)."""
        return np.asarray(np.einsum("abi,aij,abj->ab", directions, self.covariances, directions, optimize=True))

    def overlaps(self) -> Double:
        """About how far records beyond its borders could move a cluster's center, in deviations of the cluster."""
        gaps = np.minimum(self.gaps(), 1e3)
        reach = ndtr(-gaps) * np.maximum(gaps, 1.0)
        np.fill_diagonal(reach, 0.0)
        return np.asarray(np.sqrt(np.sum(reach**2, axis=1)))  # others lie in other directions

    def gains(self) -> Double:
        """The gain in likelihood of two clusters over one in their place, in nats per record of both: (k, k).

        Along the line through the centers, two Gaussians of one variance are compared with a single one; records are
        assigned. There is no gain where the border lies within one deviation of a center.
        """
        apart = self.places[:, None] - self.places[None]
        squares = np.maximum(np.sum(apart**2, axis=2), 1e-300)
        own = np.maximum(self.variances(apart) / squares, 1e-300)
        share = self.shares[:, None] / np.maximum(self.shares[:, None] + self.shares, 1e-300)
        other = 1 - share
        within = share * own + other * own.T
        with np.errstate(divide="ignore", invalid="ignore"):
            entropy = -np.nan_to_num(share * np.log(share)) - np.nan_to_num(other * np.log(other))
        found = 0.5 * np.log1p(share * other * squares / within) - entropy
        gaps = self.gaps()
        found = np.where(np.minimum(gaps, gaps.T) < LEAST_GAP, np.minimum(found, 0.0), found)
        np.fill_diagonal(found, np.inf)
        return np.asarray(found)

    def joined(self, a: int, b: int) -> CellClusters:
        """The clusters with two of them merged, in the place of the first."""
        k = len(self.shares)
        owners = np.insert(np.arange(k - 1), b, a - (b < a))
        return self.merged(Members(owners, self.shares, k - 1))
