"""A mixture of k stable laws from a sketch: starts from a density of Gaussians, components exchanged, refined."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from sketchlearn.decoders import ClOmpr, Decoder, Outcome, Problem, Status, cleaned, fit_density
from sketchlearn.decoders.densities.density_from_sketch import CLEANINGS
from sketchlearn.decoders.densities.gaussian_mixture_fit import (
    HOLD,
    MixtureFit,
    merge_components,
    with_components,
)
from sketchlearn.decoders.problems.mixture_cost import prune
from sketchlearn.decoders.refinements.gauss_newton import independent_errors, levenberg_marquardt
from sketchlearn.decoders.refinements.goodness_of_fit import tested
from sketchlearn.decoders.refinements.joint_refinement import refine
from sketchlearn.decoders.searches.search_loop import Progress
from sketchlearn.kernel import one_blas_thread
from sketchlearn.models import IndependentStable, Mixture, SymmetricStable

COARSE_ITERATIONS, FINE_ITERATIONS = 200, 60  # of a refinement
EXCHANGE_ITERATIONS = 50  # while there are some components too many
EXCHANGES, EXCHANGED_COMPONENTS = 12, 2  # An exchange adds components before as many are taken out.
EXPLAINED_MISFIT = (
    1.5  # squared residual per degree of freedom: errors are correlated, so that true laws have less than 1
)
LEAST_START_WEIGHT = 1e-3  # of a component where a fine refinement starts


@dataclass(frozen=True)
class Candidate:
    """A mixture and its squared residual per degree of freedom."""

    mixture: Mixture
    misfit: float

    @property
    def explains(self) -> bool:
        """Whether there is little to be found by another search."""
        return self.misfit <= EXPLAINED_MISFIT


def fit_stable(
    problem: Problem,
    decoder: Decoder,
    rng: np.random.Generator,
    progress: Progress | None = None,
    known: Mixture | None = None,
) -> MixtureFit:
    """The mixture of k elliptical stable laws that explains the sketch, or of laws with independent coordinates.

    A wrong mixture leaves hundreds of times the noise of the sketch, so that the search knows when it has ended: until
    then components are taken out and others put where the residual is largest. A mixture that rows suggest, in the
    units of the data, is tried first: where it leads to one that explains the sketch, nothing is searched.
    """
    given = problem
    near = None if known is None else _near(problem, known)
    if near is not None and near.explains and not problem.target.harmonics:
        return _in_data_units(problem, near, Outcome(near.mixture, 0.0, 0.0, 0, Status.EXPLAINED))
    problem = cleaned(problem, decoder, rng, progress)
    density, outcome = fit_density(problem, decoder, rng, progress)
    density = with_components(density, problem.n_components)
    with one_blas_thread():
        start = problem.in_own_units(SymmetricStable(), *merge_components(*density.parts(), problem.n_components))
        # tails of a stable law are found as wide components: begin with what is narrow
        start = replace(start, shapes=np.column_stack([np.minimum(start.shapes[:, :-1], 1.0), start.shapes[:, -1]]))
        found = [_searched(problem, start, rng, progress)]
        if not found[0].explains and problem.target.n_features > 1:
            found.append(_searched(problem, replace(found[0].mixture, model=IndependentStable()), rng, progress))
        best = min(found if near is None else [*found, near], key=lambda candidate: candidate.misfit)
        for _ in range(CLEANINGS if problem.target.harmonics else 0):
            # the tails have harmonics, too, which Gaussians do not predict
            problem = given.without_harmonics(best.mixture)
            best = _refined(problem, best.mixture)
    return _in_data_units(problem, best, outcome)


def _near(problem: Problem, known: Mixture) -> Candidate:
    """The mixture that refinement leads to from one in the units of the data."""
    target = problem.target
    places = (known.locations - target.origin) / target.unit - problem.shift
    own = replace(known, locations=places, shapes=known.model.scaled(known.shapes, 1 / target.unit))
    with one_blas_thread():
        return _refined(problem.without_harmonics(own), own)


def _in_data_units(problem: Problem, best: Candidate, outcome: Outcome) -> MixtureFit:
    """The fit, and its outcome in place of that of the Gaussians it began with."""
    mixture = replace(best.mixture, weights=best.mixture.weights / best.mixture.weights.sum())
    cost, plain = problem.target.cost(best.mixture), problem.plain
    test = tested(plain, best.mixture, independent_errors(plain), HOLD if plain.released else 0.0)
    status = Status.EXPLAINED if test.passes else outcome.status
    outcome = Outcome(best.mixture, cost, problem.misfit(cost), outcome.iterations, status)
    return MixtureFit(problem.in_data_units(mixture), test, outcome)


def _searched(problem: Problem, start: Mixture, rng: np.random.Generator, progress: Progress | None) -> Candidate:
    """The best of some exchanges of components, each refined; they end when the sketch is explained."""
    best = _refined(problem, start)
    for _ in range(EXCHANGES):
        if progress:
            progress(f"{len(best.mixture)} stable laws, misfit {best.misfit:.3g}")
        if best.explains:
            break
        grown = ClOmpr.grown(problem, best.mixture, EXCHANGED_COMPONENTS, rng)
        grown, _, _ = refine(problem.target, grown, problem.box, iterations=EXCHANGE_ITERATIONS)
        other = _refined(problem, prune(problem.target, grown, problem.n_components))
        best = min(best, other, key=lambda candidate: candidate.misfit)
    return best


def _refined(problem: Problem, start: Mixture) -> Candidate:
    """At a local minimum of the cost, then of the residual in units of its noise."""
    target = problem.plain
    mixture, _, _ = refine(target, start, problem.box, iterations=COARSE_ITERATIONS)
    mixture = replace(mixture, weights=np.maximum(mixture.weights, LEAST_START_WEIGHT))
    hold, errors = HOLD if target.released else 0.0, independent_errors(target)
    mixture, cost = levenberg_marquardt(target, mixture, errors, iterations=FINE_ITERATIONS, hold=hold)
    return Candidate(mixture, cost / max(target.n_numbers - problem.n_parameters(mixture), 1))
