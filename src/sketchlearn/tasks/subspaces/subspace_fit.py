"""Subspaces whose forms add up to given moments: variable projection, from many starts at once."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.moments.fourth_moments import FourthMoments, flattened, forms

LONGEST_STEP = 0.7  # radians that one basis may turn in a step
RELATIVE_RIDGE = 1e-10  # Two subspaces may share forms, which makes the normal equations singular.
LEAST_GAIN = 1e-9  # A step that lowers the cost by a smaller share ends the descent.
LEAST_MEAN_SQUARE = 1e-2  # of a quadratic form, relative to the largest or to 1: no form weighs more than such a one


@dataclass(frozen=True)
class Union:
    """Subspaces, one set per start."""

    bases: list[Double]  # per subspace (starts, d, p): orthonormal columns
    noise: Double  # (starts,), the variance of noise
    cost: Double  # (starts,), the squared residual

    def only(self, which: NDArray[np.intp]) -> Union:
        return Union([basis[which] for basis in self.bases], self.noise[which], self.cost[which])


@dataclass(frozen=True)
class Linearised:
    """What forms of the subspaces leave of the moments, its derivatives, and the coefficients of the forms."""

    residual: Double  # (starts, moments)
    jacobian: Double  # (starts, moments, parameters)
    forms: list[list[Double]]  # coefficients of fourth and of second moments, one array per subspace


class SubspaceFit:
    """Least squares of moments: those of order 4 and 2 are any forms of the subspaces, plus noise.

    A metric is a matrix that residuals of order 4 are multiplied by.
    """

    def __init__(self, moments: FourthMoments, metric: Double | None = None) -> None:
        self._most_noise = moments.most
        two, four = forms(moments.d, 2), forms(moments.d, 4)
        metric = np.eye(len(four)) if metric is None else metric
        fourth, per_noise, per_square = metric @ moments.fourth, metric @ moments.per_noise, metric @ moments.per_square
        second, noise = two.vector(moments.second), two.vector(moments.noise)
        # per order: its forms, the metric, the moments in it, and what noise and its square add to them
        self._orders = [
            (four, metric, fourth, per_noise, per_square),
            (two, np.eye(len(two)), second, noise, np.zeros(len(two))),
        ]

    def linearised(self, bases: Sequence[Double], noise: Double) -> Linearised:
        """Residuals and derivatives at some subspaces."""
        s, residuals, jacobians, coefficients = noise[:, None], [], [], []
        for own, metric, values, per_noise, per_square in self._orders:
            target = values - s * per_noise + s**2 * per_square
            blocks = [metric @ own.basis(basis) for basis in bases]
            project = Projection(np.concatenate(blocks, axis=2))
            every = project.coefficients(target[..., None])
            each = np.split(every[..., 0], np.cumsum([block.shape[2] for block in blocks])[:-1], axis=1)
            slopes = [own.slopes(basis, c).reshape(len(s), len(own), -1) for basis, c in zip(bases, each, strict=True)]
            along_noise = (per_noise - 2 * s * per_square)[..., None]
            jacobian = -np.concatenate([metric @ np.concatenate(slopes, axis=2), along_noise], axis=2)
            residuals.append(target - (project.columns @ every)[..., 0])
            jacobians.append(project.rest(jacobian))
            coefficients.append(each)
        return Linearised(np.concatenate(residuals, axis=1), np.concatenate(jacobians, axis=1), coefficients)

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
            other_noise = np.clip(noise + step[:, -1], 0.0, self._most_noise)
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
        self._inverse = np.linalg.inv(gram + (RELATIVE_RIDGE * size)[:, None, None] * np.eye(gram.shape[1]))

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
    inverse = (vectors / np.sqrt(np.maximum(values, LEAST_MEAN_SQUARE * max(values[-1], 1.0)))) @ vectors.T
    each = inverse @ flattened(np.eye(len(forms(d, 4))), d) @ inverse
    return np.asarray(np.linalg.qr(each.reshape(len(each), -1).T)[1])


def _moved(bases: Sequence[Double], step: Double) -> list[Double]:
    moved, ends = [], np.cumsum([basis[0].size for basis in bases])
    for basis, part in zip(bases, np.split(step, ends[:-1], axis=1), strict=True):
        away = part.reshape(basis.shape)
        length = np.linalg.norm(away, axis=(1, 2), keepdims=True)
        moved.append(np.linalg.qr(basis + away * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300)))[0])
    return moved
