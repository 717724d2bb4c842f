"""e^x - 1 from below, as a fraction: privacy that is computed with it is never less than what was asked for."""

from __future__ import annotations

from fractions import Fraction

RELATIVE_ERROR = Fraction(1, 2**60)


def exponential_excess(x: Fraction) -> Fraction:
    """A fraction at most e^x - 1, for x > 0, and within 2^-60 of it: the first terms x + x^2 / 2 + x^3 / 6 + ...

    All terms are positive, so that leaving some out gives less. From n >= 2 x on, each is at most half of the one
    before, so that the rest is at most the last one.

    >>> round(float(exponential_excess(Fraction(1))), 12)
    1.718281828459
    """
    total = term = x
    n = 1
    while n < 2 * x or term > total * RELATIVE_ERROR:
        n += 1
        term *= x / n
        total += term
    return total
