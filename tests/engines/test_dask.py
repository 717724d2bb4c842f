"""The same table through Dask, whatever its chunks, its scheduler, and the fate of its workers."""

import os
import re
import signal

import dask
import dask.array as da
import dask.bag as db
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from distributed import Client, LocalCluster

import sketchlearn as skl
from sketchlearn.engines import partial
from sketchlearn.engines.dask import partitions, sample, sketch, tree

NAMES = ("height", "weight", "age")
OPERATOR = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=5)
NAMED = skl.features.FourierFeatures(3, 40, law=skl.features.frequencies.Gaussian(1.0), seed=5, columns=NAMES)
X = np.random.default_rng(1).standard_normal((1003, 3))
FRAME = pd.DataFrame(X, columns=NAMES)
HALVES = FRAME.head(500), FRAME.tail(503)


COLLECTIONS = {
    "array": lambda: da.from_array(X, chunks=(100, 3)),
    "odd chunks along both axes": lambda: da.from_array(X, chunks=((1, 2, 999, 1), (2, 1))),
    "one chunk": lambda: da.from_array(X, chunks=-1),
    "array of unknown sizes": lambda: da.from_array(X, chunks=(100, 3))[da.from_array(X[:, 0] < np.inf, chunks=100)],
    "single precision": lambda: da.from_array(X.astype(np.float32).astype(np.float64), chunks=97).astype(np.float32),
    "frame": lambda: dd.from_pandas(FRAME, npartitions=7),
    "frame of concatenated pieces, one empty": lambda: dd.concat(
        [dd.from_pandas(part, npartitions=1) for part in (FRAME[:600], FRAME[:0], FRAME[600:])]
    ),
    "bag of rows": lambda: db.from_sequence(X.tolist(), npartitions=4),
    "bag of lazy rows": lambda: db.from_sequence(X.tolist(), npartitions=4).map(tuple),
    "bag of blocks": lambda: db.from_sequence([X[:10], X[10:11], X[11:]], npartitions=2),
    "delayed blocks": lambda: [dask.delayed(block) for block in np.array_split(X, 20)],
    "delayed frames": lambda: [dask.delayed(part) for part in HALVES],
    "one delayed": lambda: dask.delayed(X),
}


@pytest.fixture(scope="module")
def client():
    settings = {"n_workers": 2, "threads_per_worker": 1, "processes": True, "dashboard_address": None}
    with LocalCluster(**settings, host="127.0.0.1", memory_limit=0) as cluster, Client(cluster) as client:
        yield client


@pytest.mark.parametrize("name", COLLECTIONS)
def test_any_collection_gives_the_same_bytes(name):
    rows = X.astype(np.float32) if name == "single precision" else X
    assert sketch(COLLECTIONS[name](), OPERATOR).to_bytes() == OPERATOR.sketch(rows).to_bytes()


@pytest.mark.parametrize("scheduler", ["synchronous", "threads", "processes"])
def test_any_scheduler_gives_the_same_bytes(scheduler):
    with dask.config.set(scheduler=scheduler, num_workers=2):
        assert sketch(da.from_array(X, chunks=(200, 2)), OPERATOR).to_bytes() == OPERATOR.sketch(X).to_bytes()


@pytest.mark.parametrize("kind", ["parquet", "csv"])
def test_a_list_of_files_gives_the_same_bytes(tmp_path, kind):
    paths = []
    for number, part in enumerate(np.array_split(np.arange(len(X)), 11)):
        paths.append(tmp_path / f"{number}.{kind}")
        table = FRAME.iloc[part]
        table.to_parquet(paths[-1]) if kind == "parquet" else table.to_csv(paths[-1], index=False)
    assert sketch(paths, NAMED).to_bytes() == NAMED.sketch(X).to_bytes()
    assert sketch([str(path) for path in paths], OPERATOR).to_bytes() == OPERATOR.sketch(X).to_bytes()
    assert sketch(tmp_path / f"*.{kind}", NAMED).to_bytes() == NAMED.sketch(X).to_bytes()
    assert len(partitions(tmp_path)) == 11
    with pytest.raises(ValueError, match=f"^{re.escape(str(tmp_path))}/none.{kind}: "):
        sketch([*paths, tmp_path / f"none.{kind}"], NAMED)


def test_no_task_merges_more_than_eight():
    graph = dict(tree(da.from_array(X, chunks=(10, 3)), OPERATOR).dask)
    inputs = {}
    for key, task in graph.items():
        if str(key).startswith("merged"):
            inputs[key] = {other for other in task.dependencies if not str(other).startswith("operator")}
    assert len(inputs) == 13 + 2 + 1  # 101 partial sketches, 13 of them, 2 of those
    assert max(len(keys) for keys in inputs.values()) == partial.ARITY
    assert sum(str(key).startswith("operator") for key in graph) == 1


def test_a_killed_worker_costs_time_only(client, tmp_path):
    victim = tmp_path / "victim"

    def deadly(block, number):
        if number == 25 and not victim.exists():
            victim.write_text(str(os.getpid()))
            os.kill(os.getpid(), signal.SIGKILL)
        return block

    pids = client.run(os.getpid).values()
    blocks = [dask.delayed(deadly)(block, number) for number, block in enumerate(np.array_split(X, 40))]
    assert sketch(blocks, OPERATOR).to_bytes() == OPERATOR.sketch(X).to_bytes()
    assert int(victim.read_text()) in pids


@pytest.mark.usefixtures("client")
def test_frames_on_a_cluster():
    frame = dd.from_pandas(FRAME.assign(name="text"), npartitions=9)
    assert sketch(frame, NAMED).to_bytes() == NAMED.sketch(X).to_bytes()
    assert sketch(frame[list(FRAME.columns[::-1])], NAMED) == NAMED.sketch(X)
    with pytest.raises(ValueError, match=r"^partition 8: row .*column"):
        sketch(dd.from_pandas(FRAME.assign(age=np.r_[X[:-1, 2], np.nan]), npartitions=9), NAMED)


REFUSED = {
    "text": (lambda: dd.from_pandas(FRAME.assign(age="old"), npartitions=3), "column 'age' is .*, not numbers"),
    "a missing value": (
        lambda: dd.from_pandas(FRAME.assign(age=[*X[:-1, 2], None]), npartitions=4),
        "partition 3: row .*column",
    ),
    "a column too few": (lambda: da.from_array(X[:, :2]), "2 columns, but the operator needs 3"),
    "three dimensions": (lambda: da.zeros((2, 2, 2)), "got 3 dimension"),
    "no list at all": (list, "expected a Dask array"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_sketched_is_one_sentence(name):
    collection, sentence = REFUSED[name]
    with pytest.raises((ValueError, TypeError), match=sentence) as caught:
        sketch(collection(), NAMED)
    assert "\n" not in str(caught.value)


def test_samples_come_from_all_over():
    rows = np.arange(20_000.0)[:, None] * [1.0, 1.0]
    collection = da.from_array(rows, chunks=(100, 2))
    some, columns = sample(collection, 1000, seed=0)
    assert columns is None
    assert some.shape == (1000, 2)
    assert len(np.unique(some[:, 0])) == 1000
    assert np.all(np.histogram(some[:, 0], bins=8, range=(0, 20_000))[0] > 50)
    everything, columns = sample(dd.from_pandas(FRAME, npartitions=3), 5000, seed=0)
    assert columns == NAMES
    assert sample(dask.delayed(X), 5000, seed=0)[1] is None
    assert np.array_equal(np.sort(everything, axis=0), np.sort(X, axis=0))


def test_estimators_fit_where_the_rows_are():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((3000, 2)) + 10 * rng.integers(0, 2, (3000, 1))
    frame = dd.from_pandas(pd.DataFrame(rows, columns=["x", "y"]), npartitions=4)
    fitted = skl.SketchKMeans(2, random_state=0).fit(frame)
    again = skl.SketchKMeans(2, random_state=0).fit_sketch(
        fitted._state.sketch.operator.sketch(rows)
    )  # which keeps rows
    assert fitted.sketch_ == again.sketch_
    assert np.array_equal(fitted.cluster_centers_, again.cluster_centers_)
    assert sorted(fitted.cluster_centers_.round().tolist()) == [[0, 0], [10, 10]]
    assert fitted.feature_names_in_.tolist() == ["x", "y"]
    assert not hasattr(fitted, "labels_")
    assert fitted.predict(pd.DataFrame(rows, columns=["x", "y"])).shape == (3000,)


ESTIMATORS = {
    "clusters": lambda schema: skl.SketchKMeans(2, schema=schema, random_state=0),
    "mixture": lambda schema: skl.SketchGaussianMixture(2, covariance_type="diag", schema=schema, random_state=0),
    "components": lambda schema: skl.SketchPCA(2, schema=schema),
}


@pytest.mark.filterwarnings("ignore:a mixture of")  # flags are no Gaussians
@pytest.mark.parametrize("name", ESTIMATORS)
def test_schemas_travel_to_where_the_rows_are(name):
    """Text, flags, dates and gaps: estimators with a schema on a Dask data frame are those on the whole sketch."""
    rng = np.random.default_rng(0)
    group = rng.integers(0, 2, 3000)
    age = np.where(group, 60.0, 25.0) + rng.normal(0, 3, 3000)
    table = pd.DataFrame(
        {
            "id": np.arange(3000),
            "age": np.where(rng.random(3000) < 0.02, np.nan, age),
            "country": np.where(rng.random(3000) < 0.9, np.array(["FR", "DE"])[group], "IT"),
            "member": np.where(group, "yes", "no"),
            "since": pd.Timestamp("2020-01-01") + pd.to_timedelta(rng.integers(0, 300, 3000), "D"),
        }
    )
    schema = skl.schema(table.drop(columns="id"))
    collection = dd.from_pandas(table, npartitions=5)
    fitted = ESTIMATORS[name](schema).fit(collection)
    operator = fitted.sketch_.operator
    assert operator.columns.schema == schema
    assert fitted.sketch_ == operator.sketch(table)
    assert fitted.n_records_ == 3000
    if name != "components":
        labels = fitted.predict(table)
        assert max(np.mean(labels == group), np.mean(labels != group)) > 0.95
        assert "country FR" in str(skl.profiles(fitted))
    with pytest.raises(ValueError, match="has no column 'country'"):
        ESTIMATORS[name](schema).fit(collection.drop(columns="country"))
