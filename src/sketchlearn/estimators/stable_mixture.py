"""Mixtures of symmetric alpha-stable distributions from a sketch."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.core.arrays import Double
from sketchlearn.core.messages import counted, in_digits, warn_caller
from sketchlearn.estimators.base.components import FittedMixture, SketchMixture, largest_first
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import model_array, word
from sketchlearn.estimators.base.state import FittedState
from sketchlearn.features.families import former_parameters
from sketchlearn.inference.calibration import calibrated
from sketchlearn.inference.decoders import decoder_from
from sketchlearn.inference.decoders.density import CLEANINGS, cleaned, fit_density
from sketchlearn.inference.decoders.gaussian_mixture import HOLD, MixtureFit, with_components
from sketchlearn.inference.decoders.goodness_of_fit import FitTest, tested
from sketchlearn.inference.decoders.loop import Decoder, Outcome, Progress, Status
from sketchlearn.inference.decoders.orthogonal_matching_pursuit import ClOmpr
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import independent_errors, levenberg_marquardt, prune, refine
from sketchlearn.inference.decoders.target import HIGHEST_HARMONIC, Target
from sketchlearn.inference.distributions import IndependentStable, Mixture, SymmetricStable, merge_components
from sketchlearn.inference.em import log_densities
from sketchlearn.inference.errors.mixtures import stable_errors
from sketchlearn.inference.errors.values import ErrorBars
from sketchlearn.inference.kmedians import start_from_rows
from sketchlearn.inference.weighted_clusters import RowSample
from sketchlearn.sketch.sums import Sketch

COARSE_ITERATIONS, FINE_ITERATIONS = 200, 60  # of a refinement
EXCHANGE_ITERATIONS = 50  # with the added components
EXCHANGES, EXCHANGED_COMPONENTS = 12, 2  # An exchange adds components before as many are removed.
EXPLAINED_MISFIT = 1.5  # per degree of freedom; errors are correlated, so that the true mixture has less than 1
LEAST_START_WEIGHT = 1e-3  # of a component before the fine refinement


class Candidate(NamedTuple):
    """A mixture and its squared residual per degree of freedom."""

    mixture: Mixture
    misfit: float

    @property
    def explains(self) -> bool:
        """Whether it fits well enough to end the search."""
        return self.misfit <= EXPLAINED_MISFIT


def fit_stable(
    problem: Problem, decoder: Decoder, rng: np.random.Generator, progress: Progress | None, known: Mixture | None
) -> MixtureFit:
    """The mixture of k elliptical stable distributions, or of those with independent coordinates, that fits the sketch.

    The residual of a wrong mixture is hundreds of times the noise of the sketch. Until it is explained, components are
    removed and others added where the residual is largest. A known mixture, in the units of the data, is tried first:
    if its refinement fits the sketch, nothing is searched.
    """
    given = problem
    near = None if known is None else _near(problem, known)
    if near is not None and near.explains and not problem.target.harmonics:
        return _in_data_units(problem, near, Outcome(near.mixture, 0.0, 0.0, 0, Status.EXPLAINED))
    problem = cleaned(problem, decoder, rng, progress)
    density, outcome = fit_density(problem, decoder, rng, progress)
    density = with_components(density, problem.n_components)
    start = problem.in_own_units(SymmetricStable(), *merge_components(*density.parts(), problem.n_components))
    # Tails are found as wide components: begin with narrow ones.
    start = replace(start, shapes=np.column_stack([np.minimum(start.shapes[:, :-1], 1.0), start.shapes[:, -1]]))
    found = [_searched(problem, start, rng, progress)]
    if not found[0].explains and problem.target.n_features > 1:
        found.append(_searched(problem, replace(found[0].mixture, model=IndependentStable()), rng, progress))
    best = min(found if near is None else [*found, near], key=lambda candidate: candidate.misfit)
    for _ in range(CLEANINGS if problem.target.harmonics else 0):
        # The tails have harmonics, too, which Gaussians do not predict.
        problem = given.without_harmonics(best.mixture)
        best = _refined(problem, best.mixture)
    return _in_data_units(problem, best, outcome)


def _near(problem: Problem, known: Mixture) -> Candidate:
    """The refinement of a mixture in the units of the data."""
    target = problem.target
    places = (known.locations - target.origin) / target.unit - problem.shift
    own = replace(known, locations=places, shapes=known.model.scaled(known.shapes, 1 / target.unit))
    return _refined(problem.without_harmonics(own), own)


def _in_data_units(problem: Problem, best: Candidate, outcome: Outcome) -> MixtureFit:
    """The fit, with its own outcome instead of that of the Gaussians at the start."""
    mixture = replace(best.mixture, weights=best.mixture.weights / best.mixture.weights.sum())
    cost, plain = problem.target.cost(best.mixture), problem.plain
    test = tested(plain, best.mixture, independent_errors(plain), HOLD if plain.released else 0.0)
    status = Status.EXPLAINED if test.passes else outcome.status
    outcome = Outcome(best.mixture, cost, problem.misfit(cost), outcome.iterations, status)
    return MixtureFit(problem.in_data_units(mixture), test, outcome)


def _searched(problem: Problem, start: Mixture, rng: np.random.Generator, progress: Progress | None) -> Candidate:
    """The best of several exchanges of components, each refined, until one fits."""
    best = _refined(problem, start)
    for _ in range(EXCHANGES):
        if progress:
            progress(f"{len(best.mixture)} stable distributions, residual {best.misfit:.3g} per degree of freedom")
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


DISTRIBUTIONS = {"elliptical": SymmetricStable, "independent": IndependentStable}


@dataclass(frozen=True, eq=False, kw_only=True)
class FittedStableMixture(FittedMixture):
    """A mixture of stable distributions, all with elliptical or all with independent coordinates."""

    scales: Double = model_array("k", "d")
    alphas: Double = model_array("k")
    coordinates: str = word(*DISTRIBUTIONS)

    def restored_density(self) -> Mixture:
        shapes = np.column_stack([self.scales**2, self.alphas])
        return Mixture(DISTRIBUTIONS[self.coordinates](), self.weights, self.means, shapes)

    def check(self) -> None:
        super().check()
        if np.any(self.scales <= 0) or np.any((self.alphas < 0.5) | (self.alphas > 2)):
            raise ValueError("scales must be positive, and alphas from 0.5 to 2")


@former_parameters
@dataclass(eq=False, repr=False)
class SketchStableMixture(SketchMixture):
    """A mixture of symmetric alpha-stable distributions, whose tails may be so heavy that they have no variance.

    Their densities have no closed form, but their characteristic functions have, and a sketch consists of those. Each
    component has its own center, scales and alpha. Its distribution is elliptical; where such mixtures do not fit the
    sketch, the coordinates are independent of each other.

    Parameters
    ----------
    n_components : number of components.
    features : `skl.features.Fourier`, with the number of frequencies and the wave.
    decoder, random_state, n_jobs, device, verbose, schema : as in `SketchGaussianMixture`.

    Attributes
    ----------
    weights_, means_ : arrays (n_components,) and (n_components, columns); the means are centers of symmetry. The
        component of the largest weight is 0.
    scales_ : array (n_components, columns): standard deviations, if alpha were 2.
    alphas_ : array (n_components,), between 0.5 and 2; 2 is Gaussian, 1 is Cauchy.
    coordinates_ : "elliptical" or "independent", whichever fits the sketch.
    standard_errors_ : of "weights_", "means_" and "scales_", by these names (see `intervals`). Those of "alphas_" are
        not reported.
    fit_test_, fit_p_value_ : goodness of fit, as in `SketchGaussianMixture`: 1 on average if the rows come from such a
        mixture, and its p-value. Above 2, if significant, there is a warning.
    sketch_, outcome_ : the sketch, and how decoding went.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> X = np.random.default_rng(0).standard_cauchy((20000, 1)) + 5
    >>> mixture = skl.SketchStableMixture(1, random_state=0).fit(X)
    >>> mixture.means_.round(1).tolist(), mixture.alphas_.round(1).tolist()
    ([[5.0]], [1.0])
    """

    model_type = FittedStableMixture
    scales_ = model_attribute("scales")
    alphas_ = model_attribute("alphas")
    coordinates_ = model_attribute("coordinates")

    @property
    def _task(self) -> str:
        return "stable"

    def learn_from_sketch(
        self, sketch: Sketch, rng: np.random.Generator, sample: RowSample | None = None
    ) -> FittedStableMixture:
        sample, k, known = self._sample(sketch, sample), self.n_components, None
        self._check_determined(sketch, sample, k)
        problem = Problem.of(Target.of(sketch, HIGHEST_HARMONIC), k)
        if sample is not None:
            rows = sample.rows if sample.complete else calibrated(sketch, [sample.rows], rng)[0]
            suggested = start_from_rows(rows.rows, rows.weights, k, rng)
            known = suggested if len(suggested) == k else None
        fit = fit_stable(problem, decoder_from(self.decoder), rng, self._say if self.verbose else None, known)
        if not fit.test.passes:
            warn_caller(
                f"a mixture of {counted(k, 'stable distribution')} does not fit the sketch (fit test "
                f"{in_digits(fit.test.figure, 3)}, about 1 for a good fit): try more components",
                ConvergenceWarning,
            )
        mixture = fit.mixture.some(largest_first(fit.mixture.weights))
        return FittedStableMixture(
            weights=mixture.weights,
            means=mixture.locations,
            scales=np.sqrt(mixture.shapes[:, :-1]),
            alphas=mixture.shapes[:, -1],
            coordinates="independent" if isinstance(mixture.model, IndependentStable) else "elliptical",
            fit_test=fit.test.figure,
            fit_p_value=fit.test.p_value,
            outcome=fit.outcome,
            density=mixture,
        )

    def find_error_bars(self, state: FittedState, rng: np.random.Generator) -> ErrorBars:
        model = state.model
        return stable_errors(state.sketch, model.density, FitTest(model.fit_test, model.fit_p_value).passes, rng)

    def _log_densities(self, rows: Double) -> Double:
        return log_densities(rows, self.fitted_model().density)
