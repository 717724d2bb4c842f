"""The fitted state of an estimator: the sketched table, its sketch, and the model."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.values import truth
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.errors.values import ErrorBars, RowMean
from sketchlearn.inference.weighted_clusters import RowSample
from sketchlearn.rows.schemas.table_schema import columns_without
from sketchlearn.rows.source import gpu_rows, source
from sketchlearn.rows.source_base import Source
from sketchlearn.rows.weights import WEIGHT_BITS, relative_weights, weighted
from sketchlearn.sketch.ledger import ASSUMED, Ledger
from sketchlearn.sketch.sums import Sketch


@dataclass(frozen=True)
class DesignSample:
    """The design sample: rows from which an operator is designed before all rows are sketched.

    Attributes
    ----------
    rows : the sample: 5000 rows, or as many as a pilot needs.
    representative : whether they are a random sample of all rows, and not the first rows of a stream.
    columns : names of the columns, if they have names.
    everything : all rows, if they are in memory, so that another pass is cheap.
    targets : positions of the targets among the columns.
    n_rows : the number of all rows, if it is known and the rows have no weights.
    at_hand : whether further passes are cheap: rows are in memory, or on a GPU.
    shared : whether the operator is for sketches of other rows, of which more may be asked than this estimator's model.
    """

    rows: NDArray[Any]
    representative: bool
    columns: tuple[str, ...] | None
    everything: Source | None = None
    targets: tuple[int, ...] = ()
    n_rows: int | None = None
    at_hand: bool = False
    shared: bool = False

    @property
    def complete(self) -> bool:
        """Whether the sample is all rows, each as often as its weight says."""
        rows = self.everything
        return rows is not None and rows.n_records == len(self.rows) and not getattr(rows, "bits", 0)


def kept_rows(sketch: Sketch) -> RowSample | None:
    """The sample of rows in a sketch, if there is one; rows beyond the range of the operator's phases are refused."""
    operator: Any = sketch.operator
    kept = sketch.kept
    if kept is None or len(kept) == 0:
        return None
    for waves in (part for part in operator.side_by_side if isinstance(part, FourierFeatures)):
        if len(beyond := kept.rows[waves.beyond(kept.rows)]):
            raise ValueError(f"in a sampled row, {waves.with_names(waves.explain_refusal(beyond[0]))}")
    copies = kept.units / 2.0**WEIGHT_BITS
    rows = WeightedRows(kept.rows, kept.weights(float(sketch.count)), copies, kept.calibration_slack)
    return RowSample(rows, error_units(sketch.operator), kept.complete, kept.chances_of)


def check_public_rows(ledger: Ledger | None, assume_public_sample: bool) -> None:
    """Refuses rows beside a private release, unless the caller declares them public."""
    if not truth("assume_public_sample", assume_public_sample) and ledger is not None:
        raise InvalidValueError(
            "rows beside a private release are not protected by its noise, and a model of both would reveal them",
            f"leave them out or, if these rows are public, give {Parameter('assume_public_sample', True)}",
        )


def given_rows(sketch: Sketch, sample: Any, assume_public_sample: bool) -> RowSample:
    """A given sample of rows beside a sketch; beside a private release, it must be public."""
    check_public_rows(sketch.ledger, assume_public_sample)
    operator: Any = sketch.operator
    rows = source(sample)
    rows = rows if operator.columns is None else rows.only(operator.columns)
    blocks = (block.rows.astype(np.float64) for block in rows.blocks(operator.n_features))
    given = np.concatenate([np.empty((0, operator.n_features)), *blocks])
    if not len(given):
        raise ValueError("the sample has no rows: give some, or leave it out")
    if not np.all(np.isfinite(given)):
        raise ValueError("the sample has missing or infinite values: fill or drop them first")
    return RowSample(WeightedRows.of(given), error_units(operator))


def error_units(operator: Any) -> Double:
    """The units of the columns in which squared errors are added."""
    return np.ones(operator.n_features) if operator.error_units is None else np.array(operator.error_units)


@dataclass(frozen=True)
class SketchedTable:
    """The sketched columns, with the targets."""

    columns: tuple[str, ...] | None  # names
    width: int | None  # None while no row of a stream was read
    targets: tuple[int, ...] = ()  # positions
    flat: bool = True  # one target, given without a second dimension
    labels: tuple[Any, ...] | None = None  # of classes, by code; None if codes are the labels
    declared: tuple[Any, ...] = ()  # classes that the caller declared

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        return columns_without(self.columns, self.targets)

    @property
    def n_features(self) -> int:
        return (self.width or 0) - len(self.targets)

    def label_of(self, code: float) -> Any:
        return code if self.labels is None else self.labels[int(code)]


@dataclass(frozen=True)
class IncomingRows:
    """Rows to sketch."""

    rows: Any  # a Source of all rows, with the targets
    table: SketchedTable
    in_memory: bool = False
    array: Any = None  # the rows without targets, if they came as an array or sparse matrix
    frame: Any = None  # a Dask collection or Spark data frame instead of `rows`
    weight_scale: float = 1.0  # what a weight of 1 stands for

    @property
    def at_hand(self) -> bool:
        """Whether further passes are cheap: rows are in memory, or on a GPU."""
        return self.in_memory or (self.frame is None and gpu_rows(self.rows) is not None)

    @property
    def replayable(self) -> bool:
        return self.frame is not None or self.in_memory or bool(self.rows.replayable)

    def counted(self, sample_weight: Any, *, relative: bool = False) -> IncomingRows:
        """The same rows, with weights; of relative ones, the scale does not matter."""
        if sample_weight is None:
            return self
        scale, n_rows = 1.0, self.rows.n_rows
        if relative and n_rows is not None:
            sample_weight, scale = relative_weights(sample_weight, n_rows)
        return replace(self, rows=weighted(self.rows, sample_weight), weight_scale=scale)


class FirstRows(NamedTuple):
    """Some of the first rows of a stream, and their weights, if they have some."""

    rows: NDArray[Any]
    weights: NDArray[Any] | None = None

    @property
    def n_records(self) -> int:
        """The sum of their weights; the number of rows if any weight is a fraction."""
        if self.weights is None or np.any(self.weights != np.rint(self.weights)):
            return len(self.rows)
        return int(np.sum(self.weights))


@dataclass(frozen=True)
class FittedState:
    """All that an estimator has learned. `fit` replaces it as a whole, so that an error leaves the previous one.

    A model depends on this state and on the estimator's parameters, which are the caller's own. So the state determines
    the ledger of the model, and refuses rows that are not public beside a private release.

    """

    table: SketchedTable
    sketch: Any = None  # of all rows so far, or one per class; None until it is needed, and in a loaded model
    first_rows: tuple[FirstRows, ...] = ()  # of a stream, until there are enough to design the operator
    given_rows: Any = None  # a sample that was given with a sketch, until the model is learned
    public_sample: bool = False  # whether the caller declared that sample public
    design_notes: Any = None  # further results of the design that learning needs
    model: Any = None  # None after rows were added
    row_labels: NDArray[Any] | None = None  # of an array given to `fit`
    row_type: Any = np.float64  # that of its numbers, which centers and distances have, too
    error_bars: ErrorBars | None = None  # None until requested, as the mean over the rows
    row_mean: RowMean | None = None
    privacy: Ledger | None = None  # of a loaded model, as the number of records
    n_records: int | float = 0
    weight_scale: float = 1.0  # what a weight of 1 in the sketch stands for

    def __post_init__(self) -> None:
        if self.first_rows or self.row_labels is not None:
            check_public_rows(self.ledger, False)
        elif self.given_rows is not None:
            check_public_rows(self.ledger, self.public_sample)

    @property
    def ledger(self) -> Ledger | None:
        """The privacy budget spent on the data of the model, if it is private; learning spends nothing."""
        ledger: Ledger | None = self.privacy if self.sketch is None else self.sketch.ledger
        return replace(ledger, sample=ASSUMED) if ledger is not None and self.public_sample else ledger

    @property
    def has_rows(self) -> bool:
        """Whether there is a sketch, or first rows: a loaded model has none."""
        return self.sketch is not None or bool(self.first_rows)
