"""Errors of principal components from second moments: of variances, their shares, directions and means."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.moments.moments_of_sketch import Moments
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.product_forms import ProductForms
from sketchlearn.uncertainty.sampled_rows import SampledRows

MOST_ANGLE = 0.2  # One standard deviation, in radians, of a direction; first-order errors are too small beyond.
MOST_BIAS = 1.0  # of a variance, in standard errors: variances that are close repel each other
MOST_PRODUCTS = 4e9  # multiplications that errors of directions may take, some seconds
NORMAL_ROWS = "for normally distributed rows; a sketch that keeps rows gives errors for any"
NORMAL_AND_NOISE = "for normally distributed rows; the noise of the release is in them"


@dataclass(frozen=True)
class ComponentErrors:
    """How far principal components of n rows lie from those of their law, to first order.

    With scores s_j = v_j . (x - mean), variances l_j and dC the error of the covariance, v_i' dC v_j is the mean of
    s_i s_j - l_i [i = j] over the rows; l_i moves by v_i' dC v_i, and v_i by the sum over j of v_j v_i' dC v_j /
    (l_i - l_j), that is by angles towards the others (Anderson 1963; Davis 1977 for any law).

    Attributes
    ----------
    moments : mean and covariance.
    basis : array (columns, columns), all eigenvectors of the covariance as rows, with its eigenvalues `variances`.
    components : which of them are asked for.
    slopes : array (components,), by how much a reported variance moves with its eigenvalue; NaN for one that is noise.
    n_rows : how many rows of equal weight the records are worth.
    sample : rows, if some are there; else the rows' law is taken to be normal.
    """

    moments: Moments
    basis: Double
    variances: Double
    components: NDArray[np.intp]
    slopes: Double
    n_rows: float
    sample: SampledRows | None

    @classmethod
    def of(
        cls, moments: Moments, components: Double, slopes: Double, n_rows: float, sample: SampledRows | None
    ) -> ComponentErrors:
        """Of components (k, columns) that are eigenvectors of the covariance."""
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
        """What the noise of a release adds to the variances of v_i' dC v_j, an array (components, columns)."""
        forms = [ProductForms(self._forms, self._forms[i]) for i in self.components]
        return np.array([form.released(self.moments) for form in forms])

    @cached_property
    def _sampled(self) -> Double:
        """Variances of v_i' dC v_j by sampling, an array (components, columns)."""
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
        itself = self.components[:, None] == np.arange(len(self.basis))
        with np.errstate(divide="ignore"):
            return np.where(itself, 0.0, 1 / np.where(itself, 1.0, gaps))

    def of_variances(self) -> Double:
        """With the bias of variances that are close: their errors are combined, and NaN where it is most of them."""
        own = np.arange(len(self.components))
        errors = np.sqrt(self._sampled[own, self.components] + self._released[own, self.components])
        with np.errstate(invalid="ignore"):
            bias = np.abs(np.sum(self._sampled * self._inverse_gaps, axis=1))
            known = np.hypot(errors, bias)
            return np.asarray(np.where(bias <= MOST_BIAS * errors, known, np.nan) * self.slopes)

    def of_shares(self) -> Double:
        """Of variances as shares of their sum; NaN where the variance has no error."""
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

    def angles(self) -> Double:
        """Standard deviations of the angles of components towards all directions, an array (components, columns)."""
        with np.errstate(invalid="ignore"):
            known = np.sqrt(self._sampled + self._released) * np.abs(self._inverse_gaps)
            return np.asarray(np.nan_to_num(known, nan=np.inf))

    def of_directions(self) -> Double:
        """Of the coordinates of components; NaN where another direction has nearly the same variance.

        A component is shorter than 1 along the true one by half its squared angles, which counts as an error, too.
        """
        errors = np.full((len(self.components), len(self.basis)), np.nan)
        angles = self.angles()
        for n, i in enumerate(self.components):
            if np.max(angles[n]) > MOST_ANGLE or np.isnan(self.slopes[n]):
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
        """Of the columns' means, which needs no more than second moments if all rows weigh the same."""
        d = len(self.basis)
        forms = ProductForms(np.eye(1 + d)[1:], np.eye(1 + d)[0])
        if self.sample is not None and self.n_rows < self.moments.count:
            sampled = forms.sampled(self.moments, self.sample)
        else:
            sampled = forms.independent(self.moments, max(self.n_rows - 1, 1.0))
        return np.sqrt(sampled + forms.released(self.moments))

    def error_bars(self, unbiased: float) -> ErrorBars:
        """Of all attributes, variances times a factor."""
        errors = {
            "explained_variance_": self.of_variances() * unbiased,
            "explained_variance_ratio_": self.of_shares(),
            "mean_": self.of_means(),
        }
        rows = 1 if self.sample is None else len(self.sample.rows)
        reasons = []
        if float(rows) * len(self.basis) ** 2 * len(self.components) > MOST_PRODUCTS:
            reasons.append("errors of so many directions would take minutes: ask for fewer components")
        else:
            errors["components_"] = self.of_directions()
        unknown = np.isnan(errors["explained_variance_"])
        if "components_" in errors:
            unknown |= np.isnan(errors["components_"][:, 0])
        if np.any(unknown):
            reasons.append(too_close(unknown))
        normal = NORMAL_ROWS if self.moments.noise is None else NORMAL_AND_NOISE
        return ErrorBars(errors, "; ".join(reasons), normal if self.sample is None else "")


def too_close(unknown: NDArray[np.bool_]) -> str:
    """The sentence on components that some errors are withheld of."""
    which = ", ".join(str(i) for i in np.flatnonzero(unknown)[:10].tolist())
    more = ", ..." if np.sum(unknown) > 10 else ""
    one = np.sum(unknown) == 1
    return (
        f"component{'' if one else 's'} {which}{more} of {len(unknown)} cannot be told from directions of nearly the "
        "same variance, or from noise: ask for fewer components, or give more rows"
    )
