"""Clusters that are subspaces, from a sketch."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.designing.column_ranges import fourth_moments
from sketchlearn.operators import VeroneseMoments
from sketchlearn.sketch import Sketch
from sketchlearn.sources import is_array
from sketchlearn.storage.json_documents import numbers_of
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.sketch_estimator import Document, Double, SketchEstimator
from sketchlearn.tasks.subspaces.union_of_subspaces import Subspaces, union_of_subspaces
from sketchlearn.values import shortened, whole


class SketchSubspaces(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, SketchEstimator):
    """Lines, planes and larger subspaces through the origin that rows lie near, from one pass or from a sketch alone.

    The sketch holds all moments of order 2 and 4 (`VeroneseMoments`), 65 numbers for 4 columns and 702 for 8, and tells
    the subspaces whatever the law of the rows in them [1]. Up to 12 columns.

    Parameters
    ----------
    n_clusters : number of subspaces.
    n_dimensions : their dimension, or a list with the dimension of each.
    bounds : lowest and highest value of each column, as a pair of numbers or of lists. By default arrays are looked
        through; for files a sample tells, with room for values 2.8 times as far from the origin, and for streams the
        first rows, with room for 5.7 times.
    random_state : seed of the search, and of the sample that tells the range of files.
    n_jobs : threads that sketch; None means all cores.
    verbose : 1 shows progress on standard error.

    Attributes
    ----------
    subspaces_ : list of arrays (dimension, columns), orthonormal rows, the largest variance first. Subspaces of one
        dimension come in the order of their weights.
    weights_ : the share of rows in each, if the laws in all of them have one shape, whatever their scales.
    noise_variance_ : of each column, around the subspaces.
    residual_ : what the subspaces leave of the fourth moments, of their size.
    misfit_ : its square, in units of what sampling leaves if rows are Gaussian; near 1 if all is well.
    labels_ : the nearest subspace of each row, after `fit` on an array.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.

    References
    ----------
    [1] Sheehan, Gonon, Davies, Compressive learning for semi-parametric models, arXiv 1910.10024.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 3)) * 0.01
    >>> X[:1000, 0] += rng.standard_normal(1000)
    >>> X[1000:, 1:] += rng.standard_normal((1000, 2))
    >>> model = skl.SketchSubspaces(2, [1, 2], random_state=0).fit(X)
    >>> np.abs(model.subspaces_[0]).round(2).tolist(), np.mean(model.labels_[:1000] == 0) > 0.95
    ([[1.0, 0.0, 0.0]], np.True_)
    """

    model_fields = ("origin", "bases", "weights", "noise_variance", "residual", "misfit")

    def __init__(
        self,
        n_clusters: int = 2,
        n_dimensions: int | Iterable[int] = 1,
        *,
        bounds: Any = None,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.n_dimensions = n_dimensions
        self.bounds = bounds
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    @classmethod
    def from_model_content(cls, document: Document, n_features: int) -> Self:
        bases = document["bases"]
        if not isinstance(bases, list) or not all(isinstance(basis, list) for basis in bases):
            raise ValueError("bases must be a list of matrices")
        dimensions = [whole("the dimension of a subspace", len(basis), most=n_features) for basis in bases]
        k = whole("the number of subspaces", len(dimensions))
        sizes = zip(bases, dimensions, strict=True)
        one_by_one = [numbers_of({"bases": basis}, "bases", (p, n_features)) for basis, p in sizes]
        estimator = cls(k, dimensions[0] if len(set(dimensions)) == 1 else dimensions)
        estimator._model = Subspaces(
            numbers_of(document, "origin", (n_features,)),
            tuple(one_by_one),
            numbers_of(document, "weights", (k,)),
            float(numbers_of(document, "noise_variance", ())),
            float(numbers_of(document, "residual", ())),
            float(numbers_of(document, "misfit", ())),
        )
        return estimator

    def check_parameters(self) -> None:
        self._dimensions()

    def _dimensions(self) -> list[int]:
        k = whole("n_clusters", self.n_clusters)
        given = self.n_dimensions
        several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given] * k
        if len(several) != k:
            raise ValueError(f"n_dimensions must be one number or {k}, as many as n_clusters, not {shortened(given)}")
        return [whole("n_dimensions", p) for p in several]

    def _checked_dimensions(self, n_features: int) -> list[int]:
        dimensions = self._dimensions()
        if max(dimensions) > n_features:
            raise ValueError(f"n_dimensions={max(dimensions)} must be at most the number of columns, {n_features}")
        return dimensions

    def check_size(self, n_rows: int) -> None:
        least = max(2, sum(self._dimensions()))
        if n_rows < least:
            raise ValueError(f"n_samples={n_rows} rows cannot span {self.n_clusters} subspaces: give at least {least}")

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> VeroneseMoments:  # noqa: ARG002
        self._checked_dimensions(glimpse.rows.shape[1])
        return fourth_moments(
            glimpse.rows,
            glimpse.columns,
            everything=glimpse.everything,
            bounds=self.bounds,
            representative=glimpse.representative,
        )

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Subspaces:
        operator: Any = sketch.operator
        dimensions = self._checked_dimensions(operator.n_features)
        found = union_of_subspaces(sketch, dimensions, rng, self._say if self.verbose else None)
        if not found.identified:
            warn_caller(
                f"fourth moments of {len(found.origin)} columns do not tell {len(dimensions)} subspaces of dimension "
                f"{max(dimensions)} apart from others: ask for fewer or smaller ones",
                ConvergenceWarning,
            )
        elif not found.explained:
            warn_caller(
                f"the subspaces leave {found.misfit:.2g} times the squared residual that sampling does: try other "
                "n_clusters or n_dimensions, or rows whose subspaces meet in the origin",
                ConvergenceWarning,
            )
        return found

    @property
    def subspaces_(self) -> list[Double]:
        return list(self.fitted_model().bases)

    @property
    def weights_(self) -> Double:
        weights: Double = self.fitted_model().weights
        return weights

    @property
    def noise_variance_(self) -> float:
        variance: float = self.fitted_model().noise_variance
        return variance

    @property
    def residual_(self) -> float:
        residual: float = self.fitted_model().residual
        return residual

    @property
    def misfit_(self) -> float:
        misfit: float = self.fitted_model().misfit
        return misfit

    @property
    def _n_features_out(self) -> int:
        return len(self.subspaces_)

    def _after_fit(self, rows: NDArray[Any]) -> None:
        self.labels_ = self._nearest(rows)

    def _nearest(self, rows: NDArray[Any]) -> NDArray[np.int32]:
        return np.argmin(self.fitted_model().distances(rows), axis=1).astype(np.int32)

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The nearest subspace of each row."""
        self.fitted_model()
        return np.concatenate([np.empty(0, np.int32), *(self._nearest(rows) for rows in self.row_blocks(X))])

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int32]:
        """`fit`, then the subspace of each row."""
        fitted = self.fit(X, y)
        return fitted.labels_ if is_array(X) else fitted.predict(X)

    def transform(self, X: Any) -> Double:
        """Distances of each row to each subspace."""
        found = self.fitted_model()
        parts = [found.distances(rows) for rows in self.row_blocks(X)]
        return np.concatenate([np.empty((0, len(found.bases))), *parts])

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to their subspaces."""
        found = self.fitted_model()
        return -sum(float(np.sum(found.distances(rows).min(axis=1) ** 2)) for rows in self.row_blocks(X))
