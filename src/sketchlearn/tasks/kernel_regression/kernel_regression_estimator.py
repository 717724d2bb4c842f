"""Kernel ridge regression from one pass."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.designing.frequency_laws import plain
from sketchlearn.moments.moments_of_sketch import Moments, needed_part
from sketchlearn.operators import FeatureMoments, SomeColumns
from sketchlearn.plain_digits import counted, in_digits
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.column_ranges import box, checked_bounds, origin_of
from sketchlearn.tasks.estimating.fitted_model import Document, Double
from sketchlearn.tasks.estimating.fitted_state import FittedState
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.number_estimator import NumberEstimator, shaped_attribute, target_numbers
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.tasks.estimating.supervised_estimator import positions
from sketchlearn.tasks.kernel_regression.kernel_design import n_frequencies_for, waves_in_box, waves_on_sample
from sketchlearn.tasks.kernel_regression.kernel_fit import KernelFit, KernelProblem
from sketchlearn.values import number, positive, whole

NEED = "a kernel regression needs a sketch of features' products with the target (skl.design(rows, task='kernel'))"


@dataclass(eq=False, repr=False)
class SketchKernelRegressor(NumberEstimator):
    """Kernel ridge regression from one pass over the rows, or from a sketch alone: E[y | x], of whatever shape.

    The target is a sum of random Fourier features of the row, of slopes and of an intercept, fitted by least squares
    with a penalty: kernel ridge regression with the kernel exp(-|x - x'|^2 / (2 scale^2)) + x'x' / d, as far as the
    features go. Their products with each other and with the target are exact sums, so that the fit is that of all rows.
    Columns count in units of their deviations, and more where the target bends along them.

    Parameters
    ----------
    alpha : the penalty, as of `sklearn.kernel_ridge.KernelRidge`; "gcv" takes the one of least generalised
        cross-validation, which needs no more than the sketch.
    n_frequencies : of the features, two for each. None means 300, fewer for fewer than 600 rows. Time and the sketch's
        size grow with its square: 300 frequencies of 8 columns are 1.5 MB.
    scale : the kernel's width, in deviations of the columns. None finds it, and weights of the columns, on a sample.
    bounds : lowest and highest value of each column (the features', then the targets'), as in `SketchLinearRegression`.
    random_state : seed of the frequencies and of the sample.
    n_jobs, device, verbose, schema : as in `SketchLinearRegression`.

    Attributes
    ----------
    alpha_ : the penalty that was used.
    r2_ : share of the targets' variance that is explained in the rows that were sketched: what `score` would say.
    error_variance_ : the mean squared error to expect at new rows, by generalised cross-validation; one number, or one
        per target.
    degrees_of_freedom_ : of the fit: how many coefficients it is worth.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.uniform(-3, 3, (2000, 2))
    >>> y = np.sin(2 * X[:, 0]) * X[:, 1] + 0.1 * rng.standard_normal(2000)
    >>> model = skl.SketchKernelRegressor(n_frequencies=50, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.95), bool(model.error_variance_ < 0.05)
    (True, True)
    >>> again = skl.SketchKernelRegressor().fit_sketch(model.sketch_)
    >>> bool(np.all(again.predict(X) == model.predict(X)))
    True
    """

    alpha: float | str = "gcv"
    _: KW_ONLY
    n_frequencies: int | None = None
    scale: float | None = None
    bounds: Any = None

    model_type = KernelFit
    alpha_ = model_attribute("penalty")
    degrees_of_freedom_ = model_attribute("freedom")
    error_variance_ = shaped_attribute("expected_errors")

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return {"task": "kernel"}

    def check_parameters(self) -> None:
        if self.n_frequencies is not None:
            whole("n_frequencies", self.n_frequencies)
        if self.scale is not None:
            positive("scale", self.scale)
        if isinstance(self.alpha, str) and self.alpha == "gcv":
            return
        if number('alpha must be "gcv" or a number: it', self.alpha) < 0:
            raise ValueError(f"alpha must not be negative, but is {self.alpha!r}")

    def partial_fit(self, X: Any, y: Any = None, sample_weight: Any = None) -> Self:
        """Adds rows to those seen so far. The model is learned anew when it is next asked for.

        The features and the range of values are chosen on the first 5000 rows, the range with much room; a later row
        beyond it is refused.
        """
        return super().partial_fit(X, y, sample_weight)

    def fit_sketch(self, sketch: Sketch, *, targets: Any = None) -> Self:
        """Learns from a sketch alone: of `design(..., task="kernel")`'s operator, or of another such estimator.

        The targets are the columns that the features do not see; others, if they are given, are refused.
        """
        state = self._state_of(sketch)
        part = needed_part(sketch, FeatureMoments, NEED)
        operator: FeatureMoments = part.operator  # type: ignore[assignment]
        found = targets_of(operator)
        if targets is not None and set(positions(targets, operator.columns, operator.n_features)) != set(found):
            raise ValueError("the sketch was designed for other targets: leave them out")
        target_numbers(operator.columns, found)
        table = replace(state.table, targets=found, flat=len(found) == 1)
        return self._learn(replace(state, table=table), self._generator())

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> FeatureMoments:
        targets, d = list(glimpse.targets), glimpse.rows.shape[1]
        features = [i for i in range(d) if i not in targets]
        if not targets or not features:
            raise ValueError("a kernel regression needs features and at least one target")
        seed = int(rng.integers(2**31))
        center, reach = box(glimpse, self.bounds, middle=targets)
        if len(glimpse.rows):
            rows = np.asarray(glimpse.rows, np.float64)
            m = n_frequencies_for(self.n_frequencies, len(rows))
            waves = waves_on_sample(
                rows[:, features], rows[:, targets], m, self.scale, glimpse.n_rows, seed, columns=None
            )
        else:
            low, high = (np.broadcast_to(side, d)[features] for side in checked_bounds(self.bounds))
            waves = waves_in_box(low, high, n_frequencies_for(self.n_frequencies, None), self.scale, seed, columns=None)
        some = SomeColumns(waves, d, which=tuple(features), columns=glimpse.columns)
        # Waves are made for the sample's rows, even where bounds are declared.
        origin = origin_of(self.bounds if not len(glimpse.rows) else None)
        return FeatureMoments(some, bound=plain(reach), center=plain(center)).with_origin(origin)

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> KernelFit:  # noqa: ARG002
        part, table = needed_part(state.sketch, FeatureMoments, NEED), state.table
        operator: FeatureMoments = part.operator  # type: ignore[assignment]
        moments = Moments.of(operator.inner_sketch(part), "a kernel regression")
        problem = KernelProblem.of(moments, operator, table.targets)
        fit = replace(problem.fit(None if isinstance(self.alpha, str) else float(self.alpha)), flat=table.flat)
        warn_of_doubts(problem, fit)
        at = list(table.targets)
        fit = fit.within(operator.middle[at], np.array(operator.bound)[at])
        numbers = target_numbers(table.columns, table.targets)
        if numbers:
            fit = fit.in_units(np.array([n.width for n in numbers]), np.array([n.center for n in numbers]))
        found = f"R^2 {float(np.mean(fit.r2)):.6g}, {in_digits(fit.freedom, 3)} degrees of freedom"
        self._say(f"{found}, from {counted(part.count, 'record')}")
        return fit

    @property
    def target_positions_(self) -> tuple[int, ...]:
        """Which columns of the sketched rows are the targets."""
        return self._sketched_state().table.targets

    @classmethod
    def parameters_of(cls, model: KernelFit) -> Document:
        return {"alpha": model.penalty}

    def predict(self, X: Any) -> Double:
        """The targets of each row."""
        fit = self.fitted_model()
        parts = [fit.values(rows) for rows in self.row_blocks(X, np.float64)]
        values = np.concatenate([np.empty((0, len(fit.intercepts))), *parts])
        return values[:, 0] if fit.flat else values


def targets_of(operator: FeatureMoments) -> tuple[int, ...]:
    """The columns that the features of an operator do not see."""
    seen = operator.crossed.which if isinstance(operator.crossed, SomeColumns) else tuple(range(operator.n_features))
    found = tuple(i for i in range(operator.n_features) if i not in seen)
    if not found:
        raise ValueError(f"the features of this sketch see all columns, and none is left as a target: {NEED}")
    return found


def warn_of_doubts(problem: KernelProblem, fit: KernelFit) -> None:
    """Warns of fits that explain nothing, or less than they could."""
    varying = problem.path.variances > 0
    unexplained = fit.expected_errors[varying] / problem.path.variances[varying]
    if problem.raised:
        if np.any(varying) and float(np.max(fit.r2[varying])) <= 0.0:
            warn_caller(
                "the noise of the private sketch hides the targets: more records, fewer frequencies, tighter bounds or "
                "a larger epsilon would help"
            )
    elif np.any(unexplained >= 1.0):
        warn_caller(
            "new rows will likely be predicted no better than by the mean of the target: it may not depend on these "
            "columns, or there are too few rows to tell"
        )
