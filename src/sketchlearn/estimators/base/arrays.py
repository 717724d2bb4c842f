"""Arrays and tables on their way into an estimator: checks, and the encoding and decoding of a schema."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils.validation import validate_data

from sketchlearn.core.errors import InvalidValueError, either
from sketchlearn.core.messages import warn_caller
from sketchlearn.core.values import shortened
from sketchlearn.estimators.base.state import IncomingRows, SketchedTable
from sketchlearn.rows.memory import of_narrow_floats
from sketchlearn.rows.schemas.cell_values import remedy_for_cells, what_cells_hold
from sketchlearn.rows.schemas.columns import Column
from sketchlearn.rows.schemas.table_schema import Schema, SchemaColumns
from sketchlearn.rows.source import source
from sketchlearn.rows.source_base import Source, by_name, no_names, nothing_left


def checked_array(estimator: Any, X: Any, names: tuple[str, ...] | None = None, **options: Any) -> Any:
    """The array, or sparse matrix in rows, of scikit-learn's `validate_data`; errors name the column and a remedy.

    Of data frames, the columns of these names are taken, in this order.
    """
    X = of_narrow_floats(X)
    own = _frame_names(X)
    if names is not None and own is not None and own != names:
        by_name(own, names)
        X = X[list(names)]
    try:
        checked = validate_data(estimator, X, accept_sparse="csr", **options)
    except (TypeError, ValueError) as error:
        reason, y = _refusal(X, error), options["y"] if options.get("y_numeric") else ()
        if reason is None and any(isinstance(v, str | bytes) and _is_odd(v) for v in np.ravel(np.asarray(y, object))):
            reason = "y is text, not numbers: a regression needs numbers (for classes, use SketchClassifier)"
        if reason is None:
            raise
        raise (TypeError if isinstance(error, TypeError) else ValueError)(reason) from None
    refuse_huge(checked[0] if isinstance(checked, tuple) else checked, own)
    return checked


LARGEST_DOUBLE, LARGEST_SINGLE = 1e30, 1e18  # products of larger values overflow in single precision


def refuse_huge(rows: Any, names: tuple[str, ...] | None, name_row: Callable[[int], str] = "row {}".format) -> None:
    """Raises an error that names the first value whose squares, or differences in kernels, would overflow."""
    values = rows if isinstance(rows, np.ndarray) else rows.data
    most = LARGEST_SINGLE if values.dtype == np.float32 else LARGEST_DOUBLE
    if not values.size or _squares_are_small(values, most):
        return
    if not max(np.fmax.reduce(values, None), -np.fmin.reduce(values, None)) > most:
        return
    row, column = (int(places[0]) for places in (abs(rows) > most).nonzero())
    place = f"{name_row(row)}, column {column if names is None else repr(names[column])}"
    kind = "float32 rows" if most == LARGEST_SINGLE else "single precision"
    raise InvalidValueError(
        f"{place} is {rows[row, column]:.4g}: values beyond {most:.0e} are too large for {kind}",
        "rescale the column, or leave such rows out",
    )


def _squares_are_small(values: Any, most: float) -> bool:
    """Whether the sum of squares, at the speed of reading, shows that no value is huge; False if it does not."""
    flat = values.ravel(order="K") if values.flags.forc else values[:0].ravel()
    return flat.size == values.size and float(np.vdot(flat, flat)) <= most**2


def _frame_names(X: Any) -> tuple[str, ...] | None:
    columns = getattr(X, "columns", None)
    names = () if columns is None or not hasattr(X, "shape") else tuple(columns)
    return names if names and all(isinstance(name, str) for name in names) else None


def _refusal(X: Any, error: Exception) -> str | None:
    """What is wrong with the first value that is missing or not a number; None if there is none."""
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
        shown, cells = f"{shortened(value)} in row {row}", what_cells_hold([type(value)])
        if names is None and isinstance(error, TypeError) and not isinstance(value, str | bytes):
            return None  # For objects in arrays, scikit-learn's checks expect its own message.
        if cells is not None:
            return f"{name} holds {cells} ({shown}), not numbers: {remedy_for_cells(cells)}, or {drop}"
        if isinstance(value, str):
            encode = "turn it into numbers (a schema, or scikit-learn's OneHotEncoder)"
            return f"{name} is text, not numbers ({shown}): {encode}, or {drop}"
        if isinstance(value, float | np.floating) and np.isinf(value):
            return f"row {row}, {name} is {value} (infinity): replace infinite values first"
        if not (value is None or type(value).__name__ in ("NAType", "NaTType") or value != value):
            return f"{name} holds objects ({shown}), not numbers: turn it into numbers, or {drop}"
        fill = "fill it (scikit-learn's SimpleImputer)"
        drop = either('leave such rows out with skl.source(X, nulls="drop")', "use --nulls drop")
        return f"row {row}, {name} is missing (NaN): {fill}, or {drop}"
    return None


def _columns(X: Any) -> Iterator[NDArray[Any]]:
    """The columns of a data frame, an array or a list of rows; none of other kinds of X."""
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
    if column.dtype.kind == "f":
        return next(iter(np.flatnonzero(~np.isfinite(column)).tolist()), None)
    values = column.tolist() if column.dtype.kind in "OUS" else []
    return next((row for row, value in enumerate(values) if _is_odd(value)), None)


def _is_odd(value: Any) -> bool:
    if what_cells_hold([type(value)]) is not None:
        return True
    try:
        return not math.isfinite(float(value))
    except (TypeError, ValueError):
        return True
    except OverflowError:  # an integer beyond floats, which is refused elsewhere
        return False


def _keep_missing() -> str:
    return either('give those columns missing="indicate"', 'write "missing: indicate" at those columns in the schema')


def schema_columns(X: Any, schema: Schema | str | None, before: SketchedTable | None) -> SchemaColumns | None:
    """The encoded columns of the schema of earlier rows, or else of this one; None without a schema."""
    if before is not None:
        names = before.feature_names
    elif isinstance(schema, str):
        names = source(X, schema=schema).columns
    else:
        names = None if schema is None else SchemaColumns(schema)
    return names if isinstance(names, SchemaColumns) else None


def encoded_rows(rows: Source, columns: SchemaColumns, before: SketchedTable | None) -> Source:
    return source(rows, schema=columns.schema) if before is None else rows.only(columns)


def encoded_array(X: Any, columns: SchemaColumns) -> NDArray[np.float64]:
    """A table in memory as a schema encodes it: NaN in rows that the schema drops."""
    rows: Any = source(X)
    if rows.columns is None:
        raise no_names(columns.schema.names)
    encoded = rows.only(columns)
    array = np.concatenate([np.empty((0, len(columns))), *encoded.chunks(len(columns))])
    if len(array) and np.isnan(array).any(axis=1).all():
        raise nothing_left(encoded)
    return array


def rows_in_memory(rows: Any, table: SketchedTable, beside: Any = None) -> IncomingRows:
    """An array or sparse matrix, with targets beside it if there are some; rows that a schema drops are left out.

    Without targets, the array itself is included, unless rows are dropped, as its labels would be of other rows.
    """
    held, array = (rows, rows) if beside is None else (beside, None)
    if not isinstance(table.columns, SchemaColumns):
        checked = source(held)
        checked.gapless = True  # or scikit-learn's checks would have refused them
        return IncomingRows(checked, table, in_memory=True, array=array)
    n_dropped = int(np.count_nonzero(np.isnan(rows).any(axis=1)))
    if n_dropped:
        warn_caller(
            f"{n_dropped:,} rows have missing values in a column where the schema drops such rows, and are left out: "
            f"{_keep_missing()} to keep them"
        )
        array = None
    return IncomingRows(source(held, nulls="drop"), table, in_memory=True, array=array)


def encoded_blocks(X: Any, columns: SchemaColumns) -> Iterator[NDArray[Any]]:
    """A table as a schema encodes it; dropped rows are refused, as there would be no prediction for them."""
    rows = source(X).only(columns)
    for block in rows.blocks(len(columns)):
        yield block.rows
        if rows.dropped:
            raise ValueError(
                f"{rows.dropped:,} rows have missing values in a column where the schema drops such rows: drop them "
                f"first, or {_keep_missing()}"
            )


def with_targets(columns: SchemaColumns, targets: Sequence[Column]) -> SchemaColumns:
    """The columns of a schema without the targets, followed by the targets."""
    names = {target.name for target in targets}
    features = [column for column in columns.schema.columns if column.name not in names]
    if not features:
        raise ValueError("all columns are targets: there are no features")
    return SchemaColumns(replace(columns.schema, columns=(*features, *targets)))


def target_names(y: Any, rows: Source) -> list[str]:
    names = [y] if isinstance(y, str) else list(y) if isinstance(y, list | tuple) else []
    if not names or not all(isinstance(name, str) for name in names) or len(set(names)) < len(names):
        raise ValueError(f"with a schema, y must name columns of the table, one or several, not {shortened(y)}")
    for name in names:
        if rows.columns is not None and name not in rows.columns:
            known = shortened(", ".join(rows.columns), 200)
            raise ValueError(f"the table has no column {name!r}: its columns are {known}")
    return names


def decoded_table(rows: NDArray[Any], columns: tuple[str, ...] | None) -> Any:
    """Rows of a schema as a data frame, or an Arrow table without pandas; other rows as they are."""
    if not isinstance(columns, SchemaColumns):
        return rows
    import pyarrow as pa

    table = pa.table(columns.schema.decode(np.asarray(rows, np.float64)))
    return table if find_spec("pandas") is None else table.to_pandas()
