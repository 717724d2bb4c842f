"""Sketches of rows whose bits or features come without them; and what rows weigh.

Integers that something else computed need not be those of any row. Whatever they are, each row is held to what the
operator says that a record contributes (`Operator.clip_contributions`), so that private releases have enough noise.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.batches import Batches
from sketchlearn.operators.packing import ledger_of, unpacked_integers
from sketchlearn.packed import PackedBits
from sketchlearn.private_bits import PrivateBits
from sketchlearn.sensitivity import Sensitivity
from sketchlearn.sketch import Release, Sketch
from sketchlearn.sketch_limits import check_room
from sketchlearn.sources import weight_units

Integers = NDArray[np.int64]
INTEGERS_AT_A_TIME = 1 << 17  # They stay in a cache while they are held to the sensitivity.


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
    if operator.change_by_record() == Sensitivity.of_integers(operator.n_sums, operator.ceiling):  # of any bits
        weights, units, notes = _weighed(operator, len(bits), sample_weight)
        return Sketch(operator.without_keeping(), unpacked_integers(bits.sums(weights), n_bits), units, **notes)
    return _sketch_of_clipped(
        operator, len(bits), lambda some: unpacked_integers(bits[some].signs(), n_bits), sample_weight
    )


def sketch_of_integers(operator: Any, integers: Integers, sample_weight: Any) -> Sketch:
    """The sketch of rows of which each one's integers are known, (rows, n_sums)."""
    return _sketch_of_clipped(operator, len(integers), integers.__getitem__, sample_weight)


def _sketch_of_clipped(
    operator: Any, n_rows: int, integers_of: Callable[[slice], NDArray[np.integer]], sample_weight: Any
) -> Sketch:
    """The sketch of rows whose integers a function gives, each held to what a record may contribute."""
    weights, units, notes = _weighed(operator, n_rows, sample_weight)
    sums, clipped, step = np.zeros(operator.n_sums, np.int64), 0, max(1, INTEGERS_AT_A_TIME // operator.n_sums)
    for first in range(0, n_rows, step):
        some = slice(first, first + step)
        given = integers_of(some)
        held = operator.clip_contributions(given)
        clipped += int(np.count_nonzero(np.any(held != given, axis=1)))
        sums += held.sum(axis=0) if weights is None else weights[some] @ held
    return Sketch(operator.without_keeping(), sums, units, clipped=clipped, **notes)


def _weighed(operator: Any, n_rows: int, sample_weight: Any) -> tuple[Integers | None, int, dict[str, Any]]:
    """The weights of rows of which none can be kept, how many records (or weight steps) they are, and notes of them."""
    weights, n_bits, heaviest = weights_of_rows(sample_weight, n_rows)
    units = n_rows if weights is None else int(weights.sum())
    check_room(operator, units, n_bits)
    return weights, units, {"bits": n_bits, "heaviest": heaviest, "batches": Batches.just_read()}
