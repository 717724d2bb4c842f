"""How a mixture that was fitted to a sketch follows the sketch's numbers, and how far chance moves those.

A fit minimises (z - phi)'V(z - phi) over parameters theta, phi the mixture's own numbers. With J = d phi / d theta, a
small change of z moves theta by A dz, A = (J'VJ)^-1 J'V. A record adds its own numbers Phi(x) / n to z, so

    Cov theta = A Cov(Phi(x)) A' / n + A R A',

R the noise of a private release. Cov(Phi(x)) is read from records that are drawn from the fitted mixture and sketched
by the operator itself: the dither and harmonics of its wave, and subsampling, are in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sketchlearn.decoders import Problem, Target
from sketchlearn.decoders.problems.decoding_target import fourier_part
from sketchlearn.decoders.refinements.gauss_newton import derivatives
from sketchlearn.models import Double, Mixture
from sketchlearn.plain_digits import in_digits
from sketchlearn.queries.sampling_noise import Released, real_parts
from sketchlearn.record_weights import distinct_records, effective_records, heaviest_record
from sketchlearn.sketch import Sketch

NUMBERS_PER_PARAMETER = 3.0  # With 2, 81 % of 95 % intervals of overlapping clusters held the truth.
MOST_PRODUCTS = 3e10  # numbers times squared parameters: more would take more than a few seconds
FEWEST_DRAWS, MOST_DRAWS, DRAWN_NUMBERS = 1024, 4096, 1 << 22
NUMBERS_PER_BLOCK = 1 << 20
MOST_NOISE_SHARE = 0.25  # of what a cluster adds to the sketch
RELATIVE_RIDGE = 1e-10  # of the normal matrix whose diagonal is one


class UndeterminedError(ValueError):
    """Why standard errors cannot be told, as a sentence that names the remedy."""


def independent_records(sketch: Sketch) -> float:
    """How many independent records a sketch counts as.

    A record of a whole weight w counts as w records. Where weights are fractions, they count as so many of equal weight
    or, if no kept rows tell that, as the fewest that it may be. Of rows that belong to units, such as patients, all of
    a unit may be the same: they count as one.
    """
    ledger = sketch.ledger
    rows = (sketch.unit.rows_per_unit if sketch.unit else None) or (ledger.rows_per_unit if ledger else None) or 1
    return (effective_records(sketch) or float(sketch.count) / heaviest_record(sketch)) / rows


def hidden_by_noise(target: Target, k: int) -> str:
    """Why private noise forbids to judge a fit of k components, as a sentence that names the remedy; "" if it does not.

    Where its deviation is a large part of 1 / k, which a cluster adds to a value, many wrong mixtures explain the
    sketch as well: inertias were 5 to 15 errors off at 0.4 to 1.0 of it, and within 1 at 0.17 (20,000 rows, k = 4).
    """
    share = float(np.sqrt(target.released)) * k
    if share <= MOST_NOISE_SHARE:
        return ""
    each = "one cluster" if k == 1 else f"one of {k} clusters"
    return (
        f"the noise of the release is {in_digits(share, 2)} of what {each} adds to the sketch, and above "
        f"{MOST_NOISE_SHARE} other clusters may explain it as well: release more records, with a larger epsilon or "
        "with delta > 0, or ask for fewer clusters"
    )


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
        cls, sketch: Sketch, target: Target, mixture: Mixture, precisions: Double, directions: Double | None = None
    ) -> SketchInfluence:
        """That of a fit in which squared residuals of the known numbers count with these precisions, V's diagonal.

        The fit moved along all coordinates, or along some `directions`, (coordinates, directions), only.
        """
        check_size(target, mixture)
        jacobian = derivatives(target, mixture)[: len(precisions)]
        jacobian = jacobian if directions is None else jacobian @ directions
        weighted = jacobian * precisions[:, None]
        normal = weighted.T @ jacobian
        scale = 1 / np.sqrt(np.maximum(np.diag(normal), 1e-300))
        normal *= scale[:, None] * scale
        normal[np.diag_indices_from(normal)] += RELATIVE_RIDGE
        try:
            solved = cho_solve(cho_factor(normal), (weighted * scale).T).T
        except LinAlgError:
            raise UndeterminedError(UNDETERMINED) from None
        slopes = solved * scale
        return cls(sketch, target, mixture, slopes if directions is None else slopes @ directions.T)

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
        return np.asarray(np.sqrt(variances))

    def _sampled(self, weights: Double, density: Mixture, rng: np.random.Generator) -> Double:
        """Variances of weighted sums of one record's numbers.

        Equal records add to the same values only, so that what subsampling adds is that of fewer records.
        """
        operator = fourier_part(self.sketch)[1]
        whole = operator if operator.subsample is None else replace(operator, subsample=None)
        copies = np.float32(np.sqrt(max(independent_records(self.sketch) / distinct_records(self.sketch), 1.0)))
        n = int(np.clip(DRAWN_NUMBERS // operator.n_frequencies, FEWEST_DRAWS, MOST_DRAWS))
        rows, step = density.sample(n, rng)[0], max(1, NUMBERS_PER_BLOCK // operator.n_frequencies)
        single, sums = self.target.on_features(operator, weights).astype(np.float32), []
        for first in range(0, n, step):
            added = real_parts(operator.features(rows[first : first + step], n_jobs=1))
            if whole is not operator:
                everywhere = real_parts(whole.features(rows[first : first + step], n_jobs=1))
                added = everywhere + copies * (added - everywhere)
            sums.append(added @ single)
        return np.asarray(np.var(np.concatenate(sums).astype(np.float64), axis=0))


UNDETERMINED = (
    "the sketch does not determine all parameters of the mixture: ask for fewer components, or design the sketch "
    "with more frequencies"
)


def check_size(target: Target, mixture: Mixture) -> None:
    """Refuses more parameters than the sketch determines well, or than can be computed in little time."""
    if hidden := hidden_by_noise(target, len(mixture)):
        raise UndeterminedError(hidden)
    p = mixture.model.n_parameters(len(mixture), target.n_features) - 1
    if target.n_numbers < NUMBERS_PER_PARAMETER * p:
        raise UndeterminedError(
            f"the sketch has {in_digits(target.n_numbers / p, 2)} numbers per parameter of the mixture, and fewer than "
            f"{NUMBERS_PER_PARAMETER:.0f} are too few to tell errors from: design it with more frequencies"
        )
    if target.n_numbers * p**2 > MOST_PRODUCTS:
        raise UndeterminedError(
            f"the mixture has {p:,} parameters, too many to compute their errors: ask for fewer clusters or components"
        )
