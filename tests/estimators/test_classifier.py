"""Classes from one sketch per class."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import load_breast_cancer, load_iris, load_wine, make_moons
from sklearn.discriminant_analysis import QuadraticDiscriminantAnalysis
from sklearn.model_selection import train_test_split
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl
from sketchlearn.estimators.classifier import parzen_window
from sketchlearn.features import FourierFeatures, SecondMoments

ESTIMATORS = [
    skl.SketchClassifier(random_state=0),
    skl.SketchClassifier("parzen", n_frequencies=200, random_state=0),
    skl.SketchClassifier("mixture", random_state=0),
]


@parametrize_with_checks(ESTIMATORS)
def test_scikit_learn(estimator, check):
    check(estimator)


DATA = {"iris": load_iris, "wine": load_wine, "breast cancer": load_breast_cancer}
THESIS = {"iris": 0.062, "wine": 0.082, "breast cancer": 0.062}


def splits(name, n=5):
    X, y = DATA[name](return_X_y=True)
    X = 2 * (X - X.min(axis=0)) / np.ptp(X, axis=0) - 1
    for seed in range(n):
        yield seed, *train_test_split(X, y, test_size=1 / 3, random_state=seed)


@pytest.mark.parametrize("name", DATA)
def test_fewer_errors_than_published(name):
    errors = [
        1 - skl.SketchClassifier(random_state=seed).fit(X, y).score(X_test, y_test)
        for seed, X, X_test, y, y_test in splits(name)
    ]
    assert np.mean(errors) < THESIS[name]


@pytest.mark.parametrize("name", ["iris", "wine"])
def test_the_parzen_rule_is_no_worse_than_published(name):
    errors = [
        1 - skl.SketchClassifier("parzen", random_state=seed).fit(X, y).score(X_test, y_test)
        for seed, X, X_test, y, y_test in splits(name)
    ]
    assert np.mean(errors) <= THESIS[name]


def gaussians(n=1500, seed=0):
    rng = np.random.default_rng(seed)
    y = rng.choice(3, n, p=[0.5, 0.3, 0.2])
    shapes = np.array([[[1, 0.5], [0, 1]], [[2, 0], [0, 0.3]], [[0.5, 0], [1, 1]]])
    return np.einsum("nij,nj->ni", shapes[y], rng.standard_normal((n, 2))) + 2 * np.eye(3, 2)[y] + 100, y


def test_many_rows_give_quadratic_discriminant_analysis():
    X, y = gaussians()
    own, other = skl.SketchClassifier("mixture").fit(X, y), QuadraticDiscriminantAnalysis().fit(X, y)
    np.testing.assert_allclose(own.predict_proba(X), other.predict_proba(X), atol=0.02)
    np.testing.assert_allclose(own.priors_, other.priors_)
    assert own.rule_ == "mixture"


def test_the_rule_follows_the_classes():
    X, y = make_moons(1000, noise=0.15, random_state=0)
    fitted = skl.SketchClassifier(random_state=0).fit(X, y)
    assert fitted.rule_ == "parzen"
    test = make_moons(2000, noise=0.15, random_state=1)
    assert fitted.score(*test) > 0.97
    assert skl.SketchClassifier("mixture").fit(X, y).score(*test) < 0.95
    several = skl.SketchClassifier("mixture", n_components=4, random_state=0)
    assert several.fit(X, y).score(*test) > 0.95
    assert isinstance(fitted.sketch_.operator, FourierFeatures)
    again = skl.SketchClassifier().fit_sketch(fitted.sketches_)
    assert again.rule_ == "parzen"


@pytest.mark.parametrize("rule", ["parzen", "mixture"])
def test_sketches_of_classes_are_exact(rule, tmp_path):
    X, y = gaussians()
    labels = np.array(["u", "v", "w"])[y]
    fitted = skl.SketchClassifier(rule, random_state=0).fit(X, labels)
    assert fitted.classes_.tolist() == ["u", "v", "w"]
    operator = fitted.sketch_.operator
    for label in "uvw":
        assert fitted.sketches_[label] == operator.sketch(X[labels == label])
    assert fitted.sketch_ == operator.sketch(X)
    fitted.sketches_["u"].save(tmp_path / "u.sketch")
    parts = {"u": skl.load(tmp_path / "u.sketch"), "w": fitted.sketches_["w"], "v": fitted.sketches_["v"]}
    again = skl.SketchClassifier(rule, priors="shares").fit_sketch(parts)
    assert again.classes_.tolist() == ["u", "v", "w"]
    fitted.set_params(priors="shares").fit(X, labels)
    assert np.array_equal(again.predict_proba(X), fitted.predict_proba(X))


def test_batches_and_classes_that_come_later():
    X, y = gaussians(9000)
    order = np.argsort(y, kind="stable")
    stream = skl.SketchClassifier("mixture", random_state=0)
    for part in np.array_split(order, 10):
        stream.partial_fit(X[part], y[part], classes=[0, 1, 2, 3])
    assert stream.sketch_.count == 9000
    assert stream.predict_proba(X).shape == (9000, 4)
    assert np.all(stream.predict_proba(X)[:, 3] == 0)
    whole = skl.SketchClassifier("mixture").fit(X, y)
    assert np.mean(stream.predict(X) == whole.predict(X)) > 0.999
    with pytest.raises(ValueError, match="label 7, which is not among"):
        stream.partial_fit(X[:1], [7])
    free = skl.SketchClassifier("mixture").partial_fit(X[:10], y[:10] * 0).partial_fit(X[10:20], y[10:20] * 0 + 5)
    assert free.classes_.tolist() == [0, 5]


def test_labels_in_a_column_of_a_table(tmp_path):
    pandas = pytest.importorskip("pandas")
    X, y = gaussians()
    table = pandas.DataFrame({"a": X[:, 0], "kind": y * 10, "b": X[:, 1]})
    table.to_csv(tmp_path / "rows.csv", index=False)
    fitted = skl.SketchClassifier("mixture", random_state=0).fit(tmp_path / "rows.csv", "kind")
    assert fitted.classes_.tolist() == [0, 10, 20]
    assert fitted.feature_names_in_.tolist() == ["a", "b"]
    other = skl.SketchClassifier("mixture", random_state=0).fit(table[["a", "b"]], table["kind"])
    assert np.mean(fitted.predict(table[["a", "b"]]) == other.predict(table[["a", "b"]])) > 0.999
    assert other.sketch_.operator.columns == ("a", "b")
    stream = skl.SketchClassifier("mixture").partial_fit(skl.source(table[:1000]), "kind")
    stream.partial_fit(skl.source(table[1000:]), "kind")
    assert stream.sketch_.count == 1500


def test_priors_move_the_border():
    X, y = gaussians()
    shares = skl.SketchClassifier("mixture").fit(X, y)
    equal = skl.SketchClassifier("mixture", priors="equal").fit(X, y)
    given = skl.SketchClassifier("mixture", priors=[0, 0, 1]).fit(X, y)
    assert np.mean(equal.predict(X) == 2) > np.mean(shares.predict(X) == 2)
    assert np.all(given.predict(X) == 2)
    np.testing.assert_allclose(equal.priors_, 1 / 3)


def test_narrow_windows_of_few_features_are_avoided():
    X, y = gaussians()
    few, many = (parzen_window(X, y, m, 0, None) for m in (20, 2000))
    assert few[0].law.law.laws[0].scale > many[0].law.law.laws[0].scale
    assert many[2] < few[2]


def test_copies_are_whole():
    X, y = gaussians()
    for estimator in ESTIMATORS:
        fitted = clone(estimator).fit(X, y)
        again = pickle.loads(pickle.dumps(fitted))
        assert np.array_equal(again.predict(X), fitted.predict(X))


def test_a_failed_fit_leaves_the_model_as_it_was():
    X, y = gaussians()
    fitted = skl.SketchClassifier("mixture").fit(X, np.array(["u", "v", "w"])[y])
    with pytest.raises(ValueError, match="one class"):
        fitted.fit(X, np.full(len(X), "z"))
    assert fitted.classes_.tolist() == ["u", "v", "w"]
    assert set(fitted.predict(X)) == {"u", "v", "w"}


X0, Y0 = gaussians(100)
SQUARES = skl.features.QuadraticFeatures(2, 5, bound=999.0).sketch(X0)
MOMENTS = SecondMoments(2, bound=200.0).sketch(X0)


@pytest.mark.parametrize(
    ("act", "message"),
    [
        (lambda: skl.SketchClassifier("best").fit(X0, Y0), "rule must be one of"),
        (lambda: skl.SketchClassifier(n_components=0).fit(X0, Y0), "n_components must be a whole number"),
        (lambda: skl.SketchClassifier(n_frequencies=0).fit(X0, Y0), "n_frequencies must be a whole number"),
        (lambda: skl.SketchClassifier(priors="mine").fit(X0, Y0), "priors must be"),
        (lambda: skl.SketchClassifier(priors=[1.0]).fit(X0, Y0), "priors must be 3 numbers"),
        (lambda: skl.SketchClassifier().fit(X0, Y0 * 0), "one class"),
        (lambda: skl.SketchClassifier().fit(X0[:1], Y0[:1]), "n_samples=1"),
        (lambda: skl.SketchClassifier().fit_sketch({}), "no sketches"),
        (lambda: skl.SketchClassifier().fit_sketch({0: skl.Sketch(MOMENTS.operator)}), "sketches are empty"),
        (lambda: skl.SketchClassifier("parzen").fit_sketch({0: MOMENTS, 1: MOMENTS.as_one_batch("other")}),
         r"needs sketches of Fourier features \(skl\.features\.FourierFeatures\), but they are of SecondMoments"),
        (lambda: skl.SketchClassifier().fit_sketch({"a": SQUARES, "b": SQUARES.as_one_batch("other")}),
         "second moments .* or of Fourier features .* but they are of QuadraticFeatures"),
        (lambda: skl.SketchClassifier().fit_sketch({0: MOMENTS, 1: SecondMoments(2, bound=300.0).sketch(X0)}),
         "cannot be compared: their bounds differ"),
        (lambda: skl.SketchClassifier("mixture").fit(np.repeat([[0.0], [1.0]], 9, axis=0), [0] * 9 + [1] * 9),
         "variation within classes"),
    ],
)  # fmt: skip
def test_bad_input_is_named(act, message):
    with pytest.raises(ValueError, match=message):
        act()


def test_other_things_are_no_sketches():
    with pytest.raises(TypeError, match="one Sketch per class"):
        skl.SketchClassifier().fit_sketch(MOMENTS)
    dask_array = pytest.importorskip("dask.array")
    with pytest.raises(TypeError, match="sketched apart"):
        skl.SketchClassifier().fit(dask_array.from_array(X0), y=[1])
