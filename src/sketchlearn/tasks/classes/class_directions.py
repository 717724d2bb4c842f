"""Directions in which classes of rows with many columns are told apart, as a labelled sample tells them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.extmath import randomized_svd

from sketchlearn.designing.cell_operators import CANDIDATES, POWER_ITERATIONS
from sketchlearn.designing.sample_summary import deviations
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import Double, Single
from sketchlearn.operators.cell_numbers import MOST_DIRECTIONS
from sketchlearn.randomness import row_chooser
from sketchlearn.tasks.classes.class_rules import COMMON_SHRINKAGE, gaussian_errors

Codes = NDArray[np.int64]
FOLDS = 3  # of the sample, each left out in turn
MOST_EXACT_COLUMNS = 1024  # Beyond, principal directions are found by random projections.
EVEN_FACTOR = 4.0  # Deviations of columns that differ by no more are not made equal.
LEAST_SIZE = 1e-6  # of a direction in which rows vary, relative to the widest


@dataclass(frozen=True)
class Seen:
    """Rows less their mean, in units of the columns, in the principal directions in which they vary."""

    units: Double  # (columns,)
    principal: Double  # (directions, columns)
    places: Double  # (rows, directions)

    @classmethod
    def of(cls, rows: Double, units: Double, seed: int) -> Seen:
        """At most 256 directions."""
        around = (rows - rows.mean(axis=0)) / units
        most = min(rows.shape[1], max(len(rows) - 1, 1), MOST_DIRECTIONS)
        if rows.shape[1] <= MOST_EXACT_COLUMNS:
            variances, found = np.linalg.eigh(around.T @ around)
            sizes, directions = np.sqrt(np.maximum(variances[::-1][:most], 0.0)), found[:, ::-1][:, :most].T
        else:
            narrow = around.astype(np.float32)
            _, sizes, directions = randomized_svd(narrow, most, n_iter=POWER_ITERATIONS, random_state=seed)
        alive = max(1, int(np.sum(sizes > LEAST_SIZE * max(float(sizes[0]), 1e-300))))
        principal = np.asarray(directions[:alive], np.float64)
        return cls(units, principal, around @ principal.T)

    def errors(self, codes: Codes, sizes: list[int], seed: int, *, apart: bool) -> NDArray[np.int64]:
        """How many rows left out are put into wrong classes by one Gaussian per class in so many directions."""
        fold, wrong = row_chooser(seed).permutation(len(codes)) % FOLDS, np.zeros(len(sizes), np.int64)
        for left_out in range(FOLDS):
            train, test = fold != left_out, fold == left_out
            found = self.places
            if apart:
                found = found @ discriminants_first(found[train], codes[train])[: sizes[-1]].T
            rounding = np.finfo(np.float64).eps * np.max(np.abs(found), axis=0)
            for i, p in enumerate(sizes):
                known, asked = found[train, :p], found[test, :p]
                try:
                    wrong[i] += gaussian_errors(known, codes[train], asked, codes[test], rounding[:p])
                except ValueError:  # All rows of each class are equal.
                    wrong[i] += int(np.sum(test))
        return wrong


@dataclass(frozen=True)
class ClassDirections:
    """Ways to look at rows in few directions, each with the errors of one Gaussian per class on rows left out.

    Directions are principal ones, or those first in which the classes' means differ most beside the spread of their
    rows; of columns as they are, or of equal deviations.
    """

    codes: Codes
    tried: tuple[tuple[Seen, bool, int, int], ...]  # rows, whether discriminants come first, how many, errors

    @classmethod
    def of(cls, rows: Double, codes: Codes, n_directions: int | None, seed: int) -> ClassDirections:
        """All ways for so many directions, or for several numbers of them."""
        tried = []
        with one_blas_thread():
            for seen in _ways_to_see(rows, seed):
                most = seen.places.shape[1]
                asked = CANDIDATES if n_directions is None else (n_directions,)
                sizes = [p for p in asked if p < most] or [most]
                for apart in (False, True):
                    wrong = seen.errors(codes, sizes, seed, apart=apart)
                    tried += [(seen, apart, p, int(errors)) for p, errors in zip(sizes, wrong, strict=True)]
        return cls(codes, tuple(tried))

    def best(self, most: int | None = None) -> tuple[Single, Double]:
        """The directions of least errors (p, columns), for rows less their mean in units of columns; and these units.

        No more than `most` of them, if there are such.
        """
        fitting = [way for way in self.tried if most is None or way[2] <= most] or self.tried
        seen, apart, p, _ = min(fitting, key=lambda way: way[3])
        with one_blas_thread():
            turned = discriminants_first(seen.places, self.codes) if apart else np.eye(seen.places.shape[1])
        return np.asarray(turned[:p] @ seen.principal, np.float32), seen.units


def _ways_to_see(rows: Double, seed: int) -> Iterator[Seen]:
    """Columns as they are and, if their deviations differ by much, with equal ones."""
    yield Seen.of(rows, np.ones(rows.shape[1]), seed)
    units = deviations(rows)
    if units.max() > EVEN_FACTOR * units.min():
        yield Seen.of(rows, units, seed)


def discriminants_first(places: Double, codes: Codes) -> Double:
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
    found = found[:, sizes > LEAST_SIZE * max(float(sizes[0]), 1e-300)][:, : len(classes) - 1]
    first = np.linalg.qr(np.linalg.solve(factor.T, found))[0]
    rest = places - (places @ first) @ first.T
    others = np.linalg.eigh(rest.T @ rest)[1][:, ::-1][:, : q - first.shape[1]]
    return np.asarray(np.concatenate([first, others], axis=1).T)
