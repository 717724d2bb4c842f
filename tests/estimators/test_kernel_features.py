"""Periodic features: kernels as the theory says, and models that are asked in bits."""

import pickle

import numpy as np
import pytest
from cases import LAWS, WAVES
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.svm import SVC, LinearSVC
from sklearn.utils.estimator_checks import parametrize_with_checks

import sketchlearn as skl
from sketchlearn.core.randomness import Stream
from sketchlearn.features.frequencies import (
    AdaptedRadius,
    Cauchy,
    FoldedGaussian,
    Gaussian,
    Mixture,
    ProductCauchy,
    Weighted,
)
from sketchlearn.features.waves import (
    PAIR_GRID,
    TAIL_SHARE,
    Cosine,
    FourierSeries,
    Pair,
    QuantizedCosine,
    QuantizedSawtooth,
    Sawtooth,
    Square,
    Triangle,
)
from sketchlearn.sketch.bits import PackedBits

M = 10_000
Z = 4.4  # deviations; two-sided chance of 1e-5 for each comparison
KERNELS = {
    "gaussian": Gaussian(2.0),
    "cauchy": Cauchy(2.0),
    "product-cauchy": ProductCauchy(2.0),
    "folded": FoldedGaussian(2.0),
    "adapted-mixture": AdaptedRadius(2.0),
    "adapted-kmeans": AdaptedRadius(2.0, variant="kmeans"),
    "mixture": Mixture((Gaussian(1.0), FoldedGaussian(5.0)), shares=(2.0, 1.0)),
}


@parametrize_with_checks(
    [skl.PeriodicFeatures(20, random_state=0), skl.PeriodicFeatures(query=Square(), random_state=0)]
)
def test_scikit_learn(estimator, check):
    check(estimator)


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("d", [1, 2, 5, 40])
def test_kernels_of_laws_are_averages_over_their_frequencies(name, d):
    n, law = 40_000, KERNELS[name]
    along = law.draw(d, n, Stream(5, f"{name} {d}"))[0]
    distances = np.array([0.0, 0.1, 0.5, 1.0, 2.0, 5.0, 30.0])
    waves = np.cos(distances[:, None] * along)
    deviations = waves.std(axis=1) / np.sqrt(n)
    assert np.all(np.abs(waves.mean(axis=1) - law.kernel(distances, d)) <= Z * deviations + 1e-12)


def test_kernels_far_out():
    distances = np.array([1e3, 1e4, 1e6])
    for law in KERNELS.values():
        for d in (1, 2, 3, 10):
            values = law.kernel(distances, d)
            assert np.all(np.isfinite(values))
            assert np.all(np.abs(values) < 2e-3)
    steps = AdaptedRadius(1.0).kernel(np.array([130.0, 260.0]), 3)  # on either side of the quadrature's end
    assert steps[0] / steps[1] == pytest.approx(4.0, rel=1e-3)


@pytest.mark.parametrize("law", [LAWS["log-uniform"], Weighted(2.0, n_components=3)], ids=str)
def test_laws_without_a_kernel(law):
    with pytest.raises(ValueError, match="not known in closed form"):
        law.kernel(np.ones(3), 2)


REAL = {name: wave for name, wave in WAVES.items() if not wave.complex}
COMPLEX = {name: wave for name, wave in WAVES.items() if wave.complex}
PAIRS = [(a, b) for group in (REAL, COMPLEX) for a in group for b in group]


@pytest.mark.parametrize(("query", "wave"), PAIRS)
def test_kernels_of_pairs_are_averages_over_frequencies_and_dither(query, wave):
    f, g, n = WAVES[query], WAVES[wave], 20_000
    stream = Stream(6, f"{query} {wave}")
    omega, xi = stream.normal(n), stream.uniform(n)
    try:
        pair = Pair(f, g)
    except ValueError as error:
        assert "quarter turn apart" in str(error)  # noqa: PT017
        assert abs((f.coefficient(1) * np.conj(g.coefficient(1))).real) < 1e-6
        return
    for distance in (0.0, 0.3, 1.0, 2.5):
        products = (f(omega * distance / (2 * np.pi) + xi) * np.conj(g(xi))).real / pair.product
        expected = pair.kernel(lambda r: Gaussian(1.0).kernel(r, 1), np.array([distance]))[0]
        assert abs(products.mean() - expected) <= Z * products.std() / np.sqrt(n) + TAIL_SHARE


def test_known_pairs():
    distances = np.linspace(0, 5, 20)
    kappa = lambda r: Gaussian(1.0).kernel(r, 3)  # noqa: E731
    semi = Pair(Square(complex=False), Cosine())
    assert semi.product == pytest.approx(2 / np.pi)
    np.testing.assert_allclose(semi.kernel(kappa, distances), kappa(distances), atol=1e-8)
    both = Pair(Square(complex=False), Square(complex=False)).kernel(kappa, distances)
    series = sum(8 / (k * np.pi) ** 2 * kappa(k * distances) for k in range(1, 20_000, 2))
    np.testing.assert_allclose(both, series, atol=TAIL_SHARE)
    assert np.all(both[1:6] < kappa(distances)[1:6] - 0.05)  # distorted


ROWS = np.random.default_rng(1).normal(size=(400, 3)) + 5
LABELS = (np.linalg.norm(ROWS - 5, axis=1) > 1.5).astype(int) + (ROWS[:, 0] > 5)
WAVE_PAIRS = [
    ("cosine", "square"),
    ("cosine", "sawtooth"),
    ("triangle", "square"),
    ("softened", "square"),
    (Square(), Square()),
    ("cosine", Square()),
    ("exponential", Square()),
    ("cosine", QuantizedCosine(2)),
    ("cosine", QuantizedSawtooth(3, complex=False)),
    (QuantizedCosine(3, complex=False), QuantizedCosine(4, complex=False)),
    (FourierSeries((0.3, 0.1)), "triangle"),
]


@pytest.mark.parametrize(("wave", "query"), WAVE_PAIRS, ids=str)
@pytest.mark.parametrize("law", [Gaussian(2.0), Cauchy(2.0), ProductCauchy(2.0)], ids=str)
def test_products_are_the_kernel(wave, query, law):
    features = skl.PeriodicFeatures(M, law=law, wave=wave, query=query, random_state=3).fit(ROWS)
    asked, known = features.transform_queries(ROWS[:10]), features.transform(ROWS[10:20])
    terms = M * asked[:, None] * known
    deviations = terms.std(axis=2) / np.sqrt(M) * np.sqrt(asked.shape[1] / M)
    error = np.abs(asked @ known.T - features.kernel(ROWS[:10], ROWS[10:20]))
    assert np.all(error <= 1.5 * Z * deviations + TAIL_SHARE)
    np.testing.assert_allclose(np.sum(known**2, axis=1), 1, atol=0.05)
    np.testing.assert_allclose(np.diag(features.kernel(ROWS[:10])), 1)


@pytest.mark.parametrize("query", ["square", Square(), QuantizedCosine(3), QuantizedSawtooth(2, False)], ids=str)
@pytest.mark.parametrize("model", [LinearSVC(), Ridge()], ids=str)
def test_bits_get_the_answer_of_signs(query, model):
    features = skl.PeriodicFeatures(300, scale=1.5, query=query, random_state=0).fit(ROWS)
    bits, wave = features.pack(ROWS[:50]), features.query_operator_.wave
    assert bits.n_bits == wave.packed_bits * features.transform(ROWS).shape[1]
    if query in ("square", Square()):
        np.testing.assert_allclose(bits.signs() * features.query_factor_, features.transform_queries(ROWS[:50]))
    for labels in (LABELS, LABELS > 0):
        fitted = model.fit(features.transform(ROWS), labels)
        signs = features.transform_queries(ROWS[:50])
        expected = fitted.decision_function(signs) if isinstance(model, LinearSVC) else fitted.predict(signs)
        np.testing.assert_allclose(features.decision(fitted, bits), expected, atol=1e-4)
        if isinstance(model, LinearSVC):
            assert np.array_equal(features.classify(fitted, bits), fitted.predict(signs))


def test_more_bits_need_fewer_features():
    """Variances of products with cosines far away, beside those of two cosines: as many more features are needed."""

    def more_features(wave):
        first = wave.coefficient(1)
        g = FourierSeries((first / (2 * abs(first)),))
        return np.mean(wave(PAIR_GRID) ** 2) * np.mean(g(PAIR_GRID) ** 2) / Pair(wave, g).product ** 2

    cosines = [more_features(QuantizedCosine(bits, complex=False)) for bits in range(2, 9)]
    sawtooths = [more_features(QuantizedSawtooth(bits, complex=False)) for bits in range(2, 9)]
    assert cosines == sorted(cosines, reverse=True)
    assert more_features(Square(complex=False)) == pytest.approx(np.pi**2 / 8, rel=1e-6)
    assert cosines[:2] == pytest.approx([1.0468, 1.0112], abs=1e-3)
    assert cosines[-1] == pytest.approx(1, abs=1e-4)
    assert sawtooths == sorted(sawtooths)  # two bits are better than the whole sawtooth
    assert sawtooths[-1] == pytest.approx(np.pi**2 / 6, rel=1e-3)


def test_one_bit_queries_are_classified_well():
    features = skl.PeriodicFeatures(2000, scale=1.5, random_state=0).fit(ROWS)
    exact = SVC(gamma=1 / (2 * 1.5**2), C=1.0).fit(ROWS, LABELS)
    svm = LinearSVC().fit(features.transform(ROWS), LABELS)
    fresh = np.random.default_rng(2).normal(size=(2000, 3)) + 5
    assert np.mean(features.classify(svm, features.pack(fresh)) == exact.predict(fresh)) > 0.93
    assert np.mean(make_pipeline(skl.PeriodicFeatures(2000, scale=1.5, random_state=0), LinearSVC()).fit(ROWS, LABELS)
                   .predict(fresh) == exact.predict(fresh)) > 0.93  # fmt: skip


def test_queries_are_the_same_on_a_device_that_has_the_operator():
    features = skl.PeriodicFeatures(100, random_state=0).fit(ROWS)
    operator = skl.features.FourierFeatures.from_json(features.query_operator_.to_json())
    assert PackedBits.from_bytes(operator.pack(ROWS).to_bytes()) == features.pack(ROWS)
    again = pickle.loads(pickle.dumps(features))
    np.testing.assert_array_equal(again.transform(ROWS), features.transform(ROWS))


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"n_components": 0}, "n_components must be a whole number"),
        ({"scale": -1.0}, "scale must be a positive number"),
        ({"law": 3}, "law must be one of"),
        ({"law": Weighted(1.0)}, "law must be one without weights"),
        ({"wave": "round"}, "wave must be one of"),
        ({"wave": Cosine(), "query": Square()}, "both be real or both be complex"),
        ({"wave": Triangle(complex=False), "query": Sawtooth(complex=False)}, "a quarter turn apart"),
    ],
)
def test_bad_parameters_are_named(changes, message):
    with pytest.raises(ValueError, match=message):
        skl.PeriodicFeatures(**changes).fit(ROWS)


def test_what_cannot_be_asked():
    features = skl.PeriodicFeatures(50, query="triangle", random_state=0).fit(ROWS)
    with pytest.raises(ValueError, match="cannot be packed into bits"):
        features.pack(ROWS)
    features = skl.PeriodicFeatures(50, random_state=0).fit(ROWS)
    with pytest.raises(TypeError, match="a fitted linear model"):
        features.decision(SVC(), features.pack(ROWS))
    svm = LinearSVC().fit(features.transform(ROWS), LABELS)
    with pytest.raises(TypeError, match="queries must be PackedBits"):
        features.decision(svm, features.transform(ROWS))
    with pytest.raises(ValueError, match="weights must have 49 rows"):
        features.decision(svm, PackedBits.from_signs(np.ones((3, 49))))
