"""Arrays and data frames as scikit-learn checks them; columns are found by name, and refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from sketchlearn.sources.source_base import by_name
from sketchlearn.values import shortened


def checked_array(estimator: Any, X: Any, names: tuple[str, ...] | None = None, **options: Any) -> Any:
    """What scikit-learn's `validate_data` makes of X: an array, or a sparse matrix in rows.

    Of data frames, the columns of these names are taken, in this order. Values that are not numbers, or missing, are
    refused with their column and a remedy.
    """
    X = in_model_order(X, names)
    try:
        return validate_data(estimator, X, accept_sparse="csr", **options)
    except (TypeError, ValueError) as error:
        if (reason := _refusal(X)) is None:
            raise
        raise type(error)(reason) from None


def in_model_order(X: Any, names: tuple[str, ...] | None) -> Any:
    """The columns of these names of a data frame, in this order; all else as it is.

    >>> import pandas as pd
    >>> in_model_order(pd.DataFrame({"c": [1], "b": [2], "a": [3]}), ("a", "b")).columns.tolist()
    ['a', 'b']
    """
    own = _frame_names(X)
    if names is None or own is None or own == names:
        return X
    by_name(own, names)
    return X[list(names)]


def _frame_names(X: Any) -> tuple[str, ...] | None:
    """Names of the columns of a data frame, if all are strings."""
    columns = getattr(X, "columns", None)
    names = () if columns is None or not hasattr(X, "shape") else tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def _refusal(X: Any) -> str | None:
    """Which value of which column is no number, and what to do about it; None if it is none of that."""
    if not hasattr(X, "shape") and not isinstance(X, list | tuple):
        return None
    names, frame = _frame_names(X), hasattr(X, "columns")
    try:
        table = None if frame or hasattr(X, "tocsr") else np.asarray(X)
    except ValueError:
        return None
    if not frame and (table is None or table.ndim != 2 or table.dtype.kind not in "fOUS"):
        return None
    for i in range(X.shape[1] if table is None else table.shape[1]):
        name = f"column {i}" if names is None else f"column {names[i]!r}"
        found = _odd_value(_column(X, i) if table is None else table[:, i])
        if found is None:
            continue
        row, value = found
        if isinstance(value, str | bytes):
            drop = "" if names is None else f", or leave it out: X.drop(columns={names[i]!r})"
            encode = "turn it into numbers (scikit-learn's OneHotEncoder or OrdinalEncoder)"
            return f"{name} is text, not numbers ({shortened(value)} in row {row}): {encode}{drop}"
        if np.isinf(value):
            return f"row {row}, {name} is {value} (infinity): replace infinite values first"
        drop = 'leave such rows out with skl.source(X, nulls="drop")'
        return f"row {row}, {name} is missing (NaN): fill it (scikit-learn's SimpleImputer), or {drop}"
    return None


def _column(frame: Any, i: int) -> NDArray[Any]:
    """One column of a data frame of pandas or polars."""
    values = frame.iloc[:, i] if hasattr(frame, "iloc") else frame[:, i]
    return np.asarray(values.to_numpy())


def _odd_value(column: NDArray[Any]) -> tuple[int, Any] | None:
    """The first value of a column that is text, missing or infinite, and its row."""
    if column.dtype.kind == "f":
        odd = np.flatnonzero(~np.isfinite(column))
        return (int(odd[0]), column[odd[0]]) if len(odd) else None
    if column.dtype.kind not in "OUS":
        return None
    for row, value in enumerate(column.tolist()):
        if isinstance(value, str | bytes):
            try:
                float(value)
            except ValueError:
                return row, value
        elif value is None or (isinstance(value, float) and not np.isfinite(value)):
            return row, np.nan if value is None else value
    return None
