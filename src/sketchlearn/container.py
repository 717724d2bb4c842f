"""The container of saved sketches: a safetensors file with one JSON entry and a digest of every byte.

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
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.numpy import load as load_tensors
from safetensors.numpy import save as save_tensors

FORMAT, PRIVATE = 1, 2  # private sketches have a number of their own: older readers must not take them for exact ones
ENTRY = "sketchlearn"
_BLANK = "0" * 64


class FormatError(ValueError):
    """A file is not what it should be."""


def pack(sums: NDArray[np.int64], description: dict[str, Any]) -> bytes:
    """The bytes of a file: integers, and a JSON object about them."""
    entry = json.dumps({"digest": _BLANK, "format": FORMAT, **description}, sort_keys=True, separators=(",", ":"))
    data = save_tensors({"sums": np.ascontiguousarray(sums, dtype="<i8")}, metadata={ENTRY: entry})
    return data.replace(_BLANK.encode(), hashlib.sha256(data).hexdigest().encode(), 1)


def unpack(data: bytes) -> tuple[NDArray[np.int64], dict[str, Any]]:
    """What `pack` packed, every byte checked."""
    try:
        tensors = load_tensors(data)
        header = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        description = json.loads(header["__metadata__"][ENTRY], object_pairs_hook=without_repetition)
        number, digest = description["format"], description["digest"]
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError):
        raise FormatError("not a sketchlearn file, or a damaged one") from None
    if type(number) is not int or number < 1:
        raise FormatError("not a sketchlearn file of a format that exists")
    if number > PRIVATE:
        raise FormatError(
            f"its format is newer than this version of sketchlearn reads ({PRIVATE}): upgrade sketchlearn"
        )
    if (number == PRIVATE) != ("ledger" in description):
        raise FormatError(f"a format of {number} says that it is {'' if number == PRIVATE else 'not '}private")
    if not isinstance(digest, str) or not re.fullmatch("[0-9a-f]{64}", digest):
        raise FormatError("damaged: it has no digest")
    if hashlib.sha256(data.replace(digest.encode(), _BLANK.encode(), 1)).hexdigest() != digest:
        raise FormatError("damaged: the digest does not match")
    sums = tensors.get("sums")
    if len(tensors) != 1 or sums is None or sums.dtype != np.int64 or sums.ndim != 1:
        raise FormatError("it does not hold one vector of 64-bit integers")
    return sums, description


def without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """A JSON object, unless a key comes twice: readers would differ in which one counts."""
    found = dict(pairs)
    if len(found) < len(pairs):
        raise ValueError("a key is repeated")
    return found


def write(path: str | os.PathLike[str], data: bytes) -> None:
    """Writes a file so that, whatever happens, either all of it is there or what was there before."""
    target = Path(os.path.realpath(path))  # a link stays one
    if not target.parent.is_dir():
        raise FileNotFoundError(f"cannot save {os.fspath(path)}: there is no folder {target.parent}")
    before = os.lstat(target) if os.path.lexists(target) else None
    if not os.path.basename(path) or (before and not stat.S_ISREG(before.st_mode)):
        raise OSError(f"cannot save {os.fspath(path) or 'without a name'}: that is not a regular file")
    part = target.with_name(f".{secrets.token_hex(8)}.part")
    try:
        with os.fdopen(os.open(part, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666), "wb") as file:
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        if before:
            os.chmod(part, stat.S_IMODE(before.st_mode))
        os.replace(part, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(part)
        raise
    with contextlib.suppress(OSError):  # the file is there; a folder that cannot be read cannot be flushed
        folder = os.open(target.parent, os.O_RDONLY)
        try:
            os.fsync(folder)
        finally:
            os.close(folder)
