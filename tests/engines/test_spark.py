"""The same table through Spark, in classic and Connect sessions."""

import os
import shutil
import sys

import numpy as np
import pandas as pd
import pytest

import sketchlearn as skl
from sketchlearn.engines.partial import ARITY, PartitionError, text_of
from sketchlearn.engines.spark import LEVELS, _merge_group, sample, sketch

if shutil.which("java") is None and not os.environ.get("SKETCHLEARN_REQUIRE_SPARK"):
    pytest.skip("Spark needs Java, which is not installed", allow_module_level=True)

pytestmark = [
    # PySpark leaves sockets to the garbage collector
    pytest.mark.filterwarnings("ignore:Exception ignored in. <socket.socket:pytest.PytestUnraisableExceptionWarning"),
    pytest.mark.filterwarnings("ignore:unclosed <socket.socket:ResourceWarning"),
    # a Connect session cannot change settings of the server that has just been started with them
    pytest.mark.filterwarnings("ignore:Failed to set spark:UserWarning"),
]

NAMES = ("height", "weight", "body.age")
OPERATOR = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=5)
NAMED = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=5, columns=NAMES)
X = np.random.default_rng(1).standard_normal((1003, 3))
FRAME = pd.DataFrame(X, columns=NAMES)
SETTINGS = {
    "spark.ui.enabled": "false",
    "spark.sql.shuffle.partitions": "2",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "100",
    "spark.ui.showConsoleProgress": "false",
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


only_classic = pytest.mark.parametrize("session", ["classic"], indirect=True)  # PySpark takes 0.2 s for any task


@pytest.mark.slow
@only_classic
def test_units_give_the_same_bits(session):
    ids = np.random.default_rng(2).integers(0, 90, len(FRAME))
    for texts in (ids, ids.astype(float), [f"{i}.0" if n % 2 else f" {i}" for n, i in enumerate(ids)]):
        visits = FRAME.assign(**{"patient.id": texts})
        found = sketch(session.createDataFrame(visits).repartition(5), NAMED, unit="patient.id", rows_per_unit=4)
        assert found.to_bytes() == NAMED.sketch(visits, unit="patient.id", rows_per_unit=4).to_bytes()
        assert found == NAMED.sketch(FRAME, unit=ids, rows_per_unit=4)
        assert found.unit.rows_per_unit == 4
    with pytest.raises(PartitionError, match="one is missing, and every row needs one"):
        sketch(session.createDataFrame(FRAME.assign(who=[None, *texts[1:]])), NAMED, unit="who", rows_per_unit=4)


def table(session, frame=FRAME, n_partitions=2):
    return session.createDataFrame(frame).repartition(n_partitions)


def test_the_same_bytes_and_no_other_columns_than_the_operators(session):
    assert sketch(table(session, FRAME.assign(name="text")), NAMED).to_bytes() == NAMED.sketch(X).to_bytes()


@only_classic
def test_chosen_columns_of_parquet_files(session, tmp_path):
    path = str(tmp_path / "rows.parquet")
    FRAME.assign(name="text").to_parquet(path)
    swapped = ["body.age", "weight", "height"]
    assert sketch(session.read.parquet(path), OPERATOR, columns=swapped) == OPERATOR.sketch(X[:, ::-1])


@only_classic
def test_empty_partitions_and_empty_tables(session):
    one = table(session).limit(1).repartition(3)
    assert sketch(one, OPERATOR).count == 1
    assert sketch(one.filter("height > 1e9"), OPERATOR) == skl.Sketch(OPERATOR)


@only_classic
def test_kept_rows_are_the_same(session):
    operator = skl.design(FRAME, n_components=2, features=skl.features.Fourier(n_frequencies=10), rows=20)
    found = sketch(table(session), operator)
    assert found.kept == operator.sketch(X).kept
    assert found.to_bytes() == operator.sketch(X).to_bytes()


@only_classic
def test_more_partitions_than_one_merge_takes(session):
    df = session.range(200, numPartitions=10).selectExpr("id", "id % 7", "id / 2")
    n = np.arange(200)
    assert sketch(df, OPERATOR) == OPERATOR.sketch(np.stack([n, n % 7, n / 2], axis=1))


def test_no_merge_takes_more_than_eight():
    """The stages of the merge, played by hand: 100 partitions, grouped as Spark groups them."""
    import pyarrow as pa

    text = text_of(OPERATOR)
    numbers = range(100)
    level = pa.table({"part": list(numbers), "sketch": [OPERATOR.sketch(X[i::100]).to_bytes() for i in numbers]})
    sizes = []
    for _ in range(LEVELS):
        groups = {
            part: level.filter(pa.compute.equal(pa.compute.divide(level["part"], ARITY), part))
            for part in {part // ARITY for part in level["part"].to_pylist()}
        }
        sizes.append([len(group) for group in groups.values()])
        level = pa.concat_tables(
            _merge_group(group.set_column(0, "part", pa.array([part] * len(group))), text)
            for part, group in groups.items()
        )
    assert [len(groups) for groups in sizes] == [13, 2, 1]
    assert max(map(max, sizes)) == ARITY
    assert level["sketch"].to_pylist() == [OPERATOR.sketch(X).content()]


REFUSED = {
    "text": (FRAME.assign(weight="heavy"), "^column 'weight' holds string, not numbers"),
    "a missing column": (FRAME[["weight", "height"]], "no column 'body.age'"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_wrong_columns_are_refused_before_the_run(session, name):
    frame, sentence = REFUSED[name]
    with pytest.raises(ValueError, match=sentence):
        sketch(session.createDataFrame(frame), NAMED)


def test_columns_are_found_by_name(session):
    swapped = session.createDataFrame(FRAME[["weight", "height", "body.age"]])
    assert sketch(swapped, NAMED) == NAMED.sketch(FRAME)


def test_a_missing_value_is_one_sentence(session):
    df = session.createDataFrame(FRAME).selectExpr("height", "nullif(weight, weight) as weight", "`body.age`")
    with pytest.raises(ValueError, match=r"^partition [0-9]+: row .*column") as caught:
        sketch(df, NAMED)
    assert "\n" not in str(caught.value)


def test_rows_in_memory_are_refused():
    with pytest.raises(TypeError, match="expected a Spark data frame, not ndarray"):
        sketch(X, OPERATOR)


@only_classic
def test_estimators_fit_where_the_rows_are(session):
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 2)) + 10 * rng.integers(0, 2, (3000, 1))
    fitted = skl.SketchKMeans(2, random_state=0).fit(table(session, pd.DataFrame(rows, columns=["x", "y"])))
    again = skl.SketchKMeans(2, random_state=0).fit_sketch(
        fitted._state.sketch.operator.sketch(rows)
    )  # which keeps rows
    assert fitted.sketch_ == again.sketch_
    assert np.array_equal(fitted.cluster_centers_, again.cluster_centers_)
    assert fitted.feature_names_in_.tolist() == ["x", "y"]
    assert not hasattr(fitted, "labels_")


@only_classic
def test_schemas_travel_to_where_the_rows_are(session):
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 3000)
    ages = np.where(group, 60.0, 25.0) + rng.normal(0, 3, 3000)
    frame = pd.DataFrame({"body.age": ages, "country": np.array(["FR", "DE"])[group]})
    schema = skl.schema(frame)
    fitted = skl.SketchKMeans(2, schema=schema, random_state=0).fit(table(session, frame))
    assert fitted.sketch_ == fitted.sketch_.operator.sketch(frame)
    labels = fitted.predict(frame)
    assert np.all(labels == group) or np.all(labels != group)
    with pytest.raises(ValueError, match="has no column 'country'"):
        skl.SketchKMeans(2, schema=schema).fit(table(session, frame[["body.age"]]))


def test_samples_come_from_all_over(session):
    df = session.range(20_000, numPartitions=4).selectExpr("cast(id as double) as x", "id as y")
    some, columns = sample(df, 1000, seed=0)
    assert columns == ("x", "y")
    assert some.shape == (1000, 2)
    assert len(np.unique(some[:, 0])) == 1000
    assert np.all(np.histogram(some[:, 0], bins=8, range=(0, 20_000))[0] > 80)
