"""A decoding problem: the target in good units, where components may lie, and how wide they are expected to be."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from sketchlearn.core.arrays import Double, Single
from sketchlearn.inference.decoders.refinement import Box, refine
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.distributions import (
    DiagonalGaussian,
    Mixture,
    Model,
    SphericalGaussian,
    TiedDiagonalGaussian,
)

REWEIGHTING_ROUNDS = 3
FREQUENCIES_PER_PARAMETER = 10  # frequencies per coordinate of a center, in a sketch as fine as the clusters
COARSENING_EXPONENT = 0.6
BACKGROUND_POWER = 0.3  # Relative to the power of clusters where they are resolved.
WIDTH_FACTOR = 1.2  # Components that are too wide cost less than too narrow ones.
LEAST_RELATIVE_VARIANCE = 0.05  # Few low frequencies hardly resolve a coordinate narrower than the others.
LARGEST_MEAN = 6.0  # standard deviations


def read(target: Target, n_components: int) -> tuple[Double, Double, float]:
    """Mean and variance of all records, by coordinate, and the variance of a cluster, in the target's units."""
    if target.one_scale and np.all(target.declared > 0) and (target.harmonics or not target.imaginary):
        # the design's sample is more precise than half of the numbers, or disturbed ones
        mean, variances = np.zeros(target.n_features), target.declared**2
    else:
        mean, variances = _spread(target)
    variances = np.maximum(variances, target.declared**2)
    d = target.n_features
    if target.one_scale:
        return mean, variances, 1 / coarseness(n_components, d, len(target)) / d
    return mean, variances, _within(target, variances, n_components)


def coarseness(n_components: int, n_features: int, n_frequencies: int) -> float:
    """The squared scale of a sketch, in squared deviations of a cluster: small sketches are coarser."""
    return float(max(1.0, FREQUENCIES_PER_PARAMETER * n_components * n_features / n_frequencies) ** COARSENING_EXPONENT)


def _spread(target: Target) -> tuple[Double, Double]:
    """One Gaussian fitted to the frequencies along the axes; without any, to those where it is not small."""
    if target.released:
        return _spread_in_noise(target)
    probes = np.count_nonzero(target.frequencies.omega, axis=1) == 1
    part = target.some(probes) if np.sum(probes) >= target.n_features else target
    mixture = Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, target.n_features)), _decay(part)[None])
    for _ in range(REWEIGHTING_ROUNDS):
        # heavy tails matter least at low frequencies
        mixture = _one_gaussian(part, mixture, mixture.shapes[0], steepness=1 if target.harmonics else 8)
    return mixture.locations[0], np.maximum(mixture.shapes[0], LEAST_RELATIVE_VARIANCE * mixture.shapes.mean())


def _spread_in_noise(target: Target) -> tuple[Double, Double]:
    """One Gaussian fitted to all frequencies where it is not small: one variance first, then one per coordinate.

    The latter are shrunk towards the common one, according to the noise.
    """
    d, squares = target.n_features, target.frequencies.squares.astype(np.float64)
    mixture = Mixture(SphericalGaussian(), np.ones(1), np.zeros((1, d)), np.full((1, 1), _decay(target).mean()))
    for _ in range(REWEIGHTING_ROUNDS):
        mixture = _one_gaussian(target, mixture, np.full(d, mixture.shapes[0, 0]))
    common = np.full(d, mixture.shapes[0, 0])
    own = _one_gaussian(target, replace(mixture, model=DiagonalGaussian(), shapes=common[None]), common)
    slow = np.exp(-squares @ common)
    slopes = (squares * common / 2) ** 2
    error = target.noise / 2 * (slow**3 @ slopes) / (slow**2 @ slopes) ** 2
    logs = np.log(own.shapes[0] / common)
    between = max(float(np.mean(logs**2 - error)), 0.0)
    return own.locations[0], common * np.exp(logs * between / (between + error))


def _one_gaussian(target: Target, mixture: Mixture, variances: Double, steepness: int = 1) -> Mixture:
    """The Gaussian refined where one of these variances is not small."""
    slow = np.exp(-steepness * (target.frequencies.squares @ variances).astype(np.float64))
    reach = LARGEST_MEAN * np.sqrt(variances)
    box = Box(-reach, reach, LEAST_RELATIVE_VARIANCE * float(variances.min()))
    return refine(target.weighted(slow), replace(mixture, weights=np.ones(1)), box, iterations=50, tolerance=1e-3)[0]


def _decay(target: Target) -> Double:
    """A first guess of the variance of each coordinate, from the decay of |z|^2 along it."""
    power = np.abs(target.values) ** 2 * (1 if target.imaginary else 2)
    squares = target.frequencies.squares.astype(np.float64)
    if not np.all(np.count_nonzero(squares, axis=1) == 1):
        total = squares.sum(axis=1)
        slow = np.argsort(total)[: max(4 * target.n_features, len(target) // 20)]
        return np.full(target.n_features, _best_decay(total[slow], power[slow]))
    return np.array([_best_decay(column[column > 0], power[column > 0]) for column in squares.T])


def _best_decay(squares: Double, power: Double) -> float:
    """The variance v of 80 candidates with exp(-squares v) nearest to the powers."""
    guesses = np.geomspace(1e-3, 1e3, 80)
    residuals = np.sum((power - np.exp(-np.outer(guesses, squares))) ** 2, axis=1)
    return float(guesses[int(np.argmin(residuals))])


def _within(target: Target, variances: Double, n_components: int) -> float:
    """|z|^2 is, on average, (1 - q) exp(-omega' V omega) + q exp(-|omega|^2 s^2), q about 1 / k: likelihood for s^2.

    Centers far from each other have random phases, and |z|^2 an exponential distribution with that mean. The background
    keeps high frequencies, where only the narrowest clusters have power, from deciding.
    """
    decay = (target.frequencies.squares @ variances).astype(np.float64)
    lengths = target.frequencies.lengths.astype(np.float64)
    power = np.abs(target.values) ** 2 * (1 if target.imaginary else 2)
    share, clear = 1 / n_components, decay > 1
    if n_components == 1 or not np.any(clear):
        return float(variances.mean())
    # a designed sketch has its frequencies where clusters are resolved: |omega|^2 s^2 near 1
    shortest = 0.05 if np.quantile(decay, 0.05) > 1 else min(np.mean(~clear) + 0.05, 0.95)
    long, short = np.quantile(lengths, [0.95, shortest])
    guesses = np.geomspace(0.5 / long, min(1 / short, variances.mean()), 60)
    best, together = (np.inf, guesses[0]), np.exp(-decay[clear])
    for s in guesses:
        contrast = np.exp(-lengths[clear] * s) - together
        for q in (share, 1.5 * share, 2 * share, 3 * share):
            background = BACKGROUND_POWER * q + target.noise
            mean = np.maximum(together + min(q, 1.0) * contrast, 0) + background
            best = min(best, (float(np.sum(np.log(mean) + (power[clear] + BACKGROUND_POWER * q) / mean)), s))
    return WIDTH_FACTOR**2 * float(best[1])


REACH = 4.0  # standard deviations; with 3, one draw in three of many-cluster problems lost a cluster
WINDOW_EXPONENT = 0.25  # of the weights of frequencies
CLEANED_POWER = 0.01  # of a harmonic, after it was subtracted
PARAMETERS_PER_VALUE = 0.85  # of the sketch; twice as many where noise is small
PRECISE_POWER_PER_NOISE = 1000.0
MOST_ATOMS = 3  # components per cluster
LEAST_NOISE_LEFT = 0.1  # of a release, however many parameters are fitted to it
LEAST_RESOLVED_VARIANCE = 0.05  # of a component, relative to a cluster: the frequencies resolve no less
STARTING_VARIANCE = 0.5  # of components while they are searched, in that of a cluster


@dataclass(frozen=True)
class Problem:
    """A decoding problem in units of the clusters' expected deviation, around the mean of all records."""

    target: Target  # its frequencies weighted
    plain: Target  # all values, as they are
    n_components: int
    spread: Double  # standard deviation of all records, coordinate by coordinate
    shift: Double  # mean of all records, before it was subtracted
    size: int | None = None  # components to fit, of one shape; None: as many as the sketch determines

    @classmethod
    def of(cls, target: Target, n_components: int) -> Problem:
        """The problem with scale, location and weights of frequencies that are estimated from the target."""
        mean, variances, within = read(target, n_components)
        unit = float(np.sqrt(within))
        mean, spread = mean / unit, np.sqrt(variances) / unit
        target = target.centered(unit, mean)
        return cls(_weighted(target, spread, n_components), target, n_components, spread, mean)

    def without_harmonics(self, mixture: Mixture) -> Problem:
        """The problem without the wave's harmonics of a fitted mixture, if it has any."""
        if not self.plain.harmonics:
            return self
        plain = self.plain.without_harmonics(mixture)
        return replace(self, target=_weighted(plain, self.spread, self.n_components), plain=plain)

    @property
    def n_atoms(self) -> int:
        """The number of components to fit: up to three per cluster, as far as the sketch determines them."""
        if self.size is not None:
            return self.size
        k, d, m = self.n_components, self.target.n_features, self.target.n_numbers / 2
        # whether noise is small relative to half a cluster's part of the sketch
        precise = m / (k * k * (2 * d + 1)) >= PRECISE_POWER_PER_NOISE * self.target.noise
        precise = precise and not self.target.released  # private sketches of real data had 1.18 with twice as many
        return int(np.clip(self._determined * (2 if precise else 1), k, MOST_ATOMS * k))

    @property
    def own_shapes(self) -> bool:
        """Whether the sketch determines a shape for each component."""
        return self.size is None and self._determined >= 0.75 * self.n_components

    @property
    def _determined(self) -> float:
        """The number of components with shapes of their own that the sketch determines."""
        return PARAMETERS_PER_VALUE * self.target.n_numbers / 2 / (2 * self.target.n_features + 1)

    @cached_property
    def box(self) -> Box:
        reach = REACH * self.spread * (1 if np.all(self.target.declared > 0) else 2)  # a spread that was only guessed
        return Box(-reach, reach, LEAST_RESOLVED_VARIANCE)

    @cached_property
    def start(self) -> Mixture:
        """A mixture without components, with the shape of the components to search for."""
        width = STARTING_VARIANCE * self.spread / np.mean(self.spread)
        return Mixture(TiedDiagonalGaussian(), np.zeros(0), np.zeros((0, len(width))), width[None])

    @property
    def one_gaussian(self) -> Mixture:
        """The Gaussian with the mean and spread of all records."""
        return Mixture(DiagonalGaussian(), np.ones(1), np.zeros((1, len(self.spread))), self.spread[None] ** 2)

    def n_parameters(self, mixture: Mixture) -> int:
        """Free parameters of a mixture."""
        return mixture.model.n_parameters(len(mixture), self.target.n_features)

    def damping(self, mixture: Mixture) -> Single:
        """The absolute characteristic function of a typical component of the mixture."""
        shapes = np.median(mixture.shapes, axis=0, keepdims=True)
        exponents = mixture.model.exponents(shapes, self.target.frequencies)
        return np.ones(len(self.target), np.float32) if exponents is None else np.exp(-exponents[0])

    @cached_property
    def floor(self) -> float:
        """The expected cost of the best mixture of diagonal Gaussians if records are of one: that of sampling error.

        A cluster's sampling error at frequency omega has parts of every order in omega, with weights of the Poisson
        distribution of u = |omega|^2 s^2; weight, mean and variances absorb orders 0, 1 and, along the axes, 2.
        """
        u, d = self.target.frequencies.lengths.astype(np.float64), self.target.n_features
        second = np.exp(-u) * u * u / 2
        left = 1 - np.exp(-u) * (1 + u) - second + second * (d - 1) / (d + 2)
        disturbance = _disturbance(self.target, self.spread, self.n_components)
        sampled = float(np.average(self.target.sampling * left + disturbance, weights=self.target.weights))
        independent = self.target.released + self.target.subsampling  # of each other, value by value
        fitted = (self.n_components * (d + 1) + d) * self.concentration / self.target.n_numbers
        return sampled + independent * max(1 - fitted, LEAST_NOISE_LEFT)

    @property
    def concentration(self) -> float:
        """The ratio of the number of values to their effective number under the weights."""
        weights = self.target.weights
        return float(np.mean(weights**2) / np.mean(weights) ** 2)

    def misfit(self, cost: float) -> float:
        """The cost relative to that of sampling error: far above 1, the fit is poor."""
        return cost / self.floor

    def in_data_units(self, mixture: Mixture) -> Mixture:
        """The mixture in the units of the data."""
        unit = self.target.unit
        locations = self.target.origin + unit * (mixture.locations + self.shift)
        shapes = mixture.model.scaled(mixture.shapes, unit)
        return replace(mixture, model=mixture.model.in_units(unit), locations=locations, shapes=shapes)

    def from_data_units(self, mixture: Mixture) -> Mixture:
        """A mixture that is in the units of the data, in those of the problem."""
        unit, model = self.target.unit, mixture.model
        locations = (mixture.locations - self.target.origin) / unit - self.shift
        return Mixture(model.in_units(1 / unit), mixture.weights, locations, model.scaled(mixture.shapes, 1 / unit))

    def in_own_units(self, model: Model, weights: Double, means: Double, covariances: Double) -> Mixture:
        """A mixture of this model; it, means and covariances are given in the units of the data."""
        unit = self.target.unit
        locations = (means - self.target.origin) / unit - self.shift
        model = model.in_units(1 / unit)
        return Mixture(model, weights, locations, model.shapes_of(covariances / np.outer(unit, unit)))


def _weighted(target: Target, spread: Double, n_components: int) -> Target:
    """The target with most weight where clusters are resolved, |omega|^2 s^2 near 1, and harmonics disturb little."""
    u = target.frequencies.lengths.astype(np.float64)
    trust = np.sqrt(target.noise / (target.noise + _disturbance(target, spread, n_components)))
    return target.weighted((u * np.exp(1 - u)) ** WINDOW_EXPONENT * trust)


def _disturbance(target: Target, spread: Double, n_components: int) -> Double:
    """The mean squared error of each value due to harmonics of the wave, with their own sampling error.

    A harmonic of order k adds |F_k / F_1| phi(k omega) with a random phase; |phi|^2 is about that of separate clusters
    plus that of one Gaussian of all records.
    """
    squares, lengths = target.frequencies.squares.astype(np.float64), target.frequencies.lengths.astype(np.float64)
    overall, share = squares @ spread**2, 1 / n_components
    total, left = np.zeros(len(target)), CLEANED_POWER if target.cleaned else 1
    for order, ratio in target.harmonics:
        seen = (1 - share) * np.exp(-order * order * overall) + share * np.exp(-order * order * lengths)
        total += abs(ratio) ** 2 * (seen * left + target.sampling + target.subsampling)
    return total
