"""What travels between machines: the operator as JSON text, and partial sketches as the bytes of a file.

A worker draws the operator's random numbers from the seed, once per process, and compares them with the digest in the
text: a worker that would draw others refuses instead of adding to the wrong sums.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from functools import lru_cache
from threading import Lock
from typing import Any

from sketchlearn.batches import Batches
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.storage.container import FormatError, unpack
from sketchlearn.storage.sketch_files import kept_rows

ARITY = 8  # No merge on a worker takes more partial sketches than this.
# Rows, files and operators are refused with these errors; any other is a bug and keeps its traceback.
REFUSALS = (ValueError, TypeError, OverflowError, OSError, ImportError)
_drawing = Lock()  # Tasks that start together in one process would all draw the same numbers.


class PartitionError(ValueError):
    """A partition was refused; the sentence says which and why."""


def text_of(operator: Operator) -> str:
    """The operator as it travels."""
    if not isinstance(operator, Operator):
        raise TypeError(f"expected an operator, such as design(...) gives, not {type(operator).__name__}")
    return json.dumps(operator.to_json(), sort_keys=True)


def operator_from(text: str) -> Operator:
    """The operator, drawn once per process."""
    with _drawing:
        return _drawn(text)


@lru_cache(maxsize=4)
def _drawn(text: str) -> Operator:
    return Operator.from_json(json.loads(text))


def sketched(name: str, rows: Any, text: str, nulls: str) -> bytes:
    """The sketch of one partition's rows, by one thread: engines run one task per core."""
    with refusals_of(name):
        return operator_from(text).sketch(rows, nulls=nulls, n_jobs=1).content()


def merged(parts: Iterable[bytes], text: str) -> bytes:
    """The sum of partial sketches."""
    return total(parts, operator_from(text)).content()


def total(parts: Iterable[bytes], operator: Operator) -> Sketch:
    """The sum of partial sketches of this operator, which is not drawn again for each of them."""
    form = json.loads(text_of(operator))
    sketch = Sketch(operator)
    for data in parts:
        tensors, description = unpack(bytes(data))
        if description["operator"] != form:
            raise FormatError("a partial sketch was made by another operator than this run's")
        sums, count, bits = tensors["sums"], int(description["count"]), description["bits"]
        kept, clipped = kept_rows(operator, tensors, description), description.get("clipped", 0)
        sketch += Sketch(operator, sums, count, bits, kept=kept, clipped=clipped, batches=Batches.new())
    return replace(sketch, batches=Batches.new(sketch.units))


@contextmanager
def refusals_of(name: str) -> Iterator[None]:
    """Errors about rows say which partition they lie in, on one line, so that they can be found again in a log."""
    try:
        yield
    except REFUSALS as error:
        sentence = " ".join(str(error).split()) or type(error).__name__
        raise PartitionError(sentence if sentence.startswith(name) else f"{name}: {sentence}") from None
