"""Sketches from files, and many files as one sketch."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from sketchlearn.container import FormatError, unpack
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch, check_room, possible


def from_bytes(data: bytes) -> Sketch:
    """The sketch whose `to_bytes` these are."""
    sums, description = unpack(data)
    try:
        operator = Operator.unverified(description["operator"])
        # The shapes agree before anything is drawn: a small file cannot make a large operator.
        sketch = Sketch(operator, sums, int(description["count"]), int(description["bits"]))
        check_room(operator, sketch.units)
        if not possible(operator, sketch.sums, sketch.units):
            raise ValueError(f"its sums are larger than {sketch.count:,} records can add up to")
        operator.verify()
    except (KeyError, TypeError, RecursionError):
        raise FormatError("not a sketch: its description is incomplete") from None
    except (ValueError, OverflowError) as error:
        raise FormatError(f"not a sketch that this version can use: {error}") from error
    return sketch


def load(path: str | os.PathLike[str]) -> Sketch:
    """Reads a saved sketch; a `FormatError` says in a sentence why a file is refused.

    >>> import sketchlearn as skl, tempfile, os
    >>> operator = skl.FourierFeatures(2, 50, law=skl.frequencies.Gaussian(1.0), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "day.sketch")
    ...     operator.sketch([[1.0, 2.0]]).save(path)
    ...     skl.load(path) == operator.sketch([[1.0, 2.0]])
    True
    """
    data = Path(path).read_bytes()
    try:
        return from_bytes(data)
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)}: {error}") from None


def merge(items: Iterable[Sketch | str | os.PathLike[str]]) -> Sketch:
    """The sum of sketches, given as such or as paths; files are read one at a time."""
    total: Sketch | None = None
    for item in items:
        sketch = item if isinstance(item, Sketch) else load(item)
        total = sketch.copy() if total is None else total.__iadd__(sketch)
    if total is None:
        raise ValueError("nothing to merge: give at least one sketch")
    return total
