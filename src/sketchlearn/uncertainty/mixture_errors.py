"""Standard errors of weights, means and covariances of Gaussian mixtures: from the sketch, or from kept rows."""

from __future__ import annotations

import numpy as np
from scipy.special import softmax

from sketchlearn.decoders import Problem
from sketchlearn.decoders.densities.gaussian_mixture_fit import MOST_WHITENED
from sketchlearn.decoders.refinements.efficient_fit import slopes_of_efficient
from sketchlearn.decoders.refinements.gauss_newton import correlated_errors, derivatives, independent_errors
from sketchlearn.models import Double, KnownGaussian, Mixture
from sketchlearn.plain_digits import counted
from sketchlearn.sketch import Sketch
from sketchlearn.uncertainty.component_scores import Steps
from sketchlearn.uncertainty.row_errors import StandingRows
from sketchlearn.uncertainty.sketch_influence import (
    UNDETERMINED,
    SketchInfluence,
    UndeterminedError,
    check_size,
    in_own_units,
    independent_records,
)
from sketchlearn.weighting.mixture_likelihood import log_densities

RECORDS_PER_PARAMETER = 10  # With fewer, errors do not follow from slopes at the estimate.
MOST_SCORES = 1 << 27  # numbers of all rows' scores
LEAST_INFORMATION = 1e-6  # smallest eigenvalue of the information, of which each diagonal element is one


class Parameters:
    """The attributes of a mixture as functions of the coordinates of its steps."""

    def __init__(self, mixture: Mixture, unit: Double, covariance_type: str) -> None:
        self.steps = Steps.of(mixture)
        k, d = mixture.locations.shape
        matrices = {"full": (k, d, d), "tied": (d, d), "known": (d, d), "diag": (k, d), "spherical": (k,)}
        shapes = {"weights_": (k,), "means_": (k, d), "covariances_": matrices[covariance_type]}
        self.known = isinstance(mixture.model, KnownGaussian)
        gradients = [self.steps.weight_gradients(), self.steps.mean_gradients(unit)]
        if not self.known:
            of_matrices = self.steps.covariance_gradients(unit)
            if covariance_type in ("diag", "spherical"):
                of_matrices = np.einsum("kiip->kip", of_matrices)
            gradients.append(of_matrices.mean(axis=1) if covariance_type == "spherical" else of_matrices)
        self.gradients = np.concatenate([part.reshape(-1, self.steps.n_coordinates) for part in gradients])
        self.shapes = shapes

    def named(self, errors: Double) -> dict[str, Double]:
        """Errors of all parameters, in the order of the gradients, by attribute."""
        found, first = {}, 0
        for name, shape in self.shapes.items():
            if name == "covariances_" and self.known:
                found[name] = np.zeros(shape)
                continue
            size = int(np.prod(shape))
            found[name] = errors[first : first + size].reshape(shape)
            first += size
        return found


def errors_of_sketch(
    sketch: Sketch, problem: Problem, density: Mixture, covariance_type: str, rng: np.random.Generator
) -> dict[str, Double]:
    """Errors of a mixture that was refined until it explains the sketch."""
    own = in_own_units(problem, density)
    target = problem.without_harmonics(own).plain
    _check_records(sketch, own)
    parameters = Parameters(own, target.unit, covariance_type)
    if target.whole and len(target) <= MOST_WHITENED:  # then it is efficient, and its covariance is known
        check_size(target, own)
        jacobian = correlated_errors(target, own)(derivatives(target, own))
        jacobian = jacobian @ parameters.steps.keeping_sum
        root = inverse_root(jacobian.T @ jacobian, UNDETERMINED)
        half = root @ (parameters.gradients @ parameters.steps.keeping_sum).T
        factor = 1 / (target.sampling * independent_records(sketch))  # units, say, are fewer than their records
        return parameters.named(np.sqrt(factor * np.sum(half**2, axis=0)))
    slopes = slopes_of_efficient(target, own, MOST_WHITENED)
    if slopes is not None:
        check_size(target, own)
        influence = SketchInfluence(sketch, target, own, slopes)
        return parameters.named(influence.errors(parameters.gradients, density, rng))
    p = problem.n_parameters(own)
    target = target.some(slice(0, max(MOST_WHITENED, 2 * p)))
    precisions = independent_errors(target)(np.ones(2 * len(target)))[: round(target.n_numbers)] ** 2
    influence = SketchInfluence.of(sketch, target, own, precisions, parameters.steps.keeping_sum)
    return parameters.named(influence.errors(parameters.gradients, density, rng))


def errors_of_likelihood(
    sketch: Sketch, density: Mixture, covariance_type: str, rng: np.random.Generator, *, decided: bool = True
) -> dict[str, Double]:
    """Errors of the likeliest mixture of kept rows, whatever their law is; or of all records, if those decided."""
    _check_records(sketch, density)
    standing = StandingRows.of(sketch, rng, decided=decided)
    rows, weights = standing.rows.rows, standing.rows.weights
    parameters = Parameters(density, np.ones(rows.shape[1]), covariance_type)
    steps = parameters.steps
    if len(rows) * steps.n_coordinates > MOST_SCORES:
        raise UndeterminedError(
            f"the mixture has {steps.n_coordinates:,} parameters, too many to compute their errors: ask for fewer "
            "components, or another covariance_type"
        )
    scores, information = scores_and_information(steps, density, rows, weights)
    root = inverse_root(
        information, "the rows hardly determine some parameters of the mixture: ask for fewer components"
    )
    slopes = root.T @ (root @ parameters.gradients.T)
    return parameters.named(standing.errors(lambda which: scores @ slopes[:, which], slopes.shape[1], rng))


def scores_and_information(steps: Steps, density: Mixture, rows: Double, weights: Double) -> tuple[Double, Double]:
    """Scores of the rows along all coordinates, and the information in one record (Louis 1982).

    With r the share of a component in a row, and u the component's own score, the information of mixtures is the mean
    of s s', s the sums of r u, plus, for each component, what it would be if components were known, less r u u'.
    """
    shares = softmax(log_densities(rows, density) + np.log(np.maximum(density.weights, 1e-300)), axis=1)
    scores = np.zeros((len(rows), steps.n_coordinates))
    information = np.zeros((steps.n_coordinates, steps.n_coordinates))
    i, j = steps.products
    of_products = np.where(i == j, 2.0, 1.0)  # variances of z_i z_j
    for component, factor in enumerate(steps.factors):
        z = np.linalg.solve(factor, (rows - density.locations[component]).T).T
        terms, own = steps.terms(z), shares[:, component]
        scores += steps.along_coordinates(component, terms * own[:, None])
        share = float(weights @ own)
        known = share * np.concatenate([np.ones(1 + z.shape[1]), of_products])
        left = np.diag(known) - (terms * (weights * own)[:, None]).T @ terms
        information += steps.along_coordinates(component, steps.along_coordinates(component, left).T)
    return scores, information + (scores * weights[:, None]).T @ scores


def inverse_root(matrix: Double, reason: str) -> Double:
    """R with R'R the inverse of a matrix that is clearly positive definite; else the reason why not."""
    scale = 1 / np.sqrt(np.maximum(np.diag(matrix), 1e-300))
    values, vectors = np.linalg.eigh(matrix * scale[:, None] * scale)
    if not values[0] > LEAST_INFORMATION:
        raise UndeterminedError(reason)
    return np.asarray((vectors / np.sqrt(values)).T * scale)


def _check_records(sketch: Sketch, mixture: Mixture) -> None:
    k, d = mixture.locations.shape
    p = mixture.model.n_parameters(k, d) - 1
    if independent_records(sketch) < RECORDS_PER_PARAMETER * p:
        raise UndeterminedError(
            f"{counted(round(float(sketch.count)), 'record')} cannot tell the errors of {p:,} parameters: ask for "
            "fewer components, or another covariance_type"
        )
