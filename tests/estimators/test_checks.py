"""The conformance checks accept what keeps its promises, and find what does not."""

from dataclasses import dataclass

import numpy as np
import pytest
import stranger
from cases import NAMES, operators
from sketchlearn.checks import check_estimator, check_operator, check_reader, check_sensitivity

import sketchlearn as skl
from sketchlearn.estimators import registry

ROWS = np.random.default_rng(0).uniform(-1, 1, (300, 3))


@pytest.mark.parametrize("name", NAMES)
def test_operators_of_the_package_pass(name):
    operator = operators(9)[name]
    check_operator(operator, np.random.default_rng(1).uniform(-1, 1, (40, operator.n_features)))


def test_a_foreign_operator_passes():
    check_operator(stranger.PositiveCounts(3), ROWS)
    check_sensitivity(stranger.PrivatePositiveCounts(3), ROWS)


@dataclass(frozen=True)
class Forgetful(stranger.PositiveCounts):
    """Counts a row by its position: sums depend on order and parts."""

    def write_rows(self, rows, threads):
        integers, bad = super().write_rows(rows, threads)
        return integers * (np.arange(len(rows)) % 2)[:, None].astype(np.int8), bad


@dataclass(frozen=True)
class Boastful(stranger.PositiveCounts):
    """Contributes 2, and declares 1."""

    def add_remove_sensitivity(self):
        return skl.privacy.Sensitivity.of_integers(self.n_features, 1)

    def write_rows(self, rows, threads):
        integers, bad = super().write_rows(rows, threads)
        return 2 * integers, bad


def test_operators_that_break_a_promise_are_found():
    with pytest.raises(AssertionError, match="Forgetful"):
        check_operator(Forgetful(3), ROWS)
    with pytest.raises(AssertionError, match=r"contributes more than Boastful\.largest_contribution"):
        check_operator(Boastful(3), ROWS)
    with pytest.raises(AssertionError, match=r"changes sums by 6 in l1, beyond Boastful\.add_remove_sensitivity: 3"):
        check_sensitivity(Boastful(3), ROWS)
    with pytest.raises(ValueError, match="at least 10 rows"):
        check_operator(stranger.PositiveCounts(3), ROWS[:3])


class Restless(skl.SketchPCA):
    """Answers otherwise after it was saved."""

    def transform(self, X):
        return super().transform(X) + (0 if self.has_sketch else 1)


def test_estimators(monkeypatch):
    monkeypatch.setitem(registry._tasks, stranger.TASK.name, stranger.TASK)
    check_estimator(stranger.ColumnMedians(random_state=0), ROWS)
    check_estimator(skl.SketchKMeans(3, random_state=0), ROWS)
    check_estimator(skl.SketchLinearRegression(random_state=0), ROWS[:, :2], ROWS[:, 2])
    monkeypatch.setitem(registry._tasks, "restless", skl.extend.Task("restless", "a PCA", "Restless", __name__))
    with pytest.raises(AssertionError, match="transform differs after save and load"):
        check_estimator(Restless(1, random_state=0), ROWS)


def test_readers(tmp_path):
    skl.extend.register_reader(".rows", stranger.read_rows)
    np.savetxt(tmp_path / "a.rows", ROWS)
    check_reader(tmp_path / "a.rows", ROWS)
    with pytest.raises(AssertionError, match="read as other numbers"):
        check_reader(tmp_path / "a.rows", ROWS + 1)
    with pytest.raises(AssertionError, match="not \\(299, 3\\)"):
        check_reader(tmp_path / "a.rows", ROWS[1:])
