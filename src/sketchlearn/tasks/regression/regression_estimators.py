"""Linear regression from a sketch of second moments."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.moments.moments_of_sketch import Moments
from sketchlearn.operators import SecondMoments
from sketchlearn.plain_digits import counted
from sketchlearn.record_weights import heaviest_record
from sketchlearn.schemas import Category, SchemaColumns
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.column_ranges import keeping_rows, second_moments
from sketchlearn.tasks.estimating.error_barred import ErrorBarredEstimator
from sketchlearn.tasks.estimating.fitted_model import Document, Double
from sketchlearn.tasks.estimating.fitted_state import FittedState, SketchedTable
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.number_estimator import NumberEstimator, shaped_attribute, target_numbers
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.tasks.estimating.supervised_estimator import positions
from sketchlearn.tasks.regression.least_squares import LinearFit, Regression
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.sampled_rows import SampledRows
from sketchlearn.values import number, whole

EQUAL = "for errors of equal variance; a sketch that keeps rows gives standard errors for any"
EQUAL_AND_NOISE = "for errors of equal variance; the noise of the release is in them"


@dataclass(eq=False, repr=False)
class SketchLinearRegression(NumberEstimator, ErrorBarredEstimator):
    """Ordinary least squares from one pass over the rows, or from a sketch of second moments alone.

    The coefficients are those of `sklearn.linear_model.LinearRegression`, up to the rounding of products to 2^-31 of
    the bounds. Columns that others determine get the smallest coefficients that fit, with a warning.

    Parameters
    ----------
    fit_intercept : whether there is an intercept.
    bounds : lowest and highest value of each column (the features', then the targets'), as a pair of numbers or of
        lists. By default arrays are looked through; for files a sample tells, with room for values 8 times as far from
        their mean, and for streams the first rows, with room for 32 times.
    random_state : seed of the sample that tells the range of files.
    n_jobs, device, verbose, schema : as in `SketchKMeans`; the schema is that of the features, and targets stay
        numbers. The numbers of a category add up to one, so that its coefficients tell of differences between levels.

    Attributes
    ----------
    coef_ : array (columns,), or (targets, columns) for several targets.
    intercept_ : number, or array (targets,).
    standard_errors_ : of "coef_" and "intercept_", by these names and of the same shapes (see `intervals`). They hold
        whatever law the errors have, of unequal variances and heavy tails too (HC3), from 4000 rows that `fit` keeps
        beside the sketch, or a sketch of a design with rows. From a sketch without rows they are the textbook's, for
        errors of equal variance, which `error_bars().premise` says; from a private one, with what its noise adds.
    r2_ : share of the targets' variance that is explained in the rows that were sketched: what `score` would say.
    rank_ : number of directions of the features that the rows tell apart.
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

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Adds rows to those seen so far. The model is learned anew when it is next asked for.

        The range of values is taken from the first 5000 rows, with much room; a later row beyond it is refused.
        """
        return super().partial_fit(X, y, sample_weight)

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
        state = self._state_of(sketch)
        operator: Any = sketch.operator
        d = operator.n_features
        if targets is None:
            if d < 2:
                raise ValueError("the sketch has one column, but a regression needs features and targets in it")
            found = tuple(range(d - whole("n_targets", n_targets, most=d - 1), d))
        else:
            found = positions(targets, operator.columns, d)
        target_numbers(operator.columns, found)
        table = replace(state.table, targets=found, flat=len(found) == 1)
        return self._learn(replace(state, table=table), self._generator())

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> SecondMoments:  # noqa: ARG002
        return keeping_rows(second_moments(glimpse, self.bounds), glimpse)

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> LinearFit:  # noqa: ARG002
        regression, table = self._regression(state), state.table
        fit = self._in_table_units(replace(self._solve(regression), flat=table.flat), table)
        short = len(regression.features) - fit.rank
        if regression.noise is not None and (short or regression.hidden_by_noise(fit)):
            what = f"{short} of the features' {len(regression.features)} directions" if short else "the coefficients"
            drawn = ", and coefficients along those are drawn towards 0" if short else ""
            warn_caller(
                f"the noise of the private sketch hides {what}{drawn}: more records, fewer columns, tighter bounds or "
                "a larger epsilon would help",
            )
        elif regression.noise is None and short > _redundant(table, regression.moments) and not fit.penalty:
            warn_caller(
                f"the features are singular: the records tell only {fit.rank} of {len(regression.features)} directions "
                "apart (columns that never change, or that others determine); the smallest coefficients that fit are "
                "taken, and standard errors are of those. SketchRidge, or fewer columns, may serve better",
            )
        self._say(
            f"R^2 {float(np.mean(fit.r2)):.6g}, rank {fit.rank}, from {counted(regression.moments.count, 'record')}"
        )
        return fit

    def _in_table_units(self, fit: LinearFit, table: SketchedTable) -> LinearFit:
        """The fit of targets as the table has them, where a schema standardised them."""
        for i, target in enumerate(target_numbers(table.columns, table.targets)):
            fit = fit.in_unit(i, target.width, target.center if self.fit_intercept else 0.0)
        return fit

    def _regression(self, state: FittedState) -> Regression:
        moments = Moments.of(state.sketch, "linear regression")
        return Regression.of(moments, state.table.targets, intercept=bool(self.fit_intercept))

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:  # noqa: ARG002
        fit, sketch = state.model, state.sketch
        sample = None if sketch is None else SampledRows.of(sketch)
        if sample is not None:
            regression = self._regression(state)
            coefficients, intercepts = regression.robust_errors(own := self._solve(regression), sample)
            found = replace(own, standard_errors=coefficients, intercept_errors=intercepts)
            found = self._in_table_units(found, state.table)
            errors = self._named(fit, found.standard_errors, found.intercept_errors)
            return ErrorBars(errors, _too_few_records(errors))
        if self.privacy_ is not None and sketch is not None and self._regression(state).hidden:
            return ErrorBars(
                withheld="the noise of the release hides directions of the features, and coefficients along those are "
                "drawn towards 0: give more records, fewer columns, tighter bounds or a larger epsilon"
            )
        more = 1.0 if sketch is None else np.sqrt(heaviest_record(sketch))
        errors = self._named(fit, more * fit.standard_errors, more * fit.intercept_errors)
        return ErrorBars(errors, _too_few_records(errors), EQUAL if self.privacy_ is None else EQUAL_AND_NOISE)

    @staticmethod
    def _named(fit: LinearFit, coefficients: Double, intercepts: Double) -> dict[str, Double]:
        """Errors by the attributes' names, and of their shapes."""
        if fit.flat:
            coefficients, intercepts = coefficients[0], intercepts[0]
        return {"coef_": np.asarray(coefficients), "intercept_": np.asarray(intercepts)}

    def _solve(self, regression: Regression) -> LinearFit:
        return regression.fit(0.0)

    def predict(self, X: Any) -> Double:
        """The targets of each row."""
        fit = self.fitted_model()
        coefficients, intercepts = fit.coefficients.T, fit.intercepts
        parts = [rows @ coefficients + intercepts for rows in self.row_blocks(X, np.float64)]
        values = np.concatenate([np.empty((0, len(intercepts))), *parts])
        return values[:, 0] if fit.flat else values


@dataclass(eq=False, repr=False)
class SketchRidge(SketchLinearRegression):
    """Ridge regression from one pass over the rows, or from a sketch of second moments alone.

    The coefficients minimise |y - X w - b|^2 + alpha |w|^2, as those of `sklearn.linear_model.Ridge`.

    Parameters
    ----------
    alpha : the penalty; "gcv" takes the one of least generalised cross-validation, which needs no more than the second
        moments: n |y - Hy|^2 / (n - trace H)^2. It is sound while records are independent. From a private sketch,
        the penalty is at least what balances the noise.
    fit_intercept, bounds, random_state, n_jobs, device, verbose, schema : as in `SketchLinearRegression`.

    Attributes
    ----------
    coef_, intercept_, r2_, rank_, sketch_ : as in `SketchLinearRegression`.
    standard_errors_ : as in `SketchLinearRegression`, around what the penalty leads to with more and more rows of this
        law and a penalty that grows with them: its bias is not in them.
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
        if isinstance(self.alpha, str) and self.alpha == "gcv":
            return
        if number('alpha must be "gcv" or a number: it', self.alpha) < 0:
            raise ValueError(f"alpha must not be negative, but is {self.alpha!r}")

    def _solve(self, regression: Regression) -> LinearFit:
        penalty = regression.best_penalty() if isinstance(self.alpha, str) else float(self.alpha)
        return regression.fit(penalty)


def _too_few_records(errors: dict[str, Double]) -> str:
    """Why some errors are not known, if some are not."""
    known = all(np.all(np.isfinite(error)) for error in errors.values())
    return "" if known else "some rows lie on the fit whatever their target is, as there are so few: learn from more"


def _redundant(table: SketchedTable, moments: Moments) -> int:
    """Directions of the features that a schema leaves without meaning: levels add up to one, and some never come."""
    if not isinstance(table.columns, SchemaColumns):
        return 0
    still = np.diag(moments.covariance) <= (2 * moments.rounding) ** 2
    levels = [isinstance(table.columns.column_at(i), Category) for i in range(len(table.columns))]
    categories = sum(isinstance(column, Category) for column in table.columns.schema.columns)
    return categories + int(np.sum(still & np.array(levels)))
