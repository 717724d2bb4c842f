"""EM, medians and choices on weighted rows: beside scikit-learn, by repetition, and on odd tables."""

import numpy as np
import pytest
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

import sketchlearn as skl
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.distributions import (
    DiagonalGaussian,
    FullGaussian,
    IndependentStable,
    KnownGaussian,
    Mixture,
    SphericalGaussian,
    SymmetricStable,
    TiedGaussian,
)
from sketchlearn.inference.em import LEARNED, _Sample, log_likelihoods, weighted_em
from sketchlearn.inference.kmedians import start_from_rows, weighted_medians

MODELS = {"spherical": SphericalGaussian, "tied": TiedGaussian, "diag": DiagonalGaussian, "full": FullGaussian}
TYPES = [*MODELS, "known"]


def clusters(n=600, d=3, k=3, seed=0):
    """Overlapping clusters, in columns of mean 0 and variance 1."""
    rng = np.random.default_rng(seed)
    rows = 2 * rng.standard_normal((k, d))[rng.integers(0, k, n)] + rng.standard_normal((n, d)) @ np.tri(d)
    return (rows - rows.mean(axis=0)) / rows.std(axis=0)


def equal(rows):
    return np.full(len(rows), 1 / len(rows))


def a_start(rows, k=3):
    return (
        np.full(k, 1 / k),
        rows[:k].copy(),
        np.broadcast_to(0.5 * np.eye(rows.shape[1]), (k, *2 * rows.shape[1:])).copy(),
    )


def em(rows, weights=None, kind="full", k=3, seed=0, copies=None, **options):
    options = {"covariance": np.diag(rows.var(axis=0) + 1e-3), **options} if kind == "known" else options
    weights = equal(rows) if weights is None else weights
    return weighted_em(WeightedRows(rows, weights, copies), k, kind, np.random.default_rng(seed), **options)


def odd_tables():
    rng = np.random.default_rng(3)
    n = 300
    normal = rng.standard_normal((n, 3))
    flag = (rng.random((n, 1)) < 0.1).astype(float)
    yield "constant", np.column_stack([normal, np.full(n, 7.0)])
    yield "all ones", np.ones((n, 2))
    yield "flags", np.column_stack([flag, rng.random(n) < 0.5, normal[:, 0]])
    yield "codes", rng.integers(0, 3, (n, 4)).astype(float)
    yield "collinear", normal @ rng.standard_normal((3, 6))
    yield "copies of a column", np.repeat(normal[:, :1], 4, axis=1)
    yield "offsets", normal + np.array([1e18, -1e18, 0])
    yield "large and small units", normal * [1e18, 1e-9, 1]
    yield "extreme units", normal * [1e150, 1e-150, 1]
    yield "heavy tails", rng.standard_cauchy((n, 3)) ** 3
    yield "one outlier", np.concatenate([normal, [[1e12, 0, 0]]])
    yield "fewer distinct rows than components", np.repeat([[0.0, 1.0], [2.0, 3.0]], 50, axis=0)
    yield "one row", np.array([[1.0, 2.0]])


ODD = dict(odd_tables())


@pytest.mark.parametrize("kind", MODELS)
def test_equal_weights_follow_scikit_learn(kind):
    rows = clusters()
    weights, means, covariances = a_start(rows)
    inverse = np.linalg.inv(covariances)
    precisions = {"full": inverse, "tied": inverse[0], "diag": np.full((3, 3), 2.0), "spherical": np.full(3, 2.0)}
    peer = GaussianMixture(
        3,
        covariance_type=kind,
        reg_covar=1e-3,
        weights_init=weights,
        means_init=means,
        precisions_init=precisions[kind],
    ).fit(rows)
    ours = em(rows, kind=kind, starts=[(weights, means, covariances)], n_init=0, floors=(1e-3,))
    assert ours.converged
    np.testing.assert_allclose(ours.weights, peer.weights_, atol=1e-6)
    np.testing.assert_allclose(ours.means, peer.means_, atol=1e-6)
    np.testing.assert_allclose(ours.log_likelihood, peer.lower_bound_, atol=1e-6)
    theirs = {
        "full": lambda c: c,
        "tied": lambda c: np.broadcast_to(c, (3, 3, 3)),
        "diag": lambda c: c[:, :, None] * np.eye(3),
        "spherical": lambda c: c[:, None, None] * np.eye(3),
    }[kind](peer.covariances_)
    np.testing.assert_allclose(ours.covariances, theirs, atol=1e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_whole_weights_are_repetitions(kind):
    rows, rng = clusters(200), np.random.default_rng(1)
    times = rng.integers(0, 4, len(rows))
    repeated = np.repeat(rows, times, axis=0)
    options = {"starts": [a_start(rows)], "n_init": 0}
    options |= {"covariance": 0.3 * np.eye(3)} if kind == "known" else {}
    one = em(rows, times / times.sum(), kind, copies=np.maximum(times, 1).astype(float), **options)
    other = em(repeated, kind=kind, **options)
    for name in ("weights", "means", "covariances", "log_likelihood"):
        np.testing.assert_allclose(getattr(one, name), getattr(other, name), atol=1e-9, err_msg=name)


@pytest.mark.parametrize("kind", TYPES)
@pytest.mark.parametrize("table", ODD)
def test_odd_tables(table, kind):
    rows = ODD[table]
    options = {"covariance": np.eye(rows.shape[1])} if kind == "known" else {}
    fit = em(rows, kind=kind, **options)
    assert np.isfinite(fit.log_likelihood)
    assert np.all(np.isfinite(fit.means))
    assert np.isclose(fit.weights.sum(), 1)
    variances = np.diagonal(fit.covariances, axis1=1, axis2=2)
    assert np.all(variances > 0)
    deviations = np.sqrt(variances)
    correlations = fit.covariances / deviations[:, None, :] / deviations[:, :, None]
    assert np.linalg.eigvalsh(correlations).min() > 0
    model = KnownGaussian(np.eye(rows.shape[1])) if kind == "known" else MODELS[kind]()
    mixture = Mixture(model, fit.weights, fit.means, model.shapes_of(fit.covariances))
    assert np.all(np.isfinite(log_likelihoods(rows, mixture)))


@pytest.mark.parametrize("kind", ["diag", "full", "tied"])
def test_units_and_offsets_do_not_matter(kind):
    rows, unit = clusters(400), np.array([1e18, 1e-9, 1.0])
    plain, other = em(rows, kind=kind), em(rows * unit + unit, kind=kind)
    np.testing.assert_allclose((other.means - unit) / unit, plain.means, atol=1e-5)
    np.testing.assert_allclose(other.covariances / np.outer(unit, unit), plain.covariances, atol=1e-5)
    np.testing.assert_allclose(other.log_likelihood + np.sum(np.log(unit)), plain.log_likelihood, atol=1e-6)


@pytest.mark.parametrize("kind", TYPES)
def test_same_seed_same_fit(kind):
    rows = clusters(5000, 8) if kind == "full" else clusters()
    one, other = em(rows, kind=kind, seed=5), em(rows, kind=kind, seed=5)
    assert np.array_equal(one.means, other.means)
    assert np.array_equal(one.covariances, other.covariances)


@pytest.mark.parametrize("kind", ["spherical", "diag", "full"])
def test_left_out_is_what_refitting_without_the_row_gives(kind):
    rows = clusters(40, k=1)
    sample = _Sample(rows, equal(rows), np.ones(len(rows)), LEARNED[kind], 1e-9)
    refitted = []
    for i in range(len(rows)):
        others = np.delete(rows, i, axis=0)
        covariance = np.cov(others.T, bias=True)
        covariance = covariance if kind == "full" else np.diag(np.diag(covariance))
        covariance = np.eye(3) * np.trace(covariance) / 3 if kind == "spherical" else covariance
        refitted.append(multivariate_normal(others.mean(axis=0), covariance).logpdf(rows[i]))
    assert sample.left_out(sample.maximised(sample.weights[:, None])) == pytest.approx(np.mean(refitted), abs=1e-6)


def test_many_rows_are_thinned_and_the_clusters_found():
    rng = np.random.default_rng(0)
    centers = 6 * rng.standard_normal((4, 20))
    rows = centers[rng.integers(0, 4, 12_000)] + rng.standard_normal((12_000, 20))
    fit = em(rows, kind="diag", k=4)
    found = fit.means[np.argmin(np.linalg.norm(fit.means[:, None] - centers, axis=2), axis=0)]
    np.testing.assert_allclose(found, centers, atol=0.1)


def test_log_likelihoods_are_those_of_the_density():
    rng = np.random.default_rng(0)
    root = rng.standard_normal((2, 3, 3))
    mixture = Mixture(FullGaussian(), np.array([0.3, 0.7]), rng.standard_normal((2, 3)), root.reshape(2, 9))
    rows = rng.standard_normal((50, 3))
    parts = zip(mixture.weights, mixture.locations, mixture.covariances(), strict=True)
    density = sum(w * multivariate_normal(c, s).pdf(rows) for w, c, s in parts)
    np.testing.assert_allclose(log_likelihoods(rows, mixture), np.log(density), atol=1e-9)


@pytest.mark.parametrize("variance", [0.0, 1e-320, 1e-200, 1e200])
def test_log_likelihoods_are_finite(variance):
    rows = np.array([[0.0, 0.0], [1e200, -1e200], [1e-200, 1.0]])
    for model in (DiagonalGaussian(), SphericalGaussian()):
        shapes = np.full((2, model.n_shape(2)), variance)
        assert np.all(np.isfinite(log_likelihoods(rows, Mixture(model, np.array([1.0, 0.0]), rows[:2], shapes))))
    for stable in (SymmetricStable(), IndependentStable()):
        shapes = np.array([[variance, variance, 1.5]])
        assert np.all(np.isfinite(log_likelihoods(rows, Mixture(stable, np.ones(1), rows[:1], shapes))))


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["diag", "full"])
def test_a_true_mixture_is_refined_on_the_sketch(kind):
    """50,000 records, of which 20,000 are kept: the sketch knows more than they do."""
    rng = np.random.default_rng(0)
    true = Mixture(
        DiagonalGaussian(), np.array([0.5, 0.3, 0.2]), 3 * rng.standard_normal((3, 2)), rng.uniform(0.5, 2, (3, 2))
    )
    rows = true.sample(50_000, rng)[0]
    found = skl.SketchGaussianMixture(3, covariance_type=kind, random_state=0).fit(rows)
    best = GaussianMixture(3, covariance_type=kind, n_init=3, random_state=0).fit(rows)
    assert found.outcome_.status is Status.EXPLAINED
    assert found.score(rows) > best.score(rows) - 1e-4


@pytest.mark.slow
def test_rows_decide_where_no_mixture_explains_the_sketch():
    rng = np.random.default_rng(0)
    rows = np.column_stack([rng.lognormal(0, 1, 30_000), rng.poisson(2, 30_000), rng.random(30_000) < 0.3]).astype(
        float
    )
    with pytest.warns(ConvergenceWarning, match="likeliest one of the sampled rows"):
        found = skl.SketchGaussianMixture(3, covariance_type="diag", random_state=0).fit(rows)
    best = GaussianMixture(3, covariance_type="diag", n_init=3, reg_covar=1e-3, random_state=0).fit(rows[:20_000])
    assert found.outcome_.status is Status.ROWS
    assert found.score(rows) > best.score(rows) - 0.05


def test_medians_are_not_moved_by_outliers():
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [20.0, 0.0]])
    rows = np.concatenate([centers[rng.integers(0, 2, 4000)] + rng.standard_normal((4000, 2)), [[500.0, 500.0]] * 5])
    found = weighted_medians(rows, equal(rows), 2, rng)
    np.testing.assert_allclose(found[np.argsort(found[:, 0])], centers, atol=0.1)


def test_medians_weigh_rows():
    rows = np.array([[0.0, 0.0], [1.0, 0.0], [0.0, 1.0], [10.0, 10.0]])
    found = weighted_medians(rows, np.array([0.6, 0.2, 0.2, 0.0]), 1, np.random.default_rng(0))
    np.testing.assert_allclose(found, [[0, 0]], atol=1e-9)


@pytest.mark.parametrize("table", ODD)
def test_medians_and_stable_starts_of_odd_tables(table):
    rows, rng = ODD[table], np.random.default_rng(0)
    assert np.all(np.isfinite(weighted_medians(rows, equal(rows), 3, rng)))
    start = start_from_rows(rows, equal(rows), 3, rng)
    assert np.all(np.isfinite(start.locations))
    assert np.all(np.isfinite(start.shapes))
    assert np.isclose(start.weights.sum(), 1)


def test_stable_laws_are_found_from_quantiles():
    laws = np.array([[1, 1, 1.5], [1, 2, 1.3], [2, 0.5, 1.8]])
    true = Mixture(SymmetricStable(), np.array([0.5, 0.3, 0.2]), np.array([[0, 0], [10, 0], [0, 10.0]]), laws)
    rows = true.sample(20_000, np.random.default_rng(0))[0]
    start = start_from_rows(rows, equal(rows), 3, np.random.default_rng(0))
    assert log_likelihoods(rows, true).mean() - log_likelihoods(rows, start).mean() < 0.05
