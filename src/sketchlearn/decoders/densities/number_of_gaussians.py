"""How many Gaussians explain a sketch: diagonal ones or, where those do not fit or take more, full ones."""

from __future__ import annotations

import numpy as np
from scipy.linalg import solve_triangular

from sketchlearn.decoders.densities.component_path import ComponentPath, component_path, n_affordable
from sketchlearn.decoders.densities.gaussian_mixture_fit import PASSING_FIT_TEST
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.refinements.gauss_newton import covariance_factor, residual
from sketchlearn.models import DiagonalGaussian, FullGaussian, Mixture

MOST_FULL_PARAMETERS = 420  # More would take longer than all else.


def number_of_gaussians(problem: Problem, density: Mixture, n_records: float, most: int) -> ComponentPath:
    """The path of the covariances that explain the sketch with the least criterion; if none do, the nearest.

    Diagonal Gaussians explain records of full ones, too, if those are few, but it takes more of them than there are
    clusters. So full ones are tried unless one diagonal Gaussian is enough.
    """
    d = problem.plain.n_features
    diagonal = component_path(problem, density, DiagonalGaussian(), n_records, most)
    if d == 1 or (diagonal.n_components == 1 and passes(diagonal)):
        return diagonal
    model = FullGaussian()
    affordable = min(n_affordable(problem, model, MOST_FULL_PARAMETERS), diagonal.n_components)
    if affordable < diagonal.n_components and passes(diagonal):
        return diagonal
    full = component_path(problem, density, model, n_records, max(affordable, 1))
    if passes(full) and passes(diagonal):
        return full if _criterion(full, full) < _criterion(diagonal, full) else diagonal
    return min(full, diagonal, key=lambda path: path.misfit)


def passes(path: ComponentPath) -> bool:
    """Whether the sketch agrees with records drawn from the chosen mixture."""
    return path.misfit <= PASSING_FIT_TEST


def _criterion(path: ComponentPath, other: ComponentPath) -> float:
    """The criterion of a path's choice where that of another is measured."""
    factor = covariance_factor(other.target, other.chosen.mixture)
    left = residual(
        other.target, path.chosen.mixture, lambda parts: np.asarray(solve_triangular(factor, parts, lower=True))
    )
    return float(left @ left + np.log(path.n_records) * path.chosen.n_parameters)
