"""Paths: which files they stand for, and how each is read."""

from __future__ import annotations

import glob
import os
import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from sketchlearn.sources.arrow_files import Ipc, Parquet
from sketchlearn.sources.compressed import CODECS
from sketchlearn.sources.csv_layout import Dialect
from sketchlearn.sources.csv_tables import Csv
from sketchlearn.sources.database_tables import DuckDb, Sqlite
from sketchlearn.sources.excel_tables import Excel
from sketchlearn.sources.jsonl_tables import JsonLines
from sketchlearn.sources.memory_tables import npy, npz
from sketchlearn.sources.partitions import partitioned
from sketchlearn.sources.tables import Table

PACKED = ("", *CODECS)  # Text may be compressed.
#: the delimiter of text by the end of its name; None is told from the first lines
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
        return (
            (f"{self.scheme}:" if self.scheme else "")
            + str(self.file)
            + (f"?{self.part}={self.name}" if self.part else "")
        )

    @property
    def ending(self) -> str:
        """The end of the file's name, which tells how it is read, unless a scheme does."""
        ends = [suffix.lower() for suffix in self.file.suffixes]
        return (
            SCHEMES[self.scheme]
            if self.scheme
            else "".join(ends[-2:] if ends[-1:] and ends[-1] in CODECS else ends[-1:])
        )


def is_path(data: Any) -> bool:
    """Whether it is a path, rather than rows."""
    return isinstance(data, str | os.PathLike)


def file_of(path: Any) -> Path:
    """The file of a path that may say which of its tables is meant.

    >>> str(file_of("sqlite:shop.db?table=orders"))
    'shop.db'
    """
    return Address.of(path).file


def holds_rows(path: Any) -> bool:
    """Whether the end of a file's name is that of a file of rows."""
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
        raise ValueError(f"{path} is of an unknown kind: files of rows end in {_kinds()}")
    kind = "table" if ending in DATABASES else "sheet" if ending in WORKBOOKS else None
    if address.part not in (None, kind):
        raise ValueError(f"{file} has no {address.part}s to choose from: give the path without ?{address.part}=")
    if not file.stat().st_size:
        raise ValueError(f"{file} is empty: it has no bytes")
    return partitioned(_table(ending, file, address.name, dialect), file)


def _table(ending: str, file: Path, name: str | None, dialect: Dialect) -> Table:
    if ending in READERS:  # first, as those that are registered replace others
        return READERS[ending](file)
    if ending in DATABASES:
        return DATABASES[ending](file, name)
    if ending in WORKBOOKS:
        return Excel(file, name, dialect.header)
    return Csv(file, replace(dialect, delimiter=dialect.delimiter or CSV_DELIMITERS[ending]))


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_", "~$")) for part in path.parts)  # Excel marks an open workbook by ~$


def _kinds() -> str:
    endings = [ending for ending in (*CSV_DELIMITERS, *READERS, *WORKBOOKS, *DATABASES) if ending.count(".") == 1]
    return f"{', '.join(endings[:-1])} or {endings[-1]}; text may be compressed ({', '.join(CODECS)})"
