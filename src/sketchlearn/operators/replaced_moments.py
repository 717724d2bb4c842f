"""How far a replaced record moves sums of moments: the exact maxima over all pairs of rows in the box.

Let x and y be rows of [-1, 1]^d, a = (x + y) / 2 and b = (x - y) / 2, so that |a_i| + |b_i| <= 1. A product m of
coordinates changes by m(a + b) - m(a - b), which is twice a sum of products of coordinates of a and b, all with the
sign +. It is no smaller in size if all coordinates are made positive, and then each a_i raised to 1 - b_i. So

    |m(x) - m(y)| <= 1 - m(c), c_i = 1 - |x_i - y_i|, for all products m at once,

which is reached by the rows (1, ..., 1) and c: what is left is to look for the worst c in [-1, 1]^d. docs/privacy.md
does that for each operator; tests/test_replaced_moments.py searches all pairs of rows.
"""

from __future__ import annotations

import math

from sketchlearn.sensitivity import Sensitivity

# Each integer is within half of its true value, but for the float64 errors of a few products below 2^30.
CHANGE_BY_ROUNDING = 1.001


def replaced_second_moments(n_columns: int, unit: int) -> Sensitivity:
    """Of the coordinates y_i and all products y_i y_j, in fixed point.

    >>> three = replaced_second_moments(3, unit=2**30)
    >>> round(three.l1 / 2**30, 6), round(three.l2_squared / 2**60, 6)
    (9.375, 16.0)
    """
    d, n_sums = n_columns, n_columns * (n_columns + 3) // 2
    return _in_integers(n_sums + d / (2 * (d + 1)), 4 * ((d + 1) ** 2 // 4), n_sums, unit)


def replaced_column_moments(n_columns: int, unit: int) -> Sensitivity:
    """Of the coordinates y_i and their squares, in fixed point."""
    return _in_integers(2.25 * n_columns, 4 * n_columns, 2 * n_columns, unit)


def replaced_veronese_moments(n_columns: int, unit: int) -> Sensitivity:
    """Of all products of two coordinates, and all products of two of those, in fixed point."""
    n_products = n_columns * (n_columns + 1) // 2
    n_sums = n_products * (n_products + 3) // 2
    at_corners = (n_products + 1) ** 2 - ((n_columns + 1) // 2 + 1) ** 2
    return _in_integers(n_sums, max(at_corners, n_sums), n_sums, unit)


def _in_integers(l1: float, l2_squared: int, n_sums: int, unit: int) -> Sensitivity:
    """Norms of the true change as norms of what changes in integers, each of which is rounded."""
    return Sensitivity.of_norms(
        unit * l1 + CHANGE_BY_ROUNDING * n_sums,
        unit * math.sqrt(l2_squared) + CHANGE_BY_ROUNDING * math.sqrt(n_sums),
        n=n_sums,
        largest=2 * unit,
    )
