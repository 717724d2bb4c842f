"""Kernel ridge regression from the moments of random features."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from sketchlearn import kernel
from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import Moments
from sketchlearn.operators import FeatureMoments, FourierFeatures
from sketchlearn.storage.sketch_files import operator_from
from sketchlearn.tasks.estimating.fitted_model import FittedModel, Known, flag, model_array, saved, scalar
from sketchlearn.tasks.kernel_regression.ridge_path import RidgePath

NUMBERS_AT_A_TIME = 1 << 22  # Features that are held while rows are predicted: 32 MB.


def _read_waves(name: str, form: Any, known: Known) -> FourierFeatures:
    found = operator_from(form, "a kernel regression")
    if not isinstance(found, FourierFeatures) or found.subsample is not None:
        raise ValueError(f"{name} must be Fourier features without subsample")
    if found.n_features != known["d"]:
        raise ValueError(f"{name} is for {found.n_features} columns, not {known['d']}")
    known["w"] = found.n_sums
    return found


@dataclass(frozen=True, eq=False)
class KernelFit(FittedModel):
    """Targets as sums of features, slopes of the columns, and an intercept."""

    waves: FourierFeatures = saved(_read_waves, lambda operator: operator.to_json())
    intercepts: Double = model_array("t")
    coefficients: Double = model_array("t", "w")
    slopes: Double = model_array("t", "d")  # of columns less the center of the waves
    r2: Double = model_array("t")  # share of each target's variance that is explained
    expected_errors: Double = model_array("t")  # squared errors to expect at new records
    penalty: float = scalar()  # as of `sklearn.kernel_ridge.KernelRidge`
    freedom: float = scalar()  # degrees of freedom
    flat: bool = flag(default=True)  # one target, given without a second dimension
    #: no target was below or above: rows far from all others were predicted far beyond
    lowest: Double | None = model_array("t", optional=True, default=None)
    highest: Double | None = model_array("t", optional=True, default=None)

    def check(self) -> None:
        if self.flat and len(self.intercepts) > 1:
            raise ValueError("several targets cannot be flat")
        if (self.lowest is None) != (self.highest is None):
            raise ValueError("lowest and highest belong together")
        if self.lowest is not None and self.highest is not None and np.any(self.lowest > self.highest):
            raise ValueError("the lowest target is above the highest")

    def values(self, rows: Double) -> Double:
        """The targets of each row, (rows, targets)."""
        found = np.empty((len(rows), len(self.intercepts)))
        # contiguous, so that a model that was loaded gives the same bits
        weights, slopes = (np.ascontiguousarray(part.T) for part in (self.coefficients, self.slopes))
        weights = weights / self.waves.wave.unit
        for some in _parts(len(rows), self.waves.n_sums):
            far = np.flatnonzero(self.waves.beyond(rows[some]) | ~np.all(np.isfinite(rows[some]), axis=1))
            if len(far):  # a sketch takes them; a prediction would be of another row
                raise ValueError(f"row {some.start + far[0]}, {self.waves.explain_refusal(rows[some.start + far[0]])}")
            integers, _ = self.waves.write_rows(rows[some], kernel.n_threads(None))
            found[some] = integers @ weights + (rows[some] - self.waves.middle) @ slopes + self.intercepts
        return found if self.lowest is None or self.highest is None else np.clip(found, self.lowest, self.highest)

    def within(self, center: Double, reach: Double) -> KernelFit:
        """The fit of targets that lie no farther than this from a center: nor do their means."""
        return replace(self, lowest=center - reach, highest=center + reach)

    def in_units(self, widths: Double, centers: Double) -> KernelFit:
        """The fit of y where this one is of (y - center) / width, of each target."""
        ends = [None if end is None else end * widths + centers for end in (self.lowest, self.highest)]
        return replace(
            self,
            lowest=ends[0],
            highest=ends[1],
            intercepts=self.intercepts * widths + centers,
            coefficients=self.coefficients * widths[:, None],
            slopes=self.slopes * widths[:, None],
            expected_errors=self.expected_errors * widths**2,
        )


def _parts(n_rows: int, width: int) -> Iterator[slice]:
    step = max(1, NUMBERS_AT_A_TIME // width)
    return (slice(first, min(first + step, n_rows)) for first in range(0, n_rows, step))


@dataclass(frozen=True)
class KernelProblem:
    """The regression of targets on features and columns: their moments, in units of equal penalty.

    The kernel is that of the waves' law plus (x - mean)' (x' - mean) / d, in deviations of the columns, so that what is
    linear in them needs no features.
    """

    waves: FourierFeatures
    units: Double  # of features and columns: what is penalised is the coefficient of a value in this unit
    means: Double  # of features and columns
    target_means: Double
    path: RidgePath
    raised: bool = False  # whether the noise of a release keeps the penalty up

    @classmethod
    def of(cls, moments: Moments, operator: FeatureMoments, targets: tuple[int, ...]) -> KernelProblem:
        """The regression of some columns on the others and on the features."""
        at = [operator.n_waves + target for target in targets]
        covariance, variances = moments.covariance, np.diag(moments.covariance)[at]
        features = [i for i in range(len(moments.mean)) if i not in at]
        known = variances > (2 * moments.rounding[at]) ** 2  # targets that never change have nothing to explain
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
        target_means: Double,
    ) -> KernelProblem:
        rounding = moments.rounding[features]
        deviations = np.sqrt(np.maximum(np.diag(moments.covariance)[features], 0.0))
        alive = np.where(deviations > 2 * rounding, deviations, 0.0)[waves.n_sums :]
        units = inverse_units(alive, waves.n_frequencies, waves.n_sums)
        products = moments.covariance[np.ix_(features, features)] * np.outer(units, units)
        least = _norm(units * rounding)
        raised = moments.noise is not None
        if moments.noise is not None:
            least = max(least, moments.noise.deviation * _norm(units * moments.noise.bound[features]))
        path = RidgePath(products, crosses * units[:, None], variances, moments.count, least)
        return cls(waves, units, moments.mean[features], target_means, path, raised)

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
    """What features, and columns of these deviations, are multiplied by before coefficients are penalised alike.

    Features become those whose products are the kernel, columns deviations over sqrt(d); columns that never change
    vanish.
    """
    alive = deviations > 0
    columns = np.where(alive, 1 / np.where(alive, deviations * np.sqrt(len(deviations)), 1.0), 0.0)
    return np.concatenate([np.full(n_waves, n_frequencies**-0.5), columns])


def _norm(sizes: Double) -> float:
    """The norm of a symmetric matrix of independent errors, of deviation sizes_j sizes_k."""
    return 2 * float(np.max(sizes)) * float(np.linalg.norm(sizes))
