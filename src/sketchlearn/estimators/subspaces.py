"""Subspace clusters from moments of order 2 and 4: generalised principal components without the rows.

For any distribution of the rows within the subspaces U_i, their fourth moments are a sum over i of forms of U_i, plus
those of noise. The subspaces are found by least squares, from starts that algebra gives.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import KW_ONLY, dataclass
from functools import cache, cached_property
from itertools import combinations_with_replacement, permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from sklearn.exceptions import ConvergenceWarning

from sketchlearn.core.arrays import Double
from sketchlearn.core.errors import InvalidValueError, Parameter, either
from sketchlearn.core.messages import in_digits, warn_caller
from sketchlearn.core.values import shortened, whole
from sketchlearn.estimators.base.components import NearestClusters
from sketchlearn.estimators.base.estimator import model_attribute
from sketchlearn.estimators.base.model import Document, FittedModel, arrays, model_array, scalar
from sketchlearn.estimators.base.state import DesignSample
from sketchlearn.estimators.design.column_ranges import fourth_moments
from sketchlearn.estimators.principal_components import upright
from sketchlearn.features.abilities import Ability, needed_part
from sketchlearn.features.moments import VeroneseMoments
from sketchlearn.sketch.sums import Sketch

Index = NDArray[np.intp]
BISECTIONS = 50


class Forms:
    """Symmetric tensors of d columns and one degree: entries with sqrt(multinomial) weights.

    Inner products are those of the whole tensors, so that <powers(x), powers(y)> = (x . y)^degree.

    >>> quadratic = forms(2, 2)
    >>> x, y = np.array([1.0, 2.0]), np.array([3.0, 4.0])
    >>> (quadratic.powers(x) @ quadratic.powers(y)).round(6), (x @ y) ** 2
    (np.float64(121.0), np.float64(121.0))
    """

    def __init__(self, d: int, degree: int) -> None:
        self.d, self.degree = d, degree
        self.indices: Index = np.array(list(combinations_with_replacement(range(d), degree)), np.intp)
        self.counts = np.stack([np.sum(self.indices == m, axis=1) for m in range(d)], axis=1)
        factorials = np.array([math.factorial(c) for c in range(degree + 1)], np.float64)
        self.weights = np.sqrt(factorials[degree] / np.prod(factorials[self.counts], axis=1))

    def __len__(self) -> int:
        return len(self.weights)

    def powers(self, x: Double) -> Double:
        """x (x) x (x) ... of vectors (..., d)."""
        return np.asarray(self.weights * np.prod(x[..., self.indices], axis=-1))

    def vector(self, tensor: Double) -> Double:
        """A symmetric tensor (d, d, ...) as a vector."""
        return np.asarray(self.weights * tensor[tuple(self.indices.T)])

    def tensor(self, vector: Double) -> Double:
        """The symmetric tensor (d, d, ...) of a vector."""
        tensor = np.empty((self.d,) * self.degree)
        for order in permutations(self.indices.T):
            tensor[order] = vector / self.weights
        return tensor

    def places(self, counts: NDArray[np.int_]) -> Index:
        """The entries in which each column comes so often, for counts (..., d); 0 where there is none."""
        place = {tuple(row): k for k, row in enumerate(self.counts.tolist())}
        found = [place.get(tuple(row), 0) for row in counts.reshape(-1, self.d).tolist()]
        return np.array(found, np.intp).reshape(counts.shape[:-1])

    @cached_property
    def _without(self) -> tuple[Index, Double]:
        """For each entry and column: the entry of the degree below that is left, and its factor in a derivative."""
        lower = forms(self.d, self.degree - 1)
        left = lower.places(self.counts[:, None] - np.eye(self.d, dtype=int))
        return left, self.counts * self.weights[:, None] / lower.weights[left]

    def basis(self, vectors: Double) -> Double:
        """All forms of the spans of orthonormal columns (..., d, p), as orthonormal columns (..., entries, n)."""
        nodes, to_basis = _nodes(vectors.shape[-1], self.degree)
        return np.asarray(np.swapaxes(self.powers(nodes @ np.swapaxes(vectors, -1, -2)), -1, -2) @ to_basis)

    def slopes(self, vectors: Double, coefficients: Double) -> Double:
        """Derivatives of basis(vectors) @ coefficients (..., n) along each entry of vectors: (..., entries, d, p)."""
        nodes, to_basis = _nodes(vectors.shape[-1], self.degree)
        of_nodes = coefficients @ to_basis.T
        lower = forms(self.d, self.degree - 1).powers(nodes @ np.swapaxes(vectors, -1, -2))
        parts = np.swapaxes(of_nodes[..., None] * nodes, -1, -2) @ lower  # (..., p, entries of the degree below)
        left, factors = self._without
        return np.moveaxis(parts[..., left] * factors, -3, -1)  # degree * sym(parts (x) e_m) for each column m


@cache
def forms(d: int, degree: int) -> Forms:
    return Forms(d, degree)


@cache
def _nodes(p: int, degree: int) -> tuple[Double, Double]:
    """Vectors (n, p) whose powers span all forms, and the matrix that turns those powers into an orthonormal basis."""
    own = Forms(p, degree)
    if p == 2:
        angles = np.pi * np.arange(len(own)) / len(own)
        nodes = np.stack([np.cos(angles), np.sin(angles)], axis=1)
    else:  # integer points with the sum `degree`: the unisolvent lattice
        nodes = own.counts / np.linalg.norm(own.counts, axis=1, keepdims=True)
    return nodes, np.asarray(np.linalg.inv(own.powers(nodes)).T, np.float64)


@dataclass(frozen=True)
class FourthMoments:
    """Moments of x = y + e, where e is Gaussian with the covariance noise * s, and of y.

    E (v . x)^4 = E (v . y)^4 + 6 s noise(v) second(v) - 3 s^2 noise(v)^2, where second(v) = E (v . x)^2.
    """

    second: Double  # (d, d), of x
    fourth: Double  # of x, as a vector of forms(d, 4)
    noise: Double  # (d, d)
    most: float  # the largest s for which y varies in all directions

    @cached_property
    def per_noise(self) -> Double:
        """The derivative of the fourth moments by s, at 0."""
        return 6 * paired(self.second, self.noise)

    @cached_property
    def per_square(self) -> Double:
        """The coefficient of -s^2 in them."""
        return 3 * paired(self.noise, self.noise)

    def without(self, s: float) -> Double:
        """The fourth moments of y."""
        return np.asarray(self.fourth - s * self.per_noise + s**2 * self.per_square)

    def mean_squares(self, s: float) -> Double:
        """Mean products of quadratic forms of y."""
        return flattened(self.without(s), len(self.second))

    def noise_beneath(self, n_vanishing: int) -> float:
        """The s for which the smallest mean squares of quadratic forms, n_vanishing of them, are zero on average."""
        low, high = 0.0, self.most
        for _ in range(BISECTIONS):
            s = (low + high) / 2
            left = np.linalg.eigvalsh(self.mean_squares(s))[:n_vanishing]
            low, high = (s, high) if np.mean(left) > 0 else (low, s)
        return low


def paired(a: Double, b: Double) -> Double:
    """sym(a (x) b) of two symmetric matrices, as a vector of forms(d, 4)."""
    tensor = a[:, :, None, None] * b + b[:, :, None, None] * a
    return forms(len(a), 4).vector((tensor + tensor.transpose(0, 2, 1, 3) + tensor.transpose(0, 3, 2, 1)) / 6)


def flattened(fourth: Double, d: int) -> Double:
    """Fourth moments (..., entries) as matrices of mean products of quadratic forms (..., n, n)."""
    two, four = forms(d, 2), forms(d, 4)
    where = four.places(two.counts[:, None] + two.counts)
    return np.asarray(fourth[..., where] * (two.weights[:, None] * two.weights / four.weights[where]))


DRAWN, KEPT = 240, 120  # subspaces of each dimension
BEAM_SIZE = 400  # sets that are extended
STEPS_OF_STARTS = 30
LEAST_MEAN_SQUARE_OF_STARTS = 1e-6  # of a quadratic form, relative to the largest or to 1
VANISHING_WEIGHT = 10.0  # of a mean square on the null space, relative to overlaps
NEAR_SQUARED_SINES = 0.5  # Subspaces with a smaller sum of squared sines are near each other.


def quadrics(moments: FourthMoments, noise: float, n_vanishing: int) -> tuple[Double, Double]:
    """Quadratic forms (n, d, d) that vanish on the subspaces, and the metric of the others."""
    d = len(moments.second)
    values, vectors = np.linalg.eigh(moments.mean_squares(noise))
    vanishing = [forms(d, 2).tensor(vector) for vector in vectors[:, :n_vanishing].T]
    rest = np.maximum(values[n_vanishing:], LEAST_MEAN_SQUARE_OF_STARTS * max(values[-1], 1.0))
    return np.reshape(vanishing, (n_vanishing, d, d)), (vectors[:, n_vanishing:] / np.sqrt(rest)).T


def n_vanishing(dimensions: Sequence[int], d: int) -> int:
    """How many quadratic forms vanish on subspaces of these dimensions, in general position.

    >>> n_vanishing([2, 2, 2], 4), n_vanishing([2, 2], 3), n_vanishing([1, 1, 1], 3)
    (1, 1, 3)
    """
    rng, two = np.random.default_rng(0), forms(d, 2)
    drawn = [rng.standard_normal((len(two), p)) @ rng.standard_normal((p, d)) for p in dimensions]
    return len(two) - int(np.linalg.matrix_rank(two.powers(np.concatenate(drawn))))


def starts(
    vanishing: Double, metric: Double, dimensions: Sequence[int], n: int, rng: np.random.Generator, *, loose: bool
) -> list[Double]:
    """At most n sets of subspaces, unlike each other: per subspace an array (sets, d, p).

    `quadrics` gives the first two arguments. If `loose`, every other set is drawn at random.
    """
    if max(Counter(dimensions).values()) > KEPT:
        given = Parameter("n_clusters", len(dimensions))
        raise InvalidValueError("subspaces are too many to search for", "ask for fewer", given)
    d = vanishing.shape[1]
    pools, places, alone = {}, {}, []
    for i, p in enumerate(sorted(set(dimensions))):
        drawn, cost = _on_quadrics(vanishing, np.linalg.qr(rng.standard_normal((DRAWN, d, p)))[0])
        best = np.argsort(cost, kind="stable")[:KEPT]
        pools[p], places[p] = drawn[best], i * KEPT + np.arange(KEPT)
        alone.append(VANISHING_WEIGHT * cost[best])
    each = list(pools.values())
    measured = [np.linalg.qr(metric @ forms(d, 2).basis(pool))[0] for pool in each]
    overlaps = np.block([[_cosines(a, b) for b in measured] for a in measured])
    unlike = np.block([[max(a.shape[2], b.shape[2]) - _cosines(a, b) for b in each] for a in each])
    sets = _sets(overlaps, np.concatenate(alone), places, dimensions)
    if loose:
        sets[1::2] = np.stack([rng.choice(places[p], len(sets[1::2])) for p in dimensions], axis=1)
    sets = _unlike(sets, unlike < NEAR_SQUARED_SINES**2, n)
    return [pools[p][sets[:, i] - places[p][0]] for i, p in enumerate(dimensions)]


def _on_quadrics(vanishing: Double, bases: Double) -> tuple[Double, Double]:
    """Subspaces moved to where all forms vanish, by Levenberg-Marquardt steps; and their squared residuals."""
    _, d, p = bases.shape
    damping = np.full(len(bases), 1e-3)
    values = _restricted(vanishing, bases)
    cost = np.sum(values**2, axis=1)
    for _ in range(STEPS_OF_STARTS if len(vanishing) else 0):
        half = np.swapaxes(vanishing[:, None] @ bases, 0, 1)  # (subspaces, forms, d, p)
        left = np.einsum("bmdq,pr->bmpqdr", half, np.eye(p))
        jacobian = (left + left.swapaxes(2, 3)).reshape(len(bases), -1, d * p)
        hessian = np.swapaxes(jacobian, 1, 2) @ jacobian + damping[:, None, None] * np.eye(d * p)
        step = -np.linalg.solve(hessian, np.swapaxes(jacobian, 1, 2) @ values[..., None])
        others = np.linalg.qr(bases + step.reshape(bases.shape))[0]
        new = _restricted(vanishing, others)
        new_cost = np.sum(new**2, axis=1)
        better = new_cost < cost
        bases, values = np.where(better[:, None, None], others, bases), np.where(better[:, None], new, values)
        cost = np.where(better, new_cost, cost)
        damping = np.clip(np.where(better, damping / 10, damping * 10), 1e-12, 1e6)
    return bases, cost


def _restricted(vanishing: Double, bases: Double) -> Double:
    """All forms on each subspace, (subspaces, forms * p * p)."""
    return np.einsum("bdp,mde,beq->bmpq", bases, vanishing, bases, optimize=True).reshape(len(bases), -1)


def _cosines(a: Double, b: Double) -> Double:
    """Sums of squared cosines of the angles between subspaces (n, d, p) and (m, d, q)."""
    return np.asarray(np.sum(np.einsum("ndp,mdq->nmpq", a, b, optimize=True) ** 2, axis=(2, 3)))


def _sets(overlaps: Double, alone: Double, places: dict[int, Index], dimensions: Sequence[int]) -> Index:
    """Sets of places with the least sum of overlaps, by a beam search."""
    sets, cost = np.empty((1, 0), np.intp), np.zeros(1)
    for n, p in enumerate(dimensions):
        more = places[p][: KEPT - list(dimensions[n + 1 :]).count(p)]  # leaves enough for the next ones
        total = cost[:, None] + alone[more] + sum(overlaps[member][:, more] for member in sets.T)
        if n and p == dimensions[n - 1]:
            total = np.where(more > sets[:, -1:], total, np.inf)
        best = np.argsort(total, axis=None, kind="stable")[:BEAM_SIZE]
        best = best[np.isfinite(total.ravel()[best])]
        row, column = np.unravel_index(best, total.shape)
        sets, cost = np.column_stack([sets[row], more[column]]), total[row, column]
    return sets


def _unlike(sets: Index, alike: NDArray[np.bool_], n: int) -> Index:
    """The first n sets, without those whose members are all near those of an earlier one."""
    chosen: list[Index] = []
    for members in sets:
        if not any(np.all(np.any(alike[np.ix_(members, others)], axis=1)) for others in chosen):
            chosen.append(members)
        if len(chosen) == n:
            break
    return np.array(chosen)


LONGEST_STEP = 0.7  # radians that one basis may turn in a step
RELATIVE_RIDGE = 1e-10  # Two subspaces may share forms, which makes the normal equations singular.
LEAST_GAIN = 1e-9  # A step with a smaller relative decrease of the cost ends the descent.
LEAST_MEAN_SQUARE = 1e-2  # of a quadratic form, relative to the largest or to 1: it bounds a form's weight


@dataclass(frozen=True)
class Union:
    """Subspaces, one set per start."""

    bases: list[Double]  # per subspace (starts, d, p): orthonormal columns
    noise: Double  # (starts,), the variance of noise
    cost: Double  # (starts,), the squared residual

    def only(self, which: list[int]) -> Union:
        return Union([basis[which] for basis in self.bases], self.noise[which], self.cost[which])


class Linearised(NamedTuple):
    """Residuals of the moments after a fit of forms of the subspaces, their derivatives, and the fitted forms."""

    residual: Double  # (starts, moments)
    jacobian: Double  # (starts, moments, parameters)
    forms: list[list[Double]]  # coefficients of fourth and of second moments, one array per subspace


class SubspaceFit:
    """Least squares of moments: those of order 4 and 2 are any forms of the subspaces, plus noise.

    A metric is a matrix that residuals of order 4 are multiplied by.
    """

    def __init__(self, moments: FourthMoments, metric: Double | None = None) -> None:
        self._most_noise = moments.most
        two, four = (forms(len(moments.second), degree) for degree in (2, 4))
        metric = np.eye(len(four)) if metric is None else metric
        fourth, per_noise, per_square = metric @ moments.fourth, metric @ moments.per_noise, metric @ moments.per_square
        second, noise = two.vector(moments.second), two.vector(moments.noise)
        # per order: its forms, the metric, the moments in it, and what noise and its square add to them
        self._orders = [
            (four, metric, fourth, per_noise, per_square),
            (two, np.eye(len(two)), second, noise, np.zeros(len(two))),
        ]

    def linearised(self, bases: Sequence[Double], noise: Double) -> Linearised:
        """Residuals and derivatives at some subspaces."""
        s, residuals, jacobians, coefficients = noise[:, None], [], [], []
        for own, metric, values, per_noise, per_square in self._orders:
            target = values - s * per_noise + s**2 * per_square
            blocks = [metric @ own.basis(basis) for basis in bases]
            project = Projection(np.concatenate(blocks, axis=2))
            every = project.coefficients(target[..., None])
            each = np.split(every[..., 0], np.cumsum([block.shape[2] for block in blocks])[:-1], axis=1)
            slopes = [own.slopes(basis, c).reshape(len(s), len(own), -1) for basis, c in zip(bases, each, strict=True)]
            along_noise = (per_noise - 2 * s * per_square)[..., None]
            jacobian = -np.concatenate([metric @ np.concatenate(slopes, axis=2), along_noise], axis=2)
            residuals.append(target - (project.columns @ every)[..., 0])
            jacobians.append(project.rest(jacobian))
            coefficients.append(each)
        return Linearised(np.concatenate(residuals, axis=1), np.concatenate(jacobians, axis=1), coefficients)

    def descend(self, bases: list[Double], noise: Double, n_steps: int) -> Union:
        """Levenberg-Marquardt steps of all starts, each with its own damping."""
        residual, jacobian, _ = self.linearised(bases, noise)
        cost, damping = np.sum(residual**2, axis=1), np.full(len(noise), 1e-2)
        for _ in range(n_steps):
            hessian = np.swapaxes(jacobian, 1, 2) @ jacobian
            scale = damping * np.maximum(np.trace(hessian, axis1=1, axis2=2) / hessian.shape[1], 1e-300)
            slope = np.swapaxes(jacobian, 1, 2) @ residual[..., None]
            step = -np.linalg.solve(hessian + scale[:, None, None] * np.eye(hessian.shape[1]), slope)[..., 0]
            others = _moved(bases, step[:, :-1])
            other_noise = np.clip(noise + step[:, -1], 0.0, self._most_noise)
            new_residual, new_jacobian, _ = self.linearised(others, other_noise)
            new_cost = np.sum(new_residual**2, axis=1)
            better = new_cost < cost
            still = better & (cost - new_cost < LEAST_GAIN * cost) | (damping > 1e5)
            chosen = better[:, None, None]
            bases = [np.where(chosen, other, basis) for other, basis in zip(others, bases, strict=True)]
            noise, cost = np.where(better, other_noise, noise), np.where(better, new_cost, cost)
            residual = np.where(better[:, None], new_residual, residual)
            jacobian = np.where(chosen, new_jacobian, jacobian)
            damping = np.clip(np.where(better, damping / 5, damping * 4), 1e-9, 1e6)
            if np.all(still):
                break
        return Union(bases, noise, cost)


class Projection:
    """Least squares on columns (starts, n, m), some of which may be equal."""

    def __init__(self, columns: Double) -> None:
        self.columns = columns
        gram = np.swapaxes(columns, 1, 2) @ columns
        size = np.trace(gram, axis1=1, axis2=2) / gram.shape[1]
        self._inverse = np.linalg.inv(gram + (RELATIVE_RIDGE * size)[:, None, None] * np.eye(gram.shape[1]))

    def coefficients(self, values: Double) -> Double:
        return np.asarray(self._inverse @ (np.swapaxes(self.columns, 1, 2) @ values))

    def rest(self, values: Double) -> Double:
        return np.asarray(values - self.columns @ self.coefficients(values))


def relative(moments: FourthMoments, noise: float) -> Double:
    """The metric in which quadratic forms are divided by their root mean squares.

    Forms that vanish on the subspaces then count most, and subspaces with independent forms are orthogonal.
    """
    d = len(moments.second)
    values, vectors = np.linalg.eigh(moments.mean_squares(noise))
    inverse = (vectors / np.sqrt(np.maximum(values, LEAST_MEAN_SQUARE * max(values[-1], 1.0)))) @ vectors.T
    each = inverse @ flattened(np.eye(len(forms(d, 4))), d) @ inverse
    return np.asarray(np.linalg.qr(each.reshape(len(each), -1).T)[1])


def _moved(bases: Sequence[Double], step: Double) -> list[Double]:
    moved, ends = [], np.cumsum([basis[0].size for basis in bases])
    for basis, part in zip(bases, np.split(step, ends[:-1], axis=1), strict=True):
        away = part.reshape(basis.shape)
        length = np.linalg.norm(away, axis=(1, 2), keepdims=True)
        moved.append(np.linalg.qr(basis + away * np.minimum(1.0, LONGEST_STEP / np.maximum(length, 1e-300)))[0])
    return moved


STARTS, FINALISTS, MOST_ROUNDS = 16, 4, 10
LATER_STARTS_FACTOR = 2  # more starts after the first round; half of them are random
FIRST_STEPS, STEPS = 15, 80
LEAST_RELATIVE_VARIANCE = 1e-4  # of a direction, relative to the largest
# Squared residuals in units of the sampling error of Gaussian rows. Heavier tails have larger ones, and are no failure.
GOOD_MISFIT, ACCEPTABLE_MISFIT = 1.5, 20.0
# An acceptable residual counts as the least possible once this many rounds end within this ratio of the lowest cost.
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
    weights: Double = model_array("k")  # proportions of records, if all distributions have the same shape
    noise_variance: float = scalar()  # of each column
    residual: float = scalar()  # of the fourth moments, relative to their norm
    misfit: float = scalar()  # its square in units of the error of sampling Gaussian rows (and of a private release)
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
    """The moments in coordinates in which all directions that the subspaces span have variance 1."""

    def __init__(self, sketch: Sketch, dimensions: Sequence[int]) -> None:
        operator: VeroneseMoments = sketch.operator
        self.sketch, self.operator, self.dimensions = sketch, operator, list(dimensions)
        second, _ = operator.split(sketch.mean)
        values, vectors = np.linalg.eigh(second)
        if values[-1] <= 0:
            raise ValueError("all rows are at the center: there are no directions in which to find subspaces")
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

    def solve(self, rng: np.random.Generator, progress: Callable[[str], None] | None) -> Subspaces:
        """The subspaces, after as many rounds of search as are needed."""
        rounds = [self.search(rng)]
        while not self.settled(rounds, progress) and len(rounds) < MOST_ROUNDS:
            rounds.append(self.search(rng, loose=True))
        return self.result(rounds)

    def search(self, rng: np.random.Generator, *, loose: bool = False) -> list[_Candidate]:
        """The best of several starts, unlike each other."""
        more = LATER_STARTS_FACTOR if loose else 1
        bases = starts(*self.quadrics, self.dimensions, more * STARTS, rng, loose=loose or not self.independent)
        found = self.coarse.descend(bases, np.full(len(bases[0]), self.noise), FIRST_STEPS)
        for fit in (self.coarse, self.fit):
            found = fit.descend(*self._finalists(found, more * FINALISTS), STEPS)
        return [self._candidate(found.only([i]), rng) for i in range(len(found.cost))]

    def _finalists(self, found: Union, n: int) -> tuple[list[Double], Double]:
        """Subspaces and noise of the lowest costs, without subspaces that are alike."""
        of_one_dimension = ([b for b in found.bases if b.shape[2] == p] for p in sorted(set(self.dimensions)))
        projections = [sum(basis @ np.swapaxes(basis, 1, 2) for basis in bases) for bases in of_one_dimension]
        both = np.concatenate(projections, axis=1)
        chosen: list[int] = []
        for i in np.argsort(found.cost, kind="stable").tolist():
            if all(np.linalg.norm(both[i] - both[j]) > LEAST_DISTANCE for j in chosen):
                chosen.append(i)
        best = found.only(chosen[:n])
        return best.bases, best.noise

    def settled(self, rounds: list[list[_Candidate]], progress: Callable[[str], None] | None) -> bool:
        """Whether the search can end."""
        best, lowest = _best(rounds), [min(each.cost for each in found) for found in rounds]
        if progress is not None:
            progress(f"round {len(rounds)}: squared residual {best.cost:.3g}, {best.misfit:.3g} times that expected")
        agree = sum(cost <= EQUAL_COST_RATIO * min(lowest) for cost in lowest) >= AGREEING_ROUNDS
        one_dimension = len(set(self.dimensions)) == 1  # other sets of lines and planes may have the very same moments
        round_enough = one_dimension or best.roundness >= LEAST_ROUNDNESS
        good = best.misfit <= (ACCEPTABLE_MISFIT if agree else GOOD_MISFIT) and round_enough
        return good or len(self.dimensions) == 1 or not self.identified

    def _candidate(self, union: Union, rng: np.random.Generator) -> _Candidate:
        at = self.fit.linearised(union.bases, union.noise)
        shapes = [_Shape.of(p, two[0], four[0]) for p, four, two in zip(self.dimensions, *at.forms, strict=True)]
        cost, expected = float(union.cost[0]), RELATIVE_ROUNDING * float(np.sum(self.moments.fourth**2))
        if all(shape.plausible for shape in shapes):
            expected += self._sampled(union, at, shapes, rng) + self._of_integers(union, at, rng)
        return _Candidate(union, shapes, cost, cost / expected)

    def _sampled(self, found: Union, at: Linearised, shapes: list[_Shape], rng: np.random.Generator) -> float:
        """The expected squared residual due to sampling, if rows are Gaussian in these subspaces."""
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
        """The expected squared residual due to rounding and the noise of a release."""
        ledger, units = self.sketch.ledger, float(self.sketch.units)
        deviation = np.sqrt(units / 12 + (0.0 if ledger is None else ledger.sum_variance)) / units
        drawn = deviation * rng.standard_normal((NOISE_DRAWS, self.operator.n_sums))
        measured = [self._measured(self.operator.mean_of(noise)) for noise in drawn]
        both = np.stack([np.concatenate([four, forms(self.rank, 2).vector(two)]) for two, four in measured])
        return float(np.mean(np.sum(self._left(found, at, both) ** 2, axis=1)))

    def _left(self, found: Union, at: Linearised, values: Double) -> Double:
        """Residuals of values (n, moments) after a fit of subspaces near these."""
        parts = np.split(values.T[None], [len(forms(self.rank, 4))], axis=1)
        for i, degree in enumerate((4, 2)):
            columns = np.concatenate([forms(self.rank, degree).basis(basis) for basis in found.bases], axis=2)
            parts[i] = Projection(columns).rest(parts[i])
        rest = np.concatenate(parts, axis=1)[0]
        directions, sizes, _ = np.linalg.svd(at.jacobian[0], full_matrices=False)
        directions = directions[:, sizes > 1e-7 * max(sizes[0], 1e-300)]
        return np.asarray(rest - directions @ (directions.T @ rest)).T

    def result(self, rounds: list[list[_Candidate]]) -> Subspaces:
        """In the data's coordinates: subspaces of one dimension by their proportions, their bases by variance."""
        best = _best(rounds)
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
    """Second and fourth moments within a subspace, in its own basis, both times its proportion of records.

    `size` is T . A^-1 (x) A^-1 of second moments A and fourth moments T: p (p + 2) / proportion of Gaussians.
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
        """1 for elliptical distributions, such as Gaussians; less if rows lie along few lines."""
        p = len(self.second)
        to_unit = np.linalg.inv(np.linalg.cholesky(self.second))
        norm = np.linalg.norm(turned(forms(p, 4).tensor(self.fourth), to_unit))
        return self.size / max(float(norm) * math.sqrt(p * (p + 2) / 3), TINY)


def _shares(shapes: list[_Shape]) -> Double:
    """The proportion of records in each subspace, if all distributions have one shape."""
    each = ((shape.size, len(shape.second)) for shape in shapes)
    shares = np.array([p * (p + 2) / size if size > 0 else 0.0 for size, p in each])
    shares = np.maximum(shares, LEAST_SHARE * max(float(np.max(shares)), TINY))
    return np.asarray(shares / np.sum(shares))


@dataclass(frozen=True)
class _Candidate:
    """Subspaces, the moments in each, and their squared residual, also in units of its expected value."""

    union: Union
    shapes: list[_Shape]
    cost: float
    misfit: float

    @property
    def roundness(self) -> float:
        return min(shape.roundness for shape in self.shapes)


def _best(rounds: list[list[_Candidate]]) -> _Candidate:
    """The candidate with the roundest distributions among those with the lowest cost."""
    every = [each for found in rounds for each in found]
    highest = EQUAL_COST_RATIO * min(each.cost for each in every)
    return max((each for each in every if each.cost <= highest), key=lambda each: each.roundness)


MOST_CLUSTERS = 2**16


@dataclass(eq=False, repr=False)
class SketchSubspaces(NearestClusters):
    """Lines, planes and larger subspaces through the origin near which rows lie, from one pass or from a sketch alone.

    The sketch holds all moments of order 2 and 4 (`VeroneseMoments`), 65 numbers for 4 columns and 702 for 8. They
    determine the subspaces for any distribution of the rows in them [1]. Up to 12 columns.

    Parameters
    ----------
    n_clusters : number of subspaces.
    n_dimensions : their dimension, or a list with the dimension of each.
    bounds : lowest and highest value of each column, as a pair of numbers or of lists. By default the range is found in
        arrays; for files it is that of a sample, times 2.8, and for streams that of the first rows, times 5.7.
    random_state : seed of the search and of the sample.
    n_jobs, device, verbose, schema : as in `SketchKMeans`.

    Attributes
    ----------
    subspaces_ : list of arrays (dimension, columns), orthonormal rows, the largest variance first. Subspaces of one
        dimension come in the order of their weights.
    weights_ : the proportion of rows in each, if all distributions have one shape, up to scale.
    noise_variance_ : of each column, around the subspaces.
    residual_ : residual of the fourth moments, relative to their norm.
    misfit_ : its square, relative to its expected value if rows are Gaussian: near 1 for a good fit.
    labels_ : the nearest subspace of each row, after `fit` on an array.
    sketch_ : the sketch; it can be saved, merged, updated and given to `fit_sketch`.

    References
    ----------
    [1] Sheehan, Gonon, Davies, Compressive learning for semi-parametric models, arXiv 1910.10024.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rng = np.random.default_rng(0)
    >>> X = rng.standard_normal((2000, 3)) * 0.01
    >>> X[:1000, 0] += rng.standard_normal(1000)
    >>> X[1000:, 1:] += rng.standard_normal((1000, 2))
    >>> model = skl.SketchSubspaces(2, [1, 2], random_state=0).fit(X)
    >>> np.abs(model.subspaces_[0]).round(2).tolist(), np.mean(model.labels_[:1000] == 0) > 0.95
    ([[1.0, 0.0, 0.0]], np.True_)
    """

    n_clusters: int = 2
    n_dimensions: int | Iterable[int] = 1
    _: KW_ONLY
    bounds: Any = None

    model_type = Subspaces
    weights_ = model_attribute("weights")
    noise_variance_ = model_attribute("noise_variance")
    residual_ = model_attribute("residual")
    misfit_ = model_attribute("misfit")

    @classmethod
    def parameters_of(cls, model: Subspaces) -> Document:
        dimensions = [len(basis) for basis in model.bases]
        several = len(set(dimensions)) > 1
        return {"n_clusters": len(dimensions), "n_dimensions": dimensions if several else dimensions[0]}

    def design_arguments(self, **size: Any) -> dict[str, Any] | None:  # noqa: ARG002
        return {"task": "subspaces"}

    def check_parameters(self) -> None:
        self._dimensions()

    def _dimensions(self) -> list[int]:
        k = whole("n_clusters", self.n_clusters, most=MOST_CLUSTERS)
        given = self.n_dimensions
        several = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else [given] * k
        if len(several) != k:
            wanted = f"one number or {k}, as many as {Parameter('n_clusters')}"
            raise InvalidValueError(f"must be {wanted}, not {shortened(given)}", parameter="n_dimensions")
        return [whole("n_dimensions", p) for p in several]

    def _checked_dimensions(self, n_features: int) -> list[int]:
        if (most := max(dimensions := self._dimensions())) > n_features:
            given = Parameter("n_dimensions", most)
            raise InvalidValueError(f"must be at most the number of columns, {n_features}", "", given)
        return dimensions

    def check_size(self, n_rows: int) -> None:
        least = max(2, sum(self._dimensions()))
        if n_rows < least:
            rows = either(f"n_samples={n_rows} rows", f"{n_rows} records")
            raise InvalidValueError(f"{rows} are too few for these subspaces", f"give at least {least}")

    def design_operator(self, design_sample: DesignSample, rng: np.random.Generator) -> VeroneseMoments:  # noqa: ARG002
        self._checked_dimensions(design_sample.rows.shape[1])
        return fourth_moments(design_sample, self.bounds)

    def learn_from_sketch(self, sketch: Sketch, rng: np.random.Generator) -> Subspaces:
        operator: Any = sketch.operator
        dimensions = self._checked_dimensions(operator.n_features)
        problem = _Problem(needed_part(sketch, Ability.SUBSPACES, "a model of subspaces"), dimensions)
        found = problem.solve(rng, self._say if self.verbose else None)
        if not found.identified:
            warn_caller(
                f"fourth moments of {len(found.origin)} columns do not determine {len(dimensions)} subspaces of "
                f"dimension {max(dimensions)}: ask for fewer or smaller ones",
                ConvergenceWarning,
            )
        elif found.misfit > ACCEPTABLE_MISFIT:
            warn_caller(
                f"the squared residual is {in_digits(found.misfit, 2)} times that expected from sampling: try other "
                f"{Parameter('n_clusters')} or {Parameter('n_dimensions')}, or rows whose subspaces meet in the origin",
                ConvergenceWarning,
            )
        return found

    @property
    def subspaces_(self) -> list[Double]:
        return list(self.fitted_model().bases)

    def score(self, X: Any, y: Any = None) -> float:  # noqa: ARG002
        """Minus the sum of squared distances of rows to their subspaces."""
        found = self.fitted_model()
        return -sum(float(np.sum(found.distances(rows).min(axis=1) ** 2)) for rows in self.row_blocks(X))
