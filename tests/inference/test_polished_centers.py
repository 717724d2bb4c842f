"""Centers of a density: exact where they are known, and with little noise of their own."""

import numpy as np
import pytest

from sketchlearn.inference.decoders.points import CellMeans, centroids, even_normals, even_rows, medians
from sketchlearn.inference.distributions import DiagonalGaussian, FullGaussian, Mixture
from sketchlearn.inference.kmeans import nearest

pytestmark = pytest.mark.slow

SPREAD = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, 4)), np.array([[4.0, 1.0, 0.5, 0.2]]))


def overlapping(k=5, d=5, seed=1):
    rng = np.random.default_rng(seed)
    means, turned = 1.5 * rng.standard_normal((k, d)), 0.3 * rng.standard_normal((k, d, d))
    covariances = np.eye(d) + turned @ turned.transpose(0, 2, 1)
    model = FullGaussian()
    return Mixture(model, rng.dirichlet(np.full(k, 8.0)), means, model.shapes_of(covariances))


def test_halves_of_a_gaussian_have_known_centers():
    """Those of the half-normal law along the longest axis, sqrt(2 / pi) deviations from the middle."""
    centers, shares = centroids(SPREAD, 2, np.random.default_rng(0), 1e6)
    np.testing.assert_allclose(np.sort(centers[:, 0]), [-1.59577, 1.59577], atol=0.003)
    np.testing.assert_allclose(centers[:, 1:], 0, atol=0.005)
    np.testing.assert_allclose(shares, 0.5, atol=0.002)


def test_medians_of_halves_are_known():
    line = Mixture(DiagonalGaussian(), np.ones(1), np.full((1, 1), 7.0), np.ones((1, 1)))
    points, _ = medians(line, 2, np.random.default_rng(0), 1e6)
    # k-medians of N(0, 1): x is the median of what lies beyond 0, Phi(x) = 3/4
    np.testing.assert_allclose(np.sort(points[:, 0]) - 7, [-0.67449, 0.67449], atol=0.005)


def test_one_center_is_the_mean():
    mixture = overlapping()
    centers, shares = centroids(mixture, 1, np.random.default_rng(0))
    np.testing.assert_allclose(centers[0], mixture.weights @ mixture.locations)
    assert shares.tolist() == [1.0]


@pytest.mark.parametrize(("k", "d"), [(3, 5), (6, 2)])  # fewer columns than the rows have, and as many
def test_means_of_cells_are_those_of_rows(k, d):
    """Within 5 standard errors of the means of 200,000 random rows."""
    mixture, rng = overlapping(k + 1, d), np.random.default_rng(0)
    centers = mixture.locations[:k] + 0.3
    means, shares = CellMeans.of(mixture).with_draws(200_000, k, rng)(centers)
    rows = mixture.sample(200_000, rng)[0]
    labels = nearest(rows, centers)[0]
    for cell in range(k):
        own = rows[labels == cell]
        assert abs(shares[cell] - len(own) / len(rows)) < 5 * 0.5 / np.sqrt(len(rows))
        np.testing.assert_allclose(means[cell], own.mean(axis=0), atol=5 * own.std() / np.sqrt(len(own)))


def test_noise_of_the_draws_is_far_below_that_of_the_records():
    """In variance, less than a tenth of that of means of a cluster's 100,000 / k records; that of centers is larger."""
    places = 2.5 * np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0], [0, 0, 1.2], [1.2, 1, 0]])
    mixture = Mixture(DiagonalGaussian(), np.array([0.3, 0.2, 0.2, 0.15, 0.15]), places, np.ones((5, 3)))
    found = [centroids(mixture, 5, np.random.default_rng(seed), 1e5)[0] for seed in range(8)]
    same = [centers[nearest(found[0], centers)[0]] for centers in found]
    assert np.mean(np.var(same, axis=0)) < 0.1 * 5 / 1e5


def test_even_draws_are_of_the_law():
    points = even_normals(40, 8192, np.random.default_rng(0)).astype(np.float64)
    np.testing.assert_allclose(points.mean(axis=1), 0, atol=5 / np.sqrt(8192))
    np.testing.assert_allclose(points @ points.T / 8192, np.eye(40), atol=5 * np.sqrt(2 / 8192))
    mixture = overlapping(d=3)
    rows = even_rows(mixture, 20_000, np.random.default_rng(0))
    np.testing.assert_allclose(rows.mean(axis=0), mixture.weights @ mixture.locations, atol=0.01)
