"""How large the squares t_j^2 of projections t_j = w_j . z can be together, over all rows z of length at most 1.

The squares are linear in the matrix M = z z': t_j^2 = w_j' M w_j. A replaced record changes M to one with at most one
positive and one negative eigenvalue, neither beyond 1 in size, so that its change is largest for M = u u' or for
M = u u' - v v', u and v orthogonal units. docs/privacy.md has the bounds that follow.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
NUMERICAL_MARGIN = 1 + 1e-6  # Far above the errors of eigenvalues in float64.
LARGEST_MATRIX = 2048  # The largest eigenvalue of a matrix of so many rows takes half a second.
MOST_MATRICES = 16
DIRECTIONS_PER_BLOCK = 1024
SMALLEST_PROVED = 512  # For smaller matrices, all eigenvalues are faster than a proof for the largest one.
PROOF_MARGIN = 1e-3  # The estimate's own error is a tenth of this.


@dataclass(frozen=True)
class QuadraticEnergy:
    """Bounds for rows of length 1, before rounding.

    Attributes
    ----------
    squares : of sum_j t_j^2.
    replaced_squares : of sum_j |t_j^2 - s_j^2|, s_j the projections of another row.
    fourth_powers : of sum_j t_j^4.
    replaced_fourth_powers : of sum_j (t_j^2 - s_j^2)^2.
    """

    squares: float
    replaced_squares: float
    fourth_powers: float
    replaced_fourth_powers: float

    @classmethod
    def of_directions(cls, w: Double) -> QuadraticEnergy:
        """Of directions w (n_features, n_directions) of length about 1.

        >>> of = QuadraticEnergy.of_directions(np.eye(2))
        >>> round(of.squares, 4), round(of.replaced_squares, 4)
        (1.0, 2.0)
        """
        d = len(w)
        small = w if d > w.shape[1] else w.T
        second, first = [0.0, *np.linalg.eigvalsh(small.T @ small).tolist()][-2:]
        squares, pair = first * NUMERICAL_MARGIN, (first + max(second, 0.0)) * NUMERICAL_MARGIN
        lengths = np.einsum("ij,ij->j", w, w)
        largest = float(lengths.max()) * NUMERICAL_MARGIN  # of all squares, and so of their changes: about 1
        alone = squares * largest
        spread = _spread_of_squares(w)
        mean = (2 * alone - float(lengths @ lengths) / d) / d + (NUMERICAL_MARGIN - 1) * squares
        fourth = min(alone, mean + spread * (1 - 1 / d))
        return cls(squares, pair, fourth, min(2 * fourth, pair * largest, max(fourth, 2 * spread)))


def _spread_of_squares(w: Double) -> float:
    """The most that sum_j (w_j' M w_j)^2 can be for symmetric M of trace 0 and sum of squares 1; infinite if unknown.

    An eigenvalue of the matrix of products of the w_j w_j' less their traces: of all of them, or added up over some at
    a time, which is more than that of all.
    """
    d, m = w.shape
    if d * (d + 1) // 2 <= min(m, LARGEST_MATRIX):
        return _largest_eigenvalue(_gram_of_entries(w))
    if m > MOST_MATRICES * LARGEST_MATRIX:
        return math.inf
    return sum(map(_largest_eigenvalue, _grams_of_directions(w)))


def _gram_of_entries(w: Double) -> Double:
    """Products of any two entries of w_j w_j' less its trace, added up over j; entries off the diagonal count twice."""
    d = len(w)
    a, b = np.tril_indices(d)
    weights = np.where(a == b, 1.0, math.sqrt(2))[:, None]
    gram = np.zeros((len(a), len(a)))
    for first in range(0, w.shape[1], DIRECTIONS_PER_BLOCK):
        some = w[:, first : first + DIRECTIONS_PER_BLOCK]
        entries = some[a] * some[b] * weights
        entries[a == b] -= np.einsum("ij,ij->j", some, some) / d
        gram += entries @ entries.T
    return gram


def _grams_of_directions(w: Double) -> Iterator[Double]:
    """Products of the matrices w_j w_j' less their traces with each other: (w_j . w_k)^2 - |w_j|^2 |w_k|^2 / d."""
    d, m = w.shape
    for some in np.array_split(w, -(-m // LARGEST_MATRIX), axis=1):
        products = some.T @ some
        lengths = np.diagonal(products)
        yield products**2 - np.multiply.outer(lengths, lengths) / d


def _largest_eigenvalue(matrix: Double) -> float:
    """An upper bound of the largest eigenvalue of a positive semidefinite matrix, within two thousandths of it.

    Lanczos' method finds it from below, and Cholesky's shows that there is none above.

    >>> round(_largest_eigenvalue(np.diag(np.arange(600.0))), 1)
    599.6
    """
    if len(matrix) <= SMALLEST_PROVED:
        return max(0.0, float(np.linalg.eigvalsh(matrix)[-1])) * NUMERICAL_MARGIN
    from scipy.sparse.linalg import eigsh  # SciPy takes a while to import

    start = np.random.default_rng(0).standard_normal(len(matrix))
    found = float(eigsh(matrix, 1, v0=start, tol=PROOF_MARGIN / 10, return_eigenvectors=False)[0])
    while True:
        found *= 1 + PROOF_MARGIN
        try:
            np.linalg.cholesky(found * np.eye(len(matrix)) - matrix)
        except np.linalg.LinAlgError:
            continue
        return found * NUMERICAL_MARGIN
