"""`Operator`, the interface of all feature maps: sketches, features, and a JSON form that is checked when read."""

from __future__ import annotations

import hashlib
import re
import warnings
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property, reduce
from operator import attrgetter
from typing import Any, ClassVar, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Weights
from sketchlearn.core.limits import Cost
from sketchlearn.core.messages import check_names
from sketchlearn.core.values import Value, truth
from sketchlearn.features.abilities import Ability
from sketchlearn.features.accumulation import (
    packed_rows,
    private_bits,
    sketch_of_bits,
    sketch_of_clipped,
    sum_of_rows,
    weights_of_rows,
)
from sketchlearn.features.provenance import Origin, public_design
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import FeatureWriter
from sketchlearn.kernels.gpu.rows import DevicePlan
from sketchlearn.rows.schemas.table_schema import SchemaColumns
from sketchlearn.rows.source import source
from sketchlearn.rows.source_base import Block, Source
from sketchlearn.rows.units import RowsOfUnits, rows_of_units
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.bits import PackedBits, PrivateBits
from sketchlearn.sketch.priority_sample import Keeping
from sketchlearn.sketch.privacy_unit import PrivacyUnit
from sketchlearn.sketch.sums import Sketch

MOST_FEATURES = 2**16
LEADING_COLUMN = re.compile(r"^column (\d+)")
Kind = TypeVar("Kind", bound="Operator")


# Names of earlier releases, which operators of other packages may still have.
_RENAMED = {
    "ceiling": "largest_contribution",
    "change_by_record": "add_remove_sensitivity",
    "change_by_replacement": "replace_one_sensitivity",
    "tells_by_refusing": "data_dependent_errors",
}


def of(path: str) -> Any:
    """A property or method that is an attribute of a field's value, by its path."""
    return property(attrgetter(path))


class Operator(Value, ABC):
    """A map from one record to a vector of integers, which stand for features."""

    _omitted: ClassVar[dict[str, Any]] = {"columns": None}
    #: whether it has numbers of its own, besides those of the operators that it is made of
    _has_numbers: ClassVar[bool] = True
    #: fields that describe a sample of rows, unless they are left out
    _describe_sample: ClassVar[tuple[str, ...]] = ()
    #: its words, as a format of itself
    _words: ClassVar[str] = "{!r}"
    #: what its sketches can answer
    abilities: frozenset[Ability] = frozenset()
    n_features: int
    columns: tuple[str, ...] | None
    #: the rule of the priority sample; None if there is none
    keeping: Keeping | None = None
    #: bits that hold each integer of each record, an odd number below 2^bits in size; None if none do
    packed_bits: int | None = None

    def __init_subclass__(cls, **kwargs: Any) -> None:
        super().__init_subclass__(**kwargs)
        for old, new in _RENAMED.items():
            if old in cls.__dict__ and new not in cls.__dict__:
                warnings.warn(f"{cls.__name__}.{old} is deprecated: call it {new}", DeprecationWarning, stacklevel=2)
                setattr(cls, new, cls.__dict__[old])

    @cached_property
    def origin(self) -> Origin:
        """The provenance of its numbers: the worst of all that it is made of.

        These are its own numbers, what was read off rows (a proposed schema, the outline of a sample), and the
        operators among its fields. Unknown until `with_origin` states it, and again after `dataclasses.replace`.
        """
        own = self.__dict__.get("_origin", Origin.UNKNOWN if self._has_numbers else Origin.DECLARED)
        parts = (part.origin for parts in self.made_of().values() for part in parts)
        return reduce(Origin.worse, parts, self._read_off_rows.worse(own))

    def with_origin(self, origin: Origin | str) -> Self:
        """The same, with a statement of its provenance: "declared" (public), "sample" (data-dependent) or "unknown".

        Private releases need "declared": no number (bounds, center, scale, edges) was taken from the rows. What is
        known to be read off rows stays so.
        """
        said = Origin.of(origin)
        told: dict[str, Any] = {"_origin": said} if self._has_numbers else {}
        for name, parts in self.made_of().items():
            own = tuple(part.with_origin(said.worse(self._read_off_rows)) for part in parts)
            told[name] = own if isinstance(getattr(self, name), tuple) else own[0]
        return self._twin(**told)

    def with_worse_origin(self, other: Operator) -> Self:
        """The same, with the worse provenance of both: that of a sum of two operators' sketches."""
        worse = self.origin.worse(other.origin)
        return self if worse is self.origin else self.with_origin(worse)

    @property
    def _read_off_rows(self) -> Origin:
        """`Origin.SAMPLE` if a field says itself that it was made of rows."""
        proposed = isinstance(self.columns, SchemaColumns) and self.columns.schema.proposed
        described = any(getattr(self, name) != self._omitted[name] for name in self._describe_sample)
        return Origin.SAMPLE if proposed or described else Origin.DECLARED

    def made_of(self) -> dict[str, tuple[Any, ...]]:
        """The operators that it is made of, by the field that holds one or several of them."""
        found = {}
        for name in self.__dataclass_fields__:  # type: ignore[attr-defined]
            value = getattr(self, name)
            parts = value if isinstance(value, tuple) else (value,)
            if parts and isinstance(parts[0], Operator):
                found[name] = parts
        return found

    def _twin(self, **fields: Any) -> Self:
        """A copy with other fields, in which all that was drawn stays drawn."""
        twin = object.__new__(type(self))
        twin.__dict__.update({name: own for name, own in self.__dict__.items() if name not in ("origin", "identity")})
        twin._set(**fields)
        return twin

    @property
    def column_names(self) -> tuple[str, ...]:
        """Names of the columns; "column 0" and so on, where they have none."""
        return tuple(f"column {i}" for i in range(self.n_features)) if self.columns is None else self.columns

    @property
    @abstractmethod
    def n_sums(self) -> int:
        """Length of the integer vector."""

    @property
    @abstractmethod
    def largest_contribution(self) -> int:
        """The largest absolute contribution of a record to a sum."""

    @abstractmethod
    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
        """Adds the integers of rows to sums; returns the first row outside the operator's domain, or -1."""

    def add_counted(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> tuple[int, int]:
        """As `add_rows`, and how many rows were outside a bound and moved onto it."""
        return self.add_rows(rows, weights, threads, sums), int(np.count_nonzero(self.beyond(rows)))

    @abstractmethod
    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:
        """The integers of each row, and the first row outside the operator's domain, or -1."""

    @abstractmethod
    def mean_of(self, sums: Double) -> NDArray[Any]:
        """The features that integers (or averages of them) stand for."""

    @abstractmethod
    def explain_refusal(self, row: Double) -> str:
        """Why a finite row is outside the operator's domain, starting with the column."""

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        """Why that many records (or weight steps) cannot add up to these sums, or None if they can."""
        most = self.largest_contribution * units
        if np.all((sums <= most) & (sums >= -most)):
            return None
        return f"the sums are larger than {units:,} records (or weight steps) can add up to"

    @property
    def in_words(self) -> str:
        """The operator in a line of plain words."""
        return self._words.format(self)

    def add_remove_sensitivity(self) -> Sensitivity:
        """The sensitivity to adding or removing one record: the most that the sums change."""
        bound = f"one record of a {type(self).__name__} has no known bound, so it cannot be made private"
        raise ValueError(f"{bound}: its class must define add_remove_sensitivity")

    def replace_one_sensitivity(self) -> Sensitivity:
        """The sensitivity to replacing one record by another: the most that the sums change."""
        return self.add_remove_sensitivity().replaced(self.n_sums)

    @property
    def data_dependent_errors(self) -> bool:
        """Whether errors depend on the data: finite rows may be refused, so that a sketch reveals that there were none.

        True unless a class says otherwise.
        """
        return True

    @property
    def error_units(self) -> tuple[float, ...] | None:
        """The units of the columns in which squared errors count, if they are not those of the table."""
        return getattr(self, "units", None)

    def with_columns(self, columns: tuple[str, ...] | None) -> Self:
        """The same operator for columns of these names."""
        return replace(self, columns=columns).with_origin(self.origin)  # type: ignore[type-var]

    @property
    def side_by_side(self) -> tuple[Operator, ...]:
        """The operators whose features it puts side by side: itself alone, unless it is concatenated."""
        return (self,)

    def leaves(self, sketch: Sketch) -> list[Sketch]:
        """The sketch of each part, or of its parts if it is concatenated itself."""
        return [sketch]

    def part(self, kind: type[Kind]) -> Kind | None:
        """The operator itself, or the part of a concatenated one, of this kind; None if there is none."""
        return self if isinstance(self, kind) else None

    @property
    def can_keep(self) -> bool:
        """Whether the operator can have a priority sample."""
        return "keeping" in self.__dataclass_fields__  # type: ignore[attr-defined]

    def with_keeping(self, rule: Keeping | None) -> Self:
        """The same operator with a priority sample by this rule."""
        if not self.can_keep:
            raise ValueError(f"{type(self).__name__} keeps no rows: Fourier features and moments of columns do")
        return self._twin(keeping=rule)

    def without_keeping(self) -> Self:
        """The same operator without a priority sample."""
        return self if self.keeping is None else self.with_keeping(None)

    @property
    def one_bit(self) -> bool:
        """Whether each integer of each record is +1 or -1, so that 64 of them go into a word."""
        return self.packed_bits == 1

    def beyond(self, rows: Rows) -> NDArray[np.bool_]:
        """Which rows are outside a bound and moved onto it before they contribute."""
        return np.zeros(len(rows), bool)

    def warn_of_noise(self, rows: Rows) -> None:
        """Warns where the features of such rows would be noise."""

    @property
    def cost(self) -> Cost:
        """What it costs to draw its random numbers and to digest them, by the fields alone."""
        return Cost()

    def random_parts(self) -> list[NDArray[Any]]:
        """All that was drawn from the seed, for the digest."""
        return []

    def sketch(
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
        batch: str | None = None,
    ) -> Sketch:
        """The sketch of rows: of arrays, data frames, Arrow tables, files, or iterables of those.

        Parameters
        ----------
        data : rows of n_features numbers, as `source` takes them. Memory use does not grow with their number. Of a
            table with names, the operator's `columns` are read.
        sample_weight : one weight per row, where their number is known before they are read. Integers count as
            repetitions, exactly; if any is a fraction, all are rounded to multiples of 2^-16.
        nulls : "error" refuses rows with missing or infinite values, "drop" leaves them out.
        n_jobs : threads; None means all cores. The result does not depend on it.
        progress : show a progress bar on standard error.
        unit : the privacy unit, where private releases shall protect people (or the like) rather than rows: the name of
            the column of their ids, which is no feature, or an array of ids. The data are then read twice.
        rows_per_unit : how many rows of one unit count: those of the smallest hashes of the row's values and the
            unit's id, whatever the order of the rows, batches and files.
        device : where the features are computed: "cpu", "cuda" (all GPUs), "cuda:1" (that one), or "auto" (GPUs, if
            there are any). None means where the rows are: arrays of torch, CuPy and JAX may be on a GPU. The result
            does not depend on it.
        batch : a name of this batch of rows, for duplicate detection. Sketches of the same rows have the same batch id
            and are not added twice; a name distinguishes batches of equal rows, such as readings of two hours.

        Examples
        --------
        >>> import numpy as np, sketchlearn as skl
        >>> operator = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0), seed=0)
        >>> operator.sketch(np.arange(8.0).reshape(4, 2), unit=["ann", "ann", "ann", "bob"], rows_per_unit=2).count
        3
        """
        threads = kernel.n_threads(n_jobs)
        if unit is not None or rows_per_unit is not None:
            if sample_weight is not None:
                raise ValueError("rows of units have weight 1: leave out sample_weight, or unit and rows_per_unit")
            data = rows_of_units(source(data, nulls=nulls), unit, rows_per_unit, self.columns)
        rows = self._source(data, nulls)
        protected = PrivacyUnit(rows.unit, rows.most) if isinstance(rows, RowsOfUnits) else None
        sample_weight = rows.weights if sample_weight is None else sample_weight
        if sample_weight is not None and rows.n_rows is None:
            raise ValueError("sample_weight needs an array of rows: for a stream, update a sketch block by block")
        weights, bits, heaviest = weights_of_rows(sample_weight, rows.n_rows or 0)
        units, summed = sum_of_rows(self, rows, weights, bits, threads, device, progress)
        kept = None if summed.keeper is None else summed.keeper.kept
        notes = (summed.clipped, heaviest, kept, Batches.just_read(), protected)
        return _named(Sketch(self, summed.sums, units, bits, (), None, *notes), batch)

    def device_plan(self, owner: Device) -> DevicePlan | None:  # noqa: ARG002
        """What computes its features on a GPU; None where the processor does."""
        return None

    def feature_writer(self, owner: Device, n: int | None = None) -> FeatureWriter | None:  # noqa: ARG002
        """What writes the integers of its first n frequencies, row by row, on a GPU; None where the processor does."""
        return None

    def features(self, data: Any, *, n_jobs: int | None = None) -> NDArray[Any]:
        """Phi(x) of each row; the mean over rows is the mean of their sketch."""
        return self.mean_of(np.concatenate(list(self._integers(data, n_jobs))).astype(np.float64))

    def pack(
        self, data: Any, *, epsilon: float | None = None, assume_public_design: bool = False, n_jobs: int | None = None
    ) -> Any:
        """What rows contribute to their sketch, in one bit each or in a few (`packed_bits`): `PackedBits`.

        Several bits of an integer are the signs of its powers of two. Those of the highest power come first, of all
        integers. With epsilon, for single bits, `PrivateBits`: a randomised response per row, which costs epsilon, for
        an untrusted server. Pack each row once. An undeclared operator needs assume_public_design=True.

        >>> import numpy as np, sketchlearn as skl
        >>> law = skl.features.frequencies.Gaussian(2.0)
        >>> operator = skl.features.FourierFeatures(3, 100, law=law, wave="square", seed=7)
        >>> operator.sketch_packed(operator.pack(np.eye(3))) == operator.sketch(np.eye(3))
        True
        >>> declared = operator.with_origin("declared")
        >>> print(declared.sketch_packed(declared.pack(np.eye(3), epsilon=2.0)).ledger)
        local privacy: epsilon 2 for replacing one record; randomised response noise of deviation 28.2 on each sum
        """
        self._require_bits()
        if epsilon is not None:
            if not self.one_bit:
                raise ValueError("randomised responses are of single bits: use wave='square', or leave out epsilon")
            public_design(self, truth("assume_public_design", assume_public_design))
            return private_bits(self._integers(data, n_jobs), self.n_sums, epsilon)
        n_bits = self.packed_bits or 1
        words = packed_rows(self, self._source(data), n_bits, kernel.n_threads(n_jobs))
        return PackedBits(words, n_bits * self.n_sums)

    def sketch_packed(
        self, bits: PackedBits | PrivateBits, *, sample_weight: Any = None, batch: str | None = None
    ) -> Sketch:
        """The sketch of the rows that `pack` packed: the same integers, or the same on average if they are private.

        `batch` is a name of these rows, as of `sketch`.
        """
        self._require_bits()
        return _named(sketch_of_bits(self, bits, sample_weight), batch)

    def sketch_features(self, features: Any, *, sample_weight: Any = None, batch: str | None = None) -> Sketch:
        """The sketch of rows by external features, which a sensor computed, for instance: of `FourierFeatures` alone.

        Parameters
        ----------
        features : array of shape (rows, frequencies)
            Values of the wave, between -1 and 1 in each part, real or complex as it is. Those that are larger than the
            wave's are scaled down to it, and their rows counted as `clipped`.
        sample_weight : array, default=None
            How often each row counts.
        batch : str, default=None
            A name of these rows, as of `sketch`.

        Examples
        --------
        >>> import numpy as np, sketchlearn as skl
        >>> operator = skl.features.FourierFeatures(3, 100, law=skl.features.frequencies.Gaussian(2.0), seed=7)
        >>> operator.sketch_features(operator.features(np.eye(3))) == operator.sketch(np.eye(3))
        True
        """
        integers = self.integers_of_features(features)
        return _named(sketch_of_clipped(self, len(integers), integers.__getitem__, sample_weight), batch)

    def integers_of_features(self, features: Any) -> Integers:  # noqa: ARG002
        """The integers of rows of external features, (rows, n_sums)."""
        raise ValueError(
            f"features that something else computed are those of FourierFeatures, not {self.in_words}: take that part "
            "of the operator, operator.part(skl.features.FourierFeatures)"
        )

    def clip_contributions(self, integers: Integers) -> Integers:
        """Integers of external features, (rows, n_sums), clipped to the operator's sensitivity."""
        most = self.largest_contribution
        return self.add_remove_sensitivity().clipped(np.clip(integers, -most, most))

    def _require_bits(self) -> None:
        if self.packed_bits is None:
            other = "use wave='square' or skl.features.waves.QuantizedCosine(bits), without subsample"
            raise ValueError(f"this operator's features cannot be packed into bits: {other}")

    def _source(self, data: Any, nulls: str = "error") -> Source:
        """The data's rows, of the operator's own columns."""
        rows = source(data, nulls=nulls)
        if self.columns is None and isinstance(rows.columns, SchemaColumns):
            raise ValueError("the rows are encoded by a schema that the operator lacks: give it to design, too")
        return rows if self.columns is None else rows.only(self.columns)

    def _integers(self, data: Any, n_jobs: int | None) -> Iterator[NDArray[np.integer]]:
        """The integers of each row, block by block; the first block is empty."""
        threads = kernel.n_threads(n_jobs)
        yield self.write_rows(np.empty((0, self.n_features)), 1)[0]
        for block in self._source(data).blocks(self.n_features):
            integers, bad = self.write_rows(block.rows, threads)
            self.accept(block, bad)
            yield integers

    def accept(self, block: Block, bad: int) -> None:
        """Raises an error about row `bad` of a block, unless it is -1."""
        if bad < 0:
            return
        row = block.rows[bad].astype(np.float64)
        odd = np.flatnonzero(~np.isfinite(row))
        if len(odd):
            reason = f"column {odd[0]} is {row[odd[0]]}: fill or drop infinite values first"
        else:
            with np.errstate(all="ignore"):
                reason = self.explain_refusal(row)
        raise ValueError(f"{block.name(bad)}, {self.with_names(reason)}")

    def with_names(self, reason: str) -> str:
        """A sentence that begins with the number of a column, with its name instead if it has one."""
        names = self.columns
        return LEADING_COLUMN.sub(lambda found: f"column {names[int(found[1])]!r}", reason) if names else reason

    @cached_property
    def digest(self) -> str:
        """SHA-256 of all that was drawn from the seed."""
        total = hashlib.sha256()
        for part in self.random_parts():
            total.update(np.ascontiguousarray(part).astype(part.dtype.newbyteorder("<"), copy=False).data)
        return total.hexdigest()

    def to_json(self) -> dict[str, Any]:
        check_names("a column", self.columns or ())  # a file of it could not be read again
        own = self.__dict__.get("_origin", Origin.UNKNOWN)
        return {**super().to_json(), **({} if own is Origin.UNKNOWN else {"origin": own.value}), "digest": self.digest}

    @classmethod
    def from_json(cls, form: Any) -> Self:
        operator = cls.unverified(form)
        operator.verify(form)
        return operator

    @classmethod
    def unverified(cls, form: Any) -> Self:
        """The described operator, before its random numbers are drawn and compared with the digest."""
        return super().from_json(form)

    @classmethod
    def _build(cls, fields: dict[str, Any]) -> Self:
        own = {name: value for name, value in fields.items() if name not in ("digest", "origin", "declared")}
        if not cls._has_numbers and len(own) + ("digest" in fields) < len(fields):
            raise ValueError(f"{cls.__name__}: its parts have origins, and it has none of its own")
        operator = super()._build(own)
        check_names("a column", operator.columns or ())
        # in files from before there were origins
        before = Origin.DECLARED if truth("declared", fields.get("declared", False)) else Origin.UNKNOWN
        origin = Origin.of(fields.get("origin", before))
        return operator if origin is Origin.UNKNOWN else operator._twin(_origin=origin)  # its parts say their own

    def verify(self, form: dict[str, Any]) -> None:
        """Refuses a JSON form whose random numbers are not those that are drawn here."""
        if form.get("digest") != self.digest:
            wrong = f"{type(self).__name__}: the random numbers drawn here are not those that its digest was made of"
            raise ValueError(f"{wrong}: use the version of sketchlearn that wrote it")

    def __getstate__(self) -> dict[str, Any]:
        """The fields and the origin alone: what is cached is made anew where the pickle is read."""
        kept = (*self.__dataclass_fields__, "_origin")  # type: ignore[attr-defined]
        return {name: self.__dict__[name] for name in kept if name in self.__dict__}


def _named(sketch: Sketch, batch: str | None) -> Sketch:
    """The sketch as one batch of this name, if there is one."""
    return sketch if batch is None else sketch.as_one_batch(batch)


class CountingOperator(Operator):
    """An operator that counts the rows that it moves onto a bound while it adds them."""

    @abstractmethod
    def add_counted(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> tuple[int, int]: ...

    def add_rows(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> int:
        return self.add_counted(rows, weights, threads, sums)[0]
