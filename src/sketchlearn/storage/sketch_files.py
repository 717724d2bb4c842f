"""Sketches from files, and many files as one sketch."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from sketchlearn.keeping import KeptRows
from sketchlearn.ledger import Ledger
from sketchlearn.operators import Operator
from sketchlearn.sketch import Sketch
from sketchlearn.storage.container import FormatError, unpack

#: files whose operator would draw more random numbers than this are refused: a small file could ask for any number
LARGEST_OPERATOR = 2**28


def from_bytes(data: bytes) -> Sketch:
    """The sketch whose `to_bytes` these are; a `FormatError` says in a sentence why others are refused."""
    tensors, description = unpack(bytes(data))
    try:
        form, count = description["operator"], description["count"]
        if not isinstance(count, str) or not re.fullmatch("0|[1-9][0-9]{0,29}", count):
            raise ValueError("its count is not a decimal number")
        operator = Operator.unverified(form)
        ledger = Ledger.from_json(description["ledger"]) if "ledger" in description else None
        notes: dict[str, Any] = {name: description[name] for name in ("clipped", "heaviest") if name in description}
        if ledger is not None and (notes or "skipped" in description or operator.keeping is not None):
            raise ValueError("it is private, but lists what no release tells")
        notes["kept"] = kept_rows(operator, tensors, description)
        sums, bits = tensors["sums"], description["bits"]
        sketch = Sketch(operator, sums, int(count), bits, _skipped(description), ledger, **notes)
        _check_size(operator)
        operator.verify(form)
    except KeyError as error:
        raise FormatError(f"not a sketch: its description has no {error}") from None
    except RecursionError:
        raise FormatError("not a sketch: its description is nested too deeply") from None
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"not a sketch that this version can use: {error}") from error
    return sketch


def kept_rows(operator: Operator, tensors: dict[str, Any], description: dict[str, Any]) -> KeptRows | None:
    """The rows that the file keeps, as far as its operator keeps any."""
    if (operator.keeping is None) != ("kept_below" not in description):
        raise ValueError("its operator and its rows do not agree on whether rows are kept")
    if operator.keeping is None:
        return None
    below = description["kept_below"]
    if below is not None and (type(below) is not float or not math.isfinite(below)):
        raise ValueError("the limit of its rows' priorities is no number")
    kept = KeptRows(operator.keeping, tensors["rows"], tensors["row_units"], math.inf if below is None else below)
    kept.check()
    return kept


def operator_from(form: Any, what: str) -> Operator:
    """The operator of a JSON form that may come from anywhere; a `FormatError` says why another is refused."""
    try:
        operator = Operator.unverified(form)
        _check_size(operator)
        operator.verify(form)
    except RecursionError:
        raise FormatError(f"not {what}: its operator is nested too deeply") from None
    except (TypeError, ValueError, OverflowError, MemoryError, KeyError) as error:
        raise FormatError(f"not {what} that this version can use: {error}") from error
    return operator


def _check_size(operator: Operator) -> None:
    if operator.n_drawn > LARGEST_OPERATOR:
        raise ValueError(
            f"its operator draws {operator.n_drawn:,} random numbers; if you trust the file, raise "
            "sketchlearn.storage.sketch_files.LARGEST_OPERATOR"
        )


def _skipped(description: dict[str, Any]) -> tuple[str, ...]:
    """The files that were skipped: sorted, so that equal sketches are equal files, and left out if there are none."""
    if "skipped" not in description:
        return ()
    names = description["skipped"]
    if not isinstance(names, list) or not names or not all(isinstance(name, str) for name in names):
        raise ValueError("its list of skipped files is not one of names")
    if names != sorted(set(names)):
        raise ValueError("its list of skipped files is not sorted")
    return tuple(names)


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


def merge(items: Iterable[Sketch | str | os.PathLike[str]], *, overlapping: bool = True) -> Sketch:
    """The sum of a list of sketches, given as such or as paths; files are read one at a time.

    Where they are private, `overlapping=False` says that no record is in more than one of them: then the largest
    epsilon holds for all (parallel composition). Otherwise epsilons add up (sequential composition).
    """
    if isinstance(items, str | os.PathLike | Sketch):
        raise TypeError("merge takes a list of sketches or paths")
    total: Sketch | None = None
    for item in items:
        sketch = item if isinstance(item, Sketch) else load(item)
        try:
            total = sketch.copy() if total is None else total.merged(sketch, overlapping=overlapping)
        except ValueError as error:
            raise error if isinstance(item, Sketch) else ValueError(f"{os.fspath(item)}: {error}") from None
    if total is None:
        raise ValueError("nothing to merge: give at least one sketch")
    return total
