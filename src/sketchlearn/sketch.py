"""Sketch: exact sums of the features of records, and how many there were."""

from __future__ import annotations

import html
import math
import os
from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchlearn import container
from sketchlearn.sources import WEIGHT_BITS
from sketchlearn.values import difference, shortened, whole
from sketchlearn.version import __version__

LARGEST = 2**63 - 1


class SketchOperator(Protocol):
    """What a sketch needs of its operator, which is a value that compares with ==."""

    @property
    def n_sums(self) -> int: ...
    @property
    def ceiling(self) -> int: ...
    def sketch(
        self,
        data: Any,
        *,
        sample_weight: Any = None,
        nulls: str = "error",
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> Sketch: ...
    def mean_of(self, sums: NDArray[np.float64]) -> NDArray[Any]: ...
    def to_json(self) -> dict[str, Any]: ...


class Sketch:
    """Exact integer sums of the features of records.

    Sketches of the same operator add and subtract, exactly and in any order. Integers are in the operator's fixed
    point and, if weights were fractional, in steps of 2^-bits of a record.

    Parameters
    ----------
    operator : the operator that made it.
    sums : int64 array, default zeros.
    units : number of records, in steps of 2^-bits.
    bits : fractional bits of the weights, at most 16.
    skipped : names of files that should have been sketched but could not be read. They are noted and saved, and
        united when sketches are added; they do not take part in comparisons.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.FourierFeatures(2, 50, law=skl.frequencies.Gaussian(1.0), seed=0)
    >>> X = np.arange(20.0).reshape(10, 2)
    >>> operator.sketch(X[:4]) + operator.sketch(X[4:]) == operator.sketch(X)
    True
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(
        self,
        operator: SketchOperator,
        sums: NDArray[np.int64] | None = None,
        units: int = 0,
        bits: int = 0,
        skipped: Iterable[str] = (),
    ) -> None:
        integers = np.zeros(operator.n_sums, np.int64) if sums is None else np.array(sums)
        if integers.dtype.kind not in "iu" or integers.shape != (operator.n_sums,):
            raise ValueError(f"sums must be {operator.n_sums} integers, as many as the operator gives")
        units, bits = whole("units", units, 0, 2**80), whole("bits", bits, 0, WEIGHT_BITS)
        check_room(operator, units, bits)
        if not possible(operator, integers, units):
            raise ValueError(f"the sums are larger than {units:,} records (or weight steps) can add up to")
        integers = integers.astype(np.int64)
        self.operator = operator
        self._sums, self._units, self._bits = _canonical(integers, units, bits)
        self._sums.flags.writeable = False
        self._skipped = tuple(sorted(set(skipped)))

    @property
    def sums(self) -> NDArray[np.int64]:
        """The integers; they cannot be written to."""
        return self._sums.view()

    @property
    def count(self) -> int | float:
        """Number of records; with fractional weights, their total weight."""
        return self._units if self._bits == 0 else math.ldexp(self._units, -self._bits)

    @property
    def units(self) -> int:
        """The count in steps of 2^-bits."""
        return self._units

    @property
    def bits(self) -> int:
        """Fractional bits of `sums` and `units`: 0 unless weights were fractional."""
        return self._bits

    @property
    def skipped(self) -> tuple[str, ...]:
        """Files that should have been sketched but could not be read, sorted."""
        return self._skipped

    @property
    def mean(self) -> NDArray[Any]:
        """The mean feature vector z, real or complex."""
        if self._units == 0:
            raise ValueError("an empty sketch has no mean: add records first")
        return self.operator.mean_of(self._sums / self._units)

    def distance(self, other: Sketch) -> float:
        """Root mean square difference of the two means: an estimate of the maximum mean discrepancy."""
        self._require_same_operator(_a_sketch(other, "operator.sketch"), "compare")
        return float(np.sqrt(np.mean(np.abs(self.mean - other.mean) ** 2)))

    def copy(self) -> Sketch:
        """An independent copy."""
        return Sketch(self.operator, self._sums, self._units, self._bits, self._skipped)

    def update(
        self,
        data: Any,
        *,
        sample_weight: Any = None,
        nulls: str = "error",
        n_jobs: int | None = None,
        progress: bool = False,
    ) -> Sketch:
        """Adds records (see `Operator.sketch`); the sketch is unchanged if any of them is refused."""
        options: dict[str, Any] = {"nulls": nulls, "n_jobs": n_jobs, "progress": progress}
        return self.__iadd__(self.operator.sketch(data, sample_weight=sample_weight, **options))

    def forget(
        self, data: Any, *, sample_weight: Any = None, nulls: str = "error", n_jobs: int | None = None
    ) -> Sketch:
        """Takes records out again, as if they had never been added.

        Rows that were never added cannot always be told from those that were: only an impossible result is refused.
        """
        return self.__isub__(self.operator.sketch(data, sample_weight=sample_weight, nulls=nulls, n_jobs=n_jobs))

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

    def _become(self, other: Sketch) -> Sketch:
        self._sums, self._units, self._bits = other._sums, other._units, other._bits
        self._skipped = other._skipped
        return self

    def _combine(self, other: Sketch, sign: int) -> Sketch:
        self._require_same_operator(other, "add" if sign > 0 else "subtract")
        bits = max(self._bits, other._bits)
        own, others = (s._units << (bits - s._bits) for s in (self, other))
        if sign < 0 and others > own:
            raise ValueError(f"cannot subtract {other.count:,} records from {self.count:,}")
        check_room(self.operator, max(own, others) if sign < 0 else own + others, bits)
        a, b = (s._sums << (bits - s._bits) for s in (self, other))
        count, sums = own + sign * others, a + sign * b
        if sign < 0 and not possible(self.operator, sums, count):
            raise ValueError("cannot subtract: those records are not all in the sketch")
        skipped = self._skipped + other._skipped if sign > 0 else self._skipped
        return Sketch(self.operator, sums, count, bits, skipped)

    def _require_same_operator(self, other: Sketch, verb: str) -> None:
        reason = difference(self.operator, other.operator)
        if reason:
            raise ValueError(f"cannot {verb} sketches: {reason}")

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, Sketch):
            return NotImplemented
        same = (self.operator, self._units, self._bits) == (other.operator, other._units, other._bits)
        return same and np.array_equal(self._sums, other._sums)

    def description(self) -> dict[str, Any]:
        """What a file says about the integers, as a JSON object."""
        return {
            "bits": self._bits,
            "count": str(self._units),
            "operator": self.operator.to_json(),
            "software": f"sketchlearn {__version__}",
            **({"skipped": list(self._skipped)} if self._skipped else {}),
        }

    def to_bytes(self) -> bytes:
        """The sketch as the bytes of a file."""
        return container.pack(self._sums, self.description())

    def save(self, path: str | os.PathLike[str]) -> None:
        """Writes the sketch to a file, all of it or nothing."""
        container.write(path, self.to_bytes())

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._sums.flags.writeable = False

    def __repr__(self) -> str:
        return f"<Sketch of {self._records()}: {len(self._sums):,} sums by {shortened(self.operator, 200)}>"

    def _records(self) -> str:
        return "1 record" if self.count == 1 else f"{self.count:,} records"

    def _repr_html_(self) -> str:
        rows = {
            "holds": self._records(),
            "sums": f"{len(self._sums):,} exact 64-bit integers ({self._sums.nbytes:,} bytes)",
            "operator": shortened(self.operator, 400),
        }
        cells = "".join(
            f"<tr><th style='text-align:left'>{k}</th><td>{html.escape(v)}</td></tr>" for k, v in rows.items()
        )
        return f"<table><caption>Sketch</caption>{cells}</table>"


def check_room(operator: SketchOperator, units: int, bits: int) -> None:
    """Refuses a number of records whose sums might not fit into 64 bits."""
    if units * operator.ceiling > LARGEST:
        most = LARGEST // operator.ceiling >> bits
        finer = " while weights are fractional" if bits else ""
        raise OverflowError(f"a sum could overflow: this operator holds at most {most:,} records{finer}")


def possible(operator: SketchOperator, sums: NDArray[np.int64], units: int) -> bool:
    """Whether that many records can add up to these sums."""
    most = operator.ceiling * units
    return bool(np.all((sums <= most) & (sums >= -most)))


def _a_sketch(other: Any, method: str) -> Sketch:
    if not isinstance(other, Sketch):
        raise TypeError(f"expected a Sketch, not {type(other).__name__}: rows go through {method}(rows)")
    return other


def _canonical(sums: NDArray[np.int64], units: int, bits: int) -> tuple[NDArray[np.int64], int, int]:
    """The same value with the fewest fractional bits, so that equal sketches are equal to the bit."""
    if bits:
        ones = int(np.bitwise_or.reduce(sums)) | units
        spare = min(bits, (ones & -ones).bit_length() - 1) if ones else bits
        sums, units, bits = sums >> spare, units >> spare, bits - spare
    return sums, units, bits
