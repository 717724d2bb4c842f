"""What the benchmarks print alike: the machine, tables, and which of their parts run."""

from __future__ import annotations

import argparse
import importlib.metadata
import os
import platform
from collections.abc import Iterable, Sequence

from rich.table import Table

import sketchlearn as skl
from sketchlearn.kernels import dispatch as kernel


def table_of(title: str, columns: Sequence[str]) -> Table:
    table = Table(title=title)
    for i, column in enumerate(columns):
        table.add_column(column, justify="left" if i == 0 else "right")
    return table


def yes_or_no(reached: bool) -> str:
    return "[green]yes[/]" if reached else "[bold red]NO[/]"


def machine(packages: Iterable[str]) -> str:
    """The machine, Python, sketchlearn and some packages, in words."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    python = f"Python {platform.python_version()}, sketchlearn {skl.__version__} (kernel {kernel.active})"
    return f"{platform.machine()}, {cores} threads, {python}, {', '.join(version(package) for package in packages)}"


def version(package: str) -> str:
    try:
        return f"{package} {importlib.metadata.version(package)}"
    except importlib.metadata.PackageNotFoundError:
        return f"no {package}"


def add_only(parser: argparse.ArgumentParser, parts: Iterable[str]) -> None:
    """The option --only, which names some of the parts."""
    known = list(parts)

    def chosen(text: str) -> list[str]:
        names = text.split(",")
        if unknown := [name for name in names if name not in known]:
            raise argparse.ArgumentTypeError(f"there is no part {unknown[0]!r}: choose of {', '.join(known)}")
        return names

    parser.add_argument("--only", type=chosen, default=known, metavar="PART,PART", help=f"of {', '.join(known)}")
