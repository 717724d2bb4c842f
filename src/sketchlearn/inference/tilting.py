"""Support points with exponential tilting: points drawn from histograms, with maximum-entropy weights.

Under the weights, the points' mean features are those of the sketch. Columns are independent or, if covariances are
known and that is nearer to the sketch, joined by a Gaussian copula. Where weights become uneven, points are resampled
and moved to follow the tilted density (sequential Monte Carlo, Del Moral et al. 2006,
10.1111/j.1467-9868.2006.00553.x; moves as in Cotter et al. 2013, 10.1214/13-STS421). An outline of a sample, if there
is one, gives better points at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.linalg import solve_triangular
from scipy.linalg.blas import ssyrk
from scipy.optimize import minimize
from scipy.special import ndtr

from sketchlearn.core.arrays import Double, Single
from sketchlearn.features.histograms import Histograms
from sketchlearn.inference.calibration import WeightedRows
from sketchlearn.inference.decoders.target import Target
from sketchlearn.inference.kmeans import systematic_draws
from sketchlearn.inference.moments import part_of
from sketchlearn.sketch.sums import Sketch

ITERATIONS, ROUGH_ITERATIONS = 60, 25  # Rough tilts are for points that will be moved and tilted again.
CORRECTIONS = 20  # that L-BFGS remembers: in whitened coordinates 40 to 80 evaluations suffice for 300 features
TOLERANCE = 1e-7  # of the dual: sums in float32 know no less, and line searches in their noise took half of the time
ROWS_TO_WHITEN = 4000  # rows that the covariance of the features is taken from: it only sets the coordinates
JITTER = 1e-7  # added to the curvature, which is singular if features are copies of each other
MOST_CAUTION, CAUTION_STEP = 100.0, 10.0  # first factor of the noise's variance, and the ratio of successive ones


@dataclass(frozen=True)
class Tilt:
    """Weights (sum 1) of rows, and the dual vector that gives them."""

    weights: Double
    dual: Double
    caution: float  # the noise's variance was taken to be that many times as large

    @property
    def effective(self) -> float:
        """The effective sample size, 1 / sum w^2."""
        return float(1 / np.sum(self.weights**2))

    def freedom(self, features: Single, target: Target) -> float:
        """Degrees of freedom with which weights follow noise: the trace of C (C + v)^-1, C the features' covariance."""
        if not target.number_variance:
            return 0.0
        own = self.weights.astype(np.float32)
        centered = (features - own @ features) * np.sqrt(own)[:, None]
        covariance = ssyrk(1.0, centered.T, lower=1).astype(np.float64)  # eigvalsh reads the lower half alone
        values = np.maximum(np.linalg.eigvalsh(covariance), 0)
        return float(np.sum(values / (values + self.caution * _variance(target))))


def tilt(
    features: Single,
    target: Double,
    variance: float,
    base: Double | None = None,
    start: Double | None = None,
    caution: float = 1.0,
    iterations: int = ITERATIONS,
) -> Tilt:
    """Exponential tilting of base weights until features have the target's means, within `caution` times the noise."""
    n, q = features.shape
    u = np.full(n, 1 / n, np.float32) if base is None else (base / base.sum()).astype(np.float32)
    v = caution * variance
    mean = (u @ features).astype(np.float64)
    lower = _whitening(features, mean.astype(np.float32), u, v)

    def dual(b: Double) -> tuple[float, Double]:
        a = solve_triangular(lower, b, lower=True, trans=1, check_finite=False)
        weights, log_total = _weights(features, a, mean, u)
        slope = (weights @ features).astype(np.float64) - target + v * a
        value = log_total - float((target - mean) @ a) + v * float(a @ a) / 2
        return value, solve_triangular(lower, slope, lower=True, check_finite=False)

    b = np.zeros(q) if start is None else lower.T @ start
    options = {"maxiter": iterations, "maxcor": CORRECTIONS, "ftol": TOLERANCE, "gtol": 1e-5, "maxls": 6}
    found = minimize(dual, b, jac=True, method="L-BFGS-B", options=options)
    a = solve_triangular(lower, found.x, lower=True, trans=1)
    weights = _weights(features, a, mean, u)[0].astype(np.float64)
    return Tilt(weights / weights.sum(), a, caution)


def tempered(
    features: Single, target: Double, variance: float, least_effective: float, caution: float = MOST_CAUTION
) -> Tilt:
    """The least cautious tilt of equal weights with this effective sample size; else the most cautious one."""
    found = tilt(features, target, variance, caution=caution, iterations=ROUGH_ITERATIONS)
    while found.caution > 1 and found.effective >= least_effective:
        less = max(found.caution / CAUTION_STEP, 1.0)
        bolder = tilt(features, target, variance, start=found.dual, caution=less, iterations=ROUGH_ITERATIONS)
        if bolder.effective < least_effective:
            break
        found = bolder
    return found


def _whitening(features: Single, mean: Single, base: Single, variance: float) -> Double:
    """The Cholesky factor of the dual's approximate curvature at the base weights, from evenly spaced rows."""
    some = slice(None, None, max(1, len(features) // ROWS_TO_WHITEN))
    centered = (features[some] - mean) * np.sqrt(base[some] / base[some].sum())[:, None]
    curvature = ssyrk(1.0, centered.T, lower=1).astype(np.float64)  # np.linalg.cholesky reads the lower half alone
    curvature[np.diag_indices_from(curvature)] += variance + JITTER
    return np.asarray(np.linalg.cholesky(curvature))


def _weights(features: Single, dual: Double, mean: Double, base: Single) -> tuple[Single, float]:
    """Weights (sum 1) and the logarithm of the base's mean of exp((P - mean) a)."""
    exponents = features @ dual.astype(np.float32)
    exponents -= np.float32(mean @ dual)
    top = exponents.max()
    weights = base * np.exp(exponents - top)
    total = float(weights.sum(dtype=np.float64))
    return weights / np.float32(total), float(np.log(total) + top)


EMPTY = 1e-300  # a share or variance that stands for none
#: A wide bin of a tail has less than this share beyond it, and ends this many times farther out than it begins.
TAIL_SHARE, WIDE_RATIO = 0.05, 1.5
VALUES_PER_BIN = 8  # that a bin's mean is taken of


@dataclass(frozen=True)
class Column:
    """A column's histogram: proportions of the records below the edges, in each bin, and above; noisy or exact."""

    edges: Double
    shares: Double  # one more than edges
    values: Double | None = None  # those that records have in each bin, if known
    noise: float = 0.0  # variance of a private release's noise in each share

    @classmethod
    def of(cls, sketch: Sketch) -> list[Column] | None:
        """The histograms of a sketch, column by column, if it has any."""
        counts = part_of(sketch, Histograms)
        if counts is None:
            return None
        histograms: Histograms = counts.operator
        values = histograms.values or (None,) * histograms.n_features
        noise = 0.0 if counts.ledger is None else counts.ledger.sum_variance / float(counts.units) ** 2
        each = zip(histograms.edges, histograms.split_columns(np.asarray(counts.mean, np.float64)), values, strict=True)
        return [cls(np.array(e), s, None if v is None else np.array(v), noise) for e, s, v in each]

    @cached_property
    def limits(self) -> tuple[Double, Double]:
        """Lowest and highest value of each bin; values beyond the edges count as if they were at the edges."""
        first, last = self.edges[:1], self.edges[-1:]
        inner = (self.edges[:-1], self.edges[1:]) if self.values is None else (self.values, self.values)
        return np.concatenate([first, inner[0], last]), np.concatenate([first, inner[1], last])

    @cached_property
    def chances(self) -> Double:
        """The proportions, projected onto the probability simplex."""
        descending = np.sort(self.shares)[::-1]
        surplus = (np.cumsum(descending) - 1) / np.arange(1, len(descending) + 1)
        last = np.flatnonzero(descending > surplus)[-1]
        return np.asarray(np.maximum(self.shares - surplus[last], 0))

    @cached_property
    def _inside(self) -> Double:
        """Values inside each bin, at even steps of probability: (steps, bins)."""
        steps = (np.arange(VALUES_PER_BIN) + 0.5) / VALUES_PER_BIN
        return np.stack([self._at(np.arange(len(self.chances)), step) for step in steps])

    @cached_property
    def mean(self) -> float:
        return float(self.chances @ self._inside.mean(axis=0))

    @cached_property
    def squares(self) -> Double:
        """Each bin's mean squared distance from the column's mean."""
        return np.asarray(np.mean((self._inside - self.mean) ** 2, axis=0))

    @property
    def spread(self) -> float:
        """The variance of the column."""
        return float(self.chances @ self.squares)

    def quantiles(self, levels: Double) -> Double:
        cumulated = np.cumsum(self.chances)
        last = np.flatnonzero(self.chances)[-1]
        bins = np.minimum(np.searchsorted(cumulated, levels, side="right"), last)
        inside = (levels - cumulated[bins]) / np.maximum(self.chances[bins], EMPTY) + 1
        return self._at(bins, np.clip(inside, 0, 1))

    def far(self, n: int, rng: np.random.Generator) -> Double:
        """Values drawn, bin by bin, in proportion to the squared distance from the mean."""
        chances = self.chances * self.squares
        if not chances.sum() > 0:  # all records have one value
            return self.quantiles(rng.random(n))
        bins = rng.choice(len(chances), n, p=chances / chances.sum())
        return self._at(bins, rng.random(n))

    def _at(self, bins: NDArray[np.int64], inside: Double | float) -> Double:
        """Values inside bins, uniform, or with density t^-3 in wide bins of the tails.

        Uniform ones there made the variance of a column up to four times too large.
        """
        low, high = (limit[bins] for limit in self.limits)
        middle, *tails = self._tails
        side, near, far = (part[bins] for part in tails)
        on = np.where(side > 0, inside, 1 - inside)
        distance = near / np.sqrt(1 - on * (1 - (near / far) ** 2))
        return np.where(side == 0, low + (high - low) * inside, middle + side * distance)

    @cached_property
    def _tails(self) -> tuple[Double, Double, Double, Double]:
        """The middle of the median's bin; per bin, the tail if it is a wide one (-1, 1, or 0), and its distances."""
        half = int(np.searchsorted(np.cumsum(self.chances), 0.5))
        middle = self.limits[0][half] / 2 + self.limits[1][half] / 2
        low, high = (limit - middle for limit in self.limits)
        above, below = np.cumsum(self.chances[::-1])[::-1], np.cumsum(self.chances)
        upper = (above < TAIL_SHARE) & (low > 0) & (high > WIDE_RATIO * low)
        lower = (below < TAIL_SHARE) & (high < 0) & (low < WIDE_RATIO * high)
        side = upper.astype(np.float64) - lower
        near, far = np.where(upper, low, -high), np.where(upper, high, -low)
        return middle, side, np.where(side == 0, 1.0, near), np.where(side == 0, 1.0, far)


def histogram_residual(columns: Sequence[Column], drawn: WeightedRows, count: float) -> float:
    """Mean squared residual of drawn rows in the histograms, relative to its variance: about 1 for a good fit."""
    chance, squares = 1 / max(count, 1) + 1 / drawn.effective_size, []
    for column, values in zip(columns, drawn.rows.T, strict=True):
        last = len(column.edges) - 2  # Values beyond the edges count as if they were in the bins there.
        bins = np.clip(np.searchsorted(column.edges, values, side="right") - 1, 0, last)
        own = np.bincount(bins, drawn.weights, minlength=last + 1)
        shares = column.shares[1:-1].copy()
        shares[0] += column.shares[0]
        shares[-1] += column.shares[-1]
        squares.append((shares - own) ** 2 / (column.noise + np.maximum(own * (1 - own), 0) * chance))
    return float(np.mean(np.concatenate(squares)))


MOST_FREQUENCIES = 300  # to tilt to: no better than 150, but a sketch may hold many of little use
PREFERRED_DEVIATIONS = (0.1, 4.0)  # of the phases along a frequency, in radians
RIDGE = 5e-4  # variance added to that of the noise: 1e-5 gave 1.05 at 90 % where 1e-3 gave 1.01
NOISE_FACTOR = 30.0  # of the noise's variance: with 10 the median error was .02 (pure 1) and .05 (epsilon 0.1) larger
JUDGING_STEP = 5  # Every fifth frequency is held out to judge the points, then joins the others for the weights.
#: Effective sample sizes, as shares of the points: below the first, a tilt waits; above the second, points may stay.
LEAST_EFFECTIVE_SHARE, EVEN_EFFECTIVE_SHARE = 0.2, 0.6
STAGES, MOVES = 3, 8
SHORTEST_MOVE = 0.1  # deviations; the longest is 1
ROWS_TO_COMPARE = 3000  # on which independent and correlated columns are compared
OUTLINE_SHARE = 0.7  # of the points, where there is an outline
FAR_SHARE = 0.5  # of the other points, drawn in proportion to the squared distance in one column
MOST_UNEXPLAINED = 1e-3  # per number: of 67 tables in bounds, those with RSSE above 1.1 had 1.06e-3 or more
DEVIATIONS_OF_CHANCE = 3.0
DOUBTFUL_SHARE = 0.03  # With a smaller share of effective points, centers rest on few.


@dataclass(frozen=True)
class SupportPoints:
    """Weighted points (sum of the weights 1) that stand for all records, in the units of the data.

    `unexplained` is the mean squared residual at held-out frequencies, less the noise's part; the weights use all.
    """

    points: WeightedRows
    find_unexplained: Callable[[], float]
    chance: float  # largest residual that noise alone explains
    freedom: float  # degrees of freedom with which weights follow noise; 0 without noise

    @cached_property
    def unexplained(self) -> float:
        return self.find_unexplained()

    @property
    def explain(self) -> bool:
        """Whether their residual is small and their effective size large: otherwise results may be wrong."""
        many = self.points.effective_size >= DOUBTFUL_SHARE * len(self.points)
        return many and not self.unexplained > MOST_UNEXPLAINED + self.chance


@dataclass(frozen=True)
class Base:
    """The base distribution: columns with these histograms, joined by a Gaussian copula."""

    columns: Sequence[Column]
    mixing: Double | None = None  # of independent numbers into correlated ones; None leaves them as they are

    def rows(self, latent: Double) -> Double:
        """Rows as functions of independent normal numbers."""
        levels = ndtr(latent if self.mixing is None else latent @ self.mixing.T)
        return np.stack([column.quantiles(levels[:, j]) for j, column in enumerate(self.columns)], axis=1)


def tilted_points(
    target: Target,
    columns: Sequence[Column],
    n: int,
    rng: np.random.Generator,
    *,
    units: Double | None = None,
    outline: Double | None = None,
    correlation: Double | None = None,
) -> SupportPoints:
    """About n support points from a target and a histogram per column.

    Distances are taken in `units` of the columns. `outline` are rows drawn from prior knowledge, such as an `Outline`
    of a sample; `correlation` is that of the columns, if known.
    """
    scale = np.ones(len(columns)) if units is None else units
    which = _chosen(target, np.array([column.spread for column in columns]), rng)
    judging = np.arange(len(which)) % JUDGING_STEP == JUDGING_STEP - 1
    chosen, fitted, judges = (target.some(part) for part in (which, which[~judging], which[judging]))
    if outline is None:
        rows, moved = _moved(fitted, _base(fitted, columns, correlation, rng), n, rng)
        base, caution = np.full(len(rows), 1 / len(rows)), moved.caution
    else:
        (rows, base), moved, caution = _joined(outline, columns, scale, n, rng), None, 1.0
    features, held = chosen.features(rows), np.tile(judging, 2 if target.imaginary else 1)

    def unexplained() -> float:
        first = moved or tilt(features[:, ~held], fitted.numbers, _variance(fitted), base)
        return _unexplained(judges, features[:, held], first.weights) if len(judges) else float("nan")

    last = tilt(features, chosen.numbers, _variance(chosen), base, caution=caution)
    points = WeightedRows.of(rows, last.weights)
    return SupportPoints(points, unexplained, _chance(judges), last.freedom(features, chosen))


def tilted_draws(target: Target, rows: Double, rng: np.random.Generator) -> SupportPoints:
    """Draws from a density that was fitted to the same means, tilted to them and judged by them."""
    chosen = target.some(_chosen(target, np.var(rows, axis=0), rng))
    features = chosen.features(rows)
    found = tilt(features, chosen.numbers, _variance(chosen))
    points, unexplained = WeightedRows.of(rows, found.weights), partial(_unexplained, chosen, features, found.weights)
    return SupportPoints(points, unexplained, _chance(chosen), found.freedom(features, chosen))


def _unexplained(target: Target, features: Single, weights: Double) -> float:
    """Mean squared residual of weighted features per number, less the noise's part."""
    left = target.numbers - weights.astype(np.float32) @ features
    return float(np.mean(left**2) - target.number_variance)


def _base(target: Target, columns: Sequence[Column], correlation: Double | None, rng: np.random.Generator) -> Base:
    """Independent columns or correlated ones, whichever have the smaller residual."""
    if correlation is None:
        return Base(columns)

    def unexplained(base: Base) -> float:
        features = target.features(base.rows(rng.standard_normal((ROWS_TO_COMPARE, len(columns)))))
        return float(np.mean((target.numbers - features.mean(axis=0)) ** 2))

    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, EMPTY))
    correlated = Base(columns, root / np.linalg.norm(root, axis=1, keepdims=True))
    return min([Base(columns), correlated], key=unexplained)


def _variance(target: Target) -> float:
    return NOISE_FACTOR * target.number_variance + RIDGE


def _chance(target: Target) -> float:
    """The largest residual that noise alone explains."""
    return float(DEVIATIONS_OF_CHANCE * target.number_variance * np.sqrt(2 / max(len(target.numbers), 1)))


def _chosen(target: Target, variances: Double, rng: np.random.Generator) -> NDArray[np.int64]:
    """Places of some frequencies, in random order: preferably oblique ones with phases that vary by some radians.

    A histogram determines a column better than frequencies along its axis; waves far shorter than the data's spread
    determine the widths of clusters rather than their locations.
    """
    omega = target.frequencies.omega.astype(np.float64)
    deviations = np.sqrt(np.maximum(omega**2 @ (variances / target.unit**2), EMPTY))
    off = np.abs(np.log(deviations / np.clip(deviations, *PREFERRED_DEVIATIONS)))
    off[np.count_nonzero(omega, axis=1) == 1] = np.inf
    order = rng.permutation(len(target))
    return rng.permutation(order[np.argsort(off[order], kind="stable")][:MOST_FREQUENCIES])


def _moved(target: Target, base: Base, n: int, rng: np.random.Generator) -> tuple[Double, Tilt]:
    """Points that follow approximately the density of maximum entropy, and their remaining tilt.

    Each row is a function of normal numbers y. A move to sqrt(1 - b^2) y + b y', y' independent, keeps the columns'
    histograms; it is accepted with the probability of the Metropolis rule.
    """
    latent = rng.standard_normal((n, len(base.columns)))
    rows = base.rows(latent)
    total, caution = np.zeros(len(target.numbers)), MOST_CAUTION
    for stage in range(STAGES + 1):
        found = tempered(target.features(rows), target.numbers, _variance(target), LEAST_EFFECTIVE_SHARE * n, caution)
        total, caution = total + found.dual, found.caution
        if stage == STAGES or (found.caution <= 1 and found.effective > EVEN_EFFECTIVE_SHARE * n):
            break
        again = systematic_draws(found.weights / found.weights.sum(), n, rng.random())
        latent, rows = latent[again], rows[again]
        coefficients = total.astype(np.float32)
        exponents = target.features(rows) @ coefficients
        for _ in range(MOVES):
            length = SHORTEST_MOVE ** rng.random((n, 1))
            tried = np.sqrt(1 - length**2) * latent + length * rng.standard_normal(latent.shape)
            tried_rows = base.rows(tried)
            tried_exponents = target.features(tried_rows) @ coefficients
            taken = -rng.standard_exponential(n) < tried_exponents - exponents
            latent[taken], rows[taken], exponents[taken] = tried[taken], tried_rows[taken], tried_exponents[taken]
    return rows, found


def _joined(
    outline: Double, columns: Sequence[Column], scale: Double, n: int, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Points and base weights: rows of the outline, and independent columns, half of them with one far from its mean.

    Points in the tails, which hold most of the squared error, are drawn more often and weigh less, by
    1 - s + s |x - mean|^2 / E |x - mean|^2 (Bachem, Lucic, Krause 2018, 10.1145/3219819.3219973).
    """
    known = outline[rng.choice(len(outline), int(OUTLINE_SHARE * n), replace=len(outline) < OUTLINE_SHARE * n)]
    others = Base(columns).rows(rng.standard_normal((n - len(known), len(columns))))
    mean = np.array([column.mean for column in columns])
    spreads = np.array([column.spread for column in columns]) / scale**2
    base = np.full(n, 1 / n)
    if spreads.sum() > 0:
        which = rng.choice(len(columns), len(others), p=spreads / spreads.sum())
        which[rng.random(len(others)) >= FAR_SHARE] = -1
        for j, column in enumerate(columns):
            others[which == j, j] = column.far(int(np.sum(which == j)), rng)
        distance = np.sum(((others - mean) / scale) ** 2, axis=1) / spreads.sum()
        rarer = 1 / (1 - FAR_SHARE + FAR_SHARE * distance)
        base[len(known) :] = rarer / rarer.sum() * len(others) / n
    return np.concatenate([known, others]), base
