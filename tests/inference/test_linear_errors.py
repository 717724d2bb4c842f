"""Standard errors and intervals of regressions, principal and independent components."""

import warnings

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.inference.errors.influence import SampledRows, least_rows
from sketchlearn.inference.errors.values import ErrorBars

RNG = np.random.default_rng(0)
X = RNG.standard_normal((600, 3)) @ np.array([[1.0, 0.5, 0.0], [0.0, 1.0, 0.3], [0.0, 0.0, 2.0]]) + [5.0, -3.0, 0.0]
Y = X @ [1.0, -2.0, 0.5] + 4 + (0.2 + np.abs(X[:, 2])) * RNG.standard_t(5, 600)
WEIGHTS = RNG.integers(1, 40, 600) / 16  # whole steps of 2^-16
A = np.column_stack([np.ones(600), X])


def textbook(rows, y, weights=None):
    """Classical errors and HC3, the intercept's first."""
    w = np.ones(len(rows)) if weights is None else weights
    inverse = np.linalg.inv(rows.T @ (w[:, None] * rows))
    residuals = y - rows @ inverse @ (rows.T @ (w * y))
    plain = residuals @ (w * residuals) / (len(rows) - rows.shape[1]) * np.diag(inverse)
    leverages = w * np.sum((rows @ inverse) * rows, axis=1)
    scores = (rows @ inverse) * (w * residuals / (1 - leverages))[:, None]
    return np.sqrt(plain), np.sqrt(np.sum(scores**2, axis=0))


def all_errors(model):
    return np.append(model.standard_errors_["intercept_"], model.standard_errors_["coef_"])


def precise(rows):
    """An operator whose rounding is too small to matter: integers of few bits have exact products."""
    return skl.features.SecondMoments(rows.shape[1], bound=2.0**8)


def grid(values, step):
    return np.rint(values / step) * step


def test_errors_from_moments_are_those_of_the_textbook():
    """Values in steps of 2^-7 within a bound of 2^8 have exact products in the fixed point, so nothing is rounded."""
    rows, y = grid(X, 2.0**-7), grid(Y, 2.0**-7)
    table = np.column_stack([rows, y])
    model = skl.SketchLinearRegression().fit_sketch(precise(table).sketch(table))
    expected = textbook(np.column_stack([np.ones(600), rows]), y)[0]
    np.testing.assert_allclose(all_errors(model), expected, rtol=1e-10)
    assert model.error_bars().premise.startswith("for errors of equal variance")


@pytest.mark.parametrize("weights", [None, WEIGHTS])
@pytest.mark.parametrize("intercept", [True, False])
def test_errors_of_all_rows_are_hc3(weights, intercept):
    model = skl.SketchLinearRegression(fit_intercept=intercept).fit(X, Y, sample_weight=weights)
    expected = textbook(A if intercept else X, Y, weights)[1]
    np.testing.assert_allclose(all_errors(model)[not intercept :], expected, rtol=1e-5)
    assert (model.error_bars().premise, model.error_bars().withheld) == ("", "")
    assert intercept or model.standard_errors_["intercept_"] == 0
    low, high = model.intervals(0.5)["coef_"]
    np.testing.assert_allclose((high - low) / 2, 0.6744898 * model.standard_errors_["coef_"], rtol=1e-6)
    np.testing.assert_allclose((high + low) / 2, model.coef_)


def test_several_targets_have_errors_of_their_shapes():
    model = skl.SketchRidge(2.0).fit(X, np.column_stack([Y, -2 * Y]))
    errors = model.standard_errors_
    assert (errors["coef_"].shape, errors["intercept_"].shape) == ((2, 3), (2,))
    np.testing.assert_allclose(errors["coef_"][1], 2 * errors["coef_"][0], rtol=1e-6)


def test_ridge_errors_are_smaller():
    errors = [all_errors(skl.SketchRidge(alpha).fit(X, Y))[1:] for alpha in (0.0, 1000.0)]
    np.testing.assert_allclose(errors[0], textbook(A, Y)[1][1:], rtol=1e-5)
    assert np.all(errors[1] < errors[0])


def test_weights_without_rows_are_bounded_by_the_heaviest():
    """A row that counts three times is one draw, not three."""
    plain, heavy = (skl.SketchLinearRegression().fit(X, Y, sample_weight=w) for w in (None, np.full(600, 3)))
    np.testing.assert_allclose(all_errors(heavy), all_errors(plain), rtol=1e-9)
    alone = [skl.SketchLinearRegression().fit_sketch(model.sketch_) for model in (plain, heavy)]
    np.testing.assert_allclose(all_errors(alone[1]), all_errors(alone[0]), rtol=0.01)
    assert least_rows(heavy.sketch_) == least_rows(plain.sketch_) == 600
    twice = plain.sketch_.merged(plain.sketch_, overlapping=True)
    assert least_rows(twice) == 600


def test_equal_records_are_as_many_draws_as_there_are():
    few = RNG.integers(0, 3, (2000, 2)).astype(float)
    y = few @ [1.0, 2.0] + RNG.integers(-1, 2, 2000)
    model = skl.SketchLinearRegression().fit(few, y)
    assert len(model.sketch_with_rows().kept) <= 27
    np.testing.assert_allclose(all_errors(model), textbook(np.column_stack([np.ones(2000), few]), y)[1], rtol=1e-4)


def test_some_rows_tell_nearly_what_all_do():
    rows = np.random.default_rng(1).standard_normal((20_000, 3))
    y = rows @ [1.0, 2.0, 3.0] + (0.1 + np.abs(rows[:, 0])) * np.random.default_rng(2).standard_normal(20_000)
    model = skl.SketchLinearRegression().fit(rows, y)
    plain, robust = textbook(np.column_stack([np.ones(20_000), rows]), y)
    assert len(model.sketch_with_rows().kept) == 4000
    np.testing.assert_allclose(all_errors(model), robust, rtol=0.1)
    assert np.abs(robust[1] / plain[1] - 1) > 0.3  # so that the textbook's would be far away
    designed = skl.design(np.column_stack([rows, y])[:5000], task="moments", rows=500)
    from_file = skl.from_bytes(designed.sketch(np.column_stack([rows, y])).to_bytes())
    np.testing.assert_allclose(all_errors(skl.SketchLinearRegression().fit_sketch(from_file)), robust, rtol=0.25)


def test_rows_that_are_kept_are_not_in_the_sketch_that_is_shown():
    model = skl.SketchPCA(2).fit(X)
    assert (model.sketch_.kept, model.sketch_.operator.keeping) == (None, None)
    assert len(model.sketch_with_rows().kept) == 600
    assert model.partial_fit(X[:10]).sketch_.count == 610


def test_components_of_normal_rows_have_the_errors_of_anderson():
    model = skl.SketchPCA(2).fit_sketch(skl.SketchPCA().fit(X).sketch_)
    errors, n = model.standard_errors_, 600
    values, vectors = np.linalg.eigh(np.cov(X.T))
    first, others = values[2], values[:2]
    np.testing.assert_allclose(errors["explained_variance_"][0], first * np.sqrt(2 / n), rtol=0.01)
    expected = first / n * (vectors[:, :2] ** 2 @ (others / (first - others) ** 2))
    np.testing.assert_allclose(errors["components_"][0], np.sqrt(expected), rtol=0.01, atol=1e-3)
    np.testing.assert_allclose(errors["mean_"], X.std(axis=0, ddof=1) / np.sqrt(n), rtol=1e-6)
    assert model.error_bars().premise.startswith("for normally distributed rows")


def test_components_of_all_rows_have_the_errors_of_their_fourth_moments():
    model = skl.SketchPCA(2).fit(X)
    away = X - X.mean(axis=0)
    squares = (away @ model.components_.T) ** 2
    errors, total = model.standard_errors_, np.sum(away**2) / 600
    np.testing.assert_allclose(errors["explained_variance_"], squares.std(axis=0) / np.sqrt(600), rtol=0.01)
    shares = (squares - model.explained_variance_ratio_ * np.sum(away**2, axis=1)[:, None]) / total
    np.testing.assert_allclose(errors["explained_variance_ratio_"], shares.std(axis=0) / np.sqrt(600), rtol=0.01)


@pytest.mark.parametrize("size", [{}, {"n_directions": 60, "random_state": 0}], ids=["moments", "projections"])
def test_directions_of_nearly_the_same_variance_have_no_errors(size):
    rows = np.random.default_rng(3).standard_normal((2000, 5)) * [3, 1.5, 1.5, 0.3, 0.3]
    model = skl.SketchPCA(3, **size).fit(rows)
    with pytest.warns(
        UserWarning, match=r"components 1, 2 of 3 cannot be distinguished from directions of nearly the same"
    ):
        errors = model.standard_errors_
    assert np.all(np.isfinite(errors["components_"][0]))
    assert np.all(np.isnan(errors["components_"][1:]))
    assert np.all(np.isfinite(errors["mean_"]))


def test_projections_and_moments_have_nearly_the_same_errors():
    rows = np.random.default_rng(4).laplace(size=(3000, 4)) * [4, 2, 0.5, 0.5]
    exact, fitted = (skl.SketchPCA(2, n_directions=m, random_state=0).fit(rows) for m in (None, 200))
    for name, errors in exact.standard_errors_.items():
        np.testing.assert_allclose(fitted.standard_errors_[name], errors, rtol=0.25, atol=1e-3)
    alone = skl.SketchPCA(2, random_state=0).fit_sketch(fitted.sketch_)
    assert alone.error_bars().premise.startswith("for normally distributed rows")
    # a Laplace law has six times a normal law's variance of squares, less one: sqrt(5 / 2)
    ratio = fitted.standard_errors_["explained_variance_"] / alone.standard_errors_["explained_variance_"]
    np.testing.assert_allclose(ratio, np.sqrt(5 / 2), rtol=0.25)


def test_projections_that_few_components_do_not_explain_are_withheld():
    rows = np.random.default_rng(5).standard_normal((2000, 6)) * [4, 3, 3, 2, 1, 1]
    with pytest.warns(UserWarning, match="1 components do not explain the random projections"):
        assert set(skl.SketchPCA(1, n_directions=60, random_state=0).fit(rows).standard_errors_) == {"mean_"}


def test_private_components_know_their_noise():
    """Of 40 releases of the same rows: only the noise differs, and it is most of the error."""
    rows = np.random.default_rng(6).uniform(-1, 1, (3000, 3)) * [1.0, 0.5, 0.2]
    sketch = skl.design(bounds=([-1, -1, -1], [1, 1, 1]), task="moments").sketch(rows)
    exact, apart = skl.SketchPCA(1).fit_sketch(sketch), []
    for seed in range(40):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)
            private = skl.privatize(sketch, epsilon=0.5, seed_for_tests_not_private=seed, allow_weak=True)
        model = skl.SketchPCA(1).fit_sketch(private)
        errors = model.standard_errors_
        apart += [
            (getattr(model, name) - getattr(exact, name)).ravel() / errors[name].ravel()
            for name in ("explained_variance_", "mean_")
        ]
    assert 0.6 < np.std(np.concatenate(apart)) < 1.2
    assert "noise of the release" in model.error_bars().premise


@pytest.mark.slow
def test_independent_components_have_errors():
    rng, mixing = np.random.default_rng(7), np.array([[1.0, 0.5], [-0.3, 2.0]])
    apart = []
    for _ in range(12):
        sources = rng.uniform(-np.sqrt(3), np.sqrt(3), (3000, 2))
        model = skl.SketchICA(random_state=0).fit(sources @ mixing.T)
        matches = model.components_ @ mixing
        order = np.argmax(np.abs(matches), axis=1)
        truth = np.linalg.inv(mixing)[order] * np.sign(matches[[0, 1], order])[:, None]
        errors = model.standard_errors_
        assert {name: e.shape for name, e in errors.items()} == {
            "components_": (2, 2),
            "mixing_": (2, 2),
            "mean_": (2,),
        }
        apart.append(((model.components_ - truth) / errors["components_"]).ravel())
    assert 0.65 < np.sqrt(np.mean(np.square(apart))) < 1.4  # 48 numbers, not all independent
    with pytest.warns(UserWarning, match="need a sample of rows"):
        assert skl.SketchICA(random_state=0).fit_sketch(model.sketch_).standard_errors_ == {}


@pytest.mark.parametrize(
    "model",
    [skl.SketchLinearRegression(), skl.SketchRidge("gcv"), skl.SketchPCA(2), skl.SketchICA(2, random_state=0)],
    ids=lambda model: type(model).__name__,
)
def test_saved_models_have_the_same_errors(model, tmp_path):
    uniform = np.random.default_rng(8).uniform(size=(500, 2)) @ [[1.0, 0.4], [0.0, 2.0]]
    model.fit(uniform, uniform @ [1.0, 2.0] + np.random.default_rng(9).laplace(size=500))
    skl.save(model, tmp_path / "model.json")
    loaded = skl.load(tmp_path / "model.json")
    assert loaded.error_bars().to_json() == model.error_bars().to_json()
    assert loaded.intervals().keys() == model.standard_errors_.keys()
    assert all(np.array_equal(e, loaded.standard_errors_[name]) for name, e in model.standard_errors_.items())


def test_error_bars_say_their_premise_in_files():
    bars = ErrorBars({"mean_": np.array([1.0, np.nan])}, "", "for normally distributed rows")
    read = ErrorBars.from_json(bars.to_json())
    assert (read.premise, read.withheld) == (bars.premise, "")
    assert np.array_equal(read.standard_errors["mean_"], bars.standard_errors["mean_"], equal_nan=True)
    assert "premise" not in ErrorBars().to_json()
    with pytest.raises(ValueError, match="premise"):
        ErrorBars.from_json({**bars.to_json(), "premise": 1})


def test_too_few_rows_are_no_sample():
    sketch = skl.design(X, task="moments", rows=50).sketch(X)
    assert SampledRows.of(sketch) is None
    assert SampledRows.of(skl.design(X, task="moments", rows=50).sketch(X[:40])) is not None  # all that there are


def test_rows_for_moments_need_a_sample():
    with pytest.raises(ValueError, match="rows and standardize need a sample"):
        skl.design(bounds=([0, 0], [1, 1]), task="moments", rows=100)
    with pytest.raises(ValueError, match="leave out rows"):
        skl.design(X, task="subspaces", rows=100)
