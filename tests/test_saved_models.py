"""A model that was saved and loaded answers as the fitted one does, and refuses what it refuses."""

import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sketchlearn as skl

NAMES = ["height", "weight", "age"]
ANSWERS = ("predict", "transform", "score_samples", "predict_proba", "score")


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    rows = np.array([[0, 0, 0], [9, 1, 4], [-3, 8, -6.0]])[labels] + rng.laplace(size=(n, 3)) @ rng.normal(size=(3, 3))
    return pd.DataFrame(rows, columns=NAMES), labels


FRAME, LABELS = table()
TARGET = FRAME.to_numpy() @ [1.0, -2.0, 0.5] + 3
ESTIMATORS = {
    "kmeans": (skl.SketchKMeans(3, random_state=0), None),
    "kmedians": (skl.SketchKMedians(3, random_state=0), None),
    "gmm": (skl.SketchGaussianMixture(3, random_state=0), None),
    "stable": (skl.SketchStableMixture(3, random_state=0), None),
    "pca": (skl.SketchPCA(2), None),
    "ica": (skl.SketchICA(3, random_state=0), None),
    "subspaces": (skl.SketchSubspaces(2, 2, random_state=0), None),
    "regression": (skl.SketchLinearRegression(), TARGET),
    "ridge": (skl.SketchRidge(2.0), TARGET),
    "classifier": (skl.SketchClassifier(random_state=0), LABELS),
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def pair(request, tmp_path_factory):
    """A fitted estimator, the same from a file, and the targets it was fitted with."""
    estimator, target = ESTIMATORS[request.param]
    fitted = estimator.fit(FRAME) if target is None else estimator.fit(FRAME, target)
    path = tmp_path_factory.mktemp("models") / "model.json"
    skl.save_model(fitted, path)
    return fitted, skl.load_model(path), target


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_answers_are_the_same(pair):
    fitted, loaded, target = pair
    answered = [name for name in ANSWERS if hasattr(fitted, name)]
    assert answered == [name for name in ANSWERS if hasattr(loaded, name)]
    for name in answered:
        given = (FRAME,) if target is None or name != "score" else (FRAME, target)
        before, after = (getattr(model, name)(*given) for model in (fitted, loaded))
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_columns_in_another_order_or_missing_are_refused_alike(pair):
    fitted, loaded, _ = pair
    answer = "predict" if hasattr(fitted, "predict") else "transform"
    assert_array_equal(loaded.feature_names_in_, NAMES)
    for wrong in (FRAME[NAMES[::-1]], FRAME[NAMES[:2]], FRAME.rename(columns={"age": "years"})):
        said = []
        for model in (fitted, loaded):
            with pytest.raises(ValueError, match="feature") as refused:
                getattr(model, answer)(wrong)
            said.append(str(refused.value))
        assert said[0] == said[1]


def test_what_was_spent_and_chosen_is_kept(pair):
    fitted, loaded, _ = pair
    assert loaded.fitted_model() == fitted.fitted_model()
    assert (loaded.n_records_, loaded.columns_) == (fitted.n_records_, fitted.columns_) == (3000, tuple(NAMES))
    assert repr(loaded) == repr(fitted)
    assert loaded.privacy_ == fitted.privacy_
    assert loaded.n_features_in_ == fitted.n_features_in_


@pytest.mark.filterwarnings("ignore:X does not have valid feature names", "ignore:the sketch does not look like")
@pytest.mark.parametrize("name", ESTIMATORS)
def test_a_failed_fit_leaves_the_estimator_as_it_was(name):
    """Whatever fails: the rows, their number, or learning from the sketch."""
    estimator, target = clone(ESTIMATORS[name][0]), ESTIMATORS[name][1]
    estimator.fit(FRAME, target)
    before, model = dict(vars(estimator)), estimator.fitted_model()
    other = np.full((40, 5), np.nan)
    few = (np.zeros((1, 7)), None if target is None else np.zeros(1))
    odd = None if target is None else LABELS[:40].astype(float)
    for X, y in ((other, odd), few):
        for entry in (estimator.fit, estimator.partial_fit):
            with pytest.raises(ValueError):
                entry(X, y)
    with pytest.raises((TypeError, ValueError)):
        estimator.fit_sketch({0: 1})
    assert vars(estimator) == before
    assert estimator.fitted_model() is model


def test_models_are_frozen_and_differ_by_their_numbers():
    one, other = (skl.SketchKMeans(2, random_state=0).fit(rows).fitted_model() for rows in (FRAME, FRAME + 1))
    assert one != other
    assert one == replace(one)
    with pytest.raises(FrozenInstanceError):
        one.centers = other.centers


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": [{}]}, "parameters must be an object of words and numbers"),
        ([], "parameters must be an object"),
        ({"colour": 1}, "a SketchKMeans has no parameter 'colour'"),
        ({"decoder": "nonsense"}, "decoder must be one of"),
    ],
)
def test_forged_parameters_are_refused(parameters, message, tmp_path):
    skl.save_model(skl.SketchKMeans(3, random_state=0).fit(FRAME), tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["parameters"] == {"n_clusters": 3, "random_state": 0}
    (tmp_path / "model.json").write_text(json.dumps({**document, "parameters": parameters}))
    with pytest.raises(skl.FormatError, match=message):
        skl.load_model(tmp_path / "model.json")


def test_warnings_point_at_the_callers_line():
    """Whatever the entry: fit, a sketch, a property that learns anew, a pipeline."""
    rows = np.random.default_rng(0).standard_cauchy((3000, 2))
    model, sketch = skl.SketchGaussianMixture(2, random_state=0), skl.design(rows, n_components=2).sketch(rows)
    stream = skl.SketchGaussianMixture(2, random_state=0).partial_fit(rows)
    for entry in (
        lambda: model.fit(rows),
        lambda: model.fit_sketch(sketch),
        lambda: stream.means_,
        lambda: make_pipeline(StandardScaler(), skl.SketchGaussianMixture(2, random_state=0)).fit(rows),
    ):
        with pytest.warns(ConvergenceWarning) as heard:
            entry()
        assert {Path(warning.filename).name for warning in heard} == {Path(__file__).name}
