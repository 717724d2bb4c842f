"""Arrays and data frames as scikit-learn checks them; columns are found by name, and refused by name."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from sketchlearn.schemas.raw_values import remedy_for_cells, what_cells_hold
from sketchlearn.sources.memory_tables import of_narrow_floats
from sketchlearn.sources.source_base import by_name
from sketchlearn.values import shortened


def checked_array(estimator: Any, X: Any, names: tuple[str, ...] | None = None, **options: Any) -> Any:
    """What scikit-learn's `validate_data` makes of X: an array, or a sparse matrix in rows.

    Of data frames, the columns of these names are taken, in this order. Values that are not numbers, or missing, are
    refused with their column and a remedy.
    """
    X = in_model_order(of_narrow_floats(X), names)
    try:
        return validate_data(estimator, X, accept_sparse="csr", **options)
    except (TypeError, ValueError) as error:
        reason = _refusal(X, error)
        if reason is None and options.get("y_numeric") and _is_text(options["y"]):
            reason = "y is text, not numbers: a regression needs numbers (for classes, use SketchClassifier)"
        if reason is None:
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(reason) from None


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


def _refusal(X: Any, error: Exception) -> str | None:
    """Which value of which column is no number, and what to do about it; None if it is none of that."""
    names = _frame_names(X)
    for i, column in enumerate(_columns(X)):
        name = f"column {i}" if names is None else f"column {names[i]!r}"
        drop = "leave it out"
        if names is not None:
            drop += f": X.drop(columns={names[i]!r})" if hasattr(X, "iloc") else f": X.drop({names[i]!r})"
        if column.dtype.kind in "mM":
            kind = "dates" if column.dtype.kind == "M" else "durations"
            return f"{name} is {kind}, not numbers: turn it into numbers, such as days, or {drop}"
        if (row := _odd_row(column)) is None:
            continue
        value = column[row]
        cells = what_cells_hold([type(value)])
        if names is None and isinstance(error, TypeError) and not isinstance(value, str | bytes):
            return None  # of arrays, scikit-learn has a sentence for objects, which its checks ask for
        if cells is not None:
            remedy = f"{remedy_for_cells(cells)}, or {drop}"
            return f"{name} holds {cells} ({shortened(value)} in row {row}), not numbers: {remedy}"
        if isinstance(value, str):
            encode = "turn it into numbers (a schema, or scikit-learn's OneHotEncoder)"
            return f"{name} is text, not numbers ({shortened(value)} in row {row}): {encode}, or {drop}"
        if isinstance(value, float | np.floating) and np.isinf(value):
            return f"row {row}, {name} is {value} (infinity): replace infinite values first"
        if not (value is None or type(value).__name__ in ("NAType", "NaTType") or value != value):
            return (
                f"{name} holds objects ({shortened(value)} in row {row}), not numbers: turn it into numbers, or {drop}"
            )
        fill = "fill it (scikit-learn's SimpleImputer)"
        return f'row {row}, {name} is missing (NaN): {fill}, or leave such rows out with skl.source(X, nulls="drop")'
    return None


def _columns(X: Any) -> Iterator[NDArray[Any]]:
    """The columns of a data frame of pandas or polars, of an array, or of a list of rows; none of anything else."""
    if hasattr(X, "columns") and hasattr(X, "shape"):
        of_pandas = hasattr(X, "iloc")
        yield from (np.asarray((X.iloc[:, i] if of_pandas else X[:, i]).to_numpy()) for i in range(X.shape[1]))
    elif isinstance(X, np.ndarray | list | tuple):
        try:
            table = np.array(X, object) if isinstance(X, list | tuple) else X
        except ValueError:  # rows of different lengths
            return
        yield from table.T if table.ndim == 2 else ()


def _odd_row(column: NDArray[Any]) -> int | None:
    """The first row in which a column is no number, missing or infinite."""
    if column.dtype.kind == "f":
        odd = np.flatnonzero(~np.isfinite(column))
        return int(odd[0]) if len(odd) else None
    values = column.tolist() if column.dtype.kind in "OUS" else []
    return next((row for row, value in enumerate(values) if _is_odd(value)), None)


def _is_odd(value: Any) -> bool:
    if what_cells_hold([type(value)]) is not None:
        return True
    try:
        return not math.isfinite(float(value))
    except (TypeError, ValueError):
        return True
    except OverflowError:  # a whole number beyond floats, which is refused elsewhere
        return False


def _is_text(y: Any) -> bool:
    return any(isinstance(value, str | bytes) and _is_odd(value) for value in np.ravel(np.asarray(y, object)))
