"""All that is read as Arrow batches: its tables, readers and files, JSON lines, and libraries such as polars."""

from __future__ import annotations

import json
import re
from abc import abstractmethod
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.errors import InvalidValueError
from sketchlearn.rows.lazy_pyarrow import ipc, json_reader, pa, parquet
from sketchlearn.rows.schemas.cell_values import arrow_array
from sketchlearn.rows.schemas.text import text_of
from sketchlearn.rows.source_base import (
    Columns,
    Floats,
    Table,
    decompressed,
    other_columns,
    reading,
    remedy_for,
    some_positions,
)

Open = Callable[[list[str], int], Iterator[Any]]

#: Arrow types whose values float32 holds exactly, and others that are numbers
NARROW = ("halffloat", "float", "int8", "int16", "uint8", "uint16", "bool", "null")
WIDE = ("double", "int32", "int64", "uint32", "uint64")


class Arrow(Table):
    """Anything that gives record batches of one schema."""

    immutable = True
    in_order = True  # whether rows come in the same order each time

    def __init__(self, schema: Any, n_rows: int | None = None) -> None:
        self.schema = schema
        # a schema of thousands of columns looks for names one by one: 6 s for 3000 columns by 500 rows
        self.fields, self.types = list(schema.names), list(schema.types)
        self.names, self.n_columns, self.n_rows = tuple(self.fields), len(self.fields), n_rows

    @abstractmethod
    def open_batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        """Batches of at least these columns, of any number of rows; it is called once if `replayable` is False."""

    def not_numbers(self, position: int) -> str | None:
        kind = self.types[position]
        return f"{_word(kind)} ({kind})" if _float_type(kind) is None else None

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        names, kind = self.names_of(chosen), self.row_type(chosen)
        for batch in self._small_batches(names, n_rows):
            yield floats_of(batch, names, kind)

    def _small_batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        for batch in self.open_batches(names, n_rows):
            for first in range(0, batch.num_rows, n_rows):
                yield batch.slice(first, n_rows)

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
        names = self.names_of(chosen)
        for batch in self._small_batches(names, n_rows):
            yield {name: batch.column(batch.schema.get_field_index(name)) for name in names}

    def names_of(self, chosen: Columns) -> list[str]:
        """The names of columns; CSV without names has numbers in their place."""
        return [self.fields[position] for position in chosen]

    def row_type(self, chosen: Columns) -> np.dtype[Any]:
        """The type of rows: a function of the schema alone."""
        narrow = all(_float_type(self.types[position]) == np.float32 for position in chosen)
        return np.dtype(np.float32 if narrow else np.float64)


class ArrowStream(Arrow):
    """Batches that a function gives when it is called with names and a number of rows."""

    def __init__(self, schema: Any, call: Open, *, replayable: bool = True, in_order: bool = True) -> None:
        super().__init__(schema)
        self.call, self.replayable, self.in_order = call, replayable, in_order

    def open_batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        return self.call(names, n_rows)


class ArrowTable(Arrow):
    """An Arrow table in memory: any row can be read at once."""

    def __init__(self, table: Any) -> None:
        super().__init__(table.schema, table.num_rows)
        self.table = table

    def open_batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        return iter(self.table.select(names).to_batches(max_chunksize=n_rows))

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        if not self.n_rows:
            return None
        names, which = self.names_of(chosen), some_positions(self.n_rows, n_rows, rng)
        return raw_columns(picked(self.open_batches(names, 1 << 16), which), names)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats:
        names, total = self.names_of(chosen), self.n_rows or 0
        which = np.sort(rng.choice(total, min(n_rows, total), replace=False))
        return stacked(picked(self.open_batches(names, 1 << 16), which), names, self.row_type(chosen))


def picked(batches: Iterable[Any], which: NDArray[np.int64]) -> Iterator[Any]:
    """The rows at these positions, in ascending order, as a table for each batch up to the last of them."""
    start = done = 0
    for batch in batches:
        upto = int(np.searchsorted(which, start + batch.num_rows))
        rows = pa.array(which[done:upto] - start)
        columns = (column if (text := text_of(column)) is None else text for column in batch.columns)
        yield pa.table([column.take(rows) for column in columns], names=batch.schema.names)
        start, done = start + batch.num_rows, upto
        if done == len(which):
            return


def raw_columns(tables: Iterable[Any], names: list[str]) -> dict[str, Any]:
    """Columns of tables, one below the other, each as one Arrow array."""
    whole = pa.concat_tables(tables).unify_dictionaries()
    return {name: pa.concat_arrays(whole.column(name).chunks or [pa.array([], whole[name].type)]) for name in names}


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


def stacked(tables: Iterable[Any], names: list[str], kind: np.dtype[Any]) -> Floats:
    """`floats_of` of tables, one below the other."""
    none: Floats = np.empty((0, len(names)), kind)
    return np.concatenate([none, *(floats_of(table, names, kind) for table in tables)])


def _ids_of(column: Any) -> NDArray[Any]:
    """The values of a column, text or numbers, None where they are missing."""
    kind = str(column.type)
    if not column.null_count and kind not in ("bool", "null") and kind in (*NARROW, *WIDE):
        return np.asarray(column.to_numpy(zero_copy_only=False))
    if kind.startswith(("string", "large_string", "dictionary")):
        # equal texts become one object, which is faster
        encoded = column if kind.startswith("dictionary") else column.cast("large_string").dictionary_encode()
        texts: NDArray[Any] = np.array([*encoded.dictionary.to_pylist(), None], object)
        return np.asarray(texts[encoded.indices.fill_null(len(texts) - 1).to_numpy(zero_copy_only=False)])
    return np.fromiter(column.to_pylist(), object, len(column))


def is_arrow(data: Any) -> bool:
    """Whether the data are read through Arrow; data frames of pandas are read directly."""
    home = type(data).__module__.partition(".")[0]
    if home in ("duckdb", "_duckdb"):
        return hasattr(data, "project")
    speaks = hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")
    return home in ("polars", "pyarrow") or (home != "pandas" and speaks)


def arrow_table(data: Any) -> Arrow:
    home, name = type(data).__module__.partition(".")[0], type(data).__name__
    if home == "polars":
        return _polars(data, name)
    if home in ("duckdb", "_duckdb"):
        return _duckdb(data)
    if home == "pyarrow":
        return _pyarrow(data)
    if not hasattr(data, "__arrow_c_stream__"):
        return _pyarrow(pa.record_batch(data))
    try:
        return _pyarrow(pa.RecordBatchReader.from_stream(data))
    except pa.ArrowInvalid:
        raise TypeError(f"a {name} is not a table: Arrow needs columns with names") from None


def _pyarrow(data: Any) -> Arrow:
    if isinstance(data, pa.Table):
        return ArrowTable(data)
    if isinstance(data, pa.RecordBatch):
        return ArrowTable(pa.Table.from_batches([data]))
    if isinstance(data, pa.RecordBatchReader):
        return ArrowStream(data.schema, lambda _names, _rows: iter(data), replayable=False)
    if isinstance(data, pa.StructArray):
        return ArrowTable(pa.Table.from_batches([pa.RecordBatch.from_struct_array(data)]))
    if hasattr(data, "projected_schema"):
        return ArrowStream(data.projected_schema, lambda _names, _rows: data.to_batches(), replayable=False)
    if hasattr(data, "scanner"):
        # by default, a dataset reads 16 batches of 4 files ahead
        ahead = {"batch_readahead": 1, "fragment_readahead": 1}
        return ArrowStream(data.schema, lambda names, rows: data.to_batches(columns=names, batch_size=rows, **ahead))
    raise TypeError(f"a pyarrow {type(data).__name__} is not a table: put it into pyarrow.table({{'name': column}})")


def _polars(data: Any, name: str) -> Arrow:
    if name == "DataFrame":
        return ArrowTable(pa.table(data))
    if name != "LazyFrame":
        raise TypeError(f"a polars {name} is not a table: put it into a DataFrame")

    def collected(names: list[str], n_rows: int) -> Iterator[Any]:
        for part in data.select(names).collect_batches(chunk_size=n_rows):
            yield from pa.RecordBatchReader.from_stream(part)

    return ArrowStream(pa.table(data.head(0).collect()).schema, collected, in_order=False)


def _duckdb(relation: Any) -> Arrow:
    def run(names: list[str], n_rows: int) -> Iterator[Any]:
        return duckdb_batches(relation.project(", ".join(map(quoted, names))), n_rows)

    return ArrowStream(pa.RecordBatchReader.from_stream(relation.limit(0)).schema, run, in_order=False)


def duckdb_batches(relation: Any, n_rows: int) -> Iterator[Any]:
    # before DuckDB 1.4 it was called fetch_arrow_reader
    reader = relation.to_arrow_reader if hasattr(relation, "to_arrow_reader") else relation.fetch_arrow_reader
    yield from reader(n_rows)


def quoted(name: str) -> str:
    """A name in SQL, whatever its characters.

    >>> print(quoted('my "best" table'))
    "my ""best"" table"
    """
    return '"' + name.replace('"', '""') + '"'


def _float_type(kind: Any) -> np.dtype[Any] | None:
    """The type of rows for a column of this type; None if it is not numeric."""
    if (name := str(kind)) in NARROW:
        return np.dtype(np.float32)
    return np.dtype(np.float64) if name in WIDE or name.startswith("decimal") else None


def _word(kind: Any) -> str:
    starts = {
        "string": "text", "large_string": "text", "utf8": "text", "binary": "bytes", "large_binary": "bytes",
        "fixed_size_binary": "bytes", "date": "dates", "timestamp": "times", "time": "times of day",
        "duration": "durations", "dictionary": "categories", "list": "lists", "large_list": "lists",
        "fixed_size_list": "lists", "struct": "records", "map": "maps",
    }  # fmt: skip
    return next((word for start, word in starts.items() if str(kind).startswith(start)), "values")


INDEXED_MAGIC = b"ARROW1"  # The first bytes of an Arrow file with an index; a stream begins with other bytes.
MOST_SAMPLED_GROUPS = 16  # A sample reads no more row groups than this.
READ_WHOLE_BYTES = 1 << 23  # Smaller files are read to the end for a sample with a schema: that takes no time.
SAMPLE_BATCH_ROWS = 1 << 14  # Rows that are decoded at a time for a sample.


class ArrowFile(Arrow):
    """A file that is streamed as record batches; errors name it."""

    def __init__(self, path: Path, schema: Any, n_rows: int | None = None) -> None:
        super().__init__(schema, n_rows)
        self.path, self.place, self.n_bytes = path, str(path), path.stat().st_size

    def open_batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with reading(self.path):
            yield from self._batches(names, n_rows)

    @abstractmethod
    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        """The file's batches, of at least these columns."""

    def pieces(self, names: list[str], n_rows: int, rng: np.random.Generator) -> Iterable[Any] | None:  # noqa: ARG002
        """Tables of about n_rows rows from all over the file; None if the whole file has to be read for them."""
        return None

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        names = self.names_of(chosen)
        pieces = self.pieces(names, n_rows, rng)
        return None if pieces is None else stacked(pieces, names, self.row_type(chosen))

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        names = self.names_of(chosen)
        pieces = self.pieces(names, n_rows, rng)
        return None if pieces is None else raw_columns(pieces, names)


class Ipc(ArrowFile):
    """A file in Arrow's format: with an index (also called Feather), or a stream."""

    def __init__(self, path: Path) -> None:
        with reading(path), path.open("rb") as file:
            self.indexed = file.read(len(INDEXED_MAGIC)) == INDEXED_MAGIC
            file.seek(0)
            reader = ipc.open_file(file) if self.indexed else ipc.open_stream(file)
            super().__init__(path, reader.schema)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:  # noqa: ARG002
        # not memory-mapped: a file that is cut short while it is mapped ends the process
        with pa.OSFile(str(self.path)) as file:
            if self.indexed:
                reader = ipc.open_file(file)
                yield from (reader.get_batch(i) for i in range(reader.num_record_batches))
            else:
                yield from ipc.open_stream(file)


class Parquet(ArrowFile):
    """A Parquet file; only the needed columns are decoded."""

    def __init__(self, path: Path) -> None:
        with reading(path), self._open(path) as file:
            super().__init__(path, file.schema_arrow, file.metadata.num_rows)
            groups = range(file.metadata.num_row_groups)
            self.group_rows = np.array([file.metadata.row_group(i).num_rows for i in groups], np.int64)

    @staticmethod
    def _open(path: Path) -> Any:
        # one row group may hold the whole file: with a buffer, its pages are read as they are needed
        return parquet.ParquetFile(path, pre_buffer=False, buffer_size=1 << 20)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with self._open(self.path) as file:
            yield from file.iter_batches(batch_size=n_rows, columns=names)

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        return super().raw_some(chosen, n_rows, rng) if (self.n_bytes or 0) > READ_WHOLE_BYTES else None

    def pieces(self, names: list[str], n_rows: int, rng: np.random.Generator) -> Iterator[Any]:
        with reading(self.path), self._open(self.path) as file:
            for group, drawn in enumerate(_drawn(self.group_rows, n_rows, rng)):
                if drawn:
                    which = np.sort(rng.choice(self.group_rows[group], drawn, replace=False))
                    batches = file.iter_batches(batch_size=SAMPLE_BATCH_ROWS, row_groups=[group], columns=names)
                    yield from picked(batches, which)


def _drawn(sizes: NDArray[np.int64], n_rows: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """The number of rows to draw from each row group: proportional to its size, from a few groups if there are many."""
    if sizes.sum() <= n_rows:
        return sizes
    groups = np.arange(len(sizes))
    if len(sizes) > MOST_SAMPLED_GROUPS:
        groups = rng.choice(len(sizes), MOST_SAMPLED_GROUPS, replace=False)
    in_proportion = -(-sizes[groups] * n_rows // sizes[groups].sum())
    drawn = np.zeros_like(sizes)
    drawn[groups] = np.minimum(in_proportion, sizes[groups])
    return drawn


PARSED_BYTES = 1 << 22  # Bytes that are parsed at a time, at least one line.
CHANGED_TYPE = re.compile(r"JSON parse error: Column\(/(.*?)\) (?:changed from|was specified)")
JSON_NUMBERS = ("int64", "double", "null")
PLAIN: dict[type, type] = {int: float, float: float, bool: bool}  # Other JSON values are text, lists or objects.


class JsonLines(ArrowFile):
    """A file of JSON objects, one per line: their fields are the columns, and one that an object lacks is missing.

    Fields and types are inferred from the first megabytes: numbers are read as float64, true and false as 1 and 0.
    pyarrow's own streaming reader, `open_json`, refuses fields with values of several kinds.
    """

    def __init__(self, path: Path) -> None:
        with reading(path), decompressed(path) as stream:
            first = next(_whole_lines(stream), b"")
            if not first:
                raise ValueError(f"{path} is empty: it should have a JSON object on each line")
            found, self.mixed = _inferred(first)
        fields = [field.with_type(pa.float64()) if str(field.type) in JSON_NUMBERS else field for field in found]
        super().__init__(path, pa.schema(fields))

    def not_numbers(self, position: int) -> str | None:
        mixed = self.fields[position] in self.mixed
        return "values of several kinds" if mixed else super().not_numbers(position)

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        self.bytes_read = 0
        wanted = set(names or self.fields[:1])  # without any field, rows would not be counted
        schema = pa.schema([field for field in self.schema if field.name in wanted])
        with decompressed(self.path, self) as stream:
            for lines in _whole_lines(stream):
                try:
                    yield from _parsed(lines, schema).to_batches(max_chunksize=n_rows)
                except ValueError as error:
                    found = CHANGED_TYPE.match(str(error))
                    if found is None:
                        raise
                    problem = f"{self.place}: column {found[1]!r} holds values other than numbers after its first ones"
                    raise InvalidValueError(problem, f"{remedy_for('text')}, or {other_columns()}") from None

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:  # noqa: ARG002
        names = self.names_of(chosen)
        self.bytes_read = 0
        with reading(self.path), decompressed(self.path, self) as stream:
            for lines in _whole_lines(stream):  # by Python: pyarrow would infer one type from all values together
                rows = _json_objects(lines)
                yield {name: arrow_array([row.get(name) for row in rows]) for name in names}


def _inferred(lines: bytes) -> tuple[Any, frozenset[str]]:
    """Infers fields and types from lines, and which fields have values of several kinds, which pyarrow refuses."""
    try:
        return _parsed(lines).schema, frozenset()
    except ValueError as error:
        if CHANGED_TYPE.match(str(error)) is None:
            raise
    kinds: dict[str, set[type]] = {}
    for row in _json_objects(lines):
        for name, value in row.items():
            kinds.setdefault(name, set()).update([] if value is None else [PLAIN.get(type(value), str)])
    types = {float: pa.float64(), bool: pa.bool_(), str: pa.string()}
    fields = [(name, types[str if len(found) > 1 else next(iter(found), float)]) for name, found in kinds.items()]
    return pa.schema(fields), frozenset(name for name, found in kinds.items() if len(found) > 1)


def _json_objects(lines: bytes) -> list[dict[str, Any]]:
    rows = [json.loads(line) for line in lines.splitlines() if line.strip()]
    if not all(isinstance(row, dict) for row in rows):
        raise ValueError("a line of it is not a JSON object")
    return rows


def _parsed(lines: bytes, schema: Any = None) -> Any:
    return json_reader.read_json(
        pa.BufferReader(lines),
        read_options=json_reader.ReadOptions(use_threads=False, block_size=len(lines) + 1),
        parse_options=json_reader.ParseOptions(
            explicit_schema=schema, unexpected_field_behavior="infer" if schema is None else "ignore"
        ),
    )


def _whole_lines(stream: Any) -> Iterator[bytes]:
    """Whole lines, many at a time, without blank parts."""
    held: list[bytes] = []
    while more := stream.read(PARSED_BYTES):
        cut = more.rfind(b"\n") + 1
        if not cut:
            held.append(more)
            continue
        lines = b"".join([*held, more[:cut]])
        held = [more[cut:]]
        if lines.strip():
            yield lines
    if (last := b"".join(held)).strip():
        yield last
