"""Principal components from a sketch: of second moments exactly, of quadratic features by a low-rank fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import Moments, needed_part, part_of
from sketchlearn.operators import ColumnMoments, QuadraticFeatures, SecondMoments
from sketchlearn.operators.bounded_operators import FIXED_POINT
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.estimating.fitted_model import FittedModel, model_array, scalar
from sketchlearn.tasks.principal_components.low_rank_matrix import low_rank
from sketchlearn.uncertainty.component_errors import ComponentErrors
from sketchlearn.uncertainty.compressive_errors import MOST_RESIDUAL, CompressiveErrors
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.sampled_rows import SampledRows, least_rows

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
    residual: float = scalar()  # root mean square that a low-rank fit leaves, relative to the measurements' deviation
    hidden: int = 0  # components that may be the noise of a private release

    @property
    def mixing(self) -> Double:
        """Array (columns, k), from coordinates to rows."""
        return self.components.T

    def check(self) -> None:
        if self.total <= 0 or len(self.variances) > len(self.mean):
            raise ValueError("total must be positive, and components at most as many as columns")


def principal_subspace(sketch: Sketch, k: float | None, progress: Callable[[str], None] | None = None) -> Subspace:
    """The k directions of largest variance; from second moments, all if k is None, or a share k < 1 of the variance."""
    if part_of(sketch, SecondMoments) is not None:
        return _exact(Moments.of(sketch, "PCA"), k)
    need = (
        "PCA needs a sketch of second moments (skl.SecondMoments), or of quadratic features beside column moments "
        "(skl.concatenate([skl.QuadraticFeatures(...), skl.ColumnMoments(...)])), which give the mean"
    )
    squares, columns = (needed_part(sketch, kind, need) for kind in (QuadraticFeatures, ColumnMoments))
    if k is None or k < 1:
        raise ValueError("n_components is required here: random projections determine only a few components")
    return _compressive(squares, columns, int(k), progress)


def _exact(moments: Moments, wanted: float | None) -> Subspace:
    total = float(np.trace(moments.covariance))
    if moments.noise is None and total <= np.sum(moments.rounding**2):
        raise ValueError(CONSTANT)
    values, vectors = np.linalg.eigh(moments.covariance)
    values, vectors = values[::-1], vectors[:, ::-1]
    k = len(values) if wanted is None else int(wanted) if wanted >= 1 else _explaining(wanted, values)
    components, variances, hidden = upright(vectors.T)[:k], np.maximum(values[:k], 0.0), 0
    if moments.noise is not None:
        edges = moments.noise.edges(components, moments.mean, np.ones(len(values)))
        variances, above = _without_noise(values, edges)
        hidden, order = int(np.sum(~above)), np.argsort(-variances, kind="stable")
        components, variances = components[order], variances[order]
        total = max(total, float(np.sum(variances)), float(np.max(edges)))
    return Subspace(moments.mean, variances, components, total, 0.0, hidden)


def _explaining(share: float, variances: Double) -> int:
    """How many of the largest variances sum to more than a share of all."""
    sums = np.cumsum(np.maximum(variances, 0.0))
    return min(len(sums), int(np.searchsorted(sums, share * sums[-1], side="right")) + 1)


def _without_noise(values: Double, edges: Double) -> tuple[Double, NDArray[np.bool_]]:
    """The first eigenvalues, without what noise adds to them, and which of them stand out of it.

    A matrix with an eigenvalue c + a far above all others, which are c, has c + a + edge^2 / (4 a) with noise (Benaych-
    Georges and Nadakuditi 2011); from c + edge on that can be undone, and what is below cannot be told from c.
    """
    k = len(edges)
    rest = max(float(np.mean(values[k:])), 0.0) if k < len(values) else 0.0
    away = values[:k] - rest
    above = away > edges
    undone = (away + np.sqrt(np.maximum(away**2 - edges**2, 0.0))) / 2
    return rest + np.where(above, undone, 0.0), above


def subspace_errors(sketch: Sketch, found: Subspace, unbiased: float, rng: np.random.Generator) -> ErrorBars:
    """Standard errors of what `principal_subspace` found, with variances times a factor."""
    n_rows, sample = least_rows(sketch), SampledRows.of(sketch)
    if part_of(sketch, SecondMoments) is not None:
        moments = Moments.of(sketch, "PCA")
        return ComponentErrors.of(moments, found.components, _slopes(moments, found), n_rows, sample).error_bars(
            unbiased
        )
    if sketch.ledger is not None:
        return ErrorBars(withheld="a private sketch of random projections does not tell them: sketch second moments")
    squares, columns = (part_of(sketch, kind) for kind in (QuadraticFeatures, ColumnMoments))
    assert squares is not None
    assert columns is not None
    away, power = np.split(columns.mean, 2)
    own = np.sqrt(np.maximum(power - away * away, 0.0) / n_rows)
    if sample is not None and n_rows < columns.count:
        own = np.sqrt(sample.variances(sample.rows - found.mean))
    if found.residual > MOST_RESIDUAL:
        few = f"{len(found.variances)} components do not explain the random projections"
        return ErrorBars({"mean_": own}, f"{few}: ask for more of them, or sketch second moments")
    quadratic: QuadraticFeatures = squares.operator  # type: ignore[assignment]
    omega = quadratic.directions
    values = squares.mean - ((found.mean - quadratic.middle) @ omega) ** 2
    powers = (found.components @ omega) ** 2
    floor = float(np.mean(values - found.variances @ powers) / np.mean(np.sum(omega**2, axis=0) - powers.sum(axis=0)))
    floor = min(floor, float(np.min(found.variances)))
    sizes = found.variances - floor
    fit = CompressiveErrors(omega, found.components, sizes, floor, found.total, found.mean, own)
    return fit.error_bars(sample, n_rows, unbiased, rng)


def _slopes(moments: Moments, found: Subspace) -> Double:
    """By how much the variances move with the eigenvalues that they were found from; NaN for those that are noise."""
    if moments.noise is None:
        return np.ones(len(found.variances))
    values = np.linalg.eigvalsh(moments.covariance)[::-1]
    edges = moments.noise.edges(found.components, moments.mean, np.ones(len(values)))
    k = len(edges)
    away = found.variances - (max(float(np.mean(values[k:])), 0.0) if k < len(values) else 0.0)
    told = away > edges / 2 * (1 + 1e-9)
    return np.where(told, away**2 / np.where(told, away**2 - edges**2 / 4, 1.0), np.nan)


def _compressive(squares: Sketch, columns: Sketch, k: int, progress: Callable[[str], None] | None) -> Subspace:
    quadratic: QuadraticFeatures = squares.operator  # type: ignore[assignment]
    beside: ColumnMoments = columns.operator  # type: ignore[assignment]
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
        variances, above = _without_noise(variances, edges)
        hidden, total = int(np.sum(~above)), max(total, float(np.sum(variances)), float(edges[0]))
    variances = np.clip(variances + floor, 0.0, total)
    left = residual / max(float(np.std(values)), 1e-300)
    return Subspace(mean, variances, upright(vectors.T), total, left, hidden)


def upright(rows: Double) -> Double:
    """Each row times 1 or -1, so that its largest coordinate is positive, as scikit-learn has components."""
    largest = rows[np.arange(len(rows)), np.argmax(np.abs(rows), axis=1)]
    return np.asarray(rows * np.where(largest < 0, -1.0, 1.0)[:, None])
