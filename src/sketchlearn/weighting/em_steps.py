"""Steps of expectation maximisation (EM) for mixtures of Gaussians, from expected statistics; a pilot out of a sample.

A step cannot lower the likelihood of the rows whose statistics it takes (Dempster, Laird and Rubin 1977), also where
variances have a least value: the M-step is then the likeliest mixture with such variances.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.decoders.refinements.kmeans_of_rows import ROUGH_TOLERANCE, KMeansOfRows
from sketchlearn.models import Double
from sketchlearn.models.gaussian_family import n_parameters
from sketchlearn.operators.expected_statistics import GaussianParts, Gaussians, Moments, mean_features

LEAST_SHARE = 1e-10  # of a component that still has rows
REACH = 64.0  # deviations, within which rows of a sample are not clipped
STARTS = 3
ALIKE = 0.1  # of the loss p / 2n that estimation costs: mixtures that differ by less are the same one
FIRST_STEPS, MOST_STEPS = 10, 300
ROWS_FOR_STARTS, ROWS_PER_PARAMETER = 2000, 5
LEAST_VARIANCES = (1e-3, 1e-5, 1e-6)  # of a component, in the columns' variances: held-out rows choose
ENOUGH = 0.01  # of the loss p / 2n that estimation costs itself: a step on a sample that gains less is the last one


@dataclass(frozen=True)
class MStep:
    """How moments of components become the likeliest mixture of a kind."""

    kind: str  # "full", "tied", "diag", "spherical" or "known"
    least: Double  # the least variance of each column
    known: Double | None = None  # the covariance that is known

    @property
    def full(self) -> bool:
        """Whether products of columns are needed."""
        return self.kind in ("full", "tied", "known")

    def __call__(self, moments: Moments, before: Gaussians) -> Gaussians:
        """The likeliest mixture. Components without records stay as they were."""
        alive = moments.shares > LEAST_SHARE
        weights = np.maximum(moments.shares, LEAST_SHARE)
        means = np.where(alive[:, None], moments.means, before.means)
        return Gaussians(weights / weights.sum(), means, self._factors(moments, before, alive))

    def _factors(self, moments: Moments, before: Gaussians, alive: NDArray[np.bool_]) -> Double:
        found, k = moments.covariances, len(alive)
        if self.known is not None:
            return np.repeat(np.linalg.cholesky(self.known)[None], k, axis=0)
        if self.kind == "tied":
            together = np.einsum("k,kij->ij", moments.shares, found) / max(float(moments.shares.sum()), 1e-300)
            return np.repeat(_floored(together[None], self.least), k, axis=0)
        if self.kind == "full":
            safe = np.where(alive[:, None, None], found, np.diag(np.maximum(self.least, 1e-300) * 2))
            return np.where(alive[:, None, None], _floored(safe, self.least), before.factors)
        if self.kind == "spherical":
            found = np.repeat(found.mean(axis=1, keepdims=True), found.shape[1], axis=1)
        return np.where(alive[:, None], np.sqrt(np.maximum(found, self.least)), before.factors)


def _floored(covariances: Double, least: Double) -> Double:
    """Cholesky factors of covariances, whose variances in any direction are raised to the least one."""
    unit = np.sqrt(least)
    scaled = covariances / unit[:, None] / unit
    try:
        np.linalg.cholesky(scaled - np.eye(len(unit)))
    except np.linalg.LinAlgError:
        values, vectors = np.linalg.eigh(scaled)
        scaled = (vectors * np.maximum(values, 1.0)[:, None, :]) @ vectors.transpose(0, 2, 1)
    return np.asarray(np.linalg.cholesky(scaled) * unit[:, None], np.float64)


def gain_of_step(moments: Moments, before: Gaussians, after: Gaussians) -> float:
    """How much a step raises the expected log-likelihood, in nats a record: the likelihood gains at least as much."""
    change = np.log(np.maximum(after.weights, 1e-300)) - np.log(np.maximum(before.weights, 1e-300))
    change += np.sum(np.log(before.diagonals) - np.log(after.diagonals), axis=1) + 0.5 * moments.squares
    if after.factors.ndim == 2:
        left = moments.covariances / after.factors**2
        change -= 0.5 * left.sum(axis=1)
    else:
        inverse = np.linalg.inv(after.factors)
        change -= 0.5 * np.einsum("kij,kjl,kil->k", inverse, moments.covariances, inverse)
    return float(moments.shares @ np.where(moments.shares > LEAST_SHARE, change, 0.0))


@dataclass(frozen=True)
class SampledRows:
    """Rows of a sample, and the box that they lie in."""

    rows: NDArray[Any]
    center: Double
    bound: Double

    @classmethod
    def of(cls, rows: NDArray[Any]) -> SampledRows:
        """Rows, with a box around them."""
        center = rows.mean(axis=0, dtype=np.float64).astype(np.float32).astype(np.float64)
        reach = np.maximum(rows.max(axis=0) - center, center - rows.min(axis=0)) * (1 + 2.0**-20)
        return cls(np.ascontiguousarray(rows), center, np.where(reach > 0, reach, np.maximum(np.abs(center), 1.0)))

    def some(self, which: Any) -> SampledRows:
        """Some of the rows."""
        return replace(self, rows=np.ascontiguousarray(self.rows[which]))

    def statistics(self, mixture: Gaussians, reach: float = REACH) -> tuple[GaussianParts, Double, int]:
        """The mixture as kernels have it, the mean features of the rows, and how many were clipped."""
        parts = GaussianParts.of(mixture, self.center, self.bound, reach)
        sums = np.zeros(parts.n_sums, np.int64)
        _, clipped = parts.add(self.rows, None, 1, sums)
        return parts, mean_features(sums / len(self.rows)), clipped

    def likelihood(self, mixture: Gaussians) -> float:
        """The mean log-likelihood of the rows."""
        parts, values, _ = self.statistics(mixture)
        return parts.log_likelihood(values)

    def climbed(self, mixture: Gaussians, step: MStep, steps: int, enough: float) -> Gaussians:
        """The mixture after so many steps, or where one gains less than enough nats a row."""
        before = -np.inf
        for _ in range(steps):
            parts, values, _ = self.statistics(mixture)
            likelihood = parts.log_likelihood(values)
            if likelihood - before < enough:
                break
            before, mixture = likelihood, step(parts.moments(values), mixture)
        return mixture


def pilot_mixture(
    rows: NDArray[Any], k: int, kind: str, n_rows: int, rng: np.random.Generator, known: Double | None = None
) -> tuple[Gaussians, MStep]:
    """The likeliest mixture of a sample, the best of some starts, for a step on n_rows rows; and how steps are taken.

    Starts are tried on some rows; the best of them goes on with all, and least variances that matter are chosen by what
    is likeliest on rows that did not choose.
    """
    sample = SampledRows.of(rows)
    n, d = rows.shape
    p = n_parameters(k, d, kind)
    deviation = np.sqrt(np.maximum(np.mean((rows - sample.center) ** 2, axis=0), 1e-300))
    if kind == "spherical":
        deviation = np.full(d, np.sqrt(np.mean(deviation**2)))
    step = MStep(kind, LEAST_VARIANCES[0] * deviation**2, known)
    mixed = rng.permutation(n)
    few = sample.some(mixed[: max(ROWS_FOR_STARTS, ROWS_PER_PARAMETER * p)])
    held_out = sample.some(mixed[len(few.rows) :][:ROWS_FOR_STARTS]) if len(few.rows) < n else few
    scaled = ((few.rows - sample.center) / deviation).astype(np.float32)
    enough, tried = p / (2 * len(few.rows)), []
    for _ in range(STARTS):
        many = _clustered(few, scaled, deviation, min(2 * k, len(few.rows) // 4), step, rng)
        start = reduced(few.climbed(many, step, FIRST_STEPS, 0.1 * enough), k)
        start = few.climbed(start, step, FIRST_STEPS, 0.1 * enough)
        tried.append((held_out.likelihood(start), start))
        tried.sort(key=lambda run: run[0], reverse=True)
        if len(tried) > 1 and tried[0][0] - tried[1][0] < ALIKE * enough:
            break  # the likeliest one was found twice
    found = few.climbed(tried[0][1], step, 5 * FIRST_STEPS, ENOUGH * enough)
    for least in LEAST_VARIANCES[1:]:
        if kind == "known" or float(_least_ratio(found, step.least)) > 1.5:
            break  # no variance is at the least one
        finer = replace(step, least=least * deviation**2)
        other = few.climbed(found, finer, 2 * FIRST_STEPS, ENOUGH * enough)
        if held_out.likelihood(other) <= held_out.likelihood(found):
            break
        found, step = other, finer
    return sample.climbed(found, step, MOST_STEPS, ENOUGH * p / (2 * max(n, n_rows))), step


def _least_ratio(mixture: Gaussians, least: Double) -> float:
    """The smallest variance of a mixture in any direction, in units of the least one."""
    unit = np.sqrt(least)
    if mixture.factors.ndim == 2:
        return float(np.min((mixture.factors / unit) ** 2))
    return float(np.min(np.linalg.svd(mixture.factors / unit[:, None], compute_uv=False)) ** 2)


def _clustered(
    few: SampledRows,
    scaled: NDArray[np.float32],
    unit: Double,
    k: int,
    step: MStep,
    rng: np.random.Generator,
) -> Gaussians:
    """A start from k-means: the moments of its clusters."""
    rows = KMeansOfRows(scaled)
    labels = rows.assign(rows.lloyd(rows.starts(k, rng), ROUGH_TOLERANCE)[0])[0]
    belongs = labels[:, None] == np.arange(k)
    shares = belongs.mean(axis=0)
    over = 1 / np.maximum(shares, 1e-300)[:, None]
    means = few.center + unit * (belongs.T @ scaled / len(scaled) * over)
    if step.full:
        away = scaled - ((means - few.center) / unit)[labels]
        areas = np.outer(unit, unit)
        covariances = np.stack(
            [away[belongs[:, c]].T @ away[belongs[:, c]] / max(belongs[:, c].sum(), 1) for c in range(k)]
        )
        moments = Moments(shares, means, covariances.astype(np.float64) * areas, np.zeros(k))
        before = np.linalg.cholesky(areas * np.eye(len(unit)) if step.known is None else step.known)
        return step(moments, Gaussians(shares, means, np.repeat(before[None], k, axis=0)))
    squares = belongs.T @ (scaled * scaled) / len(scaled) * over - ((means - few.center) / unit) ** 2
    moments = Moments(shares, means, np.maximum(squares, 0) * unit**2, np.zeros(k))
    return step(moments, Gaussians(shares, means, np.repeat(unit[None], k, axis=0)))


def reduced(mixture: Gaussians, k: int) -> Gaussians:
    """k components, out of more: the pair whose moments lose least when they are joined, again and again.

    (Runnalls, "Kullback-Leibler approach to Gaussian mixture reduction", 2007.)
    """
    weights, means = mixture.weights.copy(), mixture.means.copy()
    diagonal = mixture.factors.ndim == 2
    squares = mixture.factors**2 if diagonal else mixture.factors @ mixture.factors.transpose(0, 2, 1)

    def size(some: Double) -> Double:
        return np.asarray(np.sum(np.log(some), axis=-1) if diagonal else np.linalg.slogdet(some)[1], np.float64)

    def joined(i: Any, j: Any) -> tuple[Double, Double, Double]:
        total = weights[i] + weights[j]
        a, b = weights[i] / total, weights[j] / total
        away = means[i] - means[j]
        wide = (slice(None), None) if diagonal else (slice(None), None, None)
        outer = away**2 if diagonal else away[:, :, None] * away[:, None, :]
        own = a[wide] * squares[i] + b[wide] * squares[j] + (a * b)[wide] * outer
        return total, a[:, None] * means[i] + b[:, None] * means[j], own

    def losses(i: Any, j: Any) -> Double:
        total, _, own = joined(i, j)
        return np.asarray(total * size(own) - weights[i] * sizes[i] - weights[j] * sizes[j])

    sizes, n = size(squares), len(weights)
    loss = np.full((n, n), np.inf)
    i, j = np.triu_indices(n, 1)
    loss[i, j] = losses(i, j)
    for _ in range(n - k):
        a, b = np.unravel_index(int(np.argmin(loss)), loss.shape)
        total, mean, own = joined(np.array([a]), np.array([b]))
        weights[a], means[a], squares[a], sizes[a] = total[0], mean[0], own[0], size(own)[0]
        loss[b, :] = loss[:, b] = np.inf
        weights[b] = 0.0
        others = np.flatnonzero((weights > 0) & (np.arange(n) != a))
        found = losses(np.full(len(others), a), others)
        loss[np.minimum(a, others), np.maximum(a, others)] = found
    left = np.flatnonzero(weights > 0)[:k] if np.count_nonzero(weights) >= k else np.arange(k)
    factors = np.sqrt(squares[left]) if diagonal else np.linalg.cholesky(squares[left])
    return Gaussians(weights[left] / weights[left].sum(), means[left], np.asarray(factors, np.float64))
