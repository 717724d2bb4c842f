"""The number of clusters that the cells of a sketch tell of.

Cells are joined, two by two. Along the line through the means of two groups of cells, two Gaussians stand beside one
for both, each record given its own (a classification likelihood, as Symons 1981 and Banfield and Raftery 1993 have it);
BIC charges log n for each number. To cut a Gaussian in two gains half a nat for each of its records and costs log 2: so
it becomes whole again, however many records there are, while clusters that lie apart stay two.
"""

from __future__ import annotations

import numpy as np

from sketchlearn.sketch import Sketch
from sketchlearn.tasks.choosing.cluster_choice import Basis, ClusterChoice
from sketchlearn.uncertainty.sketch_influence import independent_records
from sketchlearn.weighting.cell_clusters import NO_COVARIANCES, CellClusters
from sketchlearn.weighting.cells_of_sketch import Cells

UNSURE_DEVIATIONS = 2.0  # of a criterion: numbers of clusters within so many cannot be told apart


def choose_among_cells(sketch: Sketch, cells: Cells, most: int) -> ClusterChoice:
    """The choice, of numbers up to that of the cells."""
    if sketch.ledger is not None:
        raise ValueError(
            "a private release of cells does not tell how many clusters there are: give n_clusters, or design it with "
            "n_directions=None"
        )
    groups = CellClusters.of_each(cells)
    if groups is None:
        raise ValueError(f"{NO_COVARIANCES}, or give n_clusters")
    n = independent_records(sketch)
    charge = 0.5 * np.log(n) * (groups.places.shape[1] + 2)  # a place, a size and a share
    reach = min(most, len(cells))
    steps = np.zeros((reach, 2))  # what k + 1 groups gain over k, for k = 1, 2, ..., and one deviation of it
    while len(groups.shares) > 1:
        k, sizes = len(groups.shares), n * (groups.shares[:, None] + groups.shares)
        gains = sizes * groups.gains() - charge
        a, b = sorted(int(i) for i in np.unravel_index(np.argmin(gains), gains.shape))
        if k <= reach:
            rows = max(float(groups.n_sampled[[a, b]].sum()), 1.0)
            # variances of so many rows of the sample err by sqrt(2 / rows), and so do their logarithms
            steps[k - 2] = gains[a, b], sizes[a, b] * np.sqrt(0.5 / rows)
        groups = groups.joined(a, b)
    return _chosen(steps[: reach - 1], reach)


def _chosen(steps: np.ndarray, reach: int) -> ClusterChoice:
    """The number with the least criterion, by what each more gains."""
    criteria = -2 * np.concatenate([[0.0], np.cumsum(steps[:, 0])])
    best = int(np.argmin(criteria))
    variances = np.concatenate([[0.0], np.cumsum(steps[:, 1] ** 2)])
    errors = 2 * np.sqrt(np.abs(variances - variances[best]))
    above = criteria - criteria[best]
    near = np.flatnonzero(above <= UNSURE_DEVIATIONS * errors) + 1
    return ClusterChoice(
        best + 1,
        reach,
        Basis.CELLS,
        int(near.min()),
        int(near.max()),
        criteria=tuple(above.tolist()),
        criterion_errors=tuple(errors.tolist()),
    )
