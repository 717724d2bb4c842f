"""Moments of order 2 and 4 of rows with noise of a known shape, as symmetric forms: tensors' different entries."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double

Index = NDArray[np.intp]
BISECTIONS = 50


class Forms:
    """Symmetric tensors of d columns and one degree: entries with sqrt(multinomial) weights.

    Inner products are those of the whole tensors, so that <powers(x), powers(y)> = (x . y)^degree.

    >>> quadratic = forms(2, 2)
    >>> x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    >>> (quadratic.powers(x) @ quadratic.powers(y)).round(6), (x @ y) ** 2
    (np.float64(121.0), np.float64(121.0))
    """

    def __init__(self, d: int, degree: int) -> None:
        self.d, self.degree = d, degree
        self.indices: Index = np.array(list(combinations_with_replacement(range(d), degree)), np.intp)
        self.counts = np.stack([np.sum(self.indices == m, axis=1) for m in range(d)], axis=1)
        factorials = np.array([math.factorial(c) for c in range(degree + 1)], np.float64)
        self.weights = np.sqrt(factorials[degree] / np.prod(factorials[self.counts], axis=1))

    def __len__(self) -> int:
        return len(self.weights)

    def powers(self, x: Double) -> Double:
        """x (x) x (x) ... of vectors (..., d)."""
        return np.asarray(self.weights * np.prod(x[..., self.indices], axis=-1))

    def vector(self, tensor: Double) -> Double:
        """A symmetric tensor (d, d, ...) as a vector."""
        return np.asarray(self.weights * tensor[tuple(self.indices.T)])

    def tensor(self, vector: Double) -> Double:
        """The symmetric tensor (d, d, ...) of a vector."""
        place = {tuple(row): k for k, row in enumerate(self.indices.tolist())}
        every = np.sort(np.indices((self.d,) * self.degree).reshape(self.degree, -1).T, axis=1)
        where = np.array([place[tuple(row)] for row in every.tolist()])
        return np.asarray((vector / self.weights)[where].reshape((self.d,) * self.degree))

    @cached_property
    def _without(self) -> tuple[Index, Double]:
        """For each entry and column: which entry of the degree below is left, and its factor in a derivative."""
        lower = forms(self.d, self.degree - 1)
        place = {tuple(row): k for k, row in enumerate(lower.counts.tolist())}
        one = np.eye(self.d, dtype=int)
        where = [[place.get(tuple(row), 0) for row in (counts - one).tolist()] for counts in self.counts]
        left = np.array(where, np.intp)
        return left, self.counts * self.weights[:, None] / lower.weights[left]

    def basis(self, vectors: Double) -> Double:
        """All forms of the spans of orthonormal columns (..., d, p), as orthonormal columns (..., entries, n)."""
        nodes, to_basis = _nodes(vectors.shape[-1], self.degree)
        return np.asarray(np.swapaxes(self.powers(nodes @ np.swapaxes(vectors, -1, -2)), -1, -2) @ to_basis)

    def slopes(self, vectors: Double, coefficients: Double) -> Double:
        """Derivatives of basis(vectors) @ coefficients (..., n) along each entry of vectors: (..., entries, d, p)."""
        nodes, to_basis = _nodes(vectors.shape[-1], self.degree)
        of_nodes = coefficients @ to_basis.T
        lower = forms(self.d, self.degree - 1).powers(nodes @ np.swapaxes(vectors, -1, -2))
        parts = np.swapaxes(of_nodes[..., None] * nodes, -1, -2) @ lower  # (..., p, entries of the degree below)
        left, factors = self._without
        return np.moveaxis(parts[..., left] * factors, -3, -1)  # degree * sym(parts (x) e_m) for each column m


@cache
def forms(d: int, degree: int) -> Forms:
    """The forms of d columns and a degree."""
    return Forms(d, degree)


@cache
def _nodes(p: int, degree: int) -> tuple[Double, Double]:
    """Vectors (n, p) whose powers span all forms, and the matrix that turns those powers into an orthonormal basis."""
    own = Forms(p, degree)
    if p == 2:
        angles = np.pi * np.arange(len(own)) / len(own)
        nodes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:  # integer points with the sum `degree`: the unisolvent lattice
        nodes = own.counts / np.linalg.norm(own.counts, axis=1, keepdims=True)
    return nodes, np.asarray(np.linalg.inv(own.powers(nodes)).T, np.float64)


@dataclass(frozen=True)
class FourthMoments:
    """What is known of x = y + e, e Gaussian with the covariance noise * s, about y.

    E (v . x)^4 = E (v . y)^4 + 6 s noise(v) second(v) - 3 s^2 noise(v)^2, where second(v) = E (v . x)^2.
    """

    second: Double  # (d, d), of x
    fourth: Double  # of x, as a vector of forms(d, 4)
    noise: Double  # (d, d)
    most: float  # the largest s that leaves y a variance in all directions

    @property
    def d(self) -> int:
        return len(self.second)

    @cached_property
    def per_noise(self) -> Double:
        """What s adds to the fourth moments, but for its square."""
        return 6 * paired(self.second, self.noise)

    @cached_property
    def per_square(self) -> Double:
        """What s^2 takes away from them."""
        return 3 * paired(self.noise, self.noise)

    def without(self, s: float) -> Double:
        """The fourth moments of y."""
        return np.asarray(self.fourth - s * self.per_noise + s**2 * self.per_square)

    def noise_beneath(self, n_vanishing: int) -> float:
        """The s for which the smallest mean squares of quadratic forms, n_vanishing of them, are zero on average."""
        low, high = 0.0, self.most
        for _ in range(BISECTIONS if n_vanishing else 0):
            s = (low + high) / 2
            left = np.linalg.eigvalsh(flattened(self.without(s), self.d))[:n_vanishing]
            low, high = (s, high) if np.mean(left) > 0 else (low, s)
        return low


def paired(a: Double, b: Double) -> Double:
    """sym(a (x) b) of two symmetric matrices, as a vector of forms(d, 4)."""
    tensor = a[:, :, None, None] * b + b[:, :, None, None] * a
    return forms(len(a), 4).vector((tensor + tensor.transpose(0, 2, 1, 3) + tensor.transpose(0, 3, 2, 1)) / 6)


def flattened(fourth: Double, d: int) -> Double:
    """Fourth moments (..., entries) as matrices of mean products of quadratic forms (..., n, n)."""
    two, four = forms(d, 2), forms(d, 4)
    place = {tuple(row): k for k, row in enumerate(four.counts.tolist())}
    sums = two.counts[:, None] + two.counts
    where = np.array([[place[tuple(row)] for row in rows] for rows in sums.tolist()])
    return np.asarray(fourth[..., where] * (two.weights[:, None] * two.weights / four.weights[where]))
