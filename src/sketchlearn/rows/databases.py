"""Tables of SQLite and DuckDB databases, opened read-only, and sheets of Excel workbooks."""

from __future__ import annotations

import datetime
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from decimal import Decimal
from itertools import islice
from numbers import Real
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.packages import required
from sketchlearn.rows.arrow import Arrow, duckdb_batches, quoted, stacked
from sketchlearn.rows.lazy_pyarrow import pa
from sketchlearn.rows.schemas.cell_values import arrow_array, is_missing
from sketchlearn.rows.source_base import Columns, Floats, Table, listed, reading

MOST_ROWS = 1 << 14  # Rows that are fetched at a time: Python's values need ten times the memory of numbers.
KINDS_FROM_ROWS = 1000  # Rows from which the types of columns are inferred.
WORDS = {str: "text", bytes: "bytes", datetime.datetime: "times", datetime.date: "dates", datetime.time: "times of day"}
Rows = list[tuple[Any, ...]]


class ValueTable(Table):
    """A table that gives tuples of Python's values. Which columns are numbers is inferred from the first rows."""

    immutable = True

    def __init__(self, path: Path, place: str, names: Sequence[str] | None, first_rows: Rows, n_columns: int) -> None:
        self.path, self.place, self.n_bytes = path, place, path.stat().st_size
        self.names, self.n_columns = None if names is None else tuple(names), n_columns
        self.words = [_word(column) for column in zip(*first_rows, strict=True)] or [None] * n_columns

    def not_numbers(self, position: int) -> str | None:
        return self.words[position]

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        n_before = 0
        with reading(self.path):
            for rows in self.rows_of_values(chosen, min(n_rows, MOST_ROWS)):
                yield self.floats_of_values(rows, chosen, n_before)
                n_before += len(rows)

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        names = [(self.names or ())[position] for position in chosen]
        with reading(self.path):
            for rows in self.rows_of_values(chosen, min(n_rows, MOST_ROWS)):
                columns = map(arrow_array, map(list, zip(*rows, strict=True)))
                yield dict(zip(names, columns, strict=True))

    @abstractmethod
    def rows_of_values(self, chosen: Columns, n_rows: int) -> Iterator[Rows]:
        """The rows of the chosen columns, about n_rows at a time, missing values as None."""

    def floats_of_values(self, rows: Rows, chosen: Columns, n_before: int = 0) -> NDArray[np.float64]:
        """Rows as an array, missing values as NaN; the error for other cells says where they are."""
        try:
            return np.array(rows, np.float64).reshape(len(rows), len(chosen))
        except (ValueError, TypeError):
            for i, row in enumerate(rows):
                for position, cell in zip(chosen, row, strict=True):
                    if _word([cell]) is not None:
                        where = f"row {n_before + i} of {self.place}, {self.column(position)}"
                        raise ValueError(f"{where} holds {str(cell)[:40]!r}, which is not a number") from None
            known = [tuple(None if is_missing(cell) else cell for cell in row) for row in rows]
            if known == rows:
                raise
            return self.floats_of_values(known, chosen, n_before)


def chosen_part(wanted: str | None, there: Sequence[str], what: str, path: Path) -> str:
    """The table or sheet that is asked for, or the only one; otherwise an error lists those that exist."""
    if wanted is None and len(there) == 1:
        return there[0]
    if not there:
        raise ValueError(f"{path} has no {what}s")
    if wanted is None:
        choice = f"choose one, such as {path}?{what}={there[0]}"
        raise ValueError(f"{path} has {len(there)} {what}s, {listed(there)}: {choice}")
    if wanted not in there:
        raise ValueError(f"{path} has no {what} {wanted!r}: its {what}s are {listed(there)}")
    return wanted


def _word(column: Sequence[Any]) -> str | None:
    """What a column holds, if it is not numeric; None for numbers."""
    odd = next((cell for cell in column if not is_missing(cell) and not isinstance(cell, Real | Decimal)), None)
    return None if odd is None else next((word for kind, word in WORDS.items() if isinstance(odd, kind)), "values")


# Names of system tables begin so in SQLite; DuckDB's are in schemas of their own.
SQLITE_TABLES = (
    "SELECT name FROM sqlite_master WHERE type IN ('table', 'view') AND name NOT LIKE 'sqlite@_%' ESCAPE '@'"
)
DUCKDB_MEMORY = "512MB"  # The cache of what was read; by default it takes most of the machine's memory.
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
        with reading(path), self._open() as base:
            found = base.execute(DUCKDB_TABLES).fetchall()
            there = {name if schema == "main" else f"{schema}.{name}": (schema, name) for schema, name in found}
            wanted = chosen_part(table, list(there), "table", path)
            self.table = ".".join(map(quoted, there[wanted]))
            schema = pa.RecordBatchReader.from_stream(base.sql(f"SELECT * FROM {self.table} LIMIT 0")).schema
            kind = "SELECT count(*) FROM duckdb_tables() WHERE schema_name = ? AND table_name = ?"
            self.in_order = base.execute(kind, list(there[wanted])).fetchone() != (0,)  # a view may be in any order
        super().__init__(schema)
        self.place, self.n_bytes = f"{path}?table={wanted}", path.stat().st_size

    def open_batches(self, names: list[str], n_rows: int) -> Iterator[Any]:
        with reading(self.path), self._open() as base:
            yield from self._query(base, names, "", n_rows)

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        names = self.names_of(chosen)
        with reading(self.path), self._open() as base:
            try:
                ((last,),) = base.execute(f"SELECT max(rowid) FROM {self.table}").fetchall()
            except required("duckdb", "duckdb").Error:  # a view
                return None
            if last is None or "rowid" in self.fields:
                return None
            wanted = some_rows("rowid", 0, last, n_rows, rng)
            rows = stacked(self._query(base, names, wanted, n_rows), names, self.row_type(chosen))
        return rows if len(rows) >= min(n_rows, last + 1) // 2 else None

    def _query(self, base: Any, names: list[str], wanted: str, n_rows: int) -> Iterator[Any]:
        query = f"SELECT {', '.join(map(quoted, names)) or 'NULL'} FROM {self.table} {wanted}"
        return duckdb_batches(base.sql(query), n_rows)

    @contextmanager
    def _open(self) -> Iterator[Any]:
        duckdb = required("duckdb", "duckdb")
        with closing(duckdb.connect(str(self.path), read_only=True, config={"memory_limit": DUCKDB_MEMORY})) as base:
            yield base


def some_rows(number: str, first: int, last: int, n_rows: int, rng: np.random.Generator) -> str:
    """A condition on the column that numbers the rows: about n_rows of them meet it, or all if there are fewer."""
    n_numbers = last - first + 1
    if n_numbers <= 2 * n_rows:
        drawn = rng.permutation(n_numbers)[:n_rows]
    else:
        drawn = np.unique(rng.integers(0, n_numbers, 2 * n_rows))  # some rows may have been deleted
    return f"WHERE {number} IN ({', '.join(str(first + int(i)) for i in drawn)}) ORDER BY {number}"


NO_VALUES = ("", "#N/A", "#NULL!")  # What Excel shows where there is no value.


class Excel(ValueTable):
    """A sheet of a workbook: the first, or the one of this name. Formulas have the values that Excel saved.

    The first row that is not blank names the columns, unless all its cells are numbers; blank rows are left out.
    """

    def __init__(self, path: Path, sheet: str | None = None, header: bool | None = None) -> None:
        with reading(path), self._open(path) as book:
            self.sheet = chosen_part(sheet, book.sheetnames, "sheet", path) if sheet else book.sheetnames[0]
            rows = self._rows(book, None)
            first = next(rows, ())
            width = max((i + 1 for i, cell in enumerate(first) if cell is not None), default=0)
            if not width:
                raise ValueError(f"{path} is empty: its sheet {self.sheet!r} has no rows")
            some = [first[:width], *(row[:width] for row in islice(rows, KINDS_FROM_ROWS))]
        numbers = all(isinstance(cell, int | float) for cell in some[0])
        self.header = not numbers if header is None else header
        names = None
        if self.header:
            names = [f"column {i}" if cell is None else str(cell) for i, cell in enumerate(some[0])]
        place = str(path) if sheet is None else f"{path}?sheet={sheet}"
        super().__init__(path, place, names, [_padded(row, width) for row in some[self.header :]], width)

    def rows_of_values(self, chosen: Columns, n_rows: int) -> Iterator[Rows]:
        with self._open(self.path) as book:
            rows = self._rows(book, self.n_columns)
            next(rows if self.header else iter(()), None)
            while some := list(islice(rows, n_rows)):
                yield [tuple(row[position] for position in chosen) for row in some]

    def _rows(self, book: Any, width: int | None) -> Iterator[tuple[Any, ...]]:
        """The rows that are not blank, of this width."""
        for row in book[self.sheet].iter_rows(values_only=True, max_col=width):
            cells = tuple(None if cell in NO_VALUES else cell for cell in row)
            if any(cell is not None for cell in cells):
                yield cells if width is None else _padded(cells, width)

    @staticmethod
    @contextmanager
    def _open(path: Path) -> Iterator[Any]:
        openpyxl = required("openpyxl", "excel")
        with path.open("rb") as file:
            try:
                book = openpyxl.load_workbook(file, read_only=True, data_only=True)
            except KeyError as error:
                raise ValueError(f"it is not a workbook: {error}") from None
            with closing(book):
                yield book


def _padded(row: tuple[Any, ...], width: int) -> tuple[Any, ...]:
    return (*row[:width], *[None] * (width - len(row)))
