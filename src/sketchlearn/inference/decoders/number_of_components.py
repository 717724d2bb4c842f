"""The number of Gaussians in a sketch: mixtures of 1, 2, ... components, compared by BIC.

One mixture of the most components is merged, pair by pair, down to one. Residuals are whitened, and projected onto the
derivatives of the largest mixture's parameters: the squared residual is then a likelihood ratio. With log n for each
parameter (BIC), the sum is least at the number of components. As merging can end in a local minimum, components are
also added and other pairs merged around the minimum, until nothing is gained. If the fit is good, components stay in
the end that gain more than noise would, even if less than their price.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field, replace
from itertools import combinations

import numpy as np
from scipy.linalg import solve_triangular
from scipy.special import chdtrc

from sketchlearn.core.arrays import Double
from sketchlearn.inference.decoders.gaussian_mixture import HOPELESS_RESIDUAL, with_components
from sketchlearn.inference.decoders.loop import Progress
from sketchlearn.inference.decoders.problem import Problem
from sketchlearn.inference.decoders.refinement import (
    CorrelatedErrors,
    Whitening,
    correlated_errors,
    derivatives,
    levenberg_marquardt,
    residual,
)
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import DiagonalGaussian, FullGaussian, Mixture, Model, merge_components

FREQUENCIES_PER_PARAMETER = 1.5  # of the largest mixture: 3 numbers
LEAST_FREQUENCIES, MOST_FREQUENCIES = 200, 1100  # The covariance of all errors is expensive to compute.
LEAST_NUMBERS_PER_PARAMETER = 2.5
MEASURING_COMPONENTS = 20  # of the density, by whose covariance residuals are measured at first
LEAST_RELATIVE_WEIGHT = 1e-3  # A component without weight would never move again.
LEAST_SHARE = 0.2  # of an added component, relative to an average one
LEAST_DIRECTION = 1e-4  # relative size of derivatives: directions with less are noise
FIRST_STEPS, STEPS = 5, 20  # of Levenberg-Marquardt
TOLERANCE = 1e-4  # With 1e-3, two overlapping clusters of 676,601 records ended 120 above their minimum.
PROMISING_RATIO = 3.0  # of the squared residual after the first steps to the wanted one: above it, a start is given up
SAME_MINIMUM_RATIO = 2.0  # of the squared distance to a minimum to the gain, 1 near it
LEAST_GAIN = 0.5  # of squared residuals: less is not worth another mixture
SIZES, SPARE = (5, 10), 2  # components of shorter paths, and the number of them beyond the best
BEYOND = 4  # components beyond the best so far, at the end of a path
NEEDLESS_BEYOND = 2  # the same, if the price of parameters rules them out
WINDOW = 2  # around the best number, where mixtures are refined to the end
ROUNDS = 4  # of whitening by the mixture chosen before
PAIRS = 3  # of components whose merger is tried
NEARLY_GOOD_RESIDUAL = 3.0  # per degree of freedom: below it, a few more components may give a good fit
LEAST_GAIN_PER_PARAMETER = 4.0  # of squared residuals; noise alone gives about 1.5
PASSING_RESIDUAL = 1.5  # per degree of freedom, of many records of nearly such a mixture
LEAST_P_VALUE = 1e-4  # of the residual, for few degrees of freedom
PROBES = 24  # random vectors that estimate a trace


@dataclass(frozen=True)
class PathFit:
    """A mixture in the problem's units, and its residual in units of the sampling error."""

    mixture: Mixture
    left: Double
    n_parameters: int

    @property
    def residual(self) -> float:
        return float(self.left @ self.left)

    def leads_to(self, lowest: PathFit) -> bool:
        """Whether steps from here would end at another mixture, a local minimum.

        There, the residual is orthogonal to all steps: squared residuals differ by the squared distance.
        """
        way = self.left - lowest.left
        return float(way @ way) < SAME_MINIMUM_RATIO * max(self.residual - lowest.residual, LEAST_GAIN)


@dataclass(frozen=True)
class ComponentPath:
    """Mixtures of 1, 2, ... components of one sketch."""

    fits: tuple[PathFit, ...]
    n_components: int  # of the chosen one
    n_records: float
    target: Target  # what they were fitted to
    #: squared residual of the chosen mixture per degree of freedom, over all directions: about 1 if records are of it
    misfit: float
    freedom: float

    @property
    def criteria(self) -> Double:
        """BIC: the squared residual plus log n for each parameter."""
        return np.array([fit.residual + np.log(self.n_records) * fit.n_parameters for fit in self.fits])

    @property
    def errors(self) -> Double:
        """Standard errors of the criteria's distances from the least: those of a noncentral chi-square."""
        best = self.chosen
        more = np.array([abs(fit.n_parameters - best.n_parameters) for fit in self.fits])
        gain = np.array([abs(fit.residual - best.residual) for fit in self.fits])
        return np.asarray(np.sqrt(2 * more + 4 * np.maximum(gain - more, 0)))

    @property
    def least_share(self) -> float:
        """The smallest share of records at which the criterion detects another cluster of the same width."""
        mixture = self.chosen.mixture
        values = mixture.component_characteristics(self.target.frequencies)
        power = float(np.mean(np.sum(values.real**2 + values.imag**2, axis=1)))
        price = np.log(self.n_records) * mixture.model.n_parameters(1, self.target.n_features)
        return math.sqrt(price * (self.target.sampling + self.target.released) / power)

    @property
    def explains(self) -> bool:
        """Whether the fit of the chosen mixture is good."""
        return self.misfit <= PASSING_RESIDUAL or _by_chance(self.misfit, self.freedom)

    @property
    def chosen(self) -> PathFit:
        """The mixture with the least criterion or, if its fit is poor, the smallest with a good fit."""
        return self.fits[self.n_components - 1]


@dataclass
class _Search:
    """The state of the search: mixtures by their number of components, and the whitening of residuals."""

    target: Target
    problem: Problem
    model: Model
    pool: Mixture  # the density, whose components may be added
    price: float  # of a parameter
    fits: dict[int, PathFit] = field(default_factory=dict)
    white: CorrelatedErrors = field(init=False)  # residuals in units of their covariance, along all directions
    whitening: Whitening = field(init=False)  # the same, along the derivatives of some mixtures

    def fitted(self, start: Mixture, steps: int) -> PathFit:
        start = replace(start, weights=np.maximum(start.weights, LEAST_RELATIVE_WEIGHT / len(start)))
        found, _ = levenberg_marquardt(self.target, start, self.whitening, iterations=steps, tolerance=TOLERANCE)
        found = replace(found, weights=found.weights / found.weights.sum())
        left = residual(self.target, found, self.whitening)
        return PathFit(found, left, self.problem.n_parameters(found) - 1)

    def offer(self, fit: PathFit) -> bool:
        """Takes a mixture if it has a smaller residual than that with as many components."""
        k = len(fit.mixture)
        better = k not in self.fits or fit.residual < self.fits[k].residual - LEAST_GAIN
        if better:
            self.fits[k] = fit
        return better

    def criterion(self, k: int) -> float:
        """The squared residual of a mixture of k components, plus the price of its parameters."""
        return self.fits[k].residual + self.price * self.fits[k].n_parameters

    @property
    def best(self) -> int:
        """The number of components with the least criterion."""
        return min(self.fits, key=self.criterion)

    def measure_by(self, mixture: Mixture, *others: Mixture) -> None:
        """Whitens residuals by the covariance of one mixture, projected onto the derivatives of others."""
        self.white = correlated_errors(self.target, mixture)
        along = self.white(np.concatenate([derivatives(self.target, each) for each in others], axis=1))
        along /= np.sqrt(np.sum(along**2, axis=0)) + 1e-300
        values, vectors = np.linalg.eigh(along.T @ along)
        kept = values > LEAST_DIRECTION**2 * values[-1]
        directions = along @ (vectors[:, kept] / np.sqrt(values[kept]))
        factor = self.white.factor
        projection = solve_triangular(factor, directions, lower=True, trans="T", check_finite=False).T.copy()
        single = projection.astype(np.float32)

        def whitening(parts: Double) -> Double:
            if parts.ndim == 1:
                return np.asarray(projection @ parts)
            return np.asarray(single @ parts.astype(np.float32), np.float64)  # derivatives need fewer digits

        self.whitening = whitening

    def mergers(self, mixture: Mixture) -> list[Mixture]:
        """Mixtures with two components merged: the pairs that change the sketch least."""
        weights, means, covariances = mixture.parts()
        pairs, singles = [], []
        for pair in map(list, combinations(range(len(mixture)), 2)):
            weight, place, covariance = merge_components(weights[pair], means[pair], covariances[pair], 1)
            try:
                singles.append((weight, place, self.model.shapes_of(covariance)))
            except np.linalg.LinAlgError:
                continue  # too flat
            pairs.append(pair)
        if not pairs:
            return []
        merged = Mixture(self.model, *map(np.concatenate, zip(*singles, strict=True)))
        own = self._waves(mixture)
        change = self._waves(merged) - np.array([own[pair].sum(axis=0) for pair in pairs])
        costs = np.sum(self.whitening(change.T) ** 2, axis=0)
        rests = [mixture.some(np.delete(np.arange(len(mixture)), pair)) for pair in pairs]
        return [_with(rests[i], *singles[i]) for i in np.argsort(costs)[:PAIRS]]

    def _waves(self, mixture: Mixture) -> Double:
        """Each component's part of the sketch's values: real parts, then imaginary ones."""
        values = mixture.component_characteristics(self.target.frequencies)
        return mixture.weights[:, None] * self.target.stacked(values, axis=1)

    def grown(self, mixture: Mixture) -> Mixture:
        """The mixture with the component of the pool that reduces the residual most."""
        left = residual(self.target, mixture, self.white)
        frequencies = self.target.frequencies
        added = self.pool.component_characteristics(frequencies) - mixture.characteristic(frequencies)
        columns = self.white(self.target.stacked(added, axis=1).T)
        along, sizes = left @ columns, np.sum(columns**2, axis=0) + 1e-300
        at = int(np.argmax(np.where(along > 0, along**2 / sizes, 0)))
        share = float(np.clip(along[at] / sizes[at], LEAST_SHARE / (len(mixture) + 1), 0.5))
        fewer, one = replace(mixture, weights=mixture.weights * (1 - share)), self.pool.some([at])
        return _with(fewer, np.array([share]), one.locations, one.shapes)

    def tried(self, start: Mixture) -> PathFit:
        """The mixture refined from a start, to the end if it is promising.

        It is not, if its parameters alone cost as much as the best criterion.
        """
        first, known = self.fitted(start, FIRST_STEPS), self.fits.get(len(start))
        wanted = PROMISING_RATIO * (self.criterion(self.best) - self.price * first.n_parameters)
        needless = not first.residual < wanted or (known is not None and first.leads_to(known))
        return first if needless else self.fitted(first.mixture, STEPS)

    def improve(self) -> bool:
        """Adds components and merges other pairs around the least criterion; whether anything was gained.

        No larger mixture can be better if the residual is below the price of a component.
        """
        k = self.best
        here, before = self.fits[k], self.criterion(k)
        starts = self.mergers(here.mixture)
        if k + 1 in self.fits and here.residual > self.price * (self.fits[k + 1].n_parameters - here.n_parameters):
            starts.append(self.grown(here.mixture))
            starts += self.mergers(self.fits[k + 1].mixture)
            starts += [self.grown(self.fits[k - 1].mixture)] if k > 1 else []
        for start in starts:
            self.offer(self.tried(start))
        return self.criterion(self.best) < before - LEAST_GAIN

    def grow(self, k: int) -> None:
        """Refines mixtures of k + 1 components to the end: the known one, and k with one of the pool."""
        if k + 1 in self.fits:
            self.offer(self.fitted(self.fits[k + 1].mixture, STEPS))
        first = self.fitted(self.grown(self.fits[k].mixture), FIRST_STEPS)
        if k + 1 not in self.fits or not first.leads_to(self.fits[k + 1]):
            self.offer(self.fitted(first.mixture, STEPS))

    def refit(self) -> None:
        """Refines all mixtures after a new whitening, those around the best to the end."""
        k, known = self.best, self.fits
        self.fits = {k: self.fitted(known[k].mixture, STEPS)}
        for other in (other for other in known if other != k):
            near, start = abs(other - k) <= WINDOW, known[other].mixture
            self.fits[other] = self.tried(start) if near else self.fitted(start, 1)


def component_path(
    problem: Problem, density: Mixture, model: Model, n_records: float, most: int, progress: Progress | None
) -> ComponentPath:
    """The path of a sketch to at most so many components, from a density of it in the units of the data.

    Short paths are tried first: they are fast, and suffice if few components are best.
    """
    pool = problem.in_own_units(model, *density.parts())
    least = 1
    for size in [*(size for size in SIZES if size < most - SPARE), most]:
        target = _some(problem.plain, model.n_parameters(size, problem.plain.n_features))
        search = _Search(target, problem, model, pool, float(np.log(n_records)))
        _climb(search, density, size, least, progress)
        if size < most and not _suffices(search, size):
            least = search.best - SPARE
            continue
        _settle(search, most)
        if _suffices(search, size):
            break
    chosen = _explaining(search, most)
    fits = tuple(search.fits[k] for k in sorted(search.fits))
    return ComponentPath(fits, chosen, n_records, search.target, *_residual_per_freedom(search, chosen))


def _suffices(search: _Search, size: int) -> bool:
    """Whether fewer components than so many are best, and do not fit hopelessly."""
    return search.best <= size - SPARE and _residual_per_freedom(search, search.best)[0] <= HOPELESS_RESIDUAL


def n_affordable(problem: Problem, model: Model, most_parameters: float = np.inf) -> int:
    """The number of components of a model that the sketch determines, up to a number of parameters."""
    numbers = min(problem.plain.n_numbers, 2 * MOST_FREQUENCIES) / LEAST_NUMBERS_PER_PARAMETER
    return int(min(numbers, most_parameters) // model.n_parameters(1, problem.plain.n_features))


def _climb(search: _Search, density: Mixture, size: int, least: int, progress: Progress | None) -> None:
    """Mixtures of 1, 2, ... components, merged from the density, until the criterion increases.

    Those of fewer than `least`, known to be too few, are hardly refined.
    """
    problem, model = search.problem, search.model
    if len(density) < size:  # diagonal shapes, one for each component, can be split
        shapes = DiagonalGaussian().shapes_of(density.covariances())
        density = with_components(Mixture(DiagonalGaussian(), density.weights, density.locations, shapes), size)
    parts, starts = merge_components(*density.parts(), max(size, MEASURING_COMPONENTS)), {}
    measuring = problem.in_own_units(model, *parts)
    for k in range(size, 0, -1):
        parts = merge_components(*parts, k)
        starts[k] = problem.in_own_units(model, *parts)
    search.measure_by(measuring, starts[size])
    for k in range(1, size + 1):
        if progress is not None:
            progress(f"trying mixtures of 1 to {size} Gaussians: {k}")
        search.offer(search.fitted(starts[k], FIRST_STEPS if k >= least else 1))
        best = search.best
        beyond = BEYOND if search.price * search.fits[k].n_parameters < search.criterion(best) else NEEDLESS_BEYOND
        if k >= best + beyond:
            break
    search.offer(search.fitted(search.fits[search.best].mixture, STEPS))


def _settle(search: _Search, most: int) -> None:
    """Improves the mixtures around the best, whitened by it, until nothing is gained."""
    before = 0
    for _ in range(ROUNDS):
        gained = search.improve()
        if search.best >= most - SPARE and _residual_per_freedom(search, search.best)[0] > HOPELESS_RESIDUAL:
            break
        if gained and not before:
            search.improve()
        if not gained and search.best == before:
            break
        before = search.best
        search.measure_by(search.fits[before].mixture, search.grown(search.fits[max(search.fits)].mixture))
        search.refit()


def _explaining(search: _Search, most: int) -> int:
    """The number with the least criterion or, if more give a good fit, the one above which none gains.

    A small cluster of many columns is significant, but its gain may be less than the price of its parameters.
    """
    best = k = search.best
    if _residual_per_freedom(search, best)[0] > NEARLY_GOOD_RESIDUAL:
        return best
    while k < most:
        search.grow(k)
        fewer, more = search.fits[k], search.fits[k + 1]
        if fewer.residual - more.residual < LEAST_GAIN_PER_PARAMETER * (more.n_parameters - fewer.n_parameters):
            break
        k += 1
    return k if _by_chance(*_residual_per_freedom(search, k)) else best


def _by_chance(misfit: float, freedom: float) -> bool:
    """Whether such a residual per degree of freedom is not significant."""
    return bool(chdtrc(freedom, misfit * freedom) > LEAST_P_VALUE)


def _residual_per_freedom(search: _Search, k: int) -> tuple[float, float]:
    """The squared residual of k components per degree of freedom, and the degrees of freedom."""
    fit, white = search.fits[k], search.white
    left = residual(search.target, fit.mixture, white)
    probes = white(np.random.default_rng(0).choice([-1.0, 1.0], (len(left), PROBES)))
    freedom = max(len(left) - white.ridge * float(np.mean(np.sum(probes**2, axis=0))) - fit.n_parameters, 1.0)
    return float(left @ left) / freedom, freedom


def _some(target: Target, n_parameters: int) -> Target:
    most = int(np.clip(FREQUENCIES_PER_PARAMETER * n_parameters, LEAST_FREQUENCIES, MOST_FREQUENCIES))
    if len(target) <= most:
        return target
    return target.some(np.sort(np.random.default_rng(1).permutation(len(target))[:most]))


def _with(mixture: Mixture, weights: Double, locations: Double, shapes: Double) -> Mixture:
    """The mixture with more components. Its own shapes stay: they may be too flat to recompute from covariances."""
    more = zip((mixture.weights, mixture.locations, mixture.shapes), (weights, locations, shapes), strict=True)
    return Mixture(mixture.model, *(np.concatenate(both) for both in more))


MOST_FULL_PARAMETERS = 420  # More would take longer than all else.
FEW = 4  # full Gaussians, which are fast
EXTRA_DIAGONAL = 3  # diagonal Gaussians beyond the number of full ones, to see that those suffice


def number_of_gaussians(
    problem: Problem, density: Mixture, n_records: float, most: int, progress: Progress | None = None
) -> ComponentPath:
    """The path of the type of covariances with a good fit and the least criterion; or the best fit, if none is good.

    Diagonal Gaussians can fit full ones, but need more components than there are clusters. A few full ones are tried
    first: where they suffice, no long path of diagonal ones is needed.
    """
    model, d = FullGaussian(), problem.plain.n_features
    affordable = min(n_affordable(problem, model, MOST_FULL_PARAMETERS), most)
    few = min(affordable, FEW)
    full = component_path(problem, density, model, n_records, few, progress) if few and d > 1 else None
    if full is not None and full.explains and full.n_components < max(few, 2):
        most = min(most, full.n_components + EXTRA_DIAGONAL)
    diagonal = component_path(problem, density, DiagonalGaussian(), n_records, most, progress)
    if full is None or (diagonal.explains and diagonal.n_components == 1):
        return diagonal
    wanted = min(affordable, diagonal.n_components)
    if wanted > few and (wanted == diagonal.n_components or not diagonal.explains):
        full = component_path(problem, density, model, n_records, wanted, progress)
    if full.explains and diagonal.explains:
        return full if _criterion(full, full) < _criterion(diagonal, full) else diagonal
    return min(full, diagonal, key=lambda path: path.misfit)


def _criterion(path: ComponentPath, other: ComponentPath) -> float:
    """The criterion of a path's choice with the whitening of another path."""
    left = residual(other.target, path.chosen.mixture, correlated_errors(other.target, other.chosen.mixture))
    return float(left @ left + np.log(path.n_records) * path.chosen.n_parameters)
