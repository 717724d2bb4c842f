"""`source`: one interface to whatever holds rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from sketchlearn.kernels.gpu.rows import DeviceRows, is_on_gpu
from sketchlearn.rows.arrow import arrow_table, is_arrow
from sketchlearn.rows.csv import Dialect
from sketchlearn.rows.memory import Array, Frame, OnGpu, Sparse, is_frame, is_sparse
from sketchlearn.rows.paths import READERS, files_of, is_path, read_file
from sketchlearn.rows.schemas.proposal import proposed_schema
from sketchlearn.rows.schemas.table_schema import Schema, SchemaColumns
from sketchlearn.rows.source_base import NULLS, ColumnChoice, Joined, Source, Table, Tabular, no_names, tabular

__all__ = ["Source", "gpu_rows", "is_array", "register_reader", "schema", "source"]


def source(
    data: Any,
    *,
    columns: Sequence[Any] | None = None,
    nulls: str = "error",
    exclude: Sequence[Any] = (),
    numeric_only: bool = False,
    delimiter: str | None = None,
    decimal: str | None = None,
    header: bool | None = None,
    encoding: str | None = None,
    schema: Schema | str | None = None,
) -> Source:
    """A reader of the rows of arrays, data frames, files, databases and iterables of them.

    Parameters
    ----------
    data : NumPy arrays and memory maps, SciPy's sparse matrices, PyTorch's tensors; data frames of pandas and polars;
        Arrow tables, batches, readers and datasets, DuckDB relations, and all that has `__arrow_c_stream__`; paths of
        .npy, .npz, .csv, .tsv, .jsonl, .parquet, .arrow, .feather, .ipc and .xlsx files, of folders of them, and
        patterns such as "data/*.parquet"; tables of databases, "sqlite:shop.db?table=orders" and
        "duckdb:shop.duckdb?table=orders"; lists and iterables of all these. See the page "Sources".
    columns : names of the columns to read, in this order, or positions where there are no names; None means all.
    nulls : "error" refuses rows with missing values; "drop" leaves them out, and those with infinite ones, and counts
        them in `dropped`.
    exclude : names (or positions) of columns to leave out.
    numeric_only : whether columns that are not numbers are left out, too; `remarks` says which.
    delimiter, decimal, header : how CSV files are written: the character between cells, the decimal point ("." or
        ","), and whether the first line names the columns. None means that it is inferred from the first lines;
        `remarks` says how.
    encoding : of CSV files that are not UTF-8, such as "cp1252".
    schema : a `Schema` that encodes columns of all kinds as numbers; "auto" takes the one that `schema` proposes. It
        chooses the columns, and says how missing values are treated.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = skl.source(np.array([[1.0, 2.0], [np.nan, 3.0], [4.0, 5.0]]), columns=[0], nulls="drop")
    >>> [block.rows.ravel().tolist() for block in rows.blocks()], rows.dropped
    ([[1.0, 4.0]], 1)
    >>> import pandas as pd
    >>> skl.source(pd.DataFrame({"age": [30], "name": ["Zoë"], "id": [7]}), exclude=["id"], numeric_only=True).columns
    ('age',)
    """
    if nulls not in NULLS:
        raise ValueError(f"nulls must be {' or '.join(map(repr, NULLS))}, not {nulls!r}")
    dialect = Dialect(delimiter, decimal, header, encoding)
    if schema is not None:
        if columns is not None or nulls != NULLS[0] or numeric_only:
            given = "columns, nulls and numeric_only"
            raise ValueError(f"a schema chooses the columns and treats missing values: leave out {given}")
        return _encoded(_source(data, ColumnChoice(None, exclude), nulls, dialect), schema)
    return _source(data, ColumnChoice(columns, exclude, numeric_only), nulls, dialect)


def _source(data: Any, choice: ColumnChoice, nulls: str, dialect: Dialect) -> Source:
    if type(data) is np.ndarray:  # most data: no other kind is asked for
        return tabular(Array(data), choice, nulls)
    chosen = choice.columns is not None
    if isinstance(data, Source):
        if choice != ColumnChoice():
            raise ValueError("the source has its columns already: choose them where it is made")
        return data.dropping() if nulls == "drop" else data
    if is_path(data):
        parts = [tabular(read_file(file, dialect), choice, nulls) for file in files_of(data)]
        return parts[0] if len(parts) == 1 else Joined(parts, nulls, chosen=chosen)
    if (table := _table(data)) is not None:
        return tabular(table, choice, nulls)
    items = (_source(item, choice, nulls, dialect) for item in data)
    in_memory = isinstance(data, list | tuple)
    return Joined(list(items) if in_memory else items, nulls, chosen=chosen)


def _encoded(rows: Source, schema: Schema | str) -> Source:
    if isinstance(schema, str):
        if schema != "auto":
            raise ValueError(f'schema must be a Schema, or "auto", not {schema!r}')
        schema = proposed_schema(rows)
    if not isinstance(schema, Schema):
        raise TypeError(f'schema must be a Schema, or "auto", not {type(schema).__name__}')
    if rows.columns is None and not isinstance(rows, Joined):
        raise no_names(schema.names)
    return rows.only(SchemaColumns(schema))


def schema(sample: Any) -> Schema:
    """Proposes a schema from a sample: which columns are numbers, booleans, categories or dates.

    The proposal is to be read and edited.

    Parameters
    ----------
    sample : a data frame, Arrow table, file or folder, as `source` takes them; the first 100,000 rows are looked at.

    Examples
    --------
    >>> import pyarrow as pa, sketchlearn as skl
    >>> table = pa.table({"id": range(40), "age": [20, 35, 61, 44] * 10, "member": ["yes", "no"] * 20})
    >>> print(skl.schema(table.append_column("country", [["FR", "DE", "FR", "IT"] * 10])))
    column   becomes                                          missing
    age      number, standardised                             row left out
    member   boolean: yes or no                               row left out
    country  category of 3 values (FR, DE, IT), and other     row left out
    id       left out: numbers the rows
    """
    return proposed_schema(source(sample))


def register_reader(ending: str, reader: Callable[[Path], Any]) -> None:
    """Registers a reader of files with this ending: a function of a path to an array, data frame or Arrow table.

    >>> import numpy as np, pathlib, tempfile
    >>> register_reader(".numbers", lambda path: np.loadtxt(path, ndmin=2))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = pathlib.Path(folder) / "rows.numbers"
    ...     _ = place.write_text("1 2\\n3 4")
    ...     [block.rows.tolist() for block in source(place).blocks()]
    [[[1.0, 2.0], [3.0, 4.0]]]
    """
    if not ending.startswith(".") or len(ending) < 2:
        raise ValueError(f"the end of a file's name begins with a dot, such as .xyz, not {ending!r}")

    def table(path: Path) -> Table:
        found = _table(reader(path))
        if found is None:
            raise ValueError(f"{path}: its reader gave no array, data frame or Arrow table")
        return found

    READERS[ending.lower()] = table


def gpu_rows(rows: Source) -> DeviceRows | None:
    """The rows that are in a GPU's memory as a source would give them; None if they are not."""
    if not isinstance(rows, Tabular) or not isinstance(rows.table, OnGpu):
        return None
    return rows.table.rows if rows.nulls == NULLS[0] and rows.reads_all else None


def is_array(data: Any) -> bool:
    """Whether it is an array or data frame in memory, such as scikit-learn takes: its rows have an order and labels."""
    if type(data) is np.ndarray:
        return True
    if isinstance(data, Source) or is_path(data) or is_on_gpu(data) or _is_stream(data):
        return False
    return not is_arrow(data) or (type(data).__module__.startswith("polars") and type(data).__name__ == "DataFrame")


def _table(data: Any) -> Table | None:
    """The data as one table; None if they are several."""
    if isinstance(data, Table):
        return data
    if is_on_gpu(data):
        return OnGpu(data)
    if is_sparse(data):
        return Sparse(data)
    if is_frame(data):
        return Frame(data)
    if is_arrow(data):
        return arrow_table(data)
    return None if _is_stream(data) else Array(data)


def _is_stream(data: Any) -> bool:
    if is_on_gpu(data) or hasattr(data, "__array__") or is_arrow(data) or is_sparse(data):
        return False
    if isinstance(data, list | tuple):
        return all(
            isinstance(item, Source) or is_path(item) or is_arrow(item) or len(getattr(item, "shape", ())) == 2
            for item in data
        )
    return isinstance(data, Iterable) and not isinstance(data, str | bytes | dict)
