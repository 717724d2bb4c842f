"""Secret shares of a report: one for each of two collectors, neither of which tells anything by itself.

The integers of a sketch, its sums and its count, are a vector v modulo 2^64. One share r is expanded from a seed, the
other is v - r. Each of them is uniform whatever v is; over all reports, sum (v - r) + sum r = sum v, exactly.

One message goes to the first collector: v - r, and the seed, encrypted for the second collector.
docs/how-to/hidden-sums.md says who can learn what.
"""

from __future__ import annotations

import hashlib
import json
import os
import struct
import time as clock
from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.collector.clients.client import PART_MAGIC as MAGIC
from sketchlearn.collector.clients.client import Collector, path_of
from sketchlearn.collector.epoch_times import from_text, in_iso, start_of
from sketchlearn.core.containers import read_json
from sketchlearn.core.limits import FormatError, check_size
from sketchlearn.core.messages import printable
from sketchlearn.core.packages import required
from sketchlearn.core.values import shortened, whole
from sketchlearn.privacy.release import privatize
from sketchlearn.sketch.ledger import Ledger
from sketchlearn.sketch.sums import Sketch

SEED_BYTES = 32
KEY_BYTES = 32
OVERHEAD = KEY_BYTES + 16  # bytes: the encapsulated key before, and the tag after what is encrypted
MOST_CREDENTIAL_BYTES = 256


def new_private_key() -> bytes:
    """A second collector's private key. With it and what the first collector stores, one sees every report."""
    return bytes(_primitives("asymmetric.x25519").X25519PrivateKey.generate().private_bytes_raw())


def public_key_of(private_key: bytes) -> str:
    """The public key, in 64 hexadecimal digits, which senders need.

    >>> len(public_key_of(new_private_key()))
    64
    """
    return str(_private(private_key).public_key().public_bytes_raw().hex())


def seal(secret: bytes, public_key: str, bound: bytes) -> bytes:
    """Encrypts a secret for the owner of a key, bound to the bytes `bound`, with HPKE in base mode (RFC 9180).

    >>> private = new_private_key()
    >>> unseal(seal(b"seed", public_key_of(private), b"report 7"), private, b"report 7")
    b'seed'
    """
    x25519 = _primitives("asymmetric.x25519")
    try:
        recipient = x25519.X25519PublicKey.from_public_bytes(bytes.fromhex(public_key))
        return bytes(_hpke().encrypt(secret, recipient, info=bound))
    except (ValueError, TypeError):
        raise ValueError(
            f"a second collector's public key has {2 * KEY_BYTES} hexadecimal digits, not {shortened(public_key)}"
        ) from None


def unseal(sealed: bytes, private_key: bytes, bound: bytes) -> bytes:
    """Decrypts a secret; a `ValueError` if it is for another key, bound to other bytes, or was changed."""
    recipient = _private(private_key)
    invalid = (ValueError, required("cryptography.exceptions", "serve").InvalidTag)
    try:
        return bytes(_hpke().decrypt(sealed, recipient, info=bound))
    except invalid:
        try:
            return _unseal_version_1(sealed, recipient, bound)
        except invalid:
            raise ValueError(
                "an encrypted seed cannot be opened: it is for another key, belongs to another report, or was changed"
            ) from None


def _unseal_version_1(sealed: bytes, recipient: Any, bound: bytes) -> bytes:
    """Decrypts what versions before HPKE encrypted: seeds that wait at a first collector, and spooled reports."""
    hkdf, hashes = _primitives("kdf.hkdf"), _primitives("hashes")
    sender = _primitives("asymmetric.x25519").X25519PublicKey.from_public_bytes(sealed[:KEY_BYTES])
    info = b"sketchlearn sealed seed 1" + sealed[:KEY_BYTES] + recipient.public_key().public_bytes_raw()
    key = hkdf.HKDF(hashes.SHA256(), 32, None, info).derive(recipient.exchange(sender))
    return bytes(_primitives("ciphers.aead").ChaCha20Poly1305(key).decrypt(bytes(12), sealed[KEY_BYTES:], bound))


def new_seed() -> bytes:
    return os.urandom(SEED_BYTES)


def _private(key: bytes) -> Any:
    try:
        return _primitives("asymmetric.x25519").X25519PrivateKey.from_private_bytes(key)
    except (ValueError, TypeError):
        raise ValueError(f"a second collector's private key has {KEY_BYTES} bytes") from None


def _hpke() -> Any:
    hpke = _primitives("hpke")
    return hpke.Suite(hpke.KEM.X25519, hpke.KDF.HKDF_SHA256, hpke.AEAD.CHACHA20_POLY1305)


def _primitives(name: str) -> Any:
    return required(f"cryptography.hazmat.primitives.{name}", "serve")


Words = NDArray[np.uint64]
START = struct.Struct("<8sI")  # magic, bytes of the header
DIGEST_BYTES = 32
MOST_HEADER_BYTES = 2**16
MOST_NAME = 200
MOST_INTEGERS = 2**24


class LedgerOrNone:
    """The JSON of a dataclass, whose field `ledger` may be None."""

    ledger: Ledger | None

    def to_json(self) -> dict[str, Any]:
        return {**vars(self), "ledger": None if self.ledger is None else self.ledger.to_json()}

    @classmethod
    def from_json(cls, form: Any) -> Self:
        names = [field.name for field in fields(cls)]  # type: ignore[arg-type]
        if not isinstance(form, dict) or form.keys() != set(names):
            raise ValueError(f"its header must have {', '.join(names)}, and nothing else")
        ledger = None if form["ledger"] is None else Ledger.from_json(form["ledger"])
        return cls(**{**form, "ledger": ledger})


@dataclass(frozen=True)
class PartHeader(LedgerOrNone):
    """What both collectors know of a report; the encrypted seed is bound to all of it.

    Parameters
    ----------
    id : chosen by the sender, for this report alone.
    collection, epoch : what it is added to.
    design : the digest of the collection's design.
    integers : their number: the operator's sums, and the count.
    ledger : what each share of distributed noise claims; None if the integers are exact.
    """

    id: str
    collection: str
    epoch: str
    design: str
    integers: int
    ledger: Ledger | None = None

    def __post_init__(self) -> None:
        for name in ("id", "collection", "epoch", "design"):
            text = getattr(self, name)
            if not isinstance(text, str) or not 0 < len(text) <= MOST_NAME or printable(text) != text:
                raise ValueError(f"{name} must be a text of 1 to {MOST_NAME} characters, not {shortened(text)}")
        whole("integers", self.integers, 2, MOST_INTEGERS)
        if self.ledger is not None:
            _require_one_share(self.ledger)

    def bound(self) -> bytes:
        """The bytes that the encrypted seed is bound to."""
        return _canonical(self.to_json())


@dataclass(frozen=True)
class SealedSeed:
    """What the second collector gets of a report, through the first."""

    header: PartHeader
    sealed: bytes

    @property
    def fingerprint(self) -> str:
        """Identifies one split of a report: only shares of the same split may be added."""
        return hashlib.sha256(self.sealed).hexdigest()

    def open(self, private_key: bytes) -> tuple[bytes, str]:
        """The seed, and the sender's credential for the second collector."""
        secret = unseal(self.sealed, private_key, self.header.bound())
        if len(secret) < SEED_BYTES:
            raise ValueError("an encrypted seed is too short")
        try:
            return secret[:SEED_BYTES], secret[SEED_BYTES:].decode("ascii")
        except UnicodeDecodeError:
            raise ValueError("the credential beside an encrypted seed is not ASCII text") from None

    def to_json(self) -> dict[str, Any]:
        return {"header": self.header.to_json(), "sealed": self.sealed.hex()}

    @classmethod
    def from_json(cls, form: Any) -> SealedSeed:
        if not isinstance(form, dict) or form.keys() != {"header", "sealed"} or not isinstance(form["sealed"], str):
            raise ValueError("an encrypted seed must have the names header and sealed, and nothing else")
        sealed, least = bytes.fromhex(form["sealed"]), SEED_BYTES + OVERHEAD
        if not least <= len(sealed) <= least + MOST_CREDENTIAL_BYTES or sealed.hex() != form["sealed"]:
            raise ValueError(
                "its encrypted seed is malformed: it has the wrong length, or characters that are not hexadecimal"
            )
        return cls(PartHeader.from_json(form["header"]), sealed)


@dataclass(frozen=True, eq=False)
class HiddenPart:
    """One report as it is sent: the share of the first collector, and the encrypted seed of the other share.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> from sketchlearn.collector.clients.secret_shares import new_private_key, public_key_of
    >>> sketch = skl.features.SecondMoments(2, bound=9.0).sketch([[1.0, 2.0], [3.0, 4.0]])
    >>> private = new_private_key()
    >>> part = hide(sketch, "r1", collection="c", epoch="2026-01-01", design="d", public_key=public_key_of(private))
    >>> total = added([part.rest, expanded(part.sealed_seed.open(private)[0], part.header.integers)])
    >>> bool((total.view(np.int64)[:-1] == sketch.sums).all()), int(total[-1])
    (True, 2)
    """

    sealed_seed: SealedSeed
    rest: Words

    def __post_init__(self) -> None:
        if self.rest.dtype != np.uint64 or self.rest.shape != (self.header.integers,):
            raise ValueError(f"the share must be {self.header.integers} unsigned integers of 64 bits")

    @property
    def header(self) -> PartHeader:
        return self.sealed_seed.header

    def to_bytes(self) -> bytes:
        """The message: magic, length of the header, the header as JSON, the integers, and a digest of all before."""
        header = _canonical(self.sealed_seed.to_json())
        body = START.pack(MAGIC, len(header)) + header + self.rest.astype("<u8", copy=False).tobytes()
        return body + hashlib.sha256(body).digest()

    @classmethod
    def from_bytes(cls, data: bytes) -> HiddenPart:
        """What `to_bytes` wrote; a `FormatError` says in a sentence why other bytes are refused."""
        check_size(len(data))
        if len(data) < START.size + DIGEST_BYTES or data[: len(MAGIC)] != MAGIC:
            raise FormatError("not a secret share in a format that this version of sketchlearn reads")
        length = START.unpack_from(data)[1]
        body, digest = data[:-DIGEST_BYTES], data[-DIGEST_BYTES:]
        if hashlib.sha256(body).digest() != digest:
            raise FormatError("damaged: the digest does not match")
        if length > MOST_HEADER_BYTES or START.size + length > len(body):
            raise FormatError("damaged: its header does not fit")
        header, numbers = body[START.size : START.size + length], body[START.size + length :]
        try:
            form = read_json(header)
            sealed_seed = SealedSeed.from_json(form)
        except (ValueError, TypeError, KeyError, OverflowError) as error:
            raise FormatError(f"not a secret share that this version can use: {error}") from None
        if _canonical(form) != header:
            raise FormatError("not a secret share: its header is not canonical JSON")
        if len(numbers) != 8 * sealed_seed.header.integers:
            raise FormatError(f"damaged: it must have {sealed_seed.header.integers} integers")
        return cls(sealed_seed, np.frombuffer(numbers, "<u8").astype(np.uint64, copy=False))


def hide(
    sketch: Sketch,
    report_id: str,
    *,
    collection: str,
    epoch: str,
    design: str,
    public_key: str,
    credential: str = "",
) -> HiddenPart:
    """Splits a sketch into secret shares. The result is sent to the first collector, always in the same bytes.

    `public_key` is the second collector's; `credential` tells it who sends. Sampled rows beside the sums are not sent,
    nor are notes of skipped files and clipped rows.
    """
    integers = integers_of(sketch)
    header = PartHeader(report_id, collection, epoch, design, len(integers), sketch.ledger)
    if len(credential) > MOST_CREDENTIAL_BYTES or not credential.isascii():
        raise ValueError(f"a credential is ASCII text of at most {MOST_CREDENTIAL_BYTES} characters")
    seed = new_seed()
    sealed = seal(seed + credential.encode("ascii"), public_key, header.bound())
    return HiddenPart(SealedSeed(header, sealed), integers - expanded(seed, len(integers)))


def integers_of(sketch: Sketch) -> Words:
    """Sums and count, modulo 2^64. Sketches that cannot be shared secretly are refused."""
    if sketch.bits or sketch.heaviest > 1:
        raise ValueError("secure aggregation takes records of weight 1: sketch without weights")
    if sketch.unit is not None:
        raise ValueError(
            "an exact sketch of privacy units cannot be split into secret shares: add a share of noise first"
        )
    if sketch.ledger is not None:
        _require_one_share(sketch.ledger)
    return np.append(sketch.sums, np.int64(sketch.units)).view(np.uint64)


def expanded(seed: bytes, n_integers: int) -> Words:
    """The share that a seed is expanded to: the stream of ChaCha20."""
    ciphers = _primitives("ciphers")
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(seed, bytes(16)), mode=None)
    stream = cipher.encryptor().update(bytes(8 * n_integers))
    return np.frombuffer(stream, "<u8").astype(np.uint64, copy=False)


def added(vectors: Iterable[Words]) -> Words:
    """The sum modulo 2^64.

    >>> added([np.array([2**64 - 1, 5], np.uint64), np.array([2, 2**63], np.uint64)]).tolist()
    [1, 9223372036854775813]
    """
    total: Words | None = None
    for vector in vectors:
        total = vector.copy() if total is None else np.add(total, vector, out=total)
    if total is None:
        raise ValueError("nothing to add")
    return total


def _require_one_share(ledger: Ledger) -> None:
    if ledger.parties is None:
        raise ValueError(
            "a private release needs no secret shares: report it as it is, or release shares of noise, which add up to "
            "one release's noise"
        )
    if ledger.shares != 1:
        raise ValueError("a report must be one share of noise, not a sum of several")


def _canonical(form: dict[str, Any]) -> bytes:
    return json.dumps(form, sort_keys=True, separators=(",", ":"), allow_nan=False).encode("ascii")


def design_digest(operator: Any) -> str:
    """The digest by which both collectors and all senders know a design, without its sample of rows."""
    return hashlib.sha256(_canonical(operator.without_keeping().to_json())).hexdigest()


def hidden_report(
    collector: Collector,
    collection: str,
    sketch: Sketch,
    *,
    id: str,
    second_key: str,
    second_token: str = "",
    time: float | str | None = None,
) -> bytes:
    """The message for `collector.report(collection, message, id=id)`: split once, and sent as often as needed.

    If the collection asks for distributed noise, the sketch gets its share here.
    """
    rules = collector.get(path_of(collection))["rules"]
    if rules.get("hidden") != "first":
        raise ValueError(f"the collection {collection} does not use secure aggregation: send sketches as they are")
    sketch = sketch.without_rows()
    most = rules["records_per_report"]
    if sketch.units > most:
        raise ValueError(f"a report has at most {most:,} records here, and this one {sketch.units:,}: send several")
    operator: Any = sketch.operator
    if rules["noise_epsilon"] is not None:
        sketch = privatize(sketch, epsilon=rules["noise_epsilon"], parties=rules["noise_parties"])
    if time is None:
        time = clock.time()
    return hide(
        sketch,
        id,
        collection=collection,
        epoch=in_iso(start_of(rules["epoch"], from_text(time) if isinstance(time, str) else time)),
        design=design_digest(operator),
        public_key=second_key,
        credential=second_token.strip(),
    ).to_bytes()
