"""A density from a private sketch: how many components, and of which shapes, follows from the noise that is in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.refinements.joint_refinement import refine
from sketchlearn.decoders.searches.search_loop import EXPLAINED, Decoder, Outcome, Progress, Status, decode
from sketchlearn.models import Mixture

MOST_RUNS, MOST_LARGE_RUNS = 16, 4  # the latter for more components than clusters
SAME_COST_RATIO = 1.002  # Runs whose costs differ less ended in the same place.
LOW_MISFIT = 1.1  # Two runs that agree on a higher one may both be wrong.
COMPONENTS_PER_CLUSTER = (1, 2, 3)
PARAMETERS_PER_NUMBER = 0.25  # of the sketch, for more than k components of one shape
LEAST_GAIN_OF_PRICE = 0.5  # Clusters that gain less of their parameters' price count as hidden by the noise.
REFINEMENT_ITERATIONS = 200


@dataclass(frozen=True)
class Candidate:
    """A fitted mixture, its squared residual in units of the noise, and the same with a price for its parameters."""

    outcome: Outcome
    residual: float
    criterion: float


def fit_in_noise(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[Mixture, Outcome]:
    """A mixture in the units of the data, and its outcome.

    Noise leaves a wrong mixture a cost near that of the right one, so that only the lowest cost of several runs tells.
    Each size, with one shape for all components and then with one for each, is a candidate; that with the lowest
    squared residual in units of the noise, plus the logarithm of the number of values per parameter, is taken.
    """
    best: Candidate | None = None
    for size in COMPONENTS_PER_CLUSTER:
        found = _candidates(replace(problem, size=size * problem.n_components), decoder, rng, progress)
        lowest = min(found, key=lambda candidate: candidate.criterion, default=None)
        if lowest is None or (best is not None and lowest.criterion >= best.criterion):
            break
        best = lowest
        if best.outcome.status is Status.EXPLAINED:
            break
    assert best is not None
    outcome, one = best.outcome, _one_gaussian(problem)
    if problem.n_components > 1 and best.criterion > one.criterion:
        # noise alone makes a parameter gain 1, and the choice of the best run some more
        gained, price = one.residual - best.residual, best.criterion - best.residual
        nothing = gained < LEAST_GAIN_OF_PRICE * price or not np.any(outcome.mixture.weights)
        outcome = replace((one if nothing else best).outcome, status=Status.HIDDEN)
    return problem.in_data_units(outcome.mixture.heavy()), outcome


def _candidates(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None
) -> Iterator[Candidate]:
    """Mixtures of one size: with a common shape, and with shapes of their own."""
    k, d = problem.n_atoms, problem.target.n_features
    if k > problem.n_components and k * (d + 1) + d > PARAMETERS_PER_NUMBER * problem.target.n_numbers:
        return
    outcomes: list[Outcome] = []
    for _ in range(MOST_RUNS if k <= problem.n_components else MOST_LARGE_RUNS):
        outcomes.append(decode(decoder, problem, rng, progress=progress))
        common, *others = sorted(outcomes, key=lambda outcome: outcome.cost)
        if common.misfit <= LOW_MISFIT and others and others[0].cost <= SAME_COST_RATIO * common.cost:
            break
    yield _judged(problem, common)
    mixture = common.mixture
    if mixture.model.tied and len(mixture) * (2 * d + 1) <= PARAMETERS_PER_NUMBER * problem.target.n_numbers:
        own, cost, done = refine(problem.target, mixture.untied(), problem.box, iterations=REFINEMENT_ITERATIONS)
        yield _judged(problem, replace(common, mixture=own, cost=cost, iterations=common.iterations + done))


def _judged(problem: Problem, outcome: Outcome) -> Candidate:
    """The candidate: each parameter costs the logarithm of the number of values, as far as weights let them count."""
    target, fewer = problem.target, problem.concentration
    residual = outcome.cost * len(target) / (target.noise / 2 * fewer)
    price = math.log(target.n_numbers / fewer) * problem.n_parameters(outcome.mixture)
    misfit = problem.misfit(outcome.cost)
    status = Status.EXPLAINED if misfit <= EXPLAINED else outcome.status
    return Candidate(replace(outcome, misfit=misfit, status=status), residual, residual + price)


def _one_gaussian(problem: Problem) -> Candidate:
    """The Gaussian that was read off the sketch, as if it were as good as one that is fitted to all frequencies."""
    _, cost, done = refine(problem.target, problem.one_gaussian, problem.box, iterations=REFINEMENT_ITERATIONS)
    return _judged(problem, Outcome(problem.one_gaussian, cost, problem.misfit(cost), done, Status.REFINED))


def error_of_noise(target: Target, n_clusters: int) -> float:
    """About the squared error that a release's noise causes in a center, in squared widths of its cluster.

    It is what designing/private_budget.py forecasts, with lengths of frequencies in a ratio of ten; it holds for each
    column, and for the relative increase of the k-means cost.
    """
    return 4 * math.log(10) * target.n_features * n_clusters**2 * target.released / target.n_numbers
