"""What EM needs of each kind of covariance: how it is estimated, and how far rows are from a component in its terms."""

from __future__ import annotations

import numpy as np

from sketchlearn.models import Double

Pair = tuple[Double, Double]
LEAST_LEFT = 1e-9  # part of a component, or of its variance, that is left after a row was removed


class Full:
    """Covariances (k, d, d); other kinds restrict them.

    The parameters of a kind are one array, in a form of its own; `floor` is added to variances.
    """

    per_column_units = True  # columns may be measured in different units without changing the family
    per_component = True  # each component has parameters of its own

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        """Parameters of greatest likelihood. `shares` (S, k) are weights times responsibilities, `sizes` their sums."""
        d = rows.shape[1]
        covariances = np.empty((len(sizes), d, d))
        for c, size in enumerate(sizes):
            covariances[c] = (rows * shares[:, c, None]).T @ rows / size - np.outer(means[c], means[c])
        covariances[:, np.arange(d), np.arange(d)] += floor
        return covariances

    def distances(self, rows: Double, means: Double, parameters: Double) -> Pair:
        """Squared Mahalanobis distances (S, k), and the logarithms of the determinants (k,)."""
        inverses = np.linalg.inv(np.linalg.cholesky(parameters))
        squares = np.empty((len(rows), len(means)))
        for c, inverse in enumerate(inverses):
            away = rows @ inverse.T
            away -= inverse @ means[c]
            np.einsum("ij,ij->i", away, away, out=squares[:, c])
        return squares, -2 * np.sum(np.log(np.diagonal(inverses, axis1=1, axis2=2)), axis=1)

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        """Squared distances and log-determinants, both (S, k), after each row's own part was removed from components.

        `removed` (S, k) is what a row contributes to the `sizes` of components. Without it a component has the size
        n' = n - a, the mean c - a e / n', e = x - c, and the scatter n C - (a n / n') e e'; what the floor adds to the
        covariance C grows by n / n'. Sherman and Morrison's formula gives the rest.
        """
        squares, determinants = self.distances(rows, means, parameters)
        left, growth = _left(removed, sizes)
        part = np.maximum(1 - removed / left * squares, LEAST_LEFT)
        return growth * squares / part, rows.shape[1] * np.log(growth) + determinants + np.log(part)

    def matrices(self, parameters: Double, k: int) -> Double:  # noqa: ARG002
        """The covariances (k, d, d)."""
        return parameters

    def parameters_of(self, matrices: Double, weights: Double) -> Double:  # noqa: ARG002
        """Parameters near these covariances."""
        return matrices


class Diagonal(Full):
    """Variances (k, d)."""

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        variances = (shares.T @ (rows * rows)) / sizes[:, None] - means * means
        return np.asarray(np.maximum(variances, 0.0) + floor)

    def distances(self, rows: Double, means: Double, parameters: Double) -> Pair:
        precisions = 1 / parameters
        squares = (rows * rows) @ precisions.T - 2 * (rows @ (means * precisions).T)
        squares += np.sum(means * means * precisions, axis=1)
        return np.maximum(squares, 0.0), np.sum(np.log(parameters), axis=1)

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        squares, determinants = np.empty_like(removed), np.empty_like(removed)
        for c, variances in enumerate(parameters):
            left, growth = _left(removed[:, c], sizes[c])
            own = (rows - means[c]) ** 2 / variances
            part = np.maximum(1 - (removed[:, c] / left)[:, None] * own, LEAST_LEFT)
            squares[:, c] = growth * np.sum(own / part, axis=1)
            determinants[:, c] = rows.shape[1] * np.log(growth) + np.sum(np.log(variances)) + np.log(part).sum(axis=1)
        return squares, determinants

    def matrices(self, parameters: Double, k: int) -> Double:  # noqa: ARG002
        return np.asarray(parameters[:, :, None] * np.eye(parameters.shape[1]))

    def parameters_of(self, matrices: Double, weights: Double) -> Double:  # noqa: ARG002
        return np.diagonal(matrices, axis1=1, axis2=2).copy()


class Spherical(Diagonal):
    """Variances (k, d), the same in every column: those of N(c, v I) in the units of the data."""

    per_column_units = False

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        means_of_columns = super().estimate(rows, shares, sizes, means, floor).mean(axis=1, keepdims=True)
        return np.repeat(means_of_columns, rows.shape[1], axis=1)

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        d = rows.shape[1]
        squares, determinants = self.distances(rows, means, parameters)
        left, growth = _left(removed, sizes)
        part = np.maximum(1 - removed / left * squares / d, LEAST_LEFT)
        return growth * squares / part, d * np.log(growth * part) + determinants

    def parameters_of(self, matrices: Double, weights: Double) -> Double:
        means_of_columns = super().parameters_of(matrices, weights).mean(axis=1, keepdims=True)
        return np.repeat(means_of_columns, matrices.shape[1], axis=1)


class Tied(Full):
    """One covariance (d, d) for all components."""

    per_component = False

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:
        scatter = (rows * shares.sum(axis=1)[:, None]).T @ rows - (means.T * sizes) @ means
        return np.asarray(scatter / sizes.sum() + floor * np.eye(len(scatter)))

    def distances(self, rows: Double, means: Double, parameters: Double) -> Pair:
        inverse = np.linalg.inv(np.linalg.cholesky(parameters))
        seen, centers = rows @ inverse.T, means @ inverse.T
        squares = seen @ (-2 * centers.T)
        squares += np.sum(centers * centers, axis=1)
        squares += np.einsum("ij,ij->i", seen, seen)[:, None]
        return np.maximum(squares, 0.0), np.full(len(means), -2 * np.sum(np.log(np.diag(inverse))))

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        squares, determinants = self.distances(rows, means, parameters)
        growth = _left(removed, sizes)[1]
        everywhere = np.sum(removed, axis=1, keepdims=True)
        kept, wider = _left(everywhere, sizes.sum())
        part = np.maximum(1 - everywhere / kept * squares, LEAST_LEFT)
        return growth**2 / wider * squares / part, rows.shape[1] * np.log(wider) + determinants + np.log(part)

    def matrices(self, parameters: Double, k: int) -> Double:
        return np.broadcast_to(parameters, (k, *parameters.shape))

    def parameters_of(self, matrices: Double, weights: Double) -> Double:
        return np.average(matrices, axis=0, weights=weights)


class Known(Tied):
    """A covariance (d, d) that is given."""

    def __init__(self, covariance: Double) -> None:
        self.covariance = covariance

    def estimate(self, rows: Double, shares: Double, sizes: Double, means: Double, floor: float) -> Double:  # noqa: ARG002
        return self.covariance

    def left_out(self, rows: Double, means: Double, parameters: Double, removed: Double, sizes: Double) -> Pair:
        squares, determinants = self.distances(rows, means, parameters)
        return _left(removed, sizes)[1] ** 2 * squares, np.broadcast_to(determinants, squares.shape)

    def parameters_of(self, matrices: Double, weights: Double) -> Double:  # noqa: ARG002
        return self.covariance


def _left(removed: Double, sizes: Double) -> Pair:
    """What is left of the sizes of components, and how many times larger they were."""
    left = np.maximum(sizes - removed, LEAST_LEFT * sizes)
    return left, sizes / left


#: those that are learned
LEARNED: dict[str, Full] = {"spherical": Spherical(), "diag": Diagonal(), "full": Full(), "tied": Tied()}
