"""Weighted points that agree with a sketch, whatever the law: atoms drawn from histograms, tilted to the features.

Atoms are drawn from the histograms, with independent columns or, where covariances are known and that is nearer to the
sketch, with correlated ones (a Gaussian copula). Maximum entropy weights make the means of their features
agree with the sketch's. Where the weights become uneven, atoms are drawn again with chances as their weights, and moved
so that they follow the tilted density (sequential Monte Carlo, Del Moral et al. 2006, 10.1111/j.1467-9868.2006.00553.x;
moves as in Cotter et al. 2013, 10.1214/13-STS421). An outline of a sample, if there is one, gives better atoms at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property, partial

import numpy as np
from numpy.typing import NDArray
from scipy.special import ndtr

from sketchlearn.models import Double, Single
from sketchlearn.weighting.entropy_tilting import MOST_CAUTION, Tilt, WaveMeans, tempered, tilt
from sketchlearn.weighting.histogram_columns import EMPTY, Column
from sketchlearn.weighting.weighted_rows import WeightedRows

MOST_FREQUENCIES = 300  # that atoms are tilted to: no better than 150, but a sketch may hold many of little use
PREFERRED_DEVIATIONS = (0.1, 4.0)  # of the phases along a frequency, in radians
RIDGE = 5e-4  # variance added to that of the noise: 1e-5 gave 1.05 at 90 % where 1e-3 gave 1.01
NOISE_FACTOR = 30.0  # of the noise's variance: with 10 the median error was .02 (pure 1) and .05 (epsilon 0.1) larger
JUDGING_STEP = 5  # Every fifth frequency judges the atoms, and then joins the others for the final weights.
#: Effective atoms, as a share of all: with fewer, a tilt waits; with more than the second, atoms may stay.
LEAST_EFFECTIVE_SHARE, EVEN_EFFECTIVE_SHARE = 0.2, 0.6
STAGES, MOVES = 3, 8
SHORTEST_MOVE = 0.1  # moves are between that and 1 deviation long
ROWS_TO_COMPARE = 3000  # on which independent and correlated columns are compared
OUTLINE_SHARE = 0.7  # of the atoms, where there is an outline
FAR_ATOMS_SHARE = 0.5  # share of the other atoms that are drawn in proportion to the squared distance in one column
MOST_UNEXPLAINED = 1e-3  # per number: of 67 tables in bounds, those with RSSE above 1.1 had 1.06e-3 or more
DEVIATIONS_OF_CHANCE = 3.0
DOUBTFUL_SHARE = 0.03  # Centers rest on few atoms where fewer of all are effective.


@dataclass(frozen=True)
class Atoms:
    """Weighted points (sum of the weights 1) that stand for all records, in the units of the data.

    `unexplained` is the mean square of what atoms left of the numbers of some frequencies that they were not tilted to,
    less the noise's part, found when it is asked for; the weights are tilted to all.
    """

    points: WeightedRows
    find_unexplained: Callable[[], float]
    chance: float  # up to which noise alone may leave more or less unexplained
    freedom: float  # how many numbers of noise the weights can follow; 0 where there is none

    @cached_property
    def unexplained(self) -> float:
        return self.find_unexplained()

    @property
    def explain(self) -> bool:
        """Whether they leave little of the sketch, and are many: otherwise what is learned from them may be wrong."""
        many = self.points.effective_size >= DOUBTFUL_SHARE * len(self.points)
        return many and not self.unexplained > MOST_UNEXPLAINED + self.chance


@dataclass(frozen=True)
class Base:
    """What atoms are drawn from first: columns with these histograms, functions of correlated normal numbers."""

    columns: Sequence[Column]
    mixing: Double | None = None  # of independent numbers into correlated ones; None leaves them as they are

    def rows(self, latent: Double) -> Double:
        """Rows that are functions of independent normal numbers."""
        levels = ndtr(latent if self.mixing is None else latent @ self.mixing.T)
        return np.stack([column.quantiles(levels[:, j]) for j, column in enumerate(self.columns)], axis=1)


def tilted_atoms(
    means: WaveMeans,
    columns: Sequence[Column],
    n: int,
    rng: np.random.Generator,
    *,
    units: Double | None = None,
    outline: Double | None = None,
    correlation: Double | None = None,
) -> Atoms:
    """About n atoms from the means of waves, `WaveMeans(Target.of(sketch))`, and a histogram per column.

    Columns are divided by `units`, if given, before distances are taken. `outline` are rows that were drawn from what
    is known beforehand, such as an `Outline` of a sample; `correlation` is that of the columns, as far as it is known.
    """
    scale = np.ones(len(columns)) if units is None else units
    which = _chosen(means, np.array([column.spread for column in columns]), rng)
    judging = np.arange(len(which)) % JUDGING_STEP == JUDGING_STEP - 1
    chosen, fitted, judges = (means.some(part) for part in (which, which[~judging], which[judging]))
    if outline is None:
        rows, moved = _moved(fitted, _base(fitted, columns, correlation, rng), n, rng)
        base, caution = np.full(len(rows), 1 / len(rows)), moved.caution
    else:
        (rows, base), moved, caution = _joined(outline, columns, scale, n, rng), None, 1.0
    features = chosen.features(rows)

    def unexplained() -> float:
        own = chosen.places(~judging)
        first = moved or tilt(features[:, own], fitted.numbers, _variance(fitted), base)
        return judges.unexplained(features[:, chosen.places(judging)], first.weights) if len(judges) else float("nan")

    last = tilt(features, chosen.numbers, _variance(chosen), base, caution=caution)
    points = WeightedRows.of(rows, last.weights)
    return Atoms(points, unexplained, _chance(judges), _freedom(chosen, features, last))


def tilted_draws(means: WaveMeans, rows: Double, rng: np.random.Generator) -> Atoms:
    """Atoms that are draws from a density which was fitted to the same means: those judge them, too."""
    chosen = means.some(_chosen(means, np.var(rows, axis=0), rng))
    features = chosen.features(rows)
    found = tilt(features, chosen.numbers, _variance(chosen))
    unexplained = partial(chosen.unexplained, features, found.weights)
    return Atoms(WeightedRows.of(rows, found.weights), unexplained, _chance(chosen), _freedom(chosen, features, found))


def _freedom(means: WaveMeans, features: Single, found: Tilt) -> float:
    """How many numbers of noise the weights can follow, where there is any."""
    return found.freedom(features, _variance(means)) if means.variance else 0.0


def _base(means: WaveMeans, columns: Sequence[Column], correlation: Double | None, rng: np.random.Generator) -> Base:
    """Independent columns or those of the nearest possible correlations, whichever are nearer to the sketch."""
    if correlation is None:
        return Base(columns)

    def unexplained(base: Base) -> float:
        features = means.features(base.rows(rng.standard_normal((ROWS_TO_COMPARE, len(columns)))))
        return float(np.mean((means.numbers - features.mean(axis=0)) ** 2))

    values, vectors = np.linalg.eigh(correlation)
    root = vectors * np.sqrt(np.maximum(values, EMPTY))
    correlated = Base(columns, root / np.linalg.norm(root, axis=1, keepdims=True))
    return min([Base(columns), correlated], key=unexplained)


def _variance(means: WaveMeans) -> float:
    return NOISE_FACTOR * means.variance + RIDGE


def _chance(means: WaveMeans) -> float:
    """Up to which noise alone may leave more or less of the numbers unexplained."""
    return float(DEVIATIONS_OF_CHANCE * means.variance * np.sqrt(2 / max(len(means.numbers), 1)))


def _chosen(means: WaveMeans, variances: Double, rng: np.random.Generator) -> NDArray[np.int64]:
    """Places of some frequencies, in random order: preferably oblique ones along which phases vary by some radians.

    Histograms tell more of a column than frequencies along its axis; waves far shorter than the data's spread tell
    more of the width of clusters than of where they lie.
    """
    omega = means.target.frequencies.omega.astype(np.float64)
    deviations = np.sqrt(np.maximum(omega**2 @ (variances / means.target.unit**2), EMPTY))
    off = np.abs(np.log(deviations / np.clip(deviations, *PREFERRED_DEVIATIONS)))
    off[np.count_nonzero(omega, axis=1) == 1] = np.inf
    order = rng.permutation(len(means))
    return rng.permutation(order[np.argsort(off[order], kind="stable")][:MOST_FREQUENCIES])


def _moved(means: WaveMeans, base: Base, n: int, rng: np.random.Generator) -> tuple[Double, Tilt]:
    """Atoms that follow about the density of maximum entropy, and the tilt that is left for them.

    Each row is a function of normal numbers y: a move to sqrt(1 - b^2) y + b y', y' fresh, keeps the columns'
    histograms, and is accepted with the chance that the tilted density asks for.
    """
    latent = rng.standard_normal((n, len(base.columns)))
    rows = base.rows(latent)
    total, caution = np.zeros(len(means.numbers)), MOST_CAUTION
    for stage in range(STAGES + 1):
        found = tempered(means.features(rows), means.numbers, _variance(means), LEAST_EFFECTIVE_SHARE * n, caution)
        total, caution = total + found.dual, found.caution
        if stage == STAGES or (found.caution <= 1 and found.effective > EVEN_EFFECTIVE_SHARE * n):
            break
        # systematic draws: each row as often as its weight says, up to rounding
        places = (np.arange(n) + rng.random()) / n * found.weights.sum()
        again = np.minimum(np.searchsorted(np.cumsum(found.weights), places), n - 1)
        latent, rows = latent[again], rows[again]
        coefficients = total.astype(np.float32)
        exponents = means.features(rows) @ coefficients
        for _ in range(MOVES):
            length = SHORTEST_MOVE ** rng.random((n, 1))
            tried = np.sqrt(1 - length**2) * latent + length * rng.standard_normal(latent.shape)
            tried_rows = base.rows(tried)
            tried_exponents = means.features(tried_rows) @ coefficients
            taken = -rng.standard_exponential(n) < tried_exponents - exponents
            latent[taken], rows[taken], exponents[taken] = tried[taken], tried_rows[taken], tried_exponents[taken]
    return rows, found


def _joined(
    outline: Double, columns: Sequence[Column], scale: Double, n: int, rng: np.random.Generator
) -> tuple[Double, Double]:
    """Atoms and base weights: rows of the outline, and independent columns, half of them with one far from its mean.

    Few atoms would lie in tails that hold most of the squared error: those far away are drawn more often, and weigh
    less, by 1 - s + s |x - mean|^2 / E |x - mean|^2 (Bachem, Lucic, Krause 2018, 10.1145/3219819.3219973).
    """
    known = outline[rng.choice(len(outline), int(OUTLINE_SHARE * n), replace=len(outline) < OUTLINE_SHARE * n)]
    others = Base(columns).rows(rng.standard_normal((n - len(known), len(columns))))
    mean = np.array([column.mean for column in columns])
    spreads = np.array([column.spread for column in columns]) / scale**2
    base = np.full(n, 1 / n)
    if spreads.sum() > 0:
        which = rng.choice(len(columns), len(others), p=spreads / spreads.sum())
        which[rng.random(len(others)) >= FAR_ATOMS_SHARE] = -1
        for j, column in enumerate(columns):
            others[which == j, j] = column.far(int(np.sum(which == j)), rng)
        distance = np.sum(((others - mean) / scale) ** 2, axis=1) / spreads.sum()
        rarer = 1 / (1 - FAR_ATOMS_SHARE + FAR_ATOMS_SHARE * distance)
        base[len(known) :] = rarer / rarer.sum() * len(others) / n
    return np.concatenate([known, others]), base
