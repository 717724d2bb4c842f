"""Random features for kernel machines whose queries are single bits."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin
from sklearn.metrics.pairwise import euclidean_distances, manhattan_distances
from sklearn.utils import Tags, check_random_state
from sklearn.utils.validation import check_is_fitted

from sketchlearn.core.arrays import Double
from sketchlearn.core.values import positive, shortened, whole
from sketchlearn.estimators.base.arrays import checked_array
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import Gaussian, Law
from sketchlearn.features.waves import Exponential, FourierSeries, Pair, Sawtooth, Square, Triangle, Wave, wave_from
from sketchlearn.sketch.bits import PackedBits

REAL_WAVES = {"square": Square(complex=False), "sawtooth": Sawtooth(complex=False), "triangle": Triangle(complex=False)}


@dataclass(eq=False, repr=False)
class PeriodicFeatures(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """Pairs of random periodic features: full precision for training, one bit each for queries.

    The features of a row y are g(omega_j . y + xi_j), those of a query x are f(omega_j . x + xi_j), with the same
    random frequencies and dither. The expected inner product of the scaled features is the kernel of the frequency
    distribution, undistorted if f or g is a cosine; with `law=None`, it is exp(-|x - y|^2 / (2 scale^2)).

    Parameters
    ----------
    n_components : number m of frequencies, and of features (twice as many for complex waves).
    scale : of the Gaussian kernel, in the units of the data.
    law : frequency distribution of `sketchlearn.features.frequencies`, for other kernels than the Gaussian one.
    wave : g, the periodic nonlinearity of `transform`: "cosine" (in phase with the query's), "softened" (a smooth wave
        near the query's, which distorts the kernel, but improves the predictions of models with few features),
        "square", "sawtooth" or "triangle", which are real, or a wave of `sketchlearn.features.waves`.
    query : f, the periodic nonlinearity of queries, as `wave`; square waves can be packed, as can quantized ones of 2
        to 8 bits.
    random_state : seed of the frequencies and the dither.
    n_jobs : threads; None means all cores.

    Attributes
    ----------
    operator_, query_operator_ : `FourierFeatures` of the two waves; `skl.save` writes the latter for a device.
    query_factor_ : the value of a positive sign of a query.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> from sklearn.svm import LinearSVC
    >>> X = np.random.default_rng(0).normal(size=(2000, 2))
    >>> y = np.hypot(*X.T) > 1.2
    >>> features = skl.PeriodicFeatures(512, scale=1.0, random_state=0).fit(X)
    >>> svm = LinearSVC().fit(features.transform(X[:1000]), y[:1000])
    >>> queries = features.pack(X[1000:])
    >>> features.transform(X[1000:]).astype(np.float32).nbytes // queries.nbytes
    32
    >>> bool(np.mean(features.classify(svm, queries) == y[1000:]) > 0.97)
    True
    """

    n_components: int = 100
    _: KW_ONLY
    scale: float = 1.0
    law: Law | None = None
    wave: str | Wave = "cosine"
    query: str | Wave = "square"
    random_state: Any = None
    n_jobs: int | None = None

    def fit(self, X: Any, y: Any = None) -> PeriodicFeatures:  # noqa: ARG002
        """Draws frequencies for the columns of X; phases are relative to its mean."""
        m = whole("n_components", self.n_components, most=2**31)
        law = Gaussian(positive("scale", self.scale)) if self.law is None else self.law
        if isinstance(law, Law) and law.weighted:
            raise ValueError(f"law must be one without weights, not {shortened(law)}")
        query = _query(self.query)
        self._pair = Pair(query, _wave(self.wave, query))
        rows = checked_array(self, X, dtype=[np.float64, np.float32])
        center: Any = np.asarray(rows.mean(axis=0)).ravel()
        seed = int(check_random_state(self.random_state).randint(2**31))
        self.operator_, self.query_operator_ = (
            FourierFeatures(self.n_features_in_, m, wave=wave, law=law, center=center, seed=seed)
            for wave in (self._pair.wave, self._pair.query)
        )
        self.query_factor_ = self._pair.size / (self._pair.product * np.sqrt(m))
        self._n_features_out = m * self._pair.wave.parts
        return self

    def transform(self, X: Any) -> Double:
        """Features of full precision: (rows, n_components), of length about 1."""
        rows = self._rows(X)
        return self._columns(self.operator_, rows) / (self._pair.size * np.sqrt(self.operator_.n_frequencies))

    def transform_queries(self, X: Any) -> Double:
        """Features of queries, scaled so that products with those of `transform` estimate the kernel.

        With few features, a model should be trained on these.
        """
        rows = self._rows(X)
        return self._columns(self.query_operator_, rows) * self.query_factor_

    def pack(self, X: Any) -> PackedBits:
        """The signs of queries, one bit each; `transform_queries` returns them times `query_factor_`.

        Quantized waves have several bits per feature: the signs of its powers of two.
        """
        return self.query_operator_.pack(self._rows(X), n_jobs=self.n_jobs)

    def decision(self, model: Any, queries: PackedBits) -> NDArray[np.float32]:
        """The decision function of a fitted linear model (with coef_ and intercept_), at packed queries."""
        check_is_fitted(self)
        if not hasattr(model, "coef_"):
            raise TypeError(f"decision needs a fitted linear model, with coef_, not {shortened(model)}")
        if not isinstance(queries, PackedBits):
            raise TypeError(f"queries must be PackedBits, as pack(rows) gives them, not {type(queries).__name__}")
        wave, weights = self._pair.query, np.asarray(model.coef_).T * self.query_factor_
        powers = 2.0 ** np.arange(wave.packed_bits or 1)[::-1] / wave.unit
        if len(powers) > 1:  # the signs of the highest power come first
            weights = np.concatenate([power * weights for power in powers])
        values = queries @ weights + np.asarray(model.intercept_, np.float32)
        return np.asarray(values[:, 0] if values.ndim == 2 and values.shape[1] == 1 else values, np.float32)

    def classify(self, model: Any, queries: PackedBits) -> NDArray[Any]:
        """The classes that a fitted linear classifier gives packed queries."""
        values = self.decision(model, queries)
        which = np.argmax(values, axis=1) if values.ndim == 2 else (values > 0).astype(np.int64)
        return np.asarray(np.asarray(model.classes_)[which])

    def kernel(self, X: Any, Y: Any = None) -> Double:
        """The expected inner product of the features of queries X and rows Y (default X); 1 at distance 0.

        It is sum over k of F_k conj(G_k) kappa(k (x - y)), up to coefficients of 0.001 in all.
        """
        rows = self._rows(X)
        law, d = self.operator_.law, self.n_features_in_
        between = manhattan_distances if law.kernel_norm == 1 else euclidean_distances
        distances = between(rows, rows if Y is None else self._rows(Y))
        if Y is None:
            np.fill_diagonal(distances, 0.0)
        return self._pair.kernel(lambda r: law.kernel(r, d), distances.astype(np.float64))

    def _rows(self, X: Any) -> Any:
        """An array, or a sparse matrix, which operators densify in blocks."""
        check_is_fitted(self)
        names = tuple(getattr(self, "feature_names_in_", ())) or None
        return checked_array(self, X, names, dtype=[np.float64, np.float32], reset=False)

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.input_tags.sparse = True
        return tags

    def _columns(self, operator: FourierFeatures, rows: Any) -> Double:
        """Features of rows; complex ones as their real parts, then the imaginary ones."""
        values = operator.features(rows, n_jobs=self.n_jobs)
        return np.hstack([values.real, values.imag]) if np.iscomplexobj(values) else values


def _query(given: str | Wave) -> Wave:
    """The nonlinearity of queries: named ones are real, and a cosine with dither replaces the exponential."""
    wave = wave_from(REAL_WAVES.get(given, given) if isinstance(given, str) else given)
    return FourierSeries(((0.5, 0.0),), complex=True) if wave == Exponential() else wave


def _wave(given: str | Wave, query: Wave) -> Wave:
    first = query.coefficient(1)
    if isinstance(given, str) and given == "cosine" and first:
        return FourierSeries(((first.real / (2 * abs(first)), first.imag / (2 * abs(first))),), complex=query.complex)
    return query.softened() if isinstance(given, str) and given == "softened" else _query(given)
