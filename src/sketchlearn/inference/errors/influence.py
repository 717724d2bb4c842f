"""Influence functions: how a fitted mixture depends on the sketch, and its standard errors.

A fit minimises (z - phi)'V(z - phi) over parameters theta, phi the mixture's characteristic function. With J = d phi /
d theta, a small change of z moves theta by A dz, A = (J'VJ)^-1 J'V. A record adds its own values Phi(x) / n to z, so

    Cov theta = A Cov(Phi(x)) A' / n + A R A',

R the noise of a private release. Cov(Phi(x)) is estimated from records that are drawn from the fitted mixture and
sketched by the operator itself, with the dither and harmonics of its wave, and subsampling.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from scipy.linalg import LinAlgError, cho_solve

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, called
from sketchlearn.core.messages import in_digits
from sketchlearn.features.bounded import Bounded
from sketchlearn.inference.calibration import WeightedRows, calibrated, calibration_residuals
from sketchlearn.inference.decoders.goodness_of_fit import BLOCK, slopes_of_efficient
from sketchlearn.inference.decoders.refinement import derivatives, scaled_factor
from sketchlearn.inference.decoders.target import Target, fourier_part
from sketchlearn.inference.distributions import Mixture
from sketchlearn.inference.sampling_noise import Released, real_parts
from sketchlearn.rows.weights import WEIGHT_BITS
from sketchlearn.sketch.priority_sample import KeptRows
from sketchlearn.sketch.record_weights import distinct_records, drawn_weights, effective_records
from sketchlearn.sketch.sums import Sketch, heaviest_record

FEWEST_ROWS = 100  # A variance from fewer rows has a standard error above 14 %.


@dataclass(frozen=True)
class SampledRows:
    """Sampled rows, which give the variance of any mean over the records, for any distribution.

    The mean of a function f with expectation 0 has the variance sum_i shares_i f(row_i)^2. A row of weight w is one
    draw that counts w times: shares contain squared weights.
    """

    rows: Double  # (rows, columns)
    shares: Double  # (rows,)
    parts: Double  # (rows,): the weight of one such draw, relative to all records'

    @classmethod
    def of(cls, sketch: Sketch) -> SampledRows | None:
        """The sample of a sketch, within its bounds; None without one, or if it is too small."""
        kept, count = sketch.kept, float(sketch.count)
        if kept is None or not (len(kept) >= FEWEST_ROWS or (kept.complete and len(kept))):
            return None
        # equal records are one row: the weight of a draw is 1 if all are unweighted, and at most the largest otherwise
        most, drawn = float(heaviest_record(sketch)), np.ones(len(kept))
        if sketch.bits or most > 1:
            drawn = np.minimum(kept.units / 2.0**WEIGHT_BITS, most)
        operator: Any = sketch.operator
        bounded = operator.part(Bounded)
        rows = kept.rows if bounded is None else bounded.within(kept.rows)
        return cls(rows, kept.weights(count) * drawn / count, drawn / count)

    @classmethod
    def drawn(cls, rows: Double, n_rows: float) -> SampledRows:
        """Rows drawn from a distribution, in place of a sample of so many records."""
        shares = np.full(len(rows), 1 / (len(rows) * n_rows))
        return cls(rows, shares, shares)

    def variances(self, functions: Double) -> Double:
        """Variances of the means of functions, whose values at the rows are given (rows, ...)."""
        return np.asarray(np.tensordot(self.shares, functions**2, axes=1))


def least_rows(sketch: Sketch) -> float:
    """A lower bound on the effective number of records, (sum w)^2 / sum w^2."""
    return float(sketch.count) / heaviest_record(sketch)


NUMBERS_PER_PARAMETER = 3.0  # With 2, 95 % intervals of overlapping clusters covered 81 %.
MOST_PRODUCTS = 3e10  # numbers times squared parameters: more would take more than a few seconds
FEWEST_DRAWS, MOST_DRAWS, DRAWN_NUMBERS = 1024, 4096, 1 << 22
NUMBERS_PER_BLOCK = 1 << 20
LARGEST_NOISE = 0.25  # relative to a cluster's part of the sketch


class UndeterminedError(InvalidValueError):
    """Standard errors are not available; the message gives the reason and the remedy."""


def independent_records(sketch: Sketch) -> float:
    """The effective number of independent records of a sketch.

    A record of a whole weight w counts as w records. Fractional weights have their effective size or, without a sample,
    its lower bound. Rows of one privacy unit, such as a patient, may be equal: they count as one.
    """
    ledger = sketch.ledger
    rows = (sketch.unit.rows_per_unit if sketch.unit else None) or (ledger.rows_per_unit if ledger else None) or 1
    return (effective_records(sketch) or least_rows(sketch)) / rows


def hidden_by_noise(target: Target, k: int) -> str:
    """Why private noise prevents a test of a fit of k components, with the remedy; "" if it does not.

    Where its deviation is a large part of 1 / k, a cluster's part of a value, many wrong mixtures fit as well: inertias
    were 5 to 15 errors off at 0.4 to 1.0 of it, and within 1 at 0.17 (20,000 rows, k = 4).
    """
    share = float(np.sqrt(target.released)) * k
    if share <= LARGEST_NOISE:
        return ""
    each = "one cluster" if k == 1 else f"one of {k} clusters"
    return (
        f"the noise of the release is {in_digits(share, 2)} times what {each} adds to the sketch, and above "
        f"{LARGEST_NOISE} other clusters may fit as well: release more records, with a larger epsilon or "
        "with delta > 0, or ask for fewer clusters"
    )


@dataclass(frozen=True)
class SketchInfluence:
    """Derivatives of the coordinates of `derivatives` by the known numbers of a target: d theta = slopes' dz."""

    sketch: Sketch
    target: Target
    mixture: Mixture  # in the target's units
    slopes: Double  # (known numbers, coordinates)

    @classmethod
    def of(
        cls, sketch: Sketch, target: Target, mixture: Mixture, precisions: Double, directions: Double | None = None
    ) -> SketchInfluence:
        """The influence in a weighted least squares fit with these precisions of the known numbers, V's diagonal.

        The fit moved along all coordinates, or only along `directions`, (coordinates, directions).
        """
        check_size(target, mixture)
        jacobian = derivatives(target, mixture)[: len(precisions)]
        jacobian = jacobian if directions is None else jacobian @ directions
        weighted = jacobian * precisions[:, None]
        try:
            factor, scale = scaled_factor(weighted.T @ jacobian)
        except LinAlgError:
            raise UndeterminedError(UNDETERMINED) from None
        slopes = cho_solve(factor, (weighted * scale).T).T * scale
        return cls(sketch, target, mixture, slopes if directions is None else slopes @ directions.T)

    @classmethod
    def of_efficient(
        cls, sketch: Sketch, target: Target, mixture: Mixture, block: int = BLOCK
    ) -> SketchInfluence | None:
        """The influence on a mixture that is an efficient estimate; None if it is none."""
        slopes = slopes_of_efficient(target, mixture, block)
        if slopes is None:
            return None
        check_size(target, mixture)
        return cls(sketch, target, mixture, slopes)

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
            variances += count * (self.target.numbers @ weights) ** 2
        return np.asarray(np.sqrt(variances))

    def _sampled(self, weights: Double, density: Mixture, rng: np.random.Generator) -> Double:
        """Variances of weighted sums of one record's numbers.

        Equal records add to the same values, so that frequency subsampling has the error of fewer records.
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
    """Refuses more parameters than the sketch determines well, or than can be computed quickly."""
    if hidden := hidden_by_noise(target, len(mixture)):
        raise UndeterminedError(hidden)
    p = mixture.model.n_parameters(len(mixture), target.n_features) - 1
    if target.n_numbers < NUMBERS_PER_PARAMETER * p:
        raise UndeterminedError(
            f"the sketch has {in_digits(target.n_numbers / p, 2)} numbers per parameter of the mixture, and fewer than "
            f"{NUMBERS_PER_PARAMETER:.0f} are too few for standard errors: design it with more frequencies"
        )
    if target.n_numbers * p**2 > MOST_PRODUCTS:
        raise UndeterminedError(
            f"the mixture has {p:,} parameters, too many to compute their errors: ask for fewer clusters or components"
        )


PARAMETERS_PER_BLOCK = 512


def no_rows() -> str:
    """Why the errors of a fit on given rows are not known."""
    return (
        "the model was fitted to rows given beside the sketch, and how they were drawn is not known: "
        f"keep rows in the sketch, with {called('design', '...', rows=500)}"
    )


@dataclass(frozen=True)
class StandingRows:
    """The sample of a sketch, with weights that represent all records."""

    sketch: Sketch
    kept: KeptRows
    drawn: WeightedRows  # with inverse inclusion probabilities
    rows: WeightedRows  # with calibration weights
    decided: bool  # whether the fit is of these rows, and not of all records

    @classmethod
    def of(cls, sketch: Sketch, rng: np.random.Generator, *, decided: bool = True) -> StandingRows:
        """The sample of a sketch."""
        kept = sketch.kept
        if kept is None or not len(kept):
            raise UndeterminedError(no_rows())
        drawn = WeightedRows(kept.rows, kept.weights(float(sketch.count)), None, kept.calibration_slack)
        decided = decided and not kept.complete
        return cls(sketch, kept, drawn, calibrated(sketch, [drawn], rng)[0] if decided else drawn, decided)

    def errors(self, influence: Callable[[slice], Double], n: int, rng: np.random.Generator) -> Double:
        """Standard errors of n parameters; `influence` gives the array (rows, parameters) for a slice of them."""
        firsts = range(0, n, PARAMETERS_PER_BLOCK)
        blocks = (slice(first, min(first + PARAMETERS_PER_BLOCK, n)) for first in firsts)
        return np.sqrt(np.concatenate([self._variances(influence(block), rng) for block in blocks]))

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
        left, noise = calibration_residuals(self.sketch, replace(self.drawn, weights=weights), values, rng)
        return np.asarray(sampling + noise + ((1 - self.kept.chances) * weights**2) @ left**2)


DRAWS = 400  # The errors' own error is then 3.5 %.
STEP = 0.01  # relative to sampling errors: small enough for linearity


def errors_by_draws(
    mean: Double, features: Double, sample: SampledRows, computed: Callable[[Double], Double], rng: np.random.Generator
) -> Double:
    """Standard errors of a function of mean features, given the features of sampled rows.

    Means are perturbed by sum_i g_i sqrt(shares_i) (features of row i - mean features), g standard normal: this has the
    covariance of sampling, for any distribution.
    """
    draws = rng.standard_normal((DRAWS, len(features))) * np.sqrt(sample.shares)
    start = computed(mean)
    moves = [(computed(mean + STEP * change) - start) / STEP for change in draws @ (features - mean)]
    return np.asarray(np.sqrt(np.mean(np.square(moves), axis=0)))
