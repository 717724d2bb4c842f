"""Frequency distributions: how random frequencies are drawn, their kernels, and what drawing costs.

An isotropic distribution draws lengths, and uniform directions for them. Parameters and fields call it `law`.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from scipy.special import hyp0f1, hyp1f1

from sketchlearn.core.limits import MOST_NESTED, Cost
from sketchlearn.core.messages import in_digits
from sketchlearn.core.randomness import (
    Floats,
    Stream,
    chi_cost,
    exponential,
    lengths,
    logarithm,
    normal_cost,
    uniform_cost,
)
from sketchlearn.core.values import Value, choice, floats, listed, number, positive, shortened, whole

MOST_LAWS = 1000
NORMAL_MEDIAN = 0.6744897501960817  # The median of |N(0, 1)|.
# The mean squares of R in AdaptedRadius; test_frequencies.py integrates them.
MEAN_SQUARES = {"mixture": 2.3039157775834984, "kmeans": 2.0}
LARGEST_QUADRATURE_DISTANCE = 200.0  # Beyond this distance, for lengths of about 1, the kernel is extrapolated.
NODES_PER_PANEL = 16  # These suffice, as the fastest wave turns by at most 8 radians in a panel.


class Law(Value, ABC):
    """A frequency distribution, in radians per unit of the data."""

    #: whether all directions are equally likely
    isotropic: ClassVar[bool] = True
    #: whether features have factors that depend on their frequency
    weighted: ClassVar[bool] = False
    #: p, where the kernel is one of |x - y|_p
    kernel_norm: ClassVar[int] = 2
    #: how deep mixtures are nested in it: 1 if it is none
    depth: int = 1

    @abstractmethod
    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        """Random lengths of frequencies."""

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        """Random frequencies, one per column: shape (n_features, n_frequencies)."""
        vectors = stream.normal(n_features * n_frequencies).reshape(n_features, n_frequencies)
        vectors *= self.radii(n_features, n_frequencies, stream) / lengths(vectors)
        return vectors

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:  # noqa: ARG002
        """What `radii` takes; by default a microsecond for each length."""
        return Cost.of_numbers(n_frequencies, bytes_each=200, operations_each=1000)

    def cost(self, n_features: int, n_frequencies: int) -> Cost:
        """What `draw` takes: known before anything is drawn."""
        n = n_features * n_frequencies
        each_row = Cost(48 * n_frequencies, 3000 * n_features + 4 * n)
        return normal_cost(n) + each_row + self.radii_cost(n_features, n_frequencies)

    @property
    def in_words(self) -> str:
        """The distribution in plain words: its name, and its scale if it has one."""
        name = "".join(f" {c.lower()}" if c.isupper() else c for c in type(self).__name__).strip()
        return f"{name} distribution"

    def kernel(self, distances: Floats, n_features: int) -> Floats:  # noqa: ARG002
        """E cos(omega . x) for rows x of these lengths (in `kernel_norm`): the kernel of its features."""
        raise ValueError(f"the kernel of {type(self).__name__} frequencies is not known in closed form: use features")

    def widths(self, n_features: int) -> Floats | None:  # noqa: ARG002
        """The scale in each column, or None where there is no single scale."""
        return None

    def spreads(self, n_features: int) -> Floats:
        """About the least standard deviation of each column, as declared; zero where nothing is declared."""
        return np.zeros(n_features)

    def covariances(self, n_features: int) -> Floats:
        """Covariances of the clusters that it was designed for, if any are declared: (clusters, columns, columns)."""
        return np.zeros((0, n_features, n_features))

    def weights(self, n_features: int, radii: Floats) -> Floats:
        """The factor of each feature, given the lengths of the frequencies, for distributions that are `weighted`."""
        raise NotImplementedError


@dataclass(frozen=True)
class ScaledLaw(Law):
    """A distribution with one scale."""

    scale: float

    def __post_init__(self) -> None:
        self._set(scale=positive("scale", self.scale))

    @property
    def in_words(self) -> str:
        return f"{super().in_words} of scale {in_digits(self.scale)}"

    def widths(self, n_features: int) -> Floats | None:
        return np.full(n_features, self.scale)


@dataclass(frozen=True)
class Gaussian(ScaledLaw):
    """omega ~ N(0, I / scale^2): the kernel exp(-|x - y|^2 / (2 scale^2)).

    >>> Gaussian(scale=2.0).draw(3, 5, Stream(0, "example")).shape
    (3, 5)
    """

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        return stream.chi(n_features, n_frequencies) / self.scale

    def kernel(self, distances: Floats, n_features: int) -> Floats:  # noqa: ARG002
        return np.asarray(np.exp(-((distances / self.scale) ** 2) / 2))

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        vectors = stream.normal(n_features * n_frequencies).reshape(n_features, n_frequencies)
        vectors /= self.scale
        return vectors

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:
        return chi_cost(n_features, n_frequencies)


@dataclass(frozen=True)
class Cauchy(ScaledLaw):
    """omega ~ multivariate Cauchy: the kernel exp(-0.6745 |x - y| / scale).

    It has no mean square; the factor 0.6745 makes a typical frequency as long as in the other distributions.

    >>> Cauchy(scale=2.0).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        divisor = np.abs(stream.normal(n_frequencies))
        return stream.chi(n_features, n_frequencies) / divisor * (NORMAL_MEDIAN / self.scale)

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:
        return normal_cost(n_frequencies) + chi_cost(n_features, n_frequencies)

    def kernel(self, distances: Floats, n_features: int) -> Floats:  # noqa: ARG002
        return np.asarray(np.exp(-NORMAL_MEDIAN * distances / self.scale))


@dataclass(frozen=True)
class FoldedGaussian(ScaledLaw):
    """|omega| is half-normal, so that many frequencies are short in any dimension (Keriven et al. 2018).

    >>> FoldedGaussian(scale=2.0).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        return np.abs(stream.normal(n_frequencies)) * (math.sqrt(n_features) / self.scale)

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:  # noqa: ARG002
        return normal_cost(n_frequencies) + Cost.of_numbers(n_frequencies)

    def kernel(self, distances: Floats, n_features: int) -> Floats:
        # the mean over the radius of 0F1(d/2; -(radius distance)^2 / 4), term by term
        return np.asarray(hyp1f1(0.5, n_features / 2, -n_features / 2 * (distances / self.scale) ** 2))


@dataclass(frozen=True)
class AdaptedRadius(ScaledLaw):
    """|omega| proportional to R, p(R) ~ sqrt(R^2 + R^4 / 4) exp(-R^2 / 2) for mixtures, R exp(-R^2 / 2) for k-means.

    Where a Gaussian's characteristic function changes most with its mean and width (Keriven et al. 2018).

    >>> AdaptedRadius(scale=2.0, variant="kmeans").radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    variant: str = "mixture"

    def __post_init__(self) -> None:
        super().__post_init__()
        choice("variant", self.variant, *MEAN_SQUARES)

    def _unit(self, n_features: int) -> float:
        return math.sqrt(n_features / MEAN_SQUARES[self.variant]) / self.scale

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        r = stream.chi(2, n_frequencies) if self.variant == "kmeans" else _mixture_radii(n_frequencies, stream)
        return r * self._unit(n_features)

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:  # noqa: ARG002
        if self.variant == "kmeans":
            return chi_cost(2, n_frequencies)
        # three normal and two uniform numbers, drawn twice, as some are rejected
        return Cost.of_numbers(n_frequencies, bytes_each=160, operations_each=700) + Cost(0, 600_000)

    def kernel(self, distances: Floats, n_features: int) -> Floats:
        scaled = np.asarray(distances) * self._unit(n_features)
        if self.variant == "kmeans":
            return np.asarray(hyp1f1(1.0, n_features / 2, -(scaled**2) / 2))
        limit = LARGEST_QUADRATURE_DISTANCE
        near = np.minimum(scaled, limit)
        values = radial_kernel(near, n_features, lambda r: r * np.sqrt(1 + r * r / 4) * np.exp(-r * r / 2), 9.0)
        # far out, only the density of the shortest radii counts, which for mixtures begins like that for k-means
        return np.where(scaled > limit, values * (limit / np.maximum(scaled, limit)) ** 2, values)


def _mixture_radii(size: int, stream: Stream) -> Floats:
    """By rejection: sqrt(1 + R^2 / 4) <= 1 + R / 2, so a mixture of chi with 2 and with 3 degrees lies above."""
    kept = np.empty(0)
    short = 1.0 / (1.0 + math.sqrt(math.pi / 8.0))  # the share of chi with 2 degrees
    while len(kept) < size:
        normals = stream.normal(3 * size).reshape(3, size)
        third = np.where(stream.uniform(size) < short, 0.0, normals[2])
        r = np.sqrt(normals[0] * normals[0] + normals[1] * normals[1] + third * third)
        accepted = stream.uniform(size) * (1.0 + 0.5 * r) < np.sqrt(1.0 + 0.25 * (r * r))
        kept = np.concatenate([kept, r[accepted]])
    return kept[:size]


def radial_kernel(distances: Floats, n_features: int, density: Callable[[Floats], Floats], longest: float) -> Floats:
    """The mean of cos(omega . x), |x| = distance, over random directions and lengths of this density, up to a factor.

    In d dimensions, the mean over directions is 0F1(d/2; -(length distance)^2 / 4).

    >>> exact = np.exp(-np.array([0.0, 1.0, 3.0]) ** 2 / 2)
    >>> bool(np.allclose(radial_kernel(np.array([0.0, 1.0, 3.0]), 2, lambda r: r * np.exp(-r * r / 2), 9), exact))
    True
    """
    farthest = float(np.max(distances, initial=0.0))
    nodes, weights = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    edges = np.linspace(0.0, longest, 9 + math.ceil(longest * farthest / 8))
    radii = (edges[:-1, None] + (nodes + 1) / 2 * (edges[1] - edges[0])).ravel()
    weights = np.tile(weights, len(edges) - 1) * density(radii)
    result = np.zeros(np.shape(distances))
    for length, weight in zip(radii, weights / weights.sum(), strict=True):
        result += weight * hyp0f1(n_features / 2, -((length * distances) ** 2) / 4)
    return result


@dataclass(frozen=True)
class Weighted(ScaledLaw):
    """p(omega) ~ (1 + e^2 |omega|^2) exp(-e^2 |omega|^2 / (2 log k)), and features divided by 1 + e |omega|.

    k is `n_components`; e, half the separation of the clusters in the theory, follows from `scale`. The constant factor
    of the theory's weights is left out. (Gribonval, Blanchard, Keriven, Traonmilin, "Compressive statistical learning
    with random feature moments".)

    >>> Weighted(scale=2.0, n_components=10).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    weighted = True
    n_components: int = 2

    def __post_init__(self) -> None:
        super().__post_init__()
        self._set(n_components=whole("n_components", self.n_components, 2))

    def _parameters(self, n_features: int) -> tuple[float, float, float]:
        """Share of the plain Gaussian part, length unit, and e, from the mean square length n_features / scale^2."""
        log_k = float(logarithm(np.array([float(self.n_components)]))[0])
        plain = 1.0 / (1.0 + n_features * log_k)
        mean_square = n_features + 2.0 * (1.0 - plain)
        unit = math.sqrt(n_features / mean_square) / self.scale
        return plain, unit, math.sqrt(log_k) / unit

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        # |omega|^2 times a Gaussian density is the density of two more degrees of freedom.
        plain, unit, _ = self._parameters(n_features)
        short = stream.chi(n_features, n_frequencies)
        longer = np.sqrt(short * short + stream.chi(2, n_frequencies) ** 2)
        return np.where(stream.uniform(n_frequencies) < plain, short, longer) * unit

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:
        chosen = uniform_cost(n_frequencies) + Cost.of_numbers(n_frequencies, bytes_each=32, operations_each=20)
        return chi_cost(n_features, n_frequencies) + chi_cost(2, n_frequencies) + chosen

    def weights(self, n_features: int, radii: Floats) -> Floats:
        return 1.0 / (1.0 + self._parameters(n_features)[2] * radii)


@dataclass(frozen=True)
class LogUniform(Law):
    """|omega| = sqrt(d) / s, log s uniform between the logarithms of two scales, each part of the range equally often.

    >>> LogUniform(1.0, 100.0).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    smallest: float
    largest: float

    def __post_init__(self) -> None:
        smallest, largest = positive("smallest", self.smallest), positive("largest", self.largest)
        if smallest >= largest:
            raise ValueError(f"smallest must be below largest, not {smallest:g} and {largest:g}")
        self._set(smallest=smallest, largest=largest)

    @property
    def in_words(self) -> str:
        return f"{super().in_words} of scales {in_digits(self.smallest)} to {in_digits(self.largest)}"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        place = (np.arange(n_frequencies) + stream.uniform(n_frequencies)) / n_frequencies
        span = float(logarithm(np.array([self.largest / self.smallest]))[0])
        return math.sqrt(n_features) / self.largest * exponential(place * span)

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:  # noqa: ARG002
        return Cost.of_numbers(n_frequencies, bytes_each=96, operations_each=110) + Cost(0, 100_000)


@dataclass(frozen=True)
class Mixture(Law):
    """Each frequency follows one of `laws`, chosen with probabilities proportional to `shares` (default: equal).

    >>> from sketchlearn.features.frequencies import Gaussian
    >>> Mixture((Gaussian(1.0), Gaussian(10.0)), shares=(3, 1)).radii(4, 2, Stream(0, "example")).shape
    (2,)
    """

    laws: tuple[Law, ...]
    shares: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        laws = listed(self.laws)
        if not 1 <= len(laws) <= MOST_LAWS or not all(isinstance(law, Law) for law in laws):
            raise ValueError(f"laws must be a list of 1 to {MOST_LAWS} frequency distributions")
        if directed := [type(law).__name__ for law in laws if not law.isotropic]:
            raise ValueError(
                f"{directed[0]} prefers some directions and cannot be part of a mixture: mix other distributions; "
                "Probed and Shaped take a mixture as their own law"
            )
        if 1 + max(law.depth for law in laws) > MOST_NESTED:
            raise ValueError(f"mixtures are nested at most {MOST_NESTED} deep: mix the distributions themselves")
        if any(law.weighted for law in laws):
            raise ValueError("the weighted distribution cannot be part of a mixture: its features have other weights")
        given = listed(self.shares) if isinstance(self.shares, Iterable) else (self.shares,)
        shares = tuple(positive("each share", share) for share in given) or (1.0,) * len(laws)
        if len(shares) != len(laws):
            raise ValueError(f"there are {len(laws)} distributions but {len(shares)} shares")
        positive("the sum of all shares", sum(shares))
        self._set(laws=laws, shares=shares)

    @property
    def depth(self) -> int:  # type: ignore[override]
        return 1 + max(law.depth for law in self.laws)

    def widths(self, n_features: int) -> Floats | None:
        """The geometric mean of the scales, weighted by shares; distributions without a scale do not count."""
        own = ((share, law.widths(n_features)) for law, share in zip(self.laws, self.shares, strict=True))
        known = [(share, width) for share, width in own if width is not None]
        if not known:
            return None
        logs = sum(share * np.log(width) for share, width in known)
        return np.asarray(np.exp(logs / sum(share for share, _ in known)))

    def kernel(self, distances: Floats, n_features: int) -> Floats:
        parts = (share * law.kernel(distances, n_features) for law, share in zip(self.laws, self.shares, strict=True))
        return np.asarray(sum(parts) / sum(self.shares))

    @property
    def in_words(self) -> str:
        return f"mixture of {len(self.laws)} distributions"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        point = stream.uniform(n_frequencies) * sum(self.shares)
        result, reached = np.zeros(n_frequencies), 0.0
        for law, share in zip(self.laws, self.shares, strict=True):
            result = np.where(point >= reached, law.radii(n_features, n_frequencies, stream), result)
            reached += share
        return result

    def radii_cost(self, n_features: int, n_frequencies: int) -> Cost:
        each = Cost.of_numbers(n_frequencies, bytes_each=40, operations_each=5)
        total = uniform_cost(n_frequencies)
        for law in self.laws:
            total = total.then(law.radii_cost(n_features, n_frequencies) + each)
        return total


MOST_SHAPES = 1000


class DirectedLaw(Law):
    """A distribution that prefers some directions."""

    isotropic = False

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:  # noqa: ARG002
        raise ValueError(f"{type(self).__name__} prefers some directions: it cannot be part of another distribution")


@dataclass(frozen=True)
class ProductCauchy(DirectedLaw, ScaledLaw):
    """The coordinates of omega are independent Cauchy numbers: the Laplace kernel exp(-0.6745 |x - y|_1 / scale).

    Distances are sums of absolute differences, and frequencies prefer the axes. As in `Cauchy`, the same
    distribution in one column, 0.6745 makes a typical coordinate as large as in `Gaussian`: exp(-|x - y|_1 / tau) is
    the kernel of scale 0.6745 tau. (Schellekens 2021, section 3.6.1.)

    >>> law = ProductCauchy(scale=2.0)
    >>> law.draw(3, 5, Stream(0, "example")).shape
    (3, 5)
    >>> law.kernel(np.array([0.0, 2.0]), 3).round(3)  # at distances of 0 and 2 in all coordinates together
    array([1.   , 0.509])
    """

    kernel_norm = 1

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        n = n_features * n_frequencies
        vectors = stream.normal(n)
        vectors /= stream.normal(n)
        vectors *= NORMAL_MEDIAN / self.scale
        return vectors.reshape(n_features, n_frequencies)

    def cost(self, n_features: int, n_frequencies: int) -> Cost:
        n = n_features * n_frequencies
        return normal_cost(n) + normal_cost(n) + Cost.of_numbers(n)

    def kernel(self, distances: Floats, n_features: int) -> Floats:  # noqa: ARG002
        return np.asarray(np.exp(-NORMAL_MEDIAN * distances / self.scale))


@dataclass(frozen=True)
class Shaped(DirectedLaw):
    """A `share` of the frequencies follows `local` in the coordinates of one of the `shapes`, the others follow `law`.

    A cluster of covariance L L' is round, of deviation one, in the coordinates y = L^-1 x. A frequency v there is the
    frequency omega = L'^-1 v of the data.

    Parameters
    ----------
    law : distribution of the frequencies that are not local.
    local : distribution of the local ones, in units of the clusters' deviations.
    shapes : of each cluster either L, the lower triangle row by row, or, if L is diagonal, its diagonal alone.
    share : of the local frequencies.

    Examples
    --------
    >>> from sketchlearn.features.frequencies import Gaussian
    >>> flat = Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((1.0, 100.0),), share=0.999)
    >>> np.abs(flat.draw(2, 1000, Stream(0, "example"))).mean(axis=1).round(2)
    array([0.82, 0.01])
    """

    law: Law
    local: Law
    shapes: tuple[tuple[float, ...], ...]
    share: float = 0.5

    def __post_init__(self) -> None:
        for name, law in (("law", self.law), ("local", self.local)):
            if not isinstance(law, Law) or not law.isotropic or law.weighted:
                raise ValueError(f"{name} must be an isotropic distribution without weights, not {shortened(law)}")
        given = listed(self.shapes)
        if not 1 <= len(given) <= MOST_SHAPES:
            raise ValueError(f"shapes must be a list of at least one shape and at most {MOST_SHAPES}")
        shapes = tuple(tuple(number("each number of a shape", x) for x in listed(shape)) for shape in given)
        if len({len(shape) for shape in shapes}) > 1:
            raise ValueError("all shapes must have equally many numbers")
        share = positive("share", self.share)
        if share >= 1:
            raise ValueError(f"share must be below 1, not {shortened(share)}")
        self._set(shapes=shapes, share=share)

    @property
    def in_words(self) -> str:
        return f"{self.law.in_words} with clusters' shapes"

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        numbers = self._numbers(n_features)
        omega = self.law.draw(n_features, n_frequencies, stream)
        local = self.local.draw(n_features, n_frequencies, stream)
        place = stream.uniform(n_frequencies)
        place = np.divide(place, self.share, out=np.ones_like(place), where=place < self.share)
        which = np.minimum((place * len(numbers)).astype(np.int64), len(numbers) - 1)
        if self._diagonal(n_features):
            for i in range(n_features):
                local[i] /= numbers[which, i]
        else:  # back substitution of L' omega = v, in a fixed order of additions: the same bits on every machine
            factors = self.factors(n_features)
            for i in range(n_features - 1, -1, -1):
                for j in range(i + 1, n_features):
                    local[i] = local[i] - factors[which, j, i] * local[j]
                local[i] = local[i] / factors[which, i, i]
        np.copyto(omega, local, where=place < 1.0)
        return omega

    def cost(self, n_features: int, n_frequencies: int) -> Cost:
        both = self.law.cost(n_features, n_frequencies) + self.local.cost(n_features, n_frequencies)
        steps, factors = n_features, len(self.shapes) * n_features
        if not self._diagonal(n_features):
            steps, factors = n_features * (n_features + 1) // 2, factors * n_features
        solved = Cost(24 * n_frequencies + 16 * factors, 4 * factors + steps * (4000 + 9 * n_frequencies))
        return both + uniform_cost(n_frequencies) + solved

    def _diagonal(self, n_features: int) -> bool:
        """Whether the shapes are diagonals alone."""
        return len(self.shapes[0]) == n_features

    def _numbers(self, n_features: int) -> Floats:
        """The numbers of each shape: (shapes, numbers)."""
        numbers, corners = np.array(self.shapes), np.arange(n_features)
        if not self._diagonal(n_features):
            if numbers.shape[1] != n_features * (n_features + 1) // 2:
                raise ValueError(f"shapes of {numbers.shape[1]} numbers are not for {n_features} columns")
            corners = corners * (corners + 3) // 2
        if np.any(numbers[:, corners] <= 0):
            raise ValueError("the diagonals of all shapes must be positive")
        return numbers

    def factors(self, n_features: int) -> Floats:
        """The factor L of each shape: (shapes, n_features, n_features)."""
        numbers, diagonal = self._numbers(n_features), np.arange(n_features)
        factors = np.zeros((len(numbers), n_features, n_features))
        where = (diagonal, diagonal) if self._diagonal(n_features) else np.tril_indices(n_features)
        factors[:, *where] = numbers
        return factors

    def widths(self, n_features: int) -> Floats | None:
        return self.law.widths(n_features)

    def covariances(self, n_features: int) -> Floats:
        factors = self.factors(n_features)
        return np.asarray(factors @ factors.transpose(0, 2, 1))


@dataclass(frozen=True)
class Probed(DirectedLaw):
    """Frequencies of `law` for columns divided by `units`; the first ones lie along the axes, at `probes` / `spread`.

    The probes show each column by itself: its mean and spread can be read off them, which is where a decoder begins.

    Parameters
    ----------
    law : distribution of all but the probes, in the units.
    units : a length per column: frequencies are divided by it.
    spread : about the standard deviation of each column.
    probes : lengths of the probes of each column, in radians per spread; none, if there should be no probes.

    Examples
    --------
    >>> from sketchlearn.features.frequencies import Gaussian
    >>> law = Probed(Gaussian(1.0), units=(1.0, 1000.0), spread=(3.0, 2000.0), probes=(1.0,))
    >>> law.draw(2, 4, Stream(0, "example"))[:, :2].round(4)
    array([[0.3333, 0.    ],
           [0.    , 0.0005]])
    """

    law: Law
    units: tuple[float, ...]
    spread: tuple[float, ...]
    probes: tuple[float, ...] = (0.3, 0.6, 1.2)

    def __post_init__(self) -> None:
        known = isinstance(self.law, Law) and (self.law.isotropic or isinstance(self.law, Shaped))
        if not known or self.law.weighted:
            kinds = "an isotropic distribution or Shaped, without weights"
            raise ValueError(f"law must be {kinds}, not {shortened(self.law)}")
        units, spread = floats("units", self.units, check=positive), floats("spread", self.spread, check=positive)
        if len(units) != len(spread):
            raise ValueError(f"there are {len(units)} units but {len(spread)} spreads: one of each per column")
        none = isinstance(self.probes, tuple | list) and not self.probes
        self._set(units=units, spread=spread, probes=() if none else floats("probes", self.probes, check=positive))

    @property
    def in_words(self) -> str:
        return f"{self.law.in_words}{', and probes of each column' if self.probes else ''}"

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        if n_features != len(self.units):
            raise ValueError(f"the distribution is for {len(self.units)} columns, not {n_features}")
        omega = self.law.draw(n_features, n_frequencies, stream)
        omega /= np.array(self.units)[:, None]
        n = min(len(self.probes) * n_features, n_frequencies)
        omega[:, :n] = 0.0
        which, column = np.divmod(np.arange(n), n_features)
        omega[column, np.arange(n)] = np.array(self.probes)[which] / np.array(self.spread)[column]
        return omega

    def cost(self, n_features: int, n_frequencies: int) -> Cost:
        placed = Cost(48 * n_frequencies, 3 * n_features * n_frequencies + 100 * n_frequencies)
        return self.law.cost(n_features, n_frequencies) + placed

    def widths(self, n_features: int) -> Floats | None:
        inner = self.law.widths(n_features)
        return None if inner is None else inner * np.array(self.units)

    def covariances(self, n_features: int) -> Floats:
        return self.law.covariances(n_features) * np.outer(self.units, self.units)

    def spreads(self, n_features: int) -> Floats:  # noqa: ARG002
        return np.array(self.spread)
