"""Rows of many columns: cells, clusters and mixtures of them."""

import subprocess
import sys
from base64 import b64decode
from dataclasses import replace

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import sketchlearn as skl
from sketchlearn.estimators.design.cells import WIDE
from sketchlearn.features.directions import packed


def clusters(n=6000, d=100, k=4, seed=0, width=1.0):
    rng = np.random.default_rng(seed)
    centers = 2 * rng.standard_normal((k, d))
    labels = rng.integers(k, size=n)
    return (centers[labels] + width * rng.standard_normal((n, d))).astype(np.float32), labels


X, LABELS = clusters()
CELLS = {"features": skl.features.Cells()}
OPERATOR = skl.design(X[:1000], n_components=4, **CELLS)


def squared_error(rows, centers):
    return np.sum(np.min(((rows[:, None] - centers) ** 2).sum(axis=2), axis=1))


def test_many_columns_are_put_into_cells():
    assert isinstance(OPERATOR, skl.features.CellSums)
    assert OPERATOR.n_cells >= 4
    assert not isinstance(skl.design(X[:500, :WIDE], n_components=4), skl.features.CellSums)
    assert not isinstance(
        skl.design(X[:500], n_components=2, features=skl.features.Fourier(n_frequencies=50)), skl.features.CellSums
    )
    assert skl.design(X[:500, :10], n_components=4, features=skl.features.Cells(n_directions=3)).n_directions == 3


def test_cells_have_exact_means_and_squares():
    cells = OPERATOR.cells_of(X)
    shares, means, squares = OPERATOR.split(OPERATOR.sketch(X).mean)
    assert np.array_equal(shares, np.bincount(cells, minlength=OPERATOR.n_cells) / len(X))
    for cell in np.unique(cells):
        own = X[cells == cell].astype(np.float64)
        assert np.allclose(means[cell], own.mean(axis=0), rtol=0, atol=1e-4)
        assert np.allclose(squares[cell], own.var(axis=0), rtol=1e-3)


def test_cells_are_the_nearest_in_the_projection():
    places = (X - OPERATOR.middle) @ OPERATOR.projection.T
    points = np.frombuffer(b64decode(OPERATOR.cells), "<i4").reshape(-1, OPERATOR.n_directions)
    nearest = np.argmin(np.sum(points.astype(float) ** 2, axis=1) - 2 * places @ points.T, axis=1)
    assert np.mean(nearest == OPERATOR.cells_of(X)) > 0.999


@pytest.mark.parametrize("normalize", [False, True])
def test_clusters_of_cells_are_those_of_all_rows(normalize):
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if normalize else X
    found = skl.SketchKMeans(4, random_state=0, features=skl.features.Cells(normalize=normalize)).fit(X)
    peer = KMeans(4, n_init=3, random_state=0).fit(rows)
    assert squared_error(rows, found.cluster_centers_) <= 1.001 * peer.inertia_
    assert np.isclose(found.inertia_, squared_error(rows, found.cluster_centers_), rtol=1e-4)
    assert np.array_equal(found.labels_, found.predict(X))
    if normalize:
        assert np.array_equal(found.predict(2 * X), found.labels_)
    assert np.array_equal(np.argmin(found.transform(X[:50]), axis=1), found.labels_[:50])


def test_parts_and_weights_add_up_to_the_bit():
    whole = OPERATOR.sketch(X)
    parts = OPERATOR.sketch(X[:1234], n_jobs=1) + OPERATOR.sketch(X[1234:][::-1], n_jobs=2)
    assert parts == whole
    assert whole - OPERATOR.sketch(X[:1000]) == OPERATOR.sketch(X[1000:])
    weights = np.arange(len(X)) % 3
    assert OPERATOR.sketch(X, sample_weight=weights) == OPERATOR.sketch(np.repeat(X, weights, axis=0))


@pytest.mark.parametrize("kind", [np.float16, np.float32, np.float64])
def test_narrow_floats_are_those_values(kind):
    rows = X.astype(np.float16).astype(kind)
    assert OPERATOR.sketch(rows) == OPERATOR.sketch(rows.astype(np.float64))
    if kind is np.float16:
        assert len(skl.SketchKMeans(4, random_state=0).fit(rows).labels_) == len(rows)


def test_brain_floats_are_accepted():
    brain_float = pytest.importorskip("ml_dtypes").bfloat16
    rows = X.astype(brain_float)
    assert OPERATOR.sketch(rows) == OPERATOR.sketch(rows.astype(np.float32))
    assert len(skl.SketchKMeans(4, random_state=0).fit(rows).predict(rows[:5])) == 5


def test_lengths_do_not_matter_under_normalize():
    operator = skl.design(X[:500], n_components=4, features=skl.features.Cells(normalize=True))
    assert operator.sketch(X) == operator.sketch(X * 2.0**20) == operator.sketch(X.astype(np.float64) * 2.0**-900)
    zeros = operator.sketch(np.zeros((3, 100)))
    assert operator.split(zeros.mean)[0].sum() == 1


def test_files_carry_cells_and_models(tmp_path):
    model = skl.SketchKMeans(4, random_state=0, features=skl.features.Cells(normalize=True)).fit(X)
    model.sketch_.save(tmp_path / "a.sketch")
    assert skl.load(tmp_path / "a.sketch") == model.sketch_
    again = skl.SketchKMeans(4, random_state=0).fit_sketch(skl.load(tmp_path / "a.sketch"))
    assert np.isclose(again.score(X), model.score(X), rtol=1e-3)
    skl.save(model, tmp_path / "a.json")
    assert np.array_equal(skl.load(tmp_path / "a.json").predict(X), model.labels_)
    skl.save(OPERATOR, tmp_path / "design.json")
    assert skl.load(tmp_path / "design.json") == OPERATOR


def test_streams_and_standardized_columns():
    scaled = X * np.geomspace(1, 100, X.shape[1]).astype(np.float32)
    stream = skl.SketchKMeans(4, random_state=0, standardize=True)
    for block in np.array_split(scaled, 4):
        stream.partial_fit(block)
    found = stream.predict(scaled)
    assert len(np.unique(found)) == 4
    assert all(len(np.unique(found[c == LABELS])) == 1 for c in range(4))


def test_all_rows_count_where_they_are_few():
    model = skl.SketchKMeans(4, random_state=0).fit(X[:600])
    assert model.outcome_.status.name == "ALL_ROWS"
    assert squared_error(X[:600], model.cluster_centers_) <= 1.001 * KMeans(4, n_init=3).fit(X[:600]).inertia_


def test_medians_are_those_of_round_clusters():
    means, medians = (kind(4, random_state=0).fit(X) for kind in (skl.SketchKMeans, skl.SketchKMedians))
    assert np.max(np.abs(means.cluster_centers_ - medians.cluster_centers_)) < 0.1
    assert medians.score(X) > -1.001 * -skl.SketchKMedians.score(means, X)


@pytest.mark.parametrize("kind", ["diag", "spherical"])
def test_mixtures_of_cells(kind):
    mixture = skl.SketchGaussianMixture(4, covariance_type=kind, random_state=0).fit(X)
    assert np.allclose(mixture.covariances_, 1.0, atol=0.15)
    assert np.allclose(np.sort(mixture.weights_), np.sort(np.bincount(LABELS) / len(X)), atol=1e-3)
    found = mixture.predict(X)
    assert all(len(np.unique(found[c == LABELS])) == 1 for c in range(4))
    exact = -0.5 * 100 * (np.log(2 * np.pi) + 1) + np.log(0.25)
    assert np.isclose(mixture.score(X), exact, rtol=0.01)


def test_doubtful_results_say_so():
    first = np.sort(LABELS) < 2  # a sample of two clusters alone
    operator = skl.design(X[np.argsort(LABELS)][first][:500], n_components=4, **CELLS)
    with pytest.warns(ConvergenceWarning, match="times as far"):
        skl.SketchKMeans(4, random_state=0).fit_sketch(operator.sketch(X))
    far = OPERATOR.sketch(np.concatenate([X, 1e4 * X[:100]]))
    assert far.clipped == 100
    clipped = pytest.warns(ConvergenceWarning, match="beyond the design's range")
    with clipped, pytest.warns(ConvergenceWarning, match="times as far"):
        skl.SketchKMeans(4, random_state=0).fit_sketch(far)


def test_private_cells_tell_clusters_and_large_noise_says_so():
    operator = skl.design(X[:1000], n_components=4, features=skl.features.Cells(normalize=True))
    rows = X / np.linalg.norm(X, axis=1, keepdims=True)
    best = KMeans(4, n_init=3, random_state=0).fit(rows).inertia_
    release = {"delta": 1e-6, "assume_public_design": True}
    found = skl.SketchKMeans(4, random_state=0).fit_sketch(skl.privatize(operator.sketch(X), epsilon=8.0, **release))
    assert squared_error(rows, found.cluster_centers_) < 1.05 * best
    noisy = skl.privatize(operator.sketch(X, batch="again"), epsilon=0.3, **release)
    with pytest.warns(ConvergenceWarning, match="noise of the release"):
        skl.SketchKMeans(4, random_state=0).fit_sketch(noisy)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"directions": "?"}, "base 64"),
        ({"directions": packed(np.ones(3), "<i2")}, "directions must be"),
        ({"cells": packed(np.full(OPERATOR.n_directions, 2**21), "<i4")}, "cells must be"),
        ({"squares": "all"}, "squares must be"),
        ({"normalize": True}, "bound of 1"),
        ({"shift": 99}, "shift must be"),
        ({"units": (1.0,)}, "units must be"),
        ({"covariances": packed(np.ones(2), "<f4")}, "covariances must be"),
        ({"covariances": packed(np.full(2 * OPERATOR.n_cells, -1.0), "<f4")}, "no negative count"),
    ],
)
def test_impossible_cells_are_refused(change, message):
    with pytest.raises(ValueError, match=message):
        replace(OPERATOR, **change)


def test_what_cells_cannot_tell_is_refused():
    sketch = OPERATOR.sketch(X)
    with pytest.raises(ValueError, match="cannot recover 50 clusters"):
        skl.SketchKMeans(50).fit_sketch(sketch)
    without = replace(OPERATOR, covariances="").sketch(X)
    assert skl.SketchKMeans("auto", random_state=0).fit_sketch(without).n_clusters_ > 1
    with pytest.warns(UserWarning, match="cells do not determine it"):
        assert skl.SketchKMedians(4, random_state=0).fit_sketch(sketch).inertia_ is None
    with pytest.raises(ValueError, match=r"skl\.features\.Fourier"):
        skl.SketchGaussianMixture(4, covariance_type="full").fit_sketch(sketch)
    with pytest.raises(ValueError, match="normalize needs a sample"):
        skl.design(bounds=(np.zeros(100), np.ones(100)), n_components=3, features=skl.features.Cells(normalize=True))
    forged = sketch.sums.copy()
    forged[0] += 1
    with pytest.raises(ValueError, match="do not add up"):
        skl.Sketch(OPERATOR, forged, sketch.units)
    assert "row 1" in str(pytest.raises(ValueError, OPERATOR.sketch, np.array([X[0], X[0] * np.nan])).value)


def test_tables_with_many_levels_have_the_standard_sketch():
    rng = np.random.default_rng(0)
    columns = {f"c{i}": rng.choice([f"level {j}" for j in range(12)], 300) for i in range(6)}
    frame = pd.DataFrame({"x": rng.normal(size=300), **columns})
    schema = skl.schema(frame)
    operator = skl.design(frame, n_components=2, schema=schema, rows=50)
    assert operator.n_features > 64
    fitted = skl.SketchKMeans(2, schema=schema, random_state=0).fit(frame).sketch_
    for found in (operator, fitted.operator):
        assert [type(part).__name__ for part in found.parts] == ["CellSums", "Histograms", "SomeDirections"]
    assert operator.keeping.size == 50
    marginal = skl.Questions(fitted).marginal("c0")
    shares, counted = dict(zip(marginal.levels, marginal.shares, strict=True)), frame["c0"].value_counts(normalize=True)
    assert shares == pytest.approx({**counted.to_dict(), "other": 0.0})


ALONG = np.column_stack([X[:, :6] + 5 * np.eye(6)[LABELS], 1000 * LABELS + 50 * X[:, 50], X[:, 51] > 1]).astype(
    np.float64
)


def test_columns_that_travel_along_do_not_count_but_are_summed():
    model = skl.SketchKMeans(4, profile_columns=[6, -1], random_state=0).fit(ALONG)
    assert model.outcome_.status.name == "CELLS"
    others = skl.SketchKMeans(4, random_state=0).fit(ALONG[:, :6])
    assert np.isclose(model.inertia_, others.inertia_, rtol=0.003)
    changed = ALONG.copy()
    changed[:, 6:] = 0
    assert np.array_equal(model.predict(changed), model.labels_)
    assert np.array_equal(np.argmin(model.transform(changed), axis=1), model.labels_)
    operator = model.sketch_.operator
    owners = model.predict(operator.split(model.sketch_.mean)[1])[operator.cells_of(ALONG)]  # those of a record's cell
    for cluster in range(4):
        own = ALONG[owners == cluster]
        assert np.allclose(model.cluster_centers_[cluster], own.mean(axis=0), rtol=0, atol=1e-2)
        assert np.allclose(model.cluster_centers_[cluster, 7], own[:, 7].mean(), rtol=0, atol=1e-5)
        assert np.isclose(model.weights_[cluster], len(own) / len(ALONG))
        by_rows = ALONG[model.labels_ == cluster]
        assert np.allclose(model.cluster_centers_[cluster, 6:], by_rows[:, 6:].mean(axis=0), rtol=0, atol=[40, 0.02])


def test_few_rows_travel_along_exactly():
    model = skl.SketchKMeans(4, profile_columns=[6, 7], random_state=0).fit(ALONG[:900])
    assert model.outcome_.status.name == "ALL_ROWS"
    for cluster in range(4):
        assert np.allclose(model.cluster_centers_[cluster], ALONG[:900][model.labels_ == cluster].mean(axis=0))


def test_profiles_over_all_records_of_a_table(tmp_path):
    frame = pd.DataFrame(
        {
            **{f"x{i}": ALONG[:, i] for i in range(6)},
            "income": ALONG[:, 6],
            "member": np.where(ALONG[:, 7] > 0, "yes", "no"),
            "country": np.array(["FR", "DE", "IT"])[(LABELS + (ALONG[:, 7] > 0)) % 3],
        }
    )
    model = skl.SketchKMeans(4, schema="auto", profile_columns=["income", "member", "country"], random_state=0).fit(
        frame
    )
    skl.save(model, tmp_path / "model.json")
    loaded = skl.load(tmp_path / "model.json")
    assert loaded.profile_columns == ["income", "member", "country"]
    for found in (skl.profiles(model), skl.profiles(loaded, model.sketch_)):
        for profile in found:
            own, columns = frame[model.labels_ == profile.number], {one.name: one for one in profile.columns}
            assert abs(profile.share.value - len(own) / len(frame)) < 0.01
            income = columns["income"]
            assert abs(income.estimates["mean"].value - own.income.mean()) < 40
            assert abs(income.spread - own.income.std()) < 60
            assert abs(columns["member"].estimates["yes"].value - np.mean(own.member == "yes")) < 0.02
            shares = {level: one.value for level, one in columns["country"].estimates.items() if level != "other"}
            assert all(abs(share - np.mean(own.country == level)) < 0.02 for level, share in shares.items())
        assert [one.name for one in found.overall] == list(frame.columns)
    assert "income" in skl.report(model.sketch_, model)


def test_profiles_of_wide_rows_are_over_all_records():
    model = skl.SketchKMeans(4, random_state=0).fit(X)
    first = skl.profiles(model).clusters[0]
    own = X[model.labels_ == 0].astype(np.float64)
    assert first.share.error == 0
    found = {one.name: one.estimates["mean"].value for one in first.columns}
    assert np.allclose([found[f"column {i}"] for i in range(100)], own.mean(axis=0), rtol=0, atol=0.01)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"profile_columns": ["income"]}, "no names"),
        ({"profile_columns": [9]}, "profile_columns must be names"),
        ({"profile_columns": [1, 1]}, "must name each column once"),
        ({"profile_columns": list(range(8))}, "leave some for the clusters"),
        (
            {"profile_columns": [1], "features": skl.features.Cells(normalize=True)},
            "profile_columns are for clusters in cells",
        ),
        ({"profile_columns": [1], "features": skl.features.Fourier()}, "profile_columns are for clusters in cells"),
        ({"profile_columns": [1], "task": "mixture"}, "profile_columns are for clusters in cells"),
        ({"profile_columns": [1], "task": "moments", "n_components": None}, "leave them out"),
    ],
)
def test_columns_that_cannot_travel_along_are_refused(options, message):
    with pytest.raises(ValueError, match=message):
        skl.design(ALONG[:500], **{"n_components": 3, **options})


def test_along_is_refused_where_there_is_no_sample():
    with pytest.raises(ValueError, match="profile_columns need a sample"):
        skl.design(bounds=(np.zeros(3), np.ones(3)), n_components=3, profile_columns=[1])
    with pytest.raises(ValueError, match="profile_columns need cells"):
        skl.SketchKMeans("auto", profile_columns=[1]).fit(ALONG)
    operator = skl.design(ALONG[:500], n_components=3, profile_columns=[6])
    for change in ({"along": (0,)}, {"along": (6, 6)}, {"squares": "sum"}):
        with pytest.raises(ValueError, match="along"):
            replace(operator, **change)


def test_covariances_within_cells_are_those_of_the_sample():
    operator = skl.design(X[:3000], n_components=4, **CELLS)
    counts, shapes = operator.sampled_cells
    assert np.array_equal(counts, np.bincount(operator.cells_of(X[:3000]), minlength=operator.n_cells))
    places, cells = (X[3000:] - operator.middle) @ operator.projection.T, operator.cells_of(X[3000:])
    largest = np.argmax(np.bincount(cells))
    own = np.cov(places[cells == largest].T)[: len(shapes[0]), : len(shapes[0])]
    assert np.isclose(np.trace(shapes[largest]), np.trace(own), rtol=0.4)  # directions are those of the sample
    assert np.array_equal(shapes, shapes.transpose(0, 2, 1))
    assert replace(operator, covariances="") == operator
    assert skl.design(X[:24], n_components=4, **CELLS).sampled_cells is None


@pytest.mark.parametrize("normalize", [False, True])
def test_inertia_and_errors_of_cells(normalize):
    rows = X / np.linalg.norm(X, axis=1, keepdims=True) if normalize else X
    sketch = skl.design(X[:3000], n_components=4, features=skl.features.Cells(normalize=normalize)).sketch(X)
    model = skl.SketchKMeans(4, random_state=0).fit_sketch(sketch)
    assert abs(model.inertia_ + model.score(X)) <= 2 * model.inertia_error_ + 1e-5 * model.inertia_
    errors, labels = model.standard_errors_, model.predict(X)
    for cluster in range(4):
        own = rows[labels == cluster].astype(np.float64)
        assert np.allclose(errors["cluster_centers_"][cluster], own.std(axis=0) / np.sqrt(len(own)), rtol=0.01)
        share = len(own) / len(X)
        assert np.isclose(errors["weights_"][cluster], np.sqrt(share * (1 - share) / len(X)), rtol=1e-3)
    assert "separated" in model.error_bars().premise
    low, high = model.intervals()["weights_"]
    assert np.all((low < model.weights_) & (model.weights_ < high))


def test_errors_of_clusters_that_touch_are_withheld():
    rng = np.random.default_rng(0)
    rows = rng.standard_normal((8000, 100))
    rows[:, 0] += 3 * rng.integers(0, 2, 8000)
    model = skl.SketchKMeans(2, random_state=0).fit_sketch(skl.design(rows[:3000], n_components=2).sketch(rows))
    with pytest.warns(UserWarning, match="some clusters touch"):
        assert model.standard_errors_ == {}
    assert abs(model.inertia_ + model.score(rows)) <= 2 * model.inertia_error_


def test_errors_are_withheld_where_noise_or_room_does_not_allow_them():
    assert OPERATOR.squares == "columns"
    without = replace(OPERATOR, squares="sum").sketch(X)
    with pytest.warns(UserWarning, match="too many cells to store squares"):
        assert skl.SketchKMeans(4, random_state=0).fit_sketch(without).standard_errors_ == {}
    cosine = skl.design(X[:3000], n_components=4, features=skl.features.Cells(normalize=True)).sketch(X)
    private = skl.privatize(cosine, epsilon=20.0, delta=1e-6, assume_public_design=True)
    model = skl.SketchKMeans(4, random_state=0).fit_sketch(private)
    with pytest.warns(UserWarning, match="noise of a private release"):
        assert model.standard_errors_ == {}
    with pytest.warns(UserWarning, match="noise of a private release"):
        assert model.inertia_ is None
    many = skl.design(np.repeat(X, 8, axis=1), n_components=100, **CELLS)
    assert many.squares == "sum"


@pytest.mark.parametrize(("k", "n"), [(1, 3000), (4, 3000), (12, 6000), (2, 30)])
def test_the_number_of_clusters_of_many_columns(k, n):
    rows, _ = clusters(n, 100, k, seed=k)
    model = skl.SketchKMeans("auto", random_state=0).fit(rows)
    assert model.n_clusters_ == k
    assert model.choice_.basis.name == ("ROWS" if n < 5000 else "GAUSSIANS")
    assert model.sketch_.operator.part(skl.features.CellSums) is not None


@pytest.mark.parametrize(("epsilon", "basis"), [(1.0, "HIDDEN"), (20.0, "CELLS")])
def test_the_number_of_clusters_of_a_private_release_of_cells(epsilon, basis):
    operator = skl.design(X[:3000], n_components=4, features=skl.features.Cells(normalize=True))
    private = skl.privatize(operator.sketch(X), epsilon=epsilon, delta=1e-6, assume_public_design=True)
    choice = skl.choose_k(private, 10)
    assert (choice.n_clusters, choice.basis.name) == (4 if basis == "CELLS" else 1, basis)
    assert ("noise of the private release" in str(choice)) == (basis == "HIDDEN")


def test_the_choice_of_a_sketch_of_cells_is_said_and_saved(tmp_path):
    sketch = skl.design(X[:3000], n_components=10, **CELLS).sketch(X)
    choice = skl.choose_k(sketch, 10)
    assert choice.n_clusters == 4
    assert choice.low == choice.high == 4
    assert "4 Gaussians, each of some cells" in choice.sentences[0]
    assert len(choice.table()) == 11
    model = skl.SketchKMeans("auto", max_clusters=10, random_state=0).fit_sketch(sketch)
    skl.save(model, tmp_path / "model.json")
    assert skl.load(tmp_path / "model.json").choice_ == model.choice_
    largest = skl.choose_k(sketch, 3)
    assert largest.headline == "3 or more clusters"
    assert "larger max_clusters" in largest.sentences[1]


def test_columns_travel_along_on_the_command_line(tmp_path):
    frame = pd.DataFrame(ALONG[:, :7], columns=[*"abcdef", "income"])
    frame.assign(member=np.where(ALONG[:, 7] > 0, "yes", "no")).to_csv(tmp_path / "t.csv", index=False)

    def said(*arguments):
        command = [sys.executable, "-m", "sketchlearn", *arguments]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)

    made = said("design", "t.csv", "-k", "4", "--schema", "auto", "--profile-columns", "income,member", "-o", "d.json")
    assert "Voronoi cells of 6 directions of 6 columns" in made.stdout
    assert said("sketch", "t.csv", "--design", "d.json", "-o", "t.sketch").returncode == 0
    fitted = said("fit", "kmeans", "-k", "4", "t.sketch", "-o", "m.json").stdout
    assert "inertia" in fitted
    assert "; income " in fitted or ": income " in fitted
    assert "member " in fitted
    refused = said("sketch", "t.csv", "--design", "d.json", "--profile-columns", "a", "-o", "u.sketch")
    assert "--profile-columns belong to the design" in refused.stderr.replace("\n", " ")


# Bounds alone: random projections of the columns


def rows_in_box(n: int, seed: int) -> np.ndarray:
    """Four clusters of 100 columns, within -1 and 1."""
    rng = np.random.default_rng(0)
    centers = rng.uniform(-0.6, 0.6, (4, 100))
    draw = np.random.default_rng(seed)
    return (centers[draw.integers(4, size=n)] + draw.uniform(-0.3, 0.3, (n, 100))).astype(np.float32)


BOX = (np.full(100, -1.0), np.full(100, 1.0))


def test_clusters_of_wide_rows_from_bounds_alone(tmp_path):
    rows = rows_in_box(20_000, 1)
    operator = skl.design(bounds=BOX, n_components=4)
    assert [type(part).__name__ for part in operator.parts] == 3 * ["SomeDirections"] + ["CrossFeatures"]
    assert operator.origin.value == "declared"
    sketch = operator.sketch(rows[:5000]) + operator.sketch(rows[5000:].astype(np.float64))
    assert sketch == operator.sketch(rows[::-1], n_jobs=1)
    sketch.save(tmp_path / "bounds.sketch")
    assert len((tmp_path / "bounds.sketch").read_bytes()) < 2_000_000
    model = skl.SketchKMeans(4, random_state=0).fit_sketch(skl.load(tmp_path / "bounds.sketch"))
    best = KMeans(4, n_init=3, random_state=0).fit(rows).cluster_centers_
    assert squared_error(rows, model.cluster_centers_) < 1.02 * squared_error(rows, best)
    assert np.array_equal(model.predict(rows[:500]), np.argmin(model.transform(rows[:500]), axis=1))
    with pytest.warns(UserWarning, match="random projections"):
        assert model.inertia_ is None
    with pytest.warns(UserWarning, match="random projections"):
        assert model.standard_errors_ == {}


@pytest.mark.slow
def test_private_clusters_of_wide_rows_need_no_public_rows():
    rows = rows_in_box(100_000, 2)
    operator = skl.design(bounds=BOX, n_components=4, n_rows=100_000, epsilon=3.0, delta=1e-6)
    release = skl.privatize(operator.sketch(rows), epsilon=3.0, delta=1e-6)
    model = skl.SketchKMeans(4, random_state=0).fit_sketch(release)
    best = KMeans(4, n_init=3, random_state=0).fit(rows[:20_000]).cluster_centers_
    assert squared_error(rows[:5000], model.cluster_centers_) < 1.1 * squared_error(rows[:5000], best)


def test_what_random_sums_cannot_tell_is_refused():
    operator = skl.design(bounds=BOX, n_components=4)
    sketch = operator.sketch(rows_in_box(3000, 3))
    with pytest.raises(ValueError, match="determine means alone"):
        skl.SketchKMedians(4).fit_sketch(sketch)
    with pytest.raises(ValueError, match="Fourier features is needed"):
        skl.SketchGaussianMixture(4).fit_sketch(sketch)
    assert "row 1" in str(
        pytest.raises(ValueError, operator.sketch, np.array([np.zeros(100), np.full(100, np.inf)])).value
    )
    assert operator.sketch(np.full((1, 100), 5.0)) == operator.sketch(np.ones((1, 100)))  # moved onto the bounds
    other = skl.design(bounds=BOX, n_components=4, seed=1)
    mixed = skl.features.concatenate([*operator.parts[:-1], other.parts[-1]])  # of sums with other signs
    with pytest.raises(ValueError, match="Fourier features is needed"):
        skl.SketchKMeans(4).fit_sketch(mixed.sketch(rows_in_box(3000, 3)))
    loose = skl.design(bounds=(10 * BOX[0], 10 * BOX[1]), n_components=4).sketch(rows_in_box(20_000, 3))
    with pytest.warns(ConvergenceWarning, match="declare tighter ones"):
        skl.SketchKMeans(4, random_state=0).fit_sketch(loose)
    whole = skl.design(bounds=BOX, n_components=4, features=skl.features.Fourier())
    assert whole.part(skl.features.FourierFeatures).n_features == 100
