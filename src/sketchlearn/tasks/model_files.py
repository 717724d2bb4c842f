"""Models as files: JSON that says what was learned, and nothing of how to run it; of generators safetensors."""

from __future__ import annotations

import math
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from sketchlearn.decoders import Outcome, Status
from sketchlearn.decoders.densities.gaussian_mixture_fit import MixtureFit
from sketchlearn.models import Dirac, IndependentStable, KnownGaussian, Mixture, SymmetricStable
from sketchlearn.operators.base import MOST_FEATURES
from sketchlearn.storage.container import FormatError, write
from sketchlearn.storage.json_documents import MODEL, from_document, is_network, numbers_of, to_document
from sketchlearn.tasks import model_contents
from sketchlearn.tasks.clusters.cluster_estimators import Clusters, SketchKMeans, SketchKMedians
from sketchlearn.tasks.estimating.model_facts import known_of, with_known
from sketchlearn.tasks.estimating.sketch_estimator import Double, SketchEstimator
from sketchlearn.tasks.gaussian_mixtures.gaussian_mixture_estimator import MODELS, SketchGaussianMixture
from sketchlearn.tasks.generators import generator_files
from sketchlearn.tasks.generators.generator_estimator import SketchGenerator
from sketchlearn.tasks.stable_mixtures.stable_mixture_estimator import SketchStableMixture
from sketchlearn.values import shortened, whole

VERSION = 1
MOST_COMPONENTS = 2**24
Document = dict[str, Any]

TYPES: dict[str, type[SketchEstimator]] = {
    "kmeans": SketchKMeans,
    "kmedians": SketchKMedians,
    "gmm": SketchGaussianMixture,
    "stable": SketchStableMixture,
    generator_files.TYPE: SketchGenerator,
    **{name: kind.estimator for name, kind in model_contents.KINDS.items()},
}
SHARED = {"kind", "version", "type", "n_features", "columns", "n_records"}
DECODED = SHARED | {"outcome", "weights"}
FIELDS = {
    "kmeans": DECODED | {"centers"},
    "kmedians": DECODED | {"centers"},
    "gmm": DECODED | {"means", "covariance_type", "covariances", "fit_test"},
    "stable": DECODED | {"means", "scales", "alphas", "coordinates", "fit_test"},
    **{name: SHARED | kind.fields for name, kind in model_contents.KINDS.items()},
}


def save_model(estimator: SketchEstimator, path: str | os.PathLike[str]) -> None:
    """Writes what an estimator learned to a JSON file; the sketch is not in it.

    >>> import numpy as np, sketchlearn as skl, tempfile
    >>> X = np.random.default_rng(0).standard_normal((2000, 2)) + 10 * np.arange(2000)[:, None] // 1000
    >>> kmeans = skl.SketchKMeans(2, random_state=0).fit(X)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     skl.save_model(kmeans, f"{folder}/model.json")
    ...     again = skl.load_model(f"{folder}/model.json")
    >>> bool(np.all(again.predict(X) == kmeans.labels_))
    True
    """
    write(path, model_to_bytes(estimator))


def load_model(path: str | os.PathLike[str]) -> SketchEstimator:
    """Reads a model: an estimator that predicts, but has no sketch.

    It has `columns_` and `n_records_` of the sketch it came from; its `outcome_` has the mixture in the data's units.
    A `FormatError` says in a sentence why a file is refused.
    """
    try:
        return model_from_bytes(Path(path).read_bytes())
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)}: {error}") from None


def type_of(estimator: SketchEstimator) -> str:
    """What the file calls this kind of estimator."""
    for name, kind in TYPES.items():
        if type(estimator) is kind:
            return name
    known = ", ".join(kind.__name__ for kind in TYPES.values())
    raise TypeError(f"a {type(estimator).__name__} cannot be saved: only {known} can")


def model_to_bytes(estimator: SketchEstimator) -> bytes:
    """A fitted estimator as the bytes of a file."""
    if isinstance(estimator, SketchGenerator):
        return generator_files.to_bytes(estimator, known_of(estimator))
    name = type_of(estimator)
    fitted = estimator._fitted()
    content = {"type": name, **known_of(estimator)}
    kind = model_contents.KINDS.get(name)
    own = _decoded(estimator, fitted) if kind is None else kind.content(estimator)
    return to_document(MODEL, VERSION, content | own)


def _decoded(estimator: Any, fitted: Any) -> Document:
    """What is said of clusters and mixtures."""
    outcome = estimator.outcome_
    content = {
        "outcome": {
            "squared_residual": float(outcome.cost),
            "misfit": float(outcome.misfit),
            "iterations": int(outcome.iterations),
            "status": outcome.status.name,
        },
        "weights": estimator.weights_.tolist(),
    }
    if isinstance(estimator, SketchKMeans):
        content |= {"centers": estimator.cluster_centers_.tolist()}
    elif isinstance(estimator, SketchGaussianMixture):
        content |= {
            "means": estimator.means_.tolist(),
            "covariance_type": estimator.covariance_type,
            "covariances": estimator.covariances_.tolist(),
            "fit_test": float(fitted.misfit),
        }
    elif isinstance(estimator, SketchStableMixture):
        content |= {
            "means": estimator.means_.tolist(),
            "scales": estimator.scales_.tolist(),
            "alphas": estimator.alphas_.tolist(),
            "coordinates": estimator.coordinates_,
            "fit_test": float(fitted.misfit),
        }
    return content


def model_from_bytes(data: bytes) -> SketchEstimator:
    """The estimator whose file these bytes are."""
    if is_network(data):
        return generator_files.restore(SketchGenerator(), data)
    document = from_document(data, MODEL, VERSION)
    try:
        return _estimator(document)
    except (KeyError, TypeError, ValueError, OverflowError, MemoryError, RecursionError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error)
        raise FormatError(f"not a model that this version can use: {said}") from None


def _estimator(document: Document) -> SketchEstimator:
    name = document["type"]
    if not isinstance(name, str) or name not in FIELDS:
        raise ValueError(f"{shortened(name)} is not a type of model that this version knows")
    odd = sorted((document.keys() - {"privacy"}) ^ FIELDS[name])
    if odd:
        raise ValueError(f"field {shortened(odd[0])} is {'unknown' if odd[0] in document else 'missing'}")
    d = whole("n_features", document["n_features"], most=MOST_FEATURES)
    if name in model_contents.KINDS:
        return with_known(model_contents.KINDS[name].estimator_of(document, d), document, d)
    if not isinstance(document["weights"], list):
        raise ValueError("weights must be a list")
    k = whole("the number of components", len(document["weights"]), most=MOST_COMPONENTS)
    weights = numbers_of(document, "weights", (k,))
    if np.any(weights < 0) or not math.isclose(float(weights.sum()), 1.0, rel_tol=1e-3):
        raise ValueError("weights must not be negative and must sum to 1")
    return with_known(_BUILDERS[name](document, name, weights, d), document, d)


def _clusters(document: Document, name: str, weights: Double, d: int) -> SketchEstimator:
    k = len(weights)
    centers = numbers_of(document, "centers", (k, d))
    points = Mixture(Dirac(), weights, centers, np.zeros((k, 0)))
    estimator = SketchKMedians(k) if name == "kmedians" else SketchKMeans(k)
    estimator._model = Clusters(centers, weights, points, _outcome(document, points))
    return estimator


def _gaussians(document: Document, _name: str, weights: Double, d: int) -> SketchEstimator:
    k, kind = len(weights), document["covariance_type"]
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
    if kind == "known":
        model, forms = KnownGaussian(given), np.zeros((k, 0))
        estimator = SketchGaussianMixture(k, covariance_type=kind, covariance=given)
    else:
        model = MODELS[kind]()  # type: ignore[assignment]
        forms = model.shapes_of(matrices)
        estimator = SketchGaussianMixture(k, covariance_type=kind)
    mixture = Mixture(model, weights, means, forms)
    fit_test = float(numbers_of(document, "fit_test", ()))
    estimator._model = MixtureFit(mixture, fit_test, _outcome(document, mixture))
    return estimator


def _stable(document: Document, _name: str, weights: Double, d: int) -> SketchEstimator:
    k = len(weights)
    means, scales = numbers_of(document, "means", (k, d)), numbers_of(document, "scales", (k, d))
    alphas = numbers_of(document, "alphas", (k,))
    if np.any(scales <= 0) or np.any((alphas < 0.5) | (alphas > 2)):
        raise ValueError("scales must be positive, and alphas from 0.5 to 2")
    laws = {"elliptical": SymmetricStable(), "independent": IndependentStable()}
    kind = document["coordinates"]
    if not isinstance(kind, str) or kind not in laws:
        raise ValueError(f"coordinates must be one of {', '.join(laws)}, not {shortened(kind)}")
    mixture = Mixture(laws[kind], weights, means, np.column_stack([scales**2, alphas]))
    fit_test = float(numbers_of(document, "fit_test", ()))
    estimator = SketchStableMixture(k)
    estimator._model = MixtureFit(mixture, fit_test, _outcome(document, mixture))
    return estimator


_BUILDERS: dict[str, Callable[[Document, str, Double, int], SketchEstimator]] = {
    "kmeans": _clusters,
    "kmedians": _clusters,
    "gmm": _gaussians,
    "stable": _stable,
}


def _matrices(kind: str, given: Double, d: int) -> Double:
    if kind == "spherical":
        return given[:, None, None] * np.eye(d)
    if kind == "diag":
        return given[:, :, None] * np.eye(d)
    return given if kind == "full" else given[None]


def _check_positive(matrices: Double) -> None:
    try:
        np.linalg.cholesky(matrices)
    except np.linalg.LinAlgError:
        raise ValueError("covariances must be positive definite") from None
    if not np.allclose(matrices, matrices.transpose(0, 2, 1)):
        raise ValueError("covariances must be symmetric")


def _outcome(document: Document, mixture: Mixture) -> Outcome:
    form = document["outcome"]
    if not isinstance(form, dict) or form.keys() != {"squared_residual", "misfit", "iterations", "status"}:
        raise ValueError("outcome must say squared_residual, misfit, iterations and status")
    if not isinstance(form["status"], str) or form["status"] not in Status.__members__:
        raise ValueError(f"outcome: {shortened(form['status'])} is not a status")
    cost, misfit = (float(numbers_of(form, name, ())) for name in ("squared_residual", "misfit"))
    if cost < 0:
        raise ValueError("outcome: squared_residual must not be negative")
    return Outcome(mixture, cost, misfit, whole("iterations", form["iterations"], 0), Status[form["status"]])
