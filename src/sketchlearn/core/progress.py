"""Progress on standard error: a bar in a terminal, or lines in a log."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any, Protocol

SECONDS_BETWEEN_LINES = 10.0  # of a log


class Read(Protocol):
    """The size of what is read, as far as it is known, and how much was read so far."""

    n_rows: int | None
    n_bytes: int | None
    bytes_read: int


@dataclass
class Progress:
    """How much was read so far, and how fast."""

    source: Read
    rows: int = 0
    began: float = field(default_factory=lambda: time.monotonic())
    shown: float = field(default_factory=lambda: time.monotonic())

    @property
    def total(self) -> int | None:
        """In rows, or in bytes where only their number is known."""
        return self.source.n_bytes if self.source.n_rows is None else self.source.n_rows

    @property
    def done(self) -> int:
        return self.source.bytes_read if self.source.n_rows is None else self.rows

    @property
    def in_words(self) -> str:
        from rich.filesize import decimal

        source, rate = self.source, self.rows / max(1e-9, time.monotonic() - self.began)
        size = "" if source.n_bytes is None else f", {decimal(source.bytes_read)}"
        return f"{self.rows:,} rows{size}, {rate:,.0f} rows/s"


_SHOWN = ContextVar("_SHOWN", default=False)


def progress_shown() -> bool:
    """Whether intermediate passes over rows show their progress."""
    return _SHOWN.get()


@contextmanager
def showing_progress(shown: bool) -> Iterator[None]:
    """Sets `progress_shown` while it is open."""
    before = _SHOWN.set(shown)
    try:
        yield
    finally:
        _SHOWN.reset(before)


@contextmanager
def steps_shown(shown: bool) -> Iterator[Callable[[str], None] | None]:
    """Gives a function that shows the current step, as a changing line or as lines of a log; None if not `shown`."""
    if not shown:
        yield None
        return
    from rich.console import Console
    from rich.markup import escape

    console = Console(stderr=True)
    if console.is_terminal or console.is_jupyter:
        with console.status("") as status:
            yield lambda text: status.update(escape(text))
        return
    next_line = 0.0

    def write(text: str) -> None:
        nonlocal next_line
        if time.monotonic() >= next_line:
            next_line = time.monotonic() + SECONDS_BETWEEN_LINES
            print(text, file=sys.stderr, flush=True)

    yield write


@contextmanager
def row_bar(source: Read, shown: bool, doing: str = "sketching") -> Iterator[Callable[[int], None]]:
    """Shows how much of a source was read, if `shown`; gives a function that advances it by rows."""
    if not shown:
        yield lambda _rows: None
        return
    from rich.console import Console

    console, progress = Console(stderr=True), Progress(source)
    drawn = console.is_terminal or console.is_jupyter
    with _bar(progress, console, doing) if drawn else _lines(progress, doing) as show:

        def advance(more: int) -> None:
            progress.rows += more
            show()

        yield advance


@contextmanager
def _bar(progress: Progress, console: Any, doing: str) -> Iterator[Callable[[], None]]:
    from rich import progress as rich

    # the bar takes the remaining width: one of 40 columns cut the remaining time in terminals of 80
    columns = (
        rich.TextColumn(doing),
        rich.BarColumn(bar_width=None),
        rich.TaskProgressColumn(),
        rich.TextColumn("{task.fields[words]}"),
        rich.TimeRemainingColumn(),
    )
    with rich.Progress(*columns, console=console, expand=True) as bar:
        task = bar.add_task("", total=progress.total, words="")
        yield lambda: bar.update(task, completed=progress.done, words=progress.in_words)


@contextmanager
def _lines(progress: Progress, doing: str) -> Iterator[Callable[[], None]]:
    def show(least_seconds: float = SECONDS_BETWEEN_LINES) -> None:
        if time.monotonic() - progress.shown >= least_seconds:
            progress.shown = time.monotonic()
            percent = f"{100 * progress.done / progress.total:.0f} %, " if progress.total else ""
            print(f"{doing}: {percent}{progress.in_words}", file=sys.stderr, flush=True)

    yield show
    show(0.0)
