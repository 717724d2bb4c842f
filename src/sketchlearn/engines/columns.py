"""The columns of a distributed table, decided before any task starts."""

from __future__ import annotations

from collections.abc import Sequence

from sketchlearn.operators import Operator
from sketchlearn.values import shortened


def needed(names: Sequence[str], operator: Operator, columns: Sequence[str] | None = None) -> list[str]:
    """The names to read: those asked for, those of the operator, or all.

    An operator with names refuses columns that come in another order: whoever reordered them may have renamed them.

    >>> import sketchlearn as skl
    >>> operator = skl.FourierFeatures(2, 9, law=skl.frequencies.Gaussian(1.0), columns=("x", "y"))
    >>> needed(["id", "x", "y"], operator)
    ['x', 'y']
    """
    wanted = list(operator.columns or names) if columns is None else list(columns)
    if isinstance(columns, str):
        raise TypeError(f"columns must be a list of names, not the text {columns!r}")
    missing = [name for name in wanted if name not in names]
    if missing:
        raise ValueError(f"there is no column {missing[0]!r}; the columns are {shortened(list(names), 200)}")
    if operator.columns is not None:
        own = list(operator.columns)
        found = [name for name in (names if columns is None else wanted) if name in own]
        if found != own or (columns is not None and wanted != own):
            raise ValueError(
                f"the columns come as {shortened(found, 200)}, but the operator was made for {shortened(own, 200)}: "
                "bring them into that order"
            )
    if len(wanted) != operator.n_features:
        raise ValueError(
            f"there are {len(wanted)} columns, but the operator needs {operator.n_features}: "
            "select them, or give the operator names with columns=..."
        )
    return wanted
