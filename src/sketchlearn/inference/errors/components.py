"""Errors of principal components from second moments: of variances, their shares, directions and means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.inference.errors.influence import SampledRows
from sketchlearn.inference.errors.values import ErrorBars
from sketchlearn.inference.moments import Moments


@dataclass(frozen=True)
class ProductForms:
    """Estimates that are means of products (left . [1, x - mean]) (right . [1, x - mean]), less their expectations."""

    left: Double  # (functions, 1 + columns)
    right: Double  # (1 + columns,)

    def means(self, moments: Moments) -> Double:
        """Means of the products over the records."""
        return np.asarray(self.left[:, 0] * self.right[0] + self.left[:, 1:] @ (moments.covariance @ self.right[1:]))

    def sampled(self, moments: Moments, sample: SampledRows, factors: Double | float = 1.0) -> Double:
        """Variances of the estimates from rows, for any distribution; `factors` multiply each row's function."""
        away = sample.rows - moments.mean
        right = (self.right[0] + away @ self.right[1:]) * factors
        products = (self.left[:, 0] + away @ self.left[:, 1:].T) * right[:, None]
        return sample.variances(products - self.means(moments))

    def independent(self, moments: Moments, n_rows: float) -> Double:
        """Variances of the estimates from `n_rows`, if both factors are independent and the right one has mean 0.

        >>> m = Moments(100.0, np.zeros(1), np.array([[4.0]]), np.zeros(1))
        >>> ProductForms(np.array([[1.0, 0.0]]), np.array([0.0, 1.0])).independent(m, 100)
        array([0.04])
        """
        squares = [
            side[..., 0] ** 2 + np.sum((side[..., 1:] @ moments.covariance) * side[..., 1:], axis=-1)
            for side in (self.left, self.right)
        ]
        return np.asarray(np.maximum(squares[0] * squares[1] / n_rows, 0.0))

    def released(self, moments: Moments) -> Double:
        """Variances of the estimates due to the noise of a release; 0 if the moments are exact."""
        if moments.noise is None:
            return np.zeros(len(self.left))
        left, right = (  # as linear functions of [1, x]
            np.concatenate([(side[..., 0] - side[..., 1:] @ moments.mean)[..., None], side[..., 1:]], axis=-1)
            for side in (self.left, self.right)
        )
        return moments.noise.of_products(left, right, self.means(moments))


LARGEST_ANGLE = 0.2  # standard error of a direction, in radians: first-order errors are too small beyond
LARGEST_BIAS = 1.0  # of a variance, in standard errors: close variances repel each other
MOST_PRODUCTS = 4e9  # multiplications for errors of directions: some seconds
NORMAL_ROWS = "for normally distributed rows; a sketch that keeps rows gives errors for any distribution"
NORMAL_AND_NOISE = "for normally distributed rows; they include the noise of the release"


@dataclass(frozen=True)
class ComponentErrors:
    """Standard errors of principal components of n rows, to first order.

    With scores s_j = v_j . (x - mean), variances l_j and dC the error of the covariance, v_i' dC v_j is the mean of
    s_i s_j - l_i [i = j] over the rows; l_i moves by v_i' dC v_i, and v_i by the sum over j of v_j v_i' dC v_j /
    (l_i - l_j), that is by angles towards the others (Anderson 1963; Davis 1977 for any distribution).
    """

    moments: Moments
    basis: Double  # (columns, columns): all eigenvectors of the covariance, as rows
    variances: Double  # (columns,): their eigenvalues
    components: NDArray[np.intp]  # the positions of the requested ones
    slopes: Double  # (components,): derivatives of reported variances by eigenvalues; NaN for one that is noise
    n_rows: float  # effective number of rows of equal weight
    sample: SampledRows | None  # without any, a normal distribution is assumed

    @classmethod
    def of(
        cls, moments: Moments, components: Double, slopes: Double, n_rows: float, sample: SampledRows | None
    ) -> ComponentErrors:
        """Errors of components (k, columns) that are eigenvectors of the covariance."""
        values, vectors = np.linalg.eigh(moments.covariance)
        matches = components @ vectors
        which = np.argmax(np.abs(matches), axis=1)
        basis = vectors.T.copy()
        basis[which] *= np.sign(matches[np.arange(len(which)), which])[:, None]
        return cls(moments, basis, values, which, slopes, n_rows, sample)

    @cached_property
    def _scores(self) -> Double:
        assert self.sample is not None
        return np.asarray((self.sample.rows - self.moments.mean) @ self.basis.T)

    @cached_property
    def _forms(self) -> Double:
        """The scores as linear functions of [1, x - mean]."""
        return np.column_stack([np.zeros(len(self.basis)), self.basis])

    @cached_property
    def _released(self) -> Double:
        """Variances of v_i' dC v_j due to the noise of a release, an array (components, columns)."""
        forms = [ProductForms(self._forms, self._forms[i]) for i in self.components]
        return np.array([form.released(self.moments) for form in forms])

    @cached_property
    def _sampled(self) -> Double:
        """Sampling variances of v_i' dC v_j, an array (components, columns)."""
        own = self.variances[self.components]
        itself = self.components[:, None] == np.arange(len(self.basis))
        if self.sample is None:
            return np.asarray(np.outer(own, self.variances) * (1.0 + itself) / self.n_rows)
        squares = self._scores**2
        products = (squares[:, self.components] * self.sample.shares[:, None]).T @ squares
        means = np.sum(self.sample.shares) * own**2 - 2 * own * (squares[:, self.components].T @ self.sample.shares)
        return np.asarray(np.maximum(products + itself * means[:, None], 0.0))

    @cached_property
    def _inverse_gaps(self) -> Double:
        """1 / (l_i - l_j), an array (components, columns); 0 for a direction and itself."""
        gaps = self.variances[self.components][:, None] - self.variances
        gaps[np.arange(len(gaps)), self.components] = np.inf
        with np.errstate(divide="ignore"):
            return np.asarray(1 / gaps)

    def of_variances(self) -> Double:
        """Standard errors of variances, combined with the bias of close variances; NaN where the bias dominates."""
        own = np.arange(len(self.components))
        errors = np.sqrt(self._sampled[own, self.components] + self._released[own, self.components])
        with np.errstate(invalid="ignore"):
            bias = np.abs(np.sum(self._sampled * self._inverse_gaps, axis=1))
            known = np.hypot(errors, bias)
            return np.asarray(np.where(bias <= LARGEST_BIAS * errors, known, np.nan) * self.slopes)

    def of_shares(self) -> Double:
        """Standard errors of variances relative to their sum; NaN where the variance has none."""
        total, own = float(np.sum(self.variances)), self.variances[self.components]
        shares = own / total
        if self.sample is None:
            squares = own**2 * (1 - 2 * shares) + shares**2 * np.sum(self.variances**2)
            sampled = 2 * squares / self.n_rows
        else:
            squares = self._scores**2
            sampled = self.sample.variances(squares[:, self.components] - shares * squares.sum(axis=1)[:, None])
        released = np.zeros(len(own))
        if self.moments.noise is not None:
            released = self.moments.noise.of_shares(self._forms[self.components], shares, self.moments.mean)
        errors = np.sqrt(np.maximum(sampled, 0.0) + released) / total
        with np.errstate(invalid="ignore"):
            bias = np.sum(self._sampled * self._inverse_gaps, axis=1) / total
        return np.where(np.isnan(self.of_variances()), np.nan, np.hypot(errors, bias) * self.slopes)

    def of_directions(self) -> Double:
        """Standard errors of coordinates of components; NaN if another direction has nearly the same variance.

        They include the shortening of a component along the true one, half of its squared angles.
        """
        errors = np.full((len(self.components), len(self.basis)), np.nan)
        with np.errstate(invalid="ignore"):  # standard deviations of angles towards all directions
            angles = np.sqrt(self._sampled + self._released) * np.abs(self._inverse_gaps)
        angles = np.nan_to_num(angles, nan=np.inf)
        for n, i in enumerate(self.components):
            if np.max(angles[n]) > LARGEST_ANGLE or np.isnan(self.slopes[n]):
                continue
            towards = self._inverse_gaps[n][:, None] * self.basis  # (columns, coordinates)
            if self.sample is None:
                sampled = self._sampled[n] @ towards**2
            else:
                sampled = self.sample.variances((self._scores @ towards) * self._scores[:, i : i + 1])
            form = ProductForms(np.column_stack([np.zeros(len(self.basis)), towards.T @ self.basis]), self._forms[i])
            shortening = self.basis[i] * np.sum(angles[n] ** 2) / 2
            errors[n] = np.sqrt(sampled + form.released(self.moments) + shortening**2)
        return errors

    def of_means(self) -> Double:
        """Standard errors of the columns' means; second moments suffice if all rows have equal weights."""
        d = len(self.basis)
        forms = ProductForms(np.eye(1 + d)[1:], np.eye(1 + d)[0])
        if self.sample is not None and self.n_rows < self.moments.count:
            sampled = forms.sampled(self.moments, self.sample)
        else:
            sampled = forms.independent(self.moments, max(self.n_rows - 1, 1.0))
        return np.sqrt(sampled + forms.released(self.moments))

    def error_bars(self, unbiased: float) -> ErrorBars:
        """Standard errors of all attributes, with this factor of variances."""
        errors = {
            "explained_variance_": self.of_variances() * unbiased,
            "explained_variance_ratio_": self.of_shares(),
            "mean_": self.of_means(),
        }
        rows = 1 if self.sample is None else len(self.sample.rows)
        reasons, unknown = [], np.isnan(errors["explained_variance_"])
        if float(rows) * len(self.basis) ** 2 * len(self.components) > MOST_PRODUCTS:
            reasons.append("errors of so many directions would take minutes: ask for fewer components")
        else:
            errors["components_"] = self.of_directions()
            unknown |= np.isnan(errors["components_"][:, 0])
        if np.any(unknown):
            reasons.append(too_close(unknown))
        normal = NORMAL_ROWS if self.moments.noise is None else NORMAL_AND_NOISE
        return ErrorBars(errors, "; ".join(reasons), normal if self.sample is None else "")


def too_close(unknown: NDArray[np.bool_]) -> str:
    """Why some components have no standard errors."""
    which, n = ", ".join(map(str, np.flatnonzero(unknown)[:10])), np.sum(unknown)
    these = f"component{'s' if n > 1 else ''} {which}{', ...' if n > 10 else ''}"
    return (
        f"{these} of {len(unknown)} cannot be distinguished from directions of "
        "nearly the same variance, or from noise: ask for fewer components, or give more rows"
    )


DRAWN_ROWS = 4000  # from a normal distribution, without a sample
MOST_RESIDUAL = 0.2  # of a low-rank fit, relative to the measurements' deviation: errors hold for a good fit


@dataclass(frozen=True)
class CompressiveErrors:
    """Standard errors of components decoded from quadratic features.

    The fit S = V diag(sizes) V' + floor I minimises the sum over j of (omega_j' S omega_j - values_j)^2. A row moves it
    by the least squares solution, in the tangent space of such matrices, of omega_j' dS omega_j = (omega_j . (x -
    mean))^2 - values_j.
    """

    directions: Double  # (columns, m), omega
    components: Double  # (k, columns), V'
    sizes: Double  # (k,), variances along the components less the floor
    floor: float
    total: float  # variance in all directions
    mean: Double  # (columns,)
    mean_errors: Double  # (columns,)

    @cached_property
    def _basis(self) -> Double:
        """The components, extended to an orthonormal basis, as rows."""
        k, d = self.components.shape
        full = np.linalg.svd(self.components, full_matrices=True)[2] if k < d else self.components
        return np.concatenate([self.components, full[k:]])

    def _moves(self, rows: Double) -> tuple[Double, Double]:
        """The influence of each row on v_i' dS v_j, v_i a component: (rows, k, columns); and on the floor."""
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
        """Rows from the normal distribution with this covariance."""
        k, d = self.components.shape
        rows = np.sqrt(max(self.floor, 0.0)) * rng.standard_normal((DRAWN_ROWS, d))
        rows += (rng.standard_normal((DRAWN_ROWS, k)) * np.sqrt(self.sizes)) @ self.components
        return SampledRows.drawn(rows + self.mean, n_rows)

    def error_bars(
        self, sample: SampledRows | None, n_rows: float, unbiased: float, rng: np.random.Generator
    ) -> ErrorBars:
        """Standard errors of all attributes, with this factor of variances; without a sample, for normal rows."""
        errors = {"mean_": self.mean_errors}
        rows = self.drawn(n_rows, rng) if sample is None else sample
        m, (k, d) = self.directions.shape[1], self.components.shape
        p = k * d - k * (k - 1) // 2 + 1  # degrees of freedom of the fit
        if float(m) * p * max(p, len(rows.rows)) > MOST_PRODUCTS:
            return ErrorBars(
                errors, "errors of components of so many columns would take minutes: ask for fewer components"
            )
        if p > m:
            return ErrorBars(errors, "there are fewer random projections than unknowns: use more of them")
        moves, floor = self._moves(rows.rows)
        own = moves[:, np.arange(k), np.arange(k)] + floor[:, None]
        errors["explained_variance_"] = np.sqrt(rows.variances(own)) * unbiased
        shares = (self.sizes + self.floor) / self.total
        whole = np.sum((rows.rows - self.mean) ** 2, axis=1)[:, None] - self.total
        errors["explained_variance_ratio_"] = np.sqrt(rows.variances(own - shares * whole)) / self.total
        gaps = self.sizes[:, None] - np.append(self.sizes, np.zeros(d - k))
        gaps[np.arange(k), np.arange(k)] = np.inf
        angles = np.sqrt(rows.variances(moves)) / np.maximum(np.abs(gaps), 1e-300)
        towards = np.sqrt(rows.variances((moves / np.where(gaps == 0, np.inf, gaps)) @ self._basis))
        shortening = self.components * np.sum(angles**2, axis=1)[:, None] / 2
        close = np.max(angles, axis=1) > LARGEST_ANGLE
        errors["components_"] = np.where(close[:, None], np.nan, np.hypot(towards, shortening))
        return ErrorBars(errors, too_close(close) if np.any(close) else "", NORMAL_ROWS if sample is None else "")
