"""Standard errors under sample weights: whole ones are repetitions, fractions those of surveys, one record each."""

import numpy as np
import pytest

import sketchlearn as skl
from sketchlearn.inference.errors.influence import independent_records
from sketchlearn.sketch.record_weights import effective_records

RNG = np.random.default_rng(0)
X = RNG.standard_normal((3000, 2)) * [1.0, 3.0]
FRACTIONS = np.exp(RNG.normal(0, 1, 3000))
WHOLE = RNG.integers(1, 4, 3000)
KISH = FRACTIONS.sum() ** 2 / np.sum(FRACTIONS**2)


def mean_errors(**arguments):
    """Of the center of all rows, which is their mean."""
    return skl.SketchKMeans(1, random_state=0).fit(X, **arguments).standard_errors_["cluster_centers_"][0]


def test_fractions_count_once_each():
    """The error of a weighted mean: sqrt(sum w^2 (x - mean)^2) / sum w; a common factor of the weights does nothing."""
    mean = np.average(X, axis=0, weights=FRACTIONS)
    wanted = np.sqrt(np.sum((FRACTIONS[:, None] * (X - mean)) ** 2, axis=0)) / FRACTIONS.sum()
    np.testing.assert_allclose(mean_errors(sample_weight=FRACTIONS), wanted, rtol=1e-3)
    np.testing.assert_allclose(mean_errors(sample_weight=2.5 * FRACTIONS), wanted, rtol=1e-3)


def test_whole_weights_are_repetitions():
    mean = np.average(X, axis=0, weights=WHOLE)
    wanted = np.sqrt(WHOLE @ (X - mean) ** 2) / WHOLE.sum()
    np.testing.assert_allclose(mean_errors(sample_weight=WHOLE), wanted, rtol=1e-3)


@pytest.mark.parametrize(("rows", "tolerance"), [(5000, 1e-3), (500, 0.2)])
def test_kept_rows_tell_how_many_records_fractions_are_worth(rows, tolerance):
    operator = skl.design(X, n_components=2, rows=rows)
    for factor in (1.0, 0.1):
        sketch = operator.sketch(X, sample_weight=factor * FRACTIONS)
        assert effective_records(sketch) == pytest.approx(KISH, rel=tolerance)
    assert effective_records(operator.sketch(X)) == 3000
    assert effective_records(operator.sketch(X, sample_weight=WHOLE)) == WHOLE.sum()


def test_without_kept_rows_they_are_worth_the_fewest_that_it_may_be():
    sketch = skl.design(X, n_components=2).sketch(X, sample_weight=FRACTIONS)
    assert effective_records(sketch) is None
    assert independent_records(sketch) == pytest.approx(FRACTIONS.sum() / np.ceil(FRACTIONS.max()), rel=1e-3)
    assert independent_records(sketch) < KISH


def test_mixtures_pass_their_fit_test_under_fractions():
    """Four such mixtures had 1.8 to 2.9 where weights counted as records, and were refused beyond 2."""
    rng = np.random.default_rng(1)
    rows = np.array([[0.0, 0.0], [5.0, 0.0], [0.0, 5.0]])[rng.choice(3, 6000, p=[0.5, 0.3, 0.2])]
    rows += rng.standard_normal(rows.shape)
    weights = np.exp(rng.normal(0, 1, 6000))
    model = skl.SketchGaussianMixture(3, covariance_type="spherical", random_state=0)
    plain = model.fit(rows).standard_errors_["means_"]
    weighted = model.fit(rows, sample_weight=weights / weights.mean())
    assert weighted.fitted_model().fit_test < 1.7
    worth = weights.sum() ** 2 / np.sum(weights**2)
    np.testing.assert_allclose(weighted.standard_errors_["means_"], plain * np.sqrt(6000 / worth), rtol=0.3)
