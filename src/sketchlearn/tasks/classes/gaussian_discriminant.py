"""One Gaussian per class, from second moments, with covariances that borrow from each other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from scipy.linalg import solve_triangular

from sketchlearn.moments.moments_of_sketch import Double, Moments

CLASS_SHRINKAGE = 0.3  # records per column that the common covariance is worth, beside those of a class
COMMON_SHRINKAGE = 0.5  # records per column that uncorrelated columns are worth, beside all records
LEAST_ADDED_VARIANCE = 1e-6  # relative to each column's own


@dataclass(frozen=True)
class Gaussians:
    """Means (classes, columns) and lower Cholesky factors (classes, columns, columns) of the classes' covariances."""

    means: Double
    factors: Double

    @classmethod
    def of(cls, classes: Sequence[Moments]) -> Gaussians:
        """The classes' Gaussians; each covariance is shrunk towards the common one, and that towards its diagonal.

        A class of n records in d columns keeps n / (n + 0.3 d) of its own covariance: nearly all of it, unless there
        are few records.
        """
        d = len(classes[0].mean)
        counts = np.array([moments.count for moments in classes])
        pooled = np.tensordot(counts / counts.sum(), np.array([moments.covariance for moments in classes]), 1)
        rounding = np.max([moments.rounding for moments in classes], axis=0)
        variances = np.maximum(np.diag(pooled), 0.0)
        alive = variances > (2 * rounding) ** 2
        if not np.any(alive):
            raise ValueError("all rows of a class are equal, in every class: there is no spread to learn")
        # A column without any spread within classes separates them fully or not at all: it is given a little.
        variances = np.where(alive, variances, np.maximum((2 * rounding) ** 2, np.finfo(float).tiny))
        share = COMMON_SHRINKAGE * d / (counts.sum() + COMMON_SHRINKAGE * d)
        added = variances * (share + LEAST_ADDED_VARIANCE) + np.where(alive, 0.0, variances)
        common = (1 - share) * pooled + np.diag(added)
        own = counts / (counts + CLASS_SHRINKAGE * d)
        floor = np.diag(variances * LEAST_ADDED_VARIANCE + 2 * np.sqrt(d) * rounding**2)
        covariances = [w * m.covariance + (1 - w) * common + floor for w, m in zip(own, classes, strict=True)]
        return cls(np.array([moments.mean for moments in classes]), np.linalg.cholesky(np.array(covariances)))

    def log_densities(self, rows: Double) -> Double:
        """Log-density of each row in each class, (rows, classes)."""
        result = np.empty((len(rows), len(self.means)))
        for c, (mean, factor) in enumerate(zip(self.means, self.factors, strict=True)):
            away = solve_triangular(factor, (rows - mean).T, lower=True)
            result[:, c] = -0.5 * np.sum(away * away, axis=0) - np.sum(np.log(np.diag(factor)))
        return np.asarray(result - 0.5 * rows.shape[1] * np.log(2 * np.pi))
