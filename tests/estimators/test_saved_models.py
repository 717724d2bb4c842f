"""A model that was saved and loaded answers as the fitted one does, and refuses what it refuses."""

import copy
import json
from dataclasses import FrozenInstanceError, replace
from pathlib import Path

import numpy as np
import pandas as pd
import polars
import pytest
from numpy.testing import assert_array_equal
from sklearn.base import clone
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import sketchlearn as skl
from sketchlearn.estimators.registry import OWN_ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
NAMES = ["height", "weight", "age"]
ANSWERS = ("predict", "transform", "score_samples", "predict_proba", "score")


def table(n=3000, seed=0):
    rng = np.random.default_rng(seed)
    labels = rng.integers(0, 3, n)
    rows = np.array([[0, 0, 0], [9, 1, 4], [-3, 8, -6.0]])[labels] + rng.laplace(size=(n, 3)) @ rng.normal(size=(3, 3))
    return pd.DataFrame(rows, columns=NAMES), labels


FRAME, LABELS = table()
TARGET = FRAME.to_numpy() @ [1.0, -2.0, 0.5] + 3
ASKED = FRAME[:300]
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
    "kernel": (skl.SketchKernelRegressor(n_frequencies=20, scale=2.0, random_state=0), TARGET),
    "classifier": (skl.SketchClassifier(random_state=0), LABELS),
    "generator": (
        skl.SketchGenerator(max_iter=2, batch_size=20, features=skl.features.Fourier(n_frequencies=20), random_state=0),
        None,
    ),
}


def test_every_task_is_tried():
    assert ESTIMATORS.keys() == {task.name for task in OWN_ESTIMATORS.values()}


@pytest.fixture(scope="module", params=ESTIMATORS)
def pair(request, tmp_path_factory):
    """A fitted estimator, the same from a file, and the targets it was fitted with."""
    estimator, target = ESTIMATORS[request.param]
    fitted = estimator.fit(FRAME) if target is None else estimator.fit(FRAME, target)
    path = tmp_path_factory.mktemp("models") / "model.json"
    skl.save(fitted, path)
    return fitted, skl.load(path), target


def test_answers_are_the_same(pair):
    fitted, loaded, target = pair
    answered = [name for name in ANSWERS if hasattr(fitted, name)]
    assert answered == [name for name in ANSWERS if hasattr(loaded, name)]
    for name in answered:
        given = (ASKED,) if target is None or name != "score" else (ASKED, target[:300])
        before, after = (getattr(model, name)(*given) for model in (fitted, loaded))
        np.testing.assert_allclose(after, before, rtol=1e-9, atol=1e-12)


def answer_of(model):
    """Predictions or coordinates; a generator has no answer."""
    return next((name for name in ("predict", "transform") if hasattr(model, name)), "sample")


WIDER = ASKED.assign(note="text", height2=1.0)[["note", "age", "height2", "weight", "height"]]
TABLES = {
    "pandas": ASKED[NAMES[::-1]],
    "wider": WIDER,
    "polars": polars.from_pandas(WIDER),
    "arrow": polars.from_pandas(WIDER).to_arrow(),
    "batches": [ASKED[NAMES[::-1]][:100], ASKED[100:]],
}


@pytest.mark.parametrize("kind", TABLES)
def test_columns_go_by_name(pair, kind):
    fitted, loaded, _ = pair
    answer = answer_of(fitted)
    assert_array_equal(loaded.feature_names_in_, NAMES)
    if answer != "sample":
        expected = getattr(fitted, answer)(ASKED)
        for model in (fitted, loaded):
            np.testing.assert_allclose(getattr(model, answer)(TABLES[kind]), expected, rtol=1e-9, atol=1e-12)


NOT_A_TABLE_OF_IT = {
    "a column is missing": (FRAME[NAMES[:2]], "no column 'age'"),
    "another name": (FRAME.rename(columns={"age": "years"}), "no column 'age'"),
    "missing in Arrow": (polars.from_pandas(FRAME[NAMES[1:]]).to_arrow(), "no column 'height'"),
    "too few columns": (FRAME.to_numpy()[:, :2], "2 features"),
    "text": (FRAME.assign(age="old"), "column 'age' is text"),
    "gap": (FRAME.assign(age=np.nan), "row 0, column 'age' is missing"),
}


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
@pytest.mark.parametrize("case", NOT_A_TABLE_OF_IT)
def test_refusals_are_alike(pair, case):
    fitted, loaded, _ = pair
    wrong, message = NOT_A_TABLE_OF_IT[case]
    answer, said = answer_of(fitted), []
    if answer == "sample":
        wrong, message = -1, "n_samples"
    for model in (fitted, loaded):
        with pytest.raises(ValueError, match=message) as refused:
            getattr(model, answer)(wrong)
        said.append(str(refused.value))
    assert said[0] == said[1]


def test_streams_go_by_name():
    """Batches of a stream, too, and the features of a regression."""
    one, other = (skl.SketchRidge(random_state=0) for _ in range(2))
    for batch in np.array_split(np.arange(len(FRAME)), 3):
        frame = FRAME.iloc[batch]
        one.partial_fit(frame, TARGET[batch])
        other.partial_fit(frame if batch[0] == 0 else frame[NAMES[::-1]], TARGET[batch])
    assert one.sketch_ == other.sketch_
    named = skl.SketchRidge(random_state=0).fit(FRAME.assign(price=TARGET), "price")
    assert_array_equal(named.predict(FRAME[NAMES[::-1]].assign(price=0.0)), named.predict(FRAME))


def test_what_was_spent_and_chosen_is_kept(pair):
    fitted, loaded, _ = pair
    assert loaded.fitted_model() == fitted.fitted_model()
    assert (loaded.n_records_, loaded.columns_) == (fitted.n_records_, fitted.columns_) == (3000, tuple(NAMES))
    assert repr(loaded) == repr(fitted)
    assert loaded.get_params() == fitted.get_params()
    assert loaded.privacy_ == fitted.privacy_
    assert loaded.n_features_in_ == fitted.n_features_in_


def private_sketch(task, rows, **options):
    low, high = FRAME.min().tolist(), FRAME.max().tolist()
    operator = skl.design(bounds=(low, high), task=task, **options).with_columns(tuple(NAMES))
    return skl.privatize(operator.sketch(rows), epsilon=20.0)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("name", ["gmm", "pca", "ridge", "classifier"])
def test_what_was_spent_is_kept(name, tmp_path):
    task = "mixture" if name == "gmm" else "moments"
    options = {} if task == "moments" else {"n_components": 3}
    if name == "classifier":
        given = {label: private_sketch(task, FRAME[label == LABELS]) for label in range(3)}
        fitted = clone(ESTIMATORS[name][0]).fit_sketch(given, classes=[0, 1, 2])
    else:
        fitted = clone(ESTIMATORS[name][0]).fit_sketch(private_sketch(task, FRAME, **options))
    skl.save(fitted, tmp_path / "model.json")
    loaded = skl.load(tmp_path / "model.json")
    assert fitted.privacy_ is not None
    assert loaded.privacy_ == fitted.privacy_
    assert loaded.n_records_ == fitted.n_records_
    assert repr(loaded) == repr(fitted)


@pytest.mark.filterwarnings("ignore:X does not have valid feature names")
def test_a_failed_fit_leaves_the_estimator_as_it_was(pair):
    """Whatever fails: the rows, their number, or learning from the sketch."""
    estimator, target = copy.deepcopy(pair[0]), pair[2]
    if isinstance(estimator, skl.SketchGenerator):
        pytest.skip("learns from a single row")
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
    skl.save(skl.SketchKMeans(3, random_state=0).fit(FRAME), tmp_path / "model.json")
    document = json.loads((tmp_path / "model.json").read_text())
    assert document["parameters"] == {"n_clusters": 3, "random_state": 0}
    (tmp_path / "model.json").write_text(json.dumps({**document, "parameters": parameters}))
    with pytest.raises(skl.FormatError, match=message):
        skl.load(tmp_path / "model.json")


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
