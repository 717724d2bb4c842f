"""Kernel regression from a sketch: exact, and equal to ridge regression on the same features."""

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.decomposition import PCA
from sklearn.linear_model import Ridge
from sklearn.metrics import adjusted_rand_score
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl
from sketchlearn.estimators.kernel_regression import KernelProblem, RidgePath, inverse_units
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.inference.moments import Moments


@pytest.mark.filterwarnings("ignore:new rows will likely be predicted no better:UserWarning")  # random targets
@parametrize_with_checks(
    [skl.SketchKernelRegressor(n_frequencies=10, scale=2.0)],
    expected_failed_checks=lambda _: {
        f"check_sample_weight_equivalence_on_{kind}_data": "features are designed on rows, whatever their weights"
        for kind in ("dense", "sparse")
    },
)
def test_scikit_learn(estimator, check):
    check(estimator)


def problem(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-3, 3, (n, 3)) * [1.0, 100.0, 0.01] + [0.0, 1e4, 0.0]
    y = np.sin(2 * X[:, 0]) + ((X[:, 1] - 1e4) / 100) ** 2 + 0.1 * rng.standard_normal(n)
    return X, y


X, Y = problem()
MODEL = skl.SketchKernelRegressor(n_frequencies=40, random_state=0).fit(X, Y)


def test_any_order_cut_and_number_of_threads():
    operator, rows = MODEL.sketch_.operator, np.column_stack([X, Y])
    order = np.random.default_rng(1).permutation(len(rows))
    parts = operator.sketch(rows[order[:700]], n_jobs=1) + operator.sketch(rows[order[700:]], n_jobs=2)
    assert parts == MODEL.sketch_
    again = skl.SketchKernelRegressor().fit_sketch(parts)
    assert again.fitted_model() == MODEL.fitted_model()
    assert np.array_equal(again.predict(X), MODEL.predict(X))
    assert parts.forget(rows[:500]) == operator.sketch(rows[500:])


@pytest.mark.parametrize("alpha", [1e-3, 1.0, 100.0])
def test_equals_ridge_on_the_same_features(alpha):
    fitted = skl.SketchKernelRegressor(alpha).fit_sketch(MODEL.sketch_)
    waves = MODEL.sketch_.operator.waves
    features = waves.features(X)
    together = np.column_stack([features.real, features.imag, X])
    units = inverse_units(X.std(axis=0), waves.n_frequencies, waves.n_sums)
    other = Ridge(alpha).fit((together - together.mean(axis=0)) * units, Y)
    expected = other.predict((together - together.mean(axis=0)) * units)
    assert np.max(np.abs(fitted.predict(X) - np.clip(expected, Y.min(), Y.max()))) < 1e-6 * np.ptp(Y)
    assert fitted.alpha_ == pytest.approx(alpha)
    assert fitted.r2_ == pytest.approx(1 - np.mean((expected - Y) ** 2) / Y.var(), abs=1e-7)


def test_generalised_cross_validation_is_that_of_the_definition():
    rng = np.random.default_rng(3)
    A, y = rng.standard_normal((60, 20)), rng.standard_normal(60)
    A, y = A - A.mean(axis=0), y - y.mean()
    path = RidgePath(A.T @ A / 60, (A.T @ y / 60)[:, None], np.array([y @ y / 60]), 60)
    for penalty in (0.01, 1.0):
        H = A @ np.linalg.solve(A.T @ A + 60 * penalty * np.eye(20), A.T) + 1 / 60
        expected = 60 * np.sum((y - H @ y) ** 2) / (60 - np.trace(H)) ** 2
        assert path.expected_errors(penalty)[0] == pytest.approx(expected)
        assert path.freedom(penalty) == pytest.approx(np.trace(H))
    assert path.score(path.best_penalty()) <= min(path.score(p) for p in np.geomspace(1e-6, 100, 50)) * 1.01


def test_errors_of_new_rows_are_as_expected():
    Q, asked = problem(2000, seed=9)
    error = np.mean((MODEL.predict(Q) - asked) ** 2)
    assert error < 0.02 * np.var(asked)
    assert MODEL.error_variance_ == pytest.approx(error, rel=0.2)
    assert 10 < MODEL.degrees_of_freedom_ < 84


def test_columns_that_do_not_bend_the_target_count_less():
    units = np.array(MODEL.sketch_.operator.waves.law.units) / X.std(axis=0)
    assert units[2] > 2 * max(units[:2])


def test_streams_and_several_targets():
    stream = skl.SketchKernelRegressor(n_frequencies=40, random_state=0)
    for part in np.array_split(np.arange(len(X)), 3):
        stream.partial_fit(X[part], np.column_stack([Y, -Y])[part])
    assert stream.predict(X).shape == (2000, 2)
    assert stream.score(X, np.column_stack([Y, -Y])) > 0.95
    assert len(stream.error_variance_) == 2


def test_targets_are_those_that_a_design_names():
    rows = np.column_stack([Y, X])
    operator = skl.design(rows, task="kernel", targets=[0], features=skl.features.Fourier(n_frequencies=40))
    fitted = skl.SketchKernelRegressor().fit_sketch(operator.sketch(rows))
    assert fitted.score(X, Y) > 0.98
    with pytest.raises(ValueError, match='targets are for task="kernel"'):
        skl.design(rows, task="moments", targets=[0])
    of_all = skl.features.FeatureMoments(skl.features.FourierFeatures(3, 5, law=Gaussian(1.0)), bound=1e5).sketch(X)
    with pytest.raises(ValueError, match="use all columns"):
        skl.SketchKernelRegressor().fit_sketch(of_all)
    with pytest.raises(ValueError, match="products with the target"):
        skl.SketchKernelRegressor().fit_sketch(skl.features.SecondMoments(3, bound=1e5).sketch(X))


def test_a_target_of_nothing_warns():
    noise = np.random.default_rng(0).standard_normal(300)
    with pytest.warns(UserWarning, match="no better than by the mean"):
        skl.SketchKernelRegressor(1e-9, n_frequencies=100, scale=0.3).fit(X[:300], noise)


def test_private_sketches_are_shrunk():
    rng = np.random.default_rng(0)
    A = rng.uniform(-1, 1, (20_000, 2))
    b = np.sin(3 * A[:, 0]) * A[:, 1]
    operator = skl.design(
        bounds=([-1, -1, -1], [1, 1, 1]), task="kernel", features=skl.features.Fourier(n_frequencies=10)
    )
    assert operator.outside == "clip"
    released = skl.privatize(operator.sketch(np.column_stack([A, b])), epsilon=10.0, delta=1e-6)
    fitted = skl.SketchKernelRegressor().fit_sketch(released)
    assert fitted.privacy_.epsilon == 10.0
    assert fitted.score(A, b) > 0.3


def test_rows_too_far_or_beyond_the_bounds():
    operator = MODEL.sketch_.operator
    with pytest.raises(ValueError, match="column 3 is 1e\\+20, beyond the bound"):
        operator.sketch([[0.0, 1e4, 0.0, 1e20]])
    with pytest.raises(ValueError, match="row 1, column 0 is 1e\\+30"):
        MODEL.predict([[0.0, 1e4, 0.0], [1e30, 1e4, 0.0]])


def test_constant_columns_and_targets():
    A = np.column_stack([X[:, 0], np.full(len(X), 7.0)])
    model = skl.SketchKernelRegressor(n_frequencies=30, random_state=0).fit(
        A, np.column_stack([Y, np.full(len(X), 3.0)])
    )
    assert np.allclose(model.predict(A)[:, 1], 3.0)


def test_classes_are_regressions_of_indicators():
    """The moments of all rows and the means of each class are enough."""
    labels = np.digitize(Y, [3.0, 8.0])
    waves = MODEL.sketch_.operator.waves
    box = {"bound": (4.0, 400.0, 0.04), "center": (0.0, 1e4, 0.0)}
    operator = skl.features.FeatureMoments(waves, **box)
    parts = [operator.sketch(X[labels == c]) for c in range(3)]
    moments = Moments.of(operator.inner_sketch(sum(parts[1:], parts[0])), "classes")
    means = np.array([Moments.of(operator.inner_sketch(part), "classes").mean for part in parts])
    shares = np.array([part.count for part in parts]) / len(X)
    fit = KernelProblem.of_classes(moments, operator, means, shares).fit(0.1)
    indicators = np.eye(3)[labels]
    box = {"bound": (*box["bound"], 1.0, 1.0, 1.0), "center": (*box["center"], 0.0, 0.0, 0.0)}
    together = skl.features.FeatureMoments(skl.features.SomeColumns(waves, 6, which=[0, 1, 2]), **box)
    own = together.sketch(np.column_stack([X, indicators]))
    other = KernelProblem.of(Moments.of(together.inner_sketch(own), "classes"), together, (3, 4, 5)).fit(0.1)
    assert np.allclose(fit.values(X), other.values(X), atol=1e-5)
    assert np.allclose(fit.values(X).sum(axis=1), 1.0, atol=1e-6)


def rings(n=2000, seed=0):
    rng = np.random.default_rng(seed)
    which, angle = rng.integers(0, 2, n), rng.uniform(0, 2 * np.pi, n)
    radius = np.where(which, 3.0, 0.5) + 0.1 * rng.standard_normal(n)
    return np.column_stack([radius * np.cos(angle), radius * np.sin(angle)]), which


def test_kernel_pca_is_a_pipeline():
    rows, which = rings()
    features = skl.PeriodicFeatures(200, scale=1.5, random_state=0)
    own = make_pipeline(features, skl.SketchPCA(2)).fit(rows)
    other = PCA(2).fit(features.transform(rows))
    assert np.allclose(np.abs(own[-1].components_ @ other.components_.T), np.eye(2), atol=1e-4)
    coordinates = own.transform(rows)
    assert max(abs(np.corrcoef(coordinates[:, i], which)[0, 1]) for i in range(2)) > 0.9


def test_kernel_k_means_is_a_pipeline():
    rows, which = rings()
    features = skl.PeriodicFeatures(60, scale=1.5, random_state=0)
    own = make_pipeline(features, skl.SketchKMeans(2, random_state=0)).fit_predict(rows)
    other = KMeans(2, n_init=3, random_state=0).fit_predict(features.transform(rows))
    assert adjusted_rand_score(own, other) > 0.95
    assert adjusted_rand_score(own, which) > adjusted_rand_score(KMeans(2, n_init=3).fit_predict(rows), which)


def test_probabilities_of_classes():
    rows, which = rings(1000)
    flipped = which ^ (np.random.default_rng(2).random(len(which)) < 0.2)
    model = skl.SketchClassifier("kernel", n_frequencies=60, random_state=0).fit(rows, flipped)
    likely = model.predict_proba(rows)
    assert np.allclose(likely.sum(axis=1), 1.0)
    assert np.min(likely) > 0
    assert abs(np.mean(likely[which == 1, 1]) - 0.8) < 0.05
    assert np.mean(model.predict(rows) == which) > 0.97
    again = skl.SketchClassifier().fit_sketch(model.sketches_)
    assert again.rule_ == "kernel"
    assert np.array_equal(again.predict_proba(rows), likely)


def test_predictions_end_where_targets_end(tmp_path):
    """Far from all rows that were learned from, the slopes of columns would lead anywhere."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((3000, 2))
    y = 10 * X[:, 0] + rng.standard_normal(3000)
    model = skl.SketchKernelRegressor(n_frequencies=50, random_state=0).fit(X, y)
    far = model.predict(np.array([[1000.0, 0.0], [-1000.0, 0.0]]))
    assert far == pytest.approx([y.max(), y.min()], rel=1e-9)
    skl.save(model, tmp_path / "m.json")
    assert np.array_equal(skl.load(tmp_path / "m.json").predict(X), model.predict(X))
    declared = skl.SketchKernelRegressor(n_frequencies=50, bounds=([-5, -5, -50], [5, 5, 50])).fit(X, y)
    assert declared.predict(np.array([[1000.0, 0.0]])) == pytest.approx(50)
