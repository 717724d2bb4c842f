"""Cells at a pilot: exact sums of all rows at the k-means of a sample, and Lloyd's steps by further passes."""

import inspect
import sys
from functools import wraps
from itertools import pairwise

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning

import sketchlearn as skl
from sketchlearn.features.directions import packed
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.rows.source import source

K, D = 30, 8


def blobs(n, seed=0, apart=4.0, k=K, d=D):
    rng = np.random.default_rng(seed)
    return apart * rng.standard_normal((k, d))[rng.integers(k, size=n)] + rng.standard_normal((n, d))


X = blobs(12_000)


def cost(rows, centers):
    return float(np.min(((rows[:, None] - centers) ** 2).sum(axis=2), axis=1).sum())


@pytest.fixture(scope="module")
def operator():
    return skl.design(X[:3000], n_components=K, features=skl.features.Cells(n_directions=0))


def test_sums_are_those_of_each_cell(operator):
    labels = operator.cells_of(X)
    shares, means, squares = operator.split(operator.sketch(X).mean)
    for cell in range(operator.n_cells):
        own = X[labels == cell]
        assert shares[cell] == len(own) / len(X)
        np.testing.assert_allclose(means[cell], own.mean(axis=0) if len(own) else 0, atol=1e-5)
        np.testing.assert_allclose(squares[cell], own.var(axis=0) if len(own) else 0, atol=2e-3)


def test_cells_are_those_of_the_nearest_points(operator):
    away = ((X[:, None] - operator.points) ** 2).sum(axis=2)
    own = away[np.arange(len(X)), operator.cells_of(X)]
    np.testing.assert_allclose(own, away.min(axis=1), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("kind", [np.float32, np.float64])
@pytest.mark.parametrize("order", ["C", "F"])
def test_the_same_integers_whatever_the_layout(operator, kind, order):
    rows = np.asarray(X[:500], kind, order=order)
    whole = operator.sketch(rows, n_jobs=2)
    assert whole == operator.sketch(np.ascontiguousarray(rows[:200])) + operator.sketch(rows[200:][::-1])
    assert np.array_equal(whole.sums, operator.write_rows(rows, 1)[0].sum(axis=0))


def test_rows_beyond_the_bound(operator):
    far = X[:50].copy()
    far[3], far[7, 2] = 1e300, -1e6
    sketch = operator.sketch(far)
    assert sketch.clipped == operator.beyond(far).sum() == 2
    assert np.array_equal(sketch.sums, operator.write_rows(far, 1)[0].sum(axis=0))
    wide = operator.widened(far.min(axis=0), far.max(axis=0))
    assert wide.beyond(far).tolist() == [row == 3 for row in range(len(far))]  # too far to count beside the others
    np.testing.assert_allclose(wide.points, operator.points, rtol=1e-5, atol=1e-4)


@pytest.mark.parametrize("value", [np.nan, np.inf])
@pytest.mark.parametrize("kind", [np.float32, np.float64])
def test_values_that_are_not_finite_are_refused(operator, value, kind):
    odd = X[:20].astype(kind)
    odd[11, 5] = value
    with pytest.raises(ValueError, match="row 11, column 5"):
        operator.sketch(odd)
    assert operator.write_rows(odd, 1)[1] == 11


def test_rows_beyond_the_bound_can_be_refused():
    strict = skl.features.CellSums.at_points(
        np.zeros((2, 1)), bound=np.ones(1), center=np.zeros(1), units=np.ones(1), outside="refuse"
    )
    with pytest.raises(ValueError, match=r"row 1, column 0 is 2\.0, beyond the bound"):
        strict.sketch([[0.5], [2.0]])
    assert strict.sketch([[0.5], [-1.0]]).count == 2


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"squares": "sum"}, "need squares of each column"),
        ({"shift": 3}, "need squares of each column"),
        ({"bound": [1e-31] * D}, "beyond what float32 can divide by"),
        ({"bound": [1.0] * (D - 1) + [1e31]}, "beyond what float32 can divide by"),
        ({"normalize": True}, "need squares of each column"),
        ({"cells": packed(np.full((2, D + 1), np.nan), "<f4")}, "finite numbers"),
        ({"cells": packed(np.zeros(D), "<f4")}, "rows of 9 numbers"),
    ],
)
def test_impossible_cells_are_refused(operator, changed, message):
    form = {**operator.to_json(), **changed}
    with pytest.raises(ValueError, match=message):
        skl.features.CellSums.from_json(form)


def test_many_coordinates_are_learned_from_cells_at_a_pilot():
    model = skl.SketchKMeans(K, random_state=0).fit(X)
    assert model.sketch_.operator.in_columns
    assert model.inertia_ <= 1.0001 * min(KMeans(K, random_state=i).fit(X).inertia_ for i in range(3))
    again = skl.SketchKMeans(K, random_state=1).fit_sketch(model.sketch_)
    assert np.array_equal(again.cluster_centers_, model.cluster_centers_)
    assert abs(again.inertia_ - model.inertia_) <= 5 * again.inertia_error_


def test_frequencies_are_asked_for_and_tell_unknown_numbers():
    assert skl.SketchKMeans(3, random_state=0).fit(X).outcome_.status is Status.STEP
    assert (
        skl.SketchKMeans(3, features=skl.features.Fourier(n_frequencies=300), random_state=0)
        .fit(X)
        .sketch_.operator.part(skl.features.CellSums)
        is None
    )
    unknown = skl.SketchKMeans("auto", max_clusters=4, random_state=0)
    assert unknown.fit(X[:2000]).sketch_.operator.part(skl.features.CellSums) is None
    assert skl.design(X, n_components=K).part(skl.features.CellSums) is None


def test_far_rows_that_the_sample_lacks_have_centers():
    rows = blobs(60_000, 1, 1.0)
    rows[:5] *= 1e4
    model, best = skl.SketchKMeans(K, random_state=0).fit(rows), KMeans(K, n_init=10, random_state=0).fit(rows)
    assert model.inertia_ <= 1.002 * best.inertia_
    with pytest.warns(ConvergenceWarning, match="times as far from the means of their cells"):
        skl.SketchKMeans(K, n_passes=1, random_state=0).fit(rows)


def test_a_rival_is_taken_only_if_it_costs_less_on_all_rows(monkeypatch):
    rows = blobs(60_000, 2)
    best = KMeans(K, n_init=10, random_state=0).fit(rows).inertia_
    for points in (rows[:K], np.zeros((K, D)) + np.arange(K)[:, None]):
        monkeypatch.setattr(
            skl.SketchKMeans, "rival_of", lambda _, step, __, at=points: step.cells.operator.moved_to(at)
        )
        assert skl.SketchKMeans(K, random_state=0).fit(rows).inertia_ <= 1.0001 * best


def test_clusters_that_are_too_narrow_for_float32():
    rng = np.random.default_rng(0)  # positions on a genome, say: clusters have 4e-8 of all squares
    places = np.cumsum(rng.exponential(1e7, K))[rng.integers(K, size=1000)]
    near = rng.exponential(3e4, 1000) * rng.choice([0.01, 1], 1000)
    rows = np.column_stack([places + near, rng.standard_normal(1000)])
    for weights in (None, rng.integers(1, 3, 1000)):
        best = KMeans(K, n_init=10, random_state=0).fit(rows, sample_weight=weights)
        model = skl.SketchKMeans(K, random_state=0).fit(rows, sample_weight=weights)
        assert model.inertia_ <= 1.001 * best.inertia_  # 1.006 after a step in float32
        assert np.array_equal(model.labels_, model.predict(rows))
    with pytest.warns(ConvergenceWarning, match="in float32, rows may count in the wrong one"):
        skl.SketchKMeans(K, features=skl.features.Cells(n_directions=0), random_state=0).fit(
            source(iter([rows[:500], rows[500:]]))
        )


@pytest.mark.parametrize("apart", [0.0, 1.0])
def test_no_pass_is_worse_than_the_one_before(apart):
    rows = blobs(20_000, 1, apart)
    costs = [skl.SketchKMeans(K, n_passes=n, random_state=0).fit(rows).inertia_ for n in (1, 2, 3, 6)]
    assert all(later <= earlier * (1 + 1e-9) for earlier, later in pairwise(costs))


@pytest.mark.parametrize(("apart", "again"), [(10.0, False), (0.0, True)])
def test_rows_are_read_again_only_where_that_gains_something(apart, again, capsys):
    rows = blobs(250_000, 1, apart)
    model = skl.SketchKMeans(K, verbose=True, random_state=0).fit(rows)
    assert ("another pass over the rows" in "".join(capsys.readouterr())) == again
    assert model.inertia_ <= (1 + 2e-5) * skl.SketchKMeans(K, n_passes=4, random_state=0).fit(rows).inertia_


@pytest.mark.parametrize("seed", range(5))
def test_a_step_is_never_worse_than_the_pilot(seed):
    rows = blobs(5000, seed, seed / 2)
    pilot = skl.design(rows[:1000], n_components=K, features=skl.features.Cells(n_directions=0), seed=seed)
    shares, means, _ = pilot.split(pilot.sketch(rows).mean)
    assert cost(rows, means[shares > 0]) <= cost(rows, pilot.points) * (1 + 1e-9)


def test_passes_over_weighted_rows_are_those_of_repeated_ones():
    weights = np.random.default_rng(0).integers(1, 4, len(X))
    some = skl.SketchKMeans(K, random_state=0).fit(X, sample_weight=weights)
    labels = some.predict(X)
    for cluster in range(K):
        own = labels == cluster
        mean = np.average(X[own], axis=0, weights=weights[own])
        np.testing.assert_allclose(some.cluster_centers_[cluster], mean, atol=0.02)


@pytest.mark.parametrize("scale", [1e-20, 1e20])
def test_small_and_large_numbers(scale):
    plain, scaled = (skl.SketchKMeans(K, random_state=0).fit(some) for some in (X, X * scale))
    assert scaled.inertia_ == pytest.approx(plain.inertia_ * scale**2, rel=1e-3)


def test_standardized_columns_of_any_size():
    rows = X * np.geomspace(1e-4, 1e6, D)
    plain, scaled = (skl.SketchKMeans(K, standardize=True, random_state=0).fit(some) for some in (X, rows))
    assert scaled.sketch_.operator.in_columns
    assert scaled.inertia_ == pytest.approx(plain.inertia_, rel=1e-3)


def test_small_columns_beside_large_ones_have_their_means():
    rows = X.copy()
    rows[:, 0] *= 1e6
    model = skl.SketchKMeans(K, random_state=0).fit(rows)
    labels = model.labels_
    means = np.array([rows[labels == j].mean(axis=0) for j in range(K)])
    np.testing.assert_allclose(model.cluster_centers_[:, 1:], means[:, 1:], atol=0.05)


def test_errors_are_those_of_means():
    model = skl.SketchKMeans(K, random_state=0).fit(blobs(30_000, 2, 6.0))
    errors = model.standard_errors_["cluster_centers_"]
    expected = 1 / np.sqrt(30_000 * model.weights_)[:, None]
    # each is the deviation of 170 kept rows or so, which is known to 6 %; of 240 of them, some are 4 times as far off
    np.testing.assert_allclose(errors, np.broadcast_to(expected, errors.shape), rtol=0.35)
    assert np.mean(errors / expected) == pytest.approx(1, abs=0.03)


def test_noise_that_moves_centers_is_told(operator):
    private = skl.privatize(operator.sketch(X), epsilon=1.0, assume_public_design=True, seed_for_tests_not_private=0)
    with pytest.warns(ConvergenceWarning, match="noise of the release"):
        skl.SketchKMeans(5, random_state=0).fit_sketch(private)


def test_files_are_read_once_unless_more_passes_are_asked_for(tmp_path):
    np.save(tmp_path / "rows.npy", X)
    once, twice = (skl.SketchKMeans(K, n_passes=n, random_state=0).fit(tmp_path / "rows.npy") for n in ("auto", 3))
    assert cost(X, twice.cluster_centers_) <= cost(X, once.cluster_centers_) * (1 + 1e-9)
    assert twice.sketch_.count == once.sketch_.count == len(X)


@pytest.mark.parametrize("n", [0, 1.5, "twice"])
def test_passes_must_be_a_number(n):
    with pytest.raises(ValueError, match="n_passes"):
        skl.SketchKMeans(K, n_passes=n).fit(X)


def test_a_stream_cannot_be_read_twice():
    with pytest.raises(ValueError, match="leave out n_passes"):
        skl.SketchKMeans(K, features=skl.features.Cells(n_directions=0), n_passes=2, random_state=0).fit(
            source(iter([X[:6000], X[6000:]]))
        )


def test_medians_are_learned_from_the_same_cells():
    model = skl.SketchKMedians(K, random_state=0).fit(X)
    assert model.sketch_.operator.in_columns
    assert np.median(np.linalg.norm(X - model.cluster_centers_[model.labels_], axis=1)) < np.sqrt(D) * 1.2


@pytest.mark.parametrize(
    "model", [skl.SketchKMeans(K), skl.SketchKMedians(K), skl.SketchGaussianMixture(K, covariance_type="diag")]
)
def test_rows_pass_few_files_on_their_way_to_a_kernel(model, monkeypatch):
    deepest = []

    def counted(function):
        @wraps(function)
        def call(*args, **kwargs):
            frames = (frame.filename for frame in inspect.stack(context=0)[1:])
            deepest.append(len({name for name in frames if "sketchlearn" in name and not name.startswith("<")}))
            return function(*args, **kwargs)

        return call

    model.set_params(random_state=0).fit(X)  # imports
    for module in [module for name, module in sys.modules.items() if name.startswith("sketchlearn.")]:
        for name, found in vars(module).copy().items():
            if type(found).__name__ == "nb_func":
                monkeypatch.setattr(module, name, counted(found))
    model.fit(X)
    assert 3 <= max(deepest) <= 15


def test_explain_tells_clusters_of_cells_from_those_of_steps(tmp_path):
    np.save(tmp_path / "rows.npy", blobs(60_000))
    once, twice = (skl.SketchKMeans(K, n_passes=n, random_state=0).fit(tmp_path / "rows.npy") for n in (1, 2))
    told = skl.explain(once)
    assert len(once.sketch_.operator.points) > K
    assert "gain" not in told.figures
    assert "Further passes" in told.sentences[-1]
    assert skl.explain(twice).figures["gain"] < 0.01


def test_streams_tell_of_rows_beyond_their_design():
    model = skl.SketchKMeans(K, features=skl.features.Cells(n_directions=0), random_state=0).partial_fit(X[:5000])
    model.partial_fit(500 * X[5000:])
    with pytest.warns(ConvergenceWarning) as told:
        model.cluster_centers_  # noqa: B018 - learned when it is asked for
    assert any("of the records lie beyond the design's range" in str(warning.message) for warning in told)


def test_clusters_far_apart_are_not_too_close(recwarn, tmp_path):
    rows = np.random.default_rng(0).standard_normal((60_000, 2)) + 1000 * (np.arange(60_000) % 2)[:, None]
    np.save(tmp_path / "rows.npy", rows)
    model = skl.SketchKMeans(2, random_state=0).fit(tmp_path / "rows.npy")
    assert cost(rows, model.cluster_centers_) <= 2 * 60_000 * 1.01
    assert not [warning for warning in recwarn if "float32" in str(warning.message)]
