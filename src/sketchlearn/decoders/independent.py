"""Independent components from second moments and generalised cumulants."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders.moments import Double, Moments, part_of
from sketchlearn.decoders.rotations import Measured, polar, searched
from sketchlearn.operators import CumulantFeatures
from sketchlearn.sketch import Sketch

FAR = 0.35  # of a component in another's direction: beyond, no step from the operator's own components is right
GAUSSIAN = 5.0  # deviations within which a component may be Gaussian: its direction is one that looks least like it
MISSED = 1e-6  # share of the variance in directions that the operator does not see


@dataclass(frozen=True)
class Independent:
    """Components s = components (x - mean), uncorrelated and of variance 1.

    Attributes
    ----------
    count : number of records.
    mean : array (columns,).
    components : array (k, columns), the least Gaussian first.
    mixing : array (columns, k), its pseudo-inverse.
    whitening : array (k, columns); components = rotation whitening.
    evidence : of each component, how many deviations of sampling noise its cumulant is away from that of a Gaussian.
    far : whether they were not near those that the operator was made for.
    missed : whether rows vary in directions that the operator does not see.
    """

    count: float
    mean: Double
    components: Double
    mixing: Double
    whitening: Double
    evidence: Double
    far: bool = False
    missed: bool = False

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
    B, noise = np.array(operator.unmixing), np.array(operator.noise)
    C = B @ moments.covariance @ B.T
    values, vectors = np.linalg.eigh(C)
    if values[0] <= 0 or values[0] < np.sum((np.abs(B) @ moments.rounding) ** 2):
        raise ValueError("the rows do not vary in all the components that the operator is for: design it on such rows")
    measured = Measured.of(operator, part.mean, B @ (moments.mean - operator.origin), values, vectors)
    sizes = np.diag(measured.columns)
    Q = polar(measured.columns * (sizes / (noise + sizes**2 / 4)))
    far = measured.farthest(Q) > FAR
    if far:
        Q = searched(measured, noise, Q, rng, progress)
    whitening = measured.unrooted @ B
    evidence = np.abs(np.diag(Q.T @ measured.columns)) * np.sqrt(moments.count / noise)
    order = np.argsort(-evidence, kind="stable")
    components = _turned((Q.T @ whitening)[order])
    mixing = np.linalg.pinv(components)
    left = np.trace(moments.covariance - mixing @ mixing.T)
    missed = bool(left > MISSED * np.trace(moments.covariance)) and moments.noise is None
    return Independent(moments.count, moments.mean, components, mixing, whitening, evidence[order], far, missed)


def _turned(components: Double) -> Double:
    """Each component so that its largest coordinate is positive."""
    largest = np.argmax(np.abs(components), axis=1)
    return components * np.sign(components[np.arange(len(components)), largest])[:, None]
