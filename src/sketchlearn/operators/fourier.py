"""Random periodic features of random projections."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn import kernel
from sketchlearn.frequencies import Law
from sketchlearn.operators.base import Operator, check_center, check_features
from sketchlearn.operators.structured import FEWEST_FEATURES, Structured
from sketchlearn.randomness import Stream, lengths
from sketchlearn.values import whole
from sketchlearn.waves import Wave, wave_from

if TYPE_CHECKING:
    from sketchlearn._native import Plan

Single = NDArray[np.float32]


@dataclass(frozen=True)
class FourierFeatures(Operator):
    """Phi_j(x) = f(omega_j . (x - center) + xi_j), f periodic, omega_j random.

    Parameters
    ----------
    n_features : number of columns of the data.
    n_frequencies : number m of random frequencies omega_j.
    law : law of the frequencies (`sketchlearn.frequencies`); its scale is in the units of the data.
    wave : the function f: "exponential" (complex, default), "cosine", "square", "sawtooth", "triangle", or a wave of
        `sketchlearn.waves`. All but the exponential draw a dither xi_j.
    center : subtracted from each row, rounded to float32; near the data's mean, phases are most precise.
    seed : all random numbers follow from it, on every machine.
    structured : products of Hadamard matrices and random diagonals instead of a dense matrix: for many columns.
    subsample : each record contributes to that many of the frequencies only, chosen by a hash of its values.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.FourierFeatures(3, 100, law=skl.frequencies.Gaussian(scale=2.0), seed=7)
    >>> z = operator.sketch(np.eye(3)).mean
    >>> z.shape, z.dtype
    ((100,), dtype('complex128'))
    >>> bool(np.allclose(operator.features(np.eye(3)).mean(axis=0), z))
    True
    """

    n_features: int
    n_frequencies: int
    _: KW_ONLY
    law: Law
    wave: Wave = field(default="exponential")  # type: ignore[assignment]
    center: tuple[float, ...] | None = None
    seed: int = 0
    structured: bool = False
    subsample: int | None = None

    def __post_init__(self) -> None:
        n_features = check_features(self.n_features)
        n_frequencies = whole("n_frequencies", self.n_frequencies, most=2**31)
        if not isinstance(self.law, Law):
            raise ValueError(
                f"law must be a law of sketchlearn.frequencies, such as Gaussian(scale=1.0), not {self.law!r}"
            )
        if not isinstance(self.structured, bool):
            raise ValueError(f"structured must be True or False, not {self.structured!r}")
        if self.structured and n_features < FEWEST_FEATURES:
            raise ValueError(f"structured frequencies need at least {FEWEST_FEATURES} columns: use dense ones")
        checked = {
            "n_features": n_features,
            "n_frequencies": n_frequencies,
            "wave": wave_from(self.wave),
            "center": check_center(self.center, n_features, np.float32),
            "seed": whole("seed", self.seed, 0, 2**64 - 1),
            "subsample": self._check_subsample(n_features, n_frequencies),
        }
        for name, value in checked.items():
            object.__setattr__(self, name, value)

    def _check_subsample(self, n_features: int, n_frequencies: int) -> int | None:
        if self.subsample is None:
            return None
        r = whole("subsample", self.subsample, most=n_frequencies)
        if n_frequencies % r:
            raise ValueError(f"subsample must divide n_frequencies: {r} does not divide {n_frequencies}")
        if self.structured and r % Structured.block_size(n_features):
            size = Structured.block_size(n_features)
            raise ValueError(f"with structured frequencies, subsample must be a multiple of the block size {size}")
        return r

    @property
    def n_groups(self) -> int:
        """How many groups the frequencies are cut into; a record contributes to one of them."""
        return self.n_frequencies // self.subsample if self.subsample else 1

    @property
    def n_sums(self) -> int:
        return self.wave.parts * self.n_frequencies

    @property
    def ceiling(self) -> int:
        return self.wave.ceiling

    @cached_property
    def _dense(self) -> Single:
        """Frequencies in turns."""
        omega = self.law.draw(self.n_features, self.n_frequencies, Stream(self.seed, "frequencies"))
        return _in_turns(omega)

    @cached_property
    def _structured(self) -> Structured:
        return Structured.draw(self.law, self.n_features, self.n_frequencies, self.seed)

    @cached_property
    def frequencies(self) -> NDArray[np.float64]:
        """The frequencies omega, in radians per unit of the data: shape (n_features, n_frequencies)."""
        turns = self._structured.matrix() if self.structured else self._dense
        return turns.astype(np.float64) * (2 * math.pi)

    @cached_property
    def dither(self) -> NDArray[np.float64]:
        """The shifts xi of the phases, in radians; zero for the exponential."""
        return self._dither.astype(np.float64) * (2 * math.pi)

    @cached_property
    def weights(self) -> NDArray[np.float64]:
        """The factor of each feature: 1 except with the weighted law."""
        return self.law.weights(self.n_features, lengths(self.frequencies))

    @cached_property
    def _dither(self) -> Single:
        if not self.wave.dithered:
            return np.zeros(self.n_frequencies, np.float32)
        return Stream(self.seed, "dither").uniform(self.n_frequencies).astype(np.float32)

    @cached_property
    def _key(self) -> int:
        return int(Stream(self.seed, "subsample").integers(1)[0])

    def random_parts(self) -> list[NDArray[Any]]:
        drawn = [self._structured.signs, self._structured.radii] if self.structured else [self._dense]
        return [*drawn, self._dither, np.array([self._key], np.uint64)]

    def _new_plan(self, wave: int) -> Plan:
        plan = kernel.plan(
            wave,
            self.origin.astype(np.float32),
            self.n_frequencies,
            series=self.wave.series,
            key=self._key,
            n_groups=self.n_groups,
        )
        if self.structured:
            plan.structured(self._structured.signs, self._structured.radii, self._dither, self._structured.size)
        else:
            plan.dense(self._dense, self._dither)
        return plan

    @cached_property
    def _plan(self) -> Plan:
        return self._new_plan(self.wave.kernel_id)

    def add_rows(
        self, rows: NDArray[Any], weights: NDArray[np.int64] | None, threads: int, sums: NDArray[np.int64]
    ) -> int:
        return self._plan.add(rows, weights, threads, sums)

    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[Any], int]:
        integers = np.zeros((len(rows), self.n_sums), np.int32)
        bad = self._plan.write(rows, threads, integers)
        return self._scaled(integers.astype(np.float32), np.complex64), bad

    def phases(self, rows: NDArray[Any]) -> Single:
        """The phases, in turns, as the kernel computes them (of all frequencies, whatever `subsample` says)."""
        plan = self._phase_plan
        out = np.zeros((len(rows), self.n_frequencies), np.int32)
        plan.write(rows, 1, out)
        return out.view(np.float32)

    @cached_property
    def _phase_plan(self) -> Plan:
        return replace(self, subsample=None)._new_plan(kernel.PHASE)

    def mean_of(self, sums: NDArray[np.float64]) -> NDArray[Any]:
        return self._scaled(sums, np.complex128)

    def _scaled(self, integers: NDArray[Any], kind: Any) -> NDArray[Any]:
        values = integers * integers.dtype.type(self.n_groups / self.wave.unit)
        if self.wave.complex:
            real, imaginary = np.split(values, 2, axis=-1)
            values = np.empty(real.shape, kind)
            values.real, values.imag = real, imaginary
        return values if self._plain else np.asarray(values * self.weights.astype(integers.dtype))

    @cached_property
    def _plain(self) -> bool:
        return bool(np.all(self.weights == 1))

    def explain_refusal(self, row: NDArray[np.float64]) -> str:
        column = int(np.argmax(np.abs(row - self.origin)))
        return (
            f"column {column} is {row[column]:g}, too far from the center for a phase: rescale the data or set center"
        )


def _in_turns(omega: NDArray[np.float64]) -> Single:
    turns = (omega / (2 * math.pi)).astype(np.float32)
    if not np.all(np.abs(turns) <= kernel.FREQUENCY_LIMIT):
        raise ValueError("the scale is too small for float32 frequencies: measure the data in smaller units")
    return turns
