"""Tails of weighted sums of chi-squares, the law of a quadratic form of Gaussian noise."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from scipy.optimize import brentq
from scipy.stats import norm

Double = NDArray[np.float64]

NEAR = 1e-3  # of the mean, in deviations: the formula is 0 / 0 there, and is interpolated
NEGLIGIBLE = 1e-12  # weight, of the largest


def exceedance(weights: Double, value: float) -> float:
    """P(sum of weights_l g_l^2 > value), g_l standard normal: Lugannani and Rice's saddlepoint formula.

    Its relative error stays at a few per cent however small the probability is (Kuonen 1999, 10.1093/biomet/86.4.929).

    >>> round(exceedance(np.ones(10), 18.307), 3)  # the 95 % quantile of chi-square with 10 degrees of freedom
    0.05
    """
    largest = float(np.max(weights, initial=0.0))
    if largest <= 0 or value <= 0:
        return float(value <= 0)
    weights = weights[weights > NEGLIGIBLE * largest] / largest
    value /= largest
    mean, deviation = float(np.sum(weights)), float(np.sqrt(2 * np.sum(weights**2)))
    away = (value - mean) / deviation
    if abs(away) >= NEAR:
        return _saddlepoint(weights, value)
    sides = [_saddlepoint(weights, mean + sign * NEAR * deviation) for sign in (-1, 1)]
    return float(np.interp(away, [-NEAR, NEAR], sides))


def _saddlepoint(weights: Double, value: float) -> float:
    """For weights of at most 1, of which one is 1, and a value that is not their sum."""

    def slope(t: float) -> float:
        return float(np.sum(weights / (1 - 2 * t * weights))) - value

    # the slope of the cumulant generating function rises from 0 at minus infinity to infinity at t = 1/2
    high = 0.5 - 0.25 / (value + len(weights) + 1)
    while slope(high) < 0:
        high = 0.25 + 0.5 * high
    low = min(-1.0, -float(len(weights)) / value)
    t = float(brentq(slope, low, high, xtol=1e-15, rtol=1e-14))
    cumulant = -0.5 * float(np.sum(np.log1p(-2 * t * weights)))
    curvature = 2 * float(np.sum((weights / (1 - 2 * t * weights)) ** 2))
    root = np.sign(t) * np.sqrt(max(2 * (t * value - cumulant), 0.0))
    ratio = t * np.sqrt(curvature)
    # as r* = r + log(u / r) / r, which keeps its relative precision in the far tail
    return float(norm.sf(root + np.log(ratio / root) / root))
