"""The width of a Parzen window, by leaving out one row of a labelled sample at a time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketchlearn.frequencies import Gaussian, Mixture, Probed
from sketchlearn.models import Double
from sketchlearn.operators import FourierFeatures

MOST_ROWS = 1000
WIDTHS = np.geomspace(0.15, 3.0, 16)  # in units of the typical distance between rows, in deviations within classes
WIDTH_FACTORS = (1.6, 1.0, 0.5)  # A window is the mean of three Gaussians, whose tails are heavier than those of one.
POWERS = (1.0, 0.5, 0.0, -0.5, -1.0)  # of the classes' shares
SQUARED_ERROR_WEIGHT = 0.01  # of the mean squared error of probabilities, beside the rate of errors


def parzen_window(
    rows: Double, labels: NDArray[np.int64], n_frequencies: int, seed: int, columns: tuple[str, ...] | None
) -> tuple[FourierFeatures, float, float]:
    """The window of least errors on a sample, the power of classes' shares that should count, and the rate of errors.

    It has the very features that will be used: with few of them, a narrow window is mostly noise. Wide windows smooth
    classes so much that their shares outweigh what the rows say, and wide classes score too little: a power of the
    shares makes up for it. Errors are averaged over neighbouring widths, since one alone may be lucky.
    """
    chosen = np.linspace(0, len(rows) - 1, min(len(rows), MOST_ROWS)).astype(int)
    rows, (classes, codes) = rows[chosen], np.unique(labels[chosen], return_inverse=True)
    counts = np.bincount(codes)
    center, units = rows.mean(axis=0), _within(rows, codes, counts)
    y = (rows - center) / units
    typical = float(np.sqrt(np.sum(y.var(axis=0)))) or 1.0

    def operator(width: float) -> FourierFeatures:
        window, d = Mixture(tuple(Gaussian(width * factor) for factor in WIDTH_FACTORS)), rows.shape[1]
        law = Probed(window, units=tuple(units.tolist()), spread=tuple(units.tolist()), probes=())
        return FourierFeatures(d, n_frequencies, law=law, center=tuple(center.tolist()), seed=seed, columns=columns)

    if len(classes) < 2 or counts.min() < 2:
        return operator(typical / 2), 1.0, 1.0
    phases = y @ (operator(1.0).frequencies.T * units).T  # windows of other widths divide them by the width
    errors, losses = np.empty((2, len(WIDTHS), len(POWERS)))
    for i, width in enumerate(WIDTHS * typical):
        features = np.concatenate([np.cos(phases / width), np.sin(phases / width)], axis=1)
        errors[i], losses[i] = _left_out(features, codes, counts)
    padded = np.pad(errors, ((1, 1), (0, 0)), mode="edge")
    smooth = (padded[:-2] + padded[1:-1] + padded[2:]) / 3
    best, power = divmod(int(np.argmin(smooth + SQUARED_ERROR_WEIGHT * losses)), len(POWERS))
    return operator(float(WIDTHS[best] * typical)), POWERS[power], float(smooth[best, power])


def _left_out(features: Double, codes: NDArray[np.int64], counts: NDArray[np.int64]) -> tuple[Double, Double]:
    """The rate of errors of rows left out one by one, and the squared error of probabilities, for each power."""
    n, own = len(codes), np.eye(len(counts))[codes]
    sums = features @ (features.T @ own)
    sums[np.arange(n), codes] -= np.sum(features * features, axis=1)
    errors, losses = np.empty((2, len(POWERS)))
    for j, power in enumerate(POWERS):
        scores = sums * np.maximum(counts - own, 1) ** (power - 1)
        errors[j] = np.mean(np.argmax(scores, axis=1) != codes)
        scores = np.maximum(scores, 1e-3 * np.abs(scores).max(axis=1, keepdims=True) + 1e-300)
        probabilities = scores / scores.sum(axis=1, keepdims=True)
        losses[j] = np.mean(np.sum((probabilities - own) ** 2, axis=1))
    return errors, losses


def _within(rows: Double, codes: NDArray[np.int64], counts: NDArray[np.int64]) -> Double:
    """Deviation of each column within classes; columns without any are given a typical one."""
    means = np.array([rows[codes == c].mean(axis=0) for c in range(len(counts))])
    deviations = np.sqrt(np.mean((rows - means[codes]) ** 2, axis=0))
    alive = deviations > 1e-9 * (np.abs(rows).max(axis=0) + 1e-300)
    if not np.any(alive):
        spread = rows.std(axis=0)
        return np.where(spread > 0, spread, 1.0)
    return np.where(alive, deviations, np.exp(np.mean(np.log(deviations[alive]))))
