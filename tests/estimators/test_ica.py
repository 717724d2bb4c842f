"""Independent components: operator, decoder and estimator, beside FastICA."""

import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.decomposition import FastICA
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl
from sketchlearn.estimators.independent_components import cumulant_features
from sketchlearn.features.cumulants import waves


@pytest.mark.filterwarnings("ignore:.* components may be Gaussian")  # in a hundred rows they may
@parametrize_with_checks([skl.SketchICA(random_state=0)])
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.* components may be Gaussian")
@parametrize_with_checks([skl.SketchICA(1, random_state=0)])
def test_scikit_learn_with_one_component(estimator, check):
    check(estimator)


SOURCES = {
    "uniform": lambda rng, n: rng.uniform(-1, 1, n) * 3**0.5,
    "Laplace": lambda rng, n: rng.laplace(size=n) / 2**0.5,
    "exponential": lambda rng, n: rng.exponential(size=n) - 1,
    "sine": lambda rng, n: np.sin(rng.uniform(0, 2 * np.pi, n)) * 2**0.5,
    "bimodal": lambda rng, n: (rng.choice([-1.0, 1.0], n) + 0.3 * rng.standard_normal(n)) / 1.09**0.5,
    "logistic": lambda rng, n: rng.logistic(size=n) * 3**0.5 / np.pi,
    "t of 5": lambda rng, n: rng.standard_t(5, n) * 0.6**0.5,
    "binary": lambda rng, n: rng.choice([-1.0, 1.0], n),
    "gamma of 4": lambda rng, n: (rng.gamma(4.0, size=n) - 4) / 2,
    "normal": lambda rng, n: rng.standard_normal(n),
}
MIXED = ("uniform", "Laplace", "exponential", "sine", "logistic")


def mixed(names, n=20_000, seed=0, condition=None):
    """Rows, and the matrix that mixes their sources."""
    rng, d = np.random.default_rng(seed), len(names)
    sources = np.stack([SOURCES[name](rng, n) for name in names], axis=1)
    mixing = rng.standard_normal((d, d))
    if condition is not None:
        a, _, b = np.linalg.svd(mixing)
        mixing = a * np.geomspace(1, 1 / condition, d) @ b
    return sources @ mixing.T + 7, mixing


def amari(found):
    """0 if a matrix has one entry in each row and column, up to 1."""
    sizes, d = np.abs(found), len(found)
    rows, columns = sizes.sum(axis=1) / sizes.max(axis=1), sizes.sum(axis=0) / sizes.max(axis=0)
    return (rows.sum() + columns.sum() - 2 * d) / (2 * d * (d - 1))


def fast(X):
    return FastICA(whiten="unit-variance", random_state=0, max_iter=1000, tol=1e-5).fit(X).components_


CASES = {
    **{
        name: ((name,) * 3, None)
        for name in SOURCES
        if name in ("uniform", "Laplace", "exponential", "logistic", "t of 5")
    },
    "mixed": (MIXED, None),
    "mixed, ill-conditioned": (MIXED, 100.0),
    "one normal": (("normal", "uniform", "Laplace"), None),
    "two": (("binary", "sine"), None),
    "eight": ((*MIXED, "t of 5", "bimodal", "gamma of 4"), 10.0),
}


@pytest.mark.parametrize("name", CASES)
def test_sources_are_found_as_exactly_as_by_fast_ica(name):
    """Medians over three draws, with some room for chance: an error is that of about d (d - 1) angles."""
    names, condition = CASES[name]
    own, other = [], []
    for seed in range(3):
        X, mixing = mixed(names, seed=seed, condition=condition)
        own.append(amari(skl.SketchICA(random_state=seed).fit(X).components_ @ mixing))
        other.append(amari(fast(X) @ mixing))
    assert np.median(own) < 1.5 * np.median(other)
    assert np.median(own) < 0.06


@pytest.mark.parametrize("d", [2, 3, 5, 10])
def test_few_numbers_beyond_the_whitening(d):
    X, _ = mixed(("uniform",) * d, 2000)
    moments, cumulants = skl.SketchICA(random_state=0).fit(X).sketch_.operator.parts
    assert moments.n_sums == d + d * (d + 1) // 2
    assert cumulants.n_sums == d**2 + 2 * d <= 2 * d**2


def test_attributes_are_those_of_fast_ica():
    X, mixing = mixed(MIXED)
    ica = skl.SketchICA(random_state=0).fit(X)
    sources = ica.transform(X)
    np.testing.assert_allclose(np.cov(sources.T, bias=True), np.eye(5), atol=1e-4)
    np.testing.assert_allclose(ica.inverse_transform(sources), X, atol=1e-9)
    np.testing.assert_allclose(ica.mean_, X.mean(axis=0), atol=1e-6)
    np.testing.assert_allclose(ica.mixing_ @ ica.components_, np.eye(5), atol=1e-9)
    np.testing.assert_allclose(np.cov((X @ ica.whitening_.T).T, bias=True), np.eye(5), atol=1e-4)
    assert np.all(np.diff(ica.evidence_) <= 0)
    assert ica.get_feature_names_out().tolist() == [f"sketchica{i}" for i in range(5)]
    columns = mixing / np.linalg.norm(mixing, axis=0)
    found = ica.mixing_ / np.linalg.norm(ica.mixing_, axis=0)
    assert np.all(np.max(np.abs(columns.T @ found), axis=0) > 0.999)


def test_streams_and_merged_sketches_are_learned_from():
    X, mixing = mixed(MIXED)
    stream = skl.SketchICA(random_state=0)
    for part in np.array_split(X, 7):
        stream.partial_fit(part)
    assert amari(stream.components_ @ mixing) < 0.02
    operator = skl.design(X[:3000], task="ica")
    both = operator.sketch(X[:9000]) + operator.sketch(X[9000:])
    assert both == operator.sketch(X)
    assert amari(skl.SketchICA().fit_sketch(both).components_ @ mixing) < 0.02


@pytest.mark.parametrize("shift", [0.0, 3.0])
def test_first_rows_that_differ_cost_accuracy_only(shift):
    """Other scales, another mean, and components turned by up to about 20 degrees."""
    X, mixing = mixed(MIXED, 40_000)
    rng = np.random.default_rng(1)
    first = (X[:3000] - 7) @ (np.eye(5) + 0.1 * rng.standard_normal((5, 5))) * 0.3 + shift
    operator = cumulant_features(skl.extend.DesignSample(first, False, None), rng, bounds=(-60, 60))
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=".*far from those")
        found = skl.SketchICA(random_state=0).fit_sketch(operator.sketch(X)).components_
    assert amari(found @ mixing) < 0.05


def test_components_far_from_the_design_are_searched_for():
    X, mixing = mixed(("uniform", "Laplace", "exponential"))
    rng = np.random.default_rng(2)
    operator = cumulant_features(
        skl.extend.DesignSample(rng.standard_normal((3000, 3)), False, None), rng, bounds=(-30, 40)
    )
    with pytest.warns(UserWarning, match="far from those of the design sample"):
        found = skl.SketchICA(random_state=0).fit_sketch(operator.sketch(X))
    assert amari(found.components_ @ mixing) < 0.1


def test_gaussian_components_are_warned_of():
    X, mixing = mixed(("normal", "normal", "uniform"))
    with pytest.warns(UserWarning, match="2 of 3 components may be Gaussian"):
        found = skl.SketchICA(random_state=0).fit(X)
    assert found.evidence_[0] > 100 > 12 > found.evidence_[1]
    row = np.abs(found.components_ @ mixing)[0]
    assert row[2] > 0.99 > 0.1 > row[:2].max()
    with pytest.warns(UserWarning, match="3 of 3 components may be Gaussian"):
        skl.SketchICA(random_state=0).fit(mixed(("normal",) * 3)[0])


def test_columns_that_depend_on_others_are_left_out():
    X = mixed(("uniform", "Laplace", "exponential"))[0]
    wide = np.column_stack([X, X[:, 0] - X[:, 1], np.full(len(X), 3.0)])
    ica = skl.SketchICA(random_state=0).fit(wide)
    assert ica.components_.shape == (3, 5)
    np.testing.assert_allclose(ica.inverse_transform(ica.transform(wide)), wide, atol=1e-3)
    operator = skl.design(wide[:3000], task="ica", representative=False)
    late = wide + np.array([0, 0, 0, 0, 1.0]) * np.random.default_rng(0).uniform(size=(len(wide), 1))
    with pytest.warns(UserWarning, match="vary in directions in which the design sample did not"):
        skl.SketchICA().fit_sketch(operator.sketch(late))


def test_fewer_components_than_columns():
    rng = np.random.default_rng(0)
    sources = np.stack([SOURCES[name](rng, 20_000) for name in ("uniform", "Laplace")], axis=1)
    mixing = rng.standard_normal((6, 2))
    ica = skl.SketchICA(2, random_state=0).fit(sources @ mixing.T + 0.01 * rng.standard_normal((20_000, 6)))
    assert amari(ica.components_ @ mixing) < 0.02


def test_waves_are_sines_and_cosines():
    turns = np.linspace(-5, 5, 100_001)
    sine, cosine = waves(turns)
    np.testing.assert_allclose(sine, np.sin(2 * np.pi * turns), atol=1e-11)
    np.testing.assert_allclose(cosine, np.cos(2 * np.pi * turns), atol=1e-11)


def test_features_are_what_the_operator_says():
    rng = np.random.default_rng(0)
    B, t, a = rng.standard_normal((2, 3)), np.array([0.5, 1.5]), np.array([0.0, 1.0])
    operator = skl.features.CumulantFeatures(3, unmixing=B, frequencies=t, phases=a, bound=9.0, center=[1.0, 0.0, 2.0])
    X = rng.standard_normal((50, 3))
    u = (X - [1.0, 0.0, 2.0]) @ B.T
    g, slope = np.sin(t * u + a), np.cos(t * u + a)
    sine, cosine, products = operator.split(operator.sketch(X).mean)
    np.testing.assert_allclose(sine, g.mean(axis=0), atol=1e-8)
    np.testing.assert_allclose(cosine, slope.mean(axis=0), atol=1e-8)
    np.testing.assert_allclose(products, u.T @ g / 50, atol=1e-7)


@pytest.mark.filterwarnings("ignore:the components are far")  # with so much noise they are anywhere
def test_private_sketches_are_learned_from():
    X, mixing = mixed(("uniform", "Laplace", "exponential"), 200_000)
    operator = cumulant_features(
        skl.extend.DesignSample(X[:3000], True, None), np.random.default_rng(0), bounds=(-40, 60)
    )
    clipping = skl.features.concatenate([replace(part, outside="clip") for part in operator.parts])
    with pytest.raises(ValueError, match="it is not known whether the numbers of this Concatenated were taken from"):
        skl.privatize(clipping.sketch(X[:100]), epsilon=1.0)
    exact = clipping.with_origin("sample").sketch(X)
    with pytest.raises(ValueError, match="designed on a sample of rows"):
        skl.privatize(exact, epsilon=1.0)
    release = {"assume_public_design": True, "seed_for_tests_not_private": 0}
    found = skl.SketchICA().fit_sketch(skl.privatize(exact, epsilon=20.0, delta=1e-6, **release))
    assert amari(found.components_ @ mixing) < 0.1
    assert np.all(found.evidence_ < skl.SketchICA().fit_sketch(exact).evidence_)  # the noise counts
    with pytest.warns(UserWarning, match="may be Gaussian"):
        skl.SketchICA().fit_sketch(skl.privatize(exact, epsilon=0.1, **release))


X0 = mixed(("uniform", "sine"), 1000)[0]


@pytest.mark.parametrize(
    ("attempt", "message"),
    [
        (lambda: skl.SketchICA(3).fit(X0), "n_components=3 must be at most the number of columns, 2"),
        (lambda: skl.SketchICA(0).fit(X0), "n_components must be a whole number"),
        (lambda: skl.SketchICA().fit(np.ones((50, 2))), "all rows are equal"),
        (
            lambda: skl.SketchICA().fit_sketch(skl.features.SecondMoments(2, bound=99.0).sketch(X0)),
            "beside cumulant features",
        ),
        (lambda: skl.SketchICA(1).fit_sketch(skl.design(X0, task="ica").sketch(X0)), "for 2 components, not n_comp"),
        (lambda: skl.SketchICA().fit_sketch(skl.design(X0, task="ica").sketch(X0[:1])), "do not vary in all"),
        (lambda: skl.design(bounds=(0, 1), task="ica"), "needs a sample of rows"),
        (lambda: skl.design(X0, task="ica").sketch(X0 * 1e4), r"column \d is .* beyond the bound"),
        (
            lambda: skl.features.CumulantFeatures(2, unmixing=[[1.0]], frequencies=[1.0], bound=1.0),
            "must be a list of 2 numbers",
        ),
        (lambda: skl.features.CumulantFeatures(1, unmixing=[[0.0]], frequencies=[1.0], bound=1.0), "none of zeros"),
        (lambda: skl.features.CumulantFeatures(1, unmixing=[[1.0]], frequencies=[-1.0], bound=1.0), "positive"),
    ],
)
def test_bad_input_is_refused_in_a_sentence(attempt, message):
    with pytest.raises(ValueError, match=message):
        attempt()


def test_same_seed_same_model():
    a, b = (clone(skl.SketchICA(random_state=3)).fit(X0) for _ in range(2))
    assert a.sketch_ == b.sketch_
    assert np.array_equal(a.components_, b.components_)


@pytest.mark.parametrize("odd", [{"frequencies": [1e308]}, {"unmixing": [[1e-200]], "bound": 1e-140}])
def test_components_that_floats_do_not_hold_are_refused(odd):
    with pytest.raises(ValueError, match="beyond what float64 holds"):
        skl.features.CumulantFeatures(1, **{"unmixing": [[1.0]], "frequencies": [1.0], "bound": 1e3} | odd)
