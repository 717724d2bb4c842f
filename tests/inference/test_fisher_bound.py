"""What a sketch costs: errors of a mixture's means beside those of the likeliest mixture of all rows."""

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture
from sketchlearn.inference.errors.mixtures import errors_over_bound
from sketchlearn.questions.explain import explain

RNG = np.random.default_rng(0)
X = np.array([[0.0, 0.0], [2.8, 0.0]])[RNG.integers(0, 2, 4000)] + RNG.standard_normal((4000, 2))


def sketch(m, **more):
    return skl.design(X, n_components=2, task="mixture", features=skl.features.Fourier(n_frequencies=m), **more).sketch(
        X
    )


def learned(sketch):
    return skl.SketchGaussianMixture(2, covariance_type="diag", random_state=0).fit_sketch(sketch)


def test_the_price_of_few_frequencies_is_that_of_all_rows():
    of_rows = learned(sketch(60, rows=5000)).standard_errors_["means_"]  # the likeliest mixture of all rows
    found = []
    for m, sentence in [(20, "times those that all rows would give: more frequencies would bring at most"), (300, "")]:
        fitted = learned(sketch(m))
        told = explain(fitted)
        found.append(told.figures["over_bound"])
        ratio = np.sqrt(np.mean((fitted.standard_errors_["means_"] / of_rows) ** 2))
        assert found[-1] == pytest.approx(ratio, rel=0.1)
        assert sentence in str(told)
    assert 1.0 <= found[1] < 1.03 < found[0] < 1.3


def test_a_bare_sketch_tells_it_too():
    assert "Errors of means of a mixture of 2 are about 1.1" in str(explain(sketch(20), n_components=2))


@pytest.mark.parametrize("far", [1.0, 8.0])
def test_many_frequencies_tell_as_much_as_the_rows(far):
    """Whether clusters are far apart or overlap."""
    operator = skl.features.FourierFeatures(1, 300, law=skl.features.frequencies.Gaussian(0.7), seed=0)
    rows = np.array([[-far], [far]])[RNG.integers(0, 2, 2000)] + RNG.standard_normal((2000, 1))
    problem = Problem.of(Target.of(operator.sketch(rows)), 2)
    unit = problem.target.unit
    at = (np.array([[-far], [far]]) - problem.target.origin) / unit - problem.shift
    mixture = Mixture(DiagonalGaussian(), np.array([0.5, 0.5]), at, np.full((2, 1), float(1 / unit[0] ** 2)))
    assert errors_over_bound(problem, mixture, np.random.default_rng(0)) == pytest.approx(1.0, abs=0.05)


@pytest.mark.parametrize("more", [{"wave": "square"}, {"n_frequencies": 1500}])
def test_it_is_not_told_of_others(more):
    operator = skl.features.FourierFeatures(
        2, more.pop("n_frequencies", 60), law=skl.features.frequencies.Gaussian(0.7), seed=0, **more
    )
    problem = Problem.of(Target.of(operator.sketch(X)), 1)
    mixture = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, 2)), np.ones((1, 2)))
    assert errors_over_bound(problem, mixture, np.random.default_rng(0)) is None
