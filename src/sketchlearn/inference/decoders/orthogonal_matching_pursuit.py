"""CL-OMP and CL-OMPR of the literature: points, one at a time. A baseline to compare with."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from scipy.optimize import Bounds, minimize

from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.loop import FEW_CLUSTERS, Decoder, State
from sketchlearn.inference.decoders.mean_shift import Landscape, find_modes
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import Box, prune, refine, with_best_weights
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import Dirac, Mixture

FIRST_ROUNDS = 4  # in which the first n_components components are found
SHORT_REFINEMENT, LONG_REFINEMENT = 15, 100  # iterations after each round, and at milestones


@dataclass(frozen=True)
class ClOmpr(Decoder):
    """Adds the components that correlate best with the residual and refines all of them together.

    The first components share one variance that is fixed; then it is set free, then each component has its own. At full
    size, each step adds a few and removes those of least use. (Keriven et al. 2018; here in batches, with
    Gaussian components from the start.)
    """

    other: Decoder | None = None

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        mixture, k = state.mixture, problem.n_components
        size, most = len(mixture), problem.n_atoms
        batch = -(-k // FIRST_ROUNDS)
        if size < k <= FEW_CLUSTERS and size + batch >= k:
            # a few more than k, then the best of them: otherwise, one draw in ten lacked a cluster
            grown = self.grown(problem, mixture, k - size + batch, rng)
            grown = state.refined(problem, grown, SHORT_REFINEMENT, shapes=False).mixture
            return state.refined(problem, prune(problem.target, grown, k), LONG_REFINEMENT)
        too_wide = mixture.model.tied and k <= size < min(2 * k, most)
        if size < k or too_wide:
            wanted, limit = (min(2 * k, most), most) if too_wide else (k, k)
            if too_wide:  # k components did not suffice: narrow again, until there are enough
                mixture = replace(mixture, shapes=problem.start.shapes)
            grown = self.grown(problem, mixture, min(batch, limit - size), rng)
            full = len(grown) >= wanted
            return state.refined(problem, grown, LONG_REFINEMENT if full else SHORT_REFINEMENT, shapes=full)
        if mixture.model.tied and problem.own_shapes:
            return state.refined(problem, mixture.untied(), LONG_REFINEMENT)
        grown = self.grown(problem, mixture, batch if size >= most else min(2 * batch, most - size), rng)
        return state.refined(problem, prune(problem.target, grown, most), LONG_REFINEMENT // 2)

    @staticmethod
    def grown(problem: Problem, mixture: Mixture, n: int, rng: np.random.Generator) -> Mixture:
        """The mixture with up to n more components, where its residual is largest."""
        new = find_modes(problem, mixture, n, rng)
        locations, shapes = np.concatenate([mixture.locations, new]), mixture.shapes
        if not mixture.model.tied:
            shapes = np.concatenate([shapes, np.tile(np.median(shapes, axis=0), (len(new), 1))])
        return with_best_weights(problem.target, Mixture(mixture.model, np.zeros(len(locations)), locations, shapes))


REACH = 3.0  # standard deviations of all records; climbs from far outside end in ripples of the landscape
MOST_ITERATIONS = 1000  # of each descent, which mostly converges long before
TOLERANCE = 1e-8  # relative decrease of the cost below which a descent has converged; SciPy's own is 2e-9


@dataclass(frozen=True)
class DiracOmpr(Decoder):
    """Adds points, one at a time, until k of them remain: orthogonal matching pursuit, with or without replacement.

    Each round climbs Re <Phi(c), r>, where r is the residual, from one random start in the box, and adds the point
    where it ends. Of more than k points, those of the k largest weights stay. The weights are those
    of nonnegative least squares; then all points and weights descend |z - sum alpha_l Phi(c_l)|^2 together (L-BFGS-B).
    There are k rounds, or 2 k with replacement. Nothing is tuned: no widths, no weights of frequencies, no harmonics.
    (Keriven, Bourrier, Gribonval and Perez 2018, algorithm 1; for k-means, Keriven, Tremblay, Traonmilin and Gribonval
    2017.)

    Parameters
    ----------
    replacement : 2 k rounds, of which the last k replace the lightest point.
    trials : independent runs, of which that of the lowest cost counts.
    bounds : the least and the largest values of the columns: the box. None: three standard deviations around the mean,
        both estimated from the sketch.

    Examples
    --------
    >>> import sketchlearn as skl
    >>> X = np.repeat([[0.0, 0.0], [4.0, 0.0], [0.0, 4.0]], 1000, axis=0)
    >>> X += 0.3 * np.random.default_rng(0).standard_normal(X.shape)
    >>> sketch = skl.features.FourierFeatures(2, 60, law=skl.features.frequencies.Gaussian(1.0), seed=0).sketch(X)
    >>> decoder = DiracOmpr(bounds=(tuple(X.min(axis=0)), tuple(X.max(axis=0))))
    >>> found = skl.SketchKMeans(3, decoder=decoder, random_state=0).fit_sketch(sketch).cluster_centers_
    >>> sorted((found.round() + 0.0).tolist())
    [[0.0, 0.0], [0.0, 4.0], [4.0, 0.0]]
    """

    points = True
    replacement: bool = True
    trials: int = 1
    bounds: tuple[tuple[float, ...], tuple[float, ...]] | None = None

    def step(self, problem: Problem, state: State, rng: np.random.Generator) -> State:
        box = self.box(problem)
        runs = [self.pursued(problem.plain, problem.n_components, box, rng) for _ in range(self.trials)]
        mixture = min(runs, key=lambda run: run.cost).mixture
        iterations = state.iterations + sum(run.iterations for run in runs)
        return State(mixture, problem.target.cost(mixture), iterations, finished=True)

    def pursued(self, target: Target, k: int, box: Box, rng: np.random.Generator) -> State:
        """k points, after one run."""
        state = State(Mixture(Dirac(), np.zeros(0), np.zeros((0, target.n_features)), np.zeros((1, 0))))
        for _ in range(2 * k if self.replacement else k):
            new = climbed(target, state.mixture, rng.uniform(box.low, box.high), box)
            locations = np.concatenate([state.mixture.locations, new[None]])
            mixture = with_best_weights(target, replace(state.mixture, locations=locations))
            if len(mixture) > k:
                mixture = with_best_weights(target, mixture.some(np.sort(np.argsort(-mixture.weights)[:k])))
            mixture, cost, done = refine(target, mixture, box, iterations=MOST_ITERATIONS, tolerance=TOLERANCE)
            state = State(mixture, cost, state.iterations + done)
        return state

    def box(self, problem: Problem) -> Box:
        """Where points may lie."""
        if self.bounds is None:
            return Box(-REACH * problem.spread, REACH * problem.spread)
        low, high = (np.asarray(side, np.float64) for side in self.bounds)
        if not low.shape == high.shape == (problem.target.n_features,) or not np.all(low < high):
            raise ValueError(
                f"bounds must be the least and the largest values of {problem.target.n_features} columns, each least "
                "value below the largest: give ((least, ...), (largest, ...))"
            )
        low, high = ((side - problem.target.origin) / problem.target.unit - problem.shift for side in (low, high))
        return Box(low, high)


def climbed(target: Target, mixture: Mixture, start: Double, box: Box) -> Double:
    """The local maximum from a start of the correlation of a point with the residual of a mixture."""
    landscape = Landscape(target, target.residual(mixture), np.ones(len(target), np.float32))
    size = landscape.norm**2

    def descent(c: Double) -> tuple[float, Double]:
        height, slope = landscape.evaluate(c[None])
        return -float(height[0]) / size, -slope[0] / size

    bounds = Bounds(box.low, box.high)
    return np.asarray(minimize(descent, start, jac=True, method="L-BFGS-B", bounds=bounds).x)
