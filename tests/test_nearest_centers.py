"""The nearest center of each row, in the native loop, against all distances in NumPy."""

import numpy as np
import pytest

from sketchlearn.kernel import lloyd_step, nearest_centers


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (5, 3, 2), (67, 10, 10), (9000, 7, 33), (0, 4, 3)])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_nearest_center_is_found(n, d, k, dtype, n_jobs):
    rng = np.random.default_rng(n + d + k)
    rows, centers = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((k, d))
    middle, scale = rng.standard_normal(d), rng.uniform(0.5, 2, d)
    labels, squares = nearest_centers(rows, centers, middle, scale, n_jobs)
    scaled = (rows - middle) * scale
    every = np.sum((scaled[:, None] - centers) ** 2, axis=2)
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    assert labels.dtype == np.int32
    np.testing.assert_allclose(squares, every[np.arange(n), labels], rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(squares, every.min(axis=1, initial=np.inf), rtol=tolerance, atol=tolerance)


def test_strides_do_not_matter_and_the_first_of_equal_centers_is_taken():
    rng = np.random.default_rng(0)
    rows = rng.integers(0, 3, (2 * 500, 2 * 6)).astype(np.float32)
    centers = np.repeat(rng.integers(0, 3, (5, 6)), 3, axis=0).astype(float)
    given = centers, np.zeros(6), np.ones(6), 1
    there = nearest_centers(np.ascontiguousarray(rows[::2, ::2]), *given)
    for same in (rows[::2, ::2], np.asfortranarray(rows[::2, ::2])):
        for one, other in zip(there, nearest_centers(same, *given), strict=True):
            np.testing.assert_array_equal(one, other)
    every = np.sum((rows[::2, ::2][:, None] - centers) ** 2, axis=2)
    np.testing.assert_array_equal(there[0], every.argmin(axis=1))
    np.testing.assert_array_equal(there[1], every.min(axis=1))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), [(1, 1, 1), (67, 10, 10), (900, 3, 33)])
def test_a_step_of_lloyd(n, d, k, dtype):
    rng = np.random.default_rng(n + d + k)
    rows, centers, weights = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((k, d)), rng.random(n)
    labels, scores, sizes, sums = lloyd_step(rows, centers, weights)
    every = np.sum((rows[:, None] - centers) ** 2, axis=2)
    tolerance = 1e-4 if dtype == np.float32 else 1e-11
    np.testing.assert_allclose(every[np.arange(n), labels], every.min(axis=1), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(scores + np.sum(rows**2, axis=1), every.min(axis=1), rtol=tolerance, atol=tolerance)
    inside = (labels == np.arange(k)[:, None]) * weights
    np.testing.assert_allclose(sizes, inside.sum(axis=1), rtol=1e-12)
    np.testing.assert_allclose(sums, inside @ rows.astype(np.float64), rtol=1e-10, atol=1e-12)
