"""Bounds on the error of a kernel that is approximated by random features, for any records.

The kernel of two records is the mean of the products of their features, over m random frequencies. For a few pairs of
records Hoeffding's inequality bounds its error. For all records of a region at once, the known bounds multiply the
error's inverse square by the entropy of the region, with large constants: they show how the size grows, but are too
loose as figures. (Schellekens, thesis, 2021, propositions 3.12 and 3.15.)
"""

from __future__ import annotations

import math

CONFIDENCE = 0.95
REGION_WIDTHS = 10  # radius of the region, in widths of the kernel
UNIFORM_CONSTANT = 128.0  # of proposition 3.15
SMOOTHNESS = 16.0  # 4 (L + L + 2 L) of the same proposition, for waves with L = 1, per width of the kernel


def error_for_pairs(n_frequencies: int) -> float:
    """The bound on the kernel's error for a pair of records (Hoeffding).

    >>> round(error_for_pairs(738), 3)
    0.1
    """
    return math.sqrt(-2 * math.log((1 - CONFIDENCE) / 2) / n_frequencies)


def frequencies_everywhere(error: float, n_features: int) -> int:
    """The number of frequencies that the known bound needs for all records of a ball at once.

    >>> frequencies_everywhere(0.1, 10)
    1033116
    """
    steps = 1 + 2 * SMOOTHNESS * REGION_WIDTHS / error
    return math.ceil(UNIFORM_CONSTANT / error**2 * n_features * math.log(steps))


def kernel_in_words(n_frequencies: int, n_features: int) -> str:
    """The bounds on the kernel of an operator, in words.

    >>> print(kernel_in_words(1000, 10))
    of two records within 0.086 (Hoeffding, 95 %); of all records within 10 widths at once no useful bound is known: it
    asks for 1,033,116 frequencies for an error of 0.1
    """
    pairs = f"of two records within {error_for_pairs(n_frequencies):.2g} (Hoeffding, {100 * CONFIDENCE:.0f} %)"
    asked = frequencies_everywhere(0.1, n_features)
    everywhere = f"of all records within {REGION_WIDTHS} widths at once "
    if n_frequencies >= asked:
        return f"{pairs}; {everywhere}within 0.1"
    return f"{pairs}; {everywhere}no useful bound is known: it asks for {asked:,} frequencies for an error of 0.1"
