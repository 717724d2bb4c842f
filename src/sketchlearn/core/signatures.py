"""Ed25519 signatures over every byte of a file, and files of keys.

The digest of a file detects damage, not forgery: whoever changes the file can write a new digest. A signature is made
with a private key and checked with the public one, which cannot make any.
docs/reference/file-format.md says what is signed.
"""

from __future__ import annotations

import os
import re
import secrets
from collections.abc import Callable, Iterable
from contextlib import suppress
from importlib import import_module
from pathlib import Path
from typing import Any

from sketchlearn.core import containers as container
from sketchlearn.core.limits import FormatError, loading
from sketchlearn.core.messages import warn_caller
from sketchlearn.core.packages import required
from sketchlearn.core.values import shortened

ENTRY = "signature"
KEY_DIGITS, VALUE_DIGITS = 64, 128  # Hexadecimal digits of a public key and of a signature.


def signed(write: Callable[..., bytes], entries: dict[str, Any], key: Any) -> bytes:
    """The bytes of a file that `write` makes of entries and of one more: the signature of the whole file."""
    private = private_key(key)
    place = secrets.token_hex(VALUE_DIGITS // 2)  # random digits, which cannot be elsewhere in the file
    data = write(**entries, **{ENTRY: {"key": _digits(private.public_key()), "value": place}})
    with loading(limited=False):
        without_digest = _blanked(data, container.unpack(data)[1]["digest"])
    value: str = private.sign(_blanked(without_digest, place)).hex()
    return container.with_digest(without_digest.replace(place.encode(), value.encode()))


def check_signature(data: bytes, description: dict[str, Any], trusted: frozenset[str] | None) -> None:
    """Raises an error if the signature is wrong or, unless `trusted` is None, not by one of those public keys."""
    key = signer(description)
    if key is None:
        if trusted is None:
            return
        raise FormatError(
            "it is not signed, but only files signed by a trusted key are accepted: ask whoever wrote it to sign it"
        )
    try:
        ed25519 = _ed25519()
    except ImportError:
        if trusted is not None:
            raise
        warn_caller("the signature of a sketch was not checked: pip install 'sketchlearn[signing]'")
        return
    value = description[ENTRY]["value"]
    content = _blanked(data, description["digest"], value)
    try:
        ed25519.Ed25519PublicKey.from_public_bytes(bytes.fromhex(key)).verify(bytes.fromhex(value), content)
    except (ValueError, _cryptography("exceptions").InvalidSignature):
        changed = "it was changed after it was signed, or not signed by that key"
        raise FormatError(f"its signature does not match: {changed}; get it again from whoever signed it") from None
    if trusted is not None and key not in trusted:
        raise FormatError(f"it is signed by the key {key}, which is not trusted: ask its sender whose key that is")


def signer(description: dict[str, Any]) -> str | None:
    """The public key that a file claims to be signed by, not yet checked; None without a signature."""
    if ENTRY not in description:
        return None
    match description[ENTRY]:
        case {"key": str(key), "value": value, **others} if not others:
            if _is_hexadecimal(key, KEY_DIGITS) and _is_hexadecimal(value, VALUE_DIGITS):
                return key
    raise FormatError("its signature is damaged: it must be a key of 64 and a value of 128 hexadecimal digits")


def private_key(key: Any) -> Any:
    """The private key in a PEM file, or the given key."""
    ed25519 = _ed25519()
    if isinstance(key, ed25519.Ed25519PrivateKey):
        return key
    if not isinstance(key, str | os.PathLike):
        raise TypeError(f"key must be the path of a private key, or an Ed25519PrivateKey, not {type(key).__name__}")
    return _key_in_pem(key, "private", ed25519.Ed25519PrivateKey)


def public_keys(trusted: Iterable[Any]) -> frozenset[str]:
    """The digits of public keys, given as digits, paths of files, or key objects."""
    if isinstance(trusted, str | bytes | os.PathLike) or not isinstance(trusted, Iterable):
        raise TypeError(f"trusted must be a list of public keys, not {type(trusted).__name__}")
    keys = frozenset(map(_public_key, trusted))
    if not keys:
        raise ValueError("trusted is empty, so no file would be accepted: give at least one public key")
    return keys


def write_keys(name: str | os.PathLike[str]) -> str:
    """Writes a pair of keys; returns the digits of the public one.

    NAME.key has the private key, as PEM, readable by its owner alone; NAME.pub has the digits of the public one.

    >>> import os, sketchlearn as skl, tempfile
    >>> sketch = skl.features.SecondMoments(2, bound=9.0).sketch([[1.0, 2.0]])
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     mine = os.path.join(folder, "mine")
    ...     public = write_keys(mine)
    ...     data = sketch.to_bytes(key=f"{mine}.key")
    ...     skl.from_bytes(data, trusted=[f"{mine}.pub"]) == skl.from_bytes(data, trusted=[public]) == sketch
    True
    """
    serialization = _cryptography("hazmat.primitives.serialization")
    private = _ed25519().Ed25519PrivateKey.generate()
    form = (serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    digits = _digits(private.public_key())
    files = ((".key", private.private_bytes(*form), 0o600), (".pub", f"{digits}\n".encode(), 0o644))
    written: list[str] = []
    try:
        for ending, data, mode in files:
            path = os.fspath(name) + ending
            with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode), "wb") as file:
                written.append(path)
                file.write(data)
    except BaseException as error:
        for path in written:
            with suppress(OSError):
                os.unlink(path)
        if isinstance(error, FileExistsError):
            raise FileExistsError(f"{error.filename} is there already: give another name") from None
        raise
    return digits


def _public_key(item: Any) -> str:
    if isinstance(item, str) and _is_hexadecimal(item.lower(), KEY_DIGITS):
        return item.lower()
    if isinstance(item, str | os.PathLike):
        if isinstance(item, str) and not os.path.exists(item):
            raise ValueError(f"{shortened(item)} is neither a public key ({KEY_DIGITS} hexadecimal digits) nor a file")
        text = _file_of_key(item).strip().lower().decode("ascii", "replace")
        if _is_hexadecimal(text, KEY_DIGITS):
            return text
        return _digits(_key_in_pem(item, "public", _ed25519().Ed25519PublicKey))
    if isinstance(item, _ed25519().Ed25519PublicKey):
        return _digits(item)
    raise TypeError(f"a trusted key must be its digits, a path, or an Ed25519PublicKey, not {type(item).__name__}")


def _key_in_pem(path: str | os.PathLike[str], kind: str, wanted: type) -> Any:
    data, serialization = _file_of_key(path), _cryptography("hazmat.primitives.serialization")
    try:
        if kind == "private":
            found = serialization.load_pem_private_key(data, None)
        else:
            found = serialization.load_pem_public_key(data)
    except TypeError:
        raise ValueError(f"the key in {os.fspath(path)} has a password: give one without") from None
    except (ValueError, _cryptography("exceptions").UnsupportedAlgorithm):
        found = None
    if isinstance(found, wanted):
        return found
    ending = ".key" if kind == "private" else ".pub"
    raise ValueError(f"{os.fspath(path)} has no {kind} ed25519 key: give the {ending} file of sketchlearn keygen")


def _file_of_key(path: str | os.PathLike[str]) -> bytes:
    try:
        return Path(path).read_bytes()
    except OSError as error:
        raise OSError(f"cannot read the key {os.fspath(path)}: {error.strerror}") from None


def _blanked(data: bytes, *texts: str) -> bytes:
    """The bytes with zeros in place of digits that occur once: a second occurrence could hide a change."""
    for text in texts:
        if data.count(text.encode()) != 1:
            raise FormatError("damaged: its digest and its signature must be there once, in plain digits")
        data = data.replace(text.encode(), b"0" * len(text))
    return data


def _is_hexadecimal(text: Any, length: int) -> bool:
    return isinstance(text, str) and re.fullmatch(f"[0-9a-f]{{{length}}}", text) is not None


def _digits(public: Any) -> str:
    return str(public.public_bytes_raw().hex())


def _cryptography(module: str) -> Any:
    required("cryptography", "signing")
    return import_module(f"cryptography.{module}")


def _ed25519() -> Any:
    return _cryptography("hazmat.primitives.asymmetric.ed25519")
