"""Rows added to a model that was learned from a release: exact records beside private ones."""

import pickle

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.estimators.files import model_from_bytes, model_to_bytes

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
RNG = np.random.default_rng(0)
X = RNG.standard_normal((6000, 2)) @ [[1.5, 1.5], [-1.0, 1.0]]
MOMENTS = skl.design(bounds=([-8.0] * 2, [8.0] * 2), task="moments")
RELEASES = {label: skl.privatize(MOMENTS.sketch(X[label::3]), epsilon=10.0) for label in (0, 1)}
PERSON = np.array([[1.234, -3.21]])
REFUSED = "a model of a private release cannot take in records"


def classifier():
    return skl.SketchClassifier(random_state=0).fit_sketch(RELEASES, classes=[0, 1])


@pytest.mark.parametrize("labels", [[2], [2, 0], [0], [0, 1]])
def test_a_person_of_a_new_class_does_not_join_private_classes(labels):
    """Rows of a new class got an exact sketch beside the private ones; the pickle held it."""
    model = classifier()
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=REFUSED):
        model.partial_fit(np.repeat(PERSON, len(labels), axis=0), labels)
    assert pickle.dumps(model) == before
    assert list(model.sketches_) == [0, 1]
    assert model.privacy_.epsilon == 10.0


@pytest.mark.parametrize(
    ("model", "targets"),
    [(skl.SketchPCA(1), None), (skl.SketchLinearRegression(), [1.0])],
    ids=["unsupervised", "supervised"],
)
def test_other_models_refuse_rows_as_well(model, targets):
    model.fit_sketch(RELEASES[0])
    before = pickle.dumps(model)
    with pytest.raises(ValueError, match=REFUSED):
        model.partial_fit(PERSON if targets is None else PERSON[:, :1], targets)
    assert pickle.dumps(model) == before


def test_rows_after_a_private_model_file_begin_anew():
    """Nothing of the release is in what follows, its ledger least of all."""
    model = model_from_bytes(model_to_bytes(skl.SketchPCA(1).fit_sketch(RELEASES[0])))
    assert model.privacy_.epsilon == 10.0
    assert model.partial_fit(X).privacy_ is None
    assert model.n_records_ == len(X)
    assert model.sketch_.count == len(X)
    assert "privacy" not in model_to_bytes(model).decode()


def test_rows_that_are_fitted_after_a_release_have_no_ledger():
    assert skl.SketchPCA(1).fit_sketch(RELEASES[0]).fit(X).privacy_ is None


WAVES = skl.features.FourierFeatures(
    2, 60, law=skl.features.frequencies.Gaussian(2.0), wave="square", seed=1
).with_origin("declared")


def test_a_model_does_not_take_a_ledger_from_a_sketch_that_it_gave_away():
    """`sketch_` was the model's own: emptied and filled with private bits, it gave exact centers epsilon 1."""
    model = skl.SketchKMeans(2, random_state=0).fit_sketch(WAVES.sketch(X))
    model.sketch_.forget(X).update_packed(WAVES.pack(X[:50], epsilon=1.0))
    assert model.privacy_ is None
    assert model.n_records_ == len(X)


def test_nor_from_the_sketches_of_its_classes():
    by_class = {label: WAVES.sketch(X[label::2]) for label in (0, 1)}
    model = skl.SketchClassifier(rule="mixture", random_state=0).fit_sketch(by_class)
    for label, sketch in model.sketches_.items():
        sketch.forget(X[label::2]).update_packed(WAVES.pack(X[label:100:2], epsilon=1.0))
    assert model.privacy_ is None
    assert model.n_records_ == len(X)
