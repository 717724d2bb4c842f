"""Model files and pickles beside one release: neighbours must give the same bytes, whatever is done with their rows.

The release is the same, so that nothing but rows can make a difference. Pickles are compared without the batches of a
sketch, which are those of the sketch that is given (tests/attacks has a file of its own for what a release carries).
"""

import contextlib
import io
import pickle
import warnings
from dataclasses import replace

import numpy as np
import pytest
from sklearn.base import clone

import sketchlearn as skl
from sketchlearn.estimators.files import model_to_bytes
from sketchlearn.estimators.registry import OWN_ESTIMATORS

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")  # of noise and few rows, which are no subject here
N, D = 3000, 3
BOX = ([-8.0] * D, [8.0] * D)


def people():
    rng = np.random.default_rng(0)
    middles = np.array([[-4.0, 0.0, 2.0], [4.0, -1.0, 0.0]])
    return middles[rng.integers(0, 2, N)] + 0.5 * rng.standard_normal((N, D))


def clipped(operator):
    """An operator that was designed on a sample, so that it refuses no row."""
    return skl.features.concatenate([replace(part, outside="clip") for part in operator.parts])


PEOPLE = people()
NEIGHBOURS = PEOPLE[1:300], PEOPLE[:300]  # without the first person, and with them
CLUSTERS = skl.design(bounds=BOX, n_components=2, features=skl.features.Fourier(n_frequencies=40))
MOMENTS = skl.design(bounds=BOX, task="moments")
GENERATED = {"max_iter": 2, "batch_size": 20, "features": skl.features.Fourier(20), "random_state": 0}
CASES = {
    "kmeans": (skl.SketchKMeans(2, random_state=0), CLUSTERS),
    "kmedians": (skl.SketchKMedians(2, random_state=0), CLUSTERS),
    "gmm": (skl.SketchGaussianMixture(2, covariance_type="diag", random_state=0), CLUSTERS),
    "stable": (skl.SketchStableMixture(2, random_state=0), CLUSTERS),
    "pca": (skl.SketchPCA(2), MOMENTS),
    "ica": (skl.SketchICA(random_state=0), clipped(skl.design(PEOPLE[:500], task="ica"))),
    "subspaces": (skl.SketchSubspaces(2, 1, random_state=0), skl.design(bounds=BOX, task="subspaces")),
    "regression": (skl.SketchLinearRegression(), MOMENTS),
    "ridge": (skl.SketchRidge(2.0), MOMENTS),
    "kernel": (
        skl.SketchKernelRegressor(n_frequencies=20, scale=2.0, random_state=0),
        skl.design(bounds=BOX, task="kernel", features=skl.features.Fourier(n_frequencies=20)),
    ),
    "classifier": (skl.SketchClassifier(random_state=0), MOMENTS),
    "generator": (
        skl.SketchGenerator(**GENERATED),
        skl.design(bounds=BOX, task="generator", features=skl.features.Fourier(n_frequencies=20)),
    ),
}
SUPERVISED = ("regression", "ridge", "kernel", "classifier")


def test_every_task_is_tried():
    assert CASES.keys() == {task.name for task in OWN_ESTIMATORS.values()}


def released(operator, rows):
    options = {"assume_public_design": True, "seed_for_tests_not_private": 0, "allow_weak": True}
    return skl.privatize(operator.sketch(rows), epsilon=50.0, **options)


def release_for(name):
    """A release, or one for each class."""
    operator = CASES[name][1]
    if name == "classifier":
        return {label: released(operator, PEOPLE[label::2]) for label in (0, 1)}
    return released(operator, PEOPLE)


def read_again(release):
    """The release as whoever has nothing but its file knows it."""
    if isinstance(release, dict):
        return {label: read_again(part) for label, part in release.items()}
    return skl.from_bytes(release.to_bytes())


class Pickler(pickle.Pickler):
    """Pickles values alone: neither which of them are one object, nor batches."""

    def __init__(self, file):
        super().__init__(file)
        self.fast = True

    def reducer_override(self, value):
        if type(value).__name__ == "Batches":
            return str, ()
        if type(value).__module__.startswith("torch") and hasattr(value, "detach"):  # pickled with its address
            return bytes, (value.detach().numpy().tobytes(),)
        return NotImplemented


def carried(model):
    """The bytes of the model's file, and of its pickle, when all that is found on demand was found."""
    saved = model_to_bytes(model)
    with io.BytesIO() as pickled:
        Pickler(pickled).dump(model)
        return saved, pickled.getvalue()


def fitted(name, release, estimator=None, **beside):
    more = {"classes": [0, 1]} if name == "classifier" else {}
    return (estimator or clone(CASES[name][0])).fit_sketch(release, **more, **beside)


def columns(name, rows):
    """Features, and targets of those that have some."""
    if name in ("regression", "ridge", "kernel"):
        return rows[:, :-1], rows[:, -1]
    return rows, (rows[:, 0] > 0).astype(int)


def tried(name, release, rows):
    """A model of the release after all that can be done with rows beside it; what is refused is left out."""
    X, y = columns(name, rows)
    given = (X, y) if name in SUPERVISED else (X,)
    try:
        model = fitted(name, release, sample=rows)
    except (TypeError, ValueError):
        model = fitted(name, release)
    for method, arguments in (
        ("predict", (X,)),
        ("predict_proba", (X,)),
        ("transform", (X,)),
        ("score_samples", (X,)),
        ("score", given),
        ("bic", (X,)),
        ("aic", (X,)),
        ("partial_fit", given),
    ):
        if hasattr(model, method):
            with contextlib.suppress(ValueError):
                getattr(model, method)(*arguments)
    with contextlib.suppress(TypeError, ValueError):
        skl.explain(model, X)
    return carried(model)


@pytest.mark.parametrize("name", CASES)
def test_a_model_carries_nothing_of_rows_beside_the_release(name):
    """`sample=` put rows into the centers, the density, the outcome and the mean cost of a row."""
    without, with_person = (tried(name, release_for(name), rows) for rows in NEIGHBOURS)
    assert without[0] == with_person[0], "model file"
    assert without[1] == with_person[1], "pickle"


@pytest.mark.parametrize("name", CASES)
def test_a_model_is_a_function_of_the_releases_file(name):
    """Whatever the process knows, and whatever the estimator learned before; so is all that is said meanwhile."""
    X, y = columns(name, PEOPLE)
    used = clone(CASES[name][0]).fit(X, y if name in SUPERVISED else None)
    seen = []
    for release, estimator in ((release_for(name), used), (read_again(release_for(name)), None)):
        with warnings.catch_warnings(record=True) as said:
            warnings.simplefilter("always")
            seen.append((*carried(fitted(name, release, estimator)), [str(warning.message) for warning in said]))
    assert seen[0] == seen[1]
