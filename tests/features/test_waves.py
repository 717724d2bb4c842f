"""Waves: their Fourier coefficients, and their bounds."""

import numpy as np
import pytest
from cases import WAVES
from twin import wave_integers

from sketchlearn import SketchKMeans
from sketchlearn.features import FourierFeatures
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.waves import (
    NAMED,
    Cosine,
    Exponential,
    FourierSeries,
    QuantizedCosine,
    QuantizedSawtooth,
    Sawtooth,
    Square,
    Triangle,
    Wave,
    wave_from,
)

GRID = (np.arange(2**16) + 0.5) / 2**16


@pytest.mark.parametrize("name", WAVES)
def test_coefficients_are_those_of_the_function(name):
    wave = WAVES[name]
    values = wave(GRID)
    for k in range(-6, 7):
        numeric = np.mean(values * np.exp(-2j * np.pi * k * GRID))
        assert wave.coefficient(k) == pytest.approx(numeric, abs=1e-4)


def test_known_coefficients():
    """Thesis, appendix A."""
    assert Exponential().coefficient() == 1
    assert Square(complex=False).coefficient() == pytest.approx(2 / np.pi)
    assert Square().coefficient() == pytest.approx(4 / np.pi)
    assert abs(Sawtooth().coefficient()) == pytest.approx(2 / np.pi)
    assert Triangle().coefficient() == pytest.approx(8 / np.pi**2)


@pytest.mark.parametrize("name", WAVES)
def test_waves_are_periodic_bounded_and_survive_json(name):
    wave = WAVES[name]
    t = np.arange(-64, 64) / 16  # every jump is among them
    assert np.allclose(wave(t + 3), wave(t), atol=1e-12)
    parts = wave(GRID)
    assert max(np.abs(parts.real).max(), np.abs(np.imag(parts)).max()) <= 1 + 1e-12
    assert Wave.from_json(wave.to_json()) == wave


@pytest.mark.parametrize("name", [name for name in WAVES if name != "series-long"])  # whose harmonics do not decay
def test_softened_waves_are_near(name):
    wave = WAVES[name]
    soft = wave.softened()(GRID)
    factor = np.vdot(soft, wave(GRID)).real / np.vdot(soft, soft).real
    missed = np.mean(np.abs(factor * soft - wave(GRID)) ** 2) / np.mean(np.abs(wave(GRID)) ** 2)
    assert missed < (0.13 if "sawtooth" in name else 0.08)
    assert np.abs(np.diff(soft)).max() < 0.01  # no jump is left


def test_names():
    expected = {"exponential": Exponential, "cosine": Cosine, "square": Square, "sawtooth": Sawtooth}
    assert {name: type(wave_from(name)) for name in NAMED} == {**expected, "triangle": Triangle}
    assert wave_from(Square(complex=False)) == Square(complex=False)


@pytest.mark.parametrize("kind", [QuantizedCosine, QuantizedSawtooth])
def test_quantized_waves_are_the_middles_of_equal_steps(kind):
    before = Cosine() if kind is QuantizedCosine else Sawtooth(complex=False)
    for bits in range(2, 9):
        values = kind(bits, complex=False)(GRID)
        assert np.abs(values - before(GRID)).max() <= 2.0**-bits + 1e-12
        assert np.array_equal(np.unique(values), (2 * np.arange(2**bits) + 1) / 2**bits - 1)


@pytest.mark.parametrize(
    ("bits", "message"),
    [(1, "a wave of one bit is Square"), (9, "bits must be a whole number"), (2.5, "bits must be a whole number")],
)
def test_quantized_waves_have_two_to_eight_bits(bits, message):
    with pytest.raises(ValueError, match=message):
        QuantizedCosine(bits)


def test_series_take_complex_numbers_or_pairs():
    assert FourierSeries((0.1 + 0.2j,)) == FourierSeries(((0.1, 0.2),))


@pytest.mark.parametrize("kind", [QuantizedCosine, QuantizedSawtooth])
@pytest.mark.parametrize("bits", [2, 3, 5, 8])
def test_records_change_a_quantized_sketch_within_the_bound(kind, bits):
    """At thresholds, where one part may be in the next step already, too."""
    wave, unit = kind(bits), 2**bits
    turns = np.arccos(2 * np.arange(unit) / unit - 1) / (2 * np.pi)
    jumps = np.concatenate([np.arange(-2 * unit, 2 * unit) / (4 * unit), turns])
    near = np.float32(jumps)[:, None] * np.float32(1 + np.arange(-40, 41) * 2.0**-23)
    phases = np.concatenate([near.ravel(), GRID.astype(np.float32)])
    sizes = np.abs(np.array(wave_integers(wave, phases)))
    bound = wave.add_remove_sensitivity()
    assert sizes.max() == wave.largest_contribution
    assert sizes.sum(axis=0).max() <= bound.l1
    assert (sizes**2).sum(axis=0).max() <= bound.l2_squared <= 1.35 * (sizes**2).sum(axis=0).max()


@pytest.mark.parametrize("wave", [QuantizedCosine(2), QuantizedCosine(3, complex=False), QuantizedSawtooth(4)], ids=str)
def test_clusters_from_quantized_sketches(wave):
    rng = np.random.default_rng(0)
    centers = np.array([[0.0, 0.0], [8.0, 0.0], [0.0, 8.0]])
    X = centers[np.arange(6000) % 3] + rng.standard_normal((6000, 2))
    operator = FourierFeatures(2, 200, law=Gaussian(2.0), wave=wave, center=[3.0, 3.0], seed=1)
    found = SketchKMeans(3, random_state=0).fit_sketch(operator.sketch_packed(operator.pack(X))).cluster_centers_
    distances = np.linalg.norm(found[:, None] - centers, axis=2)
    assert distances.min(axis=0).max() < 0.3
