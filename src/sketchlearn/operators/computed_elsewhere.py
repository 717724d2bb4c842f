"""Sketches of rows whose bits or features come without them; and what rows weigh."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.batches import Batches
from sketchlearn.operators.packing import ledger_of, unpacked_sums
from sketchlearn.packed import PackedBits
from sketchlearn.private_bits import PrivateBits
from sketchlearn.sketch import Release, Sketch
from sketchlearn.sketch_limits import check_room
from sketchlearn.sources import weight_units

Integers = NDArray[np.int64]


def weights_of_rows(sample_weight: Any, n_rows: int) -> tuple[Integers | None, int, int]:
    """The weights of rows in steps of 2^-bits, bits, and the largest weight, rounded up."""
    if sample_weight is None:
        return None, 0, 1
    weights, bits = weight_units(sample_weight, n_rows)
    return weights, bits, max(1, -(-int(weights.max(initial=0)) >> bits))


def sketch_of_bits(operator: Any, bits: Any, sample_weight: Any) -> Sketch:
    """The sketch of rows that were packed, exactly or with randomised responses; the operator has `packed_bits`."""
    if not isinstance(bits, PackedBits | PrivateBits):
        raise TypeError(f"expected PackedBits, as operator.pack(rows) gives them, not {type(bits).__name__}")
    n_bits = operator.packed_bits
    if bits.n_bits != n_bits * operator.n_sums:
        given = n_bits * operator.n_sums
        raise ValueError(f"the packed rows have {bits.n_bits} bits, but this operator gives {given}")
    if isinstance(bits, PrivateBits) and n_bits > 1:
        raise ValueError("private bits are of wave='square': this operator has more than one bit a feature")
    if isinstance(bits, PrivateBits):
        if sample_weight is not None or not len(bits):
            raise ValueError("a private sketch is of at least one reading, and each counts once: leave out weights")
        return Release(operator.without_keeping(), bits.sums(), len(bits), ledger_of(bits, operator.origin))
    return _without_rows(operator, len(bits), lambda weights: unpacked_sums(bits.sums(weights), n_bits), sample_weight)


def sketch_of_integers(operator: Any, integers: Integers, sample_weight: Any) -> Sketch:
    """The sketch of rows of which each one's integers are known, (rows, n_sums)."""

    def sums(weights: Integers | None) -> Integers:
        return np.asarray(integers.sum(axis=0) if weights is None else weights @ integers)

    return _without_rows(operator, len(integers), sums, sample_weight)


def _without_rows(
    operator: Any, n_rows: int, sums: Callable[[Integers | None], Integers], sample_weight: Any
) -> Sketch:
    """The sketch of rows whose weighted sums a function gives; none of them can be kept."""
    weights, n_bits, heaviest = weights_of_rows(sample_weight, n_rows)
    units = n_rows if weights is None else int(weights.sum())
    check_room(operator, units, n_bits)
    notes: dict[str, Any] = {"heaviest": heaviest, "batches": Batches.just_read()}
    return Sketch(operator.without_keeping(), sums(weights), units, n_bits, **notes)
