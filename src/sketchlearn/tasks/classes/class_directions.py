"""Directions in which classes of rows with many columns are told apart, as a labelled sample tells them."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from sketchlearn.designing.cell_operators import CANDIDATES, POWER_ITERATIONS
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import Double, Single
from sketchlearn.operators.cell_numbers import MOST_DIRECTIONS
from sketchlearn.randomness import row_chooser
from sketchlearn.tasks.classes.class_rules import COMMON_SHRINKAGE, gaussian_errors

Codes = NDArray[np.int64]
FOLDS = 4
MOST_EXACT_COLUMNS = 1024


def class_directions(rows: Double, codes: Codes, n_directions: int | None, seed: int) -> Single:
    """Directions (p, columns) of rows less their mean, orthogonal to each other and of length 1.

    First come those in which the classes' means differ most, beside the spread of their rows; then the principal ones
    of what is left. Without a number of them, rows left out choose it: the least errors of one Gaussian per class.
    """
    with one_blas_thread():
        principal = _principal(rows, seed)
        places = (rows - rows.mean(axis=0)) @ principal.T
        p = enough_directions(places, codes, seed) if n_directions is None else n_directions
        return np.asarray(turned(places, codes)[:p] @ principal, np.float32)


def _principal(rows: Double, seed: int) -> Double:
    """The principal directions in which rows vary, at most 256."""
    around = rows - rows.mean(axis=0)
    most = min(rows.shape[1], max(len(rows) - 1, 1), MOST_DIRECTIONS)
    if rows.shape[1] <= MOST_EXACT_COLUMNS:
        variances, found = np.linalg.eigh(around.T @ around)
        sizes, directions = np.sqrt(np.maximum(variances[::-1][:most], 0.0)), found[:, ::-1][:, :most].T
    else:
        around = around.astype(np.float32)
        _, sizes, directions = randomized_svd(around, most, n_iter=POWER_ITERATIONS, random_state=seed)
    alive = max(1, int(np.sum(sizes > 1e-6 * max(float(sizes[0]), 1e-300))))
    return np.asarray(directions[:alive], np.float64)


def enough_directions(places: Double, codes: Codes, seed: int) -> int:
    """How many of the first directions tell classes apart: those of some rows are asked for rows left out."""
    fold = row_chooser(seed).permutation(len(places)) % FOLDS
    candidates = [p for p in CANDIDATES if p < places.shape[1]] or [places.shape[1]]
    wrong = np.zeros(len(candidates))
    for left_out in range(FOLDS):
        train, test = fold != left_out, fold == left_out
        seen = places @ turned(places[train], codes[train])[: candidates[-1]].T
        rounding = np.finfo(np.float64).eps * np.max(np.abs(seen), axis=0)
        for i, p in enumerate(candidates):
            some, known = seen[:, :p], rounding[:p]
            wrong[i] += gaussian_errors(some[train], codes[train], some[test], codes[test], known)
    return candidates[int(np.argmin(wrong))]


def turned(places: Double, codes: Codes) -> Double:
    """The same space, (q, q): first its discriminants, then the principal directions of what is left."""
    n, q = places.shape
    classes, own, counts = np.unique(codes, return_inverse=True, return_counts=True)
    means = np.array([places[own == c].mean(axis=0) for c in range(len(classes))])
    left = places - means[own]
    within, share = left.T @ left / n, COMMON_SHRINKAGE * q / (n + COMMON_SHRINKAGE * q)
    variances = np.diag(within) + 1e-9 * np.trace(within) / q + 1e-300
    factor = np.linalg.cholesky((1 - share) * within + np.diag(share * variances + 1e-9 * variances))
    apart = np.linalg.solve(factor, (means - places.mean(axis=0)).T * np.sqrt(counts / n))
    found, sizes, _ = np.linalg.svd(apart, full_matrices=False)
    found = found[:, sizes > 1e-6 * max(float(sizes[0]), 1e-300)][:, : len(classes) - 1]
    first = np.linalg.qr(np.linalg.solve(factor.T, found))[0]
    rest = places - (places @ first) @ first.T
    others = np.linalg.eigh(rest.T @ rest)[1][:, ::-1][:, : q - first.shape[1]]
    return np.asarray(np.concatenate([first, others], axis=1).T)
