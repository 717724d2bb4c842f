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
