"""k-means and k-medians from a sketch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassNamePrefixFeaturesOutMixin, ClusterMixin, TransformerMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.metrics.pairwise import euclidean_distances

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.decoders import (
    Decoder,
    Outcome,
    Problem,
    Target,
    centroids,
    decoder_from,
)
from sketchlearn.decoders.refinements.reduction_to_points import medians
from sketchlearn.models import Dirac, Mixture
from sketchlearn.sketch import Sketch
from sketchlearn.sources import is_array
from sketchlearn.storage.json_documents import numbers_of
from sketchlearn.tasks.clusters.clusters_of_sketch import (
    Decoded,
    Task,
    clusters_of_sketch,
    clusters_with_rows,
    mixture_clusters,
)
from sketchlearn.tasks.estimating.component_estimator import (
    DesignedEstimator,
    error_units,
    outcome_content,
    outcome_of,
    weights_of,
)
from sketchlearn.tasks.estimating.sketch_estimator import Document, Double
from sketchlearn.waves import Wave
from sketchlearn.weighting.clusters_of_rows import DistanceLoss, RowSample, SquaredLoss

BLOCK = 1 << 18  # distances computed at a time


@dataclass
class Clusters:
    """Centers, their shares, and the density they were taken from."""

    centers: Double
    weights: Double
    density: Mixture
    outcome: Outcome


class SketchKMeans(ClassNamePrefixFeaturesOutMixin, TransformerMixin, ClusterMixin, DesignedEstimator):
    """k-means from one pass over the rows, or from a sketch alone.

    A mixture of Gaussians, with more components than clusters, is fitted to the sketch; its best k centroids are the
    result.

    Parameters
    ----------
    n_clusters : number of clusters.
    decoder : "auto", the name of another decoder, or a `sketchlearn.decoders.Decoder`.
    n_frequencies : size of the sketch; None means 10 frequencies per coordinate of a center.
    wave : wave of the sketch's features, such as "square" for one bit per feature.
    standardize : count errors in units of each column's standard deviation, so that columns of different kinds (money,
        ages, flags) matter alike; centers are in the units of the table all the same. `fit_sketch` takes it from the
        sketch's operator.
    random_state : seed of the operator and of the search.
    n_jobs : threads that sketch; None means all cores.
    verbose : 1 shows progress on standard error.

    Attributes
    ----------
    cluster_centers_ : array (n_clusters, columns).
    weights_ : share of the rows that each cluster has, as the sketch tells it.
    labels_ : the cluster of each row of an array or data frame given to `fit`; not there for other sources.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.
    outcome_ : how decoding went.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 2)) + 10 * rng.integers(0, 2, (2000, 1))
    >>> sorted(skl.SketchKMeans(2, random_state=0).fit(X).cluster_centers_.round().astype(int).tolist())
    [[0, 0], [10, 10]]
    """

    model_fields = ("centers", "weights", "outcome")

    def __init__(
        self,
        n_clusters: int = 8,
        *,
        decoder: str | Decoder = "auto",
        n_frequencies: int | None = None,
        wave: str | Wave = "exponential",
        standardize: bool = False,
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_clusters = n_clusters
        self.decoder = decoder
        self.n_frequencies = n_frequencies
        self.wave = wave
        self.standardize = standardize
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    _reduce = staticmethod(centroids)
    _loss = SquaredLoss()

    def model_content(self) -> Document:
        fitted = self.fitted_model()
        centers, weights = fitted.centers.tolist(), fitted.weights.tolist()
        return {"centers": centers, "weights": weights, "outcome": outcome_content(fitted.outcome)}

    @classmethod
    def from_model_content(cls, document: Document, n_features: int) -> Self:
        weights = weights_of(document)
        k = len(weights)
        centers = numbers_of(document, "centers", (k, n_features))
        points = Mixture(Dirac(), weights, centers, np.zeros((k, 0)))
        return cls(k).with_model(Clusters(centers, weights, points, outcome_of(document, points)))

    @property
    def _n_components(self) -> int:
        return self.n_clusters

    @property
    def cluster_centers_(self) -> Double:
        centers: Double = self.fitted_model().centers
        return centers

    @property
    def weights_(self) -> Double:
        weights: Double = self.fitted_model().weights
        return weights

    @property
    def _n_features_out(self) -> int:
        return len(self.cluster_centers_)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None) -> Clusters:
        sample = self._sample(sketch, sample)
        self._check_determined(sketch, sample)
        problem = Problem.of(Target.of(sketch), self.n_clusters)
        progress = self._say if self.verbose else None
        task = Task(sketch, problem, error_units(sketch.operator), self._loss, self._reduce, rng, progress)
        found = self._decoded(task) if sample is None else clusters_with_rows(task, sample)
        for doubt in found.doubts:
            warn_caller(doubt, ConvergenceWarning)
        self._say(f"{found.outcome.status.value}. {found.outcome.advice}".strip())
        return Clusters(found.centers, found.shares, found.density, found.outcome)

    def _decoded(self, task: Task) -> Decoded:
        """What the sketch alone tells; a decoder that is named has no other beside it."""
        decoder = decoder_from(self.decoder)
        return clusters_of_sketch(task, decoder) if self.decoder == "auto" else mixture_clusters(task, decoder)

    def _after_fit(self, rows: NDArray[Any]) -> None:
        self.labels_ = self._nearest(rows)[0]

    def predict(self, X: Any) -> NDArray[np.int32]:
        """The nearest center of each row."""
        self.fitted_model()
        return np.concatenate([np.empty(0, np.int32), *(self._nearest(rows)[0] for rows in self.row_blocks(X))])

    def fit_predict(self, X: Any, y: Any = None) -> NDArray[np.int32]:
        """`fit`, then the cluster of each row."""
        fitted = self.fit(X, y)
        return fitted.labels_ if is_array(X) else fitted.predict(X)

    def transform(self, X: Any) -> Double:
        """Distances of each row to each center."""
        centers = self.fitted_model().centers
        parts = [np.asarray(euclidean_distances(rows, centers)) for rows in self.row_blocks(X)]
        return np.concatenate(parts) if parts else np.empty((0, len(centers)))

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to their centers."""
        self.fitted_model()
        return -sum(self._nearest(rows)[1] for rows in self.row_blocks(X))

    def _nearest(self, rows: NDArray[Any]) -> tuple[NDArray[np.int32], float]:
        """The nearest center of each row and the sum of squared distances, block by block, around the centers' mean."""
        centers = self.cluster_centers_
        middle = centers.mean(axis=0)
        centers = (centers - middle).astype(rows.dtype)
        squares = np.sum(centers * centers, axis=1)
        labels, total = np.empty(len(rows), np.int32), 0.0
        step = max(1, BLOCK // len(centers))
        for first in range(0, len(rows), step):
            block = rows[first : first + step] - middle.astype(rows.dtype)
            score = squares - 2 * (block @ centers.T)
            nearest = np.argmin(score, axis=1)
            labels[first : first + step] = nearest
            left = block - centers[nearest]
            total += float(np.sum(left * left, dtype=np.float64))
        return labels, total


class SketchKMedians(SketchKMeans):
    """k-medians from a sketch: centers with the least sum of distances, rather than of squared distances.

    The density is fitted as for `SketchKMeans`; its best k points under the other loss are the result. Outliers move
    them less.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_normal((2000, 2))
    >>> skl.SketchKMedians(1, random_state=0).fit(X).cluster_centers_.shape
    (1, 2)
    """

    _reduce = staticmethod(medians)
    _loss = DistanceLoss()

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of distances of rows to their centers."""
        return -float(np.sum(self.transform(X).min(axis=1)))
