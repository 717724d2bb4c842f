"""Progress bars on standard error."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


@contextmanager
def row_bar(total: int | None, shown: bool) -> Iterator[Callable[[int], None]]:
    """A bar over rows, if it is to be shown; gives the function that advances it."""
    if not shown:
        yield lambda _rows: None
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    done = TextColumn("{task.completed:,.0f} rows")
    columns = (TextColumn("sketching"), BarColumn(), TaskProgressColumn(), done, TimeRemainingColumn())
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total)
        yield lambda rows: bar.advance(task, rows)


@contextmanager
def work_bar(total_bytes: int | None, shown: bool) -> Iterator[Callable[[int, int], None]]:
    """A bar over files: rows and bytes so far, rows per second, time left; gives the function that advances it."""
    if not shown:
        yield lambda _rows, _bytes: None
        return
    from rich.console import Console
    from rich.filesize import decimal
    from rich.progress import BarColumn, Progress, TaskProgressColumn, TextColumn, TimeRemainingColumn

    columns = (BarColumn(), TaskProgressColumn(), TextColumn("{task.description}"), TimeRemainingColumn())
    rows_done = bytes_done = 0
    with Progress(*columns, console=Console(stderr=True)) as bar:
        task = bar.add_task("", total=total_bytes)

        def advance(rows: int, n_bytes: int) -> None:
            nonlocal rows_done, bytes_done
            rows_done, bytes_done = rows_done + rows, bytes_done + n_bytes
            seconds = bar.tasks[0].elapsed or 0.0
            rate = f", {rows_done / seconds:,.0f} rows/s" if seconds > 0 else ""
            size = f", {decimal(bytes_done)}" if bytes_done else ""
            bar.update(task, advance=n_bytes, description=f"{rows_done:,} rows{size}{rate}")

        yield advance
