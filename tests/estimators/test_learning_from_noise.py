"""Learning from private sketches: designs from bounds alone, and decoders that know the noise."""

import warnings

import numpy as np
import pytest
from sklearn.cluster import KMeans
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture
from typer.testing import CliRunner

import sketchlearn as skl
from sketchlearn.cli.commands import app
from sketchlearn.estimators.design.frequencies import BROAD_IN_BOUNDS, BROAD_UNDER_PURE_NOISE
from sketchlearn.inference.decoders.loop import Status
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.target import Target, fourier_part
from sketchlearn.questions.explain import Verdict, explain

K, D, N = 5, 3, 50_000
BOX = ([-20.0] * D, [20.0] * D)


def rows_of(seed=0, n=N, scales=1.0):
    rng = np.random.default_rng(seed)
    centers = rng.uniform(-15, 15, (K, D))
    return centers[rng.integers(0, K, n)] + rng.normal(size=(n, D)) * scales


def private(rows, epsilon, delta=0.0, seed=0, bounds=BOX, **options):
    options = {"n_components": K, "n_rows": len(rows), "epsilon": epsilon, "delta": delta} | options
    operator = skl.design(bounds=bounds, seed=seed, **options)
    return skl.privatize(operator.sketch(rows), epsilon=epsilon, delta=delta, seed_for_tests_not_private=seed)


def risk(rows, centers):
    return np.min(np.sum((rows[:, None] - centers) ** 2, axis=2), axis=1).sum()


def best_risk(rows):
    return KMeans(K, n_init=10, random_state=0).fit(rows).inertia_


def size(**budget):
    return (
        skl.design(bounds=(-10, [10] * 10), n_components=10, **budget).part(skl.features.FourierFeatures).n_frequencies
    )


def test_pure_epsilon_pays_for_few_frequencies_and_delta_for_many():
    sizes = [size(n_rows=100_000, epsilon=epsilon) for epsilon in (0.1, 0.3, 0.5, 3)]
    assert sizes == sorted(sizes)
    assert sizes[0] == 300
    assert sizes[-1] == 1000 + BROAD_UNDER_PURE_NOISE
    assert size(n_rows=100_000, epsilon=1) == 400 + BROAD_UNDER_PURE_NOISE
    assert size(n_rows=10**6, epsilon=0.03) == size(n_rows=10**5, epsilon=0.3)
    assert size(n_rows=100_000, epsilon=0.1, delta=1e-8) == 1000 + BROAD_IN_BOUNDS
    assert size(n_rows=100_000, epsilon=0.1, features=skl.features.Fourier(n_frequencies=77)) == 77


def test_a_design_says_when_noise_will_hide_clusters():
    with pytest.warns(UserWarning, match=r"noise will hide 10 clusters of 1,000 records at epsilon 0.1: about [\d,]+"):
        size(n_rows=1000, epsilon=0.1)


def test_the_command_designs_for_a_budget(tmp_path):
    given = ["--bounds", "-10,10", "--columns", ",".join("abcdefghij"), "-k", "10", "--n-rows", "100000"]
    found = CliRunner().invoke(app, ["design", *given, "--epsilon", "0.1", "-o", str(tmp_path / "design.json")])
    assert found.exit_code == 0, found.output
    found = skl.load(tmp_path / "design.json").part(skl.features.FourierFeatures)
    assert found.n_frequencies == size(n_rows=100_000, epsilon=0.1)


def test_histograms_are_spared_where_clusters_barely_show():
    shown, hidden = (
        skl.design(bounds=(-10, [10] * 10), n_components=10, n_rows=100_000, epsilon=epsilon) for epsilon in (0.3, 0.1)
    )
    assert shown.part(skl.features.Histograms) is not None
    assert hidden.part(skl.features.Histograms) is None


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"bounds": BOX, "epsilon": 1.0}, "give bounds, and n_rows"),
        ({"sample": [[0.0], [1.0]], "epsilon": 1.0, "n_rows": 10}, "looks at no rows"),
        ({"bounds": BOX, "n_rows": 10}, "give epsilon, too"),
        ({"bounds": BOX, "epsilon": 0.0, "n_rows": 10}, "epsilon must be a positive number"),
        ({"bounds": BOX, "epsilon": 1.0, "delta": 1.0, "n_rows": 10}, "delta must be at least 0 and below 1"),
    ],
)
def test_a_design_needs_bounds_rows_and_a_budget(options, message):
    with pytest.raises(ValueError, match=message):
        skl.design(n_components=3, **options)


@pytest.mark.parametrize("wave", ["exponential", "cosine", "square"])
def test_the_noise_of_a_release_is_known(wave):
    rows = rows_of(n=5000)
    exact = skl.design(bounds=BOX, n_components=K, features=skl.features.Fourier(n_frequencies=600, wave=wave)).sketch(
        rows
    )
    noisy = skl.privatize(exact, epsilon=1.0, neighbors="replace", seed_for_tests_not_private=1)
    target, before = Target.of(noisy), Target.of(exact)
    assert before.released == 0
    assert target.sampling == pytest.approx(before.noise, rel=0.1)  # the count has noise, too
    assert np.mean(np.abs(target.values - before.values) ** 2) == pytest.approx(target.released, rel=0.2)


@pytest.mark.parametrize(("epsilon", "delta", "loose"), [(0.1, 0.0, 1.0), (0.3, 0.0, 3.0), (0.03, 1e-8, 1.0)])
def test_clusters_are_found_in_noise(epsilon, delta, loose):
    rows = rows_of()
    sketch = private(rows, epsilon, delta, bounds=tuple(np.multiply(BOX, loose)))
    model = skl.SketchKMeans(K, random_state=0).fit_sketch(sketch)
    assert risk(rows, model.cluster_centers_) < 1.1 * best_risk(rows)
    assert model.outcome_.status is Status.EXPLAINED
    assert len(model.outcome_.mixture) == K
    assert model.outcome_.mixture.model.tied


def test_location_and_spread_are_read_in_noise():
    rows = rows_of()
    target = Target.of(private(rows, 0.1))
    problem = Problem.of(target, K)
    unit, deviation = problem.target.unit, rows.std(axis=0)
    np.testing.assert_allclose(problem.shift * unit, rows.mean(axis=0), atol=0.6 * deviation.max())
    np.testing.assert_allclose(problem.spread * unit, deviation, rtol=0.5)
    assert 0.7 < unit.mean() < 2


@pytest.mark.slow
def test_little_noise_leaves_room_for_more_components():
    angle = np.random.default_rng(0).uniform(0, 2 * np.pi, 50_000)
    ring = 10 * np.stack([np.cos(angle), np.sin(angle)], axis=1)
    loud, quiet = (private(ring, epsilon, 1e-8, bounds=(-12, [12, 12])) for epsilon in (0.01, 10.0))
    with pytest.warns(ConvergenceWarning, match="noise of the release is large"):
        assert len(skl.SketchKMeans(K, random_state=0).fit_sketch(loud).outcome_.mixture) <= K
    fitted = skl.SketchKMeans(K, random_state=0).fit_sketch(quiet)
    assert fitted.outcome_.status is Status.ATOMS  # no mixture explains a ring
    assert risk(ring, fitted.cluster_centers_) < 1.02 * best_risk(ring)
    named = skl.SketchKMeans(K, decoder="ompr", random_state=0).fit_sketch(quiet)
    assert len(named.outcome_.mixture) > K


def test_hidden_clusters_are_said_to_be_hidden():
    rows = rows_of(n=5000)
    with pytest.warns(UserWarning, match="noise will hide"):
        sketch = private(rows, 0.01)
    with pytest.warns(ConvergenceWarning, match="private release hides the clusters"):
        model = skl.SketchKMeans(K, random_state=0).fit_sketch(sketch)
    mixture = skl.SketchGaussianMixture(K, covariance_type="diag", random_state=0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        assert np.isfinite(mixture.fit_sketch(sketch).score(rows))
    assert model.outcome_.status is Status.HIDDEN
    assert "larger epsilon" in model.outcome_.advice
    assert np.all(np.abs(model.cluster_centers_) < 100)
    for explanation in (explain(model), explain(sketch, n_components=K)):
        assert explanation.verdict is Verdict.HIDDEN
        assert "private release hides the 5 clusters" in str(explanation)


@pytest.mark.slow
def test_clusters_of_no_mixture_are_those_of_draws_from_a_density():
    rng = np.random.default_rng(0)
    which, ends = rng.integers(0, K, N), rng.uniform(-9, 9, (2, K, D))
    along = rng.random((N, 1))
    rows = along * ends[0, which] + (1 - along) * ends[1, which] + 0.2 * rng.standard_normal((N, D))
    waves = skl.design(bounds=BOX, n_components=K, n_rows=N, epsilon=3.0).part(skl.features.FourierFeatures)
    sketch = skl.privatize(waves.with_origin("declared").sketch(rows), epsilon=3.0, seed_for_tests_not_private=0)
    found = skl.SketchKMeans(K, random_state=0).fit_sketch(sketch)
    assert found.outcome_.status is Status.ATOMS
    assert risk(rows, found.cluster_centers_) < 1.005 * best_risk(rows)


def test_a_mixture_that_contradicts_the_histograms_is_not_taken():
    rng = np.random.default_rng(0)
    common = rng.standard_normal((6000, 1))
    codes = np.clip(np.round(1.2 * (0.6 * common + 0.8 * rng.standard_normal((6000, 6))) + 2), 0, 5)
    sketch = private(codes, 3.0, bounds=([0.0] * 6, [5.0] * 6), n_components=6)
    waves_alone, found = (
        skl.SketchKMeans(6, random_state=0).fit_sketch(part) for part in (fourier_part(sketch)[0], sketch)
    )
    assert waves_alone.outcome_.status is Status.EXPLAINED  # up to noise that is too large to tell codes from Gaussians
    assert found.outcome_.status is Status.ATOMS
    assert risk(codes, found.cluster_centers_) < 1.1 * KMeans(6, n_init=3, random_state=0).fit(codes).inertia_


def test_large_noise_is_said_where_clusters_are_explained():
    rows = rows_of(n=10_000)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        model = skl.SketchKMeans(K, random_state=0).fit_sketch(private(rows, 0.15))
    assert model.outcome_.status is Status.EXPLAINED
    assert any("as the noise of the release is large: release more records" in str(w.message) for w in caught)


def test_clear_clusters_are_explained_up_to_noise():
    explanation = explain(skl.SketchKMeans(K, random_state=0).fit_sketch(private(rows_of(), 0.3)))
    assert explanation.verdict is Verdict.FINE
    assert explanation.figures["released"] > 0.9


@pytest.mark.parametrize("covariance_type", ["diag", "full", "known"])
def test_mixtures_are_learned_in_noise(covariance_type):
    scales = np.array([0.5, 1.0, 2.0])
    rows = rows_of(scales=scales)
    sketch = private(rows, 1.0, task="mixture-full" if covariance_type == "full" else "mixture")
    options = {"covariance": np.diag(scales**2)} if covariance_type == "known" else {}
    model = skl.SketchGaussianMixture(K, covariance_type=covariance_type, random_state=0, **options)
    mixture = model.fit_sketch(sketch)
    best = GaussianMixture(K, covariance_type="diag", n_init=3, random_state=0).fit(rows).score(rows)
    assert mixture.score(rows) > best - 0.1


def test_designs_on_public_samples_work_as_well():
    rows = rows_of()
    exact = skl.design(rows_of(seed=0, n=3000), n_components=K).sketch(rows)
    sketch = skl.privatize(exact, epsilon=0.3, assume_public_design=True, seed_for_tests_not_private=0)
    centers = skl.SketchKMeans(K, random_state=0).fit_sketch(sketch).cluster_centers_
    assert risk(rows, centers) < 1.1 * best_risk(rows)


def test_a_handful_of_records_and_a_tiny_budget_give_centers_all_the_same():
    with pytest.warns(UserWarning, match="noise will hide"):
        sketch = private(rows_of(n=50), 0.001)
    with pytest.warns(ConvergenceWarning, match="release more records at once"):
        model = skl.SketchKMeans(K, random_state=0).fit_sketch(sketch)
    assert np.all(np.isfinite(model.cluster_centers_))
