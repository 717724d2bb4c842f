"""Regressions, principal components and classes from private sketches: the noise is accounted for, epsilon stays."""

import json
import warnings
from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.cli.design_commands import Choices, design_on_bounds
from sketchlearn.cli.question_commands import info
from sketchlearn.inference.moments import MomentNoise

BOUNDS = ([-6, -5, -6, -6, -15], [6, 7, 6, 6, 21])
N = 20_000
TINY = [1e-2, 1e-4, 1e-6]


def release(sketch, epsilon, seed, **more):
    return skl.privatize(sketch, epsilon=epsilon, seed_for_tests_not_private=seed, allow_weak=True, **more)


@pytest.fixture(scope="module")
def table():
    """A sketch of four features and a target, which differ in location and units."""
    rng = np.random.default_rng(0)
    X = rng.standard_normal((N, 4)) @ (np.eye(4) + 0.3) + [0, 1, 0, 0.5]
    y = X @ [1.0, -2.0, 0.5, 0.0] + 3 + 0.5 * rng.standard_normal(N)
    return skl.design(bounds=BOUNDS, task="moments").sketch(np.column_stack([X, y]))


@pytest.fixture(scope="module")
def stretched():
    """A sketch of eight columns, two components of which stand out."""
    rng = np.random.default_rng(1)
    turn = np.linalg.qr(rng.standard_normal((8, 8)))[0]
    return skl.design(bounds=([-12] * 8, [14] * 8), task="moments").sketch(
        rng.standard_normal((N, 8)) * [4, 2.5, 0.5, 0.5, 0.5, 0.5, 0.5, 0.5] @ turn.T + 1
    )


MEANS, LABELS = np.array([[0.0, 0.0, 0.0], [2.5, 1.0, 0.0], [0.0, 2.0, 2.5]]), ("a", "b", "c")


def rows_of_class(i, n, seed):
    rng = np.random.default_rng([seed, i])
    return MEANS[i] + rng.standard_normal((n, 3)) @ (np.eye(3) + 0.2 * i * np.tri(3))


OPERATORS = {
    "moments": skl.design(bounds=([-8] * 3, [8] * 3), task="moments"),
    "windows": skl.features.FourierFeatures(3, 200, law=skl.features.frequencies.Gaussian(1.5), seed=1).with_origin(
        "declared"
    ),
}


def class_sketches(kind):
    return {label: OPERATORS[kind].sketch(rows_of_class(i, 6000, 0)) for i, label in enumerate(LABELS)}


def test_design_of_moments_is_releasable():
    operator = skl.design(bounds=([0, -10], [1, 30]), task="moments")
    assert operator.outside == "clip"
    np.testing.assert_allclose(operator.center, [0.5, 10.0])
    np.testing.assert_allclose(operator.bound, [0.5, 20.0])
    sketch = operator.sketch([[0.5, 1e9], [2.0, 0.0], [0.1, 0.2]])
    assert sketch.clipped == 2
    private = release(sketch, 1.0, 0)
    assert private.ledger.design == "declared"
    assert private.clipped == 0


def test_the_command_line_designs_the_same():
    operator, _ = design_on_bounds("0,1;-10,30", Choices(1, "moments"), ("a", "b"))
    assert operator == replace(skl.design(bounds=([0, -10], [1, 30]), task="moments"), columns=("a", "b"))


def test_design_of_moments_on_a_sample_is_not():
    rows = np.random.default_rng(0).standard_normal((100, 2))
    operator = skl.design(rows, task="moments")
    assert operator.outside == "refuse"
    with pytest.raises(ValueError, match="tells that there are none"):
        release(operator.sketch(rows), 1.0, 0)
    with pytest.raises(ValueError, match="n_components"):
        skl.design(rows)


@pytest.mark.parametrize("intercept", [True, False])
def test_noise_of_equations(table, intercept):
    """What the methods of MomentNoise promise, against many draws of noise on the mean of [1, x] [1, x]'."""
    noise = MomentNoise.of(release(table, 1.0, 0))
    rng, d, draws = np.random.default_rng(2), 5, 4000
    j, k = np.tril_indices(1 + d)
    drawn = np.zeros((draws, 1 + d, 1 + d))
    drawn[:, j, k] = noise.deviation * rng.standard_normal((draws, len(j)))
    drawn[:, 0, 0] *= noise.count_deviation / noise.deviation
    drawn[:, k, j] = drawn[:, j, k]
    to_x = np.diag(np.append(1.0, noise.bound))
    to_x[1:, 0] = noise.origin
    drawn = to_x @ drawn @ to_x.T

    vector = rng.standard_normal(1 + d)
    left, means = rng.standard_normal((3, 1 + d)), rng.standard_normal(3)
    seen = drawn @ vector @ left.T - np.outer(drawn[:, 0, 0], means)
    np.testing.assert_allclose(seen.std(axis=0), np.sqrt(noise.of_products(left, vector, means)), rtol=0.06)

    to_mean = np.eye(1 + d)
    to_mean[1:, 0] = -vector[1:]
    squares, shares = to_mean @ drawn @ to_mean.T, rng.uniform(size=3)
    seen = np.einsum("ni,sij,nj->sn", left, squares, left) - np.outer(np.trace(squares[:, 1:, 1:], 0, 1, 2), shares)
    told = noise.of_shares(left, shares, vector[1:])
    np.testing.assert_allclose(seen.std(axis=0), np.sqrt(told), rtol=0.06)

    about = rng.standard_normal(d) if intercept else np.zeros(d)
    centred = np.column_stack([-about, np.eye(d)]) @ drawn @ np.column_stack([-about, np.eye(d)]).T
    direction = vector[1:] / np.linalg.norm(vector[1:])
    seen = 2 * np.sqrt(np.mean(np.sum((centred @ direction) ** 2, axis=1)))
    np.testing.assert_allclose(noise.edges(direction[None], about, np.ones(d)), seen, rtol=0.05)


@pytest.mark.parametrize("model", [skl.SketchLinearRegression(), skl.SketchRidge(), skl.SketchRidge("gcv")])
def test_coefficients_approach_the_exact_ones(table, model):
    exact = skl.SketchLinearRegression().fit_sketch(table).coef_
    errors = []
    for epsilon in (1.0, 10.0, 100.0):
        found = [model.fit_sketch(release(table, epsilon, seed)).coef_ for seed in range(10)]
        errors.append(np.sqrt(np.mean((np.array(found) - exact) ** 2)))
    assert errors[0] < 0.5
    assert errors[1] < errors[0] / 5
    assert errors[2] < errors[1] / 3


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("more", [{}, {"delta": 1e-6}, {"neighbors": "replace"}], ids=["laplace", "gauss", "replace"])
def test_standard_errors_cover_the_noise(table, intercept, more):
    """Sampling is the same in all releases, so only what the noise adds is tested: it is ten times as large."""
    model = skl.SketchLinearRegression(fit_intercept=intercept)
    exact = np.append(model.fit_sketch(table).coef_, model.intercept_)
    inside, scaled = [], []
    for seed in range(40):
        model.fit_sketch(release(table, 2.0, 100 + seed, **more))
        errors = np.append(*(model.standard_errors_[name] for name in ("coef_", "intercept_")))
        apart = np.append(model.coef_, model.intercept_) - exact
        inside.append(np.abs(apart) <= 1.96 * errors)
        scaled.append((apart / np.where(errors, errors, 1.0))[: 4 + intercept])
    assert np.all(np.sum(inside, axis=0) >= 33)  # of 40; binomial, one in 4000 of each
    assert 0.75 < np.std(scaled) < 1.25


def test_merged_releases_add_their_noise(table):
    parts = [release(table, 2.0, seed) for seed in (1, 2)]
    both = skl.merge(parts)
    one, two = (skl.SketchLinearRegression().fit_sketch(part) for part in (parts[0], both))
    errors, fewer = (model.standard_errors_["coef_"] for model in (one, two))
    np.testing.assert_allclose(fewer, errors / np.sqrt(2), rtol=0.2)


def test_the_noise_of_the_part_counts():
    rows = np.random.default_rng(3).uniform(-1, 1, (5000, 1)) * [1.0, 0.9]
    moments = skl.design(bounds=([-1, -1], [1, 1]), task="moments")
    windows = skl.features.FourierFeatures(2, 50, law=skl.features.frequencies.Gaussian(1.0)).with_origin("declared")
    private = release(skl.features.concatenate([windows, moments]).sketch(rows), 10.0, 0)
    part = private.operator.split(private)[1]
    apart, within = (skl.SketchLinearRegression().fit_sketch(sketch) for sketch in (part, private))
    assert apart.error_bars().to_json() == within.error_bars().to_json()


def test_ridge_is_at_least_what_balances_the_noise(table):
    exact = skl.SketchRidge("gcv").fit_sketch(table).alpha_
    penalties = [skl.SketchRidge("gcv").fit_sketch(release(table, epsilon, 5)).alpha_ for epsilon in (9, 3, 1)]
    np.testing.assert_allclose(np.array(penalties) / penalties[0], [1, 9, 81], rtol=0.15)
    assert 5 * exact < penalties[0]


def test_pca_approaches_the_exact_one(stretched):
    exact = skl.SketchPCA(2).fit_sketch(stretched)
    for epsilon, least in ((1.0, 0.95), (10.0, 0.999)):
        found = [skl.SketchPCA(2).fit_sketch(release(stretched, epsilon, seed)) for seed in range(20)]
        alike = [np.linalg.svd(pca.components_ @ exact.components_.T)[1][-1] for pca in found]
        assert np.median(alike) > least
        variances = np.mean([pca.explained_variance_ for pca in found], axis=0)
        np.testing.assert_allclose(variances, exact.explained_variance_, rtol=0.05 / epsilon)


def test_pca_warns_of_what_the_noise_hides(stretched):
    with pytest.warns(UserWarning, match=r"[3-6] of 6 components do not exceed the noise"):
        pca = skl.SketchPCA(6).fit_sketch(release(stretched, 1.0, 0))
    assert np.all(np.diff(pca.explained_variance_) <= 0)
    assert np.all(pca.explained_variance_ >= 0)
    assert np.sum(pca.explained_variance_ratio_) <= 1


def test_compressive_pca():
    rng, d = np.random.default_rng(4), 12
    turn = np.linalg.qr(rng.standard_normal((d, d)))[0]
    rows = rng.standard_normal((N, d)) * np.append([4, 2.5], [0.5] * 10) @ turn.T + 1
    squares = skl.features.QuadraticFeatures(d, 8 * d, bound=20.0, outside="clip")
    columns = skl.features.ColumnMoments(d, bound=15.0, outside="clip")
    sketch = skl.features.concatenate([squares, columns]).with_origin("declared").sketch(rows)
    exact = skl.SketchPCA(2).fit_sketch(sketch)
    for epsilon, least in ((2.0, 0.97), (20.0, 0.999)):
        pca = skl.SketchPCA(2).fit_sketch(release(sketch, epsilon, 0))
        assert np.linalg.svd(pca.components_ @ exact.components_.T)[1][-1] > least
        np.testing.assert_allclose(pca.explained_variance_, exact.explained_variance_, rtol=0.4 / epsilon)
    for epsilon in TINY:
        with pytest.warns(UserWarning, match="of 2 components do not exceed the noise"):
            pca = skl.SketchPCA(2).fit_sketch(release(sketch, epsilon, 0))
        assert np.all(np.isfinite(pca.transform(rows[:2])))
        assert np.sum(pca.explained_variance_ratio_) <= 1


@pytest.mark.parametrize("kind", OPERATORS)
def test_classes(kind):
    sketches = class_sketches(kind)
    rows = np.concatenate([rows_of_class(i, 1000, 9) for i in range(3)])
    labels = np.repeat(LABELS, 1000)
    exact = skl.SketchClassifier().fit_sketch(sketches).score(rows, labels)
    epsilons = {"a": 4.0, "b": 8.0, "c": 4.0}
    private = {label: release(sketch, epsilons[label], 7 + i) for i, (label, sketch) in enumerate(sketches.items())}
    model = skl.SketchClassifier().fit_sketch(private, classes=LABELS)
    assert model.score(rows, labels) > exact - 0.02
    assert model.privacy_.epsilon == 8.0
    assert model.privacy_.composition == "parallel"
    assert model.sketch_.count == sum(sketch.count for sketch in private.values())


@pytest.mark.parametrize("epsilon", TINY)
def test_tiny_epsilons_give_finite_models_and_a_warning(table, stretched, epsilon):
    for model in (
        skl.SketchLinearRegression(),
        skl.SketchLinearRegression(fit_intercept=False),
        skl.SketchRidge(),
        skl.SketchRidge("gcv"),
    ):
        for seed in range(3):
            with pytest.warns(UserWarning, match="the noise of the private sketch hides"):
                model.fit_sketch(release(table, epsilon, seed))
            assert np.all(np.isfinite([*model.coef_, model.intercept_]))
            assert 0 <= model.r2_ <= 1
    with pytest.warns(UserWarning, match="components do not exceed"):
        pca = skl.SketchPCA(3).fit_sketch(release(stretched, epsilon, 0))
    assert np.all(np.isfinite(pca.transform(np.ones((2, 8)))))
    for kind in OPERATORS:
        private = {label: release(sketch, epsilon, 0) for label, sketch in class_sketches(kind).items()}
        with pytest.warns(UserWarning, match="hides the shape of . of 3 classes"):
            classifier = skl.SketchClassifier().fit_sketch(private, classes=LABELS)
        assert np.all(np.isfinite(classifier.predict_proba(np.ones((2, 3)))))


def test_epsilon_stays_and_is_saved(table, tmp_path, capsys):
    private = release(table, 3.0, 0)
    models = [skl.SketchLinearRegression(), skl.SketchRidge("gcv"), skl.SketchPCA(1)]
    for model in models:
        model.fit_sketch(private)
        skl.save(model, tmp_path / "model.json")
        assert model.privacy_ == private.ledger == skl.load(tmp_path / "model.json").privacy_
        info(str(tmp_path / "model.json"), json=True)
        assert json.loads(capsys.readouterr().out)["ledger"] == private.ledger.to_json()


def test_refusals(table):
    private, again = release(table, 1.0, 0), table.as_one_batch("again")
    windows = release(OPERATORS["windows"].sketch(rows_of_class(0, 100, 0)), 1.0, 0)
    for model in (skl.SketchLinearRegression(), skl.SketchPCA(1)):
        with pytest.raises(ValueError, match="needs a sketch of second moments"):
            model.fit_sketch(windows)
    with pytest.raises(ValueError, match="cannot add a private sketch and an exact one"):
        skl.SketchClassifier().fit_sketch({0: private, 1: again}, classes=[0, 1])
    other = release(again, 1.0, 0, neighbors="replace")
    with pytest.raises(ValueError, match="different neighbors"):
        skl.SketchClassifier().fit_sketch({0: private, 1: other}, classes=[0, 1])
    with pytest.raises(ValueError, match="cannot take in records"):
        skl.SketchPCA(1).fit_sketch(private).partial_fit(np.zeros((3, 5)))


def test_warnings_are_of_noise_alone(table):
    """No coefficient stands out of sampling here, but that is no fault of the release; then it is."""
    rows = np.random.default_rng(5).uniform(-1, 1, (500, 3))
    unrelated = skl.design(bounds=([-1] * 3, [1] * 3), task="moments").sketch(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        skl.SketchLinearRegression().fit_sketch(release(table, 5.0, 0))
        skl.SketchLinearRegression().fit_sketch(release(unrelated, 1e4, 0))
    with pytest.warns(UserWarning, match="hides the coefficients: use more records"):
        skl.SketchLinearRegression().fit_sketch(release(unrelated, 1.5, 0))
