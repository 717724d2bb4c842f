"""Linear regression from a sketch of second moments."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import MultiOutputMixin, RegressorMixin
from sklearn.utils.validation import validate_data

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.designing.column_ranges import second_moments
from sketchlearn.moments.moments_of_sketch import Moments
from sketchlearn.operators import SecondMoments
from sketchlearn.sketch import Sketch
from sketchlearn.storage.json_documents import numbers_of
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.sketch_estimator import Document, Double, as_plain
from sketchlearn.tasks.estimating.supervised_estimator import SupervisedEstimator, positions
from sketchlearn.tasks.regression.least_squares import LinearFit, Regression
from sketchlearn.values import number, truth, whole


class SketchLinearRegression(MultiOutputMixin, RegressorMixin, SupervisedEstimator):
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
    n_jobs : threads that sketch; None means all cores.
    verbose : 1 shows progress on standard error.

    Attributes
    ----------
    coef_ : array (columns,), or (targets, columns) for several targets.
    intercept_ : number, or array (targets,).
    standard_errors_, intercept_standard_error_ : of the same shapes; for independent errors of equal variance. From
        a private sketch, with the deviations that its noise causes.
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

    _flat: bool = True  # one target, given without a second dimension

    model_fields = (
        "coefficients",
        "intercepts",
        "standard_errors",
        "intercept_errors",
        "r2",
        "penalty",
        "rank",
        "flat",
    )

    def __init__(
        self,
        *,
        fit_intercept: bool = True,
        bounds: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.fit_intercept = fit_intercept
        self.bounds = bounds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def model_content(self) -> Document:
        fitted, content = self.fitted_model(), {"flat": self._flat}
        for name in self.model_fields[:-1]:
            value = getattr(fitted, name)
            content[name] = as_plain(np.nan_to_num(value, nan=-1.0) if isinstance(value, np.ndarray) else value)
        return content

    @classmethod
    def from_model_content(cls, document: Document, n_features: int) -> Self:
        t = whole("the number of targets", len(document["intercepts"]))
        known = {field: numbers_of(document, field, (t, n_features)) for field in ("coefficients", "standard_errors")}
        known |= {field: numbers_of(document, field, (t,)) for field in ("intercepts", "intercept_errors", "r2")}
        for field in ("standard_errors", "intercept_errors"):
            known[field] = np.where(known[field] < 0, np.nan, known[field])  # unknown
        flat, penalty = truth("flat", document["flat"]), float(numbers_of(document, "penalty", ()))
        if flat and t > 1:
            raise ValueError("several targets cannot be flat")
        estimator = cls._with_penalty(penalty)
        rank = whole("rank", document["rank"], 0, n_features)
        estimator._flat, estimator._model = flat, LinearFit(**known, penalty=penalty, rank=rank)
        return estimator

    @classmethod
    def _with_penalty(cls, penalty: float) -> Self:  # noqa: ARG003
        return cls()

    def fit(self, X: Any, y: Any = None) -> Self:
        """Learns from rows and targets, which are read once, after a look at their range.

        Parameters
        ----------
        X : array of shape (rows, columns) or data frame; or files, Arrow tables and all else that `source` takes; or a
            Dask collection or a Spark data frame, whose rows stay where they are.
        y : array (rows,) or (rows, targets); or, where X holds the targets too, the name of their column, or a list of
            names or positions.
        """
        fitted = super().fit(X, y)
        self._flat = np.asarray(y).ndim < 2 and len(self._targets) == 1
        return fitted

    def partial_fit(self, X: Any, y: Any = None) -> Self:
        """Adds rows to those seen so far. The model is learned anew when it is next asked for.

        The range of values is taken from the first 5000 rows, with much room; a later row beyond it is refused.
        """
        fitted = super().partial_fit(X, y)
        self._flat = np.asarray(y).ndim < 2 and len(self._targets) == 1
        return fitted

    def fit_sketch(self, sketch: Sketch, n_targets: int = 1, *, targets: Any = None) -> Self:
        """Learns from a sketch of second moments alone.

        Parameters
        ----------
        sketch : of `SecondMoments`, or of operators concatenated with it.
        n_targets : the last so many columns are the targets.
        targets : instead, the name of a target's column, or a list of names or positions.
        """
        if not isinstance(sketch, Sketch):
            raise TypeError(f"expected a Sketch, not {type(sketch).__name__}: rows go through fit(rows, targets)")
        operator: Any = sketch.operator
        d = operator.n_features
        if targets is None:
            if d < 2:
                raise ValueError("the sketch has one column, but a regression needs features and targets in it")
            found = tuple(range(d - whole("n_targets", n_targets, most=d - 1), d))
        else:
            found = positions(targets, operator.columns, d)
        self._fit_targets(sketch, found)
        self._flat = len(found) == 1
        return self

    def _arrays(self, X: Any, y: Any, *, reset: bool) -> tuple[NDArray[Any], NDArray[Any]]:
        self.check_parameters()
        rows, values = validate_data(
            self, X, y, reset=reset, dtype=[np.float64, np.float32], multi_output=True, y_numeric=True
        )
        values = np.asarray(values, np.float64).reshape(len(rows), -1)
        if not reset and values.shape[1] != len(self._targets):
            raise ValueError(f"y has {values.shape[1]} targets, but before it had {len(self._targets)}")
        return rows, values

    def check_size(self, n_rows: int) -> None:
        if n_rows < 2:
            raise ValueError(f"n_samples={n_rows} rows cannot tell a regression: give at least 2")

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> SecondMoments:  # noqa: ARG002
        return second_moments(
            glimpse.rows,
            glimpse.columns,
            everything=glimpse.everything,
            bounds=self.bounds,
            representative=glimpse.representative,
        )

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> LinearFit:  # noqa: ARG002
        moments = Moments.of(sketch, "linear regression")
        regression = Regression.of(moments, self._targets, intercept=bool(self.fit_intercept))
        fit = self._solve(regression)
        short = len(regression.features) - fit.rank
        if regression.noise is not None:
            self._warn_of_noise(short, len(regression.features), regression.hidden_by_noise(fit))
        elif short and not fit.penalty:
            warn_caller(
                f"the features are singular: the records tell only {fit.rank} of {len(regression.features)} directions "
                "apart (columns that never change, or that others determine); the smallest coefficients that fit are "
                "taken, and standard errors are of those. SketchRidge, or fewer columns, may serve better",
            )
        self._say(f"R^2 {float(np.mean(fit.r2)):.6g}, rank {fit.rank}, from {moments.count:g} records")
        return fit

    def _warn_of_noise(self, short: int, n_features: int, hidden: bool) -> None:
        if short or hidden:
            what = f"{short} of the features' {n_features} directions" if short else "the coefficients"
            drawn = ", and coefficients along those are drawn towards 0" if short else ""
            warn_caller(
                f"the noise of the private sketch hides {what}{drawn}: more records, fewer columns, tighter bounds or "
                "a larger epsilon would help",
            )

    def _solve(self, regression: Regression) -> LinearFit:
        return regression.fit(0.0)

    @property
    def coef_(self) -> Double:
        return self._shaped(self.fitted_model().coefficients)

    @property
    def intercept_(self) -> Any:
        return self._shaped(self.fitted_model().intercepts)

    @property
    def standard_errors_(self) -> Double:
        return self._shaped(self.fitted_model().standard_errors)

    @property
    def intercept_standard_error_(self) -> Any:
        return self._shaped(self.fitted_model().intercept_errors)

    @property
    def r2_(self) -> float:
        return float(np.mean(self.fitted_model().r2))

    @property
    def rank_(self) -> int:
        rank: int = self.fitted_model().rank
        return rank

    def _shaped(self, values: Double) -> Any:
        if not self._flat:
            return values
        return float(values[0]) if values.ndim == 1 else values[0]

    def predict(self, X: Any) -> Double:
        """The targets of each row."""
        fit = self.fitted_model()
        coefficients, intercepts = fit.coefficients.T, fit.intercepts
        parts = [rows @ coefficients + intercepts for rows in self.row_blocks(X, np.float64)]
        values = np.concatenate([np.empty((0, len(intercepts))), *parts])
        return values[:, 0] if self._flat else values

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = True
        tags.target_tags.multi_output = True
        tags.target_tags.single_output = True
        return tags


class SketchRidge(SketchLinearRegression):
    """Ridge regression from one pass over the rows, or from a sketch of second moments alone.

    The coefficients minimise |y - X w - b|^2 + alpha |w|^2, as those of `sklearn.linear_model.Ridge`.

    Parameters
    ----------
    alpha : the penalty; "gcv" takes the one of least generalised cross-validation, which needs no more than the second
        moments: n |y - Hy|^2 / (n - trace H)^2. It is sound while records are independent. From a private sketch,
        the penalty is at least what balances the noise.
    fit_intercept, bounds, random_state, n_jobs, verbose : as in `SketchLinearRegression`.

    Attributes
    ----------
    coef_, intercept_, r2_, rank_, sketch_ : as in `SketchLinearRegression`.
    standard_errors_, intercept_standard_error_ : deviations of the estimates; the bias by the penalty is not in them.
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

    def __init__(
        self,
        alpha: float | str = 1.0,
        *,
        fit_intercept: bool = True,
        bounds: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            fit_intercept=fit_intercept, bounds=bounds, random_state=random_state, n_jobs=n_jobs, verbose=verbose
        )
        self.alpha = alpha

    @classmethod
    def _with_penalty(cls, penalty: float) -> Self:
        return cls(penalty)

    def check_parameters(self) -> None:
        if isinstance(self.alpha, str) and self.alpha == "gcv":
            return
        if number('alpha must be "gcv" or a number: it', self.alpha) < 0:
            raise ValueError(f"alpha must not be negative, but is {self.alpha!r}")

    def _solve(self, regression: Regression) -> LinearFit:
        penalty = regression.best_penalty() if isinstance(self.alpha, str) else float(self.alpha)
        return regression.fit(penalty)

    @property
    def alpha_(self) -> float:
        penalty: float = self.fitted_model().penalty
        return penalty
