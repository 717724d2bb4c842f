"""Fitted generators as values and as files of safetensors, which hold a network's weights beside its JSON fields."""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass, replace
from typing import Any, TypeVar

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.containers import (
    ENTRY,
    MODEL,
    MODEL_VERSION,
    Header,
    check_model_fields,
    from_document,
    to_document,
)
from sketchlearn.core.limits import Cost, FormatError, check_cost, loading
from sketchlearn.core.packages import required
from sketchlearn.core.values import shortened, whole
from sketchlearn.estimators.base.model import Document, FittedModel, Known, integer, model_array, saved, scalar
from sketchlearn.estimators.base.supervised import check_labels, plain_labels
from sketchlearn.estimators.generators.lifted_rows import Lift
from sketchlearn.features.operator import MOST_FEATURES

MOST_CLASSES = 2**16
MOST_STEPS = 2**63 - 1
TYPE = "generator"
LIFT = "lift:"  # precedes the names of arrays that are not weights of the network
Estimator = TypeVar("Estimator", bound=Any)


def _read_labels(name: str, form: Any, known: Known) -> tuple[Any, ...] | None:  # noqa: ARG001
    if form is not None:
        check_labels(form)
    known["k"] = 1 if form is None else whole("the number of classes", len(form), most=MOST_CLASSES)
    return None if form is None else tuple(form)


@dataclass(frozen=True, eq=False, kw_only=True)
class Generation(FittedModel):
    """A network that makes rows of each class, and how well its sketch matches.

    The network and the lift are not among the declared fields: a file has their numbers as arrays.
    """

    labels: tuple[Any, ...] | None = saved(_read_labels, plain_labels)
    shares: Double = model_array("k")  # of the classes, in the order that the network knows them
    means: Double = model_array("k", "p")  # Networks make rows less their mean, in units of their deviations.
    deviations: Double = model_array("k", "p")
    n_latent: int = integer(1, MOST_FEATURES)
    residual: float = scalar()  # root mean square difference of a value, less the sampling error of generated rows
    misfit: float = scalar()  # its square, in units of the sketch's noise
    curve: Double = model_array("checks")  # mean square residuals, every 100 steps
    iterations: int = integer(1, MOST_STEPS)
    network: Any = None
    lift: Lift | None = None  # to all columns, where the network makes coordinates in some directions

    def check(self) -> None:
        if np.any(self.shares < 0) or abs(self.shares.sum() - 1) > 1e-6:
            raise ValueError("shares must not be negative and must sum to 1")
        if np.any(self.deviations <= 0):
            raise ValueError("deviations must be positive")

    def tensors(self) -> dict[str, Any]:
        """The network's weights and the numbers of the lift, as torch has them."""
        from torch import from_numpy

        lift = {} if self.lift is None else self.lift.arrays()
        weights = {name: value.detach().contiguous() for name, value in self.network.state_dict().items()}
        return weights | {LIFT + name: from_numpy(np.ascontiguousarray(value)) for name, value in lift.items()}

    def rows(self, which: int, n_rows: int, rng: np.random.Generator) -> Double:
        """Random rows of a class."""
        import torch

        from sketchlearn.estimators.generators.network_matching import made_rows

        noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
        place = self.means[which], self.deviations[which]
        made = made_rows(self.network, place, self.n_latent, which, len(self.means), n_rows, noise)
        return made if self.lift is None else self.lift.rows(which, made, rng)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Generation) or not super().__eq__(other):
            return False
        own, others = self.tensors(), other.tensors()
        return own.keys() == others.keys() and all(own[key].equal(others[key]) for key in own)

    __hash__ = None


def to_bytes(fitted: Generation, known: Document, own_network: bool) -> bytes:
    """A fitted generator as the bytes of a file; `known` is what every model file says."""
    from safetensors.torch import save

    content = known | fitted.to_fields() | {"type": TYPE, "own_network": own_network}
    data: bytes = save(fitted.tensors(), metadata={ENTRY: to_document(MODEL, MODEL_VERSION, content).decode()})
    return data


@loading()
def restore(estimator: Estimator, data: bytes) -> Estimator:
    """The estimator with what a file says, its network filled with the file's weights."""
    required("torch", "torch")
    from safetensors import SafetensorError

    header = Header.of(data)
    document = from_document(header.entry, MODEL, MODEL_VERSION)
    if document.get("own_network") is not False and estimator.network is None:
        raise FormatError("its network is its maker's own: give SketchGenerator(network).load_weights(path)")
    try:
        made = _filled(estimator.network, document, data, header.shapes)
        return estimator.with_model(made, document)
    except FormatError:
        raise
    except SafetensorError:
        raise FormatError("not a generator's file, or a damaged one") from None
    except (KeyError, IndexError, TypeError, ValueError, OverflowError, RuntimeError, MemoryError) as error:
        said = f"it has no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
        raise FormatError(f"not a generator that this version can use: {said}") from None


def _filled(network: Any, document: Document, data: bytes, shapes: dict[str, tuple[int, ...]]) -> Generation:
    """The model of a file; weights are read once their names and shapes are known to be right."""
    from safetensors.torch import load

    from sketchlearn.estimators.generators.networks import bare_network, check_weights

    check_model_fields(document, {*Generation.saved_fields(), "own_network"})
    if document["type"] != TYPE:
        raise ValueError(f"{shortened(document['type'])} is not a type of model that this version knows")
    d = whole("n_features", document["n_features"], most=MOST_FEATURES)
    made = Generation.from_fields(document, d)
    k, p = made.means.shape
    lifting = {name.removeprefix(LIFT): shape for name, shape in shapes.items() if name.startswith(LIFT)}
    if p != (Lift.checked_places(lifting, k, d) if lifting else d):
        raise ValueError("its means are not those of the columns that its network makes")
    own = {name: shape for name, shape in shapes.items() if not name.startswith(LIFT)}
    if network is None:
        network = bare_network(made.n_latent, k, p, own)
    else:
        network = copy.deepcopy(network)
        check_weights(network, own, "this network")
    check_cost("making its network", Cost.of_numbers(sum(map(math.prod, own.values())), operations_each=5))
    weights = load(data)
    lift = Lift.from_arrays({name: weights.pop(LIFT + name).numpy() for name in lifting}) if lifting else None
    network.load_state_dict(weights)
    if not all(bool(value.isfinite().all()) for value in weights.values()):
        raise ValueError("its weights are not all finite")
    return replace(made, shares=made.shares / made.shares.sum(), network=network.eval(), lift=lift)
