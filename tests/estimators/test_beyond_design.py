"""More clusters than a sketch was designed for: what is said of them; and what `choose_k` is doing meanwhile."""

import re

import numpy as np
import pytest
from command_line import run

import sketchlearn as skl
from sketchlearn.core import progress


def sketch_for_one_cluster():
    """Of three clusters."""
    rng = np.random.default_rng(0)
    X = 10.0 * np.eye(3, 5)[rng.integers(0, 3, 4000)] + rng.standard_normal((4000, 5))
    return skl.design(X, n_components=1).sketch(X)


def test_a_design_for_fewer_clusters_is_warned_of():
    """The frequencies tell of some, but not of twelve; three are more than the design was for."""
    with pytest.warns(UserWarning, match="frequencies") as warned:
        choice = skl.choose_k(sketch_for_one_cluster(), 12)
    assert choice.most < 12
    first, second = (str(warning.message) for warning in warned)
    why = "the sketch has 125 frequencies, as a design for about one cluster"
    remedy = "to find more, sketch with design(sample, n_components=12)"
    assert first == f"numbers of clusters above {choice.most} are not tried: {why}; {remedy}"
    assert second == f"3 clusters are more than such a sketch is designed for, and uncertain: {why}; {remedy}"
    assert choice.n_clusters == 3


def test_kept_rows_tell_more_clusters_than_the_design():
    """The clusters of rows do not rest on frequencies."""
    rng = np.random.default_rng(0)
    X = rng.uniform(size=(5000, 2)) + 2 * rng.integers(0, 5, (5000, 1))
    choice = skl.choose_k(skl.design(X, n_components=4, rows=600).sketch(X), 7)
    assert (choice.n_clusters, choice.basis.name) == (5, "ROWS")


def test_long_work_is_shown(capsys, monkeypatch):
    monkeypatch.setattr(progress, "SECONDS_BETWEEN_LINES", 0.0)
    X = np.random.default_rng(0).uniform(size=(400, 2))
    sketch = skl.design(X, n_components=3).sketch(X)
    quiet = skl.choose_k(sketch, 3)
    assert capsys.readouterr().err == ""
    assert skl.choose_k(sketch, 3, progress=True) == quiet
    lines = capsys.readouterr().err
    for line in (
        "fitting a density to the sketch: ",
        "trying mixtures of 1 to 3 Gaussians: 2",
        "k-means of halves of the rows, ",
    ):
        assert line in lines


def test_the_command_shows_and_warns(tmp_path):
    sketch_for_one_cluster().save(tmp_path / "a.sketch")
    said = run("choose", str(tmp_path / "a.sketch"), "--max-clusters", "12", "--progress").stderr
    assert re.search(r"fitting a density to the sketch: \d", said)
    assert re.search(r"sketchlearn: warning: numbers .* to find more, sketch with sketchlearn design -k 12\n", said)
