"""Linear least squares and ridge regression from moments."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import minimize_scalar

from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import MomentNoise, Moments
from sketchlearn.tasks.estimating.fitted_model import FittedModel, flag, integer, model_array, scalar
from sketchlearn.uncertainty.product_forms import ProductForms
from sketchlearn.uncertainty.sampled_rows import SampledRows

LEAST_FREEDOM = 1e-9  # A row of so much leverage, or more, lies on the fit whatever its target is.
GRID_SIZE = 33  # penalties that are tried before the best one is refined
LEAST_PENALTY, MOST_PENALTY = 1e-9, 1e3  # per record, relative to the mean variance of the features


@dataclass(frozen=True, eq=False)
class LinearFit(FittedModel):
    """Coefficients of a linear regression of several targets, and how well they are known."""

    intercepts: Double = model_array("t")
    coefficients: Double = model_array("t", "d")
    standard_errors: Double = model_array("t", "d", unknown=-1.0)
    intercept_errors: Double = model_array("t", unknown=-1.0)
    r2: Double = model_array("t")  # share of each target's variance that is explained
    penalty: float = scalar()  # what was added to the diagonal of the sum of products
    rank: int = integer(0, "d")  # of the features' products, as far as rounding, or a release's noise, allows
    flat: bool = flag(default=True)  # one target, given without a second dimension

    def check(self) -> None:
        if self.flat and len(self.intercepts) > 1:
            raise ValueError("several targets cannot be flat")

    def in_unit(self, target: int, width: float, center: float) -> LinearFit:
        """The fit of y where this one is of (y - center) / width, for one of the targets."""
        scale, shift = (np.full(len(self.intercepts), value) for value in (1.0, 0.0))
        scale[target], shift[target] = width, center
        return replace(
            self,
            intercepts=self.intercepts * scale + shift,
            coefficients=self.coefficients * scale[:, None],
            standard_errors=self.standard_errors * scale[:, None],
            intercept_errors=self.intercept_errors * scale,
        )


@dataclass(frozen=True)
class Regression:
    """The regression of some columns on the others: their mean products, centred if there is an intercept."""

    moments: Moments
    intercept: bool
    features: tuple[int, ...]
    targets: tuple[int, ...]
    products: Double  # of all columns
    gram: Double  # products of the features
    variances: Double  # of the targets
    hidden: int  # directions of the features that vary less than the noise; they are taken to vary as much

    @classmethod
    def of(cls, moments: Moments, targets: tuple[int, ...], *, intercept: bool) -> Regression:
        features = tuple(i for i in range(len(moments.mean)) if i not in targets)
        products = moments.covariance if intercept else moments.covariance + np.outer(moments.mean, moments.mean)
        variances = np.diag(moments.covariance)[list(targets)]
        block, columns, hidden = np.ix_(features, features), list(features), 0
        if moments.noise is not None:
            about = moments.mean[columns] if intercept else np.zeros(len(features))
            floored, hidden = moments.noise.only(columns).floored(products[block], about)
            products = products.copy()
            products[block] = floored
        return cls(moments, intercept, features, targets, products, products[block], variances, hidden)

    @property
    def noise(self) -> MomentNoise | None:
        """The noise of a private release."""
        return self.moments.noise

    def fit(self, penalty: float) -> LinearFit:
        """Minimises the sum of squared errors plus penalty times the squared coefficients."""
        count, gram = self.moments.count, self.gram
        inverse, rank = self._inverse(penalty)
        coefficients, residuals = self._solved(inverse)
        mean, of_targets = (self.moments.mean[list(columns)] for columns in (self.features, self.targets))
        intercepts = of_targets - coefficients @ mean if self.intercept else np.zeros(len(of_targets))
        spread = inverse @ gram @ inverse / count
        freedom = count - float(np.trace(inverse @ gram)) - self.intercept
        noise = residuals * count / freedom if freedom > LEAST_FREEDOM * count else np.full_like(residuals, np.nan)
        at_zero = (1 / count + mean @ spread @ mean) if self.intercept else 0.0
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

    def influences(self, coefficients: Double, intercepts: Double, inverse: Double) -> list[ProductForms]:
        """Of each target: what a row adds to its coefficients and intercept, to first order.

        The solution of A beta = b moves by A^-1 times the mean of features times residuals.
        """
        d, columns = len(self.products), list(self.features)
        mean = self.moments.mean[columns]
        left = np.zeros((len(columns) + 1, 1 + d))
        left[:-1, [1 + i for i in columns]] = inverse
        left[:-1, 0] = 0.0 if self.intercept else inverse @ mean
        left[-1] = np.eye(1 + d)[0] - mean @ left[:-1] if self.intercept else 0.0
        forms = []
        for t, target in enumerate(self.targets):
            right = np.zeros(1 + d)
            right[[1 + i for i in columns]], right[1 + target] = -coefficients[t], 1.0
            right[0] = self.moments.mean[target] - coefficients[t] @ mean - intercepts[t]
            forms.append(ProductForms(left, right))
        return forms

    def robust_errors(self, fit: LinearFit, sample: SampledRows) -> tuple[Double, Double]:
        """Standard errors of coefficients and intercepts that hold whatever the errors' law: HC3.

        Residuals of rows are divided by 1 - leverage, as if the row had not been there (MacKinnon and White 1985).
        """
        inverse = self._inverse(fit.penalty)[0]
        away = sample.rows[:, list(self.features)] - self.moments.mean[list(self.features)] * self.intercept
        leverages = sample.parts * (self.intercept + np.sum((away @ inverse) * away, axis=1))
        factors = np.where(leverages < 1 - LEAST_FREEDOM, 1 / np.maximum(1 - leverages, LEAST_FREEDOM), np.nan)
        forms = self.influences(fit.coefficients, fit.intercepts, inverse)
        errors = np.sqrt([one.sampled(self.moments, sample, factors) for one in forms])
        return errors[:, :-1], errors[:, -1]

    def _released(self, coefficients: Double, intercepts: Double, inverse: Double) -> tuple[Double, Double]:
        """Variances of coefficients and intercepts that are due to the noise of a release."""
        forms = self.influences(coefficients, intercepts, inverse)
        variances = np.array([one.released(self.moments) for one in forms])
        return variances[:, :-1], variances[:, -1]

    def hidden_by_noise(self, fit: LinearFit) -> bool:
        """Whether no target has coefficients of more than twice the deviation that a private release gives them."""
        if self.noise is None:
            return False
        size = self.noise.bound[list(self.features)]
        released, _ = self._released(fit.coefficients, fit.intercepts, self._inverse(fit.penalty)[0])
        return bool(np.all(fit.coefficients**2 @ size**2 < 4 * (released @ size**2)))

    def best_penalty(self) -> float:
        """The penalty of least generalised cross-validation: n |y - Hy|^2 / (n - trace H)^2, summed over targets.

        Each target counts in units of its variance. From a private sketch, no less than what balances its noise.
        """
        typical = float(np.trace(self.gram)) / max(len(self.features), 1) * self.moments.count
        if typical <= 0:
            return 0.0
        grid = np.log(typical) + np.linspace(np.log(LEAST_PENALTY), np.log(MOST_PENALTY), GRID_SIZE)
        scores = [self._validated(x) for x in grid]
        best = int(np.argmin(scores))
        around = (grid[max(best - 1, 0)], grid[min(best + 1, GRID_SIZE - 1)])
        found = minimize_scalar(self._validated, bounds=around, method="bounded")
        penalty = float(np.exp(found.x if found.fun < scores[best] else grid[best]))
        if self.noise is None:
            return penalty
        # the noise's squared spectral norm over the features' mean variance, at most that norm
        bound = self.noise.bound[list(self.features)]
        norm = float(2 * self.noise.deviation * np.max(bound) * np.linalg.norm(bound))
        return max(penalty, norm * min(1.0, norm * len(bound) / float(np.trace(self.gram))) * self.moments.count)

    def _validated(self, log_penalty: float) -> float:
        """The score of generalised cross-validation."""
        inverse, _ = self._inverse(np.exp(log_penalty))
        _, residuals = self._solved(inverse)
        left = 1 - (float(np.trace(inverse @ self.gram)) + self.intercept) / self.moments.count
        scale = np.where(self.variances > 0, self.variances, 1.0)
        return float(np.sum(residuals / scale)) / left**2 if left > 1e-9 else np.inf

    def _solved(self, inverse: Double) -> tuple[Double, Double]:
        """Coefficients, and the mean squared error of each target."""
        coefficients = (inverse @ self.products[np.ix_(self.features, self.targets)]).T
        both = np.zeros((len(self.targets), len(self.products)))
        both[:, list(self.features)] = -coefficients
        both[np.arange(len(self.targets)), list(self.targets)] = 1.0
        return coefficients, np.maximum(np.sum((both @ self.products) * both, axis=1), 0.0)

    def _inverse(self, penalty: float) -> tuple[Double, int]:
        """Of gram + penalty, without directions that are known no better than their rounding; and how many are left."""
        gram, rounding = self.gram, self.moments.rounding[list(self.features)]
        matrix = gram + penalty / self.moments.count * np.eye(len(gram))
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
        variances, least = self.variances, (2 * self.moments.rounding[list(self.targets)]) ** 2
        constant = variances <= least
        explained = 1 - residuals / np.where(constant, 1.0, variances)
        if self.noise is not None:
            return np.where(constant, 0.0, np.clip(explained, 0.0, 1.0))
        return np.where(constant, np.where(residuals <= least, 1.0, 0.0), explained)
