"""Principal components from a sketch: of second moments exactly, of quadratic features by a low-rank fit."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.utils.validation import check_array

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.messages import warn_caller
from sketchlearn.core.values import truth, whole
from sketchlearn.estimators.base.arrays import decoded_table
from sketchlearn.estimators.base.estimator import ErrorBarredEstimator, model_attribute
from sketchlearn.estimators.base.model import Document, FittedModel, model_array, scalar
from sketchlearn.estimators.base.state import DesignSample, FittedState
from sketchlearn.estimators.design.column_ranges import box, keeping_rows, origin_of, radius, second_moments
from sketchlearn.estimators.design.frequencies import plain
from sketchlearn.features.abilities import Ability, needed_part
from sketchlearn.features.bounded import FIXED_POINT
from sketchlearn.features.composed import concatenate
from sketchlearn.features.moments import ColumnMoments, SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.quadratic import QuadraticFeatures
from sketchlearn.inference.errors.components import MOST_RESIDUAL, ComponentErrors, CompressiveErrors
from sketchlearn.inference.errors.influence import SampledRows, least_rows
from sketchlearn.inference.errors.values import ErrorBars
from sketchlearn.inference.moments import Moments, part_of
from sketchlearn.sketch.sums import Sketch


@dataclass(eq=False, repr=False)
class LinearCoordinates(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ErrorBarredEstimator):
    """An estimator whose model has `components`, a `mean`, and the `mixing` matrix that leads back to rows."""

    n_components: Any = None
    _: KW_ONLY
    bounds: Any = None

    components_ = model_attribute("components")
    mean_ = model_attribute("mean")

    @classmethod
    def parameters_of(cls, model: Any) -> Document:
        return {"n_components": len(model.components)}

    def check_parameters(self) -> None:
        if self.n_components is not None:
            whole("n_components", self.n_components)

    def check_size(self, n_rows: int) -> None:
        least = max(2, math.ceil(self.n_components or 0))
        if n_rows < least:
            rows = either(f"n_samples={n_rows} rows", f"{n_rows} records")
            raise InvalidValueError(f"{rows} are too few for these components", f"give at least {least}")

    def check_components(self, n_features: int) -> None:
        """Refuses more components than columns."""
        if self.n_components is not None and self.n_components > n_features:
            given = Parameter("n_components", self.n_components)
            raise InvalidValueError(f"must be at most the number of columns, {n_features}", parameter=given)

    @property
    def _n_features_out(self) -> int:
        return len(self.components_)

    def _scale(self) -> Double | float:
        """What coordinates are divided by."""
        return 1.0

    def transform(self, X: Any) -> Double:
        """Coordinates of each row along the components, of variance 1 if they are whitened."""
        found = self.fitted_model()
        parts = [(rows - found.mean) @ found.components.T for rows in self.row_blocks(X, np.float64)]
        return np.concatenate([np.empty((0, len(found.components))), *parts]) / self._scale()

    def inverse_transform(self, X: Any) -> Any:
        """Rows with these coordinates; with a schema, a data frame with the columns of the table."""
        found, rows = self.fitted_model(), check_array(X, dtype=np.float64)
        if rows.shape[1] != len(found.components):
            n, k = rows.shape[1], len(found.components)
            raise ValueError(f"the rows have {n} coordinates, but there are {k} components")
        return decoded_table(np.asarray(rows * self._scale() @ found.mixing.T + found.mean), self.columns_)


MOST_ITERATIONS, MOST_GRADIENT_STEPS = 40, 30  # Gauss-Newton steps, and conjugate gradient steps in each
GRADIENT_TOLERANCE = 1e-2  # squared residual at which the gradient steps end, relative to that at their start
COST_TOLERANCE = 1e-4  # A smaller relative decrease of the cost is not worth another iteration.
EXACT_RESIDUAL = 1e-10  # relative to the squared measurements: float32 leaves as much
STEP_LENGTHS = tuple(0.5**i for i in range(10))  # tried in turn until the cost falls


def low_rank(
    directions: NDArray[np.floating], values: Double, rank: int, progress: Callable[[str], None] | None = None
) -> tuple[Double, float, float]:
    """The S = U U' + s I whose omega_j' S omega_j are nearest to the values, for directions (d, m) of length sqrt(d).

    Returns U (d, rank), s, and the root mean square residual. The start is spectral: the mean of
    (value - mean) omega omega' is 2 d / (d + 2) times S without its trace. Gauss-Newton steps follow; each is solved by
    conjugate gradients.

    >>> rng = np.random.default_rng(0)
    >>> omega = rng.standard_normal((6, 60))
    >>> omega *= np.sqrt(6) / np.linalg.norm(omega, axis=0)
    >>> factors, floor, _ = low_rank(omega, (np.arange(6) @ omega) ** 2 + 12.0, 1)
    >>> np.abs(factors[:, 0]).round(2).tolist(), round(floor, 3)
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 2.0)
    """
    d, m = directions.shape
    scale = float(np.max(np.abs(values))) or 1.0
    omega, z = directions.astype(np.float32), values / scale
    u, offset = _start(omega, z, rank)
    cost = float(np.finfo(np.float64).max)
    for iteration in range(1, MOST_ITERATIONS + 1):
        t, left = _residual(omega, z, u, offset)
        before, cost = cost, float(left @ left)
        if progress is not None:
            progress(f"iteration {iteration}, residual {scale * np.sqrt(cost / m):.4g}")
        if before - cost <= COST_TOLERANCE * before or cost <= EXACT_RESIDUAL * float(z @ z):
            break
        du, shift = _step(omega, t, left)
        for length in STEP_LENGTHS:
            new, moved = u + np.float32(length) * du, offset + length * shift
            _, left = _residual(omega, z, new, moved)
            if float(left @ left) < cost:
                u, offset = new, moved
                break
    return u.T.astype(np.float64) * np.sqrt(scale), offset * scale / d, scale * np.sqrt(cost / m)


def _residual(omega: Single, z: Double, u: Single, offset: float) -> tuple[Single, Double]:
    """U' omega_j, and the values less their squared lengths and the offset."""
    t = u @ omega
    return t, z - np.sum(t * t, axis=0, dtype=np.float64) - offset


def _start(omega: Single, z: Double, rank: int) -> tuple[Single, float]:
    d, m = omega.shape
    mean = float(z.mean())
    matrix = ((omega * (z - mean).astype(np.float32)) @ omega.T).astype(np.float64) * ((d + 2) / (2 * d * m))
    values, vectors = np.linalg.eigh(matrix)
    sizes = np.maximum(values[-rank:], 1e-3 * max(values[-1], 1e-12))
    offset = max(mean - float(sizes.sum()), 0.0)
    return np.ascontiguousarray((vectors[:, -rank:] * np.sqrt(sizes)).T, np.float32), offset


def _step(omega: Single, t: Single, left: Double) -> tuple[Single, float]:
    """The Gauss-Newton step in U' and in the offset, whose unit makes both similar in size."""
    unit = 2 * float(np.sqrt(np.mean(t * t))) or 1.0

    def backward(y: Single) -> tuple[Single, float]:
        return np.asarray(2 * (t * y) @ omega.T, np.float32), unit * float(np.sum(y, dtype=np.float64))

    def square(r: Single, rx: float) -> float:
        return float(np.sum(r * r, dtype=np.float64)) + rx * rx

    r, rx = backward(left.astype(np.float32))
    v, x, p, px = np.zeros_like(r), 0.0, r.copy(), rx
    first = size = square(r, rx)
    for _ in range(MOST_GRADIENT_STEPS):
        if size <= GRADIENT_TOLERANCE * first:
            break
        y = np.asarray(2 * np.sum(t * (p @ omega), axis=0) + np.float32(unit * px), np.float32)
        g, gx = backward(y)
        length = size / max(float(np.sum(y * y, dtype=np.float64)), 1e-300)
        v, x, r, rx = v + np.float32(length) * p, x + length * px, r - np.float32(length) * g, rx - length * gx
        before, size = size, square(r, rx)
        p, px = r + np.float32(size / before) * p, rx + size / before * px
    return v, unit * x


CONSTANT = "all rows are equal: there is no direction in which they vary"
# A low-rank fit to m values of noise has eigenvalues of 1 to 2 times deviation sqrt(d / m), which is what its spectral
# start has (10 to 100 columns, 1 to 5 components, 4 to 30 values per coordinate; 2.4 with 2 of them).
NOISE_EDGE_FACTOR = 2.0


@dataclass(frozen=True, eq=False)
class Subspace(FittedModel):
    """The directions of largest variance."""

    mean: Double = model_array("d")
    variances: Double = model_array("k")  # of the records along the components, divided by their count
    components: Double = model_array("k", "d")  # orthonormal, the largest variance first
    total: float = scalar()  # variance in all directions
    residual: float = scalar()  # root mean square of a low-rank fit, relative to the measurements' standard deviation
    hidden: int = 0  # components that do not exceed the noise of a private release

    @property
    def mixing(self) -> Double:
        """Array (columns, k), from coordinates to rows."""
        return self.components.T

    def check(self) -> None:
        if self.total <= 0 or len(self.variances) > len(self.mean):
            raise ValueError("total must be positive, and components at most as many as columns")


def _exact(moments: Moments, wanted: float | None) -> Subspace:
    """The directions of largest variance: all, `wanted` of them, or those that explain a proportion `wanted` < 1."""
    total = float(np.trace(moments.covariance))
    if moments.noise is None and total <= np.sum(moments.rounding**2):
        raise ValueError(CONSTANT)
    values, vectors = np.linalg.eigh(moments.covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    k = len(values) if wanted is None else int(wanted)
    if wanted is not None and wanted < 1:  # how many of the largest variances sum to more than that
        sums = np.cumsum(np.maximum(values, 0.0))
        k = min(len(sums), int(np.searchsorted(sums, wanted * sums[-1], side="right")) + 1)
    components, variances, hidden = upright(vectors.T)[:k], np.maximum(values[:k], 0.0), 0
    if moments.noise is not None:
        edges = moments.noise.edges(components, moments.mean, np.ones(len(values)))
        variances, above = _without_noise(values, _floor(values, k), edges)
        hidden, order = int(np.sum(~above)), np.argsort(-variances, kind="stable")
        components, variances = components[order], variances[order]
        total = max(total, float(np.sum(variances)), float(np.max(edges)))
    return Subspace(moments.mean, variances, components, total, 0.0, hidden)


def _floor(values: Double, k: int) -> float:
    """The mean of the eigenvalues after the first k, from 0 on."""
    return max(float(np.mean(values[k:])), 0.0) if k < len(values) else 0.0


def _without_noise(values: Double, rest: float, edges: Double) -> tuple[Double, NDArray[np.bool_]]:
    """The first eigenvalues, corrected for noise, and which of them exceed it.

    A matrix with an eigenvalue c + a far above all others, which are c, has c + a + edge^2 / (4 a) with noise (Benaych-
    Georges and Nadakuditi 2011). From c + edge on that is inverted; smaller ones cannot be distinguished from c.
    """
    away = values[: len(edges)] - rest
    above = away > edges
    undone = (away + np.sqrt(np.maximum(away**2 - edges**2, 0.0))) / 2
    return rest + np.where(above, undone, 0.0), above


def _slopes(moments: Moments, found: Subspace) -> Double:
    """Derivatives of the variances by the eigenvalues that they were found from; NaN for those that are noise."""
    if moments.noise is None:
        return np.ones(len(found.variances))
    values = np.asarray(np.linalg.eigvalsh(moments.covariance)[::-1], np.float64)
    edges = moments.noise.edges(found.components, moments.mean, np.ones(len(values)))
    away = found.variances - _floor(values, len(edges))
    above = away > edges / 2 * (1 + 1e-9)
    return np.where(above, away**2 / np.where(above, away**2 - edges**2 / 4, 1.0), np.nan)


def _projections(sketch: Sketch) -> tuple[Sketch, Sketch]:
    """The random projections, and the moments of columns beside them."""
    columns = part_of(sketch, ColumnMoments)
    ability = Ability.MOMENTS if columns is None else Ability.PROJECTED_COMPONENTS
    return needed_part(sketch, ability, "PCA"), sketch if columns is None else columns


def _compressive(sketch: Sketch, wanted: float | None, progress: Callable[[str], None] | None) -> Subspace:
    """As many directions as `wanted`, decoded from random projections."""
    squares, columns = _projections(sketch)
    if wanted is None or wanted < 1:
        reason = "random projections determine only a few components"
        raise InvalidValueError("is required here", reason, parameter="n_components")
    k, quadratic, beside = int(wanted), cast("Any", squares.operator), cast("Any", columns.operator)
    away, power = np.split(columns.mean, 2)
    ledger, m = squares.ledger, quadratic.n_directions
    if ledger is not None:
        away = np.clip(away, -np.array(beside.bound), np.array(beside.bound))  # where the mean must lie
    mean, total = beside.middle + away, float(np.sum(power - away * away))
    if ledger is None and total <= np.sum(np.square(beside.bound)) / FIXED_POINT:
        raise ValueError(CONSTANT)
    omega = quadratic.directions
    values = squares.mean - ((mean - quadratic.middle) @ omega) ** 2
    factors, floor, residual = low_rank(omega, values, k, progress)
    vectors, sizes, _ = np.linalg.svd(factors, full_matrices=False)
    variances, hidden = sizes**2, 0
    if ledger is not None:
        noise = float(np.max(quadratic.mean_of(np.full(m, np.sqrt(ledger.sum_variance) / squares.units))))
        edges = np.full(k, NOISE_EDGE_FACTOR * noise * np.sqrt(quadratic.n_features / m))
        variances, above = _without_noise(variances, 0.0, edges)
        hidden, total = int(np.sum(~above)), max(total, float(np.sum(variances)), float(edges[0]))
    variances = np.clip(variances + floor, 0.0, total)
    left = residual / max(float(np.std(values)), 1e-300)
    return Subspace(mean, variances, upright(vectors.T), total, left, hidden)


def upright(rows: Double) -> Double:
    """Each row times 1 or -1, so that its largest coordinate is positive, as in scikit-learn."""
    largest = np.take_along_axis(rows, np.argmax(np.abs(rows), axis=1, keepdims=True), axis=1)
    return np.asarray(rows * np.where(largest < 0, -1.0, 1.0))


MOST_EXACT_COLUMNS = 2000  # columns whose second moments, 16 megabytes, are kept whole
DIRECTIONS_PER_COORDINATE = 4  # of a component


@dataclass(eq=False, repr=False)
class SketchPCA(LinearCoordinates):
    """Principal components from one pass over the rows, or from a sketch alone.

    Up to 2000 columns the sketch holds all second moments, and the components are those of `sklearn.decomposition.PCA`.
    With more columns, or if `n_directions` is given, it holds squares of random projections, and the mean and mean
    square of each column. A covariance of low rank plus a multiple of the identity is decoded from these
    n_directions + 2 columns numbers. That needs a spectrum with a gap.

    Parameters
    ----------
    n_components : number of components. A proportion between 0 and 1, such as 0.95, means as many as explain more than
        that proportion of the variance; None means as many as columns. Both need a sketch of second moments.
    n_directions : number of random projections. None means second moments for up to 2000 columns, and 4 projections per
        coordinate of a component beyond.
    bounds : lowest and highest value of each column, as a pair of numbers or of lists. By default the range is found in
        arrays; for files it is that of a sample, times 8, and for streams that of the first rows, times 32 (for
        projections, times the square roots of that).
    whiten : divide coordinates by their standard deviations, so that each has variance 1.
    random_state : seed of the directions, and of the sample.
    n_jobs, device, verbose, schema : as in `SketchKMeans`.

    Attributes
    ----------
    components_ : array (n_components_, columns), the largest variance first.
    n_components_ : how many there are.
    explained_variance_, explained_variance_ratio_ : of each component, and as a proportion of the total variance. The
        variance that the noise of a private release adds is removed.
    mean_ : of each column.
    standard_errors_ : of "explained_variance_", "explained_variance_ratio_", "components_" (their coordinates) and
        "mean_", by these names (see `intervals`). They hold for any distribution of the rows if the sketch has a sample
        of rows, as `fit` draws one of 4000; from second moments alone they hold for normal rows, as
        `error_bars().premise` says. NaN for components whose variance is nearly that of others.
    noise_variance_ : mean variance of the remaining directions.
    residual_ : residual of the decoded matrix, relative to the measurements' deviation; 0 with second moments.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((5000, 3)) * [1, 5, 2] + 7
    >>> pca = skl.SketchPCA(2).fit(X)
    >>> np.abs(pca.components_).round(1).tolist()
    [[0.0, 1.0, 0.0], [0.0, 0.0, 1.0]]
    >>> skl.SketchPCA(0.95, whiten=True).fit(X).transform(X).std(axis=0).round(2).tolist()
    [1.0, 1.0]
    """

    n_components: int | float | None = None
    n_directions: int | None = None
    _: KW_ONLY
    whiten: bool = False

    model_type = Subspace
    residual_ = model_attribute("residual")

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return {"task": "moments"}

    def check_parameters(self) -> None:
        truth("whiten", self.whiten)
        if isinstance(self.n_components, float):
            if not 0 < self.n_components < 1:
                wanted = "a whole number, or a proportion of the variance between 0 and 1"
                raise InvalidValueError(f"must be {wanted}, not {self.n_components!r}", parameter="n_components")
        else:
            super().check_parameters()
        if self.n_directions is not None:
            whole("n_directions", self.n_directions)

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        d = design_sample.rows.shape[1]
        self.check_components(d)
        if d <= MOST_EXACT_COLUMNS and self.n_directions is None:
            return keeping_rows(second_moments(design_sample, self.bounds), design_sample)
        if self.n_components is None or isinstance(self.n_components, float):
            raise InvalidValueError(
                f"only a few components of {d} columns can be recovered",
                f"give {Parameter('n_components')}, such as 10",
            )
        center, reach = box(design_sample, self.bounds)
        middle = center.astype(np.float32).astype(np.float64)
        reach = reach + np.abs(center - middle)
        bound = radius(design_sample, middle) if self.bounds is None else float(np.linalg.norm(reach)) * (1 + 1e-5)
        m = DIRECTIONS_PER_COORDINATE * self.n_components * d if self.n_directions is None else self.n_directions
        seed, columns = int(rng.integers(2**31)), design_sample.columns
        squares = QuadraticFeatures(d, m, bound=bound, center=plain(middle), seed=seed, columns=columns)
        beside = ColumnMoments(d, bound=plain(reach), center=plain(middle), columns=columns)
        return keeping_rows(concatenate([squares, beside]).with_origin(origin_of(self.bounds)), design_sample)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Subspace:  # noqa: ARG002
        operator: Any = sketch.operator
        self.check_components(operator.n_features)
        if part_of(sketch, SecondMoments) is not None:
            found = _exact(Moments.of(sketch, "PCA"), self.n_components)
        else:
            found = _compressive(sketch, self.n_components, self._say if self.verbose else None)
        if found.hidden:
            warn_caller(
                f"{found.hidden} of {len(found.variances)} components do not exceed the noise of the private sketch: "
                "ask for fewer, or give more records, tighter bounds or a larger epsilon",
            )
        self._say(f"{np.sum(found.variances) / found.total:.4%} of the variance in {len(found.variances)} components")
        return found

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        sketch, found, unbiased = state.sketch, state.model, self._unbiased()
        n_rows, sample = least_rows(sketch), SampledRows.of(sketch)
        if part_of(sketch, SecondMoments) is not None:
            moments = Moments.of(sketch, "PCA")
            slopes = _slopes(moments, found)
            return ComponentErrors.of(moments, found.components, slopes, n_rows, sample).error_bars(unbiased)
        if sketch.ledger is not None:
            return ErrorBars(withheld="they cannot be estimated from private random projections: sketch second moments")
        squares, columns = _projections(sketch)
        away, power = np.split(columns.mean, 2)
        own = np.sqrt(np.maximum(power - away * away, 0.0) / n_rows)
        if sample is not None and n_rows < columns.count:
            own = np.sqrt(sample.variances(sample.rows - found.mean))
        if found.residual > MOST_RESIDUAL:
            few = f"{len(found.variances)} components do not explain the random projections"
            return ErrorBars({"mean_": own}, f"{few}: ask for more of them, or sketch second moments")
        quadratic: Any = squares.operator
        omega = quadratic.directions
        values = squares.mean - ((found.mean - quadratic.middle) @ omega) ** 2
        powers = (found.components @ omega) ** 2
        others = np.mean(np.sum(omega**2, axis=0) - powers.sum(axis=0))
        floor = min(float(np.mean(values - found.variances @ powers) / others), float(np.min(found.variances)))
        sizes = found.variances - floor
        fit = CompressiveErrors(omega, found.components, sizes, floor, found.total, found.mean, own)
        return fit.error_bars(sample, n_rows, unbiased, rng)

    def _scale(self) -> Double | float:
        return np.maximum(np.sqrt(self.explained_variance_), np.finfo(np.float64).eps) if self.whiten else 1.0

    @property
    def n_components_(self) -> int:
        return len(self.components_)

    def _unbiased(self) -> float:
        """Factor from variances of the records to unbiased estimates."""
        count = max(float(self.n_records_), 1.0)
        return count / max(count - 1, 1.0)

    @property
    def explained_variance_(self) -> Double:
        return np.asarray(self.fitted_model().variances * self._unbiased())

    @property
    def explained_variance_ratio_(self) -> Double:
        found = self.fitted_model()
        return np.asarray(found.variances / found.total)

    @property
    def noise_variance_(self) -> float:
        found = self.fitted_model()
        rest = found.components.shape[1] - len(found.components)
        return max(float(found.total - np.sum(found.variances)) * self._unbiased() / rest, 0.0) if rest else 0.0
