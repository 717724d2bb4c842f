"""Designs and models as files: exact, strict, and never a traceback."""

import contextlib
import copy
import functools
import json
from operator import getitem

import hypothesis.strategies as st
import numpy as np
import pytest
from hypothesis import given

import sketchlearn as skl
from sketchlearn.estimators.files import model_from_bytes, model_to_bytes, selected_from_bytes, selected_to_bytes
from sketchlearn.files.designs import design_from_bytes, design_to_bytes, schema_from_bytes, schema_to_bytes
from sketchlearn.rows.schemas.columns import Category, Number

RNG = np.random.default_rng(0)
ROWS = RNG.standard_normal((3000, 2)) + 12 * RNG.integers(0, 2, (3000, 1))
ESTIMATORS = {
    "kmeans": skl.SketchKMeans(2, random_state=0),
    "kmedians": skl.SketchKMedians(2, random_state=0),
    "stable": skl.SketchStableMixture(2, random_state=0),
    "known": skl.SketchGaussianMixture(2, covariance_type="known", covariance=np.eye(2), random_state=0),
    **{
        kind: skl.SketchGaussianMixture(2, covariance_type=kind, random_state=0)
        for kind in ("full", "tied", "diag", "spherical")
    },
}


@pytest.fixture(scope="module", params=ESTIMATORS)
def fitted(request):
    return ESTIMATORS[request.param].fit(ROWS)


def test_models_come_back(fitted, tmp_path):
    skl.save(fitted, tmp_path / "model.json")
    again = skl.load(tmp_path / "model.json")
    assert type(again) is type(fitted)
    assert np.array_equal(again.predict(ROWS), fitted.predict(ROWS))
    assert np.array_equal(again.weights_, fitted.weights_)
    assert again.n_records_ == 3000
    for name in ("cluster_centers_", "means_", "covariances_", "scales_", "alphas_", "fit_test_"):
        if hasattr(fitted, name):
            assert np.allclose(getattr(again, name), getattr(fitted, name), rtol=1e-12, atol=1e-12)
    if hasattr(fitted, "predict_proba"):
        assert np.allclose(again.predict_proba(ROWS), fitted.predict_proba(ROWS))
    assert (again.outcome_.misfit, again.outcome_.status) == (fitted.outcome_.misfit, fitted.outcome_.status)
    first = json.loads((tmp_path / "model.json").read_bytes())
    second = json.loads(model_to_bytes(again))
    assert first.keys() == second.keys()


MODEL = model_to_bytes(ESTIMATORS["diag"].fit(ROWS))
DESIGN = design_to_bytes(skl.design(ROWS, n_components=2), {"task": "kmeans"})


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("kind", "sketchlearn design", "it is a design, not a model: skl.load reads it"),
        ("version", 2, "newer than this sketchlearn reads"),
        ("version", True, "a version that does not exist"),
        ("type", "os.system", "is not a type of model that this version knows"),
        ("extra", 1, "field 'extra' is unknown"),
        ("weights", [0.5, "x"], "weights must be 2 finite numbers"),
        ("weights", [0.9, 0.9], "must sum to 1"),
        ("weights", [], "weights must be a list, and not empty"),
        ("means", [[1.0, 2.0]], "means must be 2 x 2 finite numbers"),
        ("means", [[1, 2], [3]], "means must be 2 x 2 finite numbers"),
        ("covariances", [[1.0, -1.0], [1.0, 1.0]], "covariances must be positive definite"),
        ("covariance_type", "odd", "covariance_type must be one of"),
        ("columns", ["a"], "columns must be 2 different names"),
        ("n_records", -1, "n_records must be a number of records"),
        ("n_features", 0, "n_features must be a whole number"),
        ("outcome", {}, "outcome must have the fields"),
    ],
)
def test_forged_models_are_refused_in_one_sentence(field, value, message):
    with pytest.raises(skl.FormatError, match=message) as caught:
        model_from_bytes(json.dumps({**json.loads(MODEL), field: value}).encode())
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "it is empty"),
        (b"\xff", "it is not text"),
        (b"[1]", "it holds no object"),
        (b"{}", "but a JSON file of something else"),
        (b"[" * 100_000, "nested too deeply|not a JSON file"),
        (b'{"a": NaN}', "NaN is not a finite number"),
        (b'{"a": 1e999}', "1e999 is not a finite number"),
        (b'{"a": 1, "a": 2}', "a key is repeated"),
        (b'{"a": ' + b"9" * 5000 + b"}", "not a JSON file"),
    ],
)
@pytest.mark.parametrize("read", [model_from_bytes, design_from_bytes])
def test_other_files_are_refused(read, data, message):
    with pytest.raises(skl.FormatError, match=message) as caught:
        read(data)
    assert "\n" not in str(caught.value)


def places(item, path=()):
    """The path of every value in a JSON document."""
    inside = item.items() if isinstance(item, dict) else enumerate(item[:2]) if isinstance(item, list) else ()
    return [path, *(found for key, value in inside for found in places(value, (*path, key)))]


def test_values_nested_deeply_anywhere_are_refused():
    """Some depths end the recursion of a reader, others that of a check or of a message."""
    classes = skl.privacy.select_classes({"a": 500, "b": 400}, epsilon=1.0, delta=1e-6)
    schema = skl.Schema([Category("a", ["x", "y"]), Number("b")])
    kinds = [(selected_to_bytes(classes), selected_from_bytes), (schema_to_bytes(schema), schema_from_bytes)]
    for data, read in [*kinds, (MODEL, model_from_bytes), (DESIGN, design_from_bytes)]:
        for path in places(json.loads(data))[1:]:
            document = json.loads(data)
            functools.reduce(getitem, path[:-1], document)[path[-1]] = "here"
            for depth in (300, 480, 850):
                nested = json.dumps(document).replace('"here"', "[" * depth + "]" * depth)
                with contextlib.suppress(skl.FormatError):
                    read(nested.encode())


def test_designs_come_back_and_are_the_same_bytes(tmp_path):
    operator = skl.design(ROWS, n_components=2)
    (tmp_path / "a.json").write_bytes(design_to_bytes(operator, {"task": "kmeans"}))
    assert (tmp_path / "a.json").read_bytes() == DESIGN
    assert skl.load(tmp_path / "a.json") == operator


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda d: d["operator"].update(digest="0" * 64), "the random numbers drawn here are not those"),
        (lambda d: d["operator"]["parts"][0].update(n_frequencies=2**30), "would take about"),
        (lambda d: d.update(operator=[]), "expected the JSON form of an operator"),
        (lambda d: d.update(extra=1), "a damaged design"),
        (lambda d: d.update(made=1), "a damaged design"),
        (lambda d: d.update(version=9), "newer than this sketchlearn reads"),
    ],
)
def test_forged_designs_are_refused(change, message, tmp_path):
    document = json.loads(DESIGN)
    change(document)
    (tmp_path / "a.json").write_text(json.dumps(document))
    with pytest.raises(skl.FormatError, match=rf"a\.json: .*{message}"):
        skl.load(tmp_path / "a.json")


ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=6,
)


@given(data=st.data())
@pytest.mark.parametrize(("good", "read"), [(MODEL, model_from_bytes), (DESIGN, design_from_bytes)])
def test_any_change_is_read_or_refused(good, read, data):
    """Some value anywhere in a good file is replaced by anything: an object comes back, or a FormatError."""
    document = copy.deepcopy(json.loads(good))
    at = document
    while True:
        key = data.draw(st.sampled_from(sorted(at) if isinstance(at, dict) else range(len(at))))
        if not isinstance(at[key], dict | list) or not at[key] or data.draw(st.booleans()):
            break
        at = at[key]
    at[key] = data.draw(ANYTHING)
    with contextlib.suppress(skl.FormatError):
        read(json.dumps(document).encode())


TARGETS = ROWS @ [[1.0, 0.0], [2.0, -1.0]] + RNG.standard_normal((3000, 2))
TASKS = {
    "ica": (skl.SketchICA(random_state=0), None),
    "pca": (skl.SketchPCA(1), None),
    "compressive": (skl.SketchPCA(1, 20, random_state=0), None),
    "subspaces": (skl.SketchSubspaces(1, 1, random_state=0), None),
    "regression": (skl.SketchLinearRegression(), TARGETS),
    "ridge": (skl.SketchRidge("gcv"), TARGETS[:, 0]),
    "kernel": (skl.SketchKernelRegressor(n_frequencies=20, random_state=0), TARGETS),
    "probabilities": (skl.SketchClassifier("kernel", n_frequencies=20, random_state=0), (ROWS[:, 0] > 6).astype(int)),
    "gaussians": (skl.SketchClassifier("mixture"), np.array(["u", "v"])[(ROWS[:, 0] > 6).astype(int)]),
    "windows": (skl.SketchClassifier("parzen", n_frequencies=50, random_state=0), (ROWS[:, 0] > 6).astype(int)),
}


@pytest.mark.parametrize("name", TASKS)
def test_models_of_other_tasks_come_back(name, tmp_path):
    estimator, y = TASKS[name]
    fitted = estimator.fit(ROWS, y)
    skl.save(fitted, tmp_path / "model.json")
    again = skl.load(tmp_path / "model.json")
    assert type(again) is type(fitted)
    assert again.n_records_ == 3000
    answer = "transform" if "predict" not in dir(fitted) else "predict"
    assert np.array_equal(getattr(again, answer)(ROWS), getattr(fitted, answer)(ROWS))
    learned = ("explained_variance_", "mixing_", "whitening_", "evidence_")
    for attribute in (*learned, "coef_", "intercept_", "r2_", "alpha_", "priors_"):
        if hasattr(fitted, attribute):
            assert np.array_equal(getattr(again, attribute), getattr(fitted, attribute)), attribute
    assert json.loads(model_to_bytes(again)) == json.loads((tmp_path / "model.json").read_bytes())


@pytest.mark.parametrize(
    ("name", "field", "value", "message"),
    [
        ("ica", "components", [[1.0]], "components must be 2 x 2 finite numbers"),
        ("pca", "components", [[1.0]], "components must be 1 x 2 finite numbers"),
        ("pca", "total", -1.0, "total must be positive"),
        ("pca", "weights", [1.0], "field 'weights' is unknown"),
        ("subspaces", "bases", [[1.0]], "bases must be 1 x 2 finite numbers"),
        ("subspaces", "bases", 3, "bases must be a list of matrices"),
        ("subspaces", "weights", [0.5, 0.5], "weights must be 1 finite numbers"),
        ("ridge", "intercepts", [1.0, 2.0], "r2 must be 2 finite numbers"),
        ("ridge", "flat", 3, "flat must be True or False"),
        ("kernel", "coefficients", [[1.0]], "coefficients must be 2 x 40 finite numbers"),
        ("kernel", "waves", skl.features.SecondMoments(2, bound=1.0).to_json(), "waves must be Fourier features"),
        ("probabilities", "means", [[1.0]], "means must be 2 x 44 finite numbers"),
        ("gaussians", "labels", ["u"], "the number of classes must be"),
        ("gaussians", "factors", [[[0.0, 0.0], [0.0, 0.0]]] * 2, "diagonals of all factors must be positive"),
        ("windows", "operator", {"type": "os.system"}, "is not the type of any Operator"),
        (
            "windows",
            "operator",
            skl.features.SecondMoments(2, bound=1.0).to_json(),
            "a classifier cannot use features of type Second",
        ),
        ("windows", "means", [[1.0]], "means must be 2 x 100 finite numbers"),
    ],
)
def test_odd_models_of_other_tasks_are_refused(name, field, value, message):
    estimator, y = TASKS[name]
    form = json.loads(model_to_bytes(estimator.fit(ROWS, y)))
    form[field] = value
    with pytest.raises(skl.FormatError, match=message):
        model_from_bytes(json.dumps(form).encode())


def test_several_gaussians_per_class_are_not_saved():
    fitted = skl.SketchClassifier("mixture", n_components=2, random_state=0).fit(ROWS, (ROWS[:, 0] > 6).astype(int))
    with pytest.raises(TypeError, match="save its sketches_"):
        model_to_bytes(fitted)
