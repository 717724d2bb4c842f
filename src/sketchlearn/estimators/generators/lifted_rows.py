"""Rows of many columns from what a network makes in a few directions."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.features.directions import MOST_DIRECTIONS, SomeDirections
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.moments import ColumnMoments, SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.inference.moments import Moments
from sketchlearn.sketch.sums import Sketch

LEAST_EIGENVALUE = 1e-10  # of a covariance, relative to the largest


@dataclass(frozen=True, eq=False)
class Lift:
    """How rows follow from their places in p directions, class by class.

    Places in more directions, q in all, are Gaussian given those; what these leave of a column is noise.
    """

    back: Double  # (q, columns): what a step in each direction adds to a row
    origins: Double  # (classes, columns): rows whose places are all 0
    means: Double  # (classes, q): of places
    made: Double  # (classes, p): means of what the network makes
    corrections: Double  # (classes, p, p): of places around their mean, so that they have the covariance of all records
    slopes: Double  # (classes, p, q - p): of the other places, on the network's
    factors: Double  # (classes, q - p, q - p): L of the covariance L L' that they have around that
    deviations: Double  # (classes, columns): of what all directions leave

    @classmethod
    def of(cls, sketches: Sequence[Sketch], made: Callable[[int], Double]) -> Lift | None:
        """That of sketches, one per class, and of what a network makes of each; None where rows are as they are."""
        parts = [_Parts.of(sketch) for sketch in sketches]
        if parts[0] is None:
            return None
        operator: Any = parts[0].moments.operator
        bound = np.array(operator.bound)
        back = np.linalg.pinv(operator.projection * bound).T * bound
        own = [_of_class(found, back, made(i)) for i, found in enumerate(parts) if found is not None]
        return cls(np.ascontiguousarray(back), *(np.stack(list(one)) for one in zip(*own, strict=True)))

    @property
    def n_places(self) -> int:
        """How many columns the network makes."""
        return int(self.slopes.shape[1])

    def rows(self, which: int, places: Double, rng: np.random.Generator) -> Double:
        """Random rows of a class, for what a network made."""
        p, mean = self.n_places, self.means[which]
        places = mean[:p] + (places - self.made[which]) @ self.corrections[which]
        others = mean[p:] + (places - mean[:p]) @ self.slopes[which]
        others += rng.standard_normal(others.shape) @ self.factors[which].T
        rows = self.origins[which] + np.concatenate([places, others], axis=1) @ self.back
        return np.asarray(rows + rng.standard_normal(rows.shape) * self.deviations[which])

    def arrays(self) -> dict[str, Double]:
        """Its numbers, by name."""
        return {field.name: getattr(self, field.name) for field in fields(self)}

    @staticmethod
    def checked_places(shapes: Mapping[str, tuple[int, ...]], n_classes: int, n_features: int) -> int:
        """How many columns the network makes, by the shapes of a file's arrays; those that do not fit are refused."""
        k, d, q = n_classes, n_features, (*shapes.get("back", ()), 0)[0]
        p = shapes["slopes"][1] if len(shapes.get("slopes", ())) == 3 else 0
        wanted = {"back": (q, d), "origins": (k, d), "means": (k, q), "slopes": (k, p, q - p)}
        wanted |= {"factors": (k, q - p, q - p), "deviations": (k, d), "made": (k, p), "corrections": (k, p, p)}
        if not 1 <= p <= q <= MOST_DIRECTIONS or shapes != wanted:
            raise ValueError("its directions do not fit its columns")
        return p

    @classmethod
    def from_arrays(cls, arrays: Mapping[str, Any]) -> Lift:
        """The lift of a file's arrays, whose shapes fit."""
        found = {field.name: np.array(arrays[field.name], np.float64) for field in fields(cls)}
        if not all(np.all(np.isfinite(value)) for value in found.values()) or np.any(found["deviations"] < 0):
            raise ValueError("its directions are not all finite, or deviations are negative")
        return cls(**found)


class _Parts(NamedTuple):
    """A sketch of directions, part by part."""

    waves: Sketch
    moments: Sketch
    columns: Sketch

    @classmethod
    def of(cls, sketch: Sketch) -> _Parts | None:
        """None where a sketch has no directions."""
        leaves = sketch.operator.leaves(sketch)
        directed = [leaf for leaf in leaves if isinstance(leaf.operator, SomeDirections)]
        if not directed:
            return None
        found = [
            *(leaf for kind in (FourierFeatures, SecondMoments) for leaf in directed if _sees(leaf, kind)),
            *(leaf for leaf in leaves if isinstance(leaf.operator, ColumnMoments)),
        ]
        if len(found) != 3 or len(leaves) != 3:
            raise ValueError("this sketch of directions was not designed for a generator: design it for that task")
        return cls(*found)


def _sees(leaf: Sketch, kind: type[Operator]) -> bool:
    return isinstance(leaf.operator, SomeDirections) and isinstance(leaf.operator.inner, kind)


def _inside(leaf: Sketch) -> Sketch:
    """The sketch of places."""
    operator: Any = leaf.operator
    inside: Sketch = operator.inner_sketch(leaf)
    return inside


def seen_by_network(sketch: Sketch) -> Sketch:
    """The sketch that a network is to match: that of places, or of rows as they are."""
    parts = _Parts.of(sketch)
    return sketch if parts is None else _inside(parts.waves)


def _of_class(parts: _Parts, back: Double, made: Double) -> tuple[Double, ...]:
    """Origin, mean of places, that of made ones, correction, slopes, factor and deviations."""
    moments, p = Moments.of(_inside(parts.moments), "a generator"), made.shape[1]
    operator: Any = parts.columns.operator
    away, squares = np.split(parts.columns.mean, 2)
    covariance, mean = moments.covariance, moments.mean
    correction = np.eye(p)
    if moments.noise is None:
        correction = _correction(np.cov(made.T, ddof=0).reshape(p, p), covariance[:p, :p])
    else:  # noise on thousands of products would look like covariances
        covariance = np.diag(np.maximum(np.diag(covariance), 0.0))
    slopes = np.linalg.pinv(covariance[:p, :p], rcond=LEAST_EIGENVALUE, hermitian=True) @ covariance[:p, p:]
    sizes, axes = np.linalg.eigh(covariance[p:, p:] - covariance[p:, :p] @ slopes)
    factor = axes * np.sqrt(np.maximum(sizes, 0.0))
    left = squares - away**2 - np.einsum("qc,qr,rc->c", back, covariance, back)
    deviations = np.sqrt(np.maximum(left, 0.0))
    return operator.middle + away - mean @ back, mean, made.mean(axis=0), correction, slopes, factor, deviations


def _correction(covariance: Double, wanted: Double) -> Double:
    """The least change of rows of one covariance that gives them another.

    It is the optimal transport between two Gaussians of these covariances.
    """
    root, inverse = _powers(covariance)
    between, _ = _powers(root @ wanted @ root)
    return inverse @ between @ inverse


def _powers(matrix: Double) -> tuple[Double, Double]:
    """Square root of a covariance, and its inverse where there is one."""
    sizes, axes = np.linalg.eigh(matrix)
    roots = np.sqrt(np.maximum(sizes, 0.0))
    inverse = np.where(sizes > LEAST_EIGENVALUE * sizes[-1], 1 / np.maximum(roots, 1e-300), 0.0)
    return (axes * roots) @ axes.T, (axes * inverse) @ axes.T
