"""What a generator has learned, and its file: safetensors, with one JSON entry. Nothing in it is executed."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np

from sketchlearn.cost import Cost
from sketchlearn.extras import required
from sketchlearn.loading_limit import check_cost, loading
from sketchlearn.operators.operator_base import MOST_FEATURES
from sketchlearn.storage.container import ENTRY, FormatError, Header
from sketchlearn.storage.json_documents import (
    MODEL,
    MODEL_VERSION,
    check_model_fields,
    from_document,
    numbers_of,
    to_document,
)
from sketchlearn.tasks.estimating.fitted_model import Document, Double, FittedModel
from sketchlearn.tasks.estimating.labelled_estimator import check_labels
from sketchlearn.tasks.generators.lifted_rows import Lift
from sketchlearn.values import shortened, whole

MOST_CLASSES = 2**16
TYPE = "generator"
LIFT = "lift:"  # before the names of arrays that are no weights of the network
FIELDS = {
    *("labels", "shares", "means", "deviations"),
    *("n_latent", "own_network", "residual", "misfit", "curve", "iterations"),
}
Estimator = TypeVar("Estimator", bound=Any)
Shapes = dict[str, tuple[int, ...]]


@dataclass(frozen=True, eq=False)
class Generation(FittedModel):
    """A network that matches, and the classes that it makes rows of. The network's weights are not among its fields."""

    match: Any
    labels: tuple[Any, ...] | None  # in the order that the network knows them; None without labels
    shares: Double

    def to_fields(self) -> Document:
        match = self.match
        if self.labels is not None and not all(isinstance(label, str | int | float) for label in self.labels):
            raise TypeError("generators can be saved if their labels are words or numbers")
        return {
            "labels": None if self.labels is None else list(self.labels),
            "shares": self.shares.tolist(),
            "means": [place.mean.tolist() for place in match.places],
            "deviations": [place.deviations.tolist() for place in match.places],
            "n_latent": match.n_latent,
            "residual": match.residual,
            "misfit": match.misfit,
            "curve": list(match.curve),
            "iterations": match.iterations,
        }

    def _arrays(self) -> dict[str, Any]:
        lift = {} if self.match.lift is None else self.match.lift.arrays()
        weights = {name: value.numpy() for name, value in self.match.network.state_dict().items()}
        return weights | {LIFT + name: value for name, value in lift.items()}

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Generation) or not super().__eq__(other):
            return False
        own, others = self._arrays(), other._arrays()
        return own.keys() == others.keys() and all(np.array_equal(own[key], others[key]) for key in own)

    __hash__ = None


def to_bytes(fitted: Generation, known: dict[str, Any], own_network: bool) -> bytes:
    """A fitted generator as the bytes of a file; `known` is what every model file says."""
    from safetensors.torch import save
    from torch import from_numpy

    content = known | fitted.to_fields() | {"type": TYPE, "own_network": own_network}
    weights = {name: value.detach().contiguous() for name, value in fitted.match.network.state_dict().items()}
    if (lift := fitted.match.lift) is not None:
        weights |= {LIFT + name: from_numpy(np.ascontiguousarray(value)) for name, value in lift.arrays().items()}
    data: bytes = save(weights, metadata={ENTRY: to_document(MODEL, MODEL_VERSION, content).decode()})
    return data


@loading()
def restore(estimator: Estimator, data: bytes) -> Estimator:
    """The estimator with what a file says, its network filled with the file's weights."""
    required("torch", "torch")
    header = Header.of(data)
    document = from_document(header.entry, MODEL, MODEL_VERSION)
    if document.get("own_network") is not False and estimator.network is None:
        raise FormatError("its network is its maker's own: give SketchGenerator(network).load_weights(path)")
    try:
        return _filled(estimator, document, data, header.shapes)
    except FormatError:
        raise
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RuntimeError, MemoryError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
        raise FormatError(f"not a generator that this version can use: {said}") from None


def _weights(data: bytes) -> dict[str, Any]:
    """All arrays of a file whose names and shapes are those that it should have."""
    from safetensors import SafetensorError
    from safetensors.torch import load

    try:
        return load(data)
    except (SafetensorError, KeyError):
        raise FormatError("not a generator's file, or a damaged one") from None


def _filled(estimator: Estimator, document: dict[str, Any], data: bytes, shapes: Shapes) -> Estimator:
    from sketchlearn.tasks.generators.network_matching import Match, Place
    from sketchlearn.tasks.generators.networks import bare_network, check_weights

    check_model_fields(document, FIELDS)
    if document["type"] != TYPE:
        raise ValueError(f"{shortened(document['type'])} is not a type of model that this version knows")
    d, labels = whole("n_features", document["n_features"], most=MOST_FEATURES), document["labels"]
    if labels is not None:
        check_labels(labels)
    k = 1 if labels is None else whole("the number of classes", len(labels), most=MOST_CLASSES)
    shares = numbers_of(document, "shares", (k,))
    if np.any(shares < 0) or abs(shares.sum() - 1) > 1e-6:
        raise ValueError("shares must not be negative and must sum to 1")
    lifting = {name.removeprefix(LIFT): shape for name, shape in shapes.items() if name.startswith(LIFT)}
    p = Lift.checked_places(lifting, k, d) if lifting else d
    means, deviations = (numbers_of(document, name, (k, p)) for name in ("means", "deviations"))
    if np.any(deviations <= 0):
        raise ValueError("deviations must be positive")
    n_latent = whole("n_latent", document["n_latent"], most=MOST_FEATURES)
    own = {name: shape for name, shape in shapes.items() if not name.startswith(LIFT)}
    if estimator.network is not None:
        network = copy.deepcopy(estimator.network)
        check_weights(network, own, "this network")
    else:
        network = bare_network(n_latent, k, p, own)
    check_cost("making its network", Cost.of_numbers(sum(map(math.prod, own.values())), operations_each=5))
    weights = _weights(data)
    lift = Lift.from_arrays({name: weights.pop(LIFT + name).numpy() for name in lifting}) if lifting else None
    network.load_state_dict(weights)
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise ValueError("its weights are not all finite")
    places = tuple(Place(mean, unit) for mean, unit in zip(means, deviations, strict=True))
    residual, misfit = (float(numbers_of(document, name, ())) for name in ("residual", "misfit"))
    curve = tuple(numbers_of(document, "curve", (len(document["curve"]),)).tolist())
    iterations = whole("iterations", document["iterations"])
    match = Match(network.eval(), places, n_latent, residual, misfit, curve, iterations, lift)
    made = Generation(match, None if labels is None else tuple(labels), shares / shares.sum())
    return estimator.with_model(made, document | {"n_features": d})
