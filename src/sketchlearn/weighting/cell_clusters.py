"""Clusters of cells in the directions in which those are told apart: their covariances, and how near others come.

A cell's mean is exact there. The covariance within a cell is that of the design's sample.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sketchlearn.models import Double
from sketchlearn.weighting.cells_of_sketch import Cells, Members

LEAST_GAP = 1.0  # Far records of clusters with tails are spread more widely than that, and no cluster of their own.
NO_COVARIANCES = (
    "the design does not tell what lies within cells, as it is of few rows, many columns in many cells, or an earlier "
    "version: design it on more rows, or for fewer clusters"
)


@dataclass(frozen=True)
class CellClusters:
    """Clusters of cells: shares, places of their centers, and covariances of their records, in some directions."""

    shares: Double  # (k,)
    places: Double  # (k, directions)
    covariances: Double  # (k, directions, directions)
    n_sampled: Double  # (k,): rows of the sample, which the covariances are of

    @classmethod
    def of_each(cls, cells: Cells) -> CellClusters | None:
        """Each cell as a cluster of its own; None where the design does not tell what lies within cells."""
        operator, noted = cells.operator, cells.operator.sampled_cells
        if noted is None:
            return None
        counts, shapes = (part[cells.there] for part in noted)
        q = shapes.shape[1]
        places = (cells.means - operator.middle) @ operator.projection[:q].T
        return cls(cells.shares, places, shapes * (cells.wider or 1.0), counts)

    @classmethod
    def of(cls, cells: Cells, members: Members) -> CellClusters | None:
        """Clusters of cells; None where the design does not tell what lies within cells."""
        each = cls.of_each(cells)
        if each is None:
            return None
        q, centers = each.places.shape[1], members.means(each.places)
        away = each.places - centers[members.owners]
        moments = each.covariances + away[:, :, None] * away[:, None]
        covariances = members.means(moments.reshape(-1, q * q)).reshape(-1, q, q)
        counts = np.bincount(members.owners, each.n_sampled, minlength=members.k)
        return cls(members.sizes, centers, covariances, counts.astype(np.float64))

    def gaps(self) -> Double:
        """How many of its own deviations each center lies from the border to each other: (k, k); infinite to itself."""
        apart = self.places[:, None] - self.places[None]
        squares = np.sum(apart**2, axis=2)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = squares / (2 * np.sqrt(self.variances(apart)))
        found[np.isnan(found)] = 0.0  # centers that coincide
        np.fill_diagonal(found, np.inf)
        return np.asarray(found)

    def variances(self, directions: Double) -> Double:
        """Of each cluster's records along a direction to each other, times its squared length: (k, others)."""
        return np.asarray(np.einsum("abi,aij,abj->ab", directions, self.covariances, directions, optimize=True))

    def overlaps(self) -> Double:
        """About how far records beyond a cluster's borders could move its center, in deviations of its records."""
        gaps = np.minimum(self.gaps(), 1e3)
        reach = ndtr(-gaps) * np.maximum(gaps, 1.0)
        np.fill_diagonal(reach, 0.0)
        return np.asarray(np.sqrt(np.sum(reach**2, axis=1)))  # others lie in other directions

    def gains(self) -> Double:
        """What it gains to tell two clusters apart, in nats per record of both: (k, k).

        Along the line through their centers, two Gaussians of one variance stand beside one for both, and each record
        knows its own. Nothing is gained where the border lies within one deviation of a center.
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
        """The same with two clusters as one, in the place of the first."""
        pair = [a, b]
        share = self.shares[pair].sum()
        weights = self.shares[pair] / share
        place = weights @ self.places[pair]
        away = self.places[pair] - place
        covariance = np.einsum("a,aij->ij", weights, self.covariances[pair] + away[:, :, None] * away[:, None])
        left = np.delete(np.arange(len(self.shares)), b)
        at = int(np.flatnonzero(left == a)[0])
        found = CellClusters(
            self.shares[left], self.places[left], self.covariances[left].copy(), self.n_sampled[left].copy()
        )
        found.shares[at], found.places[at], found.covariances[at] = share, place, covariance
        found.n_sampled[at] = self.n_sampled[pair].sum()
        return found
