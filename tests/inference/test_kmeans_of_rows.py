"""K-means of rows in memory: native steps against NumPy, and whole searches beside scikit-learn."""

import os
import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.cluster import KMeans

from sketchlearn.inference.kmeans import KMeansOfRows, kmeans, lloyd, nearest
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels.dispatch import nearest_centers

SIZES = [(1, 1, 1), (5, 3, 2), (67, 10, 10), (900, 3, 33), (9000, 7, 33), (4000, 65, 17)]


def squares_of(rows, centers):
    return np.sum((rows[:, None] - centers) ** 2, axis=2)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(("n", "d", "k"), [*SIZES, (0, 4, 3)])
@pytest.mark.parametrize("n_jobs", [1, 3])
def test_the_nearest_center_is_found(n, d, k, dtype, n_jobs):
    rng = np.random.default_rng(n + d + k)
    rows, centers = rng.standard_normal((n, d)).astype(dtype), rng.standard_normal((k, d))
    middle, scale = rng.standard_normal(d), rng.uniform(0.5, 2, d)
    labels, squares = nearest_centers(rows, centers, middle, scale, n_jobs)
    every = squares_of((rows - middle) * scale, centers)
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
    every = squares_of(rows[::2, ::2], centers)
    np.testing.assert_array_equal(there[0], every.argmin(axis=1))
    np.testing.assert_array_equal(there[1], every.min(axis=1))


@pytest.mark.parametrize("fine", [False, True])
@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_rows_are_assigned_and_removals_cost_what_they_say(n, d, k, fine):
    rng = np.random.default_rng(n + d + k)
    rows, weights, centers = 5 + rng.standard_normal((n, d)), rng.random(n), 5 + rng.standard_normal((k, d))
    sample = KMeansOfRows(rows, weights, fine=fine)
    labels, squares = sample.assign(sample.seen(centers))
    every = squares_of(rows, centers) / sample.size**2
    tolerance = 1e-12 if fine else 1e-5
    np.testing.assert_allclose(squares, every.min(axis=1), rtol=tolerance, atol=tolerance)
    np.testing.assert_allclose(every[np.arange(n), labels], every.min(axis=1), rtol=tolerance, atol=tolerance)
    if k > 1:
        ordered = np.sort(every, axis=1)
        expected = np.bincount(every.argmin(axis=1), weights * (ordered[:, 1] - ordered[:, 0]), minlength=k)
        costs = sample.removal_costs(sample.seen(centers))
        np.testing.assert_allclose(costs, expected, rtol=100 * tolerance, atol=100 * tolerance * weights.sum())


@pytest.mark.parametrize(("n", "d", "k"), SIZES)
def test_lloyd_takes_the_steps_of_its_definition(n, d, k):
    rng = np.random.default_rng(n + d + k)
    rows, weights = rng.standard_normal((n, d)), rng.random(n)
    centers = rows[rng.choice(n, k, replace=False)]
    found, cost = lloyd(rows, centers, weights)
    for _ in range(100):
        labels = squares_of(rows, centers).argmin(axis=1)
        inside = (labels == np.arange(k)[:, None]) * weights
        moved = inside @ rows / np.maximum(inside.sum(axis=1), 1e-300)[:, None]
        if np.array_equal(moved, centers):
            break
        centers = moved
    np.testing.assert_allclose(found, centers, rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(cost, weights @ squares_of(rows, found).min(axis=1), rtol=1e-9, atol=1e-12)


def test_clusters_without_rows_are_filled():
    rows = np.repeat(np.eye(3, dtype=np.float32), 20, axis=0)
    start = np.array([[1.0], [50.0], [60.0]]).repeat(3, axis=1)
    centers, cost = lloyd(rows, start)
    assert cost < 1e-6
    assert len(np.unique(centers.round(5), axis=0)) == 3


def test_what_is_found_does_not_depend_on_threads():
    rows = np.random.default_rng(0).standard_normal((20_000, 33)).astype(np.float32)
    sample, found = KMeansOfRows(rows), []
    for threads in (1, 2, 7):
        sample._threads = threads
        found.append(sample.search(60, np.random.default_rng(1)))
    assert np.array_equal(found[0], found[1])
    assert np.array_equal(found[0], found[2])


SEARCH = """
import sys
import numpy as np
from sketchlearn.inference.kmeans import kmeans
rows = np.random.default_rng(0).standard_normal((6000, 11)).astype(np.float32)
rows[::3] += 2.0
sys.stdout.write(kmeans(rows, 13, np.random.default_rng(1)).tobytes().hex())
"""


def test_searches_of_float32_end_alike_on_every_kernel():
    found = {
        name: subprocess.run(
            [sys.executable, "-c", SEARCH],
            env={**os.environ, "SKETCHLEARN_KERNEL": name},
            capture_output=True,
            text=True,
            check=True,
        ).stdout
        for name in kernel.available()
    }
    centers = [np.frombuffer(bytes.fromhex(found[name])).reshape(13, 11) for name in found]
    for other in centers[1:]:
        np.testing.assert_allclose(other, centers[0], rtol=0.05, atol=0.05)


@settings(max_examples=30, deadline=None)
@given(st.integers(1, 40), st.integers(1, 5), st.integers(1, 8), st.integers(0, 2**31))
def test_a_few_rows_of_few_values(n, d, k, seed):
    rng = np.random.default_rng(seed)
    rows = rng.integers(0, 3, (n, d)) * 10.0 ** rng.integers(-30, 30)
    centers = kmeans(rows, k, rng)
    assert centers.shape == (k, d)
    distinct = np.unique(rows, axis=0)
    if len(distinct) < k:
        np.testing.assert_array_equal(np.unique(centers, axis=0), distinct)
    elif len(distinct) == k:  # each is a mean
        np.testing.assert_allclose(nearest(distinct, centers)[1], 0, atol=1e-12 * np.max(rows) ** 2)
    assert np.all(nearest(rows, centers)[1] <= squares_of(rows, rows.mean(axis=0)[None])[:, 0].max() * (1 + 1e-6))


@pytest.mark.parametrize("seed", range(3))
def test_searches_are_as_good_as_ten_starts_of_scikit_learn(seed):
    rng = np.random.default_rng(seed)
    rows = (6 * rng.standard_normal((30, 2)))[rng.integers(30, size=3000)] + rng.standard_normal((3000, 2))
    peer = KMeans(30, n_init=10, random_state=0).fit(rows).inertia_
    assert nearest(rows, kmeans(rows, 30, rng))[1].sum() <= 1.01 * peer
