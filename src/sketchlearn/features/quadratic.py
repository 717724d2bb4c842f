"""Squares of random projections: linear in the second-moment matrix."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Weights
from sketchlearn.core.limits import Cost
from sketchlearn.core.randomness import Stream, lengths, normal_cost, squares
from sketchlearn.core.values import positive, whole
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import REFUSE, Bounded, larger_bound
from sketchlearn.features.operator import of
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.features.structured import float32_cost
from sketchlearn.features.waves import FIXED_POINT
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import Plan, dense_plan
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import DensePlan, PlannedWaves

NUMERICAL_MARGIN = 1 + 1e-6  # Far above the errors of eigenvalues in float64.
LARGEST_MATRIX = 2048  # The largest eigenvalue of a matrix of so many rows takes half a second.
MOST_MATRICES = 16
DIRECTIONS_PER_BLOCK = 1024
SMALLEST_PROVED = 512  # For smaller matrices, all eigenvalues are faster than a proof for the largest one.
PROOF_MARGIN = 1e-3  # The estimate's own error is a tenth of this.


@dataclass(frozen=True)
class QuadraticEnergy:
    """Bounds for rows of length 1, before rounding.

    Attributes
    ----------
    squares : of sum_j t_j^2.
    replaced_squares : of sum_j |t_j^2 - s_j^2|, s_j the projections of another row.
    fourth_powers : of sum_j t_j^4.
    replaced_fourth_powers : of sum_j (t_j^2 - s_j^2)^2.
    """

    squares: float
    replaced_squares: float
    fourth_powers: float
    replaced_fourth_powers: float

    @classmethod
    def of_directions(cls, w: Double) -> QuadraticEnergy:
        """Of directions w (n_features, n_directions) of length about 1.

        >>> of = QuadraticEnergy.of_directions(np.eye(2))
        >>> round(of.squares, 4), round(of.replaced_squares, 4)
        (1.0, 2.0)
        """
        d = len(w)
        small = w if d > w.shape[1] else w.T
        second, first = [0.0, *np.linalg.eigvalsh(small.T @ small).tolist()][-2:]
        squares, pair = first * NUMERICAL_MARGIN, (first + max(second, 0.0)) * NUMERICAL_MARGIN
        lengths = np.einsum("ij,ij->j", w, w)
        largest = float(lengths.max()) * NUMERICAL_MARGIN  # of all squares, and so of their changes: about 1
        alone = squares * largest
        spread = _spread_of_squares(w)
        mean = (2 * alone - float(lengths @ lengths) / d) / d + (NUMERICAL_MARGIN - 1) * squares
        fourth = min(alone, mean + spread * (1 - 1 / d))
        return cls(squares, pair, fourth, min(2 * fourth, pair * largest, max(fourth, 2 * spread)))


def _spread_of_squares(w: Double) -> float:
    """The most that sum_j (w_j' M w_j)^2 can be for symmetric M of trace 0 and sum of squares 1; infinite if unknown.

    An eigenvalue of the matrix of products of the w_j w_j' less their traces: of all of them, or added up over some at
    a time, which is more than that of all.
    """
    d, m = w.shape
    if d * (d + 1) // 2 <= min(m, LARGEST_MATRIX):
        return _largest_eigenvalue(_gram_of_entries(w))
    if m > MOST_MATRICES * LARGEST_MATRIX:
        return math.inf
    return sum(map(_largest_eigenvalue, _grams_of_directions(w)))


def _gram_of_entries(w: Double) -> Double:
    """Products of any two entries of w_j w_j' less its trace, added up over j; entries off the diagonal count twice."""
    d = len(w)
    a, b = np.tril_indices(d)
    weights = np.where(a == b, 1.0, math.sqrt(2))[:, None]
    gram = np.zeros((len(a), len(a)))
    for first in range(0, w.shape[1], DIRECTIONS_PER_BLOCK):
        some = w[:, first : first + DIRECTIONS_PER_BLOCK]
        entries = some[a] * some[b] * weights
        entries[a == b] -= np.einsum("ij,ij->j", some, some) / d
        gram += entries @ entries.T
    return gram


def _grams_of_directions(w: Double) -> Iterator[Double]:
    """Products of the matrices w_j w_j' less their traces with each other: (w_j . w_k)^2 - |w_j|^2 |w_k|^2 / d."""
    d, m = w.shape
    for some in np.array_split(w, -(-m // LARGEST_MATRIX), axis=1):
        products = some.T @ some
        lengths = np.diagonal(products)
        yield products**2 - np.multiply.outer(lengths, lengths) / d


def _largest_eigenvalue(matrix: Double) -> float:
    """An upper bound of the largest eigenvalue of a positive semidefinite matrix, within two thousandths of it.

    Lanczos' method finds it from below, and Cholesky's shows that there is none above.

    >>> round(_largest_eigenvalue(np.diag(np.arange(600.0))), 1)
    599.6
    """
    if len(matrix) <= SMALLEST_PROVED:
        return max(0.0, float(np.linalg.eigvalsh(matrix)[-1])) * NUMERICAL_MARGIN
    from scipy.sparse.linalg import eigsh  # SciPy takes a while to import

    start = np.random.default_rng(0).standard_normal(len(matrix))
    found = float(eigsh(matrix, 1, v0=start, tol=PROOF_MARGIN / 10, return_eigenvectors=False)[0])
    while True:
        found *= 1 + PROOF_MARGIN
        try:
            np.linalg.cholesky(found * np.eye(len(matrix)) - matrix)
        except np.linalg.LinAlgError:
            continue
        return found * NUMERICAL_MARGIN


CLIPPED_LENGTH = 1 - 2.0**-20  # In units of the bound: float32 could round a clipped row of length 1 to beyond it.


@dataclass(frozen=True)
class QuadraticFeatures(Bounded):
    """Phi_j(x) = (omega_j . (x - center))^2, omega_j uniform on the sphere of radius sqrt(n_features).

    Parameters
    ----------
    n_features : number of columns of the data.
    n_directions : number m of random directions.
    bound : no row may be further than this from the center, so that the fixed point holds its features.
    center : subtracted from each row, rounded to float32.
    outside : "refuse" rows beyond the bound, or "clip" them: move them towards the center, as private releases need.
    seed : all random numbers follow from it.
    columns : names of the columns, for tables that have names.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.features.QuadraticFeatures(3, 20, bound=2.0)
    >>> operator.sketch(np.eye(3)).mean.shape
    (20,)
    """

    abilities = frozenset({Ability.PROJECTED_COMPONENTS})
    _words = "squares of {0.n_directions:,} random projections of {0.n_features:,} columns, seed {0.seed}"
    _center_type = np.float32
    n_sums = of("n_directions")
    n_features: int
    n_directions: int
    _: KW_ONLY
    bound: float
    center: tuple[float, ...] | None = None
    outside: str = REFUSE
    seed: int = 0
    columns: tuple[str, ...] | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(
            n_directions=whole("n_directions", self.n_directions, most=2**31),
            bound=positive("bound", self.bound),
            seed=whole("seed", self.seed, 0, 2**64 - 1),
        )

    @cached_property
    def _energy(self) -> QuadraticEnergy:
        return QuadraticEnergy.of_directions(self.directions / math.sqrt(self.n_features))

    def add_remove_sensitivity(self) -> Sensitivity:
        return self._in_integers(self._energy.squares, self._energy.fourth_powers, rows=1)

    def replace_one_sensitivity(self) -> Sensitivity:
        return self._in_integers(self._energy.replaced_squares, self._energy.replaced_fourth_powers, rows=2)

    def _in_integers(self, l1: float, l2_squared: float, rows: int) -> Sensitivity:
        """Norms of the change of integers, from those of the true change, with the rounding errors of some rows."""
        m, energy, error = self.n_directions, self._energy.squares, (self.n_features + 3) * 2.0**-24
        rounding = 0.5  # of the last product; t * 2^20 is exact
        of_t = 2 * error * math.sqrt(energy) + math.sqrt(m) * error**2  # L2; times sqrt(m) in L1
        l1 = FIXED_POINT * (l1 + rows * math.sqrt(m) * of_t) + rows * m * rounding
        l2 = FIXED_POINT * (math.sqrt(l2_squared) + rows * of_t) + rows * math.sqrt(m) * rounding
        return Sensitivity.of_norms(l1, l2, n=m, largest=self.largest_contribution)

    @property
    def largest_contribution(self) -> int:
        # |t| <= 1 but for the rounding of n_features products and of the direction's own length.
        return math.ceil(FIXED_POINT * (1 + (self.n_features + 2) * 2.0**-23) ** 2)

    @cached_property
    def _directions(self) -> NDArray[np.float32]:
        """Unit vectors over the bound, so that projections are at most 1."""
        vectors = Stream(self.seed, "directions").normal(self.n_features * self.n_directions)
        columns = vectors.reshape(self.n_features, self.n_directions)
        with np.errstate(all="ignore"):
            columns /= lengths(columns) * self.bound
            scaled = columns.astype(np.float32)
        if not np.all(np.isfinite(scaled)) or self.bound > kernel.LIMIT:
            raise ValueError(f"bound {self.bound:g} is beyond what float32 projections hold: rescale the data")
        return scaled

    @property
    def directions(self) -> Double:
        """The directions omega: shape (n_features, n_directions)."""
        return self._directions.astype(np.float64) * (self.bound * math.sqrt(self.n_features))

    @property
    def cost(self) -> Cost:
        n = self.n_features * self.n_directions
        each_row = Cost(24 * self.n_directions, 3000 * self.n_features + 4 * n)
        return (normal_cost(n) + each_row).then(float32_cost(n) + Cost.of_numbers(n))

    def random_parts(self) -> list[NDArray[Any]]:
        return [self._directions]

    @cached_property
    def _plan(self) -> Plan:
        return dense_plan(kernel.active, *self._planned, self._directions)

    @property
    def _planned(self) -> PlannedWaves:
        center, no_dither = self.middle.astype(np.float32), np.zeros(self.n_directions, np.float32)
        return PlannedWaves("quadratic", center, no_dither, self.bound, [], 0, 1)

    def device_plan(self, owner: Device) -> DensePlan:
        return DensePlan(owner, self._planned, self._directions)

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
        return self._plan.add(self.within(rows), weights, threads, sums)

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int32)
        return integers, self._plan.write(self.within(rows), threads, integers)

    def _is_outside(self, rows: Rows) -> NDArray[np.bool_]:
        y = (rows - self.middle.astype(rows.dtype)).astype(np.float32).astype(np.float64)
        return np.asarray(squares(y.T) > self.bound**2)

    def _moved(self, rows: Double) -> Double:
        away = rows - self.middle
        away /= np.max(np.abs(away), axis=1, keepdims=True)  # squares of large numbers would overflow
        return np.asarray(self.middle + away * (self.bound * CLIPPED_LENGTH / np.sqrt(squares(away.T)))[:, None])

    def mean_of(self, sums: Double) -> NDArray[Any]:
        return sums * (self.bound**2 * self.n_features / FIXED_POINT)

    def explain_refusal(self, row: Double) -> str:
        away = row - self.middle
        column, distance = int(np.argmax(np.abs(away))), float(np.linalg.norm(away))
        place = f"{distance!r} from the center, beyond the bound {self.bound!r}"
        return f"column {column} and the others put it {place}: {larger_bound()}"
