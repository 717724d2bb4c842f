"""Sketches of bits: of all that readings contribute, or of what randomised response leaves of them."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np
from numpy.typing import NDArray

from sketchlearn.ledger import ASSUMED, DECLARED, RANDOMISED_RESPONSE, REPLACE, Ledger
from sketchlearn.operators.origin import Origin
from sketchlearn.packed import PackedBits
from sketchlearn.private_bits import PrivateBits
from sketchlearn.randomised_response import RandomisedResponse


def packed_integers(integers: NDArray[np.integer], n_bits: int) -> PackedBits:
    """Rows of odd numbers below 2^n_bits in size, as the signs of their powers of two, the highest power first.

    >>> packed_integers(np.array([[3, -1]]), 2).signs()
    array([[ 1, -1,  1,  1]], dtype=int8)
    """
    if n_bits == 1:
        return PackedBits.from_signs(integers)
    steps = (integers + (2**n_bits - 1)) >> 1
    ones = [steps >> place & 1 for place in reversed(range(n_bits))]
    return PackedBits.from_signs(2 * np.concatenate(ones, axis=1) - 1)


def unpacked_sums(sums: NDArray[np.int64], n_bits: int) -> NDArray[np.int64]:
    """The sums of such numbers, out of those of their signs.

    >>> unpacked_sums(np.array([1, -1, 1, 1]), 2)
    array([ 3, -1])
    """
    return 2 ** np.arange(n_bits)[::-1] @ sums.reshape(n_bits, -1)


def private_bits(blocks: Iterable[NDArray[np.integer]], n_bits: int, epsilon: float) -> PrivateBits:
    """The randomised responses of readings whose signs come block by block."""
    response = RandomisedResponse.best(epsilon, n_bits)
    positions, answers = [], []
    for signs in blocks:
        positions.append(response.positions(len(signs)))
        answers.append(response.answers(signs, positions[-1]))
    return PrivateBits(np.concatenate(positions), np.concatenate(answers), response)


def ledger_of(bits: PrivateBits, origin: Origin) -> Ledger:
    """What each reading has spent, and the noise that it left in the sums."""
    response = bits.response
    return Ledger(
        mechanism=RANDOMISED_RESPONSE,
        epsilon=response.epsilon,
        delta=0.0,
        neighbors=REPLACE,  # that a reading was made is known
        sensitivity=2 * response.n_sent * response.factor,
        sum_scale=response.factor,
        count_scale=0.0,
        count_share=0.0,
        sum_variance=len(bits) * response.variance,
        count_variance=0.0,
        design=DECLARED if origin is Origin.DECLARED else ASSUMED,
    )
