"""Tables of databases in a file: SQLite, by Python's own module, and DuckDB. Both are opened to be read only."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import numpy as np

from sketchlearn.sources.arrow import Arrow, floats_of, library, pyarrow
from sketchlearn.sources.blocks import Floats
from sketchlearn.sources.source_base import reading
from sketchlearn.sources.tables import Columns
from sketchlearn.sources.value_tables import KINDS_FROM_ROWS, Rows, ValueTable, chosen_part

# Names of system tables begin so in SQLite; DuckDB's are in schemas of their own.
SQLITE_TABLES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
)
DUCKDB_MEMORY = "512MB"  # It keeps what it has read up to a limit, which is most of the machine's memory otherwise.
DUCKDB_TABLES = """SELECT table_schema, table_name FROM information_schema.tables
    WHERE table_catalog = current_database() ORDER BY table_schema <> 'main', table_schema, table_name"""


class Sqlite(ValueTable):
    """A table or view of an SQLite database, read in one query: others may write meanwhile."""

    def __init__(self, path: Path, table: str | None = None) -> None:
        with reading(path), self._open(path) as base:
            there = [name for (name,) in base.execute(f"{SQLITE_TABLES} ORDER BY name")]
            self.table = chosen_part(table, there, "table", path)
            some = base.execute(f"SELECT * FROM {quoted(self.table)} LIMIT {KINDS_FROM_ROWS}")
            names = [column[0] for column in some.description]
            super().__init__(path, f"{path}?table={self.table}", names, some.fetchall(), len(names))

    def rows_of_values(self, chosen: Columns, n_rows: int) -> Iterator[Rows]:
        with self._open(self.path) as base:
            found = base.execute(f"SELECT {self._columns(chosen)} FROM {quoted(self.table)}")
            while rows := found.fetchmany(n_rows):
                yield rows if chosen else [()] * len(rows)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        import sqlite3

        with reading(self.path), self._open(self.path) as base:
            try:
                ends = base.execute(f"SELECT min(_rowid_), max(_rowid_) FROM {quoted(self.table)}").fetchone()
            except sqlite3.OperationalError:  # a view, or a table without such numbers
                return None
            if ends[0] is None:
                return None
            wanted = some_rows("_rowid_", ends[0], ends[1], n_rows, rng)
            rows = base.execute(f"SELECT {self._columns(chosen)} FROM {quoted(self.table)} {wanted}").fetchall()
        return self.floats_of_values(rows, chosen) if len(rows) >= min(n_rows, ends[1] - ends[0] + 1) // 2 else None

    def _columns(self, chosen: Columns) -> str:
        assert self.names is not None
        return ", ".join(quoted(self.names[position]) for position in chosen) or "NULL"

    @staticmethod
    @contextmanager
    def _open(path: Path) -> Iterator[Any]:
        import sqlite3

        # a thread reads one block ahead
        base = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True, check_same_thread=False)
        with closing(base):
            yield base


class DuckDb(Arrow):
    """A table or view of a DuckDB database: `name`, or `schema.name` outside the main schema."""

    def __init__(self, path: Path, table: str | None = None) -> None:
        self.path = path
        pa = pyarrow(str(path))
        with reading(path), self._open() as base:
            found = base.execute(DUCKDB_TABLES).fetchall()
            there = {name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in found}
            wanted = chosen_part(table, list(there), "table", path)
            self.table = ".".join(map(quoted, there[wanted]))
            schema = pa.RecordBatchReader.from_stream(base.sql(f"SELECT * FROM {self.table} LIMIT 0")).schema
            kind = "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?"
            self.in_order = base.execute(kind, list(there[wanted])).fetchone() != (0,)  # a view may be in any order
        super().__init__(schema, self._batches)
        self.place, self.n_bytes = f"{path}?table={wanted}", path.stat().st_size

    def _batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with reading(self.path), self._open() as base:
            yield from self._query(base, names, "", n_rows)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        names, kind = [self.fields[position] for position in chosen], self.row_type(chosen)
        with reading(self.path), self._open() as base:
            try:
                ((last,),) = base.execute(f"SELECT max(rowid) FROM {self.table}").fetchall()
            except library(self.place, "duckdb", "duckdb").Error:  # a view
                return None
            if last is None or "rowid" in self.fields:
                return None
            wanted = some_rows("rowid", 0, last, n_rows, rng)
            parts = [floats_of(batch, names, kind) for batch in self._query(base, names, wanted, n_rows)]
        rows: Floats = np.concatenate(parts) if parts else np.empty((0, len(names)))
        return rows if len(rows) >= min(n_rows, last + 1) // 2 else None

    def _query(self, base: Any, names: list[str], wanted: str, n_rows: int) -> Iterator[Any]:
        found = base.sql(f"SELECT {', '.join(map(quoted, names)) or 'NULL'} FROM {self.table} {wanted}")
        # fetch_arrow_reader is what it was called before DuckDB 1.4
        reader = found.to_arrow_reader if hasattr(found, "to_arrow_reader") else found.fetch_arrow_reader
        yield from reader(n_rows)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        duckdb = library(str(self.path), "duckdb", "duckdb")
        with closing(duckdb.connect(str(self.path), read_only=True, config={"memory_limit": DUCKDB_MEMORY})) as base:
            yield base


def quoted(name: str) -> str:
    """A name in SQL, whatever its characters.

    >>> print(quoted('my "best" table'))
    "my ""best"" table"
    """
    return '"' + name.replace('"', '""') + '"'


def some_rows(number: str, first: int, last: int, n_rows: int, rng: np.random.Generator) -> str:
    """A condition on the column that numbers the rows: about n_rows of them meet it, or all where there are no more."""
    n_numbers = last - first + 1
    if n_numbers <= 2 * n_rows:
        drawn = rng.permutation(n_numbers)[:n_rows]
    else:
        drawn = np.unique(rng.integers(0, n_numbers, 2 * n_rows))  # some numbers are those of rows that were deleted
    return f"WHERE {number} IN ({', '.join(str(first + int(i)) for i in drawn)}) ORDER BY {number}"
