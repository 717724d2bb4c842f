"""Draws that fill the space evenly: means over them have less noise than over random ones."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double, Mixture, Single

# The rank-1 lattice of 2^20 points of Cools, Kuo and Nuyens (SIAM Journal on Scientific Computing 28, 2006), of which
# the first 2^m points, in the order of reversed bits, are lattices, too. Columns beyond them are random.
GENERATORS = (
    *(1, 182667, 469891, 498753, 110745, 446247, 250185, 118627, 245333, 283199, 408519, 391023, 246327, 126539),
    *(399185, 461527, 300343, 69681, 516695, 436179, 106383, 238523, 413283, 70841, 47719, 300129, 113029, 123925),
    *(410745, 211325, 17489, 511893),
)
REVERSALS = ((1, 0x55555555), (2, 0x33333333), (4, 0x0F0F0F0F), (8, 0x00FF00FF), (16, 0x0000FFFF))


def even_normals(n_columns: int, n: int, rng: np.random.Generator) -> Single:
    """n points of the standard normal law, as columns (n_columns, n); any first few of them are even, too.

    >>> points = even_normals(3, 1024, np.random.default_rng(0))
    >>> bool(np.abs(np.mean(points, axis=1)).max() < 0.01)  # that of random ones is about 0.03
    True
    """
    half = (n_columns + 1) // 2
    uniform = _lattice(2 * half, n, rng)
    radius = np.sqrt(np.float32(-2) * np.log(uniform[:half]))
    angle = np.float32(2 * np.pi) * uniform[half:]
    return np.concatenate([radius * np.cos(angle), radius * np.sin(angle)])[:n_columns]


def even_rows(mixture: Mixture, n: float, rng: np.random.Generator) -> Double:
    """About n rows of a mixture of Gaussians, in pairs that mirror each other at their component's location."""
    counts = np.ceil(shares_of(mixture) * n / 2).astype(int)
    points = even_normals(mixture.locations.shape[1], int(counts.max()), rng)
    away = [factor @ points[:, :count] for factor, count in zip(factors_of(mixture), counts, strict=True)]
    sides = (
        location + side * part.T for location, part in zip(mixture.locations, away, strict=True) for side in (1, -1)
    )
    return np.concatenate(list(sides))


def shares_of(mixture: Mixture) -> Double:
    """The weights, none of them negative, made to sum to one."""
    weights = np.maximum(mixture.weights, 0)
    return np.asarray(weights / weights.sum())


def factors_of(mixture: Mixture) -> Double:
    """A matrix (d, d) for each component, whose product with its transpose is the covariance."""
    values, vectors = np.linalg.eigh(mixture.covariances())
    return np.asarray(vectors * np.sqrt(np.maximum(values, 0))[:, None, :])


def _lattice(n_columns: int, n: int, rng: np.random.Generator) -> Single:
    """Points of a lattice, moved at random: numbers in (0, 1] of 24 bits."""
    places = _reversed_bits(n)
    found = np.empty((n_columns, n), np.float32)
    for row, generator in zip(found, GENERATORS, strict=False):
        turned = places * np.uint32(generator) + rng.integers(2**32, dtype=np.uint32)  # modulo 2^32
        row[:] = turned >> np.uint32(8)
    found[len(GENERATORS) :] = rng.integers(2**24, size=found[len(GENERATORS) :].shape, dtype=np.uint32)
    found += np.float32(0.5)
    found *= np.float32(2.0**-24)
    return found


def _reversed_bits(n: int) -> NDArray[np.uint32]:
    """The numbers below n with the order of their 32 bits reversed."""
    found = np.arange(n, dtype=np.uint32)
    for shift, mask in REVERSALS:
        found = ((found >> np.uint32(shift)) & np.uint32(mask)) | ((found & np.uint32(mask)) << np.uint32(shift))
    return found
