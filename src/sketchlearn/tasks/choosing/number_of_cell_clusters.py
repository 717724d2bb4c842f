"""The number of clusters that the cells of a sketch tell of.

Cells are joined into 1, 2, ... clusters by k-means of their means. Each cluster is taken for a Gaussian in the
directions in which cells are told apart, and each record for one of its own cluster (a classification likelihood, as
Symons 1981 and Banfield and Raftery 1993 have it); BIC charges log n for each number. To cut a Gaussian in two gains
half a nat for each of its records and costs log 2: so it stays whole, however many records there are.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.refinements.reduction_to_points import nearest
from sketchlearn.models import Double
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.choosing.cluster_choice import Basis, ClusterChoice
from sketchlearn.uncertainty.sketch_influence import independent_records
from sketchlearn.weighting.cell_clusters import CellClusters
from sketchlearn.weighting.cells_of_sketch import Cells, Members
from sketchlearn.weighting.clusters_of_rows import RowSample, SquaredLoss, clusters_of_rows
from sketchlearn.weighting.weighted_rows import WeightedRows

UNSURE_DEVIATIONS = 2.0  # of a criterion: numbers of clusters within so many cannot be told apart


def choose_among_cells(sketch: Sketch, cells: Cells, most: int, rng: np.random.Generator) -> ClusterChoice:
    """The choice, of numbers up to that of the cells."""
    if sketch.ledger is not None:
        raise ValueError(
            "a private release of cells does not tell how many clusters there are: give n_clusters, or design it with "
            "n_directions=None"
        )
    n, rows = independent_records(sketch), _in_fewest_columns(cells)
    sample, found = RowSample(WeightedRows.of(rows, cells.shares), np.ones(rows.shape[1])), []
    for k in range(1, min(most, len(cells)) + 1):
        centers, _ = clusters_of_rows(sample, k, SquaredLoss(), rng)
        members = Members(nearest(rows, centers)[0], cells.shares, k)
        clusters = CellClusters.of(cells, members)
        if clusters is None:
            raise ValueError(
                "the design, of few rows or an earlier version, does not tell what lies within cells: design it on "
                "more rows, or give n_clusters"
            )
        found.append((clusters.description_length(n), clusters.lengths()[members.owners]))
    criteria = 2 * np.array([length for length, _ in found])
    best = int(np.argmin(criteria))
    differences = [each - found[best][1] for _, each in found]
    errors = 2 * np.sqrt([n * float(cells.shares @ (one - cells.shares @ one) ** 2) for one in differences])
    above = criteria - criteria[best]
    near = np.flatnonzero(above <= UNSURE_DEVIATIONS * errors) + 1
    return ClusterChoice(
        best + 1,
        len(found),
        Basis.CELLS,
        int(min(best + 1, *near)),
        int(max(best + 1, *near)),
        criteria=tuple(above.tolist()),
        criterion_errors=tuple(errors.tolist()),
    )


def _in_fewest_columns(cells: Cells) -> Double:
    """Mean rows of cells, in units, turned into as few columns as hold them: distances stay."""
    rows = cells.scaled - cells.shares @ cells.scaled
    if len(rows) >= rows.shape[1]:
        return rows
    u, sizes, _ = np.linalg.svd(rows, full_matrices=False)
    return np.asarray(u * sizes)
