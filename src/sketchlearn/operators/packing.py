"""Sketches of bits: of all that readings contribute, or of what randomised response leaves of them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from sketchlearn.gpu import Device, FeatureWriter, packed_words
from sketchlearn.ledger import ASSUMED, DECLARED, RANDOMISED_RESPONSE, REPLACE, Ledger
from sketchlearn.operators.origin import Origin
from sketchlearn.operators.summing import gpu_blocks
from sketchlearn.packed import PackedBits
from sketchlearn.private_bits import PrivateBits
from sketchlearn.randomised_response import RandomisedResponse
from sketchlearn.sources import Block, Source, check_width, gpu_rows


class Packable(Protocol):
    """What an operator of bits tells of itself here."""

    @property
    def n_features(self) -> int: ...
    @property
    def n_sums(self) -> int: ...
    def write_rows(self, rows: NDArray[Any], threads: int) -> tuple[NDArray[np.integer], int]: ...
    def accept(self, block: Block, bad: int) -> None: ...
    def feature_writer(self, owner: Device) -> FeatureWriter | None: ...


def packed_rows(operator: Packable, rows: Source, n_bits: int, threads: int) -> NDArray[np.uint64]:
    """The words of all rows' integers, n_bits each; of rows on a GPU, packed there."""

    def packed(block: Block) -> NDArray[np.uint64]:
        integers, bad = operator.write_rows(block.rows, threads)
        operator.accept(block, bad)
        return packed_integers(integers, n_bits).words

    found, there = [np.empty((0, -(-n_bits * operator.n_sums // 64)), np.uint64)], gpu_rows(rows)
    writer = None if there is None else operator.feature_writer(there.device)
    if there is None or writer is None:
        return np.concatenate([*found, *(packed(block) for block in rows.blocks(operator.n_features))])
    check_width(there.shape[1], operator.n_features)
    for block in gpu_blocks(there):
        words = packed_words(writer, block.rows, n_bits)
        if words is None:  # a row is outside the domain: the processor says which
            on_processor = block.downloaded()
            rows.refuse_gaps(on_processor)
            words = packed(on_processor)
        found.append(words)
    return np.concatenate(found)


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


def unpacked_integers(signs: NDArray[Any], n_bits: int) -> NDArray[Any]:
    """Such numbers out of their signs, (..., n_bits times as many); or their sums, out of those of signs.

    >>> unpacked_integers(np.array([1, -1, 1, 1]), 2)
    array([ 3, -1])
    """
    planes = np.split(signs, n_bits, axis=-1)
    found: NDArray[Any] = planes[0].astype(np.promote_types(signs.dtype, np.int16))
    for plane in planes[1:]:
        found *= 2
        found += plane
    return found


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
