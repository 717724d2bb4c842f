"""Independent components from second moments and generalised cumulants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.moments.moments_of_sketch import Double, Moments, part_of
from sketchlearn.operators import CumulantFeatures
from sketchlearn.operators.bounded_operators import FIXED_POINT
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.independent_components.cumulant_rotation import Measured, polar, searched

#: of a component in another's direction: beyond, no step from the operator's own components is right
LARGEST_TURN = 0.35
SMALL = 0.5  # frequencies up to which third and fourth cumulants explain what is measured
GAUSSIAN = 12.0  # evidence that Gaussian components reach, since directions and waves are chosen that look least so
MISSED = 1e-6  # share of the variance in directions that the operator does not see


@dataclass(frozen=True)
class Independent:
    """Components s = components (x - mean), uncorrelated and of variance 1.

    Attributes
    ----------
    mean : array (columns,).
    components : array (k, columns), the least Gaussian first.
    whitening : array (k, columns); components = rotation whitening.
    evidence : of each component, one over the standard error of its angle towards a Gaussian one.
    far : whether they were not near those that the operator was made for.
    missed : whether rows vary in directions that the operator does not see.
    """

    mean: Double
    components: Double
    whitening: Double
    evidence: Double
    far: bool = False
    missed: bool = False

    @property
    def mixing(self) -> Double:
        """Array (columns, k), the pseudo-inverse of the components."""
        return np.asarray(np.linalg.pinv(self.components), np.float64)

    @property
    def alike(self) -> NDArray[np.intp]:
        """Components that may be Gaussian; two of them cannot be told from their mixtures."""
        return np.flatnonzero(self.evidence < GAUSSIAN)


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
    B, noise = np.array(operator.unmixing), _noise(part)
    C = B @ moments.covariance @ B.T
    values, vectors = np.linalg.eigh(C)
    if values[0] <= 0 or values[0] < np.max(B**2 @ moments.rounding**2):
        raise ValueError("the rows do not vary in all the components that the operator is for: design it on such rows")
    measured = Measured.of(operator, part.mean, B @ (moments.mean - operator.middle), values, vectors)
    sizes = np.diag(measured.columns)
    Q = polar(measured.columns * (sizes / (noise + sizes**2 / 4)))
    told = np.abs(sizes) * np.sqrt(moments.count / noise) >= GAUSSIAN
    far = measured.farthest(Q, told) > LARGEST_TURN
    if far and max(operator.frequencies) <= SMALL:
        Q = searched(measured, noise, Q, rng, progress)
    whitening = measured.unrooted @ B
    evidence = np.abs(np.diag(Q.T @ measured.columns)) * np.sqrt(moments.count / noise)
    order = np.argsort(-evidence, kind="stable")
    components = _turned((Q.T @ whitening)[order])
    found = Independent(moments.mean, components, whitening, evidence[order], far)
    total, rounding = np.trace(moments.covariance), np.sum(moments.rounding**2)
    missed = bool(total - np.sum(found.mixing**2) > MISSED * total + rounding) and moments.noise is None
    return replace(found, missed=missed)


def _noise(part: Sketch) -> Double:
    """Variance per record of what is measured of each component: of sampling, and of a private release."""
    operator: CumulantFeatures = part.operator  # type: ignore[assignment]
    noise = np.array(operator.noise)
    if part.ledger is None:
        return noise
    released = part.ledger.sum_variance / part.units * (operator.reach / FIXED_POINT) ** 2
    return np.asarray(noise + released)


def _turned(components: Double) -> Double:
    """Each component so that its largest coordinate is positive."""
    largest = np.argmax(np.abs(components), axis=1)
    return np.asarray(components * np.sign(components[np.arange(len(components)), largest])[:, None])
