"""Features that something else computed, and waves that are known by measurement alone."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import sketchlearn as skl
from sketchlearn.features.waves import NAMED, FourierSeries

LAW = skl.features.frequencies.Gaussian(1.0)
CENTERS = 4.0 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.0]])


def rows_of(n, seed):
    rng = np.random.default_rng(seed)
    return CENTERS[rng.integers(0, 4, n)] + rng.standard_normal((n, 3))


def amplifier(t):
    """A cosine that saturates, and whose zero is not zero."""
    return 0.1 + 0.8 * np.tanh(3 * np.cos(2 * np.pi * t))


def device(operator, rows, rng=None):
    turns = (rows @ operator.frequencies + operator.dither) / (2 * np.pi)
    features = amplifier(turns) + (1j * amplifier(turns - 0.25) if operator.wave.complex else 0)
    if rng is None:
        return features
    noise = 0.02 * rng.standard_normal((2, *turns.shape))
    return features + noise[0] + (1j * noise[1] if operator.wave.complex else 0)


@pytest.mark.parametrize("wave", [*NAMED, FourierSeries((0.3, 0.1j))])
@given(seed=st.integers(0, 2**32 - 1), cut=st.integers(0, 9))
def test_features_of_the_operator_give_its_sketch(wave, seed, cut):
    operator = skl.features.FourierFeatures(3, 20, law=LAW, wave=wave, seed=seed % 5)
    rows = np.random.default_rng(seed).standard_normal((9, 3))
    features = operator.features(rows)
    assert operator.sketch_features(features) == operator.sketch(rows)
    parts = skl.Sketch(operator).update_features(features[:cut]).update_features(features[cut:])
    assert parts == operator.sketch(rows)


def test_weights_are_repetitions():
    operator = skl.features.FourierFeatures(3, 20, law=LAW)
    features = operator.features(rows_of(5, 0))
    weighted = operator.sketch_features(features, sample_weight=[1, 0, 3, 2, 1])
    assert weighted == operator.sketch_features(features.repeat([1, 0, 3, 2, 1], axis=0))


@pytest.mark.parametrize("is_complex", [True, False])
def test_clusters_from_a_device_that_nobody_knows(is_complex):
    """As good as those of the sketch of the rows: within 1 % of their squared error."""
    rng, X = np.random.default_rng(0), rows_of(20_000, 1)
    operator = skl.features.FourierFeatures(
        3, 300, law=LAW, wave=skl.features.waves.Triangle(complex=is_complex), seed=2
    )
    known = rows_of(100, 2)
    measured = skl.features.measured_wave(operator, known, device(operator, known, rng))
    assert measured.offset == pytest.approx(0.1, abs=0.01)
    assert measured.left == pytest.approx(0.02 / device(operator, X).real.std(), rel=0.1)
    truth = np.fft.fft(amplifier(np.arange(4096) / 4096)) / 4096
    own = measured.operator.wave
    for k in (1, 3, 5):
        expected = truth[k] * measured.factor * (1 + 1j ** (1 - k % 4) if is_complex else 1)
        assert own.coefficient(k) == pytest.approx(expected, abs=0.005)
    sketch = skl.Sketch(measured.operator)
    for part in np.array_split(X, 7):
        sketch.update_features(measured.adapted(device(operator, part, rng)))
    found = skl.SketchKMeans(4, random_state=0).fit_sketch(sketch)
    exact = skl.SketchKMeans(4, random_state=0).fit_sketch(
        skl.features.FourierFeatures(3, 300, law=LAW, seed=2).sketch(X)
    )
    assert found.score(X) > 1.01 * exact.score(X)  # both are negative


def test_what_is_wrong_is_said():
    operator = skl.features.FourierFeatures(3, 20, law=LAW, wave="triangle")
    rows = rows_of(10, 0)
    features = operator.features(rows)
    with pytest.raises(ValueError, match="rows of 20 numbers, not 10 x 19"):
        operator.sketch_features(features[:, :19])
    with pytest.raises(TypeError, match="complex numbers, as those of the operator's wave, not <U1"):
        operator.sketch_features([["a"] * 20])
    with pytest.raises(ValueError, match="row 1, feature 2 is"):
        operator.sketch_features(np.where(np.arange(200).reshape(10, 20) == 22, np.nan, features))
    with pytest.warns(UserWarning, match=r"row 1, feature 2 is 1\.5, beyond the wave's largest value, 1: .* clipped"):
        operator.sketch_features(np.where(np.arange(200).reshape(10, 20) == 22, 1.5, features))
    sketch = operator.sketch(rows)
    before = sketch.sums.copy()
    with pytest.raises(ValueError, match="is nan"):
        sketch.update_features(np.nan * np.ones((1, 20)))
    assert np.array_equal(sketch.sums, before)
    with pytest.raises(ValueError, match="FourierFeatures, not means and second moments"):
        skl.features.SecondMoments(3, bound=1.0).sketch_features(features)
    with pytest.raises(ValueError, match="leave out subsample"):
        skl.features.FourierFeatures(3, 20, law=LAW, subsample=5).sketch_features(features)
    with pytest.raises(ValueError, match="do not follow the phases"):
        skl.features.measured_wave(operator, rows, features[::-1])
    with pytest.raises(ValueError, match="needs a dither"):
        skl.features.measured_wave(skl.features.FourierFeatures(3, 20, law=LAW), rows, features)
    with pytest.raises(ValueError, match="there are 10 rows, but features of 9"):
        skl.features.measured_wave(operator, rows, features[:9])
    with pytest.raises(ValueError, match="too few to find a wave"):
        skl.features.measured_wave(operator, rows[:1], features[:1])
