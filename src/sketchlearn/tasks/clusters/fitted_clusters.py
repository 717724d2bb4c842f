"""Clusters that were learned: centers, and which of them is nearest to a row."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.metrics.pairwise import euclidean_distances

from sketchlearn.kernel import nearest_centers
from sketchlearn.models import Dirac, Mixture
from sketchlearn.tasks.estimating.component_estimator import FittedComponents
from sketchlearn.tasks.estimating.fitted_model import Double, flag, model_array


@dataclass(frozen=True, eq=False, kw_only=True)
class Clusters(FittedComponents):
    """Centers, their shares, and the density they were taken from."""

    kind_of_part = "cluster"

    centers: Double = model_array("k", "d")
    #: in which distances count (`standardize=True`), where they are not those of the table
    units: Double | None = model_array("d", optional=True, default=None)
    #: True where rows are divided by their lengths first
    normalize: bool | None = flag(optional=True, default=None)
    #: 1 for columns that travel along, of which centers have the means, and which distances do not count; else 0
    along: Double | None = model_array("d", optional=True, default=None)

    def check(self) -> None:
        super().check()
        if self.along is not None and not (np.all(np.isin(self.along, (0, 1))) and np.any(self.along == 0)):
            raise ValueError("along must be 1 for columns that travel along and 0 for others, of which there are some")
        if self.units is not None and not np.all(self.units > 0):
            raise ValueError("units must be positive")

    @property
    def centers_of_parts(self) -> Double:
        return self.centers

    @property
    def deviations_of_parts(self) -> Double:
        """Of those components of the density that are nearest to a center; a file has none of them."""
        density, owners = self.density, self.nearest(self.density.locations)
        variances, found = density.variances(), np.full(self.centers.shape, np.nan)
        for i in np.unique(owners):
            own = owners == i
            shares = density.weights[own] / max(density.weights[own].sum(), 1e-300)
            away = density.locations[own] - shares @ density.locations[own]
            found[i] = np.sqrt(shares @ (variances[own] + away**2))
        return np.where(found > 0, found, np.nan)

    def restored_density(self) -> Mixture:
        return Mixture(Dirac(), self.weights, self.centers, np.zeros((len(self.weights), 0)))

    def distances(self, rows: NDArray[Any]) -> Double:
        """Of each row to each center."""
        rows, scale = self.as_learned(rows), self.scale
        if scale is None:
            return np.asarray(euclidean_distances(rows, self.centers))
        return np.asarray(euclidean_distances(rows * scale.astype(rows.dtype), self.centers * scale))

    @cached_property
    def scale(self) -> Double | None:
        """What columns are multiplied by before distances are taken; None for all by 1."""
        if self.along is None:
            return None if self.units is None else 1 / self.units
        return (1 - self.along) / (1.0 if self.units is None else self.units)

    def as_learned(self, rows: NDArray[Any]) -> NDArray[Any]:
        """Rows as the centers are of: divided by their lengths, if those were."""
        if not self.normalize:
            return rows
        lengths = np.linalg.norm(rows, axis=1)
        return np.asarray(rows / np.where(lengths > 0, lengths, 1)[:, None].astype(rows.dtype))

    def nearest(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        """The nearest center of each row."""
        return self.nearest_and_squares(rows)[0]

    def nearest_and_squares(self, rows: NDArray[Any], n_jobs: int | None = None) -> tuple[NDArray[np.int32], Double]:
        """The nearest center of each row and its squared distance, around the centers' mean."""
        middle = self.centers.mean(axis=0)
        scale = np.ones(self.centers.shape[1]) if self.scale is None else self.scale
        plain = (self.centers - middle) * scale
        return nearest_centers(self.as_learned(rows), plain, middle, scale, n_jobs)
