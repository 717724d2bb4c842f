"""Drift between sketches: p-values that mean what they say, power, and sentences for what cannot be compared."""

from dataclasses import replace

import numpy as np
import pytest
from designs import fourier_design
from scipy.stats import binom, chi2, kstest

import sketchlearn as skl
from sketchlearn.inference.decoders.target import fourier_part
from sketchlearn.inference.sampling_noise import Noise, Released, density_of
from sketchlearn.questions.comparison import ColumnDrift, exceedance

PAIRS = 24
SURE = 1e-4  # chance that a sound test fails
ROWS = {
    "gaussian": lambda n, d, rng: rng.standard_normal((n, d)),
    "heavy": lambda n, d, rng: rng.standard_t(2, (n, d)),
    "discrete": lambda n, d, rng: rng.integers(0, 3, (n, d)).astype(float),
}


def operator_for(kind, d, wave="exponential", k=2, m=None):
    waves = skl.features.Fourier(n_frequencies=m, wave=wave)
    return fourier_design(ROWS[kind](2000, d, np.random.default_rng(1)), n_components=k, features=waves)


def pair(kind, d, n_a, n_b, rng, operator, shift=0.0):
    a, b = ROWS[kind](n_a, d, rng), ROWS[kind](n_b, d, rng)
    b[:, 0] += shift
    return operator.sketch(a, n_jobs=1), operator.sketch(b, n_jobs=1)


CASES = [
    ("gaussian", 2, 500, 500, "exponential"),
    ("gaussian", 2, 3000, 500, "square"),
    ("heavy", 2, 500, 500, "exponential"),
    ("heavy", 2, 3000, 500, "square"),
    ("discrete", 2, 3000, 500, "exponential"),
    ("discrete", 2, 500, 500, "square"),
    ("gaussian", 10, 500, 1000, "exponential"),
]


@pytest.fixture(scope="module")
def p_values():
    found = {}
    for case in CASES:
        kind, d, n_a, n_b, wave = case
        operator, rng = operator_for(kind, d, wave, m=40), np.random.default_rng(7)
        drifts = [skl.two_sample_test(*pair(kind, d, n_a, n_b, rng, operator), seed=seed) for seed in range(PAIRS)]
        found[case] = np.array([drift.p_value for drift in drifts])
    return found


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_p_values_are_uniform(p_values, case):
    assert kstest(p_values[case], "uniform").pvalue > SURE


@pytest.mark.slow
@pytest.mark.parametrize("level", [0.05, 0.2])
def test_rejections(p_values, level):
    """At a level of 5 %, 5 % of 168 pairs are rejected, within what chance allows in all but 2 of 10^4 runs."""
    total = PAIRS * len(CASES)
    rejected = sum(int(np.sum(p < level)) for p in p_values.values())
    assert binom.ppf(SURE, total, level) <= rejected <= binom.ppf(1 - SURE, total, level)


@pytest.mark.parametrize("kind", ROWS)
@pytest.mark.parametrize("d", [2, 10])
def test_null_law(kind, d):
    """Chance gives the statistic the mean and the variance that the eigenvalues promise."""
    operator, rng = operator_for(kind, d, m=80), np.random.default_rng(3)
    sketches = [operator.sketch(ROWS[kind](2000, d, rng), n_jobs=1) for _ in range(200)]
    pooled = sum(sketches)
    noise = Noise.of(pooled, density_of(pooled, rng), rng)
    weights = np.full(len(noise.variances), 1 / len(noise.variances))
    spectrum = noise.spectrum(weights, Released.of(pooled))
    z = np.stack([sketch.mean for sketch in sketches])
    statistics = 1000 * np.mean(np.abs(z[::2] - z[1::2]) ** 2, axis=1)
    deviation = np.sqrt(2 * np.sum(spectrum**2))
    assert abs(statistics.mean() - spectrum.sum()) < 4 * deviation / 10
    p = [exceedance(spectrum, value) for value in statistics]
    assert kstest(p, "uniform").pvalue > SURE


@pytest.mark.parametrize("wave", ["exponential", "square", "cosine"])
@pytest.mark.parametrize("d", [2, 10])
def test_power(wave, d):
    """A shift of a tenth of a deviation, in one column, is found among 10^5 records; no shift is not."""
    operator, rng = operator_for("gaussian", d, wave), np.random.default_rng(4)
    a, b = pair("gaussian", d, 100_000, 100_000, rng, operator, shift=0.1)
    drift = skl.two_sample_test(a, b)
    assert drift.p_value < 1e-6
    assert drift.differ
    assert drift.distance == pytest.approx(a.distance(b))
    assert drift.distance > drift.expected
    if wave == "cosine":
        assert drift.columns == ()
    else:
        assert drift.columns[0].column == "column 0"
        assert drift.columns[0].shift == pytest.approx(0.1, abs=0.03)
        assert drift.columns[0].p_value < 1e-3
    assert skl.two_sample_test(*pair("gaussian", d, 100_000, 100_000, rng, operator)).p_value > SURE


def test_subsampled():
    law, rng = skl.features.frequencies.Gaussian(1.0), np.random.default_rng(5)
    operator = skl.features.FourierFeatures(2, 60, law=law, subsample=15)
    p = [skl.two_sample_test(*pair("gaussian", 2, 800, 800, rng, operator)).p_value for _ in range(20)]
    assert kstest(p, "uniform").pvalue > SURE
    assert skl.two_sample_test(*pair("gaussian", 2, 20_000, 20_000, rng, operator, shift=0.2)).p_value < 1e-6


def test_names_and_sentences():
    rng = np.random.default_rng(6)
    law = operator_for("gaussian", 3).law
    operator = skl.features.FourierFeatures(3, 60, law=law, columns=("age", "income", "visits"))
    X = rng.standard_normal((20_000, 3))
    a, b = operator.sketch(X[:10_000]), operator.sketch(X[10_000:] * [1, 1, 2] + [0, 0.5, 0])
    drift = skl.two_sample_test(a, b)
    assert isinstance(drift.columns[0], ColumnDrift)
    by_name = {column.column: column for column in drift.columns}
    assert by_name["income"].shift == pytest.approx(0.5, abs=0.1)
    assert by_name["visits"].spread_ratio == pytest.approx(2, rel=0.1)
    assert by_name["age"].p_value > 0.001
    assert str(drift).startswith("The two sketches differ: MMD ")
    assert "income" in str(drift).split("Most in ")[1]
    assert str(skl.two_sample_test(a, a.copy())).startswith(
        "No significant difference between the two sketches: MMD 0 "
    )
    assert skl.two_sample_test(a, b, seed=1) == skl.two_sample_test(a, b, seed=1)


def test_symmetric_and_concatenated():
    """Sketches of a design, and of it beside other operators, are compared by their Fourier features."""
    operator, rng = operator_for("gaussian", 2), np.random.default_rng(8)
    a, b = pair("gaussian", 2, 900, 300, rng, operator, shift=0.1)
    there, back = skl.two_sample_test(a, b), skl.two_sample_test(b, a)
    assert there.p_value == pytest.approx(back.p_value)
    moments = skl.features.SecondMoments(2, bound=[100.0, 100.0])
    designed = skl.design(ROWS["gaussian"](2000, 2, np.random.default_rng(1)), n_components=2)
    X = ROWS["gaussian"](500, 2, rng)
    alone = skl.two_sample_test(operator.sketch(X[:250]), operator.sketch(X[250:]))
    apart = skl.distance(operator.sketch(X[:250]), operator.sketch(X[250:]))
    for both in (
        skl.features.concatenate([operator, moments]),
        designed,
        skl.features.concatenate([designed, moments]),
    ):
        beside = skl.two_sample_test(both.sketch(X[:250]), both.sketch(X[250:]))
        assert replace(beside, columns=()) == replace(alone, columns=())
        if both.part(skl.features.Histograms) is None:  # otherwise columns are compared by their counts
            assert [one.p_value for one in beside.columns] == [one.p_value for one in alone.columns]
        assert skl.distance(both.sketch(X[:250]), both.sketch(X[250:])) == apart
        assert fourier_part(both.sketch(X))[0] == operator.sketch(X)


def test_constant_records():
    operator = operator_for("gaussian", 2)
    same = operator.sketch(np.ones((50, 2)))
    assert skl.two_sample_test(same, same).p_value == 1
    assert skl.two_sample_test(same, operator.sketch(np.full((50, 2), 3.0))).p_value < 1e-6


@pytest.mark.parametrize("n", [1, 3, 50])
@pytest.mark.parametrize("p", [0.9, 0.5, 0.05, 1e-4, 1e-12])
def test_chi_squares(n, p):
    assert exceedance(np.full(n, 0.3), 0.3 * chi2.isf(p, n)) == pytest.approx(p, rel=0.08)


def test_weighted_chi_squares():
    weights = 0.7 ** np.arange(30)
    drawn = np.random.default_rng(0).standard_normal((100_000, 30)) ** 2 @ weights
    for p in (0.8, 0.5, 0.1, 0.01):
        assert exceedance(weights, float(np.quantile(drawn, 1 - p))) == pytest.approx(p, rel=0.08)
    near = [exceedance(weights, weights.sum() * (1 + e)) for e in (-1e-2, -1e-6, 0.0, 1e-6, 1e-2)]
    assert np.all(np.diff(near) <= 0)


def fourier(seed=0, n=20):
    operator = skl.features.FourierFeatures(2, 10, law=skl.features.frequencies.Gaussian(1.0), seed=seed)
    return operator.sketch(np.random.default_rng(0).standard_normal((n, 2)) if n else np.zeros((0, 2)))


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: skl.two_sample_test(fourier(), fourier(1)), ValueError, "cannot compare sketches: .*seed"),
        (lambda: skl.two_sample_test(fourier(), fourier(n=0)), ValueError, "the second sketch is empty"),
        (lambda: skl.two_sample_test(fourier(n=0), fourier()), ValueError, "the first sketch is empty"),
        (lambda: skl.two_sample_test(np.zeros((3, 2)), fourier()), TypeError, "expected two sketches, not ndarray"),
        (lambda: skl.two_sample_test(fourier(), fourier(), seed=-1), ValueError, "seed"),
        (
            lambda: skl.two_sample_test(*[skl.features.SecondMoments(2, bound=9.0).sketch(np.eye(2))] * 2),
            ValueError,
            "a comparison needs a sketch of Fourier features .*, but the sketch is of SecondMoments",
        ),
    ],
)
def test_errors(call, error, message):
    with pytest.raises(error, match=message):
        call()


def test_a_skewed_column_moved_as_far_as_its_mean():
    rng = np.random.default_rng(3)

    def spent(often):
        kind = (rng.random(20_000) < often).astype(int)
        return np.exp(np.array([3.5, 6.0])[kind] + 0.4 * rng.standard_normal(20_000))[:, None]

    before, after = spent(0.3), spent(0.5)
    operator = skl.design(before[:5000], n_components=2, seed=0)
    (moved,) = skl.two_sample_test(operator.sketch(before), operator.sketch(after)).columns
    assert moved.shift == pytest.approx(after.mean() - before.mean(), rel=0.03)  # bins are coarse in the tail
    assert moved.spread_ratio == pytest.approx(after.std() / before.std(), rel=0.03)
