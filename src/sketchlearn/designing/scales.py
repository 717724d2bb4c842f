"""Published estimates of the scale of a frequency law, to compare with what `design` chooses."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike
from scipy.optimize import curve_fit

from sketchlearn.frequencies import AdaptedRadius
from sketchlearn.operators import FourierFeatures

BLOCKS = 30


def keriven_scale(sample: ArrayLike, *, n_frequencies: int = 500, rounds: int = 5, seed: int = 0) -> float:
    """Scale from the decay of the sketch's modulus with frequency (Keriven et al. 2018, section 3.3).

    A small sketch is sorted by |omega| and cut into blocks; a Gaussian is fitted to the largest modulus of each block,
    and frequencies are drawn anew for its width.

    >>> rows = np.random.default_rng(0).standard_normal((2000, 3)) * 5
    >>> bool(5 < keriven_scale(rows) < 20)
    True
    """
    rows = np.asarray(sample, np.float64)
    rows = rows[:5000] - rows.mean(axis=0)
    d = rows.shape[1]
    scale = float(np.sqrt(np.mean(np.sum(rows**2, axis=1)))) or 1.0
    for round_ in range(rounds):
        law = AdaptedRadius(scale)
        operator = FourierFeatures(d, n_frequencies, law=law, seed=seed + round_)
        radius = np.sqrt(np.sum(operator.frequencies**2, axis=0))
        modulus = np.abs(operator.sketch(rows).mean)
        blocks = np.array_split(np.argsort(radius), BLOCKS)
        peaks = [block[np.argmax(modulus[block])] for block in blocks if len(block)]
        (variance,), _ = curve_fit(
            lambda r, v: np.exp(-0.5 * r * r * v),
            radius[peaks],
            modulus[peaks],
            p0=[scale**2 / d],
            bounds=(1e-12, np.inf),
        )
        scale = float(np.sqrt(d * variance))
    return scale


def byrne_scale(sample: ArrayLike, n_components: int) -> float:
    """Scale from the total variance alone, for k clusters whose centers have variance 1.5^2 k^(2/d) times their own.

    That is the model of the experiments of Byrne et al. (arXiv 1712.02849).

    >>> round(byrne_scale([[0.0, 0.0], [2.0, 2.0]], 4), 3)
    0.447
    """
    rows = np.asarray(sample, np.float64)
    d = rows.shape[1]
    return float(np.sqrt(np.sum(rows.var(axis=0)) / (1 + 2.25 * n_components ** (2 / d))))
