"""Decoders other than CL-OMPR: each finds well separated clusters, in the same way each time."""

import warnings
from functools import cache

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import sketchlearn as skl
from sketchlearn.features.frequencies import Gaussian, Probed
from sketchlearn.inference.decoders.density import cleaned, fit_density
from sketchlearn.inference.decoders.genetic_search import Genetic
from sketchlearn.inference.decoders.hierarchical_splitting import HierarchicalSplitting, split
from sketchlearn.inference.decoders.loop import decode
from sketchlearn.inference.decoders.mean_shift import SketchAndShift
from sketchlearn.inference.decoders.message_passing import ClAmp
from sketchlearn.inference.decoders.orthogonal_matching_pursuit import DiracOmpr, climbed
from sketchlearn.inference.decoders.points import centroids
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import normal_equations, prune
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Dirac, Mixture, SphericalGaussian, StretchedGaussian

DECODERS = {
    "splitting": HierarchicalSplitting(),
    "shift": SketchAndShift(),
    "amp": ClAmp(),
    "genetic": Genetic(population=40, generations=60),
}
WAVES = ["exponential", "square", "cosine"]  # the last is real: only one part of each value is known
K, D, N = 4, 3, 20_000
MEANS = 3.0 * np.array([[1, 1, 1], [1, -1, -1], [-1, 1, -1], [-1, -1, 1]]) + [3.0, -2.0, 10.0]
NEAR = 0.1  # standard deviations of a cluster; neighbours are 8.5 apart


@cache
def separated(wave, m=10 * K * D):
    rng = np.random.default_rng(0)
    X = MEANS[rng.integers(K, size=N)] + rng.standard_normal((N, D))
    scale = np.sqrt(D * np.sqrt(10 * K * D / m))
    law = Probed(Gaussian(scale), units=(1.0,) * D, spread=tuple(X.std(axis=0)))
    sketch = skl.features.FourierFeatures(D, m, law=law, wave=wave, center=X.mean(axis=0), seed=1).sketch(X)
    return Problem.of(Target.of(sketch), K)


@pytest.mark.parametrize("wave", WAVES)
@pytest.mark.parametrize("name", DECODERS)
def test_finds_separated_clusters(name, wave):
    problem = separated(wave, 10 * K * D if wave == "exponential" else 20 * K * D)
    problem = cleaned(problem, DECODERS[name], np.random.default_rng(0))
    density, _ = fit_density(problem, DECODERS[name], np.random.default_rng(0))
    found, shares = centroids(density, K, np.random.default_rng(0))
    distances = cdist(MEANS, found)
    assert distances[linear_sum_assignment(distances)].max() < NEAR
    np.testing.assert_allclose(shares, 1 / K, atol=0.03)


@pytest.mark.parametrize("name", DECODERS)
def test_same_seed_same_mixture(name):
    problem = separated("exponential")
    one, two = (decode(DECODERS[name], problem, np.random.default_rng(3)) for _ in range(2))
    assert one.iterations == two.iterations
    np.testing.assert_array_equal(one.mixture.weights, two.mixture.weights)
    np.testing.assert_array_equal(one.mixture.locations, two.mixture.locations)
    np.testing.assert_array_equal(one.mixture.shapes, two.mixture.shapes)


def test_split_keeps_weight_and_mean():
    rng = np.random.default_rng(0)
    before = Mixture(DiagonalGaussian(), rng.random(5), rng.standard_normal((5, D)), rng.random((5, D)) + 0.1)
    after = split(before, 2)
    assert len(after) == 7
    np.testing.assert_allclose(after.weights.sum(), before.weights.sum())
    np.testing.assert_allclose(after.weights @ after.locations, before.weights @ before.locations)


def test_genetic_without_refinement_keeps_the_cost_of_its_best_set():
    problem = separated("exponential")
    outcome = decode(Genetic(population=20, generations=5, refinement=0), problem, np.random.default_rng(0))
    assert outcome.cost == pytest.approx(problem.target.cost(outcome.mixture))
    assert outcome.iterations == 5


def test_pruning_leaves_one():
    """Where all components turn against the sketch, the least bad one is left: SciPy's nnls crashes on none."""
    operator = skl.features.FourierFeatures(1, 4, law=Gaussian(1.0), seed=0)
    target = Target.of(operator.sketch(np.zeros((100, 1))))
    places = np.linspace(-10, 10, 2001)[:, None]
    found = Mixture(Dirac(), np.full(len(places), 1 / len(places)), places, np.zeros((len(places), 0)))
    against = np.flatnonzero(normal_equations(target, found)[1] < 0)[:3]
    left = prune(target, found.some(against), 1)
    assert left.weights.tolist() == [1.0]
    assert left.locations in places[against]


@pytest.mark.parametrize("decoder", ["dirac-ompr", "dirac-omp", DiracOmpr(trials=3)])
def test_points_are_centers(decoder):
    """The literature's k-means: as many points as clusters, with the shares of the records around them."""
    rng = np.random.default_rng(0)
    X = MEANS[rng.integers(K, size=N)] + 0.1 * rng.standard_normal((N, D))
    sketch = skl.features.FourierFeatures(D, 20 * K * D, law=Gaussian(4.0), seed=1).sketch(X)
    one, two = (skl.SketchKMeans(K, decoder=decoder, random_state=0).fit_sketch(sketch) for _ in range(2))
    np.testing.assert_array_equal(one.cluster_centers_, two.cluster_centers_)
    distances = cdist(MEANS, one.cluster_centers_)
    assert distances[linear_sum_assignment(distances)].max() < NEAR
    np.testing.assert_allclose(one.weights_, 1 / K, atol=0.03)
    assert len(one.outcome_.mixture) == K


@pytest.mark.slow
def test_replacement_and_trials_lower_the_cost():
    problem = separated("exponential")
    costs = {}
    for name, decoder in {
        "none": DiracOmpr(replacement=False),
        "replacement": DiracOmpr(),
        "trials": DiracOmpr(trials=4),
    }.items():
        runs = [decode(decoder, problem, np.random.default_rng(seed)).mixture for seed in range(5)]
        costs[name] = np.mean([problem.plain.cost(run) for run in runs])
    assert costs["trials"] <= costs["replacement"] <= costs["none"]


def test_a_climb_ends_higher_and_in_the_box():
    problem = separated("exponential")
    box, nothing = DiracOmpr().box(problem), Mixture(Dirac(), np.zeros(0), np.zeros((0, D)), np.zeros((1, 0)))
    rng = np.random.default_rng(0)
    for start in rng.uniform(box.low, box.high, (20, D)):
        end = climbed(problem.plain, nothing, start, box)
        assert np.all((box.low <= end) & (end <= box.high))
        before, after = (
            np.mean((problem.plain.values * np.exp(-1j * problem.plain.frequencies.omega @ c)).real)
            for c in (start, end)
        )
        assert after >= before


def test_bounds_are_in_the_units_of_the_data():
    problem = separated("exponential")
    low, high = MEANS.min(axis=0), MEANS.max(axis=0)
    box = DiracOmpr(bounds=(tuple(low), tuple(high))).box(problem)
    corners = Mixture(Dirac(), np.ones(2), np.stack([box.low, box.high]), np.zeros((1, 0)))
    np.testing.assert_allclose(problem.in_data_units(corners).locations, [low, high])
    with pytest.raises(ValueError, match="bounds must be the least and the largest values of 3 columns"):
        DiracOmpr(bounds=((0.0, 0.0), (1.0, 1.0))).box(problem)


@pytest.mark.parametrize("estimator", [skl.SketchKMedians, skl.SketchGaussianMixture, skl.SketchStableMixture])
def test_points_are_no_density(estimator):
    with pytest.raises(ValueError, match="finds the points of k-means, which are no density"):
        estimator(2, decoder="dirac-ompr").fit(np.zeros((10, 2)))


@pytest.mark.slow
def test_points_are_explained():
    """A search that points did not end well is named: a mixture explains the sketch."""
    rng = np.random.default_rng(0)
    X = MEANS[rng.integers(K, size=N)] + rng.standard_normal((N, D))
    sketch = skl.design(X, n_components=K, seed=0).sketch(X)
    decoder = DiracOmpr(replacement=False)
    fitted = skl.SketchKMeans(K, decoder=decoder, random_state=0).fit_sketch(sketch)
    for explanation in (skl.explain(fitted), skl.explain(sketch, n_components=K, decoder=decoder)):
        assert explanation.figures["best_misfit"] < 1.5 < explanation.figures["misfit"]
        assert explanation.verdict.name in ("FINE", "DECODER")


@pytest.mark.parametrize(("seed", "m"), [(0, 640), (1, 320), (2, 320)])
def test_a_search_that_failed_says_so(seed, m):
    """Of frequencies that fit badly: clusters had up to three times the least error, and nothing was said."""
    rng, scale = np.random.default_rng(seed), 2.5 * 4 ** (1 / 8)
    centers = scale * rng.standard_normal((4, 8))
    X = np.clip(centers[rng.integers(0, 4, 20_000)] + rng.standard_normal((20_000, 8)), -12, 12)
    sketch = skl.features.FourierFeatures(8, m, law=skl.features.frequencies.Gaussian(scale), seed=seed).sketch(X)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        found = skl.SketchKMeans(4, random_state=seed).fit_sketch(sketch)
    least = skl.SketchKMeans(4, random_state=0).fit(X).inertia_
    poor = [warning for warning in said if "clusters may be poor, as no mixture" in str(warning.message)]
    assert poor or -found.score(X) < 1.05 * least


@pytest.mark.parametrize(
    ("model", "shape"), [(SphericalGaussian(), 1), (DiagonalGaussian(), 3), (StretchedGaussian(), 6)]
)
def test_components_of_every_shape_are_split(model, shape):
    """Stretched ones were not: too few of them ended a fit."""
    mixture = Mixture(model, np.array([0.7, 0.3]), np.zeros((2, 3)), np.full((2, shape), 0.5))
    found = split(mixture, 1)
    assert found.shapes.shape == (3, shape)
    assert np.allclose(found.weights, [0.35, 0.3, 0.35])
    assert np.allclose(found.weights @ found.locations, 0)
    assert (found.variances()[[0, 2]].max(axis=1) <= mixture.variances().max()).all()
