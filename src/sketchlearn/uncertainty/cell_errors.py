"""Standard errors of clusters of cells, and what all records cost: from exact counts, means and squares.

Where clusters lie apart, a record belongs to the same one whatever the chance of the sample: a share has the error of
a binomial share, a center that of the mean of its records. Where they touch, their borders would move as well, which
cells do not tell.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.special import stdtr

from sketchlearn.models import Double
from sketchlearn.sketch import Sketch
from sketchlearn.uncertainty.error_bars import ErrorBars, RowMean
from sketchlearn.uncertainty.sketch_influence import UndeterminedError, independent_records
from sketchlearn.weighting.cell_clusters import NO_COVARIANCES, CellClusters
from sketchlearn.weighting.cells_of_sketch import Cells, Members

FROM_FREQUENCIES = "learn from frequencies, with n_directions=None"
#: What borders could move a center by, in standard errors. Five clusters of 256 columns, whose nearest are 5 deviations
#: apart, have 0.6 with 8,000 records (94 % of intervals along the clusters held the truth); at 4, 1.8 (89 %).
MOST_MOVED = 1.0
FEWEST_RECORDS = 30  # of a cluster
ROUNDING = 1e-6  # of a cost, by values in fixed point and rows in float32
PREMISE = "those of clusters that lie apart, as these do as far as cells tell"
PRIVATE = f"the noise of a private release is in all cells, and what it does to this is not known: {FROM_FREQUENCIES}"


def errors_of_cells(sketch: Sketch, cells: Cells, members: Members) -> ErrorBars:
    """Standard errors of the means and shares of clusters of cells."""
    if sketch.ledger is not None:
        raise UndeterminedError(PRIVATE)
    clusters = CellClusters.of(cells, members)
    if clusters is None:
        raise UndeterminedError(NO_COVARIANCES)
    if cells.squares.ndim == 1:
        raise UndeterminedError(
            f"so many cells leave no room for squares of each column: design the sketch for fewer clusters, or "
            f"{FROM_FREQUENCIES}"
        )
    n, shares = independent_records(sketch), members.sizes
    moved = clusters.overlaps() * np.sqrt(n * shares)
    if np.max(moved) > MOST_MOVED:
        raise UndeterminedError(
            f"some clusters touch, and cells do not tell how their borders move: ask for fewer clusters, or "
            f"{FROM_FREQUENCIES}"
        )
    few = n * shares < FEWEST_RECORDS
    of_shares = np.sqrt(shares * np.maximum(1 - shares, 0) / n)
    of_centers = members.deviations(cells.means, cells.squares) / np.sqrt(np.maximum(n * shares, 1))[:, None]
    of_centers[few], of_shares[few] = np.nan, np.nan
    reason = f"some clusters have fewer than {FEWEST_RECORDS} records: ask for fewer clusters" if np.any(few) else ""
    if np.all(few):
        raise UndeterminedError(reason)
    return ErrorBars({"cluster_centers_": of_centers, "weights_": of_shares}, reason, PREMISE)


def mean_cost_of_cells(sketch: Sketch, cells: Cells, centers: Double) -> RowMean:
    """The mean squared distance, in units, of all records from the nearest center.

    That from the center of a record's own cell is exact. It is larger, by what records gain that lie nearer to another
    center: at most about what they would if clusters had tails of Student's law with 4 degrees of freedom. The value
    lies in the middle, and the error is half of it. (Gaussian tails held 7 % of inertias where there were 6 degrees.)
    """
    if sketch.ledger is not None:
        return RowMean(withheld=PRIVATE)
    clusters = CellClusters.of(cells, cells.members(centers))
    if clusters is None:
        return RowMean(withheld=NO_COVARIANCES)
    scaled = centers[:, cells.counted] / cells.units
    cost, gain = cells.cost(scaled), gain_beyond_borders(clusters, scaled)
    return RowMean(cost - gain / 2, gain / 2 + ROUNDING * cost)


def gain_beyond_borders(clusters: CellClusters, centers: Double) -> float:
    """What records gain by the center that is nearest to them, in squared units, if clusters have tails."""
    gaps = np.minimum(clusters.gaps(), 1e3)
    distances = np.linalg.norm(centers[:, None] - centers, axis=2)
    # beyond the border by t deviations of size distance / (2 gap), a record gains 2 distance t of them
    deviations = np.divide(distances, 2 * gaps, out=np.zeros_like(gaps), where=gaps > 0)
    each = 2 * distances * deviations * _mean_beyond(gaps)
    np.fill_diagonal(each, 0.0)
    return float(clusters.shares @ each.sum(axis=1))


def _mean_beyond(gaps: Double) -> Double:
    """The mean of max(t - gap, 0), t of Student's law with 4 degrees of freedom, scaled to a variance of 1."""
    scale = math.sqrt(0.5)
    at = gaps / scale
    density = 0.375 * (1 + at**2 / 4) ** -2.5
    return np.asarray(scale * ((4 + at**2) / 3 * density - at * stdtr(4, -at)))
