"""What travels between machines: the operator as JSON text, and partial sketches as the bytes of a file.

A worker draws the operator's random numbers from the seed, once per process, and compares them with the digest in the
text: a worker that would draw others refuses instead of adding to the wrong sums.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from functools import lru_cache
from threading import Lock
from typing import Any

from sketchlearn.container import FormatError, unpack
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.sources import source

#: no merge on a worker takes more partial sketches than this
ARITY = 8

#: what rows, files and operators are refused with; anything else is a bug and keeps its traceback
REFUSALS = (ValueError, TypeError, OverflowError, OSError, ImportError)

_drawing = Lock()  # tasks that start together in one process would all draw the same numbers


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
    try:
        return operator_from(text).sketch(source(rows, nulls=nulls), n_jobs=1).to_bytes()
    except REFUSALS as error:
        raise PartitionError(f"{name}: {one_line(error)}") from None


def merged(parts: Iterable[bytes], text: str) -> bytes:
    """The sum of partial sketches."""
    return total(parts, operator_from(text)).to_bytes()


def total(parts: Iterable[bytes], operator: Operator) -> Sketch:
    """The sum of partial sketches of this operator, which is not drawn again for each of them."""
    form = operator.to_json()
    sketch = Sketch(operator)
    for data in parts:
        sums, description = unpack(bytes(data))
        if description["operator"] != json.loads(json.dumps(form)):
            raise FormatError("a partial sketch was made by another operator than this run's")
        sketch += Sketch(operator, sums, int(description["count"]), description["bits"])
    return sketch


def one_line(error: BaseException) -> str:
    """The error's sentence without line breaks, so that it can be found again in a log."""
    return " ".join(str(error).split()) or type(error).__name__
