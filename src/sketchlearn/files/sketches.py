"""Sketches from files, and several files merged into one sketch."""

from __future__ import annotations

import json
import math
import os
import re
import secrets
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sketchlearn.core.containers import ENTRY, is_network, pack, read, read_json, unpack
from sketchlearn.core.limits import FormatError, check_cost, loading
from sketchlearn.core.signatures import check_signature, public_keys
from sketchlearn.core.values import difference
from sketchlearn.features.operator import Operator
from sketchlearn.features.provenance import Origin
from sketchlearn.sketch.batches import Batches
from sketchlearn.sketch.bits import MAGIC, PRIVATE_MAGIC, PackedBits, PrivateBits
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.priority_sample import KeptRows
from sketchlearn.sketch.privacy_unit import PrivacyUnit
from sketchlearn.sketch.sums import Release, Sketch

# A document is not read for this: it may be large, or the one that was refused.
_KIND_OF_DOCUMENT = re.compile(rb'"kind"\s*:\s*"sketchlearn (design|model|schema)"')
_JSON = re.compile(rb"\s*\{")


class WrongKindError(FormatError):
    """A file of the package, but of another kind than expected."""

    def __init__(self, wanted: str, found: str) -> None:
        super().__init__(f"it is a {found}, not a {wanted}: skl.load reads it")
        self.wanted, self.found = wanted, found


def kind_of(data: bytes) -> str | None:
    """ "sketch", "design", "model" or "schema"; None for other bytes.

    >>> import sketchlearn as skl
    >>> kind_of(skl.Sketch(skl.features.SecondMoments(2, bound=1.0)).to_bytes()), kind_of(b"a,b")
    ('sketch', None)
    """
    if _JSON.match(data):
        found = _KIND_OF_DOCUMENT.search(data)
        return None if found is None else found[1].decode()
    if is_network(data):
        return "model"
    is_sketch = data[8:9] == b"{" and data.find(ENTRY.encode(), 8, 8 + int.from_bytes(data[:8], "little")) >= 0
    return "sketch" if is_sketch else None


@contextmanager
def expecting(wanted: str, data: bytes) -> Iterator[None]:
    """Adds to an error what kind of file the bytes are instead, if it is known."""
    try:
        yield
    except FormatError:
        if not data:
            raise FormatError("it is empty") from None
        if (found := kind_of(data)) not in (None, wanted):
            raise WrongKindError(wanted, str(found)) from None
        raise


@loading()
def from_bytes(data: bytes, *, trusted: Iterable[Any] | None = None) -> Sketch:
    """The sketch whose `to_bytes` these are; a `FormatError` says in a sentence why others are refused.

    With `trusted`, a list of public keys as `load` takes it, only what one of them signed is accepted.
    """
    keys = None if trusted is None else public_keys(trusted)
    data = bytes(data)
    with expecting("sketch", data):
        tensors, description = unpack(data)
    check_signature(data, description, keys)
    return sketch_of(tensors, description)


def sketch_of(tensors: dict[str, Any], description: dict[str, Any], known: Operator | None = None) -> Sketch:
    """The sketch of an unpacked file; if its operator is the `known` one, that is not drawn again."""
    with refusing("a sketch"):
        form = description["operator"]
        if known is not None and form == known.to_json():
            return sums_of(known, tensors, description)
        operator = _undrawn(form)
        sketch = sums_of(operator, tensors, description)
        operator.verify(form)
    return sketch


def sums_of(operator: Operator, tensors: dict[str, Any], description: dict[str, Any]) -> Sketch:
    """The sketch of an unpacked file with this operator; a `FormatError` says why it is refused."""
    with refusing("a sketch"):
        count = description["count"]
        ledger = Ledger.from_json(description["ledger"]) if "ledger" in description else None
        sign = "-?" if ledger is not None and ledger.lacking else ""  # distributed noise alone may be negative
        if not isinstance(count, str) or not re.fullmatch(f"0|{sign}[1-9][0-9]{{0,29}}", count):
            raise ValueError("its count is not a decimal number")
        notes: dict[str, Any] = {name: description[name] for name in ("clipped", "heaviest") if name in description}
        batches, releases = (
            Batches.from_json(description[name]) if name in description else None for name in ("batches", "releases")
        )
        if (unit := PrivacyUnit.from_json(description)) is not None:
            notes["unit"] = unit
        if ledger is not None and (notes or batches or "skipped" in description or operator.keeping is not None):
            raise ValueError("it is private, but has fields that releases do not have")
        sums, bits = tensors["sums"], description["bits"]
        if ledger is not None:
            if bits != 0:
                raise ValueError("a private sketch has no fractional weights")
            return Release(operator, sums, int(count), ledger, releases=releases)
        notes["kept"] = kept_rows(operator, tensors, description)
        return Sketch(operator, sums, int(count), bits, _skipped(description), batches=batches or Batches(), **notes)


@loading()
def operator_from(form: Any, what: str) -> Operator:
    """The operator of an untrusted JSON form; a `FormatError` says why it is refused."""
    with refusing(what):
        operator = _undrawn(form)
        operator.verify(form)
    return operator


@contextmanager
def refusing(what: str) -> Iterator[None]:
    """Errors about the content of a file as a `FormatError`."""
    try:
        yield
    except FormatError:
        raise
    except KeyError as error:
        raise FormatError(f"not {what}: its description has no {error}") from None
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"not {what} that this version can use: {error}") from error


def _undrawn(form: Any) -> Operator:
    """The described operator before its random numbers are drawn, if that does not cost too much."""
    operator = Operator.unverified(form)
    check_cost("drawing its random numbers", operator.cost)
    return operator


def kept_rows(operator: Operator, tensors: dict[str, Any], description: dict[str, Any]) -> KeptRows | None:
    """The rows that the file keeps, if its operator keeps any."""
    if (operator.keeping is None) != ("kept_below" not in description):
        raise ValueError("its operator and its rows do not agree on whether rows are kept")
    if operator.keeping is None:
        return None
    below = description["kept_below"]
    if below is not None and (type(below) is not float or not math.isfinite(below)):
        raise ValueError("the limit of its rows' priorities is not a number")
    kept = KeptRows(operator.keeping, tensors["rows"], tensors["row_units"], math.inf if below is None else below)
    kept.check()
    return kept


def _skipped(description: dict[str, Any]) -> tuple[str, ...]:
    """The files that were skipped: sorted, so that equal sketches are equal files, and left out if there are none."""
    if "skipped" not in description:
        return ()
    names = description["skipped"]
    sound = isinstance(names, list) and names and all(isinstance(name, str) for name in names)
    if not sound or names != sorted(set(names)):
        raise ValueError("its list of skipped files is not a sorted list of names")
    return tuple(names)


def load(path: str | os.PathLike[str], *, trusted: Iterable[Any] | None = None) -> Sketch:
    """Reads a saved sketch; a `FormatError` says in a sentence why a file is refused.

    `trusted` is a list of public keys: hexadecimal digits, paths of files, or `Ed25519PublicKey`s. Then only a file
    that one of them signed (`sketch.save(path, key=...)`) is accepted, with not a byte changed since. Without it, a
    signature that does not match is refused, but nothing is known about who wrote the file.

    >>> import sketchlearn as skl, tempfile, os
    >>> operator = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "day.sketch")
    ...     operator.sketch([[1.0, 2.0]]).save(path)
    ...     skl.load(path) == operator.sketch([[1.0, 2.0]])
    True
    """
    return read(path, partial(from_bytes, trusted=trusted))


def merge(
    items: Iterable[Sketch | str | os.PathLike[str]],
    *,
    overlapping: bool | None = None,
    trusted: Iterable[Any] | None = None,
) -> Sketch:
    """The sum of a list of sketches or of paths of saved ones; files are read one at a time.

    Exact sketches that share a batch of rows are refused, unless `overlapping=True` says that those shall count
    several times. For private ones, `overlapping=False` states that no record is in more than one of them: then the
    largest epsilon holds for all (parallel composition). Otherwise epsilons add up (sequential composition). Of exact
    sketches by units, it states that no unit is in two of them: then the largest `rows_per_unit` holds, otherwise their
    sum.
    `trusted` is about files, as `load` takes it. The sum is not signed: `save` it with a key of your own.
    """
    keys = None if trusted is None else public_keys(trusted)
    if isinstance(items, str | os.PathLike | Sketch):
        raise TypeError("merge takes a list of sketches or paths")
    total: Sketch | None = None
    for item in items:
        sketch = item if isinstance(item, Sketch) else load(item, trusted=keys)
        try:
            total = sketch.copy() if total is None else total.merged(sketch, overlapping=overlapping)
        except ValueError as error:
            raise error if isinstance(item, Sketch) else ValueError(f"{os.fspath(item)}: {error}") from None
    if total is None:
        raise ValueError("nothing to merge: give at least one sketch")
    return total


class OtherDesignError(FormatError):
    """A valid file with another operator."""


class KnownOperator:
    """An operator, and the sketches of it as bytes.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.features.SecondMoments(2, bound=9.0)
    >>> known, sketch = KnownOperator(operator), operator.sketch([[1.0, 2.0]])
    >>> known.from_file(sketch.to_bytes()) == known.from_kept(known.to_kept(sketch)) == sketch
    True
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        variants = {id(variant): variant for variant in (operator, operator.without_keeping())}.values()
        # by random words, which replace the operator's text in a description
        self._variants = {secrets.token_hex(16): variant for variant in variants}
        spelled = partial(json.dumps, sort_keys=True, separators=(",", ":"))
        texts = {mark: spelled(variant.to_json()) for mark, variant in self._variants.items()}
        self._forms = {mark: json.loads(text) for mark, text in texts.items()}
        self._texts = {mark: f'"operator":{text}'.encode() for mark, text in texts.items()}
        # as the header of a file has them
        self._spellings = [json.dumps(text.decode())[1:-1].encode() for text in self._texts.values()]

    @loading()
    def from_file(self, data: bytes) -> Sketch:
        """The sketch of a file, as `from_bytes` reads it; an `OtherDesignError` if its operator is another one."""
        if data[: len(MAGIC)] in (MAGIC, PRIVATE_MAGIC):  # bits of a device
            try:
                bits = (PackedBits if data[: len(MAGIC)] == MAGIC else PrivateBits).from_bytes(data)
                return self.operator.sketch_packed(bits)
            except (ValueError, OverflowError) as error:
                raise FormatError(str(error)) from None
        with expecting("sketch", data):
            tensors, description = unpack(data, self._parse)
        check_signature(data, description, None)
        form = description.get("operator")
        for mark, variant in self._variants.items():
            if form in (mark, self._forms[mark]):
                return sums_of(variant, tensors, description)
        if self.spells(data):  # beside another one, which nobody parses then
            raise OtherDesignError("it was sketched by another design than the collection's")
        self._require_equal(form)
        # equal, but known from elsewhere: of another origin
        return sketch_of(tensors, description)

    @property
    def length(self) -> int:
        """Bytes of the operator's description in the header of a file."""
        return max(map(len, self._spellings))

    def spells(self, data: bytes) -> bool:
        """Whether the header names this operator literally, or the file has bits: its operator is not parsed then.

        It takes time proportional to the header's length, and checks nothing else.
        """
        if data[: len(MAGIC)] in (MAGIC, PRIVATE_MAGIC):
            return True
        header = data[8 : 8 + int.from_bytes(data[:8], "little")]
        return any(text in header for text in self._spellings)

    def to_kept(self, sketch: Sketch) -> bytes:
        """Bytes that `from_kept` reads: a file without the operator."""
        if (rule := sketch.operator.keeping) is not None and rule != self.operator.keeping:
            raise ValueError("the kept rows were chosen by another rule than the operator's")
        rows = None if sketch.kept is None else (sketch.kept.rows, sketch.kept.units)
        batches = {"batches": sketch.batches.to_json(sketch.count)} if sketch.ledger is None else {}
        origin = {"origin": sketch.operator.origin.value}
        return pack(sketch.sums, {**sketch.notes(), **batches, **origin}, rows)

    @loading(limited=False)
    def from_kept(self, data: bytes) -> Sketch:
        """The sketch of bytes that `to_kept` wrote."""
        tensors, description = unpack(data)
        operator = self.operator if "kept_below" in description else self.operator.without_keeping()
        origin = Origin.of(description["origin"]).worse(operator.origin)
        return sums_of(operator if operator.origin is origin else operator.with_origin(origin), tensors, description)

    def _parse(self, text: bytes) -> Any:
        """The description, with a mark in place of an operator that is known by its text."""
        for mark, known in self._texts.items():
            if known in text:
                return read_json(text.replace(known, f'"operator":"{mark}"'.encode(), 1))
        return read_json(text)

    def _require_equal(self, form: Any) -> None:
        try:
            other = Operator.unverified(form)
        except (TypeError, ValueError, OverflowError, MemoryError) as error:
            raise FormatError(f"not a sketch that this version can use: {error}") from None
        if reason := difference(self.operator, other):
            raise OtherDesignError(f"it was sketched by another design than the collection's: {reason}")
