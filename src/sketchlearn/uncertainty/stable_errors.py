"""Errors of mixtures of stable laws that were fitted to the characteristic function of a sketch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from sketchlearn.decoders.problems.decoding_target import HIGHEST_HARMONIC, Target, characteristic_factors, fourier_part
from sketchlearn.decoders.refinements.gauss_newton import independent_errors
from sketchlearn.models import Double, Mixture
from sketchlearn.sketch import Sketch
from sketchlearn.uncertainty.error_bars import ErrorBars
from sketchlearn.uncertainty.sampled_rows import SampledRows, least_rows

FEWEST_NUMBERS = 3  # of the sketch for each parameter: with fewer, intervals cover too little
DRAWN_ROWS = 4000
# 95 % intervals of alphas held them 88 and 91 times of 100 (60 draws, exact and one-bit).
NO_ALPHAS = "those of alphas_ would hold the truth too seldom: compare the alphas_ of two halves of the rows instead"
STABLE_ROWS = "for rows of such a mixture; a sketch that keeps rows gives errors for any"


def stable_errors(sketch: Sketch, density: Mixture, explained: bool, rng: np.random.Generator) -> ErrorBars:
    """Standard errors of weights, means and scales, in the units of the data.

    With J the derivatives of the characteristic function along the parameters, and V the weights of its values in the
    fit, a row moves the parameters by (J' V J)^-1 J' V times its own values less their means. The law is that of kept
    rows or, where the mixture explains the sketch, the mixture's own.
    """
    target, (_, operator) = Target.of(sketch, HIGHEST_HARMONIC), fourier_part(sketch)
    sample, n_parameters = SampledRows.of(sketch), density.weights.size * (1 + density.locations.shape[1] * 2 + 1) - 1
    if target.n_numbers < FEWEST_NUMBERS * n_parameters:
        return ErrorBars(withheld="the sketch has fewer than 3 numbers for each parameter: design it with more")
    if sample is None and not explained:
        return ErrorBars(withheld="the mixture does not explain the sketch: try more components, or keep rows")
    if sample is None:
        shares = np.full(DRAWN_ROWS, 1 / (DRAWN_ROWS * least_rows(sketch)))
        rows = SampledRows(density.sample(DRAWN_ROWS, rng)[0], shares, shares)
    else:
        rows = sample
    whitening = independent_errors(target)
    jacobian, to_parameters = _derivatives(target, density)
    influence = to_parameters @ np.linalg.pinv(whitening(jacobian)) * whitening(np.ones(2 * len(target)))
    moves = operator.features(rows.rows) * characteristic_factors(operator, operator.dither) - target.values
    parts = np.concatenate([moves.real, moves.imag * target.imaginary], axis=1)
    released = target.released / (1 + target.imaginary) * np.sum(influence**2, axis=1)
    errors = np.sqrt(rows.variances(parts @ influence.T) + released)
    return ErrorBars(_named(errors, density, target.unit), NO_ALPHAS, STABLE_ROWS if sample is None else "")


def _derivatives(target: Target, density: Mixture) -> tuple[Double, Double]:
    """Of real and imaginary parts of the values (2 m, free parameters), and the map from free to all parameters.

    Parameters are all weights, then locations and log-variances in the target's unit with alpha, of each component.
    """
    k, d = density.locations.shape
    own = replace(
        density,
        locations=(density.locations - target.origin) / target.unit,
        shapes=density.model.scaled(density.shapes, 1 / target.unit),
    )
    cosines, sines = own.waves(target.frequencies)
    waves = cosines.astype(np.float64) + 1j * sines.astype(np.float64)
    weighted = (own.weights[:, None] * waves)[:, :, None]
    along = 1j * weighted * target.frequencies.omega.astype(np.float64)
    shapes = -weighted * own.model.steps(own.shapes, target.frequencies).astype(np.float64)
    columns = np.concatenate([along, shapes], axis=2).transpose(1, 0, 2).reshape(len(target), -1)
    every = np.concatenate([waves.T, columns], axis=1)
    # weights sum to one: they move along an orthonormal basis of what does
    sums = np.linalg.svd(np.ones((1, k)))[2][1:].T
    to_parameters = np.zeros((every.shape[1], every.shape[1] - 1))
    to_parameters[:k, : k - 1], to_parameters[k:, k - 1 :] = sums, np.eye(k * (2 * d + 1))
    parts = np.concatenate([every.real, every.imag * target.imaginary]) @ to_parameters
    return parts, to_parameters


def _named(errors: Double, density: Mixture, unit: Double) -> dict[str, Double]:
    k, d = density.locations.shape
    others = errors[k:].reshape(k, 2 * d + 1)
    return {
        "weights_": errors[:k],
        "means_": others[:, :d] * unit,
        "scales_": others[:, d:-1] / 2 * np.sqrt(density.shapes[:, :-1]),
    }
