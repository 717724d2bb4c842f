"""Sketches of one operator that is at hand: read without parsing its description again, kept without writing it.

A collector reads thousands of files of one design. Most of the time of `from_bytes` goes into the operator's JSON.
"""

from __future__ import annotations

import json
import secrets
from typing import Any

from sketchlearn.loading_limit import loading
from sketchlearn.operators import Operator
from sketchlearn.operators.origin import Origin
from sketchlearn.packed import MAGIC, PRIVATE_MAGIC, PackedBits
from sketchlearn.private_bits import PrivateBits
from sketchlearn.sketch import Sketch
from sketchlearn.storage.container import FormatError, pack, unpack
from sketchlearn.storage.file_kinds import expecting
from sketchlearn.storage.signatures import check_signature
from sketchlearn.storage.sketch_files import sketch_of, sums_of
from sketchlearn.storage.strict_json import read_json
from sketchlearn.values import difference


class OtherDesignError(FormatError):
    """A sound file whose operator is another one."""


class KnownOperator:
    """An operator, and the sketches of it as bytes.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> operator = skl.SecondMoments(2, bound=9.0)
    >>> known, sketch = KnownOperator(operator), operator.sketch([[1.0, 2.0]])
    >>> known.from_file(sketch.to_bytes()) == known.from_kept(known.to_kept(sketch)) == sketch
    True
    """

    def __init__(self, operator: Operator) -> None:
        self.operator = operator
        self._variants = {id(variant): variant for variant in (operator, operator.without_keeping())}.values()
        texts = [json.dumps(variant.to_json(), sort_keys=True, separators=(",", ":")) for variant in self._variants]
        self._forms = [json.loads(text) for text in texts]
        self._texts = [f'"operator":{text}'.encode() for text in texts]
        # as the header of a file has them
        self._spellings = [json.dumps(text.decode())[1:-1].encode() for text in self._texts]
        # what stands for the operator's text in a description: no file can know it
        self._marks = [secrets.token_hex(16) for _ in texts]

    @loading()
    def from_file(self, data: bytes) -> Sketch:
        """The sketch of a file, as `from_bytes` reads it; an `OtherDesignError` if its operator is another one."""
        if data[: len(MAGIC)] in (MAGIC, PRIVATE_MAGIC):  # readings of a device, as single bits
            return self._of_bits(data)
        with expecting("sketch", data):
            tensors, description = unpack(data, self._parse)
        check_signature(data, description, None)
        form = description.get("operator")
        for mark, own, variant in zip(self._marks, self._forms, self._variants, strict=True):
            if form in (mark, own):
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
        """Whether a file names this very operator, letter by letter, or is of bits: its operator is not parsed then.

        A look at the header, in time proportional to its length. It says nothing else about the file.
        """
        if data[: len(MAGIC)] in (MAGIC, PRIVATE_MAGIC):
            return True
        header = data[8 : 8 + int.from_bytes(data[:8], "little")]
        return any(text in header for text in self._spellings)

    def _of_bits(self, data: bytes) -> Sketch:
        try:
            bits = (PackedBits if data[: len(MAGIC)] == MAGIC else PrivateBits).from_bytes(data)
            return self.operator.sketch_packed(bits)
        except (ValueError, OverflowError) as error:
            raise FormatError(str(error)) from None

    def to_kept(self, sketch: Sketch) -> bytes:
        """Bytes that `from_kept` reads: a file without the operator."""
        if (rule := sketch.operator.keeping) is not None and rule != self.operator.keeping:
            raise ValueError("the kept rows were chosen by another rule than the operator's")
        rows = None if sketch.kept is None else (sketch.kept.rows, sketch.kept.units)
        batches = {"batches": sketch.batches.to_json(sketch.count)} if sketch.ledger is None else {}
        origin = {"origin": sketch.operator.origin.value}  # type: ignore[attr-defined]
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
        for known, mark in zip(self._texts, self._marks, strict=True):
            if known in text:
                return read_json(text.replace(known, f'"operator":"{mark}"'.encode(), 1))
        return read_json(text)

    def _require_equal(self, form: Any) -> None:
        try:
            other = Operator.unverified(form)
        except (TypeError, ValueError, OverflowError, RecursionError, MemoryError) as error:
            raise FormatError(f"not a sketch that this version can use: {error}") from None
        if reason := difference(self.operator, other):
            raise OtherDesignError(f"it was sketched by another design than the collection's: {reason}")
