"""`--strict`: what is doubtful or alarming shows in the exit code, and JSON says all that the text says."""

import json

import numpy as np
import pytest
from command_line import called, done

DAYS = 5


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Sketches of five days, the last two of which are other rows."""
    folder = tmp_path_factory.mktemp("days")
    rng = np.random.default_rng(0)
    for day in range(DAYS):
        rows = rng.standard_normal((500, 2)) * [3000, 5] + [24_000 + 9000 * (day >= 3), 40]
        np.savetxt(folder / f"{day}.csv", rows, delimiter=",", header="income,age", comments="", fmt="%.3f")
    done("design", "0.csv", "-k", 1, "-o", "design.json", cwd=folder)
    for day in range(DAYS):
        done("sketch", f"{day}.csv", "--design", "design.json", "-o", f"{day}.sketch", cwd=folder)
    return folder


def test_watch_exits_with_3_on_an_alarm(folder):
    before, after = ([f"{day}.sketch" for day in range(n)] for n in (3, DAYS))
    for days, options, code in [(before, ["--strict"], 0), (after, [], 0), (after, ["--strict"], 3)]:
        assert called("watch", *days, *options, cwd=folder).returncode == code
    text = called("watch", *after, "--strict", cwd=folder).stdout
    assert "3.sketch: changed since 3.sketch. The two sketches differ" in text
    assert "income (+9," in text.replace("+8,", "+9,")
    result = called("watch", *after, "--strict", "--json", cwd=folder)
    assert result.returncode == 3
    told = json.loads(result.stdout)
    assert (told["alarms"], told["level"]) == (1, 0.001)
    assert text.splitlines() == [f"{step['sketch']}: {step['words']}" for step in told["steps"]]
    assert [step["since"] for step in told["steps"]] == [None, None, None, "3.sketch", None]
    assert told["steps"][0]["drift"] is None
    drift = told["steps"][3]["drift"]
    assert drift["columns"][0]["column"] == "income"
    assert drift["distance"] > drift["expected"]


def test_compare_exits_with_3_if_sketches_differ(folder):
    for other, options, code in [("1", ["--strict"], 0), ("4", [], 0), ("4", ["--strict"], 3)]:
        result = called("compare", "0.sketch", f"{other}.sketch", *options, "--json", cwd=folder)
        assert result.returncode == code
        assert json.loads(result.stdout)["differ"] == (other == "4")


def test_watch_says_where_a_shell_put_ten_before_two(folder):
    (folder / "10.sketch").write_bytes((folder / "2.sketch").read_bytes())
    said = called("watch", "1.sketch", "10.sketch", "2.sketch", cwd=folder).stderr
    assert "2.sketch comes after 10.sketch" in said
    assert "order" not in called("watch", "1.sketch", "2.sketch", "10.sketch", cwd=folder).stderr
