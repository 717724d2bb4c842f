"""Subspace clusters from fourth moments: as good as the true subspaces allow, and honest where they are not found."""

import itertools
import warnings

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.linalg import subspace_angles
from sklearn.exceptions import ConvergenceWarning
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl
from sketchlearn.estimators.subspaces import FourthMoments, SubspaceFit, flattened, forms, paired


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")  # twenty rows are not on two lines
@parametrize_with_checks(
    [skl.SketchSubspaces(2, 1, random_state=0)],
    expected_failed_checks=lambda _: {
        "check_clustering": "its blobs are no lines through the origin",
        "check_sample_weight_equivalence_on_dense_data": "30 columns are more than fourth moments are for",
        "check_sample_weight_equivalence_on_sparse_data": "30 columns are more than fourth moments are for",
    },
)
def test_scikit_learn(estimator, check):
    check(estimator)


def union(dimensions, d, n, seed, noise=0.02, law="gaussian", shares=None, scales=None):
    """Rows near random subspaces, their labels, and the subspaces."""
    rng = np.random.default_rng(seed)
    bases = [np.linalg.qr(rng.standard_normal((d, p)))[0].T for p in dimensions]
    labels = rng.choice(len(bases), n, p=shares)
    rows = noise * rng.standard_normal((n, d))
    for i, basis in enumerate(bases):
        z = rng.standard_normal((np.sum(labels == i), len(basis)))
        if law == "uniform":
            z = rng.uniform(-1, 1, z.shape)
        elif law == "circle":
            z /= np.linalg.norm(z, axis=1, keepdims=True)
        rows[labels == i] += z @ basis * (1.0 if scales is None else scales[i])
    return rows, labels, bases


def largest_angle(found, bases):
    """The largest angle of the best matching of subspaces, in degrees."""
    orders = (
        order
        for order in itertools.permutations(range(len(bases)))
        if all(len(found[i]) == len(bases[j]) for j, i in enumerate(order))
    )
    return np.degrees(min(max(subspace_angles(found[i].T, bases[j].T)[0] for j, i in enumerate(o)) for o in orders))


CASES = {
    "planes": ((2, 2, 2), 4, {}),
    "circles": ((2, 2, 2), 4, {"law": "circle", "shares": [0.5, 0.3, 0.2]}),
    "squares of many scales": ((2, 2, 2), 4, {"law": "uniform", "scales": [2.0, 1.0, 0.7]}),
    "no noise": ((2, 2, 2), 4, {"noise": 0.0}),
    "lines": ((1, 1, 1), 3, {}),
    "planes that meet": ((2, 2), 3, {}),
    "lines in many columns": ((1, 1), 10, {}),
    "a line and a plane": ((2, 1), 3, {}),
    "four planes": ((2, 2, 2, 2), 5, {}),
    "spaces": ((3, 3), 4, {}),
    "one plane": ((2,), 5, {}),
}


@pytest.mark.parametrize("name", CASES)
def test_subspaces_are_found(name):
    dimensions, d, options = CASES[name]
    rows, _, bases = union(dimensions, d, 40_000, seed=1, **options)
    model = skl.SketchSubspaces(len(dimensions), list(dimensions), random_state=0).fit(rows)
    assert [len(basis) for basis in model.subspaces_] == list(dimensions)
    assert largest_angle(model.subspaces_, bases) < (1e-3 if name == "no noise" else 1.0)
    assert model.noise_variance_**0.5 == pytest.approx(options.get("noise", 0.02), abs=1e-3)
    shares = options.get("shares", [1 / len(bases)] * len(bases))
    np.testing.assert_allclose(np.sort(model.weights_), np.sort(shares), atol=0.03)
    for basis in model.subspaces_:
        np.testing.assert_allclose(basis @ basis.T, np.eye(len(basis)), atol=1e-12)


@pytest.mark.parametrize("seed", range(4))
def test_labels_are_as_good_as_those_of_the_true_planes(seed):
    rows, labels, bases = union((2, 2, 2), 4, 20_000, seed)
    model = skl.SketchSubspaces(3, 2, random_state=seed).fit(rows)

    def errors(found):
        return 1 - max(np.mean(np.array(order)[found] == labels) for order in itertools.permutations(range(3)))

    distances = np.stack([np.linalg.norm(rows - rows @ b.T @ b, axis=1) for b in bases], axis=1)
    assert errors(model.labels_) <= 1.1 * errors(np.argmin(distances, axis=1)) + 0.001


def test_distances_labels_and_scores_agree(tmp_path):
    rows, _, _ = union((2, 1), 3, 5000, 0)
    model = skl.SketchSubspaces(2, [2, 1], random_state=0).fit(rows)
    distances = model.transform(rows)
    assert np.array_equal(np.argmin(distances, axis=1), model.labels_)
    assert np.array_equal(model.predict(rows), model.labels_)
    assert -model.score(rows) == pytest.approx(np.sum(distances.min(axis=1) ** 2))
    np.save(tmp_path / "rows.npy", rows)
    of_file = skl.SketchSubspaces(2, [2, 1], random_state=0).fit_predict(tmp_path / "rows.npy")
    assert np.mean(of_file == model.labels_) > 0.99


def test_streams_and_sketches_of_two_places():
    rows, _, bases = union((2, 2, 2), 4, 30_000, 2)
    stream = skl.SketchSubspaces(3, 2, random_state=0)
    for batch in np.array_split(rows, 10):
        stream.partial_fit(batch)
    assert largest_angle(stream.subspaces_, bases) < 1
    operator = skl.design(bounds=([-8] * 4, [8] * 4), task="subspaces")
    assert operator.outside == "clip"
    both = operator.sketch(rows[:10_000]) + operator.sketch(rows[10_000:])
    assert both == operator.sketch(rows)
    assert largest_angle(skl.SketchSubspaces(3, 2, random_state=0).fit_sketch(both).subspaces_, bases) < 1


def test_subspaces_meet_in_the_center():
    rows, _, bases = union((1, 1), 3, 20_000, 0)
    center = [5.0, -3.0, 2.0]
    sketch = skl.features.VeroneseMoments(3, bound=9.0, center=center).sketch(rows + center)
    model = skl.SketchSubspaces(2, 1, random_state=0).fit_sketch(sketch)
    assert largest_angle(model.subspaces_, bases) < 1
    assert np.max(model.transform([center])) < 1e-12


def test_what_is_not_subspaces_is_told():
    rows, _, _ = union((1, 1, 1), 3, 20_000, 0)
    with pytest.warns(ConvergenceWarning, match="the squared residual is .* times that expected from sampling"):
        skl.SketchSubspaces(2, 1, random_state=0).fit(rows)
    rows, _, _ = union((2, 2, 2), 3, 5000, 0)
    with pytest.warns(ConvergenceWarning, match="do not determine 3 subspaces of dimension 2"):
        skl.SketchSubspaces(3, 2, random_state=0).fit(rows)


def test_private_sketches_are_learned_from():
    pytest.importorskip("opendp")
    rows, _, bases = union((1, 1), 2, 200_000, 0, law="uniform")
    exact = skl.design(bounds=([-1.1] * 2, [1.1] * 2), task="subspaces").sketch(rows)
    for epsilon in (1.0, 1e-3):
        private = skl.privatize(exact, epsilon=epsilon, seed_for_tests_not_private=0)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            model = skl.SketchSubspaces(2, 1, random_state=0).fit_sketch(private)
        assert np.all(np.isfinite(np.concatenate(model.subspaces_)))
        assert model.privacy_.epsilon == epsilon
        assert (largest_angle(model.subspaces_, bases) < 1) == (epsilon == 1.0)


@pytest.mark.parametrize(
    ("parameters", "message"),
    [
        ({"n_clusters": 0}, "n_clusters must be"),
        ({"n_dimensions": [1, 2, 1]}, "n_dimensions must be one number or 2, as many as n_clusters"),
        ({"n_dimensions": 4}, "n_dimensions=4 must be at most the number of columns, 3"),
        ({"n_dimensions": "plane"}, "n_dimensions must be"),
    ],
)
def test_odd_parameters_are_refused(parameters, message):
    with pytest.raises(ValueError, match=message):
        skl.SketchSubspaces(**{"n_clusters": 2, **parameters}).fit(np.eye(3).repeat(5, axis=0))


def test_other_sketches_are_refused():
    with pytest.raises(ValueError, match=r'a sketch of fourth moments \(skl.design\(sample, task="subspaces"\)\)'):
        skl.SketchSubspaces(2, 1).fit_sketch(skl.features.SecondMoments(3, bound=1.0).sketch(np.eye(3)))
    with pytest.raises(ValueError, match="the sketch is empty"):
        skl.SketchSubspaces(2, 1).fit_sketch(skl.Sketch(skl.features.VeroneseMoments(3, bound=1.0)))
    with pytest.raises(ValueError, match="all rows are at the center"):
        skl.SketchSubspaces(2, 1).fit(np.zeros((10, 3)))


def test_moments_are_those_of_the_rows():
    rows = np.random.default_rng(0).uniform([-1.0, -2.0, -3.0], [3.0, 2.0, 1.0], (1000, 3))
    operator = skl.features.VeroneseMoments(3, bound=[2.1, 2.2, 2.3], center=[1.0, 0.0, -1.0])
    second, fourth = operator.split(operator.sketch(rows).mean)
    y = rows - operator.middle
    np.testing.assert_allclose(second, y.T @ y / 1000, atol=1e-8)
    np.testing.assert_allclose(fourth, np.einsum("na,nb,nc,nd->abcd", y, y, y, y) / 1000, atol=1e-7)


def test_rows_beyond_the_bound():
    operator = skl.features.VeroneseMoments(2, bound=1.0, columns=("a", "b"))
    with pytest.raises(ValueError, match=r"column 'b' is 1\.5, beyond the bound 1\.0"):
        operator.sketch([[0.5, 1.5]])
    with pytest.raises(ValueError, match="n_features must be"):
        skl.features.VeroneseMoments(13, bound=1.0)
    with pytest.raises(ValueError, match="rescale the data"):
        skl.features.VeroneseMoments(2, bound=1e-80)


@settings(max_examples=25, deadline=None)
@given(st.integers(1, 5), st.integers(1, 4), st.integers(0, 2**31))
def test_forms_are_symmetric_tensors(d, degree, seed):
    x, y = np.random.default_rng(seed).standard_normal((2, d))
    own = forms(d, degree)
    assert own.powers(x) @ own.powers(y) == pytest.approx((x @ y) ** degree, rel=1e-9, abs=1e-9)
    whole = own.tensor(own.powers(x))
    assert own.vector(whole) == pytest.approx(own.powers(x))
    assert whole[(0,) * degree] == pytest.approx(x[0] ** degree)


def test_noise_adds_what_is_taken_away():
    """E (v . (y + e))^4 of a fixed y and Gaussian e, by the known moments of e."""
    y, s, v = np.array([1.0, -2.0, 0.5]), 0.3, np.array([0.2, 0.7, -1.0])
    clean = forms(3, 4).powers(y)
    second = np.outer(y, y) + s * np.eye(3)
    noisy = clean + 6 * s * paired(np.outer(y, y), np.eye(3)) + 3 * s**2 * paired(np.eye(3), np.eye(3))
    expected = (v @ y) ** 4 + 6 * s * (v @ v) * (v @ y) ** 2 + 3 * s**2 * (v @ v) ** 2
    assert noisy @ forms(3, 4).powers(v) == pytest.approx(expected)
    np.testing.assert_allclose(FourthMoments(second, noisy, np.eye(3), 1.0).without(s), clean, atol=1e-12)
    two = forms(3, 2).powers(y)
    np.testing.assert_allclose(flattened(clean, 3), np.outer(two, two), atol=1e-12)


def test_derivatives_of_the_fit_are_right():
    rng = np.random.default_rng(0)
    rows = union((2, 1), 3, 1000, 0)[0]
    moments = FourthMoments(rows.T @ rows / 1000, forms(3, 4).powers(rows).mean(axis=0), np.eye(3), 1.0)
    fit, noise = SubspaceFit(moments), np.array([0.01])
    bases = [np.linalg.qr(rng.standard_normal((1, 3, p)))[0] for p in (2, 1)]
    at = fit.linearised(bases, noise)
    step = rng.standard_normal(at.jacobian.shape[2])
    parts = [step[:6].reshape(1, 3, 2), step[6:9].reshape(1, 3, 1)]

    def cost(t):
        moved = [np.linalg.qr(b + t * p)[0] for b, p in zip(bases, parts, strict=True)]
        return np.sum(fit.linearised(moved, noise + t * step[-1]).residual ** 2)

    expected = 2 * at.residual[0] @ (at.jacobian[0] @ step)
    assert (cost(1e-5) - cost(-1e-5)) / 2e-5 == pytest.approx(expected, rel=1e-5)


@pytest.mark.filterwarnings("ignore")
def test_many_lines_can_be_asked_for():
    rows = np.random.default_rng(0).standard_normal((200, 3))
    assert len(skl.SketchSubspaces(30, 1, random_state=0).fit(rows).subspaces_) == 30
