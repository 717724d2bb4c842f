"""How well random features tell a kernel: bounds that hold whatever the records are, and how far one can trust them.

The kernel of two records is the mean of the products of their features, over m random frequencies. For a few pairs of
records Hoeffding's inequality bounds its error. For all records of a region at once, the known bounds multiply the
error's inverse square by the entropy of the region, with large constants: they say how the size grows, and are of no
use as figures. (Schellekens, thesis, 2021, propositions 3.12 and 3.15.)
"""

from __future__ import annotations

import math

from sketchlearn.core.values import positive, whole

CONFIDENCE = 0.95
REGION_WIDTHS = 10  # The radius of the region that is told of, in widths of the kernel.
UNIFORM_CONSTANT = 128.0  # of proposition 3.15
SMOOTHNESS = 16.0  # 4 (L + L + 2 L) of the same proposition, for waves with L = 1, per width of the kernel


def frequencies_for_pairs(error: float, n_pairs: int = 1, confidence: float = CONFIDENCE) -> int:
    """How many frequencies keep the kernel of so many pairs of records within an error (Hoeffding).

    >>> frequencies_for_pairs(0.1), frequencies_for_pairs(0.1, n_pairs=10**6)
    (738, 3501)
    """
    failures = (1 - confidence) / (2 * whole("n_pairs", n_pairs))
    return math.ceil(-2 * math.log(failures) / positive("error", error) ** 2)


def error_for_pairs(n_frequencies: int, n_pairs: int = 1, confidence: float = CONFIDENCE) -> float:
    """The error that the kernel of so many pairs of records stays within (Hoeffding).

    >>> round(error_for_pairs(738), 3)
    0.1
    """
    failures = (1 - confidence) / (2 * whole("n_pairs", n_pairs))
    return math.sqrt(-2 * math.log(failures) / whole("n_frequencies", n_frequencies))


def frequencies_everywhere(error: float, n_features: int, radius: float = REGION_WIDTHS) -> int:
    """How many frequencies the known bound asks for, to keep an error for all records of a ball at once.

    The radius is in widths of the kernel.

    >>> frequencies_everywhere(0.1, 10)
    1033116
    """
    steps = 1 + 2 * SMOOTHNESS * positive("radius", radius) / positive("error", error)
    return math.ceil(UNIFORM_CONSTANT / error**2 * whole("n_features", n_features) * math.log(steps))


def kernel_in_words(n_frequencies: int, n_features: int) -> str:
    """What is certain of the kernel of an operator.

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
