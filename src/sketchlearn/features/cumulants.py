"""Generalised cumulants, which separate independent components: bounded waves in place of fourth powers."""

from __future__ import annotations

import math
from dataclasses import KW_ONLY, dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from sketchlearn.core.arrays import Double
from sketchlearn.core.values import floats, listed, positive
from sketchlearn.features.abilities import Ability
from sketchlearn.features.bounded import FIXED_POINT, Blockwise
from sketchlearn.features.sensitivity import Sensitivity

SMALLEST_COMPONENT, LARGEST_COMPONENT = 1e-150, 1e150  # Products with features must stay within float64.
MOST_TURNS = 2.0**40  # A phase of more turns has no digits left for its fraction of a turn.
SERIES_TERMS = 9  # What the series of sine and cosine leave out is then below 2^-39, up to half a turn.


@dataclass(frozen=True)
class CumulantFeatures(Blockwise):
    """Phi(x) = (g_j, g'_j / t_j, and u_i g_j for all i, j), u = B (x - center), g_j = sin(t_j u_j + a_j).

    The derivatives of the logarithm of the characteristic function at t_j e_j follow from the means of these k^2 + 2 k
    features beside second moments: cumulants of u, if t_j is small.

    Parameters
    ----------
    n_features : number d of columns of the data.
    unmixing : the matrix B, k rows of d numbers, which roughly makes components independent and of variance 1.
    frequencies : t_j of each component.
    phases : a_j of each component; 0 looks at fourth cumulants and others of even order, pi / 2 at those of odd order.
    noise : of each component, the variance of what regression on u_j leaves of g_j, about; decoders weigh by it.
    bound, center, outside, columns : as those of `SecondMoments`.

    References
    ----------
    [1] Sheehan, Kotzagiannidis, Davies, Compressive independent component analysis, 2019.
    [2] Yeredor, Blind source separation via the second characteristic function, Signal Processing 80, 2000.

    Examples
    --------
    >>> import numpy as np, sketchlearn as skl
    >>> operator = skl.features.CumulantFeatures(2, unmixing=np.eye(2), frequencies=[0.5, 1.0], bound=9.0)
    >>> operator.sketch([[1.0, 2.0], [3.0, 4.0]]).mean.shape
    (8,)
    """

    abilities = frozenset({Ability.INDEPENDENT_COMPONENTS})
    _: KW_ONLY
    unmixing: tuple[tuple[float, ...], ...]
    frequencies: tuple[float, ...]
    phases: tuple[float, ...] = ()
    noise: tuple[float, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        rows = tuple(floats("each row of unmixing", row, self.n_features) for row in listed(self.unmixing))
        if not rows or not all(any(row) for row in rows):
            raise ValueError("unmixing must have at least one row, and none of zeros")
        k = len(rows)
        self._set(
            unmixing=rows,
            frequencies=floats("frequencies", self.frequencies, k, positive),
            phases=floats("phases", listed(self.phases) or (0.0,) * k, k),
            noise=floats("noise", listed(self.noise) or (1.0,) * k, k, positive),
        )
        with np.errstate(all="ignore"):
            turns = np.array(self.frequencies) * self.reach / (2 * math.pi)
        sizes = (self.reach > SMALLEST_COMPONENT) & (self.reach < LARGEST_COMPONENT)
        if not np.all(sizes & (turns < MOST_TURNS)):
            raise ValueError("unmixing, bound and frequencies make components beyond what float64 holds: rescale them")

    @property
    def n_components(self) -> int:
        """Number k of components."""
        return len(self.unmixing)

    @property
    def in_words(self) -> str:
        return f"generalised cumulants of {self.n_components:,} components of {self.n_features:,} columns"

    def add_remove_sensitivity(self) -> Sensitivity:
        k, n = self.n_components, self.n_sums
        l1 = FIXED_POINT * k * math.hypot(k + 1, 1) + n  # of each component |sin| (1 + k) + |cos|; n for rounding
        l2 = FIXED_POINT * math.sqrt(k * (k + 1)) + math.sqrt(n)
        return Sensitivity.of_norms(l1, l2, n=n, largest=self.largest_contribution)

    @property
    def n_sums(self) -> int:
        return self.n_components * (self.n_components + 2)

    @cached_property
    def reach(self) -> Double:
        """The largest size of each component within the bound."""
        terms = np.abs(np.array(self.unmixing)) * np.array(self.bound)
        return np.asarray(np.add.accumulate(terms, axis=1)[:, -1] * (1 + 1e-9))  # one after the other, as for rows

    def _write_features(self, away: Double, features: Double) -> None:
        k = self.n_components
        u = np.zeros((k, away.shape[1]))
        for weights, column in zip(np.array(self.unmixing).T, away, strict=True):  # in order: the same bits everywhere
            u += weights[:, None] * column
        scaled = u * (FIXED_POINT / self.reach)[:, None]
        for j, (t, phase) in enumerate(zip(self.frequencies, self.phases, strict=True)):
            sine, cosine = waves(u[j] * (t / (2 * math.pi)) + phase / (2 * math.pi))
            np.multiply(FIXED_POINT, sine, out=features[j])
            np.multiply(FIXED_POINT, cosine, out=features[k + j])
            np.multiply(scaled, sine, out=features[(2 + j) * k : (3 + j) * k])

    def mean_of(self, sums: Double) -> NDArray[Any]:
        k = self.n_components
        return sums * (np.concatenate([np.ones(2 * k), np.tile(self.reach, k)]) / FIXED_POINT)

    def split(self, values: Double) -> tuple[Double, Double, Double]:
        """The means of g_j, of g'_j / t_j, and the matrix of those of u_i g_j (row i, column j)."""
        k = self.n_components
        return values[:k], values[k : 2 * k], values[2 * k :].reshape(k, k).T


def waves(turns: Double) -> tuple[Double, Double]:
    """Sine and cosine of an angle in turns, by multiplications and additions alone: the same bits everywhere.

    >>> [part.round(12).tolist() for part in waves(np.array([0.0, 0.25, -1.125]))]
    [[0.0, 1.0, -0.707106781187], [1.0, 0.0, 0.707106781187]]
    """
    half = math.pi * (turns - np.rint(turns))
    square = half * half
    sine, cosine = np.ones_like(half), np.ones_like(half)
    for n in range(SERIES_TERMS - 1, 0, -1):
        for series, step in ((sine, 2 * n * (2 * n + 1)), (cosine, 2 * n * (2 * n - 1))):
            series *= square
            series *= -1.0 / step
            series += 1.0
    sine *= half
    return 2.0 * sine * cosine, 1.0 - 2.0 * (sine * sine)
