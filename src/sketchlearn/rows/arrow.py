"""Arrow tables, batches, readers and datasets, and whatever speaks Arrow's C interface: polars, DuckDB and others."""

from __future__ import annotations

import copy
import importlib
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import either
from sketchlearn.rows.schemas.cell_values import NO_SINGLE_VALUES, remedy_for_cells
from sketchlearn.rows.schemas.text import text_of
from sketchlearn.rows.source_base import Floats, reading
from sketchlearn.rows.tables import Columns, Table, picked, some_positions

Open = Callable[[list[str], int], Iterator[Any]]

#: Arrow types whose values float32 holds exactly, and others that are numbers
NARROW = ("halffloat", "float", "int8", "int16", "uint8", "uint16", "bool", "null")
WIDE = ("double", "int32", "int64", "uint32", "uint64")
INTEGERS = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")


def library(what: str, module: str, extra: str) -> Any:
    """A library that reads something, or one sentence that says how to get it."""
    try:
        return importlib.import_module(module)
    except ImportError:
        package = module.partition(".")[0]
        raise ImportError(f"reading {what} needs {package}: pip install 'sketchlearn[{extra}]'") from None


def pyarrow(what: str, module: str = "pyarrow") -> Any:
    """pyarrow, or one sentence that says how to get it."""
    return library(what, module, "arrow")


class Arrow(Table):
    """Anything that gives record batches of one schema.

    `open_batches` takes the names of the columns that are needed and a number of rows; batches may have more columns
    and any number of rows. It is called once if `replayable` is False.
    """

    immutable = True

    def __init__(self, schema: Any, open_batches: Open, *, n_rows: int | None = None, replayable: bool = True) -> None:
        self.schema, self.open_batches = schema, open_batches
        # a schema of thousands of columns looks for names one by one: 6 s for 3000 columns by 500 rows
        self.fields, self.types = list(schema.names), list(schema.types)
        self.names, self.n_columns = tuple(self.fields), len(self.fields)
        self.n_rows, self.replayable = n_rows, replayable
        self.in_order = True  # whether rows come in the same order each time

    def not_numbers(self, position: int) -> tuple[str, str] | None:
        kind = self.types[position]
        if _float_type(kind) is not None:
            return None
        word = _word(kind)
        return f"{word} ({kind})", remedy_for(word)

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        names = [self.fields[position] for position in chosen]
        kind = self.row_type(chosen)
        for batch in self.open_batches(names, n_rows):
            for first in range(0, batch.num_rows, n_rows):
                yield floats_of(batch.slice(first, n_rows), names, kind)

    def ids(self, position: int, n_rows: int) -> Iterator[NDArray[Any]]:
        if not self.in_order:
            raise ValueError(
                "a query may give its rows in another order each time, so that ids would be those of other rows: "
                "collect it into a data frame or an Arrow table first"
            )
        name = self.fields[position]
        for batch in self.open_batches([name], n_rows):
            yield _ids_of(batch.column(batch.schema.names.index(name)))

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        names = [self.fields[position] for position in chosen]
        for batch in self.open_batches(names, n_rows):
            for first in range(0, batch.num_rows, n_rows):
                part = batch.slice(first, n_rows)
                yield {name: part.column(part.schema.get_field_index(name)) for name in names}

    def row_type(self, chosen: Columns) -> np.dtype[Any]:
        """The type of rows: a function of the schema alone."""
        narrow = all(_float_type(self.types[position]) == np.float32 for position in chosen)
        return np.dtype(np.float32 if narrow else np.float64)


class ArrowTable(Arrow):
    """A table of Arrow, all in memory: any row can be had at once."""

    def __init__(self, table: Any) -> None:
        def open_batches(names: list[str], n_rows: int) -> Iterator[Any]:
            return iter(table.select(names).to_batches(max_chunksize=n_rows))

        super().__init__(table.schema, open_batches, n_rows=table.num_rows)

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        if not self.n_rows:
            return None
        names = [self.fields[position] for position in chosen]
        which = some_positions(self.n_rows, n_rows, rng)
        return raw_columns(picked_batches(self.open_batches(names, 1 << 16), which), names)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        total = self.n_rows or 0
        return picked(self.chunks(chosen, 1 << 16), rng.choice(total, min(n_rows, total), replace=False))


def picked_batches(batches: Iterable[Any], which: NDArray[np.int64]) -> Iterator[Any]:
    """The rows at these positions, in ascending order, batch by batch, to the last of them."""
    import pyarrow as pa

    start = done = 0
    for batch in batches:
        upto = int(np.searchsorted(which, start + batch.num_rows))
        own = pa.array(which[done:upto] - start)
        columns = (column if (text := text_of(column)) is None else text for column in batch.columns)
        yield pa.table([column.take(own) for column in columns], names=batch.schema.names)
        start, done = start + batch.num_rows, upto
        if done == len(which):
            return


def raw_columns(tables: Iterable[Any], names: list[str]) -> dict[str, Any]:
    """Columns of tables, one below the other, each as one Arrow array."""
    import pyarrow as pa

    whole = pa.concat_tables(tables).unify_dictionaries()
    return {name: _one_array(whole.column(name)) for name in names}


def _one_array(column: Any) -> Any:
    import pyarrow as pa

    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def remedy_for(word: str) -> str:
    """What can be done about a column that holds text, dates or the like instead of numbers."""
    if word in ("text", "categories", "dates", "times"):
        return f"encode it with a schema ({either('skl.schema', 'sketchlearn schema')})"
    if word in (*NO_SINGLE_VALUES.values(), "maps"):
        return remedy_for_cells(word)
    return "convert it to float"


def floats_of(batch: Any, names: list[str], kind: np.dtype[Any]) -> Floats:
    """The columns of a record batch side by side, nulls as NaN."""
    rows: NDArray[Any] = np.empty((batch.num_rows, len(names)), kind)
    where = {name: i for i, name in enumerate(batch.schema.names)}
    for i, name in enumerate(names):
        column = batch.column(where[name])
        if str(column.type) not in ("double", "float"):
            # not safe: 2^53 + 1 becomes the nearest float64, as it does in NumPy
            column = column.cast("float32" if kind == np.float32 else "float64", safe=False)
        rows[:, i] = column.to_numpy(zero_copy_only=False)
    return rows


def _ids_of(column: Any) -> NDArray[Any]:
    """The values of a column, text or numbers, None where they are missing."""
    kind = str(column.type)
    if not column.null_count and kind in ("double", "float", "halffloat", *INTEGERS):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if kind.startswith(("string", "large_string", "dictionary")):
        # equal texts become one object, which is faster
        encoded = column if kind.startswith("dictionary") else column.cast("large_string").dictionary_encode()
        texts: NDArray[Any] = np.array([*_objects(encoded.dictionary), None], object)
        return np.asarray(texts[encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)])
    return _objects(column)


def _objects(column: Any) -> NDArray[Any]:
    return np.fromiter(column.to_pylist(), object, len(column))


def is_arrow(data: Any) -> bool:
    """Whether it can be read by way of Arrow. Data frames of pandas can, but are read without."""
    home = type(data).__module__.partition(".")[0]
    if home in ("duckdb", "_duckdb"):
        return hasattr(data, "project")
    speaks = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return home in ("polars", "pyarrow") or (home != "pandas" and speaks)


def arrow_table(data: Any) -> Arrow:
    """The table that Arrow data are."""
    home, name = type(data).__module__.partition(".")[0], type(data).__name__
    if home == "polars":
        return _polars(data, name)
    if home in ("duckdb", "_duckdb"):
        return _duckdb(data)
    if home == "pyarrow":
        return _pyarrow(data)
    if hasattr(data, "__arrow_c_stream__"):
        return _stream(data, f"a {name}")
    return _pyarrow(pyarrow(f"a {name}").record_batch(data))


def _pyarrow(data: Any) -> Arrow:
    import pyarrow as pa

    if isinstance(data, pa.Table):
        return ArrowTable(data)
    if isinstance(data, pa.RecordBatch):
        return ArrowTable(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return Arrow(data.schema, lambda _names, _rows: iter(data), replayable=False)
    if isinstance(data, pa.StructArray):
        return ArrowTable(pa.Table.from_batches([pa.RecordBatch.from_struct_array(data)]))
    if hasattr(data, "projected_schema"):
        return Arrow(data.projected_schema, lambda _names, _rows: data.to_batches(), replayable=False)
    if hasattr(data, "scanner"):
        # a dataset reads 16 batches of 4 files ahead unless told otherwise
        ahead = {"batch_readahead": 1, "fragment_readahead": 1}
        return Arrow(data.schema, lambda names, rows: data.to_batches(columns=names, batch_size=rows, **ahead))
    raise TypeError(f"a pyarrow {type(data).__name__} is not a table: put it into pyarrow.table({{'name': column}})")


def _polars(data: Any, name: str) -> Arrow:
    pa = pyarrow(f"a polars {name}")
    if name == "DataFrame":
        return ArrowTable(pa.RecordBatchReader.from_stream(data).read_all())
    if name == "LazyFrame":
        schema = pa.RecordBatchReader.from_stream(data.head(0).collect()).schema

        def collected(names: list[str], n_rows: int) -> Iterator[Any]:
            for part in data.select(names).collect_batches(chunk_size=n_rows):
                yield from pa.RecordBatchReader.from_stream(part)

        return _query(schema, collected)
    raise TypeError(f"a polars {name} is not a table: put it into a DataFrame")


def _duckdb(relation: Any) -> Arrow:
    pa = pyarrow("a DuckDB relation")

    def run(names: list[str], n_rows: int) -> Iterator[Any]:
        chosen = relation.project(", ".join('"' + name.replace('"', '""') + '"' for name in names))
        # fetch_arrow_reader is what it was called before DuckDB 1.4
        reader = chosen.to_arrow_reader if hasattr(chosen, "to_arrow_reader") else chosen.fetch_arrow_reader
        yield from reader(n_rows)

    return _query(pa.RecordBatchReader.from_stream(relation.limit(0)).schema, run)


def _query(schema: Any, run: Open) -> Arrow:
    table = Arrow(schema, run)
    table.in_order = False
    return table


def _stream(data: Any, what: str) -> Arrow:
    pa = pyarrow(what)
    try:
        reader = pa.RecordBatchReader.from_stream(data)
    except pa.ArrowInvalid:
        raise TypeError(f"{what} is not a table: Arrow needs columns with names") from None
    return Arrow(reader.schema, lambda _names, _rows: iter(reader), replayable=False)


def _float_type(kind: Any) -> np.dtype[Any] | None:
    """The type of rows for a column of this type; None if it is not numbers."""
    if (name := str(kind)) in NARROW:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if name in WIDE or name.startswith("decimal") else None


def _word(kind: Any) -> str:
    """An Arrow type in words."""
    starts = {
        "string": "text", "large_string": "text", "utf8": "text", "binary": "bytes", "large_binary": "bytes",
        "fixed_size_binary": "bytes", "date": "dates", "timestamp": "times", "time": "times of day",
        "duration": "durations", "dictionary": "categories", "list": "lists", "large_list": "lists",
        "fixed_size_list": "lists", "struct": "records", "map": "maps",
    }  # fmt: skip
    return next((word for start, word in starts.items() if str(kind).startswith(start)), "values")


INDEXED_MAGIC = b"ARROW1"  # The first bytes of an Arrow file with an index; a stream begins otherwise.
MOST_SAMPLED_GROUPS = 16  # A sample reads no more row groups than this.
READ_WHOLE_BYTES = 1 << 23  # Files up to this size are read to the end for a sample with a schema: in no time.
SAMPLE_BATCH_ROWS = 1 << 14  # Rows that are decoded at a time for a sample.


class ArrowFile(Arrow):
    """A file that gives record batches: it is streamed, and its errors name it."""

    def __init__(self, path: Path, schema: Any, n_rows: int | None = None) -> None:
        super().__init__(schema, self._named, n_rows=n_rows)
        self.path, self.place, self.n_bytes = path, str(path), path.stat().st_size

    def twin(self) -> Self:
        """A copy that is read by itself."""
        other = copy.copy(self)
        other.open_batches = other._named
        return other

    def _named(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with reading(self.path):
            yield from self._batches(names, n_rows)

    @abstractmethod
    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        """The file's batches, of at least these columns."""


class Ipc(ArrowFile):
    """A file of Arrow's own format: with an index (also called Feather), or a stream."""

    def __init__(self, path: Path) -> None:
        ipc = pyarrow(str(path), "pyarrow.ipc")
        with reading(path), path.open("rb") as file:
            self.indexed = file.read(len(INDEXED_MAGIC)) == INDEXED_MAGIC
            file.seek(0)
            reader = ipc.open_file(file) if self.indexed else ipc.open_stream(file)
            super().__init__(path, reader.schema)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:  # noqa: ARG002
        from pyarrow import OSFile, ipc

        # not memory-mapped: a file that is cut short while it is mapped ends the process
        with OSFile(str(self.path)) as file:
            if self.indexed:
                reader = ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from ipc.open_stream(file)


class Parquet(ArrowFile):
    """A Parquet file, of which only the needed columns are decoded."""

    def __init__(self, path: Path) -> None:
        with reading(path), self._open(path) as file:
            super().__init__(path, file.schema_arrow, file.metadata.num_rows)
            groups = range(file.metadata.num_row_groups)
            self.group_rows = np.array([file.metadata.row_group(i).num_rows for i in groups], np.int64)

    @staticmethod
    def _open(path: Path) -> Any:
        parquet = pyarrow(str(path), "pyarrow.parquet")
        # one row group may hold the whole file: with a buffer, its pages are read as they are needed
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with self._open(self.path) as file:
            yield from file.iter_batches(batch_size=n_rows, columns=names)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        names, kind = [self.fields[i] for i in chosen], self.row_type(chosen)
        parts: list[Floats] = [np.empty((0, len(names)), kind)]
        for batches, which in self._drawn_groups(names, n_rows, rng):
            parts.append(picked((floats_of(batch, names, kind) for batch in batches), which))
        return np.concatenate(parts)

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        if (self.n_bytes or 0) <= READ_WHOLE_BYTES:
            return None
        names = [self.fields[i] for i in chosen]
        drawn = (picked_batches(batches, np.sort(which)) for batches, which in self._drawn_groups(names, n_rows, rng))
        return raw_columns(chain.from_iterable(drawn), names)

    def _drawn_groups(
        self, names: list[str], n_rows: int, rng: np.random.Generator
    ) -> Iterator[tuple[Iterator[Any], NDArray[np.int64]]]:
        """The batches of some row groups, each with the positions of the rows that are drawn from it."""
        with reading(self.path), self._open(self.path) as file:
            for group, drawn in enumerate(_drawn(self.group_rows, n_rows, rng)):
                if drawn:
                    which = rng.choice(self.group_rows[group], drawn, replace=False)
                    batches = file.iter_batches(batch_size=SAMPLE_BATCH_ROWS, row_groups=[group], columns=names)
                    yield batches, which


def _drawn(sizes: NDArray[np.int64], n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """How many rows to draw of each row group: in proportion to its size, from a few groups of many."""
    if sizes.sum() <= n_rows:
        return sizes
    groups = np.arange(len(sizes))
    if len(sizes) > MOST_SAMPLED_GROUPS:
        groups = rng.choice(len(sizes), MOST_SAMPLED_GROUPS, replace=False)
    shares = -(-sizes[groups] * n_rows // sizes[groups].sum())
    drawn = np.zeros_like(sizes)
    drawn[groups] = np.minimum(shares, sizes[groups])
    return drawn
