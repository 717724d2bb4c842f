"""An operator for independent components: cumulants of coordinates that are roughly independent already."""

from __future__ import annotations

import warnings
from operator import itemgetter
from typing import Any

import numpy as np
from sklearn.decomposition import FastICA
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.designing.frequency_laws import plain
from sketchlearn.models import Double
from sketchlearn.operators import Concatenated, CumulantFeatures, SecondMoments, concatenate
from sketchlearn.tasks.column_ranges import box
from sketchlearn.tasks.estimating.glimpse import Glimpse
from sketchlearn.tasks.independent_components.independent_fit import polar

FREQUENCIES = (1.0, 0.7, 0.5, 0.3, 1.4, 1.8, 2.3, 3.0)  # per deviation; the first suits most
STREAM_FREQUENCIES = (0.25,)  # The wave is then near cumulants, which find components of any scale and rotation.
PHASES = np.arange(8) * np.pi / 8
CLEARLY_LESS = 0.9  # A later wave must have less than this share of the variance, which a sample gives roughly.
STARTS, STEPS = 3, 4
LEAST_RELATIVE_VARIANCE = 1e-9  # of a direction, in deviations of the columns


def cumulant_features(
    glimpse: Glimpse, rng: np.random.Generator, n_components: int | None = None, bounds: Any = None
) -> Concatenated:
    """Second moments beside cumulant features, for rows such as these.

    >>> rows = np.random.default_rng(0).uniform(size=(1000, 3))
    >>> cumulant_features(Glimpse(rows, True, None), np.random.default_rng(0)).n_sums
    24
    """
    d, sample = glimpse.rows.shape[1], glimpse.rows.astype(np.float64)
    center, reach = box(glimpse, bounds)
    whitening = _whitening(sample, n_components)
    mean = sample.mean(axis=0)
    y = (sample - mean) @ whitening.T
    grid = FREQUENCIES if glimpse.representative else STREAM_FREQUENCIES
    separated = [_separated(y, grid, rng) for _ in range(STARTS)]
    _, rotation, (frequencies, phases, noise) = min(separated, key=itemgetter(0))
    unmixing = rotation @ whitening
    phases = phases - frequencies * (unmixing @ (mean - center))
    shared: dict[str, Any] = {"bound": plain(reach), "center": plain(center), "columns": glimpse.columns}
    cumulants = CumulantFeatures(
        d,
        unmixing=tuple(map(plain, unmixing)),
        frequencies=plain(frequencies),
        phases=plain(np.remainder(phases, 2 * np.pi)),
        noise=plain(noise),
        **shared,
    )
    return concatenate([SecondMoments(d, **shared), cumulants])


def _whitening(rows: Double, n_components: int | None) -> Double:
    """Directions of largest variance, scaled to variance 1, without those in which rows do not vary."""
    covariance = np.atleast_2d(np.cov(rows.T, bias=True))
    scale = np.sqrt(np.diag(covariance))
    if not np.any(scale > 0):
        raise ValueError("all rows are equal: there is no direction in which they vary")
    scale = np.where(scale > 0, scale, 1.0)
    values, vectors = np.linalg.eigh(covariance / np.outer(scale, scale))
    alive = values > LEAST_RELATIVE_VARIANCE * values[-1]
    values, vectors = values[alive], vectors[:, alive]
    k = len(values) if n_components is None else min(n_components, len(values))
    if k == len(scale):
        return np.asarray((vectors / np.sqrt(values)).T / scale)
    # within the directions in which rows vary, so that the pseudo-inverse mixes
    within = np.linalg.qr(scale[:, None] * vectors)[0]
    values, vectors = np.linalg.eigh(within.T @ covariance @ within)
    return np.asarray((within @ vectors[:, -k:] / np.sqrt(values[-k:])).T)


def _separated(
    y: Double, grid: tuple[float, ...], rng: np.random.Generator
) -> tuple[float, Double, tuple[Double, Double, Double]]:
    """Components of whitened rows: those of FastICA, improved with the waves that measure them best.

    Returns their error, the rotation, and the waves' frequencies, phases and noise.
    """
    k = y.shape[1]
    rotation = np.eye(k)
    if k > 1:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ConvergenceWarning)
            fit = FastICA(whiten=False, random_state=int(rng.integers(2**31)), tol=1e-3).fit(y)
        rotation = polar(fit.components_)
    for _ in range(STEPS):
        u = y @ rotation.T
        t, phases, noise, sizes = _tuned(u, grid)
        wave = np.exp(1j * (t * u + phases))
        T = u.T @ wave.imag / len(u) - np.eye(k) * (t * wave.real.mean(axis=0))
        own = np.diag(T)
        rotation = polar(T * (own / (noise + own**2 / 4))).T @ rotation
    return float(np.sum(np.log(noise / sizes**2 + 0.25))), rotation, (t, phases, noise)


def _tuned(u: Double, grid: tuple[float, ...]) -> Double:
    """Frequency and phase of the wave that measures each column best, its noise, and the size of what it measures.

    g = sin(t u + a) moves the direction of a component with variance noise / size^2 per row: size is the mean of
    u g - g', and noise the variance of g without (mean of g' + mean of u g) / 2 times u.
    """
    best, least = np.full((4, u.shape[1]), np.inf), np.full(u.shape[1], np.inf)
    for t in grid:
        wave = np.exp(1j * t * u)
        means = wave.mean(axis=0), (u * wave).mean(axis=0), (wave * wave).mean(axis=0)
        for phase in PHASES:
            turn = np.exp(1j * phase)
            first, product, double = means[0] * turn, (means[1] * turn).imag, (means[2] * turn**2).real
            slope, mean = t * first.real, first.imag
            half = (slope + product) / 2
            noise = np.maximum((1 - double) / 2 - mean**2 - 2 * half * product + half**2, 1e-9 * t**2)
            size = np.sqrt(np.maximum((product - slope) ** 2 - noise / len(u), 1e-4 * noise / len(u)))
            better = noise / size**2 < CLEARLY_LESS * least
            least = np.where(better, noise / size**2, least)
            best = np.where(better, np.stack(np.broadcast_arrays(t, phase, noise, size)), best)
    return best
