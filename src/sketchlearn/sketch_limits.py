"""What fits into a sketch: how many records, and which rows beside them."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.sources import WEIGHT_BITS

LARGEST_INTEGER = 2**63 - 1


def most_records(operator: Any) -> int:
    """How many records of weight 1 a sketch may have."""
    return LARGEST_INTEGER // int(operator.ceiling)


def check_room(operator: Any, units: int, bits: int) -> None:
    """Refuses a number of records whose sums might not fit into 64 bits."""
    most = most_records(operator)
    if units > most:
        finer = f" while weights are fractional, {most:,} with whole weights" if bits else ""
        raise OverflowError(f"a sum could overflow: this operator holds at most {most >> bits:,} records{finer}")
    if operator.keeping is not None and total_weight(units, bits) > LARGEST_INTEGER:
        most = LARGEST_INTEGER >> WEIGHT_BITS
        raise OverflowError(f"the weight of a kept row could overflow: rows are kept of at most {most:,} records")


def total_weight(units: int, bits: int) -> int:
    """The weight of all records, in the steps in which rows are kept."""
    return units << (WEIGHT_BITS - bits)


def canonical(sums: NDArray[np.int64], units: int, bits: int) -> tuple[NDArray[np.int64], int, int]:
    """The same value with the fewest fractional bits, so that equal sketches are equal to the bit."""
    if bits:
        ones = int(np.bitwise_or.reduce(sums)) | units
        spare = min(bits, (ones & -ones).bit_length() - 1) if ones else bits
        sums, units, bits = sums >> spare, units >> spare, bits - spare
    return sums, units, bits
