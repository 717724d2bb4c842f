"""Clusters of weighted rows, and tests whether a decoder's clusters are better."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.inference.calibration import WeightedRows, calibrated
from sketchlearn.inference.decoders.density import CLEANINGS
from sketchlearn.inference.decoders.loop import FEW_CLUSTERS, Outcome, Status
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture
from sketchlearn.inference.kmeans import KMeansOfRows, kmeans, lloyd, nearest
from sketchlearn.inference.kmedians import weiszfeld
from sketchlearn.sketch.sums import Sketch

STARTS_OF_HALVES = 3
LEAST_RECORDS_PER_ROW = 3  # With fewer records per sampled row, a sketch adds little to the sample.
ROWS_PER_COMPONENT = 10
ITERATIONS = (200, 600)  # the latter for k components with a good fit
ITERATIONS_OF_MANY = (100, 100)  # the latter for more components without a good fit: 0.9636 after 100 or 800
SMALL_COST = 5e-3  # Refinement can remove a squared residual as small as this, however precise the sketch is.
HOPELESS_MISFIT = 1000.0  # Above it, refinement from clusters of rows never reached a good fit.
LARGEST_EXCESS = 1.5  # of the cost of the true centers, in units of its expectation: 0.7 to 1.2 were observed
LEAST_CLUSTER_VARIANCE = 1e-3  # in a column, relative to the variance within all clusters


class SquaredLoss:
    """k-means: the mean squared distance of rows from their center."""

    def losses(self, rows: Double, centers: Double) -> Double:
        return distances(rows, centers) ** 2

    def improved(self, rows: Double, centers: Double, weights: Double) -> Double:
        """Centers after local descent."""
        return lloyd(rows, centers, weights)[0]

    def optimism(self, rows: WeightedRows, centers: Double) -> float:
        """The expected excess cost of the true centers over the rows' own; 0 where that is not known.

        It is the variance of each cluster's weighted mean.
        """
        labels, squares = nearest(rows.rows, centers)
        shares = np.bincount(labels, rows.weights, minlength=len(centers))
        return float(np.sum(rows.weights**2 * squares / np.maximum(shares[labels], 1e-300)))


class DistanceLoss(SquaredLoss):
    """k-medians: the mean distance of rows from their center."""

    def losses(self, rows: Double, centers: Double) -> Double:
        return distances(rows, centers)

    def improved(self, rows: Double, centers: Double, weights: Double) -> Double:
        return weiszfeld(rows, centers, weights)

    def optimism(self, rows: WeightedRows, centers: Double) -> float:  # noqa: ARG002
        return 0.0


def distances(rows: Double, centers: Double) -> Double:
    """The distance of each row from its nearest center."""
    return np.sqrt(nearest(rows, centers)[1])


@dataclass(frozen=True)
class RowSample:
    """Rows that stand for all records, and the units in which errors count."""

    rows: WeightedRows
    units: Double
    complete: bool = False  # whether these rows are all records
    chances_of: Callable[[Double], Double] | None = None  # inclusion probabilities of records; None: small everywhere

    @property
    def mean(self) -> Double:
        """The mean of the rows, the origin of scaled points."""
        return self.rows.weights @ self.rows.rows

    def scaled(self, points: Double) -> Double:
        """Points relative to the mean of the rows, in units."""
        return (points - self.mean) / self.units

    def scaled_rows(self, rows: WeightedRows | None = None) -> WeightedRows:
        """The rows, or some of them, relative to their mean, in units."""
        rows = self.rows if rows is None else rows
        return replace(rows, rows=self.scaled(rows.rows))


def clusters_of(
    sample: WeightedRows, k: int, loss: SquaredLoss, rng: np.random.Generator, n_starts: int | None = None
) -> Double:
    """Centers of weighted rows: k-means from several starts with exchanges of centers, then steps of the loss."""
    rows, weights = sample.rows, sample.weights
    if not (present := weights > 0).all():
        rows, weights = rows[present], weights[present]
    return loss.improved(rows, kmeans(rows, k, rng, weights, n_starts), weights)


def clusters_of_rows(sample: RowSample, k: int, loss: SquaredLoss, rng: np.random.Generator) -> tuple[Double, Double]:
    """Centers of the clusters of a sample, and their shares."""
    here = sample.scaled_rows()
    centers = clusters_of(here, k, loss, rng)
    shares = np.bincount(nearest(here.rows, centers)[0], here.weights, minlength=len(centers))
    return sample.mean + sample.units * centers, shares.astype(np.float64)


def are_within_sampling_error(sample: RowSample, centers: Double, own: Double, loss: SquaredLoss) -> bool:
    """Whether the rows cost no more at these centers than the true ones would, given the rows' own centers."""
    rows = sample.scaled_rows()
    excess = _risk(rows, sample.scaled(centers), loss) - _risk(rows, sample.scaled(own), loss)
    return excess <= LARGEST_EXCESS * loss.optimism(rows, sample.scaled(own))


def has_less_risk(
    sketch: Sketch, sample: RowSample, centers: Double, loss: SquaredLoss, rng: np.random.Generator, *, joined: bool
) -> bool:
    """Whether centers have less risk than clusters of rows, by two-fold cross-validation.

    Each half is calibrated by itself. The least risk lies midway between training and test risk; twice as many rows
    have half the excess over it, and rows that are `joined` by support points a quarter.
    """
    parts = [sample.scaled_rows(half) for half in calibrated(sketch, halves(sample.rows, rng), rng)]
    found = [clusters_of(part, len(centers), loss, rng, STARTS_OF_HALVES) for part in parts]
    seen = sum(_risk(part, own, loss) for part, own in zip(parts, found, strict=True))
    unseen = sum(_risk(part, own, loss) for part, own in zip(parts, found[::-1], strict=True))
    excess = (unseen - seen) / (8 if joined else 4)
    return sum(_risk(part, sample.scaled(centers), loss) for part in parts) <= (seen + unseen) / 2 + excess


def rough_centers(sample: RowSample, k: int, rng: np.random.Generator) -> Double:
    """Centers of clusters of the rows, by k-means from few starts."""
    return sample.mean + sample.units * clusters_of(sample.scaled_rows(), k, SquaredLoss(), rng, STARTS_OF_HALVES)


def mixture_near(problem: Problem, sample: RowSample, centers: Double) -> Outcome:
    """The mixture with the least residual near clusters of rows.

    More than FEW_CLUSTERS start with twice as many components: the misfit does not show two that were merged into one.
    """
    k, here = problem.n_components, sample.scaled_rows()
    size = k if k <= FEW_CLUSTERS else min(2 * k, len(here) // ROWS_PER_COMPONENT)
    if size > k:
        rows = KMeansOfRows(here.rows, here.weights, fine=True)
        more = rows.with_more(rows.seen(sample.scaled(centers)), size - k)
        centers = sample.mean + sample.units * rows.centers_of(more)
    start = problem.in_own_units(DiagonalGaussian(), *cluster_gaussians(centers, sample.rows).parts())
    found = _refined(problem.without_harmonics(start), start)
    for _ in range(CLEANINGS if problem.target.harmonics and found.iterations else 0):
        found = _refined(problem.without_harmonics(found.mixture), found.mixture)
    return found


def _refined(problem: Problem, start: Mixture) -> Outcome:
    """The mixture after refinement, unless its residual is hopelessly large."""
    k, size = problem.n_components, len(start)
    found = Outcome.of(problem, start, problem.target.cost(start), 0)
    hopeful = found.misfit <= HOPELESS_MISFIT or found.cost <= SMALL_COST
    for most in (ITERATIONS if size <= k else ITERATIONS_OF_MANY) if hopeful else ():
        before, found = found, replace(found, status=Status.REFINED).refined(problem, found.mixture, most)
        # a good fit of k components is refined to the end; one of more components would follow noise
        if found.iterations - before.iterations < most or (found.status is Status.EXPLAINED) == (size > k):
            break
    return found


def knows_more(sketch: Sketch, sample: RowSample) -> bool:
    """Whether a sketch has many more records than a sample."""
    return float(sketch.count) >= LEAST_RECORDS_PER_ROW * len(sample.rows)


def _risk(sample: WeightedRows, centers: Double, loss: SquaredLoss) -> float:
    return float(sample.weights @ loss.losses(sample.rows, centers))


def halves(sample: WeightedRows, rng: np.random.Generator) -> list[WeightedRows]:
    """A random split of a sample into two halves."""
    order = rng.permutation(len(sample))
    parts = (np.sort(order[::2]), np.sort(order[1::2]))
    copies = sample.copies if sample.copies is not None else np.ones(len(sample))
    return [replace(WeightedRows.of(sample.rows[part], sample.weights[part]), copies=copies[part]) for part in parts]


def cluster_gaussians(centers: Double, sample: WeightedRows) -> Mixture:
    """One diagonal Gaussian for each cluster of rows."""
    labels, k = nearest(sample.rows, centers)[0], len(centers)
    shares = np.asarray(np.bincount(labels, sample.weights, minlength=k), np.float64)
    left = (sample.rows - centers[labels]) ** 2
    sums = np.stack([np.bincount(labels, sample.weights * column, minlength=k) for column in left.T], axis=1)
    overall = sample.weights @ left
    narrow = np.maximum(sums / np.maximum(shares, 1e-300)[:, None], LEAST_CLUSTER_VARIANCE * overall + 1e-300)
    return Mixture(DiagonalGaussian(), shares, centers, narrow).heavy()
