"""Principal components from a sketch."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.utils.validation import check_array

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.designing.frequency_laws import plain
from sketchlearn.operators import ColumnMoments, Operator, QuadraticFeatures, concatenate
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.column_ranges import box, keeping_rows, origin_of, radius, second_moments
from sketchlearn.tasks.estimating.fitted_model import Double
from sketchlearn.tasks.estimating.fitted_state import FittedState
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.linear_coordinates import LinearCoordinates
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.tasks.principal_components.principal_subspace import Subspace, principal_subspace, subspace_errors
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.values import truth, whole

MOST_EXACT_COLUMNS = 2000  # columns whose second moments, 16 megabytes, are kept whole
DIRECTIONS_PER_COORDINATE = 4  # of a component


@dataclass(eq=False, repr=False)
class SketchPCA(LinearCoordinates):
    """Principal components from one pass over the rows, or from a sketch alone.

    Up to 2000 columns the sketch holds all second moments, and the components are those of `sklearn.decomposition.PCA`.
    With more columns, or if `n_directions` is given, it holds squares of random projections, beside means and squares
    of the columns: n_directions + 2 columns numbers, from which a covariance of low rank plus a multiple of the
    identity is decoded. That needs a spectrum with a gap.

    Parameters
    ----------
    n_components : number of components; a share between 0 and 1, such as 0.95, means as many as explain more than that
        share of the variance; None means as many as columns. The latter two need a sketch of second moments.
    n_directions : number of random projections; None means second moments while there are at most 2000 columns, and
        4 per coordinate of a component beyond.
    bounds : lowest and highest value of each column, as a pair of numbers or of lists. By default arrays are looked
        through; for files a sample tells, with room for values 8 times as far from their mean, and for streams the
        first rows, with room for 32 times (for projections the square roots of that).
    whiten : divide coordinates by their standard deviations, so that each has variance 1.
    random_state : seed of the directions, and of the sample that tells the range of files.
    n_jobs, device, verbose, schema : as in `SketchKMeans`.

    Attributes
    ----------
    components_ : array (n_components_, columns), the largest variance first.
    n_components_ : how many there are.
    explained_variance_, explained_variance_ratio_ : of each component, and as a share of the whole variance. From a
        private sketch, without what its noise adds to them.
    mean_ : of each column.
    standard_errors_ : of "explained_variance_", "explained_variance_ratio_", "components_" (their coordinates) and
        "mean_", by these names (see `intervals`). They hold whatever the rows' law, from 4000 rows that `fit` keeps
        beside the sketch, or a sketch of a design with rows; from second moments alone, for normal rows, which
        `error_bars().premise` says. NaN for components that cannot be told from others of nearly the same variance.
    noise_variance_ : mean variance of the directions that are left.
    residual_ : what the decoded matrix leaves of the measurements, of their deviation; 0 with second moments.
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
    kind_of_components = "principal"

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return {"task": "moments"}

    def check_parameters(self) -> None:
        truth("whiten", self.whiten)
        if isinstance(self.n_components, float):
            if not 0 < self.n_components < 1:
                raise ValueError(
                    "n_components must be a whole number, or a share of the variance between 0 and 1, "
                    f"not {self.n_components!r}"
                )
        else:
            super().check_parameters()
        if self.n_directions is not None:
            whole("n_directions", self.n_directions)

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> Operator:
        d = glimpse.rows.shape[1]
        self.check_components(d)
        if d <= MOST_EXACT_COLUMNS and self.n_directions is None:
            return keeping_rows(second_moments(glimpse, self.bounds), glimpse)
        if self.n_components is None or isinstance(self.n_components, float):
            raise ValueError(f"only a few components of {d} columns can be learned: give n_components, such as 10")
        center, reach = box(glimpse, self.bounds)
        middle = center.astype(np.float32).astype(np.float64)
        reach = reach + np.abs(center - middle)
        bound = radius(glimpse, middle) if self.bounds is None else float(np.linalg.norm(reach)) * (1 + 1e-5)
        m = DIRECTIONS_PER_COORDINATE * self.n_components * d if self.n_directions is None else self.n_directions
        seed, columns = int(rng.integers(2**31)), glimpse.columns
        squares = QuadraticFeatures(d, m, bound=bound, center=plain(middle), seed=seed, columns=columns)
        beside = ColumnMoments(d, bound=plain(reach), center=plain(middle), columns=columns)
        return keeping_rows(concatenate([squares, beside]).with_origin(origin_of(self.bounds)), glimpse)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Subspace:  # noqa: ARG002
        operator: Any = sketch.operator
        self.check_components(operator.n_features)
        found = principal_subspace(sketch, self.n_components, self._say if self.verbose else None)
        if found.hidden:
            warn_caller(
                f"{found.hidden} of {len(found.variances)} components do not stand out of the noise of the private "
                "sketch: ask for fewer, or give more records, tighter bounds or a larger epsilon",
            )
        self._say(f"{np.sum(found.variances) / found.total:.4%} of the variance in {len(found.variances)} components")
        return found

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        return subspace_errors(state.sketch, state.model, self._unbiased(), rng)

    def transform(self, X: Any) -> Double:
        """Coordinates of each row along the components, of variance 1 if they are whitened."""
        return super().transform(X) / self._scale()

    def inverse_transform(self, X: Any) -> Any:
        """Rows of these coordinates; with a schema, a data frame in the terms of the table."""
        rows = check_array(X, dtype=np.float64)
        scale = self._scale()
        return super().inverse_transform(rows * scale if rows.shape[1] == len(scale) else rows)

    def _scale(self) -> Double:
        """What coordinates are divided by."""
        if not self.whiten:
            return np.ones(self.n_components_)
        return np.maximum(np.sqrt(self.explained_variance_), np.finfo(np.float64).eps)

    @property
    def n_components_(self) -> int:
        return len(self.components_)

    def _unbiased(self) -> float:
        """From variances of the records to those of what they are drawn from."""
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
