"""Sums of all columns by Voronoi cell: a step of Lloyd's algorithm at a pilot, in one exact pass.

A row counts in the cell whose point is nearest, with all of its values. Of many columns, the nearest point is that in a
few directions of a sample. With a radius, there is a step of Weiszfeld's algorithm towards the cell's geometric median,
too: with a = x - p in error units, the sums of |a|, of 1 / max(|a|, radius), and of a / max(|a|, radius).
docs/reference/arithmetic.md has every operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Single, Weights
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.limits import Cost
from sketchlearn.core.messages import counted
from sketchlearn.core.values import choice, floats, listed, number, positive, truth, whole
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import CLIP, FIXED_POINT, SMALLEST_SINGLE_BOUND, VALUE_BITS, Boxed
from sketchlearn.features.directions import (
    MOST_CELLS,
    PLACE_BITS,
    Directed,
    checked_covariances,
    packed,
    unpacked,
    unpacked_rows,
)
from sketchlearn.features.operator import CountingOperator
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import Cells, cells_in_columns, cells_in_directions
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import CellsPlan, ColumnCellsPlan
from sketchlearn.sketch.priority_sample import Keeping

PULL_UNIT = 2.0**29  # of a unit vector's length
LONGEST_STEP = 1.75  # times Weiszfeld's: of one column
SQUARE_BITS = 16  # of a value whose squares are added up
WIDEST = 2.0**20  # times the bound of a sample, that rows at hand may have


def _packed_points(points: Double, reaches: Double) -> str:
    """The cells of points in error units from the center, within which columns reach so far."""
    seen = points / np.max(reaches)  # so that float32 has all squares
    slopes = seen * (reaches / np.max(reaches) / 2.0**VALUE_BITS)
    return packed(np.column_stack([slopes, 0.5 * np.sum(seen * seen, axis=1)]), "<f4")


@dataclass(frozen=True)
class CellSums(CountingOperator, Directed):
    """Phi(x) = (1, y, and what is left of its square) at the cell of x, y = (x - center) / bound; 0 at all other cells.

    Exact counts and means of all columns in each Voronoi cell, for clusters. `design` makes it.

    Parameters
    ----------
    n_features : number d of columns of the data.
    n_directions : number p of principal directions in which rows are assigned to cells; 0 for the columns themselves.
    directions, cells : whole numbers, p rows of d and any number of rows of p, as `packed` writes them. In the columns
        themselves there are no directions, and a cell is d + 1 numbers of float32: its p and its h.
    shift : D v is divided by 2^shift before it is compared with cells.
    normalize : divide each row by its length first; bound is 1 then, and there is no center. Rows of zeros stay.
    squares : "sum" adds up the squares of a row's values, "columns" keeps those of each column, for variances.
    bound, center, outside, columns : as those of `SecondMoments`; values beyond the bound are clipped by default.
    spread : mean squared distance, in units, of a sample's rows from their cell's mean; 0 if unknown. Not compared.
    covariances : those of a sample's rows about the mean of their cell, in the units of the cells, in all or the first
        directions; for each cell the number of its rows and the lower triangle, as `packed` writes them in "<f4"; "" if
        unknown. Not compared.
    units : the unit in which squared errors of each column are counted, None for the columns as they are. Not compared.
    along : positions of passive columns: directions and squared errors ignore them, and their sums are known all the
        same. They need squares="columns".
    radius : for medians, in the columns themselves: the distance below which rows count as if they lay that far from
        their cell's point, in error units. None for means alone.
    keeping : the rule of the priority sample of rows, None for none. Not compared.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = np.repeat(np.eye(100)[:2], 4, axis=0)
    >>> operator = skl.design(rows, n_components=2, features=skl.features.Cells())
    >>> operator.in_words
    'means and squares of 100 columns in 2 Voronoi cells of 1 direction'
    >>> counts, means, _ = operator.split(operator.sketch(rows).mean)
    >>> counts.tolist(), np.sort(means[:, 0]).round(6).tolist()
    ([0.5, 0.5], [0.0, 1.0])
    """

    abilities = frozenset({Ability.CLUSTERS, Ability.PROFILES})
    _omitted: ClassVar[dict[str, Any]] = {
        **dict.fromkeys(("columns", "units", "keeping", "along", "radius")),
        **dict.fromkeys(("n_directions", "shift", "normalize", "spread"), 0),
        **dict.fromkeys(("directions", "covariances"), ""),
        "outside": CLIP,
        "squares": "sum",
    }
    _describe_sample = ("spread", "covariances")
    cells: str = field(kw_only=True)
    n_directions: int = field(default=0, kw_only=True)
    directions: str = field(default="", kw_only=True)
    shift: int = field(default=0, kw_only=True)
    outside: str = field(default=CLIP, kw_only=True)
    normalize: bool = field(default=False, kw_only=True)
    squares: str = field(default="sum", kw_only=True)
    along: tuple[int, ...] | None = field(default=None, kw_only=True)
    radius: float | None = field(default=None, kw_only=True)
    spread: float = field(default=0.0, compare=False, kw_only=True)
    covariances: str = field(default="", compare=False, kw_only=True)
    units: tuple[float, ...] | None = field(default=None, compare=False, kw_only=True)
    keeping: Keeping | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("squares", self.squares, "sum", "columns")
        normalize, d = truth("normalize", self.normalize), self.n_features
        if self.in_columns:
            self._check_single_bounds()
            if self.shift != 0 or self.squares != "columns" or normalize or self.along is not None:
                raise ValueError("cells in the columns need squares of each column, and no shift, normalize or along")
            self._set(n_directions=0, shift=0)
            directions, p = np.zeros((0, d)), d
            if self.n_cells > MOST_CELLS or not np.all(np.isfinite(self._scores)):
                raise ValueError(f"cells must be at most {MOST_CELLS:,} rows of {d + 1} finite numbers")
        else:
            directions = self._check_directions()
            p = len(directions)
            points = unpacked("cells", self.cells, "<i4", None)
            whole_rows = len(points) and len(points) % p == 0 and len(points) <= p * MOST_CELLS
            if not whole_rows or np.max(np.abs(points)) > 2**PLACE_BITS:
                raise ValueError(f"cells must be rows of {p} whole numbers up to {2**PLACE_BITS:,}")
        if normalize and (self.center is not None or set(self.bound) != {1.0}):
            raise ValueError("rows that are divided by their length have a bound of 1 and no center")
        if self.covariances != "":
            checked_covariances(self.covariances, self.n_cells, p)
        if number("spread", self.spread) < 0:
            raise ValueError(f"spread must not be negative, not {self.spread}")
        units = None if self.units is None else floats("units", self.units, d, positive)
        along = self._checked_along(directions)
        self._set(spread=float(self.spread), along=along, normalize=normalize, units=units)
        if self.radius is None:
            return
        if not self.in_columns:
            raise ValueError("radius is for cells in the columns themselves")
        radius, reach = positive("radius", self.radius), float(np.max(self._reaches))
        if not SMALLEST_SINGLE_BOUND * reach <= radius <= reach:
            raise ValueError(f"radius must lie below the largest bound, {reach:g}, and not too far, not {radius!r}")
        self._set(radius=radius)
        if self._medians is None or not np.all(np.isfinite(self._medians[0])):
            raise ValueError("cells lie beyond what float32 can hold")

    def _checked_along(self, directions: NDArray[Any]) -> tuple[int, ...] | None:
        """The positions of passive columns, in order; refuses those that directions use."""
        if self.along is None:
            return None
        given = [whole("along", position, 0, self.n_features - 1) for position in listed(self.along)]
        found = tuple(sorted(set(given)))
        if not 0 < len(found) == len(given) < self.n_features or np.any(directions[:, list(found)]):
            wrong = "must be different positions of some columns, of which directions are 0"
            raise InvalidValueError(wrong, parameter="along")
        if self.squares != "columns" or self.normalize:
            raise ValueError("passive columns (along) need squares of each column, and rows that are not normalized")
        return found

    @cached_property
    def counted(self) -> NDArray[np.intp]:
        """Positions of the columns whose squared errors count: all but the passive ones."""
        return np.setdiff1d(np.arange(self.n_features), self.along or ())

    @property
    def in_columns(self) -> bool:
        """Whether rows are assigned to cells by the columns themselves."""
        return isinstance(self.n_directions, int) and self.n_directions == 0 and self.directions == ""

    @property
    def n_cells(self) -> int:
        """How many cells there are."""
        return len(self._scores if self.in_columns else self._points)

    @cached_property
    def _scores(self) -> NDArray[np.float32]:
        """Of each cell in the columns themselves, p and h."""
        return unpacked_rows("cells", self.cells, self.n_features + 1)

    @property
    def _points_and_halves(self) -> tuple[Single, Single]:
        return np.ascontiguousarray(self._scores[:, :-1]), np.ascontiguousarray(self._scores[:, -1])

    @cached_property
    def _native(self) -> Cells:
        """The cells as native kernels take them."""
        if not self.in_columns:
            return cells_in_directions(self._directions, self._points, self.squares == "columns")
        cells = kernel.active, self.middle, self._single_scale, *self._points_and_halves, self.outside != CLIP
        return cells_in_columns(*cells, *(self._medians or ()))

    @property
    def _medians(self) -> tuple[Single, Single, float, float] | None:
        """For medians, in error units over the largest reach of a column.

        The points of cells, what v is times to be in these units, the radius, and the unit of distances.
        """
        if self.radius is None:
            return None
        longest_reach = np.max(self._reaches)
        factors = (self._reaches / longest_reach / 2.0**VALUE_BITS).astype(np.float32)
        with np.errstate(over="ignore", divide="ignore", invalid="ignore"):
            places = (self._scores[:, :-1].astype(np.float64) / factors).astype(np.float32)
        return places, factors, float(np.float32(self.radius / longest_reach)), PULL_UNIT / self._longest

    @property
    def _longest(self) -> float:
        """A power of two that no distance within the bounds is larger than, in those units."""
        return 2.0 ** math.ceil(math.log2(2 * math.sqrt(self.n_features)))

    @cached_property
    def _reaches(self) -> Double:
        """How far each column may lie from the center, in error units."""
        return np.array(self.bound) / self._error_units

    @property
    def _error_units(self) -> Double:
        return np.ones(self.n_features) if self.units is None else np.array(self.units)

    @property
    def points(self) -> Double:
        """The points of cells in the columns themselves, (cells, columns)."""
        factors = np.max(self._reaches) ** 2 * 2.0**VALUE_BITS / self._reaches
        return np.asarray(self.middle + self._scores[:, :-1] * factors * np.array(self.bound) / self._reaches)

    def moved_to(self, points: Double) -> Self:
        """The same operator of cells around other points, for another pass."""
        cells = _packed_points((points - self.middle) / self._error_units, self._reaches)
        return replace(self, cells=cells, spread=0.0, covariances="").with_origin(self.origin)

    def widened(self, low: Double, high: Double) -> Self:
        """The same cells, of rows that all lie between these: none is clipped, but those a million times as far."""
        bound = np.array(self.bound)
        reach = np.maximum(high - self.middle, self.middle - low) * (1 + 2.0**-20)  # for float32
        reach = np.minimum(reach, WIDEST * bound)
        wider = np.where(reach > 0, reach, bound)
        scores = self._scores * (np.max(self._reaches) / np.max(self._reaches * wider / bound)) ** 2
        scores[:, :-1] *= wider / bound
        return replace(self, bound=tuple(map(float, wider)), cells=packed(scores, "<f4"), covariances="")

    @classmethod
    def at_points(
        cls,
        points: Double,
        *,
        bound: Double,
        center: Double,
        units: Double,
        units_of_errors: tuple[float, ...] | None = None,
        **options: Any,
    ) -> Self:
        """The operator of cells around points, (cells, columns), in error units from the center."""
        bounds, middle = tuple(map(float, bound)), tuple(map(float, center))
        given = {"cells": _packed_points(points, bound / units), "units": units_of_errors, **options}
        return cls(len(middle), bound=bounds, center=middle, squares="columns", **given)

    @property
    def in_words(self) -> str:
        if self.in_columns:
            what = "means and squares" if self.radius is None else "means, squares and steps towards medians"
            return f"{what} of {self.n_features:,} columns in {self.n_cells:,} Voronoi cells"
        p = counted(self.n_directions, "direction")
        what = "means" if self.squares == "sum" else "means and squares"
        rows = " of rows of length 1" if self.normalize else ""
        cells = f"{self.n_cells:,} Voronoi cells of {p}"
        cells += "" if self.along is None else f" of {len(self.counted):,} columns"
        return f"{what} of {self.n_features:,} columns{rows} in {cells}"

    @property
    def _n_moments(self) -> int:
        """How many sums a cell has for its count, squares, and values."""
        return 1 + self.n_features + (1 if self.squares == "sum" else self.n_features)

    @property
    def width(self) -> int:
        """How many sums a cell has: those, and what medians need."""
        return self._n_moments + (0 if self.radius is None else 2 + self.n_features)

    @property
    def n_sums(self) -> int:
        return self.n_cells * self.width

    def add_remove_sensitivity(self) -> Sensitivity:
        if not self.normalize:
            return Sensitivity.of_integers(self.width, FIXED_POINT)
        d, step = self.n_features, FIXED_POINT / 2**VALUE_BITS  # to which values are rounded
        # A row of length 1 has values of an L1 norm up to sqrt(d), and squares that add up to 1 before rounding; of
        # those that are averaged, values are rounded to 2^-16, which adds up to 2^-16 sqrt(d) to their length.
        values = (FIXED_POINT * math.sqrt(d) + step * d, FIXED_POINT + step * math.sqrt(d))
        longest = 1 + math.sqrt(d) / 2**SQUARE_BITS
        squares = FIXED_POINT * longest**2 / d + 1 if self.squares == "sum" else values[1] ** 2 / FIXED_POINT + d
        l1 = FIXED_POINT + values[0] + squares
        l2 = math.sqrt(FIXED_POINT**2 + values[1] ** 2 + squares**2)
        return Sensitivity.of_norms(l1, l2, n=self.width, largest=FIXED_POINT)

    def replace_one_sensitivity(self) -> Sensitivity:
        return self.add_remove_sensitivity().counted(2)  # in another cell, perhaps

    @cached_property
    def _points(self) -> Double:
        return unpacked("cells", self.cells, "<i4", None).astype(np.float64).reshape(-1, self.n_directions)

    @cached_property
    def sampled_cells(self) -> tuple[Double, Double] | None:
        """Of each cell, how many rows of the design's sample it has, and their covariance; None if unknown."""
        if self.covariances == "":
            return None
        return checked_covariances(self.covariances, self.n_cells, self.n_directions or self.n_features)

    @property
    def projection(self) -> Double:
        if not self.in_columns:
            return super().projection
        return np.diag(self._reaches / np.array(self.bound) / np.max(self._reaches))

    def of_length_one(self, rows: Rows) -> Double:
        """Rows divided by their lengths, in the precision in which they are summed."""
        values = np.empty(rows.shape)
        self._directions.values(rows, 1, values)
        return values / 2.0**VALUE_BITS

    def cells_of(self, rows: Rows) -> NDArray[np.intp]:
        """The cell of each row; of those after one that is refused, any."""
        labels = np.zeros(len(rows), np.int32)
        self._native.nearest(rows, 1, labels)
        return labels.astype(np.intp)

    def device_plan(self, owner: Device) -> CellsPlan | ColumnCellsPlan:
        if self.in_columns:
            return ColumnCellsPlan(owner, *self._points_and_halves, self.middle, self._single_scale, self._medians)
        bound = np.array(self.bound)
        return CellsPlan(
            owner,
            self._matrix,
            self._points,
            middle=self.middle,
            bound=bound,
            factor=2.0**VALUE_BITS / bound,
            place_unit=2.0**-self.shift,
            # what the sum of a row's squares, in steps of 2^-16, is times
            square_unit=FIXED_POINT / 2.0 ** (2 * SQUARE_BITS) / self.n_features,
            normalize=self.normalize,
            by_column=self.squares == "columns",
        )

    def add_counted(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> tuple[int, int]:
        return self._native.add(rows, weights, threads, sums)

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int64)
        return integers, self._native.write(rows, threads, integers)

    def _is_outside(self, rows: Rows) -> NDArray[np.bool_]:
        if not self.in_columns:
            return super()._is_outside(rows)
        rows = rows if rows.dtype in (np.float32, np.float64) else rows.astype(np.float64)
        away = (rows - self.middle.astype(rows.dtype)).astype(np.float32)
        return np.asarray(np.any(np.abs(away * self._single_scale) > 2.0**VALUE_BITS, axis=1))

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        if self.in_columns:
            return Boxed.beyond(self, rows)
        return np.zeros(len(rows), bool) if self.normalize else super().beyond(rows)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        b = np.array(self.bound)
        factors = [[1.0], [1.0] if self.squares == "sum" else b * b, b]
        if self.radius is not None:
            distance = self._longest * float(np.max(self._reaches))
            factors.append([FIXED_POINT / PULL_UNIT * factor for factor in (distance, *[1.0] * (1 + self.n_features))])
        return np.asarray(sums * np.tile(np.concatenate(factors) / FIXED_POINT, self.n_cells))

    def split(self, values: Double) -> tuple[Double, Double, Double]:
        """Of a mean feature vector: each cell's share of the records, its mean row, and its squares.

        Squares are mean squares about the cell's mean row: of all columns together, in error units, or column by
        column. Of cells without records, all is 0.
        """
        table, d = values.reshape(self.n_cells, -1)[:, : self._n_moments], self.n_features
        shares = np.maximum(table[:, 0], 0)
        inverse = np.divide(1.0, shares, out=np.zeros_like(shares), where=shares > 0)[:, None]
        away, squares = table[:, -d:] * inverse, table[:, 1:-d] * inverse
        if self.squares == "columns":
            left = np.maximum(squares - away * away, 0)
        else:
            scale = self._reaches[0]  # the bound is as many units in each column
            left = np.maximum(d * scale**2 * squares[:, 0] - np.sum((away / self._error_units) ** 2, axis=1), 0)
        return shares, (away + self.middle) * (shares > 0)[:, None], left

    def weiszfeld_step(self, values: Double) -> tuple[Double, float, float]:
        """Of a mean feature vector: the points of cells after a step towards their medians.

        Beside them, the mean distance of all records from the points before, and by how much the step lowers it at
        least, where distances below the radius are smoothed. Points of cells without records stay. The step is
        d / (d - 1) times Weiszfeld's, which is Newton's where records lie alike in all directions; any below 2 lowers
        the sum.
        """
        assert self.radius is not None
        table = values.reshape(self.n_cells, -1)[:, self._n_moments :]
        distances, pulls, towards = table[:, 0], np.maximum(table[:, 1], 0.0), table[:, 2:]
        moves = self.radius * np.divide(towards, pulls[:, None], out=np.zeros_like(towards), where=pulls[:, None] > 0)
        length = min(self.n_features / max(self.n_features - 1, 1e-9), LONGEST_STEP)
        gain = length * (2 - length) * float(pulls @ np.sum(moves * moves, axis=1)) / (2 * self.radius)
        return self.points + length * self._error_units * moves, float(distances.sum()), gain

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        table = sums.reshape(self.n_cells, -1)
        counts = table[:, 0]
        if np.any(counts < 0) or sum(counts.tolist()) != FIXED_POINT * units:
            return f"the counts of the cells do not add up to {units:,} records (or weight steps)"
        if np.any((table > counts[:, None]) | (table < -counts[:, None])):  # no copy in 64 bits: a file may be large
            return "the sums of a cell are larger than its records can add up to"
        return None

    @property
    def cost(self) -> Cost:
        return Cost.of_numbers(len(self.directions) + len(self.cells) + self.n_sums, operations_each=10)
