"""Linear regression from a sketch of second moments."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self, cast

import numpy as np
from scipy.optimize import minimize_scalar

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import either
from sketchlearn.core.messages import counted, warn_caller
from sketchlearn.core.values import whole
from sketchlearn.estimators.base.estimator import ErrorBarredEstimator, model_attribute
from sketchlearn.estimators.base.model import Document, integer, model_array
from sketchlearn.estimators.base.state import DesignSample, FittedState, SketchedTable
from sketchlearn.estimators.base.supervised import (
    FittedRegression,
    NumberEstimator,
    check_alpha,
    positions,
    shaped_attribute,
)
from sketchlearn.estimators.design.column_ranges import keeping_rows, second_moments
from sketchlearn.features.moments import SecondMoments
from sketchlearn.inference.errors.components import ProductForms
from sketchlearn.inference.errors.influence import SampledRows
from sketchlearn.inference.errors.values import ErrorBars
from sketchlearn.inference.moments import Moments
from sketchlearn.rows.schemas.columns import Category
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.sums import Sketch, heaviest_record

LEAST_FREEDOM = 1e-9  # of a row or a record: a row of leverage 1 lies on the fit, whatever its target
GRID_SIZE = 33  # tried penalties, before the best one is refined
LEAST_PENALTY, MOST_PENALTY = 1e-9, 1e3  # per record, relative to the mean variance of the features


@dataclass(frozen=True, eq=False, kw_only=True)
class LinearFit(FittedRegression):
    """Coefficients of a linear regression of several targets, and their standard errors."""

    coefficients: Double = model_array("t", "d")
    standard_errors: Double = model_array("t", "d", unknown=-1.0)
    intercept_errors: Double = model_array("t", unknown=-1.0)
    rank: int = integer(0, "d")  # of the features' products, as far as rounding, or a release's noise, allows

    proportional = ("coefficients", "standard_errors", "intercept_errors")

    def values(self, rows: Double) -> Double:
        return np.asarray(rows @ self.coefficients.T + self.intercepts)


@dataclass(frozen=True)
class Regression:
    """The regression of some columns on the others: their mean products, centred if there is an intercept."""

    moments: Moments
    intercept: bool
    features: list[int]
    targets: list[int]
    products: Double  # of all columns
    gram: Double  # products of the features
    variances: Double  # of the targets
    hidden: int  # directions of the features that vary less than the noise; their variance is raised to it

    @classmethod
    def of(cls, moments: Moments, targets: tuple[int, ...], *, intercept: bool) -> Regression:
        features = [i for i in range(len(moments.mean)) if i not in targets]
        products = moments.covariance if intercept else moments.covariance + np.outer(moments.mean, moments.mean)
        variances = np.diag(moments.covariance)[list(targets)]
        block, hidden = np.ix_(features, features), 0
        if moments.noise is not None:
            about, products = moments.mean[features] * intercept, products.copy()
            products[block], hidden = moments.noise.only(features).floored(products[block], about)
        return cls(moments, intercept, features, list(targets), products, products[block], variances, hidden)

    def fit(self, penalty: float) -> LinearFit:
        """Minimises the sum of squared errors plus penalty times the squared coefficients."""
        count, gram = self.moments.count, self.gram
        inverse, rank = self._inverse(penalty)
        coefficients, residuals = self._solved(inverse)
        mean, of_targets = self.moments.mean[self.features], self.moments.mean[self.targets]
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
        """The influence of a row on the coefficients and the intercept of each target, to first order.

        The solution of A beta = b changes by A^-1 times the mean of features times residuals.
        """
        d, mean = len(self.products), self.moments.mean[self.features]
        places = [1 + i for i in self.features]
        left = np.zeros((1 + len(places), 1 + d))
        left[:-1, places] = inverse
        left[:-1, 0] = 0.0 if self.intercept else inverse @ mean
        left[-1] = np.eye(1 + d)[0] - mean @ left[:-1] if self.intercept else 0.0
        forms = []
        for t, target in enumerate(self.targets):
            right = np.zeros(1 + d)
            right[places], right[1 + target] = -coefficients[t], 1.0
            right[0] = self.moments.mean[target] - coefficients[t] @ mean - intercepts[t]
            forms.append(ProductForms(left, right))
        return forms

    def robust_errors(self, fit: LinearFit, sample: SampledRows) -> tuple[Double, Double]:
        """Heteroskedasticity-consistent standard errors of coefficients and intercepts: HC3.

        Residuals of rows are divided by 1 - leverage (MacKinnon and White 1985).
        """
        inverse = self._inverse(fit.penalty)[0]
        away = sample.rows[:, self.features] - self.moments.mean[self.features] * self.intercept
        leverages = sample.parts * (self.intercept + np.sum((away @ inverse) * away, axis=1))
        factors = np.where(leverages < 1 - LEAST_FREEDOM, 1 / np.maximum(1 - leverages, LEAST_FREEDOM), np.nan)
        forms = self.influences(fit.coefficients, fit.intercepts, inverse)
        errors = np.sqrt([one.sampled(self.moments, sample, factors) for one in forms])
        return errors[:, :-1], errors[:, -1]

    def _released(self, coefficients: Double, intercepts: Double, inverse: Double) -> tuple[Double, Double]:
        """Variances of coefficients and intercepts due to the noise of a release."""
        forms = self.influences(coefficients, intercepts, inverse)
        variances = np.array([one.released(self.moments) for one in forms])
        return variances[:, :-1], variances[:, -1]

    def hidden_by_noise(self, fit: LinearFit) -> bool:
        """Whether no target has coefficients above twice the standard error due to the noise of a release."""
        if self.moments.noise is None:
            return False
        size = self.moments.noise.bound[self.features]
        released, _ = self._released(fit.coefficients, fit.intercepts, self._inverse(fit.penalty)[0])
        return bool(np.all(fit.coefficients**2 @ size**2 < 4 * (released @ size**2)))

    def best_penalty(self) -> float:
        """The penalty of least generalised cross-validation error n |y - Hy|^2 / (n - trace H)^2, summed over targets.

        Each target counts in units of its variance. For private sketches there is a lower bound that balances the
        noise.
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
        if (noise := self.moments.noise) is None:
            return penalty
        # the noise's squared spectral norm over the features' mean variance, at most that norm
        bound = noise.bound[self.features]
        norm = float(2 * noise.deviation * np.max(bound) * np.linalg.norm(bound))
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
        both[:, self.features], both[np.arange(len(both)), self.targets] = -coefficients, 1.0
        return coefficients, np.maximum(np.sum((both @ self.products) * both, axis=1), 0.0)

    def _inverse(self, penalty: float) -> tuple[Double, int]:
        """The inverse of gram + penalty, without directions that are as small as their rounding; and its rank."""
        gram, rounding = self.gram, self.moments.rounding[self.features]
        matrix = gram + penalty / self.moments.count * np.eye(len(gram))
        unit = np.sqrt(np.maximum(np.diag(matrix), 0.0))
        alive = np.flatnonzero(unit > 2 * rounding)
        inverse = np.zeros_like(matrix)
        if not len(alive):
            return inverse, 0
        unit, relative = unit[alive], rounding[alive] / unit[alive]
        values, vectors = np.linalg.eigh(matrix[np.ix_(alive, alive)] / np.outer(unit, unit))
        # The spectral norm of a matrix of independent errors.
        error = 2 * float(np.max(relative)) * float(np.linalg.norm(relative)) + len(gram) * np.finfo(np.float64).eps
        kept = values > 2 * error
        root = vectors[:, kept] / np.sqrt(values[kept]) / unit[:, None]
        inverse[np.ix_(alive, alive)] = root @ root.T
        return inverse, int(np.sum(kept))

    def _explained(self, residuals: Double) -> Double:
        """R^2 as scikit-learn defines it: 1 or 0 for constant targets."""
        variances, least = self.variances, (2 * self.moments.rounding[self.targets]) ** 2
        constant = variances <= least
        explained = 1 - residuals / np.where(constant, 1.0, variances)
        if self.moments.noise is not None:
            return np.where(constant, 0.0, np.clip(explained, 0.0, 1.0))
        return np.where(constant, np.where(residuals <= least, 1.0, 0.0), explained)


EQUAL = "for errors of equal variance; a sketch that keeps rows gives standard errors for any"
EQUAL_AND_NOISE = "for errors of equal variance; the noise of the release is in them"
TOO_FEW_RECORDS = "there are so few rows that some have leverage 1, whatever their targets are: learn from more"


@dataclass(eq=False, repr=False)
class SketchLinearRegression(NumberEstimator, ErrorBarredEstimator):
    """Ordinary least squares from one pass over the rows, or from a sketch of second moments alone.

    The coefficients are those of `sklearn.linear_model.LinearRegression`, up to the rounding of products to 2^-31 of
    the bounds. Collinear columns get the smallest coefficients that fit, with a warning.

    Parameters
    ----------
    fit_intercept : whether there is an intercept.
    bounds : lowest and highest value of each column (the features', then the targets'), as a pair of numbers or of
        lists. By default the range is found in arrays; for files it is that of a sample, times 8, and for streams that
        of the first rows, times 32. Later values beyond it are refused.
    random_state : seed of the sample that gives the range of files.
    n_jobs, device, verbose, schema : as in `SketchKMeans`; the schema is that of the features, and targets stay
        numbers. The numbers of a category add up to one, so that only differences of its coefficients matter.

    Attributes
    ----------
    coef_ : array (columns,), or (targets, columns) for several targets.
    intercept_ : number, or array (targets,).
    standard_errors_ : of "coef_" and "intercept_", by these names and of the same shapes (see `intervals`). They are
        heteroskedasticity-consistent (HC3) if the sketch has a sample of rows, as `fit` draws one of 4000. Otherwise
        they are for errors of equal variance, as `error_bars().premise` says; those of private sketches include the
        noise.
    r2_ : coefficient of determination of the sketched rows, as `score` has it.
    rank_ : rank of the features.
    sketch_ : the sketch of features and targets; it can be saved, merged, updated and given to `fit_sketch`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((1000, 2))
    >>> model = skl.SketchLinearRegression().fit(X, X @ [1.0, -2.0] + 3)
    >>> model.coef_.round(4).tolist(), round(model.intercept_, 4), round(model.r2_, 4)
    ([1.0, -2.0], 3.0, 1.0)
    """

    _: KW_ONLY
    fit_intercept: bool = True
    bounds: Any = None

    least_records = 3  # Leverage of rows is counted in.
    model_type = LinearFit
    coef_ = shaped_attribute("coefficients")
    intercept_ = shaped_attribute("intercepts")
    rank_ = model_attribute("rank")

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return {"task": "moments"}

    def fit_sketch(self, sketch: Sketch, n_targets: int = 1, *, targets: Any = None) -> Self:
        """Learns from a sketch of second moments alone.

        Parameters
        ----------
        sketch : of `SecondMoments`, or of operators concatenated with it.
        n_targets : the last so many columns are the targets.
        targets : instead, the name of a target's column, or a list of names or positions.
        """
        state, operator = self._state_of(sketch), cast("Any", sketch.operator)
        d = operator.n_features
        if targets is not None:
            return self._learn_targets(state, positions(targets, operator.columns, d))
        if d < 2:
            raise ValueError("the sketch has one column, but a regression needs features and targets in it")
        return self._learn_targets(state, tuple(range(d - whole("n_targets", n_targets, most=d - 1), d)))

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> SecondMoments:  # noqa: ARG002
        return keeping_rows(second_moments(design_sample, self.bounds), design_sample)

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> LinearFit:  # noqa: ARG002
        regression, table = self._regression(state), state.table
        fit = replace(self._solve(regression), flat=table.flat)
        fit = self._in_table_units(fit, table, centered=self.fit_intercept)
        short, private = len(regression.features) - fit.rank, regression.moments.noise is not None
        if private and (short or regression.hidden_by_noise(fit)):
            what = f"{short} of the features' {len(regression.features)} directions" if short else "the coefficients"
            shrunk = ", and coefficients along those are shrunk towards 0" if short else ""
            warn_caller(
                f"the noise of the private sketch hides {what}{shrunk}: use more records, fewer columns, tighter "
                "bounds or a larger epsilon",
            )
        elif not private and short > _redundant(table, regression.moments) and not fit.penalty:
            warn_caller(
                f"the features are singular: their rank is {fit.rank} of {len(regression.features)} (some columns are "
                "constant, or determined by others); of all solutions, the result is that with the smallest "
                f"coefficients. Consider {either('ridge regression', '--alpha gcv')}, or fewer columns",
            )
        records = counted(regression.moments.count, "record")
        self._say(f"R^2 {float(np.mean(fit.r2)):.6g}, rank {fit.rank}, from {records}")
        return fit

    def _regression(self, state: FittedState) -> Regression:
        moments = Moments.of(state.sketch, "linear regression")
        return Regression.of(moments, state.table.targets, intercept=bool(self.fit_intercept))

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:  # noqa: ARG002
        found, regression, more, premise = state.model, self._regression(state), 1.0, ""
        if (sample := SampledRows.of(state.sketch)) is not None:
            own = self._solve(regression)
            coefficients, intercepts = regression.robust_errors(own, sample)
            own = replace(own, standard_errors=coefficients, intercept_errors=intercepts)
            found = self._in_table_units(own, state.table)
        elif regression.hidden:
            return ErrorBars(
                withheld="the noise of the release hides directions of the features, and coefficients along those are "
                "shrunk towards 0: use more records, fewer columns, tighter bounds or a larger epsilon"
            )
        else:
            more = np.sqrt(heaviest_record(state.sketch))
            premise = EQUAL if self.privacy_ is None else EQUAL_AND_NOISE
        each = {"coef_": more * found.standard_errors, "intercept_": more * found.intercept_errors}
        errors = {name: np.asarray(error[0] if state.model.flat else error) for name, error in each.items()}
        known = all(np.all(np.isfinite(error)) for error in errors.values())
        return ErrorBars(errors, "" if known else TOO_FEW_RECORDS, premise)

    def _solve(self, regression: Regression) -> LinearFit:
        return regression.fit(0.0)


@dataclass(eq=False, repr=False)
class SketchRidge(SketchLinearRegression):
    """Ridge regression from one pass over the rows, or from a sketch of second moments alone.

    The coefficients minimise |y - X w - b|^2 + alpha |w|^2, as those of `sklearn.linear_model.Ridge`.

    Parameters
    ----------
    alpha : the penalty; "gcv" means the one of least generalised cross-validation error n |y - Hy|^2 / (n - trace H)^2,
        which the second moments determine. It assumes independent records. For private sketches there is a lower bound
        that balances the noise.
    fit_intercept, bounds, random_state, n_jobs, device, verbose, schema : as in `SketchLinearRegression`.

    Attributes
    ----------
    coef_, intercept_, r2_, rank_, sketch_ : as in `SketchLinearRegression`.
    standard_errors_ : as in `SketchLinearRegression`; they do not include the bias due to the penalty.
    alpha_ : the penalty that was used.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((200, 5))
    >>> model = skl.SketchRidge("gcv").fit(X, X[:, 0] + rng.standard_normal(200))
    >>> bool(0 < model.alpha_ < 100), model.coef_.shape
    (True, (5,))
    """

    alpha: float | str = 1.0

    alpha_ = model_attribute("penalty")

    @classmethod
    def parameters_of(cls, model: LinearFit) -> Document:
        return {"alpha": model.penalty}

    def check_parameters(self) -> None:
        check_alpha(self.alpha)

    def _solve(self, regression: Regression) -> LinearFit:
        penalty = regression.best_penalty() if isinstance(self.alpha, str) else float(self.alpha)
        return regression.fit(penalty)


def _redundant(table: SketchedTable, moments: Moments) -> int:
    """Directions in which features of a schema are constant: categories add up to one, and some do not occur."""
    if not isinstance(table.columns, SchemaColumns):
        return 0
    still = np.diag(moments.covariance) <= (2 * moments.rounding) ** 2
    levels = [isinstance(table.columns.column_at(i), Category) for i in range(len(table.columns))]
    categories = sum(isinstance(column, Category) for column in table.columns.schema.columns)
    return categories + int(np.sum(still & np.array(levels)))
