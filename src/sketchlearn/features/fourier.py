"""Random periodic features of random projections."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import KW_ONLY, dataclass, field, replace
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Single, Weights
from sketchlearn.core.errors import InvalidValueError, Parameter
from sketchlearn.core.limits import Cost
from sketchlearn.core.messages import counted, in_digits, warn_caller
from sketchlearn.core.randomness import Stream, lengths, uniform_cost
from sketchlearn.core.values import floats, positive, shortened, truth, whole
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import Centred
from sketchlearn.features.frequencies import Law
from sketchlearn.features.operator import CountingOperator, of
from sketchlearn.features.outline import Outline
from sketchlearn.features.provenance import Origin
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.features.structured import FEWEST_FEATURES, Structured, float32_cost, in_turns
from sketchlearn.features.waves import Exponential, FourierSeries, Wave, wave_from
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import Plan, dense_plan, structured_plan
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import LARGEST_TRANSFORM, DensePlan, FeatureWriter, PlannedWaves, StructuredPlan
from sketchlearn.rows.source import source
from sketchlearn.sketch.priority_sample import Keeping

CLEARLY_BEYOND = 1.25  # times the wave's largest value, there are features that noise does not explain
SUM_MARGIN = 1 + 1e-9  # for the rounding of sums to float64


@dataclass(frozen=True)
class FourierFeatures(CountingOperator, Centred):
    """Phi_j(x) = f(omega_j . (x - center) + xi_j), f periodic, omega_j random.

    Parameters
    ----------
    n_features : number of columns of the data.
    n_frequencies : number m of random frequencies omega_j.
    law : the frequency distribution (`sketchlearn.features.frequencies`); its scale is in the units of the data.
    wave : the periodic nonlinearity f: "exponential" (complex, default), "cosine", "square", "sawtooth", "triangle", or
        one of `sketchlearn.features.waves`. All but the exponential draw a dither xi_j.
    center : subtracted from each row, rounded to float32; near the data's mean, phases are most precise.
    seed : all random numbers follow from it, on every machine.
    structured : products of Hadamard matrices and random diagonals instead of a dense matrix: for many columns.
    subsample : each record contributes to that many of the frequencies only, chosen by a hash of its values.
    columns : names of the columns, for tables that have names: these are read, and others refused.
    units : the unit in which squared errors of each column are counted, None for the columns as they are. Not compared.
    keeping : the rule of the priority sample of rows, None for none. Not compared.
    outline : cells of the sample that the operator was designed on, None if they are not told. Not compared.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.features.FourierFeatures(3, 100, law=skl.features.frequencies.Gaussian(scale=2.0), seed=7)
    >>> z = operator.sketch(np.eye(3)).mean
    >>> z.shape, z.dtype
    ((100,), dtype('complex128'))
    >>> bool(np.allclose(operator.features(np.eye(3)).mean(axis=0), z))
    True
    """

    abilities = frozenset(
        {Ability.CLUSTERS, Ability.MIXTURES, Ability.COMPARISONS, Ability.DENSITIES, Ability.MARGINALS}
    )
    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "units": None, "keeping": None, "outline": None}
    _describe_sample = ("outline",)
    _center_type = np.float32
    data_dependent_errors = False
    largest_contribution = of("wave.largest_contribution")
    n_features: int
    n_frequencies: int
    _: KW_ONLY
    law: Law
    wave: Wave = Exponential()
    center: tuple[float, ...] | None = None
    seed: int = 0
    structured: bool = False
    subsample: int | None = None
    columns: tuple[str, ...] | None = None
    units: tuple[float, ...] | None = field(default=None, compare=False)
    outline: Outline | None = field(default=None, compare=False)
    keeping: Keeping | None = field(default=None, compare=False)

    def __post_init__(self) -> None:
        super().__post_init__()
        n_features, n_frequencies = self.n_features, whole("n_frequencies", self.n_frequencies, most=2**31)
        if not isinstance(self.law, Law):
            raise ValueError(
                f"law must be one of sketchlearn.features.frequencies, such as Gaussian(1.0), not {shortened(self.law)}"
            )
        structured = truth("structured", self.structured)
        if structured and not self.law.isotropic:
            raise ValueError(f"structured frequencies need an isotropic distribution, not {type(self.law).__name__}")
        if structured and n_features < FEWEST_FEATURES:
            raise ValueError(f"structured frequencies need at least {FEWEST_FEATURES} columns: use dense ones")
        self._set(
            n_frequencies=n_frequencies,
            wave=wave_from(self.wave),
            seed=whole("seed", self.seed, 0, 2**64 - 1),
            structured=structured,
            subsample=self._checked_subsample(n_frequencies),
            units=None if self.units is None else floats("units", self.units, n_features, positive),
        )
        outline = self.outline
        if outline is not None and not (isinstance(outline, Outline) and outline.n_features == n_features):
            raise ValueError(f"outline must be one of {n_features} columns, not {shortened(outline)}")

    def _checked_subsample(self, n_frequencies: int) -> int | None:
        if self.subsample is None:
            return None
        r, size = whole("subsample", self.subsample, most=n_frequencies), Structured.block_size(self.n_features)
        if n_frequencies % r:
            wrong = f"must divide {Parameter('n_frequencies')}: {r} does not divide {n_frequencies}"
        elif self.structured and r % size:
            wrong = f"must be a multiple of the block size {size} of structured frequencies"
        else:
            return r
        raise InvalidValueError(wrong, parameter="subsample")

    @property
    def in_words(self) -> str:
        kind, wave = "structured" if self.structured else "random", type(self.wave).__name__.lower()
        frequencies = f"{self.n_frequencies:,} {kind} frequencies of {self.n_features:,} columns"
        if self.subsample:
            frequencies += f", {self.subsample:,} of them per record"
        return f"{frequencies}, {wave} wave, {self.law.in_words}, seed {self.seed}"

    def add_remove_sensitivity(self) -> Sensitivity:
        return self._each.times(self.subsample or self.n_frequencies)

    @property
    def n_groups(self) -> int:
        """How many groups the frequencies are cut into; a record contributes to one of them."""
        return self.n_frequencies // self.subsample if self.subsample else 1

    @property
    def n_sums(self) -> int:
        return self.wave.parts * self.n_frequencies

    @property
    def packed_bits(self) -> int | None:  # type: ignore[override]
        return None if self.subsample else self.wave.packed_bits

    @cached_property
    def _dense(self) -> Single:
        """Frequencies in turns."""
        with np.errstate(all="ignore"):
            return in_turns(self.law.draw(self.n_features, self.n_frequencies, Stream(self.seed, "frequencies")))

    @cached_property
    def _structured(self) -> Structured:
        with np.errstate(all="ignore"):
            return Structured.draw(self.law, self.n_features, self.n_frequencies, self.seed)

    @cached_property
    def _dither(self) -> Single:
        if not self.wave.dithered:
            return np.zeros(self.n_frequencies, np.float32)
        return Stream(self.seed, "dither").uniform(self.n_frequencies).astype(np.float32)

    @cached_property
    def _key(self) -> int:
        return int(Stream(self.seed, "subsample").integers(1)[0])

    @cached_property
    def frequencies(self) -> Double:
        """The frequencies omega, in radians per unit of the data: shape (n_features, n_frequencies)."""
        turns = self._structured.matrix() if self.structured else self._dense
        return turns.astype(np.float64) * (2 * math.pi)

    @cached_property
    def dither(self) -> Double:
        """The shifts xi of the phases, in radians; zero for the exponential."""
        return self._dither.astype(np.float64) * (2 * math.pi)

    @cached_property
    def feature_weights(self) -> Double:
        """The factor of each feature: 1 except with the weighted distribution."""
        if not self.law.weighted:
            return np.ones(self.n_frequencies)
        return self.law.weights(self.n_features, lengths(self.frequencies))

    @property
    def cost(self) -> Cost:
        d, m = self.n_features, self.n_frequencies
        dither = uniform_cost(m).then(float32_cost(m))
        if self.structured:
            return Structured.cost(self.law, d, m) + dither
        return self.law.cost(d, m).then(float32_cost(d * m)).then(dither + Cost(4 * d * m))

    def random_parts(self) -> list[NDArray[Any]]:
        drawn = [self._structured.signs, self._structured.radii] if self.structured else [self._dense]
        return [*drawn, self._dither, np.array([self._key], np.uint64)]

    @cached_property
    def _plan(self) -> Plan:
        if self.structured:
            drawn = self._structured
            return structured_plan(kernel.active, *self._planned, drawn.signs, drawn.radii, drawn.size)
        return dense_plan(kernel.active, *self._planned, self._dense)

    @property
    def _planned(self) -> PlannedWaves:
        center, coefficients = self.middle.astype(np.float32), self.wave.kernel_coefficients
        return PlannedWaves(self.wave.feature, center, self._dither, math.inf, coefficients, self._key, self.n_groups)

    def device_plan(self, owner: Device) -> DensePlan | StructuredPlan | None:
        if not self.structured:
            return DensePlan(owner, self._planned, self._dense)
        drawn = self._structured
        if drawn.size > LARGEST_TRANSFORM:
            return None
        return StructuredPlan(owner, self._planned, drawn.signs, drawn.radii)

    def feature_writer(self, owner: Device, n: int | None = None) -> FeatureWriter | None:
        if self.structured or self.subsample is not None:
            return None
        plan = DensePlan(owner, self._planned, self._dense)
        return FeatureWriter(plan, self.n_frequencies if n is None else n)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        values = sums * (self.n_groups / self.wave.unit)
        if self.wave.complex:
            real, imaginary = np.split(values, 2, axis=-1)
            values = real + 1j * imaginary
        return np.asarray(values * self.feature_weights) if self.law.weighted else values

    def add_counted(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> tuple[int, int]:
        return self._moving_far(rows, sums, None, lambda own: self._plan.add(own, weights, threads, sums))

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        return self.write_first(rows, self.n_frequencies, threads)

    def _moving_far(
        self, rows: Rows, sums: Integers | None, written: Any, work: Callable[[NDArray[Any]], int]
    ) -> tuple[int, int]:
        """The plan's result for rows, those too far for a phase clipped to its reach, and how many were clipped.

        The plan tells whether there are any: looking for far values in all rows costs more than a few frequencies do.
        """
        before = np.empty(0, np.int64) if sums is None else sums.copy()
        bad = work(rows)
        if bad < 0 or not (far := self.beyond(rows)).any():
            return bad, 0
        if sums is not None:
            sums[:] = before
        if written is not None:
            written[:] = 0
        n_far = int(np.count_nonzero(far))
        # No error depends on far values. Unless the design is public, a warning does: most likely they are damage.
        if self.origin is not Origin.DECLARED:
            why = self.with_names(self.explain_refusal(rows[int(np.argmax(far))].astype(np.float64)))
            warn_caller(f"{counted(n_far, 'row')} clipped: {why}")
        moved = rows.astype(np.float64)
        moved[far] = self._reached(moved[far])
        return work(moved), n_far

    def checked_features(self, features: Any) -> NDArray[Any]:
        """External features, if they are finite numbers, as many as there are frequencies."""
        values = np.asarray(features)
        kind = "complex" if self.wave.complex else "real"
        if values.dtype.kind not in ("fiuc" if self.wave.complex else "fiu"):
            raise TypeError(f"features must be {kind} numbers, as those of the operator's wave, not {values.dtype}")
        if values.ndim != 2 or values.shape[1] != self.n_frequencies:
            shape = " x ".join(map(str, values.shape))
            raise ValueError(f"features must be rows of {self.n_frequencies:,} numbers, not {shape}")
        odd = np.argwhere(~np.isfinite(values))
        if len(odd):
            raise ValueError(f"row {odd[0][0]}, feature {odd[0][1]} is {values[tuple(odd[0])]}")
        return values

    def integers_of_features(self, features: Any) -> Integers:
        if self.subsample is not None or self.law.weighted:
            raise ValueError("features can be given for all frequencies, of equal weight, alone: leave out subsample")
        values = self.checked_features(features)
        parts = np.concatenate([values.real, values.imag], axis=1) if self.wave.complex else values
        with np.errstate(over="ignore"):
            parts = parts.astype(np.float64)
        largest = self.wave.largest_contribution / self.wave.unit
        far = np.argwhere(np.abs(parts) > CLEARLY_BEYOND * largest)
        if len(far):
            row, place = int(far[0][0]), int(far[0][1])
            warn_caller(
                f"row {row}, feature {place % self.n_frequencies} is {in_digits(float(parts[row, place]))}, beyond the "
                f"wave's largest value, {in_digits(largest)}: such features are clipped; those of hardware are adapted "
                "first, see skl.features.measured_wave"
            )
        # before they are scaled, which could overflow, and still beyond the largest value
        integers: Integers = np.rint(np.clip(parts, -2 * largest, 2 * largest) * self.wave.unit).astype(np.int64)
        return integers

    def clip_contributions(self, integers: Integers) -> Integers:
        each = np.clip(integers, -self.wave.largest_contribution, self.wave.largest_contribution)
        features = each.reshape(len(each), self.wave.parts, self.n_frequencies)
        return np.asarray(self._each.clipped(features, axis=1).reshape(integers.shape))

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        one, n, largest = self._each, self.wave.parts, max(int(sums.max(initial=0)), -int(sums.min(initial=0)))
        if largest > self.largest_contribution * units:
            return super().why_impossible(sums, units)
        if n * largest <= one.l1 * units and n * largest**2 <= one.l2_squared * units**2:
            return None
        parts = sums.reshape(n, -1).astype(np.float64)
        beyond = np.einsum("ij,ij->j", parts, parts).max() > one.l2_squared * units**2 * SUM_MARGIN
        if n * one.l2_squared > one.l1**2:  # otherwise no larger L1 norm has such an L2 norm
            beyond |= np.abs(parts).sum(axis=0).max() > one.l1 * units * SUM_MARGIN
        each = f"the sums of a feature are larger than {units:,} records (or weight steps) can add up to"
        return each if beyond else None

    @cached_property
    def _each(self) -> Sensitivity:
        """What a record contributes to one feature."""
        return self.wave.add_remove_sensitivity()

    def write_first(
        self,
        rows: Rows,
        n: int,
        threads: int,
        weights: Weights = None,
        sums: Integers | None = None,
    ) -> tuple[NDArray[np.int32], int]:
        """The integers of each row at the first n frequencies, and the first row outside the domain, or -1.

        If sums are given, the integers of all frequencies are added to them meanwhile.
        """
        integers, write = np.zeros((len(rows), self.wave.parts * n), np.int32), self._plan.write
        bad, _ = self._moving_far(rows, sums, integers, lambda own: write(own, threads, integers, weights, sums))
        return integers, bad

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        if not len(rows) or max(rows.max(), -rows.min()) <= self._nearest_limit:
            return super().beyond(rows)
        with np.errstate(all="ignore"):
            away = (rows - self.middle.astype(rows.dtype)).astype(np.float32)
            far = np.any(np.abs(away) > np.float32(kernel.LIMIT), axis=1)
        return np.asarray(far & np.all(np.isfinite(rows), axis=1))

    @cached_property
    def _nearest_limit(self) -> float:
        """Values up to this size are never too far for a phase."""
        return kernel.LIMIT / 2 - float(np.max(np.abs(self.middle)))

    def _reached(self, rows: Double) -> Double:
        """Rows with no value farther from the center than a phase reaches."""
        reach = kernel.LIMIT * (1 - 2**-20)
        return np.clip(rows, self.middle - reach, self.middle + reach)

    def warn_of_noise(self, rows: Rows) -> None:
        # A float32 phase of t turns is known to about |t| 2^-24: beyond 2^20, to no better than a sixteenth of a turn.
        centred = self._reached(rows.astype(np.float64)) - self.middle
        away = float(np.median(np.linalg.norm(centred, axis=1)))
        if self.structured:
            radii = self._structured.radii.ravel()[:64].astype(np.float64) * self._structured.size
            turns = float(np.median(radii)) * away
        else:
            turns = float(np.median(np.abs(centred @ self._dense[:, -64:].astype(np.float64))))
        if turns > 2**20:
            where = f"the rows lie about {in_digits(away, 3)} from the center"
            warn_caller(f"{where}, where float32 phases are only noise at this scale: set center near their mean")

    def explain_refusal(self, row: Double) -> str:
        column = int(np.argmax(np.abs(row - self.middle)))
        value = float(row[column])
        return f"column {column} is {value!r}, too far from the center for a phase: rescale the data or set center"


HARMONICS = 15
MOST_VALUES = 100_000  # of the reference, from which a wave is found
CLEAR_DEVIATIONS = 4.0  # Harmonics of fewer standard errors are left out.
ROOM = 1.25  # Features of other rows may be larger than those of the reference by this factor.


@dataclass(frozen=True)
class MeasuredWave:
    """What `measured_wave` found.

    Attributes
    ----------
    operator : the operator with the wave that was measured, for sketches and models.
    offset, factor : features less the offset, times the factor, are the operator's.
    left : root mean square of what the wave does not explain of the features, as a share of theirs.
    """

    operator: FourierFeatures
    offset: float
    factor: float
    left: float

    def adapted(self, features: Any) -> NDArray[Any]:
        """Features as they were measured, in the units of the operator: for `Sketch.update_features`."""
        given = np.asarray(features)
        offset = self.offset * (1 + 1j) if np.iscomplexobj(given) else self.offset
        return (given - offset) * self.factor


def measured_wave(operator: FourierFeatures, rows: Any, features: Any) -> MeasuredWave:
    """The operator with the wave that turned known rows into features: what a sensor, say, computes of a phase.

    A device that turns each omega_j . x + xi_j into some periodic function of it, not exactly known, is measured once:
    with rows that are known, and the features that it gave. Learning needs the function's first Fourier coefficient;
    tests and standard errors know the other harmonics, too. The operator's dither makes those average out, so its own
    wave must be one that has a dither: any but "exponential".

    Parameters
    ----------
    operator : `FourierFeatures` with the frequencies and dither that the device uses.
    rows : known rows, a hundred or so.
    features : what the device made of them, (rows, frequencies): real, or complex if the operator's wave is, with
        the same function a quarter of a turn later in the imaginary part.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> rows = np.where(rng.random((5000, 1)) < 0.5, 4.0, 0.0) + rng.standard_normal((5000, 2))
    >>> law, wave = skl.features.frequencies.Gaussian(1.0), skl.features.waves.Cosine()
    >>> operator = skl.features.FourierFeatures(2, 50, law=law, wave=wave)
    >>> device = lambda x: 0.1 + np.tanh(3 * np.cos(x @ operator.frequencies + operator.dither))
    >>> measured = skl.features.measured_wave(operator, rows[:100], device(rows[:100]))
    >>> sketch = skl.Sketch(measured.operator).update_features(measured.adapted(device(rows)))
    >>> np.sort(skl.SketchKMeans(2, random_state=0).fit_sketch(sketch).cluster_centers_[:, 0]).round() + 0.0
    array([0., 4.])
    """
    if not operator.wave.dithered:
        raise ValueError("a measured wave needs a dither: design the operator with another wave, such as 'cosine'")
    known = np.concatenate([block.rows for block in source(rows).blocks(operator.n_features)]).astype(np.float64)
    values = operator.checked_features(features)
    if len(values) != len(known):
        raise ValueError(f"there are {len(known):,} rows, but features of {len(values):,}")
    turns = (known - operator.middle) @ operator.frequencies / (2 * np.pi) + operator.dither / (2 * np.pi)
    each = [values.real, values.imag] if operator.wave.complex else [values]
    phases = np.concatenate([(turns - 0.25 * part).ravel() for part in range(len(each))])
    y = np.concatenate([part.ravel() for part in each]).astype(np.float64)
    some = np.random.default_rng(0).permutation(len(y))[:MOST_VALUES]
    offset, coefficients, left = _series(phases[some], y[some])
    size, largest = 2 * float(np.sum(np.abs(coefficients))), float(np.max(np.abs(y - offset)))
    factor = 1 / max(size, ROOM * largest)
    scaled = tuple((float(c.real), float(c.imag)) for c in coefficients * factor)
    wave = FourierSeries(scaled, complex=operator.wave.complex)
    return MeasuredWave(replace(operator, wave=wave), offset, factor, left)


def _series(turns: NDArray[np.float64], values: NDArray[np.float64]) -> tuple[float, NDArray[np.complex128], float]:
    """The constant and the Fourier coefficients of a real function of a phase, and the share that they leave."""
    n_terms = 1 + 2 * HARMONICS
    if len(values) < 2 * n_terms:
        raise ValueError(f"{len(values):,} features are too few to find a wave by: give {2 * n_terms:,} or more")
    angles = 2 * np.pi * turns[:, None] * np.arange(1, HARMONICS + 1)
    terms = np.concatenate([np.ones((len(turns), 1)), 2 * np.cos(angles), -2 * np.sin(angles)], axis=1)
    normal = terms.T @ terms
    found = np.linalg.solve(normal, terms.T @ values)
    rest = values - terms @ found
    errors = np.sqrt(np.diag(np.linalg.inv(normal)) * float(rest @ rest) / (len(values) - n_terms))
    coefficients = found[1 : HARMONICS + 1] + 1j * found[HARMONICS + 1 :]
    clear = np.abs(coefficients) > CLEAR_DEVIATIONS * np.hypot(errors[1 : HARMONICS + 1], errors[HARMONICS + 1 :])
    if not clear[0]:
        raise ValueError(
            "the features do not follow the phases of these rows: give rows and features in the same order, and the "
            "operator with the frequencies and dither of the device"
        )
    spread = float(np.sqrt(np.mean((values - values.mean()) ** 2)))
    left = float(np.sqrt(np.mean(rest**2))) / spread
    return float(found[0]), np.where(clear, coefficients, 0)[: 1 + int(np.flatnonzero(clear)[-1])], left
