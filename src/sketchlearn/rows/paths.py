"""Paths: the files that they stand for, and the reader of each."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from sketchlearn.rows.arrow import Ipc, JsonLines, Parquet
from sketchlearn.rows.csv import NUMBERS, Csv, Dialect
from sketchlearn.rows.databases import DuckDb, Excel, Sqlite
from sketchlearn.rows.lazy_pyarrow import pa
from sketchlearn.rows.memory import npy, npz
from sketchlearn.rows.source_base import CODECS, Columns, DerivedTable, Floats, Table

NO_VALUE = "__HIVE_DEFAULT_PARTITION__"


class Partitioned(DerivedTable):
    """A table with further columns of one value each, by the names of folders such as country=DE."""

    def __init__(self, table: Table, values: dict[str, str]) -> None:
        super().__init__(table, (*(table.names or ()), *values))
        self.decimal = table.decimal
        #: the values by position; None is a missing one
        self.values = {
            i: None if value == NO_VALUE else value for i, value in enumerate(values.values(), table.n_columns)
        }
        self.remark = "; ".join(filter(None, [table.remark, f"columns from the names of folders: {', '.join(values)}"]))

    def not_numbers(self, position: int) -> str | None:
        if position < self.table.n_columns:
            return self.table.not_numbers(position)
        value = self.values[position]
        return None if value is None or NUMBERS["."].fullmatch(value) else "text (the name of a folder)"

    def chunks(self, chosen: Columns, n_rows: int) -> Iterator[Floats]:
        return (self._with_values(rows, chosen) for rows in self.table.chunks(self._own(chosen), n_rows))

    def some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> Floats | None:
        rows = self.table.some(self._own(chosen), n_rows, rng)
        return None if rows is None else self._with_values(rows, chosen)

    def raw_chunks(self, chosen: Columns, n_rows: int) -> Iterator[dict[str, Any]]:
        own = self._own(chosen) or (0,)  # one column suffices to count the rows
        return (self._with_raw_values(raw, chosen) for raw in self.table.raw_chunks(own, n_rows))

    def raw_some(self, chosen: Columns, n_rows: int, rng: np.random.Generator) -> dict[str, Any] | None:
        raw = self.table.raw_some(self._own(chosen) or (0,), n_rows, rng)
        return None if raw is None else self._with_raw_values(raw, chosen)

    def _own(self, chosen: Columns) -> Columns:
        return tuple(position for position in chosen if position not in self.values)

    def _with_values(self, rows: Floats, chosen: Columns) -> Floats:
        if rows.shape[1] == len(chosen):
            return rows
        own = np.array([position not in self.values for position in chosen])
        wide = np.empty((len(rows), len(chosen)))
        wide[:, own], wide[:, ~own] = rows, [float(self.values[i] or "nan") for i in chosen if i in self.values]
        return wide

    def _with_raw_values(self, raw: dict[str, Any], chosen: Columns) -> dict[str, Any]:
        length = len(next(iter(raw.values())))
        added = {i: pa.scalar(self.values[i], pa.string()) for i in chosen if i in self.values}
        return raw | {(self.names or ())[i]: pa.repeat(value, length) for i, value in added.items()}


PACKED = ("", *CODECS)  # Text may be compressed.
#: the delimiter of text by the end of its name; None means that it is inferred from the first lines
CSV_DELIMITERS: dict[str, str | None] = {f".csv{codec}": None for codec in PACKED}
CSV_DELIMITERS |= {f".tsv{codec}": "\t" for codec in PACKED}
READERS: dict[str, Callable[[Path], Table]] = {".parquet": Parquet, ".npy": npy, ".npz": npz}
READERS |= {".arrow": Ipc, ".feather": Ipc, ".ipc": Ipc}
READERS |= {f"{ending}{codec}": JsonLines for ending in (".jsonl", ".ndjson") for codec in PACKED}
DATABASES: dict[str, Callable[[Path, str | None], Table]] = {
    ".sqlite": Sqlite, ".sqlite3": Sqlite, ".db": Sqlite, ".duckdb": DuckDb
}  # fmt: skip
WORKBOOKS = (".xlsx", ".xlsm")
SCHEMES = {"sqlite": ".sqlite", "duckdb": ".duckdb"}
ADDRESS = re.compile(r"(?:(sqlite|duckdb):)?(.+?)(?:\?(table|sheet)=(.+))?", re.DOTALL)


@dataclass(frozen=True)
class Address:
    """A file, and the table of a database or the sheet of a workbook: `sqlite:shop.db?table=orders`."""

    file: Path
    scheme: str | None = None
    part: str | None = None  # "table" or "sheet"
    name: str | None = None

    @classmethod
    def of(cls, path: Any) -> Address:
        """The address that a path is; a file that is really called so comes first."""
        text = os.fspath(path)
        found = None if os.path.lexists(text) else ADDRESS.fullmatch(text)
        return cls(Path(text)) if found is None else cls(Path(found[2]), found[1], found[3], found[4])

    def __str__(self) -> str:
        scheme = f"{self.scheme}:" if self.scheme else ""
        return f"{scheme}{self.file}" + (f"?{self.part}={self.name}" if self.part else "")

    @property
    def ending(self) -> str:
        """The end of the file's name, or that of the scheme: it decides how the file is read."""
        if self.scheme:
            return SCHEMES[self.scheme]
        ends = [suffix.lower() for suffix in self.file.suffixes]
        return "".join(ends[-2:] if ends and ends[-1] in CODECS else ends[-1:])


def is_path(data: Any) -> bool:
    return isinstance(data, str | os.PathLike)


def file_of(path: Any) -> Path:
    """The file of a path that may say which of its tables is meant.

    >>> str(file_of("sqlite:shop.db?table=orders"))
    'shop.db'
    """
    return Address.of(path).file


def holds_rows(path: Any) -> bool:
    """Whether a file is one of rows, by the end of its name."""
    return Address.of(path).ending in (*READERS, *CSV_DELIMITERS, *DATABASES, *WORKBOOKS)


def files_of(path: Any) -> list[Path]:
    """The files that a path stands for: itself, those that a pattern matches, or all supported ones in a folder.

    They are sorted by name; in folders, databases, hidden files and those that begin with an underscore are left out.
    A path may say which table of a database is meant; then so do its files.
    """
    address = Address.of(path)
    whole = address.file
    if whole.is_dir():
        files = [file for file in sorted(whole.rglob("*")) if holds_rows(file) and file.is_file()]
        found = [file for file in files if not _is_hidden(file.relative_to(whole))]
        found = [file for file in found if Address(file).ending not in DATABASES]
        problem = f"there are no files of rows in {whole}: they end in {_kinds()}"
    elif whole.exists() or not glob.has_magic(str(whole)):
        found = [whole] if whole.exists() else []
        problem = f"there is no file {whole}"
    else:
        found = [Path(name) for name in sorted(glob.glob(str(whole), recursive=True)) if Path(name).is_file()]
        problem = f"no file matches {whole}"
    if not found:
        raise FileNotFoundError(problem)
    return [Path(str(replace(address, file=file))) for file in found]


def read_file(path: Path, dialect: Dialect) -> Table:
    """The table in a file, by the end of its name."""
    address = Address.of(path)
    ending, file = address.ending, address.file
    if not holds_rows(path):
        raise ValueError(f"{path} has an unknown ending: files of rows end in {_kinds()}")
    kind = "table" if ending in DATABASES else "sheet" if ending in WORKBOOKS else None
    if address.part not in (None, kind):
        raise ValueError(f"{file} has no {address.part}s to choose from: give the path without ?{address.part}=")
    if not file.stat().st_size:
        raise ValueError(f"{file} is empty: it has no bytes")
    table: Table
    if ending in READERS:  # first, as those that are registered replace others
        table = READERS[ending](file)
    elif ending in DATABASES:
        table = DATABASES[ending](file, address.name)
    elif ending in WORKBOOKS:
        table = Excel(file, address.name, dialect.header)
    else:
        table = Csv(file, replace(dialect, delimiter=dialect.delimiter or CSV_DELIMITERS[ending]))
    # folders such as country=DE name further columns
    pairs = [part.partition("=") for part in file.parent.parts]
    found = {unquote(name): unquote(value) for name, equal, value in pairs if equal and name}
    more = {name: value for name, value in found.items() if name not in (table.names or ())}
    return Partitioned(table, more) if more and table.names else table


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_", "~$")) for part in path.parts)  # Excel marks an open workbook by ~$


def _kinds() -> str:
    endings = [ending for ending in (*CSV_DELIMITERS, *READERS, *WORKBOOKS, *DATABASES) if ending.count(".") == 1]
    return f"{', '.join(endings[:-1])} or {endings[-1]}; text may be compressed ({', '.join(CODECS)})"
