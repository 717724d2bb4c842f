"""One column by itself, from the exact counts of `Histograms`."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models.frequency_set import Double
from sketchlearn.operators import Histograms
from sketchlearn.sketch import Sketch

CUT = 5e-4  # share of the records beyond either end of the default bins
CLEAR = 2.0  # deviations of private noise above which a count is taken for more than noise


@dataclass(frozen=True)
class Counted:
    """A column of a sketch of histograms.

    Parameters
    ----------
    edges : of the sketch's bins.
    counts : of the records below the bins, in each of them, and above them, in steps of weights.
    values : of the records in each bin, where the column takes few values.
    total : number of records, in the same steps.
    records : number of records.
    variance : of the private noise in each count; 0 if counts are exact.
    """

    edges: Double
    counts: Double
    values: Double | None
    total: float
    records: float
    variance: float

    @classmethod
    def of(cls, sketch: Sketch, column: int) -> Counted:
        operator = sketch.operator
        assert isinstance(operator, Histograms)
        values = None if operator.values is None else operator.values[column]
        points = None if values is None else np.array(values)
        noise = 0.0 if sketch.ledger is None else sketch.ledger.sum_variance
        counts = operator.split_columns(sketch.sums)[column].astype(np.float64)
        edges, units, count = np.array(operator.edges[column]), float(sketch.units), float(sketch.count)
        return cls(edges, counts, points, units, count, noise)

    def histogram(self, edges: Double) -> tuple[Double, Double, NDArray[np.bool_]]:
        """Shares of the records between edges, their errors, and which of them are exact.

        A share is exact if no bin with records is cut by one of its edges. Records of a bin that is cut count at their
        value, if the sketch has it, and as spread evenly over the bin if not; those below or above all bins count next
        to them, if the edges reach there.
        """
        parts = np.stack([self._part_below(edge, last=edge == edges[-1]) for edge in edges])
        within = np.diff(parts, axis=0)
        cut = self._cuts(edges) & (self.counts != 0)
        exact = ~np.any(cut[1:] | cut[:-1], axis=1) & (self.variance == 0)
        # a part f of a bin, if nothing is known: as uncertain as a beta number of that mean with two records before
        spread = (within * (1 - within) / 3) @ self.counts**2 + within**2 @ np.full(len(self.counts), self.variance)
        shares = within @ self.counts / self.total
        sampling = np.clip(shares * (1 - shares), 0, None) / self.records
        return shares, np.sqrt(sampling + spread / self.total**2), exact

    def in_words(self, exact: NDArray[np.bool_]) -> str:
        """Which shares are exact."""
        if self.variance:
            return "counts with private noise"
        if np.all(exact):
            return "exact counts"
        cut = int(np.sum(~exact))
        which = "all" if cut == len(exact) else f"{cut:,} of {len(exact):,}"
        return f"exact counts, but {which} are estimated: an edge lies within one of the sketch's bins, or beyond them"

    def default_edges(self, n: int) -> Double:
        """At most n + 1 of the sketch's own edges, about equally far apart, that leave out few records."""
        if self.values is not None and len(self.values) <= n:
            return self.edges
        clear = np.where(self.counts > CLEAR * np.sqrt(self.variance), self.counts, 0)
        total = max(float(clear.sum()), 1e-300)
        below = np.cumsum(clear)[:-1] / total  # of each edge
        first = max(int(np.searchsorted(below, CUT, side="right")) - 1, 0)
        last = max(min(int(np.searchsorted(below, 1 - CUT)), len(below) - 1), first + 1)
        own = self.edges[first : last + 1] if last < len(self.edges) else self.edges[-2:]
        wanted = np.linspace(own[0], own[-1], n + 1)
        nearest = np.abs(own[:, None] - wanted).argmin(axis=0)
        return own[np.unique(nearest)]

    def _part_below(self, edge: float, *, last: bool) -> Double:
        """Which part of each bin lies below an edge, those below and above all bins included."""
        low, high = self.edges[:-1], self.edges[1:]
        with np.errstate(over="ignore", invalid="ignore"):
            part = np.clip((edge - low) / (high - low), 0, 1)
        if self.values is not None:
            part = np.where((edge > low) & (edge < high), self.values <= edge if last else self.values < edge, part)
        return np.concatenate([[float(edge >= low[0])], part, [float(edge > high[-1])]])

    def _cuts(self, edges: Double) -> NDArray[np.bool_]:
        """Which bins each edge lies within."""
        inside = (edges[:, None] > self.edges[:-1]) & (edges[:, None] < self.edges[1:])
        return np.column_stack([edges < self.edges[0], inside, edges > self.edges[-1]])
