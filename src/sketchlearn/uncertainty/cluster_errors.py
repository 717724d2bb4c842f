"""Standard errors of the centers and shares of clusters: through the fitted density, or from kept rows."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders import Problem
from sketchlearn.decoders.refinements.efficient_fit import slopes_of_efficient
from sketchlearn.decoders.refinements.kmeans_of_rows import KMeansOfRows
from sketchlearn.models import Double, Mixture
from sketchlearn.plain_digits import counted
from sketchlearn.sketch import Sketch
from sketchlearn.uncertainty.cluster_cells import Cells
from sketchlearn.uncertainty.component_scores import Steps
from sketchlearn.uncertainty.row_errors import StandingRows
from sketchlearn.uncertainty.sketch_influence import SketchInfluence, UndeterminedError, check_size, in_own_units

DRAWS, LEAST_DRAWS = 100_000, 1000  # of all components, and of each
BAND, BAND_OF_ROWS = 0.15, 0.3  # around borders of cells, in deviations within clusters; rows are fewer than draws
RIVALS = 2  # centers to remove, and clusters to split, that are tried
CLEAR_DEVIATIONS = 3.0  # by which rivals must cost more
FEWEST_ROWS = 10  # of a cluster, whose weights count as so many equal ones


def errors_of_density(
    sketch: Sketch, problem: Problem, density: Mixture, centers: Double, units: Double, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Errors of centers and of shares that are those of a mixture which explains the sketch.

    `density` and `centers` are in the units of the data; `units` are those in which distances count.
    """
    if len(density) > len(centers):  # of squared boxes, 26 % of such intervals held the truth; of balls, 79 %
        raise UndeterminedError(
            f"the records are not {counted(len(centers), 'Gaussian')}, and the sketch alone does not tell their law "
            "well enough: keep rows beside it, with design(..., rows=500)"
        )
    own = in_own_units(problem, density)
    problem = problem.without_harmonics(own)
    influence = _influence(sketch, problem, own)
    of_centers, of_shares = _gradients(Steps.of(own), problem, centers, units, rng)
    errors = influence.errors(np.concatenate([of_centers, of_shares]), density, rng)
    return errors[: centers.size].reshape(centers.shape) * units, errors[centers.size :]


def _influence(sketch: Sketch, problem: Problem, mixture: Mixture) -> SketchInfluence:
    """How the mixture follows the sketch: as an efficient fit does, if it is one."""
    target = problem.target
    check_size(target, mixture)
    whole = replace(mixture, weights=mixture.weights / mixture.weights.sum())
    slopes = slopes_of_efficient(problem.plain, whole)
    if slopes is not None:
        return SketchInfluence(sketch, problem.plain, whole, slopes)
    precisions = target.part_weights.ravel().astype(np.float64)[: round(target.n_numbers)]
    return SketchInfluence.of(sketch, target, mixture, precisions)


def _gradients(
    steps: Steps, problem: Problem, centers: Double, units: Double, rng: np.random.Generator
) -> tuple[Double, Double]:
    """How centers, in units, and shares move with the coordinates of the density.

    A component's share of a mean, w E f(x), changes by w E f(x) s(x) along a coordinate, s its own score there.
    """
    mixture, (k, d) = steps.mixture, centers.shape
    unit, middle = problem.target.unit / units, (problem.target.origin + problem.target.unit * problem.shift) / units
    weights = mixture.weights / mixture.weights.sum()
    n = max(LEAST_DRAWS, DRAWS // len(weights)) // 2
    z = [rng.standard_normal((n, d)) for _ in weights]
    z = [np.concatenate([half, -half]) for half in z]
    places = zip(mixture.locations, steps.factors, z, strict=True)
    rows = np.concatenate([(location + own @ factor.T) * unit for location, factor, own in places])
    at = centers / units - middle
    cells = Cells.of(rows, np.repeat(weights / (2 * n), 2 * n), at, BAND)
    moments, sizes = np.zeros((k, d, steps.n_coordinates)), np.zeros((k, steps.n_coordinates))
    for component, own in enumerate(z):
        here = slice(2 * n * component, 2 * n * (component + 1))
        away, terms = rows[here] - at[cells.labels[here]], steps.terms(own) * (weights[component] / (2 * n))
        for cell in np.unique(cells.labels[here]).tolist():
            inside = cells.labels[here] == cell
            moments[cell] += steps.along_coordinates(component, away[inside].T @ terms[inside])
            sizes[cell] += steps.along_coordinates(component, terms[inside].sum(axis=0))
    total = sizes.sum(axis=0)  # along weights, which are brought to a sum of one
    sizes -= np.outer(cells.shares, total)
    of_centers = cells.follow @ moments.reshape(k * d, -1)
    return of_centers, sizes + cells.share_slopes @ of_centers


def errors_of_rows(
    sketch: Sketch, centers: Double, units: Double, rng: np.random.Generator, *, decided: bool = True
) -> tuple[Double, Double, str]:
    """Errors of centers and shares, and why some are missing. Kept rows decided on them, or only tell their errors."""
    standing, (k, d) = StandingRows.of(sketch, rng, decided=decided), centers.shape
    middle = standing.rows.weights @ standing.rows.rows
    rows, weights, at = (standing.rows.rows - middle) / units, standing.rows.weights, (centers - middle) / units
    cells = Cells.of(rows, weights, at, BAND_OF_ROWS)
    sizes = np.bincount(cells.labels, weights**2, minlength=k)
    effective = cells.shares**2 / np.maximum(sizes, 1e-300)
    away = rows - at[cells.labels]
    slopes = np.concatenate([cells.follow, cells.share_slopes @ cells.follow])

    def influence(which: slice) -> Double:
        chosen = slopes[which].reshape(-1, k, d)
        found = np.empty((len(rows), len(chosen)))
        for cell in range(k):
            inside = cells.labels == cell
            found[inside] = away[inside] @ chosen[:, cell].T
        indices = np.arange(*which.indices(k * d + k)) - k * d  # of shares, the record's own cell counts, too
        own = indices >= 0
        found[:, own] += cells.labels[:, None] == indices[own]
        return found

    _check_unrivalled(standing, rows, at, rng)
    errors = standing.errors(influence, k * d + k, rng)
    of_centers, of_shares = errors[: k * d].reshape(k, d) * units, errors[k * d :]
    few = (effective < FEWEST_ROWS) & ~np.full(k, standing.kept.complete)
    spread, overall = np.zeros((k, d)), np.ptp(rows, axis=0)
    for cell in range(k):
        spread[cell] = np.ptp(rows[cells.labels == cell], axis=0)
    of_centers[few], of_shares[few] = np.nan, np.nan
    of_centers[(spread == 0) & (overall > 0)] = np.nan
    if not np.any(np.isnan(of_centers)):
        return of_centers, of_shares, ""
    reason = (
        "some clusters, or some columns of them, rest on too few different kept rows: keep more, with "
        "design(..., rows=5000), or ask for fewer clusters"
    )
    if standing.kept.complete:
        reason = "the records of some clusters are alike, in some columns at least: ask for fewer clusters"
    if np.all(np.isnan(of_centers)):
        raise UndeterminedError(reason)
    return of_centers, of_shares, reason


def _check_unrivalled(standing: StandingRows, rows: Double, centers: Double, rng: np.random.Generator) -> None:
    """Refuses centers that chance could have preferred to quite others, of about the same cost.

    Rivals come from exchanges: a center that is missed least moves to a cluster that costs most.
    """
    weights, k = standing.rows.weights, len(centers)
    labels, lowest, second = _two_lowest(rows, centers)
    missed = np.bincount(labels, weights * (second - lowest), minlength=k)
    costs = np.bincount(labels, weights * lowest, minlength=k)
    width = np.sqrt(float(weights @ lowest) / rows.shape[1])
    differences, every = [], KMeansOfRows(rows, weights, fine=True)
    for removed in np.argsort(missed)[:RIVALS].tolist():
        for split in [c for c in np.argsort(-costs).tolist() if c != removed][:RIVALS]:
            inside = labels == split
            far = rows[inside][np.argmax(weights[inside] * lowest[inside])]
            start = centers.copy()
            start[removed] = (far + centers[split]) / 2
            rival = every.centers_of(every.lloyd(every.seen(start))[0])
            if np.sqrt(np.min(np.sum((rival[:, None] - centers) ** 2, axis=2), axis=1).max()) > width:
                differences.append(_two_lowest(rows, rival)[1] - lowest)
    if not differences:
        return
    values = np.stack(differences, axis=1)
    gained = standing.errors(lambda which: values[:, which], values.shape[1], rng)
    if np.any(weights @ values < CLEAR_DEVIATIONS * gained):
        raise UndeterminedError(
            "other centers, far from these, are as good up to chance, and the errors of these would not tell of them: "
            "ask for another number of clusters, or for more rows"
        )


def _two_lowest(rows: Double, centers: Double) -> tuple[NDArray[np.int64], Double, Double]:
    """The nearest center of each row, and the two lowest squared distances; one center has no second."""
    squares = np.sum(rows**2, axis=1)[:, None] - 2 * (rows @ centers.T) + np.sum(centers**2, axis=1)
    labels, every = np.argmin(squares, axis=1), np.arange(len(rows))
    lowest = np.maximum(squares[every, labels], 0)
    if len(centers) == 1:
        return labels, lowest, lowest
    squares[every, labels] = np.inf
    return labels, lowest, squares.min(axis=1)
