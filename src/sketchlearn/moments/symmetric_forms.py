"""Homogeneous forms of some degree: symmetric tensors as vectors of their different entries."""

from __future__ import annotations

import math
from functools import cache, cached_property
from itertools import combinations_with_replacement

import numpy as np
from numpy.typing import NDArray

Double = NDArray[np.float64]
Index = NDArray[np.intp]


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

    def derivative(self, lower: Double) -> Double:
        """degree * sym(lower (x) e_m) for each column m, as (..., entries, d); lower is of the degree below."""
        left, factors = self._without
        return np.asarray(lower[..., left] * factors)

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
        return np.moveaxis(self.derivative(parts), -3, -1)


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
