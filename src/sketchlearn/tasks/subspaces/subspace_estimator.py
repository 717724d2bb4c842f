"""Clusters that are subspaces, from a sketch."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.operators import VeroneseMoments
from sketchlearn.plain_digits import in_digits
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.column_ranges import fourth_moments
from sketchlearn.tasks.estimating.fitted_model import Document, Double
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.estimating.nearest_clusters import NearestClusters
from sketchlearn.tasks.estimating.sketch_estimator import model_attribute
from sketchlearn.tasks.subspaces.union_of_subspaces import ACCEPTABLE_MISFIT, Subspaces, union_of_subspaces
from sketchlearn.values import shortened, whole

MOST_CLUSTERS = 2**16


@dataclass(eq=False, repr=False)
class SketchSubspaces(NearestClusters):
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
    n_jobs, device, verbose, schema : as in `SketchKMeans`.

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

    n_clusters: int = 2
    n_dimensions: int | Iterable[int] = 1
    _: KW_ONLY
    bounds: Any = None

    model_type = Subspaces
    weights_ = model_attribute("weights")
    noise_variance_ = model_attribute("noise_variance")
    residual_ = model_attribute("residual")
    misfit_ = model_attribute("misfit")

    @classmethod
    def parameters_of(cls, model: Subspaces) -> Document:
        dimensions = [len(basis) for basis in model.bases]
        several = len(set(dimensions)) > 1
        return {"n_clusters": len(dimensions), "n_dimensions": dimensions if several else dimensions[0]}

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return {"task": "subspaces"}

    def check_parameters(self) -> None:
        self._dimensions()

    def _dimensions(self) -> list[int]:
        k = whole("n_clusters", self.n_clusters, most=MOST_CLUSTERS)
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
        return fourth_moments(glimpse, self.bounds)

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
        elif found.misfit > ACCEPTABLE_MISFIT:
            warn_caller(
                f"the subspaces leave {in_digits(found.misfit, 2)} times the squared residual that sampling does: try "
                "other n_clusters or n_dimensions, or rows whose subspaces meet in the origin",
                ConvergenceWarning,
            )
        return found

    @property
    def subspaces_(self) -> list[Double]:
        return list(self.fitted_model().bases)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to their subspaces."""
        found = self.fitted_model()
        return -sum(float(np.sum(found.distances(rows).min(axis=1) ** 2)) for rows in self.row_blocks(X))
