"""A mixture of components flatter than the density that it was made from: declared shapes, put in their places."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import linear_sum_assignment
from scipy.special import logsumexp

from sketchlearn.decoders.problems.decoding_problem import Problem
from sketchlearn.decoders.problems.decoding_target import Target
from sketchlearn.decoders.refinements.gauss_newton import Whitening, independent_errors, levenberg_marquardt
from sketchlearn.decoders.refinements.reduction_to_points import antithetic_sample
from sketchlearn.models import Double, Mixture

MOST_FREQUENCIES = 2200
BLURS = (1.0, 0.3, 0.1, 0.03, 0.01, 0.003, 0.0)
STEPS_PER_BLUR = 5
LEAST_WEIGHT = 1e-3  # A component that came to nothing may be needed at the next blur.
DESIGN_ROWS = 20_000  # that an operator for mixtures is designed on, where there are as many
DENSITY_SAMPLES = 2000
SEARCHES = 3  # What is likeliest under a coarse density is not always what fits best.
MOST_ROUNDS, MOVES_PER_ROUND, PLACES_PER_COMPONENT = 40, 15, 4  # of the search for places
LEAST_DENSITY_SHARE = 1e-12  # of a row
LEAST_GAIN = 1e-3  # nats per row that a move must gain


def sharpened(problem: Problem, mixture: Mixture, density: Mixture, rng: np.random.Generator) -> Mixture:
    """The mixture with the shapes of clusters that the operator declares, as far as the sketch agrees with them.

    The density, of diagonal Gaussians, is as coarse as the frequencies in all directions are short, and so is
    `mixture`. The declared shapes, blurred as the density is, are put where they are likeliest under it. Then the blur
    is withdrawn step by step, and locations settle where ever longer frequencies put them. Were the shapes free
    meanwhile, they would collapse onto whatever is concentrated most. A mixture that the sketch contradicts more than
    the one at the start, because the records are not those that the operator was made for, is not returned.
    """
    declared = problem.plain.shapes
    blur = np.diag(np.average(density.shapes, axis=0, weights=density.weights))
    shapes = declared[_nearest(mixture.covariances(), declared + blur)]
    places = _Places(antithetic_sample(density, DENSITY_SAMPLES, rng), shapes + blur)
    target = problem.plain.some(slice(0, MOST_FREQUENCIES))
    whitening, found = independent_errors(target), []
    for start in range(SEARCHES):
        order = rng.permutation(len(mixture)) if start else np.arange(len(mixture))
        weights, locations = places.search(mixture.weights[order], mixture.locations[order], density.locations)
        placed = replace(mixture, weights=weights, locations=locations)
        found.append(_unblurred(target, placed, shapes, blur, whitening))
    best, cost = min(found, key=lambda fit: fit[1])
    # misfits are errors of the model: they count as noise when the sketch is weighed against the declared shapes
    hold = cost / target.n_numbers * DESIGN_ROWS / len(mixture)
    best, cost = levenberg_marquardt(target, best, whitening, iterations=STEPS_PER_BLUR, hold=hold)
    coarse = levenberg_marquardt(target, mixture, whitening, iterations=0)[1]
    return best if cost < coarse else mixture


def _unblurred(
    target: Target, mixture: Mixture, shapes: Double, blur: Double, whitening: Whitening
) -> tuple[Mixture, float]:
    """The mixture with these shapes, its weights and locations refined as the blur is withdrawn; and its cost."""
    for part in BLURS:
        own = mixture.model.shapes_of(shapes + part * blur)
        mixture = replace(mixture, weights=np.maximum(mixture.weights, LEAST_WEIGHT), shapes=own)
        mixture, cost = levenberg_marquardt(target, mixture, whitening, iterations=STEPS_PER_BLUR, hold=np.inf)
    return mixture, cost


def _nearest(covariances: Double, others: Double) -> NDArray[np.int64]:
    """Which of the others each covariance is nearest to in divergence, no two to the same if there are enough."""
    ratios = np.linalg.solve(others[None], covariances[:, None])
    divergence = 0.5 * (np.trace(ratios, axis1=2, axis2=3) - np.linalg.slogdet(ratios)[1])
    if len(others) < len(covariances):
        return np.asarray(np.argmin(divergence, axis=1))
    return np.asarray(linear_sum_assignment(divergence)[1])


class _Places:
    """Weights and locations of Gaussians of given covariances, by likelihood on samples."""

    def __init__(self, rows: Double, covariances: Double) -> None:
        self.rows = rows
        self.inverses = np.linalg.inv(np.linalg.cholesky(covariances))  # L^-1 of each covariance L L'
        #: logarithm of each Gaussian's density at its location, less one that all share
        self.constants = np.sum(np.log(np.diagonal(self.inverses, axis1=1, axis2=2)), axis=1)

    def logarithms(self, component: int, points: Double) -> Double:
        """Log-density of a component at each row, were it at each point: (rows, points)."""
        inverse = self.inverses[component]
        rows, seen = self.rows @ inverse.T, points @ inverse.T
        squares = np.sum(rows**2, axis=1)[:, None] - 2 * rows @ seen.T + np.sum(seen**2, axis=1)
        return np.asarray(self.constants[component] - 0.5 * squares)

    def parts(self, weights: Double, locations: Double) -> Double:
        """Logarithm of weight times density: (rows, components)."""
        own = [self.logarithms(c, point[None])[:, 0] for c, point in enumerate(locations)]
        return np.asarray(np.stack(own, axis=1) + np.log(np.maximum(weights, 1e-12)))

    def settle(self, weights: Double, locations: Double, steps: int) -> tuple[Double, Double, float]:
        """Weights and locations after so many steps of EM, and the likelihood before the last one."""
        for _ in range(steps):
            parts = self.parts(weights, locations)
            total = logsumexp(parts, axis=1, keepdims=True)
            likelihood = float(np.mean(total))
            shares = np.exp(parts - total)
            sizes = shares.sum(axis=0)
            weights = sizes / sizes.sum()
            means = shares.T @ self.rows / np.maximum(sizes, 1e-9)[:, None]
            locations = np.where(sizes[:, None] > 1e-3, means, locations)
        return weights, locations, likelihood

    def search(self, weights: Double, locations: Double, others: Double) -> tuple[Double, Double]:
        """EM, then moves of one component to another place or exchanges of two, while that makes the rows likelier."""
        weights, locations, best = self.settle(weights, locations, 10)
        for _ in range(MOST_ROUNDS):
            for moved in self._moves(weights, locations, others)[:MOVES_PER_ROUND]:
                *settled, likelihood = self.settle(*moved, 6)
                if likelihood > best + LEAST_GAIN:
                    (weights, locations), best = settled, likelihood
                    break
            else:
                break
        return self.settle(weights, locations, 20)[:2]

    def _moves(self, weights: Double, locations: Double, others: Double) -> list[tuple[Double, Double]]:
        """Weights and locations after each move, the most promising first."""
        k, parts = len(weights), self.parts(weights, locations)
        total = logsumexp(parts, axis=1, keepdims=True)
        shares, logs = np.exp(parts - total), np.log(weights + 1e-12)
        here = [self.logarithms(c, locations) - total + logs for c in range(k)]
        found: list[tuple[float, Double, Double]] = []
        for c in range(k):
            rest = np.maximum(1 - shares[:, c], LEAST_DENSITY_SHARE)
            raised = np.where(np.arange(k) == c, np.maximum(weights, 0.5 / k), weights)
            there = self.logarithms(c, others) - total + np.log(raised[c])
            gains = np.mean(np.log(rest[:, None] + np.exp(there)), axis=0)
            for j in np.argsort(-gains)[:PLACES_PER_COMPONENT]:
                at = locations.copy()
                at[c] = others[j]
                found.append((float(gains[j]), raised / raised.sum(), at))
            for other in range(c):
                order = np.arange(k)
                order[[c, other]] = other, c
                both = np.exp(here[c][:, other]) + np.exp(here[other][:, c])
                gain = np.mean(np.log(np.maximum(rest - shares[:, other], LEAST_DENSITY_SHARE) + both))
                found.append((float(gain), weights[order], locations[order]))
        return [move[1:] for move in sorted(found, key=lambda move: -move[0])]
