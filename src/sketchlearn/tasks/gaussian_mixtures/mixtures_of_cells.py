"""Mixtures of spherical or diagonal Gaussians from the exact counts, means and squares of cells.

EM with one set of probabilities per cell (Verbeek, Nunnink and Vlassis, Data Mining and Knowledge Discovery 13, 2006):
the mean over a cell's records of log N(x; m, v), which its mean row and squares tell exactly, takes the place of a
record's. Each step raises a bound of the likelihood from below.
"""

from __future__ import annotations

import numpy as np
from scipy.special import logsumexp

from sketchlearn.decoders import Outcome, Status
from sketchlearn.decoders.densities.gaussian_mixture_fit import MixtureFit
from sketchlearn.decoders.refinements.goodness_of_fit import FitTest
from sketchlearn.decoders.refinements.kmeans_of_rows import nearest
from sketchlearn.models import DiagonalGaussian, Double, Mixture, SphericalGaussian
from sketchlearn.weighting.cells_of_sketch import Cells
from sketchlearn.weighting.clusters_of_rows import RowSample, SquaredLoss, clusters_of_rows
from sketchlearn.weighting.weighted_rows import WeightedRows

STARTS, ROUNDS = 5, 200
LEAST_VARIANCE = 1e-6  # in the mean variance of the columns, as scikit-learn's GaussianMixture adds it
ENOUGH = 1e-6  # nats by which a round must raise the bound
NO_TEST = FitTest(0.0, None)  # cells leave nothing to compare with


def fit_mixture_of_cells(cells: Cells, k: int, kind: str, rng: np.random.Generator) -> MixtureFit:
    """The likeliest mixture of the kind "diag" or "spherical", as far as cells tell it: the best of some starts."""
    cells.require(k)
    middle = cells.shares @ cells.means
    rows, squares = cells.means - middle, cells.squares
    size = np.sqrt(cells.shares @ (rows**2 + squares))
    units = np.where(size > 0, size, 1.0)
    floor = LEAST_VARIANCE * max(float(np.mean(size**2)), 1e-300)
    best: tuple[float, Double, Double, Double] | None = None
    for start in range(STARTS):
        scale = np.ones_like(units) if start % 2 == 0 else units  # k-means in the columns' own units, or in deviations
        sample = RowSample(WeightedRows.of(rows, cells.shares), scale)
        centers, _ = clusters_of_rows(sample, k, SquaredLoss(), rng)
        found = _climbed(cells.shares, rows, squares, centers / scale, scale, floor, spherical=kind == "spherical")
        if best is None or found[0] > best[0]:
            best = found
    assert best is not None
    _, weights, means, variances = best
    model = DiagonalGaussian() if kind == "diag" else SphericalGaussian()
    shapes = variances if kind == "diag" else variances[:, :1]
    mixture = Mixture(model, weights, means + middle, shapes)
    return MixtureFit(mixture, NO_TEST, Outcome(mixture, 0.0, 0.0, 0, Status.CELLS))


def _climbed(
    shares: Double, rows: Double, squares: Double, centers: Double, scale: Double, floor: float, *, spherical: bool
) -> tuple[float, Double, Double, Double]:
    """The bound, weights, means and variances after rounds of EM from the cells nearest to some centers."""
    belongs = np.zeros((len(rows), len(centers)))
    belongs[np.arange(len(rows)), nearest(rows / scale, centers)[0]] = 1.0
    raw, before = rows**2 + squares, -np.inf
    for _ in range(ROUNDS):
        part = shares[:, None] * belongs
        weights = np.maximum(part.sum(axis=0), 1e-12)
        means = part.T @ rows / weights[:, None]
        variances = np.maximum(part.T @ raw / weights[:, None] - means**2, floor)
        if spherical:
            variances = np.broadcast_to(variances.mean(axis=1, keepdims=True), variances.shape).copy()
        inverse = 1 / variances
        constant = np.sum(np.log(2 * np.pi * variances) + means**2 * inverse, axis=1)
        logs = np.log(weights / weights.sum()) - 0.5 * (constant + raw @ inverse.T - 2 * rows @ (means * inverse).T)
        total = logsumexp(logs, axis=1)
        bound, belongs = float(shares @ total), np.exp(logs - total[:, None])
        if bound - before < ENOUGH:
            break
        before = bound
    return bound, weights / weights.sum(), means, variances
