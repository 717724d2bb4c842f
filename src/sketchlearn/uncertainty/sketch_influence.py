"""How a mixture that was fitted to a sketch follows the sketch's numbers, and how far chance moves those.

A fit minimises (z - phi)'V(z - phi) over parameters theta, phi the mixture's own numbers. With J = d phi / d theta, a
small change of z moves theta by A dz, A = (J'VJ)^-1 J'V. A record adds its own numbers Phi(x) / n to z, so

    Cov theta = A Cov(Phi(x)) A' / n + A R A',

R the noise of a private release. Cov(Phi(x)) is read from records that are drawn from the fitted mixture and sketched
by the operator itself: the dither and harmonics of its wave, and subsampling, are in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sketchlearn.decoders import Problem, Target
from sketchlearn.decoders.problems.decoding_target import fourier_part
from sketchlearn.decoders.refinements.gauss_newton import derivatives
from sketchlearn.models import Double, Mixture
from sketchlearn.plain_digits import in_digits
from sketchlearn.queries.sampling_noise import Released
from sketchlearn.sketch import Sketch

NUMBERS_PER_PARAMETER = 3.0  # With 2, 81 % of 95 % intervals of overlapping clusters held the truth.
MOST_PRODUCTS = 3e10  # numbers times squared parameters: more would take more than a few seconds
FEWEST_DRAWS, MOST_DRAWS, DRAWN_NUMBERS = 1024, 4096, 1 << 22
NUMBERS_PER_BLOCK = 1 << 20
RELATIVE_RIDGE = 1e-10  # of the normal matrix whose diagonal is one


class Undetermined(ValueError):
    """Why standard errors cannot be told, as a sentence that names the remedy."""


def independent_records(sketch: Sketch) -> float:
    """How many independent records a sketch counts as.

    A record of weight w counts as w records. Of rows that belong to units, such as patients, all of a unit may be the
    same: they count as one.
    """
    ledger = sketch.ledger
    rows = (sketch.unit.rows_per_unit if sketch.unit else None) or (ledger.rows_per_unit if ledger else None) or 1
    return float(sketch.count) / rows


def in_own_units(problem: Problem, density: Mixture) -> Mixture:
    """A mixture that is in the units of the data, in those of the problem."""
    unit, model = problem.target.unit, density.model
    shapes = model.scaled(density.shapes, 1 / unit)
    locations = (density.locations - problem.target.origin) / unit - problem.shift
    return Mixture(model.in_units(1 / unit), density.weights, locations, shapes)


@dataclass(frozen=True)
class SketchInfluence:
    """How the coordinates of `derivatives` follow the known numbers of a target: d theta = slopes' dz."""

    sketch: Sketch
    target: Target
    mixture: Mixture  # in the target's units
    slopes: Double  # (known numbers, coordinates)

    @classmethod
    def of(
        cls, sketch: Sketch, target: Target, mixture: Mixture, precisions: Double, sum_penalty: float = 0.0
    ) -> SketchInfluence:
        """That of a fit in which squared residuals of the known numbers count with these precisions, V's diagonal.

        `sum_penalty` is the price of weights whose squared sum differs from one.
        """
        check_size(target, mixture)
        jacobian = derivatives(target, mixture)[: len(precisions)]
        weighted = jacobian * precisions[:, None]
        normal = weighted.T @ jacobian
        if sum_penalty:
            d, k = target.n_features, len(mixture)
            per = 1 + d if mixture.model.tied else normal.shape[0] // k
            along = np.zeros(len(normal))
            along[: k * per : per] = mixture.weights
            normal += sum_penalty * np.outer(along, along)
        scale = 1 / np.sqrt(np.maximum(np.diag(normal), 1e-300))
        normal *= scale[:, None] * scale
        normal[np.diag_indices_from(normal)] += RELATIVE_RIDGE
        try:
            solved = cho_solve(cho_factor(normal), (weighted * scale).T).T
        except LinAlgError:
            raise Undetermined(UNDETERMINED) from None
        return cls(sketch, target, mixture, solved * scale)

    def errors(self, gradient: Double, density: Mixture, rng: np.random.Generator) -> Double:
        """Standard errors of functions of the coordinates with these gradients, (functions, coordinates).

        `density` is the mixture in the units of the data.
        """
        weights = self.slopes @ gradient.T
        variances = self._sampled(weights, density, rng) / independent_records(self.sketch)
        numbers = 1 + self.target.imaginary
        variances += self.target.released / numbers * np.sum(weights**2, axis=0)
        count = Released.of(self.sketch).count
        if count:  # all values are divided by a noisy number of records
            values = self.target.values
            known = np.concatenate([values.real, values.imag])[: len(weights)]
            variances += count * (known @ weights) ** 2
        return np.sqrt(variances)

    def _sampled(self, weights: Double, density: Mixture, rng: np.random.Generator) -> Double:
        """Variances of weighted sums of one record's numbers."""
        sums, squares, drawn = 0.0, 0.0, 0
        middle = np.concatenate([self.target.values.real, self.target.values.imag])[: len(weights)]
        single = weights.astype(np.float32)
        for numbers in self._drawn_numbers(density, rng):
            own = ((numbers - middle).astype(np.float32) @ single).astype(np.float64)
            sums, squares, drawn = sums + own.sum(axis=0), squares + np.sum(own**2, axis=0), drawn + len(own)
        return np.asarray(squares / drawn - (sums / drawn) ** 2)

    def _drawn_numbers(self, density: Mixture, rng: np.random.Generator) -> Iterator[Double]:
        operator = fourier_part(self.sketch)[1]
        n = int(np.clip(DRAWN_NUMBERS // operator.n_frequencies, FEWEST_DRAWS, MOST_DRAWS))
        rows = density.sample(n, rng)[0]
        step = max(1, NUMBERS_PER_BLOCK // operator.n_frequencies)
        for first in range(0, n, step):
            yield self.target.numbers_of(operator, operator.features(rows[first : first + step], n_jobs=1))


UNDETERMINED = (
    "the sketch does not determine all parameters of the mixture: ask for fewer components, or design the sketch "
    "with more frequencies"
)


def check_size(target: Target, mixture: Mixture) -> None:
    """Refuses more parameters than the sketch determines well, or than can be computed in little time."""
    p = mixture.model.n_parameters(len(mixture), target.n_features) - 1
    if target.n_numbers < NUMBERS_PER_PARAMETER * p:
        raise Undetermined(
            f"the sketch has {in_digits(target.n_numbers / p, 2)} numbers per parameter of the mixture, and fewer than "
            f"{NUMBERS_PER_PARAMETER:.0f} are too few to tell errors from: design it with more frequencies"
        )
    if target.n_numbers * p**2 > MOST_PRODUCTS:
        raise Undetermined(
            f"the mixture has {p:,} parameters, too many to compute their errors: ask for fewer clusters or components"
        )
