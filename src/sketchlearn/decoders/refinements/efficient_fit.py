"""What a sketch tells at most of a mixture that explains it: residuals weighed by the covariance of their errors.

A fit follows the sketch z by d theta = (J'VJ)^-1 J'V dz, J = d phi / d theta. With V the inverse of the covariance of z
its errors are least. Of many frequencies, V is that of blocks, as if blocks were independent of each other.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.refinements.gauss_newton import CorrelatedErrors, correlated_errors, derivatives, moved
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import Double, Mixture

BLOCK = 500  # frequencies, for clusters: half of 1000 had 1.2 % more variance, in half of the time
ONE_BLOCK = 1.2  # So many times as large, one alone is not cut.
LEAST_NUMBERS_PER_PARAMETER = 2.0
MOST_PRODUCTS = 3e9  # numbers times squared parameters: more would take seconds
RELATIVE_RIDGE = 1e-10  # of the normal matrix whose diagonal is one
LEAST_RELATIVE_SQUARE = 1e-24  # of what a parameter changes: components that came to nothing change less
MOST_STEPS = 12
SETTLED, NEARLY_SETTLED = 1e-4, 0.02  # mean square of a step, in units of the parameters' deviations
MOST_LEFT = 1.5  # squared residual per degree of freedom: with more, records are not of the mixture


@dataclass(frozen=True)
class EfficientSteps:
    """Small steps of the parameters of a mixture that fit it to a target, along the coordinates of `derivatives`."""

    target: Target
    blocks: tuple[tuple[NDArray[np.int64], CorrelatedErrors], ...]  # places of parts of values, and their whitening
    slopes: Double  # how parameters follow the parts of values, (2 m, coordinates)
    weighed: Double  # V J, (2 m, coordinates)

    @classmethod
    def of(cls, target: Target, mixture: Mixture, block: int) -> EfficientSteps | None:
        """Those near a mixture; None where the covariance of errors is not known, or would take long."""
        p = mixture.model.n_parameters(len(mixture), target.n_features)
        enough = target.n_numbers >= LEAST_NUMBERS_PER_PARAMETER * p and target.n_numbers * p**2 <= MOST_PRODUCTS
        if not target.whole or target.released or not enough:
            return None
        jacobian, m = derivatives(target, mixture), len(target)
        blocks, weighed = [], np.empty_like(jacobian)
        try:
            for which in np.array_split(np.arange(m), 1 if m <= ONE_BLOCK * block else -(-m // block)):
                places = np.concatenate([which, m + which])
                errors = correlated_errors(target.some(which), mixture)
                weighed[places] = errors.weighed(jacobian[places])
                blocks.append((places, errors))
            follow = _inverse_keeping_sum(jacobian.T @ weighed, mixture)
        except LinAlgError:
            return None
        return cls(target, tuple(blocks), weighed @ follow, weighed)

    def step(self, mixture: Mixture) -> tuple[Mixture, float]:
        """The mixture after a step, and the step's mean square in units of the parameters' deviations."""
        left = self._left(mixture)
        step = left @ self.slopes
        other = moved(mixture, step, free=True)
        other = replace(other, weights=other.weights / other.weights.sum())
        return other, float(left @ self.weighed @ step) / len(step)

    def leaves(self, mixture: Mixture) -> float:
        """The squared residual of a mixture per degree of freedom, 1 or less on average if records are of it."""
        left = self._left(mixture)
        cost = sum(float(np.sum(errors(left[places]) ** 2)) for places, errors in self.blocks)
        return cost / float(len(left) - self.slopes.shape[1])

    def _left(self, mixture: Mixture) -> Double:
        left = self.target.values - mixture.characteristic(self.target.frequencies)
        return np.concatenate([left.real, left.imag])


def efficient(target: Target, mixture: Mixture, block: int = BLOCK) -> Mixture | None:
    """The mixture nearby whose errors are least; None where it is not found, or records are not of such a mixture."""
    found = replace(mixture, weights=mixture.weights / mixture.weights.sum())
    with one_blas_thread():
        steps = EfficientSteps.of(target, found, block)
        if steps is None:
            return None
        for _ in range(MOST_STEPS):
            found, size = steps.step(found)
            if not SETTLED < size < np.inf:
                break
        return found if size <= SETTLED and steps.leaves(found) <= MOST_LEFT else None


def slopes_of_efficient(target: Target, mixture: Mixture, block: int = BLOCK) -> Double | None:
    """How the parameters of a mixture, if it is an efficient fit, follow the parts of values; None if it is not."""
    steps = EfficientSteps.of(target, mixture, block)
    return None if steps is None or steps.step(mixture)[1] > NEARLY_SETTLED else steps.slopes


def _inverse_keeping_sum(normal: Double, mixture: Mixture) -> Double:
    """The inverse of J'VJ along the steps that keep the sum of weights; an error where some steps change nothing."""
    squares = np.diag(normal)
    if not squares.min() > LEAST_RELATIVE_SQUARE * squares.max():
        raise LinAlgError
    scale = 1 / np.sqrt(squares)
    scaled = normal * scale[:, None] * scale
    scaled[np.diag_indices_from(scaled)] += RELATIVE_RIDGE
    found = cho_solve(cho_factor(scaled), np.eye(len(scaled))) * scale[:, None] * scale
    per = 1 + mixture.locations.shape[1] if mixture.model.tied else len(found) // len(mixture)
    of_sum = found[:, : len(mixture) * per : per] @ mixture.weights
    across = float(of_sum[: len(mixture) * per : per] @ mixture.weights)
    return np.asarray(found - np.outer(of_sum, of_sum) / across)
