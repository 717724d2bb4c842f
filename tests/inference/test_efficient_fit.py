"""Mixtures that follow a sketch with the least errors."""

from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.inference.decoders.gaussian_mixture import MOST_WHITENED
from sketchlearn.inference.decoders.goodness_of_fit import BLOCK, EfficientSteps, efficient, slopes_of_efficient
from sketchlearn.inference.decoders.points import centroids
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import correlated_errors
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, FrequencySet, FullGaussian, Mixture

K, D = 4, 3
LAW = Mixture(
    DiagonalGaussian(),
    np.array([0.4, 0.3, 0.2, 0.1]),
    3.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]]),
    np.random.default_rng(0).uniform(0.7, 1.3, (K, D)),
)


def drawn(seed, n=20_000):
    return LAW.sample(n, np.random.default_rng([1, seed]))[0]


def problem_of(rows, seed=0, wave="exponential", **options):
    waves = skl.features.Fourier(n_frequencies=100, wave=wave)
    operator = skl.design(drawn(99, 2000), n_components=K, seed=seed, features=waves, **options)
    return Problem.of(Target.of(operator.sketch(rows)), K)


def own(problem, mixture=LAW):
    return problem.in_own_units(mixture.model, *mixture.parts())


def test_the_covariance_of_errors_is_that_of_products_of_waves():
    """cos a cos b = (cos(a - b) + cos(a + b)) / 2 and so on, for Gaussians of any shape."""
    problem, rng = problem_of(drawn(0)), np.random.default_rng(0)
    turned, model = rng.standard_normal((K, D, D)), FullGaussian()
    covariances = np.eye(D) + 0.3 * turned @ turned.transpose(0, 2, 1)
    target = problem.plain
    mixture = own(problem, replace(LAW, model=model, shapes=model.shapes_of(covariances)))
    omega, m = target.frequencies.omega.astype(np.float64), len(target)
    each = np.concatenate([omega[:, None] + sign * omega for sign in (1, -1)]).reshape(-1, D)
    plus, minus = mixture.characteristic(FrequencySet(each)).reshape(2, m, m)
    mean = mixture.characteristic(target.frequencies)
    cosines, sines, cross = (minus + plus).real / 2, (minus - plus).real / 2, (plus - minus).imag / 2
    parts = np.concatenate([mean.real, mean.imag])
    expected = (np.block([[cosines, cross], [cross.T, sines]]) - np.outer(parts, parts)) * target.sampling
    errors = correlated_errors(target, mixture)
    found = errors.factor @ errors.factor.T - errors.ridge * np.eye(2 * m)
    np.testing.assert_allclose(found, expected, atol=1e-5 * target.sampling)


def test_steps_from_the_truth_are_as_long_as_chance_makes_them():
    """Their mean square is a chi-square over its degrees of freedom: 9 draws of 27, within 5 deviations of 1."""
    p, sizes = K * (2 * D + 1) - 1, []
    for seed in range(9):
        problem = problem_of(drawn(seed), seed)
        truth = own(problem)
        sizes.append(EfficientSteps.of(problem.plain, truth, BLOCK).step(truth)[1] * (p + 1) / p)
    assert abs(np.mean(sizes) - 1) < 5 * np.sqrt(2 / (9 * p))


def test_a_fit_is_known_to_be_efficient():
    problem = problem_of(drawn(0))
    start = own(problem)
    found = efficient(problem.plain, start)
    assert slopes_of_efficient(problem.plain, start) is None
    assert slopes_of_efficient(problem.plain, found).shape == (2 * len(problem.plain), K * (2 * D + 1))
    assert found.weights.sum() == pytest.approx(1)


def test_blocks_of_frequencies_lead_near_the_same_mixture():
    """By less than chance does: with independent blocks, errors are little larger."""
    problem = problem_of(drawn(0))
    whole = efficient(problem.plain, own(problem))
    blocks = efficient(problem.plain, own(problem), 50)
    away = np.abs(blocks.locations - whole.locations).max()
    assert 0 < away < np.abs(own(problem).locations - whole.locations).max()


def test_mixtures_of_many_frequencies_follow_all_of_them():
    """Once, only the first 1100 were used there, and errors were up to 1.7 times the least."""
    operator = skl.design(
        drawn(99, 2000), n_components=K, task="mixture", features=skl.features.Fourier(n_frequencies=1200)
    )
    sketch = operator.sketch(drawn(0))
    model = skl.SketchGaussianMixture(K, covariance_type="diag", random_state=0).fit_sketch(sketch)
    problem = Problem.of(Target.of(sketch), K)
    found = problem.in_own_units(
        DiagonalGaussian(), model.weights_, model.means_, np.array([np.diag(c) for c in model.covariances_])
    )
    assert slopes_of_efficient(problem.plain, found, MOST_WHITENED) is not None


def test_what_is_not_known_or_not_so_is_left_alone():
    one_bit = problem_of(drawn(0), wave="square")
    assert efficient(one_bit.plain, own(one_bit)) is None  # the covariance of one-bit values is another
    far = problem_of(drawn(0) ** 2)  # no such mixture
    assert efficient(far.plain, own(far)) is None
    few = problem_of(drawn(0)).plain.some(slice(0, 20))
    assert efficient(few, own(problem_of(drawn(0)))) is None


@pytest.mark.slow
def test_centers_of_about_the_same_cost_are_told_apart():
    """Lloyd's algorithm on 4000 draws ends in minima that cost up to 1 % more, and prefers some of them."""
    rng = np.random.default_rng([20, 10, 17])
    means = rng.standard_normal((20, 10))
    means *= 2.5 / np.linalg.norm(means[:, None] - means, axis=2)[np.triu_indices(20, 1)].min()
    weights = rng.dirichlet(np.full(20, 2.0)) * 0.9 + 0.1 / 20
    law = Mixture(DiagonalGaussian(), weights, means, rng.uniform(0.4, 1.6, (20, 10)))
    first, second, third = (centroids(law, 20, np.random.default_rng(seed), 1e5)[0] for seed in range(3))
    for other in (second, third):
        gaps = np.linalg.norm(first[:, None] - other, axis=2).min(axis=1)
        assert gaps.max() < 0.3


def test_a_component_that_came_to_nothing_has_no_efficient_fit():
    problem = problem_of(drawn(0))
    nothing = replace(LAW, weights=np.array([0.5, 0.3, 0.2, 1e-170]))
    assert efficient(problem.plain, own(problem, nothing)) is None
    assert slopes_of_efficient(problem.plain, own(problem, nothing)) is None
