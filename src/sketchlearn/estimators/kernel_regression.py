"""Kernel ridge regression from one pass."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, replace
from functools import cached_property
from operator import itemgetter
from typing import Any, Self

import numpy as np
from sklearn.base import clone
from sklearn.utils import gen_batches

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import counted, in_digits, warn_caller
from sketchlearn.core.values import positive, whole
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document, Known, model_array, saved, scalar
from sketchlearn.estimators.base.state import DesignSample, FittedState
from sketchlearn.estimators.base.supervised import (
    FittedRegression,
    NumberEstimator,
    check_alpha,
    positions,
    shaped_attribute,
)
from sketchlearn.estimators.design.column_ranges import box, checked_bounds, origin_of
from sketchlearn.estimators.design.frequencies import plain
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, deviations, thinned
from sketchlearn.features.abilities import Ability, needed_part
from sketchlearn.features.bounded import CLIP
from sketchlearn.features.composed import SomeColumns
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import Gaussian, Law, Probed
from sketchlearn.features.operator import Operator
from sketchlearn.features.products import FeatureMoments
from sketchlearn.features.provenance import Origin
from sketchlearn.files.sketches import operator_from
from sketchlearn.inference.moments import Moments
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels.dispatch import one_blas_thread
from sketchlearn.sketch.sums import Sketch

GRID_SIZE = 61  # penalties that are tried
LEAST_PENALTY, MOST_PENALTY = 1e-12, 10.0  # relative to the variance of all features together
TINY = 1e-300
LEAST_FREEDOM = 0.05  # of residual degrees of freedom per record: below, scores are too random


@dataclass(frozen=True)
class RidgePath:
    """Least squares of targets on features with a penalty on squared coefficients, from their moments."""

    products: Double  # covariances of the features, in units in which coefficients are penalised alike
    crosses: Double  # covariances of features and targets, (features, targets)
    variances: Double  # of the targets
    count: float  # of records
    least: float = 0.0  # smaller penalties per record would let coefficients fit rounding errors or a release's noise

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
        """Degrees of freedom of the fit, with that of the intercept: the trace of the hat matrix."""
        values = self._directions[0]
        return 1.0 + float(np.sum(values / np.maximum(values + penalty, TINY)))

    def expected_errors(self, penalty: float, n_rows: float | None = None) -> Double:
        """The expected squared error of each target at new records.

        Generalised cross-validation, |y - Hy|^2 / n / (1 - trace H / n)^2. With `n_rows`, that of a fit of that many
        similar records: the noise has the variance |y - Hy|^2 / n / (1 - trace H / n), and the coefficients' own errors
        add trace H / n_rows times that.
        """
        used = self.freedom(penalty) / self.count
        if used > 1 - LEAST_FREEDOM:
            return np.full(len(self.variances), np.inf)
        if n_rows is None:
            return self.residuals(penalty) / (1 - used) ** 2
        return self.residuals(penalty) / (1 - used) * (1 + self.freedom(penalty) / n_rows)

    def score(self, penalty: float, n_rows: float | None = None) -> float:
        """Expected errors relative to the targets' variances, averaged over targets that vary."""
        varying = self.variances > 0
        errors = self.expected_errors(penalty, n_rows)[varying] / self.variances[varying]
        return float(np.mean(errors)) if len(errors) else 0.0

    def best_penalty(self, n_rows: float | None = None) -> float:
        """The penalty per record of the least score."""
        total = float(np.trace(self.products))
        if total <= 0:
            return max(self.least, 1.0)
        grid = np.maximum(total * np.geomspace(LEAST_PENALTY, MOST_PENALTY, GRID_SIZE), self.least)
        return float(grid[int(np.argmin([self.score(penalty, n_rows) for penalty in grid]))])


NUMBERS_AT_A_TIME = 1 << 22  # Features that are held while rows are predicted: 32 MB.


def _read_waves(name: str, form: Any, known: Known) -> FourierFeatures:
    found = operator_from(form, "a kernel regression")
    if not isinstance(found, FourierFeatures) or found.subsample is not None:
        raise ValueError(f"{name} must be Fourier features without subsample")
    if found.n_features != known["d"]:
        raise ValueError(f"{name} is for {found.n_features} columns, not {known['d']}")
    known["w"] = found.n_sums
    return found


@dataclass(frozen=True, eq=False, kw_only=True)
class KernelFit(FittedRegression):
    """Targets as sums of features, slopes of the columns, and an intercept."""

    waves: FourierFeatures = saved(_read_waves, FourierFeatures.to_json)
    coefficients: Double = model_array("t", "w")
    slopes: Double = model_array("t", "d")  # of columns less the center of the waves
    expected_errors: Double = model_array("t")  # squared errors to expect at new records
    freedom: float = scalar()  # degrees of freedom
    #: range of the predictions: those of rows far from all others would be far beyond the targets
    lowest: Double | None = model_array("t", optional=True, default=None)
    highest: Double | None = model_array("t", optional=True, default=None)

    proportional = ("coefficients", "slopes")

    def check(self) -> None:
        super().check()
        if (self.lowest is None) != (self.highest is None):
            raise ValueError("lowest and highest must be given together")
        if self.lowest is not None and self.highest is not None and np.any(self.lowest > self.highest):
            raise ValueError("the lowest target is above the highest")

    def values(self, rows: Double) -> Double:
        found = np.empty((len(rows), len(self.intercepts)))
        # contiguous, so that a model that was loaded gives the same bits
        weights, slopes = (np.ascontiguousarray(part.T) for part in (self.coefficients, self.slopes))
        weights = weights / self.waves.wave.unit
        for some in gen_batches(len(rows), max(1, NUMBERS_AT_A_TIME // self.waves.n_sums)):
            far = np.flatnonzero(self.waves.beyond(rows[some]) | ~np.all(np.isfinite(rows[some]), axis=1))
            if len(far):  # A sketch clips them; a prediction would be that of another row.
                raise ValueError(f"row {some.start + far[0]}, {self.waves.explain_refusal(rows[some.start + far[0]])}")
            integers, _ = self.waves.write_rows(rows[some], kernel.n_threads(None))
            found[some] = integers @ weights + (rows[some] - self.waves.middle) @ slopes + self.intercepts
        return found if self.lowest is None or self.highest is None else np.clip(found, self.lowest, self.highest)

    def in_units(self, widths: Double, centers: Double) -> Self:
        ends = [None if end is None else end * widths + centers for end in (self.lowest, self.highest)]
        found = super().in_units(widths, centers)
        return replace(found, lowest=ends[0], highest=ends[1], expected_errors=self.expected_errors * widths**2)


@dataclass(frozen=True)
class KernelProblem:
    """The regression of targets on features and columns: their moments, in units of equal penalty.

    The kernel is that of the frequency distribution plus (x - mean)' (x' - mean) / d, in deviations of the columns, so
    that linear dependence needs no features.
    """

    waves: FourierFeatures
    units: Double  # of features and columns: coefficients are penalised in these units
    means: Double  # of features and columns
    target_means: Double
    path: RidgePath
    raised: bool = False  # whether the noise of a release bounds the penalty from below

    @classmethod
    def of(cls, moments: Moments, operator: FeatureMoments, targets: tuple[int, ...]) -> KernelProblem:
        """The regression of some columns on the others and on the features."""
        at = [operator.n_waves + target for target in targets]
        covariance, variances = moments.covariance, np.diag(moments.covariance)[at]
        features = [i for i in range(len(moments.mean)) if i not in at]
        known = variances > (2 * moments.rounding[at]) ** 2  # constant targets count as explained
        crosses = covariance[np.ix_(features, at)] * known
        return cls._of(moments, operator.waves, features, crosses, variances * known, moments.mean[at])

    @classmethod
    def of_classes(cls, moments: Moments, operator: FeatureMoments, means: Double, shares: Double) -> KernelProblem:
        """The regression of indicators of classes, from the moments of all and the means of each class."""
        crosses = ((means - moments.mean) * shares[:, None]).T
        every = list(range(len(moments.mean)))
        return cls._of(moments, operator.waves, every, crosses, shares * (1 - shares), shares)

    @classmethod
    def _of(
        cls,
        moments: Moments,
        waves: FourierFeatures,
        features: list[int],
        crosses: Double,
        variances: Double,
        means: Double,
    ) -> KernelProblem:
        rounding = moments.rounding[features]
        deviations = np.sqrt(np.maximum(np.diag(moments.covariance)[features], 0.0))
        alive = np.where(deviations > 2 * rounding, deviations, 0.0)[waves.n_sums :]
        units = inverse_units(alive, waves.n_frequencies, waves.n_sums)
        products = moments.covariance[np.ix_(features, features)] * np.outer(units, units)
        least, noise = _norm(units * rounding), moments.noise
        if noise is not None:
            least = max(least, noise.deviation * _norm(units * noise.bound[features]))
        path = RidgePath(products, crosses * units[:, None], variances, moments.count, least)
        return cls(waves, units, moments.mean[features], means, path, noise is not None)

    def fit(self, alpha: float | None) -> KernelFit:
        """The fit of a penalty, or of that of least generalised cross-validation."""
        path, count = self.path, self.path.count
        penalty = path.best_penalty() if alpha is None else max(alpha / count, path.least)
        scaled = path.coefficients(penalty) * self.units
        coefficients, slopes = np.split(scaled, [self.waves.n_sums], axis=1)
        away = self.means.copy()
        away[self.waves.n_sums :] -= self.waves.middle
        varying = path.variances > 0
        residuals = path.residuals(penalty)
        return KernelFit(
            waves=self.waves,
            intercepts=self.target_means - scaled @ away,
            coefficients=coefficients,
            slopes=slopes,
            r2=np.where(varying, 1 - residuals / np.where(varying, path.variances, 1.0), 1.0),
            expected_errors=np.minimum(path.expected_errors(penalty), np.finfo(np.float64).max),
            penalty=penalty * count,
            freedom=path.freedom(penalty),
        )


def inverse_units(deviations: Double, n_frequencies: int, n_waves: int) -> Double:
    """Factors of the features, and of columns with these standard deviations, whose coefficients are penalised alike.

    Products of the scaled features are the kernel; columns have standard deviation 1 / sqrt(d), or are 0 if constant.
    """
    alive = deviations > 0
    columns = np.where(alive, 1 / np.where(alive, deviations * np.sqrt(len(deviations)), 1.0), 0.0)
    return np.concatenate([np.full(n_waves, n_frequencies**-0.5), columns])


def _norm(sizes: Double) -> float:
    """The norm of a symmetric matrix of independent errors, of deviation sizes_j sizes_k."""
    return 2 * float(np.max(sizes)) * float(np.linalg.norm(sizes))


FREQUENCIES, FEWEST_FREQUENCIES = 300, 50
WIDTHS = np.geomspace(0.2, 4.0, 8)  # tried widths, in typical distances of rows from their mean
ROUNDS = 2  # of weighting the columns by the previous fit; a third one changed errors by less than 0.2 %
LEAST_WEIGHT = 0.02  # of a column, relative to the mean, so that no column is lost
ROUND_ROWS, ROUND_FREQUENCIES = 2500, 150  # Weights of columns need fewer of both than widths.
LATER_ROWS = 20  # assumed ratio of all rows to a full sample, where their number is unknown


def n_frequencies_for(given: int | None, n_rows: int | None) -> int:
    """How many frequencies: as given, or 300, fewer for few rows."""
    if given is not None:
        return given
    return FREQUENCIES if n_rows is None else min(FREQUENCIES, max(FEWEST_FREQUENCIES, n_rows // 2))


def waves_on_sample(
    rows: Double,
    targets: Double,
    n_frequencies: int,
    scale: float | None,
    n_rows: int | None,
    seed: int,
    columns: tuple[str, ...] | None,
) -> FourierFeatures:
    """The features with the least expected error at new rows, for a fit of `n_rows` rows like those of the sample.

    Columns along which the target is nonlinear count more: their weights are the variances of the slopes of a first
    fit, and then of a second. Equal weights are tried, too.
    """
    center, units, equal = rows.mean(axis=0), deviations(rows), np.ones(rows.shape[1])
    if scale is not None:
        return features_in_units(Gaussian(float(scale)), center, units, n_frequencies, seed, columns)
    later = max(len(rows), n_rows or (LATER_ROWS * MOST_ROWS if len(rows) >= MOST_ROWS else 0))
    spread = targets.std(axis=0)
    away = (targets - targets.mean(axis=0)) / np.where(spread > 0, spread, 1.0)
    waves = features_in_units(Gaussian(1.0), center, equal, n_frequencies, seed, None)
    with one_blas_thread():
        trial = Trial((rows - center) / units, away, waves.frequencies)
        tried = [(trial.best_width(weights, later), weights) for weights in (equal, trial.fewer().weights())]
    (_, width), weights = min(tried, key=itemgetter(0))
    return features_in_units(Gaussian(float(width)), center, units / np.sqrt(weights), n_frequencies, seed, columns)


def features_in_units(
    law: Law, center: Double, units: Double, n_frequencies: int, seed: int, columns: tuple[str, ...] | None
) -> FourierFeatures:
    """Frequencies of a distribution, for columns in these units."""
    law = Probed(law, units=plain(units), spread=plain(units), probes=())
    return FourierFeatures(len(units), n_frequencies, law=law, center=plain(center), seed=seed, columns=columns)


@dataclass(frozen=True)
class Trial:
    """A sample of rows in deviations of the columns, their targets, and frequencies of a kernel of width 1."""

    rows: Double
    targets: Double
    frequencies: Double  # (columns, frequencies)

    def fewer(self) -> Trial:
        """The same with fewer rows and frequencies."""
        both = thinned(np.hstack([self.rows, self.targets]), ROUND_ROWS)
        rows, targets = np.split(both, [self.rows.shape[1]], axis=1)
        return Trial(rows, targets, self.frequencies[:, :ROUND_FREQUENCIES])

    def best_width(self, weights: Double, n_rows: int | None = None) -> tuple[float, float]:
        """The least score and its width, for weights of the columns: of a fit of the sample, or of `n_rows` rows."""
        widths = WIDTHS * math.sqrt(float(np.sum(weights * self.rows.var(axis=0))) or 1.0)
        paths = ((self._path(weights, width)[0], width) for width in widths)
        return min((path.score(path.best_penalty(n_rows), n_rows), width) for path, width in paths)

    def weights(self) -> Double:
        """The weight of each column, 1 on average: the variance of the fit's slope along it."""
        weights = np.ones(self.rows.shape[1])
        for _ in range(ROUNDS):
            _, width = self.best_width(weights)
            path, units = self._path(weights, width)
            turned, bends = self.frequencies * np.sqrt(weights)[:, None] / width, np.zeros(len(weights))
            phases, m = self.rows @ turned, turned.shape[1]
            for coefficients in path.coefficients(path.best_penalty()) * units:
                slopes = (np.cos(phases) * coefficients[m : 2 * m] - np.sin(phases) * coefficients[:m]) @ turned.T
                bends += slopes.var(axis=0)
            if not np.mean(bends) > 0:
                return np.ones(len(weights))
            weights = LEAST_WEIGHT + (1 - LEAST_WEIGHT) * bends / np.mean(bends)
        return weights

    def _path(self, weights: Double, width: float) -> tuple[RidgePath, Double]:
        """The regression on features of a width and on the columns; and the factors of these."""
        phases = self.rows @ (self.frequencies * (np.sqrt(weights) / width)[:, None])
        features = np.hstack([np.cos(phases), np.sin(phases), self.rows])
        features -= features.mean(axis=0)
        m, n = self.frequencies.shape[1], len(self.rows)
        units = inverse_units(features[:, 2 * m :].std(axis=0), m, 2 * m)
        features *= units
        crosses = features.T @ self.targets / n
        return RidgePath(features.T @ features / n, crosses, self.targets.var(axis=0), n), units


@dataclass(eq=False, repr=False)
class SketchKernelRegressor(NumberEstimator):
    """Kernel ridge regression from one pass over the rows, or from a sketch alone: an estimate of E[y | x].

    The target is a sum of random Fourier features of the row, of slopes and of an intercept, fitted by penalised least
    squares. It approximates kernel ridge regression with the kernel exp(-|x - x'|^2 / (2 scale^2)) + x'x' / d. Products
    of the features with each other and with the target are exact sums, so that the fit is that of all rows. Columns
    count in units of their standard deviations, and more if the target is nonlinear along them.

    Parameters
    ----------
    alpha : the penalty, as of `sklearn.kernel_ridge.KernelRidge`; "gcv" means the one of least generalised
        cross-validation error, which the sketch determines.
    n_frequencies : number of frequencies, with two features each. None means 300, fewer for fewer than 600 rows. Time
        and the sketch's size grow with its square: 300 frequencies of 8 columns are 1.5 MB.
    scale : the kernel's width, in standard deviations of the columns. None means that it is chosen on a sample, with
        weights of the columns.
    bounds : lowest and highest value of each column (the features', then the targets'), as in `SketchLinearRegression`.
    random_state : seed of the frequencies and of the sample.
    n_jobs, device, verbose, schema : as in `SketchLinearRegression`.

    Attributes
    ----------
    alpha_ : the penalty that was used.
    r2_ : coefficient of determination of the sketched rows, as `score` has it.
    error_variance_ : the expected squared error at new rows, by generalised cross-validation; one number, or one per
        target.
    degrees_of_freedom_ : effective degrees of freedom of the fit.
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

    def _designed_on_bounds(
        self,
        bounds: Any,
        columns: tuple[str, ...] | None,
        neighbors: str,  # noqa: ARG002
        targets: Any,
        size: dict[str, Any],  # noqa: ARG002
    ) -> Operator:
        d = len(checked_bounds(bounds)[0])
        which = positions([-1] if targets is None else targets, columns, d)
        sampled = DesignSample(np.empty((0, d)), True, None, targets=which)
        within = clone(self).set_params(bounds=bounds)
        rng = np.random.default_rng(int(self._generator().integers(2**31)))
        made = replace(within.design_operator(sampled, rng), outside=CLIP).with_origin(Origin.DECLARED)
        return made if columns is None else made.with_columns(tuple(columns))

    def check_parameters(self) -> None:
        if self.n_frequencies is not None:
            whole("n_frequencies", self.n_frequencies)
        if self.scale is not None:
            positive("scale", self.scale)
        check_alpha(self.alpha)

    def fit_sketch(self, sketch: Sketch, *, targets: Any = None) -> Self:
        """Learns from a sketch alone: of `design(..., task="kernel")`'s operator, or of another such estimator.

        The targets are the columns that the features do not use; other `targets` are refused.
        """
        state = self._state_of(sketch)
        part = needed_part(sketch, Ability.KERNEL_REGRESSIONS, "a kernel regression")
        operator: FeatureMoments = part.operator
        used = operator.crossed.which if isinstance(operator.crossed, SomeColumns) else range(operator.n_features)
        if not (found := tuple(i for i in range(operator.n_features) if i not in used)):
            made = Ability.KERNEL_REGRESSIONS.made
            raise ValueError(f"the features of this sketch use all columns, so that none is left as a target: {made}")
        if targets is not None and set(positions(targets, operator.columns, operator.n_features)) != set(found):
            raise ValueError("the sketch was designed for other targets: leave out targets")
        return self._learn_targets(state, found)

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> FeatureMoments:
        targets, d = list(design_sample.targets), design_sample.rows.shape[1]
        features = [i for i in range(d) if i not in targets]
        if not targets or not features:
            raise ValueError("a kernel regression needs features and at least one target")
        rows, seed = np.asarray(design_sample.rows, np.float64), int(rng.integers(2**31))
        center, reach = box(design_sample, self.bounds, middle=targets)
        m = n_frequencies_for(self.n_frequencies, len(rows) or None)
        if len(rows):
            inputs, outputs = rows[:, features], rows[:, targets]
            waves = waves_on_sample(inputs, outputs, m, self.scale, design_sample.n_rows, seed, columns=None)
        else:
            low, high = (np.broadcast_to(side, d)[features] for side in checked_bounds(self.bounds))
            units = (high - low) / math.sqrt(12)  # deviations of values anywhere in the range
            law = Gaussian(float(math.sqrt(len(features)) if self.scale is None else self.scale))
            waves = features_in_units(law, (low + high) / 2, units, m, seed, columns=None)
        some = SomeColumns(waves, d, which=tuple(features), columns=design_sample.columns)
        # Frequencies are chosen for the sample's rows, even where bounds are declared.
        origin = origin_of(None if len(rows) else self.bounds)
        return FeatureMoments(some, bound=plain(reach), center=plain(center)).with_origin(origin)

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> KernelFit:  # noqa: ARG002
        part, table = needed_part(state.sketch, Ability.KERNEL_REGRESSIONS, "a kernel regression"), state.table
        operator: FeatureMoments = part.operator
        moments = Moments.of(operator.inner_sketch(part), "a kernel regression")
        problem = KernelProblem.of(moments, operator, table.targets)
        fit = replace(problem.fit(None if isinstance(self.alpha, str) else float(self.alpha)), flat=table.flat)
        varying = problem.path.variances > 0
        if problem.raised:
            if np.any(varying) and np.all(fit.r2[varying] <= 0.0):
                warn_caller(
                    "the noise of the private sketch hides the targets: use more records, fewer frequencies, tighter "
                    "bounds or a larger epsilon"
                )
        elif np.any(fit.expected_errors[varying] >= problem.path.variances[varying]):
            warn_caller(
                "new rows will likely be predicted no better than by the mean of the target: it may not depend on "
                "these columns, or there are too few rows"
            )
        at = list(table.targets)
        center, reach = operator.middle[at], np.array(operator.bound)[at]
        fit = self._in_table_units(replace(fit, lowest=center - reach, highest=center + reach), table)
        freedom, records = in_digits(fit.freedom, 3), counted(part.count, "record")
        self._say(f"R^2 {float(np.mean(fit.r2)):.6g}, {freedom} degrees of freedom, from {records}")
        return fit

    @property
    def target_positions_(self) -> tuple[int, ...]:
        """Which columns of the sketched rows are the targets."""
        return self._sketched_state().table.targets

    @classmethod
    def parameters_of(cls, model: KernelFit) -> Document:
        return {"alpha": model.penalty}
