"""Operators for generators, and how rows of many columns follow from what a network makes in a few directions.

Frequencies have many lengths, as generated rows may be compared at any scale. Of rows with many columns they are those
of a few directions of a sample; beside them there are second moments of more directions, and means and squares of all
columns.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any, NamedTuple, cast

import numpy as np

from sketchlearn.core.arrays import Double
from sketchlearn.core.values import whole
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.design import frequencies as laws
from sketchlearn.estimators.design.cells import WIDE, directions_for, in_directions, principal_directions
from sketchlearn.estimators.design.sample_summary import deviations
from sketchlearn.features.bounded import CLIP
from sketchlearn.features.composed import concatenate
from sketchlearn.features.directions import MOST_DIRECTIONS, SomeDirections, packed, unpacked
from sketchlearn.features.families import AUTO
from sketchlearn.features.fourier import FourierFeatures
from sketchlearn.features.frequencies import LogUniform, Probed
from sketchlearn.features.moments import ColumnMoments, SecondMoments
from sketchlearn.features.operator import Operator
from sketchlearn.features.waves import Wave
from sketchlearn.inference.moments import Moments
from sketchlearn.sketch.sums import Sketch

DETAIL = (0.3, 40.0)  # lengths of frequencies, per standard deviation of a column
DETAIL_IN_BOUNDS = (0.5, 64.0)  # per half the width of the bounds, which may be much wider than the records
FREQUENCIES, FREQUENCIES_PER_COLUMN = 400, 100
DIRECTIONS = 16  # of a network's output for many columns: docs/decisions/ compares other numbers
MORE_DIRECTIONS = 64  # in all: coordinates in the others are Gaussian, given those


def waves_in_bounds(low: Double, high: Double, n_frequencies: int | None, wave: Wave, seed: int) -> FourierFeatures:
    """Frequencies for rows within bounds."""
    reach = (high - low) / 2
    law = _lengths(DETAIL_IN_BOUNDS, reach, reach / 16)
    return _waves(law, (low + high) / 2, n_frequencies, wave, seed, None)


def on_sample(
    sampled: DesignSample, n_directions: int | str | None, n_frequencies: int | None, wave: Wave, seed: int
) -> Operator:
    """Frequencies for rows like those of a sample; in some directions, if requested or if there are many columns."""
    rows, units, d = sampled.rows, deviations(sampled.rows), sampled.rows.shape[1]
    wanted = directions_for(sampled.columns, n_directions)
    if wanted is None or (wanted == AUTO and d <= WIDE):
        return _waves_on_sample(sampled, n_frequencies, wave, seed, units)
    p = DIRECTIONS if wanted == AUTO else whole("n_directions", wanted, most=min(d, MOST_DIRECTIONS))
    around = ((rows - rows.mean(axis=0)) / units).astype(np.float32)
    directions, _ = principal_directions(around, 1, max(p, min(d, MORE_DIRECTIONS)), np.random.default_rng(seed))
    p = min(p, len(directions))
    seen = in_directions(sampled, directions, units)
    places = DesignSample(seen.mapped(rows, 1)[:, :p], sampled.representative, None)
    waves = _waves_on_sample(places, n_frequencies, wave, seed, _units(seen, places, units))
    first = unpacked("directions", seen.directions, "<i2", None)[: p * d]
    few = replace(seen, inner_operator=waves, n_directions=p, directions=packed(first, "<i2"))
    columns = ColumnMoments(d, bound=seen.bound, center=seen.center, outside=CLIP, columns=sampled.columns)
    return concatenate([few, seen, columns])  # A private release then has noise for each.


def _units(seen: SomeDirections, places: DesignSample, units: Double) -> Double:
    """Units of the directions: geometric means of the deviation in each direction and a common one.

    In units of their own deviations, a dozen directions of noise hide the others; in a common unit, frequencies do not
    determine the deviations of noise.
    """
    steps = np.linalg.norm(seen.projection[: places.rows.shape[1]] * units, axis=1)
    own = deviations(places.rows)
    return np.sqrt(own * steps * math.sqrt(float(np.mean((own / steps) ** 2))))


def _waves_on_sample(
    sampled: DesignSample, n_frequencies: int | None, wave: Wave, seed: int, units: Double
) -> FourierFeatures:
    coarse, fine = DETAIL
    if not sampled.representative:
        coarse /= laws.STREAM_SPREAD_FACTOR
    law = _lengths((coarse, fine), units, units)
    return _waves(law, sampled.rows.mean(axis=0), n_frequencies, wave, seed, sampled.columns)


def _lengths(detail: tuple[float, float], units: Double, least: Double) -> Probed:
    """Lengths log-uniform within the detail."""
    coarse, fine = (math.sqrt(len(units)) / length for length in detail)
    return Probed(LogUniform(fine, coarse), units=laws.plain(units), spread=laws.plain(least), probes=())


def _waves(
    law: Probed, center: Double, n_frequencies: int | None, wave: Wave, seed: int, columns: tuple[str, ...] | None
) -> FourierFeatures:
    d = len(center)
    m = math.ceil((FREQUENCIES + FREQUENCIES_PER_COLUMN * d) * laws.times_as_many(wave))
    m = m if n_frequencies is None else whole("n_frequencies", n_frequencies)
    return FourierFeatures(d, m, law=law, wave=wave, center=laws.plain(center), seed=seed, columns=columns)


LEAST_EIGENVALUE = 1e-10  # of a covariance, relative to the largest


@dataclass(frozen=True, eq=False)
class Lift:
    """The distribution of rows given their coordinates in p directions, for each class.

    Coordinates in further directions, q in all, are Gaussian given those. The rest of each column is noise.
    """

    back: Double  # (q, columns): directions in the space of the rows
    origins: Double  # (classes, columns): rows whose coordinates are all 0
    means: Double  # (classes, q): of coordinates
    made: Double  # (classes, p): means of the network's output
    corrections: Double  # (classes, p, p): maps centred output to the covariance of all records
    slopes: Double  # (classes, p, q - p): regression of the other coordinates on the network's
    factors: Double  # (classes, q - p, q - p): L of the covariance L L' of the residuals
    deviations: Double  # (classes, columns): of the rest

    @classmethod
    def of(cls, sketches: Sequence[Sketch], made: Callable[[int], Double]) -> Lift | None:
        """The lift of sketches, one per class, and of a network's output for each; None without directions."""
        parts = [_Parts.of(sketch) for sketch in sketches]
        if parts[0] is None:
            return None
        operator: Any = parts[0].moments.operator
        bound = np.array(operator.bound)
        back = np.linalg.pinv(operator.projection * bound).T * bound
        own = [_of_class(found, back, made(i)) for i, found in enumerate(parts) if found is not None]
        return cls(np.ascontiguousarray(back), *(np.stack(list(one)) for one in zip(*own, strict=True)))

    def rows(self, which: int, places: Double, rng: np.random.Generator) -> Double:
        """Random rows of a class, for a network's output."""
        p, mean = self.slopes.shape[1], self.means[which]
        places = mean[:p] + (places - self.made[which]) @ self.corrections[which]
        others = mean[p:] + (places - mean[:p]) @ self.slopes[which]
        others += rng.standard_normal(others.shape) @ self.factors[which].T
        rows = self.origins[which] + np.concatenate([places, others], axis=1) @ self.back
        return np.asarray(rows + rng.standard_normal(rows.shape) * self.deviations[which])

    @staticmethod
    def checked_places(shapes: Mapping[str, tuple[int, ...]], n_classes: int, n_features: int) -> int:
        """The network's number of columns, from the shapes of a file's arrays; inconsistent ones are refused."""
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
        directed: list[Any] = [leaf for leaf in leaves if isinstance(leaf.operator, SomeDirections)]
        if not directed:
            return None
        kinds = FourierFeatures, SecondMoments
        found = [leaf for kind in kinds for leaf in directed if isinstance(leaf.operator.inner, kind)]
        found += [leaf for leaf in leaves if isinstance(leaf.operator, ColumnMoments)]
        if len(found) != 3 or len(leaves) != 3:
            raise ValueError("this sketch of directions was not designed for a generator: design it for that task")
        return cls(*found)


def _inside(leaf: Sketch) -> Sketch:
    """The sketch of coordinates."""
    operator: Any = leaf.operator
    return cast("Sketch", operator.inner_sketch(leaf))


def seen_by_network(sketch: Sketch) -> Sketch:
    """The sketch that a network must match: of coordinates, or of the rows themselves."""
    parts = _Parts.of(sketch)
    return sketch if parts is None else _inside(parts.waves)


def _of_class(parts: _Parts, back: Double, made: Double) -> tuple[Double, ...]:
    """Origin, means of coordinates and of output, correction, slopes, factor and deviations of one class."""
    moments, p = Moments.of(_inside(parts.moments), "a generator"), made.shape[1]
    operator: Any = parts.columns.operator
    away, squares = np.split(parts.columns.mean, 2)
    covariance, mean = moments.covariance, moments.mean
    correction = np.eye(p)
    if moments.noise is None:
        correction = _correction(np.cov(made.T, ddof=0).reshape(p, p), covariance[:p, :p])
    else:  # Noise on thousands of products would look like covariances.
        covariance = np.diag(np.maximum(np.diag(covariance), 0.0))
    slopes = np.linalg.pinv(covariance[:p, :p], rcond=LEAST_EIGENVALUE, hermitian=True) @ covariance[:p, p:]
    sizes, axes = np.linalg.eigh(covariance[p:, p:] - covariance[p:, :p] @ slopes)
    factor = axes * np.sqrt(np.maximum(sizes, 0.0))
    left = squares - away**2 - np.einsum("qc,qr,rc->c", back, covariance, back)
    deviations = np.sqrt(np.maximum(left, 0.0))
    return operator.middle + away - mean @ back, mean, made.mean(axis=0), correction, slopes, factor, deviations


def _correction(covariance: Double, wanted: Double) -> Double:
    """The optimal transport between Gaussians of two covariances."""
    root, inverse = _powers(covariance)
    between, _ = _powers(root @ wanted @ root)
    return inverse @ between @ inverse


def _powers(matrix: Double) -> tuple[Double, Double]:
    """Square root of a covariance, and its inverse where there is one."""
    sizes, axes = np.linalg.eigh(matrix)
    roots = np.sqrt(np.maximum(sizes, 0.0))
    inverse = np.where(sizes > LEAST_EIGENVALUE * sizes[-1], 1 / np.maximum(roots, 1e-300), 0.0)
    return (axes * roots) @ axes.T, (axes * inverse) @ axes.T
