"""Fewer components: pairs are merged by moments, those first that change the density least."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double


def merge_components(weights: Double, means: Double, covariances: Double, k: int) -> tuple[Double, Double, Double]:
    """k Gaussians with the moments of the given ones.

    Each step merges the pair for which Runnalls' bound on the Kullback-Leibler divergence is least (IEEE Transactions
    on Aerospace and Electronic Systems 43, 2007).
    """
    weights, means, covariances = weights.copy(), means.copy(), covariances.copy()
    logs = np.linalg.slogdet(covariances)[1]
    n = len(weights)
    costs = np.full((n, n), np.inf)
    for row in range(n):
        costs[row, :row] = _costs(weights, means, covariances, logs, row, np.arange(row))
    alive = np.ones(n, bool)
    while alive.sum() > k:
        i, j = divmod(int(np.argmin(costs)), n)
        total, away = weights[i] + weights[j], means[i] - means[j]
        a, b = weights[i] / total, weights[j] / total
        covariances[i] = a * covariances[i] + b * covariances[j] + a * b * np.outer(away, away)
        weights[i], means[i] = total, a * means[i] + b * means[j]
        logs[i] = np.linalg.slogdet(covariances[i])[1]
        alive[j] = False
        costs[j, :] = costs[:, j] = np.inf
        others = np.flatnonzero(alive & (np.arange(n) != i))
        new = _costs(weights, means, covariances, logs, i, others)
        low = others < i
        costs[i, others[low]], costs[others[~low], i] = new[low], new[~low]
    return weights[alive], means[alive], covariances[alive]


def _costs(
    weights: Double, means: Double, covariances: Double, logs: Double, i: int, others: NDArray[np.integer]
) -> Double:
    """Runnalls' bound for component i and each of the others."""
    w, total, away = weights[others], weights[i] + weights[others], means[others] - means[i]
    a, b = (weights[i] / total)[:, None, None], (w / total)[:, None, None]
    together = a * covariances[i] + b * covariances[others] + a * b * away[:, :, None] * away[:, None, :]
    return np.asarray(0.5 * (total * np.linalg.slogdet(together)[1] - weights[i] * logs[i] - w * logs[others]))
