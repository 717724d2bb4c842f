"""Rows given beside a release: centers that are private rows, under the release's epsilon."""

import inspect
import json
from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.cli import main
from sketchlearn.estimators.base.state import FirstRows, FittedState, SketchedTable
from sketchlearn.estimators.registry import OWN_ESTIMATORS
from sketchlearn.sketch.ledger import ASSUMED, Ledger

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
BOUNDS = ([-10.0] * 2, [10.0] * 2)
RNG = np.random.default_rng(0)
X = np.concatenate([c + 0.3 * RNG.standard_normal((2000, 2)) for c in ([-6.0, 0.0], [0.0, 6.0], [6.0, 0.0])])
OPERATOR = skl.design(bounds=BOUNDS, n_components=3)
EXACT = OPERATOR.sketch(X)
RELEASE = skl.privatize(EXACT, epsilon=1.0)
TARGETS = X[[0, 2000, 4000]]  # three people, one of each cluster
MODELS = {
    "kmeans": skl.SketchKMeans(3, random_state=0),
    "kmedians": skl.SketchKMedians(3, random_state=0),
    "gmm": skl.SketchGaussianMixture(3, covariance_type="spherical", random_state=0),
    "stable": skl.SketchStableMixture(3, random_state=0),
    "auto": skl.SketchKMeans("auto", max_clusters=3, random_state=0),
}
REFUSED = "rows beside a private release .* assume_public_sample=True"


@pytest.mark.parametrize("name", MODELS)
def test_rows_beside_a_release_are_refused(name):
    """Many copies of three private rows made centers that were those rows to 1e-9, and a ledger of epsilon 1."""
    model = MODELS[name]
    with pytest.raises(ValueError, match=REFUSED):
        model.fit_sketch(RELEASE, sample=np.repeat(TARGETS, 100, axis=0))
    assert not hasattr(model, "n_features_in_")


def test_what_explains_a_release_sees_no_rows():
    fitted = skl.SketchKMeans(3, random_state=0).fit_sketch(RELEASE)
    for given, more in ((fitted, {}), (RELEASE, {"n_components": 3})):
        with pytest.raises(ValueError, match=REFUSED):
            skl.explain(given, X, **more)
        assert "risk_ratio" in skl.explain(given, X, assume_public_sample=True, **more).figures
    assert "risk_ratio" in skl.explain(skl.SketchKMeans(3, random_state=0).fit(X), X).figures


def test_the_ledger_says_that_the_caller_calls_the_rows_public(tmp_path):
    public = RNG.uniform(-9, 9, (300, 2))
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(RELEASE, sample=public, assume_public_sample=True)
    assert model.privacy_ == replace(RELEASE.ledger, sample=ASSUMED)
    assert "the sample is assumed to be public" in str(model.privacy_)
    assert model.sketch_ == RELEASE, "the release itself was made without the sample"
    skl.save(model, tmp_path / "model.json")
    assert skl.load(tmp_path / "model.json").privacy_ == model.privacy_
    assert "if the sample is public" in skl.report(RELEASE, model)
    assert model.privacy_.merged(RELEASE.ledger, overlapping=False).sample == ASSUMED
    assert RELEASE.ledger.after(model.privacy_).sample == ASSUMED
    assert Ledger.from_json(json.loads(json.dumps(model.privacy_.to_json()))) == model.privacy_
    assert model.fit_sketch(RELEASE).privacy_ == RELEASE.ledger


def test_saying_so_changes_nothing_where_there_is_no_release_or_no_sample():
    model = skl.SketchKMeans(3, random_state=0)
    assert model.fit_sketch(RELEASE, assume_public_sample=True).privacy_ == RELEASE.ledger
    assert model.fit_sketch(EXACT, sample=X[:300], assume_public_sample=True).privacy_ is None
    assert model.fit_sketch(EXACT, sample=X[:300]).privacy_ is None
    with pytest.raises(ValueError, match="assume_public_sample must be True or False"):
        model.fit_sketch(RELEASE, sample=X[:300], assume_public_sample="yes")


def test_no_state_holds_a_release_and_rows():
    """Whatever an estimator does, this is all that it can know."""
    state = FittedState(SketchedTable(None, 2), RELEASE)
    for rows in ({"given_rows": X[:3]}, {"first_rows": (FirstRows(X[:3]),)}, {"row_labels": np.zeros(3, int)}):
        with pytest.raises(ValueError, match="rows beside a private release"):
            replace(state, **rows)


def test_every_argument_beside_a_sketch_is_known():
    """One more would be one more way for rows to come in: let the fitted state tell of it, and name it here."""
    known = {"self", "sketch", "sample", "assume_public_sample", "classes", "n_targets", "targets"}
    for task in OWN_ESTIMATORS.values():
        assert set(inspect.signature(task.load().fit_sketch).parameters) <= known


@pytest.mark.parametrize("command", [["fit", "kmeans", "-k", "3"], ["fit", "gmm", "-k", "3"], ["choose"]], ids=" ".join)
def test_the_command_line_refuses_as_well(command, tmp_path, capsys):
    RELEASE.save(tmp_path / "private.sketch")
    np.save(tmp_path / "rows.npy", X[:300])
    given = [*command, str(tmp_path / "private.sketch"), "--sample", str(tmp_path / "rows.npy")]
    with pytest.raises(SystemExit) as left:
        main(given)
    assert left.value.code == 1
    assert "if these rows are public, give --assume-public-sample" in capsys.readouterr().err
    with pytest.raises(SystemExit) as left:
        main([*given, "--assume-public-sample"])
    assert left.value.code == 0
