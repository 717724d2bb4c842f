"""How a mixture that was fitted to a sketch follows the sketch's numbers, and how far chance moves those.

A fit minimises (z - phi)'V(z - phi) over parameters theta, phi the mixture's own numbers. With J = d phi / d theta, a
small change of z moves theta by A dz, A = (J'VJ)^-1 J'V. A record adds its own numbers Phi(x) / n to z, so

    Cov theta = A Cov(Phi(x)) A' / n + A R A',

R the noise of a private release. Cov(Phi(x)) is read from records that are drawn from the fitted mixture and sketched
by the operator itself: the dither and harmonics of its wave, and subsampling, are in it.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_factor, cho_solve

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import in_digits
from sketchlearn.features.bounded import Bounded
from sketchlearn.inference.calibration import WeightedRows, calibrated, left_to_chance
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import derivatives
from sketchlearn.inference.decoders.target import Target, fourier_part
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.sampling_noise import Released, real_parts
from sketchlearn.rows.weights import WEIGHT_BITS
from sketchlearn.sketch.priority_sample import KeptRows
from sketchlearn.sketch.record_weights import distinct_records, drawn_weights, effective_records
from sketchlearn.sketch.sums import Sketch, heaviest_record

FEWEST_ROWS = 100  # From fewer rows a variance is known to no better than 14 %.


@dataclass(frozen=True)
class SampledRows:
    """Kept rows, from which the variance of any mean over the records follows, whatever their law.

    The mean of a function f of the records that is 0 on average has the variance sum_i shares_i f(row_i)^2: a row of
    weight w is one draw that counts w times, so that squares of weights are in the shares.

    Attributes
    ----------
    rows : array (rows, columns).
    shares : array (rows,).
    parts : array (rows,), of all records' weight that which one draw like the row has.
    """

    rows: Double
    shares: Double
    parts: Double

    @classmethod
    def of(cls, sketch: Sketch) -> SampledRows | None:
        """The rows that a sketch keeps, within its bounds; None if it keeps none, or too few of its records."""
        kept, count = sketch.kept, float(sketch.count)
        if kept is None or not (len(kept) >= FEWEST_ROWS or (kept.complete and len(kept))):
            return None
        # equal records are one row here: how many draws of which weight they were is known if all weigh 1, and bounded
        # by the largest weight otherwise
        most = float(heaviest_record(sketch))
        drawn = np.minimum(kept.units / 2.0**WEIGHT_BITS, most) if is_weighted(sketch) else np.ones(len(kept))
        operator: Any = sketch.operator
        bounded = operator.part(Bounded)
        rows = kept.rows if bounded is None else bounded.within(kept.rows)
        return cls(rows, kept.weights(count) * drawn / count, drawn / count)

    def variances(self, functions: Double) -> Double:
        """Variances of the means of functions, whose values at the rows are given (rows, ...)."""
        return np.asarray(np.tensordot(self.shares, functions**2, axes=1))


def is_weighted(sketch: Sketch) -> bool:
    """Whether some records count more, or less, than once."""
    return sketch.bits > 0 or heaviest_record(sketch) > 1


def least_rows(sketch: Sketch) -> float:
    """How many independent rows of equal weight the records are worth, at least: (sum w)^2 / sum w^2."""
    return float(sketch.count) / heaviest_record(sketch)


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


PARAMETERS_PER_BLOCK = 512

NO_ROWS = (
    "the result is that of rows which were given beside the sketch, and of those it is not known how they were chosen: "
    "keep rows in the sketch, with design(..., rows=500)"
)


@dataclass(frozen=True)
class StandingRows:
    """Kept rows of a sketch, with the weights under which they stand for all records."""

    sketch: Sketch
    kept: KeptRows
    drawn: WeightedRows  # with the weights that they were kept with
    rows: WeightedRows  # with calibrated ones
    decided: bool  # whether what was learned is theirs, and not that of all records

    @classmethod
    def of(cls, sketch: Sketch, rng: np.random.Generator, *, decided: bool = True) -> StandingRows:
        """Those of a sketch that keeps rows."""
        kept = sketch.kept
        if kept is None or not len(kept):
            raise UndeterminedError(NO_ROWS)
        drawn = WeightedRows(kept.rows, kept.weights(float(sketch.count)), None, kept.openness)
        decided = decided and not kept.complete
        return cls(sketch, kept, drawn, calibrated(sketch, [drawn], rng)[0] if decided else drawn, decided)

    def errors(self, influence: Callable[[slice], Double], n: int, rng: np.random.Generator) -> Double:
        """Standard errors of n parameters; `influence` of some of them is an array (rows, parameters)."""
        found = []
        for first in range(0, n, PARAMETERS_PER_BLOCK):
            found.append(self._variances(influence(slice(first, min(first + PARAMETERS_PER_BLOCK, n))), rng))
        return np.sqrt(np.concatenate(found))

    def _variances(self, values: Double, rng: np.random.Generator) -> Double:
        weights = self.rows.weights
        values = values - weights @ values
        drawn = drawn_weights(self.sketch)
        if self.sketch.bits and drawn is not None and self.sketch.unit is None:
            sampling = (weights * drawn) @ values**2 / float(self.sketch.count)
        else:
            sampling = weights @ values**2 / independent_records(self.sketch)
        if not self.decided:
            return np.asarray(sampling)
        left, noise = left_to_chance(self.sketch, replace(self.drawn, weights=weights), values, rng)
        return np.asarray(sampling + noise + ((1 - self.kept.chances) * weights**2) @ left**2)


DRAWS = 400  # The errors' own error is then 3.5 %.
STEP = 0.01  # of changes as large as those of sampling: what is computed is linear so near


def errors_by_draws(
    mean: Double, features: Double, sample: SampledRows, computed: Callable[[Double], Double], rng: np.random.Generator
) -> Double:
    """One standard deviation, by sampling, of what is computed from mean features, given the features of sampled rows.

    Means move by sum_i g_i sqrt(shares_i) (features of row i - mean features), with g standard normal: their covariance
    is then that of sampling, for any law.
    """
    draws = rng.standard_normal((DRAWS, len(features))) * np.sqrt(sample.shares)
    start = computed(mean)
    moves = [(computed(mean + STEP * change) - start) / STEP for change in draws @ (features - mean)]
    return np.asarray(np.sqrt(np.mean(np.square(moves), axis=0)))
