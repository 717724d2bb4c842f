"""Laws that prefer some directions: the axes of the columns, or those of clusters of known shapes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.cost import Cost
from sketchlearn.frequencies.isotropic_laws import NORMAL_MEDIAN, Law, ScaledLaw
from sketchlearn.randomness import Floats, Stream, normal_cost, uniform_cost
from sketchlearn.values import listed, number, positive, shortened

MOST_SHAPES = 1000


@dataclass(frozen=True)
class ProductCauchy(ScaledLaw):
    """The coordinates of omega are independent Cauchy numbers: the Laplace kernel exp(-0.6745 |x - y|_1 / scale).

    Distances are sums of absolute differences, and frequencies prefer the axes. As in `Cauchy`, which is the same law
    in one column, 0.6745 makes a typical coordinate as large as in `Gaussian`: exp(-|x - y|_1 / tau) is the kernel of
    scale 0.6745 tau. (Schellekens 2021, section 3.6.1.)

    >>> law = ProductCauchy(scale=2.0)
    >>> law.draw(3, 5, Stream(0, "example")).shape
    (3, 5)
    >>> law.kernel(np.array([0.0, 2.0]), 3).round(3)  # at distances of 0 and 2 in all coordinates together
    array([1.   , 0.509])
    """

    isotropic = False
    kernel_norm = 1

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:  # noqa: ARG002
        raise ValueError("a product of Cauchy laws prefers the axes: it cannot be part of another law")

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
class Shaped(Law):
    """A `share` of the frequencies follows `local` in the coordinates of one of the `shapes`, the others follow `law`.

    A cluster of covariance L L' is round, of deviation one, in the coordinates y = L^-1 x. A frequency v there is the
    frequency omega = L'^-1 v of the data.

    Parameters
    ----------
    law : law of the frequencies that are not local.
    local : law of the local ones, in units of the clusters' deviations.
    shapes : of each cluster either L, the lower triangle row by row, or, if L is diagonal, its diagonal alone.
    share : of the local frequencies.

    Examples
    --------
    >>> from sketchlearn.frequencies import Gaussian
    >>> flat = Shaped(Gaussian(1.0), Gaussian(1.0), shapes=((1.0, 100.0),), share=0.999)
    >>> np.abs(flat.draw(2, 1000, Stream(0, "example"))).mean(axis=1).round(2)
    array([0.82, 0.01])
    """

    isotropic = False
    law: Law
    local: Law
    shapes: tuple[tuple[float, ...], ...]
    share: float = 0.5

    def __post_init__(self) -> None:
        for name, law in (("law", self.law), ("local", self.local)):
            if not isinstance(law, Law) or not law.isotropic or law.weighted:
                raise ValueError(f"{name} must be an isotropic law without weights, not {shortened(law)}")
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

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:  # noqa: ARG002
        raise ValueError("a law with shapes prefers some directions: it cannot be part of another law")

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
        else:
            self._substitute(self.factors(n_features), which, local)
        np.copyto(omega, local, where=place < 1.0)
        return omega

    def cost(self, n_features: int, n_frequencies: int) -> Cost:
        both = self.law.cost(n_features, n_frequencies) + self.local.cost(n_features, n_frequencies)
        steps, factors = n_features, len(self.shapes) * n_features
        if not self._diagonal(n_features):
            steps, factors = n_features * (n_features + 1) // 2, factors * n_features
        solved = Cost(24 * n_frequencies + 16 * factors, 4 * factors + steps * (4000 + 9 * n_frequencies))
        return both + uniform_cost(n_frequencies) + solved

    @staticmethod
    def _substitute(factors: Floats, which: NDArray[np.int64], local: Floats) -> None:
        """Back substitution of L' omega = v, in a fixed order of additions: the same bits on every machine."""
        for i in range(len(local) - 1, -1, -1):
            for j in range(i + 1, len(local)):
                local[i] = local[i] - factors[which, j, i] * local[j]
            local[i] = local[i] / factors[which, i, i]

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
class Probed(Law):
    """Frequencies of `law` for columns divided by `units`; the first ones lie along the axes, at `probes` / `spread`.

    The probes show each column by itself: its mean and spread can be read off them, which is where a decoder begins.

    Parameters
    ----------
    law : law of all but the probes, in the units.
    units : a length per column: frequencies are divided by it.
    spread : about the standard deviation of each column.
    probes : lengths of the probes of each column, in radians per spread; none, if there should be no probes.

    Examples
    --------
    >>> from sketchlearn.frequencies import Gaussian
    >>> law = Probed(Gaussian(1.0), units=(1.0, 1000.0), spread=(3.0, 2000.0), probes=(1.0,))
    >>> law.draw(2, 4, Stream(0, "example"))[:, :2].round(4)
    array([[0.3333, 0.    ],
           [0.    , 0.0005]])
    """

    isotropic = False
    law: Law
    units: tuple[float, ...]
    spread: tuple[float, ...]
    probes: tuple[float, ...] = (0.3, 0.6, 1.2)

    def __post_init__(self) -> None:
        known = isinstance(self.law, Law) and (self.law.isotropic or isinstance(self.law, Shaped))
        if not known or self.law.weighted:
            raise ValueError(f"law must be an isotropic law or Shaped, without weights, not {shortened(self.law)}")
        units, spread = _lengths("units", self.units), _lengths("spread", self.spread)
        if len(units) != len(spread):
            raise ValueError(f"there are {len(units)} units but {len(spread)} spreads: one of each per column")
        none = isinstance(self.probes, tuple | list) and not self.probes
        self._set(units=units, spread=spread, probes=() if none else _lengths("probes", self.probes))

    @property
    def in_words(self) -> str:
        return f"{self.law.in_words}{', and probes of each column' if self.probes else ''}"

    def radii(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:  # noqa: ARG002
        raise ValueError("a probed law has frequencies along axes: it cannot be part of another law")

    def draw(self, n_features: int, n_frequencies: int, stream: Stream) -> Floats:
        if n_features != len(self.units):
            raise ValueError(f"the law is for {len(self.units)} columns, not {n_features}")
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


def _lengths(name: str, given: Any) -> tuple[float, ...]:
    values = listed(given)
    if not values:
        raise ValueError(f"{name} must be a list of positive numbers")
    return tuple(positive(f"each of the {name}", value) for value in values)
