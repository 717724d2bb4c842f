"""Exact draws from the operating system's secure source, in integers alone."""

from __future__ import annotations

import secrets

import numpy as np
from numpy.typing import NDArray

Words = NDArray[np.uint64]
WORD = 2**64


def words(size: int) -> Words:
    """So many uniform words of 64 bits."""
    return np.frombuffer(secrets.token_bytes(8 * size), np.uint64)


def uniform_below(limit: int | NDArray[np.integer], size: int) -> Words:
    """Uniform whole numbers from 0 to limit - 1, one limit for all or one for each: 1 to 2^63.

    Words from the largest multiple of the limit on are drawn anew, so that no number is likelier than another.

    >>> bool(np.all(uniform_below(10, 1000) < 10))
    True
    """
    limits = np.broadcast_to(np.asarray(limit, np.uint64), (size,))
    # the largest multiple of the limit that fits, less one
    highest = np.uint64(WORD - 1) - (np.uint64(WORD - 1) % limits + np.uint64(1)) % limits
    drawn = words(size).copy()
    while len(again := np.flatnonzero(drawn > highest)):
        drawn[again] = words(len(again))
    return drawn % limits
