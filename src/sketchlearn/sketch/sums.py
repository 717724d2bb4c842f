"""Sketch: exact sums of the features of records, and their number."""

from __future__ import annotations

import html
import math
import os
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core import containers as container
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.limits import FEW_RECORDS
from sketchlearn.core.messages import counted, warn_caller_once
from sketchlearn.core.packages import __version__
from sketchlearn.core.signatures import signed
from sketchlearn.core.values import difference, shortened, whole
from sketchlearn.rows.weights import WEIGHT_BITS
from sketchlearn.sketch.batches import RELEASED, Batches, digest_of
from sketchlearn.sketch.bits import PackedBits, PrivateBits
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.priority_sample import NOT_ALL_THERE, ONLY_THERE, KeptRows, checked_rows
from sketchlearn.sketch.privacy_unit import PrivacyUnit, unit_of_sum

LARGEST_INTEGER = 2**63 - 1


def most_records(operator: Any) -> int:
    """How many records of weight 1 a sketch may have."""
    return LARGEST_INTEGER // int(operator.largest_contribution)


def check_room(operator: Any, units: int, bits: int) -> None:
    """Refuses a number of records whose sums might not fit into 64 bits."""
    most = most_records(operator)
    if units > most:
        finer = f" while weights are fractional, {most:,} with whole weights" if bits else ""
        raise OverflowError(f"a sum could overflow: this operator holds at most {most >> bits:,} records{finer}")
    if operator.keeping is not None and total_weight(units, bits) > LARGEST_INTEGER:
        most = LARGEST_INTEGER >> WEIGHT_BITS
        raise OverflowError(f"a sampled row's weight could overflow: with a sample, at most {most:,} records fit")


def total_weight(units: int, bits: int) -> int:
    """The weight of all records, in the steps of a priority sample."""
    return units << (WEIGHT_BITS - bits)


def canonical(sums: NDArray[np.int64], units: int, bits: int) -> tuple[NDArray[np.int64], int, int]:
    """The same value with the fewest fractional bits, so that equal sketches are equal to the bit."""
    if bits:
        ones = int(np.bitwise_or.reduce(sums)) | units
        spare = min(bits, (ones & -ones).bit_length() - 1) if ones else bits
        sums, units, bits = sums >> spare, units >> spare, bits - spare
    return sums, units, bits


def check_private(operator: Any, ledger: Any, units: int, bits: int, unit: Any) -> None:
    """Raises an error for a private sketch that cannot be a release: sums may be anything, the count at least 1."""
    if not isinstance(ledger, Ledger):
        raise TypeError(f"ledger must be a Ledger, not {type(ledger).__name__}")
    if unit is not None:
        raise ValueError("leave out unit: the ledger of a private sketch names the privacy unit")
    least = -LARGEST_INTEGER if ledger.lacking else 1  # cutting off the counts of shares would tell about them
    n_parts = len(getattr(operator, "parts", ()))
    if bits or not least <= units <= LARGEST_INTEGER or (ledger.parts is not None and len(ledger.parts) != n_parts):
        raise ValueError("a private sketch needs 0 bits, a count of at least 1 and a ledger that fits its operator")


def merged_ledger(a: Ledger | None, b: Ledger | None, overlapping: bool | None, *, shared: bool) -> Ledger:
    """The ledger of the sum of two private sketches, which share a batch of rows or not."""
    if a is None or b is None:
        raise ValueError("cannot add a private sketch and an exact one: make the exact one private first")
    if shared and overlapping is False:
        raise ValueError("the private sketches share a batch of rows: their records are not disjoint")
    if not (a.lacking or b.lacking):
        return a.merged(b, overlapping=overlapping is not False)
    if a.parties != b.parties:
        wanted = a.parties if a.lacking else b.parties
        raise ValueError(
            f"a share of noise is private only in a sum of {wanted:,} such shares: add those first, then other sketches"
        )
    own, others = ((s.sum_scale, s.count_scale, [part.scale for part in s.parts or ()]) for s in (a, b))
    if own != others:
        raise ValueError("the shares have different noise: all parties must release with the same epsilon and options")
    if shared:
        raise ValueError("these noise shares are of the same rows, or one is added twice: add each party's share once")
    if overlapping is None and a.unit is not None:
        add = either("add", "merge")
        raise InvalidValueError(
            f"several parties may have rows of the same {a.unit}",
            f"{add} the shares with {Parameter('overlapping', False)} if each {a.unit} is with one party; with "
            f"{Parameter('overlapping', True)}, epsilons add up",
        )
    # each party has records of its own, as privatize(..., parties=...) says
    return a.merged(b, overlapping=bool(overlapping))


def require_enough_shares(ledger: Ledger | None) -> None:
    """Refuses to learn from a sum of too few shares of distributed noise, which is not private yet."""
    if ledger is not None and ledger.lacking:
        raise ValueError(
            f"this is a sum of {ledger.shares:,} of {ledger.parties:,} shares of noise, which is not private yet: add "
            f"those of {ledger.lacking:,} more parties first"
        )


def few_records(count: float, remedy: str) -> str:
    return (
        f"an exact sketch of few records gives them back, and this one has {counted(count, 'record')}: protect "
        f"it like the records themselves; before you share it, {remedy}"
    )


def heaviest_record(sketch: Sketch) -> int:
    """The most that one record counts."""
    return sketch.heaviest * (sketch.batches.largest if sketch.ledger is None else 1)


@dataclass(frozen=True, eq=False, repr=False)
class Sketch:
    """Exact integer sums of the features of records.

    Sketches of the same operator add and subtract, exactly and in any order. Integers are in the operator's fixed
    point and, if weights were fractional, in steps of 2^-bits of a record. All parameters are attributes, too.

    Parameters
    ----------
    operator : the operator that made it.
    sums : int64 array, default zeros; it cannot be written to.
    units : number of records, in steps of 2^-bits.
    bits : fractional bits of the weights, at most 16; 0 unless weights were fractional.
    skipped : names of files that should have been sketched but could not be read, sorted. They are noted and saved,
        and united when sketches are added; they do not take part in comparisons.
    ledger : None, since the sums are exact; of a `Release`, what was spent and how noisy it is.
    clipped : how many rows lay outside the operator's bound and were moved onto it. Noted as `skipped` is.
    heaviest : the largest weight of one row, rounded up. Noted as `skipped` is.
    kept : the priority sample of rows, where the operator has one (`design(..., rows=500)`). It unites and is forgotten
        with the sketch, and does not take part in comparisons.
    batches : which batches of rows are in it, by their ids, so that none is counted or released twice. Noted as
        `skipped` is; None means that it is one batch, known by its content.
    unit : of an exact sketch of rows of units (`operator.sketch(rows, unit="patient_id", rows_per_unit=5)`), whose ids
        they are and how many rows of one unit count. It is not compared; sums add up the rows (see `merged`).

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0), seed=0)
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> operator.sketch(X[:4]) + operator.sketch(X[4:]) == operator.sketch(X)
    True
    """

    __hash__ = None  # type: ignore[assignment]
    operator: Any  # an Operator; features may use sketches, and not the other way round
    sums: NDArray[np.int64] = None  # type: ignore[assignment]
    units: int = 0
    bits: int = 0
    skipped: tuple[str, ...] = ()
    ledger: Ledger | None = None
    clipped: int = 0
    heaviest: int = 1
    kept: KeptRows | None = None
    batches: Batches = None  # type: ignore[assignment]
    unit: PrivacyUnit | None = None

    def __post_init__(self) -> None:
        operator, ledger = self.operator, self.ledger
        if (ledger is not None) != isinstance(self, Release):
            raise TypeError("exact sums have no ledger: privatize makes a release")
        integers = np.zeros(operator.n_sums, np.int64) if self.sums is None else np.array(self.sums)
        if integers.dtype.kind not in "iu" or integers.shape != (operator.n_sums,):
            raise ValueError(f"sums must be {operator.n_sums} integers, as many as the operator gives")
        fewest = -LARGEST_INTEGER if getattr(ledger, "lacking", 0) else 0
        units, bits = whole("units", self.units, fewest, 2**80), whole("bits", self.bits, 0, WEIGHT_BITS)
        if ledger is None:
            check_room(operator, units, bits)
            if reason := operator.why_impossible(integers, units):
                raise ValueError(reason)
        else:
            check_private(operator, ledger, units, bits, self.unit)
        kept = checked_rows(operator.keeping, self.kept, total_weight(units, bits))
        sums, units, bits = canonical(integers.astype(np.int64, copy=False), units, bits)
        sums.flags.writeable = False
        self.__dict__.update(
            sums=sums.view(),
            units=units,
            bits=bits,
            skipped=tuple(sorted(set(self.skipped))),
            clipped=whole("clipped", self.clipped, 0),
            heaviest=whole("heaviest", self.heaviest),
            kept=kept,
            batches=self._batches(sums, units, bits),
        )

    def _batches(self, sums: NDArray[np.int64], units: int, bits: int) -> Batches:
        """Those that were given; of records without an id, and of those whose ids are all forgotten, the content's."""
        given = self.batches or Batches()
        if not (units or self.unit or sums.any()):  # nothing is left: as of a new sketch
            return Batches(most=given.largest, reads=given.reads, gone=given.gone)
        # a sketch of units has an id even if it is empty: that must not be told by how it combines with others
        if given.times or not (units or self.unit):
            return given
        return replace(given, times=Batches.of_content(self.operator.identity, sums, units, bits).times)

    @property
    def count(self) -> int | float:
        """Number of records; with fractional weights, their total weight."""
        return self.units if self.bits == 0 else math.ldexp(self.units, -self.bits)

    def without_rows(self) -> Sketch:
        """The same sums without the priority sample."""
        if self.operator.keeping is None:
            return self
        return self.of_same_records(self.operator.without_keeping(), self.sums, self.ledger)

    @property
    def mean(self) -> NDArray[Any]:
        """The mean feature vector z, real or complex."""
        require_enough_shares(self.ledger)
        if self.units == 0:
            raise ValueError("an empty sketch has no mean: add records first")
        return np.asarray(self.operator.mean_of(self.sums / self.units))

    def distance(self, other: Sketch) -> float:
        """Root mean square difference of the two means, over all features; of Fourier features alone, it estimates the
        maximum mean discrepancy (`skl.distance` does so, with an interval)."""
        self._require_same_operator(_a_sketch(other, "operator.sketch"), "compare")
        if (self.ledger is None) != (other.ledger is None):
            raise ValueError("one sketch is private and the other exact: compare two of the same kind")
        return float(np.sqrt(np.mean(np.abs(self.mean - other.mean) ** 2)))

    def copy(self) -> Sketch:
        """An independent copy, whatever other threads add meanwhile."""
        twin = object.__new__(type(self))
        twin.__dict__.update(self.__dict__)
        return twin

    def of_same_records(
        self, operator: Any, sums: NDArray[np.int64], ledger: Ledger | None, kept: KeptRows | None = None
    ) -> Sketch:
        """A sketch of the same records with other sums: a release of either counts for both."""
        if ledger is not None:
            return Release(operator, sums, self.units, ledger, made_of=(self,))
        notes = (self.skipped, None, self.clipped, self.heaviest, kept, self.batches, self.unit)
        return Sketch(operator, sums, self.units, self.bits, *notes)

    def as_batches(self, batches: Batches) -> Sketch:
        """The same with these batch ids, for callers that know by other means that each batch was added once."""
        if self.ledger is not None:  # is known by its noise
            return self
        twin = self.copy()
        most = max(batches.most, self.batches.largest)
        twin.__dict__["batches"] = replace(batches, most=most, reads=batches.reads or self.batches.reads)
        return twin

    def as_one_batch(self, name: str = "") -> Sketch:
        """The same with a single batch id, by content, however many parts the records were read in.

        Its file has only this id, and none of single rows that were added one by one, for example.
        """
        if not isinstance(name, str):
            raise TypeError(f"batch must be a name, not {type(name).__name__}")
        return self.as_batches(Batches.of_content(self.operator.identity, self.sums, self.units, self.bits, name))

    @property
    def is_one_release(self) -> bool:
        """Whether it is a single release, and not a sum or a part of releases."""
        if self.ledger is None:
            return False
        return self.batches == Batches.of_content(self.operator.identity, self.sums, self.units)

    @property
    def lacks_shares(self) -> bool:
        """Whether it is a share of noise, or a sum of too few of them, which is not private yet."""
        return self.ledger is not None and self.ledger.lacking > 0

    @property
    def may_be_seen(self) -> bool:
        """Whether it is private: not exact, no share of noise, and no noise from a seed."""
        return self.ledger is not None and self.ledger.private and not self.lacks_shares

    @property
    def released(self) -> Ledger | None:
        """What this process has spent on these records, according to their batch ids."""
        return RELEASED.spent(self.batches)

    def update(
        self,
        data: Any,
        *,
        sample_weight: Any = None,
        nulls: str = "error",
        n_jobs: int | None = None,
        progress: bool = False,
        unit: Any = None,
        rows_per_unit: int | None = None,
        device: str | None = None,
    ) -> Sketch:
        """Adds records (see `Operator.sketch`); the sketch is unchanged if any of them is refused.

        They count as new records, even where they equal earlier ones. A unit may come back in every update, so each
        one adds its `rows_per_unit` to those of the sketch.
        """
        self._require_exact("take in records")
        options = {"sample_weight": sample_weight, "nulls": nulls, "n_jobs": n_jobs, "progress": progress}
        options |= {"unit": unit, "rows_per_unit": rows_per_unit, "device": device}
        return self.add_as_new(self.operator.sketch(data, **options))

    def add_as_new(self, other: Sketch) -> Sketch:
        """Adds a sketch of new records in place, even if equal records are here already."""
        return self._become(self._combine(other, 1, distinct=True))

    def with_other_records(self, other: Sketch) -> Sketch:
        """The sum of sketches that share no record and no unit, even if they have equal ones."""
        return self._combine(other, 1, overlapping=False, distinct=True)

    def update_packed(self, bits: PackedBits | PrivateBits, *, sample_weight: Any = None) -> Sketch:
        """Adds records given as packed signs; private bits only to an empty sketch or one of private bits."""
        added: Sketch = self.operator.sketch_packed(bits, sample_weight=sample_weight)
        if added.ledger is None:
            self._require_exact("take in records")
            return self.add_as_new(added)
        self._require_same_operator(added, "add")
        return self._become(added if not self.units else self.merged(added, overlapping=False))

    def update_features(self, features: Any, *, sample_weight: Any = None) -> Sketch:
        """Adds records whose features something else computed, such as a sensor (see `Operator.sketch_features`)."""
        self._require_exact("take in records")
        return self.add_as_new(self.operator.sketch_features(features, sample_weight=sample_weight))

    def forget(
        self,
        data: Any,
        *,
        sample_weight: Any = None,
        nulls: str = "error",
        n_jobs: int | None = None,
        batch: str | None = None,
    ) -> Sketch:
        """Removes records, as if they had never been added. A named batch is removed by its name.

        It changes the sketch, as `update`, `+=` and `-=` do; `sketch - other` leaves both as they are.
        Rows that were never added cannot always be detected: an impossible result is refused (with histograms or a
        priority sample, most are), and removing the same rows twice in a process gives a warning.
        """
        self._require_exact("forget records")
        options = {"sample_weight": sample_weight, "nulls": nulls, "n_jobs": n_jobs, "batch": batch}
        return self.__isub__(self.operator.sketch(data, **options))

    def __add__(self, other: Any) -> Sketch:
        return self._combine(other, 1) if isinstance(other, Sketch) else NotImplemented

    def __radd__(self, other: Any) -> Sketch:
        return self.copy() if isinstance(other, int) and other == 0 else NotImplemented

    def __sub__(self, other: Any) -> Sketch:
        return self._combine(other, -1) if isinstance(other, Sketch) else NotImplemented

    def __iadd__(self, other: Any) -> Sketch:
        return self._become(self._combine(_a_sketch(other, "update"), 1))

    def __isub__(self, other: Any) -> Sketch:
        return self._become(self._combine(_a_sketch(other, "forget"), -1))

    def merged(self, other: Sketch, *, overlapping: bool | None = None) -> Sketch:
        """The sum.

        overlapping=True allows records in both: in exact sketches they count several times, so that a release has more
        noise; the epsilons of private ones add up. False states that none is in both: the largest epsilon holds for
        all. By default, exact sketches that share a batch are refused, and private ones may overlap. For sketches by
        units, False states that no unit is in both: the larger `rows_per_unit` holds, and otherwise their sum.
        """
        return self._combine(_a_sketch(other, "operator.sketch"), 1, overlapping)

    def _become(self, other: Sketch) -> Sketch:
        object.__setattr__(self, "__class__", type(other))  # an empty sketch that private bits are added to
        self.__dict__.update(other.__dict__)
        return self

    def _combine(self, other: Sketch, sign: int, overlapping: bool | None = None, *, distinct: bool = False) -> Sketch:
        # other threads may change both meanwhile
        return self.copy()._combine_now(other.copy(), sign, overlapping, distinct)

    def _combine_now(self, other: Sketch, sign: int, overlapping: bool | None, distinct: bool) -> Sketch:
        self._require_same_operator(other, "add" if sign > 0 else "subtract")
        if self.ledger is not None or other.ledger is not None:
            return self._combine_private(other, sign, overlapping)
        here, there = self.batches, other.batches
        distinct = distinct or (not overlapping and self.may_equal(other))
        shared = here.shared(there) if sign > 0 and not distinct else []
        if shared and not overlapping:
            several = "a batch" if len(shared) == 1 else f"{len(shared):,} batches"
            twice = either("use a.merged(b, overlapping=True)", "give --overlapping")
            named = either("a batch= name of their own", "--batch NAME")
            raise InvalidValueError(
                f"cannot add sketches: they share {several} of rows, which would count twice; add each batch once, "
                f"or {twice} to count it twice; if they are other rows with equal values, sketch them with {named}"
            )
        may_share = here.may_be_within(there, other.count) or there.may_be_within(here, self.count)
        if sign > 0 and overlapping is None and not distinct and may_share:
            disjoint = either("a.merged(b, overlapping=False)", "--disjoint")
            raise InvalidValueError(
                "cannot add sketches: a part of a batch was forgotten in one of them, so that its file does not name "
                "the batch, and the other may contain all of it",
                f"{disjoint} says that it does not, and {Parameter('overlapping', True)} that it may",
            )
        unit = self._unit_with(other, sign, disjoint=overlapping is False)
        bits = max(self.bits, other.bits)
        own, others = (s.units << (bits - s.bits) for s in (self, other))
        if sign < 0 and others > own:
            raise ValueError(f"cannot subtract {other.count:,} records from {self.count:,}")
        check_room(self.operator, max(own, others) if sign < 0 else own + others, bits)
        a, b = (s.sums << (bits - s.bits) for s in (self, other))
        count, sums = own + sign * others, a + sign * b
        operator, kept = self._rows_with(other, sign)
        if sign < 0:
            kept = None if kept is None else kept.among(total_weight(count, bits))
            too_few_rows = kept is not None and kept.why_not_among(total_weight(count, bits))
            if self.operator.why_impossible(sums, count) or too_few_rows:
                raise InvalidValueError(NOT_ALL_THERE, ONLY_THERE)
        skipped = self.skipped + other.skipped if sign > 0 else self.skipped
        clipped, heaviest = max(0, self.clipped + sign * other.clipped), max(self.heaviest, other.heaviest)
        operator = operator.with_worse_origin(self.operator).with_worse_origin(other.operator)
        batches = here.combined(there, sign, overlapping=overlapping is True, distinct=distinct and sign > 0)
        if sign < 0 and other.units:
            sure = self.kept is not None and other.kept is not None and self.kept.tells_of(other.kept)
            lost = digest_of(other.sums, other.units), "" if sure else counted(other.count, "record")
            batches = batches.having_lost(*lost, here, there)
        return Sketch(operator, sums, count, bits, skipped, None, clipped, heaviest, kept, batches, unit)

    def may_equal(self, other: Sketch) -> bool:
        """Whether both may have equal rows by chance: no records, or few, read by two calls."""
        fewest = min(self.count, other.count)
        return not fewest or (fewest < FEW_RECORDS and self.batches.read_apart(other.batches))

    def _unit_with(self, other: Sketch, sign: int, *, disjoint: bool) -> PrivacyUnit | None:
        """Whom a sum or difference protects. A difference has rows of the whole alone if the part was added to it."""
        rows_without_unit = any(s.unit is None and s.units for s in (self, other))
        found = unit_of_sum(self.unit, other.unit, rows_without_unit=rows_without_unit, disjoint=disjoint)
        return self.unit if sign < 0 and self.unit and other.batches.within(self.batches) else found

    def _rows_with(self, other: Sketch, sign: int) -> tuple[Any, KeptRows | None]:
        """The operator and the priority sample of a sum or difference: none, where only one side has one."""
        if self.kept is not None and other.kept is not None and self.kept.rule == other.kept.rule:
            return self.operator, self.kept.combined(other.kept, sign)
        if other.units == 0:
            return self.operator, self.kept
        if self.units == 0 and sign > 0:
            return other.operator, other.kept
        return self.operator.without_keeping(), None

    def _combine_private(self, other: Sketch, sign: int, overlapping: bool | None) -> Sketch:
        if sign < 0:
            raise ValueError("cannot subtract private sketches: their noise would stay, and nothing would be forgotten")
        shared = RELEASED.share_rows(self.batches, other.batches)
        ledger = merged_ledger(self.ledger, other.ledger, overlapping, shared=shared)
        largest = (max(int(s.sums.max(initial=0)), -int(s.sums.min(initial=0))) for s in (self, other))
        if max(sum(largest), self.units + other.units) > LARGEST_INTEGER:
            raise OverflowError("a sum would overflow: the noise is too large for 64 bits")
        operator = self.operator.with_worse_origin(other.operator)
        units = self.units + other.units if ledger.lacking else max(1, self.units + other.units)
        return Release(operator, self.sums + other.sums, units, ledger, made_of=(self, other))

    def _require_exact(self, verb: str) -> None:
        if self.ledger is not None:
            raise ValueError(f"a private sketch cannot {verb}: do that with the exact sketch, then release it")

    def _require_same_operator(self, other: Sketch, verb: str) -> None:
        if reason := difference(self.operator, other.operator):
            raise ValueError(f"cannot {verb} sketches: {reason}")

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        own, others = ((s.operator, s.units, s.bits, s.ledger) for s in (self, other))
        return own == others and np.array_equal(self.sums, other.sums)

    def description(self) -> dict[str, Any]:
        """The description in a file, as a JSON object."""
        return {**self.notes(), "operator": self.operator.to_json()}

    def notes(self) -> dict[str, Any]:
        """The description without the operator."""
        limit = None if self.kept is None or self.kept.complete else self.kept.below
        return {
            "bits": self.bits,
            "count": str(self.units),
            "software": f"sketchlearn {__version__}",
            **({"skipped": list(self.skipped)} if self.skipped else {}),
            **({"clipped": self.clipped} if self.clipped else {}),
            **({"heaviest": self.heaviest} if self.heaviest > 1 else {}),
            **({} if self.ledger is None else {"format": container.PRIVATE, "ledger": self.ledger.to_json()}),
            **({} if self.kept is None else {"format": container.WITH_ROWS, "kept_below": limit}),
            **({} if self.unit is None else {"format": container.WITH_UNITS, **self.unit.to_json()}),
        }

    def content(self, **more: Any) -> bytes:
        """The bytes of a file without batch ids, so that equal sketches give equal bytes.

        Records that count several times are then rows of that weight, which no release takes.
        """
        heaviest = heaviest_record(self)
        return self._packed(**({"heaviest": heaviest} if heaviest > 1 else {}), **more)

    def to_bytes(self, *, key: Any = None, **more: Any) -> bytes:
        """The sketch as the bytes of a file, with more entries in its description; signed, if a key is given."""
        if not self.is_one_release:
            more["batches" if self.ledger is None else "releases"] = self.batches.to_json(self.count)
        return self._packed(**more) if key is None else signed(self._packed, more, key)

    def _packed(self, **more: Any) -> bytes:
        rows = None if self.kept is None else (self.kept.rows, self.kept.units)
        return container.pack(self.sums, {**self.description(), **more}, rows)

    def save(self, path: str | os.PathLike[str], *, key: Any = None) -> None:
        """Writes the sketch to a file, all of it or nothing; signed, if a private key or its path is given.

        A new file of an exact sketch, or of a share of noise, is for its owner alone.
        """
        if self.ledger is None and 0 < self.count < FEW_RECORDS:
            remedy = "release it with privatize, or merge it with sketches of more records"
            warn_caller_once("few records", few_records(self.count, remedy))
        container.write(path, self.to_bytes(key=key), owner_only=not self.may_be_seen)

    def __getstate__(self) -> dict[str, Any]:
        return {**self.__dict__, "batches": self.batches.for_others(self.count)}

    def __setstate__(self, state: dict[str, Any]) -> None:
        state["sums"].flags.writeable = False
        self.__dict__.update(state, sums=state["sums"].view())

    def __repr__(self) -> str:
        private = "" if self.ledger is None else f"; {self.ledger}"
        return f"<Sketch of {self._records()}: {len(self.sums):,} sums by {shortened(self.operator, 200)}{private}>"

    def _records(self) -> str:
        return ("about " if getattr(self.ledger, "count_variance", 0) else "") + counted(self.count, "record")

    def _repr_html_(self) -> str:
        kind = "exact" if self.ledger is None else "noisy"
        rows = {
            "holds": self._records(),
            "sums": f"{len(self.sums):,} {kind} 64-bit integers ({self.sums.nbytes:,} bytes)",
            "operator": shortened(self.operator, 400),
            **({} if self.unit is None else {"units": str(self.unit)}),
            **({} if self.ledger is None else {"privacy": str(self.ledger)}),
        }
        cells = (f"<tr><th style='text-align:left'>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items())
        return f"<table><caption>Sketch</caption>{''.join(cells)}</table>"


class Release(Sketch):
    """A private release: sums and count with noise, and the ledger that says how much of it.

    It holds these and the operator, nothing else, so that no note about exact records (sampled rows, batches, clipped
    or skipped ones) can travel with it, in memory, in a pickle or in a file. `privatize` makes it, and a randomised
    response; sums and parts of releases are releases. One is known by a digest of its noisy sums.

    Parameters
    ----------
    operator : of a public design, without a priority sample.
    sums, units : with noise.
    ledger : what was spent.
    made_of : the releases that it is a sum or a part of.
    releases : digests of the noisy sums of those releases, as a pickle or a file has them.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
    >>> release = skl.privatize(operator.sketch(np.zeros((1000, 2))), epsilon=1.0)
    >>> isinstance(release, skl.privacy.Release), release.kept, release.skipped
    (True, None, ())
    """

    def __init__(
        self,
        operator: Any,
        sums: NDArray[np.int64],
        units: int,
        ledger: Ledger,
        *,
        made_of: tuple[Sketch, ...] = (),
        releases: Batches | None = None,
    ) -> None:
        if not all(isinstance(part, Release) for part in made_of):
            raise TypeError("a release is made of releases: privatize each exact sketch")
        if operator.keeping is not None:
            raise ValueError("a release keeps no rows")
        batches = reduce(lambda a, b: a.combined(b, 1), (part.batches for part in made_of), releases or Batches())
        super().__init__(operator, sums, units, ledger=ledger, batches=batches)

    def __getstate__(self) -> dict[str, Any]:
        state = {name: self.__dict__[name] for name in ("operator", "sums", "units", "ledger")}
        return state if self.is_one_release else {**state, "releases": self.batches}

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__init__(**state)  # type: ignore[misc]


def _a_sketch(other: Any, method: str) -> Sketch:
    if not isinstance(other, Sketch):
        raise TypeError(f"expected a Sketch, not {type(other).__name__}: rows go through {method}(rows)")
    return other
