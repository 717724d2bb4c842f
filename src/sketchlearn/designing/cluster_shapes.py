"""Shapes of the clusters of a sample, for frequencies that resolve flat ones."""

from __future__ import annotations

import warnings

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import GaussianMixture

from sketchlearn.designing.sample_summary import MOST_ROWS, thinned

Double = NDArray[np.float64]

MOST_SHAPES = 20  # so that the JSON form of an operator stays small
ROWS_PER_COLUMN = 4  # of a cluster, or its covariance means nothing
FLATTEST = 1e-6  # variance, of the mean one
ITERATIONS, STARTS = 50, 10
DIGITS = 4


def cluster_shapes(rows: Double, n_clusters: int, seed: int, *, full: bool) -> tuple[tuple[float, ...], ...]:
    """Factors L of the clusters' covariances L L', as `frequencies.Shaped` takes them; none if there are too few rows.

    k-means would cut long clusters into short ones, so a mixture of Gaussians is fitted to the rows: several times to
    some of them, then the likeliest one to all.
    """
    n, d = rows.shape
    k = min(n_clusters, MOST_SHAPES, n // (ROWS_PER_COLUMN * d))
    mean_variance = float(np.mean(rows.var(axis=0)))
    if k == 0 or mean_variance == 0:
        return ()
    mixture = GaussianMixture(k, covariance_type="full" if full else "diag", max_iter=ITERATIONS)
    mixture.set_params(n_init=STARTS, reg_covar=FLATTEST * mean_variance, random_state=seed % 2**32)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)  # also: fewer distinct rows than clusters
        mixture.fit(thinned(rows, MOST_ROWS))
        if n > MOST_ROWS:
            mixture.set_params(warm_start=True).fit(rows)
    large = mixture.weights_ * n >= ROWS_PER_COLUMN * d
    found = mixture.covariances_[large]
    numbers = np.linalg.cholesky(found)[:, *np.tril_indices(d)] if full else np.sqrt(found)
    return tuple(tuple(float(f"{x:.{DIGITS}g}") for x in row) for row in numbers)
