"""The number of clusters, from one sketch that was designed for the largest."""

import json

import numpy as np
import pytest
from scipy.spatial.distance import cdist
from sklearn.base import clone
from sklearn.datasets import load_iris, load_wine
from sklearn.metrics import silhouette_score

import sketchlearn as skl
from sketchlearn.estimators.files import model_from_bytes, model_to_bytes
from sketchlearn.estimators.number_of_clusters import Basis, ClusterChoice, ClusterCurve, silhouette
from sketchlearn.inference.decoders.number_of_components import component_path
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture

pytestmark = pytest.mark.slow

MOST = 6


def centers_of(k, d=2, gap=5.0):
    centers = np.random.default_rng(0).standard_normal((k, d))
    if k > 1:
        centers *= gap / np.linalg.norm(centers[:, None] - centers, axis=2)[np.triu_indices(k, 1)].min()
    return centers


def gaussians(k, d=2, n=5_000, weights=None, gap=5.0):
    rng, centers = np.random.default_rng(1), centers_of(k, d, gap)
    return centers[rng.choice(k, n, p=weights)] + rng.uniform(0.8, 1.2, (1, d)) * rng.standard_normal((n, d))


def stretched(n=5_000):
    """Two Gaussians that no diagonal ones explain."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((n, 2)) @ [[1.5, 1.4], [0.0, 0.4]] + 6 * rng.integers(0, 2, (n, 1)) * [1, -1]


def box(n=5_000, d=2):
    return np.random.default_rng(0).uniform(0, 1, (n, d))


def sketched(X, most=MOST, **more):
    return skl.design(X, n_components=most, seed=1, **more).sketch(X)


@pytest.mark.parametrize(
    ("X", "k", "kind"),
    [
        (gaussians(1), 1, "diag"),
        (gaussians(3), 3, "diag"),
        (gaussians(4, d=3, gap=3.0), 4, "diag"),
        (gaussians(4, weights=[0.6, 0.3, 0.08, 0.02]), 4, "diag"),
        (gaussians(3, n=1000, d=3), 3, "diag"),
        (stretched(), 2, "full"),
    ],
    ids=["one", "three", "overlapping", "uneven", "few rows", "stretched"],
)
def test_gaussians_are_counted(X, k, kind):
    choice = skl.choose_k(sketched(X), MOST)
    assert (choice.n_clusters, choice.basis, choice.covariance_type) == (k, Basis.GAUSSIANS, kind)
    assert (choice.low, choice.high) == (k, k)
    assert 0.4 < choice.misfit < 1.8
    assert choice.headline == ("no clusters" if k == 1 else f"{k} clusters")
    assert choice.criteria[k - 1] == 0 == min(choice.criteria)
    assert len(choice.criteria) == len(choice.criterion_errors)
    assert f"{k} <" in str(choice)


@pytest.mark.parametrize("seed", [2, 4, 5])
def test_a_cluster_is_seen_that_gains_less_than_its_parameters_cost_but_more_than_noise(seed):
    rng, (k, d, n) = np.random.default_rng(seed), (3, 10, 6000)
    centers = rng.standard_normal((k, d))
    centers *= 3.2 / np.linalg.norm(centers[:, None] - centers, axis=2)[np.triu_indices(k, 1)].min()
    X = centers[rng.choice(k, n, p=[0.5, 0.47, 0.03])] + rng.standard_normal((n, d))
    choice = skl.choose_k(skl.design(X, n_components=4, seed=seed).sketch(X), 4)
    assert (choice.n_clusters, choice.low) == (3, 2)


def test_more_clusters_than_are_looked_at():
    choice = skl.choose_k(sketched(gaussians(5)), 3)
    assert (choice.headline, choice.basis) == ("3 or more clusters", Basis.DENSITY)
    assert "No mixture of up to 3 Gaussians fits" in str(choice)
    choice = skl.choose_k(sketched(gaussians(3)), 3)
    assert (choice.headline, choice.basis) == ("3 or more clusters", Basis.GAUSSIANS)
    choice = skl.choose_k(sketched(gaussians(5), rows=600), 3)
    assert (choice.headline, choice.basis) == ("3 or more clusters", Basis.ROWS)
    assert "This is the largest number tried. Use a larger max_clusters." in choice.sentences


def test_a_box_is_not_gaussian_and_has_no_clusters():
    choice = skl.choose_k(sketched(box()), MOST)
    assert (choice.n_clusters, choice.basis) == (1, Basis.DENSITY)
    assert choice.misfit > 1.5
    assert choice.sentences[0].startswith("No evident clusters: for no k")
    assert "whose components can look like clusters" in str(choice)
    rows = skl.choose_k(sketched(box(), rows=500), MOST)
    assert (rows.basis, rows.evident, rows.misfit) == (Basis.ROWS, False, None)
    assert rows.sentences[0].startswith("No evident clusters")


@pytest.mark.parametrize("seed", range(3))
def test_rows_of_one_gaussian_have_no_clusters(seed):
    X = np.random.default_rng(seed).standard_normal((1000, 3)) * [1, 2, 4]
    model = skl.SketchKMeans("auto", random_state=seed).fit(X)
    assert (model.n_clusters_, model.choice_.headline) == (1, "no clusters")


def test_real_tables():
    """Iris has two clusters, one of which are two species; wine has its three cultivars."""
    for load, k in ((load_iris, 2), (load_wine, 3)):
        X = load().data
        choice = skl.SketchKMeans("auto", random_state=0).fit((X - X.mean(axis=0)) / X.std(axis=0)).choice_
        assert (choice.n_clusters, choice.evident) == (k, True)
        assert choice.sentences[0].startswith(f"{k} clusters, stable: mean silhouette")


def test_a_sample_stands_in_for_kept_rows():
    X = gaussians(3)
    choice = skl.choose_k(sketched(X), MOST, sample=X[:400])
    assert (choice.n_clusters, choice.basis) == (3, Basis.ROWS)
    assert choice.agreements[1] > 0.9
    assert len(choice.agreements) == MOST - 1


@pytest.mark.parametrize("wave", ["square", "cosine"])
def test_other_waves_are_left_to_draws_of_a_density(wave):
    choice = skl.choose_k(sketched(gaussians(3), features=skl.features.Fourier(wave=wave)), MOST)
    assert (choice.n_clusters, choice.basis, choice.misfit) == (3, Basis.DENSITY, None)


def test_private_sketches():
    X = gaussians(3, n=100_000)
    bound = float(np.abs(X).max())
    operator = skl.design(bounds=(-bound, [bound] * 2), n_components=5, n_rows=len(X), epsilon=1.0)
    release = skl.privatize(operator.sketch(X), epsilon=1.0, seed_for_tests_not_private=0)
    assert skl.choose_k(release, 5).n_clusters == 3
    few = skl.design(bounds=(-bound, [bound] * 2), n_components=5)
    hidden = skl.choose_k(skl.privatize(few.sketch(X[:100]), epsilon=0.01, seed_for_tests_not_private=0), 5)
    assert (hidden.n_clusters, hidden.basis) == (1, Basis.HIDDEN)
    assert "larger epsilon" in hidden.sentences[0]


def test_noise_that_hides_some_clusters():
    X = gaussians(4, n=10_000)
    release = skl.privatize(
        sketched(X), epsilon=0.05, seed_for_tests_not_private=3, assume_public_design=True, allow_weak=True
    )
    some = skl.choose_k(release, MOST)
    assert some.basis is Basis.HIDDEN
    assert some.n_clusters < 4 < some.high
    assert "noise of the private release" in some.sentences[0]


def test_a_constant_column_changes_nothing():
    X = np.column_stack([gaussians(3, n=2000), np.full(2000, 2.5)])
    fitted = skl.SketchGaussianMixture("auto", max_clusters=5, random_state=0).fit(X)
    assert (fitted.n_components_, fitted.choice_.basis) == (3, Basis.GAUSSIANS)
    assert np.allclose(fitted.means_[:, 2], 2.5)


def test_no_more_rows_are_asked_for_than_there_are():
    few = skl.choose_k(sketched(box(3), rows=500), MOST)
    assert few.basis is Basis.ROWS
    assert "keep rows" not in str(few)


def test_a_path_finds_a_small_cluster_among_pieces_of_large_ones():
    X = gaussians(4, weights=[0.4, 0.3, 0.28, 0.02])
    problem = Problem.of(Target.of(sketched(X)), MOST)
    centers = centers_of(4)
    beside = np.concatenate([centers[:3] + away for away in (-0.4, 0.0, 0.4)])
    weights = np.append(np.full(9, 0.98 / 9), 0.02)
    density = Mixture(DiagonalGaussian(), weights, np.concatenate([beside, centers[3:]]), np.ones((10, 2)))
    path = component_path(problem, density, DiagonalGaussian(), float(len(X)), MOST, None)
    assert (path.n_components, path.explains) == (4, True)


@pytest.mark.parametrize(
    ("kind", "parameter", "found"),
    [
        (skl.SketchKMeans, "n_clusters", "n_clusters_"),
        (skl.SketchKMedians, "n_clusters", "n_clusters_"),
        (skl.SketchGaussianMixture, "n_components", "n_components_"),
    ],
)
def test_estimators_choose(kind, parameter, found):
    X = gaussians(3, n=2000)
    given = {parameter: "auto", "max_clusters": 5, "random_state": 0}
    fitted = kind(**given).fit(X)
    assert getattr(fitted, found) == len(fitted.weights_) == fitted.choice_.n_clusters == 3
    assert {name: fitted.get_params()[name] for name in given} == given
    assert clone(fitted).get_params() == fitted.get_params()
    again = model_from_bytes(model_to_bytes(fitted))
    assert again.choice_ == fitted.choice_
    assert again.get_params() == fitted.get_params()
    assert getattr(again, found) == 3
    assert kind(3, random_state=0).fit(X).choice_ is None


def test_estimators_choose_from_sketches_and_few_rows():
    X = gaussians(3, n=2000)
    assert skl.SketchKMeans("auto", max_clusters=5).fit_sketch(sketched(X, 5)).n_clusters_ == 3
    assert 1 <= skl.SketchKMeans("auto").fit(X[:10]).n_clusters_ <= 10


@pytest.mark.parametrize(
    ("parameters", "message"),
    [({"n_clusters": "many"}, 'or "auto", not'), ({"n_clusters": "auto", "max_clusters": 0}, "max_clusters must be")],
)
def test_numbers_that_make_no_sense(parameters, message):
    with pytest.raises(ValueError, match=message):
        skl.SketchKMeans(**parameters).fit(gaussians(2, n=100))


def test_refusals():
    X = gaussians(2, n=500)
    with pytest.raises(TypeError, match="sketch the rows"):
        skl.choose_k(X)
    with pytest.raises(ValueError, match="cannot distinguish two clusters from one in 2 columns"):
        skl.choose_k(skl.design(X, n_components=2, features=skl.features.Fourier(n_frequencies=5)).sketch(X))


CHOICE = ClusterChoice(
    2, 3, Basis.ROWS, 2, 3, 4.5, "diag", (1.0, 0.0, 0.5), (0.1,) * 3, (0.3, 0.2), (0.1,) * 2, (0.9,) * 2
)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("n_clusters", 0, "n_clusters must be"),
        ("basis", "luck", "is not a basis"),
        ("covariance_type", "odd", "must be diag or full"),
        ("criteria", [1, "x"], "criteria"),
        ("silhouettes", 3, "must be a list of numbers"),
        ("evident", 3, "evident must be"),
        ("other", 1, "choice must have the fields"),
    ],
)
def test_forged_choices_are_refused(field, value, message):
    form = json.loads(json.dumps(CHOICE.to_json()))
    assert ClusterChoice.from_json(form) == CHOICE
    with pytest.raises(ValueError, match=message):
        ClusterChoice.from_json({**form, field: value})


def test_choices_of_earlier_versions_are_read():
    form = {name: value for name, value in CHOICE.to_json().items() if name not in ("silhouettes", "references")}
    del form["evident"]
    earlier = ClusterChoice.from_json({**form, "basis": "GAP", "inertias": [1.0, 0.3], "inertia_errors": [0.0, 0.1]})
    assert (earlier.n_clusters, earlier.basis, earlier.agreements) == (2, Basis.ROWS, CHOICE.agreements)
    assert earlier.sentences[0] == "2 clusters."


def test_the_curve_of_rows():
    rng = np.random.default_rng(0)
    rows = gaussians(4, n=400, gap=8.0)
    curve = ClusterCurve.of(rows, 6, rng)
    assert np.argmax(curve.scores) == 4 - 2
    assert curve.clearer[:, 4 - 2].all()
    assert curve.agreements[4 - 2] > 0.95
    assert not ClusterCurve.of(np.repeat(rows[:1], 5, axis=0), 6, rng).scores.size


def test_silhouettes_are_those_of_scikit_learn():
    rng = np.random.default_rng(0)
    rows, labels = rng.standard_normal((50, 3)), np.append(rng.integers(0, 4, 49), 4).astype(np.int32)
    expected = silhouette_score(rows, labels)
    assert silhouette(cdist(rows, rows).astype(np.float32), labels) == pytest.approx(expected, abs=1e-6)
