"""Kernels of laws by quadrature over the length of their frequencies."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np
from scipy.special import hyp0f1

from sketchlearn.randomness import Floats

LONGEST = 200.0  # the largest distance, for densities over lengths of about 1, that the quadrature is used at
NODES = 16  # of each panel, in which the fastest wave turns by 8 radians at most


def radial_kernel(
    distances: Floats, n_features: int, density: Callable[[Floats], Floats], shortest: float, longest: float
) -> Floats:
    """The mean of cos(omega . x), |x| = distance, over random directions and lengths of this unnormalised density.

    In d dimensions, the mean over directions is 0F1(d/2; -(length distance)^2 / 4).

    >>> exact = np.exp(-np.array([0.0, 1.0, 3.0]) ** 2 / 2)
    >>> bool(np.allclose(radial_kernel(np.array([0.0, 1.0, 3.0]), 2, lambda r: r * np.exp(-r * r / 2), 0, 9), exact))
    True
    """
    farthest = float(np.max(distances, initial=0.0))
    nodes, weights = np.polynomial.legendre.leggauss(NODES)
    edges = np.linspace(shortest, longest, 9 + math.ceil((longest - shortest) * farthest / 8))
    lengths = (edges[:-1, None] + (nodes + 1) / 2 * (edges[1] - edges[0])).ravel()
    weights = np.tile(weights, len(edges) - 1) * density(lengths)
    result = np.zeros(np.shape(distances))
    for length, weight in zip(lengths, weights / weights.sum(), strict=True):
        result += weight * hyp0f1(n_features / 2, -((length * distances) ** 2) / 4)
    return result
