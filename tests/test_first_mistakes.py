"""What people run into on their first day: each is answered by a sentence that says what to type."""

import sys
from unittest import mock

import pytest
from test_cli import called, done, write_days


@pytest.fixture(scope="module")
def days(tmp_path_factory):
    folder = write_days(tmp_path_factory.mktemp("days"))
    done("design", "day1.csv", "-k", "3", "-o", "design.json", cwd=folder)
    for day in ("day1", "day2"):
        done("sketch", f"{day}.csv", "--design", "design.json", "-o", f"{day}.sketch", cwd=folder)
    return folder


def test_a_picture_that_cannot_be_drawn_is_refused_before_any_work(days):
    with mock.patch.dict(sys.modules, {"matplotlib": None}):
        result = called("fit", "kmeans", "-k", "3", "day1.sketch", "--plot", "a.png", cwd=days)
    assert result.returncode == 1
    assert result.stderr == "sketchlearn: this needs matplotlib: pip install 'sketchlearn[plot]'\n"
    assert result.stdout == ""
