"""Means of a mixture of Gaussians over the cells of centers, in as few columns as tell the cells apart."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

import numpy as np

from sketchlearn.decoders.refinements.even_draws import even_normals, factors_of, shares_of
from sketchlearn.models import Double, Mixture, Single

POINTS_PER_BLOCK = 2048
FARTHEST = 5.0  # deviations: a cell as far from a component has less than a millionth of it


@dataclass(frozen=True)
class CellMeans:
    """The components of a mixture, and points of the standard normal law that stand for them, mirrored.

    The squared distances of a row to k centers differ by k - 1 linear functions of it. Under a Gaussian, as many
    columns tell the row's cell, and its mean given these columns is linear in them.
    """

    shares: Double  # of the components
    locations: Double
    factors: Double  # (components, d, d): covariances are factor @ factor'
    draws: float = 0.0
    points: Single = field(default_factory=lambda: np.empty((0, 0), np.float32))  # as columns, a one below each

    @classmethod
    def of(cls, mixture: Mixture) -> CellMeans:
        """Without points, and without components that have no weight."""
        mixture = mixture.some(mixture.weights > 0)
        return cls(shares_of(mixture), mixture.locations, factors_of(mixture))

    def with_draws(self, draws: float, k: int, rng: np.random.Generator) -> CellMeans:
        """With points for about as many draws and k centers."""
        columns = min(self.locations.shape[1], k - 1)
        points = even_normals(columns, int(np.ceil(self.shares.max() * draws / 2)), rng)
        ones = np.ones((1, points.shape[1]), np.float32)
        return replace(self, draws=draws, points=np.concatenate([points, ones]))

    def __call__(self, centers: Double) -> tuple[Double, Double]:
        """The mean of each of k > 1 cells (its center, if it is empty), and its share."""
        sizes, sums = np.zeros(len(centers)), np.zeros(centers.shape)
        turns, slopes = np.linalg.qr(self.factors.transpose(0, 2, 1) @ (centers[1:] - centers[0]).T)
        signs = np.where(np.diagonal(slopes, axis1=1, axis2=2) < 0, -1.0, 1.0)  # Columns follow the centers smoothly.
        lifts = self.factors @ (turns * signs[:, None, :])
        slopes = -2 * np.pad((slopes * signs[:, :, None]).transpose(0, 2, 1), ((0, 0), (1, 0), (0, 0)))
        heights = np.sum(centers * centers, axis=1) - 2 * self.locations @ centers.T
        components = zip(self.shares, self.locations, lifts, slopes, heights, strict=True)
        for share, location, lift, slope, height in components:
            lowest = np.argmin(height)
            above, along = height - height[lowest], slope - slope[lowest]
            near = np.flatnonzero(above <= FARTHEST * np.linalg.norm(along, axis=1))
            if len(near) == 1:
                sizes[lowest] += share
                sums[lowest] += share * location
                continue
            points = self.points[:, : int(np.ceil(share * self.draws / 2))]
            one = np.column_stack([along[near], above[near]]).astype(np.float32)
            other = np.column_stack([-along[near], above[near]]).astype(np.float32)
            inside, mirrored = _sums_where_least(one, points), _sums_where_least(other, points)
            inside[:, :-1] -= mirrored[:, :-1]
            inside[:, -1] += mirrored[:, -1]
            inside *= share / inside[:, -1].sum()
            sizes[near] += inside[:, -1]
            sums[near] += inside[:, -1:] * location + inside[:, :-1] @ lift.T
        return np.where(sizes[:, None] > 0, sums / np.maximum(sizes, 1e-300)[:, None], centers), sizes


def _sums_where_least(functions: Single, points: Single) -> Double:
    """For each of some linear functions, the sum of the points where it is the least of them."""
    found = np.zeros((len(functions), len(points)))
    for first in range(0, points.shape[1], POINTS_PER_BLOCK):
        block = points[:, first : first + POINTS_PER_BLOCK]
        values = functions @ block
        found += (values == values.min(axis=0)).astype(np.float32) @ block.T
    return found
