"""Mixtures of Gaussians by steps of EM: a pilot out of a sample, expected statistics of all records, the M-step."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders import Outcome, Status
from sketchlearn.decoders.densities.gaussian_mixture_fit import MixtureFit
from sketchlearn.decoders.refinements.goodness_of_fit import FitTest
from sketchlearn.designing.cell_operators import REACH_FACTOR
from sketchlearn.designing.learning_costs import ROWS_PER_PARAMETER
from sketchlearn.designing.sample_summary import MOST_ROWS, deviations, thinned
from sketchlearn.keeping import Keeping
from sketchlearn.models import Double, Mixture, Model
from sketchlearn.models.gaussian_family import n_parameters
from sketchlearn.operators import ExpectedStatistics
from sketchlearn.operators.expected_statistics import LARGEST_REACH, Gaussians
from sketchlearn.plain_digits import counted, in_digits
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.gaussian_mixtures.mixtures_of_rows import Family
from sketchlearn.weighting.em_steps import MStep, SampledRows, gain_of_step, pilot_mixture

WIDEST = 2.0**20  # times the bound of a sample, that rows at hand may have
LEAST_REACH = 8.0  # deviations beyond those of a typical row
NO_TEST = FitTest(0.0, None)  # statistics at a pilot leave nothing to compare with
LEAST_GAIN = 0.25  # of the log-likelihood that estimation itself costs, that is worth a pass over rows in memory
TINY = 1e-12  # of a pilot's variance: the least one where none is declared


def _known(model: Model) -> Double | None:
    covariance = getattr(model, "covariance", None)
    return None if covariance is None else np.asarray(covariance, np.float64)


def statistics_at_pilot(
    rows: NDArray[Any],
    family: Family,
    n_rows: int | None,
    rng: np.random.Generator,
    *,
    extremes: Double | None,
    n_kept: int | None,
) -> ExpectedStatistics:
    """The operator at the mixture of a sample; `extremes` are those of all rows, if they are at hand."""
    k, kind, seed = family.n_components, family.covariance_type, int(rng.integers(2**31))
    n, p = n_rows or len(rows), n_parameters(k, rows.shape[1], kind)
    few = thinned(rows, max(n // 10, ROWS_PER_PARAMETER * p, MOST_ROWS)) if n > len(rows) else rows
    mixture, step = pilot_mixture(few, k, kind, n, rng, _known(family.model))
    sample = SampledRows.of(rows)
    bound = REACH_FACTOR * sample.bound
    if extremes is not None:
        wide = np.maximum(extremes[1] - sample.center, sample.center - extremes[0]) * (1 + 2.0**-20)
        bound = np.maximum(bound, np.minimum(wide, WIDEST * sample.bound))
    reach = LEAST_REACH + np.sqrt(rows.shape[1])
    while reach < LARGEST_REACH / 2 and sample.statistics(mixture, reach)[2]:
        reach *= 2
    keeping = None
    if n_kept is not None:
        few = thinned(rows, MOST_ROWS).astype(np.float64)
        keeping = Keeping.designed(few, n_kept, deviations(few), seed)
    return ExpectedStatistics.at_mixture(
        mixture.weights,
        mixture.means,
        mixture.factors,
        bound=bound,
        center=sample.center,
        reach=float(min(1.5 * reach, LARGEST_REACH)),
        ridge=tuple(map(float, step.least)),
        keeping=keeping,
    )


@dataclass(frozen=True)
class EMStep:
    """A step of EM on all records of a sketch."""

    operator: ExpectedStatistics
    family: Family
    n_records: float
    n_clipped: int
    before: Gaussians
    after: Gaussians
    gain: float  # nats a record, of the expected log-likelihood
    log_likelihood: float  # of the records under the pilot

    @classmethod
    def of(cls, sketch: Sketch, family: Family) -> EMStep:
        """The step that a sketch of expected statistics tells."""
        operator: ExpectedStatistics = sketch.operator  # type: ignore[assignment]
        k, kind = family.n_components, family.covariance_type
        if operator.n_components != k:
            raise ValueError(
                f"this sketch has expected statistics of {operator.n_components} Gaussians: ask for as many, or sketch "
                f"the rows for {k}"
            )
        if not sketch.count > 0:
            raise ValueError("the sketch is empty: add records before learning from it")
        before = operator.at.mixture
        variances = before.factors**2 if before.factors.ndim == 2 else np.sum(before.factors**2, axis=2)
        least = np.zeros(operator.n_features) if operator.ridge is None else np.array(operator.ridge)
        step = MStep(kind, np.maximum(least, TINY * variances.min(axis=0)), _known(family.model))
        if step.full != (operator.covariances == "full"):
            raise ValueError(
                f'this sketch has expected statistics of "{operator.covariances}" covariances: ask for such a '
                "covariance_type, or sketch the rows for another one"
            )
        values = np.asarray(sketch.mean)
        moments = operator.moments(values)
        after = step(moments, before)
        gain, likelihood = gain_of_step(moments, before, after), operator.at.log_likelihood(values)
        return cls(operator, family, float(sketch.count), sketch.clipped, before, after, gain, likelihood)

    @property
    def settled(self) -> bool:
        """Whether another step would gain less than is worth a pass."""
        k, d = self.after.means.shape
        costs = n_parameters(k, d, self.family.covariance_type) / (2 * self.n_records)
        return self.gain <= LEAST_GAIN * costs and not self.n_clipped

    @property
    def still(self) -> bool:
        """Whether the likelihood grows no more."""
        return self.gain <= 0.0 and not self.n_clipped

    @property
    def doubts(self) -> tuple[str, ...]:
        """What to say of records that are not like those of the sample."""
        if not self.n_clipped:
            return ()
        return (
            f"{counted(self.n_clipped, 'row')} lay farther from all components than any of the sample and were moved "
            "nearer: give more components, or read rows twice, as the second pass goes farther",
        )

    @property
    def gain_in_words(self) -> str:
        """What the step gained, after "The last pass"."""
        return f"raised the mean log-likelihood by {in_digits(self.gain, 2)} or more"

    @property
    def cost(self) -> float:
        """Minus the log-likelihood after the step, in nats a record, at most."""
        return -self.log_likelihood - self.gain

    @property
    def n_parts(self) -> int:
        """How many components there are."""
        return len(self.after.weights)

    def fit(self) -> MixtureFit:
        """The mixture after the step."""
        factors, family = self.after.factors, self.family
        covariances = factors[:, :, None] ** 2 * np.eye(factors.shape[1]) if factors.ndim == 2 else _products(factors)
        mixture = Mixture(family.model, self.after.weights, self.after.means, family.model.shapes_of(covariances))
        return MixtureFit(mixture, NO_TEST, Outcome(mixture, 0.0, 0.0, 1, Status.STEP))

    def next_operator(self) -> ExpectedStatistics:
        """The operator at the mixture after the step; wider, where rows were clipped."""
        own = self.operator
        moved = ExpectedStatistics.at_mixture(
            self.after.weights,
            self.after.means,
            self.after.factors,
            bound=np.array(own.bound),
            center=own.middle,
            reach=float(min(own.at.reaches.max() * (4 if self.n_clipped else 1), LARGEST_REACH)),
            ridge=own.ridge,
            keeping=own.keeping,
            columns=own.columns,
        )
        return moved.with_origin(own.origin)


def _products(factors: Double) -> Double:
    return np.asarray(factors @ factors.transpose(0, 2, 1))
