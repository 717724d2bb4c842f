"""The same table through Spark, in classic and Connect sessions."""

import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

import sketchlearn as skl
from sketchlearn.engines.spark import sample, sketch

if shutil.which("java") is None and not os.environ.get("SKETCHLEARN_REQUIRE_SPARK"):
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

NAMES = ("height", "weight", "body.age")
OPERATOR = skl.FourierFeatures(3, 40, law=skl.frequencies.Gaussian(1.0), seed=5)
NAMED = skl.FourierFeatures(3, 40, law=skl.frequencies.Gaussian(1.0), seed=5, columns=NAMES)
X = np.random.default_rng(1).standard_normal((1003, 3))
FRAME = pd.DataFrame(X, columns=NAMES)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.log.level": "OFF",
}


@pytest.fixture(scope="module", params=["classic", "connect"])
def session(request):
    from pyspark.sql import SparkSession

    patch = pytest.MonkeyPatch()
    patch.setenv("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder
    for name, value in SETTINGS.items():
        builder = builder.config(name, value)
    builder = builder.master("local[2]") if request.param == "classic" else builder.remote("local[2]")
    session = builder.getOrCreate()
    yield session
    session.stop()
    patch.undo()


def table(session, frame=FRAME, n_partitions=5):
    return session.createDataFrame(frame).repartition(n_partitions)


@pytest.mark.parametrize("n_partitions", [1, 11])
def test_the_same_bytes(session, n_partitions):
    assert sketch(table(session, n_partitions=n_partitions), NAMED).to_bytes() == NAMED.sketch(X).to_bytes()


def test_chosen_columns_and_parquet_files(session, tmp_path):
    path = str(tmp_path / "rows.parquet")
    table(session, FRAME.assign(name="text")).write.parquet(path)
    df = session.read.parquet(path)
    assert sketch(df, NAMED).to_bytes() == NAMED.sketch(X).to_bytes()
    swapped = ["body.age", "weight", "height"]
    assert sketch(df, OPERATOR, columns=swapped).to_bytes() == OPERATOR.sketch(X[:, ::-1]).to_bytes()


def test_empty_partitions_and_empty_tables(session):
    df = table(session).filter("height > 0").repartition(3)
    few = df.limit(1).repartition(4)
    assert sketch(df, OPERATOR).to_bytes() == OPERATOR.sketch(X[X[:, 0] > 0]).to_bytes()
    assert sketch(few, OPERATOR).count == 1
    assert sketch(df.filter("height > 1e9"), OPERATOR) == skl.Sketch(OPERATOR)


def test_more_partitions_than_one_merge_takes(session):
    assert sketch(session.range(2000, numPartitions=70).selectExpr("id", "id % 7", "id * 2"), OPERATOR).to_bytes() == (
        OPERATOR.sketch(np.arange(2000)[:, None] * [1, 0, 2] + np.arange(2000)[:, None] % 7 * [0, 1, 0]).to_bytes()
    )


REFUSED = {
    "text": (FRAME.assign(weight="heavy"), "^column 'weight' of the data frame holds string, not numbers"),
    "a missing value": (FRAME.assign(weight=[*X[:-1, 1], None]), "^partition [0-9]+: row .*column"),
    "another order": (FRAME[["weight", "height", "body.age"]], "bring them into that order"),
    "a missing column": (FRAME[["weight", "height"]], "there is no column 'body.age'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sketched_is_one_sentence(session, name):
    frame, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence) as caught:
        sketch(table(session, frame), NAMED)
    assert "\n" not in str(caught.value)


def test_rows_in_memory_are_refused():
    with pytest.raises(TypeError, match="expected a Spark data frame, not ndarray"):
        sketch(X, OPERATOR)


def test_samples_come_from_all_over(session):
    df = session.range(20_000, numPartitions=8).selectExpr("cast(id as double) as x", "id as y")
    some, columns = sample(df, 1000, seed=0)
    assert columns == ["x", "y"]
    assert some.shape == (1000, 2)
    assert len(np.unique(some[:, 0])) == 1000
    assert np.all(np.histogram(some[:, 0], bins=8, range=(0, 20_000))[0] > 80)


def test_estimators_fit_where_the_rows_are(session):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 2)) + 10 * rng.integers(0, 2, (3000, 1))
    fitted = skl.SketchKMeans(2, random_state=0).fit(table(session, pd.DataFrame(rows, columns=["x", "y"])))
    again = skl.SketchKMeans(2, random_state=0).fit_sketch(fitted.sketch_.operator.sketch(rows))
    assert fitted.sketch_ == again.sketch_
    assert np.array_equal(fitted.cluster_centers_, again.cluster_centers_)
    assert fitted.feature_names_in_.tolist() == ["x", "y"]
    assert not hasattr(fitted, "labels_")
