"""A matrix of low rank, plus a multiple of the identity, from squares of random projections."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double, Single

MOST_ITERATIONS, MOST_GRADIENT_STEPS = 40, 30  # Gauss-Newton steps, and conjugate gradient steps of each
GRADIENT_TOLERANCE = 1e-2  # squared residual that ends the gradient steps, relative to that at their start
COST_TOLERANCE = 1e-4  # A smaller relative decrease of the cost is not worth another iteration.
EXACT_RESIDUAL = 1e-10  # relative to the squared measurements: float32 leaves as much
SHORTEST_STEP = 1e-3


def low_rank(
    directions: NDArray[np.floating], values: Double, rank: int, progress: Callable[[str], None] | None = None
) -> tuple[Double, float, float]:
    """The S = U U' + s I with omega_j' S omega_j nearest to value j, for directions (d, m) of length sqrt(d).

    Returns U (d, rank), s, and the root mean square of what they leave of the values. The start is spectral: the mean
    of (value - mean) omega omega' is 2 d / (d + 2) times S without its trace. Then Gauss-Newton steps, solved by
    conjugate gradients.

    >>> rng = np.random.default_rng(0)
    >>> omega = rng.standard_normal((6, 60))
    >>> omega *= np.sqrt(6) / np.linalg.norm(omega, axis=0)
    >>> factors, floor, _ = low_rank(omega, (np.arange(6) @ omega) ** 2 + 12.0, 1)
    >>> np.abs(factors[:, 0]).round(2).tolist(), round(floor, 3)
    ([0.0, 1.0, 2.0, 3.0, 4.0, 5.0], 2.0)
    """
    d, m = directions.shape
    scale = float(np.max(np.abs(values))) or 1.0
    omega, z = directions.astype(np.float32), values / scale
    u, offset = _start(omega, z, rank)
    cost = float(np.finfo(np.float64).max)
    for iteration in range(1, MOST_ITERATIONS + 1):
        t, left = _left(omega, z, u, offset)
        before, cost = cost, float(left @ left)
        if progress is not None:
            progress(f"iteration {iteration}, residual {scale * np.sqrt(cost / m):.4g}")
        if before - cost <= COST_TOLERANCE * before or cost <= EXACT_RESIDUAL * float(z @ z):
            break
        du, shift = _step(omega, t, left)
        length = 1.0
        while length > SHORTEST_STEP:
            new, moved = u + np.float32(length) * du, offset + length * shift
            _, left = _left(omega, z, new, moved)
            if float(left @ left) < cost:
                u, offset = new, moved
                break
            length /= 2
    return u.T.astype(np.float64) * np.sqrt(scale), offset * scale / d, scale * np.sqrt(cost / m)


def _left(omega: Single, z: Double, u: Single, offset: float) -> tuple[Single, Double]:
    """U' omega_j, and what the squares of its lengths leave of the values."""
    t = u @ omega
    return t, z - np.sum(t * t, axis=0, dtype=np.float64) - offset


def _start(omega: Single, z: Double, rank: int) -> tuple[Single, float]:
    d, m = omega.shape
    mean = float(z.mean())
    matrix = ((omega * (z - mean).astype(np.float32)) @ omega.T).astype(np.float64) * ((d + 2) / (2 * d * m))
    values, vectors = np.linalg.eigh(matrix)
    sizes = np.maximum(values[-rank:], 1e-3 * max(values[-1], 1e-12))
    offset = max(mean - float(sizes.sum()), 0.0)
    return np.ascontiguousarray((vectors[:, -rank:] * np.sqrt(sizes)).T, np.float32), offset


def _step(omega: Single, t: Single, left: Double) -> tuple[Single, float]:
    """The Gauss-Newton step in U' and in the offset, whose unit is chosen so that both are alike in size."""
    unit = 2 * float(np.sqrt(np.mean(t * t))) or 1.0

    def backward(y: Single) -> tuple[Single, float]:
        return np.asarray(2 * (t * y) @ omega.T, np.float32), unit * float(np.sum(y, dtype=np.float64))

    def square(r: Single, rx: float) -> float:
        return float(np.sum(r * r, dtype=np.float64)) + rx * rx

    r, rx = backward(left.astype(np.float32))
    v, x, p, px = np.zeros_like(r), 0.0, r.copy(), rx
    first = size = square(r, rx)
    for _ in range(MOST_GRADIENT_STEPS):
        if size <= GRADIENT_TOLERANCE * first:
            break
        y = np.asarray(2 * np.sum(t * (p @ omega), axis=0) + np.float32(unit * px), np.float32)
        g, gx = backward(y)
        length = size / max(float(np.sum(y * y, dtype=np.float64)), 1e-300)
        v, x, r, rx = v + np.float32(length) * p, x + length * px, r - np.float32(length) * g, rx - length * gx
        before, size = size, square(r, rx)
        p, px = r + np.float32(size / before) * p, rx + size / before * px
    return v, unit * x
