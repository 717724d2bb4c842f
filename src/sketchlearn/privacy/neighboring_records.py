"""How far one record can move the integers of a sketch, as the operator itself says."""

from __future__ import annotations

from sketchlearn.ledger import ADD_REMOVE, REPLACE
from sketchlearn.operators import Operator
from sketchlearn.sensitivity import Sensitivity
from sketchlearn.values import shortened


def sensitivity(operator: Operator, neighbors: str = ADD_REMOVE) -> Sensitivity:
    """The most that adding or removing one record, or replacing one by another, changes the sums.

    A record is one row of weight 1. The bound includes the rounding to integers, and holds for every row.

    >>> import sketchlearn as skl
    >>> sensitivity(skl.FourierFeatures(3, 100, law=skl.frequencies.Gaussian(1.0), wave="square"))
    Sensitivity(l1=200, l2_squared=200)
    """
    if neighbors == ADD_REMOVE:
        return operator.change_by_record()
    if neighbors == REPLACE:
        return operator.change_by_replacement()
    raise ValueError(f"neighbors must be {ADD_REMOVE!r} or {REPLACE!r}, not {shortened(neighbors)}")
