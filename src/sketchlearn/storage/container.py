"""The container of saved sketches: a safetensors file with one JSON entry and a digest of every byte.

The digest detects damage, not forgery; signatures.py is about that.

Nothing in it is executed. docs/file-format.md describes it for readers in other languages.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import re
import secrets
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

from sketchlearn.cost import Cost
from sketchlearn.storage.loading_limit import check_cost

# Private sketches have a format number of their own, so that older readers do not take them for exact ones; and so
# have those with rows, so that nobody passes rows on without knowing; and those of units, with rows or without, which
# an older version would release as if rows were to be protected.
FORMAT, PRIVATE, WITH_ROWS, WITH_UNITS = 1, 2, 3, 4
ENTRY = "sketchlearn"
T = TypeVar("T")
RowsAndWeights = tuple[NDArray[np.float64], NDArray[np.int64]]
_BLANK = "0" * 64
_SUMS = {"sums": (np.dtype(np.int64), 1)}
_WITH_ROWS = {**_SUMS, "rows": (np.dtype(np.float64), 2), "row_units": (np.dtype(np.int64), 1)}


class FormatError(ValueError):
    """A file is not what it should be."""


def check_text(text: bytes) -> None:
    """Refuses JSON that would take too long to read, or too much memory: up to ten times its own.

    Each object in it may be a law or an operator with fields of its own, which takes 70 microseconds to build.
    """
    bytes_of_text = Cost.of_numbers(len(text), bytes_each=10, operations_each=50)
    try:
        check_cost("reading it", bytes_of_text)  # first: of gigabytes, counting objects alone would take seconds
        objects = Cost.of_numbers(text.count(b"{"), bytes_each=1000, operations_each=70_000)
        check_cost("reading it", bytes_of_text + objects)
    except ValueError as error:
        raise FormatError(f"a file with {len(text):,} bytes of text: {error}") from None


def pack(sums: NDArray[np.int64], description: dict[str, Any], rows: RowsAndWeights | None = None) -> bytes:
    """The bytes of a file: integers, a JSON object about them and, if rows are kept, those and their weights."""
    tensors = {"sums": np.ascontiguousarray(sums, dtype="<i8")}
    if rows is not None:
        tensors["rows"] = np.ascontiguousarray(rows[0], dtype="<f8")
        tensors["row_units"] = np.ascontiguousarray(rows[1], dtype="<i8")
    entry = json.dumps({"digest": _BLANK, "format": FORMAT, **description}, sort_keys=True, separators=(",", ":"))
    return with_digest(save_tensors(tensors, metadata={ENTRY: entry}))


def with_digest(data: bytes) -> bytes:
    """A file whose digest is blank, with its digest, which detects damage, not forgery: anybody can make one."""
    return data.replace(_BLANK.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def parse_description(text: str) -> dict[str, Any]:
    """The description of a file from its text."""
    found: dict[str, Any] = json.loads(text, object_pairs_hook=without_repetition)
    return found


def unpack(
    data: bytes, parse: Callable[[str], dict[str, Any]] = parse_description
) -> tuple[dict[str, NDArray[Any]], dict[str, Any]]:
    """The arrays and the description that `pack` packed, every byte checked."""
    try:
        tensors = load_tensors(data)
        length = int.from_bytes(data[:8], "little")
    except SafetensorError:
        raise FormatError("not a sketchlearn file, or a damaged one") from None
    text = data[8 : 8 + length]
    check_text(text)
    try:
        header = json.loads(text)
        description = parse(header["__metadata__"][ENTRY])
        number, digest = description["format"], description["digest"]
    except (ValueError, KeyError, TypeError, RecursionError):
        raise FormatError("not a sketchlearn file, or a damaged one") from None
    if type(number) is not int or number < 1:
        raise FormatError("not a sketchlearn file of a format that exists")
    if number > WITH_UNITS:
        raise FormatError(f"its format is newer than this sketchlearn reads ({WITH_UNITS}): upgrade sketchlearn")
    with_rows = "kept_below" in description
    if number != WITH_UNITS and (number == WITH_ROWS) != with_rows:
        raise FormatError(f"a format of {number} says that it has {'' if number == WITH_ROWS else 'no '}rows")
    if (number == WITH_UNITS) != ("unit" in description):
        raise FormatError(f"a format of {number} says that it has {'' if number == WITH_UNITS else 'no '}units")
    if (number == PRIVATE) != ("ledger" in description):
        raise FormatError(f"a format of {number} says that it is {'' if number == PRIVATE else 'not '}private")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise FormatError("damaged: it has no digest")
    if hashlib.sha256(data.replace(digest.encode(), _BLANK.encode(), 1)).hexdigest() != digest:
        raise FormatError("damaged: the digest does not match")
    wanted = _WITH_ROWS if with_rows else _SUMS
    if {name: (array.dtype, array.ndim) for name, array in tensors.items()} != wanted:
        more = ", and rows" if with_rows else ""
        raise FormatError(f"it does not hold one vector of 64-bit integers{more}")
    return tensors, description


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, unless a key comes twice: readers would differ in which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def read(path: str | os.PathLike[str], parse: Callable[[bytes], T]) -> T:
    """What `parse` makes of a file's bytes; a `FormatError` names the file."""
    try:
        return parse(Path(path).read_bytes())
    except FormatError as error:
        raise FormatError(f"{os.fspath(path)}: {error}") from None


def write(path: str | os.PathLike[str], data: bytes, *, owner_only: bool = False, through_links: bool = True) -> None:
    """Writes a file as a whole, as `whole_file` does."""
    with whole_file(path, owner_only=owner_only, through_links=through_links) as file:
        file.write(data)


@contextlib.contextmanager
def whole_file(
    path: str | os.PathLike[str], *, owner_only: bool = False, through_links: bool = True
) -> Iterator[BinaryIO]:
    """A file to write so that, whatever happens, either all of it is there or what was there before.

    A file that was there keeps its permissions. A new one has those that the umask leaves or, with `owner_only`, can
    be read by its owner alone. A link stays one, and the file that it leads to is written; without `through_links`,
    links are refused.
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
