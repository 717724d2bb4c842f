"""Networks that generate rows, from a sketch."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass, replace
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils import Tags
from sklearn.utils.validation import check_is_fitted

from sketchlearn.core.containers import bytes_of
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.packages import required
from sketchlearn.core.values import shortened, whole
from sketchlearn.estimators.base.arrays import decoded_table
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document
from sketchlearn.estimators.base.state import FittedState, Glimpse, IncomingRows, SketchedTable
from sketchlearn.estimators.base.supervised import ClassSketches, LabelledEstimator
from sketchlearn.estimators.design.cells import directions_for
from sketchlearn.estimators.design.designs import design
from sketchlearn.estimators.design.frequencies import AUTO
from sketchlearn.estimators.generators.fitted import Generation, restore, to_bytes
from sketchlearn.estimators.generators.lifted_rows import Lift, seen_by_network
from sketchlearn.features.directions import MOST_DIRECTIONS
from sketchlearn.features.operator import Operator
from sketchlearn.features.waves import Wave, wave_from
from sketchlearn.inference.decoders.target import fourier_part
from sketchlearn.rows.schemas.table_schema import columns_without
from sketchlearn.sketch.sums import Sketch

EXTRA_LATENT_DIMENSIONS = 6  # With more latent numbers than columns, rows can fill all of their space.
ROWS_TO_LIFT = 20_000  # generated rows whose covariance is compared with that of the records
DOUBTFUL_SQUARED_RESIDUAL = 1e-3  # mean square residual: a test that compares a thousand rows would see it
DOUBTFUL_TIMES_NOISE = 10.0  # and so many times the sketch's own noise


@dataclass(eq=False, repr=False)
class SketchGenerator(LabelledEstimator):
    """A network that makes rows like those that were sketched, from one pass over them, or from a sketch alone.

    Random numbers go through the network, and its weights are changed until the sketch of what comes out matches the
    given one (Schellekens & Jacques 2020, "Compressive learning of generative networks"). Needs the extra `torch`.

    Parameters
    ----------
    network : a `torch.nn.Module` that maps rows of `n_latent` normal numbers, followed by an indicator of the class
        if there are labels, to rows in units of the columns' deviations; a copy of it is trained. None means a
        mixture of Gaussians decoded from the sketch, whose rows a perceptron of three hidden layers corrects.
    n_latent : normal numbers per row; by default 6 more than columns (or directions). If it is at most that of the
        columns, there is the perceptron alone.
    max_iter : steps of training at the most; it ends before if nothing but noise is left of the sketch.
    batch_size : rows made in each step, of all classes together.
    n_frequencies : size of the sketch; by default 400 and 100 per column, or per direction.
    n_directions : above 64 columns, the network makes rows in so many principal directions of a sample of the rows,
        "auto" means 16; up to 64 in all, the others are Gaussian given these, and what is left of each column is noise,
        with means and variances of all rows (see docs/wide.md). `network_`, `residual_` and `misfit_` are then those of
        the network's directions alone. None means a network of all columns; so do the numbers of a schema
        and a network of your own, unless a number is given.
    wave : as in `SketchKMeans`.
    random_state : seed of the operator, of the network and of `sample`.
    n_jobs : threads that sketch; None means all cores. Training has the threads that torch has.
    device : where rows are sketched, as in `SketchKMeans`; in directions, on the processor. Training is where torch is.
    verbose : 1 shows progress on standard error.
    schema : as in `SketchKMeans`; rows are generated in the terms of the table.

    Attributes
    ----------
    network_ : the trained network, weights averaged over the last steps.
    residual_ : root mean square difference of the sketch's values and the network's.
    misfit_ : its square in units of the sketch's noise (sampling, and that of a private release); about 1 is as good as
        the sketch can tell.
    loss_curve_ : mean square differences, every 100 steps.
    n_iter_ : steps taken.
    classes_, sketches_ : labels, and the sketch of each class, if there are labels.
    sketch_ : the sketch of all rows.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 5000)
    >>> ring = np.column_stack([np.cos(angle), np.sin(angle)]) + 0.1 * np.random.default_rng(1).normal(size=(5000, 2))
    >>> generator = skl.SketchGenerator(max_iter=1000, n_frequencies=100, batch_size=200, random_state=0).fit(ring)
    >>> rows = generator.sample(1000)
    >>> bool(np.abs(np.linalg.norm(rows, axis=1) - 1).mean() < 0.2)
    True
    """

    network: Any = None
    _: KW_ONLY
    n_latent: int | None = None
    max_iter: int = 4000
    batch_size: int = 1000
    n_frequencies: int | None = None
    wave: str | Wave = "exponential"
    n_directions: int | str | None = AUTO

    model_type = Generation
    network_ = model_attribute("network")
    residual_ = model_attribute("residual")
    misfit_ = model_attribute("misfit")
    n_iter_ = model_attribute("iterations")

    def model_bytes(self, task: str) -> bytes:  # noqa: ARG002
        """A model file: safetensors, as a network's weights are too many for JSON."""
        return to_bytes(self.fitted_model(), self.model_facts(), self.network is not None)

    @classmethod
    def from_model_bytes(cls, data: bytes) -> Self:
        """The generator whose file these bytes are."""
        return restore(cls(), data)

    def with_model(self, model: Generation, facts: Document) -> Self:
        super().with_model(model, facts)
        if "parameters" not in facts:  # files that were written before have none
            self.n_latent = model.n_latent
        return self

    def _incoming(self, X: Any, y: Any, before: SketchedTable | None, classes: Any = None) -> IncomingRows:
        if before is not None and bool(before.targets) != (y is not None):
            said = "" if before.targets else "no "
            raise ValueError(f"the rows so far have {said}labels: go on that way, or fit anew")
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
        return {"task": "generator"}

    def check_parameters(self) -> None:
        for name in ("max_iter", "batch_size"):
            whole(name, getattr(self, name))
        for name in ("n_latent", "n_frequencies"):
            if getattr(self, name) is not None:
                whole(name, getattr(self, name))
        if self.n_directions is not None and self.n_directions != AUTO:
            whole("n_directions", self.n_directions, most=MOST_DIRECTIONS)
        wave_from(self.wave)
        torch = required("torch", "torch")
        if self.network is not None and not isinstance(self.network, torch.nn.Module):
            raise TypeError(f"network must be a torch.nn.Module or None, not {shortened(self.network)}")

    def design_operator(self, glimpse: Glimpse, rng: np.random.Generator) -> Operator:
        labels = glimpse.targets
        rows, columns = np.delete(glimpse.rows, labels, axis=1), columns_without(glimpse.columns, labels)
        own = self.network is not None and self.n_directions == AUTO  # such a network makes all columns
        operator = design(
            rows,
            task="generator",
            representative=glimpse.representative,
            n_frequencies=self.n_frequencies,
            wave=self.wave,
            seed=int(rng.integers(2**31)),
            n_directions=None if own else directions_for(columns, self.n_directions, in_cells=False),
        )
        return operator.with_columns(columns)

    def _learned(self, state: FittedState, rng: np.random.Generator) -> Any:
        return self.learn_from_state(state, rng)  # torch's own threads, as many as its user chose

    def learn_from_state(self, state: FittedState, rng: np.random.Generator) -> Generation:
        required("torch", "torch")
        from sketchlearn.estimators.generators.network_matching import first_network, match

        labels, sketches = _parts(state)
        seen = [seen_by_network(sketch) for sketch in sketches]
        d = fourier_part(seen[0])[1].n_features
        n_latent = self.n_latent or d + EXTRA_LATENT_DIMENSIONS
        network = first_network(seen, n_latent, rng, self._say) if self.network is None else self.network
        counts = np.array([float(part.count) for part in sketches])
        found = match(
            seen,
            labels,
            counts / counts.sum(),
            network,
            n_latent,
            batch=self.batch_size,
            steps=self.max_iter,
            rng=rng,
            say=self._say,
        )
        if found.residual**2 > DOUBTFUL_SQUARED_RESIDUAL and found.misfit > DOUBTFUL_TIMES_NOISE:
            warn_caller(
                f"a test that compares about {1 / found.residual**2:.0f} generated rows with the data would find a "
                f"difference (residual {in_digits(found.residual, 3)}, {in_digits(found.misfit, 3)} times the noise "
                "squared): try a larger max_iter or network",
                ConvergenceWarning,
            )
        lift = Lift.of(sketches, lambda which: found.rows(which, ROWS_TO_LIFT, rng))
        return replace(found, lift=lift)

    def sample(self, n_samples: int = 1, y: Any = None) -> Any:
        """Random rows; with a schema in the terms of the table, as a data frame, or an Arrow table without pandas.

        Parameters
        ----------
        n_samples : how many.
        y : the label that all rows shall have, or one label per row; by default labels are drawn as often as they came.
        """
        n, rng, fitted = whole("n_samples", n_samples), self._generator(), self.fitted_model()
        which = _which(fitted, n, y, rng)
        rows = np.empty((n, self.n_features_in_))
        for place in np.unique(which):
            chosen = which == place
            rows[chosen] = fitted.rows(int(place), int(np.sum(chosen)), rng)
        return decoded_table(rows, self.columns_)

    def load_weights(self, path: str | os.PathLike[str]) -> Self:
        """Takes over what `save_model` wrote, for a `network` of the same kind: that is not in the file."""
        self.check_parameters()
        return restore(self, bytes_of(path))

    @property
    def loss_curve_(self) -> list[float]:
        return self.fitted_model().curve.tolist()

    def _labelled(self) -> bool:
        """Whether rows came with labels."""
        check_is_fitted(self, "n_features_in_")
        state = self._state
        assert state is not None
        return bool(state.table.targets) if state.has_rows else state.model.labels is not None

    @property
    def classes_(self) -> NDArray[Any]:
        if not self._labelled():
            raise AttributeError("the rows were fitted without labels: there are no classes_")
        return super().classes_

    @property
    def sketches_(self) -> dict[Any, Sketch]:
        if not self._labelled():
            raise AttributeError("the rows were fitted without labels: there is one sketch_")
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
    labels = tuple(sorted(parts))
    return labels, [parts[label] for label in labels]


def _which(fitted: Generation, n: int, y: Any, rng: np.random.Generator) -> NDArray[np.int64]:
    """The class of each row, as its position among those of the network."""
    if y is None:
        return rng.choice(len(fitted.shares), size=n, p=fitted.shares)
    if fitted.labels is None:
        raise ValueError("the rows were fitted without labels: sample them without y")
    known = {label: i for i, label in enumerate(fitted.labels)}
    wanted = np.broadcast_to(np.asarray(y), (n,)).tolist()
    for label in wanted:
        if label not in known:
            raise ValueError(f"there are no rows with the label {shortened(label)}")
    return np.array([known[label] for label in wanted])
