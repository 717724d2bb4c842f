"""Progress bars on standard error."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Protocol


class Read(Protocol):
    """What is read: its size as far as that is known, and how much was read so far."""

    n_rows: int | None
    n_bytes: int | None
    bytes_read: int


@contextmanager
def row_bar(source: Read, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar over rows, or over bytes where only their number is known; gives the function that advances it by rows."""
    if not shown:
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    by_rows = source.n_rows is not None
    columns = (
        TextColumn("sketching"),
        BarColumn(),
        TaskProgressColumn(),
        TextColumn("{task.fields[rows]:,} rows{task.fields[size]}{task.fields[rate]}"),
        TimeRemainingColumn(),
    )
    began, rows = time.monotonic(), 0
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=source.n_rows if by_rows else source.n_bytes, rows=0, size="", rate="")

        def advance(more: int) -> None:
            nonlocal rows
            rows += more
            rate = f", {rows / max(1e-9, time.monotonic() - began):,.0f} rows/s"
            size = "" if source.n_bytes is None else f", {decimal(source.bytes_read)} of {decimal(source.n_bytes)}"
            bar.update(task, completed=rows if by_rows else source.bytes_read, rows=rows, size=size, rate=rate)

        yield advance
