"""Several subspaces from moments of order 2 and 4: generalised principal components without the rows.

Whatever the rows' law within its subspaces U_i, their fourth moments are sum over i of forms of U_i, plus what noise
adds. The subspaces for which that holds best are found by least squares, from starts that algebra gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.moments.fourth_moments import FourthMoments, forms, paired
from sketchlearn.moments.moments_of_sketch import needed_part
from sketchlearn.operators import VeroneseMoments
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.estimating.fitted_model import FittedModel, arrays, model_array, scalar
from sketchlearn.tasks.principal_components.principal_subspace import upright
from sketchlearn.tasks.subspaces.subspace_fit import Linearised, Projection, SubspaceFit, Union, relative
from sketchlearn.tasks.subspaces.subspace_starts import n_vanishing, quadrics, starts

STARTS, FINALISTS, MOST_ROUNDS = 16, 4, 10
LATER_STARTS_FACTOR = 2  # times as many starts after the first round, half of them at random
FIRST_STEPS, STEPS = 15, 80
LEAST_RELATIVE_VARIANCE = 1e-4  # of a direction, relative to the largest
# Squared residuals in units of what sampling leaves of Gaussian rows; heavier tails leave more, which is no failure.
GOOD_MISFIT, ACCEPTABLE_MISFIT = 1.5, 20.0
# An acceptable misfit is taken for the least possible once this many rounds end within this ratio of the lowest cost.
EQUAL_COST_RATIO, AGREEING_ROUNDS = 1.001, 4
LEAST_ROUNDNESS = 0.93  # Uniform squares have 0.97, planes whose rows lie along three lines 0.82 to 0.88.
LEAST_DISTANCE = 0.05  # between projections of subspaces that count as different
SIMULATED_ROWS, LEAST_ROWS = 4000, 50  # in all, and in each subspace
NOISE_DRAWS = 20  # of rounding and private noise
LEAST_SHARE, LEAST_RELATIVE_EIGENVALUE, TINY = 1e-3, 1e-6, 1e-30
RELATIVE_ROUNDING = 1e-17  # of squared moments in float64
LEAST_DERIVATIVE = 1e-4  # A smaller singular value of the Jacobian, relative to the largest, counts as 0.


@dataclass(frozen=True, eq=False)
class Subspaces(FittedModel):
    """Subspaces through one point."""

    origin: Double = model_array("d")  # where they meet
    bases: tuple[Double, ...] = arrays("k", "p", "d")  # orthonormal rows, the largest variance first
    weights: Double = model_array("k")  # the share of records in each, if all have a law of the same shape
    noise_variance: float = scalar()  # of each column
    residual: float = scalar()  # what the subspaces leave of the fourth moments, relative to their size
    misfit: float = scalar()  # its square in units of what sampling (and a private release) leaves of Gaussian rows
    identified: bool = True  # whether the moments change with every small move of the subspaces

    def distances(self, rows: Double) -> Double:
        """Distances of rows to each subspace, (rows, subspaces)."""
        y = rows - self.origin
        return np.stack([np.linalg.norm(y - y @ basis.T @ basis, axis=1) for basis in self.bases], axis=1)

    def nearest(self, rows: Double) -> NDArray[np.int32]:
        """The nearest subspace of each row."""
        return np.argmin(self.distances(rows), axis=1).astype(np.int32)

    def check(self) -> None:
        if max(map(len, self.bases)) > len(self.origin):
            raise ValueError(f"subspaces must have at most {len(self.origin)} dimensions, as many as columns")


def union_of_subspaces(
    sketch: Sketch, dimensions: Sequence[int], rng: np.random.Generator, progress: Callable[[str], None] | None = None
) -> Subspaces:
    """Subspaces of given dimensions, from a sketch of `VeroneseMoments`."""
    need = "subspace clusters need a sketch of fourth moments (skl.VeroneseMoments)"
    problem = _Problem(needed_part(sketch, VeroneseMoments, need), dimensions)
    rounds = [problem.search(rng)]
    while not problem.content(rounds, progress) and len(rounds) < MOST_ROUNDS:
        rounds.append(problem.search(rng, loose=True))
    return problem.result(rounds)


def identifiable(dimensions: Sequence[int], d: int) -> bool:
    """Whether fourth moments change with every small move of subspaces in general position.

    >>> identifiable([2, 2, 2], 4), identifiable([2, 2, 2], 3)
    (True, False)
    """
    rng = np.random.default_rng(0)
    bases = [np.linalg.qr(rng.standard_normal((1, d, p)))[0] for p in dimensions]
    each = [basis[0] @ basis[0].T for basis in bases]
    fourth = np.sum([paired(part, part) for part in each], axis=0)
    moments = FourthMoments(np.sum(each, axis=0), fourth, np.eye(d), 0.0)
    jacobian = SubspaceFit(moments).linearised(bases, np.zeros(1)).jacobian[0][:, :-1]
    sizes = np.linalg.svd(jacobian, compute_uv=False)
    return int(np.sum(sizes > LEAST_DERIVATIVE * max(sizes[0], 1.0))) >= sum(p * (d - p) for p in dimensions)


class _Problem:
    """The moments in coordinates in which all directions that the subspaces span have the variance 1."""

    def __init__(self, sketch: Sketch, dimensions: Sequence[int]) -> None:
        operator: VeroneseMoments = sketch.operator  # type: ignore[assignment]
        self.sketch, self.operator, self.dimensions = sketch, operator, list(dimensions)
        second, _ = operator.split(sketch.mean)
        values, vectors = np.linalg.eigh(second)
        if values[-1] <= 0:
            raise ValueError("all rows are at the center: there are no directions to find subspaces of")
        self.rank = min(operator.n_features, sum(dimensions))  # no more directions are spanned
        kept = np.maximum(values[-self.rank :], LEAST_RELATIVE_VARIANCE * values[-1])
        self.to_unit = (vectors[:, -self.rank :] / np.sqrt(kept)).T
        self.from_unit = vectors[:, -self.rank :] * np.sqrt(kept)
        self.beside = max(float(np.mean(values[: -self.rank])), 0.0) if self.rank < len(values) else 0.0
        most = self.beside if len(dimensions) == 1 else max(float(values[-self.rank]), 0.0)
        second, fourth = self._measured(sketch.mean)
        self.moments = FourthMoments(second, fourth, self.to_unit @ self.to_unit.T, most)
        n = n_vanishing(dimensions, self.rank)
        self.noise = self.moments.noise_beneath(n) if n else min(self.beside, most)
        self.quadrics = quadrics(self.moments, self.noise, n)
        self.independent = sum(len(forms(p, 2)) for p in dimensions) == len(forms(self.rank, 2)) - n
        self.identified = identifiable(dimensions, self.rank)
        self.fit = SubspaceFit(self.moments)
        self.coarse = SubspaceFit(self.moments, relative(self.moments, self.noise))

    def _measured(self, mean: Double) -> tuple[Double, Double]:
        """Moments of order 2, and of order 4 as a vector, in unit coordinates; linear in the sketch's mean."""
        second, fourth = self.operator.split(mean)
        return turned(second, self.to_unit), forms(self.rank, 4).vector(turned(fourth, self.to_unit))

    def search(self, rng: np.random.Generator, *, loose: bool = False) -> list[_Candidate]:
        """The best of some starts, unlike each other."""
        more = LATER_STARTS_FACTOR if loose else 1
        bases = starts(*self.quadrics, self.dimensions, more * STARTS, rng, loose=loose or not self.independent)
        n = len(bases[0])
        found = self.coarse.descend(Union(bases, np.full(n, self.noise), np.zeros(n)), FIRST_STEPS)
        found = self.coarse.descend(found.only(self._finalists(found, more * FINALISTS)), STEPS)
        found = self.fit.descend(found.only(self._finalists(found, more * FINALISTS)), STEPS)
        return [self._candidate(found.only(np.array([i])), rng) for i in range(len(found.cost))]

    def _finalists(self, found: Union, n: int) -> NDArray[np.intp]:
        """The lowest costs, of subspaces that are not alike."""
        of_one_dimension = ([b for b in found.bases if b.shape[2] == p] for p in sorted(set(self.dimensions)))
        projections = [sum(basis @ np.swapaxes(basis, 1, 2) for basis in bases) for bases in of_one_dimension]
        both = np.concatenate(projections, axis=1)
        chosen: list[np.intp] = []
        for i in np.argsort(found.cost, kind="stable"):
            if all(np.linalg.norm(both[i] - both[j]) > LEAST_DISTANCE for j in chosen):
                chosen.append(i)
        return np.array(chosen[:n])

    def content(self, rounds: list[list[_Candidate]], progress: Callable[[str], None] | None) -> bool:
        """Whether more rounds are not worth their time."""
        best, lowest = self.best(rounds), [min(each.cost for each in found) for found in rounds]
        if progress is not None:
            progress(f"round {len(rounds)}: squared residual {best.cost:.3g}, {best.misfit:.3g} times that of sampling")
        agree = sum(cost <= EQUAL_COST_RATIO * min(lowest) for cost in lowest) >= AGREEING_ROUNDS
        one_dimension = len(set(self.dimensions)) == 1  # other sets of lines and planes may have the very same moments
        round_enough = one_dimension or best.roundness >= LEAST_ROUNDNESS
        found = best.misfit <= (ACCEPTABLE_MISFIT if agree else GOOD_MISFIT) and round_enough
        return found or len(self.dimensions) == 1 or not self.identified

    def best(self, rounds: list[list[_Candidate]]) -> _Candidate:
        """Of candidates with the lowest cost, the one whose laws are roundest."""
        every = [each for found in rounds for each in found]
        highest = EQUAL_COST_RATIO * min(each.cost for each in every)
        return max((each for each in every if each.cost <= highest), key=lambda each: each.roundness)

    def _candidate(self, union: Union, rng: np.random.Generator) -> _Candidate:
        at = self.fit.linearised(union.bases, union.noise)
        shapes = [_Shape.of(p, two[0], four[0]) for p, four, two in zip(self.dimensions, *at.forms, strict=True)]
        cost, expected = float(union.cost[0]), RELATIVE_ROUNDING * float(np.sum(self.moments.fourth**2))
        if all(shape.plausible for shape in shapes):
            expected += self._sampled(union, at, shapes, rng) + self._of_integers(union, at, rng)
        return _Candidate(union, shapes, cost, cost / expected)

    def _sampled(self, found: Union, at: Linearised, shapes: list[_Shape], rng: np.random.Generator) -> float:
        """The squared residual that sampling leaves at these subspaces, if rows are Gaussian in them."""
        weights, rows = _shares(shapes), []
        for basis, shape, share in zip(found.bases, shapes, weights, strict=True):
            n = max(int(SIMULATED_ROWS * share), LEAST_ROWS)
            z = rng.standard_normal((n, len(shape.second))) @ np.linalg.cholesky(shape.second / share).T
            rows.append(z @ basis[0].T)
        z = np.concatenate(rows)
        z = z + np.sqrt(found.noise[0]) * rng.standard_normal((len(z), self.to_unit.shape[1])) @ self.to_unit.T
        sampled = np.concatenate([forms(self.rank, 4).powers(z), forms(self.rank, 2).powers(z)], axis=1)
        share = np.concatenate([np.full(len(part), w / len(part)) for part, w in zip(rows, weights, strict=True)])
        left = self._left(found, at, sampled - share @ sampled)
        return float(share @ np.sum(left**2, axis=1)) / float(self.sketch.count)

    def _of_integers(self, found: Union, at: Linearised, rng: np.random.Generator) -> float:
        """The squared residual that rounding and the noise of a release leave."""
        ledger, units = self.sketch.ledger, float(self.sketch.units)
        deviation = np.sqrt(units / 12 + (0.0 if ledger is None else ledger.sum_variance)) / units
        drawn = deviation * rng.standard_normal((NOISE_DRAWS, self.operator.n_sums))
        measured = [self._measured(self.operator.mean_of(noise)) for noise in drawn]
        both = np.stack([np.concatenate([four, forms(self.rank, 2).vector(two)]) for two, four in measured])
        return float(np.mean(np.sum(self._left(found, at, both) ** 2, axis=1)))

    def _left(self, found: Union, at: Linearised, values: Double) -> Double:
        """Values (n, moments) without all that subspaces near these explain."""
        parts = np.split(values.T[None], [len(forms(self.rank, 4))], axis=1)
        for i, degree in enumerate((4, 2)):
            columns = np.concatenate([forms(self.rank, degree).basis(basis) for basis in found.bases], axis=2)
            parts[i] = Projection(columns).rest(parts[i])
        rest = np.concatenate(parts, axis=1)[0]
        directions, sizes, _ = np.linalg.svd(at.jacobian[0], full_matrices=False)
        directions = directions[:, sizes > 1e-7 * max(sizes[0], 1e-300)]
        return np.asarray(rest - directions @ (directions.T @ rest)).T

    def result(self, rounds: list[list[_Candidate]]) -> Subspaces:
        """In the data's coordinates: subspaces of one dimension by their shares, their bases by variance."""
        best = self.best(rounds)
        weights, dimensions = _shares(best.shapes), self.dimensions
        chosen = np.empty(len(weights), int)
        chosen[np.argsort(dimensions, kind="stable")] = np.lexsort((-weights, np.array(dimensions)))
        bases = []
        for i in chosen:
            q, r = np.linalg.qr(self.from_unit @ best.union.bases[i][0])
            _, turn = np.linalg.eigh(r @ best.shapes[i].second @ r.T)
            bases.append(upright((q @ turn[:, ::-1]).T))
        return Subspaces(
            self.operator.middle,
            tuple(bases),
            weights[chosen],
            self.beside if len(dimensions) == 1 else float(best.union.noise[0]),
            float(np.sqrt(best.cost) / np.linalg.norm(self.moments.fourth)),
            best.misfit,
            self.identified,
        )


def turned(tensor: Double, matrix: Double) -> Double:
    """Moments of matrix @ x, given those of x."""
    for _ in range(tensor.ndim):
        tensor = np.tensordot(tensor, matrix, axes=(0, 1))
    return tensor


@dataclass(frozen=True)
class _Shape:
    """The law within a subspace, in its own basis: second moments and fourth ones, both times its share of records.

    `size` is T . A^-1 (x) A^-1, of A = share * covariance, T = share * fourth moments: p (p + 2) / share of Gaussians.
    """

    second: Double
    fourth: Double
    size: float
    plausible: bool

    @classmethod
    def of(cls, p: int, second: Double, fourth: Double) -> _Shape:
        """From vectors of forms; a matrix that is not positive definite is made so."""
        values, vectors = np.linalg.eigh(forms(p, 2).tensor(second))
        least = LEAST_RELATIVE_EIGENVALUE * max(float(values[-1]), TINY)
        positive = (vectors * np.maximum(values, least)) @ vectors.T
        inverse = np.asarray(np.linalg.inv(positive), np.float64)
        size = float(fourth @ paired(inverse, inverse))
        return cls(positive, fourth, size, bool(values[0] > -least and size > 0))

    @property
    def roundness(self) -> float:
        """1 if fourth moments are those of an ellipse's law, such as a Gaussian; less if rows lie along few lines."""
        p = len(self.second)
        to_unit = np.linalg.inv(np.linalg.cholesky(self.second))
        norm = np.linalg.norm(turned(forms(p, 4).tensor(self.fourth), to_unit))
        return self.size / max(float(norm) * math.sqrt(p * (p + 2) / 3), TINY)


def _shares(shapes: list[_Shape]) -> Double:
    """The share of records in each subspace, if all laws have one shape."""
    each = ((shape.size, len(shape.second)) for shape in shapes)
    shares = np.array([p * (p + 2) / size if size > 0 else 0.0 for size, p in each])
    shares = np.maximum(shares, LEAST_SHARE * max(float(np.max(shares)), TINY))
    return np.asarray(shares / np.sum(shares))


@dataclass(frozen=True)
class _Candidate:
    """Subspaces with what is known about them."""

    union: Union
    shapes: list[_Shape]
    cost: float
    misfit: float

    @property
    def roundness(self) -> float:
        return min(shape.roundness for shape in self.shapes)
