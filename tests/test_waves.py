"""Waves: their Fourier coefficients, and their bounds."""

import numpy as np
import pytest
from cases import WAVES

from sketchlearn.waves import NAMED, Cosine, Exponential, FourierSeries, Sawtooth, Square, Triangle, Wave, wave_from

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


def test_series_take_complex_numbers_or_pairs():
    assert FourierSeries((0.1 + 0.2j,)) == FourierSeries(((0.1, 0.2),))
