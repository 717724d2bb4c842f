"""How many frequencies a record touches: chosen from the number of rows, and of distinct ones."""

import warnings

import numpy as np
import pytest
from sklearn.exceptions import ConvergenceWarning

import sketchlearn as skl
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.design import frequencies as touched_frequencies
from sketchlearn.estimators.design.frequencies import MOST_EXCESS, distinct_records, touched
from sketchlearn.inference.calibration import Means
from sketchlearn.sketch.record_weights import distinct_records as distinct_of_sketch

K, D = 4, 3  # 195 frequencies: 5 groups of 39
MANY = 10**7


def rows_of(n, seed=0):
    rng = np.random.default_rng(seed)
    return 4 * rng.standard_normal((K, D))[rng.integers(K, size=n)] + rng.standard_normal((n, D))


def touched_by(operator):
    return operator.part(skl.features.FourierFeatures).subsample


@pytest.fixture
def always_worthwhile(monkeypatch):
    monkeypatch.setattr(touched_frequencies, "WORTHWHILE_FEATURES", 0.0)


@pytest.mark.parametrize("m", [195, 1000, 997])
@pytest.mark.parametrize("n", [10**4, 10**6, 10**9])
def test_the_excess_is_as_stated(m, n):
    r = touched(m, 10, n, n)
    if r is None:
        return
    assert r < m
    assert m % r == 0
    assert 10 * m / (r * n) <= MOST_EXCESS


def test_small_tables_and_tables_of_few_distinct_rows_keep_all_frequencies():
    rows = rows_of(5000)
    assert touched_by(skl.design(rows, n_components=K)) is None
    assert touched_by(skl.design(rows, n_components=K, n_rows=10**5)) is None
    assert touched_by(skl.design(rows, n_components=K, n_rows=MANY)) == 39
    few = rows[np.random.default_rng(0).integers(2500, size=5000)]
    assert touched_by(skl.design(few, n_components=K, n_rows=MANY)) is None


@pytest.mark.parametrize(
    "given",
    [
        {"features": skl.features.Fourier(subsample=None)},
        {"features": skl.features.Fourier(wave="square")},
        {"representative": False},
        {"task": "mixture"},
    ],
    ids=str,
)
def test_all_frequencies_where_it_is_switched_off_or_not_known_to_be_safe(given):
    assert touched_by(skl.design(rows_of(5000), n_components=K, n_rows=MANY, **given)) is None


def test_a_number_that_is_given_is_taken_and_doubted_where_rows_repeat():
    rows = rows_of(5000)
    assert touched_by(skl.design(rows, n_components=K, features=skl.features.Fourier(subsample=65))) == 65
    assert (
        touched_by(skl.design(rows, n_components=K, task="mixture", features=skl.features.Fourier(subsample=70))) == 70
    )
    with pytest.raises(ValueError, match="50 does not divide 195"):
        skl.design(rows, n_components=K, features=skl.features.Fourier(subsample=50))
    with pytest.warns(UserWarning, match=r"draws from about \d+ different ones"):
        skl.design(rows.round(), n_components=K, features=skl.features.Fourier(subsample=65))


@pytest.mark.parametrize("wrong", ["all", 0, 2.5, True])
def test_other_words_are_refused(wrong):
    with pytest.raises(ValueError, match="subsample must be"):
        skl.SketchKMeans(K, features=skl.features.Fourier(subsample=wrong)).fit(rows_of(100))
    with pytest.raises(ValueError, match="subsample must be"):
        skl.design(rows_of(100), n_components=K, features=skl.features.Fourier(subsample=wrong))


def test_a_number_is_refused_where_it_has_no_meaning():
    with pytest.raises(ValueError, match="leave features out, or give"):
        skl.design(rows_of(100), task="moments", features=skl.features.Fourier(subsample=10))
    with pytest.raises(ValueError, match="subsample needs a sample"):
        skl.design(bounds=(-9, [9] * D), n_components=K, features=skl.features.Fourier(subsample=10))


@pytest.mark.usefixtures("always_worthwhile")
def test_fit_chooses_it_where_the_number_of_rows_is_known():
    rows = rows_of(120_000)
    found = skl.SketchKMeans(K, features=skl.features.Fourier(), random_state=0).fit(rows)
    assert touched_by(found.sketch_.operator) == 39
    assert "39 of them per record" in found.sketch_.operator.in_words
    whole = skl.SketchKMeans(K, features=skl.features.Fourier(subsample=None), random_state=0).fit(rows)
    assert touched_by(whole.sketch_.operator) is None
    assert found.inertia_ <= 1.0005 * whole.inertia_
    errors = [np.mean(fit.standard_errors_["cluster_centers_"] ** 2) for fit in (whole, found)]
    assert errors[0] < errors[1] < 10 * errors[0]
    blocks = (rows[i : i + 1000] for i in range(0, 30_000, 1000))
    for other in (
        skl.SketchKMeans(K, features=skl.features.Fourier(), random_state=0).fit(skl.source(blocks)),
        skl.SketchKMeans(K, features=skl.features.Fourier(), random_state=0).fit(
            rows, sample_weight=np.ones(len(rows))
        ),
    ):
        assert touched_by(other.sketch_.operator) is None


def test_numbers_of_clusters_are_chosen_by_all_frequencies():
    design_sample, rng = DesignSample(rows_of(5000), True, None, n_rows=MANY), np.random.default_rng(0)
    for k, expected in ((K, 39), ("auto", None)):
        assert (
            touched_by(
                skl.SketchKMeans(k, max_clusters=K, features=skl.features.Fourier()).design_operator(design_sample, rng)
            )
            == expected
        )


@pytest.mark.usefixtures("always_worthwhile")
def test_fit_keeps_all_frequencies_for_few_distinct_rows():
    rng = np.random.default_rng(1)
    rows = rows_of(6000)[rng.integers(6000, size=120_000)]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = skl.SketchKMeans(K, features=skl.features.Fourier(), random_state=0).fit(rows)
    assert touched_by(found.sketch_.operator) is None


@pytest.mark.filterwarnings("ignore:the rows repeat")
@pytest.mark.parametrize("copies", [1, 5])
def test_how_many_distinct_records_there_are_is_measured(copies):
    rng = np.random.default_rng(2)
    rows = np.repeat(rows_of(20_000 // copies), copies, axis=0)
    sample = rows[rng.choice(len(rows), 4000, replace=False)]
    assert distinct_records(sample, len(rows)) <= 1.2 * len(rows) / copies
    operator = skl.design(sample, n_components=K, rows=1000, features=skl.features.Fourier(subsample=39))
    assert distinct_of_sketch(operator.sketch(rows)) == pytest.approx(len(rows) / copies, rel=0.05)


@pytest.mark.filterwarnings("ignore:the rows repeat")
@pytest.mark.parametrize("copies", [1, 10])
def test_the_target_knows_the_noise(copies):
    """Mean square of what subsampling changes in values, over 200 frequencies and three keys."""
    rows = np.repeat(rows_of(2000), copies, axis=0)
    ratios = []
    for seed in range(3):
        whole = skl.design(
            rows, n_components=K, features=skl.features.Fourier(n_frequencies=200), seed=seed, rows=300
        ).part(skl.features.FourierFeatures)
        few = skl.design(
            rows, n_components=K, features=skl.features.Fourier(n_frequencies=200, subsample=20), seed=seed, rows=300
        )
        sketch = few.part(skl.features.FourierFeatures).sketch(rows)
        target = skl.decoders.Target.of(sketch)
        change = np.abs(sketch.mean - whole.sketch(rows).mean) ** 2
        ratios.append(np.mean(change) / target.subsampling)
    assert np.mean(ratios) == pytest.approx(1.0, rel=0.2)


def test_sketches_of_few_records_are_doubted():
    operator = skl.design(rows_of(5000), n_components=K, n_rows=MANY)
    with pytest.warns(ConvergenceWarning, match="a record contributes to 39 of 195"):
        skl.SketchKMeans(K, random_state=0).fit_sketch(operator.sketch(rows_of(1000)))


def test_comparisons_of_few_distinct_records_are_doubted():
    rng = np.random.default_rng(0)
    rows = rows_of(300)[rng.integers(300, size=(2, 5000))]
    with pytest.warns(UserWarning, match="the rows repeat"):
        operator = skl.design(rows[0], n_components=K, rows=100, features=skl.features.Fourier(subsample=39))
    with pytest.warns(UserWarning, match="only about 2"):
        skl.two_sample_test(*map(operator.sketch, rows))


@pytest.mark.filterwarnings("ignore:the rows repeat")
def test_error_bars_grow_where_equal_records_share_their_frequencies():
    """Each row ten times is ten times as many records, but not for what subsampling adds."""
    rows = rows_of(20_000)
    operator = skl.design(rows, n_components=K, rows=1000, features=skl.features.Fourier(subsample=39))
    noise = {}
    for copies in (1, 10):
        sketch = operator.sketch(np.repeat(rows, copies, axis=0))
        noise[copies] = Means.of(sketch).variance, skl.decoders.Target.of(sketch).subsampling
    np.testing.assert_allclose(noise[10], noise[1], rtol=0.01)
    np.testing.assert_allclose(noise[1], 4 / 20_000, rtol=0.01)
