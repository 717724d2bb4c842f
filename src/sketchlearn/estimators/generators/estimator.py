"""Networks that generate rows, from a sketch; and their files of safetensors."""

from __future__ import annotations

import copy
import math
import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sketchlearn.core.arrays import Double
from sketchlearn.core.containers import (
    ENTRY,
    MODEL,
    MODEL_VERSION,
    Header,
    bytes_of,
    check_model_fields,
    from_document,
    to_document,
)
from sketchlearn.core.errors import Parameter, either
from sketchlearn.core.limits import Cost, FormatError, check_cost, loading
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.packages import required
from sketchlearn.core.values import shortened, whole
from sketchlearn.estimators.base.arrays import decoded_table
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document, FittedModel, Known, integer, model_array, saved, scalar
from sketchlearn.estimators.base.state import DesignSample, FittedState, IncomingRows, SketchedTable
from sketchlearn.estimators.base.supervised import ClassSketches, LabelledEstimator, check_labels, plain_labels
from sketchlearn.estimators.design.cells import directions_for
from sketchlearn.estimators.design.designs import design
from sketchlearn.estimators.generators.operators import Lift, seen_by_network
from sketchlearn.features.families import AUTO, Fourier, checked, former_parameters
from sketchlearn.features.operator import MOST_FEATURES, Operator
from sketchlearn.inference.decoders.target import fourier_part
from sketchlearn.rows.schemas.table_schema import columns_without
from sketchlearn.sketch.sums import Sketch

MOST_CLASSES = 2**16
MOST_STEPS = 2**63 - 1
TYPE = "generator"
LIFT = "lift:"  # precedes the names of arrays that are not weights of the network


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

        lift = {} if self.lift is None else vars(self.lift)
        weights = {name: value.detach().contiguous() for name, value in self.network.state_dict().items()}
        return weights | {LIFT + name: from_numpy(np.ascontiguousarray(value)) for name, value in lift.items()}

    def rows(self, which: int, n_rows: int, rng: np.random.Generator) -> Double:
        """Random rows of a class."""
        import torch

        from sketchlearn.estimators.generators.networks import made_rows

        noise = torch.Generator().manual_seed(int(rng.integers(2**63)))
        place = self.means[which], self.deviations[which]
        made = made_rows(self.network, place, (self.n_latent, which, len(self.means)), n_rows, noise)
        return made if self.lift is None else self.lift.rows(which, made, rng)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Generation) or not super().__eq__(other):
            return False
        own, others = self.tensors(), other.tensors()
        return own.keys() == others.keys() and all(own[key].equal(others[key]) for key in own)

    __hash__ = None


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
        raise ValueError("its means and the columns that its network generates differ in number")
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


EXTRA_LATENT_DIMENSIONS = 6  # With more latent numbers than columns, rows can fill all of their space.
ROWS_TO_LIFT = 20_000  # generated rows whose covariance is compared with that of the records
DOUBTFUL_SQUARED_RESIDUAL = 1e-3  # mean square residual: a test that compares a thousand rows would see it
DOUBTFUL_TIMES_NOISE = 10.0  # and so many times the sketch's own noise


@former_parameters
@dataclass(eq=False, repr=False)
class SketchGenerator(LabelledEstimator):
    """A generative network of the sketched rows, from one pass over them, or from a sketch alone.

    The network maps random numbers to rows. It is trained until the sketch of its rows matches the given one
    (Schellekens & Jacques 2020, "Compressive learning of generative networks"). Needs the extra `torch`.

    Parameters
    ----------
    network : a `torch.nn.Module` that maps rows of `n_latent` normal numbers, followed by an indicator of the class
        if there are labels, to rows in units of the columns' standard deviations; a copy of it is trained. None means a
        mixture of Gaussians decoded from the sketch, with a perceptron of three hidden layers that corrects its rows.
    n_latent : normal numbers per row; by default 6 more than columns (or directions). If it is at most the number of
        columns, the network is the perceptron alone.
    max_iter : largest number of training steps; training ends earlier once the residual is that of noise.
    batch_size : rows generated in each step, of all classes together.
    features : `skl.features.Fourier`. By default the sketch has 400 frequencies and 100 per column, or per direction.
        Its `n_directions`: above 64 columns, the network generates coordinates in this many principal directions of a
        sample; "auto" means 16. Coordinates in further directions, up to 64 in all, are Gaussian given these, and the
        rest of each column is noise, with the means and variances of all rows. `network_`, `residual_` and `misfit_`
        are then those of the network's directions alone. None means a network of all columns; so do a schema and a
        network of your own, unless a number is given.
    random_state : seed of the operator, of the network and of `sample`.
    n_jobs, device, verbose, schema : as in `SketchKMeans`. In directions, rows are sketched on the processor. Training
        uses torch's threads and device. Generated rows have the columns of the table.

    Attributes
    ----------
    network_ : the trained network, weights averaged over the last steps.
    residual_ : root mean square difference of the sketch's values and the network's.
    misfit_ : its square in units of the sketch's noise (sampling, and that of a private release), at best about 1.
    loss_curve_ : mean square differences, every 100 steps.
    n_iter_ : number of training steps.
    classes_, sketches_ : labels, and the sketch of each class, if there are labels.
    sketch_ : the sketch of all rows.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 5000)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * np.random.default_rng(1).normal(size=(5000, 2))
    >>> generator = skl.SketchGenerator(max_iter=1000, batch_size=200, random_state=0)
    >>> generator = generator.set_params(features=skl.features.Fourier(100)).fit(ring)
    >>> rows = generator.sample(1000)
    >>> bool(np.abs(np.linalg.norm(rows, axis=1) - 1).mean() < 0.2)
    True
    """

    network: Any = None
    _: KW_ONLY
    n_latent: int | None = None
    max_iter: int = 4000
    batch_size: int = 1000
    features: Fourier | None = None

    design_task = "generator"
    model_type = Generation
    network_ = model_attribute("network")
    residual_ = model_attribute("residual")
    misfit_ = model_attribute("misfit")
    n_iter_ = model_attribute("iterations")

    def model_bytes(self, task: str) -> bytes:  # noqa: ARG002
        """A model file: safetensors, as a network's weights are too many for JSON."""
        from safetensors.torch import save

        own, fitted = {"type": TYPE, "own_network": self.network is not None}, self.fitted_model()
        content = self.model_facts() | fitted.to_fields() | own
        data: bytes = save(fitted.tensors(), metadata={ENTRY: to_document(MODEL, MODEL_VERSION, content).decode()})
        return data

    @classmethod
    def from_model_bytes(cls, data: bytes) -> Self:
        """The generator in a file."""
        return cls()._restored(data)

    @loading()
    def _restored(self, data: bytes) -> Self:
        """The estimator with what a file says, its network filled with the file's weights."""
        required("torch", "torch")
        from safetensors import SafetensorError

        header = Header.of(data)
        document = from_document(header.entry, MODEL, MODEL_VERSION)
        if document.get("own_network") is not False and self.network is None:
            remedy = either("give SketchGenerator(network).load_weights(path)", "use it in Python")
            raise FormatError("its network is a custom one, which the file does not hold", remedy)
        try:
            return self.with_model(_filled(self.network, document, data, header.shapes), document)
        except FormatError:
            raise
        except SafetensorError:
            raise FormatError("not a generator's file, or a damaged one") from None
        except (KeyError, IndexError, TypeError, ValueError, OverflowError, RuntimeError, MemoryError) as error:
            said = f"it has no {error}" if isinstance(error, KeyError) else str(error).splitlines()[0]
            raise FormatError(f"not a generator that this version can use: {said}") from None

    def with_model(self, model: Generation, facts: Document) -> Self:
        super().with_model(model, facts)
        if "parameters" not in facts:  # files that were written before have none
            self.n_latent = model.n_latent
        return self

    def _incoming(self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None) -> IncomingRows:
        if before is not None and bool(before.targets) != (y is not None):
            said, remedy = ("", "give y") if before.targets else ("no ", "leave out y")
            raise ValueError(f"the earlier rows have {said}labels: {remedy}, or start again with fit")
        return self._plain_rows(X, before) if y is None else super()._incoming(X, y, before, classes)

    def _check_engine(self, y: Any) -> None:
        if y is not None:
            super()._check_engine(y)

    def _with_targets(self, table: SketchedTable, y: Any) -> SketchedTable:
        return table if y is None else super()._with_targets(table, y)

    def fit_sketch(self, sketch: Sketch | Mapping[Any, Sketch], *, classes: Any = None) -> Self:
        """Learns from a sketch alone or, to generate rows by class, from a dictionary of labels and sketches.

        Private sketches of classes are taken to be of disjoint records: the largest epsilon holds for all.
        """
        state = self._state_of_classes(sketch, classes) if isinstance(sketch, Mapping) else self._state_of(sketch)
        return self._learn(state, self._generator())

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return {"task": "generator", "features": self.features}

    def check_parameters(self) -> None:
        for name in ("max_iter", "batch_size"):
            whole(name, getattr(self, name))
        if self.n_latent is not None:
            whole("n_latent", self.n_latent)
        checked(self.features, (Fourier,), "generators", in_directions=True)
        torch = required("torch", "torch")
        if self.network is not None and not isinstance(self.network, torch.nn.Module):
            raise TypeError(f"network must be a torch.nn.Module or None, not {shortened(self.network)}")

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> Operator:
        labels, features = design_sample.targets, self.features or Fourier()
        rows, columns = np.delete(design_sample.rows, labels, axis=1), columns_without(design_sample.columns, labels)
        directions = directions_for(columns, features.n_directions)
        if self.network is not None and directions == AUTO:
            directions = None  # such a network makes all columns
        features, seed = replace(features, n_directions=directions), int(rng.integers(2**31))
        all_over = design_sample.representative
        operator = design(rows, task="generator", representative=all_over, features=features, seed=seed)
        return operator.with_columns(columns)

    def _learned(self, state: FittedState, rng: np.random.Generator) -> Any:
        return self.learn_from_state(state, rng)  # torch's own threads, as many as its user chose

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> Generation:
        required("torch", "torch")
        from sketchlearn.estimators.generators.networks import first_network, match

        labels, sketches = _parts(state)
        seen = [seen_by_network(sketch) for sketch in sketches]
        d = fourier_part(seen[0])[1].n_features
        n_latent = self.n_latent or d + EXTRA_LATENT_DIMENSIONS
        network = first_network(seen, n_latent, rng, self._say) if self.network is None else self.network
        counts = np.array([float(part.count) for part in sketches])
        training: dict[str, Any] = {"batch": self.batch_size, "steps": self.max_iter, "rng": rng, "say": self._say}
        found = match(seen, labels, counts / counts.sum(), network, n_latent, **training)
        if found.residual**2 > DOUBTFUL_SQUARED_RESIDUAL and found.misfit > DOUBTFUL_TIMES_NOISE:
            warn_caller(
                f"about {1 / found.residual**2:.0f} rows suffice to distinguish generated rows from data (residual "
                f"{in_digits(found.residual, 3)}; its square is {in_digits(found.misfit, 3)} times that of noise): try "
                f"a larger {Parameter('max_iter')} or network",
                ConvergenceWarning,
            )
        return replace(found, lift=Lift.of(sketches, lambda which: found.rows(which, ROWS_TO_LIFT, rng)))

    def sample(self, n_samples: int = 1, y: Any = None) -> Any:
        """Random rows; with a schema, a data frame with the columns of the table, or an Arrow table without pandas.

        Parameters
        ----------
        n_samples : number of rows.
        y : the label of all rows, or one label per row; by default labels have the proportions of the data.
        """
        n, rng, fitted = whole("n_samples", n_samples), self._generator(), self.fitted_model()
        which = _which(fitted, n, y, rng)
        rows = np.empty((n, self.n_features_in_))
        for place in np.unique(which):
            chosen = which == place
            rows[chosen] = fitted.rows(int(place), int(np.sum(chosen)), rng)
        return decoded_table(rows, self.columns_)

    def load_weights(self, path: str | os.PathLike[str]) -> Self:
        """Reads a file of `skl.save` into a `network` of the same kind: the architecture is not in the file."""
        self.check_parameters()
        return self._restored(bytes_of(path))

    @property
    def loss_curve_(self) -> list[float]:
        return self.fitted_model().curve.tolist()

    def _check_labelled(self, instead: str) -> None:
        """Refuses attributes of classes where rows came without labels."""
        check_is_fitted(self, "n_features_in_")
        state = self._state
        assert state is not None
        if not (state.table.targets if state.has_rows else state.model.labels is not None):
            raise AttributeError(f"the rows were fitted without labels: {instead}")

    @property
    def classes_(self) -> NDArray[Any]:
        self._check_labelled("there are no classes_")
        return super().classes_

    @property
    def sketches_(self) -> dict[Any, Sketch]:
        self._check_labelled("there is one sketch_")
        return super().sketches_

    def __sklearn_tags__(self) -> Tags:
        tags = super().__sklearn_tags__()
        tags.target_tags.required = False
        return tags


def _parts(state: FittedState) -> tuple[tuple[Any, ...] | None, list[Sketch]]:
    """Labels and sketches of the classes that have rows."""
    if not isinstance(state.sketch, ClassSketches):
        return None, [state.sketch]
    parts = {state.table.label_of(code): part for code, part in state.sketch.sketches.items() if part.units}
    if not parts:
        raise ValueError("the sketches are empty: add records before learning from them")
    return tuple(sorted(parts)), [parts[label] for label in sorted(parts)]


def _which(fitted: Generation, n: int, y: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    """The class of each row, as its position among those of the network."""
    if y is None:
        return rng.choice(len(fitted.shares), size=n, p=fitted.shares)
    if fitted.labels is None:
        raise ValueError("the rows were fitted without labels: sample them without y")
    known = {label: i for i, label in enumerate(fitted.labels)}
    wanted = np.broadcast_to(np.asarray(y), (n,)).tolist()
    if unknown := [label for label in wanted if label not in known]:
        raise ValueError(f"there are no rows with the label {shortened(unknown[0])}")
    return np.array([known[label] for label in wanted])
