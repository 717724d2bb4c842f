"""A budget of 1, and attempts to get more releases out of it: other names of the file, copies, a rolled-back budget."""

import json
import os
import shutil
import sqlite3
import subprocess
import sys

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.privacy import budget as budgets
from sketchlearn.privacy.budget import Budget, BudgetError

OPERATOR = skl.design(bounds=([-5, -5], [5, 5]), n_components=2)
ROWS = np.random.default_rng(0).uniform(-5, 5, (200, 2))


def release(*arguments, standard_input=None, **environment):
    """What the command line answers, as a user starts it: each time another process."""
    command = [sys.executable, "-m", "sketchlearn", "privatize", *map(str, arguments), "--epsilon", "1"]
    return subprocess.run(
        command, stdin=standard_input, capture_output=True, text=True, env={**os.environ, **environment}
    )


@pytest.fixture
def sketch(tmp_path):
    OPERATOR.sketch(ROWS).save(tmp_path / "exact.sketch")
    return tmp_path / "exact.sketch"


def test_the_same_rows_under_other_names(sketch, tmp_path):
    assert release(sketch, "-o", tmp_path / "first", "--budget-epsilon", 1).returncode == 0
    os.symlink(sketch, tmp_path / "symlink.sketch")
    os.link(sketch, tmp_path / "hardlink.sketch")
    shutil.copy(sketch, tmp_path / "copy.sketch")
    OPERATOR.sketch(ROWS).save(tmp_path / "again.sketch")  # sketched once more
    for name in ("exact", "symlink", "hardlink", "copy", "again"):
        found = release(tmp_path / f"{name}.sketch", "-o", tmp_path / "second", "--budget-epsilon", 1)
        assert found.returncode != 0
        assert "would spend more than the budget has" in found.stderr
    with open(sketch, "rb") as file:
        found = release("-", "-o", tmp_path / "second", standard_input=file)  # without a limit: the first one holds
    assert "would spend more than the budget has" in found.stderr
    assert not (tmp_path / "second").exists()


def test_other_rows_have_a_budget_of_their_own(sketch, tmp_path):
    OPERATOR.sketch(ROWS + 0.1).save(tmp_path / "other.sketch")
    for path in (sketch, tmp_path / "other.sketch"):
        assert release(path, "-o", tmp_path / f"{path.name}.private", "--budget-epsilon", 1).returncode == 0


def test_a_part_of_a_sum_was_released_with_it(sketch, tmp_path):
    both = OPERATOR.sketch(ROWS) + OPERATOR.sketch(ROWS + 0.1)
    both.save(tmp_path / "both.sketch")
    assert release(tmp_path / "both.sketch", "-o", tmp_path / "first", "--budget-epsilon", 1).returncode == 0
    assert release(sketch, "-o", tmp_path / "second", "--budget-epsilon", 1).returncode != 0


def test_without_an_option_there_is_a_limit(sketch, tmp_path):
    answers = [release(sketch, "-o", tmp_path / "out") for _ in range(11)]
    assert [answer.returncode for answer in answers[:10]] == [0] * 10
    assert "would spend more than the budget has" in answers[10].stderr


def test_a_refused_release_leaves_no_file(tmp_path, monkeypatch):
    monkeypatch.setenv("SKETCHLEARN_BUDGETS", str(tmp_path / "state"))
    skl.design(ROWS, n_components=2).sketch(ROWS).save(tmp_path / "sampled.sketch")  # of a design that tells about rows
    for more in ((), ("--budget", tmp_path / "budget.sqlite")):
        answer = release(tmp_path / "sampled.sketch", "-o", tmp_path / "out", *more)
        assert answer.returncode != 0
    assert [path.name for path in tmp_path.rglob("*") if path.is_file()] == ["sampled.sketch"]


def test_a_limit_can_be_lowered_and_never_raised(tmp_path):
    budget = Budget(tmp_path / "budget.sqlite")
    skl.privatize(OPERATOR.sketch(ROWS), epsilon=1.0, budget=budget)
    assert Budget(tmp_path / "budget.sqlite", epsilon=3.0).epsilon == 3.0
    assert Budget.open(tmp_path / "budget.sqlite").epsilon == 3.0
    assert Budget(tmp_path / "budget.sqlite", epsilon=1.5).epsilon == 1.5
    for epsilon in (2.0, 3.0):
        with pytest.raises(BudgetError, match="never raised"):
            Budget(tmp_path / "budget.sqlite", epsilon=epsilon)
    with pytest.raises(BudgetError, match="would spend more"):
        skl.privatize(OPERATOR.sketch(ROWS + 1), epsilon=1.0, budget=Budget.open(tmp_path / "budget.sqlite"))


@pytest.mark.parametrize("back", [1, 3])
def test_an_older_copy_of_a_budget_with_a_witness(tmp_path, monkeypatch, back):
    path, witness = tmp_path / "budget.sqlite", tmp_path / "elsewhere.json"
    copies = []
    for i in range(3):
        copies.append(path.read_bytes() if path.exists() else None)
        skl.privatize(OPERATOR.sketch(ROWS + i), epsilon=0.3, budget=Budget(path, 1.0, witness=witness))
    monkeypatch.setattr(budgets, "_SEEN", {})  # another process
    older = copies[-back]
    path.unlink() if older is None else path.write_bytes(older)
    with pytest.raises(BudgetError, match=r"lost releases|it is gone"):
        skl.privatize(OPERATOR.sketch(ROWS + 9), epsilon=0.3, budget=Budget(path, 1.0, witness=witness))


def test_the_command_lines_own_budget_has_a_witness(sketch, tmp_path):
    homes = {"HOME": str(tmp_path), "SKETCHLEARN_BUDGETS": "", "XDG_STATE_HOME": "", "XDG_CONFIG_HOME": ""}
    first = release(sketch, "-o", tmp_path / "first", "--budget-epsilon", 1, **homes)
    assert first.returncode == 0, first.stderr
    (tmp_path / ".local/state/sketchlearn/budgets.sqlite").unlink()
    assert "it is gone" in release(sketch, "-o", tmp_path / "second", "--budget-epsilon", 1, **homes).stderr


def test_a_process_that_is_killed_while_it_books_locks_nobody_out(tmp_path, monkeypatch):
    """The witness is told before the entry is on disk, and once more after: between them nothing was spent."""
    path, witness = tmp_path / "budget.sqlite", tmp_path / "witness.json"
    skl.privatize(OPERATOR.sketch(ROWS), epsilon=0.3, budget=Budget(path, 1.0, witness=witness))
    before, told = path.read_bytes(), []
    monkeypatch.setattr(budgets.Budget, "_tell_witness", _killed_after(budgets.Budget._tell_witness, told))
    with pytest.raises(KeyboardInterrupt):
        skl.privatize(OPERATOR.sketch(ROWS + 1), epsilon=0.3, budget=Budget(path, 1.0, witness=witness))
    monkeypatch.undo()
    assert json.loads(witness.read_text())["entries"] == 2
    assert path.read_bytes() == before or len(Budget.open(path).log()) == 1
    assert Budget(path, 1.0, witness=witness).spent.releases == 1


def _killed_after(tell, told):
    def killed(self, *, on_disk):
        tell(self, on_disk=on_disk)
        told.append(on_disk)
        raise KeyboardInterrupt

    return killed


def test_the_log_tells_nothing_about_rows(tmp_path):
    """Batch ids are digests of exact sums: those in the log are keyed by a secret of the file."""
    exact = OPERATOR.sketch(ROWS)
    skl.privatize(exact, epsilon=1.0, budget=Budget(tmp_path / "budget.sqlite"))
    (number,) = exact.batches.times
    with sqlite3.connect(tmp_path / "budget.sqlite") as database:
        (text,) = database.execute("SELECT entry FROM releases").fetchone()
    assert f"{number:016x}" not in text
