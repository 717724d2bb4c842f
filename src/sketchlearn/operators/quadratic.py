"""Squares of random projections: linear in the second-moment matrix."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn._native import Plan, dense_plan
from sketchlearn.cost import Cost
from sketchlearn.gpu import DensePlan, Device, PlannedWaves
from sketchlearn.operators.bounded_operators import REFUSE, REMEDY, Bounded
from sketchlearn.operators.operator_base import Double, Integers
from sketchlearn.operators.projected import Projected, float32_cost
from sketchlearn.operators.quadratic_energy import QuadraticEnergy
from sketchlearn.randomness import Stream, lengths, normal_cost, squares
from sketchlearn.sensitivity import Sensitivity
from sketchlearn.values import positive, whole
from sketchlearn.waves import FIXED_POINT

CLIPPED_LENGTH = 1 - 2.0**-20  # In units of the bound: float32 could round a clipped row of length 1 to beyond it.


@dataclass(frozen=True)
class QuadraticFeatures(Bounded, Projected):
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
    >>> operator = skl.QuadraticFeatures(3, 20, bound=2.0)
    >>> operator.sketch(np.eye(3)).mean.shape
    (20,)
    """

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

    @property
    def in_words(self) -> str:
        projections = f"{self.n_directions:,} random projections of {self.n_features:,} columns"
        return f"squares of {projections}, seed {self.seed}"

    @cached_property
    def _energy(self) -> QuadraticEnergy:
        return QuadraticEnergy.of_directions(self.directions / math.sqrt(self.n_features))

    def change_by_record(self) -> Sensitivity:
        energy = self._energy
        return self._in_integers(energy.squares, math.sqrt(energy.fourth_powers), rows=1)

    def change_by_replacement(self) -> Sensitivity:
        energy = self._energy
        return self._in_integers(energy.replaced_squares, math.sqrt(energy.replaced_fourth_powers), rows=2)

    def _in_integers(self, l1: float, l2: float, rows: int) -> Sensitivity:
        """Norms of the true change as norms of what changes in integers, of so many rows with their errors."""
        m, energy, error = self.n_directions, self._energy.squares, (self.n_features + 3) * 2.0**-24
        rounding = 0.5  # of the last product; t * 2^20 is exact
        of_t = 2 * error * math.sqrt(energy) + math.sqrt(m) * error**2  # L2; times sqrt(m) in L1
        l1 = FIXED_POINT * (l1 + rows * math.sqrt(m) * of_t) + rows * m * rounding
        l2 = FIXED_POINT * (l2 + rows * of_t) + rows * math.sqrt(m) * rounding
        return Sensitivity.of_norms(l1, l2, n=m, largest=self.ceiling)

    @property
    def n_sums(self) -> int:
        return self.n_directions

    @property
    def ceiling(self) -> int:
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

    def add_rows(self, rows: NDArray[Any], weights: Integers | None, threads: int, sums: Integers) -> int:
        return super().add_rows(self.within(rows), weights, threads, sums)

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]:
        return super().write_rows(self.within(rows), threads)

    def _is_outside(self, rows: NDArray[Any]) -> NDArray[np.bool_]:
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
        return f"column {column} and the others put it {place}: {REMEDY}"
