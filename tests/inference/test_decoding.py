"""Decoding: pieces against their definitions, and whole problems against the truth."""

from dataclasses import replace

import numpy as np
import pytest
from sklearn.cluster import KMeans

import sketchlearn as skl
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.loop import EXPLAINED, Status, decode
from sketchlearn.inference.decoders.orthogonal_matching_pursuit import ClOmpr
from sketchlearn.inference.decoders.points import antithetic_sample, centroids, medians
from sketchlearn.inference.decoders.problem import Problem, read
from sketchlearn.inference.decoders.refinement import (
    correlated_errors,
    independent_errors,
    levenberg_marquardt,
    nonnegative,
    prune,
    with_best_weights,
)
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import (
    DiagonalGaussian,
    FullGaussian,
    Mixture,
    SphericalGaussian,
    TiedGaussian,
    merge_components,
)


def rows_of(k=6, d=4, n=20_000, spread=6.0, seed=0):
    rng = np.random.default_rng(seed)
    centers = rng.normal(size=(k, d)) * spread
    return centers[rng.integers(0, k, n)] + rng.normal(size=(n, d)), centers


COSINE, SQUARE = ({"features": skl.features.Fourier(wave=wave)} for wave in ("cosine", "square"))


def problem_of(rows, k, **options):
    return Problem.of(Target.of(skl.design(rows[:5000], n_components=k, **options).sketch(rows)), k)


def risk(rows, centers):
    return np.min(np.sum((rows[:, None] - centers) ** 2, axis=2), axis=1).sum()


@pytest.mark.parametrize("options", [{}, COSINE, SQUARE, {"representative": False}])
def test_location_and_spread_are_read_off_the_sketch(options):
    rows, _ = rows_of()
    target = Target.of(skl.design(rows[:5000], n_components=6, **options).sketch(rows))
    mean, variances, within = read(target, 6)
    deviation = rows.std(axis=0)
    np.testing.assert_allclose(mean * target.unit + target.origin, rows.mean(axis=0), atol=0.5 * deviation.max())
    ratio = np.sqrt(variances) * target.unit / deviation
    assert 0.7 < ratio.min() <= ratio.max() < 2.5
    assert 0.3 < np.sqrt(within) * target.unit.mean() < 2.5  # the deviation of a cluster is 1


@pytest.mark.parametrize("seed", range(3))
def test_separated_clusters_are_explained(seed):
    rows, _ = rows_of(seed=seed)
    problem = problem_of(rows, 6, seed=seed)
    outcome = decode(ClOmpr(), problem, np.random.default_rng(seed))
    assert outcome.status is Status.EXPLAINED
    assert outcome.misfit <= EXPLAINED
    assert outcome.advice == ""
    found, weights = centroids(problem.in_data_units(outcome.mixture), 6, np.random.default_rng(0))
    assert risk(rows, found) < 1.003 * KMeans(6, n_init=10, random_state=0).fit(rows).inertia_
    assert abs(weights.sum() - 1) < 1e-12


def test_what_is_no_mixture_is_said_to_be_none():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 20_000)
    rows = np.column_stack([np.cos(angle), np.sin(angle)])
    problem = problem_of(rows, 2)
    outcome = decode(ClOmpr(), problem, np.random.default_rng(0))
    assert outcome.status is not Status.EXPLAINED
    assert "try more" in outcome.advice


def test_decoding_follows_the_seed():
    problem = problem_of(rows_of()[0], 6)
    costs = {decode(ClOmpr(), problem, np.random.default_rng(3)).cost for _ in range(2)}
    assert len(costs) == 1


def test_weights_and_pruning():
    rows, centers = rows_of()
    problem = problem_of(rows, 6)
    unit = problem.target.unit
    own = (centers - problem.target.origin) / unit - problem.shift
    twice = np.concatenate([own, own[:2] + 0.01, np.full((1, 4), 30.0)])
    mixture = Mixture(DiagonalGaussian(), np.zeros(9), twice, np.tile(1 / unit**2, (9, 1)))
    weights = with_best_weights(problem.target, mixture).weights
    assert abs(weights.sum() - 1) < 0.02
    assert weights[-1] < 1e-3
    pruned = prune(problem.target, Mixture(DiagonalGaussian(), weights, twice, mixture.shapes), 6)
    gaps = np.linalg.norm(pruned.locations[:, None] - own, axis=2).min(axis=0)
    assert len(pruned) == 6
    assert np.all(gaps < 0.02)


def test_nonnegative_least_squares_survives_singular_systems():
    assert nonnegative(np.ones((3, 3)), np.ones(3)).sum() == pytest.approx(1, rel=1e-3)


@pytest.mark.parametrize("model", [SphericalGaussian(), DiagonalGaussian(), FullGaussian(), TiedGaussian()])
def test_gauss_newton_finds_the_mixture_again(model):
    rows, centers = rows_of()
    problem = problem_of(rows, 6, task="mixture")
    start = problem.in_own_units(model, np.full(6, 1 / 6), centers + 0.4, np.stack([np.eye(4) * 1.8] * 6))
    mixture, cost = levenberg_marquardt(problem.plain, start, independent_errors(problem.plain), iterations=30)
    whitening = correlated_errors(problem.plain, mixture)
    mixture, cost = levenberg_marquardt(problem.plain, mixture, whitening, iterations=10)
    learned = problem.in_data_units(mixture)
    np.testing.assert_allclose(learned.locations, centers, atol=0.1)
    np.testing.assert_allclose(learned.covariances(), np.stack([np.eye(4)] * 6), atol=0.15)
    freedom = problem.plain.n_numbers - problem.n_parameters(mixture)
    assert 0.5 < cost / freedom < 1.5  # the fit test


@pytest.mark.parametrize("model", [DiagonalGaussian(), FullGaussian(), TiedGaussian()])
def test_shapes_can_be_held(model):
    rows, centers = rows_of()
    problem = problem_of(rows, 6, task="mixture")
    start = problem.in_own_units(model, np.full(6, 1 / 6), centers + 0.4, np.stack([np.eye(4) * 1.8] * 6))
    whitening = independent_errors(problem.plain)
    found = []
    for hold in (0.0, 1e4, 1e9, np.inf):
        mixture, _ = levenberg_marquardt(problem.plain, start, whitening, iterations=30, hold=hold)
        np.testing.assert_allclose(problem.in_data_units(mixture).locations, centers, atol=0.15)
        found.append(float(np.mean(np.linalg.eigvalsh(problem.in_data_units(mixture).covariances()))))
    assert found == sorted(found)
    np.testing.assert_allclose([found[0], *found[2:]], [1.0, 1.8, 1.8], rtol=0.05)


def test_merging_keeps_the_moments():
    rng = np.random.default_rng(0)
    weights, means = rng.dirichlet(np.ones(7)), rng.normal(size=(7, 3)) * 4
    covariances = np.stack([np.eye(3) * (1 + i) for i in range(7)])

    def moments(w, m, c):
        return w @ m, np.einsum("k,kij->ij", w, c) + np.einsum("k,ki,kj->ij", w, m, m)

    merged = merge_components(weights, means, covariances, 3)
    assert len(merged[0]) == 3
    for a, b in zip(moments(weights, means, covariances), moments(*merged), strict=True):
        np.testing.assert_allclose(a, b, atol=1e-10)


def test_medians_resist_outliers():
    model = SphericalGaussian()
    skewed = Mixture(model, np.array([0.8, 0.2]), np.array([[0.0, 0.0], [9.0, 0.0]]), np.array([[1.0], [1.0]]))
    mean, _ = centroids(skewed, 1, np.random.default_rng(0))
    median, weights = medians(skewed, 1, np.random.default_rng(0))
    sample = antithetic_sample(skewed, 20_000, np.random.default_rng(1))
    assert abs(mean[0, 0] - 1.8) < 0.05
    assert median[0, 0] < 1.0
    cost = [np.linalg.norm(sample - point, axis=1).mean() for point in (median[0], mean[0])]
    assert cost[0] < cost[1]
    assert weights.tolist() == [1.0]


def test_unknown_decoders_are_named():
    with pytest.raises(ValueError, match="decoder must be one of auto, ompr, splitting"):
        decoder_from("magic")


@pytest.mark.parametrize("share", [2, 10, 50])
def test_the_noise_of_subsampled_sketches_is_known(share):
    """Records that add to one frequency in `share` leave more noise: clusters explain the sketch all the same."""
    rng = np.random.default_rng(3)
    centers = 3 * rng.standard_normal((6, 4))
    rows = centers[rng.integers(0, 6, 200_000)] + rng.standard_normal((200_000, 4))
    whole = skl.design(rows[:5000], n_components=6, features=skl.features.Fourier(n_frequencies=300)).part(
        skl.features.FourierFeatures
    )
    sketch = replace(whole, subsample=300 // share).sketch(rows)
    target = Target.of(sketch)
    assert target.noise == pytest.approx(share / len(rows))
    left = np.mean(np.abs(target.values - Target.of(whole.sketch(rows)).values) ** 2)
    assert left == pytest.approx(target.subsampling, rel=0.25)  # 300 values
    model = skl.SketchKMeans(6, random_state=0).fit_sketch(sketch)
    assert model.outcome_.status is Status.EXPLAINED
    best = KMeans(6, init=centers, n_init=1).fit(rows).inertia_
    assert -model.score(rows) < (1 + 1e-4 * share) * best
