"""Linear regression from a sketch equals scikit-learn's, whatever the way to the sketch."""

import pickle

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.sparse import csr_array
from sklearn.base import clone
from sklearn.linear_model import LinearRegression, Ridge
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl
from sketchlearn.estimators.linear_regression import Regression
from sketchlearn.features import SecondMoments
from sketchlearn.inference.moments import Moments


@pytest.mark.filterwarnings("ignore:the features are singular:UserWarning")  # columns that never change
@parametrize_with_checks([skl.SketchLinearRegression(), skl.SketchRidge(), skl.SketchRidge("gcv")])
def test_scikit_learn(estimator, check):
    check(estimator)


COEF = np.array([[1.0, -2.0, 0.5, 0.0], [0.0, 3.0, 1.0, -1.0]])


def problem(n=3000, seed=0, scales=(1.0, 1.0, 1.0, 1.0), shift=0.0, noise=0.3):
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n, 4)) @ (np.eye(4) + 0.3) + shift
    y = X @ COEF.T + [5.0, -7.0] + noise * rng.standard_normal((n, 2))
    return X * scales, y


TABLE = {
    "plain": {},
    "units": {"scales": (1e-2, 1.0, 30.0, 1e3)},
    "shifted": {"shift": 1e4},
    "exact": {"noise": 0.0},
    "few rows": {"n": 30},
}
PAIRS = {
    "linear": (skl.SketchLinearRegression(), LinearRegression()),
    "no intercept": (skl.SketchLinearRegression(fit_intercept=False), LinearRegression(fit_intercept=False)),
    "ridge": (skl.SketchRidge(alpha=50.0), Ridge(alpha=50.0)),
    "ridge, no intercept": (skl.SketchRidge(alpha=3.0, fit_intercept=False), Ridge(alpha=3.0, fit_intercept=False)),
}


@pytest.mark.parametrize("case", TABLE)
@pytest.mark.parametrize("pair", PAIRS)
def test_equals_scikit_learn(case, pair):
    if case == "shifted" and "no" in pair:
        pytest.skip("columns that are all but equal: nothing to compare to 1e-6")
    X, y = problem(**TABLE[case])
    own, other = (clone(estimator).fit(X, y) for estimator in PAIRS[pair])
    size = np.abs(other.coef_) * X.std(axis=0)
    assert np.all(np.abs(own.coef_ - other.coef_) * X.std(axis=0) <= 1e-6 * size.max())
    np.testing.assert_allclose(own.predict(X), other.predict(X), atol=1e-5 * np.abs(y).max())
    np.testing.assert_allclose(own.r2_, other.score(X, y), atol=1e-6)
    assert own.coef_.shape == (2, 4)
    assert own.intercept_.shape == (2,) or not own.fit_intercept


def test_columns_of_wildly_different_units():
    scales = np.array([1e-9, 1.0, 1e6, 1e12])
    X, y = problem()
    fitted = skl.SketchLinearRegression().fit(X * scales, y)
    np.testing.assert_allclose(fitted.coef_ * scales, LinearRegression().fit(X, y).coef_, rtol=0, atol=1e-6)


def test_one_target_has_no_second_dimension():
    X, y = problem()
    fitted = skl.SketchLinearRegression().fit(X, y[:, 0])
    assert fitted.coef_.shape == (4,)
    assert isinstance(fitted.intercept_, float)
    assert fitted.predict(X).shape == (3000,)
    assert skl.SketchLinearRegression().fit(X, y[:, :1]).predict(X).shape == (3000, 1)


def test_generalised_cross_validation_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    X = rng.standard_normal((60, 20))
    y = X[:, 0] + 2 * rng.standard_normal(60)
    fitted = skl.SketchRidge("gcv").fit(X, y)

    def score(alpha):
        A = X - X.mean(axis=0)
        H = A @ np.linalg.solve(A.T @ A + alpha * np.eye(20), A.T) + 1 / 60
        return 60 * np.sum((y - H @ y) ** 2) / (60 - np.trace(H)) ** 2

    grid = np.geomspace(1e-3, 1e5, 400)
    best = min(map(score, grid))
    assert score(fitted.alpha_) <= best * 1.0001
    assert 1 < fitted.alpha_ < 1e4
    assert score(1e-3) > best * 1.05


@settings(max_examples=25, deadline=None)
@given(cut=st.integers(1, 299), seed=st.integers(0, 100))
def test_sketches_of_two_places_merge(cut, seed):
    X, y = problem(300, seed)
    rows = np.column_stack([X, y])
    operator = SecondMoments(6, bound=np.abs(rows).max() + 1)
    merged = operator.sketch(rows[:cut]) + operator.sketch(rows[cut:])
    whole = skl.SketchLinearRegression().fit_sketch(operator.sketch(rows), n_targets=2)
    parts = skl.SketchLinearRegression().fit_sketch(merged, n_targets=2)
    assert np.array_equal(parts.coef_, whole.coef_)
    np.testing.assert_allclose(parts.coef_, LinearRegression().fit(X, y).coef_, atol=1e-5)


def test_a_saved_sketch_is_enough(tmp_path):
    X, y = problem()
    fitted = skl.SketchLinearRegression().fit(X, y)
    fitted.sketch_.save(tmp_path / "rows.sketch")
    again = skl.SketchLinearRegression().fit_sketch(skl.load(tmp_path / "rows.sketch"), n_targets=2)
    assert np.array_equal(again.coef_, fitted.coef_)
    assert np.array_equal(again.predict(X), fitted.predict(X))
    one = skl.SketchLinearRegression().fit_sketch(fitted.sketch_, targets=[0])
    assert one.n_features_in_ == 5


def test_batches_do_not_matter():
    X, y = problem(9000)
    stream = skl.SketchLinearRegression()
    for part in np.array_split(np.arange(9000), 7):
        stream.partial_fit(X[part], y[part])
    np.testing.assert_allclose(stream.coef_, LinearRegression().fit(X, y).coef_, rtol=0, atol=1e-6)
    assert stream.sketch_.count == 9000
    short = skl.SketchLinearRegression().partial_fit(X[:10], y[:10]).partial_fit(X[10:20], y[10:20])
    np.testing.assert_allclose(short.coef_, LinearRegression().fit(X[:20], y[:20]).coef_, rtol=0, atol=1e-5)


def test_columns_by_name_from_tables_and_files(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = problem()
    table = pandas.DataFrame(np.column_stack([X[:, :2], y, X[:, 2:]]), columns=["a", "b", "u", "v", "c", "d"])
    table.to_csv(tmp_path / "rows.csv", index=False)
    expected = LinearRegression().fit(X, y).coef_
    for data in (tmp_path / "rows.csv", skl.source(table), iter([table[:1000], table[1000:]])):
        fitted = skl.SketchLinearRegression(random_state=0).fit(data, y=["u", "v"])
        np.testing.assert_allclose(fitted.coef_, expected, atol=1e-6)
        assert fitted.feature_names_in_.tolist() == ["a", "b", "c", "d"]
        np.testing.assert_allclose(fitted.predict(table[["a", "b", "c", "d"]]), y, atol=2)
    assert fitted.sketch_.operator.columns == ("a", "b", "u", "v", "c", "d")
    one = skl.SketchLinearRegression().fit(table[["a", "b", "c", "d", "u"]], "u")
    np.testing.assert_allclose(one.coef_, expected[0], atol=1e-6)
    named = skl.SketchLinearRegression().fit(table[["a", "b", "c", "d"]], table["u"])
    assert named.sketch_.operator.columns == ("a", "b", "c", "d", "u")
    again = skl.SketchLinearRegression().fit_sketch(named.sketch_, targets="u")
    assert again.feature_names_in_.tolist() == ["a", "b", "c", "d"]
    stream = skl.SketchLinearRegression()
    for part in (table[:1000], table[1000:]):
        stream.partial_fit(skl.source(part), y=["u", "v"])
    np.testing.assert_allclose(stream.coef_, expected, atol=3e-6)


def test_dask():
    dask_array = pytest.importorskip("dask.array")
    X, y = problem()
    rows = dask_array.from_array(np.column_stack([X, y]), chunks=(500, 6))
    fitted = skl.SketchLinearRegression(random_state=0).fit(rows, y=[4, 5])
    np.testing.assert_allclose(fitted.coef_, LinearRegression().fit(X, y).coef_, atol=1e-6)


@pytest.mark.parametrize(
    ("X", "told"),
    [
        (np.column_stack([np.arange(50.0), np.full(50, 7.0)]), "rank is 1 of 2 "),
        (np.column_stack([np.arange(50.0), 3 * np.arange(50.0) + 1]), "rank is 1 of 2 "),
        (np.zeros((50, 3)), "rank is 0 of 3 "),
    ],
)
def test_singular_features_are_told_and_still_predict(X, told):
    y = 2 * X[:, 0] + 1
    with pytest.warns(UserWarning, match=told):
        fitted = skl.SketchLinearRegression().fit(X, y)
    np.testing.assert_allclose(fitted.predict(X), y, atol=1e-5)
    assert np.array_equal(fitted.coef_ == 0, X.std(axis=0) == 0)


def test_a_target_that_never_changes():
    X, _ = problem(100)
    fitted = skl.SketchLinearRegression().fit(X, np.full(100, 3.3))
    np.testing.assert_allclose(fitted.coef_, 0, atol=1e-8)
    assert fitted.intercept_ == pytest.approx(3.3)
    assert fitted.r2_ == 1.0


X0, Y0 = problem(100)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: skl.SketchLinearRegression().fit_sketch(skl.design(X0, n_components=2).sketch(X0)),
         r"needs a sketch of second moments \(skl\.features\.SecondMoments\), but the sketch is of Concatenated"),
        (lambda: skl.SketchLinearRegression().fit_sketch(skl.Sketch(SecondMoments(2, bound=1.0))), "is empty"),
        (lambda: skl.SketchLinearRegression().fit_sketch(SecondMoments(1, bound=9.0).sketch(X0[:, :1])),
         "one column"),
        (lambda: skl.SketchLinearRegression().fit_sketch(SecondMoments(4, bound=9.0).sketch(X0), n_targets=4),
         "n_targets must be a whole number from 1 to 3"),
        (lambda: skl.SketchLinearRegression().fit_sketch(SecondMoments(4, bound=9.0).sketch(X0), targets="y"),
         "columns have no names"),
        (lambda: skl.SketchLinearRegression().fit(X0[:1], Y0[:1]), "n_samples=1 rows do not determine a regression"),
        (lambda: skl.SketchRidge(-1.0).fit(X0, Y0), "must not be negative"),
        (lambda: skl.SketchRidge("best").fit(X0, Y0), "must be a finite number"),
        (lambda: skl.SketchLinearRegression().fit(iter([X0])), "which columns of the table are targets"),
        (lambda: skl.SketchLinearRegression().fit(iter([X0]), y=[0, 1, 2, 3]), "all columns are targets"),
        (lambda: skl.SketchLinearRegression(bounds=(-1, 1)).fit(X0, Y0), r"estimators take bounds=\(lowest, highest\)"),
        (lambda: skl.SketchLinearRegression(bounds=([-9, -9], [9, 9])).fit(X0, Y0), "each of the 6 columns, not 2"),
        (lambda: skl.SketchLinearRegression().partial_fit(X0, Y0).partial_fit(X0, Y0[:, 0]), "y has 1 targets"),
    ],
)  # fmt: skip
def test_bad_input_is_named(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_rows_are_no_sketch():
    with pytest.raises(TypeError, match="rows go through fit"):
        skl.SketchLinearRegression().fit_sketch(X0)


def test_a_later_row_beyond_the_range_is_told_with_a_remedy():
    X, y = problem(6000)
    stream = skl.SketchLinearRegression().partial_fit(X, y)
    with pytest.raises(ValueError, match=r"beyond the bound .* bounds=\(lowest, highest\)"):
        stream.partial_fit(X + 1e6, y)
    assert stream.sketch_.count == 6000
    declared = skl.SketchLinearRegression(bounds=(-2e6, 2e6)).partial_fit(X, y).partial_fit(X + 1e6, y)
    assert declared.sketch_.count == 12_000


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = problem()
    fitted = skl.SketchLinearRegression().fit(X, y[:, 0])
    before = fitted.coef_
    with pytest.raises(ValueError, match="is empty"):
        fitted.fit_sketch(skl.Sketch(SecondMoments(3, bound=1.0)), n_targets=2)
    assert np.array_equal(fitted.coef_, before)
    assert fitted.predict(X).shape == (3000,)


def test_copies_are_whole():
    X, y = problem()
    fitted = skl.SketchRidge("gcv").fit(X, y)
    again = pickle.loads(pickle.dumps(fitted))
    assert np.array_equal(again.predict(X), fitted.predict(X))
    assert clone(fitted).get_params() == fitted.get_params()


def test_progress_goes_to_standard_error(capsys):
    skl.SketchLinearRegression(verbose=1).fit(*problem())
    assert "R^2" in capsys.readouterr().err


def test_moments_of_a_concatenated_sketch():
    X, y = problem()
    rows = np.column_stack([X, y])
    both = skl.features.concatenate([skl.features.QuadraticFeatures(6, 5, bound=99.0), SecondMoments(6, bound=40.0)])
    fitted = skl.SketchLinearRegression().fit_sketch(both.sketch(rows), n_targets=2)
    np.testing.assert_allclose(fitted.coef_, LinearRegression().fit(X, y).coef_, atol=1e-5)
    moments = Moments.of(both.sketch(rows), "a test")
    np.testing.assert_allclose(moments.covariance, np.cov(rows.T, bias=True), atol=1e-5)
    assert Regression.of(moments, (4, 5), intercept=True).features == [0, 1, 2, 3]


@pytest.mark.parametrize("kind", [np.asarray, csr_array])
def test_the_range_of_features_and_targets_is_that_of_both_side_by_side(kind):
    """They are read apart, as putting them together costs as much as reading them."""
    rng = np.random.default_rng(0)
    X, y = rng.standard_normal((4003, 3)), rng.standard_normal(4003) * 100
    apart = skl.SketchLinearRegression().fit(kind(X), y).sketch_.operator
    beside = skl.SketchPCA().fit(np.column_stack([X, y])).sketch_.operator
    assert (apart.center, apart.bound) == (beside.center, beside.bound)
