"""A model that was saved and loaded answers as the fitted one does, and refuses what it refuses."""

import numpy as np
import pandas as pd
import pytest
from numpy.testing import assert_array_equal

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


def test_what_was_spent_is_kept(pair):
    fitted, loaded, _ = pair
    assert loaded.privacy_ == fitted.privacy_
    assert loaded.n_features_in_ == fitted.n_features_in_
