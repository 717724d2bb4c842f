"""The fit test has the mean and the p-values that it claims: of exact, private, one-bit and subsampled sketches."""

import json
from dataclasses import replace
from functools import cache

import numpy as np
import pytest
from scipy.stats import kstest

import sketchlearn as skl
from sketchlearn.inference.decoders.gaussian_mixture import refined
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target
from sketchlearn.inference.distributions import DiagonalGaussian, FullGaussian, Mixture

LAW = Mixture(
    DiagonalGaussian(),
    np.array([0.5, 0.3, 0.2]),
    np.array([[0.0, 0.0], [4.0, 1.0], [-1.0, 4.0]]),
    np.array([[1.0, 0.7], [0.8, 1.2], [1.3, 1.0]]),
)
N, FREQUENCIES = 20_000, 100


@cache
def operator_of(way):
    wave = {"one-bit": "square", "cosine": "cosine"}.get(way, "exponential")
    rows = LAW.sample(2000, np.random.default_rng(0))[0]
    design = skl.design(
        rows, n_components=3, task="mixture", features=skl.features.Fourier(FREQUENCIES, wave=wave), seed=0
    )
    fourier = design.part(skl.features.FourierFeatures)
    return replace(fourier, subsample=FREQUENCIES // 5) if way == "subsampled" else fourier


def sketch_of(rows, way):
    sketch = operator_of(way).sketch(rows, n_jobs=1)
    if way != "private":
        return sketch
    return skl.privatize(sketch, epsilon=3.0, delta=1e-6, assume_public_design=True)


def rows_of(seed):
    rng = np.random.default_rng(seed)
    return rng.permutation(LAW.sample(N, rng)[0])


def fit_test_of(model, rows, way):
    """The fit test of a refinement that starts at the law's own parameters."""
    problem = Problem.of(Target.of(sketch_of(rows, way), HIGHEST_HARMONIC), len(LAW))
    own = problem.in_own_units(model, *LAW.parts())
    for _ in range(2 if problem.target.harmonics else 1):
        own, test = refined(problem.without_harmonics(own), own)
    return test


@pytest.mark.slow
@pytest.mark.parametrize("way", ["exact", "one-bit", "cosine", "subsampled", "private"])
def test_true_mixtures_have_the_mean_one_and_uniform_p_values(way):
    """The mean is within 3.5 standard errors of 1, and p-values are uniform at the level 0.001."""
    tests = [fit_test_of(DiagonalGaussian(), rows_of(seed), way) for seed in range(60 if way == "exact" else 30)]
    figures = np.array([test.figure for test in tests])
    assert abs(figures.mean() - 1) < 3.5 * figures.std(ddof=1) / np.sqrt(len(figures))
    assert kstest([test.p_value for test in tests], "uniform").pvalue > 0.001


def test_full_covariances_count_their_parameters():
    figures = np.array([fit_test_of(FullGaussian(), rows_of(seed), "exact").figure for seed in range(15)])
    assert abs(figures.mean() - 1) < 4 * figures.std(ddof=1) / np.sqrt(len(figures))


@pytest.mark.parametrize("way", ["exact", "one-bit", "subsampled"])
def test_a_box_is_no_mixture(way):
    box = np.random.default_rng(0).uniform(-3, 3, (N, 2))
    assert fit_test_of(DiagonalGaussian(), box, way).p_value < 1e-6


def test_models_say_their_p_value_and_older_files_have_none(tmp_path):
    model = skl.SketchGaussianMixture(3, covariance_type="diag", random_state=0).fit_sketch(
        sketch_of(rows_of(0), "exact")
    )
    path = tmp_path / "model.json"
    skl.save(model, path)
    assert skl.load(path).fit_p_value_ == model.fit_p_value_ > 0.001
    form = json.loads(path.read_text())
    path.write_text(json.dumps({**form, "fit_p_value": 1.5}))
    with pytest.raises(ValueError, match="fit_p_value must be between 0 and 1"):
        skl.load(path)
    del form["fit_p_value"]
    path.write_text(json.dumps(form))
    assert skl.load(path).fit_p_value_ is None
