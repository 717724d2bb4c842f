"""The page of speed from commit to commit."""

from pathlib import Path

import pytest

pytest.importorskip("rich")


@pytest.fixture
def history(monkeypatch):
    monkeypatch.syspath_prepend(".")
    from benchmarks.speed import history

    return history


def run(commit, kernel="avx512", **figures):
    return {"commit": commit, "date": "2026-01-01", "kernel": kernel, "machine": "", "figures": figures}


def test_what_became_slower_is_marked(history):
    page = history.page_of([run("a", x=2.0), run("b", x=2.2), run("c", x=1.7, y=1.0), run("d", "neon", x=1.0)])
    rows = [line for line in page.splitlines() if line.startswith("| ") and "2026" in line]
    assert rows == [
        "| c | 2026-01-01 | **1.70** | 1.00 |",
        "| b | 2026-01-01 | 2.20 |  |",
        "| a | 2026-01-01 | 2.00 |  |",
        "| d | 2026-01-01 | 1.00 |",
    ]


@pytest.mark.skipif(not Path(".git").exists(), reason="not a clone: there is no commit")
def test_a_run_is_of_a_commit(history):
    assert history.commit()
