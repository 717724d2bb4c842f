"""Standard errors of weights, means and covariances of Gaussian mixtures: from the sketch, or from sampled rows."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import softmax

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import Parameter
from sketchlearn.core.messages import counted
from sketchlearn.inference.decoders.gaussian_mixture import MOST_WHITENED
from sketchlearn.inference.decoders.goodness_of_fit import free_directions
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import correlated_errors, derivatives, independent_errors, widths
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target, characteristic_factors, fourier_part
from sketchlearn.inference.distributions import (
    FrequencySet,
    FullGaussian,
    KnownGaussian,
    Mixture,
    SphericalGaussian,
    StretchedGaussian,
)
from sketchlearn.inference.em import log_densities
from sketchlearn.inference.errors.influence import (
    UNDETERMINED,
    SampledRows,
    SketchInfluence,
    StandingRows,
    UndeterminedError,
    check_size,
    independent_records,
    least_rows,
)
from sketchlearn.inference.errors.values import ErrorBars
from sketchlearn.sketch.sums import Sketch

STEP = 1e-4  # of a shape's coordinate, for derivatives of covariances


@dataclass(frozen=True)
class Steps:
    """Small steps of a mixture of Gaussians, along the coordinates of `derivatives`, in the mixture's units."""

    mixture: Mixture
    factors: Double  # L of each component, (K, d, d)
    covariances: Double  # derivatives of covariances along the coordinates of shapes, (rows of shapes, q, d, d)
    products: tuple[NDArray[np.intp], NDArray[np.intp]]  # i, j of the products z_i z_j that scores are made of
    coefficients: Double  # of those products in the scores of shapes, (rows of shapes, products, q)

    @classmethod
    def of(cls, mixture: Mixture) -> Steps:
        d, model, shapes = mixture.locations.shape[1], mixture.model, mixture.shapes
        factors = widths(mixture)
        q = model.steps(shapes[:1], FrequencySet(np.zeros((0, d)))).shape[2]
        changes = np.zeros((len(shapes), q, d, d))
        for coordinate in range(q):
            step = np.zeros((len(shapes), q))
            step[:, coordinate] = STEP
            ends = (model.covariances(model.moved(shapes, sign * step), d) for sign in (1, -1))
            changes[:, coordinate] = (next(ends) - next(ends)) / (2 * STEP)
        own = factors[:1] if model.tied else factors
        inverses = np.linalg.inv(own)[:, None]
        seen = inverses @ changes @ inverses.transpose(0, 1, 3, 2)  # B of each coordinate
        diagonal = np.allclose(seen, seen * np.eye(d), atol=1e-6)
        i, j = (np.arange(d), np.arange(d)) if diagonal else np.triu_indices(d)
        coefficients = seen[:, :, i, j] * np.where(i == j, 0.5, 1.0)
        return cls(mixture, factors, changes, (i, j), coefficients.transpose(0, 2, 1))

    @property
    def n_shape(self) -> int:
        """Coordinates of a shape."""
        return int(self.covariances.shape[1])

    @property
    def n_coordinates(self) -> int:
        """Coordinates of all steps."""
        k, d = self.mixture.locations.shape
        return int(k * (1 + d) + len(self.covariances) * self.n_shape)

    def places(self, component: int) -> tuple[int, slice, slice]:
        """The coordinates of a component's weight, location and shape, in the order of `derivatives`."""
        k, d = self.mixture.locations.shape
        q, tied = self.n_shape, self.mixture.model.tied
        first = component * (1 + d + (0 if tied else q))
        shape = k * (1 + d) if tied else first + 1 + d
        return first, slice(first + 1, first + 1 + d), slice(shape, shape + q)

    @property
    def keeping_sum(self) -> Double:
        """Directions along which the weights keep their sum: (coordinates, coordinates - 1)."""
        return free_directions(self.mixture, self.n_coordinates)

    def terms(self, z: Double) -> Double:
        """1, z, and the products z_i z_j less their means: (rows, terms)."""
        i, j = self.products
        return np.concatenate([np.ones((len(z), 1)), z, z[:, i] * z[:, j] - (i == j)], axis=1)

    def along_coordinates(self, component: int, moments: Double) -> Double:
        """Moments with `terms`, (..., terms), as moments with the scores of all coordinates."""
        d = self.mixture.locations.shape[1]
        weight, location, shape = self.places(component)
        result = np.zeros((*moments.shape[:-1], self.n_coordinates))
        result[..., weight], result[..., location] = moments[..., 0], moments[..., 1 : 1 + d]
        own = self.coefficients[0 if self.mixture.model.tied else component]
        result[..., shape] = moments[..., 1 + d :] @ own
        return result

    def weight_gradients(self) -> Double:
        """Gradients of normalised weights: (K, coordinates)."""
        weights = self.mixture.weights / self.mixture.weights.sum()
        gradients = np.zeros((len(weights), self.n_coordinates))
        gradients[:, [self.places(c)[0] for c in range(len(weights))]] = np.diag(weights) - np.outer(weights, weights)
        return gradients

    def mean_gradients(self, unit: Double) -> Double:
        """Gradients of the means, in data units of this size: (K, d, coordinates)."""
        gradients = np.zeros((*self.mixture.locations.shape, self.n_coordinates))
        for component, factor in enumerate(self.factors):
            gradients[component, :, self.places(component)[1]] = unit[:, None] * factor
        return gradients

    def covariance_gradients(self, unit: Double) -> Double:
        """Gradients of the covariances, in squared data units: (rows of shapes, d, d, coordinates)."""
        d = len(unit)
        gradients = np.zeros((len(self.covariances), d, d, self.n_coordinates))
        for row, changes in enumerate(self.covariances):
            gradients[row][:, :, self.places(row)[2]] = (changes * np.outer(unit, unit)).transpose(1, 2, 0)
        return gradients


RECORDS_PER_PARAMETER = 10  # With fewer, the linear approximation fails.
MOST_SCORES = 1 << 27  # numbers of all rows' scores
LEAST_INFORMATION = 1e-6  # smallest eigenvalue of the information, scaled to a diagonal of one


class Parameters:
    """The attributes of a mixture as functions of the coordinates of its steps."""

    def __init__(self, mixture: Mixture, unit: Double, covariance_type: str) -> None:
        self.steps = Steps.of(mixture)
        k, d = mixture.locations.shape
        matrices = {"full": (k, d, d), "tied": (d, d), "known": (d, d), "diag": (k, d), "spherical": (k,)}
        self.shapes = {"weights_": (k,), "means_": (k, d), "covariances_": matrices[covariance_type]}
        of_matrices = self.steps.covariance_gradients(unit)
        if covariance_type in ("diag", "spherical"):
            of_matrices = np.einsum("kiip->kip", of_matrices)
        if covariance_type == "spherical":
            of_matrices = of_matrices.mean(axis=1)
        gradients = [self.steps.weight_gradients(), self.steps.mean_gradients(unit), of_matrices]
        self.gradients = np.concatenate([part.reshape(-1, self.steps.n_coordinates) for part in gradients])

    def named(self, errors: Double) -> dict[str, Double]:
        """Errors of all parameters, in the order of the gradients, by attribute."""
        ends = np.cumsum([int(np.prod(shape)) for shape in self.shapes.values()])
        parts = np.split(errors, ends[:-1])
        return {name: part.reshape(shape) for (name, shape), part in zip(self.shapes.items(), parts, strict=True)}


def errors_of_sketch(
    sketch: Sketch, problem: Problem, density: Mixture, covariance_type: str, rng: np.random.Generator
) -> dict[str, Double]:
    """Standard errors of a mixture that fits the sketch."""
    own = problem.from_data_units(density)
    target = problem.without_harmonics(own).plain
    _check_records(sketch, own)
    parameters = Parameters(own, target.unit, covariance_type)
    if target.whole and len(target) <= MOST_WHITENED:  # then it is efficient, and its covariance is known
        check_size(target, own)
        jacobian = correlated_errors(target, own)(derivatives(target, own))
        factor = 1 / (target.sampling * independent_records(sketch))  # units, say, are fewer than their records
        return parameters.named(np.sqrt(factor * _variances(parameters.steps, jacobian, parameters.gradients)))
    influence = SketchInfluence.of_efficient(sketch, target, own, MOST_WHITENED)
    if influence is None:
        target = target.some(slice(0, max(MOST_WHITENED, 2 * problem.n_parameters(own))))
        precisions = independent_errors(target)(np.ones(2 * len(target)))[: round(target.n_numbers)] ** 2
        influence = SketchInfluence.of(sketch, target, own, precisions, parameters.steps.keeping_sum)
    return parameters.named(influence.errors(parameters.gradients, density, rng))


def errors_of_likelihood(
    sketch: Sketch, density: Mixture, covariance_type: str, rng: np.random.Generator, *, decided: bool = True
) -> dict[str, Double]:
    """Standard errors of a maximum likelihood fit of kept rows, or of all records if not `decided` by the rows."""
    _check_records(sketch, density)
    standing = StandingRows.of(sketch, rng, decided=decided)
    rows, weights = standing.rows.rows, standing.rows.weights
    parameters = Parameters(density, np.ones(rows.shape[1]), covariance_type)
    steps = parameters.steps
    if len(rows) * steps.n_coordinates > MOST_SCORES:
        raise UndeterminedError(
            f"the mixture has {steps.n_coordinates:,} parameters, too many to compute their errors: ask for fewer "
            f"components, or another {Parameter('covariance_type')}"
        )
    scores, information = scores_and_information(steps, density, rows, weights)
    reason = "the rows do not determine some parameters of the mixture: ask for fewer components"
    root = inverse_root(information, reason)
    slopes = root.T @ (root @ parameters.gradients.T)
    return parameters.named(standing.errors(lambda which: scores @ slopes[:, which], slopes.shape[1], rng))


def scores_and_information(steps: Steps, density: Mixture, rows: Double, weights: Double) -> tuple[Double, Double]:
    """Scores of the rows along all coordinates, and the information in one record (Louis 1982).

    With r the responsibility of a component for a row, and u the component's own score, the information is the mean of
    s s', s the sums of r u, plus, for each component, its information if components were known, less r u u'.
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
    """R with R'R the inverse of a positive definite matrix; `UndeterminedError` with this reason otherwise."""
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
            f"standard errors of {p:,} parameters need more than {counted(round(float(sketch.count)), 'record')}: "
            f"ask for fewer components, or another {Parameter('covariance_type')}"
        )


FEWEST_NUMBERS = 3  # of the sketch for each parameter: with fewer, intervals cover too little
DRAWN_ROWS = 4000
# 95 % intervals of alphas covered them 88 and 91 times of 100 (60 draws, exact and one-bit).
NO_ALPHAS = "intervals for alphas_ would be too narrow: compare the alphas_ of two halves of the rows instead"
STABLE_ROWS = "for rows of such a mixture; a sketch that keeps rows gives errors for any distribution"


def stable_errors(sketch: Sketch, density: Mixture, explained: bool, rng: np.random.Generator) -> ErrorBars:
    """Standard errors of weights, means and scales, in the units of the data.

    With J the derivatives of the characteristic function along the parameters, and V the weights of its values in the
    fit, a row moves the parameters by (J' V J)^-1 J' V times its own values less their means. The distribution is that
    of kept rows or, if the fit is good, the mixture's own.
    """
    target, (_, operator) = Target.of(sketch, HIGHEST_HARMONIC), fourier_part(sketch)
    sample, n_parameters = SampledRows.of(sketch), density.weights.size * (1 + density.locations.shape[1] * 2 + 1) - 1
    if target.n_numbers < FEWEST_NUMBERS * n_parameters:
        return ErrorBars(withheld="the sketch has fewer than 3 numbers for each parameter: design it with more")
    if sample is None and not explained:
        return ErrorBars(withheld="the mixture does not fit the sketch: try more components, or keep rows")
    rows = sample or SampledRows.drawn(density.sample(DRAWN_ROWS, rng)[0], least_rows(sketch))
    own = replace(
        density,
        locations=(density.locations - target.origin) / target.unit,
        shapes=density.model.scaled(density.shapes, 1 / target.unit),
    )
    whitening, jacobian = independent_errors(target), derivatives(target, own)
    free = free_directions(own, jacobian.shape[1])
    influence = free @ np.linalg.pinv(whitening(jacobian @ free)) * whitening(np.ones(2 * len(target)))
    moves = operator.features(rows.rows) * characteristic_factors(operator, operator.dither) - target.values
    released = target.released / (1 + target.imaginary) * np.sum(influence**2, axis=1)
    errors = np.sqrt(rows.variances(target.stacked(moves, axis=1) @ influence.T) + released)
    k, d = density.locations.shape
    errors = errors.reshape(k, 2 * d + 2)  # of log-weights, locations in widths, log-variances and alpha
    units = target.unit * np.diagonal(widths(own), axis1=1, axis2=2)
    found = {
        "weights_": own.weights * errors[:, 0],
        "means_": errors[:, 1 : 1 + d] * units,
        "scales_": errors[:, 1 + d : -1] / 2 * np.sqrt(density.shapes[:, :-1]),
    }
    return ErrorBars(found, NO_ALPHAS, STABLE_ROWS if sample is None else "")


GAUSSIANS = (SphericalGaussian, StretchedGaussian, FullGaussian, KnownGaussian)
FEWEST_DRAWS, DRAWS_PER_PARAMETER = 10_000, 100  # The information's inverse is 1 % too large with 100 per parameter.


def errors_over_bound(problem: Problem, mixture: Mixture, rng: np.random.Generator) -> float | None:
    """Standard errors of the means of a mixture of Gaussians over those of maximum likelihood on all rows.

    It is the root mean square of the ratios. None if unknown: for one-bit, subsampled or private sketches, many
    frequencies, or a sketch that does not determine the mixture.
    """
    target = problem.without_harmonics(mixture).plain
    if not target.whole or len(target) > MOST_WHITENED or target.released or not isinstance(mixture.model, GAUSSIANS):
        return None
    steps = Steps.of(mixture)
    n = max(FEWEST_DRAWS, DRAWS_PER_PARAMETER * steps.n_coordinates)
    if n * steps.n_coordinates > MOST_SCORES:
        return None
    rows = mixture.sample(n, rng)[0]
    try:
        check_size(target, mixture)
        seen = correlated_errors(target, mixture)(derivatives(target, mixture)) * np.sqrt(target.sampling)
        scores = scores_and_information(steps, mixture, rows, np.full(n, 1 / n))[0] / np.sqrt(n)
        of_means = steps.mean_gradients(np.ones(target.n_features)).reshape(-1, steps.n_coordinates)
        of_sketch, of_rows = (_variances(steps, part, of_means) for part in (seen, scores))
    except UndeterminedError:
        return None
    return max(1.0, float(np.sqrt(np.mean(of_sketch / of_rows))))


def _variances(steps: Steps, roots: Double, gradients: Double) -> Double:
    """Variances of functions with these gradients, where the information is R'R; weights sum to one."""
    roots = roots @ steps.keeping_sum
    half = inverse_root(roots.T @ roots, UNDETERMINED) @ (gradients @ steps.keeping_sum).T
    return np.asarray(np.sum(half**2, axis=0))
