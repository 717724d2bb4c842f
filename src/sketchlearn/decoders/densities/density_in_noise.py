"""A density from a private sketch: how many components, and of which shapes, follows from the noise that is in it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders.problems.decoding_outcome import Outcome, Status
from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.refinements.joint_refinement import refine
from sketchlearn.decoders.searches.search_loop import EXPLAINED, Decoder, Progress, decode
from sketchlearn.models import DiagonalGaussian, Mixture

MOST_RUNS, MOST_LARGE_RUNS = 16, 4  # the latter for more components than clusters
SAME_COST_RATIO = 1.002  # costs of runs that ended in the same place
LOW_MISFIT = 1.1  # misfit
SIZES = (1, 2, 3)  # components per cluster
BUDGET = 0.25  # parameters per real number of the sketch, beyond k components of one shape
LEAST_GAIN_OF_PRICE = 0.5  # of the parameters' price, gained by clusters
REFINEMENT = 200  # iterations


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
    for size in SIZES:
        found = list(_candidates(replace(problem, size=size * problem.n_components), decoder, rng, progress))
        if not found:
            break
        lowest = min(found, key=lambda candidate: candidate.criterion)
        if best is not None and lowest.criterion >= best.criterion:
            break
        best = lowest
        if best.outcome.status is Status.EXPLAINED:
            break
    assert best is not None
    outcome = best.outcome
    one = _one_gaussian(problem)
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
    if k > problem.n_components and k * (d + 1) + d > BUDGET * problem.target.n_numbers:
        return
    outcomes: list[Outcome] = []
    for _ in range(MOST_RUNS if k <= problem.n_components else MOST_LARGE_RUNS):
        outcomes.append(decode(decoder, problem, rng, progress=progress))
        if _agree(outcomes):
            break
    common = min(outcomes, key=lambda outcome: outcome.cost)
    yield _judged(problem, common)
    mixture = common.mixture
    if mixture.model.tied and len(mixture) * (2 * d + 1) <= BUDGET * problem.target.n_numbers:
        shapes = np.repeat(mixture.shapes, len(mixture), axis=0)
        own, cost, done = refine(
            problem.target,
            replace(mixture, model=DiagonalGaussian(), shapes=shapes),
            problem.box,
            iterations=REFINEMENT,
        )
        yield _judged(problem, replace(common, mixture=own, cost=cost, iterations=common.iterations + done))


def _agree(outcomes: list[Outcome]) -> bool:
    """Whether two runs ended at the lowest cost, and that is as low as it should be."""
    first, *others = sorted(outcomes, key=lambda outcome: outcome.cost)
    return bool(others) and others[0].cost <= SAME_COST_RATIO * first.cost and first.misfit <= LOW_MISFIT


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
    d = problem.target.n_features
    read = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, d)), problem.spread[None] ** 2)
    _, cost, done = refine(problem.target, read, problem.box, iterations=REFINEMENT)
    return _judged(problem, Outcome(read, cost, problem.misfit(cost), done, Status.REFINED))
