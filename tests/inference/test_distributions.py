"""Models: their sketch is that of their samples, gradients are derivatives, and the kernels agree on the waves."""

from dataclasses import replace

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.inference.decoders.refinement import cost_and_gradient
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import (
    DiagonalGaussian,
    Dirac,
    FrequencySet,
    FullGaussian,
    IndependentStable,
    KnownGaussian,
    Mixture,
    SphericalGaussian,
    StretchedGaussian,
    SymmetricStable,
    TiedDiagonalGaussian,
    TiedGaussian,
)

D, K = 3, 3
COVARIANCE = np.array([[1.0, 0.3, 0.0], [0.3, 0.8, -0.2], [0.0, -0.2, 1.5]])
MODELS = [
    Dirac(),
    SphericalGaussian(),
    DiagonalGaussian(),
    FullGaussian(),
    TiedGaussian(),
    TiedDiagonalGaussian(),
    KnownGaussian(COVARIANCE),
    SymmetricStable(),
    IndependentStable(),
    StretchedGaussian(),
]
every_model = pytest.mark.parametrize("model", MODELS, ids=lambda model: type(model).__name__)


def mixture_of(model):
    rng = np.random.default_rng(1)
    covariances = np.stack([COVARIANCE * (1 + i) for i in range(K)])
    shapes = model.shapes_of(covariances)
    if isinstance(model, StretchedGaussian):
        shapes[:, D:] = rng.normal(size=(K, D))
    return Mixture(model, np.array([0.5, 0.3, 0.2]), rng.normal(size=(K, D)), shapes)


def operator_of(wave, scale=2.0, m=80):
    return skl.features.FourierFeatures(
        D, m, law=skl.features.frequencies.Gaussian(scale), wave=wave, center=[0.5] * D, seed=1
    )


@every_model
@pytest.mark.parametrize("wave", ["exponential", "cosine"])
def test_sketch_is_the_mean_sketch_of_samples(model, wave):
    mixture, operator, n = mixture_of(model), operator_of(wave), 40_000
    rows, labels = mixture.sample(n, np.random.default_rng(2))
    assert np.all(np.bincount(labels, minlength=K) > 0)
    away = np.abs(mixture.sketch(operator) - operator.sketch(rows).mean)
    assert np.max(away) < 5 / np.sqrt(n)  # five deviations, for each of 80 values


@pytest.mark.parametrize(("wave", "bound"), [("square", 0.05), ("triangle", 0.01), ("sawtooth", 0.12)])
def test_first_harmonic_carries_the_sketch(wave, bound):
    """Frequencies so high that harmonics vanish: a narrow mixture seen at a small scale would show them."""
    mixture, operator = mixture_of(FullGaussian()), operator_of(wave, scale=0.9, m=400)
    rows, _ = mixture.sample(100_000, np.random.default_rng(2))
    away = np.abs(mixture.sketch(operator) - operator.sketch(rows).mean)
    assert np.sqrt(np.mean(away**2)) < bound


@every_model
@pytest.mark.parametrize("wave", ["exponential", "cosine", "square"])
def test_gradients_are_derivatives(model, wave):
    mixture, operator = mixture_of(model), operator_of(wave)
    rows = np.random.default_rng(3).normal(size=(500, D))
    target = Target.of(operator.sketch(rows))
    space = np.empty((4, len(mixture), len(target)), np.float32)
    _, *gradients = cost_and_gradient(target, mixture, space)
    for name, gradient in zip(("weights", "locations", "shapes"), gradients, strict=True):
        values = getattr(mixture, name)
        numeric = np.zeros(values.size)
        for i in range(values.size):
            costs = []
            for step in (1e-2, -1e-2):
                moved = values.copy().ravel()
                moved[i] += step
                other = replace(mixture, **{name: moved.reshape(values.shape)})
                costs.append(cost_and_gradient(target, other, space)[0])
            numeric[i] = (costs[0] - costs[1]) / 2e-2
        np.testing.assert_allclose(np.ravel(gradient), numeric, atol=3e-5 + 3e-3 * np.max(np.abs(numeric), initial=0))


@every_model
def test_covariances_are_kept_by_shapes(model):
    if isinstance(model, Dirac | StretchedGaussian):  # the one has none, the other keeps variances alone
        return
    mixture = mixture_of(model)
    again = model.covariances(model.shapes_of(mixture.covariances()), D)
    np.testing.assert_allclose(np.broadcast_to(again, (K, D, D)), mixture.covariances(), rtol=1e-12, atol=1e-14)


def test_shift_turns_the_phase():
    frequencies = FrequencySet(np.zeros((1, 2)), shift=np.array([np.pi / 2]))
    cosines, sines = frequencies.waves(np.zeros((1, 2)))
    assert abs(cosines[0, 0]) < 1e-6
    assert abs(sines[0, 0] - 1) < 1e-6


def test_stretched_components_keep_their_covariance_in_other_units():
    mixture, unit = mixture_of(StretchedGaussian()), np.array([0.1, 2.0, 30.0])
    scaled = StretchedGaussian().covariances(StretchedGaussian().scaled(mixture.shapes, unit), D)
    np.testing.assert_allclose(scaled, mixture.covariances() * np.outer(unit, unit), rtol=1e-12)


@pytest.mark.parametrize("model", [SphericalGaussian(), DiagonalGaussian(), FullGaussian()])
def test_deviations_undo_moves(model):
    rng = np.random.default_rng(0)
    roots = rng.normal(size=(4, 3, 3))
    shapes = model.shapes_of(roots @ roots.transpose(0, 2, 1))
    step = 0.2 * rng.normal(size=model.deviations(shapes, shapes).shape)
    np.testing.assert_allclose(model.deviations(model.moved(shapes, step), shapes), step, atol=1e-10)
