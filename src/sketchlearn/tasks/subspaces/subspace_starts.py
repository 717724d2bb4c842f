"""Where to look for subspaces: on the quadrics that vanish on all of them, and at right angles to each other.

A quadratic form that vanishes on all subspaces has the mean square 0: it is in the null space of the fourth moments as
a matrix of mean products of quadratic forms. In the metric of the inverse of that matrix, forms of two subspaces are
orthogonal, if all of them are independent: their mean products add up to the identity, and have ranks that add up to
its size. So subspaces on which the null space vanishes are drawn, and sets of them that overlap least are starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from sketchlearn.models import Double
from sketchlearn.moments.fourth_moments import FourthMoments, Index, flattened, forms

DRAWN, KEPT = 240, 120  # subspaces of each dimension
BEAM_SIZE = 400  # sets that are grown further
STEPS = 30
LEAST_MEAN_SQUARE = 1e-6  # of a quadratic form, relative to the largest or to 1
VANISHING_WEIGHT = 10.0  # of a mean square on the null space, beside overlaps
NEAR_SQUARED_SINES = 0.5  # subspaces with a smaller sum of squared sines are near each other


def quadrics(moments: FourthMoments, noise: float, n_vanishing: int) -> tuple[Double, Double]:
    """Quadratic forms (n, d, d) that vanish on the subspaces, and the metric of the others."""
    d = moments.d
    values, vectors = np.linalg.eigh(flattened(moments.without(noise), d))
    vanishing = [forms(d, 2).tensor(vector) for vector in vectors[:, :n_vanishing].T]
    rest = np.maximum(values[n_vanishing:], LEAST_MEAN_SQUARE * max(values[-1], 1.0))
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
        raise ValueError(f"n_clusters={len(dimensions)} subspaces are too many to search for: ask for fewer")
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
    """Subspaces moved to where all forms vanish, by Levenberg-Marquardt steps; and what is left, squared."""
    _, d, p = bases.shape
    damping = np.full(len(bases), 1e-3)
    values = _restricted(vanishing, bases)
    cost = np.sum(values**2, axis=1)
    for _ in range(STEPS if len(vanishing) else 0):
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
    """Sets of places with the least sum of overlaps, grown one by one."""
    sets, cost = np.empty((1, 0), np.intp), np.zeros(1)
    for n, p in enumerate(dimensions):
        more = places[p][: KEPT - list(dimensions[n + 1 :]).count(p)]  # leaves enough for those that come after it
        total = cost[:, None] + alone[more] + sum(overlaps[member][:, more] for member in sets.T)
        if n and p == dimensions[n - 1]:
            total = np.where(more > sets[:, -1:], total, np.inf)
        best = np.argsort(total, axis=None, kind="stable")[:BEAM_SIZE]
        best = best[np.isfinite(total.ravel()[best])]
        row, column = np.unravel_index(best, total.shape)
        sets, cost = np.column_stack([sets[row], more[column]]), total[row, column]
    return sets


def _unlike(sets: Index, alike: NDArray[np.bool_], n: int) -> Index:
    """The first n sets of which none has all its members near those of an earlier one."""
    chosen: list[Index] = []
    for members in sets:
        if not any(np.all(np.any(alike[np.ix_(members, others)], axis=1)) for others in chosen):
            chosen.append(members)
        if len(chosen) == n:
            break
    return np.array(chosen)
