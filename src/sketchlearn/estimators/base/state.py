"""What an estimator knows beside its parameters: which table was sketched, its sketch, and what was learned."""

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
from sketchlearn.rows.weights import WEIGHT_BITS, weighted
from sketchlearn.sketch.ledger import ASSUMED, Ledger
from sketchlearn.sketch.sums import Sketch


@dataclass(frozen=True)
class Glimpse:
    """What is known of rows before they are sketched.

    Attributes
    ----------
    rows : some of them: 5000, or as many as a pilot needs.
    representative : whether they come from all over, and not from the beginning of a stream.
    columns : names of the columns, if they have names.
    everything : all rows, where another pass over them is cheap because they are in memory.
    targets : positions of the columns that are targets.
    n_rows : how many rows there are, where that is known and each counts once.
    at_hand : whether further passes are cheap: rows are in memory, or on a GPU.
    """

    rows: NDArray[Any]
    representative: bool
    columns: tuple[str, ...] | None
    everything: Source | None = None
    targets: tuple[int, ...] = ()
    n_rows: int | None = None
    at_hand: bool = False


def kept_rows(sketch: Sketch) -> RowSample | None:
    """The rows that a sketch keeps, if it does; rows too far for a phase, which sums can bear, are refused."""
    operator: Any = sketch.operator
    kept = sketch.kept
    if kept is None or len(kept) == 0:
        return None
    for waves in (part for part in operator.side_by_side if isinstance(part, FourierFeatures)):
        for row in kept.rows[waves.beyond(kept.rows)]:
            raise ValueError(f"of a row that is kept, {waves.with_names(waves.explain_refusal(row))}")
    copies = kept.units / 2.0**WEIGHT_BITS
    rows = WeightedRows(kept.rows, kept.weights(float(sketch.count)), copies, kept.openness)
    return RowSample(rows, error_units(sketch.operator), kept.complete, kept.chances_of)


def check_public_rows(ledger: Ledger | None, assume_public_sample: bool) -> None:
    """Refuses rows beside a private release, unless the caller says that they are public."""
    if not truth("assume_public_sample", assume_public_sample) and ledger is not None:
        raise InvalidValueError(
            "rows beside a private release are not protected by its noise, and what is learned from both tells about "
            "them",
            f"leave them out or, if these rows are public, give {Parameter('assume_public_sample', True)}",
        )


def given_rows(sketch: Sketch, sample: Any, assume_public_sample: bool) -> RowSample:
    """Rows that were given to learn from beside a sketch; those beside a private release must be public."""
    check_public_rows(sketch.ledger, assume_public_sample)
    operator: Any = sketch.operator
    rows = source(sample)
    rows = rows if operator.columns is None else rows.only(operator.columns, any_order=True)
    blocks = [block.rows.astype(np.float64) for block in rows.blocks(operator.n_features)]
    if not blocks or not sum(map(len, blocks)):
        raise ValueError("the sample has no rows: give some, or leave it out")
    given = np.concatenate(blocks)
    if not np.all(np.isfinite(given)):
        raise ValueError("the sample has missing or infinite values: fill or drop them first")
    return RowSample(WeightedRows.of(given), error_units(operator))


def error_units(operator: Any) -> Double:
    """The units in which squared errors of the columns count."""
    return np.ones(operator.n_features) if operator.error_units is None else np.array(operator.error_units)


@dataclass(frozen=True)
class SketchedTable:
    """The columns that are sketched, targets included.

    Attributes
    ----------
    columns : their names, if they have names.
    width : how many there are; None while no row of a stream was read.
    targets : positions of those that are targets.
    flat : whether there is one target, given without a second dimension.
    labels : of targets that are classes, the label of each code 0, 1, ...; None where codes are the labels.
    declared : classes that were named beforehand.
    """

    columns: tuple[str, ...] | None
    width: int | None
    targets: tuple[int, ...] = ()
    flat: bool = True
    labels: tuple[Any, ...] | None = None
    declared: tuple[Any, ...] = ()

    @property
    def feature_names(self) -> tuple[str, ...] | None:
        """Names of the columns that are not targets."""
        return columns_without(self.columns, self.targets)

    @property
    def n_features(self) -> int:
        """Number of the columns that are not targets."""
        return (self.width or 0) - len(self.targets)

    def label_of(self, code: float) -> Any:
        """The label that a code stands for."""
        return code if self.labels is None else self.labels[int(code)]


@dataclass(frozen=True)
class IncomingRows:
    """Rows on their way into a sketch.

    Attributes
    ----------
    rows : all of them, targets included.
    table : what their columns are.
    in_memory : whether another pass over them is cheap.
    array : the rows as one array or sparse matrix without targets, where they came so.
    frame : a Dask collection or Spark data frame, which stays where it is; there are no `rows` then.
    """

    rows: Any  # a Source
    table: SketchedTable
    in_memory: bool = False
    array: Any = None
    frame: Any = None

    @property
    def at_hand(self) -> bool:
        """Whether another pass is cheap: they are in memory, or on a GPU."""
        return self.in_memory or (self.frame is None and gpu_rows(self.rows) is not None)

    @property
    def replayable(self) -> bool:
        """Whether they can be read again."""
        return self.frame is not None or self.in_memory or bool(self.rows.replayable)

    def counted(self, sample_weight: Any) -> IncomingRows:
        """The same rows, each counted as often as its weight says."""
        return replace(self, rows=weighted(self.rows, sample_weight))


class FirstRows(NamedTuple):
    """Some of the first rows of a stream, and their weights, if they came with some."""

    rows: NDArray[Any]
    weights: NDArray[Any] | None = None

    @property
    def n_records(self) -> int:
        """How many rows they count as; if any weight is a fraction, how many they are."""
        if self.weights is None or np.any(self.weights != np.rint(self.weights)):
            return len(self.rows)
        return int(np.sum(self.weights))

    @staticmethod
    def together(several: tuple[FirstRows, ...]) -> Source:
        """All of them, as one source."""
        rows = source(np.concatenate([part.rows for part in several]))
        if all(part.weights is None for part in several):
            return rows
        each = (np.ones(len(part.rows), np.int64) if part.weights is None else part.weights for part in several)
        return weighted(rows, np.concatenate(list(each)))


@dataclass(frozen=True)
class FittedState:
    """What is known after rows were seen. `fit` replaces it as a whole, so that an error leaves the one before.

    All that a model is learned from is in it, but for the estimator's parameters, which are the caller's own. So it
    tells whether the model is private (`ledger`), and cannot be made of a release and rows that are not public.

    Attributes
    ----------
    table : the columns that were sketched.
    sketch : of all rows so far, or one per class; None while none is needed, and in a model that was loaded.
    given_rows : some rows that came with a sketch, until the model is learned.
    public_sample : whether the caller said that those rows are public.
    first_rows : of a stream, kept until there are enough to design the operator on.
    design_notes : what designing the operator found that learning needs.
    model : what was learned; None after rows were added.
    row_labels : the cluster of each row of an array given to `fit`.
    error_bars, row_mean : how sure the model is, once that was asked for.
    privacy, n_records : of a loaded model: the ledger of what it was learned from, and how many records that had.
    """

    table: SketchedTable
    sketch: Any = None
    first_rows: tuple[FirstRows, ...] = ()
    given_rows: Any = None
    public_sample: bool = False
    design_notes: Any = None
    model: Any = None
    row_labels: NDArray[Any] | None = None
    error_bars: ErrorBars | None = None
    row_mean: RowMean | None = None
    privacy: Ledger | None = None
    n_records: int | float = 0

    def __post_init__(self) -> None:
        if self.first_rows or self.row_labels is not None:
            check_public_rows(self.ledger, False)
        elif self.given_rows is not None:
            check_public_rows(self.ledger, self.public_sample)

    @property
    def ledger(self) -> Ledger | None:
        """What all that the model is learned from has spent, if it is private; learning adds nothing to it."""
        ledger: Ledger | None = self.privacy if self.sketch is None else self.sketch.ledger
        return replace(ledger, sample=ASSUMED) if ledger is not None and self.public_sample else ledger

    @property
    def has_rows(self) -> bool:
        """Whether rows can be added: a model that was loaded has none."""
        return self.sketch is not None or bool(self.first_rows)

    def check_takes_rows(self) -> None:
        """Refuses rows to add where the model was learned from a release."""
        if self.ledger is not None:
            raise ValueError(
                "a model of a private release cannot take in records: do that with the exact sketch, then release it "
                "and learn from the release"
            )

    def with_certainty(self, facts: dict[str, Any]) -> FittedState:
        """The same, with what a model file says of how sure the model is, if it does."""
        bars = ErrorBars.from_json(facts["error_bars"]) if "error_bars" in facts else None
        return replace(
            self, error_bars=bars, row_mean=RowMean.from_json(facts["row_mean"]) if "row_mean" in facts else None
        )


def why_no_sketch(state: FittedState | None) -> str:
    """Why an estimator has no sketch, and what to do about it."""
    if state is None or state.model is None:
        return "has no sketch yet: fit it first"
    return "was loaded, and files of models hold no sketch: give the sketch that it was learned from"
