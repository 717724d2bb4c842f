"""Mixtures of Gaussians from weighted rows, refined on the sketch where it looks like one of such a mixture."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders import Outcome, Problem, Status
from sketchlearn.decoders.densities.gaussian_mixture_fit import MixtureFit, fit_test, refined
from sketchlearn.models import KnownGaussian, Mixture, Model
from sketchlearn.sketch import Sketch
from sketchlearn.weighting.calibrated_rows import calibrated
from sketchlearn.weighting.clusters_of_rows import RowSample, SquaredLoss, clouds, clusters_of_rows, halves
from sketchlearn.weighting.mixture_likelihood import log_likelihoods
from sketchlearn.weighting.weighted_em import Start, weighted_em
from sketchlearn.weighting.weighted_rows import WeightedRows

MOST_MISFIT_TO_REFINE = 40.0  # of EM's mixture, per record of each kept row: above it, refinement does not help
MOST_PARAMETERS = 600  # More would take minutes to refine on the sketch.


@dataclass(frozen=True)
class Family:
    """What kind of mixture is asked for: how many components, of which model, in the units of the data."""

    n_components: int
    covariance_type: str
    model: Model

    def fitted(
        self, sample: WeightedRows, rng: np.random.Generator, *, n_init: int = 3, starts: Sequence[Start] = ()
    ) -> Mixture:
        """The likeliest mixture of weighted rows."""
        known = self.model.covariance if isinstance(self.model, KnownGaussian) else None
        fit = weighted_em(
            sample, self.n_components, self.covariance_type, rng, covariance=known, n_init=n_init, starts=starts
        )
        return Mixture(self.model, fit.weights, fit.means, self.model.shapes_of(fit.covariances))


def fit_mixture_of_rows(
    sketch: Sketch, problem: Problem, sample: RowSample, family: Family, rng: np.random.Generator
) -> MixtureFit:
    """The likeliest mixture of kept rows that agree with the sketch.

    Where the sketch looks like one of such a mixture, it tells more than the rows: the mixture is refined on it, and
    taken if rows that did not choose are likelier under it.
    """
    rows = sample.rows if sample.complete else calibrated(sketch, [sample.rows], rng)[0]
    clusters = clusters_of_rows(replace(sample, rows=rows), family.n_components, SquaredLoss(), rng)[0]
    start = clouds(clusters, rows)
    found = family.fitted(rows, rng, starts=[start.parts()] if len(start) == len(clusters) else [])
    own = problem.in_own_units(family.model, *found.parts())
    status = Status.ALL_ROWS if sample.complete else Status.ROWS
    problem = problem.without_harmonics(own)
    test, most = fit_test(problem, own), MOST_MISFIT_TO_REFINE * max(1.0, float(sketch.count) / len(rows))
    if not sample.complete and test.figure <= most and problem.n_parameters(own) <= MOST_PARAMETERS:
        better, other = refined(problem, own)
        candidate = problem.in_data_units(replace(better, weights=better.weights / better.weights.sum()))
        if other.passes and _likelier(sketch, sample, candidate, family, rng):
            found, own, test, status = candidate, better, other, Status.EXPLAINED
    cost = problem.target.cost(own)
    return MixtureFit(found, test, Outcome(own, cost, problem.misfit(cost), 0, status))


def _likelier(sketch: Sketch, sample: RowSample, candidate: Mixture, family: Family, rng: np.random.Generator) -> bool:
    """Whether unseen rows are likelier under the candidate than under mixtures of other rows."""
    parts = calibrated(sketch, halves(sample.rows, rng), rng)
    own = [family.fitted(part, rng, n_init=1) for part in parts]

    def mean(mixtures: list[Mixture]) -> float:
        each = zip(parts, mixtures, strict=True)
        return sum(float(part.weights @ log_likelihoods(part.rows, mixture)) for part, mixture in each)

    return mean([candidate, candidate]) >= 0.75 * mean(own[::-1]) + 0.25 * mean(own)
