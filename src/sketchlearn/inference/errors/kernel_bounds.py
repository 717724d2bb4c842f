"""Bounds on the error of a kernel that is approximated by random features, for any records.

The kernel of two records is the mean of the products of their features, over m random frequencies. For a few pairs of
records Hoeffding's inequality bounds its error. For all records of a region at once, the known bounds multiply the
error's inverse square by the entropy of the region, with large constants: they show how the size grows, but are too
loose as figures. (Schellekens, thesis, 2021, propositions 3.12 and 3.15.)
"""

from __future__ import annotations

import math

CONFIDENCE, EVERYWHERE_ERROR = 0.95, 0.1
REGION_WIDTHS = 10  # radius of the region, in widths of the kernel
UNIFORM_CONSTANT = 128.0  # of proposition 3.15
SMOOTHNESS = 16.0  # 4 (L + L + 2 L) of the same proposition, for waves with L = 1, per width of the kernel


def kernel_in_words(n_frequencies: int, n_features: int) -> str:
    """The bounds on the kernel of an operator, in words.

    >>> print(kernel_in_words(1000, 10))
    of two records within 0.086 (Hoeffding, 95 %); of all records within 10 widths at once no useful bound is known: it
    needs 1,033,116 frequencies for an error of 0.1
    """
    for_pairs = math.sqrt(-2 * math.log((1 - CONFIDENCE) / 2) / n_frequencies)
    steps = 1 + 2 * SMOOTHNESS * REGION_WIDTHS / EVERYWHERE_ERROR
    needed = math.ceil(UNIFORM_CONSTANT / EVERYWHERE_ERROR**2 * n_features * math.log(steps))
    everywhere = f"within {EVERYWHERE_ERROR}"
    if n_frequencies < needed:
        everywhere = f"no useful bound is known: it needs {needed:,} frequencies for an error of {EVERYWHERE_ERROR}"
    return (
        f"of two records within {for_pairs:.2g} (Hoeffding, {100 * CONFIDENCE:.0f} %); of all records within "
        f"{REGION_WIDTHS} widths at once {everywhere}"
    )
