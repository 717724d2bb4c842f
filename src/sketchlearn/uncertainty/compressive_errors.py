"""Errors of principal components that were fitted to squares of random projections."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from sketchlearn.models import Double
from sketchlearn.uncertainty.component_errors import MOST_ANGLE, MOST_PRODUCTS, NORMAL_ROWS, too_close
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.sampled_rows import SampledRows

DRAWN_ROWS = 4000  # of a normal law, where no rows are there
MOST_RESIDUAL = 0.2  # of the measurements' deviation, that a low-rank fit may leave: errors are those of a good fit


@dataclass(frozen=True)
class CompressiveErrors:
    """How far components decoded from quadratic features lie from those that all rows of the law would lead to.

    The fit S = V diag(sizes) V' + floor I minimises the sum over j of (omega_j' S omega_j - values_j)^2. A row moves it
    by the least squares solution, in the tangent space of such matrices, of omega_j' dS omega_j = (omega_j . (x -
    mean))^2 - values_j.

    Attributes
    ----------
    directions : array (columns, m), omega.
    components : array (k, columns), V'.
    sizes : array (k,), variances along the components less the floor.
    total : variance in all directions.
    mean, mean_errors : arrays (columns,).
    """

    directions: Double
    components: Double
    sizes: Double
    floor: float
    total: float
    mean: Double
    mean_errors: Double

    @property
    def n_tangents(self) -> int:
        """Number of directions in which the fit can move."""
        k, d = self.components.shape
        return int(k * d - k * (k - 1) // 2 + 1)

    @cached_property
    def _basis(self) -> Double:
        """The components, and an orthonormal basis of what is left, as rows."""
        k, d = self.components.shape
        full = np.linalg.svd(self.components, full_matrices=True)[2] if k < d else self.components
        return np.concatenate([self.components, full[k:]])

    def _moves(self, rows: Double) -> tuple[Double, Double]:
        """Of each row, v_i' dS v_j for components i and all of the basis j (rows, k, columns), and the floor's move."""
        k, d = self.components.shape
        along = self._basis @ self.directions  # (columns, m)
        i, j = np.triu_indices(k, 0, d)
        twice = np.where(i == j, 1.0, 2.0)[:, None]
        slopes = np.concatenate([twice * along[i] * along[j], np.sum(self.directions**2, axis=0)[None]])
        fitted = self.sizes @ along[:k] ** 2 + self.floor * slopes[-1]
        solved = (((rows - self.mean) @ self.directions) ** 2 - fitted) @ np.linalg.pinv(slopes)
        moves = np.zeros((len(rows), k, d))
        moves[:, i, j] = solved[:, :-1]
        moves[:, j[j < k], i[j < k]] = solved[:, :-1][:, j < k]
        return moves, solved[:, -1]

    def drawn(self, n_rows: float, rng: np.random.Generator) -> SampledRows:
        """Rows of the normal law of this covariance."""
        k, d = self.components.shape
        rows = np.sqrt(max(self.floor, 0.0)) * rng.standard_normal((DRAWN_ROWS, d))
        rows += (rng.standard_normal((DRAWN_ROWS, k)) * np.sqrt(self.sizes)) @ self.components
        shares = np.full(DRAWN_ROWS, 1 / (DRAWN_ROWS * n_rows))
        return SampledRows(rows + self.mean, shares, shares)

    def error_bars(
        self, sample: SampledRows | None, n_rows: float, unbiased: float, rng: np.random.Generator
    ) -> ErrorBars:
        """Of all attributes, variances times a factor; without rows, of normal ones."""
        errors = {"mean_": self.mean_errors}
        rows = self.drawn(n_rows, rng) if sample is None else sample
        m, p = self.directions.shape[1], self.n_tangents
        if float(m) * p * max(p, len(rows.rows)) > MOST_PRODUCTS:
            return ErrorBars(
                errors, "errors of components of so many columns would take minutes: ask for fewer components"
            )
        if p > m:
            return ErrorBars(errors, "there are fewer random projections than unknowns: use more of them")
        moves, floor = self._moves(rows.rows)
        k = len(self.sizes)
        own = moves[:, np.arange(k), np.arange(k)] + floor[:, None]
        errors["explained_variance_"] = np.sqrt(rows.variances(own)) * unbiased
        shares = (self.sizes + self.floor) / self.total
        whole = np.sum((rows.rows - self.mean) ** 2, axis=1)[:, None] - self.total
        errors["explained_variance_ratio_"] = np.sqrt(rows.variances(own - shares * whole)) / self.total
        gaps = self.sizes[:, None] - np.append(self.sizes, np.zeros(len(self.mean) - k))
        gaps[np.arange(k), np.arange(k)] = np.inf
        angles = np.sqrt(rows.variances(moves)) / np.maximum(np.abs(gaps), 1e-300)
        towards = np.sqrt(rows.variances((moves / np.where(gaps == 0, np.inf, gaps)) @ self._basis))
        shortening = self.components * np.sum(angles**2, axis=1)[:, None] / 2
        close = np.max(angles, axis=1) > MOST_ANGLE
        errors["components_"] = np.where(close[:, None], np.nan, np.hypot(towards, shortening))
        return ErrorBars(errors, too_close(close) if np.any(close) else "", NORMAL_ROWS if sample is None else "")
