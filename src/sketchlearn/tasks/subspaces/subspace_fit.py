"""Subspaces whose forms add up to given moments: variable projection, from many starts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.moments.fourth_moments import FourthMoments, flattened, forms

Double = NDArray[np.float64]

LONGEST = 0.7  # of a step of one basis, in radians
RIDGE = 1e-10  # where two subspaces share forms
LEAST_GAIN = 1e-9
FLATTEST = 1e-2  # quadratic forms with a smaller mean square, of the largest or of 1, weigh no more


@dataclass(frozen=True)
class Union:
    """Subspaces, one set per start.

    Attributes
    ----------
    bases : per subspace an array (starts, d, p) of orthonormal columns.
    noise : array (starts,), the variance of noise.
    cost : array (starts,), the squared residual.
    """

    bases: list[Double]
    noise: Double
    cost: Double

    def only(self, which: NDArray[np.intp]) -> Union:
        return Union([basis[which] for basis in self.bases], self.noise[which], self.cost[which])


@dataclass(frozen=True)
class Linearised:
    """Residuals (starts, n), without all that forms of the subspaces explain, and their derivatives, likewise.

    `forms` has the coefficients of fourth and of second moments in the bases' own forms, one array per subspace.
    """

    residual: Double
    jacobian: Double
    forms: tuple[list[Double], list[Double]]


@dataclass(frozen=True)
class _Order:
    """Moments of one order, in their metric, and what noise adds to them."""

    degree: int
    metric: Double
    values: Double
    per_noise: Double
    per_square: Double


class SubspaceFit:
    """Least squares of moments: those of order 4 and 2 are any forms of the subspaces, plus noise.

    A metric is a matrix that residuals of order 4 are multiplied by.
    """

    def __init__(self, moments: FourthMoments, metric: Double | None = None) -> None:
        self.moments = moments
        two, four = forms(moments.d, 2), forms(moments.d, 4)
        metric = np.eye(len(four)) if metric is None else metric
        fourth = (metric @ part for part in (moments.fourth, moments.per_noise, moments.per_square))
        second, noise = two.vector(moments.second), two.vector(moments.noise)
        self._orders = [_Order(4, metric, *fourth), _Order(2, np.eye(len(two)), second, noise, np.zeros(len(two)))]

    def linearised(self, bases: Sequence[Double], noise: Double) -> Linearised:
        """Residuals and derivatives at some subspaces."""
        parts = [self._linearised(order, bases, noise) for order in self._orders]
        residual, jacobian = (np.concatenate(both, axis=1) for both in zip(*(part[:2] for part in parts), strict=True))
        return Linearised(residual, jacobian, (parts[0][2], parts[1][2]))

    def _linearised(self, order: _Order, bases: Sequence[Double], noise: Double) -> tuple[Double, Double, list[Double]]:
        own, s = forms(self.moments.d, order.degree), noise[:, None]
        target = order.values - s * order.per_noise + s**2 * order.per_square
        blocks = [order.metric @ own.basis(basis) for basis in bases]
        columns = np.concatenate(blocks, axis=2)
        project = Projection(columns)
        coefficients = project.coefficients(target[..., None])[..., 0]
        each = np.split(coefficients, np.cumsum([block.shape[2] for block in blocks])[:-1], axis=1)
        slopes = [own.slopes(basis, c).reshape(len(s), len(own), -1) for basis, c in zip(bases, each, strict=True)]
        along_noise = (order.per_noise - 2 * s * order.per_square)[..., None]
        jacobian = -np.concatenate([order.metric @ np.concatenate(slopes, axis=2), along_noise], axis=2)
        residual = target - (columns @ coefficients[..., None])[..., 0]
        return residual, project.rest(jacobian), each

    def descend(self, start: Union, n_steps: int) -> Union:
        """Levenberg-Marquardt steps of all starts, each with its own damping."""
        bases, noise = list(start.bases), start.noise
        now = self.linearised(bases, noise)
        residual, jacobian = now.residual, now.jacobian
        cost, damping = np.sum(residual**2, axis=1), np.full(len(noise), 1e-2)
        for _ in range(n_steps):
            hessian = np.swapaxes(jacobian, 1, 2) @ jacobian
            scale = damping * np.maximum(np.trace(hessian, axis1=1, axis2=2) / hessian.shape[1], 1e-300)
            slope = np.swapaxes(jacobian, 1, 2) @ residual[..., None]
            step = -np.linalg.solve(hessian + scale[:, None, None] * np.eye(hessian.shape[1]), slope)[..., 0]
            others = _moved(bases, step[:, :-1])
            other_noise = np.clip(noise + step[:, -1], 0.0, self.moments.most)
            new = self.linearised(others, other_noise)
            new_cost = np.sum(new.residual**2, axis=1)
            better = new_cost < cost
            still = better & (cost - new_cost < LEAST_GAIN * cost) | (damping > 1e5)
            chosen = better[:, None, None]
            bases = [np.where(chosen, other, basis) for other, basis in zip(others, bases, strict=True)]
            noise, cost = np.where(better, other_noise, noise), np.where(better, new_cost, cost)
            residual = np.where(better[:, None], new.residual, residual)
            jacobian = np.where(chosen, new.jacobian, jacobian)
            damping = np.clip(np.where(better, damping / 5, damping * 4), 1e-9, 1e6)
            if np.all(still):
                break
        return Union(bases, noise, cost)


class Projection:
    """Least squares on columns (starts, n, m), of which some may be alike."""

    def __init__(self, columns: Double) -> None:
        self.columns = columns
        gram = np.swapaxes(columns, 1, 2) @ columns
        size = np.trace(gram, axis1=1, axis2=2) / gram.shape[1]
        self._inverse = np.linalg.inv(gram + (RIDGE * size)[:, None, None] * np.eye(gram.shape[1]))

    def coefficients(self, values: Double) -> Double:
        return np.asarray(self._inverse @ (np.swapaxes(self.columns, 1, 2) @ values))

    def rest(self, values: Double) -> Double:
        return np.asarray(values - self.columns @ self.coefficients(values))


def relative(moments: FourthMoments, noise: float) -> Double:
    """The metric in which each quadratic form counts by its own mean square.

    Forms that vanish on the subspaces then count most, and subspaces whose forms are independent are orthogonal.
    """
    d = moments.d
    values, vectors = np.linalg.eigh(flattened(moments.without(noise), d))
    inverse = (vectors / np.sqrt(np.maximum(values, FLATTEST * max(values[-1], 1.0)))) @ vectors.T
    each = inverse @ flattened(np.eye(len(forms(d, 4))), d) @ inverse
    return np.asarray(np.linalg.qr(each.reshape(len(each), -1).T)[1])


def _moved(bases: Sequence[Double], step: Double) -> list[Double]:
    moved, first = [], 0
    for basis in bases:
        size = basis.shape[1] * basis.shape[2]
        away = step[:, first : first + size].reshape(basis.shape)
        length = np.linalg.norm(away, axis=(1, 2), keepdims=True)
        moved.append(np.linalg.qr(basis + away * np.minimum(1.0, LONGEST / np.maximum(length, 1e-300)))[0])
        first += size
    return moved
