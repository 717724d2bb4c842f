"""The waves that decoders evaluate components with: every kernel, against their definition and each other."""

import numpy as np
import pytest

from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import damped_waves


@pytest.mark.parametrize("name", kernel.available())
@pytest.mark.parametrize("shape", [(1, 1), (3, 7), (5, 64), (2, 1001)])
def test_waves_equal_their_definition(name, shape):
    rng = np.random.default_rng(4)
    phases = rng.normal(scale=5, size=shape).astype(np.float32)
    shared = rng.uniform(0, 100, (1, shape[1])).astype(np.float32)
    for exponents in (None, shared, rng.uniform(0, 5, shape).astype(np.float32)):
        cosines, sines = np.empty_like(phases), np.empty_like(phases)
        damped_waves(name, phases, exponents, 2, cosines, sines)
        size = 1.0 if exponents is None else np.exp(-exponents.astype(np.float64))
        angle = 2 * np.pi * phases.astype(np.float64)
        assert np.max(np.abs(cosines - size * np.cos(angle))) < 2**-20
        assert np.max(np.abs(sines - size * np.sin(angle))) < 2**-20


def test_waves_are_the_same_in_every_kernel_and_on_any_number_of_threads():
    rng = np.random.default_rng(5)
    phases, exponents = rng.normal(size=(40, 4000)).astype(np.float32), rng.uniform(0, 9, (40, 4000)).astype(np.float32)
    results = []
    for name in kernel.available():
        for threads in (1, 2, 3):
            parts = np.empty_like(phases), np.empty_like(phases)
            damped_waves(name, phases, exponents, threads, *parts)
            results.append(parts)
    assert all(np.array_equal(parts, results[0]) for parts in results)


@pytest.mark.parametrize("wrong", [(3, 6), (2, 7), (2, 5)])
def test_waves_refuse_other_shapes(wrong):
    phases, out = np.zeros((3, 7), np.float32), np.zeros((3, 7), np.float32)
    with pytest.raises(ValueError, match="shapes do not fit"):
        damped_waves(kernel.active, phases, np.zeros(wrong, np.float32), 1, out, out.copy())
