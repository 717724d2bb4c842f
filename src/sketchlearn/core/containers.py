"""The container of saved sketches: a safetensors file with one JSON entry and a digest of every byte.

The digest detects damage; signatures (signatures.py) detect forgery. Nothing in a file is executed.
docs/reference/file-format.md describes the format for readers in other languages.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import math
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator, Set
from dataclasses import dataclass
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from sketchlearn.core.limits import FormatError, check_cost, check_size, check_text, read_at_most, tensor_cost
from sketchlearn.core.values import shortened

MOST_LEVELS = 64  # of lists and objects in each other; operators and distributions in each other take fewer
_TOO_DEEP = "not a file of sketchlearn: it is nested too deeply"

# Only numbers such as these, with any digits, can be beyond all floats, or take long to read. Looking at each number
# would take most of the time of reading, and a regular expression takes seconds on runs of 308 digits.
_POWERS, _MANY_DIGITS = (b"e000", b"e+000"), b"0" * 309
_ANY_DIGITS = bytes.maketrans(b"123456789E", b"000000000e")


def read_json(text: bytes, *, outer: bool = False) -> Any:
    """The value of a JSON text that is cheap to read, without repeated keys, NaN, and numbers beyond floats.

    An `outer` text contains another one, which is read next. A `FormatError` says what reading would cost, or that the
    text is nested too deeply; a `ValueError`, why it is invalid.
    """
    check_text(text, outer=outer)
    digits = text.translate(_ANY_DIGITS)
    many = _MANY_DIGITS in digits
    odd = many or any(power in digits for power in _POWERS)
    del digits
    try:
        value = json.loads(
            text.decode("utf-8"),
            object_pairs_hook=_without_repetition,
            parse_constant=_finite,
            parse_float=_finite if odd else None,
            parse_int=_whole if many else None,
        )
    except RecursionError:
        raise FormatError(_TOO_DEEP) from None
    if text.count(b"[") + text.count(b"{") > MOST_LEVELS:
        _check_levels(value)
    return value


def _check_levels(value: Any) -> None:
    """Refuses a value in which lists and objects are nested deeply: whatever reads it next may be recursive."""
    level = [value]
    for _ in range(MOST_LEVELS):
        inside = (item.values() if type(item) is dict else item for item in level if type(item) in (dict, list))
        if not (level := [x for values in inside for x in values if type(x) in (dict, list)]):
            return
    raise FormatError(_TOO_DEEP)


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object without repeated keys: readers would differ in which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def _finite(digits: str) -> float:
    if not math.isfinite(number := float(digits)):
        raise ValueError(f"{digits[:40]} is not a finite number")
    return number


def _whole(digits: str) -> int:
    if len(digits) > len(_MANY_DIGITS):  # the time to read one grows with the square of its length
        raise ValueError(f"{digits[:40]}... is a number of {len(digits):,} digits")
    return int(digits)


# Private sketches have a format number of their own, so that older readers do not take them for exact ones; and so
# have those with rows, so that rows are not passed on unknowingly; and those of units, with rows or without, which
# an older version would release as if rows were to be protected.
FORMAT, PRIVATE, WITH_ROWS, WITH_UNITS = 1, 2, 3, 4
#: format number, the field that only such files have, and what the number says
_MARKED = (
    (WITH_ROWS, "kept_below", "has rows", "has no rows"),
    (WITH_UNITS, "unit", "has units", "has no units"),
    (PRIVATE, "ledger", "is private", "is not private"),
)
ENTRY = "sketchlearn"
T = TypeVar("T")
RowsAndWeights = tuple[NDArray[np.float64], NDArray[np.int64]]
_BLANK = "0" * 64
_SUMS = {"sums": ("I64", 1)}
_WITH_ROWS = {**_SUMS, "rows": ("F64", 2), "row_units": ("I64", 1)}
_NOT_OURS = "not a sketchlearn file, or a damaged one"


@dataclass(frozen=True)
class Header:
    """The header of a safetensors file, checked before any of its arrays is made.

    Attributes
    ----------
    entry : the package's own text, which is JSON itself and is checked again before it is read.
    arrays : the type and the shape of each array according to the header, by name.
    """

    entry: bytes
    arrays: dict[str, tuple[str, tuple[int, ...]]]

    @classmethod
    def of(cls, data: bytes) -> Header:
        """The header of a file; a `FormatError` says why it is refused. Safetensors checks the arrays' positions."""
        check_size(len(data))
        length = int.from_bytes(data[:8], "little")
        if not 2 <= length <= len(data) - 8:
            raise FormatError(_NOT_OURS)
        try:
            header = read_json(data[8 : 8 + length], outer=True)
            entry = header.pop("__metadata__")[ENTRY].encode()
            arrays = {name: (one["dtype"], tuple(one["shape"])) for name, one in header.items()}
        except FormatError:
            raise
        except (ValueError, KeyError, TypeError, AttributeError):
            raise FormatError(_NOT_OURS) from None
        check_cost("reading its arrays", tensor_cost(len(data) - 8 - length))
        return cls(entry, arrays)

    @property
    def shapes(self) -> dict[str, tuple[int, ...]]:
        """The shape of each array, by name."""
        return {name: shape for name, (_, shape) in self.arrays.items()}


def pack(sums: NDArray[np.int64], description: dict[str, Any], rows: RowsAndWeights | None = None) -> bytes:
    """The bytes of a file: integers, their JSON description and, if rows are kept, the rows and their weights."""
    tensors = {"sums": np.ascontiguousarray(sums, dtype="<i8")}
    if rows is not None:
        tensors["rows"] = np.ascontiguousarray(rows[0], dtype="<f8")
        tensors["row_units"] = np.ascontiguousarray(rows[1], dtype="<i8")
    entry = json.dumps({"digest": _BLANK, "format": FORMAT, **description}, sort_keys=True, separators=(",", ":"))
    return with_digest(save_tensors(tensors, metadata={ENTRY: entry}))


def with_digest(data: bytes) -> bytes:
    """Fills in the blank digest of a file."""
    return data.replace(_BLANK.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def unpack(data: bytes, parse: Callable[[bytes], Any] = read_json) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the description that `pack` packed, every byte checked."""
    header = Header.of(data)
    try:
        description = parse(header.entry)
        number, digest = description["format"], description["digest"]
    except FormatError:
        raise
    except (ValueError, KeyError, TypeError):
        raise FormatError(_NOT_OURS) from None
    if type(number) is not int or number < 1:
        raise FormatError("not a sketchlearn file of a format that exists")
    if number > WITH_UNITS:
        raise FormatError(f"its format is newer than this sketchlearn reads ({WITH_UNITS}): upgrade sketchlearn")
    for format_of, field, yes, no in _MARKED:
        either = format_of == WITH_ROWS and number == WITH_UNITS  # with units, with rows or without
        if not either and (number == format_of) != (field in description):
            raise FormatError(f"a format of {number} says that it {yes if number == format_of else no}")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise FormatError("damaged: it has no digest")
    if _digest_without(data, digest.encode()) != digest:
        raise FormatError("damaged: the digest does not match")
    wanted, more = (_WITH_ROWS, ", and rows") if "kept_below" in description else (_SUMS, "")
    if {name: (dtype, len(shape)) for name, (dtype, shape) in header.arrays.items()} != wanted:
        raise FormatError(f"it does not hold one vector of 64-bit integers{more}")
    try:
        return load_tensors(data), description
    except SafetensorError:
        raise FormatError(_NOT_OURS) from None


def _digest_without(data: bytes, digest: bytes) -> str:
    """The digest of a file with its own digest blanked, without a copy of the file."""
    place, view = data.find(digest), memoryview(data)
    total = hashlib.sha256(view[:place])
    total.update(_BLANK.encode())
    total.update(view[place + len(digest) :])
    return total.hexdigest()


def read(path: str | os.PathLike[str], parse: Callable[[bytes], T]) -> T:
    """The result of `parse` for a file's bytes; a `FormatError` names the file."""
    try:
        return parse(bytes_of(path))
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)}: {error}") from None


def bytes_of(path: str | os.PathLike[str]) -> bytes:
    """The bytes of a file, unless they are too many to be loaded."""
    with open(path, "rb") as file:
        return read_at_most(file)


def write(path: str | os.PathLike[str], data: bytes, *, owner_only: bool = False, through_links: bool = True) -> None:
    """Writes a file as a whole, as `whole_file` does."""
    with whole_file(path, owner_only=owner_only, through_links=through_links) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, owner_only: bool = False, through_links: bool = True
) -> Iterator[BinaryIO]:
    """A file to write; whatever happens, the path then has either all of it or what was there before.

    An existing file keeps its permissions. A new one has those of the umask or, with `owner_only`, can be read by its
    owner alone. Links are followed; without `through_links`, they are refused.
    """
    target = Path(os.path.realpath(path) if through_links else path)
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot save {os.fspath(path)}: there is no folder {target.parent}")
    before = os.lstat(target) if os.path.lexists(target) else None
    if not os.path.basename(path) or (before and not stat.S_ISREG(before.st_mode)):
        raise OSError(f"cannot save {os.fspath(path) or 'without a name'}: that is not a regular file")
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        mode = 0o600 if owner_only or before else 0o666
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        if before:
            os.chmod(part, stat.S_IMODE(before.st_mode))
        os.replace(part, target)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(part)
        if isinstance(error, OSError) and error.strerror:  # a full disk has no name, and the part's says nothing
            raise OSError(error.errno, f"cannot write {os.fspath(path)}: {error.strerror}") from None
        raise
    with contextlib.suppress(OSError):  # the file is there; a folder that cannot be read cannot be flushed
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)


DESIGN, MODEL, CLASSES, SCHEMA = (f"sketchlearn {kind}" for kind in ("design", "model", "classes", "schema"))
MODEL_VERSION = 1
SHARED_IN_MODELS = frozenset({"kind", "version", "type", "n_features", "columns", "n_records"})
OPTIONAL_IN_MODELS = frozenset({"privacy", "parameters", "error_bars", "row_mean", "weight_scale"})


def to_document(kind: str, version: int, content: dict[str, Any]) -> bytes:
    """The bytes of a file: the same content always gives the same ones."""
    document = {"kind": kind, "version": version, **content}
    return (json.dumps(document, sort_keys=True, indent=1, allow_nan=False) + "\n").encode()


def from_document(data: bytes, kind: str, version: int) -> dict[str, Any]:
    """The JSON object of a file; a `FormatError` says in a sentence why another is refused."""
    document = parsed(data)
    found, number = document.get("kind"), document.get("version")
    if found != kind:
        other = found if found in (DESIGN, MODEL, CLASSES, SCHEMA) else "JSON file of something else"
        raise FormatError(f"not a {kind}, but a {other}")
    if type(number) is not int or number < 1:
        raise FormatError(f"a {kind} of a version that does not exist: {shortened(number)}")
    if number > version:
        newer = f"a {kind} of version {shortened(number)}, newer than this sketchlearn reads"
        raise FormatError(f"{newer} ({version}): upgrade sketchlearn")
    return document


def parsed(data: bytes) -> dict[str, Any]:
    """A JSON object, read strictly: no repeated keys, no NaN, nothing after its end."""
    check_size(len(data))
    try:
        document = read_json(data)
    except FormatError:
        raise
    except UnicodeDecodeError:
        raise FormatError("not a JSON file: it is not text") from None
    except ValueError as error:
        raise FormatError(f"not a JSON file, or a damaged one: {shortened(str(error), 100)[1:-1]}") from None
    if not isinstance(document, dict):
        raise FormatError("not a JSON file of sketchlearn: it holds no object")
    return document


def numbers_of(document: dict[str, Any], name: str, shape: tuple[int, ...]) -> NDArray[np.float64]:
    """A field of a document with finite numbers of this shape."""
    given = document[name]
    with contextlib.suppress(OverflowError):
        if _holds_numbers(given, shape) and np.all(np.isfinite(array := np.array(given, np.float64))):
            return array.reshape(shape)
    raise ValueError(f"{name} must be {' x '.join(map(str, shape)) or 'one'} finite numbers")


def _holds_numbers(given: Any, shape: tuple[int, ...]) -> bool:
    """Whether nested lists have this shape and hold only numbers: arrays of words could be huge."""
    if not shape:
        return type(given) in (int, float)
    if not isinstance(given, list) or len(given) != shape[0]:
        return False
    if len(shape) == 1:
        return set(map(type, given)) <= {int, float}
    return all(_holds_numbers(part, shape[1:]) for part in given)


def check_model_fields(document: dict[str, Any], own: Set[str]) -> None:
    """Raises an error if fields of a model file are missing or unknown."""
    odd = sorted((document.keys() - OPTIONAL_IN_MODELS) ^ (SHARED_IN_MODELS | own))
    if odd:
        raise ValueError(f"field {shortened(odd[0])} is {'unknown' if odd[0] in document else 'missing'}")


def is_network(data: bytes) -> bool:
    """Whether a file is a model in the safetensors format, not a sketch or JSON."""
    return data[8:9] == b"{" and data.find(MODEL.encode(), 8, 8 + int.from_bytes(data[:8], "little")) >= 0
