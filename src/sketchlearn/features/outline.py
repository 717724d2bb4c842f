"""The outline of a sample: the mean, the deviations and the share of cells of at least five rows each."""

from __future__ import annotations

import heapq
import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.values import Value, finite_floats

LEAST_ROWS_PER_CELL = 5  # A cell averages at least that many, so that no single row is kept.
FEWEST_CELLS, MOST_CELLS, MOST_NUMBERS = 60, 150, 6000  # A design must stay small beside its sketches.
# Errors of eight clusters of 20 tables were 1.0085 (mean) with 60 cells, 1.0078 with 120.
CELLS_PER_COLUMN, CELLS_PER_CLUSTER = 6, 15
LEAST_USEFUL_CELLS = 10  # Fewer cells are less informative than the columns' histograms.

Indices = NDArray[np.int64]


@dataclass(frozen=True)
class Outline(Value):
    """Cells of a sample: mean and deviations of each, column by column, and its share of the rows.

    A design keeps it, so that clusters can be learned from a sketch alone: rows drawn from it get weights calibrated to
    the sketch. Each cell averages five rows or more.
    """

    means: tuple[tuple[float, ...], ...]
    deviations: tuple[tuple[float, ...], ...]
    shares: tuple[float, ...]

    def __post_init__(self) -> None:
        tables = (self.means, self.deviations, (self.shares,))
        if not all(isinstance(table, tuple) and all(map(finite_floats, table)) for table in tables):
            raise ValueError("an outline must be tables of finite numbers: means, deviations and shares")
        widths = {len(row) for row in (*self.means, *self.deviations)}
        if len(widths) != 1 or not len(self.means) == len(self.deviations) == len(self.shares):
            raise ValueError("an outline must have a mean, deviations and a share for each cell")
        whole = math.isclose(sum(self.shares), 1, rel_tol=0.01)
        if min(map(min, self.deviations)) < 0 or min(self.shares) <= 0 or not whole:
            raise ValueError("deviations must not be negative, and shares must be positive and sum to 1")

    @classmethod
    def of(cls, rows: Double, n_clusters: int) -> Outline | None:
        """Rows cut into two, again and again, where that lowers the squared error most; None for too many columns.

        >>> outline = Outline.of(np.random.default_rng(0).standard_normal((1000, 2)), n_clusters=4)
        >>> len(outline.means), len(outline.draw(7, np.random.default_rng(0)))
        (60, 7)
        """
        d = rows.shape[1]
        wanted = max(FEWEST_CELLS, CELLS_PER_COLUMN * d, CELLS_PER_CLUSTER * n_clusters)
        n_cells = min(wanted, MOST_CELLS, MOST_NUMBERS // (2 * d))
        if n_cells < LEAST_USEFUL_CELLS:
            return None
        cells = _cells(rows, n_cells)
        order, sizes = np.concatenate(cells), np.array([len(cell) for cell in cells])
        firsts, sorted_rows = np.cumsum(sizes) - sizes, rows[order]
        means = np.add.reduceat(sorted_rows, firsts) / sizes[:, None]
        squares = (sorted_rows - np.repeat(means, sizes, axis=0)) ** 2
        deviations = np.sqrt(np.add.reduceat(squares, firsts) / sizes[:, None])
        shares = tuple(round(size / len(rows), 6) for size in sizes.tolist())
        return cls(_rounded(means, rows), _rounded(deviations, rows), shares)

    @property
    def n_features(self) -> int:
        """Number of the columns."""
        return len(self.means[0])

    def draw(self, n: int, rng: np.random.Generator) -> Double:
        """Rows of normal distributions with the cells' means and deviations."""
        shares, means, deviations = (np.array(part) for part in (self.shares, self.means, self.deviations))
        places = (np.arange(n) + rng.random()) / n * shares.sum()
        cell = np.minimum(np.searchsorted(np.cumsum(shares), places), len(shares) - 1)
        rows: Double = means[cell] + deviations[cell] * rng.standard_normal((n, self.n_features))
        return rows


def _rounded(values: Double, rows: Double) -> tuple[tuple[float, ...], ...]:
    """Numbers of few digits, as a design travels with each sketch: to a thousandth of the columns' deviations."""
    spread = rows.std(axis=0)
    digits = [int(np.clip(3 - math.floor(math.log10(s)), -300, 300)) if s > 0 else 0 for s in spread.tolist()]
    columns = list(zip(digits, spread, strict=True))
    return tuple(
        tuple(round(x, n) if s > 0 else x for x, (n, s) in zip(row, columns, strict=True)) for row in values.tolist()
    )


def _cells(rows: Double, n_cells: int) -> list[Indices]:
    heap: list[tuple[float, int, Indices, int]] = []  # cells that can be cut, by what that gains
    final: list[Indices] = []
    number, waiting = itertools.count(), [np.arange(len(rows))]
    while waiting:
        for cell in waiting:
            cut = _best_cut(rows[cell])
            if cut is None:
                final.append(cell)
            else:
                gain, order, place = cut
                heapq.heappush(heap, (-gain, next(number), cell[order], place))
        waiting = []
        if heap and len(heap) + len(final) < n_cells:
            _, _, cell, place = heapq.heappop(heap)
            waiting = [cell[:place], cell[place:]]
    return final + [cell for _, _, cell, _ in heap]


def _best_cut(rows: Double) -> tuple[float, Indices, int] | None:
    """The gain of the best cut across the widest direction, the rows' order along it, and how many come before."""
    n = len(rows)
    if n < 2 * LEAST_ROWS_PER_CELL:
        return None
    left = rows - rows.sum(axis=0) / n
    along = left @ np.linalg.eigh(left.T @ left)[1][:, -1]
    order = along.argsort(kind="stable")
    before = np.arange(float(LEAST_ROWS_PER_CELL), n - LEAST_ROWS_PER_CELL + 1)
    sums = along[order].cumsum()[LEAST_ROWS_PER_CELL - 1 : n - LEAST_ROWS_PER_CELL]
    gains = sums * sums / (before * (n - before))
    best = int(gains.argmax())
    return (n * float(gains[best]), order, LEAST_ROWS_PER_CELL + best) if gains[best] > 0 else None
