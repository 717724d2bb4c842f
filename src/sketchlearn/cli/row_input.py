"""Rows for the verbs: files by path, and CSV on standard input."""

from __future__ import annotations

import csv
import os
import sys
from pathlib import Path
from typing import Any

from sketchlearn.cli.error_messages import misused
from sketchlearn.cli.standard_streams import STANDARD
from sketchlearn.sources import Source, source
from sketchlearn.sources.csv_tables import CsvStream
from sketchlearn.sources.paths import files_of


def columns_from(text: str | None) -> tuple[Any, ...] | None:
    """The columns of `--columns a,b`: names, or positions if all are whole numbers.

    >>> columns_from("a, b"), columns_from("0,2")
    (('a', 'b'), (0, 2))
    """
    if text is None:
        return None
    names = tuple(name.strip() for name in next(csv.reader([text])))
    if not all(names):
        raise misused(f"--columns {text}: give names with commas between them, such as a,b")
    return tuple(map(int, names)) if all(name.isdecimal() for name in names) else names


def files_from(arguments: list[str]) -> list[str]:
    """All files that the arguments stand for, each once; `-` alone is standard input."""
    if STANDARD in arguments:
        if len(arguments) > 1:
            raise misused("- (standard input) cannot be mixed with files: sketch them apart, then merge")
        return arguments
    found = [os.fspath(path) for argument in arguments for path in files_of(Path(argument))]
    seen: dict[str, str] = {}
    for path in found:
        real = os.path.realpath(path)
        if real in seen:
            raise misused(f"{path} is given twice (as {seen[real]}): its rows would count twice")
        seen[real] = path
    return found


def rows_from(paths: list[str], columns: tuple[Any, ...] | None, nulls: str) -> Source:
    """The rows of files, or of standard input."""
    if paths == [STANDARD]:
        return CsvStream(sys.stdin.buffer, columns, nulls)
    return source(paths if len(paths) > 1 else paths[0], columns=columns, nulls=nulls)
