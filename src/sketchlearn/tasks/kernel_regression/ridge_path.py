"""Ridge regression for all penalties at once: one decomposition of the features' products."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sketchlearn.models import Double

GRID_SIZE = 61  # penalties that are tried
LEAST_PENALTY, MOST_PENALTY = 1e-12, 10.0  # relative to the variance of all features together
TINY = 1e-300
LEAST_FREEDOM = 0.05  # Shares of the records that are left beside the degrees of freedom: below, scores are a gamble.


@dataclass(frozen=True)
class RidgePath:
    """Least squares of targets on features with a penalty on squared coefficients, from their moments.

    Attributes
    ----------
    products : covariances of the features, (features, features), in units in which coefficients are penalised alike.
    crosses : covariances of features and targets, (features, targets).
    variances : of the targets.
    count : how many records these are means of.
    least : the smallest penalty, per record, below which coefficients would follow rounding or a release's noise.
    """

    products: Double
    crosses: Double
    variances: Double
    count: float
    least: float = 0.0

    @cached_property
    def _directions(self) -> tuple[Double, Double, Double]:
        """Eigenvalues and vectors of the products, and the targets' covariances along these."""
        values, vectors = np.linalg.eigh(self.products)
        return np.maximum(values, 0.0), vectors, vectors.T @ self.crosses

    def coefficients(self, penalty: float) -> Double:
        """Of the features, (targets, features), for a penalty per record."""
        values, vectors, along = self._directions
        inverse = np.where(values > 0, 1 / np.maximum(values + penalty, TINY), 0.0)
        return np.asarray((vectors @ (inverse[:, None] * along)).T)

    def residuals(self, penalty: float) -> Double:
        """Mean squared error of each target on the records themselves."""
        values, _, along = self._directions
        factors = np.where(values > 0, (values + 2 * penalty) / np.maximum(values + penalty, TINY) ** 2, 0.0)
        return np.asarray(np.maximum(self.variances - factors @ along**2, 0.0))

    def freedom(self, penalty: float) -> float:
        """Degrees of freedom of the fit, the intercept's included: the trace of the matrix that makes it of targets."""
        values = self._directions[0]
        return 1.0 + float(np.sum(values / np.maximum(values + penalty, TINY)))

    def expected_errors(self, penalty: float, n_rows: float | None = None) -> Double:
        """The squared error of each target to expect at new records.

        Generalised cross-validation, |y - Hy|^2 / n / (1 - trace H / n)^2. With `n_rows`, that of a fit of so many
        records that are like these: what is left over cannot be learned, 1 - trace H / n is in it already, and the
        coefficients' own errors add trace H / n_rows.
        """
        used = self.freedom(penalty) / self.count
        if used > 1 - LEAST_FREEDOM:
            return np.full(len(self.variances), np.inf)
        if n_rows is None:
            return self.residuals(penalty) / (1 - used) ** 2
        return self.residuals(penalty) / (1 - used) * (1 + self.freedom(penalty) / n_rows)

    def score(self, penalty: float, n_rows: float | None = None) -> float:
        """Expected errors in units of the targets' variances, averaged over those that vary."""
        varying = self.variances > 0
        if not np.any(varying):
            return 0.0
        return float(np.mean(self.expected_errors(penalty, n_rows)[varying] / self.variances[varying]))

    def best_penalty(self, n_rows: float | None = None) -> float:
        """The penalty per record of the least score."""
        total = float(np.trace(self.products))
        if total <= 0:
            return max(self.least, 1.0)
        grid = np.maximum(total * np.geomspace(LEAST_PENALTY, MOST_PENALTY, GRID_SIZE), self.least)
        return float(grid[int(np.argmin([self.score(penalty, n_rows) for penalty in grid]))])
