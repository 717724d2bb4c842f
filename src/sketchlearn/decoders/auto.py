"""A density from a sketch: one decoder, or several runs of it whose results are pooled where the sketch is small."""

from __future__ import annotations

import numpy as np

from sketchlearn.decoders.loop import Decoder, Progress, decode
from sketchlearn.decoders.outcome import Outcome, Status
from sketchlearn.decoders.problem import Problem
from sketchlearn.models import DiagonalGaussian, Mixture

RUNS, SMALL_RUNS = 3, 4  # the latter where the sketch does not determine even two components per cluster
SIGNIFICANT = 3.0  # deviations
CLEANINGS = 2  # times that a one-bit or modulo sketch is freed of its wave's harmonics, as far as they are known


def cleaned(problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None) -> Problem:
    """The problem less the harmonics of a one-bit or modulo wave, as a first fit predicts them."""
    given = problem
    for _ in range(CLEANINGS if problem.target.harmonics else 0):
        problem = given.without_harmonics(decode(decoder, problem, rng, progress=progress).mixture)
    return problem


def fit_density(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None = None
) -> tuple[Mixture, Outcome]:
    """A mixture in the units of the data, and the best outcome.

    Where no mixture explains the sketch, or a small sketch determines few components, a search ends in one of many
    solutions of about the same cost: their average is a better density than any of them.
    """
    runs = SMALL_RUNS if problem.n_atoms < 1.5 * problem.n_components else RUNS
    outcomes: list[Outcome] = []
    for _ in range(runs):
        outcomes.append(decode(decoder, problem, rng, progress=progress))
        if outcomes[-1].status is Status.EXPLAINED:
            outcomes = outcomes[-1:]
            break
    best = min(outcomes, key=lambda outcome: outcome.cost)
    return pooled([problem.in_data_units(_significant(problem, outcome.mixture)) for outcome in outcomes]), best


def _significant(problem: Problem, mixture: Mixture) -> Mixture:
    """The components that weigh more than sampling noise lets a component weigh anywhere.

    Those left out are light, but many, and far from all clusters: they drew centers to themselves (k = 100, d = 2).
    """
    noise = np.sqrt(problem.target.noise / len(problem.target))
    heavy = mixture.weights > min(SIGNIFICANT * noise, 0.1 * mixture.weights.max())
    return mixture.some(heavy).heavy()


def pooled(mixtures: list[Mixture]) -> Mixture:
    """The average of several mixtures of diagonal Gaussians."""
    parts = []
    for mixture in mixtures:
        variances = np.diagonal(mixture.covariances(), axis1=1, axis2=2)
        parts.append((mixture.weights / mixture.weights.sum() / len(mixtures), mixture.locations, variances))
    return Mixture(DiagonalGaussian(), *(np.concatenate(part) for part in zip(*parts, strict=True)))
