"""Inertia and likelihood of the rows that were sketched: exact where rows are at hand, else with errors that hold."""

from __future__ import annotations

import json
import warnings

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.inference.errors.means import DrawnRows, KnownMeans, estimated_mean
from sketchlearn.inference.errors.values import RowMean

pytestmark = pytest.mark.slow

RNG = np.random.default_rng(0)
MEANS = np.array([[0.0, 0, 0], [5, 0, 2], [0, 6, 0]])
ROWS = RNG.standard_normal((6000, 3)) + MEANS[RNG.integers(0, 3, 6000)]


@pytest.mark.parametrize("kind", [skl.SketchKMeans, skl.SketchKMedians])
def test_rows_in_memory_are_measured_exactly(kind):
    model = kind(3, random_state=0).fit(ROWS)
    assert model.inertia_ == pytest.approx(-model.score(ROWS), rel=1e-12)
    assert model.inertia_error_ == 0


def test_units_of_errors_are_those_of_the_inertia():
    model = skl.SketchKMeans(3, standardize=True, random_state=0).fit(ROWS * [1, 100, 1])
    assert model.inertia_ == pytest.approx(-model.score(ROWS * [1, 100, 1]), rel=1e-12)


def test_weights_count_as_repeated_rows():
    times = np.arange(len(ROWS)) % 3
    model = skl.SketchKMeans(3, random_state=0).fit(ROWS, sample_weight=times)
    assert model.inertia_ == pytest.approx(-model.score(np.repeat(ROWS, times, axis=0)), rel=1e-12)


def test_all_rows_that_are_kept_tell_the_likelihood_exactly():
    model = skl.SketchGaussianMixture(3, covariance_type="diag", random_state=0).fit(ROWS[:2000])
    assert model.log_likelihood_ == pytest.approx(model.score(ROWS[:2000]), rel=1e-9)
    assert model.log_likelihood_error_ == 0


def _heavy(n: int, rng: np.random.Generator) -> np.ndarray:
    """Columns that depend on each other, with long tails: no mixture of few Gaussians."""
    x = rng.gamma(1.5, 1.0, (n, 3))
    return np.column_stack([x[:, 0], x[:, 0] * x[:, 1], x[:, 2]])


def _squared(rows: np.ndarray) -> np.ndarray:
    return np.min(np.sum((rows[:, None] - np.array([[1.0, 1, 1], [3, 5, 1]])) ** 2, axis=2), axis=1)


DRAWS = 25
POINTS, UNITS = np.array([[1.0, 1, 1], [3, 5, 1]]), np.ones(3)


def _deviations(keep: bool, subsample: int | None = None) -> tuple[np.ndarray, np.ndarray]:
    """Of estimates of 25 samples, in their errors (NaN: withheld), and the errors beside those of random rows."""
    rows = _heavy(8000, np.random.default_rng(1))
    truth, n = _squared(rows), 300
    alone = truth.std() * np.sqrt((1 - n / len(rows)) / n)
    found = []
    for seed in range(DRAWS):
        operator = skl.design(
            rows[:3000], n_components=2, rows=n, seed=seed, features=skl.features.Fourier(n_frequencies=100)
        )
        if subsample:
            waves = operator.part(skl.features.FourierFeatures)
            operator = skl.features.FourierFeatures(
                3, 100, law=waves.law, center=waves.center, seed=seed, subsample=subsample
            )
        sketch = operator.sketch(rows, n_jobs=1)
        some = rows[np.random.default_rng(seed).choice(len(rows), n, replace=False)]
        drawn = DrawnRows.kept(sketch) if keep else DrawnRows.sampled(some, len(rows))
        mean = estimated_mean(KnownMeans.of(sketch, POINTS, UNITS), drawn, _squared(drawn.rows))
        found.append((np.nan, np.nan) if mean.value is None else ((mean.value - truth.mean()) / mean.error, mean.error))
    deviations, errors = np.array(found).T
    return deviations, errors / alone


def test_intervals_hold_with_kept_rows_of_heavy_tails():
    deviations, ratios = _deviations(keep=True)
    told = deviations[~np.isnan(deviations)]
    assert len(told) >= 0.8 * DRAWS
    assert np.sum(np.abs(told) < 1.96) >= 0.8 * len(told)  # of 25 at 95 %, one in 600 has fewer
    assert np.nanmedian(ratios) < 1 / 3


@pytest.mark.parametrize("subsample", [None, 20])
def test_intervals_hold_with_random_rows_or_are_withheld(subsample):
    deviations, _ = _deviations(keep=False, subsample=subsample)
    told = deviations[~np.isnan(deviations)]
    assert np.sum(np.abs(told) >= 1.96) <= max(2, 0.2 * len(told))


def test_rows_that_were_fitted_do_not_make_the_inertia_look_low():
    rows = np.random.default_rng(2).standard_normal((5000, 3))
    operator = skl.design(rows, n_components=8, rows=200, seed=0)
    model = skl.SketchKMeans(8, random_state=0).fit_sketch(operator.sketch(rows, n_jobs=1))
    assert abs(model.inertia_ + model.score(rows)) < 3.3 * model.inertia_error_
    assert model.inertia_error_ < 0.05 * model.inertia_


def test_a_sample_that_is_not_random_is_refused():
    sketch = skl.design(ROWS, n_components=3, seed=0).sketch(ROWS)
    far = ROWS[ROWS[:, 0] > 1]
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch, sample=far[:500])
    with pytest.warns(UserWarning, match=r"inertia_ is not reported: .* not a random sample .* rows=500"):
        assert model.inertia_ is None
    with pytest.warns(UserWarning, match=r"inertia_error_ is not reported"):
        assert model.inertia_error_ is None


def test_a_random_sample_is_used_before_it_is_dropped():
    sketch = skl.design(ROWS, n_components=3, seed=0).sketch(ROWS)
    model = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch, sample=ROWS[:600])
    assert abs(model.inertia_ + model.score(ROWS)) < 3.3 * model.inertia_error_
    assert 0 < model.inertia_error_ < 0.03 * model.inertia_


def test_the_sketch_alone_tells_it_where_a_density_explains_the_sketch():
    sketch = skl.design(ROWS, n_components=3, task="mixture", seed=0).sketch(ROWS)
    model = skl.SketchGaussianMixture(3, covariance_type="diag", random_state=0).fit_sketch(sketch)
    assert abs(model.log_likelihood_ - model.score(ROWS)) < 3.3 * model.log_likelihood_error_
    assert model.log_likelihood_error_ < 0.01


def test_the_sketch_alone_withholds_it_where_none_does():
    rows = _heavy(5000, np.random.default_rng(3))
    sketch = skl.design(rows, n_components=3, seed=0).sketch(rows)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        model = skl.SketchKMeans(3, random_state=0).fit_sketch(sketch)
    with pytest.warns(UserWarning, match=r"inertia_ is not reported: .* rows=500"):
        assert model.inertia_ is None


def test_noise_of_a_private_release_is_in_the_error():
    operator = skl.design(bounds=[(-6.0, -6.0, -6.0), (12.0, 12.0, 12.0)], n_components=3, n_rows=6000, epsilon=4.0)
    private = skl.privatize(operator.sketch(ROWS), epsilon=4.0, seed_for_tests_not_private=0)
    known = KnownMeans.of(private, MEANS, UNITS)
    along = np.ones(len(known.values))
    assert known.noise_along(along) > known.waves.variance * len(known.waves.values) > 0
    exact = KnownMeans.of(operator.sketch(ROWS), MEANS, UNITS)
    assert exact.noise_along(along) == 0
    drawn = DrawnRows.sampled(ROWS[:500], float(private.count))
    values = np.min(np.sum((ROWS[:, None] - MEANS) ** 2, axis=2), axis=1)
    noisy, clear = (estimated_mean(one, drawn, values[:500]) for one in (known, exact))
    assert noisy.error > clear.error
    assert abs(noisy.value - values.mean()) < 4 * noisy.error


def test_a_model_file_tells_what_was_measured():
    model = skl.SketchKMeans(3, random_state=0).fit(ROWS)
    data = model.model_bytes("kmeans")
    again = _loaded(data)
    assert (again.inertia_, again.inertia_error_) == (model.inertia_, model.inertia_error_)
    document = json.loads(data)
    del document["row_mean"]
    older = _loaded(json.dumps(document).encode())
    with pytest.warns(UserWarning, match="earlier version"):
        assert older.inertia_ is None
    assert "row_mean" not in json.loads(older.model_bytes("kmeans"))


def _loaded(data: bytes):
    from sketchlearn.estimators.files import model_from_bytes

    return model_from_bytes(data)


def test_what_is_shown_is_the_inertia():
    exact = skl.SketchKMeans(3, random_state=0).fit(ROWS)
    assert exact.measured() == ("inertia", RowMean(exact.inertia_, 0.0))
