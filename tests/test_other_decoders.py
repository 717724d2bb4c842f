"""Decoders other than CL-OMPR: each finds well separated clusters, in the same way each time."""

from functools import cache

import numpy as np
import pytest
from scipy.optimize import linear_sum_assignment
from scipy.spatial.distance import cdist

import sketchlearn as skl
from sketchlearn.decoders.densities.density_from_sketch import cleaned, fit_density
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.problems.mixture_cost import normal_equations, prune
from sketchlearn.decoders.refinements.reduction_to_points import centroids
from sketchlearn.decoders.searches.genetic_search import Genetic
from sketchlearn.decoders.searches.hierarchical_splitting import HierarchicalSplitting, split
from sketchlearn.decoders.searches.mean_shift import SketchAndShift
from sketchlearn.decoders.searches.message_passing import ClAmp
from sketchlearn.decoders.searches.search_loop import decode
from sketchlearn.frequencies import Gaussian, Probed
from sketchlearn.models import DiagonalGaussian, Dirac, Mixture

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
    sketch = skl.FourierFeatures(D, m, law=law, wave=wave, center=X.mean(axis=0), seed=1).sketch(X)
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
    operator = skl.FourierFeatures(1, 4, law=Gaussian(1.0), seed=0)
    target = Target.of(operator.sketch(np.zeros((100, 1))))
    places = np.linspace(-10, 10, 2001)[:, None]
    found = Mixture(Dirac(), np.full(len(places), 1 / len(places)), places, np.zeros((len(places), 0)))
    against = np.flatnonzero(normal_equations(target, found)[1] < 0)[:3]
    left = prune(target, found.some(against), 1)
    assert left.weights.tolist() == [1.0]
    assert left.locations in places[against]
