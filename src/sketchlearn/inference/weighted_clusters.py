"""Clusters from weighted rows, and the choice between those and a decoder's."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.inference.calibration import WeightedRows, calibrated
from sketchlearn.inference.decoders.density import CLEANINGS
from sketchlearn.inference.decoders.loop import EXPLAINED, FEW_CLUSTERS, Outcome, Status
from sketchlearn.inference.decoders.points import weiszfeld
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import refine
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture
from sketchlearn.inference.kmeans import KMeansOfRows, kmeans, lloyd, nearest
from sketchlearn.sketch.sums import Sketch

STARTS_OF_HALVES = 3
LEAST_RECORDS_PER_ROW = 3  # With fewer records for each row of a sample, a sketch knows little that the rows do not.
ROWS_PER_ATOM = 10
ITERATIONS = (200, 600)  # the latter for a mixture of k components that explains the sketch
ITERATIONS_OF_MANY = (100, 100)  # the latter for a mixture of more components that does not: 0.9636 after 100 or 800
SMALL_COST = 5e-3  # Refinement may well take away a squared residual as small as this, however precise the sketch is.
HOPELESS_MISFIT = 1000.0  # No refinement explains the sketch from clusters of rows with a larger misfit.
MOST_EXCESS = 1.5  # of the cost of a law's own centers, in what clusters of rows gain: seen were 0.7 to 1.2, 1 expected
LEAST_VARIANCE = 1e-3  # of a cluster in a column, as a share of that within all clusters


class SquaredLoss:
    """k-means: the mean squared distance of rows from their center."""

    def losses(self, rows: Double, centers: Double) -> Double:
        """What each row costs."""
        return distances(rows, centers) ** 2

    def improved(self, rows: Double, centers: Double, weights: Double) -> Double:
        """Centers of less cost nearby."""
        return lloyd(rows, centers, weights)[0]

    def gain_by_chance(self, rows: WeightedRows, centers: Double) -> float:
        """How much less rows cost at centers of their own than at those of their law; 0 where that is not known.

        Means of clusters are off by the variance of a weighted mean, and rows cost as much less there.
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

    def gain_by_chance(self, rows: WeightedRows, centers: Double) -> float:  # noqa: ARG002
        return 0.0


def distances(rows: Double, centers: Double) -> Double:
    """Of each row from its nearest center."""
    return np.sqrt(nearest(rows, centers)[1])


@dataclass(frozen=True)
class RowSample:
    """Rows that stand for all records, and the units in which errors count."""

    rows: WeightedRows
    units: Double
    complete: bool = False  # whether these rows are all records
    chances_of: Callable[[Double], Double] | None = None  # of records to be in the sample; None: small everywhere

    @property
    def mean(self) -> Double:
        """The mean of the rows, near which scaled numbers are precise."""
        return self.rows.weights @ self.rows.rows

    def scaled(self, points: Double) -> Double:
        """Points as seen from the mean of the rows, in units."""
        return (points - self.mean) / self.units

    def scaled_rows(self, rows: WeightedRows | None = None) -> WeightedRows:
        """The rows, or some of them, as seen from their mean, in units."""
        rows = self.rows if rows is None else rows
        return replace(rows, rows=self.scaled(rows.rows))


def clusters_of(
    sample: WeightedRows, k: int, loss: SquaredLoss, rng: np.random.Generator, n_starts: int | None = None
) -> Double:
    """The best centers of weighted rows: by k-means from several starts, exchanged until nothing is gained."""
    rows, weights = sample.rows, sample.weights
    if not (present := weights > 0).all():
        rows, weights = rows[present], weights[present]
    return loss.improved(rows, kmeans(rows, k, rng, weights, n_starts), weights)


def clusters_of_rows(sample: RowSample, k: int, loss: SquaredLoss, rng: np.random.Generator) -> tuple[Double, Double]:
    """Centers of the clusters of a sample, and the share of the rows that each has."""
    here = sample.scaled_rows()
    centers = clusters_of(here, k, loss, rng)
    shares = np.bincount(nearest(here.rows, centers)[0], here.weights, minlength=len(centers))
    return sample.mean + sample.units * centers, shares.astype(np.float64)


def are_those_of_law(sample: RowSample, centers: Double, own: Double, loss: SquaredLoss) -> bool:
    """Whether centers cost rows no more than those of their law would, as the cost of the rows' own ones tells."""
    rows = sample.scaled_rows()
    excess = _risk(rows, sample.scaled(centers), loss) - _risk(rows, sample.scaled(own), loss)
    return excess <= MOST_EXCESS * loss.gain_by_chance(rows, sample.scaled(own))


def has_less_risk(
    sketch: Sketch, sample: RowSample, centers: Double, loss: SquaredLoss, rng: np.random.Generator, *, joined: bool
) -> bool:
    """Whether centers have less risk than clusters of rows, on rows that did not choose.

    The sample is cut into halves, each calibrated by itself: clusters of either are judged on the other. The least risk
    lies midway between the risks on own and other rows; twice as many rows have half the excess over it, and rows that
    are `joined` by atoms a quarter.
    """
    parts = [sample.scaled_rows(half) for half in calibrated(sketch, halves(sample.rows, rng), rng)]
    found = [clusters_of(part, len(centers), loss, rng, STARTS_OF_HALVES) for part in parts]
    seen = sum(_risk(part, own, loss) for part, own in zip(parts, found, strict=True))
    unseen = sum(_risk(part, own, loss) for part, own in zip(parts, found[::-1], strict=True))
    excess = (unseen - seen) / (8 if joined else 4)
    return sum(_risk(part, sample.scaled(centers), loss) for part in parts) <= (seen + unseen) / 2 + excess


def rough_centers(sample: RowSample, k: int, rng: np.random.Generator) -> Double:
    """Centers of the clusters of rows, by k-means from few starts."""
    return sample.mean + sample.units * clusters_of(sample.scaled_rows(), k, SquaredLoss(), rng, STARTS_OF_HALVES)


def mixture_near(problem: Problem, sample: RowSample, centers: Double) -> Outcome:
    """The mixture near clusters of rows that leaves least of the sketch: EXPLAINED, if that is noise alone.

    Among many clusters, the misfit of the whole would not tell of two that were taken for one: then twice as many.
    """
    k, here = problem.n_components, sample.scaled_rows()
    size = k if k <= FEW_CLUSTERS else min(2 * k, len(here) // ROWS_PER_ATOM)
    if size > k:
        rows = KMeansOfRows(here.rows, here.weights, fine=True)
        more = rows.with_more(rows.seen(sample.scaled(centers)), size - k)
        centers = sample.mean + sample.units * rows.centers_of(more)
    start = problem.in_own_units(DiagonalGaussian(), *clouds(centers, sample.rows).parts())
    found = _refined(problem.without_harmonics(start), start)
    for _ in range(CLEANINGS if problem.target.harmonics and found.iterations else 0):
        found = _refined(problem.without_harmonics(found.mixture), found.mixture)
    return found


def _refined(problem: Problem, start: Mixture) -> Outcome:
    """The mixture that a search from this one ends at; the same, where it leaves too much of the sketch for hope."""
    k, size = problem.n_components, len(start)
    mixture, cost, iterations = start, problem.target.cost(start), 0
    hopeful = problem.misfit(cost) <= HOPELESS_MISFIT or cost <= SMALL_COST
    for most in (ITERATIONS if size <= k else ITERATIONS_OF_MANY) if hopeful else ():
        mixture, cost, done = refine(problem.target, mixture, problem.box, iterations=most)
        iterations += done
        # k components that explain the sketch are worth settling; more of them follow noise then
        if done < most or (problem.misfit(cost) <= EXPLAINED) == (size > k):
            break
    status = Status.EXPLAINED if problem.misfit(cost) <= EXPLAINED else Status.REFINED
    return Outcome(mixture, cost, problem.misfit(cost), iterations, status)


def knows_more(sketch: Sketch, sample: RowSample) -> bool:
    """Whether a sketch knows much that a sample does not."""
    return float(sketch.count) >= LEAST_RECORDS_PER_ROW * len(sample.rows)


def _risk(sample: WeightedRows, centers: Double, loss: SquaredLoss) -> float:
    return float(sample.weights @ loss.losses(sample.rows, centers))


def halves(sample: WeightedRows, rng: np.random.Generator) -> list[WeightedRows]:
    """Two samples of half of the rows each."""
    order = rng.permutation(len(sample))
    parts = (np.sort(order[::2]), np.sort(order[1::2]))
    copies = sample.copies if sample.copies is not None else np.ones(len(sample))
    return [replace(WeightedRows.of(sample.rows[part], sample.weights[part]), copies=copies[part]) for part in parts]


def clouds(centers: Double, sample: WeightedRows) -> Mixture:
    """One Gaussian for each cluster of rows, with its share and its deviation in each column."""
    labels, k = nearest(sample.rows, centers)[0], len(centers)
    shares = np.asarray(np.bincount(labels, sample.weights, minlength=k), np.float64)
    left = (sample.rows - centers[labels]) ** 2
    sums = np.stack([np.bincount(labels, sample.weights * column, minlength=k) for column in left.T], axis=1)
    overall = sample.weights @ left
    narrow = np.maximum(sums / np.maximum(shares, 1e-300)[:, None], LEAST_VARIANCE * overall + 1e-300)
    return Mixture(DiagonalGaussian(), shares, centers, narrow).heavy()
