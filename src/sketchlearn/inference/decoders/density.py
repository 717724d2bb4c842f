"""A density from a sketch: one decoder, or several runs whose results are pooled where none explains the sketch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.inference.decoders.loop import EXPLAINED, FEW_CLUSTERS, Decoder, Outcome, Progress, Status, decode
from sketchlearn.inference.decoders.problem import MOST_ATOMS, Problem
from sketchlearn.inference.decoders.refinement import best_weights, refine
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture, Model, StretchedGaussian

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

    It is what estimators/design/frequencies.py forecasts, with lengths of frequencies in a ratio of ten; it holds for
    each column, and for the relative increase of the k-means cost.
    """
    return 4 * math.log(10) * target.n_features * n_clusters**2 * target.released / target.n_numbers


RUNS, SMALL_RUNS = 3, 7  # the latter where the sketch determines fewer components than one would fit
FIRST_STEPS = 3  # of a search from a start: letters had 1.027 without any, 1.022 with three and 1.022 with all
PROMISING_MISFIT = 3.0  # after those: sketches that were explained in the end had less
STRETCHING_ITERATIONS = 150
START_STRETCH = 0.7  # deviations of a component
COMPARABLE_COST_RATIO = 1.4  # Runs whose costs are at most this many times the lowest are pooled.
SIGNIFICANT_DEVIATIONS = 3.0  # of the weight that noise gives to a component
CLEANINGS = 2  # times that a one-bit or modulo sketch is freed of its wave's harmonics, as far as they are known


def cleaned(problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None) -> Problem:
    """The problem less the harmonics of a one-bit or modulo wave, as a first fit predicts them."""
    given, searchers = problem, _searchers(problem, decoder)
    for _ in range(CLEANINGS if problem.target.harmonics else 0):
        outcomes = [decode(searcher, problem, rng, progress=progress) for searcher in searchers]
        problem = given.without_harmonics(min(outcomes, key=lambda outcome: outcome.cost).mixture)
    return problem


def fit_density(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[Mixture, Outcome]:
    """A mixture in the units of the data, and the best outcome."""
    density = fit_in_noise if problem.target.released else pooled_density
    return density(problem, decoder, rng, progress)


def pooled_density(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[Mixture, Outcome]:
    """The same from as many components as the sketch determines, whatever noise it has.

    Where no mixture explains the sketch, or a small sketch determines few components, a search ends in one of many
    solutions of about the same cost: their average is a better density than any of them.
    """
    small = problem.target.released > 0 or problem.n_atoms < MOST_ATOMS * problem.n_components
    searchers = _searchers(problem, decoder) if small else [decoder]
    outcomes: list[Outcome] = []
    for run in range(SMALL_RUNS if small else RUNS):
        outcome = decode(searchers[run] if run < len(searchers) else decoder, problem, rng, progress=progress)
        if outcome.status is not Status.EXPLAINED and small:
            outcome = stretched(problem, outcome)
        outcomes.append(outcome)
        if outcome.status is Status.EXPLAINED:
            break
    best = min(outcomes, key=lambda outcome: outcome.cost)
    alike = [outcome for outcome in outcomes if outcome.cost <= COMPARABLE_COST_RATIO * best.cost]
    return pooled([problem.in_data_units(_significant(problem, outcome.mixture)) for outcome in alike]), best


def continued_density(
    problem: Problem, decoder: Decoder, start: Outcome, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[Mixture, Outcome]:
    """A mixture in the units of the data, and its outcome, by a search from an outcome.

    It ends after a few steps, unless they lead to a mixture that nearly explains the sketch.
    """
    outcome = decode(decoder, problem, rng, progress=progress, start=start, steps=FIRST_STEPS)
    if outcome.status is not Status.EXPLAINED and outcome.misfit <= PROMISING_MISFIT:
        outcome = decode(decoder, problem, rng, progress=progress, start=outcome)
    return problem.in_data_units(_significant(problem, outcome.mixture)), outcome


def _significant(problem: Problem, mixture: Mixture) -> Mixture:
    """The components that weigh more than sampling noise lets a component weigh anywhere.

    Those left out are light, but many, and far from all clusters: they drew centers to themselves (k = 100, d = 2).
    """
    noise = np.sqrt(problem.target.noise / len(problem.target))
    heavy = mixture.weights > min(SIGNIFICANT_DEVIATIONS * noise, 0.1 * mixture.weights.max())
    return mixture.some(heavy).heavy()


def _searchers(problem: Problem, decoder: Decoder) -> list[Decoder]:
    """The decoder, and the one that sees other starts, unless there are too many clusters for it."""
    return [decoder, decoder.other] if decoder.other and problem.n_components <= FEW_CLUSTERS else [decoder]


def stretched(problem: Problem, outcome: Outcome) -> Outcome:
    """The outcome refined with components that each stretch along a direction of their own.

    Each direction starts where it lowers the cost fastest: psi changes by (f . omega)^2 / 2, the cost by f' H f.
    """
    target, mixture = problem.target, outcome.mixture
    shapes = np.broadcast_to(mixture.shapes, (len(mixture), target.n_features))
    cosines, sines = mixture.waves(target.frequencies)
    (r_re, r_im), (w_re, w_im) = target.residual(mixture), target.part_weights
    omega, slopes = target.frequencies.omega, cosines * (r_re * w_re) + sines * (r_im * w_im)
    curvatures = np.stack([(omega * slope[:, None]).T @ omega for slope in slopes]).astype(np.float64)
    steepest = np.linalg.eigh(curvatures)[1][:, :, 0]
    along = START_STRETCH * np.sqrt(shapes.mean(axis=1, keepdims=True)) * steepest
    longer = replace(mixture, model=StretchedGaussian(), shapes=np.concatenate([shapes, along], axis=1))
    longer = replace(longer, weights=best_weights(target, longer))
    longer, cost, done = refine(target, longer, problem.box, iterations=STRETCHING_ITERATIONS)
    misfit = problem.misfit(cost)
    status = Status.EXPLAINED if misfit <= EXPLAINED else outcome.status
    return Outcome(longer, cost, misfit, outcome.iterations + done, status)


def pooled(mixtures: list[Mixture]) -> Mixture:
    """The average of several mixtures of Gaussians that are diagonal or stretched."""
    longer = any(isinstance(mixture.model, StretchedGaussian) for mixture in mixtures)
    model: Model = StretchedGaussian() if longer else DiagonalGaussian()
    parts = []
    for mixture in mixtures:
        own = mixture.shapes if type(mixture.model) is type(model) else model.shapes_of(mixture.covariances())
        parts.append((mixture.weights / mixture.weights.sum() / len(mixtures), mixture.locations, own))
    return Mixture(model, *(np.concatenate(part) for part in zip(*parts, strict=True)))
