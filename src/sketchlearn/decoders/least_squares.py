"""Linear least squares and ridge regression from moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from sketchlearn.decoders.moments import Double, Moments

GRID = 33  # penalties that are tried before the best one is refined
SMALLEST, LARGEST = 1e-9, 1e3  # penalty per record, of the mean variance of the features


@dataclass(frozen=True)
class LinearFit:
    """Coefficients of a linear regression of several targets, and what the records say about them.

    Attributes
    ----------
    coefficients, standard_errors : arrays (targets, features).
    intercepts, intercept_errors : arrays (targets,).
    r2 : share of each target's variance that is explained, (targets,).
    penalty : what was added to the diagonal of the sum of products.
    rank : how many directions of the features the records tell apart.
    """

    coefficients: Double
    intercepts: Double
    standard_errors: Double
    intercept_errors: Double
    r2: Double
    penalty: float
    rank: int


@dataclass(frozen=True)
class Regression:
    """The regression of some columns on the others: their mean products, centred if there is an intercept."""

    count: float
    intercept: bool
    mean: Double
    products: Double  # of all columns
    rounding: Double
    features: tuple[int, ...]
    targets: tuple[int, ...]
    variances: Double  # of the targets

    @classmethod
    def of(cls, moments: Moments, targets: tuple[int, ...], *, intercept: bool) -> Regression:
        features = tuple(i for i in range(len(moments.mean)) if i not in targets)
        products = moments.covariance if intercept else moments.about_zero()
        variances = np.diag(moments.covariance)[list(targets)]
        return cls(
            moments.count, intercept, moments.mean, products, moments.rounding, features, targets, np.array(variances)
        )

    @property
    def gram(self) -> Double:
        """Mean products of the features."""
        return self.products[np.ix_(self.features, self.features)]

    def fit(self, penalty: float) -> LinearFit:
        """Minimises the sum of squared errors plus penalty times the squared coefficients."""
        gram = self.gram
        inverse, rank = self._inverse(gram, penalty / self.count)
        across = self.products[np.ix_(self.features, self.targets)]
        coefficients = (inverse @ across).T
        residuals = self._residuals(coefficients)
        mean = self.mean[list(self.features)]
        intercepts = self.mean[list(self.targets)] - coefficients @ mean if self.intercept else np.zeros(len(across.T))
        spread = inverse @ gram @ inverse / self.count
        freedom = self.count - float(np.trace(inverse @ gram)) - self.intercept
        noise = residuals * self.count / freedom if freedom > 1e-9 * self.count else np.full_like(residuals, np.nan)
        at_zero = (1 / self.count + mean @ spread @ mean) if self.intercept else 0.0
        return LinearFit(
            coefficients=coefficients,
            intercepts=intercepts,
            standard_errors=np.sqrt(np.outer(noise, np.maximum(np.diag(spread), 0.0))),
            intercept_errors=np.sqrt(noise * at_zero),
            r2=_explained(residuals, self.variances, self.rounding[list(self.targets)]),
            penalty=penalty,
            rank=rank,
        )

    def best_penalty(self) -> float:
        """The penalty of least generalised cross-validation: n |y - Hy|^2 / (n - trace H)^2, summed over targets.

        Each target counts in units of its variance.
        """
        typical = float(np.trace(self.gram)) / max(len(self.features), 1) * self.count
        if typical <= 0:
            return 0.0
        grid = np.log(typical) + np.linspace(np.log(SMALLEST), np.log(LARGEST), GRID)
        scores = [self._validated(np.exp(x)) for x in grid]
        best = int(np.argmin(scores))
        around = (grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)])
        found = minimize_scalar(lambda x: self._validated(np.exp(x)), bounds=around, method="bounded")
        return float(np.exp(found.x if found.fun < scores[best] else grid[best]))

    def _validated(self, penalty: float) -> float:
        gram = self.gram
        inverse, _ = self._inverse(gram, penalty / self.count)
        residuals = self._residuals((inverse @ self.products[np.ix_(self.features, self.targets)]).T)
        left = 1 - (float(np.trace(inverse @ gram)) + self.intercept) / self.count
        scale = np.where(self.variances > 0, self.variances, 1.0)
        return float(np.sum(residuals / scale)) / left**2 if left > 1e-9 else np.inf

    def _residuals(self, coefficients: Double) -> Double:
        """Mean squared error of each target."""
        both = np.zeros((len(self.targets), len(self.mean)))
        both[:, list(self.features)] = -coefficients
        both[np.arange(len(self.targets)), list(self.targets)] = 1.0
        return np.asarray(np.maximum(np.sum((both @ self.products) * both, axis=1), 0.0))

    def _inverse(self, gram: Double, ridge: float) -> tuple[Double, int]:
        """Of gram + ridge, without directions that are known no better than their rounding; and how many are left."""
        matrix, rounding = gram + ridge * np.eye(len(gram)), self.rounding[list(self.features)]
        unit = np.sqrt(np.maximum(np.diag(matrix), 0.0))
        alive = np.flatnonzero(unit > 2 * rounding)
        inverse = np.zeros_like(matrix)
        if not len(alive):
            return inverse, 0
        unit, relative = unit[alive], rounding[alive] / unit[alive]
        values, vectors = np.linalg.eigh(matrix[np.ix_(alive, alive)] / np.outer(unit, unit))
        # the norm of a matrix of independent errors
        error = 2 * float(np.max(relative)) * float(np.linalg.norm(relative)) + len(gram) * np.finfo(np.float64).eps
        kept = values > 2 * error
        root = vectors[:, kept] / np.sqrt(values[kept]) / unit[:, None]
        inverse[np.ix_(alive, alive)] = root @ root.T
        return inverse, int(np.sum(kept))


def _explained(residuals: Double, variances: Double, rounding: Double) -> Double:
    """R^2 as scikit-learn has it: a target that never changes is explained wholly or not at all."""
    least = (2 * rounding) ** 2
    safe = np.where(variances <= least, 1.0, variances)
    return np.where(variances <= least, np.where(residuals <= least, 1.0, 0.0), 1 - residuals / safe)
