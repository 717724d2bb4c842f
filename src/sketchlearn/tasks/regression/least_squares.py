"""Linear least squares and ridge regression from moments."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.optimize import minimize_scalar

from sketchlearn.moments.moments_of_sketch import Double, MomentNoise, Moments

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
    rank : how many directions of the features the records tell apart; of a private sketch, in spite of the noise.
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
    noise: MomentNoise | None = None  # of a private release
    hidden: int = 0  # directions of the features that vary less than the noise; they are taken to vary as much

    @classmethod
    def of(cls, moments: Moments, targets: tuple[int, ...], *, intercept: bool) -> Regression:
        features = tuple(i for i in range(len(moments.mean)) if i not in targets)
        products = moments.covariance if intercept else moments.about_zero()
        variances, hidden = np.diag(moments.covariance)[list(targets)], 0
        if moments.noise is not None:
            block, columns = np.ix_(features, features), list(features)
            about = moments.mean[columns] if intercept else np.zeros(len(features))
            floored, hidden = moments.noise.only(columns).floored(products[block], about)
            products = products.copy()
            products[block] = floored
        return cls(
            count=moments.count,
            intercept=intercept,
            mean=moments.mean,
            products=products,
            rounding=moments.rounding,
            features=features,
            targets=targets,
            variances=np.array(variances),
            noise=moments.noise,
            hidden=hidden,
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
        released, released_at_zero = self._released(coefficients, intercepts, inverse)
        return LinearFit(
            coefficients=coefficients,
            intercepts=intercepts,
            standard_errors=np.sqrt(np.outer(noise, np.maximum(np.diag(spread), 0.0)) + released),
            intercept_errors=np.sqrt(noise * at_zero + released_at_zero),
            r2=self._explained(residuals),
            penalty=penalty,
            rank=min(rank, len(self.features) - self.hidden),
        )

    def _released(self, coefficients: Double, intercepts: Double, inverse: Double) -> tuple[Double, Double]:
        """Variances of coefficients and intercepts that are due to the noise of a release.

        To first order the noise moves the solution of A beta = b by A^-1 (e_b - E_A beta), that is by A^-1 times the
        noise on the mean of features times residuals.
        """
        of_coefficients, of_intercepts = np.zeros_like(coefficients), np.zeros_like(intercepts)
        if self.noise is None:
            return of_coefficients, of_intercepts
        mean = self.mean[list(self.features)]
        rows = [0, *(1 + i for i in self.features)]
        solve = np.column_stack([-inverse @ mean if self.intercept else np.zeros(len(mean)), inverse])
        at_zero = np.append(1.0, np.zeros(len(mean))) - mean @ solve
        for t, target in enumerate(self.targets):
            residual = np.zeros(1 + len(self.mean))
            residual[rows], residual[1 + target] = [-intercepts[t], *-coefficients[t]], 1.0
            moved = self.noise.along(residual)[np.ix_(rows, rows)]
            of_coefficients[t] = np.sum((solve @ moved) * solve, axis=1)
            of_intercepts[t] = at_zero @ moved @ at_zero if self.intercept else 0.0
        return np.maximum(of_coefficients, 0.0), np.maximum(of_intercepts, 0.0)

    def hidden_by_noise(self, fit: LinearFit) -> bool:
        """Whether no target has coefficients of more than twice the deviation that a private release gives them."""
        if self.noise is None:
            return False
        size = self.noise.bound[list(self.features)]
        inverse, _ = self._inverse(self.gram, fit.penalty / self.count)
        released, _ = self._released(fit.coefficients, fit.intercepts, inverse)
        return bool(np.all(fit.coefficients**2 @ size**2 < 4 * (released @ size**2)))

    def best_penalty(self) -> float:
        """The penalty of least generalised cross-validation: n |y - Hy|^2 / (n - trace H)^2, summed over targets.

        Each target counts in units of its variance. From a private sketch, no less than what balances its noise.
        """
        typical = float(np.trace(self.gram)) / max(len(self.features), 1) * self.count
        if typical <= 0:
            return 0.0
        grid = np.log(typical) + np.linspace(np.log(SMALLEST), np.log(LARGEST), GRID)
        scores = [self._validated(np.exp(x)) for x in grid]
        best = int(np.argmin(scores))
        around = (grid[max(best - 1, 0)], grid[min(best + 1, GRID - 1)])
        found = minimize_scalar(lambda x: self._validated(np.exp(x)), bounds=around, method="bounded")
        return max(float(np.exp(found.x if found.fun < scores[best] else grid[best])), self._least_penalty())

    def _least_penalty(self) -> float:
        """What balances the noise: its squared spectral norm over the features' mean variance, at most that norm."""
        if self.noise is None:
            return 0.0
        bound = self.noise.bound[list(self.features)]
        norm = float(2 * self.noise.deviation * np.max(bound) * np.linalg.norm(bound))
        return norm * min(1.0, norm * len(bound) / float(np.trace(self.gram))) * self.count

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

    def _explained(self, residuals: Double) -> Double:
        """R^2 as scikit-learn has it: a target that never changes is explained wholly or not at all."""
        variances, least = self.variances, (2 * self.rounding[list(self.targets)]) ** 2
        constant = variances <= least
        explained = 1 - residuals / np.where(constant, 1.0, variances)
        if self.noise is not None:
            return np.where(constant, 0.0, np.clip(explained, 0.0, 1.0))
        return np.where(constant, np.where(residuals <= least, 1.0, 0.0), explained)
