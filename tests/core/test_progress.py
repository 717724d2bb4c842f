"""Progress: a bar whose time left can be read in a terminal of 80 columns, and lines of their own in a log."""

import io
import itertools
import re
from dataclasses import dataclass
from types import SimpleNamespace

import pytest
from rich.console import Console

from sketchlearn.core import progress


@dataclass
class Rows:
    """A file of about two gigabytes."""

    n_rows: int | None = None
    n_bytes: int | None = 1_987_654_321
    bytes_read: int = 0


def test_the_bar_fits_into_80_columns(monkeypatch):
    drawn, source = io.StringIO(), Rows()
    clock = itertools.count()
    monkeypatch.setattr(progress, "time", SimpleNamespace(monotonic=lambda: 5.0 * next(clock)))
    console = Console(file=drawn, width=80, force_terminal=True, color_system=None)
    read = progress.Progress(source)
    with progress._bar(read, console, "sketching") as show:
        for _ in range(8):
            source.bytes_read += 200_000_000
            read.rows += 12_345_678
            show()
    last = re.sub(r"\x1b\[[0-9?]*[a-zA-Z]", "", drawn.getvalue()).replace("\r", "\n").strip().splitlines()[-1]
    assert re.search(r"98,765,424 rows, 1.6 GB, [\d,]+ rows/s (\d:\d\d:\d\d|-:--:--)$", last), last
    assert len(last) <= 80


@pytest.mark.parametrize(
    ("source", "share"), [(Rows(), "20 %, "), (Rows(n_rows=2000, n_bytes=None), "50 %, "), (Rows(n_bytes=None), "")]
)
def test_a_log_has_lines_while_rows_are_read(source, share, capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    with progress.row_bar(source, True) as advance:
        source.bytes_read = 397_530_864
        advance(1000)
        assert capsys.readouterr().err.startswith(f"sketching: {share}1,000 rows, ")
        advance(500)
    lines = capsys.readouterr().err.splitlines()
    assert len(lines) == 2  # of the second step, and of the end
    assert all(re.search(r"1,500 rows, .*[\d,]+ rows/s$", line) for line in lines)


def test_a_short_run_has_one_line(capsys):
    with progress.row_bar(Rows(n_rows=10, n_bytes=None), True) as advance:
        advance(10)
    assert len(capsys.readouterr().err.splitlines()) == 1
