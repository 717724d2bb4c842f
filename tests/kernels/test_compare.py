"""The sums that decoders take the cost of a mixture and its gradients from: every kernel, against NumPy."""

import numpy as np
import pytest

from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import compare


def problem(n, d, m, q, *, tied, shifted=False, valued=True):
    rng = np.random.default_rng(n + d + m)
    arrays = [
        rng.normal(size=(d, m)),
        rng.uniform(size=m) if shifted else None,
        rng.uniform(size=(q, m)),
        rng.normal(size=(2, m)) if valued else None,
        rng.uniform(size=(2, m)),
        rng.uniform(size=n) / n,
        rng.normal(size=(n, d)),
        rng.uniform(size=(1 if tied else n, q)),
    ]
    return [None if a is None else a.astype(np.float32) for a in arrays]


def sums_of(name, arrays, threads=1):
    weights, locations, shapes = arrays[5:]
    sums = np.full(1 + len(weights) + locations.size + shapes.size, np.nan)
    compare(name, *arrays, threads, sums)
    return sums


def definition(arrays):
    turns, shifts, quadratics, values, counts, weights, locations, shapes = (
        None if a is None else a.astype(np.float64) for a in arrays
    )
    phases = locations @ turns + (0 if shifts is None else shifts)
    waves = np.exp(2j * np.pi * phases - shapes @ quadratics)
    z, (w_re, w_im) = weights @ waves, counts
    r = z - (z if values is None else values[0] + 1j * values[1])
    f = w_re + 1j * w_im if values is None else w_re * r.real + 1j * (w_im * r.imag)
    parts = f.conj() * waves
    by_size = parts.real if len(shapes) > 1 else (weights @ parts.real)[None]
    cost, by_weight, by_location = np.sum((r * f.conj()).real), parts.real.sum(axis=1), -parts.imag @ turns.T
    return np.concatenate([[cost], by_weight, by_location.ravel(), (by_size @ quadratics.T).ravel()])


CASES = [
    problem(1, 1, 1, 1, tied=True),
    problem(3, 2, 7, 2, tied=False),
    problem(13, 5, 130, 5, tied=False, shifted=True),
    problem(13, 5, 64, 5, tied=True),
    problem(30, 11, 4500, 1, tied=False),
    problem(25, 3, 300, 0, tied=True, valued=False, shifted=True),
]


@pytest.mark.parametrize("name", kernel.available())
@pytest.mark.parametrize("arrays", CASES)
def test_sums_equal_their_definition(name, arrays):
    sums, wanted = sums_of(name, arrays), definition(arrays)
    assert np.max(np.abs(sums - wanted)) < 1e-5 * arrays[0].shape[1]


@pytest.mark.parametrize("name", kernel.available())
def test_sums_are_the_same_on_any_number_of_threads(name):
    arrays = problem(40, 3, 5000, 3, tied=False)
    assert all(np.array_equal(sums_of(name, arrays), sums_of(name, arrays, threads)) for threads in (2, 3))


@pytest.mark.parametrize("which", [0, 1, 2, 3, 4, 6, 7])
def test_wrong_shapes_are_refused(which):
    arrays = problem(6, 3, 20, 3, tied=False, shifted=True)
    arrays[which] = np.ascontiguousarray(arrays[which][..., :-1])
    with pytest.raises(ValueError, match="shapes do not fit"):
        sums_of(kernel.active, arrays)
