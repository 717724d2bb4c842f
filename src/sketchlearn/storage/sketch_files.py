"""Sketches from files, and several files merged into one sketch."""

from __future__ import annotations

import math
import os
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

from sketchlearn.batches import Batches
from sketchlearn.keeping import KeptRows
from sketchlearn.ledger import Ledger
from sketchlearn.loading_limit import check_cost, loading
from sketchlearn.operators import Operator
from sketchlearn.protected_unit import ProtectedUnit
from sketchlearn.sketch import Release, Sketch
from sketchlearn.storage.container import FormatError, read, unpack
from sketchlearn.storage.file_kinds import expecting
from sketchlearn.storage.signatures import check_signature, public_keys


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
    """The sketch of an unpacked file; an operator that is `known` and is the file's own is not drawn once more."""
    with _refusing("a sketch"):
        form = description["operator"]
        if known is not None and form == known.to_json():
            return sums_of(known, tensors, description)
        operator = _undrawn(form)
        sketch = sums_of(operator, tensors, description)
        operator.verify(form)
    return sketch


def sums_of(operator: Operator, tensors: dict[str, Any], description: dict[str, Any]) -> Sketch:
    """The sketch of an unpacked file whose operator is at hand; a `FormatError` says why one is refused."""
    with _refusing("a sketch"):
        count = description["count"]
        ledger = Ledger.from_json(description["ledger"]) if "ledger" in description else None
        sign = "-?" if ledger is not None and ledger.lacking else ""  # shares of noise alone have negative counts
        if not isinstance(count, str) or not re.fullmatch(f"0|{sign}[1-9][0-9]{{0,29}}", count):
            raise ValueError("its count is not a decimal number")
        notes: dict[str, Any] = {name: description[name] for name in ("clipped", "heaviest") if name in description}
        batches, releases = (
            Batches.from_json(description[name]) if name in description else None for name in ("batches", "releases")
        )
        if (unit := ProtectedUnit.from_json(description)) is not None:
            notes["unit"] = unit
        if ledger is not None and (notes or batches or "skipped" in description or operator.keeping is not None):
            raise ValueError("it is private, but lists what no release tells")
        sums, bits = tensors["sums"], description["bits"]
        if ledger is not None:
            if bits != 0:
                raise ValueError("a private sketch has no fractional weights")
            return Release(operator, sums, int(count), ledger, releases=releases)
        notes["kept"] = kept_rows(operator, tensors, description)
        return Sketch(operator, sums, int(count), bits, _skipped(description), batches=batches or Batches(), **notes)


@loading()
def operator_from(form: Any, what: str) -> Operator:
    """The operator of a JSON form that may come from anywhere; a `FormatError` says why another is refused."""
    with _refusing(what):
        operator = _undrawn(form)
        operator.verify(form)
    return operator


@contextmanager
def _refusing(what: str) -> Iterator[None]:
    """Errors about the content of a file as a `FormatError`."""
    try:
        yield
    except FormatError:
        raise
    except KeyError as error:
        raise FormatError(f"not {what}: its description has no {error}") from None
    except RecursionError:
        raise FormatError(f"not {what}: its description is nested too deeply") from None
    except (TypeError, ValueError, OverflowError, MemoryError) as error:
        raise FormatError(f"not {what} that this version can use: {error}") from error


def _undrawn(form: Any) -> Operator:
    """The described operator before its random numbers are drawn, if that does not cost too much."""
    operator = Operator.unverified(form)
    check_cost("drawing its random numbers", operator.cost)
    return operator


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
    >>> operator = skl.FourierFeatures(2, 50, law=skl.frequencies.Gaussian(1.0), seed=0)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = os.path.join(folder, "day.sketch")
    ...     operator.sketch([[1.0, 2.0]]).save(path)
    ...     skl.load(path) == operator.sketch([[1.0, 2.0]])
    True
    """
    keys = None if trusted is None else public_keys(trusted)
    return read(path, partial(from_bytes, trusted=keys))


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
