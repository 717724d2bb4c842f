"""What other people's packages bring: a task, an operator and a reader of files, without a change to sketchlearn."""

from __future__ import annotations

from dataclasses import KW_ONLY, dataclass
from typing import Any

import numpy as np

import sketchlearn as skl

# A task: medians of the columns, from histograms


@dataclass(frozen=True, eq=False)
class Medians(skl.extend.FittedModel):
    """The median of each column."""

    medians: np.ndarray = skl.extend.model_array("d")


@dataclass(eq=False, repr=False)
class ColumnMedians(skl.extend.SketchEstimator):
    """Medians of the columns, to within a bin of a histogram; rows are told by whether they lie above."""

    bins: int = 64
    _: KW_ONLY
    bounds: Any = None

    model_type = Medians

    def design_operator(self, design_sample: skl.extend.DesignSample, rng: np.random.Generator) -> skl.extend.Operator:  # noqa: ARG002
        d, declared = design_sample.rows.shape[1], self.bounds is not None
        low, high = self.bounds if declared else (design_sample.rows.min(axis=0), design_sample.rows.max(axis=0))
        low, high = np.broadcast_to(low, d).astype(float), np.broadcast_to(high, d).astype(float)
        wide = np.where(high > low, high, low + np.maximum(1.0, np.abs(low)))
        operator = skl.features.Histograms.even(low, wide, self.bins, columns=design_sample.columns)
        return operator if declared else operator.with_origin("sample")

    def learn_from_sketch(self, sketch: skl.Sketch, rng: np.random.Generator) -> Medians:  # noqa: ARG002
        histograms = sketch.operator.part(skl.features.Histograms)
        if histograms is None:
            raise ValueError(
                "medians are learned from histograms: make the operator with design(task='column-medians')"
            )
        shares = histograms.split_columns(sketch.mean)
        return Medians(np.array([self._median(np.array(e), s) for e, s in zip(histograms.edges, shares, strict=True)]))

    @staticmethod
    def _median(edges: np.ndarray, shares: np.ndarray) -> float:
        bounds = np.concatenate([edges[:1], edges])  # what lies below the first edge is taken to lie on it
        total = np.cumsum(shares)
        place = int(np.searchsorted(total, 0.5))
        return float(bounds[min(place + 1, len(bounds) - 1)])

    @property
    def medians_(self) -> np.ndarray:
        return self.fitted_model().medians

    def predict(self, X: Any) -> np.ndarray:
        """How many columns of each row lie above their median."""
        return np.concatenate([np.sum(rows > self.medians_, axis=1) for rows in self.row_blocks(X)])


TASK = skl.extend.Task("column-medians", "medians of the columns", "ColumnMedians", __name__)

# An operator: how many values of each column are positive


@dataclass(frozen=True)
class PositiveCounts(skl.extend.Operator):
    """Phi(x) = (x_j > 0 for each column)."""

    data_dependent_errors = False  # every finite row is taken
    n_features: int
    _: KW_ONLY
    columns: tuple[str, ...] | None = None

    @property
    def in_words(self) -> str:
        return f"numbers of positive values of {self.n_features} columns"

    @property
    def n_sums(self) -> int:
        return self.n_features

    @property
    def largest_contribution(self) -> int:
        return 1

    def add_rows(self, rows: Any, weights: Any, threads: int, sums: Any) -> int:
        integers, bad = self.write_rows(rows, threads)
        if bad < 0:
            sums += integers.sum(axis=0) if weights is None else weights @ integers.astype(np.int64)
        return bad

    def write_rows(self, rows: Any, threads: int) -> tuple[Any, int]:  # noqa: ARG002
        odd = ~np.isfinite(rows).all(axis=1)
        return (rows > 0).astype(np.int8), int(np.argmax(odd)) if odd.any() else -1

    def mean_of(self, sums: Any) -> Any:
        return sums

    def explain_refusal(self, row: Any) -> str:
        raise AssertionError(f"every finite row is taken, {row} too")


@dataclass(frozen=True)
class PrivatePositiveCounts(PositiveCounts):
    """The same, with what private releases need to know."""

    def add_remove_sensitivity(self) -> skl.privacy.Sensitivity:
        return skl.privacy.Sensitivity.of_integers(self.n_features, 1)


# A reader of files that end in .rows: numbers between spaces


def read_rows(path: Any) -> np.ndarray:
    return np.loadtxt(path, ndmin=2)
