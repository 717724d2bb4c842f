"""Paths: which files they stand for, and how each is read."""

from __future__ import annotations

import glob
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sketchlearn.sources.arrow_files import Ipc, Parquet
from sketchlearn.sources.csv_tables import Csv
from sketchlearn.sources.memory_tables import npy, npz
from sketchlearn.sources.tables import Table

READERS: dict[str, Callable[[Path], Table]] = {".npy": npy, ".npz": npz, ".csv": Csv, ".csv.gz": Csv}
READERS |= {".parquet": Parquet, ".arrow": Ipc, ".feather": Ipc, ".ipc": Ipc}


def is_path(data: Any) -> bool:
    """Whether it is a path, rather than rows."""
    return isinstance(data, str | os.PathLike)


def files_of(path: Any) -> list[Path]:
    """The files that a path stands for: itself, those that a pattern matches, or all supported ones in a folder.

    They are sorted by name; in folders, hidden files and those that begin with an underscore are left out.
    """
    whole = Path(os.fspath(path))
    if whole.is_dir():
        files = [file for file in sorted(whole.rglob("*")) if _ending(file) in READERS and file.is_file()]
        found = [file for file in files if not _is_hidden(file.relative_to(whole))]
        problem = f"there are no files of rows in {whole}: they end in {_kinds()}"
    elif whole.exists() or not glob.has_magic(str(whole)):
        found = [whole] if whole.exists() else []
        problem = f"there is no file {whole}"
    else:
        found = [Path(name) for name in sorted(glob.glob(str(whole), recursive=True)) if Path(name).is_file()]
        problem = f"no file matches {whole}"
    if not found:
        raise FileNotFoundError(problem)
    return found


def read_file(path: Path) -> Table:
    """The table in a file, by the end of its name."""
    if _ending(path) not in READERS:
        raise ValueError(f"{path} is of an unknown kind: files of rows end in {_kinds()}")
    return READERS[_ending(path)](path)


def _ending(path: Path) -> str:
    ends = [suffix.lower() for suffix in path.suffixes]
    return "".join(ends[-2:]) if ends[-1:] == [".gz"] else "".join(ends[-1:])


def _is_hidden(path: Path) -> bool:
    return any(part.startswith((".", "_")) for part in path.parts)


def _kinds() -> str:
    *most, last = READERS
    return f"{', '.join(most)} or {last}"
