"""Expected sufficient statistics of a mixture of Gaussians: a step of expectation maximisation at a pilot, in one pass.

Of each row x, u_j = c_j + G_j v are whitened coordinates over the reach, v = 2^22 (x - center) / bound, and
r_j = exp(a_j + b_j u_j . u_j) over their sum are responsibilities. r_j, r_j u_j and r_j u_j u_j' are added up, in steps
of 2^-22. docs/reference/arithmetic.md has every operation.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double, Integers, Rows, Single, Weights
from sketchlearn.core.limits import Cost
from sketchlearn.core.messages import counted
from sketchlearn.core.values import choice, floats, shortened
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import CLIP, VALUE_BITS, Boxed
from sketchlearn.features.directions import packed, unpacked_rows
from sketchlearn.features.operator import CountingOperator, of
from sketchlearn.features.sensitivity import Sensitivity
from sketchlearn.kernels import dispatch as kernel
from sketchlearn.kernels._native import add_expected
from sketchlearn.kernels.gpu.driver import Device
from sketchlearn.kernels.gpu.plans import MixturePlan
from sketchlearn.sketch.priority_sample import Keeping

SHARE_BITS, LOG_BITS = 22, 10
ONE = 1 << SHARE_BITS  # a responsibility of 1
MOST_COMPONENTS, MOST_COLUMNS = 1024, 1024
LARGEST_SLOPE, LARGEST_SHIFT, LARGEST_REACH = 2.0**16, 2.0**38, 400.0  # so that no float32 overflows


class Moments(NamedTuple):
    """Moments of the records by component, with the responsibilities of the pilot."""

    shares: Double  # (k,), of all records
    means: Double  # (k, d)
    covariances: Double  # (k, d, d) about those means; for "diag", the variances (k, d)
    squares: Double  # (k,) mean squared lengths of whitened coordinates, about the pilot's means


@dataclass(frozen=True)
class Gaussians:
    """A mixture: weights (k,), means (k, d), and lower Cholesky factors (k, d, d) or deviations (k, d)."""

    weights: Double
    means: Double
    factors: Double

    @property
    def diagonals(self) -> Double:
        """The diagonals of the factors, (k, d)."""
        return self.factors if self.factors.ndim == 2 else np.diagonal(self.factors, axis1=1, axis2=2)

    @property
    def heights(self) -> Double:
        """Logarithms of weights times densities at the means, but for the power of 2 pi."""
        return np.asarray(np.log(np.maximum(self.weights, 1e-300)) - np.sum(np.log(self.diagonals), axis=1))


@dataclass(frozen=True)
class GaussianParts:
    """A mixture as native kernels take it: a, b, c and G of each component, in float32."""

    center: Double
    scale: Single  # 2^22 over the bound
    numbers: Single  # (k, 2 + d + d or d (d + 1) / 2)
    full: bool
    given: Gaussians | None = None  # the mixture before it was rounded to float32

    @classmethod
    def of(cls, mixture: Gaussians, center: Double, bound: Double, reach: float) -> Self:
        """The numbers of a mixture."""
        scale = (2.0**VALUE_BITS / bound).astype(np.float32)
        means, factors, steps = mixture.means, mixture.factors, 1 / scale.astype(np.float64)
        if factors.ndim == 2:
            slopes, shifts = steps / factors / reach, (center - means) / factors / reach
        else:
            inverse = np.linalg.inv(factors)
            i, j = np.tril_indices(means.shape[1])
            slopes = (inverse / reach * steps)[:, i, j]
            shifts = np.einsum("kij,kj->ki", inverse, center - means) / reach
        half = np.full(len(means), -0.5 * reach**2)
        numbers = np.column_stack([mixture.heights - mixture.heights.max(), half, shifts, slopes]).astype(np.float32)
        return cls(center, scale, numbers, factors.ndim == 3, mixture)

    @property
    def n_sums(self) -> int:
        return 1 + self.numbers[:, 1:].size  # one number of a component less: a and b, but one count

    def add(self, rows: Rows, weights: Weights, threads: int, sums: Integers) -> tuple[int, int]:
        """Adds the statistics of rows; the first bad row or -1, and how many were clipped."""
        mixture = (self.center, self.scale, self.numbers, self.full)
        return add_expected(kernel.active, rows, *mixture, weights, threads, sums)

    @property
    def reaches(self) -> Double:
        return np.sqrt(-2 * self.numbers[:, 1].astype(np.float64))

    @cached_property
    def _whitening(self) -> tuple[Double, Double]:
        """Shifts z_0 and factors L of each component: a row x has whitened coordinates z = z_0 + L^-1 (x - center)."""
        d, reach, scale = len(self.scale), self.reaches[:, None], self.scale.astype(np.float64)
        shift = self.numbers[:, 2 : 2 + d] * reach
        if self.given is not None:
            return shift, self.given.factors
        if not self.full:
            return shift, 1 / (self.numbers[:, 2 + d :] * reach * scale)
        whitening = np.zeros((len(shift), d, d))
        i, j = np.tril_indices(d)
        whitening[:, i, j] = self.numbers[:, 2 + d :] * reach * scale[j]
        return shift, np.asarray(np.linalg.inv(whitening), np.float64)

    @cached_property
    def mixture(self) -> Gaussians:
        """The mixture: as float32 has it, where it comes out of a file."""
        if self.given is not None:
            return self.given
        shift, factors = self._whitening
        means = self.center - _times(factors, shift)
        heights = self.numbers[:, 0] + np.sum(np.log(Gaussians(shift[:, 0], means, factors).diagonals), axis=1)
        weights = np.exp(heights - heights.max())
        return Gaussians(weights / weights.sum(), means, factors)

    def moments(self, values: Double) -> Moments:
        """The moments of components, from a mean feature vector; 0 where there are no records."""
        d, table = len(self.scale), values[1:].reshape(len(self.numbers), -1)
        shares, reach = np.maximum(table[:, 0], 0.0), self.reaches[:, None]
        over = np.divide(1.0, shares, out=np.zeros_like(shares), where=shares > 0)[:, None]
        first, second = table[:, 1 : 1 + d] * over * reach, table[:, 1 + d :] * over * reach**2
        shift, factors = self._whitening
        means = (self.center + _times(factors, first - shift)) * (shares > 0)[:, None]
        if not self.full:
            return Moments(shares, means, np.maximum(second - first**2, 0) * factors**2, second.sum(axis=1))
        inner = np.zeros((len(shares), d, d))
        i, j = np.tril_indices(d)
        inner[:, i, j] = inner[:, j, i] = second
        squares = np.trace(inner, axis1=1, axis2=2)
        inner -= first[:, :, None] * first[:, None, :]
        return Moments(shares, means, factors @ inner @ factors.transpose(0, 2, 1), squares)

    def log_likelihood(self, values: Double) -> float:
        """The mean log-likelihood of records under the mixture, of a mean feature vector."""
        return float(values[0] + self.mixture.heights.max() - 0.5 * len(self.scale) * math.log(2 * math.pi))


def mean_features(sums: Double) -> Double:
    """The features that integers (or averages of them) stand for."""
    found = np.asarray(sums / ONE)
    found[..., 0] *= 2.0 ** (SHARE_BITS - LOG_BITS)
    return found


def _times(factors: Double, rows: Double) -> Double:
    """Factors times rows, component by component."""
    return np.asarray(factors * rows if factors.ndim == 2 else np.einsum("kij,kj->ki", factors, rows))


@dataclass(frozen=True)
class ExpectedStatistics(CountingOperator, Boxed):
    """Phi(x) = r_j (1, u_j, u_j u_j') for each component j of a mixture of Gaussians, and the row's log-likelihood.

    r_j is the responsibility of the component, and u_j is x in its whitened coordinates. The sums over all records are
    what the M-step of expectation maximisation (EM) needs: one exact pass is one step of EM at the pilot, the mixture
    that the operator was made of. `SketchGaussianMixture.fit` makes it.

    Parameters
    ----------
    n_features : number d of columns of the data.
    components : those of the pilot, as `at_mixture` writes them: float32 numbers in base 64.
    covariances : "diag" has squares of u_j column by column, "full" all of its products.
    ridge : the least variance of each column that the M-step leaves a component; 0 for none. Not compared.
    bound, center, outside, columns : as those of `SecondMoments`; values beyond the bound are clipped.
    keeping : the rule of the priority sample of rows, None for none. Not compared.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> rows = np.array([[-5.0], [-4.0], [4.0], [6.0]])
    >>> operator = skl.features.ExpectedStatistics.at_mixture(
    ...     np.array([0.5, 0.5]), np.array([[-3.0], [3.0]]), np.ones((2, 1)), center=np.zeros(1), bound=np.full(1, 10.0)
    ... )
    >>> operator.in_words
    'expected statistics of 2 Gaussians in 1 column, diagonal covariances'
    >>> found = operator.moments(operator.sketch(rows).mean)
    >>> found.shares.tolist(), found.means.round(3).tolist(), found.covariances.round(3).tolist()
    ([0.5, 0.5], [[-4.5], [5.0]], [[0.25], [1.0]])
    """

    abilities = frozenset({Ability.MIXTURES})
    add_counted = of("at.add")
    n_sums = of("at.n_sums")
    largest_contribution = ONE
    _omitted: ClassVar[dict[str, Any]] = {"columns": None, "outside": CLIP, "keeping": None, "ridge": None}
    components: str = field(kw_only=True)
    covariances: str = field(default="diag", kw_only=True)
    outside: str = field(default=CLIP, kw_only=True)
    ridge: tuple[float, ...] | None = field(default=None, compare=False, kw_only=True)
    keeping: Keeping | None = field(default=None, compare=False, kw_only=True)

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("covariances", self.covariances, "diag", "full")
        if self.outside != CLIP or self.n_features > MOST_COLUMNS:
            raise ValueError(f"expected statistics clip rows, of at most {MOST_COLUMNS:,} columns")
        self._check_single_bounds()
        numbers, d = self._numbers.astype(np.float64), self.n_features
        reaches, shifts, slopes = -2 * numbers[:, 1], numbers[:, 2 : 2 + d], numbers[:, 2 + d :]
        i = np.arange(d)
        diagonal = slopes if self.covariances == "diag" else slopes[:, i * (i + 3) // 2]
        if (
            len(numbers) > MOST_COMPONENTS
            or not np.all(np.isfinite(numbers))
            or float(np.max(numbers[:, 0])) != 0.0
            or not np.all((reaches >= 1) & (reaches <= LARGEST_REACH**2))
            or np.any(np.abs(shifts) > LARGEST_SHIFT)
            or np.any(np.abs(slopes) > LARGEST_SLOPE)
            or not np.all(diagonal >= np.finfo(np.float32).tiny)
        ):
            raise ValueError(f"components must be the numbers of at most {MOST_COMPONENTS:,} Gaussians")
        if self.ridge is not None:
            self._set(ridge=floats("ridge", self.ridge, d))
            if min(self.ridge) < 0:
                raise ValueError(f"ridge must have no negative variance, not {shortened(self.ridge)}")

    @classmethod
    def at_mixture(
        cls,
        weights: Double,
        means: Double,
        factors: Double,
        *,
        bound: Double,
        center: Double,
        reach: float = 16.0,
        **options: Any,
    ) -> Self:
        """The operator at a mixture.

        `factors` are lower Cholesky factors of covariances, (k, d, d), or deviations, (k, d); `reach` is how many
        deviations off a component's mean rows may lie before they are clipped.
        """
        given = GaussianParts.of(Gaussians(weights, means, factors), center, bound, reach)
        kind, bounds, middle = "full" if given.full else "diag", tuple(map(float, bound)), tuple(map(float, center))
        text = packed(given.numbers, "<f4")
        return cls(len(middle), bound=bounds, center=middle, components=text, covariances=kind, **options)

    @cached_property
    def _numbers(self) -> NDArray[np.float32]:
        """Of each component a, b, c and G."""
        d = self.n_features
        n_squares = d if self.covariances == "diag" else d * (d + 1) // 2
        return unpacked_rows("components", self.components, 2 + d + n_squares)

    @cached_property
    def at(self) -> GaussianParts:
        """The mixture at which statistics are expected."""
        return GaussianParts(self.middle, self._single_scale, self._numbers, self.covariances == "full")

    @property
    def n_components(self) -> int:
        """How many Gaussians there are."""
        return len(self._numbers)

    @property
    def width(self) -> int:
        """How many sums a component has: its responsibilities, and their products with coordinates."""
        return int(self._numbers.shape[1]) - 1

    @property
    def in_words(self) -> str:
        gaussians, columns = counted(self.n_components, "Gaussian"), counted(self.n_features, "column")
        shape = "diagonal" if self.covariances == "diag" else "full"
        return f"expected statistics of {gaussians} in {columns}, {shape} covariances"

    def moments(self, values: Double) -> Moments:
        """Of a mean feature vector, shares, means and covariances of the components; 0 where there are no records."""
        return self.at.moments(values)

    def add_remove_sensitivity(self) -> Sensitivity:
        # Without rounding, a record adds a mean, by responsibilities, of vectors of one component each: 1, coordinates
        # of length 1 at most, and their products, of length 1. Each number is rounded by less than 1.
        n, d = self.n_sums, self.n_features
        l1 = ONE * (2 + math.sqrt(d) + (d if self.covariances == "full" else 1)) + n
        l2 = ONE * 2 + math.sqrt(n)
        return Sensitivity.of_norms(l1, l2, n=n, largest=ONE)

    def replace_one_sensitivity(self) -> Sensitivity:
        return self.add_remove_sensitivity().counted(2)

    def device_plan(self, owner: Device) -> MixturePlan | None:
        if not MixturePlan.has_room(self.n_components, self.n_features):
            return None
        return MixturePlan(owner, self._numbers, self.middle, self.at.scale, self.n_sums, full=self.at.full)

    def write_rows(self, rows: Rows, threads: int) -> tuple[NDArray[np.integer], int]:  # noqa: ARG002
        integers = np.zeros((len(rows), self.n_sums), np.int64)
        for i in range(len(rows)):
            if self.add_rows(rows[i : i + 1], None, 1, integers[i]) >= 0:
                return integers, i
        return integers, -1

    def _is_outside(self, rows: Rows) -> NDArray[np.bool_]:
        found = [self.at.add(row[None], None, 1, np.zeros(self.n_sums, np.int64)) for row in np.asarray(rows)]
        return np.array([bad < 0 and clipped > 0 for bad, clipped in found], bool)

    def mean_of(self, sums: Double) -> NDArray[Any]:
        return mean_features(sums)

    def why_impossible(self, sums: Integers, units: int) -> str | None:
        table = sums[1:].reshape(self.n_components, self.width)
        counts = table[:, 0]
        if np.any(counts < 0) or sum(counts.tolist()) != ONE * units:
            return f"the responsibilities do not add up to {units:,} records (or weight steps)"
        room = counts[:, None] + units  # products of a row are rounded
        if np.any((table > room) | (table < -room)) or not -ONE * units <= int(sums[0]) <= ONE * units:
            return "the sums of a component are larger than its records can add up to"
        return None

    @property
    def cost(self) -> Cost:
        return Cost.of_numbers(len(self.components) + self.n_sums, operations_each=10)
