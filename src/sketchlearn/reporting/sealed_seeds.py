"""Seeds that only the second of two collectors can read, though they travel through the first.

The sender makes a fresh X25519 key for each seed; its agreement with the collector's public key gives, by HKDF with
SHA-256, a key that is used once, for ChaCha20-Poly1305. What the seed belongs to is bound to it as associated data: the
seed of one report cannot be opened as that of another.
"""

from __future__ import annotations

import os
from importlib import import_module
from typing import Any

from sketchlearn.extras import required
from sketchlearn.values import shortened

SEED_BYTES = 32
KEY_BYTES = 32
OVERHEAD = KEY_BYTES + 16  # The sender's public key before, and the tag after what is sealed.
MOST_CREDENTIAL_BYTES = 256
_PURPOSE = b"sketchlearn sealed seed 1"
_NONCE = bytes(12)  # Each key is used once.


def new_private_key() -> bytes:
    """A second collector's private key; whoever has it and what the first collector stores sees every report."""
    found: bytes = _x25519().X25519PrivateKey.generate().private_bytes_raw()
    return found


def public_key_of(private_key: bytes) -> str:
    """The public key, in 64 hexadecimal digits, which senders need.

    >>> len(public_key_of(new_private_key()))
    64
    """
    digits: str = _private(private_key).public_key().public_bytes_raw().hex()
    return digits


def seal(secret: bytes, public_key: str, bound: bytes) -> bytes:
    """A secret that only the owner of the key's private half can open, and only together with the same `bound` bytes.

    >>> private = new_private_key()
    >>> unseal(seal(b"seed", public_key_of(private), b"report 7"), private, b"report 7")
    b'seed'
    """
    ours = _x25519().X25519PrivateKey.generate()
    theirs = _public(public_key)
    own = ours.public_key().public_bytes_raw()
    key = _key(ours, theirs, own + theirs.public_bytes_raw())
    sealed: bytes = own + _cipher(key).encrypt(_NONCE, secret, bound)
    return sealed


def unseal(sealed: bytes, private_key: bytes, bound: bytes) -> bytes:
    """The secret; a `ValueError` if it was sealed for another key, bound to something else, or changed."""
    ours = _private(private_key)
    try:
        theirs = _x25519().X25519PublicKey.from_public_bytes(sealed[:KEY_BYTES])
        key = _key(ours, theirs, sealed[:KEY_BYTES] + ours.public_key().public_bytes_raw())
        secret: bytes = _cipher(key).decrypt(_NONCE, sealed[KEY_BYTES:], bound)
    except (ValueError, import_module("cryptography.exceptions").InvalidTag):
        raise ValueError(
            "a sealed seed cannot be opened: it was sealed for another key, belongs to another report, or was changed"
        ) from None
    return secret


def keystream(seed: bytes, n_bytes: int) -> bytes:
    """So many pseudorandom bytes from a seed of 32: the stream of ChaCha20."""
    if len(seed) != SEED_BYTES:
        raise ValueError(f"a seed has {SEED_BYTES} bytes, not {len(seed)}")
    ciphers = _primitives("ciphers")
    cipher = ciphers.Cipher(ciphers.algorithms.ChaCha20(seed, bytes(16)), mode=None)
    stream: bytes = cipher.encryptor().update(bytes(n_bytes))
    return stream


def new_seed() -> bytes:
    """A seed from the operating system's secure source."""
    return os.urandom(SEED_BYTES)


def _key(ours: Any, theirs: Any, both_public: bytes) -> bytes:
    hkdf, hashes = _primitives("kdf.hkdf"), _primitives("hashes")
    found: bytes = hkdf.HKDF(hashes.SHA256(), 32, None, _PURPOSE + both_public).derive(ours.exchange(theirs))
    return found


def _public(digits: str) -> Any:
    try:
        return _x25519().X25519PublicKey.from_public_bytes(bytes.fromhex(digits))
    except (ValueError, TypeError):
        raise ValueError(
            f"a second collector's public key has {2 * KEY_BYTES} hexadecimal digits, not {shortened(digits)}"
        ) from None


def _private(key: bytes) -> Any:
    try:
        return _x25519().X25519PrivateKey.from_private_bytes(key)
    except (ValueError, TypeError):
        raise ValueError(f"a second collector's private key has {KEY_BYTES} bytes") from None


def _cipher(key: bytes) -> Any:
    return _primitives("ciphers.aead").ChaCha20Poly1305(key)


def _x25519() -> Any:
    return _primitives("asymmetric.x25519")


def _primitives(name: str) -> Any:
    required("cryptography", "serve")
    return import_module(f"cryptography.hazmat.primitives.{name}")
