"""How k-means centers follow the law of the records: cells of centers, and what moves records across their borders.

Centers c satisfy M_a = E[1(x in cell a) (x - c_a)] = 0 for all a. If the law changes, centers move until that holds
again: dc = K^-1 dM, K = -dM/dc. A center that moves also moves the borders of its cell: with P_a the share of cell a,
and for records y on the border of cells a and b, whose density there is g,

    K = diag(P_a I) - sum over borders of the integral of g v v' / |c_a - c_b|, v = y - c_a in block a, c_b - y in b.

The integral is an average over records within a narrow band around the border.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sketchlearn.models import Double
from sketchlearn.uncertainty.sketch_influence import UndeterminedError

LEAST_STIFFNESS = 0.05  # smallest eigenvalue of K, relative to shares: with less, centers slide along a valley
MOST_COORDINATES = 2000  # of all centers
ROWS_PER_BLOCK = 1 << 14

UNSETTLED = (
    "centers can slide at hardly any cost, as a cluster is cut where records lie densely: ask for fewer clusters"
)


@dataclass(frozen=True)
class Cells:
    """The cells of centers: the share of each, and how centers and shares move with the law."""

    labels: NDArray[np.int64]  # of the rows
    shares: Double  # (k,)
    follow: Double  # K^-1, (k d, k d)
    share_slopes: Double  # how shares change with centers, (k, k d)

    @classmethod
    def of(cls, rows: Double, weights: Double, centers: Double, band: float) -> Cells:
        """Those of weighted rows, with bands of so many deviations within clusters; weights sum to one."""
        k, d = centers.shape
        if k * d > MOST_COORDINATES:
            raise UndeterminedError(
                f"the centers have {k * d:,} coordinates, and errors of more than {MOST_COORDINATES:,} are not "
                "computed: ask for fewer clusters, or sketch fewer columns"
            )
        first, second, nearer = _two_nearest(rows, centers)
        shares = np.bincount(first, weights, minlength=k)
        if np.any(shares <= 0):
            raise UndeterminedError("a cluster has no records: ask for fewer clusters")
        squares = np.sum((rows - centers[first]) ** 2, axis=1)
        width = band * np.sqrt(float(weights @ squares) / d)
        stiffness, slopes = np.zeros((k, d, k, d)), np.zeros((k, k, d))
        inside = np.flatnonzero(nearer < width) if k > 1 else np.empty(0, np.int64)
        pairs = first[inside] * k + second[inside]
        for border in np.unique(pairs).tolist():
            (a, b), own = divmod(border, k), inside[pairs == border]
            w = weights[own] / (2 * width * np.linalg.norm(centers[a] - centers[b]))
            by_a, by_b = rows[own] - centers[a], rows[own] - centers[b]
            cross = (by_a * w[:, None]).T @ by_b
            stiffness[a, :, a] += (by_a * w[:, None]).T @ by_a
            stiffness[b, :, b] += (by_b * w[:, None]).T @ by_b
            stiffness[a, :, b] -= cross
            stiffness[b, :, a] -= cross.T
            slopes[a, a] += w @ by_a
            slopes[a, b] -= w @ by_b
            slopes[b, b] += w @ by_b
            slopes[b, a] -= w @ by_a
        return cls(
            first, shares, _inverse(stiffness.reshape(k * d, k * d), np.repeat(shares, d)), slopes.reshape(k, -1)
        )


def _inverse(borders: Double, shares: Double) -> Double:
    """K^-1, where K is that of shares less that of borders."""
    roots = 1 / np.sqrt(shares)
    scaled = np.eye(len(shares)) - borders * roots[:, None] * roots
    try:
        cho_factor(scaled - LEAST_STIFFNESS * np.eye(len(shares)))
        inverse = cho_solve(cho_factor(scaled), np.eye(len(shares)))
    except LinAlgError:
        raise UndeterminedError(UNSETTLED) from None
    return np.asarray(inverse * roots[:, None] * roots)


def _two_nearest(rows: Double, centers: Double) -> tuple[NDArray[np.int64], NDArray[np.int64], Double]:
    """The nearest center and the next of each row, and the distance to the border between them."""
    first, second, nearer = np.empty(len(rows), np.int64), np.empty(len(rows), np.int64), np.empty(len(rows))
    squares = np.sum(centers**2, axis=1)
    for start in range(0, len(rows), ROWS_PER_BLOCK):
        part = slice(start, start + ROWS_PER_BLOCK)
        score = squares - 2 * (rows[part] @ centers.T)
        every = np.arange(len(score))
        a = np.argmin(score, axis=1)
        lowest = score[every, a]
        score[every, a] = np.inf
        b = np.argmin(score, axis=1)
        gaps = np.linalg.norm(centers[a] - centers[b], axis=1)
        first[part], second[part] = a, b
        nearer[part] = (score[every, b] - lowest) / (2 * np.maximum(gaps, 1e-300))
    return first, second, nearer
