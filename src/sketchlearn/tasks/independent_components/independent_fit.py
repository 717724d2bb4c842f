"""Independent components from second moments and generalised cumulants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.moments.moments_of_sketch import Double, Moments, part_of
from sketchlearn.operators import CumulantFeatures
from sketchlearn.operators.second_moments import FIXED_POINT
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.independent_components.cumulant_rotation import Measured, polar, searched
from sketchlearn.tasks.principal_components.principal_subspace import upright

LARGEST_TURN = (
    0.35  # share of a component in another's direction: beyond it, one step from the operator's is not enough
)
MOST_CUMULANT_FREQUENCY = 0.5  # Up to it, third and fourth cumulants explain what is measured.
GAUSSIAN_EVIDENCE = 12.0  # Gaussian components reach it, since the least Gaussian directions and waves are chosen.
MOST_MISSED_SHARE = 1e-6  # of the variance, in directions that the operator does not see


@dataclass(frozen=True)
class Independent:
    """Components s = components (x - mean), uncorrelated and of variance 1."""

    mean: Double  # (columns,)
    components: Double  # (k, columns), the least Gaussian first
    whitening: Double  # (k, columns); components = rotation whitening
    evidence: Double  # of each component, one over the standard error of its angle towards a Gaussian one
    far: bool = False  # whether they were not near those that the operator was made for
    missed: bool = False  # whether rows vary in directions that the operator does not see

    @property
    def mixing(self) -> Double:
        """Array (columns, k), the pseudo-inverse of the components."""
        return np.asarray(np.linalg.pinv(self.components), np.float64)

    @property
    def alike(self) -> NDArray[np.intp]:
        """Components that may be Gaussian; two of them cannot be told from their mixtures."""
        return np.flatnonzero(self.evidence < GAUSSIAN_EVIDENCE)


def independent_components(
    sketch: Sketch, rng: np.random.Generator, progress: Callable[[str], None] | None = None
) -> Independent:
    """The components in a sketch of second moments and cumulant features.

    With u = B (x - center), mean m and covariance C, the columns of

        T = mean(u g') - m mean(g)' - C diag(mean(dg/du)) = A V,  A = C^(1/2) Q,

    are combinations of those of the mixing matrix A of u; V is diagonal if u is nearly independent already. Then the
    columns of C^(-1/2) T are those of the rotation Q, up to their lengths and to squares of small angles, and the
    nearest rotation is taken, columns weighted by how exactly they are known.
    """
    moments, _ = Moments.of(sketch, "ICA").floored()
    part = part_of(sketch, CumulantFeatures)
    if part is None:
        raise ValueError(
            "ICA needs a sketch of second moments beside cumulant features (skl.design(rows, task='ica')), but the "
            f"sketch is of {type(sketch.operator).__name__}"
        )
    operator: CumulantFeatures = part.operator  # type: ignore[assignment]
    B, noise = np.array(operator.unmixing), np.array(operator.noise)  # the variance per record of each measurement
    if part.ledger is not None:
        noise = noise + part.ledger.sum_variance / part.units * (operator.reach / FIXED_POINT) ** 2
    C = B @ moments.covariance @ B.T
    values, vectors = np.linalg.eigh(C)
    if values[0] <= 0 or values[0] < np.max(B**2 @ moments.rounding**2):
        raise ValueError("the rows do not vary in all the components that the operator is for: design it on such rows")
    measured = Measured.of(operator, part.mean, B @ (moments.mean - operator.middle), values, vectors)
    sizes = np.diag(measured.columns)
    Q = polar(measured.columns * (sizes / (noise + sizes**2 / 4)))
    told = np.abs(sizes) * np.sqrt(moments.count / noise) >= GAUSSIAN_EVIDENCE
    far = measured.farthest(Q, told) > LARGEST_TURN
    if far and max(operator.frequencies) <= MOST_CUMULANT_FREQUENCY:
        Q = searched(measured, noise, Q, rng, progress)
    whitening = measured.unrooted @ B
    evidence = np.abs(np.diag(Q.T @ measured.columns)) * np.sqrt(moments.count / noise)
    order = np.argsort(-evidence, kind="stable")
    components = upright((Q.T @ whitening)[order])
    total, rounding = np.trace(moments.covariance), np.sum(moments.rounding**2)
    missing = total - np.sum(np.linalg.pinv(components) ** 2) > MOST_MISSED_SHARE * total + rounding
    missed = bool(missing) and moments.noise is None
    return Independent(moments.mean, components, whitening, evidence[order], far, missed)
