"""Estimators and `design` take every source, and count every row of it."""

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from designs import fourier_design

import sketchlearn as skl

CENTERS = np.array([[0.0, 0.0, 0.0], [9.0, 0.0, 4.0], [0.0, 9.0, -4.0]])
NAMES = ["x", "y", "z"]
RNG = np.random.default_rng(0)
ROWS = CENTERS[RNG.integers(0, 3, 12_000)] + RNG.standard_normal((12_000, 3))
TABLE = pa.table(dict(zip(NAMES, ROWS.T, strict=True)))


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    place = tmp_path_factory.mktemp("rows")
    for i in range(3):
        pq.write_table(TABLE[4000 * i : 4000 * (i + 1)], place / f"{i}.parquet", row_group_size=1000)
    return place


THINGS = {
    "table": lambda _: TABLE,
    "folder": lambda folder: folder,
    "pattern": lambda folder: str(folder / "*.parquet"),
    "lazy": lambda _: pl.from_arrow(TABLE).lazy(),
    "reader": lambda _: TABLE.to_reader(max_chunksize=100),
    "generator of arrays": lambda _: (ROWS[i : i + 100] for i in range(0, 12_000, 100)),
    "generator of frames": lambda _: (TABLE[i : i + 700].to_pandas() for i in range(0, 12_000, 700)),
    "list of arrays": lambda _: [ROWS[:10], ROWS[10:]],
    "source": lambda folder: skl.source(folder, nulls="drop"),
}


def away(found):
    return np.linalg.norm(CENTERS[:, None] - found, axis=2).min(axis=1).max()


@pytest.mark.parametrize("thing", THINGS)
def test_fit_counts_every_row(thing, folder):
    fitted = skl.SketchKMeans(3, random_state=0).fit(THINGS[thing](folder))
    operator = fitted.sketch_.operator
    assert fitted.sketch_ == operator.sketch(ROWS)
    assert away(fitted.cluster_centers_) < 0.2
    assert not hasattr(fitted, "labels_")
    assert fitted.n_features_in_ == 3
    if "array" in thing:
        assert operator.columns is None
        assert not hasattr(fitted, "feature_names_in_")
    else:
        assert operator.columns == tuple(NAMES)
        assert fitted.feature_names_in_.tolist() == NAMES
        assert np.array_equal(fitted.predict(TABLE.select(["y", "x", "z"])), fitted.predict(TABLE))


@pytest.mark.parametrize("thing", THINGS)
def test_partial_fit_takes_every_source(thing, folder):
    stream = skl.SketchKMeans(3, random_state=0)
    stream.partial_fit(TABLE[:50] if "array" not in thing else ROWS[:50])
    stream.partial_fit(THINGS[thing](folder)).partial_fit(THINGS[thing](folder))
    assert stream.sketch_.count == 24_050
    assert stream.sketch_ == stream.sketch_.operator.sketch([ROWS[:50], ROWS, ROWS])


def test_predictions_are_those_of_arrays(folder):
    kmeans = skl.SketchKMeans(3, random_state=0).fit(folder)
    plain = pd.DataFrame(ROWS, columns=NAMES)
    assert np.array_equal(kmeans.predict(folder), kmeans.predict(plain))
    assert np.array_equal(kmeans.fit_predict(TABLE), kmeans.predict(TABLE))
    np.testing.assert_allclose(kmeans.transform(TABLE), kmeans.transform(plain))
    assert kmeans.score(folder) == pytest.approx(kmeans.score(plain))
    mixture = skl.SketchGaussianMixture(3, random_state=0).fit(folder)
    np.testing.assert_allclose(mixture.predict_proba(folder), mixture.predict_proba(plain))
    assert mixture.bic(folder) == pytest.approx(mixture.bic(plain))
    assert np.array_equal(mixture.predict(TABLE), mixture.predict(plain))


def test_frames_give_operators_their_names(folder):
    for frame in (TABLE.to_pandas(), pl.from_arrow(TABLE)):
        fitted = skl.SketchKMeans(3, random_state=0).fit(frame)
        assert fitted.sketch_.operator.columns == tuple(NAMES)
        assert fitted.feature_names_in_.tolist() == NAMES
        assert len(fitted.labels_) == 12_000
        assert skl.SketchKMeans(3, random_state=0).fit_sketch(fitted.sketch_).feature_names_in_.tolist() == NAMES
        assert skl.design(frame, n_components=3).columns == tuple(NAMES)
    operator = skl.design(folder, n_components=3, seed=1)
    assert operator.columns == tuple(NAMES)
    assert operator == skl.design(folder, n_components=3, seed=1)
    assert operator.sketch(folder) == operator.sketch(ROWS)
    stream = fourier_design(TABLE.to_reader(max_chunksize=999), n_components=3)
    assert type(stream.law.law).__name__ == "LogUniform"
    assert stream.law.widths(3) is None
    assert operator.part(skl.features.FourierFeatures).law.widths(3) is not None


def test_errors_leave_the_estimator_as_it_was(folder):
    fitted = skl.SketchKMeans(3, random_state=0).fit(folder)
    before = fitted.sketch_.copy()
    bad = [ROWS[:10], np.full((1, 3), np.inf)]
    with pytest.raises(ValueError, match="row 10, column 'x' is inf"):
        fitted.partial_fit(iter(bad))
    assert fitted.sketch_ == before
    with pytest.raises(ValueError, match="n_samples=2 rows cannot have 3 clusters"):
        fitted.fit(iter([ROWS[:2]]))
    with pytest.raises(ValueError, match="n_samples=0 rows cannot have 3 clusters"):
        fitted.fit(TABLE[:0])
    with pytest.raises(ValueError, match="row 3, column 'y' is missing"):
        fitted.fit(TABLE.set_column(1, "y", pa.array([1.0, 2.0, 3.0, None] * 3000)))
    assert fitted.sketch_ == before
