"""What engines send between machines: the operator as JSON text, and partial sketches as the bytes of a file.

A worker draws the operator's random numbers from the seed, once per process, and compares them with the digest in the
text: a worker that would draw others raises an error instead of adding to the wrong sums.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import lru_cache
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.containers import unpack
from sketchlearn.core.errors import InvalidValueError
from sketchlearn.core.limits import FormatError, loading
from sketchlearn.features.operator import Operator
from sketchlearn.files.sketches import sums_of
from sketchlearn.kernels.gpu.driver import DeviceError
from sketchlearn.rows.schemas.table_schema import SchemaColumns, read_columns
from sketchlearn.rows.source import source
from sketchlearn.rows.source_base import by_name
from sketchlearn.rows.units import id_texts
from sketchlearn.sketch.privacy_unit import PrivacyUnit
from sketchlearn.sketch.sums import Sketch

ARITY = 8  # No merge on a worker takes more partial sketches than this.
# Errors about rows, files and operators; any other is a bug and keeps its traceback.
REFUSALS = (ValueError, TypeError, OverflowError, OSError, ImportError, DeviceError)
_drawing = Lock()  # Tasks that start together in one process would all draw the same numbers.


class PartitionError(InvalidValueError):
    """A partition cannot be sketched; the message says which and why."""


def text_of(operator: Operator) -> str:
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


def sketched(name: str, rows: Any, text: str, **options: Any) -> bytes:
    """The sketch of one partition's rows, with the options of `operator.sketch`.

    It is computed by one thread, or on the worker's GPUs, since engines run one task per core. All rows of a unit must
    be in one partition.
    """
    with refusals_of(name):
        return operator_from(text).sketch(rows, n_jobs=1, **options).content()


def rows_of(data: Any, columns: SchemaColumns | None) -> NDArray[Any] | None:
    """All rows as one array, of numbers that a schema makes of them if its columns are given; None without rows."""
    rows = source(data)
    found = [block.rows for block in (rows if columns is None else rows.only(columns)).blocks()]
    return np.concatenate(found) if found else None


def texts_of_ids(ids: Any, unit: str) -> Any:
    """The ids of units as text, so that an engine groups equal ones."""
    with refusals_of(f"the ids in {unit!r}"):
        texts = id_texts(np.asarray(ids))
        if None in texts:
            raise ValueError("one is missing, and every row needs one: fill it, or drop such rows")
        return texts


def check_unit(unit: Any, rows_per_unit: Any, names: Sequence[str], operator: Operator) -> tuple[str, ...]:
    """Names of the columns to read beside the ids; validates `unit` and `rows_per_unit`."""
    if not isinstance(unit, str) or rows_per_unit is None:
        raise ValueError("give unit= the name of the column of ids, and rows_per_unit=")
    PrivacyUnit(unit, rows_per_unit)
    by_name(tuple(names), (unit,), "the data frame")
    if operator.columns is not None and unit in read_columns(operator.columns):
        raise ValueError(f"the ids {unit!r} are one of the operator's columns: ids of units are not features")
    return tuple(name for name in names if name != unit)


def merged(parts: Iterable[bytes], text: str) -> bytes:
    return total(parts, operator_from(text)).content()


@loading(limited=False)
def total(parts: Iterable[bytes], operator: Operator) -> Sketch:
    """The sum of partial sketches of this operator, which is not drawn again for each of them."""
    form = json.loads(text_of(operator))
    sketch = Sketch(operator)
    for data in parts:
        tensors, description = unpack(bytes(data))
        if description["operator"] != form:
            raise FormatError("a partial sketch was made by another operator than this run's")
        sketch = sketch.with_other_records(sums_of(operator, tensors, description))
    return sketch.as_one_batch()


@contextmanager
def refusals_of(name: str) -> Iterator[None]:
    """Rewords errors about rows: one line, for logs, that names the partition."""
    try:
        yield
    except REFUSALS as error:
        sentence = " ".join(str(error).split()) or type(error).__name__
        raise PartitionError(sentence if sentence.startswith(name) else f"{name}: {sentence}") from None
