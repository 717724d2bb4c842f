"""Families of features as one typed value of estimators and designs, and the parameters that they replace."""

import pickle

import numpy as np
import pytest
from sklearn.base import clone

import sketchlearn as skl
from sketchlearn.features import Cells, Fourier, FourierFeatures, Moments

X = np.random.default_rng(0).normal(size=(3000, 9))
BOUNDS = ([-5] * 9, [5] * 9)


@pytest.mark.parametrize(
    "features",
    [None, Fourier(), Fourier(100, wave="square", subsample=None), Cells(), Cells(4), Cells(0), Cells(normalize=True)],
)
def test_a_model_keeps_its_features(features, tmp_path):
    model = skl.SketchKMeans(3, features=features, random_state=0).fit(X)
    skl.save(model, tmp_path / "model.json")
    for again in (clone(model), pickle.loads(pickle.dumps(model)), skl.load(tmp_path / "model.json")):
        assert again.features == features


@pytest.mark.parametrize(
    ("estimator", "n_frequencies", "wave"),
    [
        (skl.SketchKMeans(3, features=Fourier(100, "square")), 100, "square"),
        (skl.SketchGaussianMixture(3, features=Fourier(110)), 110, "exponential"),
    ],
)
def test_designs_from_bounds_have_the_features_of_the_estimator(estimator, n_frequencies, wave):
    waves = estimator.design(bounds=BOUNDS).part(FourierFeatures)
    assert (waves.n_frequencies, waves.wave.name) == (n_frequencies, wave)
    assert "50 random frequencies" in skl.SketchKernelRegressor(n_frequencies=50).design(bounds=BOUNDS).in_words


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: skl.SketchKMeans(3, standardize=True).design(bounds=BOUNDS), "standardize need a sample"),
        (lambda: skl.SketchKMeans(3, profile_columns=1).design(bounds=BOUNDS), "profile_columns need a sample"),
        (lambda: skl.SketchKMeans(3, features=Cells(5, normalize=True)).design(bounds=BOUNDS), "normalize needs a sam"),
        (lambda: skl.SketchKMeans(3, profile_columns=1, features=Cells(0)).fit(X), "need cells in directions: give"),
        (lambda: skl.SketchKMeans(3, profile_columns=1.5).fit(X), "positions from -9 to 8"),
        (lambda: skl.SketchKMeans(3, profile_columns=99).fit(X), "positions from -9 to 8"),
        (lambda: skl.SketchKMeans(3, features=Fourier).fit(X), r"the class itself: write skl\.features\.Fourier\(\)"),
        (lambda: skl.SketchKMeans(3, features=Fourier(n_directions=8)).fit(X), "is for generators"),
        (lambda: skl.SketchKMeans(3, features=Moments()).fit(X), "cannot be used for SketchKMeans"),
        (lambda: skl.design(X, task="kernel", features=Fourier(100, "square")), "takes a number of frequencies alone"),
        (lambda: skl.design(X, task="generator", features=Fourier(subsample=10)), "leave out subsample"),
        (lambda: skl.SketchKMeans(3, features=Cells(), n_frequencies=80), "n_frequencies= beside features="),
        (lambda: skl.SketchKMeans(3, profile_columns=[0], along=[1]), "along= beside profile_columns="),
        (lambda: skl.SketchGaussianMixture(3, along=[1]), "unexpected keyword argument 'along'"),
    ],
)  # fmt: skip
def test_what_cannot_be_is_refused(call, message):
    with pytest.raises((ValueError, TypeError), match=message):
        call()


@pytest.mark.parametrize(
    ("call", "features"),
    [
        (lambda: skl.SketchKMeans(3, n_frequencies=80), Fourier(80)),
        (lambda: skl.SketchKMeans(features=Fourier(wave="square")).set_params(n_frequencies=80), Fourier(80, "square")),
        (lambda: skl.SketchKMeans(3, n_directions=4, normalize=True), Cells(4, normalize=True)),
        (lambda: skl.SketchKMeans(3, n_directions=None), Fourier()),
        (lambda: skl.SketchKMeans(3, n_frequencies=None), None),
    ],
)  # fmt: skip
def test_former_parameters_name_the_features(call, features):
    with pytest.warns(DeprecationWarning, match="is deprecated: use") as warned:
        assert call().features == features
    assert [one.filename for one in warned] == [__file__]


def test_a_warning_names_all_former_parameters_and_who_gave_them():
    with pytest.warns(DeprecationWarning, match="n_directions=, along=.* use profile_columns=.*features=") as warned:
        skl.SketchKMeans(3, along=[1], n_directions=4)
    assert warned[0].filename == __file__
    with pytest.warns(DeprecationWarning, match=r"SketchKMeans\.design\(n_frequencies=\)") as warned:
        skl.SketchKMeans(3).design(bounds=BOUNDS, n_frequencies=100)
    assert warned[0].filename == __file__
    skl.SketchKMeans(3, features=Fourier(80)).set_params(profile_columns=None)  # warnings are errors
