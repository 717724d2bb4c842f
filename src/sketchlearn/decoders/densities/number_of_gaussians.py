"""How many Gaussians explain a sketch: diagonal ones or, where those do not fit or take more, full ones."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from sketchlearn.decoders.densities.component_path import ComponentPath, component_path, n_affordable
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.refinements.gauss_newton import correlated_errors, residual
from sketchlearn.models import DiagonalGaussian, FullGaussian, Mixture

MOST_FULL_PARAMETERS = 420  # More would take longer than all else.
FEW = 4  # full Gaussians, which take little time
MORE_DIAGONAL = 3  # Gaussians than full ones: as many as tell that those are enough


def number_of_gaussians(
    problem: Problem,
    density: Mixture,
    n_records: float,
    most: int,
    progress: Callable[[str], None] | None = None,
) -> ComponentPath:
    """The path of the covariances that explain the sketch with the least criterion; if none do, the nearest.

    Diagonal Gaussians explain records of full ones, too, if those are few, but it takes more of them than there are
    clusters. A few full ones are tried first: where they are enough, no long path of diagonal ones is needed.
    """
    model, d = FullGaussian(), problem.plain.n_features
    affordable = min(n_affordable(problem, model, MOST_FULL_PARAMETERS), most)
    few = min(affordable, FEW)
    full = component_path(problem, density, model, n_records, few, progress) if few and d > 1 else None
    if full is not None and full.explains and full.n_components < max(few, 2):
        most = min(most, full.n_components + MORE_DIAGONAL)
    diagonal = component_path(problem, density, DiagonalGaussian(), n_records, most, progress)
    if full is None or (diagonal.explains and diagonal.n_components == 1):
        return diagonal
    wanted = min(affordable, diagonal.n_components)
    if wanted > few and (wanted == diagonal.n_components or not diagonal.explains):
        full = component_path(problem, density, model, n_records, wanted, progress)
    if full.explains and diagonal.explains:
        return full if _criterion(full, full) < _criterion(diagonal, full) else diagonal
    return min(full, diagonal, key=lambda path: path.misfit)


def _criterion(path: ComponentPath, other: ComponentPath) -> float:
    """The criterion of a path's choice where that of another is measured."""
    left = residual(other.target, path.chosen.mixture, correlated_errors(other.target, other.chosen.mixture))
    return float(left @ left + np.log(path.n_records) * path.chosen.n_parameters)
