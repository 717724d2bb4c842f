"""The kernels give the integers of docs/reference/arithmetic.md, and those are close to the truth."""

import ctypes
import functools
import platform
import sys

import numpy as np
import pytest
from cases import WAVES, operators
from conftest import with_kernel
from thresholds import at_a_threshold
from twin import fma, phase_error_bound, phases, record_integers

import sketchlearn as skl
from sketchlearn.core.randomness import Stream
from sketchlearn.features.frequencies import Gaussian
from sketchlearn.features.waves import Quantized


def rows(n, d, seed=0, scale=1.0, dtype=np.float32):
    return (np.random.default_rng(seed).standard_normal((n, d)) * scale).astype(dtype)


@functools.cache
def documented_sums(name, d, dtype):
    """Every kernel is compared with them."""
    return record_integers(operators(d)[name], rows(203, d, dtype=dtype)).sum(axis=0)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("name", "d"), [(name, d) for d in (1, 3, 33) for name in operators(d)])
def test_every_kernel_gives_the_documented_integers(name, d, dtype, kernel_name, monkeypatch):
    operator = with_kernel(operators(d)[name], kernel_name, monkeypatch)
    assert np.array_equal(operator.sketch(rows(203, d, dtype=dtype)).sums, documented_sums(name, d, dtype))


@pytest.mark.parametrize("m", [1, 7, 16, 31, 64, 65, 129])
@pytest.mark.parametrize("d", [1, 2, 5, 191, 192, 193, 400])
def test_any_size(d, m, kernel_name, monkeypatch):
    operator = skl.features.FourierFeatures(d, m, law=Gaussian(d**0.5), seed=1)
    operator = with_kernel(operator, kernel_name, monkeypatch)
    X = rows(13, d)
    assert np.array_equal(operator.sketch(X, n_jobs=1).sums, record_integers(operator, X).sum(axis=0))


@pytest.mark.parametrize("rounding", ["once", "twice"])
@pytest.mark.parametrize("d", range(1, 19))
def test_moments_of_any_width(d, rounding, kernel_name, monkeypatch):
    """Products come in tiles, of which the last is not whole; weights take another way; ties are rounded to even."""
    operator = with_kernel(skl.features.SecondMoments(d, bound=2.0, rounding=rounding), kernel_name, monkeypatch)
    ties, tiny = 2.0 ** -np.arange(20 * d).reshape(20, d), np.array([[0.0, -0.0, 5e-324, -1e-310, 2.0]])
    X = np.concatenate([rows(200, d).clip(-2, 2), ties, np.resize(tiny, (5, d))])
    expected = record_integers(operator, X)
    weights = np.arange(len(X)) % 3
    assert np.array_equal(operator.sketch(X, n_jobs=1).sums, expected.sum(axis=0))
    assert np.array_equal(operator.sketch(X, sample_weight=weights).sums, weights @ expected)


@pytest.mark.parametrize("name", WAVES)
def test_features_are_within_two_to_the_minus_19(name, kernel_name, monkeypatch):
    """Given the same float32 phase; the phases here reach from 2^-30 to 2^40 turns."""
    wave = WAVES[name]
    operator = with_kernel(
        skl.features.FourierFeatures(1, 50, law=Gaussian(1.0), wave=wave, seed=2), kernel_name, monkeypatch
    )
    X = np.concatenate([rows(3000, 1), rows(300, 1, 1, 2.0**-28), rows(300, 1, 2, 2.0**20), rows(300, 1, 3, 2.0**40)])
    t = phases(operator, X).astype(np.float64)
    exact = wave(t)
    error = operator.features(X) - exact
    if isinstance(wave, Quantized):  # of the wave before, so that the next step may begin there
        doubtful = at_a_threshold(wave, t)
        assert np.mean(doubtful[:3000]) < 0.01  # later rows lie at few phases
        error[doubtful] = 0
    assert max(np.abs(error.real).max(), np.abs(error.imag).max()) <= 2.0**-19


@pytest.mark.parametrize("d", [1, 2, 10, 100, 784, 2000])
def test_phases_are_within_the_promised_bound(d):
    """Of the documented arithmetic, which the kernels follow to the bit (above, and here for long rows)."""
    operator = skl.features.FourierFeatures(d, 40, law=Gaussian(d**0.5), center=np.linspace(-1, 1, d), seed=3)
    X = rows(50, d, scale=3.0, dtype=np.float64)
    assert np.array_equal(operator.sketch(X).sums, record_integers(operator, X).sum(axis=0))
    y, w = X - operator.middle, operator._dense.astype(np.float64)
    error = np.abs(phases(operator, X) - y @ w)
    assert np.all(error <= phase_error_bound(d) * (np.abs(y) @ np.abs(w)) * (1 + 1e-12))


@pytest.mark.parametrize("d", [8, 40, 1000])
def test_structured_phases_are_close(d):
    operator = skl.features.FourierFeatures(d, 100, law=Gaussian(d**0.5), structured=True, seed=3)
    X = rows(50, d)
    exact = X.astype(np.float64) @ operator._structured.matrix()
    size = operator._structured.size
    bound = (3 * np.log2(size) + 2) * 2.0**-24 * np.linalg.norm(X, axis=1)[:, None] * size**1.5
    assert np.all(np.abs(phases(operator, X) - exact) <= bound * operator._structured.radii.ravel()[:100])


def test_fused_multiply_add_twin_rounds_once():
    """1 + 2^-24 (1 + 2^-20) must round up, though the float64 sum of a plain emulation ties to even."""
    assert fma(np.float32(2.0**-24), np.float32(1 + 2.0**-20), np.float32(1)) == np.float32(1 + 2.0**-23)
    assert fma(np.array([2.0**-24]), np.array([1.0]), np.array([1.0])) == np.float32(1)
    tiny = fma(np.array([2.0**-40]), np.array([2.0**-40]), np.array([1 + 2.0**-23], np.float32))
    assert tiny == np.float32(1 + 2.0**-23)


@pytest.mark.skipif(sys.platform != "linux", reason="needs the C library's fesetround")
def test_the_rounding_mode_of_the_host_does_not_matter(kernel_name, monkeypatch):
    """Libraries change the floating-point environment of a process; a sketch must not notice."""
    upward = {"x86_64": 0x800, "aarch64": 0x400000}[platform.machine()]
    libm = ctypes.CDLL("libm.so.6")
    X = rows(500, 5)
    for name in ("wave-exponential", "wave-series", "quadratic", "moments", "moments-once"):
        operator = with_kernel(operators(5)[name], kernel_name, monkeypatch)
        expected = operator.sketch(X, n_jobs=1)
        assert libm.fesetround(upward) == 0
        try:
            assert np.array([1.0])[0] + 1e-300 > 1.0, "the mode has no effect here"
            sketched = operator.sketch(X, n_jobs=1)
            with pytest.raises(RuntimeError, match="does not round to nearest"):
                Stream(0, "frequencies")
        finally:
            libm.fesetround(0)
        assert sketched == expected


@pytest.mark.filterwarnings("ignore:.*too far from the center for a phase")
def test_the_limit_is_the_same_for_every_type_of_rows():
    """2^60 + 1024 rounds to 2^60 in float32, where it is compared."""
    operator = skl.features.FourierFeatures(1, 4, law=Gaussian(1.0), center=[-1024.0])
    with pytest.warns(UserWarning, match="float32 phases are only noise"):
        assert operator.sketch(np.array([[2.0**60]], np.float32)) == operator.sketch(np.array([[2.0**60]]))
    far, reach = 2.0**60 + 2.0**37, -1024.0 + 2.0**60 * (1 - 2**-20)
    with pytest.warns(UserWarning, match="float32 phases are only noise"):
        found = [operator.sketch(np.array([[x]], kind)) for x in (far, reach) for kind in (np.float32, np.float64)]
    assert found == [found[-1]] * 4
    assert [sketch.clipped for sketch in found] == [1, 1, 0, 0]
