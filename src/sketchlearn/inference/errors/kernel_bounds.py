"""Bounds on the error of a kernel that is approximated by random features.

The kernel of two records is the mean of the products of their features, over m random frequencies: Hoeffding's
inequality bounds its error for any frequency distribution and any bounded nonlinearity. Uniform bounds over a region
need a Lipschitz constant of the features and a finite second moment of the frequencies, which a product of Cauchy
distributions lacks, and are far too loose to be figures. (Schellekens, thesis, 2021, propositions 3.12 and 3.15.)
"""

from __future__ import annotations

import math

CONFIDENCE = 0.95


def kernel_in_words(n_frequencies: int) -> str:
    """The bound on the kernel of an operator, in words.

    >>> kernel_in_words(1000)
    'of two records within 0.086 (Hoeffding, 95 %)'
    """
    for_pairs = math.sqrt(-2 * math.log((1 - CONFIDENCE) / 2) / n_frequencies)
    return f"of two records within {for_pairs:.2g} (Hoeffding, {100 * CONFIDENCE:.0f} %)"
