"""Tasks, operators and readers of other packages."""

import dataclasses
import json
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import stranger
from sklearn.utils.estimator_checks import parametrize_with_checks
from stranger import ColumnMedians, PositiveCounts, PrivatePositiveCounts
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app

RNG = np.random.default_rng(0)
ROWS = RNG.normal([1.0, -2.0, 5.0], [1.0, 2.0, 0.5], (4000, 3))
skl.extend.register_task(stranger.TASK)
skl.extend.register_reader(".rows", stranger.read_rows)


def near(medians):
    assert np.max(np.abs(medians - np.median(ROWS, axis=0))) < 0.5


def run(*arguments):
    found = CliRunner().invoke(app, [str(argument) for argument in arguments])
    assert found.exit_code == 0, found.output
    return found.stdout


def test_strangers_are_short():
    lines = Path(stranger.__file__).read_text().splitlines()
    marks = [i for i, line in enumerate(lines) if line.startswith("# A")]
    task, operator, reader = (
        len([line for line in part if line.strip()])
        for part in (lines[marks[0] : marks[1]], lines[marks[1] : marks[2]], lines[marks[2] :])
    )
    assert task <= 80
    assert operator <= 60
    assert reader <= 10


# A task


@parametrize_with_checks([ColumnMedians(random_state=0)])
def test_a_foreign_task_is_an_estimator(estimator, check):
    check(estimator)


def test_a_foreign_task_learns_from_rows_streams_files_and_sketches(tmp_path):
    near(ColumnMedians().fit(ROWS).medians_)
    np.save(tmp_path / "rows.npy", ROWS)
    near(ColumnMedians().fit(tmp_path / "rows.npy").medians_)
    near(ColumnMedians().fit(ROWS[first : first + 1000] for first in range(0, 4000, 1000)).medians_)
    stream = ColumnMedians(bounds=(-10, 10))
    for first in range(0, 4000, 500):
        stream.partial_fit(ROWS[first : first + 500])
    near(stream.medians_)
    operator = skl.design(ROWS, task="column-medians")
    assert operator.origin.value == "sample"
    near(ColumnMedians().fit_sketch(operator.sketch(ROWS)).medians_)
    declared = skl.design(bounds=([-10] * 3, [10] * 3), task="column-medians")
    private = skl.privatize(declared.sketch(ROWS), epsilon=5.0, seed_for_tests_not_private=0)
    model = ColumnMedians().fit_sketch(private)
    near(model.medians_)
    assert model.privacy_.epsilon == 5.0


def test_a_foreign_task_has_files_and_commands(tmp_path):
    model = ColumnMedians().fit(ROWS)
    skl.save(model, tmp_path / "model.json")
    again = skl.load(tmp_path / "model.json")
    assert np.array_equal(again.predict(ROWS), model.predict(ROWS))
    assert "medians of the columns" in run("info", tmp_path / "model.json")
    np.savetxt(tmp_path / "day.csv", ROWS, delimiter=",", header="a,b,c", comments="")
    assert "histograms" in run("design", tmp_path / "day.csv", "--task", "column-medians", "-o", tmp_path / "d.json")
    run("sketch", tmp_path / "day.csv", "--design", tmp_path / "d.json", "-o", tmp_path / "day.sketch")
    said = run("fit", "column-medians", tmp_path / "day.sketch", "-o", tmp_path / "own.json", "--json")
    near(np.array(json.loads(said)["medians"]))
    labels = run("predict", tmp_path / "own.json", tmp_path / "day.csv").split()
    assert np.array_equal(np.array(labels, int), skl.load(tmp_path / "own.json").predict(tmp_path / "day.csv"))


def test_a_package_brings_a_task_by_an_entry_point(tmp_path):
    """Another process, which finds the task by the package's metadata alone."""
    (tmp_path / "stranger.py").write_text(Path(stranger.__file__).read_text())
    facts = tmp_path / "stranger-1.0.dist-info"
    facts.mkdir()
    (facts / "METADATA").write_text("Metadata-Version: 2.1\nName: stranger\nVersion: 1.0\n")
    (facts / "entry_points.txt").write_text("[sketchlearn.tasks]\nmedians = stranger:TASK\n")
    ColumnMedians().fit(ROWS).sketch_.save(tmp_path / "rows.sketch")
    command = [sys.executable, "-m", "sketchlearn", "fit", "column-medians", str(tmp_path / "rows.sketch"), "--json"]
    environment = {**os.environ, "PYTHONPATH": str(tmp_path)}
    found = subprocess.run(command, env=environment, capture_output=True, text=True)
    assert found.returncode == 0, found.stderr
    near(np.array(json.loads(found.stdout)["medians"]))


def test_a_name_is_taken_once():
    with pytest.raises(ValueError, match="there is a task 'kmeans' already: choose another name"):
        skl.extend.register_task(dataclasses.replace(stranger.TASK, name="kmeans"))


# An operator


def test_a_foreign_operator_has_sketches_files_and_words(tmp_path):
    operator = PositiveCounts(3)
    sketch = operator.sketch(ROWS)
    assert sketch == operator.sketch(ROWS[:1000]) + operator.sketch(ROWS[1000:])
    assert sketch.sums.tolist() == (ROWS > 0).sum(axis=0).tolist()
    sketch.save(tmp_path / "rows.sketch")
    assert skl.load(tmp_path / "rows.sketch") == sketch
    assert "numbers of positive values of 3 columns" in run("info", tmp_path / "rows.sketch")
    both = skl.features.concatenate([operator, skl.features.SecondMoments(3, bound=100.0)])
    assert both.split(both.sketch(ROWS))[0] == sketch


def test_a_foreign_operator_goes_to_the_rows_of_dask():
    arrays = pytest.importorskip("dask.array")
    chunks = arrays.from_array(ROWS, chunks=(1000, 3))
    with pytest.importorskip("dask").config.set(scheduler="synchronous"):
        assert skl.engines.sketch(chunks, PositiveCounts(3)) == PositiveCounts(3).sketch(ROWS)


def test_a_foreign_operator_is_released_when_it_has_said_enough():
    with pytest.raises(ValueError, match=r"PositiveCounts has no known bound.*add_remove_sensitivity"):
        skl.privatize(PositiveCounts(3).with_origin("declared").sketch(ROWS), epsilon=1.0)
    with pytest.raises(ValueError, match="it is not known whether the numbers of this PrivatePositiveCounts"):
        skl.privatize(PrivatePositiveCounts(3).sketch(ROWS), epsilon=1.0)
    sketch = PrivatePositiveCounts(3).with_origin("declared").sketch(ROWS)
    assert skl.privatize(sketch, epsilon=1.0).ledger.design == "declared"


#: names at the top of the last release that have gone from there
GONE = """
    Budget CellSums CenterIntervals ClusterChoice ColumnMoments Concatenated ConvolutionalFeatures CrossFeatures
    CumulantFeatures Drift ExpectedStatistics Explanation FeatureMoments FittedModel FourierFeatures Glimpse Histograms
    Ledger MeasuredWave Operator PackedBits PrivateBits Profiles QuadraticFeatures SecondMoments SketchEstimator
    SomeColumns SomeDirections Source Task VeroneseMoments concatenate frequencies load_design load_model load_schema
    measured_wave model_array models queries register_reader register_task save_design save_model save_schema waves
"""


@pytest.mark.parametrize("name", GONE.split())
def test_every_name_that_has_gone_from_the_top_says_where_it_is(name):
    with pytest.warns(DeprecationWarning, match=rf"skl\.{name} is deprecated: use skl\."):
        assert getattr(skl, name) is not None


def test_designs_of_a_sample_name_what_is_for_bounds():
    with pytest.raises(ValueError, match="targets is for designs from bounds"):
        skl.SketchKMeans(2).design(ROWS, epsilon=None, targets=[0])
    with pytest.raises(ValueError, match="epsilon is for designs from bounds"):
        skl.SketchKMeans(2).design(ROWS, epsilon=1.0)


def test_names_of_earlier_releases_still_answer():
    with pytest.warns(DeprecationWarning, match=r"Old\.ceiling is deprecated: call it largest_contribution"):

        @dataclasses.dataclass(frozen=True)
        class Old(skl.extend.Operator):
            n_features: int
            columns: tuple[str, ...] | None = None
            n_sums = 1
            ceiling = 1
            add_rows = write_rows = mean_of = explain_refusal = lambda: None

    assert Old(2).largest_contribution == 1
    with pytest.warns(DeprecationWarning, match=r"skl\.SecondMoments is deprecated: use skl\.features\.SecondMoments"):
        assert skl.SecondMoments is skl.features.SecondMoments
    with pytest.warns(DeprecationWarning, match=r"skl\.load_design is deprecated: use skl\.load"):
        assert skl.load_design is skl.load
    with pytest.warns(DeprecationWarning, match=r"sketchlearn\.frequencies is deprecated: import"):
        import sketchlearn.frequencies
    assert sketchlearn.frequencies.Gaussian is skl.features.frequencies.Gaussian


# A reader


def test_files_of_a_foreign_kind_are_sources(tmp_path):
    np.savetxt(tmp_path / "day.rows", ROWS)
    operator = skl.design(ROWS, n_components=2)
    assert operator.sketch(tmp_path / "day.rows") == operator.sketch(ROWS)
    assert skl.source(str(tmp_path / "*.rows")).n_rows == len(ROWS)
    run("sketch", tmp_path / "day.rows", "-k", 2, "-o", tmp_path / "day.sketch")
    with pytest.raises(ValueError, match="begins with a dot"):
        skl.extend.register_reader("rows", stranger.read_rows)
