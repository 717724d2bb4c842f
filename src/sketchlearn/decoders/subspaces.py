"""Several subspaces from moments of order 2 and 4: generalised principal components without the rows.

Whatever the rows' law within its subspaces U_i, their fourth moments are sum over i of forms of U_i, plus what noise
adds. The subspaces for which that holds best are found by least squares, from starts that algebra gives.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders.forms import forms
from sketchlearn.decoders.fourth_moments import FourthMoments, paired
from sketchlearn.decoders.moments import part_of
from sketchlearn.decoders.subspace_fit import Linearised, Projection, SubspaceFit, Union, relative
from sketchlearn.decoders.subspace_starts import Quadrics, n_vanishing, starts
from sketchlearn.operators import VeroneseMoments
from sketchlearn.sketch import Sketch

Double = NDArray[np.float64]

STARTS, FINALISTS, ROUNDS = 16, 4, 6
FIRST_STEPS, STEPS = 15, 80
SMALLEST = 1e-4  # variance of a direction, of the largest
# squared residuals, in those that sampling leaves if rows are Gaussian: with heavier tails more is no sign of failure
CONTENT, ENOUGH = 1.5, 20.0
ALIKE, AGREE = 1.001, 3  # so many rounds with the lowest cost are enough, whatever it is
SIMULATED = 4000
NOISES = 20


@dataclass(frozen=True)
class Subspaces:
    """Subspaces through one point.

    Attributes
    ----------
    count : number of records.
    origin : array (columns,), where they meet.
    bases : per subspace an array (p, columns) of orthonormal rows, the largest variance first.
    weights : the share of records in each, if all have a law of the same shape.
    noise_variance : of each column.
    residual : what the subspaces leave of the fourth moments, of their size.
    misfit : its square in units of what sampling (and a private release) leaves of moments of Gaussian rows.
    identified : whether the moments tell the subspaces apart from others near them.
    """

    count: float
    origin: Double
    bases: tuple[Double, ...]
    weights: Double
    noise_variance: float
    residual: float
    misfit: float
    identified: bool

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
    best: tuple[Union, float] | None = None
    costs: list[float] = []
    for turn in range(ROUNDS):
        found = problem.search(rng)
        misfit = float(found.cost[0]) / problem.expected(found, rng)
        if progress is not None:
            progress(f"round {turn + 1}: squared residual {found.cost[0]:.3g}, {misfit:.3g} times that of sampling")
        if best is None or found.cost[0] < best[0].cost[0]:
            best = found, misfit
        costs.append(float(found.cost[0]))
        agree = sum(cost <= ALIKE * min(costs) for cost in costs)
        if best[1] <= CONTENT or agree >= AGREE or problem.single:
            break
    assert best is not None
    return problem.result(*best)


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
        most = max(float(values[-self.rank]), 0.0)
        second, fourth = self._measured(sketch.mean)
        self.moments = FourthMoments(second, fourth, self.to_unit @ self.to_unit.T, most)
        n = n_vanishing(dimensions, self.rank)
        self.noise = self.moments.noise_beneath(n) if n else min(self.beside, most)
        self.quadrics = Quadrics.of(self.moments, self.noise, n)
        self.fit = SubspaceFit(self.moments)
        self.coarse = SubspaceFit(self.moments, relative(self.moments, self.noise))

    @property
    def single(self) -> bool:
        return len(self.dimensions) == 1

    def _measured(self, mean: Double) -> tuple[Double, Double]:
        """Moments of order 2, and of order 4 as a vector, in unit coordinates; linear in the sketch's mean."""
        second, fourth = self.operator.split(mean)
        for _ in range(4):
            fourth = np.tensordot(fourth, self.to_unit, axes=(0, 1))
        return self.to_unit @ second @ self.to_unit.T, forms(self.rank, 4).vector(fourth)

    def search(self, rng: np.random.Generator) -> Union:
        """The best of some starts."""
        bases = starts(self.quadrics, self.dimensions, STARTS, rng)
        n = len(bases[0])
        found = self.coarse.descend(Union(bases, np.full(n, self.noise), np.zeros(n)), FIRST_STEPS)
        found = self.coarse.descend(found.only(np.argsort(found.cost)[:FINALISTS]), STEPS)
        return self.fit.descend(found.only(np.argsort(found.cost)[:1]), STEPS)

    def expected(self, found: Union, rng: np.random.Generator) -> float:
        """The squared residual that sampling leaves at these subspaces, if rows are Gaussian in them."""
        at = self.fit.linearised(found.bases, found.noise)
        seconds, weights = self._shapes(found, at)
        rows = []
        for basis, second, share in zip(found.bases, seconds, weights, strict=True):
            n = max(int(SIMULATED * share), 50)
            rows.append(rng.standard_normal((n, len(second))) @ np.linalg.cholesky(second / share).T @ basis[0].T)
        z = np.concatenate(rows)
        z = z + np.sqrt(found.noise[0]) * rng.standard_normal((len(z), self.to_unit.shape[1])) @ self.to_unit.T
        sampled = np.concatenate([forms(self.rank, 4).powers(z), forms(self.rank, 2).powers(z)], axis=1)
        share = np.concatenate([np.full(len(part), w / len(part)) for part, w in zip(rows, weights, strict=True)])
        left = self._left(found, at, sampled - share @ sampled)
        expected = float(share @ np.sum(left**2, axis=1)) / float(self.sketch.count)
        return expected + self._of_integers(found, at, rng)

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

    def _shapes(self, found: Union, at: Linearised) -> tuple[list[Double], Double]:
        """Second moments in each basis, and shares of the records, if all have a law of the same shape.

        With A = share * covariance and T = share * fourth moments, T . A^-1 (x) A^-1 is p (p + 2) / share for Gaussians.
        """
        seconds, shares = [], []
        for four, two in zip(*at.forms, strict=True):
            p = _dimension(two.shape[1])
            a, b = forms(p, 2).indices.T
            second = np.empty((p, p))
            second[a, b] = second[b, a] = two[0] / forms(p, 2).weights
            values, vectors = np.linalg.eigh(second)
            values = np.maximum(values, 1e-6 * max(float(values[-1]), 1e-6))
            inverse = (vectors / values) @ vectors.T
            size = float(four[0] @ paired(inverse, inverse))
            seconds.append((vectors * values) @ vectors.T)
            shares.append(p * (p + 2) / size if size > 0 else 0.0)
        weights = np.maximum(np.array(shares), 1e-3 * max(max(shares), 1e-300))
        return seconds, weights / np.sum(weights)

    def result(self, found: Union, misfit: float) -> Subspaces:
        """In the data's coordinates: subspaces of one dimension in the order of their shares."""
        at = self.fit.linearised(found.bases, found.noise)
        seconds, weights = self._shapes(found, at)
        sizes = np.linalg.svd(at.jacobian[0][:, :-1], compute_uv=False)
        unknown = sum(p * (self.rank - p) for p in self.dimensions)
        rank = int(np.sum(sizes > 1e-6 * max(float(sizes[0]), 1e-300)))
        order = sorted(range(len(weights)), key=lambda i: (self.dimensions[i], -weights[i]))
        places = sorted(range(len(weights)), key=lambda i: (self.dimensions[i], i))
        chosen = [order[places.index(i)] for i in range(len(weights))]
        return Subspaces(
            float(self.sketch.count),
            self.operator.origin,
            tuple(self._rows_of(found.bases[i][0], seconds[i]) for i in chosen),
            weights[chosen],
            self.beside if self.single else float(found.noise[0]),
            float(np.sqrt(found.cost[0]) / np.linalg.norm(self.moments.fourth)),
            misfit,
            rank >= unknown,
        )

    def _rows_of(self, basis: Double, second: Double) -> Double:
        """A basis of the data's coordinates, by variance, the largest coordinate of each row positive."""
        spanned = self.from_unit @ basis
        q, r = np.linalg.qr(spanned)
        _, turn = np.linalg.eigh(r @ second @ r.T)
        rows = (q @ turn[:, ::-1]).T
        largest = rows[np.arange(len(rows)), np.argmax(np.abs(rows), axis=1)]
        return np.asarray(rows * np.where(largest < 0, -1.0, 1.0)[:, None])


def _dimension(n_forms: int) -> int:
    """p, of p (p + 1) / 2."""
    return int((np.sqrt(8 * n_forms + 1) - 1) / 2)
