"""Clusters of cells in the directions in which those are told apart: their covariances, and how near others come.

A cell's mean is exact there. Of the covariance within a cell the design's sample tells the shape, and the cell's own
squares the size.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import ndtr

from sketchlearn.models import Double
from sketchlearn.weighting.cells_of_sketch import Cells, Members


@dataclass(frozen=True)
class CellClusters:
    """Clusters of cells: shares, places of their centers, and covariances of their records, in some directions."""

    shares: Double  # (k,)
    places: Double  # (k, directions)
    covariances: Double  # (k, directions, directions)

    @classmethod
    def of(cls, cells: Cells, members: Members) -> CellClusters | None:
        """Those of cells; None where the design does not tell what lies within these."""
        shape, operator = cells.operator.covariance_matrix, cells.operator
        if shape is None or not operator.spread:
            return None
        places = (cells.means - operator.middle) @ operator.projection[: len(shape)].T
        sizes = members.means((cells.within / operator.spread)[:, None])[:, 0]
        centers = members.means(places)
        away = places - centers[members.owners]
        covariances = sizes[:, None, None] * shape
        parts = members.shares / np.maximum(members.sizes, 1e-300)[members.owners]
        for cluster in range(members.k):
            own = members.owners == cluster
            covariances[cluster] += (parts[own, None] * away[own]).T @ away[own]
        return cls(members.sizes, centers, covariances)

    def gaps(self) -> Double:
        """How many of its own deviations each center lies from the border to each other: (k, k); infinite to itself."""
        apart = self.places[:, None] - self.places[None]
        squares = np.sum(apart**2, axis=2)
        variances = np.einsum("abi,aij,abj->ab", apart, self.covariances, apart, optimize=True)
        with np.errstate(divide="ignore", invalid="ignore"):
            found = squares / (2 * np.sqrt(variances))
        found[np.isnan(found)] = 0.0  # centers that coincide
        np.fill_diagonal(found, np.inf)
        return np.asarray(found)

    def overlaps(self) -> Double:
        """About how far records beyond a cluster's borders could move its center, in deviations of its records."""
        gaps = np.minimum(self.gaps(), 1e3)
        reach = ndtr(-gaps) * np.maximum(gaps, 1.0)
        np.fill_diagonal(reach, 0.0)
        return np.asarray(np.sqrt(np.sum(reach**2, axis=1)))  # others lie in other directions

    def lengths(self) -> Double:
        """Minus the mean log-likelihood of a cluster's records under a Gaussian of its own, but for a constant."""
        there, found = self.shares > 0, np.zeros(len(self.shares))
        found[there] = 0.5 * np.linalg.slogdet(self.covariances[there])[1] - np.log(self.shares[there])
        return found

    def description_length(self, n_records: float) -> float:
        """Minus the log-likelihood of all records, each given its own cluster, with BIC's charge for each number."""
        n_numbers = np.sum(self.shares > 0) * (self.places.shape[1] + 2) - 1  # means, shares and sizes
        return float(n_records * (self.shares @ self.lengths()) + 0.5 * np.log(n_records) * n_numbers)
