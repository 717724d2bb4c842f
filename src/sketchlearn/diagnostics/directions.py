"""The one or two directions on which a picture shows records of many columns."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from sketchlearn.models import Double, Mixture

COLUMNS_IN_LABEL = 3
SMALLEST_LOADING = 0.3  # of the largest one: a label leaves columns of smaller loadings out
TOTAL_WEIGHT = 0.05  # between directions that show equally much, the total covariance decides
LARGEST_SPREAD_RATIO = 5.0  # of two columns: beyond it, drawing them to the same scale would flatten one


@dataclass(frozen=True)
class View:
    """y = (x - origin) @ matrix, with a label for each coordinate of y; matrix has one or two columns."""

    origin: Double
    matrix: Double
    labels: tuple[str, ...]
    equal: bool  # both coordinates are drawn to the same scale

    @property
    def n_axes(self) -> int:
        return int(self.matrix.shape[1])

    def points(self, rows: Double) -> Double:
        """Rows as they are seen."""
        return np.asarray((rows - self.origin) @ self.matrix)

    def covariances(self, covariances: Double) -> Double:
        """Covariances as they are seen."""
        return np.asarray(self.matrix.T @ covariances @ self.matrix)


def moments(mixture: Mixture) -> tuple[Double, Double]:
    """Mean and covariance of all records."""
    weights = mixture.weights / mixture.weights.sum()
    mean = weights @ mixture.locations
    away = mixture.locations - mean
    inside = np.einsum("k,kij->ij", weights, mixture.covariances())
    return mean, inside + (away * weights[:, None]).T @ away


def view_of(total: Double, center: Double, interesting: Double, names: tuple[str, ...]) -> View:
    """One or two columns as they are; of more columns, the two directions along which `interesting` is largest.

    Directions are of columns in units of their own standard deviation, so that no unit of measure decides. `total`
    is the covariance of all records.

    >>> view_of(np.eye(3), np.zeros(3), np.diag([0.0, 2.0, 1.0]), ("a", "b", "c")).labels
    ('b', 'c')
    """
    d = len(total)
    spread = np.sqrt(np.maximum(np.diag(total), 1e-300))
    if d <= 2:
        return View(np.zeros(d), np.eye(d), names, bool(spread.max() < LARGEST_SPREAD_RATIO * spread.min()))
    units = np.outer(spread, spread)
    shown = interesting / units
    shown = shown / max(float(np.trace(shown)), 1e-300) + TOTAL_WEIGHT * (total / units) / d
    vectors = np.linalg.eigh(shown)[1][:, :-3:-1]
    vectors = vectors * np.where(vectors[np.argmax(np.abs(vectors), axis=0), [0, 1]] < 0, -1, 1)
    return View(center, vectors / spread[:, None], tuple(_label(v, names) for v in vectors.T), True)


def _label(loadings: Double, names: tuple[str, ...]) -> str:
    """The columns that a direction is mainly made of, such as 0.8 income - 0.6 age."""
    order = np.argsort(-np.abs(loadings))
    least = SMALLEST_LOADING * abs(loadings[order[0]])
    main = [i for i in order[:COLUMNS_IN_LABEL] if abs(loadings[i]) >= least]
    if len(main) == 1 and abs(loadings[main[0]]) > 0.95:
        return str(names[main[0]])
    terms = [f"{'-' if loadings[i] < 0 else '+'} {abs(loadings[i]):.2g} {names[i]}" for i in main]
    more = np.sum(loadings[main] ** 2) < 0.9
    return " ".join(terms).removeprefix("+ ") + (" …" if more else "")
