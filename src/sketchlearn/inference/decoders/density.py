"""A density from a sketch: one search, or several runs whose results are averaged if none fits the sketch."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.inference.decoders.loop import FEW_CLUSTERS, Decoder, Outcome, Progress, Status, decode
from sketchlearn.inference.decoders.problem import MOST_ATOMS, Problem
from sketchlearn.inference.decoders.refinement import refine, with_best_weights
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, Mixture, Model, StretchedGaussian

MOST_RUNS, MOST_LARGE_RUNS = 16, 4  # the latter with more components than clusters
SAME_COST_RATIO = 1.002  # Runs whose costs differ less ended in the same place.
LOW_MISFIT = 1.1  # Two runs that agree on a larger residual may both be wrong.
COMPONENTS_PER_CLUSTER = (1, 2, 3)
PARAMETERS_PER_NUMBER = 0.25  # of the sketch; more than k components of one shape need as many numbers
LEAST_RELATIVE_GAIN = 0.5  # Clusters that gain less, relative to their parameters' price, are hidden by the noise.
REFINEMENT_ITERATIONS = 200


@dataclass(frozen=True)
class Candidate:
    """A fitted mixture, its squared residual in units of the noise, and the residual plus a price of parameters."""

    outcome: Outcome
    residual: float
    criterion: float


def fit_in_noise(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[Mixture, Outcome]:
    """A mixture in the units of the data, and its outcome.

    With noise, the cost of a wrong mixture is near that of the right one: several runs are needed. Mixtures of each
    size, with one shape for all components or one for each, are compared by the squared residual in units of the noise
    plus log(number of values) per parameter.
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
    # the Gaussian of all records, with the cost of one that is fitted to all frequencies
    _, cost, done = refine(problem.target, problem.one_gaussian, problem.box, iterations=REFINEMENT_ITERATIONS)
    outcome, one = best.outcome, _judged(problem, Outcome.of(problem, problem.one_gaussian, cost, done))
    if problem.n_components > 1 and best.criterion > one.criterion:
        # a parameter gains 1 from noise alone, and some more from the choice of the best run
        gained, price = one.residual - best.residual, best.criterion - best.residual
        nothing = gained < LEAST_RELATIVE_GAIN * price or not np.any(outcome.mixture.weights)
        outcome = replace((one if nothing else best).outcome, status=Status.HIDDEN)
    return problem.in_data_units(outcome.mixture.heavy()), outcome


def _candidates(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None
) -> Iterator[Candidate]:
    """Mixtures of one size: with a common shape, and with own shapes."""
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
        yield _judged(problem, common.refined(problem, mixture.untied(), REFINEMENT_ITERATIONS))


def _judged(problem: Problem, outcome: Outcome) -> Candidate:
    """The candidate: each parameter costs the logarithm of the effective number of values."""
    target, fewer = problem.target, problem.concentration
    residual = outcome.cost * len(target) / (target.noise / 2 * fewer)
    price = math.log(target.n_numbers / fewer) * problem.n_parameters(outcome.mixture)
    outcome = Outcome.of(problem, outcome.mixture, outcome.cost, outcome.iterations, outcome.status)
    return Candidate(outcome, residual, residual + price)


def error_of_noise(target: Target, n_clusters: int) -> float:
    """The approximate squared error of a center due to a release's noise, in squared widths of its cluster.

    It is that of each column, and the relative increase of the k-means cost, if lengths of frequencies have a ratio of
    ten; estimators/design/frequencies.py forecasts it.
    """
    return 4 * math.log(10) * target.n_features * n_clusters**2 * target.released / target.n_numbers


RUNS, SMALL_RUNS = 3, 7  # the latter for small sketches
FIRST_STEPS = 3  # of a search from a known start: letters had 1.027 with none, 1.022 with three and with all
PROMISING_MISFIT = 3.0  # after those: good fits in the end had less
STRETCHING_ITERATIONS = 150
START_STRETCH = 0.7  # deviations of a component
COMPARABLE_COST_RATIO = 1.4  # Runs whose costs are at most this many times the lowest are pooled.
SIGNIFICANT_DEVIATIONS = 3.0  # of the weight that noise gives to a component
CLEANINGS = 2  # how often the harmonics of a one-bit or modulo wave are subtracted


def cleaned(problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None) -> Problem:
    """The problem without the harmonics of a one-bit or modulo wave, which a first fit predicts."""
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
    """A mixture of as many components as the sketch determines, and the best outcome.

    Without a good fit, or with a small sketch, a search ends in one of many solutions of about the same cost: their
    average is a better density than each of them.
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

    It ends after a few steps, unless the fit is good or nearly so.
    """
    outcome = decode(decoder, problem, rng, progress=progress, start=start, steps=FIRST_STEPS)
    if outcome.status is not Status.EXPLAINED and outcome.misfit <= PROMISING_MISFIT:
        outcome = decode(decoder, problem, rng, progress=progress, start=outcome)
    return problem.in_data_units(_significant(problem, outcome.mixture)), outcome


def _significant(problem: Problem, mixture: Mixture) -> Mixture:
    """The components with significant weights.

    Light ones far from all clusters attracted centers (k = 100, d = 2).
    """
    noise = np.sqrt(problem.target.noise / len(problem.target))
    heavy = mixture.weights > min(SIGNIFICANT_DEVIATIONS * noise, 0.1 * mixture.weights.max())
    return mixture.some(heavy).heavy()


def _searchers(problem: Problem, decoder: Decoder) -> list[Decoder]:
    """The decoder and the one that alternates with it, unless there are too many clusters for that."""
    return [decoder, decoder.other] if decoder.other and problem.n_components <= FEW_CLUSTERS else [decoder]


def stretched(problem: Problem, outcome: Outcome) -> Outcome:
    """The outcome refined with a direction of additional variance for each component.

    Each direction f starts where the cost decreases fastest: psi changes by (f . omega)^2 / 2, the cost by f' H f.
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
    return outcome.refined(problem, with_best_weights(target, longer), STRETCHING_ITERATIONS)


def pooled(mixtures: list[Mixture]) -> Mixture:
    """The average of several mixtures of Gaussians that are diagonal or stretched."""
    longer = any(isinstance(mixture.model, StretchedGaussian) for mixture in mixtures)
    model: Model = StretchedGaussian() if longer else DiagonalGaussian()
    parts = []
    for mixture in mixtures:
        own = mixture.shapes if type(mixture.model) is type(model) else model.shapes_of(mixture.covariances())
        parts.append((mixture.weights / mixture.weights.sum() / len(mixtures), mixture.locations, own))
    return Mixture(model, *(np.concatenate(part) for part in zip(*parts, strict=True)))
