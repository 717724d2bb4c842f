"""Principal components from a sketch: equal to scikit-learn's from second moments, near them from random squares."""

import pickle

import numpy as np
import pytest
from scipy.linalg import subspace_angles
from sklearn.base import clone
from sklearn.decomposition import PCA
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl
from sketchlearn.estimators.principal_components import low_rank


def expected_to_fail(estimator):
    if estimator.n_components is not None:
        return {}
    reason = "15 rows of 30 columns: most components are along directions without variance, which are arbitrary"
    return {f"check_sample_weight_equivalence_on_{kind}_data": reason for kind in ("dense", "sparse")}


@parametrize_with_checks(
    [skl.SketchPCA(2), skl.SketchPCA(), skl.SketchPCA(0.5), skl.SketchPCA(1, n_directions=40, random_state=0)],
    expected_failed_checks=expected_to_fail,
)
def test_scikit_learn(estimator, check):
    check(estimator)


def rows_of(n=4000, d=8, seed=0, spectrum=None, shift=3.0):
    rng = np.random.default_rng(seed)
    rotation = np.linalg.qr(rng.standard_normal((d, d)))[0]
    sizes = np.geomspace(5, 0.1, d) if spectrum is None else np.sqrt(spectrum)
    return rng.standard_normal((n, d)) * sizes @ rotation + shift


def angle(a, b):
    """The largest angle between two subspaces, in degrees."""
    return np.degrees(subspace_angles(a.T, b.T).max())


@pytest.mark.parametrize("shift", [0.0, 100.0])
@pytest.mark.parametrize("k", [1, 3, 8])
def test_equals_scikit_learn(k, shift):
    X = rows_of(shift=shift)
    own, other = skl.SketchPCA(k).fit(X), PCA(k).fit(X)
    assert angle(own.components_, other.components_) < 1e-3
    np.testing.assert_allclose(own.components_, other.components_, atol=1e-4)  # signs too
    np.testing.assert_allclose(own.explained_variance_, other.explained_variance_, rtol=1e-6, atol=1e-7)
    np.testing.assert_allclose(own.explained_variance_ratio_, other.explained_variance_ratio_, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(own.noise_variance_, other.noise_variance_, rtol=1e-5, atol=1e-7)
    np.testing.assert_allclose(own.mean_, other.mean_, rtol=1e-8)
    np.testing.assert_allclose(own.transform(X), other.transform(X), atol=2e-3)
    np.testing.assert_allclose(
        own.inverse_transform(own.transform(X)), other.inverse_transform(other.transform(X)), atol=2e-3
    )
    assert own.residual_ == 0


@pytest.mark.parametrize(("share", "whiten"), [(0.5, True), (0.95, False), (0.999999, True), (3, True), (None, True)])
def test_shares_of_variance_and_whitening_are_those_of_scikit_learn(share, whiten):
    X = rows_of()
    own, other = skl.SketchPCA(share, whiten=whiten).fit(X), PCA(share, whiten=whiten).fit(X)
    assert own.n_components_ == other.n_components_
    np.testing.assert_allclose(own.transform(X), other.transform(X), atol=2e-3)
    np.testing.assert_allclose(
        own.inverse_transform(own.transform(X)), other.inverse_transform(other.transform(X)), atol=2e-3
    )


def test_a_share_of_variance_must_be_one():
    for share in (0.0, 1.5, -0.5):
        with pytest.raises(ValueError, match="a proportion of the variance between 0 and 1"):
            skl.SketchPCA(share).fit(rows_of())
    with pytest.raises(ValueError, match="give n_components, such as 10"):
        skl.SketchPCA(0.9, n_directions=40).fit(rows_of())


D, K = 60, 3
SPECTRA = {
    "floor": np.concatenate([[9.0, 7.0, 5.0], np.full(D - K, 0.5)]),
    "decay": np.concatenate([[9.0, 7.0, 5.0], 1.0 / np.arange(1, D - K + 1)]),
}


@pytest.mark.parametrize("spectrum", SPECTRA)
def test_compressive_components_explain_as_much(spectrum):
    X = rows_of(20_000, D, 1, SPECTRA[spectrum])
    own, other = skl.SketchPCA(K, n_directions=4 * K * D, random_state=0).fit(X), PCA(K).fit(X)
    assert len(own.sketch_.sums) == 4 * K * D + 2 * D
    variance = np.sum(np.var((X - X.mean(axis=0)) @ own.components_.T, axis=0, ddof=1))
    assert variance >= 0.99 * other.explained_variance_.sum()
    np.testing.assert_allclose(own.explained_variance_, other.explained_variance_, rtol=0.05)
    np.testing.assert_allclose(own.explained_variance_ratio_, other.explained_variance_ratio_, rtol=0.05)
    np.testing.assert_allclose(own.mean_, other.mean_, atol=1e-6)
    np.testing.assert_allclose(own.components_ @ own.components_.T, np.eye(K), atol=1e-6)
    assert 0 <= own.residual_ < 0.5


def test_the_mean_is_that_of_all_rows_not_of_the_first():
    X = rows_of(12_000, 20, 2, np.concatenate([[20.0], np.full(19, 0.1)]))
    X[:6000] += 1.0  # as far as the first batches tell, elsewhere
    stream = skl.SketchPCA(2, n_directions=300, random_state=0)
    for batch in np.array_split(X, 6):
        stream.partial_fit(batch)
    other = PCA(2).fit(X)
    assert angle(stream.components_, other.components_) < 2
    np.testing.assert_allclose(stream.explained_variance_, other.explained_variance_, rtol=0.02)
    np.testing.assert_allclose(stream.mean_, other.mean_, atol=1e-5)


def test_low_rank_matrices_are_found_exactly():
    rng = np.random.default_rng(0)
    U = rng.standard_normal((30, 2))
    omega = rng.standard_normal((30, 400))
    omega *= np.sqrt(30) / np.linalg.norm(omega, axis=0)
    factors, floor, residual = low_rank(omega, np.sum((U.T @ omega) ** 2, axis=0) + 30 * 0.7, 2)
    np.testing.assert_allclose(factors @ factors.T, U @ U.T, atol=1e-3)
    assert floor == pytest.approx(0.7, abs=1e-3)
    assert residual < 1e-2


@pytest.mark.parametrize("options", [{}, {"n_directions": 100}])
def test_sketches_save_merge_and_stream(options, tmp_path):
    X = rows_of(7000)
    fitted = skl.SketchPCA(2, random_state=0, **options).fit(X)
    fitted.sketch_.save(tmp_path / "rows.sketch")
    again = skl.SketchPCA(2).fit_sketch(skl.load(tmp_path / "rows.sketch"))
    assert np.array_equal(again.components_, fitted.components_)
    operator = fitted.sketch_.operator
    merged = operator.sketch(X[5000:]) + operator.sketch(X[:5000])
    assert merged == fitted.sketch_
    stream = skl.SketchPCA(2, random_state=0, **options)
    for batch in np.array_split(X, 9):
        stream.partial_fit(batch)
    assert stream.sketch_.count == 7000
    assert angle(stream.components_, PCA(2).fit(X).components_) < 2


def test_names_and_output(tmp_path):
    pandas = pytest.importorskip("pandas")
    table = pandas.DataFrame(rows_of(d=3), columns=["a", "b", "c"])
    fitted = skl.SketchPCA(2).set_output(transform="pandas").fit(table)
    assert fitted.feature_names_in_.tolist() == ["a", "b", "c"]
    assert fitted.transform(table).columns.tolist() == ["sketchpca0", "sketchpca1"]
    assert fitted.sketch_.operator.columns == ("a", "b", "c")
    table.to_csv(tmp_path / "rows.csv", index=False)
    of_file = skl.SketchPCA(2, random_state=0).fit(tmp_path / "rows.csv")
    assert angle(of_file.components_, fitted.components_) < 1e-3
    np.testing.assert_allclose(of_file.transform(tmp_path / "rows.csv"), fitted.transform(table), atol=1e-3)
    assert np.array_equal(fitted.transform(table[["c", "b", "a"]]), fitted.transform(table))


def test_dask():
    dask_array = pytest.importorskip("dask.array")
    X = rows_of()
    fitted = skl.SketchPCA(3, random_state=0).fit(dask_array.from_array(X, chunks=(500, 8)))
    assert angle(fitted.components_, PCA(3).fit(X).components_) < 1e-3


def test_copies_are_whole():
    fitted = skl.SketchPCA(2).fit(rows_of())
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.transform(rows_of(50)), fitted.transform(rows_of(50)))
    assert clone(fitted).get_params() == fitted.get_params()


def test_many_columns_are_compressed_by_themselves(monkeypatch):
    monkeypatch.setattr("sketchlearn.estimators.principal_components.MOST_EXACT_COLUMNS", 7)
    fitted = skl.SketchPCA(1, random_state=0).fit(rows_of())
    assert isinstance(fitted.sketch_.operator.parts[0], skl.features.QuadraticFeatures)
    assert fitted.sketch_.operator.parts[0].n_directions == 4 * 8


X0 = rows_of(100)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: skl.SketchPCA(0).fit(X0), "n_components must be a whole number"),
        (lambda: skl.SketchPCA(9).fit(X0), "n_components=9 must be at most the number of columns, 8"),
        (lambda: skl.SketchPCA(2, n_directions=0).fit(X0), "n_directions must be a whole number"),
        (lambda: skl.SketchPCA(n_directions=50).fit(X0), "give n_components"),
        (lambda: skl.SketchPCA(3).fit(X0[:2]), "n_samples=2 rows are too few"),
        (lambda: skl.SketchPCA(1).fit(np.full((9, 2), 5.0)), "all rows are equal"),
        (lambda: skl.SketchPCA(1, n_directions=9).fit(np.full((9, 2), 5.0)), "all rows are equal"),
        (lambda: skl.SketchPCA(1).fit_sketch(skl.features.QuadraticFeatures(8, 20, bound=99.0).sketch(X0)),
         r"needs a sketch of second moments \(skl.features.SecondMoments\), but the sketch is of QuadraticFeatures"),
        (lambda: skl.SketchPCA(1).fit_sketch(skl.Sketch(skl.features.SecondMoments(2, bound=1.0))), "sketch is empty"),
        (lambda: skl.SketchPCA(2).fit(X0).inverse_transform(X0), "8 coordinates, but there are 2 components"),
        (lambda: skl.SketchPCA(2, bounds=(-1, 1)).fit(X0), r"bounds=\(lowest, highest\)"),
        (lambda: skl.SketchPCA(2, 50, bounds=(-1, 1)).fit(X0), r"bounds=\(lowest, highest\)"),
    ],
)  # fmt: skip
def test_bad_input_is_named(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_declared_bounds_need_no_look_at_the_rows():
    X = rows_of(shift=0.0)
    for options in ({}, {"n_directions": 200}):
        fitted = skl.SketchPCA(1, bounds=(-40, 40), random_state=0, **options).fit(iter([X]))
        assert angle(fitted.components_, PCA(1).fit(X).components_) < 6


def test_progress_goes_to_standard_error(capsys):
    skl.SketchPCA(2, 60, random_state=0, verbose=1).fit(rows_of())
    assert "of the variance in 2 components" in capsys.readouterr().err
