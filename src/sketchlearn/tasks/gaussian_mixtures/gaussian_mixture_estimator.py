"""Mixtures of Gaussians from a sketch."""

from __future__ import annotations

from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import solve_triangular
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.caller_warnings import warn_caller
from sketchlearn.decoders import Decoder, Problem, Target, decoder_from
from sketchlearn.decoders.densities.gaussian_mixture_fit import MixtureFit, fit_mixture
from sketchlearn.decoders.problems.decoding_target import HIGHEST_HARMONIC
from sketchlearn.models import (
    DiagonalGaussian,
    FullGaussian,
    KnownGaussian,
    Mixture,
    Model,
    SphericalGaussian,
    TiedGaussian,
)
from sketchlearn.sketch import Sketch
from sketchlearn.storage.json_documents import numbers_of
from sketchlearn.tasks.estimating.component_estimator import outcome_content, outcome_of, weights_of
from sketchlearn.tasks.estimating.mixture_estimator import SketchMixture
from sketchlearn.tasks.estimating.sketch_estimator import Document, Double
from sketchlearn.tasks.gaussian_mixtures.mixtures_of_rows import Family, fit_mixture_of_rows
from sketchlearn.values import shortened
from sketchlearn.waves import Wave
from sketchlearn.weighting.clusters_of_rows import RowSample

MODELS: dict[str, type[Model]] = {
    "spherical": SphericalGaussian,
    "tied": TiedGaussian,
    "diag": DiagonalGaussian,
    "full": FullGaussian,
    "known": KnownGaussian,
}


class SketchGaussianMixture(SketchMixture):
    """A mixture of Gaussians from one pass over the rows, or from a sketch alone.

    Parameters
    ----------
    n_components : number of Gaussians.
    covariance_type : "full", "tied", "diag", "spherical", or "known".
    covariance : the common covariance matrix, for "known".
    decoder, n_frequencies, wave, random_state, n_jobs, verbose : as in `SketchKMeans`; by default the sketch has 10
        frequencies per parameter of the mixture.

    Attributes
    ----------
    weights_, means_ : arrays (n_components,) and (n_components, columns).
    covariances_ : (n_components, columns, columns) for "full", (columns, columns) for "tied" and "known",
        (n_components, columns) for "diag", (n_components,) for "spherical".
    fit_test_ : squared residual per degree of freedom, about 1 if the rows come from such a mixture. Above 1.5 a
        warning is given, and the mixture is the likeliest one under a finer density fitted to the sketch. Where the
        operator declares shapes of clusters (`design` does, from its sample), "diag" and "full" covariances are
        then held near those: most of what is known of flat clusters comes from the sample.
    sketch_, outcome_ : the sketch, and how decoding went.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((5000, 2)) * [1, 3] + 10 * rng.integers(0, 2, (5000, 1))
    >>> mixture = skl.SketchGaussianMixture(2, covariance_type="diag", random_state=0).fit(X)
    >>> np.sqrt(mixture.covariances_).round().tolist()
    [[1.0, 3.0], [1.0, 3.0]]
    """

    model_fields = ("weights", "means", "covariance_type", "covariances", "fit_test", "outcome")

    def __init__(
        self,
        n_components: int = 1,
        *,
        covariance_type: str = "full",
        covariance: ArrayLike | None = None,
        decoder: str | Decoder = "auto",
        n_frequencies: int | None = None,
        wave: str | Wave = "exponential",
        random_state: Any = None,
        n_jobs: int | None = None,
        verbose: int = 0,
    ) -> None:
        self.n_components = n_components
        self.covariance_type = covariance_type
        self.covariance = covariance
        self.decoder = decoder
        self.n_frequencies = n_frequencies
        self.wave = wave
        self.random_state = random_state
        self.n_jobs = n_jobs
        self.verbose = verbose

    def model_content(self) -> Document:
        return {
            "weights": self.weights_.tolist(),
            "means": self.means_.tolist(),
            "covariance_type": self.covariance_type,
            "covariances": self.covariances_.tolist(),
            "fit_test": float(self.fit_test_),
            "outcome": outcome_content(self.outcome_),
        }

    @classmethod
    def from_model_content(cls, document: Document, n_features: int) -> Self:
        weights, d, kind = weights_of(document), n_features, document["covariance_type"]
        k = len(weights)
        shapes: dict[str, tuple[int, ...]] = {
            "full": (k, d, d),
            "tied": (d, d),
            "known": (d, d),
            "diag": (k, d),
            "spherical": (k,),
        }
        if not isinstance(kind, str) or kind not in shapes:
            raise ValueError(f"covariance_type must be one of {', '.join(shapes)}, not {shortened(kind)}")
        means, given = numbers_of(document, "means", (k, d)), numbers_of(document, "covariances", shapes[kind])
        matrices = _matrices(kind, given, d)
        _check_positive(matrices)
        known = kind == "known"
        model: Model = KnownGaussian(given) if known else MODELS[kind]()
        mixture = Mixture(model, weights, means, np.zeros((k, 0)) if known else model.shapes_of(matrices))
        fit_test = float(numbers_of(document, "fit_test", ()))
        return cls(k, covariance_type=kind, covariance=given if known else None).with_model(
            MixtureFit(mixture, fit_test, outcome_of(document, mixture))
        )

    @property
    def _task(self) -> str:
        return "mixture-full" if self.covariance_type == "full" else "mixture"

    def check_parameters(self) -> None:
        super().check_parameters()
        if self.covariance_type not in MODELS:
            raise ValueError(f"covariance_type must be one of {', '.join(MODELS)}, not {self.covariance_type!r}")
        if (self.covariance is None) == (self.covariance_type == "known"):
            raise ValueError('a covariance matrix is needed for covariance_type="known", and for no other')

    def learn_from_sketch(
        self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None
    ) -> MixtureFit:
        sample = self._sample(sketch, sample)
        self._check_determined(sketch, sample)
        problem = Problem.of(Target.of(sketch, HIGHEST_HARMONIC), self.n_components)
        if sample is not None:
            fit = fit_mixture_of_rows(sketch, problem, sample, self._family(problem), rng)
            self._say(f"{fit.outcome.status.value}; fit test {fit.misfit:.3g}")
        else:
            model, decoder = self._gaussian(problem), decoder_from(self.decoder)
            fit = fit_mixture(problem, model, self.covariance_type, decoder, rng, self._say if self.verbose else None)
        if not fit.passes:
            warn_caller(self._doubt(fit, sample), ConvergenceWarning)
        elif sketch.count < (p := problem.n_parameters(fit.outcome.mixture)):
            warn_caller(
                f"{sketch.count:,} records are too few for the {p:,} parameters of this mixture, which may not hold "
                "for others: ask for fewer components, or for another covariance_type",
                ConvergenceWarning,
            )
        return fit

    def _doubt(self, fit: MixtureFit, sample: RowSample | None) -> str:
        """What to say of rows that are not such a mixture."""
        found = f"the sketch does not look like one of {self.n_components} Gaussians (fit test {fit.misfit:.3g}, about "
        found += "1 if it did): the mixture is "
        if sample is None:
            found += "a likely one under a finer density, with shapes like those that the operator declares"
        else:
            found += "the likeliest one of the rows that were kept"
        return f"{found}; try more components or another covariance_type"

    def _family(self, problem: Problem) -> Family:
        model = self._gaussian(problem)
        if isinstance(model, KnownGaussian):
            model = KnownGaussian(np.asarray(self.covariance, np.float64))
        return Family(self.n_components, self.covariance_type, model)

    def _gaussian(self, problem: Problem) -> Model:
        if self.covariance_type != "known":
            return MODELS[self.covariance_type]()
        given, d = np.asarray(self.covariance, np.float64), problem.target.n_features
        if given.shape != (d, d) or not np.allclose(given, given.T) or np.any(np.linalg.eigvalsh(given) <= 0):
            raise ValueError(f"covariance must be a positive definite matrix of {d} rows and columns")
        return KnownGaussian(given / np.outer(problem.target.unit, problem.target.unit))

    @property
    def covariances_(self) -> Double:
        every = self._mixture.covariances()
        return {
            "full": lambda: every,
            "tied": lambda: every[0],
            "known": lambda: every[0],
            "diag": lambda: np.diagonal(every, axis1=1, axis2=2).copy(),
            "spherical": lambda: every[:, 0, 0].copy(),
        }[self.covariance_type]()

    @property
    def fit_test_(self) -> float:
        misfit: float = self.fitted_model().misfit
        return misfit

    def _log_densities(self, rows: Double) -> Double:
        mixture, d = self._mixture, rows.shape[1]
        result = np.empty((len(rows), len(mixture)))
        for i, covariance in enumerate(mixture.covariances()):
            factor = np.linalg.cholesky(covariance)
            away = solve_triangular(factor, (rows - mixture.locations[i]).T, lower=True)
            result[:, i] = -0.5 * np.sum(away * away, axis=0) - np.sum(np.log(np.diag(factor)))
        return result - 0.5 * d * np.log(2 * np.pi)

    def bic(self, X: Any) -> float:
        """Bayesian information criterion on rows, the lower the better. A sketch alone has no likelihood: give rows."""
        scores = self.score_samples(X)
        return -2 * float(np.sum(scores)) + self._n_parameters() * float(np.log(len(scores)))

    def aic(self, X: Any) -> float:
        """Akaike information criterion on rows, the lower the better. A sketch alone has no likelihood: give rows."""
        return -2 * float(np.sum(self.score_samples(X))) + 2 * self._n_parameters()

    def _n_parameters(self) -> int:
        mixture = self._mixture
        return mixture.model.n_parameters(len(mixture), mixture.locations.shape[1]) - 1


def _matrices(kind: str, given: Double, d: int) -> Double:
    if kind == "spherical":
        return np.asarray(given[:, None, None] * np.eye(d))
    if kind == "diag":
        return np.asarray(given[:, :, None] * np.eye(d))
    return given if kind == "full" else given[None]


def _check_positive(matrices: Double) -> None:
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        raise ValueError("covariances must be positive definite") from None
    if not np.allclose(matrices, matrices.transpose(0, 2, 1)):
        raise ValueError("covariances must be symmetric")
