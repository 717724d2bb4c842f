"""Several subspaces from moments of order 2 and 4: generalised principal components without the rows.

Whatever the rows' law within its subspaces U_i, their fourth moments are sum over i of forms of U_i, plus what noise
adds. The subspaces for which that holds best are found by least squares, from starts that algebra gives.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from sketchlearn.moments.fourth_moments import FourthMoments, forms, paired
from sketchlearn.moments.moments_of_sketch import part_of
from sketchlearn.operators import VeroneseMoments
from sketchlearn.sketch import Sketch
from sketchlearn.tasks.subspaces.subspace_fit import Linearised, Projection, SubspaceFit, Union, relative
from sketchlearn.tasks.subspaces.subspace_starts import Quadrics, n_vanishing, starts

Double = NDArray[np.float64]

STARTS, FINALISTS, ROUNDS = 16, 4, 10
LATER_STARTS_FACTOR = 2  # times as many starts after the first round, half of them any
FIRST_STEPS, STEPS = 15, 80
SMALLEST = 1e-4  # variance of a direction, of the largest
# squared residuals, in those that sampling leaves if rows are Gaussian: with heavier tails more is no sign of failure
CONTENT, ENOUGH = 1.5, 20.0
ALIKE, AGREE = 1.001, 4  # so many rounds with the lowest cost tell that it is not higher for want of luck
ROUND = 0.93  # 0.97 of uniform squares; 0.82 to 0.88 where a plane's law is one of three lines
UNLIKE = 0.05  # distance of projections of subspaces that are not the same
SIMULATED, FEWEST = 4000, 50  # rows, of all and of one subspace
NOISES = 20  # draws of rounding and private noise
LEAST_SHARE, FLAT, TINY = 1e-3, 1e-6, 1e-30
ROUNDING = 1e-17  # of the squared moments, from float64
MOVING = 1e-4  # a derivative that is not 0


@dataclass(frozen=True)
class Subspaces:
    """Subspaces through one point.

    Attributes
    ----------
    origin : array (columns,), where they meet.
    bases : per subspace an array (p, columns) of orthonormal rows, the largest variance first.
    weights : the share of records in each, if all have a law of the same shape.
    noise_variance : of each column.
    residual : what the subspaces leave of the fourth moments, of their size.
    misfit : its square in units of what sampling (and a private release) leaves of moments of Gaussian rows.
    identified : whether the moments tell the subspaces apart from others near them.
    """

    origin: Double
    bases: tuple[Double, ...]
    weights: Double
    noise_variance: float
    residual: float
    misfit: float
    identified: bool = True

    @property
    def explained(self) -> bool:
        return self.misfit <= ENOUGH

    def distances(self, rows: Double) -> Double:
        """Of rows to each subspace, (rows, subspaces)."""
        y = rows - self.origin
        return np.stack([np.linalg.norm(y - y @ basis.T @ basis, axis=1) for basis in self.bases], axis=1)


def union_of_subspaces(
    sketch: Sketch, dimensions: Sequence[int], rng: np.random.Generator, progress: Callable[[str], None] | None = None
) -> Subspaces:
    """Subspaces of given dimensions, from a sketch of `VeroneseMoments`."""
    part = part_of(sketch, VeroneseMoments)
    if part is None:
        kind = type(sketch.operator).__name__
        raise ValueError(
            f"subspace clusters need a sketch of fourth moments (skl.VeroneseMoments), but the sketch is of {kind}"
        )
    if not part.units:
        raise ValueError("the sketch is empty: subspace clusters need records")
    problem = _Problem(part, dimensions)
    rounds = [problem.search(rng)]
    while not problem.content(rounds, progress) and len(rounds) < ROUNDS:
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
    return int(np.sum(sizes > MOVING * max(sizes[0], 1.0))) >= sum(p * (d - p) for p in dimensions)


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
        kept = np.maximum(values[-self.rank :], SMALLEST * values[-1])
        self.to_unit = (vectors[:, -self.rank :] / np.sqrt(kept)).T
        self.from_unit = vectors[:, -self.rank :] * np.sqrt(kept)
        self.beside = max(float(np.mean(values[: -self.rank])), 0.0) if self.rank < len(values) else 0.0
        most = self.beside if len(dimensions) == 1 else max(float(values[-self.rank]), 0.0)
        second, fourth = self._measured(sketch.mean)
        self.moments = FourthMoments(second, fourth, self.to_unit @ self.to_unit.T, most)
        n = n_vanishing(dimensions, self.rank)
        self.noise = self.moments.noise_beneath(n) if n else min(self.beside, most)
        self.quadrics = Quadrics.of(self.moments, self.noise, n)
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
        bases = starts(self.quadrics, self.dimensions, more * STARTS, rng, loose=loose or not self.independent)
        n = len(bases[0])
        found = self.coarse.descend(Union(bases, np.full(n, self.noise), np.zeros(n)), FIRST_STEPS)
        found = self.coarse.descend(found.only(self._finalists(found, more * FINALISTS)), STEPS)
        found = self.fit.descend(found.only(self._finalists(found, more * FINALISTS)), STEPS)
        each = [found.only(np.array([i])) for i in range(len(found.cost))]
        return [self._candidate(union, rng) for union in each]

    def _finalists(self, found: Union, n: int) -> NDArray[np.intp]:
        """The lowest costs, of subspaces that are not alike."""
        projections = [
            sum(basis @ np.swapaxes(basis, 1, 2) for basis in found.bases if basis.shape[2] == p)
            for p in sorted(set(self.dimensions))
        ]
        both = np.concatenate(projections, axis=1)
        chosen: list[np.intp] = []
        for i in np.argsort(found.cost, kind="stable"):
            if all(np.linalg.norm(both[i] - both[j]) > UNLIKE for j in chosen):
                chosen.append(i)
        return np.array(chosen[:n])

    def content(self, rounds: list[list[_Candidate]], progress: Callable[[str], None] | None) -> bool:
        """Whether more rounds are not worth their time."""
        best, lowest = self.best(rounds), [min(each.cost for each in found) for found in rounds]
        if progress is not None:
            progress(f"round {len(rounds)}: squared residual {best.cost:.3g}, {best.misfit:.3g} times that of sampling")
        agree = sum(cost <= ALIKE * min(lowest) for cost in lowest)
        mixed = len(set(self.dimensions)) > 1  # lines and planes of other sets may have the very same moments
        found = best.misfit <= (ENOUGH if agree >= AGREE else CONTENT) and (best.roundness >= ROUND or not mixed)
        return found or len(self.dimensions) == 1 or not self.identified

    def best(self, rounds: list[list[_Candidate]]) -> _Candidate:
        """Of candidates with the lowest cost, the one whose laws are roundest."""
        every = [each for found in rounds for each in found]
        lowest = min(each.cost for each in every)
        return max((each for each in every if each.cost <= ALIKE * lowest), key=lambda each: each.roundness)

    def _candidate(self, union: Union, rng: np.random.Generator) -> _Candidate:
        at = self.fit.linearised(union.bases, union.noise)
        shapes = [_Shape.of(two[0], four[0]) for four, two in zip(*at.forms, strict=True)]
        expected = ROUNDING * float(np.sum(self.moments.fourth**2))
        if all(shape.plausible for shape in shapes):
            expected += self._sampled(union, at, shapes, rng) + self._of_integers(union, at, rng)
        return _Candidate(union, shapes, float(union.cost[0]) / expected)

    def _sampled(self, found: Union, at: Linearised, shapes: list[_Shape], rng: np.random.Generator) -> float:
        """The squared residual that sampling leaves at these subspaces, if rows are Gaussian in them."""
        weights, rows = _shares(shapes), []
        for basis, shape, share in zip(found.bases, shapes, weights, strict=True):
            n = max(int(SIMULATED * share), FEWEST)
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
        drawn = deviation * rng.standard_normal((NOISES, self.operator.n_sums))
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
        turned, sizes, _ = np.linalg.svd(at.jacobian[0], full_matrices=False)
        turned = turned[:, sizes > 1e-7 * max(sizes[0], 1e-300)]
        return np.asarray(rest - turned @ (turned.T @ rest)).T

    def result(self, rounds: list[list[_Candidate]]) -> Subspaces:
        """In the data's coordinates: subspaces of one dimension in the order of their shares."""
        best = self.best(rounds)
        weights, dimensions = _shares(best.shapes), self.dimensions
        order = iter(sorted(range(len(weights)), key=lambda i: (dimensions[i], -weights[i])))
        chosen = np.empty(len(weights), int)
        for place in np.argsort(dimensions, kind="stable"):
            chosen[place] = next(order)
        return Subspaces(
            self.operator.middle,
            tuple(self._rows_of(best.union.bases[i][0], best.shapes[i].second) for i in chosen),
            weights[chosen],
            self.beside if len(dimensions) == 1 else float(best.union.noise[0]),
            float(np.sqrt(best.cost) / np.linalg.norm(self.moments.fourth)),
            best.misfit,
            self.identified,
        )

    def _rows_of(self, basis: Double, second: Double) -> Double:
        """A basis of the data's coordinates, by variance, the largest coordinate of each row positive."""
        spanned = self.from_unit @ basis
        q, r = np.linalg.qr(spanned)
        _, turn = np.linalg.eigh(r @ second @ r.T)
        rows = (q @ turn[:, ::-1]).T
        largest = rows[np.arange(len(rows)), np.argmax(np.abs(rows), axis=1)]
        return np.asarray(rows * np.where(largest < 0, -1.0, 1.0)[:, None])


def turned(tensor: Double, matrix: Double) -> Double:
    """Moments of matrix @ x, of those of x."""
    for _ in range(tensor.ndim):
        tensor = np.tensordot(tensor, matrix, axes=(0, 1))
    return tensor


@dataclass(frozen=True)
class _Shape:
    """The law within a subspace, in its own basis: second moments and fourth ones, both times its share of records."""

    second: Double
    fourth: Double
    plausible: bool

    @classmethod
    def of(cls, second: Double, fourth: Double) -> _Shape:
        """Of vectors of forms; a matrix that is not positive is made so."""
        p = int((np.sqrt(8 * len(second) + 1) - 1) / 2)
        a, b = forms(p, 2).indices.T
        matrix = np.empty((p, p))
        matrix[a, b] = matrix[b, a] = second / forms(p, 2).weights
        values, vectors = np.linalg.eigh(matrix)
        largest = max(float(values[-1]), TINY)
        positive = (vectors * np.maximum(values, FLAT * largest)) @ vectors.T
        shape = cls(positive, fourth, bool(values[0] > -FLAT * largest))
        return replace(shape, plausible=shape.plausible and shape.size > 0)

    @property
    def size(self) -> float:
        """T . A^-1 (x) A^-1, of A = share * covariance, T = share * fourth moments: p (p + 2) / share of Gaussians."""
        inverse = np.asarray(np.linalg.inv(self.second), np.float64)
        return float(self.fourth @ paired(inverse, inverse))

    @property
    def share(self) -> float:
        """Up to a factor, if the laws in all subspaces have one shape."""
        p = len(self.second)
        return p * (p + 2) / self.size if self.size > 0 else 0.0

    @property
    def roundness(self) -> float:
        """1 if fourth moments are those of an ellipse's law, such as a Gaussian; less if rows lie along few lines."""
        p = len(self.second)
        to_unit = np.linalg.inv(np.linalg.cholesky(self.second))
        norm = np.linalg.norm(turned(forms(p, 4).tensor(self.fourth), to_unit))
        return self.size / max(float(norm) * math.sqrt(p * (p + 2) / 3), TINY)


def _shares(shapes: list[_Shape]) -> Double:
    shares = np.array([shape.share for shape in shapes])
    shares = np.maximum(shares, LEAST_SHARE * max(float(np.max(shares)), TINY))
    return np.asarray(shares / np.sum(shares))


@dataclass(frozen=True)
class _Candidate:
    """Subspaces with what is known about them."""

    union: Union
    shapes: list[_Shape]
    misfit: float

    @property
    def cost(self) -> float:
        return float(self.union.cost[0])

    @property
    def roundness(self) -> float:
        return min(shape.roundness for shape in self.shapes)
