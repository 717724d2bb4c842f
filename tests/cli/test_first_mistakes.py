"""What people run into on their first day: each is answered by a sentence that says what to type."""

import json
import sys
from unittest import mock

import numpy as np
import pytest
from command_line import called, done, write_days
from sklearn.exceptions import NotFittedError

import sketchlearn as skl
from sketchlearn.cli.tables import table
from sketchlearn.questions.profiles import ColumnProfile, Estimate, Profile


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


def test_explain_wants_the_sketch_and_the_number_of_clusters(days):
    done("fit", "kmeans", "-k", "3", "day1.sketch", "-o", "model.json", cwd=days)
    model = called("explain", "model.json", cwd=days)
    assert model.returncode == 1
    assert "model.json is a model, not a sketch: give the sketch that it was learned from" in model.stderr
    sketch = called("explain", "day1.sketch", cwd=days)
    assert sketch.returncode == 2
    assert "give the number of clusters to look for: sketchlearn explain day1.sketch -k K" in sketch.stderr


def test_a_loaded_model_has_no_sketch_to_explain(days):
    done("fit", "kmeans", "-k", "3", "day1.sketch", "-o", "loaded.json", cwd=days)
    with pytest.raises(NotFittedError, match="was loaded, and model files hold no sketch: give the sketch"):
        skl.explain(skl.load(days / "loaded.json"))


def test_equal_sketches_are_said_to_be_equal_though_their_files_are_not(days):
    """The same command gives the same file; a sum of two halves tells of its two batches."""
    done("sketch", "day1.csv", "--design", "design.json", "-o", "again.sketch", cwd=days)
    lines = (days / "day1.csv").read_text().splitlines(keepends=True)
    for name, part in (("half1", lines[1:1000]), ("half2", lines[1000:])):
        (days / f"{name}.csv").write_text("".join([lines[0], *part]))
        done("sketch", f"{name}.csv", "--design", "design.json", "-o", f"{name}.sketch", cwd=days)
    done("merge", "half1.sketch", "half2.sketch", "-o", "halves.sketch", cwd=days)
    files = [days / name for name in ("day1.sketch", "halves.sketch", "day2.sketch", "again.sketch")]
    first, halves, other, again = (json.loads(done("info", path, "--json").stdout) for path in files)
    assert first["content"] == halves["content"]
    assert first["sha256"] != halves["sha256"]
    assert first["sha256"] == again["sha256"]
    assert first["content"] != other["content"]
    assert f"{first['content']} (SHA-256; equal sketches have the same)" in done("info", files[0]).stdout
    said = done("compare", *files[:2]).stdout.splitlines()
    assert said == ["A: 3,000 records; B: 3,000 records", "Identical: the same sums, to the bit."]
    assert "Identical" not in done("compare", *files[1:3]).stdout
    assert json.loads(done("compare", *files[:2], "--json").stdout)["identical"] is True


def test_a_sketch_after_subtraction_is_said_to_be_equal(days):
    """It keeps fewer rows: those that the others had displaced are gone. So its file is another one."""
    done("design", "day1.csv", "-k", "3", "--rows", "50", "-o", "kept.json", cwd=days)
    for day in ("day1", "day2"):
        done("sketch", f"{day}.csv", "--design", "kept.json", "-o", f"{day}.kept", cwd=days)
    done("merge", "day1.kept", "day2.kept", "-o", "both.kept", cwd=days)
    done("subtract", "both.kept", "day2.kept", "-o", "left.kept", cwd=days)
    before, left = (skl.load(days / name) for name in ("day1.kept", "left.kept"))
    assert before == left
    assert len(left.kept) < len(before.kept) == 50
    first, again, both = (
        json.loads(done("info", days / name, "--json").stdout) for name in ("day1.kept", "left.kept", "both.kept")
    )
    assert first["content"] == again["content"] != both["content"]
    assert first["identity"] == again["identity"] == both["identity"] == before.operator.identity


def test_fit_of_a_sketch_without_a_kind_of_model(days):
    sketch = called("fit", "day1.sketch", "-o", "x.json", cwd=days).stderr
    assert "fit takes the kind of model first: type sketchlearn fit kmeans -k K day1.sketch -o FILE" in sketch
    table = called("fit", "day1.csv", "-o", "x.json", cwd=days).stderr
    assert "first: type sketchlearn sketch day1.csv -k K -o FILE, then sketchlearn fit kmeans -k K FILE" in table


def test_bounds_as_a_pair_for_each_column():
    instead = r"two lists, \(lows, highs\).* a pair for each column, write \(\[17, 0, 9\], \[42, 23, 20.5\]\)"
    with pytest.raises(ValueError, match=instead):
        skl.design(bounds=[(17, 42), (0, 23), (9, 20.5)], n_components=2)
    with pytest.raises(ValueError, match=r"two lists, \(lows, highs\).*below its highest$"):
        skl.design(bounds=([5, 0], [4, 1]), n_components=2)


def test_profiles_say_what_they_leave_out():
    columns = [ColumnProfile(f"c{i}", "number", {"mean": Estimate(float(i))}, 1.0, 1.0) for i in range(7)]
    flag = ColumnProfile("returned", "share", {"yes": Estimate(1.0)}, 0.0, 2.0, missing=0.64)
    told = str(Profile(0, Estimate(0.5), 100.0, (flag, *columns)))
    assert told.startswith("cluster 0: 50.0 % (100 records): returned 100 % where known, 64 % missing; c0 0.0 +- 1;")
    assert told.endswith("; c4 4.0 +- 1; and 2 more columns")


def test_tables_say_how_many_columns_they_leave_out():
    (head, _) = table(["cluster"], [["0"]], [[str(i) for i in range(9)]], [f"c{i}" for i in range(9)])
    assert head.endswith("c6  c7  and 1 more column (--json)")


def test_operators_have_probes_in_words_if_they_have_some():
    bounded = skl.design(bounds=([60, 20], [240, 180]), n_components=3, n_rows=140_000, epsilon=1.0)
    assert "mixture of 2 distributions, seed 0" in bounded.in_words
    sampled = skl.design(np.random.default_rng(0).standard_normal((500, 2)), n_components=2)
    assert ", and probes of each column, seed 0" in sampled.in_words
