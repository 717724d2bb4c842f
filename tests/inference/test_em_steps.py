"""Mixtures of Gaussians by steps of EM: expected statistics of all rows at a pilot."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import logsumexp
from scipy.stats import multivariate_normal
from sklearn.exceptions import ConvergenceWarning

import sketchlearn as skl
from sketchlearn.inference.distributions import n_parameters
from sketchlearn.inference.em import MStep, PilotRows, gain_of_step, pilot_mixture, reduced

KINDS = ("full", "tied", "diag", "spherical", "known")


def mixture(seed, n=20_000, k=4, d=6, separation=3.0, mixed_units=True):
    """Rows of k Gaussians in d columns of different units, and their truth."""
    rng = np.random.default_rng(seed)
    units = 10.0 ** rng.integers(-2, 3, d) if mixed_units else np.ones(d)
    means, weights = separation * rng.standard_normal((k, d)), rng.dirichlet(np.full(k, 5.0))
    factors = np.linalg.cholesky(np.eye(d) + 0.3 * np.ones((d, d))) * rng.uniform(0.5, 1.5, (k, d, 1))
    own = rng.choice(k, n, p=weights)
    rows = means[own] + np.einsum("nij,nj->ni", factors[own], rng.standard_normal((n, d)))
    return rows * units, (weights, means * units, factors * units[:, None])


def logs_of(rows, weights, means, covariances):
    parts = zip(weights, means, covariances, strict=True)
    return np.stack([np.log(w) + multivariate_normal(m, c).logpdf(rows) for w, m, c in parts], axis=1)


@pytest.mark.parametrize("full", [False, True])
def test_a_step_is_that_of_em_in_double_precision(full):
    rows, (weights, means, factors) = mixture(0)
    if not full:
        factors = np.sqrt(np.sum(factors**2, axis=2))
    box = {"center": rows.mean(axis=0), "bound": 2 * np.abs(rows - rows.mean(axis=0)).max(axis=0)}
    operator = skl.features.ExpectedStatistics.at_mixture(weights, means, factors, reach=12.0, **box)
    sketch = operator.sketch(rows)
    found = operator.moments(sketch.mean)
    covariances = factors @ factors.transpose(0, 2, 1) if full else np.stack([np.diag(v**2) for v in factors])
    logs = logs_of(rows, weights, means, covariances)
    shares = np.exp(logs - logsumexp(logs, axis=1, keepdims=True))
    sizes = shares.sum(axis=0)
    expected = shares.T @ rows / sizes[:, None]
    assert sketch.sums[1 :: operator.width].sum() == 2**22 * len(rows)  # responsibilities add up exactly
    np.testing.assert_allclose(found.shares, sizes / len(rows), atol=1e-6)
    deviations = np.sqrt(np.diagonal(covariances, axis1=1, axis2=2))
    np.testing.assert_allclose((found.means - expected) / deviations, 0, atol=1e-5)
    for c in range(len(weights)):
        away = (rows - expected[c]) / deviations[c]
        own = (shares[:, c, None] * away).T @ away / sizes[c]
        scaled = found.covariances[c] / (np.outer(deviations[c], deviations[c]) if full else deviations[c] ** 2)
        np.testing.assert_allclose(scaled, own if full else np.diag(own), atol=1e-4)
    assert operator.at.log_likelihood(sketch.mean) == pytest.approx(logsumexp(logs, axis=1).mean(), abs=1e-5)


@pytest.mark.parametrize("kind", ["statistics-diag", "statistics-full"])
def test_sums_merge_split_and_weigh_exactly(kind):
    from cases import operators

    operator, rng = operators(5)[kind], np.random.default_rng(1)
    rows, weights = 3 * rng.standard_normal((3000, 5)), rng.integers(0, 4, 3000)
    total = operator.sketch(rows)
    assert operator.sketch(rows[:1000]) + operator.sketch(rows[1000:]) == total
    assert total - operator.sketch(rows[1000:]) == operator.sketch(rows[:1000])
    assert operator.sketch(rows, n_jobs=1) == operator.sketch(np.asfortranarray(rows), n_jobs=3)
    assert operator.sketch(rows, sample_weight=weights) == operator.sketch(np.repeat(rows, weights, axis=0))
    assert operator.sketch(rows, nulls="drop") == operator.sketch(
        np.vstack([rows, [[np.nan, 0, 0, 0, 0]]]), nulls="drop"
    )


@settings(max_examples=40, deadline=None)
@given(st.integers(0, 10**6), st.sampled_from(["diag", "full", "tied", "spherical"]))
def test_no_step_lowers_the_likelihood(seed, kind):
    rng = np.random.default_rng(seed)
    n, d, k = int(rng.integers(200, 2000)), int(rng.integers(1, 6)), int(rng.integers(1, 6))
    rows = rng.standard_normal((n, d)) * 10.0 ** rng.integers(-3, 4, d) + 100 * rng.integers(0, 2, (n, 1))
    if rng.random() < 0.5:
        rows[:, 0] = np.round(rows[:, 0])  # codes, perhaps a constant
    sample = PilotRows.of(rows)
    found, step = pilot_mixture(rows[: n // 2], k, kind, n, rng)
    for _ in range(3):
        parts, values, clipped = sample.statistics(found, 12.0)  # steps of 144 / 2^22 of a variance
        moments = parts.moments(values)
        after = step(moments, found)
        gain, before = gain_of_step(moments, found, after), _likelihood(rows, found)
        if clipped == 0:
            assert gain > -1e-7
            assert _likelihood(rows, after) >= before + gain - 1e-6 * max(abs(before), 1.0)
        found = after


def _likelihood(rows, gaussians):
    from sketchlearn.inference.em import cholesky_log_densities

    factors = gaussians.factors
    factors = factors if factors.ndim == 3 else np.stack([np.diag(v) for v in factors])
    logs = cholesky_log_densities(rows, gaussians.means, factors) + np.log(gaussians.weights)
    return float(logsumexp(logs, axis=1).mean())


@pytest.mark.parametrize("kind", KINDS)
def test_fits_are_near_em_of_all_rows(kind):
    k, d, p = 10, 8, n_parameters(10, 8, kind)
    rows, (weights, means, factors) = mixture(2, n=30_000, k=k, d=d, mixed_units=kind != "spherical")
    covariances = factors @ factors.transpose(0, 2, 1)
    known = {"covariance": covariances.mean(axis=0)} if kind == "known" else {}
    given = {"covariance_type": kind, "random_state": 0, **known}
    model = skl.SketchGaussianMixture(k, **given, n_passes=1).fit(rows)
    again = skl.SketchGaussianMixture(k, **given, n_passes=30).fit(rows)
    assert model.outcome_.status.name == again.outcome_.status.name == "STEP"
    unit = p / (2 * len(rows))  # nats that estimation costs
    assert (again.score(rows) - model.score(rows)) / unit < 0.5
    step = MStep(kind, np.full(d, 1e-12), known.get("covariance"))
    truth = PilotRows.of(rows)
    shape = np.linalg.cholesky(np.broadcast_to(known["covariance"], (k, d, d))) if known else factors
    start = shape if step.full else np.sqrt(np.sum(factors**2, axis=2))
    from sketchlearn.features.expected_statistics import Gaussians

    best = truth.climbed(Gaussians(weights, means, start), step, 300, 1e-9)
    assert (_likelihood(rows, best) - model.score(rows)) / unit < 0.5
    assert model.log_likelihood_ == pytest.approx(model.score(rows), abs=5 * model.log_likelihood_error_)
    assert model.sketch_.count == len(rows)


def test_a_model_of_a_file_is_that_of_fit(tmp_path):
    rows, _ = mixture(3)
    model = skl.SketchGaussianMixture(4, random_state=0).fit(rows)
    assert model.outcome_.status.name == "STEP"
    model.sketch_.save(tmp_path / "statistics.sketch")
    again = skl.SketchGaussianMixture(4, random_state=5).fit_sketch(skl.load(tmp_path / "statistics.sketch"))
    assert np.array_equal(again.means_, model.means_)
    assert np.array_equal(again.covariances_, model.covariances_)


def test_a_pass_over_a_file_is_one_step(tmp_path):
    rows, _ = mixture(4)
    np.save(tmp_path / "rows.npy", rows)
    once = skl.SketchGaussianMixture(4, random_state=0).fit(str(tmp_path / "rows.npy"))
    thrice = skl.SketchGaussianMixture(4, random_state=0, n_passes=3).fit(str(tmp_path / "rows.npy"))
    assert once.outcome_.status.name == "STEP"
    assert thrice.score(rows) >= once.score(rows)


def test_other_sketches_and_numbers_are_refused_with_a_remedy():
    rows, _ = mixture(5)
    sketch = skl.SketchGaussianMixture(4, random_state=0).fit(rows).sketch_
    with pytest.raises(ValueError, match="of 4 Gaussians: ask for as many"):
        skl.SketchGaussianMixture(5).fit_sketch(sketch)
    with pytest.raises(ValueError, match='"full" covariances: choose such'):
        skl.SketchGaussianMixture(4, covariance_type="diag").fit_sketch(sketch)
    with pytest.raises(ValueError, match="set n_components to that number"):
        skl.SketchGaussianMixture("auto").fit_sketch(sketch)
    with pytest.raises(ValueError, match=r"design it, or fit, with features=skl.features.Fourier"):
        skl.SketchKMeans(4).fit_sketch(sketch)
    tied = skl.SketchGaussianMixture(4, covariance_type="tied").fit_sketch(sketch)
    assert tied.covariances_.shape == (6, 6)


def test_rows_that_the_sample_lacked_are_reached_by_further_passes():
    rows, _ = mixture(6, n=60_000)
    rows[7] = rows.mean(axis=0) + 3000 * rows.std(axis=0)
    with pytest.warns(ConvergenceWarning, match="lay farther from all components"):
        once = skl.SketchGaussianMixture(4, random_state=1, n_passes=1).fit(rows)
    assert once.sketch_.clipped == 1


@pytest.mark.slow
def test_errors_are_those_of_other_draws():
    """Means of 40 draws deviate as their standard errors say; the ratio of deviations has an error of 11 %."""
    found, errors = [], []
    for seed in range(40):
        rng = np.random.default_rng(100 + seed)
        own = rng.choice(3, 9000, p=[0.5, 0.3, 0.2])
        rows = np.array([0.0, 4.0, 8.0])[own][:, None] + rng.standard_normal((9000, 6))
        model = skl.SketchGaussianMixture(3, random_state=0).fit(rows)
        assert model.outcome_.status.name == "STEP"
        found.append(model.means_)
        errors.append(model.standard_errors_["means_"])
    ratio = np.sqrt(np.mean(np.var(found, axis=0)) / np.mean(np.square(errors)))
    assert 0.85 < ratio < 1.15  # of 18 means


def test_a_release_of_expected_statistics_tells_the_mixture():
    rows, _ = mixture(7, n=80_000, separation=5.0)
    public, private = rows[:20_000], rows[20_000:]
    pilot = skl.SketchGaussianMixture(4, random_state=0).fit(public)
    exact = pilot.sketch_.operator.without_keeping().sketch(private)
    with pytest.raises(ValueError, match="designed on a sample of rows"):
        skl.privatize(exact, epsilon=1.0, delta=1e-6)
    release = skl.privatize(exact, epsilon=1.0, delta=1e-6, assume_public_design=True, allow_weak=True)
    found, learned = skl.SketchGaussianMixture(4).fit_sketch(exact), skl.SketchGaussianMixture(4).fit_sketch(release)
    deviation = np.sqrt(np.diagonal(found.covariances_, axis1=1, axis2=2))
    assert np.max(np.abs(learned.means_ - found.means_) / deviation) < 0.2
    assert learned.privacy_ is not None
    with pytest.warns(UserWarning, match="log_likelihood_ is not reported"):
        assert learned.log_likelihood_ is None


def test_reduction_keeps_the_components_that_lie_apart():
    from sketchlearn.features.expected_statistics import Gaussians

    means = np.array([[0.0, 0.0], [0.1, 0.0], [50.0, 0.0], [50.0, 0.2], [0.0, 50.0]])
    many = Gaussians(np.full(5, 0.2), means, np.ones((5, 2)))
    few = reduced(many, 3)
    assert sorted(few.means.round().tolist()) == [[0.0, 0.0], [0.0, 50.0], [50.0, 0.0]]
    assert sorted(few.weights.round(2).tolist()) == [0.2, 0.4, 0.4]
    full = reduced(Gaussians(many.weights, means, np.repeat(np.eye(2)[None], 5, axis=0)), 3)
    np.testing.assert_allclose(np.sort(full.means, axis=0), np.sort(few.means, axis=0))


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"covariances": "tied"}, "must be 'diag' or 'full'"),
        ({"components": ""}, "components must be"),
        ({"components": "AAAA"}, "components must be"),
        ({"ridge": (1.0,)}, "ridge must be a list of 5 numbers"),
        ({"outside": "refuse"}, "clip rows"),
        ({"bound": (1e-40,) * 5}, "beyond what float32"),
    ],
)
def test_forged_operators_are_refused(change, reason):
    from dataclasses import replace

    from cases import operators

    with pytest.raises(ValueError, match=reason):
        replace(operators(5)["statistics-diag"], **change)
