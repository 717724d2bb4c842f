"""Operators of Voronoi cells at a pilot, the k-means of a sample: in the columns, or in a few principal directions."""

from __future__ import annotations

import math
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import csc_array
from sklearn.utils.extmath import randomized_svd

from sketchlearn.core.arrays import Double, Single
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.design.frequencies import plain
from sketchlearn.estimators.design.sample_summary import MOST_ROWS, deviations, room, thinned
from sketchlearn.features.bounded import CLIP, VALUE_BITS
from sketchlearn.features.cell_sums import CellSums
from sketchlearn.features.directions import (
    DIRECTION_BITS,
    MOST_DIRECTIONS,
    PLACE_BITS,
    SomeDirections,
    packed,
)
from sketchlearn.features.families import AUTO
from sketchlearn.features.moments import SecondMoments
from sketchlearn.inference.kmeans import ROUGH_TOLERANCE, KMeansOfRows, kmeans, nearest
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.sketch.priority_sample import Keeping

WIDE = 64  # Rows of more columns are projected: docs/decisions/ has both ways side by side.
CANDIDATES = (8, 16, 32, 64, 128)  # numbers of directions, of which held-out rows choose
ADDED_ERROR = 0.002  # of the squared error of held-out rows, that fewer directions may cost
CELLS_PER_CLUSTER = 2  # Each cluster of the sample is cut in two; in four gave about the same.
CELLS_WITH_MORE = 512  # with passive columns: borders of clusters follow those of cells
LEAST_CELLS = 32
MOST_HALVED = 100  # clusters in the columns themselves, of which each has two cells: twice as many take twice the time
MOST_FILE_BYTES = 1.9e6  # of a sketch with more cells than clusters
DIGITS_PER_COLUMN = 45
ROWS_PER_CELL = 5  # of the sample, at least
MOST_COVARYING = 32  # directions of which covariances within cells are noted: twenty centers differ in 19
NOTE_BYTES = 1.5e5  # of those notes
ROWS_PER_DIRECTION = 4  # of the sample, more than cells: the determinant of a covariance of fewer means little
CLOSENESS = 1 / 16  # of the points of a cluster's cells to its center, in deviations
ROWS_AT_ONCE = 512
POWER_ITERATIONS = 4
PLACE_ROOM = 8.0  # The range of coordinates is so many times as wide as that of the sample.


@dataclass(frozen=True)
class CellsAsked:
    """A request for cells."""

    n_components: int
    n_directions: int | None  # None: held-out rows choose it; 0: the columns themselves
    seed: int
    normalize: bool = False
    columns_squared: bool = False  # for variances of each column
    passive: tuple[int, ...] = ()  # positions of the profile columns
    standardize: bool = False
    n_kept: int | None = None  # rows of the priority sample

    def keeping(self, operator: CellSums, rows: NDArray[Any], units: Double) -> CellSums:
        """The operator with a priority sample of rows like these, if one is asked for."""
        if self.n_kept is None:
            return operator
        return operator.with_keeping(Keeping.designed(rows, self.n_kept, units, self.seed))


def directions_for(columns: Any, n_directions: int | str | None) -> int | str | None:
    """The requested directions; None, which means all columns, for a schema without a request."""
    return None if isinstance(columns, SchemaColumns) and n_directions == AUTO else n_directions


def cells_on_sample(asked: CellsAsked, sampled: DesignSample) -> CellSums:
    """The operator for records like those of a sample."""
    if asked.n_directions == 0:
        return _cells_in_columns(asked, sampled)
    if asked.standardize and asked.normalize:
        remedy = "leave out one of the two: rows of length 1 have no deviations to divide by"
        raise InvalidValueError("cannot go with normalize", remedy, parameter="standardize")
    rows = thinned(sampled.rows, MOST_ROWS)  # in single precision, as double would need much memory
    n, d = sampled.rows.shape
    units = deviations(rows.astype(np.float64)) if asked.standardize else np.ones(d)
    mean = rows.mean(axis=0, dtype=np.float64)
    center = np.zeros(d) if asked.normalize else mean.astype(np.float32).astype(np.float64)
    seen = _as_errors_see(rows, center, units, normalize=asked.normalize)
    counted = np.setdiff1d(np.arange(d), asked.passive) if asked.passive else slice(None)
    farthest = np.maximum(seen.max(axis=0), -seen.min(axis=0)).astype(np.float64)
    bound = 1.0 if asked.normalize else room(sampled) * (float(farthest[counted].max()) or 1.0)
    bounds = np.full(d, bound)
    bounds[list(asked.passive)] = room(sampled) * np.where(farthest > 0, farthest, 1.0)[list(asked.passive)]
    rng = np.random.default_rng(asked.seed)
    directions, places = principal_directions(seen[:, counted], asked.n_components, asked.n_directions, rng)
    n_cells, columns_squared = _size(asked, n, d, len(directions))
    coarse = n_cells if asked.passive else asked.n_components  # passive: borders follow those of many cells
    more = _places_of(sampled.rows, center, units, directions, counted, normalize=asked.normalize)
    points = cell_points(more, coarse, n_cells, rng)
    scaled, shift, unit = whole_directions(directions, bound, places)
    limit = 2.0**PLACE_BITS
    everywhere = np.zeros((len(scaled), d), np.int64)
    everywhere[:, counted] = scaled
    operator = CellSums(
        d,
        bound=plain(bounds * units),
        center=None if asked.normalize else plain(center),
        columns=sampled.columns,
        n_directions=len(directions),
        directions=packed(everywhere, "<i2"),
        cells=packed(np.clip(np.rint(points * unit), -limit, limit), "<i4"),
        shift=shift,
        normalize=asked.normalize,
        squares="columns" if columns_squared else "sum",
        along=asked.passive or None,
        units=plain(units) if asked.standardize else None,
    )
    cells = operator.cells_of(rows)
    spread = _spread(cells, seen[:, counted])
    covariances = _covariances(unit * places, cells, operator.n_cells)
    return asked.keeping(replace(operator, spread=spread, covariances=covariances), rows, units)


def _cells_in_columns(asked: CellsAsked, sampled: DesignSample) -> CellSums:
    """Cells at the k-means of a sample, in the columns, two for each cluster."""
    frame, rng = SampleFrame.of(sampled, standardize=asked.standardize), np.random.default_rng(asked.seed)
    n, d = sampled.rows.shape
    size = float(np.max(frame.bound / frame.units))
    seen = (frame.rows / size).astype(np.float32)  # squares of these are float32
    n_cells = asked.n_components if asked.n_components > MOST_HALVED else _size(asked, n, d, d)[0]
    operator = frame.cells_at(size * cell_points(seen, asked.n_components, n_cells, rng).astype(np.float64))
    if d <= _most_covarying(operator.n_cells):
        covariances = _covariances(seen, operator.cells_of(sampled.rows), operator.n_cells)
        operator = replace(operator, covariances=covariances)
    return asked.keeping(operator, thinned(sampled.rows, MOST_ROWS), frame.units)


@dataclass(frozen=True)
class SampleFrame:
    """A sample as cells in the columns see it: relative to its mean, in units of errors, up to a bound."""

    sampled: DesignSample
    units: Double
    center: Double
    bound: Double
    standardize: bool

    @classmethod
    def of(cls, sampled: DesignSample, *, standardize: bool) -> SampleFrame:
        rows = sampled.rows
        units = deviations(thinned(rows, MOST_ROWS).astype(np.float64)) if standardize else np.ones(rows.shape[1])
        center = rows.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)
        low, high = rows.min(axis=0).astype(np.float64), rows.max(axis=0).astype(np.float64)
        farthest = np.maximum(high - center, center - low)
        bound = room(sampled) * np.where(farthest > 0, farthest, np.maximum(np.abs(center), 1.0))
        return cls(sampled, units, center, bound, standardize)

    @cached_property
    def rows(self) -> Double:
        rows = np.subtract(self.sampled.rows, self.center, dtype=np.float64)
        return rows if np.all(self.units == 1) else np.divide(rows, self.units, out=rows)

    def cells_at(self, points: Double, radius: float | None = None) -> CellSums:
        """The operator of cells around points, relative to the center and in units of errors."""
        operator = CellSums.at_points(
            points,
            bound=self.bound,
            center=self.center,
            units=self.units,
            units_of_errors=plain(self.units) if self.standardize else None,
            columns=self.sampled.columns,
            radius=radius,
        )
        return replace(operator, spread=_spread(operator.cells_of(self.sampled.rows), self.rows))


def _size(asked: CellsAsked, n: int, d: int, n_directions: int) -> tuple[int, bool]:
    """The number of cells, and whether there is room for squares of each column, which errors need."""
    k = asked.n_components
    # base 64 of 2 bytes for each number of a direction, of 4 for each of a cell; center and bound in digits
    fixed = d * (8 / 3 * n_directions + DIGITS_PER_COLUMN) + NOTE_BYTES
    wanted = min(max(CELLS_PER_CLUSTER * k, CELLS_WITH_MORE if asked.passive else LEAST_CELLS), n / ROWS_PER_CELL)
    left = MOST_FILE_BYTES - fixed
    most, most_squared = (left / (8 * width + 16 / 3 * n_directions) for width in (2 + d, 1 + 2 * d))
    columns_squared = asked.columns_squared or most_squared >= wanted
    return max(k, int(min(wanted, most_squared if columns_squared else most))), columns_squared


def _as_errors_see(rows: NDArray[Any], center: Double, units: Double, *, normalize: bool) -> Single:
    """Rows less the center, in units of errors, or divided by their lengths; in blocks, as they are many."""
    seen = np.empty(rows.shape, np.float32)
    for first in range(0, len(rows), ROWS_AT_ONCE):
        block: Double = (rows[first : first + ROWS_AT_ONCE] - center) / units
        if normalize:
            lengths = np.linalg.norm(block, axis=1)
            block /= np.where(lengths > 0, lengths, 1.0)[:, None]
        seen[first : first + ROWS_AT_ONCE] = block
    return seen


def _places_of(
    rows: NDArray[Any], center: Double, units: Double, directions: Single, counted: Any, *, normalize: bool
) -> Single:
    """Coordinates of rows in directions; in blocks, as they are many."""
    blocks = np.array_split(rows, range(ROWS_AT_ONCE, len(rows), ROWS_AT_ONCE))
    seen = (_as_errors_see(block, center, units, normalize=normalize)[:, counted] for block in blocks)
    return np.concatenate([block @ directions.T for block in seen])


def _cell_means(cells: NDArray[Any], rows: NDArray[Any]) -> tuple[Single, Double]:
    sizes = np.bincount(cells).astype(np.float64)
    inside = csc_array((np.ones(len(rows), np.float32), cells, np.arange(len(rows) + 1)), (len(sizes), len(rows)))
    return np.asarray(inside @ rows / np.maximum(sizes, 1)[:, None], np.float32), sizes


def _spread(cells: NDArray[np.intp], rows: NDArray[Any]) -> float:
    """The mean squared distance of other rows than those of the sample from the mean of their cell.

    Rows of the sample lie nearer to their own means, by 1 / n in a cell of n rows, and others farther by as much.
    """
    means, sizes = _cell_means(cells, rows)
    own, n, fitted = 0.0, len(rows), np.sum(sizes > 0)
    for first in range(0, n, ROWS_AT_ONCE):
        away = rows[first : first + ROWS_AT_ONCE] - means[cells[first : first + ROWS_AT_ONCE]]
        own += float(np.einsum("ij,ij->", away, away, dtype=np.float64))
    return own / n * float(n + fitted) / max(float(n - fitted), 1.0)


def _most_covarying(n_cells: int) -> int:
    """The most directions for whose covariances, in base 64, there is room."""
    return min(MOST_COVARYING, math.isqrt(int(NOTE_BYTES / (8 / 3 * n_cells))))


def _covariances(places: Single, cells: NDArray[np.intp], n_cells: int) -> str:
    """The size of each cell, and the covariance of other rows than the sample's about its mean; "" for few rows.

    The covariance of a cell is shrunk towards that of all, with the weight of as many rows as there are directions.
    """
    q = min(places.shape[1], _most_covarying(n_cells))
    places, n, sizes = places[:, :q], len(places), np.bincount(cells, minlength=n_cells)
    if n - np.sum(sizes > 0) < ROWS_PER_DIRECTION * q:
        return ""
    own, overall = np.zeros((n_cells, q, q)), np.zeros((q, q))
    for cell in np.flatnonzero(sizes > 1):
        here = places[cells == cell].astype(np.float64)
        left = here - here.mean(axis=0)
        own[cell] = left.T @ left
        overall += own[cell]
        own[cell] *= (sizes[cell] + 1) / (sizes[cell] - 1)
    overall *= (n + np.sum(sizes > 0)) / (n - np.sum(sizes > 0)) / n
    found = (own + q * overall) / (sizes + q)[:, None, None]
    i, j = np.tril_indices(q)
    return packed(np.column_stack([sizes, found[:, i, j]]), "<f4")


def principal_directions(
    rows: Single, k: int, n_directions: int | None, rng: np.random.Generator
) -> tuple[Single, Single]:
    """Principal directions of the rows, and the rows' coordinates in them.

    If no number is given, it is the least with which k clusters of held-out rows cost hardly more than in all columns.
    """
    n, d = rows.shape
    around = rows - rows.mean(axis=0)  # rows of length 1 lie around no center yet
    most = min(d, max(n - 1, 1), MOST_DIRECTIONS)
    p = min(most, n_directions or CANDIDATES[-1])
    seed = int(rng.integers(2**31))
    _, sizes, found = randomized_svd(around, p, n_iter=POWER_ITERATIONS, random_state=seed)
    alive = max(1, int(np.sum(sizes > 1e-6 * max(float(sizes[0]), 1e-300))))
    directions = found[:alive].astype(np.float32)
    if n_directions is None and d > WIDE:
        directions = directions[: enough_directions(around, around @ directions.T, k, rng)]
    return directions, rows @ directions.T


def enough_directions(rows: Single, places: Single, k: int, rng: np.random.Generator) -> int:
    """The number of directions that distinguish clusters, by the cost of cells of one half for rows of the other."""
    n, most = places.shape
    mixed = rng.permutation(n)
    known, other = mixed[: n // 2], mixed[n // 2 :]
    candidates = [p for p in CANDIDATES if p < most]
    if not candidates or len(known) < 2 * k:
        return most
    found = KMeansOfRows(places[known])
    seen = found.lloyd(found.starts(k, rng), ROUGH_TOLERANCE)[0]
    labels, points = found.assign(seen)[0], found.centers_of(seen)
    means, _ = _cell_means(labels, rows[known])
    means = np.concatenate([means, np.zeros((k - len(means), rows.shape[1]), np.float32)])

    def cost(p: int) -> float:
        own = nearest(places[other, :p], points[:, :p])[0]
        return float(np.mean(np.sum((rows[other] - means[own]) ** 2, axis=1)))

    least = cost(most)
    return next((p for p in candidates if cost(p) <= (1 + ADDED_ERROR) * least), most)


def cell_points(places: Single, k: int, n_cells: int, rng: np.random.Generator) -> Single:
    """Points of cells for a sample: the centers of its k-means, each split in two, and again.

    The points of a cluster lie close to its center, so that the borders of cells are those of clusters, and planes
    through the center across the cluster's long axes. The cells of a cluster, joined again, have the means of another
    step of k-means over all records: on images of digits that was worth more than many finer cells.
    """
    centers = np.unique(kmeans(places, k, rng).astype(np.float32), axis=0)
    labels, found = nearest(places, centers)[0], []
    costs = np.bincount(labels, np.sum((places - centers[labels]) ** 2, axis=1), minlength=len(centers))
    halvings = int(math.log2(max(n_cells / k, 1)))
    once_more = np.argsort(-costs, kind="stable")[: (n_cells >> halvings) - k]  # what cells are left, for the widest
    for i, center in enumerate(centers):
        own = places[labels == i] - center
        _, sizes, axes = np.linalg.svd(own / math.sqrt(max(len(own), 1)), full_matrices=False)
        offsets = np.zeros((1, places.shape[1]))
        for size, axis in zip(sizes[: halvings + (i in once_more)], axes, strict=False):
            offsets = np.concatenate([offsets + size * axis, offsets - size * axis])
        found.append(center + CLOSENESS * offsets)
    return np.unique(np.concatenate(found).astype(np.float32), axis=0)


def whole_directions(directions: Single, bound: float, places: Single) -> tuple[NDArray[np.int64], int, float]:
    """Directions as whole numbers, the number of bits by which projections are shifted, and steps per unit."""
    largest = float(np.max(np.abs(directions)))
    scaled = np.rint(directions.astype(np.float64) * (2**DIRECTION_BITS / largest)).astype(np.int64)
    # a row of size one, in units, is 2^22 / bound steps, and its projection 2^14 / largest times as many
    steps = 2.0 ** (VALUE_BITS + DIRECTION_BITS) / (bound * largest)
    farthest = max(float(np.max(np.abs(places))), 1e-300) * PLACE_ROOM * steps
    shift = max(0, math.ceil(math.log2(farthest / 2**PLACE_BITS))) if farthest > 0 else 0
    return scaled, shift, steps * 2.0**-shift


MOST_UNEVEN = 64.0  # The widest direction keeps 8 bits of its numbers.


def moments_in_directions(sampled: DesignSample, n_directions: int, seed: int) -> SomeDirections:
    """Second moments of coordinates in this number of principal directions of a sample."""
    around = (sampled.rows - sampled.rows.mean(axis=0)).astype(np.float32)
    directions, _ = principal_directions(around, 1, n_directions, np.random.default_rng(seed))
    return in_directions(sampled, directions, np.ones(around.shape[1]))


def in_directions(sampled: DesignSample, directions: Single, units: Double) -> SomeDirections:
    """Second moments of coordinates in directions (p, d), of rows less the sample's mean, in units."""
    rows, (p, d) = sampled.rows, directions.shape
    center = rows.mean(axis=0).astype(np.float32).astype(np.float64)
    seen = (rows - center) / units
    bound = room(sampled) * (float(np.max(np.abs(seen))) or 1.0)
    farthest = np.max(np.abs(seen @ directions.T), axis=0)
    # Places have one range in all directions, so that fixed point, and the noise of a release, suit each.
    even = directions / np.maximum(farthest, max(float(farthest.max()), 1e-300) / MOST_UNEVEN)[:, None]
    scaled, shift, _ = whole_directions(even, bound, seen @ even.T)
    return SomeDirections(
        d,
        inner_operator=SecondMoments(p, bound=(2.0**PLACE_BITS,) * p, outside=CLIP),  # No place is outside.
        n_directions=p,
        directions=packed(scaled, "<i2"),
        shift=shift,
        bound=plain(bound * units),
        center=plain(center),
        columns=sampled.columns,
    )
